//! Figures over time in constant memory: buckets that double their width as the run grows.
//!
//! There are at most [`BUCKETS`] of them. When a run outgrows them, each two become one and the
//! width doubles, so that between half and all of them are in use. Leans on `machine` and the crate
//! `hdrhistogram`.

use hdrhistogram::Histogram;

use super::distribution::{Shape, encode};
use super::parts::BUCKETS_OF_SLICE;
use super::{FlowSeries, Series, rounded};
use crate::machine::Time;

/// Most buckets of a run.
pub(super) const BUCKETS: usize = 240;
/// Width of a bucket before the first doubling: 100 us.
pub(super) const FIRST_WIDTH_NS: u64 = 100_000;
/// Finest latency that the histogram of a bucket tells apart.
const FINEST_NS: u64 = 128;

/// Digits that the histogram of a bucket keeps.
const DIGITS: u8 = 2;

/// Latencies of one bucket: two digits, grown on demand up to 1 h.
type BucketHistogram = Histogram<u32>;

/// What the histogram of a bucket looks like when it is written.
pub(super) fn bucket_shape() -> Shape {
    Shape {
        digits: DIGITS.into(),
        lowest: FINEST_NS,
        highest: 0..=u64::MAX,
    }
}

/// What happened during one bucket. Areas are a level times nanoseconds.
#[derive(Default)]
struct Bucket {
    published: u64,
    acknowledged: u64,
    acknowledged_bytes: u64,
    gaps: u64,
    missing: u64,
    errors: u64,
    in_flight_max: u64,
    in_flight_area: u128,
    flow_area: u128,
    open_area: u128,
    blocked_area: u128,
    /// Lowest and highest flow that an ack brought; none if the lowest is above the highest.
    flow_min: u16,
    flow_max: u16,
    latency: Option<BucketHistogram>,
}

impl Bucket {
    fn starting_with(in_flight: u64) -> Self {
        Self {
            in_flight_max: in_flight,
            flow_min: u16::MAX,
            ..Self::default()
        }
    }

    /// Takes in the bucket that follows; gives back the histogram that is no longer needed.
    fn absorb(&mut self, next: Self) -> Option<BucketHistogram> {
        self.published += next.published;
        self.acknowledged += next.acknowledged;
        self.acknowledged_bytes += next.acknowledged_bytes;
        self.gaps += next.gaps;
        self.missing += next.missing;
        self.errors += next.errors;
        self.in_flight_max = self.in_flight_max.max(next.in_flight_max);
        self.in_flight_area += next.in_flight_area;
        self.flow_area += next.flow_area;
        self.open_area += next.open_area;
        self.blocked_area += next.blocked_area;
        self.flow_min = self.flow_min.min(next.flow_min);
        self.flow_max = self.flow_max.max(next.flow_max);
        match (&mut self.latency, next.latency) {
            (Some(mine), Some(theirs)) => {
                mine.add(&theirs)
                    .expect("both grow on demand within a range that fits into memory");
                Some(theirs)
            }
            (mine @ None, theirs) => {
                *mine = theirs;
                None
            }
            (Some(_), None) => None,
        }
    }
}

/// Gathers the series while the run goes on.
pub(super) struct SeriesRecorder {
    width: u64,
    /// End of the current bucket.
    end: u64,
    done: Vec<Bucket>,
    current: Bucket,
    spare: Vec<BucketHistogram>,
    in_flight: u64,
    /// Up to where `in_flight_area` has been counted.
    in_flight_since: u64,
    levels: Levels,
    /// Up to where the areas of `levels` have been counted.
    levels_since: u64,
}

/// What happened in a few buckets in a row.
pub(super) struct Slice {
    pub(super) published: u64,
    pub(super) acknowledged: u64,
    pub(super) in_flight: u64,
}

/// Levels that change seldom.
#[derive(Clone, Copy, Default)]
pub(super) struct Levels {
    /// Sum of the flows in force over open batches.
    pub(super) flow_total: u64,
    /// Open batches.
    pub(super) open: u64,
    /// Batches whose gate is shut.
    pub(super) blocked: u64,
}

