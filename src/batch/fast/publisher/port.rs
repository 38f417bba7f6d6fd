//! What goes into a fast publisher and what comes out of it.
//!
//! Leans on the words of `nats`.

use crate::nats::ack::{FlowAck, Gap, PubAck};
use crate::nats::{BatchSequence, Operation};

/// How a batch ended for its publisher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// A PubAck answered the commit.
    Committed = 0,
    /// The server ended the batch early (gap, refused message) and said so in a PubAck.
    EndedByServer = 1,
    /// The server refused the batch with an error.
    Refused = 2,
    /// No reply within the ack timeout.
    TimedOut = 3,
    /// Nobody listens on the subject (status 503).
    NoResponders = 4,
    /// The publisher left without a commit, as the file says.
    Abandoned = 5,
    /// The run ended first (Ctrl-C, time limit).
    Interrupted = 6,
    /// The client gave up for a reason of its own (a frame it cannot read, a closed connection).
    ClientError = 7,
}

/// What can happen to a publisher.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// One more message, only after [`Action::Ready`] (or as the very first input).
    Offer,
    /// The last message: it is stored and commits. Same condition as `Offer`.
    Commit,
    /// The end of the batch, without a message. Same condition as `Offer`.
    CommitEob,
    /// A frame arrived on the control channel.
    Reply(ControlFrame),
    /// The connection did not take the message with this sequence.
    PublishFailed(BatchSequence),
}

/// A frame on the control channel, as far as a publisher cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ControlFrame {
    /// Flow ack.
    Ack(FlowAck),
    /// Gap.
    Gap(Gap),
    /// Flow error with the `err_code` of its cause.
    Error {
        /// The refused message.
        sequence: BatchSequence,
        /// `err_code`.
        code: u16,
    },
    /// The batch is over.
    PubAck(PubAck),
    /// An error in place of the PubAck, by `err_code`.
    Refused(u16),
    /// A status without a body: 503 or 429.
    Status(u16),
}

/// What a publisher wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Send a message, an end of batch or a ping with this sequence.
    Publish {
        /// Operation of the reply subject.
        operation: Operation,
        /// Batch sequence of the reply subject.
        sequence: BatchSequence,
    },
    /// There is room for one more offer.
    Ready,
    /// The gate is shut.
    Blocked,
    /// The wait at the gate is over: an ack came, or the server ended the batch.
    Unblocked,
    /// The batch is over, and with it any wait; nothing follows.
    Ended(End),
}

/// How the batch ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct End {
    /// In one word.
    pub outcome: Outcome,
    /// The error that ended it, 0 if none: an `err_code`, or 503.
    pub code: u16,
    /// The highest sequence known to be covered by an ack.
    pub acknowledged: BatchSequence,
    /// The PubAck, if one came.
    pub pub_ack: Option<PubAck>,
}
