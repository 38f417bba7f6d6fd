//! The simulator: the pure machines in one world, on one event queue, from one seed.
//!
//! Leans on everything up to `scenario`, `judge`, `load` and `measure`.

pub mod determinism;
mod fabric;
mod host;
mod lanes;
mod leak;
mod model;
mod probes;
pub mod queue;
mod run;
mod sink;
pub mod substrate;
mod wire;
mod world;

pub use run::{Outside, SimOutcome, run};
pub use world::{Progress, World};

/// A file that the simulator cannot run: which key, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct SimError {
    /// The key, as a dotted path.
    pub key: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl SimError {
    fn new(key: &str, message: &str) -> Self {
        Self {
            key: key.to_owned(),
            message: message.to_owned(),
        }
    }
}
