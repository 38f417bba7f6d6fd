//! Every scenario of the project gives what its file expects, at several seeds, in the lane that its
//! clients need.

mod common;

use tidegate::scenario::Scenario;

#[test]
fn every_scenario_gives_what_its_file_expects() {
    let files = common::files("sims/nats");
    assert!(files.len() >= 9, "{files:?}");
    for file in files {
        let scenario = Scenario::read(&file).unwrap();
        for seed in 1..=3 {
            let outcome = common::run_scenario(&scenario, seed);
            let result = common::result(&scenario, seed, outcome);
            assert!(
                result.expected,
                "{file} seed {seed}: {:?} {:?}",
                result.unmet, result.stalls
            );
        }
    }
}
