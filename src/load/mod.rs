//! The load: when messages are wanted, what is in them, and the loop that hands them to a client.
//!
//! `message`, `runner` and `prober` make real messages for real clients; all else is pure and shared by both
//! worlds. Leans on `scenario`, `client`, `event` and `seed`.

mod arrival;
mod backlog;
mod choice;
mod message;
mod payload;
mod plan;
mod probe;
mod prober;
mod rates;
mod replay;
mod runner;
mod settings;
mod shaped;
mod sizes;

pub use arrival::Arrivals;
pub use message::{MessageMaker, MessagesOfRun};
pub use payload::{IDENTIFIED_BYTES, Identity, PayloadContent};
pub use plan::{Plan, Planned, Step};
pub use probe::{Ask, PROBE_PAYLOAD_BYTES, Probe, ProbeAction, ProbeInput};
pub use prober::Prober;
pub use runner::{Runner, Timed, World};
pub use settings::{ClientCode, publisher_settings};
