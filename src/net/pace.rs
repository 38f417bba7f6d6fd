//! One direction of a stream of bytes that carries no more than a rate, where real bytes pass it.
//!
//! Whoever passes them on takes a piece at a time, asks here when the last of it has passed, and lets it go then.
//! So bytes never come before a wire of that rate would bring them. Leans on `machine`.

use super::limit::picoseconds_per_byte;
use crate::machine::Time;

/// What a piece takes, as far as its size allows that.
const PIECE: Time = Time::from_millis(10);
const LEAST_PIECE_BYTES: usize = 16;
const LARGEST_PIECE_BYTES: usize = 64 << 10;
/// Whoever wakes up late by less than this still has the whole rate; what was missed before is gone.
const LATENESS: Time = Time::from_millis(10);

/// A wire on which bytes leave piece by piece.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pace {
    bits_per_second: u64,
    /// When the last piece has left.
    free: Time,
}

impl Pace {
    /// Most bytes to let go at a time at this rate, 1 or more.
    pub fn piece_bytes(bits_per_second: u64) -> usize {
        let bits = u128::from(bits_per_second) * u128::from(PIECE.as_nanos()) / 1_000_000_000;
        let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX);
        bytes.clamp(LEAST_PIECE_BYTES, LARGEST_PIECE_BYTES)
    }

    /// There is no limit any more: what had not left goes at once, and the next limit finds the wire free.
    pub const fn open(&mut self) {
        self.bits_per_second = 0;
    }

    /// When the last of `bytes` has left that are there since `ready`, at this rate. Another rate than before begins
    /// at `now`.
    pub fn pass(&mut self, now: Time, bits_per_second: u64, ready: Time, bytes: usize) -> Time {
        if self.bits_per_second != bits_per_second {
            self.bits_per_second = bits_per_second;
            self.free = now;
        }
        let start = ready.max(self.free).max(now - LATENESS);
        let picoseconds = bytes as u128 * u128::from(picoseconds_per_byte(bits_per_second));
        let span = u64::try_from(picoseconds.div_ceil(1_000)).unwrap_or(u64::MAX);
        self.free = start + Time::from_nanos(span);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    /// A byte in a millisecond.
    const RATE: u64 = 8_000;

    #[test]
    fn a_limit_finds_nothing_of_the_one_before() {
        let mut pace = Pace::default();
        assert_eq!(pace.pass(MS(0), RATE, MS(0), 5_000), MS(5_000));
        pace.open();
        assert_eq!(pace.pass(MS(200), RATE, MS(0), 10), MS(210));
    }

    #[test]
    fn pieces_leave_one_after_the_other_however_late_one_wakes() {
        let mut pace = Pace::default();
        assert_eq!(pace.pass(MS(100), RATE, MS(100), 10), MS(110));
        assert_eq!(pace.pass(MS(100), RATE, MS(100), 10), MS(120));
        // Five late, and nothing is lost; a hundred late, and there is no rush.
        assert_eq!(pace.pass(MS(125), RATE, MS(100), 10), MS(130));
        assert_eq!(pace.pass(MS(230), RATE, MS(100), 10), MS(230));
        assert_eq!(pace.pass(MS(230), RATE, MS(100), 10), MS(240));
    }

    #[test]
    fn what_comes_to_a_wire_at_rest_does_not_have_the_past() {
        let mut pace = Pace::default();
        assert_eq!(pace.pass(MS(100), RATE, MS(99), 5), MS(105));
        assert_eq!(pace.pass(MS(110), RATE, MS(109), 5), MS(114));
    }

    #[test]
    fn another_rate_begins_when_it_is_told() {
        let mut pace = Pace::default();
        assert_eq!(pace.pass(MS(0), RATE, MS(0), 1_000), MS(1_000));
        assert_eq!(pace.pass(MS(400), 10 * RATE, MS(0), 1_000), MS(500));
    }

    #[test]
    fn a_piece_is_ten_milliseconds_within_bounds() {
        assert_eq!(Pace::piece_bytes(8_000_000), 10_000);
        assert_eq!(Pace::piece_bytes(1_000), 16);
        assert_eq!(Pace::piece_bytes(1_000_000_000_000), 64 << 10);
    }
}
