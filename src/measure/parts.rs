//! Figures kept apart by when their messages were sent, so that the window can be chosen at the end.
//!
//! Where the file says how long the warm-up is there is one part, the window. Where it is to be found there
//! is a part for each slice of the run, five buckets of the series long; as those double in width, so do
//! slices, and there are never more than [`SLICES`]. Leans on `distribution` and `series`.

use std::ops::Range;

use super::series::{BUCKETS, FIRST_WIDTH_NS};
use super::{LatencyHistogram, latency_histogram};

/// Buckets of the series that make a slice.
pub(super) const BUCKETS_OF_SLICE: usize = 5;
/// Most slices of a run; an even number, so that each two can become one.
const SLICES: u64 = (BUCKETS / BUCKETS_OF_SLICE) as u64;
/// Longest span that a histogram tells apart: 1 h.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Which part a moment belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    /// Start of the first part.
    from: u64,
    /// Width of a part; of the only one all there is.
    width: u64,
    /// End of the last part that there may be.
    end: u64,
}

impl Places {
    /// One part, from the end of a warm-up that is known.
    pub(super) const fn after(warm_up: u64) -> Self {
        Self {
            from: warm_up,
            width: u64::MAX,
            end: u64::MAX,
        }
    }

    /// A part for each slice of the run.
    pub(super) const fn slices() -> Self {
        let width = BUCKETS_OF_SLICE as u64 * FIRST_WIDTH_NS;
        Self {
            from: 0,
            width,
            end: SLICES * width,
        }
    }

    /// The part of `moment`; none in a warm-up that is known.
    #[inline]
    pub(super) fn of(&self, moment: u64) -> Option<usize> {
        let since = moment.checked_sub(self.from)?;
        // a division for each message costs, and one part needs none
        Some(if self.width == u64::MAX {
            0
        } else {
            (since / self.width) as usize
        })
    }

    /// Whether `now` is beyond the last slice: each two must become one.
    #[inline]
    pub(super) const fn are_outgrown(&self, now: u64) -> bool {
        now >= self.end
    }

    /// Each two slices are one from now on.
    pub(super) const fn fold(&mut self) {
        self.width = self.width.saturating_mul(2);
        self.end = self.end.saturating_mul(2);
    }

    /// The width of a slice; none where the warm-up is known.
    pub(super) const fn slice_width(&self) -> Option<u64> {
        if self.width == u64::MAX {
            None
        } else {
            Some(self.width)
        }
    }

    /// When part `place` begins.
    pub(super) const fn start(&self, place: usize) -> u64 {
        self.from
            .saturating_add(self.width.saturating_mul(place as u64))
    }

    /// The parts that begin after `from` and not after `until`.
    pub(super) fn begun_within(&self, from: u64, until: u64) -> Range<usize> {
        let first = self.of(from).map_or(0, |place| place + 1);
        let end = self.of(until).map_or(0, |place| place + 1);
        first..end.max(first)
    }
}

/// A figure of one part.
pub(super) trait Part: Default {
    /// Takes in the part that follows.
    fn absorb(&mut self, next: Self);
}

/// A figure of each part.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts<T>(Vec<T>);

impl<T: Part> Parts<T> {
    /// The figure of part `place`.
    #[inline]
    pub(super) fn at(&mut self, place: usize) -> &mut T {
        if place >= self.0.len() {
            self.grow(place);
        }
        &mut self.0[place]
    }

    #[cold]
    fn grow(&mut self, place: usize) {
        self.0.resize_with(place + 1, T::default);
    }

    /// Makes one part of each two.
    pub(super) fn fold(&mut self) {
        let mut old = std::mem::take(&mut self.0).into_iter();
        while let Some(mut first) = old.next() {
            if let Some(second) = old.next() {
                first.absorb(second);
            }
            self.0.push(first);
        }
    }

