//! One direction of a connection: latency, jitter, bandwidth and a byte window, in order.
//!
//! Leans on `machine`.

use std::collections::VecDeque;

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
            picoseconds_per_byte: 8_000_000_000_000 / bits_per_second.max(1),
            window: window.max(1),
            free: Time::ZERO,
            last_arrival: Time::ZERO,
            round_trip_bytes: 0,
            counted: None,
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

    /// Passes a frame of `bytes` at `now`, with `extra` latency of its own (jitter, a fault), and
    /// returns its arrival. Arrivals never go back.
    pub fn pass(&mut self, now: Time, bytes: u64, extra: Time) -> Time {
        let never_shuts = self.round_trip_bytes.saturating_add(bytes) <= self.window;
        if self.counted.is_none() && (extra > Time::ZERO || !never_shuts) {
            self.counted = Some(Box::default());
        }
        let mut start = now.max(self.free);
        if let Some(counted) = &mut self.counted {
            start = counted.wait_for_room(start, bytes, self.window);
        }
        let span = (bytes * self.picoseconds_per_byte).div_ceil(1_000);
        self.free = start + Time::from_nanos(span);
        let arrival = (self.free + self.latency + extra).max(self.last_arrival);
        self.last_arrival = arrival;
        if let Some(counted) = &mut self.counted {
            counted.bytes += bytes;
            counted.frames.push_back((arrival + self.latency, bytes));
        }
        arrival
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
}
