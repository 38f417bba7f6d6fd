//! What the workload files give on real servers: tables in `docs/live-figures.md`, from the figures in
//! `results/live-figures.json`.
//!
//! `make live-tables` measures anew, which takes an hour and a half, most of it for repeats of faults, and
//! writes both. Without
//! TIDEGATE_MEASURE_LIVE the page is held to the figures, and the figures to what they have to keep:
//! every run did what its file expects, and no acked message was missing.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "live_figures/cells.rs"]
mod cells;
#[path = "live_figures/chart.rs"]
mod chart;
mod common;
#[path = "live_figures/measure.rs"]
mod measure;
#[path = "live_figures/page.rs"]
mod page;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

const FIGURES: &str = "results/live-figures.json";
const PAGE: &str = "docs/live-figures.md";
/// Draws a chart.
type Chart = fn(&Figures) -> String;
const CHARTS: [(&str, Chart); 2] = [
    ("docs/images/live-throughput.svg", chart::throughput),
    ("docs/images/live-api.svg", chart::api),
];

/// Everything that was measured.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    format: u32,
    tool_version: String,
    /// Day of the measurement.
    measured: String,
    /// The first line of the notes of a run: which server.
    server: String,
    processors: usize,
    cells: Vec<CellFigures>,
}

/// One cell of a table.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellFigures {
    table: String,
    row: String,
    column: String,
    /// What was run.
    command: String,
    runs: Vec<RunFigures>,
}

/// What is kept of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunFigures {
    expected: bool,
    /// Of messages with an ack; of all that were published where nobody acks.
    messages_per_second: f64,
    ack_p50_ns: u64,
    ack_p99_ns: u64,
    ack_max_ns: u64,
    published: u64,
    stored: Option<u64>,
    lost: Option<u64>,
    gaps: u64,
    longest_wait_ns: u64,
    /// From the first moment without a leader to the next leader.
    leaderless_ns: Option<u64>,
    /// Batches by how they ended.
    endings: BTreeMap<String, u64>,
    /// Of a core, taken by the publishing thread.
    generator_share: f64,
    violations: usize,
    /// Middle, ninety percent and longest, by operation.
    api_ns: BTreeMap<String, [u64; 3]>,
}

fn figures() -> Figures {
    let path = common::tree::top().join(FIGURES);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_page_says_what_was_measured() {
    if std::env::var_os("TIDEGATE_MEASURE_LIVE").is_some() {
        measure::all();
    }
    let figures = figures();
    let mut wanted = vec![(PAGE, page::of(&figures))];
    wanted.extend(CHARTS.map(|(path, chart)| (path, chart(&figures))));
    for (name, wanted) in wanted {
        let path = common::tree::top().join(name);
        if std::env::var_os("TIDEGATE_WRITE_TABLES").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap() == wanted,
            "{name} is not what {FIGURES} gives; TIDEGATE_WRITE_TABLES=1 cargo test --test live_figures writes it"
        );
    }
}

/// The cells of the tables are those that would be measured, each from a file that is there.
#[test]
fn every_cell_was_measured_as_it_would_be_today() {
    let measured = figures();
    let cells = cells::all();
    assert_eq!(measured.cells.len(), cells.len());
    for (cell, figures) in cells.iter().zip(&measured.cells) {
        assert_eq!(figures.command, cell.command());
        assert!(
            common::tree::top().join(cell.file).exists(),
            "{}",
            cell.file
        );
        assert!(!figures.runs.is_empty(), "{}", figures.command);
    }
}

#[test]
fn every_run_did_what_its_file_expects() {
    for cell in figures().cells {
        for run in &cell.runs {
            assert!(run.expected, "{}: {run:?}", cell.command);
            assert_eq!(run.violations, 0, "{}: {run:?}", cell.command);
        }
    }
}
