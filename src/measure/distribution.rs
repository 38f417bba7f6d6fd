//! Latency distributions: an HdrHistogram while a run lasts, percentiles and its V2 form after.
//!
//! Leans on the crates `hdrhistogram` and `base64`.

use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use hdrhistogram::{Counter, Histogram};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rounded;

/// A histogram of spans in nanoseconds: 1 ns to 1 h, three digits.
pub type LatencyHistogram = Histogram<u64>;

/// Longest span that a histogram tells apart: 1 h. Longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// No run measures more; a sum of such counts would overflow.
const MOST: u64 = 1 << 53;
/// Bytes before the counts of a V2 encoding.
const HEADER_BYTES: usize = 40;

/// An empty histogram from 1 ns to 1 h with three digits.
pub fn latency_histogram() -> LatencyHistogram {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constants, and valid")
}

/// Spans in nanoseconds: how many, and how long. All are 0 when `count` is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// How many were measured.
    pub count: u64,
    /// Shortest.
    pub min: u64,
    /// Mean.
    pub mean: f64,
    /// Half are at most this long.
    pub p50: u64,
    /// 90 % are at most this long.
    pub p90: u64,
    /// 99 % are at most this long.
    pub p99: u64,
    /// 99.9 % are at most this long.
    pub p999: u64,
    /// Longest.
    pub max: u64,
    /// The whole histogram: HdrHistogram V2 encoding, uncompressed, in base64.
    pub hdr_histogram_v2: String,
}

/// Text that should be an HdrHistogram and is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`hdr_histogram_v2` is no base64 of an HdrHistogram in V2 encoding with `count` entries")]
pub struct DistributionError;

impl Distribution {
    /// Percentiles and encoded form of `histogram`.
    pub fn of(histogram: &LatencyHistogram) -> Self {
        if histogram.is_empty() {
            return Self {
                hdr_histogram_v2: encode(histogram),
                ..Self::default()
            };
        }
        // A histogram answers with the upper end of the range it cannot tell apart; nothing may
        // come out above what was seen.
        let at = |quantile| histogram.value_at_quantile(quantile).min(histogram.max());
        Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: rounded(histogram.mean(), 3),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
            hdr_histogram_v2: encode(histogram),
        }
    }

    /// The histogram behind the percentiles.
    ///
    /// # Errors
    /// When the text is damaged, or holds another number of spans than `count`.
    pub fn histogram(&self) -> Result<LatencyHistogram, DistributionError> {
        let whole = Shape {
            digits: 3,
            lowest: 1,
            highest: LONGEST_NS..=LONGEST_NS,
        };
        let histogram = decode(&self.hdr_histogram_v2, &whole).ok_or(DistributionError)?;
        if histogram.len() == self.count {
            Ok(histogram)
        } else {
            Err(DistributionError)
        }
    }
}

/// What the header of an encoded histogram must say.
pub(super) struct Shape {
    pub(super) digits: u32,
    pub(super) lowest: u64,
    pub(super) highest: RangeInclusive<u64>,
}

impl Shape {
    /// Whether these bytes have this shape.
    ///
    /// V2 header, big endian: cookie, payload length, normalising offset, digits (4 bytes each), lowest
    /// and highest value (8 bytes each), ratio (8 bytes).
    fn fits(&self, bytes: &[u8]) -> bool {
        let word = |from: usize| {
            let four = bytes.get(from..from + 4)?.try_into().ok()?;
            Some(u32::from_be_bytes(four))
        };
        let long = |from: usize| {
            let eight = bytes.get(from..from + 8)?.try_into().ok()?;
            Some(u64::from_be_bytes(eight))
        };
        word(4).map(|length| length as usize) == bytes.len().checked_sub(HEADER_BYTES)
            && word(12) == Some(self.digits)
            && long(16) == Some(self.lowest)
            && long(24).is_some_and(|highest| self.highest.contains(&highest))
    }
}

/// The histogram of `shape` behind this text; none if it is damaged or of another shape.
pub(super) fn decode(text: &str, shape: &Shape) -> Option<LatencyHistogram> {
    let bytes = STANDARD.decode(text).ok()?;
    // The header names the length of what follows and the precision, and the decoder allocates as it
    // says: look before it leaps.
    if !shape.fits(&bytes) {
        return None;
    }
    let histogram: LatencyHistogram = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .ok()?;
    (histogram.len() <= MOST).then_some(histogram)
}

/// `histogram` in V2 encoding, uncompressed, in base64.
pub(super) fn encode<T: Counter>(histogram: &Histogram<T>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .expect("writing to memory does not fail, and counts stay below 2^63");
    STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_one_to_a_hundred_microseconds() {
        let mut histogram = latency_histogram();
        for microseconds in 1..=100 {
            histogram.record(microseconds * 1_000).unwrap();
        }
        let distribution = Distribution::of(&histogram);
        assert_eq!(distribution.count, 100);
        assert_eq!(distribution.min, 1_000);
        for (is, should) in [
            (distribution.p50, 50_000),
            (distribution.p90, 90_000),
            (distribution.p99, 99_000),
            (distribution.p999, 100_000),
            (distribution.max, 100_000),
        ] {
            assert!(is.abs_diff(should) <= should / 1_000, "{is} {should}");
        }
        assert!((distribution.mean - 50_500.0).abs() < 50.5);
        assert_eq!(distribution.histogram().unwrap(), histogram);
    }

    #[test]
    fn nothing_measured_is_all_zero_and_still_decodes() {
        let distribution = Distribution::of(&latency_histogram());
        assert_eq!((distribution.count, distribution.max), (0, 0));
        assert!(distribution.histogram().unwrap().is_empty());
    }

    #[test]
    fn damaged_text_is_an_error() {
        let whole = Distribution::of(&latency_histogram()).hdr_histogram_v2;
        let other = Histogram::<u64>::new_with_bounds(1, 1_000, 2).unwrap();
        for bad in ["", "?", "AAAA", &whole[..20], &encode(&other)] {
            let distribution = Distribution {
                hdr_histogram_v2: bad.to_owned(),
                ..Distribution::default()
            };
            assert_eq!(distribution.histogram(), Err(DistributionError), "{bad}");
        }
    }

    #[test]
    fn counts_that_are_wrong_or_whose_sum_overflows_are_refused() {
        let mut histogram = latency_histogram();
        histogram.record_n(1, 5).unwrap();
        let mut distribution = Distribution::of(&histogram);
        assert!(distribution.histogram().is_ok());
        distribution.count = 6;
        assert_eq!(distribution.histogram(), Err(DistributionError));
        for value in 2..=5 {
            histogram.record_n(value, i64::MAX as u64).unwrap();
        }
        distribution.hdr_histogram_v2 = encode(&histogram);
        distribution.count = u64::MAX;
        assert_eq!(distribution.histogram(), Err(DistributionError));
    }

    #[test]
    fn more_than_an_hour_counts_as_an_hour() {
        let mut histogram = latency_histogram();
        histogram.saturating_record(u64::MAX);
        assert_eq!(histogram.len(), 1);
        assert!(Distribution::of(&histogram).max >= LONGEST_NS);
    }
}
