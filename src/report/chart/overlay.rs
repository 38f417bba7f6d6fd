//! Charts that lay several sides of runs over one another, each in a colour of its own.
//!
//! Leans on `axis`, `lines` and the sides of `compare`.

use super::axis::{Axis, Kind};
use super::canvas::Paint;
use super::kinds::{layer, values};
use super::lines::{Points, levels, nines_curve, rates};
use super::{Chart, Panel, Shape};
use crate::report::text::{duration, printable, shortened_front};
use crate::report::{RunResult, Side};

/// A colour for each side, the baseline first.
const PAINTS: [Paint; 6] = [
    Paint::Blue,
    Paint::Orange,
    Paint::Green,
    Paint::Purple,
    Paint::Red,
    Paint::Sky,
];
/// Most sides that a chart tells apart.
pub const MOST_SIDES: usize = PAINTS.len();
/// Runs of a side that are drawn over time.
const RUNS: usize = 8;

/// Every chart of these sides, at most [`MOST_SIDES`].
pub fn overlays(sides: &[&Side]) -> Vec<Chart> {
    vec![throughput(sides), latency(sides), latency_over_time(sides)]
}

fn throughput(sides: &[&Side]) -> Chart {
    let lines = lines(sides, |run| rates(&run.series, &run.series.acknowledged));
    let y = Axis::from_zero(Kind::Number, of_lines(&lines));
    let panel = panel("messages acknowledged per second", y, lines);
    over_time(sides, "compare-throughput", "Throughput", panel)
}

fn latency_over_time(sides: &[&Side]) -> Chart {
    let lines = lines(sides, |run| {
        let p99 = &run.series.ack_latency_ns.p99;
        levels(&run.series, p99, |value| value.map(|ns| ns as f64))
    });
    let y = Axis::spans(of_lines(&lines).collect::<Vec<_>>().into_iter());
    let panel = panel("99 % of the acks of a moment within, from send", y, lines);
    over_time(
        sides,
        "compare-latency-over-time",
        "Ack latency over time",
        panel,
    )
}

fn latency(sides: &[&Side]) -> Chart {
    let mut most = 1;
    let mut drawn = Vec::new();
    for (side, paint) in sides.iter().zip(PAINTS) {
        let histogram = side.latencies(false);
        most = most.max(histogram.len());
        drawn.push((Some(name(side)), paint, nines_curve(&histogram)));
    }
    let y = Axis::spans(of_lines(&drawn).collect::<Vec<_>>().into_iter());
    let panel = panel("ack latency from send", y, drawn);
    let x = Axis {
        low: 0.0,
        high: (most as f64).log10().max(1.0),
        kind: Kind::Nines,
    };
    Chart {
        x,
        ..over_time(sides, "compare-latency", "Ack latency", panel)
    }
}

/// A line with its colour, and its name in the legend where it is the first of its side.
type Line = (Option<String>, Paint, Points);

/// A line for each run, named once for each side.
fn lines(sides: &[&Side], line: impl Fn(&RunResult) -> Points) -> Vec<Line> {
    let mut lines = Vec::new();
    for (side, paint) in sides.iter().zip(PAINTS) {
        for (index, run) in side.runs.iter().take(RUNS).enumerate() {
            lines.push(((index == 0).then(|| name(side)), paint, line(run)));
        }
    }
    lines
}

fn of_lines(lines: &[Line]) -> impl Iterator<Item = f64> + '_ {
    lines
        .iter()
        .flat_map(|(_, _, points)| values(std::slice::from_ref(&points)).collect::<Vec<_>>())
}

fn panel(unit: &str, y: Axis, lines: Vec<Line>) -> Panel {
    let nothing = lines.iter().all(|(_, _, points)| points.is_empty());
    // The baseline is wide, so that it shows where another lies on it.
    let shape = |paint, points| {
        if paint == PAINTS[0] {
            Shape::Wide(points)
        } else {
            Shape::Line(points)
        }
    };
    let layers = lines
        .into_iter()
        .map(|(label, paint, points)| layer(label.as_deref(), paint, shape(paint, points)));
    Panel {
        unit: unit.to_owned(),
        y,
        layers: layers.collect(),
        empty: nothing.then_some("Nothing was measured."),
    }
}

fn name(side: &Side) -> String {
    shortened_front(&printable(&side.name), 28).into_owned()
}

fn over_time(sides: &[&Side], name: &'static str, what: &str, panel: Panel) -> Chart {
    let runs = || sides.iter().flat_map(|side| &side.runs);
    let end = runs()
        .map(|run| run.series.end_ns.max(run.duration_ns))
        .max();
    let counts = sides.iter().map(|side| side.runs.len().to_string());
    Chart {
        name,
        title: format!("{what}, {} sides", sides.len()),
        subtitle: format!(
            "runs of each: {}; the longest took {}",
            counts.collect::<Vec<_>>().join(", "),
            duration(end.unwrap_or(0))
        ),
        footer: format!("tidegate {}", env!("CARGO_PKG_VERSION")),
        x: Axis::time(end.unwrap_or(0)),
        marks: Vec::new(),
        panels: vec![panel],
    }
}
