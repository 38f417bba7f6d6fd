//! One run cut into the time slices of its series, to be drawn again and again in blocks.
//!
//! Leans on `statistics`, and on the series of `measure`.

use super::metric::Metric;
use super::statistics::{correlation_time, resample};
use crate::report::RunResult;
use crate::seed::Generator;

/// A run shorter than this many slices that tell something of their own is too short to say how sure its
/// figures are.
const LEAST: f64 = 40.0;

/// The slices of a run within its measured window.
pub(super) struct Slices {
    seconds: Vec<f64>,
    acknowledged: Vec<f64>,
    /// Of each slice: which of `values`, and how often.
    latencies: Vec<Vec<(u32, u64)>>,
    /// Every latency that occurs, in nanoseconds, lowest first.
    values: Vec<u64>,
    /// How many slices in a row stay together when they are drawn.
    block: usize,
}

/// Slices drawn with replacement.
pub(super) struct Drawn<'s> {
    slices: &'s Slices,
    seconds: f64,
    acknowledged: f64,
    counts: Vec<u64>,
    total: u64,
}

impl Slices {
    /// The slices of `run`; none where it has no histograms over time, or is too short.
    pub(super) fn of(run: &RunResult) -> Option<Self> {
        let series = &run.series;
        let mut values = Vec::new();
        let mut histograms = Vec::new();
        let (mut seconds, mut acknowledged) = (Vec::new(), Vec::new());
        for index in 0..series.len() {
            let (from, to) = series.span_of(index);
            let inside = from >= run.window.from_ns && to <= run.window.until_ns;
            if !inside || to - from < series.bucket_ns {
                continue;
            }
            let histogram = series.ack_latency_ns.histogram(index).ok()?;
            let counts: Vec<(u64, u64)> = histogram
                .iter()
                .flat_map(|histogram| {
                    let recorded = histogram.iter_recorded();
                    recorded
                        .map(|step| (step.value_iterated_to(), step.count_at_value()))
                        .collect::<Vec<_>>()
                })
                .collect();
            values.extend(counts.iter().map(|(value, _)| *value));
            histograms.push(counts);
            seconds.push((to - from) as f64 / 1e9);
            acknowledged.push(series.acknowledged[index] as f64);
        }
        values.sort_unstable();
        values.dedup();
        if values.is_empty() {
            return None;
        }
        let place = |value: u64| values.partition_point(|other| *other < value) as u32;
        let latencies = histograms.into_iter().map(|counts| {
            counts
                .into_iter()
                .map(|(value, count)| (place(value), count))
                .collect()
        });
        let latencies = latencies.collect();
        let time = Self::correlation(run, &acknowledged);
        let count = seconds.len();
        if (count as f64) < LEAST * time {
            return None;
        }
        let block = (2.0 * time).max((count as f64).cbrt()).ceil() as usize;
        Some(Self {
            seconds,
            acknowledged,
            latencies,
            values,
            block,
        })
    }

    /// The longest correlation time among rate, median and tail.
    fn correlation(run: &RunResult, acknowledged: &[f64]) -> f64 {
        let known = |column: &[Option<u64>]| -> Vec<f64> {
            column.iter().flatten().map(|ns| *ns as f64).collect()
        };
        let latency = &run.series.ack_latency_ns;
        [
            correlation_time(acknowledged),
            correlation_time(&known(&latency.p50)),
            correlation_time(&known(&latency.p99)),
        ]
        .into_iter()
        .fold(1.0, f64::max)
    }

    /// As many slices as there are, drawn in blocks.
    pub(super) fn draw(&self, generator: &mut Generator) -> Drawn<'_> {
        self.together(resample(self.seconds.len(), self.block, generator))
    }

    /// Each slice once.
    pub(super) fn whole(&self) -> Drawn<'_> {
        self.together((0..self.seconds.len()).collect())
    }

    fn together(&self, indexes: Vec<usize>) -> Drawn<'_> {
        let mut drawn = Drawn {
            slices: self,
            seconds: 0.0,
            acknowledged: 0.0,
            counts: vec![0; self.values.len()],
            total: 0,
        };
        for index in indexes {
            drawn.seconds += self.seconds[index];
            drawn.acknowledged += self.acknowledged[index];
            for (place, count) in &self.latencies[index] {
                // A file may hold any numbers up to 2^53.
                let sum = &mut drawn.counts[*place as usize];
                *sum = sum.saturating_add(*count);
                drawn.total = drawn.total.saturating_add(*count);
            }
        }
        drawn
    }
}

impl Drawn<'_> {
    /// The figure; none where it cannot be had from slices, or nothing was acknowledged.
    pub(super) fn figure(&self, metric: Metric) -> Option<f64> {
        if metric == Metric::Throughput {
            return (self.acknowledged > 0.0).then(|| self.acknowledged / self.seconds);
        }
        let quantile = metric.ack_quantile()?;
        let wanted = ((self.total as f64 * quantile).ceil() as u64).max(1);
        let mut seen = 0;
        let place = self.counts.iter().position(|count| {
            seen = count.saturating_add(seen);
            seen >= wanted
        })?;
        Some(self.slices.values[place].max(1) as f64)
    }
}
