//! One direction of a connection: latency, jitter, bandwidth and a byte window, in order.
//!
//! Leans on `limit` for a bandwidth that is less for a while.

use std::collections::VecDeque;

use super::limit::{Limit, Limits, picoseconds_per_byte};
use crate::machine::Time;

/// One direction of a connection. Frames leave in the order in which they are passed.
///
/// The byte window works as TCP's does: bytes count until the far end's acknowledgement is back,
/// one latency after they arrived; a frame that does not fit waits for room.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    latency: Time,
    picoseconds_per_byte: u64,
    window: u64,
    /// When the wire is free for the next frame.
    free: Time,
    /// Arrival of the newest frame: later ones never overtake it.
    last_arrival: Time,
    /// Bytes that the wire can carry in one round trip: with that many in the window and nothing
    /// late, it never shuts.
    round_trip_bytes: u64,
    /// What is in the window; counted only from when it might shut. Most links never do, and a
    /// small link is a fast one.
    counted: Option<Box<Counted>>,
    /// `None`: there was never a limit.
    limits: Option<Box<Limits>>,
}

/// A frame on a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Passage {
    /// When its first bit leaves, and when its last one has left.
    begins: Time,
    leaves: Time,
    /// What it needs from there, if nothing lies before it.
    rest: Time,
    /// When it arrives.
    pub arrival: Time,
    /// Its size: times are rounded, and what is left of it by them may be more.
    bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Counted {
    bytes: u64,
    /// When frames stop counting, and their bytes.
    frames: VecDeque<(Time, u64)>,
}

impl Link {
    /// A link with this one-way `latency`, `bits_per_second` (1 or more) and `window` in bytes.
    pub fn new(latency: Time, bits_per_second: u64, window: u64) -> Self {
        let mut link = Self {
            latency: Time::ZERO,
            picoseconds_per_byte: picoseconds_per_byte(bits_per_second),
            window: window.max(1),
            free: Time::ZERO,
            last_arrival: Time::ZERO,
            round_trip_bytes: 0,
            counted: None,
            limits: None,
        };
        link.slow(latency);
        link
    }

    /// From now on what is passed has so much more latency.
    pub fn slow(&mut self, by: Time) {
        self.set_latency(self.latency + by);
    }

    /// From now on what is passed has so much less latency; it still overtakes nothing.
    pub fn quicken(&mut self, by: Time) {
        self.set_latency(self.latency - by);
    }

    fn set_latency(&mut self, latency: Time) {
        self.latency = latency;
        let round_trip_picoseconds = u128::from(latency.as_nanos()) * 2_000;
        let bytes = round_trip_picoseconds / u128::from(self.picoseconds_per_byte.max(1));
        self.round_trip_bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    }

    /// What was under way is lost, at `now`: the next frame finds the link as new.
    pub fn reset(&mut self, now: Time) {
        self.free = now;
        self.last_arrival = now;
        self.counted = None;
    }

    /// A limit of its bandwidth, known at `now`; of several the smallest rate holds. What is `under_way`, in the
    /// order in which it was passed, and has not left by then is later accordingly.
    ///
    /// On a link with a window that may shut, nothing that has not left may be under way: say its limits ahead.
    pub fn limit<'a>(
        &mut self,
        now: Time,
        limit: Limit,
        under_way: impl IntoIterator<Item = &'a mut Passage>,
    ) {
        let before = match self.limits.take() {
            Some(limits) => limits,
            None => Box::new(Limits::none(self.picoseconds_per_byte)),
        };
        let mut after = before.clone();
        after.add(now, limit);
        let (mut free, mut last_arrival) = (now, Time::ZERO);
        for passage in under_way {
            if passage.leaves > now {
                let begins = passage.begins.max(now);
                let left = (begins, passage.leaves);
                passage.begins = begins.max(free);
                let work = before.work(left, passage.bytes);
                passage.leaves = after.end(passage.begins, work);
                free = passage.leaves;
            }
            let arrival = passage.arrival.max(passage.leaves + passage.rest);
            passage.arrival = arrival.max(last_arrival);
            last_arrival = passage.arrival;
        }
        self.free = self.free.max(free);
        self.last_arrival = self.last_arrival.max(last_arrival);
        self.limits = Some(after);
    }

    /// The smallest rate, in bits per second, of a limit that is not over at `now`.
    pub fn least_limit(&self, now: Time) -> Option<u64> {
        self.limits.as_ref()?.least(now)
    }

    /// Passes a frame of `bytes` at `now`, with `extra` latency of its own (jitter, a fault), and
    /// returns its arrival. Arrivals never go back.
    pub fn pass(&mut self, now: Time, bytes: u64, extra: Time) -> Time {
        self.passage(now, bytes, extra).arrival
    }

    /// The same, with what [`Link::limit`] wants to know of it.
    pub fn passage(&mut self, now: Time, bytes: u64, extra: Time) -> Passage {
        let never_shuts = self.round_trip_bytes.saturating_add(bytes) <= self.window;
        if self.counted.is_none() && (extra > Time::ZERO || !never_shuts) {
            self.counted = Some(Box::default());
        }
        let mut start = now.max(self.free);
        if let Some(counted) = &mut self.counted {
            start = counted.wait_for_room(start, bytes, self.window);
        }
        self.free = match &self.limits {
            None => start + Time::from_nanos((bytes * self.picoseconds_per_byte).div_ceil(1_000)),
            Some(limits) => limits.end_of(start, bytes),
        };
        let rest = self.latency + extra;
        let arrival = (self.free + rest).max(self.last_arrival);
        self.last_arrival = arrival;
        if let Some(counted) = &mut self.counted {
            counted.bytes += bytes;
            counted.frames.push_back((arrival + self.latency, bytes));
        }
        Passage {
            begins: start,
            leaves: self.free,
            rest,
            arrival,
            bytes,
        }
    }
}

