//! Arrivals: the moment at which the load wants each message sent.
//!
//! Open loops (constant, Poisson) know these moments whatever the publisher does; a closed loop
//! wants the next message as soon as the last one is taken. Pure: `now` comes in, the generator is
//! seeded. Leans on `scenario` for the settings and on `seed`.

use rand::RngExt;

use crate::machine::Time;
use crate::scenario::{Arrival, Publishers};
use crate::seed::Generator;

/// Fraction bits of a fixed-point nanosecond: an even rate keeps its rate over any run.
const FRACTION_BITS: u32 = 32;

/// The intended starts of one publisher, one after the other.
#[derive(Clone, Debug)]
pub struct Arrivals {
    kind: Kind,
    /// No message is wanted before: the start, or the end of a pause.
    earliest: Time,
}

#[derive(Clone, Debug)]
enum Kind {
    Closed,
    /// Both in nanoseconds with [`FRACTION_BITS`] fraction bits; `elapsed` since `earliest`.
    Constant {
        period: u128,
        elapsed: u128,
    },
    Poisson {
        mean_ns: f64,
        generator: Box<Generator>,
    },
}

impl Arrivals {
    /// The arrivals of a publisher of `group` that starts at `start`; Poisson arrivals alone draw, from
    /// `generator`.
    ///
    /// An open loop without a usable rate has no arrivals at all; a checked file has one.
    pub fn new(group: &Publishers, start: Time, generator: impl FnOnce() -> Generator) -> Self {
        let mean_ns = group
            .rate_per_second
            .filter(|rate| *rate > 0.0)
            .map_or(u64::MAX as f64, |rate| 1e9 / rate);
        let kind = match group.arrival {
            Arrival::Closed => Kind::Closed,
            Arrival::Constant => Kind::Constant {
                period: fixed_point(mean_ns),
                elapsed: 0,
            },
            Arrival::Poisson => Kind::Poisson {
                mean_ns,
                generator: Box::new(generator()),
            },
        };
        let mut arrivals = Self {
            kind,
            earliest: start,
        };
        arrivals.advance_poisson();
        arrivals
    }

    /// When the next message is wanted, asked at `now` by a publisher that is free, and moves on.
    ///
    /// An open loop answers with moments of its own, past ones included. A closed loop answers
    /// `now`, or the later end of a pause.
    pub fn next(&mut self, now: Time) -> Time {
        match &mut self.kind {
            Kind::Closed => self.earliest.max(now),
            Kind::Constant { period, elapsed } => {
                let whole = u64::try_from(*elapsed >> FRACTION_BITS).unwrap_or(u64::MAX);
                *elapsed = elapsed.saturating_add(*period);
                self.earliest + Time::from_nanos(whole)
            }
            Kind::Poisson { .. } => {
                let due = self.earliest;
                self.advance_poisson();
                due
            }
        }
    }

    /// The application rests for `span` from `now` on: a closed loop wants nothing until then, an
    /// open loop moves all its later arrivals by it.
    pub fn pause(&mut self, now: Time, span: Time) {
        match self.kind {
            Kind::Closed => self.earliest = now + span,
            Kind::Constant { .. } | Kind::Poisson { .. } => self.earliest += span,
        }
    }

    /// Whether these moments are wanted whatever the publisher does.
    pub const fn is_open_loop(&self) -> bool {
        match self.kind {
            Kind::Closed => false,
            Kind::Constant { .. } | Kind::Poisson { .. } => true,
        }
    }

    /// Passes over the arrivals of an open loop before `until`, `most` at the most, and says how
    /// many they were. Poisson arrivals are drawn while `draws` lasts and then taken at their mean
    /// rate, so that a long backlog costs no more than a short one.
    pub fn pass(&mut self, until: Time, most: u64, draws: &mut u64) -> u64 {
        match self.kind {
            Kind::Closed => 0,
            Kind::Constant { .. } => self.pass_evenly(until, most),
            Kind::Poisson { mean_ns, .. } => {
                let mut passed = 0;
                while passed < most && self.earliest < until {
                    if *draws == 0 {
                        self.kind = Kind::Constant {
                            period: fixed_point(mean_ns),
                            elapsed: 0,
                        };
                        return passed + self.pass_evenly(until, most - passed);
                    }
                    *draws -= 1;
                    passed += 1;
                    self.advance_poisson();
                }
                passed
            }
        }
    }

    fn pass_evenly(&mut self, until: Time, most: u64) -> u64 {
        let Kind::Constant { period, elapsed } = &mut self.kind else {
            return 0;
        };
        let room = u128::from(until.since(self.earliest).as_nanos()) << FRACTION_BITS;
        let count = room.saturating_sub(*elapsed).div_ceil((*period).max(1));
        let count = u64::try_from(count).unwrap_or(u64::MAX).min(most);
        *elapsed = elapsed.saturating_add(period.saturating_mul(u128::from(count)));
        count
    }

    fn advance_poisson(&mut self) {
        if let Kind::Poisson { mean_ns, generator } = &mut self.kind {
            // the logarithm of the standard library may differ in its last bit from one platform to
            // the next; this one is the same code everywhere. 1 - u is above 0, and exact.
            let distance = -libm::log(1.0 - generator.random::<f64>());
            // `as` saturates, so a rate near zero ends in `Time::NEVER`
            self.earliest += Time::from_nanos((distance * *mean_ns).round() as u64);
        }
    }
}

