//! Arrivals: the moment at which the load wants each message sent.
//!
//! Open loops (constant, Poisson, replay) know these moments whatever the publisher does; a closed loop
//! wants the next message as soon as the last one is taken. Pure: `now` comes in, the generator is
//! seeded. Leans on `shaped` for rates that change and for bursts, on `replay`, on `scenario` for the
//! settings and on `seed`.

use std::sync::Arc;

use rand::RngExt;

use super::rates::Rates;
use super::replay::Replay;
use super::shaped::Shaped;
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
    /// Since `earliest`, as the next.
    Shaped(Box<Shaped>),
    Replay(Replay),
}

impl Arrivals {
    /// The arrivals of a publisher of `group` that starts at `start`, and is number `index` of it; Poisson
    /// arrivals alone draw, from `generator`. `rates` are those of the group.
    ///
    /// An open loop without a usable rate, or whose file was not read, has no arrivals at all; a checked
    /// file has one.
    pub(super) fn new(
        group: &Publishers,
        rates: Option<&Arc<Rates>>,
        index: u32,
        start: Time,
        generator: impl FnOnce() -> Generator,
    ) -> Self {
        let is_shaped = !group.rates.is_empty() || group.burst > 1;
        let shape = rates.filter(|_| is_shaped);
        let mean_ns = group
            .rate_per_second
            .filter(|rate| *rate > 0.0)
            .map_or(u64::MAX as f64, |rate| 1e9 / rate);
        let kind = match (group.arrival, shape) {
            (Arrival::Closed, _) => Kind::Closed,
            (Arrival::Replay, _) => Kind::Replay(Replay::new(group, index)),
            (Arrival::Constant | Arrival::Poisson, Some(rates)) => {
                let draws = group.arrival == Arrival::Poisson;
                Kind::Shaped(Box::new(Shaped::new(
                    Arc::clone(rates),
                    group.burst,
                    group.burst_rate_per_second,
                    draws.then(generator),
                )))
            }
            (Arrival::Constant, None) => Kind::Constant {
                period: fixed_point(mean_ns),
                elapsed: 0,
            },
            (Arrival::Poisson, None) => Kind::Poisson {
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
    /// An open loop answers with moments of its own, past ones included, and with [`Time::NEVER`] when no
    /// message comes any more. A closed loop answers `now`, or the later end of a pause.
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
            Kind::Shaped(shaped) => {
                let due = shaped.upcoming();
                shaped.advance();
                since(self.earliest, due)
            }
            Kind::Replay(replay) => {
                let due = replay.upcoming();
                replay.advance();
                since(self.earliest, due)
            }
        }
    }

    /// Whether no message comes any more.
    pub fn are_over(&self) -> bool {
        match &self.kind {
            Kind::Closed | Kind::Constant { .. } | Kind::Poisson { .. } => false,
            Kind::Shaped(shaped) => shaped.upcoming().is_none(),
            Kind::Replay(replay) => replay.upcoming().is_none(),
        }
    }

    /// The application rests for `span` from `now` on: a closed loop wants nothing until then, or the end of
    /// an earlier rest if that is later; an open loop moves all its later arrivals by it.
    pub fn pause(&mut self, now: Time, span: Time) {
        match self.kind {
            Kind::Closed => self.earliest = self.earliest.max(now + span),
            Kind::Constant { .. } | Kind::Poisson { .. } | Kind::Shaped(_) | Kind::Replay(_) => {
                self.earliest += span;
            }
        }
    }

    /// Whether these moments are wanted whatever the publisher does.
    pub const fn is_open_loop(&self) -> bool {
        match self.kind {
            Kind::Closed => false,
            Kind::Constant { .. } | Kind::Poisson { .. } | Kind::Shaped(_) | Kind::Replay(_) => {
                true
            }
        }
    }

    /// Passes over the arrivals of an open loop before `until`, `most` at the most, and says how
    /// many they were. Poisson arrivals are drawn while `draws` lasts and then taken at their mean
    /// rate, so that a long backlog costs no more than a short one; those that follow are drawn again.
    pub fn pass(&mut self, until: Time, most: u64, draws: &mut u64) -> u64 {
        let own = until.since(self.earliest).as_nanos();
        match &mut self.kind {
            Kind::Closed => 0,
            Kind::Shaped(shaped) => shaped.pass(own, most, draws),
            Kind::Replay(replay) => replay.pass(own, most),
            Kind::Constant { period, elapsed } => {
                let count = evenly(own, *elapsed, *period).min(most);
                *elapsed = elapsed.saturating_add(period.saturating_mul(u128::from(count)));
                count
            }
            &mut Kind::Poisson { mean_ns, .. } => {
                let mut passed = 0;
                while passed < most && self.earliest < until {
                    if *draws == 0 {
                        return passed + self.pass_at_the_mean(mean_ns, until, most - passed);
                    }
                    *draws -= 1;
                    passed += 1;
                    self.advance_poisson();
                }
                passed
            }
        }
    }

    /// Counts Poisson arrivals at their mean rate; the next one is before `until`. A Poisson process has no
    /// memory: the first arrival from `until` on is as far from there as one from the other.
    fn pass_at_the_mean(&mut self, mean_ns: f64, until: Time, most: u64) -> u64 {
        let count = evenly(
            until.since(self.earliest).as_nanos(),
            0,
            fixed_point(mean_ns),
        );
        if count <= most {
            self.earliest = until;
            self.advance_poisson();
            return count;
        }
        self.earliest += Time::from_nanos((mean_ns * most as f64).round() as u64);
        most
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

/// Even arrivals before `until`, in nanoseconds, when the next is after `elapsed` and each after a `period`,
/// both with [`FRACTION_BITS`].
fn evenly(until: u64, elapsed: u128, period: u128) -> u64 {
    let room = (u128::from(until) << FRACTION_BITS).saturating_sub(elapsed);
    u64::try_from(room.div_ceil(period.max(1))).unwrap_or(u64::MAX)
}

/// So long after `start`; never, if that never comes.
fn since(start: Time, moment: Option<u64>) -> Time {
    moment.map_or(Time::NEVER, |moment| start + Time::from_nanos(moment))
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
        Arrivals::new(&group, None, 0, Time::from_millis(5), || generator)
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
        arrivals.pause(Time::from_millis(12), Time::from_millis(1));
        assert_eq!(arrivals.next(Time::from_millis(13)), Time::from_millis(19));
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

    /// Neither the wait for the next arrival nor those between the ones that follow are even.
    #[test]
    fn after_a_long_backlog_arrivals_are_drawn_as_before() {
        let until = Time::from_secs(3_600);
        let mut following = Vec::new();
        for most in [u64::MAX, 1_000_000] {
            let mut arrivals = arrivals(Arrival::Poisson, Some(1_000.0), 1);
            let passed = arrivals.pass(until, most, &mut 10);
            assert_eq!(passed, most.min(passed));
            let moments: Vec<_> = (0..20_001).map(|_| arrivals.next(Time::ZERO)).collect();
            if most == u64::MAX {
                assert!(moments[0] > until && moments[0] < until + Time::from_millis(20));
            }
            let distances = moments
                .windows(2)
                .map(|two| two[1].since(two[0]).as_secs_f64());
            let mean = distances.clone().sum::<f64>() / 20_000.0;
            let squares: f64 = distances.map(|distance| (distance - mean).powi(2)).sum();
            // the mean and the deviation of an exponential distribution are the same
            assert!((0.000_95..0.001_05).contains(&mean), "{mean}");
            let deviation = (squares / 20_000.0).sqrt();
            assert!((0.000_95..0.001_05).contains(&deviation), "{deviation}");
            following.push(moments[0]);
        }
        // a million takes a thousand seconds at the mean
        let limited = following[1].as_secs_f64();
        assert!((999.0..1_001.0).contains(&limited), "{limited}");
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
