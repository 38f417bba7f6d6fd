//! Fast ingest (ADR-50): the client half, and the server half of one batch.
//!
//! Leans on `machine` and the words of `nats`.

pub mod publisher;
pub mod window;
