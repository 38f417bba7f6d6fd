//! One direction of a connection: bytes that were written, when they arrive, when there is room.
//!
//! A pure machine: time is an argument. It copies bytes in once and out once. Leans on
//! `net::link` for latency and bandwidth.

use std::collections::VecDeque;
use std::io::IoSlice;

use rand::RngExt;
use tokio::io::ReadBuf;

use super::super::LinkSettings;
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::net::link::{Link, Passage};
use crate::seed::Generator;

/// What a connection sends as one piece: no more than this, and no more than takes
/// [`SEGMENT_TIME`] of wire, but at least a packet.
const LARGEST_SEGMENT_BYTES: u64 = 64 << 10;
const PACKET_BYTES: u64 = 1_448;
const SEGMENT_TIME: Time = Time::from_micros(100);

/// How TCP sends again what was lost, by Linux: first after a round trip and this, then doubling
/// up to a maximum, so many times.
const RESEND_MARGIN: Time = Time::from_millis(200);
const LONGEST_RESEND_WAIT: Time = Time::from_secs(120);
const RESENDS: u32 = 15;

/// One direction of a connection.
#[derive(Debug)]
pub(super) struct Pipe {
    link: Link,
    jitter: Option<(Time, Generator)>,
    segment_bytes: u64,
    resend_wait: Time,
    /// Written and not yet read.
    bytes: VecDeque<u8>,
    /// What has not arrived, in order.
    under_way: VecDeque<Segment>,
    /// How many of `bytes` have arrived.
    arrived_bytes: u64,
    opened: bool,
    ended: bool,
    window_bytes: u64,
    /// Written bytes of which the writer does not know that they were read.
    charged_bytes: u64,
    /// When the writer hears that so many were read.
    credits: VecDeque<(Time, u64)>,
    /// The path of the bytes is cut, or on hold.
    cut: bool,
    held: bool,
    /// The path of the credits, the other way, is cut or on hold.
    credits_stopped: bool,
    /// Since when something that was lost is owed.
    lost_at: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    passage: Passage,
    bytes: u64,
    mark: Mark,
}

/// What a segment says besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mark {
    /// Nothing.
    Data,
    /// The far end may take the connection as made.
    Open,
    /// No bytes follow.
    End,
}

impl Pipe {
    /// `back_latency` is that of the way on which acknowledgements come.
    pub(super) fn new(settings: LinkSettings, back_latency: Time, generator: Generator) -> Self {
        let jittered = settings.jitter > Time::ZERO;
        Self {
            // The window is kept here, by what the reader takes, so the link has none.
            link: Link::new(settings.latency, settings.bits_per_second, u64::MAX),
            jitter: jittered.then_some((settings.jitter, generator)),
            segment_bytes: segment_bytes(settings.bits_per_second),
            resend_wait: settings.latency + back_latency + RESEND_MARGIN,
            bytes: VecDeque::new(),
            under_way: VecDeque::new(),
            arrived_bytes: 0,
            opened: false,
            ended: false,
            window_bytes: settings.window_bytes.max(1),
            charged_bytes: 0,
            credits: VecDeque::new(),
            cut: false,
            held: false,
            credits_stopped: false,
            lost_at: None,
        }
    }

    /// What is written from now on has another latency than before.
    pub(super) fn change_latency(&mut self, before: Time, latency: Time) {
        self.link.quicken(before);
        self.link.slow(latency);
        self.resend_wait = self.resend_wait - before + latency;
    }

    /// Lets arrive what has its time. Every question about arrivals comes after this.
    pub(super) fn settle(&mut self, now: Time) {
        if self.cut || self.held {
            return;
        }
        while let Some(segment) = self.under_way.front() {
            if segment.passage.arrival > now {
                return;
            }
            self.arrived_bytes += segment.bytes;
            self.opened |= segment.mark == Mark::Open;
            self.ended |= segment.mark == Mark::End;
            self.under_way.pop_front();
        }
    }