impl Passage {
    /// Something that is on no wire and arrives at `arrival`.
    pub const fn at(arrival: Time) -> Self {
        Self {
            begins: arrival,
            leaves: arrival,
            rest: Time::ZERO,
            arrival,
            bytes: 0,
        }
    }
}

impl Counted {
    /// When the window has room for a frame, from `start` on. A frame larger than the window
    /// passes alone.
    fn wait_for_room(&mut self, mut start: Time, bytes: u64, window: u64) -> Time {
        while let Some(&(freed, size)) = self.frames.front() {
            let fits = self.bytes + bytes <= window;
            if freed > start && fits {
                break;
            }
            start = start.max(freed);
            self.bytes -= size;
            self.frames.pop_front();
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Time = Time::from_micros;

    #[test]
    fn a_frame_takes_its_bytes_and_the_latency() {
        let mut link = Link::new(US(100), 8_000_000_000, 1 << 20);
        assert_eq!(link.pass(Time::ZERO, 1_000, Time::ZERO), US(101));
        assert_eq!(link.pass(Time::ZERO, 1_000, Time::ZERO), US(102));
        assert_eq!(link.pass(US(500), 1_000, Time::ZERO), US(601));
    }

    #[test]
    fn jitter_never_reorders() {
        let mut link = Link::new(US(100), 8_000_000_000, 1 << 20);
        let late = link.pass(Time::ZERO, 1, US(900));
        assert!(link.pass(US(1), 1, Time::ZERO) >= late);
    }

    #[test]
    fn a_link_that_is_slow_for_a_while_keeps_its_order() {
        let mut link = Link::new(US(100), 8_000_000_000, 1 << 20);
        link.slow(US(500));
        assert_eq!(link.pass(Time::ZERO, 1_000, Time::ZERO), US(601));
        link.quicken(US(500));
        assert_eq!(link.pass(US(10), 1_000, Time::ZERO), US(601));
        assert_eq!(link.pass(US(700), 1_000, Time::ZERO), US(801));
    }

    #[test]
    fn throughput_is_window_over_round_trip() {
        // 10 kB windows and a round trip of 200 us: 50 MB/s, however fast the wire.
        let mut link = Link::new(US(100), 1_000_000_000_000, 10_000);
        let mut arrival = Time::ZERO;
        for _ in 0..1_000 {
            arrival = link.pass(Time::ZERO, 1_000, Time::ZERO);
        }
        let seconds = arrival.as_secs_f64();
        let rate = 1_000_000.0 / seconds;
        assert!((45e6..55e6).contains(&rate), "{rate}");
    }

    #[test]
    fn a_frame_larger_than_the_window_passes_alone() {
        let mut link = Link::new(US(100), 8_000_000_000, 10);
        link.pass(Time::ZERO, 1_000, Time::ZERO);
        assert_eq!(link.pass(Time::ZERO, 1_000, Time::ZERO), US(201) + US(101));
    }

    /// 8 Mbit/s, a byte in a microsecond, and no latency.
    fn wire() -> Link {
        Link::new(Time::ZERO, 8_000_000, u64::MAX)
    }

    fn limit(from: u64, until: u64, bits_per_second: u64) -> Limit {
        Limit {
            from: US(from),
            until: US(until),
            bits_per_second,
        }
    }

    #[test]
    fn bytes_pass_a_limited_link_at_exactly_its_rate() {
        let mut link = wire();
        link.limit(Time::ZERO, limit(0, 1_000_000, 800_000), []);
        for frame in 1..=100 {
            let arrival = link.pass(Time::ZERO, 50, Time::ZERO);
            assert_eq!(arrival, US(frame * 500));
        }
    }

    #[test]
    fn what_waits_at_the_end_of_a_limit_goes_on_at_the_old_rate() {
        let mut link = wire();
        link.limit(Time::ZERO, limit(1_000, 2_000, 80_000), []);
        let arrivals: Vec<Time> = (0..20)
            .map(|_| link.pass(Time::ZERO, 100, Time::ZERO))
            .collect();
        // Ten frames before, ten bytes of the next in the millisecond of the limit.
        assert_eq!(arrivals[9], US(1_000));
        assert_eq!(arrivals[10], US(2_090));
        assert_eq!(arrivals[19], US(2_990));
    }

    /// Known ahead or only as it begins, a limit comes to the same, but for what a nanosecond of the frame
    /// amid which it begins carries.
    #[test]
    fn a_limit_that_begins_finds_what_has_not_left() {
        let mut ahead = Link::new(US(70), 8_000_000, u64::MAX);
        let mut late = ahead.clone();
        ahead.limit(Time::ZERO, limit(500, 1_500, 2_000_000), []);
        let mut under_way: Vec<Passage> = Vec::new();
        let mut known = Vec::new();
        for frame in 0..6 {
            let now = US(frame * 90);
            known.push(ahead.pass(now, 120, US(10 * frame)));
            under_way.push(late.passage(now, 120, US(10 * frame)));
        }
        late.limit(US(500), limit(500, 1_500, 2_000_000), &mut under_way);
        for frame in 6..12 {
            let now = US(frame * 90);
            known.push(ahead.pass(now, 120, Time::ZERO));
            under_way.push(late.passage(now, 120, Time::ZERO));
        }
        let found: Vec<Time> = under_way.iter().map(|passage| passage.arrival).collect();
        assert_eq!(found, known);
        assert!(found.is_sorted() && found[11] > US(1_500));
    }

    /// At eight picoseconds for a byte a nanosecond carries more than a frame of 64.
    #[test]
    fn a_limit_finds_no_more_bytes_than_there_are() {
        let mut link = Link::new(US(70), 1_000_000_000_000, u64::MAX);
        let mut under_way: Vec<Passage> = (0..3)
            .map(|_| link.passage(US(1), 64, Time::ZERO))
            .collect();
        link.limit(US(1), limit(1, 60_000_000, 1_000), &mut under_way);
        let frame = US(512_000);
        let arrival = |frames: u64| US(71) + Time::from_nanos(frame.as_nanos() * frames);
        let found = under_way.iter().map(|passage| passage.arrival);
        assert!(found.eq((1..=3).map(arrival)));
    }

    #[test]
    fn of_two_limits_the_smaller_rate_holds_and_a_slow_link_adds_to_it() {
        let mut link = wire();
        link.limit(Time::ZERO, limit(0, 10_000, 4_000_000), []);
        link.limit(Time::ZERO, limit(0, 10_000, 800_000), []);
        link.slow(US(300));
        assert_eq!(link.pass(Time::ZERO, 100, Time::ZERO), US(1_300));
        assert_eq!(link.pass(US(20_000), 100, Time::ZERO), US(20_400));
    }

    #[test]
    fn a_limit_leaves_what_is_off_the_wire_and_a_pause_where_they_are() {
        let mut link = Link::new(US(100), 8_000_000, u64::MAX);
        let mut under_way = vec![link.passage(Time::ZERO, 50, Time::ZERO)];
        // As after a cut, what is sent again begins later.
        link.reset(US(500));
        under_way.push(link.passage(US(500), 50, Time::ZERO));
        link.limit(US(60), limit(60, 1_000, 4_000_000), &mut under_way);
        assert_eq!(
            (under_way[0].arrival, under_way[1].arrival),
            (US(150), US(700))
        );
        assert_eq!(link.pass(US(600), 50, Time::ZERO), US(800));
    }

    #[test]
    fn a_limited_link_with_a_window_carries_its_limit() {
        let mut link = Link::new(US(100), 8_000_000, 10_000);
        link.limit(Time::ZERO, limit(0, 1_000_000, 800_000), []);
        let mut arrival = Time::ZERO;
        for _ in 0..90 {
            arrival = link.pass(Time::ZERO, 1_000, Time::ZERO);
        }
        assert_eq!(arrival, US(90 * 10_000 + 100));
    }
}
