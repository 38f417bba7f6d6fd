//! The load: when messages are wanted, what is in them, and the loop that hands them to a client.
//!
//! `arrival`, `payload`, `plan` and `settings` are pure and shared by both worlds; `message` and `runner` make
//! real messages for real clients. Leans on `scenario`, `client`, `event` and `seed`.

mod arrival;
mod message;
mod payload;
mod plan;
mod runner;
mod settings;

pub use arrival::Arrivals;
pub use message::MessageMaker;
pub use payload::{IDENTIFIED_BYTES, Identity, PayloadContent};
pub use plan::{Plan, Planned, Step};
pub use runner::{Runner, World};
pub use settings::publisher_settings;
