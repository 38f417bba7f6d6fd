//! tidegate simulates and load-tests JetStream batch publishing (ADR-50).
//!
//! The modules stand in the order of the ladder: each leans on those above it and never on those
//! below. `ARCHITECTURE.md` is the tour.

// floor 0: no protocol, no I/O
pub mod machine;
pub mod seed;
pub mod tournament;
pub mod units;
// floor 1: words
pub mod nats;
// floor 2: pure machines
pub mod batch;
pub mod net;
pub mod raft;
pub mod server;
pub mod stream;
// floor 3: driving
pub mod client;
pub mod event;
// floor 4: scenario, load and measure
pub mod fault;
pub mod judge;
pub mod load;
pub mod measure;
pub mod modelled;
pub mod scenario;
pub mod watch;
// floor 5: worlds
pub mod conform;
pub mod live;
pub mod serve;
pub mod sim;
// floor 6: telling
pub mod report;
// floor 7: asking
pub mod cli;
