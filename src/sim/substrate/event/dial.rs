//! How connections of the event substrate are made: listeners, and attempts that arrive, wait, get
//! lost and are made again.
//!
//! More methods of the network's state. Leans on `network` and `connection`.

use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::task::{Poll, Waker};

use super::connection::{CLIENT, Connection, End, SERVER};
use super::network::{Event, State, keep};
use super::pipe::{Mark, Pipe};
use crate::machine::Time;

/// A connection attempt that is lost is made again after a second, then twice as long, so many
/// times, as Linux does.
const FIRST_REDIAL: Time = Time::from_secs(1);
const REDIALS: u32 = 6;
/// Ports that a host gives to sockets that do not ask for one.
const FREE_PORTS: std::ops::RangeInclusive<u16> = 32_768..=60_999;

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) sent: Time,
    redials: u32,
    /// It waits for the end of a hold.
    pub(super) held: bool,
    waker: Option<Waker>,
    outcome: Option<Result<usize, ErrorKind>>,
}

/// A listener and the connections that it has not accepted.
#[derive(Debug)]
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    backlog: usize,
    /// Attempts that were answered and are not connections yet.
    answered: BTreeSet<u64>,
    /// Made, as far as the client knows.
    pub(super) pending: BTreeSet<usize>,
    pub(super) ready: VecDeque<usize>,
    waker: Option<Waker>,
}

impl State {
    // -- listeners --

    /// A listener on `address`, whose port may be 0.
    pub(super) fn listen(&mut self, address: SocketAddr, backlog: u32) -> io::Result<u64> {
        let mut address = address;
        if address.port() == 0 {
            address.set_port(self.free_port(address.ip())?);
        }
        if self.listener_on(address).is_some() {
            return Err(ErrorKind::AddrInUse.into());
        }
        let number = self.number();
        let listening = Listening {
            address,
            backlog: backlog.max(1) as usize,
            answered: BTreeSet::new(),
            pending: BTreeSet::new(),
            ready: VecDeque::new(),
            waker: None,
        };
        self.listeners.insert(number, listening);
        Ok(number)
    }

    /// The next connection that is made.
    pub(super) fn poll_accept(&mut self, listener: u64, waker: &Waker) -> Poll<io::Result<usize>> {
        let Some(listening) = self.listeners.get_mut(&listener) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        match listening.ready.pop_front() {
            Some(connection) => Poll::Ready(Ok(connection)),
            None => {
                keep(&mut listening.waker, waker);
                Poll::Pending
            }
        }
    }

    /// Closes a listener; connections that nobody accepted are reset.
    pub(super) fn stop_listening(&mut self, listener: u64) {
        let Some(listening) = self.listeners.remove(&listener) else {
            return;
        };
        for connection in listening.pending.into_iter().chain(listening.ready) {
            self.abort(connection, SERVER);
        }
    }

    fn listener_on(&self, address: SocketAddr) -> Option<u64> {
        let mut listeners = self.listeners.iter();
        let found = listeners.find(|(_, listening)| listening.address == address);
        found.map(|(number, _)| *number)
    }

    /// A port of `host` that no listener has, each in turn.
    fn free_port(&mut self, host: IpAddr) -> io::Result<u16> {
        for _ in FREE_PORTS {
            let last = self.last_port.entry(host).or_insert(*FREE_PORTS.end());
            *last = match *last {
                last if last >= *FREE_PORTS.end() => *FREE_PORTS.start(),
                last => last + 1,
            };
            let port = *last;
            if self.listener_on(SocketAddr::new(host, port)).is_none() {
                return Ok(port);
            }
        }
        Err(ErrorKind::AddrInUse.into())
    }

    // -- connecting --

    /// Begins an attempt to connect.
    pub(super) fn dial(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        waker: &Waker,
    ) -> io::Result<u64> {
        let mut from = from;
        if from.port() == 0 {
            from.set_port(self.free_port(from.ip())?);
        }
        let number = self.number();
        let attempt = Attempt {
            from,
            to,
            sent: self.now,
            redials: 0,
            held: false,
            waker: Some(waker.clone()),
            outcome: None,
        };
        self.attempts.insert(number, attempt);
        self.dial_again(number);
        Ok(number)
    }

    /// What has come of an attempt.
    pub(super) fn poll_dial(&mut self, attempt: u64, waker: &Waker) -> Poll<io::Result<usize>> {
        let Some(entry) = self.attempts.get_mut(&attempt) else {
            return Poll::Ready(Err(ErrorKind::ConnectionAborted.into()));
        };
        let Some(outcome) = entry.outcome else {
            keep(&mut entry.waker, waker);
            return Poll::Pending;
        };
        self.attempts.remove(&attempt);
        Poll::Ready(outcome.map_err(io::Error::from))
    }

    /// Ends an attempt of which nobody wants to know any more.
    pub(super) fn hang_up(&mut self, attempt: u64) {
        let entry = self.attempts.remove(&attempt);
        if let Some(Ok(connection)) = entry.and_then(|entry| entry.outcome) {
            self.close(connection, CLIENT);
        }
    }

    /// Sends an attempt, if its path is free.
    pub(super) fn dial_again(&mut self, attempt: u64) {
        let now = self.now;
        let Some(entry) = self.attempts.get_mut(&attempt) else {
            return;
        };
        if entry.redials > REDIALS {
            return self.conclude(attempt, Err(ErrorKind::TimedOut));
        }
        entry.sent = now;
        let (from, to) = (entry.from.ip(), entry.to.ip());
        if self.passes(attempt, from, to) {
            let at = now + self.links.from_to(from, to).latency;
            self.plan_for(attempt, at, Event::Called(attempt));
        }
    }

