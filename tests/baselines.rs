//! What people publish with today, beside fast ingest: core NATS, JetStream one at a time and with many
//! acks outstanding, atomic batches. Each against a real server of our own on 127.0.0.1, and over the
//! client protocol in simulated time.
#![expect(clippy::unwrap_used, reason = "the helpers of tests fail as tests do")]

mod common;

use tidegate::event::{Event, Observer, Outcome};
use tidegate::live::{
    Ended, Interrupts, LocalServers, Options, ReadBack, RunOptions, Surroundings, Target,
    find_server, run,
};
use tidegate::machine::Time;
use tidegate::report::{RunResult, Verdict};
use tidegate::scenario::{Lane, Scenario, Substrate};
use tidegate::seed::Seed;

const WIRE: Lane = Lane::Wire(Substrate::Event);

/// The clients that are no fast publishers, each with what it needs.
const CLIENTS: [&str; 6] = [
    "client = \"publish\"",
    "client = \"jetstream-sync\"",
    "client = \"jetstream-async\"\nin_flight = 64",
    "client = \"atomic\"",
    "client = \"atomic\"\ncommit = \"message\"",
    "client = \"jetstream-extra-atomic\"\ncommit = \"message\"",
];

/// Two publishers of two batches of so many messages.
fn scenario(client: &str, more: &str) -> Scenario {
    let text = format!(
        "format = 1\nabout = \"test\"\n[stream]\nallow_atomic = true\n[[publishers]]\n{client}\n\
         count = 2\nbatches = 2\nmessages = 300\npayload = \"64B\"\n{more}"
    );
    Scenario::parse("test.toml", &text).unwrap()
}

fn simulated(scenario: &Scenario, seed: u64) -> RunResult {
    let outcome = common::run_in(scenario, seed, WIRE, None);
    common::result(scenario, seed, outcome)
}

/// What the publishers of a live run tell of their acks.
#[derive(Default)]
struct Told {
    single: Vec<u64>,
    counted: Vec<u64>,
    ended: Vec<(Outcome, u16, u64)>,
}

impl Observer for Told {
    fn see(&mut self, _: Time, event: &Event) {
        match *event {
            Event::MessageAckSeen { sequence, .. } => self.single.push(sequence.0),
            Event::PubAckSeen { count, .. } => self.counted.push(count.0),
            Event::BatchEnded {
                outcome,
                code,
                acknowledged,
                ..
            } => self.ended.push((outcome, code, acknowledged.0)),
            _ => {}
        }
    }
}

fn live(servers: &LocalServers, scenario: &Scenario) -> (ReadBack, Told) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut interrupts = Interrupts::new().unwrap();
        let target = Target::prepare(servers.urls(), &scenario.settings.streams_of_run()).await;
        let target = target.unwrap();
        let mut told = Told::default();
        let options = RunOptions {
            seed: Seed(1),
            read_back: true,
            own_servers: None,
            say: |_| {},
        };
        let observers: &mut [&mut dyn Observer] = &mut [&mut told];
        let outcome = run(scenario, &target, observers, &options, &mut interrupts).await;
        target.remove().await.unwrap();
        let outcome = outcome.unwrap();
        assert_eq!(outcome.ended, Ended::Complete);
        assert_eq!(outcome.failures, []);
        (outcome.read_back.unwrap(), told)
    })
}

#[test]
fn a_real_server_stores_and_acknowledges_what_each_of_them_publishes() {
    let surroundings = Surroundings::of_process();
    let binary = find_server(None, &surroundings, &mut |text| eprintln!("{text}")).unwrap();
    let servers = LocalServers::start(1, &Options::new(binary.path)).unwrap();
    for client in CLIENTS {
        let (stream, told) = live(&servers, &scenario(client, ""));
        assert_eq!(stream.findings, [], "{client}");
        assert_eq!((stream.stored, stream.lost), (1_200, 0), "{client}");
        let copies = (stream.duplicates, stream.out_of_order, stream.foreign);
        assert_eq!(copies, (0, 0, 0), "{client}");
        let (single, counted, ended) = match client {
            _ if client.contains("publish") => (0, vec![], (Outcome::Abandoned, 0, 0)),
            _ if client.contains("atomic") => (0, vec![300; 4], (Outcome::Committed, 0, 300)),
            _ => (1_200, vec![], (Outcome::Committed, 0, 300)),
        };
        assert_eq!(told.single.len(), single, "{client}");
        assert_eq!(told.counted, counted, "{client}");
        assert_eq!(told.ended, [ended; 4], "{client}");
    }
    servers.stop().unwrap();
}

