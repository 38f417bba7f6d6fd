//! Measures: runs every cell in turn, round by round, so that a machine that gets slower is unfair to
//! none.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use tidegate::report::RunResult;
use tidegate::scenario::ClientKind;

use super::cells::{API, Cell, FAULTS, all as cells};
use super::{CellFigures, FIGURES, Figures, RunFigures, common};

/// Rounds of everything but calls of the API and faults.
const ROUNDS: usize = 3;
/// Repeats of each fault, unless TIDEGATE_REPEATS says otherwise. They take an hour; where
/// TIDEGATE_FAULT_RESULTS names a folder with `STEM-N/result.json` for each file `STEM.toml`, as many as
/// there are, those count instead.
const REPEATS: usize = 20;

pub(crate) fn all() {
    let repeats = std::env::var("TIDEGATE_REPEATS").ok();
    let repeats = repeats.map_or(REPEATS, |repeats| repeats.parse().unwrap());
    let cells = cells();
    let done = std::env::var_os("TIDEGATE_FAULT_RESULTS");
    let known = |cell: &Cell| match &done {
        Some(folder) if cell.table == FAULTS => results_in(Path::new(folder), cell.file),
        _ => Vec::new(),
    };
    let mut runs: Vec<Vec<RunFigures>> = cells.iter().map(known).collect();
    let repeats = if done.is_some() { 0 } else { repeats };
    let mut server = String::new();
    for round in 0..ROUNDS.max(repeats) {
        for (cell, runs) in cells.iter().zip(&mut runs) {
            let wanted = match cell.table {
                FAULTS => repeats,
                // Sixty calls each are in one run.
                API => 1,
                _ => ROUNDS,
            };
            if round < wanted {
                eprintln!("round {round}: {}", cell.command());
                let result = run(cell);
                server = result.notes.first().cloned().unwrap_or_default();
                runs.push(figures(&result));
            }
        }
    }
    let figures = Figures {
        format: 1,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        measured: day(),
        // "nats-server 2.15.1 at …"
        server: server.split(" at ").next().unwrap_or_default().to_owned(),
        processors: std::thread::available_parallelism().unwrap().get(),
        cells: cells
            .iter()
            .zip(runs)
            .map(|(cell, runs)| CellFigures {
                table: cell.table.to_owned(),
                row: cell.row.clone(),
                column: cell.column.clone(),
                command: cell.command(),
                runs,
            })
            .collect(),
    };
    let mut text = serde_json::to_string_pretty(&figures).unwrap();
    text.push('\n');
    std::fs::write(common::tree::top().join(FIGURES), text).unwrap();
}

fn run(cell: &Cell) -> RunResult {
    let command = cell.command();
    let arguments = command.split(' ').skip(1);
    let out = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .args(["--out", out.path().to_str().unwrap()])
        .current_dir(common::tree::top())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(matches!(status.code(), Some(0 | 1)), "{command}: {status}");
    read(&out.path().join("result.json"))
}

/// What was measured of a file before.
fn results_in(folder: &Path, file: &str) -> Vec<RunFigures> {
    let stem = Path::new(file).file_stem().unwrap().to_str().unwrap();
    let number = |name: &str| {
        name.strip_prefix(stem)?
            .strip_prefix('-')?
            .parse::<u32>()
            .ok()
    };
    let mut found: Vec<(u32, RunFigures)> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.unwrap();
            let number = number(entry.file_name().to_str()?)?;
            let result = entry.path().join("result.json");
            result.exists().then(|| {
                let result = read(&result);
                assert_eq!(
                    result.tool_version,
                    env!("CARGO_PKG_VERSION"),
                    "{stem}-{number}"
                );
                assert!(
                    result.file.ends_with(file),
                    "{stem}-{number} is of {}",
                    result.file
                );
                (number, figures(&result))
            })
        })
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, figures)| figures).collect()
}

fn read(path: &Path) -> RunResult {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn figures(result: &RunResult) -> RunFigures {
    let mut endings = BTreeMap::new();
    for ending in &result.totals.batches.endings {
        let outcome = serde_json::to_value(ending.outcome).unwrap();
        *endings
            .entry(outcome.as_str().unwrap().to_owned())
            .or_default() += ending.batches;
    }
    let changes = &result.leader_changes;
    let gone = changes.iter().find(|change| change.leader.is_none());
    let back = changes.iter().find(|change| {
        change.leader.is_some() && gone.is_none_or(|gone| change.at_ns >= gone.at_ns)
    });
    let latency = &result.ack_latency_ns;
    let api = result.api_latency_ns.iter();
    RunFigures {
        expected: result.expected,
        messages_per_second: match result.config.publishers[0].client {
            // Nobody acks these.
            ClientKind::Publish => result.throughput.published_per_second,
            _ => result.throughput.messages_per_second,
        },
        ack_p50_ns: latency.p50,
        ack_p99_ns: latency.p99,
        ack_max_ns: latency.max,
        published: result.totals.published,
        stored: result.totals.stored,
        lost: result.totals.lost,
        gaps: result.totals.gaps,
        longest_wait_ns: result.stall_time_ns.waits.max,
        leaderless_ns: gone.zip(back).map(|(gone, back)| back.at_ns - gone.at_ns),
        endings,
        generator_share: result.generator.as_ref().map_or(0.0, |it| it.core_share),
        violations: result.violations.len(),
        api_ns: api
            .map(|(operation, latency)| {
                (operation.clone(), [latency.p50, latency.p90, latency.max])
            })
            .collect(),
    }
}

/// Today, as `date` says.
fn day() -> String {
    let said = Command::new("date").args(["-u", "+%F"]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}
