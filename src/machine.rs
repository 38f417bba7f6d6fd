//! Time, machines and sinks: the one shape that every pure core of tidegate has.
//!
//! A core takes an input and the time, changes its own state, and hands actions to a sink. It owns
//! no clock, socket, generator or thread. Leans on nothing.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A moment or a span in nanoseconds; a moment counts from the start of the run.
///
/// Simulated time and the live clock share this type, so that everything above the worlds is
/// written once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than every moment: "no wake-up wanted".
    pub const NEVER: Self = Self(u64::MAX);

    /// `nanoseconds` after the start of the run.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// `microseconds` after the start of the run, saturating.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds.saturating_mul(1_000))
    }

    /// `milliseconds` after the start of the run, saturating.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    /// `seconds` after the start of the run, saturating.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the start of the run.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the start of the run.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The span from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates, so that adding to [`Time::NEVER`] stays never.
impl Add for Time {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

/// Saturates at zero.
impl Sub for Time {
    type Output = Self;
    fn sub(self, span: Self) -> Self {
        self.since(span)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Seconds with nanoseconds, as in `1.000250000s`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER {
            return f.write_str("never");
        }
        write!(
            f,
            "{}.{:09}s",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// Where a machine puts its actions.
///
/// The caller passes it in, so nobody can forget to drain one. A `Vec` is a sink: that is the test
/// harness.
pub trait Sink<A> {
    /// Takes one action, in the order in which the machine decided them.
    fn emit(&mut self, action: A);
}

impl<A> Sink<A> for Vec<A> {
    fn emit(&mut self, action: A) {
        self.push(action);
    }
}

impl<A, S: Sink<A> + ?Sized> Sink<A> for &mut S {
    fn emit(&mut self, action: A) {
        (**self).emit(action);
    }
}

/// A pure state machine: equal state, input and time give equal actions.
///
/// `Clone + Eq + Hash` lets a whole world be forked, compared and searched. Random choices are
/// drawn by the driver and come in as inputs.
pub trait Machine: Clone + Eq + std::hash::Hash {
    /// What can happen to it.
    type Input;
    /// What it wants done, and the facts it establishes.
    type Action;

    /// Takes one input at `now`.
    fn step(&mut self, now: Time, input: Self::Input, out: &mut dyn Sink<Self::Action>);

    /// When [`Machine::wake`] is wanted: a function of the state alone; [`Time::NEVER`] if never.
    fn due(&self) -> Time;

    /// Lets time-driven changes happen. Called at [`Machine::due`]; harmless when early.
    fn wake(&mut self, now: Time, out: &mut dyn Sink<Self::Action>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_saturates_at_both_ends() {
        assert_eq!(Time::NEVER + Time::from_secs(1), Time::NEVER);
        assert_eq!(Time::ZERO - Time::from_secs(1), Time::ZERO);
        assert_eq!(Time::from_secs(u64::MAX), Time::NEVER);
    }

    #[test]
    fn time_prints_seconds_and_nanoseconds() {
        assert_eq!(Time::from_micros(1_000_250).to_string(), "1.000250000s");
        assert_eq!(Time::NEVER.to_string(), "never");
    }
}
