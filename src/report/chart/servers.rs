//! The chart of the servers of a live run: CPU and memory over time, a line for each.
//!
//! Leans on `kinds` for the frame, and on `axis`.

use super::axis::{Axis, Kind};
use super::canvas::Paint;
use super::kinds::{layer, over_time, values};
use super::lines::Points;
use super::{Chart, Panel, Shape};
use crate::measure::ServerSeries;
use crate::report::RunResult;
use crate::report::text::{printable, shortened};

const PAINTS: [Paint; 6] = [
    Paint::Blue,
    Paint::Orange,
    Paint::Green,
    Paint::Purple,
    Paint::Sky,
    Paint::Grey,
];

/// CPU and memory of the first six servers over time; a line is broken while its server did not answer.
pub fn servers(result: &RunResult) -> Chart {
    let cpu = panel(
        result,
        "CPU of the server, in hundredths of a core",
        |series| points(series, &series.cpu_percent, |cpu| cpu),
    );
    let memory = panel(result, "resident memory of the server, in MiB", |series| {
        points(series, &series.memory_bytes, |bytes| {
            bytes as f64 / f64::from(1 << 20)
        })
    });
    over_time(
        result,
        "servers",
        "Servers",
        subtitle(result),
        vec![cpu, memory],
    )
}

fn panel(result: &RunResult, unit: &str, line: impl Fn(&ServerSeries) -> Points) -> Panel {
    let lines: Vec<Points> = result.servers.iter().take(PAINTS.len()).map(line).collect();
    let y = Axis::from_zero(Kind::Number, values(&lines.iter().collect::<Vec<_>>()));
    let is_empty = lines.iter().flatten().all(|(_, value)| value.is_none());
    let named = result.servers.iter().zip(lines).zip(PAINTS);
    let layers = named.map(|((series, line), paint)| {
        let name = printable(&series.name);
        layer(Some(&shortened(&name, 20)), paint, Shape::Line(line))
    });
    Panel {
        unit: unit.to_owned(),
        y,
        layers: layers.collect(),
        empty: is_empty.then_some("No server told it."),
    }
}

fn points<T: Copy>(
    series: &ServerSeries,
    column: &[Option<T>],
    value: impl Fn(T) -> f64,
) -> Points {
    let looks = series.at_ns.iter().zip(column);
    looks
        .map(|(at, said)| (*at as f64, said.map(&value)))
        .collect()
}

fn subtitle(result: &RunResult) -> String {
    let looks = result.servers.iter().map(|series| series.at_ns.len());
    let answered = result
        .servers
        .iter()
        .map(|series| series.memory_bytes.iter().flatten().count());
    let text = format!(
        "as the servers say at their monitoring ports: {} of {} looks were answered",
        answered.sum::<usize>(),
        looks.sum::<usize>()
    );
    match result.servers.len().saturating_sub(PAINTS.len()) {
        0 => text,
        more => format!("{text}; {more} more servers are in the result"),
    }
}