    /// The figure of part `place` and all later ones together.
    pub(super) fn from(&mut self, place: usize) -> T {
        let mut whole = T::default();
        let mut parts = std::mem::take(&mut self.0).into_iter().skip(place);
        if let Some(first) = parts.next() {
            whole = first;
        }
        parts.for_each(|part| whole.absorb(part));
        whole
    }
}

/// A histogram of spans that is made when it is first needed and grows as it must: the same in its counts as
/// one of [`latency_histogram`].
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Option<Box<LatencyHistogram>>);

impl Spans {
    /// Takes a span, so many times over; what is above an hour counts as an hour.
    #[inline]
    pub(super) fn record(&mut self, ns: u64, times: u64) {
        let histogram = self.0.get_or_insert_with(|| Box::new(growing()));
        histogram
            .record_n(ns.min(LONGEST_NS), times)
            .expect("it grows on demand within a range that fits into memory");
    }

    /// The histogram with its full range.
    pub(super) fn histogram(&self) -> LatencyHistogram {
        let mut whole = latency_histogram();
        if let Some(spans) = &self.0 {
            whole
                .add(spans.as_ref())
                .expect("nothing above its range was recorded");
        }
        whole
    }
}

fn growing() -> LatencyHistogram {
    LatencyHistogram::new(3).expect("three digits are allowed")
}

impl Part for Spans {
    fn absorb(&mut self, next: Self) {
        match (&mut self.0, next.0) {
            (Some(mine), Some(theirs)) => mine
                .add(*theirs)
                .expect("both grow on demand within a range that fits into memory"),
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Part for u64 {
        fn absorb(&mut self, next: Self) {
            *self += next;
        }
    }

    #[test]
    fn a_known_warm_up_has_no_part_and_what_follows_has_one() {
        let places = Places::after(100);
        assert_eq!(places.of(99), None);
        assert_eq!((places.of(100), places.of(u64::MAX)), (Some(0), Some(0)));
        assert!(places.begun_within(0, 99).is_empty());
        assert_eq!(places.begun_within(0, 100), 0..1);
        assert!(places.begun_within(100, 200).is_empty());
    }

    #[test]
    fn slices_fold_as_the_run_grows_and_lose_nothing() {
        let mut places = Places::slices();
        let mut parts = Parts::default();
        let mut sent = 0;
        for moment in (0..4_000_000_000).step_by(70_000) {
            while places.are_outgrown(moment) {
                places.fold();
                parts.fold();
            }
            *parts.at(places.of(moment).unwrap()) += 1;
            sent += 1;
        }
        assert!((SLICES / 2..=SLICES).contains(&(parts.0.len() as u64)));
        for place in 0..parts.0.len() - 1 {
            let sent_before = |moment: u64| moment.div_ceil(70_000);
            let (from, until) = (places.start(place), places.start(place + 1));
            assert_eq!(parts.0[place], sent_before(until) - sent_before(from));
        }
        let later: u64 = parts.0[3..].iter().sum();
        assert_eq!(parts.0.iter().sum::<u64>(), sent);
        assert_eq!(parts.from(3), later);
    }

    #[test]
    fn what_begins_within_a_span_is_the_borders_that_it_passes() {
        let places = Places::slices();
        let width = places.slice_width().unwrap();
        assert!(places.begun_within(0, width - 1).is_empty());
        assert_eq!(places.begun_within(0, width), 1..2);
        assert_eq!(places.begun_within(width, 3 * width + 5), 2..4);
    }

    #[test]
    fn spans_that_grow_are_those_of_a_whole_histogram() {
        let (mut one, mut other) = (Spans::default(), Spans::default());
        let mut whole = latency_histogram();
        for ns in (0..64).map(|bit| 3_u64 << (bit % 60)) {
            let part = if ns % 5 == 0 { &mut one } else { &mut other };
            part.record(ns, 2);
            whole.saturating_record_n(ns, 2);
        }
        one.absorb(other);
        assert_eq!(one.histogram(), whole);
        assert!(Spans::default().histogram().is_empty());
    }
}
