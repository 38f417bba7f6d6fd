//! Payload sizes, one after the other.
//!
//! What a group draws from is made once and shared by its publishers: there may be thousands. Pure: the
//! generator is seeded. Leans on `scenario` for the settings and on `seed`.

use std::sync::Arc;

use rand::RngExt;

use crate::scenario::{PayloadSize, Publishers};
use crate::seed::Generator;

/// How many standard deviations the 99th percentile of a normal distribution is above its median.
const DEVIATIONS_AT_P99: f64 = 2.326_347_874_040_841;

/// What the sizes of a group are drawn from.
#[derive(Clone, Debug)]
pub(super) enum SizesOfGroup {
    Fixed(u32),
    Even {
        least: u32,
        most: u32,
    },
    /// Sizes, each with the weights up to and with its own added up.
    Weighted(Arc<[(u64, u32)]>),
    Spread {
        median: f64,
        /// Of the logarithm.
        deviation: f64,
        least: u32,
        most: u32,
    },
}

impl SizesOfGroup {
    pub(super) fn of(group: &Publishers) -> Self {
        let clamp = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        match &group.payload {
            PayloadSize::Fixed(bytes) => Self::Fixed(clamp(bytes.0)),
            PayloadSize::Range(range) => Self::Even {
                least: clamp(range.min.0),
                most: clamp(range.max.0.max(range.min.0)),
            },
            PayloadSize::Weighted(sizes) => {
                let mut up_to = 0;
                let sizes = sizes.iter().map(|one| {
                    up_to += u64::from(one.weight);
                    (up_to, clamp(one.size.0))
                });
                Self::Weighted(sizes.collect())
            }
            PayloadSize::Spread(spread) => {
                let median = spread.median.0.max(1) as f64;
                Self::Spread {
                    median,
                    deviation: libm::log(spread.p99.0 as f64 / median) / DEVIATIONS_AT_P99,
                    least: clamp(spread.min.0),
                    most: clamp(group.largest_payload().0.max(spread.min.0)),
                }
            }
        }
    }
}

/// The sizes of one publisher. Only drawn ones have a generator.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    group: SizesOfGroup,
    generator: Option<Box<Generator>>,
}

impl Sizes {
    pub(super) fn new(group: SizesOfGroup, generator: impl FnOnce() -> Generator) -> Self {
        let generator = match group {
            SizesOfGroup::Fixed(_) => None,
            SizesOfGroup::Even { .. } | SizesOfGroup::Weighted(_) | SizesOfGroup::Spread { .. } => {
                Some(Box::new(generator()))
            }
        };
        Self { group, generator }
    }

    pub(super) fn next(&mut self) -> u32 {
        match (&self.group, &mut self.generator) {
            (SizesOfGroup::Fixed(bytes), _) => *bytes,
            (SizesOfGroup::Even { least, most }, Some(generator)) => {
                generator.random_range(*least..=*most)
            }
            (SizesOfGroup::Weighted(sizes), Some(generator)) => {
                let all = sizes.last().map_or(1, |(all, _)| *all);
                let drawn = generator.random_range(0..all);
                let place = sizes.partition_point(|(up_to, _)| *up_to <= drawn);
                sizes.get(place).map_or(0, |(_, bytes)| *bytes)
            }
            (
                SizesOfGroup::Spread {
                    median,
                    deviation,
                    least,
                    most,
                },
                Some(generator),
            ) => {
                let size = median * libm::exp(deviation * normal(generator));
                // `as` saturates
                (size.round() as u32).clamp(*least, *most)
            }
            (
                SizesOfGroup::Even { .. } | SizesOfGroup::Weighted(_) | SizesOfGroup::Spread { .. },
                None,
            ) => 0,
        }
    }
}

/// A draw from the standard normal distribution, by the method of Box and Muller. The functions of libm are
/// the same code on every platform, as those of the standard library are not.
fn normal(generator: &mut Generator) -> f64 {
    let distance = libm::sqrt(-2.0 * libm::log(1.0 - generator.random::<f64>()));
    distance * libm::cos(std::f64::consts::TAU * generator.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{SizeRange, SizeSpread, WeightedSize};
    use crate::seed::Seed;
    use crate::units::Bytes;

    fn draw(payload: PayloadSize, count: usize, seed: u64) -> Vec<u32> {
        let group = Publishers {
            payload,
            ..Publishers::default()
        };
        let generator = || Seed(seed).generator("payload", 0);
        let mut sizes = Sizes::new(SizesOfGroup::of(&group), generator);
        (0..count).map(|_| sizes.next()).collect()
    }

    #[test]
    fn sizes_come_from_the_whole_range_and_from_the_seed() {
        let range = PayloadSize::Range(SizeRange {
            min: Bytes(1),
            max: Bytes(4),
        });
        let draw = |seed| draw(range.clone(), 100, seed);
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut seen = draw(1);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2, 3, 4]);
    }

    #[test]
    fn a_list_is_drawn_by_its_weights() {
        let one = |size, weight| WeightedSize {
            size: Bytes(size),
            weight,
        };
        let list = PayloadSize::Weighted(vec![one(128, 9), one(65_536, 1)]);
        let drawn = draw(list, 100_000, 1);
        let small = drawn.iter().filter(|bytes| **bytes == 128).count();
        assert!(drawn.iter().all(|bytes| [128, 65_536].contains(bytes)));
        // a deviation of 95
        assert!(small.abs_diff(90_000) < 500, "{small}");
    }

    #[test]
    fn a_spread_has_its_median_and_its_99th_percentile() {
        let spread = SizeSpread {
            median: Bytes(1_000),
            p99: Bytes(20_000),
            min: Bytes(16),
            max: Some(Bytes(100_000)),
        };
        let mut drawn = draw(PayloadSize::Spread(spread), 200_000, 1);
        drawn.sort_unstable();
        let at = |part: usize| f64::from(drawn[drawn.len() / 1_000 * part]);
        assert!((at(500) / 1_000.0 - 1.0).abs() < 0.02, "{}", at(500));
        assert!((at(990) / 20_000.0 - 1.0).abs() < 0.05, "{}", at(990));
        // the first percentile is as far below the median as the 99th is above
        assert!((at(10) / 50.0 - 1.0).abs() < 0.05, "{}", at(10));
        assert!(drawn[0] >= 16);
        assert_eq!(drawn.last(), Some(&100_000), "the largest are cut off");
        let even = SizeSpread {
            p99: Bytes(1_000),
            ..spread
        };
        assert!(
            draw(PayloadSize::Spread(even), 100, 1)
                .iter()
                .all(|bytes| *bytes == 1_000)
        );
    }

    /// Changes only when the draw does; the same on every platform.
    #[test]
    fn spread_sizes_are_the_same_everywhere() {
        let spread = SizeSpread {
            median: Bytes(1_024),
            p99: Bytes(65_536),
            min: Bytes(16),
            max: None,
        };
        let drawn = draw(PayloadSize::Spread(spread), 5, 1);
        assert_eq!(drawn, [12_810, 86, 208, 7_556, 501]);
    }
}
