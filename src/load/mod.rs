//! The load: when messages are wanted, what is in them, and the loop that hands them to a client.
//!
//! `arrival`, `payload`, `plan`, `probe` and `settings` are pure and shared by both worlds; `message`, `runner`
//! and `prober` make real messages for real clients. Leans on `scenario`, `client`, `event` and `seed`.

mod arrival;
mod message;
mod payload;
mod plan;
mod probe;
mod prober;
mod runner;
mod settings;

pub use arrival::Arrivals;
pub use message::MessageMaker;
pub use payload::{IDENTIFIED_BYTES, Identity, PayloadContent};
pub use plan::{Plan, Planned, Step};
pub use probe::{Ask, PROBE_PAYLOAD_BYTES, Probe, ProbeAction, ProbeInput};
pub use prober::Prober;
pub use runner::{Runner, Timed, World};
pub use settings::{ClientCode, publisher_settings};
