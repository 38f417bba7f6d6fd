//! One modelled nats-server: ingest queue, internal loop, out-queue and API around its streams.
//!
//! Leans on `stream`, `batch` and `net::disk`.

pub mod message;

use std::collections::BTreeSet;

use crate::machine::Time;
use crate::net::disk::Disk;
use message::{Fact, Publish, Reply, ReplyTo};

/// What the modelled server is like.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServerModel {
    /// Highest API level: 5 on 2.15.
    pub api_level: u32,
    /// Flow shared by the fast batches of a stream.
    pub flow_total: u16,
    /// Idle time after which a batch is forgotten.
    pub batch_idle_timeout: Time,
    /// Most fast batches per stream.
    pub batches_per_stream: u32,
    /// Most fast batches per server.
    pub batches_per_server: u32,
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
    /// The disk under file stores.
    pub disk: Disk,
    /// Bugs switched on.
    pub defects: BTreeSet<ServerDefect>,
}

/// Bugs of the server half, for judges to find.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServerDefect {
    /// Acks a full flow interval before it is stored.
    AckBeforeStore,
    /// The PubAck counts one message too many.
    PubAckCountsOneMore,
    /// Each hundredth message of a batch is stored twice.
    StoreTwice,
    /// Every second flow ack only is sent.
    AckHalfAsOften,
}

/// What happens to the server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A message arrived on a connection.
    Publish(Publish),
    /// The driver's answer to [`Action::Choose`].
    Chosen(Source),
}

/// What the internal loop turns to next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The ingest queue.
    Ingest,
    /// The out-queue.
    Out,
}

/// What the server wants done, and what became true in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A frame leaves for a client.
    Send {
        /// Where to.
        to: ReplyTo,
        /// What.
        reply: Reply,
    },
    /// Ingest and out-queue are both ready: the driver draws which is served first.
    Choose,
    /// A fact for events.
    Fact(Fact),
}
