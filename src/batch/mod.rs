//! Batches as pure machines: fast ingest here; atomic batches stand beside it when they come.
//!
//! Leans on `machine` and the words of `nats`.

pub mod fast;
pub mod limits;
pub mod message;
