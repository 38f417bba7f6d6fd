//! What a modelled server is like: its version, limits, costs and defects.
//!
//! Leans on `batch`, `stream` and `net::disk`.

use std::collections::BTreeSet;

use crate::batch::atomic::staging::StagingDefects;
use crate::batch::fast::flow::{EvenShare, Policy, Room, ShareOfRoom};
use crate::batch::fast::ingest::BatchDefects;
use crate::machine::Time;
use crate::nats::version::ServerVersion;
use crate::net::disk::Disk;
use crate::raft;
use crate::stream::atomic::AtomicDefects;
use crate::stream::note::ReplicaDefects;

/// What the modelled server is like.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServerModel {
    /// Which release it behaves like.
    pub version: ServerVersion,
    /// Flow shared by the fast batches of a stream.
    pub flow_total: u16,
    /// What a batch has to leave room in, by an experimental rule; `None`: nats-server's rule.
    pub flow_room: Option<Room>,
    /// Idle time after which a batch of either kind is forgotten.
    pub batch_idle_timeout: Time,
    /// Most fast batches per stream.
    pub batches_per_stream: u32,
    /// Most fast batches per server.
    pub batches_per_server: u32,
    /// Most atomic batches per stream.
    pub atomic_batches_per_stream: u32,
    /// Most atomic batches per server.
    pub atomic_batches_per_server: u32,
    /// Most messages of an atomic batch.
    pub atomic_batch_messages: u32,
    /// Most messages in the ingest queue.
    pub ingest_messages: u32,
    /// Most bytes in the ingest queue.
    pub ingest_bytes: u64,
    /// Loop time for each message.
    pub message_cost: Time,
    /// Loop time for each KiB of a message.
    pub kibibyte_cost: Time,
    /// Time of an API call.
    pub api_cost: Time,
    /// API calls that a server works on at a time.
    pub api_workers: u8,
    /// API calls in a queue at which it is emptied.
    pub api_queue: u32,
    /// The disk under file stores.
    pub disk: Disk,
    /// The servers that streams with replicas are on.
    pub cluster: ClusterModel,
    /// Bugs switched on: those of the version, and any others.
    pub defects: BTreeSet<ServerDefect>,
}

/// The servers of a cluster, and what lies between them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClusterModel {
    /// Servers: the most replicas of a stream, 1..=64.
    pub servers: u8,
    /// Which of them a client is connected to.
    pub home: Home,
    /// One-way latency of a route.
    pub latency: Time,
    /// Bandwidth of a route.
    pub bits_per_second: u64,
    /// Time of the leader for each message that it proposes, besides what a message costs anyway.
    pub propose_cost: Time,
    /// The same for each KiB of it.
    pub propose_kibibyte_cost: Time,
    /// Time that a replica needs to apply a message.
    pub apply_cost: Time,
    /// Append entries in the log at which a replica takes a snapshot (`monitorStream`).
    pub snapshot_entries: u64,
    /// The constants of RAFT.
    pub raft: raft::Settings,
}

/// Which server of a cluster a client is connected to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Home {
    /// Each to the first.
    First,
    /// One after the other.
    InTurn,
}

impl Default for ClusterModel {
    fn default() -> Self {
        Self {
            servers: 1,
            home: Home::InTurn,
            latency: Time::from_micros(100),
            bits_per_second: 10_000_000_000,
            propose_cost: Time::from_micros(6),
            propose_kibibyte_cost: Time::from_micros(5),
            apply_cost: Time::from_nanos(1_000),
            snapshot_entries: 65_536,
            raft: raft::Settings::default(),
        }
    }
}

