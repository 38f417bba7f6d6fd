//! The configuration of a stream, as the JetStream API writes it in JSON.
//!
//! What the model acts on is typed; what it does not know is kept as it came, so that a client
//! reads back what it sent. Leans on `machine` and the error codes of `nats`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::failure::ApiFailure;
use crate::machine::Time;
use crate::nats::error_code::ErrorCode;
use crate::nats::version::ServerVersion;

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

/// What a stream does with its configuration beyond the text of it.
impl StreamConfig {
    /// The limit if there is one.
    pub fn limit(value: i64) -> Option<u64> {
        u64::try_from(value).ok().filter(|limit| *limit > 0)
    }

    /// How long message ids are remembered.
    pub fn dedup_window(&self) -> Time {
        Time::from_nanos(u64::try_from(self.duplicate_window).unwrap_or(0))
    }

    /// The API level that the configuration needs.
    pub const fn required_level(&self) -> u32 {
        if self.allow_batched {
            4
        } else if self.allow_atomic || matches!(self.persist_mode, PersistMode::Async) {
            2
        } else if self.allow_msg_ttl {
            1
        } else {
            0
        }
    }

    /// The configuration with every default filled in, as a server of this version keeps it.
    ///
    /// # Errors
    /// As the server refuses it: batches on a mirror, an unlawful mixture of features.
    pub fn complete(mut self, version: ServerVersion) -> Result<Self, ApiFailure> {
        self.check()?;
        for limit in [
            &mut self.max_consumers,
            &mut self.max_msgs,
            &mut self.max_bytes,
            &mut self.max_msgs_per_subject,
            &mut self.max_msg_size,
        ] {
            if *limit <= 0 {
                *limit = -1;
            }
        }
        if self.num_replicas == 0 {
            self.num_replicas = 1;
        }
        if self.subjects.is_empty() && self.mirror.is_none() {
            self.subjects.push(self.name.clone());
        }
        if self.duplicate_window == 0 && self.mirror.is_none() {
            self.duplicate_window = if self.max_age > 0 {
                self.max_age.min(DEFAULT_DUPLICATE_WINDOW)
            } else {
                DEFAULT_DUPLICATE_WINDOW
            };
        }
        self.other
            .entry("compression".to_owned())
            .or_insert_with(|| Value::from("none"));
        self.other
            .entry("consumer_limits".to_owned())
            .or_insert_with(|| Value::Object(serde_json::Map::new()));
        self.other
            .entry("mirror_direct".to_owned())
            .or_insert(Value::Bool(false));
        for (key, value) in [
            ("_nats.level", version.api_level().to_string()),
            ("_nats.req.level", self.required_level().to_string()),
            ("_nats.ver", version.to_string()),
        ] {
            self.metadata.insert(key.to_owned(), value);
        }
        Ok(self)
    }

    /// The first rule that the configuration breaks, in the server's order.
    fn check(&self) -> Result<(), ApiFailure> {
        let mirror = self.mirror.is_some();
        let asynchronous = self.persist_mode == PersistMode::Async;
        let invalid = ApiFailure::invalid_config;
        let rules = [
            (
                self.duplicate_window < 0,
                invalid("duplicates window can not be negative"),
            ),
            (
                self.duplicate_window != 0 && self.duplicate_window < SHORTEST_DUPLICATE_WINDOW,
                invalid("duplicates window needs to be >= 100ms"),
            ),
            (
                self.allow_rollup_hdrs && self.deny_purge,
                invalid("roll-ups require the purge permission"),
            ),
            (
                self.discard_new_per_subject && self.discard == Discard::Old,
                invalid("discard new per subject requires discard new policy to be set"),
            ),
            (
                self.discard_new_per_subject && Self::limit(self.max_msgs_per_subject).is_none(),
                invalid("discard new per subject requires max msgs per subject > 0"),
            ),
            (
                asynchronous && self.storage == Storage::Memory,
                invalid("async persist mode is only supported on file storage"),
            ),
            (
                asynchronous && self.num_replicas > 1,
                invalid("async persist mode is not supported on replicated streams"),
            ),
            (
                asynchronous && self.allow_atomic,
                ErrorCode::AsyncPersistAtomic.into(),
            ),
            (
                mirror && !self.subjects.is_empty(),
                ApiFailure::new(400, 10034, "stream mirrors can not contain subjects"),
            ),
            (mirror && self.allow_atomic, ErrorCode::MirrorAtomic.into()),
            (mirror && self.allow_batched, ErrorCode::MirrorBatch.into()),
        ];
        let broken = rules.into_iter().find(|(broken, _)| *broken);
        broken.map_or(Ok(()), |(_, failure)| Err(failure))
    }

