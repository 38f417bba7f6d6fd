//! Every scenario of the project gives what its file expects, at several seeds.

mod common;

use tidegate::report::{Cost, RunRecord, RunResult, World};
use tidegate::scenario::Scenario;

#[test]
fn every_scenario_gives_what_its_file_expects() {
    let files = common::files("sims/nats");
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        let scenario = Scenario::read(&file).unwrap();
        for seed in 1..=3 {
            let outcome = common::run_scenario(&scenario, seed);
            let result = RunResult::new(RunRecord {
                world: World::Sim,
                file: file.clone(),
                seed,
                trace_hash: outcome.seen.trace_hash,
                partial: outcome.partial,
                unfinished: outcome.unfinished,
                summary: outcome.seen.summary,
                violations: outcome
                    .seen
                    .findings
                    .violations
                    .into_iter()
                    .map(Into::into)
                    .collect(),
                stalls: outcome
                    .seen
                    .findings
                    .stalls
                    .into_iter()
                    .map(Into::into)
                    .collect(),
                leader_changes: Vec::new(),
                cost: Cost::default(),
                settings: scenario.settings.clone(),
                notes: Vec::new(),
                replay: String::new(),
            });
            assert!(
                result.expected,
                "{file} seed {seed}: {:?} {:?}",
                result.unmet, result.stalls
            );
        }
    }
}
