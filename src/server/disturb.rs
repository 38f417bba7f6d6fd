//! What can befall a server from outside: its process, its disk, its routes.
//!
//! Leans on `raft` for how a process ends.

use std::collections::VecDeque;

use super::message::Publish;
use crate::machine::Time;
use crate::raft::Restart;

/// Something that befalls a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Disturbance {
    /// Its process ends at once: the disk keeps what was written, memory nothing.
    Kill,
    /// Its process is asked to end: what it leads it hands over first, without a wait for anybody
    /// (`server/server.go`, `Shutdown`: `stepdownRaftNodes` before all else).
    Shutdown,
    /// Its machine loses power: the disk keeps what was synced.
    PowerLoss,
    /// It starts again.
    Start,
    /// It stands still until then; its connections stay open.
    Freeze(Time),
    /// From now on each write of its disk takes so much longer.
    SlowDisk(Time),
    /// That is over.
    QuickenDisk(Time),
    /// No write of its disk ends before then.
    HoldDisk(Time),
    /// These routes are down: what is under way is lost, and so is what is sent.
    CutRoutes(Routes),
    /// They are up again.
    MendRoutes(Routes),
    /// What is on these routes, or is sent, waits until then.
    HoldRoutes(Routes, Time),
    /// What is sent on these routes is so much later.
    SlowRoutes(Routes, Time),
    /// That is over.
    QuickenRoutes(Routes, Time),
    /// Each of these routes carries no more than so many bits in a second until then.
    LimitRoutes(Routes, u64, Time),
}

impl Disturbance {
    /// Whether it ends the process of a server.
    pub const fn ends_process(self) -> bool {
        matches!(self, Self::Kill | Self::Shutdown | Self::PowerLoss)
    }
}

/// Some routes of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Routes {
    /// The server at the other end; `None`: every other.
    pub peer: Option<u8>,
    /// Those that lead to the server.
    pub inward: bool,
    /// Those that lead from it.
    pub outward: bool,
}

impl Routes {
    /// All of them, both ways.
    pub const ALL: Self = Self {
        peer: None,
        inward: true,
        outward: true,
    };

    /// The ends of all routes of a cluster of so many, from and to.
    pub fn between(servers: usize) -> impl Iterator<Item = (usize, usize)> {
        let outward = Self {
            inward: false,
            ..Self::ALL
        };
        (0..servers).flat_map(move |server| outward.ends(server, servers))
    }

    /// The ends of each, from and to, of the routes of `server` in a cluster of so many.
    pub fn ends(
        self,
        server: usize,
        servers: usize,
    ) -> impl Iterator<Item = (usize, usize)> + use<> {
        let peers = (0..servers).filter(move |&other| {
            other != server && self.peer.is_none_or(|peer| usize::from(peer) == other)
        });
        peers.flat_map(move |other| {
            let inward = self.inward.then_some((other, server));
            inward
                .into_iter()
                .chain(self.outward.then_some((server, other)))
        })
    }
}

/// From one thing to another that a server gets to when it goes on.
pub(super) const NEXT: Time = Time::from_nanos(1);
/// Enough for its replica, and for what others sent to that.
const OTHERS_FIRST: Time = Time::from_nanos(3);

/// What is wrong with a server.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Trouble {
    /// It is down, and how it went.
    pub(super) down: Option<Restart>,
    /// It stands still until then.
    pub(super) frozen_until: Time,
    /// Each write of its disk takes so much longer.
    pub(super) slower: Time,
    /// No write of its disk ends before then.
    pub(super) held_until: Time,
    /// What its clients sent while it stood still: in its sockets, not read.
    pub(super) unread: VecDeque<Publish>,
    /// It gets to them after everything else: without the bug `deposed-leader-speaks`.
    pub(super) reads_clients_last: bool,
    /// Its replica comes to nothing before then: it stands still, or works on what was unread.
    pub(super) behind_until: Time,
}

impl Trouble {
    /// When it gets to something that is due at `at`.
    pub(super) fn awake(&self, at: Time) -> Time {
        if self.down.is_some() {
            Time::NEVER
        } else {
            at.max(self.frozen_until)
        }
    }

    /// When a write of so many parts that would be done at `end` is done.
    pub(super) fn write_end(&self, end: Time, writes: u64) -> Time {
        let slower = self.slower.as_nanos().saturating_mul(writes);
        (end + Time::from_nanos(slower)).max(self.held_until)
    }

    /// When it reads what its clients sent meanwhile; `NEVER` if that is nothing.
    pub(super) fn thaw(&self) -> Time {
        if self.unread.is_empty() {
            return Time::NEVER;
        }
        let others_first = if self.reads_clients_last {
            OTHERS_FIRST
        } else {
            Time::ZERO
        };
        self.awake(self.frozen_until + others_first)
    }

    /// Its process ends: a new one does not stand still. The disk is what it was.
    fn end(&mut self, how: Restart) {
        self.down = Some(how);
        self.frozen_until = Time::ZERO;
        self.behind_until = Time::ZERO;
    }

    /// Takes note of what befalls its process or disk.
    pub(super) fn note(&mut self, what: Disturbance) {
        match what {
            Disturbance::Kill | Disturbance::Shutdown => self.end(Restart::AfterKill),
            Disturbance::PowerLoss => self.end(Restart::AfterPowerLoss),
            Disturbance::Start => self.down = None,
            Disturbance::Freeze(until) => {
                self.frozen_until = self.frozen_until.max(until);
                self.behind_until = self.behind_until.max(self.frozen_until);
            }
            Disturbance::SlowDisk(by) => self.slower += by,
            Disturbance::QuickenDisk(by) => self.slower = self.slower - by,
            Disturbance::HoldDisk(until) => self.held_until = self.held_until.max(until),
            Disturbance::CutRoutes(_)
            | Disturbance::MendRoutes(_)
            | Disturbance::HoldRoutes(..)
            | Disturbance::SlowRoutes(..)
            | Disturbance::QuickenRoutes(..)
            | Disturbance::LimitRoutes(..) => {}
        }
    }
}
