//! Fast-ingest batches (ADR-50): at the server `ingest` (one batch), `flow` (how often it acks) and
//! `table` (all batches of a stream).
//!
//! Leans on `machine` and the words of `nats`.

pub mod flow;
pub mod ingest;
pub mod table;
