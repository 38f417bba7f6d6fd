//! Whether anything is still on the way between a publisher and the server, for a wait that ends.
//!
//! Bytes on a link are the substrate's, and no substrate says what they are. So this follows what
//! publisher and server tell: a message or a reply that says more is taken to be on its way for as
//! long as the link needs for it at most. A pure machine. Leans on `machine`, the events, and the
//! links of the substrate.

use crate::event::{BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation};
use crate::sim::substrate::LinkSettings;

/// What a frame has around its payload at most: control line, subjects, headers of our own.
const FRAME_BYTES: u64 = 512;

/// From the acceptance of a connection until its client may send: greeting, answer, and its echo.
const HANDSHAKE_LATENCIES: u64 = 3;

/// What is on the way between each publisher and the server.
#[derive(Debug, Default)]
pub(super) struct Ways {
    publishers: Vec<OnTheWay>,
    /// Whose the batches are that have not ended.
    open: BatchTable<PublisherId>,
}

impl Ways {
    /// Nothing, for so many publishers with such a link each.
    pub(super) fn new(publishers: u32, link: LinkSettings) -> Self {
        Self {
            publishers: vec![OnTheWay::new(link); publishers as usize],
            open: BatchTable::default(),
        }
    }

    /// Takes an event of any publisher or of the server.
    pub(super) fn see(&mut self, at: Time, event: &Event) {
        let Some(batch) = event.batch() else { return };
        if let Event::BatchStarted { publisher, .. } = *event {
            self.open.insert(batch, publisher);
        }
        let publisher = match event {
            Event::BatchEnded { .. } => self.open.remove(batch),
            _ => self.open.get_mut(batch).copied(),
        };
        if let Some(way) = publisher.and_then(|publisher| self.way(publisher)) {
            way.see(at, event);
        }
    }

    /// The server accepted a connection of this publisher.
    pub(super) fn connected(&mut self, at: Time, publisher: PublisherId) {
        if let Some(way) = self.way(publisher) {
            way.connected(at);
        }
    }

    /// The link of this publisher carries bytes again.
    pub(super) fn released(&mut self, at: Time, publisher: PublisherId) {
        if let Some(way) = self.way(publisher) {
            way.goes_on(at);
        }
    }

    /// From now on the link of this publisher has this latency.
    pub(super) fn set_latency(&mut self, publisher: PublisherId, latency: Time) {
        if let Some(way) = self.way(publisher) {
            way.link.latency = latency;
        }
    }

    /// From now on the link of this publisher has this bandwidth.
    pub(super) fn set_bandwidth(&mut self, at: Time, publisher: PublisherId, bits_per_second: u64) {
        if let Some(way) = self.way(publisher) {
            way.set_bandwidth(at, bits_per_second);
        }
    }

    /// Whether nothing that could end a wait of this publisher is on its link.
    pub(super) fn is_nothing(&self, now: Time, publisher: PublisherId) -> bool {
        let way = self.publishers.get(publisher.0 as usize);
        way.is_none_or(|way| way.is_nothing(now))
    }

    /// When the last of it is there.
    pub(super) fn there_at(&self, publisher: PublisherId) -> Time {
        let way = self.publishers.get(publisher.0 as usize);
        way.map_or(Time::ZERO, |way| way.there_at)
    }

    fn way(&mut self, publisher: PublisherId) -> Option<&mut OnTheWay> {
        self.publishers.get_mut(publisher.0 as usize)
    }
}

/// What is on the way between one publisher and the server.
#[derive(Clone, Copy, Debug)]
struct OnTheWay {
    link: LinkSettings,
    gap: GapMode,
    acknowledged: BatchSequence,
    answered: bool,
    /// Of messages that no ack covers: what a client may have kept while it had no connection.
    open_bytes: u64,
    /// Until when the link is busy with what was sent, each way; and until when the last of it that
    /// matters is there.
    up_busy_until: Time,
    down_busy_until: Time,
    there_at: Time,
    /// When the last of that leaves, and the longest that anything takes from there on.
    leaves_at: Time,
    longest: Time,
}

impl OnTheWay {
    const fn new(link: LinkSettings) -> Self {
        Self {
            link,
            gap: GapMode::Fail,
            acknowledged: BatchSequence(0),
            answered: false,
            open_bytes: 0,
            up_busy_until: Time::ZERO,
            down_busy_until: Time::ZERO,
            there_at: Time::ZERO,
            leaves_at: Time::ZERO,
            longest: Time::ZERO,
        }
    }

    fn connected(&mut self, at: Time) {
        let handshake = self
            .latency_max()
            .as_nanos()
            .saturating_mul(HANDSHAKE_LATENCIES);
        self.goes_on(at + Time::from_nanos(handshake));
    }

