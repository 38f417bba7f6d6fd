//! The served model: the modelled server and its front behind a socket, with the faults of a file in
//! between.
//!
//! `hub` is all of it but the socket, a machine with time as an argument; `driver` runs it over
//! `tokio::net` and a [`Clock`]; `tally` counts what it saw. The same driver serves on a real socket
//! and in simulated surroundings, so there is no other source of time or chance, no thread and no
//! random order in here. Leans on `server`, `fault`, `modelled` and `event`.

mod clock;
mod driver;
mod hub;
mod kinds;
mod links;
mod ports;
mod tally;

pub use clock::{Clock, RealClock};
pub use driver::serve;
pub use hub::Hub;
pub use kinds::{Hosts, Messages, Numbering};
pub use tally::{Frames, Tally};
