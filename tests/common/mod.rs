//! What several tests share: running a file of the simulator from its text.

#![allow(dead_code, reason = "each test uses its part")]

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
    run_world(&scenario.settings, Seed(seed), outside).unwrap_or_else(|error| panic!("{error}"))
}

/// The files of a folder of the project, in order.
pub(crate) fn files(folder: &str) -> Vec<String> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&root)
        .unwrap_or_else(|error| panic!("{}: {error}", root.display()))
        .map(|entry| entry.expect("an entry of the folder").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    files.sort();
    files
}
