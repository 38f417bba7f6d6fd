//! What goes into and comes out of the server model: the words of `batch::message`, once more here
//! for those who only know the server.
//!
//! Leans on `batch`.

pub use crate::batch::message::{
    AbandonReason, AtomicCommit, AtomicFact, AtomicSequence, BatchHandle, ConnectionId, Control,
    Fact, Loss, Membership, Payload, Publish, Reply, ReplyTo, StreamNumber, SubjectId,
};