fn fixed_point(nanoseconds: f64) -> u128 {
    (nanoseconds * (1_u64 << FRACTION_BITS) as f64).round() as u128
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn arrivals(arrival: Arrival, rate: Option<f64>, seed: u64) -> Arrivals {
        let group = Publishers {
            arrival,
            rate_per_second: rate,
            ..Publishers::default()
        };
        let generator = Seed(seed).generator("arrival", 0);
        Arrivals::new(&group, Time::from_millis(5), || generator)
    }

    #[test]
    fn a_constant_rate_keeps_its_rate_whatever_the_publisher_does() {
        let mut arrivals = arrivals(Arrival::Constant, Some(3.0), 1);
        let moments: Vec<_> = (0..=3_000_000_u64)
            .map(|k| arrivals.next(Time::from_nanos(k)))
            .collect();
        assert_eq!(moments[0], Time::from_millis(5));
        assert_eq!(moments[1], Time::from_nanos(5_000_000 + 333_333_333));
        let last = moments[3_000_000].since(Time::from_millis(5)).as_nanos();
        assert!(
            last.abs_diff(1_000_000_000_000_000) <= 1_000_000,
            "{last} ns"
        );
    }

    #[test]
    fn poisson_follows_the_seed_and_has_the_mean_of_its_rate() {
        let draw = |seed| {
            let mut arrivals = arrivals(Arrival::Poisson, Some(1_000.0), seed);
            (0..20_000)
                .map(|_| arrivals.next(Time::ZERO))
                .collect::<Vec<_>>()
        };
        let moments = draw(1);
        assert_eq!(moments, draw(1));
        assert_ne!(moments, draw(2));
        assert!(moments.is_sorted());
        // 20,000 exponential distances of 1 ms: the sum has a deviation of 0.7 %
        let mean = moments[19_999].as_secs_f64() / 20_000.0;
        assert!((0.000_95..0.001_05).contains(&mean), "{mean}");
    }

    /// Changes only when the draw does; the same on every platform.
    #[test]
    fn poisson_moments_are_the_same_everywhere() {
        let mut arrivals = arrivals(Arrival::Poisson, Some(1_000.0), 1);
        let moments: Vec<_> = (0..4)
            .map(|_| arrivals.next(Time::ZERO).as_nanos())
            .collect();
        assert_eq!(moments, [6_766_025, 8_276_709, 9_088_650, 9_549_419]);
    }

    #[test]
    fn a_closed_loop_wants_the_next_at_once_but_not_before_its_start_or_in_a_pause() {
        let mut arrivals = arrivals(Arrival::Closed, None, 1);
        assert_eq!(arrivals.next(Time::ZERO), Time::from_millis(5));
        assert_eq!(arrivals.next(Time::from_millis(9)), Time::from_millis(9));
        arrivals.pause(Time::from_millis(9), Time::from_millis(10));
        assert_eq!(arrivals.next(Time::from_millis(9)), Time::from_millis(19));
    }

    #[test]
    fn passing_over_arrivals_is_as_asking_for_them() {
        let until = Time::from_millis(1_005);
        for (arrival, rate) in [
            (Arrival::Constant, 3.0),
            (Arrival::Constant, 7_777.0),
            (Arrival::Poisson, 500.0),
        ] {
            let mut passed = arrivals(arrival, Some(rate), 3);
            let mut asked = passed.clone();
            let mut expected = 0;
            let next = loop {
                match asked.next(Time::ZERO) {
                    due if due < until => expected += 1,
                    due => break due,
                }
            };
            let mut draws = u64::MAX;
            assert_eq!(passed.pass(until, 1, &mut draws), 1);
            assert_eq!(passed.pass(until, u64::MAX, &mut draws), expected - 1);
            assert_eq!(passed.pass(until, u64::MAX, &mut draws), 0);
            assert_eq!(passed.next(Time::ZERO), next);
        }
    }

    #[test]
    fn a_long_backlog_is_counted_at_its_mean_rate() {
        let mut arrivals = arrivals(Arrival::Poisson, Some(10_000_000.0), 1);
        let day = Time::from_secs(24 * 3_600);
        let passed = arrivals.pass(day + Time::from_millis(5), u64::MAX, &mut 10_000);
        let expected = 864_000_000_000_u64;
        // the 10,000 that are drawn have a deviation of 100
        assert!(passed.abs_diff(expected) < 1_000, "{passed}");
    }

    #[test]
    fn a_closed_loop_owes_nothing() {
        let mut arrivals = arrivals(Arrival::Closed, None, 1);
        assert_eq!(arrivals.pass(Time::NEVER, 9, &mut 9), 0);
    }

    #[test]
    fn a_pause_moves_an_open_loop() {
        let mut arrivals = arrivals(Arrival::Constant, Some(1_000.0), 1);
        assert_eq!(arrivals.next(Time::ZERO), Time::from_millis(5));
        arrivals.pause(Time::ZERO, Time::from_millis(100));
        assert_eq!(arrivals.next(Time::ZERO), Time::from_millis(106));
    }
}
