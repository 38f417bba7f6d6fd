//! The words of the protocol: what is written on the wire, parsed and printed, without state.
//!
//! Leans on nothing of ours.

pub mod ack;
pub mod error_code;
pub mod header;
pub mod reply;
pub mod subject;
pub mod version;
pub mod wire;

use std::fmt;

/// Most bytes of header block and payload of one message, unless a server is configured otherwise:
/// `max_payload`, `MAX_PAYLOAD_SIZE` in nats-server's `const.go`.
pub const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Position of a message within its batch; the first is 1. Zero stands for "none yet".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BatchSequence(pub u64);

impl BatchSequence {
    /// The sequence after this one.
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for BatchSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Position of a message in its stream; the first is 1. Zero stands for "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamSequence(pub u64);

impl fmt::Display for StreamSequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a gap in the batch sequence means: ADR-50, "Message Gaps".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GapMode {
    /// A gap is reported and the batch goes on.
    Ok,
    /// A gap ends the batch.
    Fail,
}

impl GapMode {
    /// The word in the reply subject.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
        }
    }
}

/// What a fast-ingest message asks for: the operation token of its reply subject.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Starts a batch; its sequence is 1.
    Start = 0,
    /// Appends to a batch.
    Append = 1,
    /// Stores the final message and ends the batch.
    Commit = 2,
    /// Ends the batch without storing this message ("end of batch").
    CommitEob = 3,
    /// Keeps the batch alive and asks for the last flow ack.
    Ping = 4,
}

impl Operation {
    /// The operation with this number, if the server knows it.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Start),
            1 => Some(Self::Append),
            2 => Some(Self::Commit),
            3 => Some(Self::CommitEob),
            4 => Some(Self::Ping),
            _ => None,
        }
    }

    /// Whether the message itself goes into the stream.
    pub const fn stores(self) -> bool {
        matches!(self, Self::Start | Self::Append | Self::Commit)
    }
}