#[test]
fn the_wire_lane_plays_each_of_them_and_repeats_it() {
    for client in CLIENTS {
        let scenario = scenario(client, "");
        assert_eq!(scenario.settings.lane(), WIRE);
        assert!(scenario.check_simulatable(Lane::Event).is_err());
        let result = simulated(&scenario, 1);
        assert_eq!(
            result.verdict,
            Verdict::Pass,
            "{client}: {:?}",
            result.unmet
        );
        let totals = &result.totals;
        assert_eq!(totals.published, 1_200, "{client}");
        let stored = (totals.stored, totals.lost, totals.under_way);
        assert_eq!(stored, (Some(1_200), Some(0), Some(0)), "{client}");
        let (acknowledged, pub_acks) = match client {
            _ if client.contains("publish") => (0, 0),
            _ if client.contains("atomic") => (1_200, 4),
            _ => (1_200, 1_200),
        };
        let acks = (totals.acknowledged, totals.pub_acks);
        assert_eq!(acks, (acknowledged, pub_acks), "{client}");
        assert_eq!(result.ack_latency_ns.count, acknowledged, "{client}");
        let again = simulated(&scenario, 1);
        assert_eq!(again.trace_hash, result.trace_hash, "{client}");
    }
}

/// Over a way of a millisecond there and back: one message in each, or so many as may be outstanding.
#[test]
fn what_may_be_outstanding_bounds_the_throughput() {
    let network = "[network]\nlatency = \"500us\"\njitter = \"0s\"\n";
    for (client, most) in [
        ("client = \"jetstream-sync\"", 1.0),
        ("client = \"jetstream-async\"\nin_flight = 16", 16.0),
    ] {
        let result = simulated(&scenario(client, network), 1);
        // two publishers, a thousand round trips a second
        let bound = 2_000.0 * most;
        let got = result.throughput.messages_per_second;
        assert!((0.8 * bound..=bound).contains(&got), "{client}: {got}");
        assert!(result.ack_latency_ns.min >= 1_000_000, "{client}");
    }
}

#[test]
fn a_message_that_is_refused_is_told_and_the_next_one_goes() {
    let too_large = "[[publishers.headers]]\nfrom = 7\nto = 8\nname = \"Filler\"\nvalue = \"";
    let more = format!("{too_large}{}\"\n", "x".repeat(500));
    for client in &CLIENTS[1..3] {
        let mut scenario = scenario(client, &more);
        scenario.settings.stream.max_message_size = Some(tidegate::units::Bytes(300));
        scenario.settings.expect.errors = vec![10_054];
        let result = simulated(&scenario, 1);
        let totals = &result.totals;
        assert_eq!(
            result.verdict,
            Verdict::Pass,
            "{client}: {:?}",
            result.unmet
        );
        assert_eq!(totals.errors, [(10_054, 8)].into(), "{client}");
        assert_eq!(
            (totals.refused, totals.acknowledged),
            (8, 1_192),
            "{client}"
        );
        assert_eq!(totals.stored, Some(1_192), "{client}");
    }
}

/// Of an atomic batch that is refused, nothing is stored.
#[test]
fn an_atomic_batch_is_stored_whole_or_not_at_all() {
    let limit = "[[publishers.headers]]\nfrom = 7\nto = 7\nname = \"Nats-Expected-Last-Subject-Sequence\"\nvalue = \"999999\"\n";
    for client in &CLIENTS[3..] {
        let result = simulated(&scenario(client, limit), 1);
        let totals = &result.totals;
        assert_eq!(
            (totals.acknowledged, totals.stored),
            (0, Some(0)),
            "{client}"
        );
        let ending = &totals.batches.endings[0];
        // the batch holds a check that fails: refused at its commit with the code of that
        assert_eq!(
            (ending.outcome.as_str(), ending.code),
            ("refused", 10_164),
            "{client}"
        );
        assert_eq!(result.verdict, Verdict::Failed, "{client}");
    }
}