impl SeriesRecorder {
    pub(super) fn new() -> Self {
        Self {
            width: FIRST_WIDTH_NS,
            end: FIRST_WIDTH_NS,
            done: Vec::with_capacity(BUCKETS),
            current: Bucket::starting_with(0),
            spare: Vec::new(),
            in_flight: 0,
            in_flight_since: 0,
            levels: Levels::default(),
            levels_since: 0,
        }
    }

    #[inline]
    pub(super) fn published(&mut self, now: Time) {
        self.reach(now);
        self.count_in_flight(now.as_nanos());
        self.in_flight += 1;
        let current = &mut self.current;
        current.published += 1;
        current.in_flight_max = current.in_flight_max.max(self.in_flight);
    }

    /// `messages` of `bytes` in all were acknowledged.
    #[inline]
    pub(super) fn acknowledged(&mut self, now: Time, messages: u64, bytes: u64) {
        self.left_flight(now, messages);
        self.current.acknowledged += messages;
        self.current.acknowledged_bytes += bytes;
    }

    /// A latency of the current bucket (see [`SeriesRecorder::reach`]), `times` over.
    #[inline]
    pub(super) fn latency(&mut self, latency_ns: u64, times: u32) {
        let spare = &mut self.spare;
        let histogram = self
            .current
            .latency
            .get_or_insert_with(|| spare.pop().unwrap_or_else(bucket_histogram));
        histogram.saturating_record_n_growing(latency_ns, times);
    }

    /// `messages` will not be acknowledged any more, or were.
    #[inline]
    pub(super) fn left_flight(&mut self, now: Time, messages: u64) {
        self.reach(now);
        self.count_in_flight(now.as_nanos());
        self.in_flight = self.in_flight.saturating_sub(messages);
    }

    pub(super) fn gap(&mut self, now: Time, missing: u64) {
        self.left_flight(now, missing);
        self.current.gaps += 1;
        self.current.missing += missing;
    }

    pub(super) fn error(&mut self, now: Time) {
        self.reach(now);
        self.current.errors += 1;
    }

    /// An ack brought this flow.
    #[inline]
    pub(super) fn flow_seen(&mut self, now: Time, flow: u16) {
        self.reach(now);
        self.current.flow_min = self.current.flow_min.min(flow);
        self.current.flow_max = self.current.flow_max.max(flow);
    }

    /// Levels change from now on.
    pub(super) fn change(&mut self, now: Time, change: impl FnOnce(&mut Levels)) {
        self.reach(now);
        self.count_levels(now.as_nanos());
        change(&mut self.levels);
    }

    /// What happened in each slice of `width` that is over by now: messages sent, acknowledged, and
    /// thousandths of a message in flight on the mean.
    ///
    /// Slices are at least [`BUCKETS_OF_SLICE`] buckets long, and longer where something was placed in them
    /// after the last bucket: both double.
    pub(super) fn slices(&self, width: u64) -> Vec<Slice> {
        assert!(
            width.is_multiple_of(self.width * BUCKETS_OF_SLICE as u64),
            "the slices have seen every moment that the series has"
        );
        let buckets_of_slice = (width / self.width) as usize;
        let slices = self.done.chunks_exact(buckets_of_slice).map(|buckets| {
            let sum = |of: fn(&Bucket) -> u64| buckets.iter().map(of).sum();
            let area: u128 = buckets.iter().map(|bucket| bucket.in_flight_area).sum();
            let in_flight = area.saturating_mul(1_000) / u128::from(width);
            Slice {
                published: sum(|bucket| bucket.published),
                acknowledged: sum(|bucket| bucket.acknowledged),
                in_flight: u64::try_from(in_flight).unwrap_or(u64::MAX),
            }
        });
        slices.collect()
    }

    pub(super) fn finish(mut self, end: Time) -> (Series, FlowSeries) {
        self.reach(end);
        let end = end.as_nanos();
        self.count_in_flight(end);
        self.count_levels(end);
        let empty = self.end - self.width >= end && !self.done.is_empty();
        let last = std::mem::take(&mut self.current);
        // An end on a border would leave a bucket of no width; what fell on it belongs before it.
        match self.done.last_mut() {
            Some(before) if empty => {
                before.absorb(last);
            }
            _ => self.done.push(last),
        }
        output(self.width, end, &self.done)
    }