/// Bugs of the server half: made for judges to find, or real ones. A real one is switched on in the
/// versions that have it; [`ServerDefect::is_in`] says which.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServerDefect {
    /// Acks a full flow interval before it is stored. Made up.
    AckBeforeStore,
    /// The PubAck counts one message too many. Made up.
    PubAckCountsOneMore,
    /// Each hundredth message of a batch is stored twice. Made up.
    StoreTwice,
    /// Every second flow ack only is sent. Made up.
    AckHalfAsOften,
    /// A ping with sequence 1 opens a fast batch and is a gap in it.
    Ping1CreatesBatch,
    /// A repeated or lower sequence ends a fast batch without a gap being told.
    BackwardSilent,
    /// A plain message is held to the size limit of its stream after its headers, not before.
    PlainSizeLate,
    /// In gap mode ok a commit that fails its checks gets a flow error and no PubAck, a duplicate
    /// commit nothing at all: the batch stays for ever, without a timer. A refusal that ends a batch
    /// gets no PubAck if a message before it was refused, too.
    GapOkCommitErrStrands,
    /// In gap mode ok a repeated or lower sequence sets a fast batch back.
    GapOkBackwardRewinds,
    /// A gap names the last sequence received as the expected one.
    GapLastSeqOffByOne,
    /// A new fast batch does not count itself: the second on a stream opens with the whole flow.
    FlowInitOffByOne,
    /// An advisory tells of fast batches that were idle for too long.
    TimeoutAdvisoryFast,
    /// The sequence of an atomic batch that is no number is taken for the largest one.
    AtomicSeqLenient,
    /// The end of an atomic batch counts as a message against the largest batch.
    AtomicEobMaxSize,
    /// No advisory tells of an atomic batch whose required API level is not met.
    UnsupportedAdvisoryMissing,
    /// An atomic batch that fails its checks leaves the messages that had passed in the last sequence
    /// that messages of fast batches expect, until the next commit of an atomic batch.
    R1FailedAtomicShiftsLast,
    /// The header that an end of batch adds to the last message is not counted by the checks: where
    /// it is one too many for `max_bytes`, all but that message are stored, and the batch stays in
    /// flight until its id is used again.
    AtomicEobStoreRefused,
    /// On one server, of a message that nobody is interested in, the time is not taken down with its
    /// id, which is forgotten when ids are next gone through: as soon as the window of the first one
    /// ends, or the window is changed.
    InterestIdsUndated,
    /// In gap mode ok a refused message moves neither the persisted sequence nor the flow: a window of
    /// them gets no ack.
    ErrWindowStall,
    /// A message whose expected last message id is not that of the last message stays pending for good:
    /// without a further message its batch never ends, and has no timer once it is to end.
    LastMsgIdLeakR1,
    /// The end of a batch is not replicated, unless it is a commit that is stored: a new leader takes
    /// the batch up again.
    GhostBatch,
    /// Duplicates and refusals are not replicated: a new leader sees a gap behind those at the end.
    TailDupFalseGap,
    /// A commit that its leader did not live to answer gets no PubAck from the next one.
    CommitLostPuback,
    /// A ping behind an end of batch that is still waiting for its messages counts as a message.
    PingAfterEobOvercount,
    /// A stream with `no_ack` does not send the first ack of a batch, which clients wait for.
    NoAckNoStartAck,
    /// Who proposed what a leader refuses, or drops as it steps down, hears nothing.
    RefusedProposeSilent,
    /// A leader that stood still goes on to answer its clients before it hears of its successor.
    DeposedLeaderSpeaks,
    /// A new leader knows nothing of the fast batches before it.
    NoCleanLeaderChange,
    /// A leader that steps down keeps the message ids that it had in flight: while it leads again, and
    /// until the window ends, messages with them are refused.
    DedupCleanupRace,
}

impl ServerDefect {
    const ALL: [Self; 29] = [
        Self::AckBeforeStore,
        Self::PubAckCountsOneMore,
        Self::StoreTwice,
        Self::AckHalfAsOften,
        Self::Ping1CreatesBatch,
        Self::BackwardSilent,
        Self::PlainSizeLate,
        Self::GapOkCommitErrStrands,
        Self::GapOkBackwardRewinds,
        Self::GapLastSeqOffByOne,
        Self::FlowInitOffByOne,
        Self::TimeoutAdvisoryFast,
        Self::AtomicSeqLenient,
        Self::AtomicEobMaxSize,
        Self::UnsupportedAdvisoryMissing,
        Self::R1FailedAtomicShiftsLast,
        Self::AtomicEobStoreRefused,
        Self::InterestIdsUndated,
        Self::ErrWindowStall,
        Self::LastMsgIdLeakR1,
        Self::GhostBatch,
        Self::TailDupFalseGap,
        Self::CommitLostPuback,
        Self::PingAfterEobOvercount,
        Self::NoAckNoStartAck,
        Self::RefusedProposeSilent,
        Self::DeposedLeaderSpeaks,
        Self::NoCleanLeaderChange,
        Self::DedupCleanupRace,
    ];

    /// Whether a release has this bug.
    pub const fn is_in(self, version: ServerVersion) -> bool {
        match self {
            Self::R1FailedAtomicShiftsLast
            | Self::AtomicEobStoreRefused
            | Self::InterestIdsUndated
            | Self::ErrWindowStall
            | Self::LastMsgIdLeakR1
            | Self::GhostBatch
            | Self::TailDupFalseGap
            | Self::CommitLostPuback
            | Self::PingAfterEobOvercount
            | Self::NoAckNoStartAck
            | Self::RefusedProposeSilent
            | Self::DeposedLeaderSpeaks => true,
            Self::Ping1CreatesBatch | Self::BackwardSilent | Self::PlainSizeLate => match version {
                ServerVersion::V2_14_0 | ServerVersion::V2_14_6 => true,
                ServerVersion::V2_15_1 => false,
            },
            Self::GapOkCommitErrStrands | Self::AtomicSeqLenient | Self::AtomicEobMaxSize => {
                match version {
                    ServerVersion::V2_14_0 => true,
                    ServerVersion::V2_14_6 | ServerVersion::V2_15_1 => false,
                }
            }
            // Fixed while 2.14.0 was made.
            Self::GapOkBackwardRewinds
            | Self::GapLastSeqOffByOne
            | Self::FlowInitOffByOne
            | Self::TimeoutAdvisoryFast
            | Self::UnsupportedAdvisoryMissing
            | Self::NoCleanLeaderChange => false,
            // In 2.14.0, in a race that it seldom loses: not what it does as a rule.
            Self::DedupCleanupRace => false,
            // Made up.
            Self::AckBeforeStore
            | Self::PubAckCountsOneMore
            | Self::StoreTwice
            | Self::AckHalfAsOften => false,
        }
    }
}

