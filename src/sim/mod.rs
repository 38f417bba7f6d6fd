//! The simulator: the pure machines in one world, on one event queue, from one seed.
//!
//! Leans on everything up to `scenario`, `judge`, `load` and `measure`.

pub mod queue;
