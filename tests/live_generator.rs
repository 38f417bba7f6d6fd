//! An honest generator. Coordinated omission: while a server stands still, an open loop goes on wanting
//! messages sent, and the response time that is told holds every wait, as the schedule of the load says
//! it must. And a run tells what its generator had left.
//!
//! Takes the nats-server that `tidegate server fetch` finds, on 127.0.0.1.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tidegate::live::{Surroundings, find_server};

/// What is wanted of each flow: an ack for each message takes a round trip, and what the load owes after
/// the two seconds is to be made good on a busy machine, too.
const fn rate_per_second(flow: u64) -> u64 {
    if flow == 1 { 200 } else { 2_000 }
}

/// The server stands still from here to there: not within two milliseconds of an ack of any flow below,
/// but that of 1.
const FROZEN_NS: (u64, u64) = (1_027_250_000, 3_027_250_000);
const STOP_NS: u64 = 5_000_000_000;

/// A run at a constant rate with this flow, on a server of its own that is frozen for two seconds.
fn start(folder: &Path, flow: u16) -> Child {
    let file = format!("flow-{flow}.toml");
    let rate = rate_per_second(flow.into());
    let text = format!(
        "format = 1\nabout = \"Frozen.\"\n[[publishers]]\nflow = {flow}\noutstanding_acks = 2\n\
         messages = 1_000_000\nbatches = 0\npayload = \"64B\"\nstop = \"{STOP_NS}ns\"\n\
         arrival = \"constant\"\nrate_per_second = {rate}\nack_timeout = \"20s\"\n\
         [[faults]]\naction = \"freeze\"\nserver = 0\nfrom = \"{}ns\"\nuntil = \"{}ns\"\n",
        FROZEN_NS.0, FROZEN_NS.1
    );
    std::fs::write(folder.join(&file), text).unwrap();
    live(folder, &[&file])
}

fn live(folder: &Path, arguments: &[&str]) -> Child {
    let server = find_server(None, &Surroundings::of_process(), &mut |_| {}).unwrap();
    Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["live", "--local", "1", "--json"])
        .args(arguments)
        .current_dir(folder)
        .env("NATS_SERVER", server.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Response times of all messages in order of length, as the schedule gives them: message `k` is wanted
/// at `k / rate`, its ack comes with the message that completes its flow, or the end of the batch, and
/// nothing comes while the server stands still. Everything that takes no time here is far below the
/// two seconds.
fn of_schedule(flow: u64, frozen_at_ns: u64) -> Vec<u64> {
    let intended = |k: u64| k * 1_000_000_000 / rate_per_second(flow);
    let thaws_at_ns = FROZEN_NS.1;
    let mut times: Vec<u64> = (0..)
        .map(intended)
        .take_while(|intended| *intended < STOP_NS)
        .zip(0..)
        .map(|(wanted, k)| {
            let completes = (k / flow + 1) * flow - 1;
            let acked = intended(completes).min(STOP_NS);
            if (frozen_at_ns..thaws_at_ns).contains(&acked) {
                thaws_at_ns - wanted
            } else {
                acked - wanted
            }
        })
        .collect();
    times.sort_unstable();
    times
}

fn quantile(times: &[u64], part: f64) -> u64 {
    let rank = (times.len() as f64 * part).ceil() as usize;
    times[rank.clamp(1, times.len()) - 1]
}

fn check(flow: u16, result: &Value) {
    let figure = |distribution: &str, name: &str| result[distribution][name].as_f64().unwrap();
    assert_eq!(
        result["verdict"], "pass",
        "flow {flow}: {}",
        result["notes"]
    );
    let frozen_at_ns = result["faults"][0]["at_ns"][0].as_u64().unwrap();
    let times = of_schedule(flow.into(), frozen_at_ns);
    // No message is left out, but for what a late wake owed at the stop.
    let answered = result["response_time_ns"]["count"].as_u64().unwrap();
    assert_eq!(result["totals"]["offered"], times.len(), "flow {flow}");
    let owed = times.len() as u64 - answered;
    assert!(owed <= 50, "flow {flow}: {owed} not sent");
    let is = figure("response_time_ns", "p999");
    let should = quantile(&times, 0.999) as f64;
    let off = is / should - 1.0;
    println!(
        "flow {flow}: response p99.9 {:.1} ms, by the schedule {:.1} ms, off by {:+.2} %; mean {:.1} ms; \
         from the send: p90 {:.1} ms, mean {:.1} ms; late starts {}",
        is / 1e6,
        should / 1e6,
        off * 100.0,
        figure("response_time_ns", "mean") / 1e6,
        figure("ack_latency_ns", "p90") / 1e6,
        figure("ack_latency_ns", "mean") / 1e6,
        result["generator"]["late_starts"]
    );
    assert!(
        off.abs() <= 0.02,
        "flow {flow}: {is} ns, by the schedule {should} ns"
    );
    // Two in five messages were wanted while the server stood still. From the send, only those wait
    // that got through the gate before it shut: that latency hides the rest.
    let both = |name| {
        (
            figure("ack_latency_ns", name),
            figure("response_time_ns", name),
        )
    };
    let (ack, response) = both("mean");
    assert!(ack < response, "flow {flow}: mean {ack} of {response} ns");
    let (ack, response) = both("p90");
    // A flow of 500 lets a tenth of all messages through.
    assert!(
        flow == 500 || ack < response / 2.0,
        "flow {flow}: p90 {ack} of {response} ns"
    );
}

#[test]
fn response_times_hold_every_wait_for_a_frozen_server() {
    let folder = tempfile::tempdir().unwrap();
    let runs = [1, 10, 100, 500].map(|flow| (flow, start(folder.path(), flow)));
    for (flow, child) in runs {
        let output = child.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "flow {flow}: {told}");
        check(flow, &serde_json::from_slice(&output.stdout).unwrap());
    }
}

