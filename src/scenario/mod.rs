//! The scenario language: one file says what a run does, in the simulator or on a live cluster.
//!
//! A *scenario* (`sims/`) may describe the modelled surroundings too; a *workload* (`workloads/`)
//! is the same file without them. Everything here is a valid value once parsed: `parse` reports
//! bad input with file, line, key and what is allowed. Leans on `units`, the words of `nats`, and
//! the settings of the cores.

mod arrival;
mod check;
mod client_checks;
mod defect;
mod error;
mod fault_checks;
mod faults;
mod file;
mod lines;
mod live;
mod load_checks;
mod moments;
mod only;
mod path;
mod payload;
mod probe_checks;
mod probes;
mod publishers;
mod read;
mod schema;
mod set;
mod shape;
mod shown;
mod sizes;
mod stream;
mod subjects;
mod surroundings;
mod worlds;

pub use arrival::{
    Arrival, MomentOrigin, MomentShare, MomentUnit, RateChange, Timestamps, TimestampsFile,
};
pub use defect::{BugOf, Defect};
pub use error::InputError;

pub use faults::{Fault, FaultAction, FaultPlace, FrameKind, RouteWay, ServerRole};
pub use file::{Auto, Expect, ExpectedVerdict, Scenario, Settings, WarmUp};
pub use live::LiveSettings;
pub use moments::{Moments, MomentsError};
pub use only::RunsIn;
pub use payload::{IDENTIFIED, PayloadSize, SizeRange, SizeSpread, WeightedSize};
pub use probes::{Probe, ProbeOperation};
pub use publishers::{
    ClientKind, Commit, GapWord, Gate, HeaderRule, Pause, ProfileWord, Publishers, SubjectChoice,
    Subjects,
};
pub use read::config_hash;
pub use schema::{scenario_schema, workload_schema};
pub use stream::{Discard, Storage, StreamSettings};
pub use surroundings::{
    DiskSettings, FlowPolicy, ModelledVersion, NetworkSettings, RaftSettings, ServerSettings,
    SyncPolicy,
};
pub use worlds::{Lane, LiveServers, SETTINGS_OF_REAL_SERVERS, Substrate};

#[cfg(test)]
mod tests;
