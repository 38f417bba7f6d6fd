//! A stream: its log, its limits, and the checks before a message goes in.
//!
//! Leans on `batch`, `machine` and the words of `nats`.

pub mod config;
pub mod subjects;
