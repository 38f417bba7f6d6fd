//! The page of tables.

use std::fmt::Write as _;

use super::cells::{API, BASELINES, FAULTS, FLOWS};
use super::{CellFigures, Figures, RunFigures};

pub(crate) fn of(figures: &Figures) -> String {
    let mut text = format!(
        "# Figures of real servers\n\n\
         What the files in `workloads/` give on {}, one process for each server, on one machine with {}\n\
         processors that publishers and servers share, over the loopback. Measured on {}\n\
         with `make live-tables`, which writes this page; every run is in `results/live-figures.json`, with the\n\
         command that repeats it. These are figures of that machine: they say how the ways to publish compare,\n\
         and not what a cluster of yours takes.\n\n\
         ![Messages a second by the way they are published](images/live-throughput.svg)\n",
        figures.server, figures.processors, figures.measured
    );
    throughput(figures, &mut text);
    latency(figures, &mut text);
    flows(figures, &mut text);
    api(figures, &mut text);
    faults(figures, &mut text);
    text
}

fn cells<'a>(figures: &'a Figures, table: &'a str) -> impl Iterator<Item = &'a CellFigures> {
    figures.cells.iter().filter(move |cell| cell.table == table)
}

/// Names of rows or columns in the order in which they first come.
fn names<'a>(
    figures: &'a Figures,
    table: &'a str,
    name: fn(&CellFigures) -> &String,
) -> Vec<&'a String> {
    let mut names: Vec<&String> = Vec::new();
    for cell in cells(figures, table) {
        if !names.contains(&name(cell)) {
            names.push(name(cell));
        }
    }
    names
}

