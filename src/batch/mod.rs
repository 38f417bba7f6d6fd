//! Batches: the pure machines of both ends, and the messages between them.
//!
//! Leans on `machine` and the words of `nats`.

pub mod fast;
pub mod message;
