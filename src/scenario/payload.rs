//! How large payloads are: one size, a range, a list with weights, or a spread around a median.
//!
//! Leans on `units`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Payload sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a size such as \"1KiB\", { min = \"64B\", max = \"1KiB\" }, { median = \"1KiB\", p99 = \
                 \"16KiB\" }, or a list such as [{ size = \"128B\", weight = 9 }]"
)]
pub enum PayloadSize {
    /// Always this size.
    Fixed(Bytes),
    /// Drawn evenly from this range.
    Range(SizeRange),
    /// Drawn from a lognormal distribution.
    Spread(SizeSpread),
    /// Drawn from a list.
    Weighted(#[schemars(length(min = 1, max = 100))] Vec<WeightedSize>),
}

/// A range of sizes, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeRange {
    /// Smallest.
    #[schemars(extend("x-minimum" = "0B", "x-maximum" = "1MiB"))]
    pub min: Bytes,
    /// Largest.
    #[schemars(extend("x-minimum" = "0B", "x-maximum" = "1MiB"))]
    pub max: Bytes,
}

/// Sizes whose logarithms are normally distributed: most are small, a few are very large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeSpread {
    /// Half are at most this large.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1MiB"))]
    pub median: Bytes,
    /// 99 % are at most this large.
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1MiB"))]
    pub p99: Bytes,
    /// What would be smaller has this size.
    #[serde(default = "identified")]
    #[schemars(extend("x-minimum" = "0B", "x-maximum" = "1MiB"))]
    pub min: Bytes,
    /// What would be larger has this size; absent: the largest that a message may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1B", "x-maximum" = "1MiB"))]
    pub max: Option<Bytes>,
}

/// One size of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedSize {
    /// The size.
    #[schemars(extend("x-minimum" = "0B", "x-maximum" = "1MiB"))]
    pub size: Bytes,
    /// How often, compared with the others of the list.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub weight: u32,
}

/// The smallest payload that names its message, so that a stream can be read back exactly.
pub const IDENTIFIED: Bytes = Bytes(16);

const fn identified() -> Bytes {
    IDENTIFIED
}

const fn one() -> u32 {
    1
}

impl PayloadSize {
    /// The smallest payload.
    pub fn smallest(&self) -> Bytes {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range(range) => range.min,
            Self::Spread(spread) => spread.min,
            Self::Weighted(sizes) => {
                let sizes = sizes.iter().map(|one| one.size);
                sizes.min().unwrap_or_default()
            }
        }
    }

    /// The largest payload; of a spread without an end, `most`.
    pub fn largest(&self, most: Bytes) -> Bytes {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Range(range) => range.max,
            Self::Spread(spread) => spread.max.unwrap_or(most),
            Self::Weighted(sizes) => {
                let sizes = sizes.iter().map(|one| one.size);
                sizes.max().unwrap_or_default()
            }
        }
    }
}
