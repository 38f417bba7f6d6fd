//! Messages that reach no stream: nobody listens, or they are lost between servers.
//!
//! Leans on `message`.

use super::Action;
use super::message::{BatchHandle, Fact, Loss, Publish, Reply};
use crate::machine::Sink;
use crate::nats::{BatchSequence, Operation};

/// Nobody listens on the subject of a message, and its sender is told so.
pub(super) fn unheard(publish: &Publish, out: &mut dyn Sink<Action>) {
    if let Some((batch, operation, sequence)) = publish.frame() {
        out.emit(Action::Fact(Fact::Unheard {
            batch,
            operation,
            sequence,
        }));
    }
    if let Some(to) = publish.reply {
        let reply = Reply::NoResponders(publish.subject);
        out.emit(Action::Send { to, reply });
    }
}

/// A message that nobody will ever answer: told where it is a frame of a fast batch.
pub(super) fn lost(
    frame: Option<(BatchHandle, Operation, BatchSequence)>,
    loss: Loss,
    out: &mut dyn Sink<Action>,
) {
    if let Some((batch, operation, sequence)) = frame {
        out.emit(Action::Fact(Fact::LostInside {
            batch,
            operation,
            sequence,
            loss,
        }));
    }
}
