//! Recorded exchanges as values: files, cases and steps, checked as they are read.
//!
//! `tests/vectors/README.md` describes the format. Leans on `parse` for reading, and on the
//! argument types of `nats::wire`, so that every message of a case can be written.

use serde_json::{Map, Value};

use crate::nats::wire::Token;

/// Subjects of replies start with it.
pub const INBOX: &str = "_INBOX.";
/// Stands for a value that differs from run to run.
pub const VOLATILE: &str = "<volatile>";
/// The name of every stream.
pub const STREAM: &str = "S";
/// How the API call begins that makes a leader step down.
pub const STEP_DOWN: &str = "STREAM.LEADER.STEPDOWN.";

/// One file.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorFile {
    /// Where it came from, as given by the user.
    pub file: String,
    /// The server that it was recorded on.
    pub server_version: String,
    /// Replicas of its streams.
    pub replicas: u64,
    /// Its cases.
    pub cases: Vec<Case>,
}

/// One new stream, one connection, and steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Name, unique in its file. `fi-`: fast ingest, `at-`: atomic batch, `dg-`: batch direct get.
    pub name: String,
    /// The server that it was recorded on.
    pub server_version: String,
    /// Replicas of the stream: 1 or 3.
    pub replicas: u64,
    /// Options under `jetstream { limits { batch { … } } }`; values as in a configuration file.
    pub server_batch_limits: Option<Map<String, Value>>,
    /// The configuration that the stream is created with.
    pub initial_config: Map<String, Value>,
    /// `_nats.req.level` in the metadata of the created stream.
    pub required_api_level: Option<Value>,
    /// The error that the creation meets.
    pub create_error: Option<Value>,
    /// The steps.
    pub steps: Vec<Step>,
    /// The case as it stands in the file, without its steps.
    pub raw: Map<String, Value>,
}

impl Case {
    /// What the case is about, by its name.
    pub fn kind(&self) -> Kind {
        match self.name.split_once('-') {
            Some(("fi", _)) => Kind::FastIngest,
            Some(("at", _)) => Kind::AtomicBatch,
            Some(("dg", _)) => Kind::DirectGet,
            _ => Kind::Other,
        }
    }

    /// Whether anything in the case depends on time, so that quiet times must not be cut short.
    pub fn depends_on_time(&self) -> bool {
        let has_timeout = self
            .server_batch_limits
            .as_ref()
            .is_some_and(|limits| limits.contains_key("timeout"));
        has_timeout
            || self
                .steps
                .iter()
                .any(|step| matches!(step.kind, StepKind::Wait(_)))
    }
}

/// What a case is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ADR-50 fast ingest.
    FastIngest,
    /// ADR-50 atomic batches.
    AtomicBatch,
    /// Batch direct get.
    DirectGet,
    /// None of them.
    Other,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The step as it stands in the file.
    pub raw: Map<String, Value>,
    /// What it means.
    pub kind: StepKind,
}

/// What a step means.
#[derive(Clone, Debug, PartialEq)]
pub enum StepKind {
    /// Messages; those of steps that follow each other form one write.
    Publish(Vec<Outgoing>),
    /// What must have come by now, all of it.
    Expect {
        /// Replies in order.
        replies: Vec<Value>,
        /// Advisories in any order.
        advisories: Vec<Value>,
    },
    /// So many milliseconds pass.
    Wait(u64),
    /// These keys are merged into the configuration of the stream.
    Update {
        /// The keys.
        keys: Map<String, Value>,
        /// What the server says.
        reply: Answer,
    },
    /// An API call.
    Api {
        /// Subject after `$JS.API.`.
        subject: String,
        /// Body; `Null` for none.
        body: Value,
        /// What the server says; `None`: anything.
        reply: Option<Answer>,
    },
    /// A direct get, answered on the inbox.
    DirectGet {
        /// The whole subject.
        subject: Token,
        /// The bytes of the request.
        body: Vec<u8>,
    },
    /// What the stream must hold.
    Stored(Value),
}

/// What the server must say to an API call.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Anything without an error.
    Ok,
    /// This error object.
    Error(Value),
}

/// A message to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Subject.
    pub subject: Token,
    /// Reply subject.
    pub reply: Option<Token>,
    /// Header lines in order; `None`: no header block.
    pub headers: Option<Vec<(String, String)>>,
    /// Bytes of payload.
    pub payload_bytes: usize,
    /// The byte that the payload repeats.
    pub filler: u8,
}
