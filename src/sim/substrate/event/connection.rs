//! A connection: two ends and the pipe from each to the other.
//!
//! A state without a clock; `network` says when what happens. Leans on `pipe`.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::task::Waker;

use super::pipe::Pipe;
use crate::machine::Time;

/// The end that connected, and the end that accepted.
pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) ends: [End; 2],
    /// `pipes[end]` leads from that end to the other.
    pub(super) pipes: [Pipe; 2],
    /// One-way latency from each end to the other.
    pub(super) latency: [Time; 2],
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub(super) address: SocketAddr,
    pub(super) host: IpAddr,
    /// Settles ties in the agenda.
    pub(super) rank: u64,
    /// Somebody may still read and write here.
    pub(super) open: bool,
    /// It has said that no bytes follow.
    pub(super) shut: bool,
    pub(super) reset_on_close: bool,
    /// How the connection failed, as seen from here.
    pub(super) failure: Option<ErrorKind>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// What stands in the agenda for this end; [`Time::NEVER`] if nothing does. Entries for other
    /// moments are out of date.
    pub(super) read_due: Time,
    pub(super) write_due: Time,
    pub(super) give_up_due: Time,
    /// A reset is on its way to this end, or waits for the end of a hold.
    pub(super) reset_due: bool,
    pub(super) reset_held: bool,
}

impl End {
    pub(super) fn new(address: SocketAddr, host: IpAddr, rank: u64) -> Self {
        Self {
            address,
            host,
            rank,
            open: true,
            shut: false,
            reset_on_close: false,
            failure: None,
            reader: None,
            writer: None,
            read_due: Time::NEVER,
            write_due: Time::NEVER,
            give_up_due: Time::NEVER,
            reset_due: false,
            reset_held: false,
        }
    }

    /// The error that reads and writes meet.
    pub(super) fn error(&self) -> Option<io::Error> {
        self.failure.map(io::Error::from)
    }
}

impl Connection {
    /// Whether it leads between these hosts, and from which end to which.
    pub(super) fn end_on(&self, from: IpAddr, to: IpAddr) -> impl Iterator<Item = usize> + use<> {
        let hosts = [self.ends[CLIENT].host, self.ends[SERVER].host];
        [CLIENT, SERVER]
            .into_iter()
            .filter(move |end| hosts[*end] == from && hosts[1 - *end] == to)
    }

    /// Whether a read at `end` would not wait.
    pub(super) fn is_readable(&mut self, end: usize, now: Time) -> bool {
        let pipe = &mut self.pipes[1 - end];
        pipe.settle(now);
        pipe.arrived_bytes() > 0 || pipe.ended() || self.ends[end].failure.is_some()
    }

    /// Whether a write at `end` would not wait.
    pub(super) fn is_writable(&mut self, end: usize, now: Time) -> bool {
        let at = &self.ends[end];
        at.failure.is_some() || at.shut || self.pipes[end].room_bytes(now) > 0
    }
}
