//! Random operations on the model and on a real nats-server: both answer alike, frame by frame.
//!
//! Leans on `conform::random`. `TIDEGATE_RANDOM_OPERATIONS`, `TIDEGATE_RANDOM_CLUSTER_OPERATIONS` and
//! `TIDEGATE_RANDOM_SEED` ask for more, or for others; `make soak` does. That a difference is found, and shrunk, is shown by defects of the
//! model.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write as _;

use tidegate::conform::random::{Random, Tally, explore};
use tidegate::conform::{Against, Interrupt, Options, Pace, local, parse, run};
use tidegate::nats::version::ServerVersion;
use tidegate::server::{ServerDefect, ServerModel};

/// Operations without an environment that asks for more.
const OPERATIONS: u64 = 10_000;
const CLUSTER_OPERATIONS: u64 = 2_000;

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn random(replicas: u64, operations: u64) -> Random {
    Random {
        seed: from_environment("TIDEGATE_RANDOM_SEED", 1),
        operations,
        replicas,
        model: ServerModel::default(),
    }
}

fn options(against: Against) -> Options {
    Options {
        against,
        server_version: None,
        may_fetch: false,
        notice: |_| {},
        recording: false,
        pace: Pace::Fenced,
        interrupt: Interrupt::default(),
    }
}

fn told(tally: &Tally) -> String {
    let found = tally.found.iter().map(|found| {
        format!(
            "{} ({} operations{}): the model {:#}\nthe server {:#}\nas a file of recordings:\n{:#}\n",
            found.name,
            found.operations,
            if found.unsteady { ", unsteady" } else { "" },
            found.difference.expected,
            found.difference.got,
            found.recording
        )
    });
    found.collect()
}

/// Whether there is a server to hold the model against; said on the terminal, past the test harness,
/// if there is none.
fn is_there(test: &str) -> bool {
    let version = ServerVersion::default().to_string();
    match local::find(Some(&version), false, &mut |_| {}) {
        Ok(_) => true,
        Err(why) if std::env::var_os("NATS_SERVER").is_some() => panic!("{why}"),
        Err(why) => {
            let text = format!("SKIPPED {test}: {why}\n");
            std::io::stderr().write_all(text.as_bytes()).unwrap();
            false
        }
    }
}

fn agree(replicas: u64, operations: u64) {
    let random = random(replicas, operations);
    let (tally, result) = explore(&random, &options(Against::Local), &mut |_| {});
    assert!(tally.found.is_empty(), "{}", told(&tally));
    result.unwrap();
    assert_eq!(tally.skipped, []);
    assert!(tally.operations >= operations);
}

#[test]
fn model_and_server_answer_alike() {
    if is_there("model_and_server_answer_alike") {
        agree(
            1,
            from_environment("TIDEGATE_RANDOM_OPERATIONS", OPERATIONS),
        );
    }
}

#[test]
fn model_and_cluster_answer_alike() {
    if is_there("model_and_cluster_answer_alike") {
        let name = "TIDEGATE_RANDOM_CLUSTER_OPERATIONS";
        agree(3, from_environment(name, CLUSTER_OPERATIONS));
    }
}

/// Each defect is found, and the case that shows it is small and replays.
#[test]
fn a_defect_is_found_and_shrunk() {
    for (defect, most) in [
        (ServerDefect::GapLastSeqOffByOne, 2),
        (ServerDefect::BackwardSilent, 3),
        (ServerDefect::FlowInitOffByOne, 2),
        (ServerDefect::PubAckCountsOneMore, 2),
        (ServerDefect::AtomicEobMaxSize, 6),
        (ServerDefect::UnsupportedAdvisoryMissing, 2),
    ] {
        let mut random = random(1, 2_000);
        random.seed = 1;
        random.model.defects.insert(defect);
        let (tally, result) = explore(&random, &options(Against::Model), &mut |_| {});
        result.unwrap();
        let smallest = tally.found.iter().min_by_key(|found| found.operations);
        let smallest = smallest.unwrap_or_else(|| panic!("{defect:?} is not found"));
        assert!(smallest.operations <= most, "{defect:?}: {}", told(&tally));
        let file = parse("found.json", &smallest.recording.to_string()).unwrap();
        let (summary, result) = run(&[file], &options(Against::Model), &mut |_, _| {});
        result.unwrap();
        assert_eq!((summary.passed, summary.failed.len()), (1, 0), "{summary}");
    }
}
