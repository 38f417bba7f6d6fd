//! The chart of the servers of a live run: what they said of themselves over time, a line for each.
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

/// CPU, memory, slow consumers and how far replicas are behind, of six servers over time: first those that answered.
/// A line is broken while its server did not answer; what nobody told of has no panel.
pub fn servers(result: &RunResult) -> Chart {
    let shown = shown(result);
    let cpu = panel(
        &shown,
        "CPU of the server, in hundredths of a core",
        |series| points(series, &series.cpu_percent, |cpu| cpu),
    );
    let memory = panel(&shown, "resident memory of the server, in MiB", |series| {
        points(series, &series.memory_bytes, |bytes| {
            bytes as f64 / f64::from(1 << 20)
        })
    });
    let dropped = panel(
        &shown,
        "slow consumers that the server has dropped so far",
        |series| points(series, &series.slow_consumers, |count| count as f64),
    );
    let behind = panel(
        &shown,
        "append entries that its replica of the stream is behind",
        |series| points(series, &series.raft_lag, |entries| entries as f64),
    );
    let further = [dropped, behind].into_iter();
    let told = further.filter(|panel| panel.empty.is_none());
    over_time(
        result,
        "servers",
        "Servers",
        subtitle(result),
        [cpu, memory].into_iter().chain(told).collect(),
    )
}

/// The servers that have lines, in their order.
fn shown(result: &RunResult) -> Vec<&ServerSeries> {
    let mut shown: Vec<&ServerSeries> = result.servers.iter().collect();
    shown.sort_by_key(|series| !series.answered());
    shown.truncate(PAINTS.len());
    shown
}

fn panel(shown: &[&ServerSeries], unit: &str, line: impl Fn(&ServerSeries) -> Points) -> Panel {
    let lines: Vec<Points> = shown.iter().map(|series| line(series)).collect();
    let y = Axis::from_zero(Kind::Number, values(&lines.iter().collect::<Vec<_>>()));
    let is_empty = lines.iter().flatten().all(|(_, value)| value.is_none());
    let named = shown.iter().zip(lines).zip(PAINTS);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::ServerFigures;
    use crate::report::empty_record;

    fn server(name: &str, said: ServerFigures) -> ServerSeries {
        let mut series = ServerSeries::new(name.to_owned(), String::new());
        series.push(0, said);
        series
    }

    #[test]
    fn who_answered_comes_first_and_each_figure_that_was_told_has_a_panel() {
        let silent = ServerFigures::default();
        let told = ServerFigures {
            memory_bytes: Some(1),
            ..silent
        };
        let behind = ServerFigures {
            slow_consumers: Some(0),
            raft_lag: Some(3),
            ..told
        };
        let mut result = RunResult::new(empty_record());
        let silent = (0..6).map(|number| server(&format!("silent {number}"), silent));
        result.servers = silent.chain([server("told", told)]).collect();
        let names = |chart: &Chart| -> Vec<String> {
            let layers = chart.panels[0].layers.iter();
            layers.filter_map(|layer| layer.label.clone()).collect()
        };
        let chart = servers(&result);
        assert_eq!(names(&chart)[..2], ["told", "silent 0"]);
        assert_eq!(names(&chart).len(), 6);
        assert_eq!(chart.panels.len(), 2);
        result.servers.push(server("behind", behind));
        let chart = servers(&result);
        assert_eq!(names(&chart)[..3], ["told", "behind", "silent 0"]);
        let units: Vec<&str> = chart.panels[2..]
            .iter()
            .map(|panel| panel.unit.as_str())
            .collect();
        assert!(
            units[0].starts_with("slow consumers") && units[1].contains("behind"),
            "{units:?}"
        );
    }
}
