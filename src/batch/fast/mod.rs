//! Fast ingest (ADR-50): the client half (`publisher`, its `profile` and `window`) and the server half (`ingest` for
//! one batch, `table` for those of a stream, `flow` for the interval between acks).
//!
//! Leans on `machine` and the words of `nats`.

pub mod flow;
pub mod ingest;
pub mod profile;
pub mod publisher;
pub mod table;
pub mod window;
