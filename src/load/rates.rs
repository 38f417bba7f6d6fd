//! A rate that changes over time, and its integral: when has it brought so many messages?
//!
//! Whole numbers only, so that every machine gives the same nanosecond: rates are thousandths of a
//! message per second, and the integral counts [`MESSAGE`] units for each message, in which steps and
//! ramps alike come out even. Leans on `scenario` for the settings.

use crate::scenario::{Publishers, RateChange};

/// Units of the integral for one message: a thousandth of a message per second brings one unit in half
/// a nanosecond.
pub(super) const MESSAGE: u128 = 2_000_000_000_000;

/// A rate over time, in nanoseconds since the publisher started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rates {
    /// In order; the last one has no end, and an even rate.
    stretches: Vec<Stretch>,
}

/// A stretch of time in which the rate is even, or changes in a straight line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: u64,
    span: u64,
    /// Thousandths of a message per second, at the start and at the end.
    first: u64,
    last: u64,
    /// The integral up to its start.
    before: u128,
}

impl Rates {
    /// The rate of a group, if it has one.
    pub(super) fn of(group: &Publishers) -> Option<Self> {
        if let Some(rate) = group.rate_per_second {
            return Some(Self::new(&[], thousandths(rate)));
        }
        (!group.rates.is_empty()).then(|| Self::new(&group.rates, 0))
    }

    /// The rate is `first` until the changes begin.
    fn new(changes: &[RateChange], first: u64) -> Self {
        let mut stretches: Vec<Stretch> = Vec::with_capacity(changes.len() + 1);
        let (mut from, mut rate, mut before) = (0, first, 0);
        let mut push = |until: u64, (first, last): (u64, u64), from: u64| {
            let stretch = Stretch {
                from,
                span: until - from,
                first,
                last,
                before,
            };
            if stretch.span > 0 {
                before += stretch.whole();
                stretches.push(stretch);
            }
        };
        for change in changes {
            let (at, next) = (change.at.0.as_nanos(), thousandths(change.per_second));
            push(at, (rate, if change.ramp { next } else { rate }), from);
            (from, rate) = (at, next);
        }
        push(u64::MAX, (rate, rate), from);
        Self { stretches }
    }

    /// The last nanosecond at which the integral is `mark` at most: the moment of the arrival with that
    /// mark. None if it never gets above. `hint` is the stretch to begin with, and moves on.
    pub(super) fn moment(&self, mark: u128, hint: &mut usize) -> Option<u64> {
        loop {
            let stretch = self.stretches.get(*hint)?;
            if mark < stretch.before + stretch.whole() {
                return Some(stretch.from + stretch.inverse(mark - stretch.before));
            }
            *hint += 1;
        }
    }

    /// The integral up to `moment`, rounded up to a whole unit.
    pub(super) fn up_to(&self, moment: u64) -> u128 {
        let behind = self
            .stretches
            .partition_point(|stretch| stretch.from < moment);
        let Some(stretch) = behind.checked_sub(1).map(|last| self.stretches[last]) else {
            return 0;
        };
        stretch.before + stretch.up_to((moment - stretch.from).min(stretch.span))
    }
}

impl Stretch {
    /// The integral over all of it.
    const fn whole(&self) -> u128 {
        (self.first as u128 + self.last as u128) * self.span as u128
    }

    /// The last nanosecond, from its start, at which the integral from its start is `mark` at most;
    /// `mark` is below the whole.
    fn inverse(&self, mark: u128) -> u64 {
        let span = u128::from(self.span);
        if self.first == self.last {
            return narrow(mark / (2 * u128::from(self.first)));
        }
        if self.first < self.last {
            return self.rising().last_within(mark * span);
        }
        // a falling ramp is a rising one that is read from its end: what is left there counts
        let left = (self.whole() - mark) * span;
        self.span - (self.rising().last_within(left - 1) + 1)
    }

    fn up_to(&self, moment: u64) -> u128 {
        let span = u128::from(self.span);
        if self.first == self.last {
            return 2 * u128::from(self.first) * u128::from(moment);
        }
        if self.first < self.last {
            return self.rising().times_span(moment).div_ceil(span);
        }
        self.whole() - self.rising().times_span(self.span - moment) / span
    }

    fn rising(&self) -> Ramp {
        let (low, high) = (self.first.min(self.last), self.first.max(self.last));
        Ramp {
            low: low.into(),
            rise: (high - low).into(),
            span: self.span.into(),
        }
    }
}

/// A ramp that rises, whose integral is told times its span: then it is a whole number. It lasts for a day
/// at most and ends at ten million messages per second at most, so that nothing here leaves 128 bits.
struct Ramp {
    low: u128,
    rise: u128,
    span: u128,
}

