//! Atomic batches (ADR-50): the headers that make them (`headers`), the client half (`publisher`), and
//! the server half (`staging`, the batches of a stream that wait for their commits).
//!
//! Whether a complete batch may go into its stream, and storing it, is the stream's business.
//! Leans on `machine` and the words of `nats`.

pub mod headers;
pub mod publisher;
pub mod staging;
