//! Random clusters with random faults of their servers, routes and disks: no judge objects, RAFT's
//! included, because neither server nor publisher does anything wrong.
//!
//! `TIDEGATE_CLUSTER_SEEDS` says how many worlds; 250 without.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fmt::Write as _;

use rand::RngExt;
use rand::seq::IndexedRandom;
use tidegate::seed::{Generator, Seed};

fn pick(draw: &mut Generator, words: &[&'static str]) -> &'static str {
    words.choose(draw).unwrap()
}

/// A file with a few publishers on three or five servers.
fn world(seed: u64) -> String {
    let draw = &mut Seed(seed).generator("cluster", 0);
    let replicas: u8 = if draw.random_ratio(1, 4) { 5 } else { 3 };
    let sync = pick(draw, &["never", "always"]);
    let mut text = format!(
        "format = 1\nabout = \"A random cluster.\"\ntime_limit = \"120s\"\n\
         [stream]\nreplicas = {replicas}\nstorage = \"file\"\n\
         [disk]\nsync = \"{sync}\"\n\
         [raft]\nelection_timeout_min = \"{}\"\nelection_timeout_max = \"900ms\"\nlost_quorum = \"{}\"\nheartbeat = \"50ms\"\noverrun = {}\nsnapshot_entries = {}\n\
         [network]\nroute_latency = \"{}\"\nreconnect = \"{}\"\n\
         [[publishers]]\ncount = {}\nflow = {}\noutstanding_acks = {}\ngap = \"{}\"\n\
         ack_timeout = \"{}\"\nmessages = {}\nbatches = {}\ncommit = \"{}\"\n\
         arrival = \"constant\"\nrate_per_second = {}\n",
        pick(draw, &["200ms", "400ms"]),
        pick(draw, &["300ms", "1s"]),
        pick(draw, &["20", "100000"]),
        pick(draw, &["8", "65536"]),
        pick(draw, &["20us", "200us", "5ms"]),
        pick(draw, &["0s", "10ms", "300ms"]),
        draw.random_range(1..=4),
        pick(draw, &["1", "3", "10", "100"]),
        draw.random_range(1..=3),
        pick(draw, &["ok", "fail"]),
        pick(draw, &["300ms", "2s", "10s"]),
        draw.random_range(50..=400),
        draw.random_range(1..=4),
        pick(draw, &["eob", "eob", "message", "none"]),
        pick(draw, &["200", "1000", "5000"]),
    );
    for _ in 0..draw.random_range(1..=5) {
        fault(&mut text, replicas, draw);
    }
    if draw.random_ratio(1, 5) {
        power_of_all(&mut text, replicas, draw);
    }
    if text.contains("power-loss") {
        // What the model leaves out: a group that has less than the snapshot of a replica.
        text = text.replace("snapshot_entries = 8\n", "snapshot_entries = 65536\n");
    }
    text
}

/// The power of the house goes: all servers lose it at once, and get it back one by one.
fn power_of_all(text: &mut String, replicas: u8, draw: &mut Generator) {
    let from: u32 = draw.random_range(0..=800);
    for server in 0..replicas {
        let until = from + draw.random_range(1..=500);
        writeln!(
            text,
            "[[faults]]\naction = \"power-loss\"\nserver = {server}\nfrom = \"{from}ms\"\nuntil = \"{until}ms\""
        )
        .unwrap();
    }
}

fn fault(text: &mut String, replicas: u8, draw: &mut Generator) {
    let action = pick(
        draw,
        &[
            "step-down",
            "kill",
            "kill",
            "restart",
            "rolling-restart",
            "power-loss",
            "freeze",
            "cut-routes",
            "cut-routes",
            "hold-routes",
            "slow-routes",
            "limit-routes",
            "slow-disk",
            "hold-disk",
            "cut",
        ],
    );
    let from: u32 = draw.random_range(0..=800);
    let until = from + draw.random_range(1..=1_500);
    writeln!(
        text,
        "[[faults]]\naction = \"{action}\"\nfrom = \"{from}ms\""
    )
    .unwrap();
    if action == "step-down" {
        return;
    }
    if action == "rolling-restart" {
        writeln!(text, "down_for = \"{}ms\"", until - from).unwrap();
        return;
    }
    writeln!(text, "until = \"{until}ms\"").unwrap();
    if action == "cut" {
        return;
    }
    let server = draw.random_range(0..replicas);
    match draw.random_range(0..3) {
        0 => writeln!(text, "server = {server}").unwrap(),
        1 => writeln!(text, "role = \"follower\"").unwrap(),
        _ => {}
    }
    if action.ends_with("-routes") {
        writeln!(text, "way = \"{}\"", pick(draw, &["both", "in", "out"])).unwrap();
        if draw.random_ratio(1, 3) {
            let other = (server + draw.random_range(1..replicas)) % replicas;
            writeln!(text, "peer = {other}").unwrap();
        }
    }
    if action == "limit-routes" {
        let bandwidth = pick(draw, &["64kbit/s", "1Mbit/s", "20Mbit/s"]);
        writeln!(text, "bandwidth = \"{bandwidth}\"").unwrap();
    }
    if action.starts_with("slow-") {
        writeln!(
            text,
            "delay = \"{}\"",
            pick(draw, &["1ms", "20ms", "150ms"])
        )
        .unwrap();
    }
}

#[test]
fn no_judge_objects_to_a_cluster_whose_servers_fail() {
    let seeds = std::env::var("TIDEGATE_CLUSTER_SEEDS");
    let seeds: u64 = seeds.map_or(250, |seeds| seeds.parse().unwrap());
    let (mut changes, mut lost, mut rewound, mut excused) = (0, 0, 0, 0);
    for seed in 0..seeds {
        let text = world(seed);
        let seen = common::run(&text, seed).seen;
        let findings = seen.findings;
        if let Some(first) = findings.violations.first() {
            panic!("seed {seed}\n{text}\n{first:#?}");
        }
        let loses_power = text.contains("power-loss") && text.contains("sync = \"never\"");
        assert!(
            loses_power || findings.excused.is_empty(),
            "seed {seed}\n{text}\n{:#?}",
            findings.excused
        );
        let totals = seen.summary.totals;
        assert!(
            loses_power || totals.lost_to_power == 0,
            "seed {seed}\n{text}"
        );
        changes += seen.summary.leader_changes.len();
        lost += totals.lost.unwrap();
        rewound += totals.lost_to_power;
        excused += u64::from(!findings.excused.is_empty());
    }
    // The worlds are not tame.
    assert!(changes as u64 > seeds / 2, "{changes} leader changes");
    assert!(lost > 10 * seeds, "{lost} messages lost");
    assert!(rewound > 0, "no power failure lost anything");
    assert!(excused > 0, "no power failure broke a promise of RAFT");
}

/// The judges of RAFT see what happens in a world: `tests/raft` has a bug for each of them.
#[test]
fn bugs_of_raft_are_found_in_running_clusters() {
    let bugs = [
        ("leader-before-noop", "leads-after-its-first-entry", 10),
        ("no-overrun-stepdown", "overrun-leaders-step-down", 400),
    ];
    for (bug, judge, seeds) in bugs {
        let found = (0..seeds).any(|seed| {
            let text = format!("{}[server]\ndefects = [\"{bug}\"]\n", world(seed));
            let violations = common::run(&text, seed).seen.findings.violations;
            violations.iter().any(|violation| violation.judge == judge)
        });
        assert!(found, "{bug}: {judge} found nothing in {seeds} worlds");
    }
}
