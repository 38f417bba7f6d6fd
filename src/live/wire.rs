//! The wires behind doors: what bytes pass one after the other while a limit is on.
//!
//! A connection has its own, or shares one with others. Leans on `net::pace`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::door::Course;
use crate::machine::Time;
use crate::net::pace::Pace;

/// What all bytes of one way pass where a limit is on.
#[derive(Clone, Debug, Default)]
pub(super) struct Wire(Arc<Mutex<Pace>>);

/// The wires behind a door.
#[derive(Clone, Debug)]
pub(super) enum Wires {
    /// Each connection has its own.
    Own,
    /// These are of all connections of the door, and perhaps of others.
    Shared {
        /// To the server behind it.
        inward: Wire,
        /// From that server.
        outward: Wire,
    },
}

impl Wires {
    /// That of a new connection, this way.
    pub(super) fn of(&self, course: Course) -> Wire {
        match (self, course) {
            (Self::Own, _) => Wire::default(),
            (Self::Shared { inward, .. }, Course::In) => inward.clone(),
            (Self::Shared { outward, .. }, Course::Out) => outward.clone(),
        }
    }
}

/// So many bytes of what comes first, at a limit, and when the last of them has passed.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    pub(super) bytes: usize,
    pub(super) bits_per_second: u64,
    pub(super) at: Time,
}

impl Wire {
    /// So many bytes that are there since `ready` are next on it.
    pub(super) fn take(
        &self,
        now: Time,
        bits_per_second: u64,
        (ready, bytes): (Time, usize),
    ) -> Piece {
        let at = self.pace().pass(now, bits_per_second, ready, bytes);
        Piece {
            bytes,
            bits_per_second,
            at,
        }
    }

    /// The limit is over.
    pub(super) fn open(&self) {
        self.pace().open();
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
