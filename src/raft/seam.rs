//! What the driver and the layer above exchange with a replica.
//!
//! ARCHITECTURE.md, "A replica of a group", says what a stream has to do with each. Leans on the
//! words of `raft`.

use std::sync::Arc;

use super::message::{Message, Position, Record};
use super::{LogIndex, NodeId, Range, Term};
use crate::machine::Time;

/// What happens to a replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input<E, S> {
    /// The layer above proposes one entry, checked in `term`. [`Action::Refused`] if it is not
    /// taken; if it is, nothing is said until it is applied or drained.
    Propose {
        /// The term of [`Action::Lead`].
        term: Term,
        /// What is proposed.
        entry: E,
    },
    /// The same for several that stand together in the log, all or none. They may share an append
    /// entry with others and may be spread over several.
    ProposeAll {
        /// The term of [`Action::Lead`].
        term: Term,
        /// What is proposed.
        entries: Vec<E>,
    },
    /// A message of another replica. Those that one sends to another arrive in the order in which
    /// it sent them, except that a catch-up runs beside the rest.
    Received {
        /// Who sent it.
        from: NodeId,
        /// What it says.
        message: Message<E, S>,
    },
    /// The disk has done [`Action::Write`].
    Written,
    /// The disk has synced everything that it had been given and had told as written.
    Synced,
    /// The driver's answer to [`Action::Draw`], before any other input.
    Drawn(Time),
    /// The layer above is through with what it was given, up to here (`Processed`).
    Processed {
        /// Looked at, and kept in mind where it waits for more.
        processed: LogIndex,
        /// Stored: a snapshot may stand for it.
        applied: LogIndex,
    },
    /// The layer above has written and synced a snapshot of what it had applied at `index`: the log
    /// up to there may go. Not taken while this replica brings another one up to date, unless
    /// `force` (`createSnapshotCheckpointLocked`).
    SnapshotTaken {
        /// Applied index that it stands for.
        index: LogIndex,
        /// What it holds.
        state: S,
        /// Even during a catch-up.
        force: bool,
    },
    /// An operator has the leader step down and hand over, to `preferred` if that one is healthy.
    StepDown {
        /// Who should lead next.
        preferred: Option<NodeId>,
        /// A random number: it picks the target if `preferred` does not.
        chance: u64,
    },
    /// The replica campaigns now: the creation of its group prefers it (`Campaign`, but
    /// for its short random delay).
    Campaign,
    /// The process starts again after a crash, on what its disk has.
    Restarted(Restart),
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Restart {
    /// It was killed: the operating system has what was written.
    AfterKill,
    /// The machine lost power: what was not synced is gone.
    AfterPowerLoss,
}

/// What the disk has to do before anything that was decided after it may be seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Write {
    /// Append entries to write; each is synced if the group syncs always.
    pub records: u64,
    /// Bytes in them.
    pub record_bytes: u64,
    /// Small files to write and sync: term and vote, and snapshots received.
    pub files: u64,
    /// Bytes in them.
    pub file_bytes: u64,
}

impl Write {
    pub(super) const fn is_empty(&self) -> bool {
        self.records == 0 && self.files == 0
    }
}

/// Why a proposal is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Refusal {
    /// This replica does not lead, or leads in another term (`errNotLeader`).
    NotLeader,
    /// Commits or applies are too far behind: it has just stepped down for it (`isLeaderOverrun`).
    Overrun,
}

/// What a replica wants done, and what became true in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action<E, S> {
    /// To all other replicas.
    Broadcast(Message<E, S>),
    /// To one other replica.
    Send {
        /// Who.
        to: NodeId,
        /// What.
        message: Message<E, S>,
    },
    /// The disk writes; [`Input::Written`] says that it has. Until then the replica does nothing
    /// but take proposals.
    Write(Write),
    /// The driver draws a span; [`Input::Drawn`] answers at once.
    Draw(Range),
    /// An append entry is committed: the layer above applies its entries, in the order of these
    /// actions, and answers [`Input::Processed`].
    Apply {
        /// Its place.
        index: LogIndex,
        /// It.
        record: Arc<Record<E>>,
    },
    /// The layer above takes over this state, forgets what it has of its own, and answers
    /// [`Input::Processed`].
    Restore {
        /// What it stands for.
        index: LogIndex,
        /// What another replica, or this one before it restarted, put into the snapshot.
        state: S,
    },
    /// This replica leads, and everything before its term is processed: proposals may come.
    Lead {
        /// The term to propose in.
        term: Term,
    },
    /// It leads no more, whether or not [`Action::Lead`] had been told.
    SteppedDown {
        /// The term in which it led.
        term: Term,
        /// Proposals that had not become append entries: they are lost.
        drained: Vec<E>,
    },
    /// The proposal of this input is not taken.
    Refused(Refusal),
    /// A fact for events and judges.
    Fact(Fact<E>),
}

/// Something that became true in a replica or on its disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fact<E> {
    /// It promised its vote, and the promise is on disk.
    Voted {
        /// In this term.
        term: Term,
        /// To whom; itself if it campaigns.
        candidate: NodeId,
    },
    /// It won the election.
    Elected {
        /// Of this term.
        term: Term,
    },
    /// An append entry is in the log on disk.
    Stored {
        /// Its place.
        at: Position,
        /// It.
        record: Arc<Record<E>>,
    },
    /// The log ends here: what came after it is gone.
    Truncated {
        /// Its end.
        last: Position,
    },
    /// A snapshot that another replica sent stands for the log up to here.
    SnapshotStored {
        /// Its place.
        last: Position,
    },
    /// The process is back, with what its disk had.
    Recovered {
        /// The end of its log.
        last: Position,
    },
    /// It asked its leader for what it misses.
    AskedForCatchup,
    /// It gave leadership up because it was overrun.
    Overrun,
    /// It takes no more append entries until it has applied what it has.
    Paused,
    /// It takes append entries again.
    Resumed,
}
