//! Axes: from values to places, and where the ticks stand.
//!
//! Leans on `text` for units.

use crate::report::text::{duration_unit, short, three_digits};

/// A horizontal or vertical axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) kind: Kind,
}

/// How an axis is divided, and what its numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nanoseconds since the start of the run.
    Time,
    /// Spans in nanoseconds, even.
    Span,
    /// Spans in nanoseconds, each decade as long as the next.
    SpanDecades,
    /// Counts and rates.
    Number,
    /// Parts of one, in percent.
    Percent,
    /// The part of messages at most so slow, as nines: 1 is 90 %, 2 is 99 %.
    Nines,
}

/// A tick: the value where it stands, and its text.
pub(super) type Tick = (f64, String);

impl Axis {
    /// Time from the start to `end` nanoseconds.
    pub(super) fn time(end: u64) -> Self {
        Self {
            low: 0.0,
            high: (end as f64).max(1.0),
            kind: Kind::Time,
        }
    }

    /// From zero to somewhat above the largest of `values`.
    pub(super) fn from_zero(kind: Kind, values: impl Iterator<Item = f64>) -> Self {
        let most = values.fold(0.0, f64::max);
        let least_range = match kind {
            Kind::Percent => 0.000_1,
            Kind::Time | Kind::Span | Kind::SpanDecades | Kind::Number | Kind::Nines => 1.0,
        };
        Self {
            low: 0.0,
            high: (most * 1.05).max(least_range),
            kind,
        }
    }

    /// The axis drawn out to its next tick, where at most about `most` ticks are wanted.
    pub(super) fn to_a_tick(&self, most: usize) -> Self {
        let mut axis = self.clone();
        match self.kind {
            Kind::Span | Kind::Number | Kind::Percent => {
                let step = step_of(self.kind, self.high - self.low, most);
                axis.high = (self.high / step - 1e-9).ceil() * step;
            }
            Kind::Time | Kind::SpanDecades | Kind::Nines => {}
        }
        if self.kind == Kind::Percent {
            axis.high = axis.high.min(1.0);
        }
        axis
    }

    /// Spans from zero, or in decades where the largest is far above the smallest.
    pub(super) fn spans(values: impl Iterator<Item = f64> + Clone) -> Self {
        let above_zero = values.clone().filter(|value| *value > 0.0);
        let least = above_zero.fold(f64::MAX, f64::min);
        let most = values.clone().fold(0.0, f64::max);
        if most <= least * 20.0 {
            return Self::from_zero(Kind::Span, values);
        }
        // A little air on both sides, on borders that a reader can name.
        let (low, high) = (nice_below(least / 1.05), nice_above(most * 1.05));
        Self {
            low,
            high,
            kind: Kind::SpanDecades,
        }
    }

    /// Where `value` stands between the ends of the axis: 0 to 1, clamped.
    pub(super) fn place(&self, value: f64) -> f64 {
        let scaled = |value: f64| match self.kind {
            Kind::SpanDecades => value.max(f64::MIN_POSITIVE).log10(),
            Kind::Time | Kind::Span | Kind::Number | Kind::Percent | Kind::Nines => value,
        };
        let (low, high) = (scaled(self.low), scaled(self.high));
        if high <= low {
            return 0.0;
        }
        ((scaled(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The ticks, at most about `most` of them, lowest first.
    pub(super) fn ticks(&self, most: usize) -> Vec<Tick> {
        match self.kind {
            Kind::Nines => self.nines(),
            Kind::SpanDecades => self.decades(most),
            Kind::Time | Kind::Span | Kind::Number | Kind::Percent => self.even(most),
        }
    }

    /// The unit of the axis, where all its numbers share one.
    pub(super) fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Time => duration_unit(self.high).1,
            Kind::Span => duration_unit(self.high).1,
            Kind::SpanDecades | Kind::Number | Kind::Percent | Kind::Nines => "",
        }
    }

    fn even(&self, most: usize) -> Vec<Tick> {
        let step = step_of(self.kind, self.high - self.low, most);
        let scale = match self.kind {
            Kind::Time | Kind::Span => duration_unit(self.high).0,
            Kind::Percent => 0.01,
            Kind::SpanDecades | Kind::Number | Kind::Nines => 1.0,
        };
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step * (1.0 + 1e-9)).floor() as i64;
        // Steps are such that there are few; the bound is against a broken axis.
        let ticks = (first..=last).take(100).map(|index| {
            let value = index as f64 * step;
            let text = match self.kind {
                Kind::Number => short(value),
                Kind::Percent => format!("{} %", four_digits(value / scale)),
                Kind::Time | Kind::Span | Kind::SpanDecades | Kind::Nines => {
                    four_digits(value / scale)
                }
            };
            (value, text)
        });
        ticks.collect()
    }

    fn decades(&self, most: usize) -> Vec<Tick> {
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let decades = last - first;
        let within: &[f64] = if decades <= most as f64 / 3.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let mut ticks = Vec::new();
        for exponent in first as i32..=last as i32 {
            for factor in within {
                let value = factor * 10_f64.powi(exponent);
                if value >= self.low * 0.999 && value <= self.high * 1.001 {
                    let (scale, unit) = duration_unit(value);
                    ticks.push((value, format!("{} {unit}", three_digits(value / scale))));
                }
            }
        }
        ticks
    }

    fn nines(&self) -> Vec<Tick> {
        let known = [
            (0.0, "0 %"),
            (0.5_f64, "50 %"),
            (0.75, "75 %"),
            (0.9, "90 %"),
            (0.95, "95 %"),
            (0.99, "99 %"),
            (0.999, "99.9 %"),
            (0.9999, "99.99 %"),
            (0.99999, "99.999 %"),
            (0.999999, "99.9999 %"),
            (0.9999999, "99.99999 %"),
        ];
        let crowded = self.high > 4.5;
        known
            .iter()
            .filter(|(quantile, _)| !crowded || ![0.75, 0.95].contains(quantile))
            .map(|(quantile, text)| (nines_of(*quantile), (*text).to_owned()))
            .filter(|(value, _)| *value <= self.high + 1e-9)
            .collect()
    }
}

/// How many nines a quantile has: 0.9 is 1, 0.99 is 2.
pub(super) fn nines_of(quantile: f64) -> f64 {
    // The sum keeps 0 from becoming -0.
    -(1.0 - quantile).log10() + 0.0
}

/// The distance of ticks that gives at most about `most` over `range`.
fn step_of(kind: Kind, range: f64, most: usize) -> f64 {
    let raw = range / most.max(1) as f64;
    if kind == Kind::Time {
        let (scale, unit) = duration_unit(range);
        let sixties = matches!(unit, "min") || (unit == "s" && range >= 60e9);
        if sixties {
            let steps = [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0];
            if let Some(step) = steps.iter().find(|step| **step * scale >= raw) {
                return step * scale;
            }
        }
        return nice_above(raw / scale) * scale;
    }
    let whole = if kind == Kind::Number { 1.0 } else { 0.0 };
    match kind {
        Kind::Span => {
            let scale = duration_unit(range).0;
            nice_above(raw / scale) * scale
        }
        Kind::Time | Kind::SpanDecades | Kind::Number | Kind::Percent | Kind::Nines => {
            nice_above(raw).max(whole)
        }
    }
}

/// The lowest of 1, 2, 5 times a power of ten that is at least `value`.
fn nice_above(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fitting = factors
        .iter()
        .find(|factor| **factor * power >= value * (1.0 - 1e-9));
    fitting.unwrap_or(&10.0) * power
}

/// The highest of 1, 2, 5 times a power of ten that is at most `value`.
fn nice_below(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(f64::MIN_POSITIVE).log10().floor());
    let factors = [5.0, 2.0, 1.0];
    let fitting = factors
        .iter()
        .find(|factor| **factor * power <= value * (1.0 + 1e-9));
    fitting.unwrap_or(&1.0) * power
}