impl Ramp {
    fn times_span(&self, moment: u64) -> u128 {
        let moment = u128::from(moment);
        2 * self.low * self.span * moment + self.rise * moment * moment
    }

    /// The last nanosecond at which [`Ramp::times_span`] is `limit` at most.
    fn last_within(&self, limit: u128) -> u64 {
        let (low, limit_roughly) = ((self.low * self.span) as f64, limit as f64);
        let root = (low * low + self.rise as f64 * limit_roughly).sqrt();
        // a guess that is off by its last bits; what follows makes it exact, whatever it was
        let guess = if root > 0.0 {
            limit_roughly / (low + root)
        } else {
            0.0
        };
        let mut moment = (guess as u64).min(narrow(self.span));
        while self.times_span(moment) > limit {
            moment -= 1;
        }
        while self.times_span(moment + 1) <= limit {
            moment += 1;
        }
        moment
    }
}

fn narrow(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

/// A rate in thousandths of a message per second.
fn thousandths(per_second: f64) -> u64 {
    (per_second * 1_000.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::units::Span;

    const SECOND: u64 = 1_000_000_000;

    fn change(at: u64, per_second: f64, ramp: bool) -> RateChange {
        RateChange {
            at: Span(Time::from_nanos(at)),
            per_second,
            ramp,
        }
    }

    /// The moments of the first messages, evenly spread over the integral.
    fn moments(changes: &[RateChange], count: u128) -> Vec<Option<u64>> {
        let rates = Rates::new(changes, 0);
        let mut hint = 0;
        (0..count)
            .map(|index| rates.moment(index * MESSAGE, &mut hint))
            .collect()
    }

    #[test]
    fn steps_are_even_and_nothing_arrives_at_a_rate_of_zero() {
        let changes = [
            change(SECOND, 2.0, false),
            change(2 * SECOND, 0.0, false),
            change(5 * SECOND, 4.0, false),
            change(6 * SECOND, 0.0, false),
        ];
        let expected = [1.0, 1.5, 5.0, 5.25, 5.5, 5.75].map(|at: f64| Some((at * 1e9) as u64));
        assert_eq!(moments(&changes, 6), expected);
        assert_eq!(moments(&changes, 7)[6], None, "the last stretch is empty");
    }

    #[test]
    fn a_ramp_brings_messages_by_the_square_of_time() {
        // from 0 to 8 a second within 4 s: t^2 messages after t seconds
        let up = [
            change(4 * SECOND, 8.0, true),
            change(5 * SECOND, 0.0, false),
        ];
        let up = moments(&up, 16);
        for (index, moment) in up.iter().enumerate() {
            let exact = (index as f64).sqrt() * 1e9;
            assert!((moment.unwrap() as f64 - exact).abs() <= 1.0, "{index}");
        }
        // and down again: the same, seen from the end
        let down = [change(0, 8.0, false), change(4 * SECOND, 0.0, true)];
        let down = moments(&down, 17);
        for (index, moment) in down[..16].iter().enumerate() {
            let exact = (4.0 - (16.0 - index as f64).sqrt()) * 1e9;
            assert!((moment.unwrap() as f64 - exact).abs() <= 1.0, "{index}");
        }
        assert_eq!(down[16], None);
    }

    /// The inverse is exact on the widest ramps that a file can say, where numbers are largest.
    #[test]
    fn moments_agree_with_the_integral_to_the_nanosecond() {
        let day = 24 * 3_600 * SECOND;
        for (first, last) in [
            (0.0, 10_000_000.0),
            (10_000_000.0, 0.0),
            (0.001, 0.002),
            (9_999_999.999, 10_000_000.0),
            (5_000.0, 100.0),
        ] {
            let rates = Rates::new(&[change(0, first, false), change(day, last, true)], 0);
            let whole = rates.up_to(day);
            assert_eq!(rates.stretches[0].whole(), whole);
            let mut hint = 0;
            let mut before = 0;
            for part in 0..1_000 {
                let mark = whole / 1_000 * part + part;
                let moment = rates.moment(mark, &mut hint).unwrap();
                assert!(moment >= before && moment <= day);
                // rounded up, the integral hides what is less than a unit
                assert!(rates.up_to(moment) <= mark + 1, "{first} {last} {part}");
                assert!(rates.up_to(moment + 1) > mark, "{first} {last} {part}");
                before = moment;
            }
        }
    }

    #[test]
    fn a_single_rate_is_a_stretch_without_an_end() {
        let rates = Rates::new(&[], thousandths(3.0));
        let moment = |index| rates.moment(index * MESSAGE, &mut 0);
        assert_eq!(moment(0), Some(0));
        assert_eq!(moment(1), Some(333_333_333));
        assert_eq!(moment(3_000_000), Some(1_000_000 * SECOND));
        assert_eq!(rates.up_to(SECOND), 3 * MESSAGE);
    }
}