    /// Makes the bucket of `now` the current one.
    #[inline]
    pub(super) fn reach(&mut self, now: Time) {
        if now.as_nanos() >= self.end {
            self.advance(now.as_nanos());
        }
    }

    #[cold]
    fn advance(&mut self, now: u64) {
        // A moment near the end of time would be reached only after doubling past it.
        let now = now.min(u64::MAX / 4);
        while now >= self.end {
            self.count_in_flight(self.end);
            self.count_levels(self.end);
            let next = Bucket::starting_with(self.in_flight);
            self.done.push(std::mem::replace(&mut self.current, next));
            if self.done.len() == BUCKETS {
                self.fold();
            }
            self.end += self.width;
        }
    }

    /// Makes one bucket of each two. The number of finished buckets is even here.
    fn fold(&mut self) {
        let mut folded = Vec::with_capacity(BUCKETS);
        let mut old = std::mem::take(&mut self.done).into_iter();
        while let (Some(mut first), Some(second)) = (old.next(), old.next()) {
            if let Some(mut histogram) = first.absorb(second) {
                histogram.reset();
                self.spare.push(histogram);
            }
            folded.push(first);
        }
        self.done = folded;
        self.width *= 2;
    }

    #[inline]
    fn count_in_flight(&mut self, now: u64) {
        let span = now.saturating_sub(self.in_flight_since);
        self.current.in_flight_area += u128::from(self.in_flight) * u128::from(span);
        self.in_flight_since = now;
    }

    #[inline]
    fn count_levels(&mut self, now: u64) {
        let span = u128::from(now.saturating_sub(self.levels_since));
        self.current.flow_area += u128::from(self.levels.flow_total) * span;
        self.current.open_area += u128::from(self.levels.open) * span;
        self.current.blocked_area += u128::from(self.levels.blocked) * span;
        self.levels_since = now;
    }
}

/// Recording that never fails: what is above an hour counts as an hour.
trait RecordGrowing {
    fn saturating_record_n_growing(&mut self, latency_ns: u64, times: u32);
}

impl RecordGrowing for BucketHistogram {
    #[inline]
    fn saturating_record_n_growing(&mut self, latency_ns: u64, times: u32) {
        const LONGEST_NS: u64 = 3_600_000_000_000;
        self.record_n(latency_ns.min(LONGEST_NS), times)
            .expect("the histogram grows on demand within a range that fits into memory");
    }
}

fn bucket_histogram() -> BucketHistogram {
    let mut histogram = Histogram::new_with_bounds(FINEST_NS, 8 * FINEST_NS, DIGITS)
        .expect("the bounds are constants, and valid");
    histogram.auto(true);
    histogram
}

