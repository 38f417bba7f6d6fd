//! The configuration of a stream, as the JetStream API writes it in JSON.
//!
//! What the model acts on is typed; what it does not know is kept as it came, so that a client
//! reads back what it sent. Leans on `machine` and the error codes of `nats`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::machine::Time;
use crate::nats::error_code::{ApiError, Detail, ErrorCode};

/// Where a stream keeps its messages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Storage {
    /// In files.
    #[default]
    File,
    /// In memory.
    Memory,
}

/// What a stream does at a limit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Discard {
    /// Drops the oldest messages.
    #[default]
    Old,
    /// Refuses new messages.
    New,
}

/// When a message has done its duty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retention {
    /// At the limits.
    #[default]
    Limits,
    /// When every consumer has it. The model has no consumers: nothing is kept.
    Interest,
    /// When a consumer has it.
    Workqueue,
}

/// How file writes are flushed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PersistMode {
    /// Before a message is acknowledged.
    #[default]
    Default,
    /// In the background.
    Async,
}

/// A stream configuration. Limits of -1 or 0 mean "no limit"; spans are nanoseconds.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    /// Name.
    pub name: String,
    /// Subjects, with wildcards; none given and no mirror: the name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subjects: Vec<String>,
    /// Retention.
    pub retention: Retention,
    /// Most consumers: carried only.
    pub max_consumers: i64,
    /// Most messages.
    pub max_msgs: i64,
    /// Most bytes of records.
    pub max_bytes: i64,
    /// Greatest age: carried only, messages do not expire in the model.
    pub max_age: i64,
    /// Most messages of one subject.
    pub max_msgs_per_subject: i64,
    /// Largest message: header block and payload.
    pub max_msg_size: i64,
    /// What happens at a limit.
    pub discard: Discard,
    /// With [`Discard::New`]: refuse at the limit of a subject, too.
    #[serde(skip_serializing_if = "is_false")]
    pub discard_new_per_subject: bool,
    /// Where messages are kept.
    pub storage: Storage,
    /// Replicas. One server: 1.
    pub num_replicas: u32,
    /// No answers to publishes.
    #[serde(skip_serializing_if = "is_false")]
    pub no_ack: bool,
    /// How long message ids are remembered; 0: two minutes.
    pub duplicate_window: i64,
    /// The stream that this one copies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<Value>,
    /// Nothing goes in or out any more.
    pub sealed: bool,
    /// Messages cannot be deleted.
    pub deny_delete: bool,
    /// The stream cannot be purged.
    pub deny_purge: bool,
    /// Messages may roll up older ones.
    pub allow_rollup_hdrs: bool,
    /// Reads past the API: carried only.
    pub allow_direct: bool,
    /// Messages may carry a time to live.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_msg_ttl: bool,
    /// The stream takes atomic batches.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_atomic: bool,
    /// The stream takes fast batches.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_batched: bool,
    /// How file writes are flushed.
    #[serde(skip_serializing_if = "is_default_persist")]
    pub persist_mode: PersistMode,
    /// Free text by key; the server adds its own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Whatever else the client sent.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_default_persist(mode: &PersistMode) -> bool {
    matches!(mode, PersistMode::Default)
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            subjects: Vec::new(),
            retention: Retention::Limits,
            max_consumers: -1,
            max_msgs: -1,
            max_bytes: -1,
            max_age: 0,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            discard: Discard::Old,
            discard_new_per_subject: false,
            storage: Storage::File,
            num_replicas: 1,
            no_ack: false,
            duplicate_window: 0,
            mirror: None,
            sealed: false,
            deny_delete: false,
            deny_purge: false,
            allow_rollup_hdrs: false,
            allow_direct: false,
            allow_msg_ttl: false,
            allow_atomic: false,
            allow_batched: false,
            persist_mode: PersistMode::Default,
            metadata: BTreeMap::new(),
            other: BTreeMap::new(),
        }
    }
}
