//! What the leader of a stream with replicas proposes to them, and what comes of it.
//!
//! Leans on `batch::message` and `purge`.

use super::failure::ApiFailure;
use super::purge::Purge;
use crate::batch::message::{BatchHandle, Publish};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// Encoded size of a message in a proposal without its texts and payload (`encodeStreamMsg`).
const MESSAGE_BYTES: u64 = 27;
/// What the membership of an atomic batch adds: its id and two numbers (`encodeStreamMsg` with a
/// batch).
const MEMBERSHIP_BYTES: u64 = 30;
/// Encoded size of a purge or a delete, which is a short JSON document.
const CALL_BYTES: u64 = 150;
/// Size that a note would have; nats-server sends none.
const NOTE_BYTES: u64 = 60;

/// What the replicas of a stream agree on, one after the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Proposal {
    /// A message that passed the leader's checks.
    Message(Proposed),
    /// A message of an atomic batch that passed its checks: the whole batch is stored, or nothing.
    OfBatch {
        /// The message.
        message: Proposed,
        /// It ends the batch.
        is_last: bool,
    },
    /// The API takes messages out.
    Purge(Box<Purge>),
    /// The API takes one message out.
    Delete(StreamSequence),
    /// How far a fast batch has come, where no message says so. nats-server sends none: this is what
    /// ends the bugs `ghost-batch` and `tail-dup-false-gap`.
    Note(Note),
}

/// What the leader knows of a fast batch, and followers cannot know from what is stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Note {
    /// The batch.
    pub batch: BatchHandle,
    /// Flow that its client asks for.
    pub flow: u16,
    /// Its gap mode.
    pub gap: GapMode,
    /// Up to here everything is dealt with.
    pub sequence: BatchSequence,
    /// It is over.
    pub is_over: bool,
}

/// A message with what its leader noted.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposed {
    /// The message as it is to be stored; answers go to its reply subject.
    pub publish: Publish,
    /// When it was proposed: the time that it is stored with.
    pub at: Time,
}

impl Proposal {
    /// Batch, operation and batch sequence, if it is a frame of a fast batch.
    pub const fn frame(&self) -> Option<(BatchHandle, Operation, BatchSequence)> {
        match self {
            Self::Message(message) => message.publish.frame(),
            Self::OfBatch { .. } | Self::Purge(_) | Self::Delete(_) | Self::Note(_) => None,
        }
    }

    /// The message that is answered when this is applied; of an atomic batch it is the last one.
    pub const fn asked_by(&self) -> Option<&Publish> {
        match self {
            Self::Message(message)
            | Self::OfBatch {
                message,
                is_last: true,
            } => Some(&message.publish),
            Self::OfBatch { is_last: false, .. }
            | Self::Purge(_)
            | Self::Delete(_)
            | Self::Note(_) => None,
        }
    }

    /// How many at the front of these stand together, all or none: an atomic batch does, and any other
    /// stands alone.
    pub fn together(proposals: &[Self]) -> usize {
        let goes_on = |one: &&Self| matches!(one, Self::OfBatch { is_last: false, .. });
        let others = proposals.iter().take_while(goes_on).count();
        proposals.len().min(others + 1)
    }

    /// Encoded size.
    pub fn bytes(&self) -> u64 {
        let message = |message: &Proposed| MESSAGE_BYTES + u64::from(message.publish.wire_bytes);
        match self {
            Self::Message(proposed) => message(proposed),
            Self::OfBatch {
                message: proposed, ..
            } => message(proposed) + MEMBERSHIP_BYTES,
            Self::Purge(_) | Self::Delete(_) => CALL_BYTES,
            Self::Note(_) => NOTE_BYTES,
        }
    }
}

/// What a call that went through the replicas came to.
pub type CallResult = Result<Called, ApiFailure>;

/// What a call did.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Called {
    /// So many messages are gone.
    Purged(u64),
    /// The message is gone.
    Deleted,
}
