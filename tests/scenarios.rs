//! Every scenario of the project gives what its file expects, at several seeds and in every lane that
//! its clients run in.

mod common;

use tidegate::scenario::{ClientKind, Defect, Expect, Lane, Scenario, Substrate};

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

/// The bug that a scenario shows, and what it gives without it: from the comments `bug:` and `repaired:`.
fn without_its_bug(text: &str, scenario: &Scenario) -> Option<Scenario> {
    let comment = |mark: &str| text.lines().find_map(|line| line.strip_prefix(mark));
    let word: Defect = serde_json::from_value(comment("# bug: ")?.into()).expect("a word");
    let expect = comment("# repaired: ").expect("what it gives without the bug");
    let mut scenario = scenario.clone();
    let server = scenario.settings.server.get_or_insert_default();
    if server.defects.contains(&word) {
        server.defects.retain(|own| *own != word);
    } else {
        assert!(word.is_in(server.version.into()), "{word:?}");
        server.repaired.push(word);
    }
    let given: Given = toml::from_str(&format!("expect = {expect}")).expect("expectations");
    scenario.settings.expect = given.expect;
    Some(scenario)
}

#[derive(serde::Deserialize)]
struct Given {
    expect: Expect,
}

#[test]
fn a_server_without_the_bug_that_a_scenario_shows_gives_something_else() {
    let mut shown = 0;
    for file in common::files("sims/nats") {
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario = Scenario::read(&file).unwrap();
        let Some(repaired) = without_its_bug(&text, &scenario) else {
            continue;
        };
        shown += 1;
        for lane in lanes(&scenario) {
            let run = |expect: &Scenario| {
                let outcome = common::run_in(&repaired, 1, lane, None);
                common::result(expect, 1, outcome)
            };
            let result = run(&repaired);
            let (unmet, totals) = (&result.unmet, &result.totals);
            assert!(result.expected, "{file} in {lane:?}: {unmet:?} {totals:?}");
            assert!(
                !run(&scenario).expected,
                "{file} in {lane:?}: no difference"
            );
        }
    }
    assert!(shown > 10, "{shown}");
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
