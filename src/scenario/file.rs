//! The whole file as a value: what a parsed file says, and what must come out of its run.
//!
//! Leans on the sections beside it and on `units`. Ranges stand at the fields; `shape` reads them there.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lines::Lines;
use super::only::RunsIn;
use super::path::KeyPath;
use super::{
    DiskSettings, Fault, LiveSettings, NetworkSettings, Probe, Publishers, RaftSettings,
    ServerSettings, StreamSettings,
};
use crate::machine::Time;
use crate::units::Span;

/// A parsed and checked file.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Where it came from, as given by the user.
    pub file: String,
    /// What it says, with defaults filled in.
    pub settings: Settings,
    /// Where each key stands, for errors that come later.
    pub(super) lines: Lines,
    /// The world that it is read for, and the keys that it says for that one alone.
    pub(super) runs_in: RunsIn,
    pub(super) only: Vec<KeyPath>,
    /// Where the files are that it names: beside its own, unless it was only parsed.
    pub(super) folder: Option<PathBuf>,
    /// What `--set` changed: the key, and the change as given.
    pub(super) changes: Vec<(KeyPath, String)>,
}

/// A scenario or workload file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Version of the format: 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// What the file is about, in one line.
    #[schemars(length(min = 1, max = 200))]
    pub about: String,
    /// The seed when none is given on the command line.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub seed: u64,
    /// The run ends at the latest then, and who has not ended is interrupted. At most 24h.
    #[serde(default = "time_limit")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub time_limit: Span,
    /// Measures leave out this much of the start; shorter than `time_limit`. `"auto"`: until the run is
    /// steady.
    #[serde(default)]
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub warm_up: WarmUp,
    /// The stream.
    #[serde(default)]
    pub stream: StreamSettings,
    /// Who publishes; at least one group.
    #[schemars(length(min = 1, max = 1000))]
    pub publishers: Vec<Publishers>,
    /// What is asked of the API meanwhile.
    #[serde(default)]
    #[schemars(length(min = 0, max = 100))]
    pub probes: Vec<Probe>,
    /// The modelled server; scenarios only.
    pub server: Option<ServerSettings>,
    /// The modelled disk; scenarios only.
    pub disk: Option<DiskSettings>,
    /// The modelled network; scenarios only.
    pub network: Option<NetworkSettings>,
    /// The modelled RAFT; scenarios only.
    pub raft: Option<RaftSettings>,
    /// How a live run is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveSettings>,
    /// What goes wrong.
    #[serde(default)]
    #[schemars(length(min = 0, max = 1000))]
    pub faults: Vec<Fault>,
    /// What must come out.
    #[serde(default)]
    pub expect: Expect,
}

const fn one() -> u64 {
    1
}

const fn time_limit() -> Span {
    Span(Time::from_secs(600))
}

/// The part of the start that measures leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a span of time such as \"10s\", or \"auto\"")]
pub enum WarmUp {
    /// Until the run is steady, which is found when it is over.
    Found(Auto),
    /// So long.
    Known(Span),
}

/// The word for what is found by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Auto {
    /// Found by itself.
    Auto,
}

impl Default for WarmUp {
    fn default() -> Self {
        Self::Known(Span::default())
    }
}

impl WarmUp {
    /// Its length, where the file says it.
    pub const fn known(self) -> Option<Time> {
        match self {
            Self::Known(span) => Some(span.0),
            Self::Found(Auto::Auto) => None,
        }
    }
}

/// What the run must give; the exit code says whether it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// The verdict.
    pub verdict: ExpectedVerdict,
    /// Messages stored.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub stored: Option<u64>,
    /// Messages published and not stored.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub lost: Option<u64>,
    /// Gaps seen by publishers.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub gaps: Option<u64>,
    /// Gaps: at least so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub gaps_min: Option<u64>,
    /// Gaps: at most so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub gaps_max: Option<u64>,
    /// Publishers that stalled.
    #[schemars(range(min = 0, max = 100_000))]
    pub stalls: Option<u64>,
    /// Pings: at least so many.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub pings_min: Option<u64>,
    /// Pings: at most so many.
    #[schemars(range(min = 0, max = 9_223_372_036_854_775_807_u64))]
    pub pings_max: Option<u64>,
    /// Every request of a probe, whenever it was sent, is answered within this, and none is refused but
    /// with a code of `errors`.
    #[schemars(extend("x-minimum" = "1us", "x-maximum" = "1h"))]
    pub api_latency: Option<Span>,
    /// Error codes that publishers and probes may see; any other that a publisher sees makes the verdict
    /// `failed`.
    #[schemars(length(min = 0, max = 100))]
    pub errors: Vec<u16>,
    /// Judges that must object, by name, with `verdict = "violation"`.
    #[schemars(length(min = 0, max = 100))]
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
