//! The whole file: reading, checking, and the errors that name file, line and key.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DiskSettings, Fault, NetworkSettings, Publishers, ServerSettings, StreamSettings};
use crate::units::Span;

/// A parsed and checked file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where it came from, as given by the user.
    pub file: String,
    /// What it says, with defaults filled in.
    pub settings: Settings,
}

/// A scenario or workload file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of the format: 1.
    pub format: u32,
    /// What the file is about, in one line.
    pub about: String,
    /// The seed when none is given on the command line.
    #[serde(default = "one")]
    pub seed: u64,
    /// The run ends at the latest then, and who has not ended is interrupted. At most 24h.
    #[serde(default = "time_limit")]
    pub time_limit: Span,
    /// Measures leave out this much of the start.
    #[serde(default)]
    pub warm_up: Span,
    /// The stream.
    #[serde(default)]
    pub stream: StreamSettings,
    /// Who publishes; at least one group.
    pub publishers: Vec<Publishers>,
    /// The modelled server; scenarios only.
    pub server: Option<ServerSettings>,
    /// The modelled disk; scenarios only.
    pub disk: Option<DiskSettings>,
    /// The modelled network; scenarios only.
    pub network: Option<NetworkSettings>,
    /// What goes wrong; scenarios only.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What must come out.
    #[serde(default)]
    pub expect: Expect,
}

const fn one() -> u64 {
    1
}

const fn time_limit() -> Span {
    Span(crate::machine::Time::from_secs(600))
}

/// What the run must give; the exit code says whether it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The verdict.
    pub verdict: ExpectedVerdict,
    /// Messages stored.
    pub stored: Option<u64>,
    /// Messages published and not stored.
    pub lost: Option<u64>,
    /// Gaps seen by publishers.
    pub gaps: Option<u64>,
    /// Publishers that stalled.
    pub stalls: Option<u64>,
    /// Pings: at least so many.
    pub pings_min: Option<u64>,
    /// Pings: at most so many.
    pub pings_max: Option<u64>,
    /// Error codes that publishers may see; any other makes the verdict `failed`.
    pub errors: Vec<u16>,
    /// Judges that must object, by name, with `verdict = "violation"`.
    pub judges: Vec<String>,
}

/// The verdict of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedVerdict {
    /// No judge objects, no publisher stalls or fails.
    #[default]
    Pass,
    /// A judge objects.
    Violation,
    /// A publisher stalls.
    Stall,
    /// A publisher ends with an error that is not expected.
    Failed,
}

/// Bad input: one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default(), key.as_ref().map(|key| format!(": {key}")).unwrap_or_default())]
pub struct InputError {
    /// The file, as given by the user.
    pub file: String,
    /// Line, from 1.
    pub line: Option<usize>,
    /// The key, as a dotted path.
    pub key: Option<String>,
    /// What is wrong and what is allowed.
    pub message: String,
}