/// The schedule itself, where it can be worked out by hand.
#[test]
fn the_schedule_is_that_of_a_server_that_stands_still() {
    let times = of_schedule(10, FROZEN_NS.0);
    assert_eq!(times.len(), 10_000);
    // The ack after message 2,049, counted from 0, is the last before the server stops.
    assert_eq!(times.last(), Some(&2_002_250_000));
    assert_eq!(quantile(&times, 0.999), 2_002_250_000 - 10 * 500_000);
    // Of the 4,000 that wait for it, all but four wait longer than for the end of their flow.
    let waited = times.iter().filter(|time| **time > 4_500_000).count();
    assert_eq!(waited, 3_996);
}

/// Two publishers at full speed, and the same at a rate that is no work.
#[test]
fn a_run_tells_what_its_generator_had_left() {
    let folder = tempfile::tempdir().unwrap();
    let run = |load: &str, options: &[&str]| {
        let text = format!(
            "format = 1\nabout = \"Load.\"\n[[publishers]]\ncount = 2\nflow = 500\nbatches = 0\n\
             messages = 100_000\npayload = \"64B\"\nstop = \"500ms\"\n{load}"
        );
        std::fs::write(folder.path().join("load.toml"), text).unwrap();
        let arguments = [&["load.toml"], options].concat();
        let output = live(folder.path(), &arguments).wait_with_output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), result)
    };
    let (code, full) = run("", &["--ceiling", "--strict"]);
    let generator = &full["generator"];
    let figure = |name: &str| generator[name].as_f64().unwrap();
    let publishing_ns = figure("publishing_ns");
    assert!((0.4e9..60e9).contains(&publishing_ns), "{generator}");
    assert!(
        figure("cpu_ns") > 0.0 && figure("core_share") <= 1.05,
        "{generator}"
    );
    let ceiling = generator["ceiling"]["messages_per_cpu_second"]
        .as_f64()
        .unwrap();
    let share = generator["ceiling"]["share"].as_f64().unwrap();
    let rate = full["totals"]["published"].as_f64().unwrap() / (publishing_ns / 1e9);
    assert!(
        (share / (rate / ceiling) - 1.0).abs() < 0.01,
        "{share}: {rate} of {ceiling}"
    );
    assert_eq!(generator["late_starts"], Value::Null);
    // Which of the two it is is for this machine to say; the exit code goes with it.
    let bound = share > 0.85 || figure("core_share") > 0.85;
    assert_eq!(generator["client_bound"], bound);
    assert_eq!(
        (code, &full["expected"]),
        (Some(bound.into()), &(!bound).into())
    );
    assert_eq!(full["unmet"].to_string().contains("client-bound"), bound);

    let (code, idle) = run(
        "arrival = \"constant\"\nrate_per_second = 50\n",
        &["--strict"],
    );
    let generator = &idle["generator"];
    assert_eq!((code, &generator["client_bound"]), (Some(0), &false.into()));
    assert_eq!(generator["ceiling"], Value::Null);
    // All but the first of either publisher are waited for.
    let waited = generator["wake_lag_ns"]["count"].as_u64().unwrap();
    assert!((30..=100).contains(&waited), "{generator}");
    assert!(generator["late_starts"].is_u64());
}
