//! What a server answers on the control channel of a batch: flow ack, gap, flow error, PubAck.
//!
//! Leans on `error_code`. Shapes: ADR-50, "Message Gaps", "Flow Control", "Server Errors" and
//! "Publish Acknowledgements".

use super::error_code::ApiError;
use super::{BatchSequence, StreamSequence};

/// `{"type":"ack"}`: everything up to `sequence` is dealt with, and the next flow ack comes after
/// `messages` more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowAck {
    /// Ack sequence: covers this batch sequence and all before it. 0 in the first ack of a batch.
    pub sequence: BatchSequence,
    /// The flow now in force: an ack every this many messages, 1..=65535.
    pub messages: u16,
}

/// `{"type":"gap"}`: messages `expected..received` never arrived (or, where `received` is lower,
/// a sequence came again).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gap {
    /// `last_seq`: the batch sequence that the server expected next.
    pub expected: BatchSequence,
    /// `seq`: the batch sequence that came instead.
    pub received: BatchSequence,
}

/// `{"type":"err"}`: the message with this sequence was refused; the gap mode says what follows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowError {
    /// Batch sequence of the refused message.
    pub sequence: BatchSequence,
    /// Why it was refused.
    pub error: ApiError,
}

/// The batch is over (or a plain publish is stored): how far it came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PubAck {
    /// Stream sequence of the last message stored; 0 if the batch stored none.
    pub sequence: StreamSequence,
    /// Batch sequence of the commit, an EOB not counted; `None` for a plain publish.
    pub count: Option<BatchSequence>,
    /// The message was known already, and `sequence` is that of the original.
    pub duplicate: bool,
}
