//! Limits of a wire: rates that it does not exceed for a while.
//!
//! Leans on `machine`.

use crate::machine::Time;

/// Parts of a byte in which work is counted where the rate changes amid a frame.
const PARTS: u128 = 1 << 32;
const PICOSECONDS_PER_NANOSECOND: u128 = 1_000;

/// From `from` until `until` a wire carries no more than this.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limit {
    /// When it begins.
    pub from: Time,
    /// When it ends; [`Time::NEVER`]: not.
    pub until: Time,
    /// 1 or more.
    pub bits_per_second: u64,
}

/// How long a byte takes at a rate of 1 or more.
pub(super) const fn picoseconds_per_byte(bits_per_second: u64) -> u64 {
    let bits_per_second = if bits_per_second == 0 {
        1
    } else {
        bits_per_second
    };
    8_000_000_000_000 / bits_per_second
}

/// A wire of which limits are known: of those that are on at a moment the smallest rate holds, and the wire's own
/// if that is smaller.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Limits {
    picoseconds_per_byte: u64,
    limits: Vec<Limit>,
}

impl Limits {
    /// A wire without limits on which a byte takes so long.
    pub(super) const fn none(picoseconds_per_byte: u64) -> Self {
        Self {
            picoseconds_per_byte,
            limits: Vec::new(),
        }
    }

    /// Adds a limit, and forgets those that are over at `now`.
    pub(super) fn add(&mut self, now: Time, limit: Limit) {
        self.limits.retain(|other| other.until > now);
        self.limits.push(limit);
    }

    /// The smallest rate of a limit that is not over at `now`, on already or not.
    pub(super) fn least(&self, now: Time) -> Option<u64> {
        let limits = self.limits.iter().filter(|limit| limit.until > now);
        limits.map(|limit| limit.bits_per_second).min()
    }

    /// When a frame of `bytes` has left whose first bit leaves at `start`.
    pub(super) fn end_of(&self, start: Time, bytes: u64) -> Time {
        self.end(start, u128::from(bytes) * PARTS)
    }

    /// When so much work is done that begins at `start`.
    pub(super) fn end(&self, start: Time, work: u128) -> Time {
        let (mut at, mut work) = (start, work);
        loop {
            let (picoseconds_per_byte, next) = self.rate(at);
            let picoseconds = work * u128::from(picoseconds_per_byte);
            let span = picoseconds.div_ceil(PARTS * PICOSECONDS_PER_NANOSECOND);
            let end = at + Time::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
            if end <= next {
                return end;
            }
            work = work.saturating_sub(parts(next.since(at), picoseconds_per_byte));
            at = next;
        }
    }

    /// What leaves from one moment to another of a frame of `bytes` that the wire is busy with.
    pub(super) fn work(&self, (start, end): (Time, Time), bytes: u64) -> u128 {
        let (mut at, mut work) = (start, 0);
        while at < end {
            let (picoseconds_per_byte, next) = self.rate(at);
            let next = next.min(end);
            work += parts(next.since(at), picoseconds_per_byte);
            at = next;
        }
        work.min(u128::from(bytes) * PARTS)
    }

    /// How long a byte takes at a moment, and until when that holds.
    fn rate(&self, at: Time) -> (u64, Time) {
        let mut slowest = self.picoseconds_per_byte;
        let mut next = Time::NEVER;
        for limit in &self.limits {
            if at < limit.from {
                next = next.min(limit.from);
            } else if at < limit.until {
                next = next.min(limit.until);
                slowest = slowest.max(picoseconds_per_byte(limit.bits_per_second));
            }
        }
        (slowest, next)
    }
}

fn parts(span: Time, picoseconds_per_byte: u64) -> u128 {
    let picoseconds = u128::from(span.as_nanos()) * PICOSECONDS_PER_NANOSECOND;
    picoseconds * PARTS / u128::from(picoseconds_per_byte.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn limit(from: u64, until: u64, bits_per_second: u64) -> Limit {
        Limit {
            from: MS(from),
            until: MS(until),
            bits_per_second,
        }
    }

    /// 8 Mbit/s, a byte in a microsecond; from 10 ms to 20 ms a quarter of it, from 15 ms to 30 ms a half.
    fn wire() -> Limits {
        let mut wire = Limits::none(1_000_000);
        wire.add(Time::ZERO, limit(10, 20, 2_000_000));
        wire.add(Time::ZERO, limit(15, 30, 4_000_000));
        wire
    }

    #[test]
    fn the_smallest_rate_holds_while_it_is_on() {
        let wire = wire();
        let rates = [0, 10, 15, 20, 30].map(|ms| wire.rate(MS(ms)));
        let (whole, half, quarter) = (1_000_000, 2_000_000, 4_000_000);
        assert_eq!(
            rates,
            [
                (whole, MS(10)),
                (quarter, MS(15)),
                (quarter, MS(20)),
                (half, MS(30)),
                (whole, Time::NEVER)
            ]
        );
        assert_eq!(wire.least(MS(19)), Some(2_000_000));
        assert_eq!(wire.least(MS(20)), Some(4_000_000));
        assert_eq!(wire.least(MS(30)), None);
    }

    #[test]
    fn what_passes_while_the_rate_changes_takes_its_part_of_each() {
        let wire = wire();
        assert_eq!(wire.end_of(Time::ZERO, 10_000), MS(10));
        // 5,000 bytes before, 2,500 amid the first, 5,000 amid the second alone, 500 after.
        assert_eq!(
            wire.end_of(MS(5), 5_000 + 2_500 + 5_000 + 500),
            Time::from_micros(30_500)
        );
        assert_eq!(wire.end_of(MS(12), 250), MS(13));
        assert_eq!(wire.end_of(MS(40), 7_000), MS(47));
    }

    #[test]
    fn a_limit_above_the_rate_of_the_wire_changes_nothing() {
        let mut wire = Limits::none(333);
        wire.add(Time::ZERO, limit(0, 1_000_000, u64::MAX));
        let bare = Limits::none(333);
        for bytes in [0, 1, 2, 999, 1_000_003] {
            let end = bare.end_of(MS(1), bytes);
            assert_eq!(wire.end_of(MS(1), bytes), end);
            assert_eq!(end, MS(1) + Time::from_nanos((bytes * 333).div_ceil(1_000)));
            assert_eq!(wire.end(MS(1), bare.work((MS(1), end), bytes)), end);
        }
    }

    #[test]
    fn work_done_again_on_a_wire_with_a_new_limit_takes_as_long_as_that_allows() {
        let before = Limits::none(1_000_000);
        // 5 ms of work are left at 8 ms: two are done before the limit begins, three take four times as long,
        // of which ten milliseconds have two and a half, and the rest goes at the old rate.
        let work = before.work((MS(8), MS(13)), 5_000);
        let end = wire_with(limit(10, 20, 2_000_000)).end(MS(8), work);
        assert_eq!(end, MS(20) + Time::from_micros(500));
    }

    fn wire_with(limit: Limit) -> Limits {
        let mut wire = Limits::none(1_000_000);
        wire.add(Time::ZERO, limit);
        wire
    }

    #[test]
    fn the_longest_frame_at_the_smallest_rate_has_an_end() {
        let wire = wire_with(Limit {
            from: Time::ZERO,
            until: Time::NEVER,
            bits_per_second: 1_000,
        });
        assert_eq!(wire.end_of(Time::ZERO, 1 << 30), MS((1 << 30) * 8));
        assert_eq!(wire.end_of(Time::NEVER, 1), Time::NEVER);
    }
}