    /// What has not left takes as much longer, or less long, as the link is slower now.
    fn set_bandwidth(&mut self, at: Time, bits_per_second: u64) {
        let before = self.bits_per_second();
        self.link.bits_per_second = bits_per_second;
        let after = self.bits_per_second();
        let again = |busy_until: Time| {
            if busy_until <= at {
                return busy_until;
            }
            let left = u128::from(busy_until.since(at).as_nanos()) * u128::from(before);
            let left = left.div_ceil(u128::from(after));
            at + Time::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
        };
        self.up_busy_until = again(self.up_busy_until);
        self.down_busy_until = again(self.down_busy_until);
        if self.leaves_at > at {
            self.leaves_at = again(self.leaves_at);
            self.there_at = self.leaves_at + self.longest;
        }
    }

    /// What has waited leaves now.
    fn goes_on(&mut self, at: Time) {
        self.up_busy_until = self.sent(self.up_busy_until, at, self.open_bytes);
        self.leaves(self.up_busy_until);
    }

    /// Something that matters leaves then.
    fn leaves(&mut self, at: Time) {
        let latency = self.latency_max();
        self.longest = self.longest.max(latency);
        self.leaves_at = self.leaves_at.max(at);
        self.there_at = self.there_at.max(at + latency);
    }

    fn see(&mut self, at: Time, event: &Event) {
        match *event {
            Event::BatchStarted { gap, .. } => {
                self.gap = gap;
                self.acknowledged = BatchSequence(0);
                self.answered = false;
                self.open_bytes = 0;
            }
            Event::Published {
                operation, bytes, ..
            } => {
                self.open_bytes += u64::from(bytes) + FRAME_BYTES;
                self.up_busy_until = self.sent(self.up_busy_until, at, u64::from(bytes));
                // a ping moves nothing by itself: its answer does
                if operation != Operation::Ping {
                    self.leaves(self.up_busy_until);
                }
            }
            Event::AckSeen { sequence, .. } => {
                if sequence > self.acknowledged {
                    self.acknowledged = sequence;
                    self.open_bytes = 0;
                }
                self.answered = true;
            }
            Event::AckSent { sequence, .. } => {
                self.reply(at, !self.answered || sequence > self.acknowledged);
            }
            // in gap mode ok both only inform
            Event::GapSent { .. } | Event::ErrorSent { .. } => {
                self.reply(at, self.gap == GapMode::Fail);
            }
            Event::PubAckSent { .. } | Event::RefusalSent { .. } => self.reply(at, true),
            _ => {}
        }
    }

    /// Whether nothing of it is on the way at `now`. What arrives at this very moment is.
    fn is_nothing(&self, now: Time) -> bool {
        now > self.there_at
    }

    fn reply(&mut self, at: Time, says_more: bool) {
        self.down_busy_until = self.sent(self.down_busy_until, at, 0);
        if says_more {
            self.leaves(self.down_busy_until);
        }
    }