fn grid(
    figures: &Figures,
    table: &str,
    corner: &str,
    text: &mut String,
    content: impl Fn(&[RunFigures]) -> String,
) {
    let columns = names(figures, table, |cell| &cell.column);
    let rows = names(figures, table, |cell| &cell.row);
    write!(text, "\n| {corner} |").unwrap();
    for column in &columns {
        write!(text, " {column} |").unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    text.push('\n');
    for row in rows {
        write!(text, "| {row} |").unwrap();
        for column in &columns {
            let mut all = cells(figures, table);
            let cell = all.find(|cell| cell.row == *row && cell.column == **column);
            let shown = cell.map_or_else(|| "–".to_owned(), |cell| content(&cell.runs));
            write!(text, " {shown} |").unwrap();
        }
        text.push('\n');
    }
}

fn throughput(figures: &Figures, text: &mut String) {
    text.push_str(
        "\n## Throughput\n\n\
         Thousand acked messages a second, the median of three runs of two seconds (least to most). Core publish\n\
         has no acks and no stream: what a connection takes. Fast ingest asks for flow 1,000 and gets 500, or\n\
         500 divided by the publishers; two acks may be outstanding.\n",
    );
    grid(figures, BASELINES, "", text, |runs| {
        spread(runs, |run| run.messages_per_second / 1e3, thousands)
    });
}

fn latency(figures: &Figures, text: &mut String) {
    text.push_str(
        "\n## Ack latency\n\n\
         Milliseconds from the send to the ack that covers the message, p50 and p99, medians of the same runs.\n\
         All publishers send as fast as they may, so this is the time spent in queues that they fill\n\
         themselves. Messages of an atomic batch are acked by its commit.\n",
    );
    grid(figures, BASELINES, "", text, |runs| {
        if runs.iter().all(|run| run.ack_max_ns == 0) {
            return "–".to_owned();
        }
        let at = |of: fn(&RunFigures) -> u64| milliseconds(median(runs, |run| of(run) as f64));
        format!(
            "{} / {}",
            at(|run| run.ack_p50_ns),
            at(|run| run.ack_p99_ns)
        )
    });
}

fn flows(figures: &Figures, text: &mut String) {
    text.push_str(
        "\n## Asked flow\n\n\
         One fast publisher, 128 B, two outstanding acks: thousand messages a second by the flow it asks for.\n",
    );
    grid(figures, FLOWS, "Flow", text, |runs| {
        spread(runs, |run| run.messages_per_second / 1e3, thousands)
    });
}

fn api(figures: &Figures, text: &mut String) {
    text.push_str(
        "\n## Calls of the API meanwhile\n\n\
         Milliseconds to the answer, p50 / p90 / longest, one call every 100 ms, some sixty of each. ADR-50 wants\n\
         two seconds at most.\n\n\
         ![Latency of API calls on three servers](images/live-api.svg)\n",
    );
    let columns: Vec<&CellFigures> = cells(figures, API).collect();
    text.push_str("\n| Call |");
    for column in &columns {
        write!(text, " {} |", column.column).unwrap();
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(columns.len()));
    text.push('\n');
    let operations = columns.iter().flat_map(|cell| &cell.runs);
    let operations: std::collections::BTreeSet<&String> =
        operations.flat_map(|run| run.api_ns.keys()).collect();
    for operation in operations {
        write!(text, "| {operation} |").unwrap();
        for cell in &columns {
            let at = |index: usize| {
                let of =
                    |run: &RunFigures| run.api_ns.get(operation).map_or(0.0, |it| it[index] as f64);
                milliseconds(median(&cell.runs, of))
            };
            write!(text, " {} / {} / {} |", at(0), at(1), at(2)).unwrap();
        }
        text.push('\n');
    }
    text.push_str("| *messages a second* |");
    for cell in &columns {
        let rate = median(&cell.runs, |run| run.messages_per_second);
        let shown = match cell.runs.iter().all(|run| run.published > 1) {
            true => thousands(rate / 1e3) + " k",
            false => "–".to_owned(),
        };
        write!(text, " {shown} |").unwrap();
    }
    text.push('\n');
}

fn faults(figures: &Figures, text: &mut String) {
    text.push_str(
        "\n## Faults\n\n\
         Three servers, three replicas, 16 publishers of 250 messages of 128 B a second each. Spans are least /\n\
         median / most of all runs. Every run was read back: no acked message was missing, nothing was stored\n\
         twice, and in gap mode ok what was missing had been reported.\n\n\
         | Fault | Gap mode | Runs | As expected | Without a leader | Longest wait of a publisher | Lost, of all publishers | Batches committed | ended otherwise |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for cell in cells(figures, FAULTS) {
        let runs = &cell.runs;
        let of = |name: &str| -> u64 {
            let endings = runs.iter().flat_map(|run| run.endings.iter());
            endings
                .filter(|(word, _)| *word == name)
                .map(|(_, batches)| batches)
                .sum()
        };
        let all: u64 = runs.iter().flat_map(|run| run.endings.values()).sum();
        let leaderless: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.leaderless_ns.map(|span| span as f64))
            .collect();
        let lost = |run: &RunFigures| run.lost.unwrap_or(0) as f64;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            cell.row,
            cell.column,
            runs.len(),
            runs.iter().filter(|run| run.expected).count(),
            range(leaderless, span),
            range(
                runs.iter().map(|run| run.longest_wait_ns as f64).collect(),
                span
            ),
            range(runs.iter().map(lost).collect(), |lost| format!("{lost:.0}")),
            of("committed"),
            all - of("committed"),
        )
        .unwrap();
    }
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

pub(crate) fn median(runs: &[RunFigures], of: impl Fn(&RunFigures) -> f64) -> f64 {
    let values = sorted(runs.iter().map(of).collect());
    values[values.len() / 2]
}

fn spread(
    runs: &[RunFigures],
    of: impl Fn(&RunFigures) -> f64,
    show: impl Fn(f64) -> String,
) -> String {
    let values = sorted(runs.iter().map(of).collect());
    let (least, most) = (values[0], values[values.len() - 1]);
    format!(
        "{} ({}–{})",
        show(values[values.len() / 2]),
        show(least),
        show(most)
    )
}

fn range(values: Vec<f64>, show: impl Fn(f64) -> String) -> String {
    let values = sorted(values);
    match values.as_slice() {
        [] => "–".to_owned(),
        values => {
            let (least, most) = (values[0], values[values.len() - 1]);
            let middle = values[values.len() / 2];
            format!("{} / {} / {}", show(least), show(middle), show(most))
        }
    }
}

fn thousands(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.1}"),
    }
}

fn milliseconds(nanoseconds: f64) -> String {
    match nanoseconds / 1e6 {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms => format!("{ms:.2}"),
    }
}

fn span(nanoseconds: f64) -> String {
    match nanoseconds / 1e6 {
        ms if ms >= 1_000.0 => format!("{:.2} s", ms / 1e3),
        ms => format!("{ms:.1} ms"),
    }
}