impl ServerModel {
    /// How it chooses flow.
    pub(super) const fn flow_policy(&self) -> Policy {
        let share = EvenShare {
            total: self.flow_total,
        };
        match self.flow_room {
            None => Policy::EvenShare(share),
            Some(room) => Policy::ShareOfRoom(ShareOfRoom { share, room }),
        }
    }

    /// nats-server of this version with its defaults, on a disk that syncs in the background.
    pub fn of(version: ServerVersion) -> Self {
        let own = ServerDefect::ALL.into_iter();
        Self {
            version,
            flow_total: 500,
            flow_room: None,
            batch_idle_timeout: Time::from_secs(10),
            batches_per_stream: 1_000,
            batches_per_server: 50_000,
            atomic_batches_per_stream: 50,
            atomic_batches_per_server: 1_000,
            atomic_batch_messages: 1_000,
            ingest_messages: 100_000,
            ingest_bytes: 128 << 20,
            message_cost: Time::from_nanos(3_600),
            kibibyte_cost: Time::from_nanos(2_300),
            api_cost: Time::from_micros(200),
            api_workers: 2,
            api_queue: 10_000,
            disk: Disk::new(Time::from_nanos(700), 1_000_000_000, None)
                .with_file_latency(Time::from_millis(4)),
            cluster: ClusterModel::default(),
            defects: own.filter(|defect| defect.is_in(version)).collect(),
        }
    }
}

/// nats-server 2.15.1.
impl Default for ServerModel {
    fn default() -> Self {
        Self::of(ServerVersion::default())
    }
}

/// The defects of a model, looked up once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Switches {
    pub(super) fast: BatchDefects,
    pub(super) staging: StagingDefects,
    pub(super) atomic: AtomicDefects,
    pub(super) replicas: ReplicaDefects,
    pub(super) refusals_are_silent: bool,
    pub(super) last_id_leaks: bool,
    pub(super) undated_ids: bool,
    pub(super) store_twice: bool,
    pub(super) plain_size_late: bool,
}

impl Switches {
    pub(super) fn of(model: &ServerModel) -> Self {
        let has = |defect| model.defects.contains(&defect);
        Self {
            fast: BatchDefects {
                ack_before_store: has(ServerDefect::AckBeforeStore),
                count_one_more: has(ServerDefect::PubAckCountsOneMore),
                ack_half_as_often: has(ServerDefect::AckHalfAsOften),
                ping_opens: has(ServerDefect::Ping1CreatesBatch),
                backward_silent: has(ServerDefect::BackwardSilent),
                rewinds: has(ServerDefect::GapOkBackwardRewinds),
                gap_one_too_low: has(ServerDefect::GapLastSeqOffByOne),
                ok_commit_strands: has(ServerDefect::GapOkCommitErrStrands),
                uncounted_at_open: has(ServerDefect::FlowInitOffByOne),
                idle_advisory: has(ServerDefect::TimeoutAdvisoryFast),
                refusals_do_not_count: has(ServerDefect::ErrWindowStall),
                ping_after_end_counts: has(ServerDefect::PingAfterEobOvercount),
                no_first_ack: has(ServerDefect::NoAckNoStartAck),
            },
            staging: StagingDefects {
                lenient_sequence: has(ServerDefect::AtomicSeqLenient),
                eob_counts: has(ServerDefect::AtomicEobMaxSize),
                silent_level: has(ServerDefect::UnsupportedAdvisoryMissing),
            },
            atomic: AtomicDefects {
                shifts_last: has(ServerDefect::R1FailedAtomicShiftsLast),
                eob_store_refused: has(ServerDefect::AtomicEobStoreRefused),
            },
            replicas: ReplicaDefects {
                ends_are_untold: has(ServerDefect::GhostBatch),
                passed_over_is_untold: has(ServerDefect::TailDupFalseGap),
                late_commits_are_silent: has(ServerDefect::CommitLostPuback),
                forgets_batches: has(ServerDefect::NoCleanLeaderChange),
                keeps_ids_in_flight: has(ServerDefect::DedupCleanupRace),
            },
            refusals_are_silent: has(ServerDefect::RefusedProposeSilent),
            last_id_leaks: has(ServerDefect::LastMsgIdLeakR1),
            undated_ids: has(ServerDefect::InterestIdsUndated),
            store_twice: has(ServerDefect::StoreTwice),
            plain_size_late: has(ServerDefect::PlainSizeLate),
        }
    }
}
