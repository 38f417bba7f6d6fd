//! Speed and memory of the event lane, with everyone watching: trace hash, judges, recorder.
//!
//! Prints a figure beside each target. Cases are interleaved over several rounds, and the best
//! round counts: other work on the machine only ever makes a round slower. Leans on the library.
//! `-- --quick` runs fewer messages, `-- --only R3` the cases whose name begins so.

use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use tidegate::scenario::{Lane, Scenario};
use tidegate::seed::Seed;
use tidegate::sim::{Outside, run};

const ROUNDS: usize = 5;

struct Case {
    name: &'static str,
    file: String,
    target: f64,
    unit: Unit,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    MessagesPerSecond,
    Milliseconds,
}

fn publishers(count: u32, messages: u32) -> String {
    format!(
        "format = 1\nabout = \"benchmark\"\ntime_limit = \"1h\"\n\
         [server]\nmessage_cost = \"400ns\"\nkibibyte_cost = \"100ns\"\n\
         [disk]\nwrite_latency = \"100ns\"\nbytes_per_second = \"10GB\"\n\
         [network]\nlatency = \"250us\"\n\
         [[publishers]]\ncount = {count}\nflow = 100\nmessages = {messages}\npayload = \"1KiB\"\n"
    )
}

/// The same on three servers.
fn replicated(count: u32, messages: u32) -> String {
    let raft = "[raft]\napply_cost = \"300ns\"\n";
    let file =
        publishers(count, messages).replace("[[publishers]]", &format!("{raft}[[publishers]]"));
    file.replace("[server]", "[stream]\nreplicas = 3\n[server]")
}

/// Publishers that send one message and then rest for ten seconds.
fn idle(count: u32) -> String {
    format!(
        "format = 1\nabout = \"benchmark\"\ntime_limit = \"10s\"\n\
         [[publishers]]\ncount = {count}\nflow = 100\nmessages = 2\nidle_ping = \"4s\"\n\
         pauses = [{{ after = 1, for = \"20s\" }}]\n"
    )
}

/// What follows this word in the command line.
fn argument_after(word: &str) -> Option<String> {
    std::env::args().skip_while(|it| it != word).nth(1)
}

/// Messages published and the wall time, in seconds.
fn measure(file: &str) -> (u64, f64) {
    let scenario = Scenario::parse("bench.toml", file).expect("the benchmark's own file is valid");
    let stop = AtomicBool::new(false);
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: None,
    };
    #[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
    let started = Instant::now();
    let outcome = run(&scenario.settings, Seed(1), Lane::Event, outside)
        .expect("the benchmark's own file runs");
    let seconds = started.elapsed().as_secs_f64();
    assert!(
        outcome.seen.findings.violations.is_empty(),
        "{:?}",
        outcome.seen.findings.violations.first()
    );
    (outcome.seen.summary.totals.published, seconds)
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    if let Some(file) = argument_after("--memory") {
        peak(&file);
        return;
    }
    let scale = if quick { 10 } else { 1 };
    let mut cases = vec![
        Case {
            name: "10 publishers, flow 100",
            file: publishers(10, 300_000 / scale),
            target: 4e6,
            unit: Unit::MessagesPerSecond,
        },
        Case {
            name: "900 publishers, flow 1",
            file: publishers(900, 2_000 / scale),
            target: 2e6,
            unit: Unit::MessagesPerSecond,
        },
        Case {
            name: "R3, 100 publishers",
            file: replicated(100, 20_000 / scale),
            target: 2.5e6,
            unit: Unit::MessagesPerSecond,
        },
        Case {
            name: "R3, 900 publishers, flow 1",
            file: replicated(900, 2_000 / scale),
            target: 1.2e6,
            unit: Unit::MessagesPerSecond,
        },
        Case {
            name: "900 idle publishers, 10 s",
            file: idle(900),
            target: 3.0,
            unit: Unit::Milliseconds,
        },
    ];
    let only = argument_after("--only");
    cases.retain(|case| only.as_ref().is_none_or(|part| case.name.starts_with(part)));
    let mut best = vec![f64::INFINITY; cases.len()];
    let mut published = vec![0; cases.len()];
    for _ in 0..ROUNDS {
        for (index, case) in cases.iter().enumerate() {
            let (messages, seconds) = measure(&case.file);
            best[index] = best[index].min(seconds);
            published[index] = messages;
        }
    }
    println!(
        "{:<32} {:>12} {:>12} {:>8}",
        "event lane, 1 KiB", "measured", "target", "ratio"
    );
    for (index, case) in cases.iter().enumerate() {
        let (figure, ratio) = match case.unit {
            Unit::MessagesPerSecond => {
                let rate = published[index] as f64 / best[index];
                (format!("{:.2} M/s", rate / 1e6), rate / case.target)
            }
            Unit::Milliseconds => (
                format!("{:.2} ms", best[index] * 1e3),
                case.target / (best[index] * 1e3),
            ),
        };
        let target = match case.unit {
            Unit::MessagesPerSecond => format!(">= {:.1} M/s", case.target / 1e6),
            Unit::Milliseconds => format!("< {:.0} ms", case.target),
        };
        println!("{:<32} {figure:>12} {target:>12} {ratio:>7.2}x", case.name);
    }
    if only.is_some() {
        return;
    }
    let ratio = best[1] / published[1] as f64 / (best[0] / published[0] as f64);
    println!("a message of 900 publishers costs {ratio:.2}x one of 10 (same run)");
    let messages = 11_112 / scale;
    memory("memory, 900", &publishers(900, messages), 250.0);
    // 24 bytes for each message, all replicas together.
    memory("memory, R3, 900", &replicated(900, messages), 229.0);
}

/// Peak memory of a process that does this run and nothing else.
fn memory(name: &str, file: &str, target_mib: f64) {
    let own = std::env::current_exe().expect("this program has a path");
    let out = Command::new(own)
        .args(["--memory", file])
        .output()
        .expect("this program starts again");
    let text = String::from_utf8_lossy(&out.stdout);
    let figures: Vec<f64> = text
        .split_whitespace()
        .filter_map(|figure| figure.parse().ok())
        .collect();
    let [messages, mib] = figures[..] else {
        panic!("a run for memory prints two figures, not {text:?}");
    };
    let (figure, ratio) = (format!("{mib:.0} MiB"), target_mib / mib);
    let (name, target) = (
        format!("{name} x {:.1} M stored", messages / 1e6),
        format!("< {target_mib:.0} MiB"),
    );
    println!("{name:<32} {figure:>12} {target:>12} {ratio:>7.2}x");
}

/// Prints how many messages a run published, and the peak memory of this process in MiB.
fn peak(file: &str) {
    let (messages, _) = measure(file);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| {
            rest.trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<f64>()
                .ok()
        });
    let mib = peak.expect("the system tells the peak memory of a process") / 1_024.0;
    println!("{messages} {mib}");
}
