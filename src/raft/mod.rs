//! RAFT as nats-server speaks it: one replica of one group, as a pure machine.
//!
//! `node` is the replica and its loop; `election`, `leader`, `follower` and `catchup` are what it
//! does in its roles; `log` is what it keeps on disk; `message` is what replicas say to each other,
//! `seam` what the driver and the layer above exchange with it, `event` what judges hear of it. It knows nothing of streams: entries
//! and the state in a snapshot are parameters. Rules name the function of nats-server's
//! `server/raft.go` that they follow. Leans on `machine`, and on `nats` for versions.

mod catchup;
mod election;
mod event;
mod follower;
mod leader;
pub mod log;
pub mod message;
pub mod node;
pub mod seam;
mod timer;

use std::fmt;
use std::hash::Hash;

use crate::machine::Time;
use crate::nats::version::ServerVersion;

pub use event::RaftEvent;
pub use message::Message;
pub use node::Node;
pub use seam::{Action, Fact, Input, Restart};

/// A replica, numbered from 0 within its group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u8);

/// A term: at most one leader in each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Term(pub u32);

/// The place of an append entry in the log; the first is 1, and 0 is before it.
///
/// nats-server numbers append entries, not messages: one holds up to [`Settings::batch_entries`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LogIndex(pub u64);

impl LogIndex {
    /// The place after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// How many places lie between `earlier` and this one; 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for LogIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// What the layer above proposes: a message, a delete, a purge.
pub trait Entry: Clone + Eq + Hash + fmt::Debug {
    /// Encoded size, which counts towards [`Settings::batch_bytes`] and on links and disks.
    fn bytes(&self) -> u64;

    /// What tells it from other entries, in a word.
    fn digest(&self) -> u64;
}

/// What the layer above puts into a snapshot to stand for everything that it has applied.
pub trait State: Clone + Eq + Hash + fmt::Debug {
    /// Encoded size.
    fn bytes(&self) -> u64;
}

/// A span that is drawn evenly from `least` up to, but not including, `most`; `least` itself if
/// the two are equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Range {
    /// Shortest.
    pub least: Time,
    /// Longest.
    pub most: Time,
}

impl Range {
    /// The span after `part` of `parts` equal parts.
    pub fn part(self, part: u64, parts: u64) -> Time {
        let width = u128::from((self.most - self.least).as_nanos());
        let span = width * u128::from(part) / u128::from(parts.max(1));
        self.least + Time::from_nanos(u64::try_from(span).unwrap_or(u64::MAX))
    }
}

/// The constants of a group. [`Settings::default`] is nats-server 2.15.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// Replicas of the group, 1..=64; they never change.
    pub members: u8,
    /// Silence of the leader after which a follower campaigns (`randElectionTimeout`).
    pub election: Range,
    /// The same for one that has just refused a vote for a log behind its own
    /// (`randCampaignTimeout`).
    pub campaign: Range,
    /// How long the target of a transfer waits before it campaigns (`xferCampaign`).
    pub transfer_delay: Time,
    /// How long one that has not processed all commits puts its campaign off (`switchToCandidate`).
    pub campaign_retry: Time,
    /// Tick of heartbeats; one is sent if nothing was stored for longer than this (`notActive`).
    pub heartbeat: Time,
    /// Tick at which a leader looks for its quorum, and the silence that makes a peer count as gone
    /// (`lostQuorum`).
    pub lost_quorum: Time,
    /// Silence up to which a peer may become the target of a transfer (`StepDown`).
    pub healthy: Time,
    /// Bytes at which an append entry is full, each entry counting one more than its size; tested
    /// after an entry is added (`runAsLeader`).
    pub batch_bytes: u64,
    /// Entries at which an append entry is full (`runAsLeader`).
    pub batch_entries: u32,
    /// Append entries not committed or not applied above which a leader steps down and a follower
    /// stops taking more (`pauseQuorumThreshold`).
    pub overrun: u64,
    /// Append entries not applied down to which a follower then has to come (`paeWarnThreshold`).
    pub resume: u64,
    /// Bytes on their way in a catch-up beyond which no more are sent (`runCatchup`).
    pub catchup_bytes: u64,
    /// Time without progress after which either side gives a catch-up up (`runCatchup`,
    /// `catchupStalled`).
    pub catchup_stall: Time,
    /// Each append entry is synced when it is written (`sync_interval: always`).
    pub sync_always: bool,
    /// Bugs switched on.
    pub defects: RaftDefects,
}

