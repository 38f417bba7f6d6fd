//! Who is who: what faults call the frames of a batch, and whose batches and connections they are.
//!
//! Leans on `scenario` for the words.

use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, Event, PublisherId};
use crate::nats::{BatchSequence, Operation};
use crate::scenario::FrameKind;
use crate::server::message::{AtomicFact, BatchHandle, Fact, Payload};

/// Gives a batch its number in the run when it is first seen, by handle and id; the same again
/// should it be asked once more.
pub type Numbering = Box<dyn FnMut(BatchHandle, &str) -> BatchNumber>;

/// Says which message of the run a stored one is that names no fast batch, by its payload.
pub type Messages = Box<dyn FnMut(Payload) -> Option<(BatchNumber, BatchSequence)>>;

/// Says which publisher of the run connects from this address.
pub type Hosts = Box<dyn FnMut(&str) -> PublisherId>;

/// What faults call a frame of a publisher.
pub(super) const fn kind_of(operation: Operation) -> FrameKind {
    match operation {
        Operation::Start | Operation::Append | Operation::Commit => FrameKind::Message,
        Operation::CommitEob => FrameKind::Eob,
        Operation::Ping => FrameKind::Ping,
    }
}

/// What faults call a reply; a bare status is none of theirs.
pub(super) const fn reply_kind(frame: ControlFrame) -> Option<FrameKind> {
    match frame {
        ControlFrame::Ack(_) => Some(FrameKind::FlowAck),
        ControlFrame::Gap(_) => Some(FrameKind::Gap),
        ControlFrame::Error { .. } => Some(FrameKind::FlowError),
        ControlFrame::PubAck(_) | ControlFrame::Refused(_) => Some(FrameKind::PubAck),
        ControlFrame::Status(_) => None,
    }
}

/// The batch sequence that a reply is about.
pub(super) fn about(frame: ControlFrame) -> BatchSequence {
    match frame {
        ControlFrame::Ack(ack) => ack.sequence,
        ControlFrame::Gap(gap) => gap.received,
        ControlFrame::Error { sequence, .. } => sequence,
        ControlFrame::PubAck(ack) => ack.count.unwrap_or_default(),
        ControlFrame::Refused(_) | ControlFrame::Status(_) => BatchSequence(0),
    }
}

/// What tells that a message of no fast batch was stored, if `messages` knows it.
pub(super) fn stored_otherwise(fact: &Fact, messages: &mut Messages) -> Option<Event> {
    let (Fact::Stored {
        payload,
        stream_sequence,
        ..
    }
    | Fact::Atomic(AtomicFact::Stored {
        payload,
        stream_sequence,
        ..
    })) = fact
    else {
        return None;
    };
    let (batch, sequence) = messages(*payload)?;
    Some(Event::Stored {
        batch,
        bytes: payload.bytes,
        digest: payload.digest,
        sequence,
        stream_sequence: *stream_sequence,
    })
}
