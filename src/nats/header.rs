//! Header blocks: the lines in their order, and the headers that a stream reads.
//!
//! Leans on nothing of ours.

/// `Nats-Msg-Id`: deduplication.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// `Nats-Expected-Stream`: the stream that must take the message.
pub const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// `Nats-Expected-Last-Sequence`: last sequence of the stream.
pub const EXPECTED_LAST_SEQUENCE: &str = "Nats-Expected-Last-Sequence";
/// `Nats-Expected-Last-Subject-Sequence`: last sequence of a subject.
pub const EXPECTED_LAST_SUBJECT_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
/// `Nats-Expected-Last-Subject-Sequence-Subject`: the subject meant by the former.
pub const EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: &str =
    "Nats-Expected-Last-Subject-Sequence-Subject";
/// `Nats-Expected-Last-Msg-Id`: message id of the last message.
pub const EXPECTED_LAST_MESSAGE_ID: &str = "Nats-Expected-Last-Msg-Id";
/// `Nats-Required-Api-Level`: lowest API level that the server must have.
pub const REQUIRED_API_LEVEL: &str = "Nats-Required-Api-Level";
/// `Nats-TTL`: time to live of one message.
pub const TTL: &str = "Nats-TTL";
/// `Nats-Rollup`: replaces older messages of the subject or the stream.
pub const ROLLUP: &str = "Nats-Rollup";

/// A header block: at least the status line, then lines in the order sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Headers {
    lines: Vec<(String, String)>,
}

impl Headers {
    /// A block with these lines.
    pub const fn new(lines: Vec<(String, String)>) -> Self {
        Self { lines }
    }

    /// The lines, in order.
    pub fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// The first value of `name`; names are compared as they stand, as nats-server does.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Takes out every line called `name`.
    pub fn remove(&mut self, name: &str) {
        self.lines.retain(|(key, _)| key != name);
    }

    /// Bytes of the block on the wire: `NATS/1.0` CRLF, `name: value` CRLF each, CRLF.
    pub fn wire_bytes(&self) -> usize {
        10 + self
            .lines
            .iter()
            .map(|(key, value)| key.len() + value.len() + 4)
            .sum::<usize>()
            + 2
    }
}
