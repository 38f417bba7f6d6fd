//! What goes into and comes out of the server model, with all text interned at the edge.
//!
//! It lies this low because batches and streams speak it too. Leans on the words of `nats`.

use std::sync::Arc;

use crate::nats::ack::{FlowAck, FlowError, Gap, PubAck};
use crate::nats::error_code::ApiError;
use crate::nats::header::Headers;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// A client connection, numbered by the edge (event lane, wire, conformance runner).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId(pub u32);

/// A subject, interned by `Subjects`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubjectId(pub u32);

impl SubjectId {
    /// A subject that no stream takes and whose text the edge keeps to itself.
    pub const UNKNOWN: Self = Self(u32::MAX);
}

/// A batch id (the text between prefix and flow), interned by the edge: equal text, equal handle.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchHandle(pub u32);

/// Where an answer goes. The tag is the edge's own and comes back unchanged: a reply subject that
/// the edge interned, or a batch and sequence packed into a word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReplyTo {
    /// The connection that published.
    pub connection: ConnectionId,
    /// The edge's name for the reply subject.
    pub tag: u64,
}

/// A stream of a server, numbered in the order of creation and never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct StreamNumber(pub u32);

impl StreamNumber {
    /// No stream at all.
    pub const NONE: Self = Self(u32::MAX);
}

/// A payload, kept as its length and a digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Payload {
    /// Bytes.
    pub bytes: u32,
    /// A hash of the content.
    pub digest: u32,
}

/// What the reply subject of a publish says, or else its headers: a reply subject of fast ingest
/// counts before the headers of an atomic batch, as in nats-server 2.15.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// Neither kind of batch: a plain publish.
    Plain,
    /// It ends in `.$FI` and breaks the pattern (error 10206).
    BadPattern,
    /// The batch id is above 64 bytes (error 10207).
    BadBatchId,
    /// A fast-ingest message.
    Fast {
        /// Which batch.
        batch: BatchHandle,
        /// Initial and highest flow, 1..=65535.
        flow: u16,
        /// Gap mode of this message.
        gap: GapMode,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Operation.
        operation: Operation,
    },
    /// The id of its atomic batch is above 64 bytes (error 10179).
    BadAtomicId,
    /// A message of an atomic batch: a [`Membership`], in a form that makes no message larger.
    Atomic {
        /// Which batch.
        batch: BatchHandle,
        /// Batch sequence; 4 294 967 295 for any above it, which no batch reaches.
        sequence: u32,
        /// How the sequence is given.
        given: AtomicSequence,
        /// Whether and how it commits.
        commit: AtomicCommit,
    },
}

impl Control {
    /// What the headers say about an atomic batch, if the message is part of one.
    pub const fn membership(self) -> Option<Membership> {
        match self {
            Self::Atomic {
                batch,
                sequence,
                given,
                commit,
            } => Some(Membership {
                batch,
                sequence: BatchSequence(sequence as u64),
                given,
                commit,
            }),
            Self::Plain
            | Self::BadPattern
            | Self::BadBatchId
            | Self::Fast { .. }
            | Self::BadAtomicId => None,
        }
    }
}

/// What the headers of a message say about its atomic batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// Which batch. Fast and atomic batches with the same id share a handle, and nothing else.
    pub batch: BatchHandle,
    /// `Nats-Batch-Sequence`; 4 294 967 295 for any above it, and unless it is given as a number.
    pub sequence: BatchSequence,
    /// How the sequence is given.
    pub given: AtomicSequence,
    /// `Nats-Batch-Commit`.
    pub commit: AtomicCommit,
}

/// How `Nats-Batch-Sequence` is given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicSequence {
    /// As decimal digits that fit into 64 bits.
    Number,
    /// As something else, more digits included.
    NoNumber,
    /// Not at all, or empty.
    Missing,
}

/// What `Nats-Batch-Commit` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicCommit {
    /// No such header: the batch goes on.
    No,
    /// `1`: this message is the last one.
    Store,
    /// `eob`: the message before was the last one, this one is not stored.
    Eob,
    /// Anything else (error 10200).
    Unknown,
}

/// Why an advisory tells that a batch was abandoned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AbandonReason {
    /// No message for the idle timeout.
    Timeout,
    /// More messages than a batch may have.
    Large,
    /// A sequence that is not the next one.
    Incomplete,
    /// A required API level that is not met.
    Unsupported,
}

impl AbandonReason {
    /// The word in the advisory.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Large => "large",
            Self::Incomplete => "incomplete",
            Self::Unsupported => "unsupported",
        }
    }
}

/// One message published to the stream's subjects.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Publish {
    /// Subject.
    pub subject: SubjectId,
    /// Answers go there; `None` without a reply subject.
    pub reply: Option<ReplyTo>,
    /// What the reply subject says.
    pub control: Control,
    /// Payload.
    pub payload: Payload,
    /// Headers; `None` without a header block.
    pub headers: Option<Arc<Headers>>,
    /// Bytes that count in the ingest queue: subject, reply, header block and payload.
    pub wire_bytes: u32,
}

