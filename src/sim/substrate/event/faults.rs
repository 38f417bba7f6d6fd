//! How connections of the event substrate end and are disturbed: closes, resets, cuts, holds,
//! limits, crashes.
//!
//! More methods of the network's state. Leans on `network`.

use std::io::ErrorKind;
use std::net::IpAddr;

use super::connection::{CLIENT, SERVER};
use super::network::{Event, State, living};
use crate::machine::Time;
use crate::net::limit::Limit;

impl State {
    // -- closing --

    /// Closes one end. With bytes left unread it sends a reset, as TCP does, else the end of the
    /// stream.
    pub(super) fn close(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return;
        };
        let at = &mut connection.ends[end];
        if !at.open {
            return;
        }
        let incoming = &mut connection.pipes[1 - end];
        incoming.settle(now);
        let unread = incoming.arrived_bytes() > 0;
        if at.failure.is_none() {
            if at.reset_on_close || unread {
                self.send_reset(index, end);
            } else {
                // The connection is there, so this cannot fail.
                let _ = self.shut(index, end);
            }
        }
        self.let_go(index, end);
    }

    /// Closes one end with a reset.
    pub(super) fn abort(&mut self, index: usize, end: usize) {
        if let Some(connection) = self.connection(index) {
            connection.ends[end].reset_on_close = true;
            self.close(index, end);
        }
    }

    /// Nobody reads or writes at `end` any more. What is still under way to it is answered with a
    /// reset; a connection without ends is forgotten.
    fn let_go(&mut self, index: usize, end: usize) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let at = &mut connection.ends[end];
        at.open = false;
        let wakers = (at.reader.take(), at.writer.take());
        if connection.ends[1 - end].open {
            self.answer_with_reset(index, 1 - end);
        } else {
            self.connections[index] = None;
        }
        // Dropped here, outside of what they may hold on to.
        drop(wakers);
    }

    /// Sends a reset from `end` to the other.
    fn send_reset(&mut self, index: usize, end: usize) {
        let now = self.now;
        if let Some(connection) = self.connection(index) {
            let at = connection.pipes[end].arrival_of_reset(now);
            self.plan_reset(index, 1 - end, at);
        }
    }

    /// Bytes from `end` arrive where nobody is: a reset comes back.
    pub(super) fn answer_with_reset(&mut self, index: usize, end: usize) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.ends[end].failure.is_some() {
            return;
        }
        if let Some(arrival) = connection.pipes[end].next_bytes() {
            let at = arrival + connection.latency[1 - end];
            self.plan_reset(index, end, at);
        }
    }

    fn plan_reset(&mut self, index: usize, end: usize, at: Time) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let to = &mut connection.ends[end];
        if to.open && !to.reset_due {
            to.reset_due = true;
            let rank = to.rank;
            self.agenda.add(at, rank, Event::Reset(index, end));
        }
    }

    /// A reset arrives at `end`, unless its path is cut or on hold.
    pub(super) fn reset_arrived(&mut self, index: usize, end: usize) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let path = &connection.pipes[1 - end];
        let (cut, held) = (path.is_cut(), path.is_held());
        let to = &mut connection.ends[end];
        if cut {
            to.reset_due = false;
        } else if held {
            to.reset_held = true;
        } else {
            self.fail(index, end, ErrorKind::ConnectionReset);
        }
    }

    /// The connection has failed, as seen from `end`.
    fn fail(&mut self, index: usize, end: usize, failure: ErrorKind) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let at = &mut connection.ends[end];
        at.failure.get_or_insert(failure);
        let wakers = [at.reader.take(), at.writer.take()];
        self.woken.extend(wakers.into_iter().flatten());
    }

    /// Puts into the agenda when `end` gives up to send again what a cut has lost.
    pub(super) fn follow_give_up(&mut self, index: usize, end: usize) {
        let Some(connection) = living(&mut self.connections, index) else {
            return;
        };
        let at = &mut connection.ends[end];
        if let Some(gives_up) = connection.pipes[end].gives_up_at()
            && at.give_up_due != gives_up
        {
            at.give_up_due = gives_up;
            let event = Event::GiveUp(index, end);
            self.agenda.add(gives_up, at.rank, event);
        }
    }

    pub(super) fn give_up_due(&mut self, index: usize, end: usize) {
        let now = self.now;
        let Some(connection) = self.connection(index) else {
            return;
        };
        if connection.pipes[end].gives_up_at() == Some(now) {
            self.fail(index, end, ErrorKind::TimedOut);
        }
    }

    // -- faults --

    pub(super) fn cut(&mut self, from: IpAddr, to: IpAddr) {
        if self.cuts.insert((from, to)) {
            let now = self.now;
            self.disturb(from, to, |state, index, end| {
                if let Some(connection) = state.connection(index) {
                    connection.pipes[end].cut(now);
                    connection.pipes[1 - end].stop_credits(now, true, Time::ZERO);
                }
                state.follow_give_up(index, end);
            });
        }
    }

    pub(super) fn heal(&mut self, from: IpAddr, to: IpAddr) {
        if self.cuts.remove(&(from, to)) {
            let now = self.now;
            let held = self.holds.contains(&(from, to));
            self.disturb(from, to, |state, index, end| {
                if let Some(connection) = state.connection(index) {
                    connection.pipes[end].heal(now);
                    let heard = now + connection.latency[end];
                    connection.pipes[1 - end].stop_credits(now, held, heard);
                }
                state.go_on(index, end);
            });
        }
    }

    pub(super) fn hold(&mut self, from: IpAddr, to: IpAddr) {
        if self.holds.insert((from, to)) {
            let now = self.now;
            self.disturb(from, to, |state, index, end| {
                if let Some(connection) = state.connection(index) {
                    connection.pipes[end].hold(now);
                    connection.pipes[1 - end].stop_credits(now, true, Time::ZERO);
                }
            });
        }
    }

    pub(super) fn release(&mut self, from: IpAddr, to: IpAddr) {
        if !self.holds.remove(&(from, to)) {
            return;
        }
        let now = self.now;
        let cut = self.cuts.contains(&(from, to));
        self.disturb(from, to, |state, index, end| {
            if let Some(connection) = state.connection(index) {
                connection.pipes[end].release(now);
                connection.pipes[1 - end].stop_credits(now, cut, now);
                if std::mem::take(&mut connection.ends[1 - end].reset_held) {
                    state.reset_arrived(index, 1 - end);
                }
            }
            state.go_on(index, end);
        });
        let waiting = |attempt: &super::dial::Attempt| {
            let hosts = (attempt.from.ip(), attempt.to.ip());
            attempt.held && (hosts == (from, to) || hosts == (to, from))
        };
        let attempts = self.attempts.iter();
        let waiting: Vec<u64> = attempts
            .filter(|(_, attempt)| waiting(attempt))
            .map(|(number, _)| *number)
            .collect();
        for attempt in waiting {
            self.dial_again(attempt);
        }
    }

    /// What is sent on a path from now on has this latency; what is under way keeps its time.
    pub(super) fn set_latency(&mut self, from: IpAddr, to: IpAddr, latency: Time) {
        let mut settings = self.links.from_to(from, to);
        let before = std::mem::replace(&mut settings.latency, latency);
        self.links.between.insert((from, to), settings);
        self.disturb(from, to, |state, index, end| {
            if let Some(connection) = state.connection(index) {
                connection.latency[end] = latency;
                connection.pipes[end].change_latency(before, latency);
            }
        });
    }

    /// A limit of a path: of what is under way, of what follows, and of connections to come.
    pub(super) fn limit(&mut self, from: IpAddr, to: IpAddr, limit: Limit) {
        let now = self.now;
        let limits = self.limits.entry((from, to)).or_default();
        limits.retain(|other| other.until > now);
        limits.push(limit);
        self.disturb(from, to, |state, index, end| {
            if let Some(connection) = state.connection(index) {
                connection.pipes[end].limit(now, limit);
            }
            state.go_on(index, end);
        });
    }

    /// Resets every connection between two hosts, at both ends.
    pub(super) fn reset(&mut self, one: IpAddr, other: IpAddr) {
        self.disturb(one, other, |state, index, _| {
            for end in [CLIENT, SERVER] {
                state.fail(index, end, ErrorKind::ConnectionReset);
            }
        });
        self.disturb(other, one, |state, index, _| {
            for end in [CLIENT, SERVER] {
                state.fail(index, end, ErrorKind::ConnectionReset);
            }
        });
    }

    /// The software of a host is gone: its system resets its connections.
    pub(super) fn crash(&mut self, host: IpAddr) {
        let on_host = |address: std::net::SocketAddr| address.ip() == host;
        self.attempts.retain(|_, attempt| !on_host(attempt.from));
        let listeners = self.listeners.iter();
        let listeners: Vec<u64> = listeners
            .filter(|(_, listening)| on_host(listening.address))
            .map(|(number, _)| *number)
            .collect();
        for listener in listeners {
            self.stop_listening(listener);
        }
        for index in 0..self.connections.len() {
            for end in [CLIENT, SERVER] {
                let connection = self.connection(index);
                if connection.is_some_and(|connection| connection.ends[end].host == host) {
                    self.abort(index, end);
                }
            }
        }
    }

    /// Does something to the pipe of every connection that leads from one host to another.
    fn disturb(
        &mut self,
        from: IpAddr,
        to: IpAddr,
        mut fault: impl FnMut(&mut Self, usize, usize),
    ) {
        for index in 0..self.connections.len() {
            let Some(connection) = self.connection(index) else {
                continue;
            };
            for end in connection.end_on(from, to) {
                fault(self, index, end);
            }
        }
    }

    /// A path is free again: what waits for it is put into the agenda.
    fn go_on(&mut self, index: usize, end: usize) {
        self.follow_open(index);
        self.follow_read(index, 1 - end);
        self.follow_write(index, 1 - end);
        if let Some(connection) = self.connection(index)
            && !connection.ends[1 - end].open
        {
            self.answer_with_reset(index, end);
        }
    }
}
