//! The network of the event substrate: connections, listeners, attempts to connect, timers.
//!
//! Knows the time only from its driver, and wakes nobody itself: wakers that are to be called are
//! collected, since whoever is woken may come back with a call. Leans on `agenda`, `connection` and
//! `pipe`; `dial` and `faults` hold the rest of its methods.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind, IoSlice};
use std::net::IpAddr;
use std::task::{Poll, Waker};

use rand::RngExt;
use tokio::io::ReadBuf;

use super::super::Links;
use super::agenda::Agenda;
use super::connection::Connection;
use super::dial::{Attempt, Listening};
use super::pipe::Mark;
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::seed::{Generator, Seed};

/// What stands in the agenda.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// An attempt is sent to the far host.
    Dial(u64),
    /// It arrives there.
    Called(u64),
    /// The answer arrives: whether somebody listens.
    Answered(u64, bool),
    /// A listener learns that the connection is made.
    Open(usize),
    /// Something to read, or room to write, at an end of a connection.
    Read(usize, usize),
    Write(usize, usize),
    /// A reset arrives at an end.
    Reset(usize, usize),
    /// An end gives up sending again.
    GiveUp(usize, usize),
    /// A timer fires.
    Timer(u64),
}

/// Everything in the network.
#[derive(Debug)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) seed: Seed,
    pub(super) links: Links,
    pub(super) names: BTreeMap<String, IpAddr>,
    pub(super) agenda: Agenda<Event>,
    pub(super) connections: Vec<Option<Box<Connection>>>,
    pub(super) listeners: BTreeMap<u64, Listening>,
    pub(super) attempts: BTreeMap<u64, Attempt>,
    timers: BTreeMap<u64, Option<Waker>>,
    pub(super) last_port: BTreeMap<IpAddr, u16>,
    pub(super) cuts: BTreeSet<(IpAddr, IpAddr)>,
    pub(super) holds: BTreeSet<(IpAddr, IpAddr)>,
    pub(super) limits: BTreeMap<(IpAddr, IpAddr), Vec<Limit>>,
    choices: Generator,
    /// Counts listeners, attempts and timers.
    last_number: u64,
    pub(super) woken: Vec<Waker>,
}

impl State {
    pub(super) fn new(links: Links, seed: Seed) -> Self {
        Self {
            now: Time::ZERO,
            seed,
            links,
            names: BTreeMap::new(),
            agenda: Agenda::new(),
            connections: Vec::new(),
            listeners: BTreeMap::new(),
            attempts: BTreeMap::new(),
            timers: BTreeMap::new(),
            last_port: BTreeMap::new(),
            cuts: BTreeSet::new(),
            holds: BTreeSet::new(),
            limits: BTreeMap::new(),
            choices: seed.generator("choices", 0),
            last_number: 0,
            woken: Vec::new(),
        }
    }

    /// A draw from `0..options`.
    pub(super) fn choose(&mut self, options: u32) -> u32 {
        self.choices.random_range(0..options.max(1))
    }

    /// Does the next event that is due; `false` if none is.
    pub(super) fn do_next(&mut self) -> bool {
        let Some(event) = self.agenda.pop_by(self.now) else {
            return false;
        };
        match event {
            Event::Dial(attempt) => self.dial_again(attempt),
            Event::Called(attempt) => self.called(attempt),
            Event::Answered(attempt, accepted) => self.answered(attempt, accepted),
            Event::Open(connection) => self.opened(connection),
            Event::Read(connection, end) => self.read_due(connection, end),
            Event::Write(connection, end) => self.write_due(connection, end),
            Event::Reset(connection, end) => self.reset_arrived(connection, end),
            Event::GiveUp(connection, end) => self.give_up_due(connection, end),
            Event::Timer(timer) => self.timer_due(timer),
        }
        true
    }

    pub(super) fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        living(&mut self.connections, index)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn rank(&self, label: &str, index: u64) -> u64 {
        self.seed.child(label, index).0
    }

    // -- timers --

    /// A timer for `at`.
    pub(super) fn add_timer(&mut self, at: Time, waker: &Waker) -> u64 {
        let timer = self.number();
        self.timers.insert(timer, Some(waker.clone()));
        self.agenda
            .add(at, self.rank("timer", timer), Event::Timer(timer));
        timer
    }