    /// Bytes that can be read.
    pub(super) fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// Whether the far end may take the connection as made.
    pub(super) fn opened(&self) -> bool {
        self.opened
    }

    /// Whether all bytes were read and none follow.
    pub(super) fn ended(&self) -> bool {
        self.ended && self.arrived_bytes == 0
    }

    /// When something arrives next; none while the path is cut or on hold.
    pub(super) fn next_arrival(&self) -> Option<Time> {
        let next = self.under_way.front()?.passage.arrival;
        (!self.cut && !self.held).then_some(next)
    }

    /// When the next bytes arrive that are under way.
    pub(super) fn next_bytes(&self) -> Option<Time> {
        let mut with_bytes = self.under_way.iter().filter(|segment| segment.bytes > 0);
        let next = with_bytes.next()?.passage.arrival;
        (!self.cut && !self.held).then_some(next)
    }

    /// Bytes that the window has room for.
    pub(super) fn room_bytes(&mut self, now: Time) -> u64 {
        while let Some(&(at, bytes)) = self.credits.front() {
            if at > now || self.credits_stopped {
                break;
            }
            self.charged_bytes -= bytes;
            self.credits.pop_front();
        }
        self.window_bytes.saturating_sub(self.charged_bytes)
    }

    /// When there is more room; none if that depends on the reader, or the path back is stopped.
    pub(super) fn next_credit(&self) -> Option<Time> {
        let (at, _) = *self.credits.front()?;
        (!self.credits_stopped).then_some(at)
    }

    /// Takes up to `room` bytes from the front of `buffers`; how many.
    pub(super) fn write(&mut self, now: Time, buffers: &[IoSlice<'_>], room: u64) -> usize {
        let mut left = usize::try_from(room).unwrap_or(usize::MAX);
        let before = self.bytes.len();
        for buffer in buffers {
            let taken = &buffer[..buffer.len().min(left)];
            self.bytes.extend(taken);
            left -= taken.len();
            if left == 0 {
                break;
            }
        }
        let written = self.bytes.len() - before;
        self.charged_bytes += written as u64;
        let limit = self.link.least_limit(now).map_or(u64::MAX, segment_bytes);
        let mut unsent = written as u64;
        while unsent > 0 {
            let bytes = unsent.min(self.segment_bytes).min(limit);
            self.send(now, bytes, Mark::Data);
            unsent -= bytes;
        }
        written
    }

    /// Sends a segment without bytes.
    pub(super) fn mark(&mut self, now: Time, mark: Mark) {
        self.send(now, 0, mark);
    }

    /// When something sent now, outside of the stream, would arrive: a reset.
    pub(super) fn arrival_of_reset(&mut self, now: Time) -> Time {
        self.link.pass(now, 0, Time::ZERO)
    }

    /// Reads what has arrived into `buffer`, and gives it back to the window: the writer hears of it
    /// at `heard`.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>, heard: Time) -> usize {
        let count = self.copy(buffer);
        self.bytes.drain(..count);
        self.arrived_bytes -= count as u64;
        match self.credits.back_mut() {
            Some((at, bytes)) if *at >= heard => *bytes += count as u64,
            _ => self.credits.push_back((heard, count as u64)),
        }
        count
    }

    /// Copies what has arrived into `buffer`, and leaves it.
    pub(super) fn copy(&self, buffer: &mut ReadBuf<'_>) -> usize {
        let arrived = usize::try_from(self.arrived_bytes).unwrap_or(usize::MAX);
        let count = arrived.min(buffer.remaining());
        let (front, back) = self.bytes.as_slices();
        let of_front = front.len().min(count);
        buffer.put_slice(&front[..of_front]);
        buffer.put_slice(&back[..count - of_front]);
        count
    }

    // -- faults --

    /// Loses what is under way, and what is sent until [`Pipe::heal`].
    pub(super) fn cut(&mut self, now: Time) {
        self.settle(now);
        self.cut = true;
        if !self.under_way.is_empty() {
            self.lost_at.get_or_insert(now);
        }
    }

