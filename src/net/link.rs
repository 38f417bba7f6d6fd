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
    under_way: u64,
    /// Frames still counted in the window: when they stop counting, and their bytes. Only kept
    /// while the window could shut.
    unacknowledged: VecDeque<(Time, u64)>,
}

impl Link {
    /// A link with this one-way `latency`, `bits_per_second` (1 or more) and `window` in bytes.
    pub fn new(latency: Time, bits_per_second: u64, window: u64) -> Self {
        Self {
            latency,
            picoseconds_per_byte: 8_000_000_000_000 / bits_per_second.max(1),
            window: window.max(1),
            free: Time::ZERO,
            last_arrival: Time::ZERO,
            under_way: 0,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Passes a frame of `bytes` at `now`, with `extra` latency of its own (jitter, a fault), and
    /// returns its arrival. Arrivals never go back.
    pub fn pass(&mut self, now: Time, bytes: u64, extra: Time) -> Time {
        let mut start = now.max(self.free);
        while let Some(&(freed, size)) = self.unacknowledged.front() {
            let fits = self.under_way == 0 || self.under_way + bytes <= self.window;
            if freed > start && fits {
                break;
            }
            start = start.max(freed);
            self.under_way -= size;
            self.unacknowledged.pop_front();
        }
        self.free = start + Time::from_nanos((bytes * self.picoseconds_per_byte).div_ceil(1_000));
        let arrival = (self.free + self.latency + extra).max(self.last_arrival);
        self.last_arrival = arrival;
        self.under_way += bytes;
        self.unacknowledged
            .push_back((arrival + self.latency, bytes));
        arrival
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
