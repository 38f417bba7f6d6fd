//! What several tests share: running a file of the simulator from its text, and the files of the
//! project.

#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod tree;

use std::sync::atomic::AtomicBool;

use tidegate::scenario::Scenario;
use tidegate::seed::Seed;
use tidegate::sim::{Outside, SimOutcome, run as run_world};

/// Runs `text` at `seed`.
pub(crate) fn run(text: &str, seed: u64) -> SimOutcome {
    let scenario = Scenario::parse("test.toml", text).unwrap_or_else(|error| panic!("{error}"));
    run_scenario(&scenario, seed)
}

/// Runs a parsed file at `seed`.
pub(crate) fn run_scenario(scenario: &Scenario, seed: u64) -> SimOutcome {
    let stop = AtomicBool::new(false);
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: None,
    };
    run_world(
        &scenario.settings,
        Seed(seed),
        scenario.settings.lane(),
        outside,
    )
    .unwrap_or_else(|error| panic!("{error}"))
}

/// The scenario or workload files of a folder of the project, in order, with their whole paths.
pub(crate) fn files(folder: &str) -> Vec<String> {
    let whole = |name: &String| tree::top().join(name).to_string_lossy().into_owned();
    tree::files(folder, "toml").iter().map(whole).collect()
}
