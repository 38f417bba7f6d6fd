//! Arrivals at a rate that changes, or in bursts: even ones, or those of a Poisson process.
//!
//! The integral of the rate says how many messages the load has brought by a moment. Even arrivals come
//! where it is a whole number; those of a Poisson process where it has grown by an exponential draw, which
//! is the exact inversion for a rate that changes. With bursts the first message of each comes so, and the
//! others after it. Leans on `rates`.

use std::sync::Arc;

use rand::RngExt;

use super::rates::{MESSAGE, Rates};
use crate::seed::Generator;

/// Fraction bits of the distance within a burst.
const FRACTION_BITS: u32 = 32;

/// The arrivals of one publisher, in nanoseconds since its start.
#[derive(Clone, Debug)]
pub(super) struct Shaped {
    rates: Arc<Rates>,
    /// The stretch of `rates` that the next burst begins in, or an earlier one.
    stretch: usize,
    /// The integral where the burst begins.
    mark: u128,
    /// Messages of a burst, and the time between two of them with [`FRACTION_BITS`].
    burst: u32,
    spacing: u128,
    /// Poisson arrivals alone draw.
    generator: Option<Box<Generator>>,
    /// When the burst under way begins, if it ever does, and how many of it have come.
    begins: Option<u64>,
    taken: u32,
}

impl Shaped {
    /// Arrivals at `rates`, `burst` at a time, so far apart within a burst; even without a generator.
    pub(super) fn new(
        rates: Arc<Rates>,
        burst: u32,
        burst_rate_per_second: Option<f64>,
        generator: Option<Generator>,
    ) -> Self {
        let spacing = burst_rate_per_second.map_or(0, |rate| {
            (1e9 / rate * (1_u64 << FRACTION_BITS) as f64).round() as u128
        });
        let mut shaped = Self {
            rates,
            stretch: 0,
            mark: 0,
            burst: burst.max(1),
            spacing,
            generator: generator.map(Box::new),
            begins: Some(0),
            taken: 0,
        };
        if shaped.generator.is_some() {
            shaped.mark = shaped.distance();
        }
        shaped.begin(0);
        shaped
    }

    /// When the next message arrives; none: never.
    pub(super) fn upcoming(&self) -> Option<u64> {
        Some(self.begins?.saturating_add(self.after(self.taken)))
    }

    /// Goes on to the message after the next.
    pub(super) fn advance(&mut self) {
        self.taken += 1;
        if self.taken == self.burst
            && let Some(begins) = self.begins
        {
            let over = begins.saturating_add(self.after(self.burst));
            self.taken = 0;
            self.mark = self.mark.saturating_add(self.distance());
            self.begin(over);
        }
    }

    /// Passes over arrivals before `until`, `most` at the most, and says how many they were. Drawn ones are
    /// gone through while `draws` lasts and then taken at their mean rate; whole bursts of even ones are
    /// counted at once.
    pub(super) fn pass(&mut self, until: u64, most: u64, draws: &mut u64) -> u64 {
        let is_even = self.generator.is_none();
        let mut passed = if is_even {
            self.pass_bursts(until, most)
        } else {
            0
        };
        while passed < most && self.upcoming().is_some_and(|at| at < until) {
            if !is_even {
                if *draws == 0 {
                    return passed + self.pass_at_the_mean(until, most - passed);
                }
                *draws -= 1;
            }
            passed += 1;
            self.advance();
        }
        passed
    }

    /// Passes over even bursts up to the last that begins before `until`: those before it are over by then.
    fn pass_bursts(&mut self, until: u64, most: u64) -> u64 {
        let burst = u128::from(self.burst);
        let taken = u128::from(self.taken);
        let to_come = self.rates.up_to(until).saturating_sub(self.mark);
        let behind_the_last = to_come.div_ceil(burst * MESSAGE).saturating_sub(1);
        let bursts = behind_the_last.min((u128::from(most) + taken) / burst);
        if bursts == 0 {
            return 0;
        }
        self.taken = 0;
        self.mark = self.mark.saturating_add(bursts * burst * MESSAGE);
        self.begin(0);
        u64::try_from(bursts * burst - taken).unwrap_or(most)
    }

    /// Counts drawn arrivals by the integral of the rate alone. The next one is before `until`, and so is
    /// taken to be what is left of its burst. A Poisson process has no memory: the first burst from `until`
    /// on is as far from there as one from the other.
    fn pass_at_the_mean(&mut self, until: u64, most: u64) -> u64 {
        let rest = u64::from(self.burst - self.taken);
        if most < rest {
            self.taken += u32::try_from(most).unwrap_or(0);
            return most;
        }
        let reached = self.rates.up_to(until).max(self.mark);
        let more = u64::try_from((reached - self.mark) / MESSAGE).unwrap_or(u64::MAX);
        let count = rest.saturating_add(more);
        let taken = std::mem::take(&mut self.taken);
        if count <= most {
            self.mark = reached.saturating_add(self.distance());
            self.begin(until);
            return count;
        }
        let messages = u128::from(taken) + u128::from(most);
        self.mark = self.mark.saturating_add(messages * MESSAGE);
        self.begin(0);
        most
    }

