//! What a leader change costs publishers, over many seeds, set beside what a real cluster did.
//!
//! `TIDEGATE_WRITE_TABLES=1 cargo test --release --test leader_changes` writes `docs/leader-changes.md`
//! anew with 200 seeds; `make tables` does that. Without, a few of these seeds are run and held to
//! bounds, and the page to having its rows.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fmt::Write as _;

use tidegate::report::RunResult;
use tidegate::scenario::Scenario;

const DOCUMENT: &str = "docs/leader-changes.md";
const SEEDS: u64 = 200;
/// Of these, the ones that every run of the tests looks at.
const FEW: u64 = 6;
const PUBLISHERS: u64 = 4;
/// Of each publisher, as fast as it may: several times as many as are out before the fault.
const MESSAGES: u64 = 10_000;
/// Flow: what a publisher may have lost with a leader, and once more for what nobody heard.
const FLOW: u64 = 100;

/// A way to lose a leader, and what a real cluster did.
struct Change {
    name: &'static str,
    fault: &'static str,
    /// Without a leader, longest wait, lost: of nats-server 2.15.1.
    measured: [&'static str; 3],
}

const CHANGES: [Change; 4] = [
    Change {
        name: "step-down",
        fault: "action = \"step-down\"\nfrom = \"200ms\"\n",
        measured: ["22 to 30 ms", "1.67 s, ack timeout 5 s", "0 or 100"],
    },
    Change {
        name: "kill",
        fault: "action = \"kill\"\nfrom = \"200ms\"\nuntil = \"15s\"\n",
        measured: ["5.92 s", "6.67 s", "100; 45 to 100 with ack timeout 5 s"],
    },
    Change {
        name: "freeze, 5 s",
        fault: "action = \"freeze\"\nfrom = \"200ms\"\nuntil = \"5200ms\"\n",
        measured: ["", "6.67 s", "100"],
    },
    Change {
        name: "both followers killed, 25 s",
        fault: "action = \"kill\"\nserver = 1\nfrom = \"200ms\"\nuntil = \"25s\"\n\
                [[faults]]\naction = \"kill\"\nserver = 2\nfrom = \"200ms\"\nuntil = \"25s\"\n",
        measured: ["503 after 12.9 s", "", ""],
    },
];

fn scenario(change: &Change, gap: &str) -> Scenario {
    let text = format!(
        "format = 1\nabout = \"A leader change.\"\n[stream]\nreplicas = 3\n\
         [[publishers]]\ncount = {PUBLISHERS}\nflow = {FLOW}\ngap = \"{gap}\"\nack_timeout = \"20s\"\n\
         messages = {MESSAGES}\npayload = \"128B\"\n\
         [[faults]]\n{}",
        change.fault
    );
    Scenario::parse("leader-change.toml", &text).unwrap()
}

/// What one run showed.
struct Shown {
    /// From the loss of the leader to the next one, in milliseconds; none if it stayed.
    leaderless: Option<f64>,
    /// From the fault to the moment from which publishers were answered with 503.
    told_after: Option<f64>,
    longest_wait: f64,
    lost: u64,
    gaps: u64,
    committed: u64,
    ended_by_gap: u64,
    ended_otherwise: u64,
}

impl Shown {
    fn of(result: &RunResult) -> Self {
        const FAULT: f64 = 200.0;
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        let changes = &result.leader_changes;
        let gone = changes.iter().find(|change| change.leader.is_none());
        let back = changes.iter().find(|change| change.leader.is_some());
        let gone_at = gone.map_or(FAULT, |change| ms(change.at_ns));
        let endings = &result.totals.batches.endings;
        let batches = |wanted: &str, codes: bool| -> u64 {
            let of_kind = endings.iter().filter(|ending| {
                serde_json::to_value(ending.outcome).unwrap() == wanted
                    && (ending.code != 0) == codes
            });
            of_kind.map(|ending| ending.batches).sum()
        };
        let all: u64 = endings.iter().map(|ending| ending.batches).sum();
        let committed = batches("committed", false);
        let ended_by_gap = batches("ended-by-server", false);
        Self {
            leaderless: back.map(|change| ms(change.at_ns) - gone_at),
            told_after: gone.map(|_| gone_at - FAULT),
            longest_wait: ms(result.stall_time_ns.waits.max),
            lost: result.totals.lost.unwrap(),
            gaps: result.totals.gaps,
            committed,
            ended_by_gap,
            ended_otherwise: all - committed - ended_by_gap,
        }
    }
}

fn shown(change: &Change, gap: &str, seed: u64) -> Shown {
    let scenario = scenario(change, gap);
    let outcome = common::run_scenario(&scenario, seed);
    let result = common::result(&scenario, seed, outcome);
    assert!(
        result.violations.is_empty(),
        "{} {gap} seed {seed}: {:?}",
        change.name,
        result.violations
    );
    Shown::of(&result)
}

/// Least, median, nine tenths and most.
fn spread(mut values: Vec<f64>) -> String {
    if values.is_empty() {
        return "–".to_owned();
    }
    values.sort_by(f64::total_cmp);
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize];
    let text = |ms: f64| {
        if ms >= 1_000.0 {
            format!("{:.2} s", ms / 1_000.0)
        } else {
            format!("{ms:.1} ms")
        }
    };
    format!(
        "{} / {} / {} / {}",
        text(at(0.0)),
        text(at(0.5)),
        text(at(0.9)),
        text(at(1.0))
    )
}

