//! What became true in a replica, as judges hear of it: without the contents of append entries.
//!
//! Leans on the words of `raft`.

use super::message::Position;
use super::{LogIndex, NodeId, Term};

/// What happened to a replica, as far as judges must know.
///
/// Small, so that the events of a run can carry it: contents are digests.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RaftEvent {
    /// A promised vote is on disk.
    Voted {
        /// In this term.
        term: Term,
        /// For whom.
        candidate: NodeId,
    },
    /// It won an election.
    Elected {
        /// Of this term.
        term: Term,
    },
    /// The layer above was told that it leads.
    Led {
        /// In this term.
        term: Term,
    },
    /// An append entry is in the log on disk.
    Stored {
        /// Its place.
        index: LogIndex,
        /// Term in which it was made.
        term: Term,
        /// The earliest term in which one of its proposals was checked; 0 if there are none, or if
        /// the layer above does not tell.
        checked_in: Term,
        /// A digest of what it holds.
        content: u32,
    },
    /// The log ends here.
    Truncated {
        /// Its end.
        last: Position,
    },
    /// A snapshot of another replica takes the place of the log.
    SnapshotStored {
        /// Its place.
        last: Position,
    },
    /// The process is back.
    Recovered {
        /// The end of its log.
        last: Position,
        /// Its machine had lost power and the group does not sync always.
        may_lose: bool,
    },
    /// The layer above was given this append entry as committed.
    Committed {
        /// Its place.
        index: LogIndex,
    },
    /// The layer above has applied it, or taken over a snapshot.
    Applied {
        /// Its place.
        index: LogIndex,
        /// A digest of all that was applied so far.
        prefix: u32,
    },
    /// It asked for a catch-up.
    AskedForCatchup,
    /// It stopped taking append entries.
    Paused,
    /// It takes them again.
    Resumed,
}
