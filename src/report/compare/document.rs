//! A comparison as a document: what came of it, side by side and figure by figure.
//!
//! Leans on `metric`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Metric;
use crate::report::World;

/// What came of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// Version of this document: 1.
    pub format: u32,
    /// The version of tidegate that compared.
    pub tool_version: String,
    /// How sure the findings are together: 0 to 1.
    pub confidence: f64,
    /// Changes up to this part do not matter.
    pub tolerance: f64,
    /// The side that the others are held against.
    pub baseline: SideSummary,
    /// The others.
    pub candidates: Vec<Candidate>,
}

/// What a side is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SideSummary {
    /// Where its results came from.
    pub name: String,
    /// Where it ran.
    pub world: World,
    /// Its runs.
    pub runs: u64,
    /// Those that did not do what their file expects.
    pub unexpected: u64,
}

/// A side against the baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// What it is made of.
    #[serde(rename = "side")]
    pub summary: SideSummary,
    /// What all of it comes to: `worse` if anything that counts is, `unclear` if nothing is and something
    /// could be.
    pub finding: Finding,
    /// Every figure that both sides measured.
    pub rows: Vec<Row>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Which.
    pub metric: Metric,
    /// Of the baseline: nanoseconds, messages per second, or a part. The mean over runs; the geometric
    /// one, but for parts.
    pub baseline: f64,
    /// Of the candidate.
    pub candidate: f64,
    /// Of the baseline, as a part of it: 0.1 is ten percent more. For parts the difference.
    pub change: f64,
    /// The interval around it. Null where nothing says how sure it is.
    pub interval: Option<[f64; 2]>,
    /// What the interval comes from.
    pub basis: Basis,
    /// Difference in standard deviations over runs (Hedges' g). Null for single runs.
    pub hedges_g: Option<f64>,
    /// How often a message of the candidate is faster than one of the baseline, ties by half. Null for
    /// what is no latency.
    pub chance_faster: Option<f64>,
    /// What it comes to.
    pub finding: Finding,
    /// Whether the comparison is judged by it.
    pub judged: bool,
}

/// What an interval comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The spread from run to run.
    Runs,
    /// The slices of a single run each; what the next run would give is not in it.
    Slices,
    /// There is none.
    Nothing,
}

/// What a change comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// For the better, beyond the tolerance, and surely not for the worse.
    Better,
    /// Surely within the tolerance.
    Same,
    /// Neither is sure.
    Unclear,
    /// For the worse, beyond the tolerance, and surely not for the better.
    Worse,
}

impl Finding {
    /// The word in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Same => "same",
            Self::Unclear => "unclear",
            Self::Worse => "worse",
        }
    }
}
