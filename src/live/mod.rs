//! The live world: the same files, run with real clients against real servers.
//!
//! `access` says how to get in, `fetch` finds a nats-server, `local` runs some by a `plan`, each a `node`,
//! behind `links` of doors (`door`, `wire`) where those are to be disturbed, `target`
//! makes the stream, `fleet` publishes, `probes` ask the API meanwhile, `chaos` makes faults in the
//! `cluster`, `monitor` asks servers about themselves (`told` reads their answers, by `lenient`), `reading` reads
//! back and `verify` compares. `ceiling` runs the fleet against the `sink`, to tell what the generator can do at
//! the most. Leans on `load`, `client`, `scenario` and `event`. It and `sim` never see each other.

mod access;
mod alarm;
mod ceiling;
mod chaos;
mod claims;
mod clock;
mod cluster;
mod configuration;
mod connect;
mod door;
mod error;
mod fetch;
mod fleet;
mod interrupt;
mod lenient;
mod links;
mod local;
mod monitor;
mod node;
mod plan;
mod probe;
mod probes;
mod readback;
mod reading;
mod run;
mod sequences;
mod sink;
mod target;
mod told;
mod verify;
mod wire;

pub use access::{Access, Identity};
pub use ceiling::Ceilings;
pub use claims::{Claim, Claims};
pub use clock::Clock;
pub use configuration::configuration;
pub use connect::{Connection, Connector};
pub use error::LiveError;
pub use fetch::{DEFAULT_VERSION, Server, Source, Surroundings, find_server};
pub use fleet::{Ended, PublisherFailure};
pub use interrupt::{Interrupts, hangup_counts};
pub use local::{LocalServers, Options};
pub use run::{LiveOutcome, RunOptions, run};
pub use target::Target;
pub use told::{Answers, NoAnswers, lags_of};
pub use verify::{Finding, ReadBack};
