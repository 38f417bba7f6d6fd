//! The charts, one function each.
//!
//! Leans on `result`, `axis`, `lines` and `marks`.

use super::axis::{Axis, Kind, nines_of};
use super::canvas::Paint;
use super::lines::{Points, bars, levels, nines_curve, rates};
use super::{Chart, Layer, Panel, Shape, marks};
use crate::report::text::{
    byte_rate, count, duration, percent, printable, short, shortened, shortened_front,
};
use crate::report::{RunResult, World};

/// Messages per second over time: sent, and acknowledged.
pub fn throughput(result: &RunResult) -> Chart {
    let acknowledged = rates(&result.series, &result.series.acknowledged);
    let published = rates(&result.series, &result.series.published);
    let y = Axis::from_zero(Kind::Number, values(&[&acknowledged, &published]));
    let throughput = &result.throughput;
    let subtitle = format!(
        "{} messages/s acknowledged, {}, on the mean from {} to {}",
        short(throughput.messages_per_second),
        byte_rate(throughput.bytes_per_second),
        duration(result.window.from_ns),
        duration(result.window.until_ns),
    );
    let nothing = result.totals.published == 0;
    let panel = Panel {
        unit: "messages per second".to_owned(),
        y,
        layers: vec![
            layer(None, Paint::Blue, Shape::Area(acknowledged.clone())),
            layer(Some("sent"), Paint::Grey, Shape::Dashed(published)),
            layer(Some("acknowledged"), Paint::Blue, Shape::Line(acknowledged)),
        ],
        empty: nothing.then_some("No message was sent."),
    };
    over_time(result, "throughput", "Throughput", subtitle, vec![panel])
}

/// Ack latency by percentile, from send and from the intended start.
pub fn latency_curve(result: &RunResult) -> Chart {
    let service = &result.ack_latency_ns;
    let measured = service.count;
    let curve = |distribution: &crate::measure::Distribution| {
        let histogram = distribution.histogram().ok();
        histogram.map_or_else(Vec::new, |histogram| nines_curve(&histogram))
    };
    let service_curve = curve(service);
    let response_curve = curve(&result.response_time_ns);
    let y = Axis::spans(values(&[&service_curve, &response_curve]));
    let last = (measured.max(1) as f64).log10();
    let known = [
        (0.5, service.p50, "p50"),
        (0.9, service.p90, "p90"),
        (0.99, service.p99, "p99"),
        (0.999, service.p999, "p99.9"),
    ];
    let points = known
        .iter()
        .filter(|(quantile, ..)| nines_of(*quantile) <= last)
        .map(|(quantile, value, name)| {
            let text = format!("{name} {}", duration(*value));
            (nines_of(*quantile), *value as f64, text)
        });
    let layers = vec![
        layer(
            Some("from the intended start"),
            Paint::Orange,
            Shape::Wide(response_curve),
        ),
        layer(Some("from send"), Paint::Blue, Shape::Line(service_curve)),
        layer(None, Paint::Blue, Shape::Points(points.collect())),
    ];
    let panel = Panel {
        unit: "ack latency".to_owned(),
        y,
        layers,
        empty: (measured == 0).then_some("No message was acknowledged in the measured window."),
    };
    let subtitle = if measured == 0 {
        "nothing was measured".to_owned()
    } else {
        format!(
            "{} from send: half within {}, 99 % within {}, slowest {}",
            plural(measured, "message"),
            duration(service.p50),
            duration(service.p99),
            duration(service.max)
        )
    };
    let x = Axis {
        low: 0.0,
        high: last.max(1.0),
        kind: Kind::Nines,
    };
    Chart {
        x,
        marks: Vec::new(),
        ..over_time(result, "latency", "Ack latency", subtitle, vec![panel])
    }
}

/// Percentiles of the ack latency over time.
pub fn latency_over_time(result: &RunResult) -> Chart {
    let latency = &result.series.ack_latency_ns;
    let columns = [
        ("p50", Paint::Sky, &latency.p50),
        ("p90", Paint::Blue, &latency.p90),
        ("p99", Paint::Orange, &latency.p99),
        ("slowest", Paint::Red, &latency.max),
    ];
    let lines = columns.map(|(name, paint, column)| {
        let line = levels(&result.series, column, |value| value.map(|ns| ns as f64));
        (name, paint, line)
    });
    let y = Axis::spans(values(&lines.each_ref().map(|(_, _, line)| line)));
    let empty = lines
        .iter()
        .all(|(_, _, line)| values(&[line]).next().is_none());
    // The slowest lie lowest, so that the others stay visible where they meet.
    let layers = lines.into_iter().rev();
    let layers = layers.map(|(name, paint, line)| layer(Some(name), paint, Shape::Line(line)));
    let panel = Panel {
        unit: "ack latency from send, by the moment of the ack".to_owned(),
        y,
        layers: layers.collect(),
        empty: empty.then_some("No message was acknowledged."),
    };
    let subtitle = format!(
        "{} of {} sent were acknowledged; over the whole run, warm-up included",
        count(result.totals.acknowledged),
        plural(result.totals.published, "message"),
    );
    over_time(
        result,
        "latency-over-time",
        "Ack latency over time",
        subtitle,
        vec![panel],
    )
}