    /// This configuration, complete, in place of `current`.
    ///
    /// # Errors
    /// As the server refuses it: what cannot change, and all that [`StreamConfig::complete`] refuses.
    pub fn replace(self, current: &Self, version: ServerVersion) -> Result<Self, ApiFailure> {
        let mut next = self;
        if next.subjects.is_empty() && next.mirror.is_none() {
            next.subjects.clone_from(&current.subjects);
        }
        let mut next = next.complete(version)?;
        let workqueue = |config: &Self| config.retention == Retention::Workqueue;
        let wrong = if next.storage != current.storage {
            "stream configuration update can not change storage type"
        } else if workqueue(&next) != workqueue(current) {
            "stream configuration update can not change retention policy to/from workqueue"
        } else if current.sealed && !next.sealed {
            "stream configuration update can not unseal a sealed stream"
        } else if current.deny_delete && !next.deny_delete {
            "stream configuration update can not cancel deny message deletes"
        } else if current.deny_purge && !next.deny_purge {
            "stream configuration update can not cancel deny purge"
        } else if current.allow_msg_ttl && !next.allow_msg_ttl {
            "message TTL status can not be disabled"
        } else if next.persist_mode != current.persist_mode {
            "stream configuration update can not change persist mode"
        } else {
            ""
        };
        if !wrong.is_empty() {
            return Err(ApiFailure::invalid_config(wrong));
        }
        if next.sealed {
            next.max_age = 0;
            next.discard = Discard::New;
            next.deny_delete = true;
            next.deny_purge = true;
            next.allow_rollup_hdrs = false;
        }
        Ok(next)
    }
}

const DEFAULT_DUPLICATE_WINDOW: i64 = 120_000_000_000;
const SHORTEST_DUPLICATE_WINDOW: i64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(change: impl FnOnce(&mut StreamConfig)) -> Result<StreamConfig, u16> {
        let mut config = StreamConfig {
            name: "S".to_owned(),
            ..StreamConfig::default()
        };
        change(&mut config);
        config
            .complete(ServerVersion::default())
            .map_err(|failure| failure.number)
    }

    /// ADR-50 [stream.mirror.atomic, stream.mirror.fast]
    #[test]
    fn a_mirror_takes_no_batches_of_either_kind() {
        let mirror = |config: &mut StreamConfig| config.mirror = Some(Value::from("Q"));
        assert!(complete(mirror).is_ok());
        let atomic = complete(|config| {
            mirror(config);
            config.allow_atomic = true;
        });
        assert_eq!(atomic, Err(10198));
        let fast = complete(|config| {
            mirror(config);
            config.allow_batched = true;
        });
        assert_eq!(fast, Err(10209));
    }

    /// ADR-50 [stream.async.atomic, stream.async.fast]
    #[test]
    fn writing_in_the_background_goes_with_fast_batches_only() {
        let asynchronous = |config: &mut StreamConfig| config.persist_mode = PersistMode::Async;
        let atomic = complete(|config| {
            asynchronous(config);
            config.allow_atomic = true;
        });
        assert_eq!(atomic, Err(10052));
        let fast = complete(|config| {
            asynchronous(config);
            config.allow_batched = true;
        });
        assert!(fast.is_ok());
    }

    /// ADR-50 [stream.level, stream.switch]
    #[test]
    fn each_kind_of_batch_alone_and_both_together_need_a_level() {
        let level = |atomic, batched| {
            let config = complete(|config| {
                config.allow_atomic = atomic;
                config.allow_batched = batched;
            });
            config.map(|config| config.metadata["_nats.req.level"].clone())
        };
        for (atomic, batched, needed) in [
            (false, false, "0"),
            (true, false, "2"),
            // The server asks for 4 where the text says 3.
            (false, true, "4"),
            (true, true, "4"),
        ] {
            assert_eq!(level(atomic, batched).as_deref(), Ok(needed));
        }
    }
}
