//! The words of `server.defects` and `server.repaired`: bugs made up, and bugs of real servers.
//!
//! Leans on `server` and `raft`, which have the bugs; on the core client and the simulator for a few.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::surroundings::ModelledVersion;
use crate::nats::version::ServerVersion;
use crate::raft::RaftDefect;
use crate::server::ServerDefect;

/// A bug that can be switched on: made up, or one that a nats-server has or had.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[schemars(extend("x-listed-in" = "docs/server-bugs.md"))]
pub enum Defect {
    /// The server acks a full flow interval before it has stored it.
    AckBeforeStore,
    /// The PubAck counts one message too many.
    PubAckCountsOneMore,
    /// The stream stores each hundredth message twice.
    StoreTwice,
    /// The server sends every second flow ack only.
    AckHalfAsOften,
    /// A ping with sequence 1 opens a batch, and is a gap in it. In 2.14.
    #[serde(rename = "ping1-creates-batch")]
    Ping1CreatesBatch,
    /// A repeated or lower sequence ends the batch without a gap being told. In 2.14.
    BackwardSilent,
    /// A plain message is held to the size limit of its stream after its headers. In 2.14.
    PlainSizeLate,
    /// In gap mode ok a commit that is refused or a duplicate never gets its PubAck. In 2.14.0.
    GapOkCommitErrStrands,
    /// In gap mode ok a repeated or lower sequence sets the batch back. Before 2.14.0.
    GapOkBackwardRewinds,
    /// A gap names the last sequence received as the expected one. Before 2.14.0.
    GapLastSeqOffByOne,
    /// A new batch does not count itself: the second on a stream opens with the whole flow. Before
    /// 2.14.0.
    FlowInitOffByOne,
    /// An advisory tells of fast batches that were idle for too long. Before 2.14.0.
    TimeoutAdvisoryFast,
    /// The sequence of an atomic batch that is no number is taken for the largest one. In 2.14.0.
    AtomicSeqLenient,
    /// The end of an atomic batch counts as a message against the largest batch. In 2.14.0.
    AtomicEobMaxSize,
    /// No advisory tells of an atomic batch whose required API level is not met. Before 2.14.0.
    UnsupportedAdvisoryMissing,
    /// An atomic batch that fails its checks shifts the last sequence that messages of fast batches
    /// expect. In every version.
    #[serde(rename = "r1-failed-atomic-shifts-last")]
    R1FailedAtomicShiftsLast,
    /// The header that the end of an atomic batch adds can leave half a batch in the stream. In every
    /// version.
    AtomicEobStoreRefused,
    /// Ids of messages that nobody is interested in are forgotten before their window ends. On one
    /// server. In every version.
    InterestIdsUndated,
    /// In gap mode ok refused messages move no flow ack: a window of them gets none. In every version.
    ErrWindowStall,
    /// A message whose expected last message id is wrong is refused, and stays pending in its batch. On
    /// one server. In every version.
    #[serde(rename = "last-msg-id-leak-r1")]
    LastMsgIdLeakR1,
    /// A batch that is over without a stored commit comes back with a new leader. In every version.
    GhostBatch,
    /// A new leader sees a gap behind duplicates and refusals at the end of a batch. In every version.
    TailDupFalseGap,
    /// A commit that is stored over a change of leaders may get no PubAck. In every version.
    CommitLostPuback,
    /// A ping behind an end of batch may count as a message. In every version.
    PingAfterEobOvercount,
    /// A stream with `no_ack` does not send the first ack of a batch. In every version.
    NoAckNoStartAck,
    /// What a leader refuses or drops as it steps down is answered by nobody. In every version.
    RefusedProposeSilent,
    /// A leader that stood still answers its clients before it hears of its successor. In every version.
    DeposedLeaderSpeaks,
    /// A new leader knows nothing of the batches before it. Before 2.14.0.
    NoCleanLeaderChange,
    /// Message ids in flight at a step-down are refused until their window ends. In 2.14.0, by a race:
    /// only if it is switched on.
    DedupCleanupRace,
    /// Acks for entries of an earlier term count towards a commit. Before 2.14.0.
    CommitsPreviousTerm,
    /// Leadership is told before the first entry of its term is applied. Before 2.14.
    LeaderBeforeNoop,
    /// A step-down makes replicas forget whom they voted for. Before 2.14.0.
    RepeatVoteSameTerm,
    /// An entry of another term makes a follower take back what it has committed. Before 2.14.0.
    CommitRegression,
    /// What a catch-up sends that is no longer current truncates what was acked since. Before 2.14.0.
    ParallelCatchupTruncates,
    /// A leader goes on however far commits or applies are behind. Before 2.14.0.
    NoOverrunStepdown,
    /// A follower that takes no more entries keeps asking for a catch-up. Before 2.14.0.
    OverrunKeepsCatchup,
    /// A proposal that was checked in an earlier term is taken. In 2.14.0.
    StaleTermProposal,
    /// A catch-up that replaces another is told of no progress. In 2.14.0.
    CatchupQueueDeleted,
    /// An append entry is full at 512 entries. In 2.14.
    #[serde(rename = "small-batches-512")]
    SmallBatches512,
    /// The publisher sends on when its gate is shut.
    PublisherIgnoresGate,
    /// The publisher waits without pings and without a deadline.
    PublisherWaitsForEver,
    /// The simulator starts publishers by numbers drawn from the system, not from the seed.
    UnseededDraw,
    /// The simulator starts publishers in the order of a hash map.
    HashOrder,
}