/// The part of messages that gaps reported missing, over time, and errors.
pub fn gaps(result: &RunResult) -> Chart {
    let series = &result.series;
    let rates: Vec<f64> = (0..series.len())
        .map(|index| {
            let missing = series.missing[index] as f64;
            let answered = missing + series.acknowledged[index] as f64;
            if answered > 0.0 {
                missing / answered
            } else {
                0.0
            }
        })
        .collect();
    let totals = &result.totals;
    let panel = Panel {
        unit: "missing, of the messages whose fate became known".to_owned(),
        y: Axis::from_zero(Kind::Percent, rates.iter().copied()),
        layers: vec![layer(None, Paint::Red, Shape::Bars(bars(series, &rates)))],
        empty: (totals.missing == 0)
            .then_some("No gap: no publisher was told of a missing message."),
    };
    let errors: Vec<f64> = series.errors.iter().map(|errors| *errors as f64).collect();
    let mut panels = vec![panel];
    if errors.iter().any(|errors| *errors > 0.0) {
        panels.push(Panel {
            unit: format!("errors seen, in each {}", duration(series.bucket_ns)),
            y: Axis::from_zero(Kind::Number, errors.iter().copied()),
            layers: vec![layer(
                None,
                Paint::Orange,
                Shape::Bars(bars(series, &errors)),
            )],
            empty: None,
        });
    }
    let errors = totals
        .errors
        .values()
        .fold(0, |sum: u64, errors| sum.saturating_add(*errors));
    let subtitle = format!(
        "{} with {} missing ({}); {}",
        plural(totals.gaps, "gap"),
        plural(totals.missing, "message"),
        percent(result.gap_rate),
        plural(errors, "error"),
    );
    over_time(result, "gaps", "Gap rate", subtitle, panels)
}

/// Flow, messages in flight, and publishers at a shut gate, over time.
pub fn flow(result: &RunResult) -> Chart {
    let series = &result.series;
    let flow = &result.flow;
    let mean = levels(series, &flow.mean, |value| *value);
    let ends: Vec<_> = flow.min.iter().zip(&flow.max).collect();
    let band = levels(series, &ends, |(low, high)| low.zip(**high));
    let band: Vec<_> = band
        .into_iter()
        .map(|(x, ends)| (x, ends.map(|(low, high)| (f64::from(low), f64::from(high)))))
        .collect();
    let highest = flow.max.iter().flatten().map(|flow| f64::from(*flow));
    let in_flight = levels(series, &series.in_flight_mean, |mean| Some(*mean));
    let in_flight_max = levels(series, &series.in_flight_max, |max| Some(*max as f64));
    let blocked = levels(series, &series.blocked_mean, |mean| Some(*mean));
    let nothing = result.totals.batches.started == 0;
    let mut panels = vec![
        Panel {
            unit: "flow: an ack every so many messages".to_owned(),
            y: Axis::from_zero(Kind::Number, values(&[&mean]).chain(highest)),
            layers: vec![
                layer(Some("lowest to highest"), Paint::Green, Shape::Band(band)),
                layer(Some("mean over batches"), Paint::Green, Shape::Line(mean)),
            ],
            empty: nothing.then_some("No batch was begun."),
        },
        Panel {
            unit: "messages in flight".to_owned(),
            y: Axis::from_zero(Kind::Number, values(&[&in_flight, &in_flight_max])),
            layers: vec![
                layer(Some("most"), Paint::Sky, Shape::Line(in_flight_max)),
                layer(Some("mean"), Paint::Blue, Shape::Line(in_flight)),
            ],
            empty: None,
        },
    ];
    if values(&[&blocked]).any(|blocked| blocked > 0.0) {
        panels.push(Panel {
            unit: "publishers at a shut gate, on the mean".to_owned(),
            y: Axis::from_zero(Kind::Number, values(&[&blocked])),
            layers: vec![
                layer(None, Paint::Orange, Shape::Area(blocked.clone())),
                layer(None, Paint::Orange, Shape::Line(blocked)),
            ],
            empty: None,
        });
    }
    let subtitle = if result.stall_time_ns.total == 0 {
        "no gate was ever shut".to_owned()
    } else {
        format!(
            "gates were shut {} of the time that batches were open; longest wait {}",
            percent(result.stall_time_ns.share),
            duration(result.stall_time_ns.waits.max),
        )
    };
    over_time(
        result,
        "flow",
        "Flow and messages in flight",
        subtitle,
        panels,
    )
}

/// The frame that all charts over time share.
pub(super) fn over_time(
    result: &RunResult,
    name: &'static str,
    what: &str,
    subtitle: String,
    panels: Vec<Panel>,
) -> Chart {
    let world = match result.world {
        World::Sim => "simulator",
        World::Live => "live",
    };
    let partial = if result.partial { ", partial" } else { "" };
    let file = printable(&result.file);
    let tool = printable(&result.tool_version);
    Chart {
        name,
        title: format!(
            "{what}: {}, seed {}, {world}{partial}",
            shortened_front(&file, 56),
            result.seed
        ),
        subtitle,
        footer: format!(
            "seed {} · config {} · {} measured · tidegate {}",
            result.seed,
            shortened(&printable(&result.config_hash), 16),
            plural(result.ack_latency_ns.count, "message"),
            shortened(&tool, 24),
        ),
        x: Axis::time(result.series.end_ns.max(result.duration_ns)),
        marks: marks::of(result),
        panels,
    }
}

pub(super) fn layer(label: Option<&str>, paint: Paint, shape: Shape) -> Layer {
    Layer {
        label: label.map(str::to_owned),
        paint,
        shape,
    }
}

fn plural(number: u64, what: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {what}{end}", count(number))
}

/// Every value of these lines.
pub(super) fn values<'a>(lines: &'a [&'a Points]) -> impl Iterator<Item = f64> + Clone + 'a {
    lines
        .iter()
        .flat_map(|line| line.iter().filter_map(|(_, value)| *value))
}
