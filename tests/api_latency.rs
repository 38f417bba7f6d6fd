//! What requests of the API take in the modelled server, idle and under load.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

use std::sync::atomic::AtomicBool;

use tidegate::measure::Summary;
use tidegate::scenario::{Lane, Scenario};
use tidegate::seed::Seed;
use tidegate::sim::{Outside, run};

/// Three servers whose disks take a millisecond for each write, and requests of both kinds: those that
/// go through the proposals of the stream, and those that do not.
const PROBED: &str = r#"
format = 1
about = "test"

[stream]
replicas = 3

[disk]
write_latency = "1ms"

[[probes]]
operation = "info"
every = "20ms"
start = "300ms"

[[probes]]
operation = "message-delete"
every = "20ms"
start = "305ms"

[[probes]]
operation = "purge"
every = "20ms"
start = "310ms"

[[probes]]
operation = "publish"
every = "20ms"
start = "315ms"
"#;

fn play(scenario: &Scenario) -> Summary {
    let stop = AtomicBool::new(false);
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: None,
    };
    let seed = Seed(scenario.settings.seed);
    run(&scenario.settings, seed, Lane::Event, outside)
        .unwrap()
        .seen
        .summary
}

fn under(load: &str) -> Summary {
    play(&Scenario::parse("test.toml", &format!("{PROBED}{load}")).unwrap())
}

#[test]
fn what_goes_through_the_proposals_waits_behind_publishers_and_the_rest_does_not() {
    let idle = under(
        "[[publishers]]\nmessages = 10\narrival = \"constant\"\nrate_per_second = 10\npayload = \"64B\"",
    );
    let loaded = under(
        "[[publishers]]\ncount = 8\nflow = 500\nmessages = 40_000\npayload = \"64KiB\"\nstop = \"1s\"",
    );
    let median = |summary: &Summary, operation: &str| summary.api_latency_ns[operation].p50;
    for operation in ["message-delete", "purge", "publish"] {
        let (idle, loaded) = (median(&idle, operation), median(&loaded, operation));
        assert!(
            loaded > 2 * idle,
            "{operation}: {idle} idle, {loaded} loaded"
        );
    }
    let (idle_info, loaded_info) = (median(&idle, "info"), median(&loaded, "info"));
    assert!(
        loaded_info < 2 * idle_info,
        "{idle_info} idle, {loaded_info} loaded"
    );
    for (operation, calls) in idle.api_calls.iter().chain(&loaded.api_calls) {
        assert_eq!(calls.asked, calls.answered, "{operation}: {calls:?}");
    }
    assert_eq!(
        loaded.totals.lost,
        Some(0),
        "no message of a publisher is touched"
    );
}

#[test]
fn a_proposal_that_its_leader_loses_is_answered_by_nobody() {
    let summary = play(&Scenario::read("sims/nats/api-unanswered.toml").unwrap());
    let purges = &summary.api_calls["purge"];
    assert!(purges.unanswered > 0, "{purges:?}");
    assert!(purges.refused[&10_008] > 0, "{purges:?}");
    let sum = purges.answered + purges.refused[&10_008] + purges.unanswered;
    assert_eq!(sum, purges.asked);
}