/// Whose bug it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BugOf {
    /// The modelled server.
    Server(ServerDefect),
    /// Its replicas: the stream must have some.
    Raft(RaftDefect),
    /// The core client.
    Publisher,
    /// The simulator itself.
    Simulator,
}

impl Defect {
    /// Whose bug it is.
    pub const fn bug_of(self) -> BugOf {
        match self {
            Self::AckBeforeStore => BugOf::Server(ServerDefect::AckBeforeStore),
            Self::PubAckCountsOneMore => BugOf::Server(ServerDefect::PubAckCountsOneMore),
            Self::StoreTwice => BugOf::Server(ServerDefect::StoreTwice),
            Self::AckHalfAsOften => BugOf::Server(ServerDefect::AckHalfAsOften),
            Self::Ping1CreatesBatch => BugOf::Server(ServerDefect::Ping1CreatesBatch),
            Self::BackwardSilent => BugOf::Server(ServerDefect::BackwardSilent),
            Self::PlainSizeLate => BugOf::Server(ServerDefect::PlainSizeLate),
            Self::GapOkCommitErrStrands => BugOf::Server(ServerDefect::GapOkCommitErrStrands),
            Self::GapOkBackwardRewinds => BugOf::Server(ServerDefect::GapOkBackwardRewinds),
            Self::GapLastSeqOffByOne => BugOf::Server(ServerDefect::GapLastSeqOffByOne),
            Self::FlowInitOffByOne => BugOf::Server(ServerDefect::FlowInitOffByOne),
            Self::TimeoutAdvisoryFast => BugOf::Server(ServerDefect::TimeoutAdvisoryFast),
            Self::AtomicSeqLenient => BugOf::Server(ServerDefect::AtomicSeqLenient),
            Self::AtomicEobMaxSize => BugOf::Server(ServerDefect::AtomicEobMaxSize),
            Self::UnsupportedAdvisoryMissing => {
                BugOf::Server(ServerDefect::UnsupportedAdvisoryMissing)
            }
            Self::R1FailedAtomicShiftsLast => BugOf::Server(ServerDefect::R1FailedAtomicShiftsLast),
            Self::AtomicEobStoreRefused => BugOf::Server(ServerDefect::AtomicEobStoreRefused),
            Self::InterestIdsUndated => BugOf::Server(ServerDefect::InterestIdsUndated),
            Self::ErrWindowStall => BugOf::Server(ServerDefect::ErrWindowStall),
            Self::LastMsgIdLeakR1 => BugOf::Server(ServerDefect::LastMsgIdLeakR1),
            Self::GhostBatch => BugOf::Server(ServerDefect::GhostBatch),
            Self::TailDupFalseGap => BugOf::Server(ServerDefect::TailDupFalseGap),
            Self::CommitLostPuback => BugOf::Server(ServerDefect::CommitLostPuback),
            Self::PingAfterEobOvercount => BugOf::Server(ServerDefect::PingAfterEobOvercount),
            Self::NoAckNoStartAck => BugOf::Server(ServerDefect::NoAckNoStartAck),
            Self::RefusedProposeSilent => BugOf::Server(ServerDefect::RefusedProposeSilent),
            Self::DeposedLeaderSpeaks => BugOf::Server(ServerDefect::DeposedLeaderSpeaks),
            Self::NoCleanLeaderChange => BugOf::Server(ServerDefect::NoCleanLeaderChange),
            Self::DedupCleanupRace => BugOf::Server(ServerDefect::DedupCleanupRace),
            Self::CommitsPreviousTerm => BugOf::Raft(RaftDefect::CommitsPreviousTerm),
            Self::LeaderBeforeNoop => BugOf::Raft(RaftDefect::LeaderBeforeNoop),
            Self::RepeatVoteSameTerm => BugOf::Raft(RaftDefect::RepeatVoteSameTerm),
            Self::CommitRegression => BugOf::Raft(RaftDefect::CommitRegression),
            Self::ParallelCatchupTruncates => BugOf::Raft(RaftDefect::ParallelCatchupTruncates),
            Self::NoOverrunStepdown => BugOf::Raft(RaftDefect::NoOverrunStepdown),
            Self::OverrunKeepsCatchup => BugOf::Raft(RaftDefect::OverrunKeepsCatchup),
            Self::StaleTermProposal => BugOf::Raft(RaftDefect::StaleTermProposal),
            Self::CatchupQueueDeleted => BugOf::Raft(RaftDefect::CatchupQueueDeleted),
            Self::SmallBatches512 => BugOf::Raft(RaftDefect::SmallBatches512),
            Self::PublisherIgnoresGate => BugOf::Publisher,
            Self::PublisherWaitsForEver => BugOf::Publisher,
            Self::UnseededDraw => BugOf::Simulator,
            Self::HashOrder => BugOf::Simulator,
        }
    }

    /// Whether a nats-server of this version has it.
    pub const fn is_in(self, version: ServerVersion) -> bool {
        match self.bug_of() {
            BugOf::Server(defect) => defect.is_in(version),
            BugOf::Raft(defect) => defect.is_in(version),
            BugOf::Publisher | BugOf::Simulator => false,
        }
    }
}

impl From<ModelledVersion> for ServerVersion {
    fn from(version: ModelledVersion) -> Self {
        match version {
            ModelledVersion::V2_14_0 => Self::V2_14_0,
            ModelledVersion::V2_14_6 => Self::V2_14_6,
            ModelledVersion::V2_15_1 => Self::V2_15_1,
        }
    }
}
