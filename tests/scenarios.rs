//! Every scenario of the project gives what its file expects, at several seeds and in every lane that
//! its clients run in.

mod common;

use tidegate::scenario::{ClientKind, Lane, Scenario, Substrate};

/// The lanes that run a scenario: our own client in both, others in the wire lane.
fn lanes(scenario: &Scenario) -> Vec<Lane> {
    let lanes = [Lane::Event, Lane::Wire(Substrate::Event)];
    let runs = |lane: &Lane| scenario.check_simulatable(*lane).is_ok();
    lanes.into_iter().filter(runs).collect()
}

#[test]
fn every_scenario_gives_what_its_file_expects() {
    let files = common::files("sims/nats");
    assert!(files.len() >= 22, "{files:?}");
    for file in files {
        let scenario = Scenario::read(&file).unwrap();
        let lanes = lanes(&scenario);
        let groups = &scenario.settings.publishers;
        let of_others = groups.iter().any(|group| group.client != ClientKind::Core);
        assert_eq!(lanes.len(), if of_others { 1 } else { 2 }, "{file}");
        for lane in lanes {
            for seed in 1..=3 {
                let outcome = common::run_in(&scenario, seed, lane, None);
                let result = common::result(&scenario, seed, outcome);
                assert!(
                    result.expected,
                    "{file} seed {seed} in {lane:?}: {:?} {:?}",
                    result.unmet, result.stalls
                );
            }
        }
    }
}

/// What would have let each stalled publisher go on.
#[test]
fn stalls_of_the_rust_client_say_what_would_release_them() {
    let refused = "one more message that the server accepts: refused ones up to 14 moved no ack";
    for (name, release) in [
        (
            "rust-window-of-one",
            "message 10 (the last flow ack is for 0",
        ),
        ("rust-reject-the-window", refused),
        ("rust-lost-first-ack", "a ping: the first flow ack is lost"),
        (
            "rust-commit-without-ack",
            "none: the PubAck was sent once, and is lost",
        ),
    ] {
        let file = common::tree::top().join(format!("sims/nats/{name}.toml"));
        let scenario = Scenario::read(file.to_str().unwrap()).unwrap();
        let stalls = common::run_scenario(&scenario, 1).seen.findings.stalls;
        let found = stalls.first().map_or("no stall", |stall| &stall.release);
        assert!(found.starts_with(release), "{name}: {found}");
    }
}
