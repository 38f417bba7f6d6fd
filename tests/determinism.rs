//! Same file, same seed, same run: in threads of one process and in two processes.

mod common;

use std::process::Command;

use tidegate::scenario::Scenario;

/// Jitter, Poisson arrivals, drawn sizes, several groups, faults: everything that draws.
const BUSY: &str = r#"
format = 1
about = "Everything that draws."
[network]
latency = "200us"
jitter = "150us"
[[publishers]]
name = "steady"
count = 7
flow = 20
messages = 300
payload = { min = "16B", max = "2KiB" }
stagger = "1ms"
[[publishers]]
name = "random"
count = 5
gap = "ok"
arrival = "poisson"
rate_per_second = 5000
messages = 200
batches = 3
message_ids = true
[[faults]]
action = "drop"
place = "route"
frame = "message"
publisher = 8
nth = 50
[[faults]]
action = "delay"
frame = "flow-ack"
nth = 3
delay = "5ms"
[[faults]]
action = "hold"
publisher = 2
from = "2ms"
until = "4ms"
"#;

/// Trace hash of [`BUSY`] at seed 7: the same on every machine. It changes only with the encoding
/// of events or with the model.
const BUSY_AT_SEED_7: u64 = 0x819a_30e4_84fd_450a;

fn hash(text: &str, seed: u64) -> u64 {
    common::run(text, seed)
        .seen
        .trace_hash
        .expect("a simulated run has a hash")
}

#[test]
fn equal_in_parallel_threads_and_different_for_another_seed() {
    let threads: Vec<_> = (0..4)
        .map(|_| std::thread::spawn(|| hash(BUSY, 7)))
        .collect();
    let hashes: Vec<_> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .collect();
    assert!(
        hashes.iter().all(|other| *other == hashes[0]),
        "{hashes:x?}"
    );
    assert_ne!(hash(BUSY, 8), hashes[0]);
}

#[test]
fn equal_on_every_machine() {
    let found = hash(BUSY, 7);
    assert_eq!(
        found, BUSY_AT_SEED_7,
        "{found:#018x}: has the encoding or the model changed?"
    );
}

#[test]
fn equal_in_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("busy.toml");
    std::fs::write(&file, BUSY).unwrap();
    let trace_hash = |out: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["sim", "--seed", "7", "--json", "--out"])
            .arg(folder.path().join(out))
            .arg(&file)
            .output()
            .unwrap();
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        result["trace_hash"].as_str().unwrap().to_owned()
    };
    let first = trace_hash("a");
    assert_eq!(first, trace_hash("b"));
    assert_eq!(
        first,
        format!("{:016x}", hash(BUSY, 7)),
        "the library agrees with the binary"
    );
}

#[test]
fn every_file_of_the_project_is_deterministic() {
    for file in common::files("sims/nats") {
        let scenario = Scenario::read(&file).unwrap();
        let runs: Vec<_> = (0..2)
            .map(|_| common::run_scenario(&scenario, 1).seen.trace_hash)
            .collect();
        assert_eq!(runs[0], runs[1], "{file}");
    }
}

#[test]
fn the_check_says_so_for_any_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/sims/nats/lost-flow-ack.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args([
            "sim",
            file,
            "--check-determinism",
            "--set",
            "network.jitter=20us",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("equal in two threads and two processes"),
        "{text}"
    );
}