impl Publish {
    /// Batch, operation and batch sequence of a frame of a batch; `None` for any other message.
    pub const fn frame(&self) -> Option<(BatchHandle, Operation, BatchSequence)> {
        match self.control {
            Control::Fast {
                batch,
                operation,
                sequence,
                ..
            } => Some((batch, operation, sequence)),
            Control::Plain
            | Control::BadPattern
            | Control::BadBatchId
            | Control::BadAtomicId
            | Control::Atomic { .. } => None,
        }
    }
}

/// An answer to a published message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// Flow ack.
    Ack(FlowAck),
    /// Gap.
    Gap(Gap),
    /// Flow error.
    Error(Box<FlowError>),
    /// No bytes: a message of an atomic batch is staged.
    Empty,
    /// PubAck of a plain publish (no batch), or of the batch with this id.
    PubAck(PubAck, Option<BatchHandle>),
    /// Error in place of a PubAck: `{"error":…,"stream":…,"seq":0}`.
    Refused(Box<ApiError>),
    /// Status 503: nobody listens on the subject.
    NoResponders(SubjectId),
    /// Status 429 with error 10167 in the body: the ingest queue is full.
    TooManyRequests,
}

/// Why a message is lost between the servers of a cluster.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Loss {
    /// It reached a replica that leads no more, or was proposed there and drained.
    NoLeader,
    /// It was in a server that went down, or on its way there.
    ServerDown,
    /// It was on a route that went down, or sent to one.
    RouteDown,
}

/// Something that became true inside the server; the driver makes events of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fact {
    /// A batch was opened; so many fast batches are registered now.
    BatchOpened {
        /// Which.
        batch: BatchHandle,
        /// Fast batches registered on the stream.
        open: u32,
        /// First flow.
        flow: u16,
    },
    /// A batch was forgotten, after its end or by the idle timeout.
    BatchForgotten {
        /// Which.
        batch: BatchHandle,
        /// By the idle timeout.
        idle: bool,
    },
    /// A message went into the stream.
    Stored {
        /// Its batch, if it has one.
        batch: Option<BatchHandle>,
        /// Batch sequence; 0 without a batch.
        sequence: BatchSequence,
        /// Which stream.
        stream: StreamNumber,
        /// Stream sequence.
        stream_sequence: StreamSequence,
        /// Payload.
        payload: Payload,
    },
    /// A message of a batch was a duplicate by message id.
    Deduplicated {
        /// Which batch.
        batch: BatchHandle,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Payload.
        payload: Payload,
    },
    /// A frame of a batch was refused.
    Rejected {
        /// Which batch.
        batch: BatchHandle,
        /// What the frame asked for.
        operation: Operation,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Payload.
        payload: Payload,
        /// `err_code`.
        code: u16,
    },
    /// The ingest queue was full: a frame of a batch is lost.
    Overflowed {
        /// Which batch.
        batch: BatchHandle,
        /// What the frame asked for.
        operation: Operation,
        /// Batch sequence.
        sequence: BatchSequence,
    },
    /// No stream takes its subject: a frame of a batch reaches nobody.
    Unheard {
        /// Which batch.
        batch: BatchHandle,
        /// What the frame asked for.
        operation: Operation,
        /// Batch sequence.
        sequence: BatchSequence,
    },
    /// A frame of a batch is lost between the servers of a cluster, without an answer.
    LostInside {
        /// Which batch.
        batch: BatchHandle,
        /// What the frame asked for.
        operation: Operation,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Why.
        loss: Loss,
    },
    /// A new leader has less in its stream than was stored before: machines lost their power, and
    /// with it what they had not synced.
    Rewound {
        /// Where the stream ends now.
        last: StreamSequence,
        /// So many messages are gone.
        lost: u64,
    },
    /// A batch was abandoned, and an advisory tells so.
    Abandoned {
        /// Which.
        batch: BatchHandle,
        /// On which stream.
        stream: StreamNumber,
        /// Why.
        reason: AbandonReason,
    },
    /// A queue of API requests was full on this server: so many are dropped, and an advisory tells so.
    ApiDropped {
        /// Which server.
        server: u8,
        /// How many requests.
        requests: u32,
    },
    /// A stream with replicas is led by this one, or by none.
    Leader(Option<u8>),
    /// What became true of an atomic batch.
    Atomic(AtomicFact),
}

/// Something that became true of an atomic batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicFact {
    /// It was opened.
    Opened {
        /// Which.
        batch: BatchHandle,
    },
    /// A message of it went into the stream.
    Stored {
        /// Which batch.
        batch: BatchHandle,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Which stream.
        stream: StreamNumber,
        /// Stream sequence.
        stream_sequence: StreamSequence,
        /// Payload.
        payload: Payload,
    },
    /// A message of it will not be stored: it was refused or lost, or its batch is over. An end of
    /// batch is none.
    Dropped {
        /// Which batch.
        batch: BatchHandle,
        /// Batch sequence.
        sequence: BatchSequence,
        /// Payload.
        payload: Payload,
    },
    /// It is forgotten: committed, refused or abandoned.
    Forgotten {
        /// Which.
        batch: BatchHandle,
        /// All of it is in the stream.
        committed: bool,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Millions of them lie in queues.
    #[test]
    fn a_control_takes_sixteen_bytes() {
        assert_eq!(size_of::<Control>(), 16);
    }
}
