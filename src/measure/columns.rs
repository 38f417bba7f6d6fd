//! Figures over time as results hold them: one column for each figure.
//!
//! Leans on `distribution` and `series` for the histogram of a bucket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::{DistributionError, LatencyHistogram, decode};
use super::series::bucket_shape;

/// Figures over time, as columns: entry *i* is the bucket from `i * bucket_ns` on. The last bucket
/// ends at `end_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// Width of a bucket.
    pub bucket_ns: u64,
    /// End of the last bucket.
    pub end_ns: u64,
    /// Messages sent.
    pub published: Vec<u64>,
    /// Messages acknowledged.
    pub acknowledged: Vec<u64>,
    /// Their bytes.
    pub acknowledged_bytes: Vec<u64>,
    /// Gaps seen.
    pub gaps: Vec<u64>,
    /// Messages that gaps reported missing.
    pub missing: Vec<u64>,
    /// Errors seen.
    pub errors: Vec<u64>,
    /// Mean number of messages in flight.
    pub in_flight_mean: Vec<f64>,
    /// Most messages in flight.
    pub in_flight_max: Vec<u64>,
    /// Mean number of publishers whose gate is shut.
    pub blocked_mean: Vec<f64>,
    /// Ack latency from send, by the moment of the ack.
    pub ack_latency_ns: LatencySeries,
}

/// Percentiles over time; null where no ack came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LatencySeries {
    /// Half were at most this long.
    pub p50: Vec<Option<u64>>,
    /// 90 % were at most this long.
    pub p90: Vec<Option<u64>>,
    /// 99 % were at most this long.
    pub p99: Vec<Option<u64>>,
    /// Longest.
    pub max: Vec<Option<u64>>,
    /// Every latency of the bucket: HdrHistogram V2 encoding, uncompressed, in base64, two digits. Empty
    /// in results of earlier versions.
    #[serde(default)]
    pub hdr_histogram_v2: Vec<Option<String>>,
}

impl LatencySeries {
    /// The latencies of bucket `index`, to two digits; none where no ack came, or where the result is of
    /// a version that kept none.
    ///
    /// # Errors
    /// The text is damaged.
    pub fn histogram(&self, index: usize) -> Result<Option<LatencyHistogram>, DistributionError> {
        match self.hdr_histogram_v2.get(index) {
            Some(Some(text)) => match decode(text, &bucket_shape()) {
                Some(histogram) => Ok(Some(histogram)),
                None => Err(DistributionError),
            },
            Some(None) | None => Ok(None),
        }
    }
}

/// The flow in force (an ack every so many messages) over time, as columns like [`Series`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSeries {
    /// Width of a bucket.
    pub bucket_ns: u64,
    /// Mean over time and open batches; null where none was open.
    pub mean: Vec<Option<f64>>,
    /// Lowest flow that an ack brought; null where no ack came.
    pub min: Vec<Option<u16>>,
    /// Highest flow that an ack brought; null where no ack came.
    pub max: Vec<Option<u16>>,
}

impl Series {
    /// How many buckets there are.
    pub fn len(&self) -> usize {
        self.published.len()
    }

    /// Whether there is no bucket.
    pub fn is_empty(&self) -> bool {
        self.published.is_empty()
    }

    /// Start and end of bucket `index` in nanoseconds.
    pub fn span_of(&self, index: usize) -> (u64, u64) {
        let start = (index as u64).saturating_mul(self.bucket_ns);
        let end = start.saturating_add(self.bucket_ns).min(self.end_ns);
        (start, end.max(start))
    }
}