/// As [`three_digits`], but fit for neighbouring ticks such as 1000 and 1002.5.
fn four_digits(value: f64) -> String {
    if value.abs() >= 100.0 {
        let text = format!("{value:.1}");
        return text.strip_suffix(".0").unwrap_or(&text).to_owned();
    }
    three_digits(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, most: usize) -> Vec<String> {
        axis.ticks(most).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn time_is_divided_as_clocks_are() {
        let ticks = |seconds: u64, most| texts(&Axis::time(seconds * 1_000_000_000), most);
        assert_eq!(ticks(10, 6), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(ticks(90, 6), ["0", "15", "30", "45", "60", "75", "90"]);
        assert_eq!(ticks(3_600, 6), ["0", "10", "20", "30", "40", "50", "60"]);
        assert_eq!(ticks(36_000, 6), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(Axis::time(36_000_000_000_000).unit(), "h");
        assert_eq!(texts(&Axis::time(5_000_000), 6).last().unwrap(), "5");
        assert_eq!(
            texts(&Axis::time(0), 6),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
    }

    #[test]
    fn an_axis_from_zero_has_air_and_ends_on_a_tick() {
        let axis = |kind, values: &[f64], most| {
            let axis = Axis::from_zero(kind, values.iter().copied()).to_a_tick(most);
            texts(&axis, most)
        };
        assert_eq!(
            axis(Kind::Number, &[12_340.0, 9.0], 5),
            ["0", "5k", "10k", "15k"]
        );
        assert_eq!(axis(Kind::Number, &[595.0], 2), ["0", "500", "1k"]);
        assert_eq!(axis(Kind::Number, &[], 5), ["0", "1"]);
        let percent = axis(Kind::Percent, &[1.0], 5);
        assert_eq!(percent, ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
    }

    #[test]
    fn spans_take_decades_where_they_lie_far_apart() {
        let near = Axis::spans([250e3, 900e3].into_iter());
        assert_eq!(near.kind, Kind::Span);
        assert_eq!(near.to_a_tick(5).unit(), "ms");
        let far = Axis::spans([250e3, 900e6].into_iter());
        assert_eq!(far.kind, Kind::SpanDecades);
        assert_eq!((far.low, far.high), (200e3, 1e9));
        assert_eq!(far.place(200e3), 0.0);
        assert_eq!(far.place(1e9), 1.0);
        assert_eq!(far.place(0.0), 0.0);
        let ticks = texts(&far, 6);
        assert!(ticks.contains(&"1 ms".to_owned()), "{ticks:?}");
        assert!(ticks.len() <= 8, "{ticks:?}");
        assert_eq!(Axis::spans(std::iter::empty()).kind, Kind::Span);
    }

    #[test]
    fn nines_name_quantiles() {
        let axis = Axis {
            low: 0.0,
            high: 3.0,
            kind: Kind::Nines,
        };
        assert_eq!(
            texts(&axis, 9),
            ["0 %", "50 %", "75 %", "90 %", "95 %", "99 %", "99.9 %"]
        );
        assert!((nines_of(0.99) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn nice_numbers_are_one_two_five() {
        for (value, above, below) in [(1.0, 1.0, 1.0), (1.1, 2.0, 1.0), (6e-7, 1e-6, 5e-7)] {
            assert!((nice_above(value) / above - 1.0).abs() < 1e-6, "{value}");
            assert!((nice_below(value) / below - 1.0).abs() < 1e-6, "{value}");
        }
    }
}