    /// Ends a cut: what was lost is sent again when TCP tries next.
    pub(super) fn heal(&mut self, now: Time) {
        self.cut = false;
        let Some(lost_at) = self.lost_at.take() else {
            return;
        };
        let again = self.resends(lost_at).find(|resend| *resend >= now);
        let again = again.unwrap_or(now);
        self.link.reset(again);
        for index in 0..self.under_way.len() {
            let extra = self.draw_jitter();
            let segment = &mut self.under_way[index];
            segment.passage = self.link.passage(again, segment.bytes, extra);
        }
    }

    /// Whether the path is cut.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Whether the path is on hold.
    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// Keeps back what is under way, and what is sent until [`Pipe::release`].
    pub(super) fn hold(&mut self, now: Time) {
        self.settle(now);
        self.held = true;
    }

    /// Ends a hold: what was kept back arrives at once.
    pub(super) fn release(&mut self, now: Time) {
        self.held = false;
        for segment in &mut self.under_way {
            segment.passage.arrival = segment.passage.arrival.max(now);
        }
    }

    /// A limit of its bandwidth, which begins now or later.
    pub(super) fn limit(&mut self, now: Time, limit: Limit) {
        let under_way = self.under_way.iter_mut();
        let under_way = under_way.map(|segment| &mut segment.passage);
        self.link.limit(now, limit, under_way);
    }

    /// Stops or frees the way on which the writer hears what was read; it hears the rest at
    /// `heard`.
    pub(super) fn stop_credits(&mut self, now: Time, stopped: bool, heard: Time) {
        // What has come already stays.
        self.room_bytes(now);
        self.credits_stopped = stopped;
        for (at, _) in &mut self.credits {
            *at = (*at).max(heard);
        }
    }

    /// When TCP gives the connection up, if the cut lasts.
    pub(super) fn gives_up_at(&self) -> Option<Time> {
        let lost_at = self.lost_at?;
        self.resends(lost_at).last()
    }

    // -- helpers --

    fn send(&mut self, now: Time, bytes: u64, mark: Mark) {
        let extra = self.draw_jitter();
        let passage = self.link.passage(now, bytes, extra);
        if self.cut {
            self.lost_at.get_or_insert(now);
        }
        self.under_way.push_back(Segment {
            passage,
            bytes,
            mark,
        });
    }

    fn draw_jitter(&mut self) -> Time {
        let Some((largest, generator)) = &mut self.jitter else {
            return Time::ZERO;
        };
        Time::from_nanos(generator.random_range(0..=largest.as_nanos()))
    }

    /// When TCP sends again what was lost at `lost_at`; the last is the moment at which it gives up.
    fn resends(&self, lost_at: Time) -> impl Iterator<Item = Time> + use<> {
        let mut wait = self.resend_wait;
        let mut at = lost_at;
        (0..=RESENDS).map(move |_| {
            at += wait;
            wait = (wait + wait).min(LONGEST_RESEND_WAIT);
            at
        })
    }
}