    /// When a frame that is sent at `at` has left, on a link that is busy until then.
    fn sent(&self, busy_until: Time, at: Time, payload_bytes: u64) -> Time {
        let bits = 8 * (payload_bytes + FRAME_BYTES);
        let nanos = u128::from(bits) * 1_000_000_000 / u128::from(self.bits_per_second());
        busy_until.max(at) + Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The link's own, or what its window lets through in a round trip.
    fn bits_per_second(&self) -> u64 {
        let round_trip = 2 * u128::from(self.latency_max().as_nanos());
        let window_bits = 8 * u128::from(self.link.window_bytes);
        let by_window = window_bits * 1_000_000_000 / round_trip.max(1);
        let by_window = u64::try_from(by_window).unwrap_or(u64::MAX);
        self.link.bits_per_second.min(by_window).max(1)
    }

    fn latency_max(&self) -> Time {
        self.link.latency + self.link.jitter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::event::BatchNumber;

    const BATCH: BatchNumber = BatchNumber(0);
    const PUBLISHER: PublisherId = PublisherId(0);
    const MS: fn(u64) -> Time = Time::from_millis;

    /// A publisher 10 ms away, whose batch has started.
    fn ways(gap: GapMode) -> Ways {
        let link = LinkSettings {
            latency: MS(10),
            jitter: Time::ZERO,
            bits_per_second: 1_000_000_000,
            window_bytes: 4 << 20,
        };
        let mut ways = Ways::new(1, link);
        let started = Event::BatchStarted {
            publisher: PUBLISHER,
            batch: BATCH,
            flow: 10,
            outstanding_acks: 2,
            gap,
        };
        ways.see(Time::ZERO, &started);
        ways
    }

    fn published(operation: Operation) -> Event {
        Event::Published {
            batch: BATCH,
            operation,
            bytes: 128,
            sequence: BatchSequence(5),
            intended: Time::ZERO,
        }
    }

    fn ack(sequence: u64) -> Event {
        Event::AckSent {
            batch: BATCH,
            flow: 10,
            sequence: BatchSequence(sequence),
        }
    }

    /// Whether nothing is on the way at these moments.
    fn nothing_at(ways: &Ways, moments: [Time; 3]) -> [bool; 3] {
        moments.map(|at| ways.is_nothing(at, PUBLISHER))
    }

    /// A frame of 640 bytes takes 5,120 ms at 1 kbit/s, and 2,560 at twice that.
    #[test]
    fn what_has_not_left_follows_the_bandwidth() {
        let mut up = ways(GapMode::Ok);
        up.set_bandwidth(MS(1), PUBLISHER, 1_000);
        up.see(MS(1), &published(Operation::Append));
        assert_eq!(up.there_at(PUBLISHER), MS(5_131));
        up.set_bandwidth(MS(2_561), PUBLISHER, 2_000);
        assert_eq!(up.there_at(PUBLISHER), MS(3_851));
        up.set_bandwidth(MS(3_845), PUBLISHER, 1_000);
        assert_eq!(up.there_at(PUBLISHER), MS(3_851), "it has left");
    }

    /// Latency counts once, whatever it was before, and only what has not left is stretched.
    #[test]
    fn a_limit_stretches_no_latency() {
        let far = LinkSettings {
            latency: MS(1_000),
            jitter: Time::ZERO,
            bits_per_second: 1_000_000_000,
            window_bytes: 4 << 20,
        };
        let mut up = ways(GapMode::Ok);
        let near = up.publishers[0].link;
        up.publishers[0].link = far;
        up.see(MS(1), &published(Operation::Append));
        up.publishers[0].link = near;
        up.set_bandwidth(MS(100), PUBLISHER, 1_000);
        let left = up.there_at(PUBLISHER);
        assert!(left < MS(1_002), "it has left: {left:?}");
        let mut idle = ways(GapMode::Ok);
        idle.set_bandwidth(MS(100), PUBLISHER, 1_000);
        assert_eq!(idle.there_at(PUBLISHER), Time::ZERO);
        let mut slowed = ways(GapMode::Ok);
        slowed.set_bandwidth(MS(1), PUBLISHER, 10_000);
        slowed.see(MS(1), &published(Operation::Append));
        slowed.publishers[0].link.latency = MS(5_000);
        // of 512 ms, 256 are left
        slowed.set_bandwidth(MS(257), PUBLISHER, 1_000);
        assert_eq!(slowed.there_at(PUBLISHER), MS(257 + 2_560 + 10));
    }

    #[test]
    fn what_was_sent_is_on_the_way_for_the_time_that_the_link_takes() {
        let mut up = ways(GapMode::Ok);
        up.see(MS(1), &published(Operation::Append));
        assert_eq!(
            nothing_at(&up, [MS(1), MS(11), MS(12)]),
            [false, false, true]
        );
        up.see(MS(20), &published(Operation::Ping));
        assert!(up.is_nothing(MS(20), PUBLISHER), "a ping moves nothing");
        let mut down = ways(GapMode::Ok);
        down.see(MS(1), &ack(0));
        assert_eq!(
            nothing_at(&down, [MS(1), MS(11), MS(12)]),
            [false, false, true]
        );
    }

    #[test]
    fn a_reply_that_says_nothing_new_does_not_count() {
        let mut ways = ways(GapMode::Ok);
        let seen = Event::AckSeen {
            batch: BATCH,
            flow: 10,
            sequence: BatchSequence(10),
        };
        ways.see(MS(1), &seen);
        ways.see(MS(1), &ack(10));
        let gap = Event::GapSent {
            batch: BATCH,
            expected: BatchSequence(11),
            received: BatchSequence(12),
        };
        ways.see(MS(1), &gap);
        assert!(ways.is_nothing(MS(2), PUBLISHER));
        ways.see(MS(2), &ack(20));
        assert!(!ways.is_nothing(MS(2), PUBLISHER));
        let mut fail = self::ways(GapMode::Fail);
        fail.see(MS(1), &gap);
        assert!(!fail.is_nothing(MS(2), PUBLISHER));
    }

    #[test]
    fn what_waited_for_the_link_leaves_when_it_carries_again() {
        let mut held = ways(GapMode::Ok);
        held.see(MS(1), &published(Operation::Append));
        held.released(MS(100), PUBLISHER);
        assert_eq!(
            nothing_at(&held, [MS(99), MS(110), MS(111)]),
            [false, false, true]
        );
        let mut made = ways(GapMode::Ok);
        made.connected(MS(100), PUBLISHER);
        assert_eq!(
            nothing_at(&made, [MS(130), MS(140), MS(141)]),
            [false, false, true]
        );
    }

    #[test]
    fn bytes_take_their_time() {
        let mut ways = ways(GapMode::Ok);
        ways.publishers[0].link.bits_per_second = 8_000;
        for _ in 0..10 {
            ways.see(Time::ZERO, &published(Operation::Append));
        }
        // ten frames of 640 bytes at a byte in a millisecond
        assert_eq!(
            nothing_at(&ways, [MS(6_400), MS(6_410), MS(6_411)]),
            [false, false, true]
        );
    }
}
