//! What several tests share: running a file of the simulator from its text, and the files of the
//! project.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod frames;
pub(crate) mod known;
pub(crate) mod page;
pub(crate) mod tree;

use std::sync::atomic::AtomicBool;

use tidegate::event::Observer;
use tidegate::report::{Cost, RunLane, RunRecord, RunResult, World};
use tidegate::scenario::{Lane, Scenario};
use tidegate::seed::Seed;
use tidegate::sim::{Outside, SimOutcome, run as run_world};

/// Runs `text` at `seed`.
pub(crate) fn run(text: &str, seed: u64) -> SimOutcome {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    run_scenario(&scenario, seed)
}

/// Runs a parsed file at `seed`, in the lane that its clients need.
pub(crate) fn run_scenario(scenario: &Scenario, seed: u64) -> SimOutcome {
    run_in(scenario, seed, scenario.settings.lane(), None)
}

/// Runs a parsed file at `seed` in a lane, shown to one more observer.
pub(crate) fn run_in(
    scenario: &Scenario,
    seed: u64,
    lane: Lane,
    observer: Option<&mut (dyn Observer + Send)>,
) -> SimOutcome {
    let stop = AtomicBool::new(false);
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: observer.map(|observer| observer as _),
    };
    run_world(&scenario.settings, Seed(seed), lane, outside)
        .unwrap_or_else(|error| panic!("{}: {error}", scenario.file))
}

/// The result of a run, with its verdict.
pub(crate) fn result(scenario: &Scenario, seed: u64, outcome: SimOutcome) -> RunResult {
    let findings = outcome.seen.findings;
    RunResult::new(RunRecord {
        world: World::Sim,
        lane: Some(RunLane::Event),
        file: scenario.file.clone(),
        seed,
        trace_hash: outcome.seen.trace_hash,
        partial: outcome.partial,
        unfinished: outcome.unfinished,
        summary: outcome.seen.summary,
        violations: findings.violations.into_iter().map(Into::into).collect(),
        stalls: findings.stalls.into_iter().map(Into::into).collect(),
        cost: Cost::default(),
        generator: None,
        servers: Vec::new(),
        objections: Vec::new(),
        settings: scenario.settings.clone(),
        notes: Vec::new(),
        replay: String::new(),
    })
}

/// The scenario or workload files of a folder of the project, in order, with their whole paths.
pub(crate) fn files(folder: &str) -> Vec<String> {
    let whole = |name: &String| tree::top().join(name).to_string_lossy().into_owned();
    tree::files(folder, "toml").iter().map(whole).collect()
}
