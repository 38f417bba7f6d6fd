//! The chart of API latency: a curve of percentiles for each operation, and the bound of ADR-50.
//!
//! Leans on `kinds` for the frame, and on `axis` and `lines`.

use super::axis::{Axis, Kind};
use super::canvas::Paint;
use super::kinds::{layer, over_time, values};
use super::lines::{Points, nines_curve};
use super::{Chart, Panel, Shape};
use crate::report::RunResult;
use crate::report::api::{BOUND_NS, fates};
use crate::report::text::{duration, printable, shortened};

const PAINTS: [Paint; 7] = [
    Paint::Blue,
    Paint::Orange,
    Paint::Green,
    Paint::Purple,
    Paint::Sky,
    Paint::Red,
    Paint::Grey,
];

/// API latency by percentile, for each operation that was answered.
pub fn api_latency(result: &RunResult) -> Chart {
    let curves: Vec<(String, u64, Points)> = result
        .api_latency_ns
        .iter()
        .take(PAINTS.len())
        .filter_map(|(operation, latency)| {
            let histogram = latency.histogram().ok().filter(|all| !all.is_empty())?;
            let name = shortened(&printable(operation), 20).into_owned();
            Some((name, latency.count, nines_curve(&histogram)))
        })
        .collect();
    let most = curves.iter().map(|(_, count, _)| *count).max();
    let last = (most.unwrap_or(1).max(1) as f64).log10().max(1.0);
    let bound: Points = [0.0, last].map(|at| (at, Some(BOUND_NS as f64))).into();
    let points: Vec<&Points> = curves
        .iter()
        .map(|(.., curve)| curve)
        .chain([&bound])
        .collect();
    let y = Axis::spans(values(&points));
    let is_empty = curves.is_empty();
    let lines = curves.into_iter().zip(PAINTS);
    let lines =
        lines.map(|((name, _, curve), paint)| layer(Some(&name), paint, Shape::Line(curve)));
    let bound = layer(Some("2 s of ADR-50"), Paint::Red, Shape::Dashed(bound));
    let panel = Panel {
        unit: "latency".to_owned(),
        y,
        layers: lines.chain([bound]).collect(),
        empty: is_empty.then_some("No request was answered in the measured window."),
    };
    let x = Axis {
        low: 0.0,
        high: last,
        kind: Kind::Nines,
    };
    Chart {
        x,
        marks: Vec::new(),
        ..over_time(
            result,
            "api-latency",
            "API latency",
            subtitle(result),
            vec![panel],
        )
    }
}

/// The slowest answer, or what became of requests that got none.
fn subtitle(result: &RunResult) -> String {
    let slowest = result.api_latency_ns.iter();
    let slowest = slowest.max_by_key(|(_, latency)| latency.max);
    let mut calls = result.api_calls.iter();
    let trouble = calls.find(|(_, calls)| calls.unanswered > 0 || !calls.refused.is_empty());
    let name = |operation: &str| shortened(&printable(operation), 20).into_owned();
    match (slowest, trouble) {
        (_, Some((operation, calls))) => format!("{}: {}", name(operation), fates(calls)),
        (Some((operation, latency)), None) => {
            format!("slowest: {}, {}", name(operation), duration(latency.max))
        }
        (None, None) => "nothing was measured".to_owned(),
    }
}
