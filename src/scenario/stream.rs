//! `[stream]`: the stream that takes the messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::Time;
use crate::units::{Bytes, Span};

/// Stands for the number of a stream in its subjects and those of its publishers.
pub(super) const STREAM: &str = "{stream}";

/// The stream of the run. Absent limits are unlimited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamSettings {
    /// Name; where there are several streams, `_` and the number of each follow.
    #[schemars(length(min = 1, max = 255))]
    pub name: String,
    /// Streams that the publishers are spread over in turn, publisher by publisher. The simulator has one.
    #[schemars(range(min = 1, max = 1000))]
    pub count: u32,
    /// Subjects, with wildcards; `{stream}` becomes the stream's number.
    #[schemars(length(min = 1, max = 1000))]
    pub subjects: Vec<String>,
    /// Where messages are kept.
    pub storage: Storage,
    /// Replicas, 1, 3 or 5. The simulator models 1 for now.
    #[schemars(extend("enum" = [1, 3, 5]))]
    pub replicas: u8,
    /// What happens at a limit.
    pub discard: Discard,
    /// Most messages kept.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_u64))]
    pub max_messages: Option<u64>,
    /// Most bytes kept.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1048576GiB"))]
    pub max_bytes: Option<Bytes>,
    /// Largest message: headers and payload.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "64MiB"))]
    pub max_message_size: Option<Bytes>,
    /// Most messages kept of one subject.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_u64))]
    pub max_messages_per_subject: Option<u64>,
    /// With `discard = "new"`: refuse at the limit of a subject, too.
    pub discard_new_per_subject: bool,
    /// How long message ids are remembered.
    #[schemars(extend("x-minimum" = "100ms", "x-maximum" = "24h"))]
    pub duplicate_window: Span,
    /// Whether the stream takes fast batches.
    pub allow_batched: bool,
    /// Whether the stream takes atomic batches.
    pub allow_atomic: bool,
    /// No answers to publishes (a batch loses its first ack by it).
    pub no_ack: bool,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            name: "TIDEGATE".to_owned(),
            count: 1,
            subjects: vec!["tidegate.>".to_owned()],
            storage: Storage::File,
            replicas: 1,
            discard: Discard::Old,
            max_messages: None,
            max_bytes: None,
            max_message_size: None,
            max_messages_per_subject: None,
            discard_new_per_subject: false,
            duplicate_window: Span(Time::from_secs(120)),
            allow_batched: true,
            allow_atomic: false,
            no_ack: false,
        }
    }
}

impl StreamSettings {
    /// All streams of a run, one by one.
    pub fn each(&self) -> impl Iterator<Item = Self> + '_ {
        (0..self.count).map(|number| self.numbered(number))
    }

    /// Stream `number` of a run, from 0, as the only one: its name and subjects have its number.
    pub fn numbered(&self, number: u32) -> Self {
        Self {
            name: match self.count {
                1 => self.name.clone(),
                _ => format!("{}_{number}", self.name),
            },
            count: 1,
            subjects: self.subjects_of(number),
            ..self.clone()
        }
    }

    /// What stream `number` takes.
    pub fn subjects_of(&self, number: u32) -> Vec<String> {
        let number = number.to_string();
        let subjects = self.subjects.iter();
        subjects
            .map(|subject| subject.replace(STREAM, &number))
            .collect()
    }
}

/// Where a stream keeps its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// In files.
    File,
    /// In memory.
    Memory,
}

/// What a stream does at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Discard {
    /// Drops the oldest messages.
    Old,
    /// Refuses new messages.
    New,
}