fn row(change: &Change, gap: &str, seeds: u64) -> String {
    let all: Vec<Shown> = (1..=seeds).map(|seed| shown(change, gap, seed)).collect();
    let batches = seeds * PUBLISHERS;
    let sum = |of: fn(&Shown) -> u64| all.iter().map(of).sum::<u64>();
    let most_lost = all.iter().map(|one| one.lost).max().unwrap();
    format!(
        "| {} | {gap} | {} | {} | {} | {:.0} / {most_lost} | {:.2} | {} % | {} % | {} % |\n",
        change.name,
        spread(all.iter().filter_map(|one| one.told_after).collect()),
        spread(all.iter().filter_map(|one| one.leaderless).collect()),
        spread(all.iter().map(|one| one.longest_wait).collect()),
        sum(|one| one.lost) as f64 / batches as f64,
        sum(|one| one.gaps) as f64 / batches as f64,
        percent(sum(|one| one.committed), batches),
        percent(sum(|one| one.ended_by_gap), batches),
        percent(sum(|one| one.ended_otherwise), batches),
    )
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0}", part as f64 * 100.0 / whole as f64)
}

fn document() -> String {
    let mut text = String::from(
        "# Leader changes\n\n\
         What a publisher of fast batches goes through when the stream loses its leader, in the simulator\n\
         and on a real cluster. Written by `make tables`; `tests/leader_changes.rs` says how.\n\n",
    );
    writeln!(
        text,
        "{PUBLISHERS} publishers on three servers, one batch of {MESSAGES} messages of 128 B each as fast as acks\n\
         allow, flow {FLOW}, two outstanding acks, an ack timeout of 20 s; the fault comes after 200 ms. {SEEDS}\n\
         seeds for each row. Spans are least / median / 90th percentile / most.\n"
    )
    .unwrap();
    text.push_str(
        "| Fault | Gap mode | Old leader noticed as gone after | Without a leader | Longest wait of a publisher | Lost by a publisher, mean / by all, most | Gaps by a publisher | Committed | Ended by a gap | Ended otherwise |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for change in &CHANGES {
        for gap in ["ok", "fail"] {
            text.push_str(&row(change, gap, SEEDS));
        }
    }
    text.push_str(
        "\nBeside it, nats-server 2.15.1: three servers and four publishers of `jetstream-extra` 0.3.0 on one\n\
         machine of two processors, file storage, 128 B, flow 100, an ack timeout of 20 s where no other is named.\n\n\
         | Fault | Without a leader | Longest wait | Lost by a publisher |\n|---|---|---|---|\n",
    );
    for change in &CHANGES {
        let [leaderless, wait, lost] = change
            .measured
            .map(|cell| if cell.is_empty() { "–" } else { cell });
        writeln!(text, "| {} | {leaderless} | {wait} | {lost} |", change.name).unwrap();
    }
    text.push_str(
        "\nBoth publish as fast as they may, so that windows are full when the leader goes: what was lost is asked\n\
         for by the first ping, a third of the ack timeout later. No judge objected in any run.\n",
    );
    text
}

#[test]
fn the_page_has_a_row_for_each_leader_change() {
    let path = common::tree::top().join(DOCUMENT);
    if std::env::var_os("TIDEGATE_WRITE_TABLES").is_some() {
        std::fs::write(&path, document()).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    for change in &CHANGES {
        for gap in ["ok", "fail"] {
            let start = format!("| {} | {gap} |", change.name);
            assert!(text.contains(&start), "{DOCUMENT} has no row {start}");
        }
    }
}

/// Each bound is one that a real cluster kept, too.
#[test]
fn a_leader_change_loses_a_window_and_costs_a_ping() {
    for change in &CHANGES {
        for gap in ["ok", "fail"] {
            for seed in 1..=FEW {
                let shown = shown(change, gap, seed);
                let case = format!("{} {gap} seed {seed}", change.name);
                assert!(
                    shown.lost <= PUBLISHERS * 3 * FLOW,
                    "{case}: {} lost",
                    shown.lost
                );
                let leaderless = shown.leaderless;
                let (least, most) = match change.name {
                    "step-down" => (22.0, 30.0),
                    "kill" => (3_900.0, 40_000.0),
                    _ => (0.0, 60_000.0),
                };
                if let Some(leaderless) = leaderless {
                    assert!(
                        (least..=most).contains(&leaderless),
                        "{case}: {leaderless} ms"
                    );
                }
                let batches = shown.committed + shown.ended_by_gap + shown.ended_otherwise;
                assert_eq!(batches, PUBLISHERS, "{case}");
                if gap == "ok" {
                    assert_eq!(shown.ended_by_gap, 0, "{case}");
                }
            }
        }
    }
}
