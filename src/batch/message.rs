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

/// What the reply subject of a publish says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// No fast-ingest reply subject: a plain publish.
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
            Control::Plain | Control::BadPattern | Control::BadBatchId => None,
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
    /// PubAck of a plain publish (no batch), or of the batch with this id.
    PubAck(PubAck, Option<BatchHandle>),
    /// Error in place of a PubAck: `{"error":…,"stream":…,"seq":0}`.
    Refused(Box<ApiError>),
    /// Status 503: nobody listens on the subject.
    NoResponders(SubjectId),
    /// Status 429 with error 10167 in the body: the ingest queue is full.
    TooManyRequests,
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
    },
    /// A message of a batch was refused.
    Rejected {
        /// Which batch.
        batch: BatchHandle,
        /// Batch sequence.
        sequence: BatchSequence,
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
}
