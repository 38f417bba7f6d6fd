//! When the messages of a group arrive: the keys about rates, bursts and recorded moments.
//!
//! Leans on `moments` for what a file of moments holds, and on `units`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// When messages are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Arrival {
    /// Closed loop: the next message as soon as the publisher takes one.
    Closed,
    /// Open loop at an even rate.
    Constant,
    /// Open loop with exponential distances.
    Poisson,
    /// Open loop at the moments of a file.
    Replay,
}

/// A change of the rate of an open loop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateChange {
    /// When the rate is reached, since the start of the publisher; later than the change before.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub at: Span,
    /// Messages per second of each publisher from then on, to a thousandth; 0: none.
    #[schemars(range(min = 0, max = 10_000_000))]
    pub per_second: f64,
    /// The rate goes there in a straight line, from the change before, rather than in a step.
    #[serde(default)]
    pub ramp: bool,
}

/// A file of moments at which messages arrive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "the name of a file, or { file = \"…\" } with what its moments mean"
)]
pub enum Timestamps {
    /// Its name, beside the scenario file.
    File(#[schemars(length(min = 1, max = 1000))] String),
    /// Its name, and what its moments mean.
    Read(TimestampsFile),
}

/// How a file of moments is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimestampsFile {
    /// Its name, beside the scenario file.
    #[schemars(length(min = 1, max = 1000))]
    pub file: String,
    /// What a number without a unit counts.
    #[serde(default)]
    pub unit: MomentUnit,
    /// What moments count from.
    #[serde(default)]
    pub origin: MomentOrigin,
    /// Which moments each publisher of the group has.
    #[serde(default)]
    pub share: MomentShare,
    /// The file begins anew every so often; absent: it is played once, and the publisher is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1us", "x-maximum" = "24h"))]
    pub repeat_every: Option<Span>,
    /// Sixteen hexadecimal digits over the contents of the file, which must have them; results tell
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 16, max = 16))]
    pub digest: Option<String>,
}

/// What a number without a unit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MomentUnit {
    /// Seconds.
    #[default]
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl MomentUnit {
    /// How many nanoseconds one is.
    pub(super) const fn nanoseconds(self) -> u64 {
        match self {
            Self::S => 1_000_000_000,
            Self::Ms => 1_000_000,
            Self::Us => 1_000,
            Self::Ns => 1,
        }
    }
}

/// What moments count from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MomentOrigin {
    /// The start of the publisher is 0.
    #[default]
    Start,
    /// The first moment of the file is the start of the publisher.
    First,
}

/// Which moments each publisher of a group has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MomentShare {
    /// All of them.
    #[default]
    Copy,
    /// Its part: they are dealt to the publishers of the group in turn.
    Deal,
}

impl Timestamps {
    /// How the file is read, defaults filled in.
    pub fn read(&self) -> TimestampsFile {
        match self {
            Self::Read(read) => read.clone(),
            Self::File(file) => TimestampsFile {
                file: file.clone(),
                unit: MomentUnit::default(),
                origin: MomentOrigin::default(),
                share: MomentShare::default(),
                repeat_every: None,
                digest: None,
            },
        }
    }
}
