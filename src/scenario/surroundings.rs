//! `[server]`, `[disk]`, `[network]`: what the simulator models around the publishers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defect::Defect;
use crate::machine::Time;
use crate::units::{BitRate, Bytes, Span};

/// The modelled server. Costs are measured once on one machine and uncalibrated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Which nats-server is modelled.
    pub version: ModelledVersion,
    /// Flow shared by the fast batches of a stream, 1..=65535.
    #[schemars(range(min = 1, max = 65_535))]
    pub flow_total: u16,
    /// How it is shared. All but the first are experiments.
    pub flow_policy: FlowPolicy,
    /// A batch of either kind without messages for this long is forgotten.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub batch_idle_timeout: Span,
    /// Most fast batches in flight on a stream, 1 or more. Other than the default it holds for atomic
    /// batches too, as the option of nats-server does; they are 50 otherwise.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batches_per_stream: u32,
    /// Most fast batches in flight on the server, 1 or more. Other than the default it holds for
    /// atomic batches too; they are 1,000 otherwise.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batches_per_server: u32,
    /// Most messages of an atomic batch, 1 or more.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub atomic_batch_messages: u32,
    /// Most messages in the ingest queue of a stream, 1 or more.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub ingest_messages: u32,
    /// Most bytes in the ingest queue of a stream.
    #[schemars(extend("x-minimum" = "1KiB", "x-maximum" = "1024GiB"))]
    pub ingest_bytes: Bytes,
    /// Server time for each message taken from the ingest queue.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1s"))]
    pub message_cost: Span,
    /// Server time for each KiB of such a message.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1s"))]
    pub kibibyte_cost: Span,
    /// Time that a worker of the API is busy with a call.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub api_cost: Span,
    /// Requests of the API that are worked on at a time. nats-server takes as many as there are
    /// processors, 16 at most.
    #[schemars(range(min = 1, max = 16))]
    pub api_workers: u8,
    /// Requests of the API that wait: with so many, all of them are dropped (`request_queue_limit`).
    #[schemars(range(min = 1, max = 1_000_000))]
    pub api_queue: u32,
    /// Bugs switched on in the model or the core client, for the judges to find.
    #[schemars(length(min = 0, max = 100))]
    pub defects: Vec<Defect>,
    /// Bugs of the version that this server does not have.
    #[schemars(length(min = 0, max = 100))]
    pub repaired: Vec<Defect>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            version: ModelledVersion::default(),
            flow_total: 500,
            flow_policy: FlowPolicy::default(),
            batch_idle_timeout: Span(Time::from_secs(10)),
            batches_per_stream: 1_000,
            batches_per_server: 50_000,
            atomic_batch_messages: 1_000,
            ingest_messages: 100_000,
            ingest_bytes: Bytes(128 << 20),
            message_cost: Span(Time::from_nanos(3_600)),
            kibibyte_cost: Span(Time::from_nanos(2_300)),
            api_cost: Span(Time::from_micros(200)),
            api_workers: 2,
            api_queue: 10_000,
            defects: Vec::new(),
            repaired: Vec::new(),
        }
    }
}

/// A rule by which a server grants flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowPolicy {
    /// Evenly among the batches of a stream: what nats-server does.
    #[default]
    EvenShare,
    /// Of that, as much as there is room for in the ingest queue.
    IngestQueue,
    /// Of that, the less the more messages are proposed and not applied: nothing at 10,000.
    RaftBacklog,
    /// The less of the two.
    Both,
}

/// A nats-server that can be modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum ModelledVersion {
    /// The first release with fast ingest.
    #[serde(rename = "2.14.0")]
    V2_14_0,
    /// The last of its line that was recorded.
    #[serde(rename = "2.14.6")]
    V2_14_6,
    /// The default.
    #[default]
    #[serde(rename = "2.15.1")]
    V2_15_1,
}

/// Each direction of each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSettings {
    /// One-way latency.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub latency: Span,
    /// Largest extra latency, drawn evenly for each frame; order is kept.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub jitter: Span,
    /// Bandwidth.
    #[schemars(extend("x-minimum" = "1kbit/s", "x-maximum" = "1000Gbit/s"))]
    pub bandwidth: BitRate,
    /// Most bytes under way, unacknowledged by the far end.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1GiB"))]
    pub window: Bytes,
    /// One-way latency between two servers of a cluster.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub route_latency: Span,
    /// Bandwidth between two servers.
    #[schemars(extend("x-minimum" = "1kbit/s", "x-maximum" = "1000Gbit/s"))]
    pub route_bandwidth: BitRate,
    /// How long a client whose server went down needs to be connected to another one; in the event
    /// lane.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub reconnect: Span,
}