impl Settings {
    /// Votes and logs that decide, the replica's own included.
    pub const fn quorum(&self) -> u32 {
        self.members as u32 / 2 + 1
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            members: 3,
            election: Range {
                least: Time::from_secs(4),
                most: Time::from_secs(9),
            },
            campaign: Range {
                least: Time::from_millis(100),
                most: Time::from_millis(800),
            },
            transfer_delay: Time::from_millis(10),
            campaign_retry: Time::from_secs(1),
            heartbeat: Time::from_secs(1),
            lost_quorum: Time::from_secs(10),
            healthy: Time::from_secs(3),
            batch_bytes: 256 << 10,
            batch_entries: 4_096,
            overrun: 100_000,
            resume: 10_000,
            catchup_bytes: 2 << 20,
            catchup_stall: Time::from_secs(2),
            sync_always: false,
            defects: RaftDefects::default(),
        }
    }
}

/// Bugs that nats-server once had, for judges to find. Each names the change that ended it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RaftDefect {
    /// Acks for entries of an earlier term count towards a commit (until c8687fc4d, 2.14.0).
    CommitsPreviousTerm,
    /// Leadership is told before the first entry of its term is applied (until 98bfe6d26, 2.12).
    LeaderBeforeNoop,
    /// A step-down and the transfer that it sends make replicas forget whom they voted for (until
    /// bf8ebe7dd, 2.14.0).
    RepeatVoteSameTerm,
    /// An entry of another term makes a follower take back what it has committed (until c6f6c25ac,
    /// 2.14.0).
    CommitRegression,
    /// What a catch-up sends that is no longer current truncates what was acked since (until
    /// f871570fb, 2.14.0).
    ParallelCatchupTruncates,
    /// A leader goes on however far commits or applies are behind (until 1f6a11ae8, 2.14.0).
    NoOverrunStepdown,
    /// A follower that takes no more entries keeps asking for a catch-up (until 1cc24a3d3, 2.14.0).
    OverrunKeepsCatchup,
    /// A proposal that was checked in an earlier term is taken (until b4506ec4a, 2.14.4).
    StaleTermProposal,
    /// A catch-up that replaces another is told of no progress (until 843a9da44, 2.14.3).
    CatchupQueueDeleted,
    /// An append entry is full at 512 entries (until d12886665, 2.15).
    SmallBatches512,
}

impl RaftDefect {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::CommitsPreviousTerm,
        Self::LeaderBeforeNoop,
        Self::RepeatVoteSameTerm,
        Self::CommitRegression,
        Self::ParallelCatchupTruncates,
        Self::NoOverrunStepdown,
        Self::OverrunKeepsCatchup,
        Self::StaleTermProposal,
        Self::CatchupQueueDeleted,
        Self::SmallBatches512,
    ];

    /// Whether a release has this bug.
    pub const fn is_in(self, version: ServerVersion) -> bool {
        match self {
            Self::SmallBatches512 => match version {
                ServerVersion::V2_14_0 | ServerVersion::V2_14_6 => true,
                ServerVersion::V2_15_1 => false,
            },
            Self::StaleTermProposal | Self::CatchupQueueDeleted => match version {
                ServerVersion::V2_14_0 => true,
                ServerVersion::V2_14_6 | ServerVersion::V2_15_1 => false,
            },
            Self::CommitsPreviousTerm
            | Self::LeaderBeforeNoop
            | Self::RepeatVoteSameTerm
            | Self::CommitRegression
            | Self::ParallelCatchupTruncates
            | Self::NoOverrunStepdown
            | Self::OverrunKeepsCatchup => false,
        }
    }
}

/// A set of defects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct RaftDefects(u16);

impl RaftDefects {
    /// The set with one more.
    #[must_use]
    pub const fn with(self, defect: RaftDefect) -> Self {
        Self(self.0 | 1 << defect as u16)
    }

    /// Whether `defect` is switched on.
    pub const fn has(self, defect: RaftDefect) -> bool {
        self.0 & (1 << defect as u16) != 0
    }
}