/// The most that is sent as one piece at this rate.
fn segment_bytes(bits_per_second: u64) -> u64 {
    let bytes = u128::from(bits_per_second / 8) * u128::from(SEGMENT_TIME.as_nanos());
    let bytes = u64::try_from(bytes / 1_000_000_000).unwrap_or(u64::MAX);
    bytes.clamp(PACKET_BYTES, LARGEST_SEGMENT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const US: fn(u64) -> Time = Time::from_micros;

    /// 100 us, 8 Gbit/s (a byte takes a nanosecond), a window of 10 kB.
    fn pipe() -> Pipe {
        let settings = LinkSettings {
            latency: US(100),
            jitter: Time::ZERO,
            bits_per_second: 8_000_000_000,
            window_bytes: 10_000,
        };
        Pipe::new(settings, US(100), Seed(1).generator("pipe", 0))
    }

    fn write(pipe: &mut Pipe, now: Time, bytes: &[u8]) -> usize {
        let room = pipe.room_bytes(now);
        pipe.write(now, &[IoSlice::new(bytes)], room)
    }

    fn read(pipe: &mut Pipe, now: Time, most: usize) -> Vec<u8> {
        pipe.settle(now);
        let mut bytes = vec![0; most];
        let mut buffer = ReadBuf::new(&mut bytes);
        let count = pipe.read(&mut buffer, now + US(100));
        bytes.truncate(count);
        bytes
    }

    #[test]
    fn bytes_arrive_whole_and_in_order_after_latency_and_wire() {
        let mut pipe = pipe();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(pipe.write(Time::ZERO, &parts, 10), 5);
        assert_eq!(pipe.next_arrival(), Some(Time::from_nanos(100_005)));
        assert_eq!(read(&mut pipe, Time::from_nanos(100_004), 9), b"");
        assert_eq!(read(&mut pipe, Time::from_nanos(100_005), 3), b"abc");
        assert_eq!(read(&mut pipe, US(101), 9), b"de");
        assert!(!pipe.ended());
        pipe.mark(US(200), Mark::End);
        pipe.settle(US(299));
        assert!(!pipe.ended());
        pipe.settle(US(300));
        assert!(pipe.ended());
    }

    #[test]
    fn the_window_opens_one_latency_after_the_reader_took_the_bytes() {
        let mut pipe = pipe();
        assert_eq!(write(&mut pipe, Time::ZERO, &[7; 12_000]), 10_000);
        assert_eq!(pipe.room_bytes(US(900)), 0);
        assert_eq!(pipe.next_credit(), None, "nobody has read");
        assert_eq!(read(&mut pipe, US(900), 4_000).len(), 4_000);
        assert_eq!(pipe.next_credit(), Some(US(1_000)));
        assert_eq!(pipe.room_bytes(Time::from_nanos(999_999)), 0);
        assert_eq!(pipe.room_bytes(US(1_000)), 4_000);
        assert_eq!(write(&mut pipe, US(1_000), &[8; 12_000]), 4_000);
    }

    #[test]
    fn a_cut_makes_bytes_late_by_the_waits_of_tcp() {
        let mut pipe = pipe();
        write(&mut pipe, Time::ZERO, b"first");
        write(&mut pipe, US(50), b"second");
        pipe.cut(Time::from_nanos(100_005));
        write(&mut pipe, US(200), b"third");
        assert_eq!(pipe.next_arrival(), None);
        assert_eq!(
            read(&mut pipe, US(900), 99),
            b"first",
            "had arrived before the cut"
        );
        // Sent again after 200.2 ms, and 400.4 ms after that.
        pipe.heal(Time::from_millis(300));
        let again = Time::from_nanos(100_005 + 3 * 200_200_000 + 100_000);
        assert_eq!(pipe.next_arrival(), Some(again + Time::from_nanos(6)));
        write(&mut pipe, Time::from_millis(301), b"fourth");
        assert_eq!(
            read(&mut pipe, again + US(1), 99),
            b"secondthirdfourth",
            "what is sent later does not overtake"
        );
    }

    #[test]
    fn a_cut_that_loses_nothing_delays_nothing() {
        let mut pipe = pipe();
        pipe.cut(US(1));
        pipe.heal(US(2));
        write(&mut pipe, US(3), b"x");
        assert_eq!(pipe.next_arrival(), Some(Time::from_nanos(103_001)));
        assert_eq!(pipe.gives_up_at(), None);
    }

    #[test]
    fn a_connection_is_given_up_after_a_quarter_of_an_hour() {
        let mut pipe = pipe();
        pipe.cut(Time::ZERO);
        write(&mut pipe, US(1), b"x");
        let given_up = pipe.gives_up_at().unwrap();
        // Ten doublings of 200.2 ms, then six waits of two minutes.
        let waits = 200_200_000 * 1_023 + 6 * 120_000_000_000_u64;
        assert_eq!(given_up, Time::from_nanos(1_000 + waits));
    }

    #[test]
    fn a_hold_keeps_back_and_loses_nothing() {
        let mut pipe = pipe();
        write(&mut pipe, Time::ZERO, b"first");
        pipe.hold(US(50));
        write(&mut pipe, US(60), b"second");
        assert_eq!(read(&mut pipe, US(900), 99), b"");
        pipe.release(US(1_000));
        write(&mut pipe, US(1_000), b"third");
        assert_eq!(read(&mut pipe, US(1_000), 99), b"firstsecond");
        assert_eq!(pipe.next_arrival(), Some(Time::from_nanos(1_100_005)));
    }

    #[test]
    fn without_the_way_back_the_window_stays_shut() {
        let mut pipe = pipe();
        write(&mut pipe, Time::ZERO, &[7; 10_000]);
        pipe.stop_credits(US(1), true, Time::ZERO);
        assert_eq!(read(&mut pipe, US(200), 10_000).len(), 10_000);
        assert_eq!(pipe.room_bytes(US(900)), 0);
        assert_eq!(pipe.next_credit(), None);
        pipe.stop_credits(US(1_000), false, US(1_100));
        assert_eq!(pipe.room_bytes(US(1_099)), 0);
        assert_eq!(pipe.room_bytes(US(1_100)), 10_000);
    }

    #[test]
    fn jitter_follows_from_the_seed_and_keeps_order() {
        let arrivals = |seed| {
            let settings = LinkSettings {
                jitter: US(50),
                ..LinkSettings::LOOPBACK
            };
            let mut pipe = Pipe::new(settings, Time::ZERO, Seed(seed).generator("pipe", 0));
            let mut arrivals = Vec::new();
            for at in 0..20 {
                write(&mut pipe, US(at), &[at as u8]);
                arrivals.push(pipe.under_way.back().unwrap().passage.arrival);
            }
            arrivals
        };
        assert_eq!(arrivals(1), arrivals(1));
        assert_ne!(arrivals(1), arrivals(2));
        assert!(arrivals(1).is_sorted());
        assert!(arrivals(1).last().unwrap() <= &US(19 + 50));
    }

    #[test]
    fn slow_links_send_smaller_segments() {
        let settings = LinkSettings {
            bits_per_second: 8_000_000,
            ..LinkSettings::LOOPBACK
        };
        let mut pipe = Pipe::new(settings, Time::ZERO, Seed(1).generator("pipe", 0));
        write(&mut pipe, Time::ZERO, &[0; 3_000]);
        assert_eq!(pipe.next_arrival(), Some(US(1_448)), "one byte, one us");
        pipe.settle(US(2_999));
        assert_eq!(pipe.arrived_bytes(), 2 * 1_448);
        pipe.settle(US(3_000));
        assert_eq!(pipe.arrived_bytes(), 3_000);
    }

    #[test]
    fn a_limit_finds_what_has_not_left_and_makes_segments_smaller() {
        let settings = LinkSettings {
            bits_per_second: 8_000_000,
            ..LinkSettings::LOOPBACK
        };
        let mut pipe = Pipe::new(settings, Time::ZERO, Seed(1).generator("pipe", 0));
        write(&mut pipe, Time::ZERO, &[0; 2 * 1_448]);
        // From the middle of the second segment on at an eighth of the rate, for as long as the first took.
        let from = US(1_448 + 724);
        let limit = Limit {
            from,
            until: from + US(1_448),
            bits_per_second: 1_000_000,
        };
        pipe.limit(from, limit);
        pipe.settle(from);
        assert_eq!(pipe.arrived_bytes(), 1_448);
        // An eighth of it has passed by the end of the limit; the rest is 543 bytes.
        assert_eq!(pipe.next_arrival(), Some(from + US(1_448 + 543)));
        let mut fast = Pipe::new(
            LinkSettings::LOOPBACK,
            Time::ZERO,
            Seed(1).generator("pipe", 1),
        );
        fast.limit(Time::ZERO, limit);
        write(&mut fast, Time::ZERO, &[0; 3_000]);
        assert_eq!(fast.under_way.len(), 3);
    }
}