    /// The burst with the present mark begins where the rate says, and not before `earliest`.
    fn begin(&mut self, earliest: u64) {
        let moment = self.rates.moment(self.mark, &mut self.stretch);
        self.begins = moment.map(|moment| moment.max(earliest));
    }

    /// How long after the start of its burst a message comes.
    fn after(&self, messages: u32) -> u64 {
        let after = (self.spacing * u128::from(messages)) >> FRACTION_BITS;
        u64::try_from(after).unwrap_or(u64::MAX)
    }

    /// From one burst to the next, in units of the integral.
    fn distance(&mut self) -> u128 {
        let even = MESSAGE * u128::from(self.burst);
        match &mut self.generator {
            None => even,
            Some(generator) => {
                // as in `arrival`: the logarithm of libm is the same code everywhere
                let distance = -libm::log(1.0 - generator.random::<f64>());
                (distance * even as f64).round() as u128
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::scenario::{Publishers, RateChange};
    use crate::seed::Seed;
    use crate::units::Span;

    const SECOND: u64 = 1_000_000_000;

    fn rates(changes: &[(u64, f64, bool)]) -> Arc<Rates> {
        let group = Publishers {
            rates: changes
                .iter()
                .map(|&(at, per_second, ramp)| RateChange {
                    at: Span(Time::from_nanos(at)),
                    per_second,
                    ramp,
                })
                .collect(),
            ..Publishers::default()
        };
        Arc::new(Rates::of(&group).unwrap())
    }

    fn generator(seed: u64) -> Option<Generator> {
        Some(Seed(seed).generator("arrival", 0))
    }

    fn all(mut shaped: Shaped, until: u64) -> Vec<u64> {
        let mut moments = Vec::new();
        while let Some(at) = shaped.upcoming().filter(|at| *at < until) {
            moments.push(at);
            shaped.advance();
        }
        moments
    }

    #[test]
    fn bursts_come_at_once_and_keep_the_mean() {
        let moments = all(
            Shaped::new(rates(&[(0, 100.0, false)]), 50, None, None),
            2 * SECOND,
        );
        assert_eq!(moments.len(), 200);
        for (index, moment) in moments.iter().enumerate() {
            assert_eq!(*moment, index as u64 / 50 * SECOND / 2);
        }
    }

    #[test]
    fn a_burst_with_a_rate_of_its_own_spreads_and_does_not_overlap() {
        let rates = rates(&[(0, 100.0, false)]);
        let moments = all(
            Shaped::new(Arc::clone(&rates), 50, Some(1_000.0), None),
            SECOND,
        );
        assert_eq!(moments.len(), 100);
        assert_eq!(moments[49], 49_000_000);
        assert_eq!(moments[50], SECOND / 2);
        let drawn = Shaped::new(rates, 50, Some(200.0), generator(3));
        let moments = all(drawn, 100 * SECOND);
        assert!(moments.is_sorted());
        assert!(moments.windows(2).all(|two| two[1] - two[0] >= 4_999_999));
    }

    /// The number of arrivals of a Poisson process in a stretch has the mean and the variance of the
    /// integral of its rate over it, whatever the rate does.
    #[test]
    fn drawn_arrivals_follow_the_rate_over_time() {
        let rates = rates(&[
            (0, 1_000.0, false),
            (SECOND, 0.0, false),
            (2 * SECOND, 0.0, false),
            (4 * SECOND, 4_000.0, true),
            (5 * SECOND, 0.0, true),
        ]);
        let draw = |seed| {
            all(
                Shaped::new(Arc::clone(&rates), 1, None, generator(seed)),
                u64::MAX,
            )
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let runs: Vec<_> = (0..200).map(draw).collect();
        for (from, until, mean) in [
            (0, SECOND, 1_000.0),
            (2 * SECOND, 3 * SECOND, 1_000.0),
            (3 * SECOND, 4 * SECOND, 3_000.0),
            (4 * SECOND, 5 * SECOND, 2_000.0),
        ] {
            let counts = runs.iter().map(|moments| {
                let inside = moments.iter().filter(|at| (from..until).contains(*at));
                inside.count() as f64
            });
            let sum: f64 = counts.clone().sum();
            let squares: f64 = counts.map(|count| (count - mean).powi(2)).sum();
            let n = runs.len() as f64;
            assert!(
                (sum / n - mean).abs() < 5.0 * (mean / n).sqrt(),
                "{from}: {}",
                sum / n
            );
            // the variance of 200 counts has a deviation of a tenth
            assert!(
                (0.6..1.5).contains(&(squares / n / mean)),
                "{from}: {}",
                squares / n
            );
        }
        let silent = runs
            .iter()
            .flatten()
            .filter(|at| (SECOND..2 * SECOND).contains(*at));
        assert_eq!(silent.count(), 0);
        assert!(runs.iter().flatten().all(|at| *at < 5 * SECOND));
    }

    /// Changes only when the draw does; the same on every platform.
    #[test]
    fn drawn_moments_are_the_same_everywhere() {
        let rates = rates(&[(0, 100.0, false), (SECOND, 900.0, true)]);
        let moments = all(Shaped::new(rates, 1, None, generator(1)), SECOND);
        assert_eq!(
            moments[..4],
            [16_562_926, 29_326_838, 35_768_856, 39_312_345]
        );
    }

    #[test]
    fn passing_over_arrivals_is_as_asking_for_them() {
        let rates = rates(&[
            (0, 500.0, false),
            (SECOND, 2_000.0, true),
            (3 * SECOND, 0.0, true),
            (4 * SECOND, 300.0, false),
        ]);
        for (burst, within, drawn) in [
            (1, None, false),
            (1, None, true),
            (7, None, false),
            (7, Some(9_000.0), false),
            (7, Some(9_000.0), true),
        ] {
            for until in [SECOND / 3, 2 * SECOND, 3 * SECOND + 500_000_001, 5 * SECOND] {
                let new = || {
                    let generator = drawn.then(|| generator(9).unwrap());
                    Shaped::new(Arc::clone(&rates), burst, within, generator)
                };
                let expected = all(new(), until).len() as u64;
                let mut shaped = new();
                let mut draws = u64::MAX;
                assert_eq!(shaped.pass(until, 3, &mut draws), 3);
                assert_eq!(shaped.pass(until, u64::MAX, &mut draws), expected - 3);
                assert_eq!(shaped.pass(until, u64::MAX, &mut draws), 0);
                assert!(shaped.upcoming().is_some_and(|at| at >= until));
                // beyond the draws the mean is taken
                let roughly = new().pass(until, u64::MAX, &mut 100);
                let deviation = 8.0 * (f64::from(burst) * expected as f64).sqrt() + 10.0;
                assert!(
                    (roughly as f64 - expected as f64).abs() < deviation,
                    "{roughly} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_burst_that_is_cut_by_a_pass_goes_on_and_so_do_those_after_it() {
        let even = || Shaped::new(rates(&[(0, 100.0, false)]), 50, None, None);
        let until = 1_000 * SECOND + 1;
        let mut shaped = even();
        assert_eq!(shaped.pass(until, u64::MAX, &mut 0), 2_001 * 50);
        assert_eq!(
            all(shaped, 1_001 * SECOND),
            [1_000 * SECOND + SECOND / 2; 50]
        );
        let mut shaped = even();
        assert_eq!(shaped.pass(until, 50_020, &mut 0), 50_020);
        let moments = all(shaped, 501 * SECOND);
        assert_eq!(moments[..30], [500 * SECOND; 30]);
        assert_eq!(moments[30..], [500 * SECOND + SECOND / 2; 50]);
    }

    #[test]
    fn after_a_long_backlog_bursts_are_drawn_as_before() {
        let rates = rates(&[(0, 100.0, false)]);
        for (most, from) in [(u64::MAX, 1_000 * SECOND), (50_000, 499 * SECOND)] {
            let mut shaped = Shaped::new(Arc::clone(&rates), 50, None, generator(5));
            shaped.pass(1_000 * SECOND, most, &mut 10);
            let moments = all(shaped, from + 10_000 * SECOND);
            assert!(
                (from..from + 10 * SECOND).contains(&moments[0]),
                "{}",
                moments[0]
            );
            let bursts: Vec<u64> = moments.chunks(50).map(|burst| burst[0]).collect();
            assert!(
                moments
                    .chunks(50)
                    .all(|burst| burst.iter().all(|at| *at == burst[0]))
            );
            let distances = bursts
                .windows(2)
                .map(|two| (two[1] - two[0]) as f64 / SECOND as f64);
            let n = distances.len() as f64;
            let mean = distances.clone().sum::<f64>() / n;
            let squares: f64 = distances.map(|distance| (distance - mean).powi(2)).sum();
            // 20,000 exponential distances of half a second
            assert!((0.48..0.52).contains(&mean), "{mean}");
            let deviation = (squares / n).sqrt();
            assert!((0.48..0.52).contains(&deviation), "{deviation}");
        }
    }

    #[test]
    fn what_never_comes_again_is_told() {
        let shaped = Shaped::new(
            rates(&[(0, 2.0, false), (SECOND, 0.0, false)]),
            1,
            None,
            None,
        );
        assert_eq!(all(shaped, u64::MAX), [0, SECOND / 2]);
    }
}