impl Default for NetworkSettings {
    fn default() -> Self {
        Self {
            latency: Span(Time::from_micros(100)),
            jitter: Span::default(),
            bandwidth: BitRate(10_000_000_000),
            window: Bytes(4 << 20),
            route_latency: Span(Time::from_micros(100)),
            route_bandwidth: BitRate(10_000_000_000),
            reconnect: Span(Time::from_millis(10)),
        }
    }
}

/// RAFT, where the stream has replicas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RaftSettings {
    /// Shortest silence of the leader after which a follower campaigns.
    #[schemars(extend("x-minimum" = "10ms", "x-maximum" = "1h"))]
    pub election_timeout_min: Span,
    /// Longest such silence; each is drawn evenly between the two.
    #[schemars(extend("x-minimum" = "10ms", "x-maximum" = "1h"))]
    pub election_timeout_max: Span,
    /// Shortest wait of a replica that has just refused a vote for a log behind its own.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub campaign_timeout_min: Span,
    /// Longest such wait; each is drawn evenly between the two.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub campaign_timeout_max: Span,
    /// How long the replica that a leader hands over to waits before it campaigns.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub transfer_delay: Span,
    /// Interval of heartbeats.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub heartbeat: Span,
    /// A leader that has not heard a quorum for this long steps down; it looks as often.
    #[schemars(extend("x-minimum" = "10ms", "x-maximum" = "1h"))]
    pub lost_quorum: Span,
    /// Bytes of proposals at which an append entry is full.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "64MiB"))]
    pub batch_bytes: Bytes,
    /// Proposals at which an append entry is full.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub batch_entries: u32,
    /// Append entries not committed or not applied above which a leader steps down.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub overrun: u64,
    /// Append entries not applied down to which a follower has to come before it takes more.
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub overrun_resume: u64,
    /// Bytes on their way in a catch-up beyond which no more are sent.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1GiB"))]
    pub catchup_bytes: Bytes,
    /// Time without progress after which either side gives a catch-up up.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub catchup_stall: Span,
    /// Time of the leader for each message that it proposes, besides `server.message_cost`.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub propose_cost: Span,
    /// The same for each KiB of it, besides `server.kibibyte_cost`.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub propose_kibibyte_cost: Span,
    /// Time that a replica needs to apply a message.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub apply_cost: Span,
    /// Applied append entries in the log at which a replica takes a snapshot and lets them go.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub snapshot_entries: u64,
}

impl Default for RaftSettings {
    fn default() -> Self {
        Self {
            election_timeout_min: Span(Time::from_secs(4)),
            election_timeout_max: Span(Time::from_secs(9)),
            campaign_timeout_min: Span(Time::from_millis(100)),
            campaign_timeout_max: Span(Time::from_millis(800)),
            transfer_delay: Span(Time::from_millis(10)),
            heartbeat: Span(Time::from_secs(1)),
            lost_quorum: Span(Time::from_secs(10)),
            batch_bytes: Bytes(256 << 10),
            batch_entries: 4_096,
            overrun: 100_000,
            overrun_resume: 10_000,
            catchup_bytes: Bytes(2 << 20),
            catchup_stall: Span(Time::from_secs(2)),
            propose_cost: Span(Time::from_micros(6)),
            propose_kibibyte_cost: Span(Time::from_micros(5)),
            apply_cost: Span(Time::from_micros(1)),
            snapshot_entries: 65_536,
        }
    }
}

/// The disk under a file store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiskSettings {
    /// Time of one write call, without its bytes.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub write_latency: Span,
    /// Bytes per second.
    #[schemars(extend("x-minimum" = "1kB", "x-maximum" = "1000GB"))]
    pub bytes_per_second: Bytes,
    /// When written data is synced.
    pub sync: SyncPolicy,
    /// Time of one sync.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub sync_latency: Span,
    /// Time to write a small file anew and sync it, whatever `sync` says: a replica's term and vote, and
    /// snapshots that it takes over.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1m"))]
    pub file_latency: Span,
}

impl Default for DiskSettings {
    fn default() -> Self {
        Self {
            write_latency: Span(Time::from_nanos(700)),
            bytes_per_second: Bytes(1_000_000_000),
            sync: SyncPolicy::Never,
            sync_latency: Span(Time::from_micros(210)),
            file_latency: Span(Time::from_millis(4)),
        }
    }
}

/// When written data reaches the disk for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SyncPolicy {
    /// In the background, at no cost to a message (nats-server's default: every two minutes).
    Never,
    /// After each message (`sync_interval: always`).
    Always,
}
