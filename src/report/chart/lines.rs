//! From series and histograms to lines and bars.
//!
//! Leans on `measure`.

use crate::measure::{LatencyHistogram, Series};

/// Points of a line, broken where a value is missing.
pub(super) type Points = Vec<(f64, Option<f64>)>;

/// Latency over nines, up to the one slowest message.
pub(super) fn nines_curve(histogram: &LatencyHistogram) -> Points {
    let total = histogram.len();
    if total == 0 {
        return Vec::new();
    }
    let last = (total as f64).log10();
    let steps = 400;
    let mut points = Vec::with_capacity(steps + 2);
    for step in 0..=steps {
        let nines = last * step as f64 / steps as f64;
        let quantile = 1.0 - 10_f64.powf(-nines);
        let value = histogram.value_at_quantile(quantile).min(histogram.max());
        points.push((nines, Some(value as f64)));
    }
    // The slowest message reaches to the end of the axis, and a single one all along it.
    points.push((last.max(1.0), Some(histogram.max() as f64)));
    points
}

/// Buckets for rates: from, to, and which. A short last bucket is taken together with the one
/// before it, since a rate over a moment says nothing.
fn rate_spans(series: &Series) -> Vec<(u64, u64, std::ops::Range<usize>)> {
    let mut spans: Vec<_> = (0..series.len())
        .map(|index| {
            let (from, to) = series.span_of(index);
            (from, to, index..index + 1)
        })
        .collect();
    if let [.., before, last] = &mut spans[..]
        && last.1 - last.0 < series.bucket_ns / 2
    {
        *before = (before.0, last.1, before.2.start..last.2.end);
        spans.pop();
    }
    spans
}

/// A column of counts, per second.
pub(super) fn rates(series: &Series, column: &[u64]) -> Points {
    let spans = rate_spans(series).into_iter().map(|(from, to, which)| {
        // As floats: a file may hold any number, and their sum must not overflow.
        let sum: f64 = column[which].iter().map(|count| *count as f64).sum();
        let seconds = (to - from) as f64 / 1e9;
        let rate = (seconds > 0.0).then(|| sum / seconds);
        (from, to, rate)
    });
    line(&spans.collect::<Vec<_>>())
}

/// A column of levels.
pub(super) fn levels<T, V: Copy>(
    series: &Series,
    column: &[T],
    value: impl Fn(&T) -> Option<V>,
) -> Vec<(f64, Option<V>)> {
    let spans = column.iter().enumerate().map(|(index, entry)| {
        let (from, to) = series.span_of(index);
        (from, to, value(entry))
    });
    line(&spans.collect::<Vec<_>>())
}

/// A line through the middle of each span, from the start of the first to the end of the last.
fn line<V: Copy>(spans: &[(u64, u64, Option<V>)]) -> Vec<(f64, Option<V>)> {
    let mut points = Vec::with_capacity(spans.len() + 2);
    if let Some((from, _, value)) = spans.first() {
        points.push((*from as f64, *value));
    }
    for (from, to, value) in spans {
        points.push(((*from as f64 + *to as f64) / 2.0, *value));
    }
    if let Some((_, to, value)) = spans.last() {
        points.push((*to as f64, *value));
    }
    points
}

/// A bar for each bucket that has something.
pub(super) fn bars(series: &Series, column: &[f64]) -> Vec<(f64, f64, f64)> {
    let bars = column
        .iter()
        .enumerate()
        .filter(|(_, height)| **height > 0.0);
    bars.map(|(index, height)| {
        let (from, to) = series.span_of(index);
        (from as f64, to as f64, *height)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::latency_histogram;

    #[test]
    fn a_short_last_bucket_makes_no_spike() {
        let series = Series {
            bucket_ns: 1_000_000_000,
            end_ns: 2_000_000_001,
            published: vec![10, 10, 5],
            ..Series::default()
        };
        let rates: Vec<_> = rates(&series, &series.published)
            .into_iter()
            .map(|(_, rate)| rate.unwrap().round())
            .collect();
        assert_eq!(rates, [10.0, 10.0, 15.0, 15.0]);
    }

    #[test]
    fn the_curve_ends_with_the_slowest_message() {
        let mut histogram = latency_histogram();
        for value in 1..=1_000 {
            histogram.record(value * 1_000).unwrap();
        }
        let curve = nines_curve(&histogram);
        let (nines, slowest) = *curve.last().unwrap();
        assert!((nines - 3.0).abs() < 1e-9);
        assert_eq!(slowest, Some(histogram.max() as f64));
        let rising = curve.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        assert!(rising);
        assert!(nines_curve(&latency_histogram()).is_empty());
    }
}