    /// An attempt arrives: is somebody there, and is there room?
    pub(super) fn called(&mut self, attempt: u64) {
        let Some(entry) = self.attempts.get(&attempt) else {
            return;
        };
        let (from, to, address) = (entry.from.ip(), entry.to.ip(), entry.to);
        if !self.passes(attempt, from, to) {
            return;
        }
        let listener = self.listener_on(address);
        let listening = listener.and_then(|listener| self.listeners.get_mut(&listener));
        let accepted = listening.is_some();
        if let Some(listening) = listening {
            let queue = listening.answered.len() + listening.pending.len() + listening.ready.len();
            if queue >= listening.backlog {
                return self.lost(attempt);
            }
            listening.answered.insert(attempt);
        }
        let at = self.now + self.links.from_to(to, from).latency;
        self.plan_for(attempt, at, Event::Answered(attempt, accepted));
    }

    /// The answer arrives: the connection is made, or refused.
    pub(super) fn answered(&mut self, attempt: u64, accepted: bool) {
        let mut listener = None;
        for (number, listening) in &mut self.listeners {
            if listening.answered.remove(&attempt) {
                listener = Some(*number);
            }
        }
        let Some(entry) = self.attempts.get(&attempt) else {
            return;
        };
        let (from, to) = (entry.from, entry.to);
        if !self.passes(attempt, to.ip(), from.ip()) {
            return;
        }
        // A listener that was closed meanwhile refuses too.
        let outcome = match (accepted, listener) {
            (true, Some(listener)) => Ok(self.connect(listener, from, to)),
            _ => Err(ErrorKind::ConnectionRefused),
        };
        self.conclude(attempt, outcome);
    }

    fn connect(&mut self, listener: u64, from: SocketAddr, to: SocketAddr) -> usize {
        let index = self.connections.len();
        let ends = [(CLIENT, from), (SERVER, to)].map(|(end, address)| {
            let rank = self.rank("connection", (index * 2 + end) as u64);
            End::new(address, address.ip(), rank)
        });
        let there = self.links.from_to(from.ip(), to.ip());
        let back = self.links.from_to(to.ip(), from.ip());
        let generator = |end| self.seed.generator("jitter", (index * 2 + end) as u64);
        let mut connection = Connection {
            ends,
            pipes: [
                Pipe::new(there, back.latency, generator(CLIENT)),
                Pipe::new(back, there.latency, generator(SERVER)),
            ],
            latency: [there.latency, back.latency],
        };
        for (end, path) in [
            (CLIENT, (from.ip(), to.ip())),
            (SERVER, (to.ip(), from.ip())),
        ] {
            if self.cuts.contains(&path) {
                connection.pipes[end].cut(self.now);
            }
            if self.holds.contains(&path) {
                connection.pipes[end].hold(self.now);
            }
            for limit in self.limits.get(&path).into_iter().flatten() {
                connection.pipes[end].limit(self.now, *limit);
            }
            let stopped = self.cuts.contains(&path) || self.holds.contains(&path);
            connection.pipes[1 - end].stop_credits(self.now, stopped, Time::ZERO);
        }
        connection.pipes[CLIENT].mark(self.now, Mark::Open);
        self.connections.push(Some(Box::new(connection)));
        if let Some(listening) = self.listeners.get_mut(&listener) {
            listening.pending.insert(index);
        }
        self.follow_open(index);
        index
    }

    /// Puts into the agenda when the listener learns that the connection is made.
    pub(super) fn follow_open(&mut self, index: usize) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.pipes[CLIENT].opened() {
            return;
        }
        if let Some(at) = connection.pipes[CLIENT].next_arrival() {
            let rank = connection.ends[SERVER].rank;
            self.agenda.add(at, rank, Event::Open(index));
        }
    }

    pub(super) fn opened(&mut self, index: usize) {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return;
        };
        connection.pipes[CLIENT].settle(now);
        if !connection.pipes[CLIENT].opened() {
            return;
        }
        for listening in self.listeners.values_mut() {
            if listening.pending.remove(&index) {
                listening.ready.push_back(index);
                self.woken.extend(listening.waker.take());
            }
        }
    }

    /// Whether an attempt gets along this path now; if not, it is lost, or waits.
    fn passes(&mut self, attempt: u64, from: IpAddr, to: IpAddr) -> bool {
        if self.cuts.contains(&(from, to)) {
            self.lost(attempt);
            return false;
        }
        let held = self.holds.contains(&(from, to));
        if let Some(entry) = self.attempts.get_mut(&attempt) {
            entry.held = held;
        }
        !held
    }

    /// An attempt got lost: it is made again later, until there were too many.
    fn lost(&mut self, attempt: u64) {
        let Some(entry) = self.attempts.get_mut(&attempt) else {
            return;
        };
        let wait = Time::from_nanos(FIRST_REDIAL.as_nanos() << entry.redials);
        let at = (entry.sent + wait).max(self.now);
        entry.redials += 1;
        self.plan_for(attempt, at, Event::Dial(attempt));
    }

    fn conclude(&mut self, attempt: u64, outcome: Result<usize, ErrorKind>) {
        if let Some(entry) = self.attempts.get_mut(&attempt) {
            entry.outcome = Some(outcome);
            self.woken.extend(entry.waker.take());
        }
    }

    fn plan_for(&mut self, attempt: u64, at: Time, event: Event) {
        self.agenda.add(at, self.rank("attempt", attempt), event);
    }
}