    /// Whether it has fired; else the waker is kept.
    pub(super) fn poll_timer(&mut self, timer: u64, waker: &Waker) -> Poll<()> {
        match self.timers.get_mut(&timer) {
            Some(kept) => {
                keep(kept, waker);
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }

    pub(super) fn remove_timer(&mut self, timer: u64) {
        self.timers.remove(&timer);
    }

    fn timer_due(&mut self, timer: u64) {
        if let Some(waker) = self.timers.remove(&timer).flatten() {
            self.woken.push(waker);
        }
    }

    // -- reading and writing --

    pub(super) fn poll_read(
        &mut self,
        index: usize,
        end: usize,
        waker: &Waker,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        if !connection.is_readable(end, now) {
            return self.wait_to_read(index, end, waker);
        }
        let pipe = &mut connection.pipes[1 - end];
        if pipe.arrived_bytes() > 0 {
            let heard = now + connection.latency[end];
            pipe.read(buffer, heard);
            self.follow_write(index, 1 - end);
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(connection.ends[end].error().map_or(Ok(()), Err))
    }

    pub(super) fn poll_peek(
        &mut self,
        index: usize,
        end: usize,
        waker: &Waker,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        if !connection.is_readable(end, now) {
            return self.wait_to_read(index, end, waker).map_ok(|()| 0);
        }
        let count = connection.pipes[1 - end].copy(buffer);
        let error = connection.ends[end].error().filter(|_| count == 0);
        Poll::Ready(error.map_or(Ok(count), Err))
    }

    pub(super) fn poll_read_ready(
        &mut self,
        index: usize,
        end: usize,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let now = self.now;
        let connection = self.connection(index);
        match connection.is_none_or(|connection| connection.is_readable(end, now)) {
            true => Poll::Ready(Ok(())),
            false => self.wait_to_read(index, end, waker),
        }
    }

    fn wait_to_read(&mut self, index: usize, end: usize, waker: &Waker) -> Poll<io::Result<()>> {
        if let Some(connection) = self.connection(index) {
            keep(&mut connection.ends[end].reader, waker);
            self.follow_read(index, end);
        }
        Poll::Pending
    }

    pub(super) fn poll_write(
        &mut self,
        index: usize,
        end: usize,
        waker: &Waker,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let at = &connection.ends[end];
        if let Some(error) = at.error() {
            return Poll::Ready(Err(error));
        }
        if at.shut {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if buffers.iter().all(|buffer| buffer.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let room = connection.pipes[end].room_bytes(now);
        if room == 0 {
            return self.wait_to_write(index, end, waker).map_ok(|()| 0);
        }
        let written = connection.pipes[end].write(now, buffers, room);
        self.sent(index, end);
        Poll::Ready(Ok(written))
    }

    pub(super) fn poll_write_ready(
        &mut self,
        index: usize,
        end: usize,
        waker: &Waker,
    ) -> Poll<io::Result<()>> {
        let now = self.now;
        let connection = self.connection(index);
        match connection.is_none_or(|connection| connection.is_writable(end, now)) {
            true => Poll::Ready(Ok(())),
            false => self.wait_to_write(index, end, waker),
        }
    }

    fn wait_to_write(&mut self, index: usize, end: usize, waker: &Waker) -> Poll<io::Result<()>> {
        if let Some(connection) = self.connection(index) {
            keep(&mut connection.ends[end].writer, waker);
            self.follow_write(index, end);
        }
        Poll::Pending
    }

    /// Ends the direction from `end`.
    pub(super) fn shut(&mut self, index: usize, end: usize) -> io::Result<()> {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return Err(ErrorKind::NotConnected.into());
        };
        let at = &mut connection.ends[end];
        if at.failure.is_some() || at.shut {
            return Ok(());
        }
        at.shut = true;
        connection.pipes[end].mark(now, Mark::End);
        self.sent(index, end);
        Ok(())
    }

    /// Something left `end`: who waits for it is told in time, and a far end that is closed answers
    /// with a reset.
    fn sent(&mut self, index: usize, end: usize) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.ends[1 - end].open {
            self.follow_read(index, 1 - end);
        } else {
            self.answer_with_reset(index, end);
        }
        self.follow_give_up(index, end);
    }

    // -- what the agenda holds for an end --

    /// Puts into the agenda when a reader that waits at `end` has something to read.
    pub(super) fn follow_read(&mut self, index: usize, end: usize) {
        let Some(connection) = living(&mut self.connections, index) else {
            return;
        };
        let at = &mut connection.ends[end];
        if at.reader.is_none() {
            return;
        }
        if let Some(arrival) = connection.pipes[1 - end].next_arrival()
            && arrival < at.read_due
        {
            at.read_due = arrival;
            let event = Event::Read(index, end);
            self.agenda.add(arrival, at.rank, event);
        }
    }

    fn read_due(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.ends[end].read_due != now {
            return;
        }
        connection.ends[end].read_due = Time::NEVER;
        if connection.is_readable(end, now) {
            let reader = connection.ends[end].reader.take();
            self.woken.extend(reader);
        } else {
            self.follow_read(index, end);
        }
    }

    /// Puts into the agenda when a writer that waits at `end` has room.
    pub(super) fn follow_write(&mut self, index: usize, end: usize) {
        let Some(connection) = living(&mut self.connections, index) else {
            return;
        };
        let at = &mut connection.ends[end];
        if at.writer.is_none() {
            return;
        }
        if let Some(room) = connection.pipes[end].next_credit()
            && room < at.write_due
        {
            at.write_due = room;
            let event = Event::Write(index, end);
            self.agenda.add(room, at.rank, event);
        }
    }

    fn write_due(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.ends[end].write_due != now {
            return;
        }
        connection.ends[end].write_due = Time::NEVER;
        if connection.is_writable(end, now) {
            let writer = connection.ends[end].writer.take();
            self.woken.extend(writer);
        } else {
            self.follow_write(index, end);
        }
    }
}

/// A connection that is not over, where the agenda is wanted beside it.
pub(super) fn living(
    connections: &mut [Option<Box<Connection>>],
    index: usize,
) -> Option<&mut Connection> {
    connections.get_mut(index)?.as_deref_mut()
}

/// Keeps a waker, but none that does nothing: that is of somebody who does not wait.
pub(super) fn keep(kept: &mut Option<Waker>, waker: &Waker) {
    if waker.will_wake(Waker::noop()) {
        return;
    }
    match kept {
        Some(kept) => kept.clone_from(waker),
        None => *kept = Some(waker.clone()),
    }
}