fn output(width: u64, end: u64, buckets: &[Bucket]) -> (Series, FlowSeries) {
    let mut series = Series {
        bucket_ns: width,
        end_ns: end,
        ..Series::default()
    };
    let mut flow = FlowSeries {
        bucket_ns: width,
        ..FlowSeries::default()
    };
    for (index, bucket) in buckets.iter().enumerate() {
        let (from, to) = series.span_of(index);
        let span = (to - from).max(1) as f64;
        series.published.push(bucket.published);
        series.acknowledged.push(bucket.acknowledged);
        series.acknowledged_bytes.push(bucket.acknowledged_bytes);
        series.gaps.push(bucket.gaps);
        series.missing.push(bucket.missing);
        series.errors.push(bucket.errors);
        series.in_flight_max.push(bucket.in_flight_max);
        series
            .in_flight_mean
            .push(rounded(bucket.in_flight_area as f64 / span, 3));
        series
            .blocked_mean
            .push(rounded(bucket.blocked_area as f64 / span, 3));
        let at = |quantile: f64| {
            let histogram = bucket.latency.as_ref()?;
            Some(histogram.value_at_quantile(quantile))
        };
        let latency = &mut series.ack_latency_ns;
        latency.p50.push(at(0.5));
        latency.p90.push(at(0.9));
        latency.p99.push(at(0.99));
        latency.max.push(at(1.0));
        latency
            .hdr_histogram_v2
            .push(bucket.latency.as_ref().map(encode));
        let seen = bucket.flow_min <= bucket.flow_max;
        flow.min.push(seen.then_some(bucket.flow_min));
        flow.max.push(seen.then_some(bucket.flow_max));
        flow.mean.push(
            (bucket.open_area > 0)
                .then(|| rounded(bucket.flow_area as f64 / bucket.open_area as f64, 3)),
        );
    }
    (series, flow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_keeps_every_count_and_the_number_of_buckets_bounded() {
        let mut series = SeriesRecorder::new();
        // 50 s with one message each millisecond, acknowledged 300 us later.
        for step in 0..50_000 {
            let sent = Time::from_micros(step * 1_000);
            series.published(sent);
            series.acknowledged(sent + Time::from_micros(300), 1, 10);
            series.latency(300_000, 1);
            assert!(series.done.len() < BUCKETS);
        }
        assert!(series.spare.len() <= BUCKETS);
        let (series, _) = series.finish(Time::from_secs(50));
        assert!(
            (BUCKETS / 2..=BUCKETS).contains(&series.len()),
            "{}",
            series.len()
        );
        assert_eq!(series.published.iter().sum::<u64>(), 50_000);
        assert_eq!(series.acknowledged.iter().sum::<u64>(), 50_000);
        assert_eq!(series.acknowledged_bytes.iter().sum::<u64>(), 500_000);
        assert_eq!(series.in_flight_max.iter().max(), Some(&1));
        // In flight 300 us of each 1000 us.
        for (index, mean) in series.in_flight_mean.iter().enumerate() {
            assert!((mean - 0.3).abs() < 0.01, "{index}: {mean}");
        }
        for p50 in &series.ack_latency_ns.p50 {
            assert!(p50.unwrap().abs_diff(300_000) < 3_000);
        }
        let kept = (0..series.len()).map(|index| series.ack_latency_ns.histogram(index));
        let kept: Vec<_> = kept.map(|read| read.unwrap().unwrap()).collect();
        assert_eq!(
            kept.iter().map(hdrhistogram::Histogram::len).sum::<u64>(),
            50_000
        );
        assert!(kept[0].max().abs_diff(300_000) < 3_000);
        let (from, to) = series.span_of(series.len() - 1);
        assert!(from < to && to == 50_000_000_000);
    }

    #[test]
    fn flow_is_the_mean_over_time_and_open_batches() {
        let mut series = SeriesRecorder::new();
        let at = Time::from_micros;
        series.change(at(0), |levels| {
            levels.open = 2;
            levels.flow_total = 20;
        });
        series.change(at(50), |levels| levels.flow_total = 40);
        series.flow_seen(at(50), 30);
        series.change(at(100), |levels| *levels = Levels::default());
        let (series, flow) = series.finish(at(250));
        assert_eq!(series.len(), 3);
        assert_eq!(flow.mean, [Some(15.0), None, None]);
        assert_eq!(flow.min, [Some(30), None, None]);
        assert_eq!(flow.max, [Some(30), None, None]);
    }

    #[test]
    fn what_happens_at_the_very_end_is_kept_without_a_bucket_of_no_width() {
        let mut series = SeriesRecorder::new();
        series.published(Time::from_micros(10));
        series.acknowledged(Time::from_micros(200), 1, 5);
        series.latency(190_000, 1);
        let (series, _) = series.finish(Time::from_micros(200));
        assert_eq!(series.acknowledged, [0, 1]);
        assert_eq!(series.span_of(1), (100_000, 200_000));
    }

    #[test]
    fn an_empty_run_has_one_empty_bucket() {
        let (series, flow) = SeriesRecorder::new().finish(Time::ZERO);
        assert_eq!(series.published, [0]);
        assert_eq!(flow.mean, [None]);
        assert_eq!(series.span_of(0), (0, 0));
    }

    #[test]
    fn a_moment_at_the_end_of_time_ends_the_loop() {
        let mut series = SeriesRecorder::new();
        series.published(Time::from_secs(1));
        series.error(Time::NEVER);
        let (series, _) = series.finish(Time::NEVER);
        assert!(series.len() <= BUCKETS);
        assert_eq!(series.errors.iter().sum::<u64>(), 1);
    }
}
