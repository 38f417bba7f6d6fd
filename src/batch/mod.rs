//! Batches as pure machines, of both kinds: fast ingest and atomic batches.
//!
//! Leans on `machine` and the words of `nats`.

pub mod atomic;
pub mod fast;
pub mod limits;
pub mod message;
