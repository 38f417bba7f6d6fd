//! The core with the profile of `jetstream-extra` sends what the crate sends: a thousand random small
//! worlds, with faults, each at three: the core in both lanes, and the unmodified crate.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use common::frames::{Answer, Batch, Frames, Sent, parted};
use rand::RngExt;
use rand::seq::IndexedRandom;
use tidegate::event::Outcome;
use tidegate::nats::Operation;
use tidegate::scenario::{Lane, Scenario, Substrate};
use tidegate::seed::{Generator, Seed};

const WIRE: Lane = Lane::Wire(Substrate::Event);
const SEEDS: u64 = 1_000;

/// One word of several.
fn pick(draw: &mut Generator, words: &[&'static str]) -> &'static str {
    words.choose(draw).unwrap()
}

/// A file with one publisher, drawn from `seed`; `client` stands for what publishes.
fn world(seed: u64, client: &str) -> String {
    let draw = &mut Seed(seed).generator("world", 0);
    let messages = draw.random_range(1..=60);
    let mut text = format!(
        "format = 1\nabout = \"A random world.\"\n\
         [network]\nlatency = \"{}\"\n\
         [[publishers]]\n{client}\nflow = {}\noutstanding_acks = {}\ngap = \"{}\"\n\
         ack_timeout = \"{}\"\npublish_cost = \"{}\"\nmessages = {messages}\nbatches = {}\n\
         commit = \"{}\"\npayload = {}\n",
        pick(draw, &["10us", "100us", "1ms", "7ms"]),
        pick(draw, &["1", "2", "3", "5", "10", "20", "100"]),
        draw.random_range(1..=3),
        pick(draw, &["ok", "fail"]),
        pick(draw, &["50ms", "150ms", "250ms", "1s", "3s"]),
        pick(draw, &["0s", "600ns", "20us", "150us"]),
        draw.random_range(1..=3),
        pick(draw, &["eob", "eob", "message", "none"]),
        pick(
            draw,
            &["\"16B\"", "\"1KiB\"", "{ min = \"0B\", max = \"200B\" }"]
        ),
    );
    if draw.random_ratio(1, 3) {
        let after = draw.random_range(1..=messages);
        let span = pick(draw, &["1ms", "30ms", "2s", "11s"]);
        writeln!(text, "pauses = [{{ after = {after}, for = \"{span}\" }}]").unwrap();
    }
    if draw.random_ratio(1, 3) {
        let from = draw.random_range(1..=messages);
        let to = draw.random_range(from..=messages.min(from + 12));
        writeln!(
            text,
            "headers = [{{ from = {from}, to = {to}, name = \"Nats-Expected-Last-Sequence\", \
             value = \"999999\" }}]"
        )
        .unwrap();
    }
    for _ in 0..draw.random_range(0..=3) {
        text += &fault(draw);
    }
    text
}

fn fault(draw: &mut Generator) -> String {
    let frames = [
        "message",
        "message",
        "eob",
        "ping",
        "flow-ack",
        "flow-ack",
        "flow-ack",
        "gap",
        "flow-error",
        "pub-ack",
    ];
    let frame = pick(draw, &frames);
    let nth = draw.random_range(1..=if frame == "message" { 40 } else { 8 });
    let count = pick(draw, &["1", "1", "2", "5"]);
    let action = pick(draw, &["drop", "drop", "drop", "delay", "duplicate"]);
    let delay = match action {
        "delay" => "delay = \"40ms\"\n",
        "duplicate" => pick(draw, &["", "delay = \"3ms\"\n"]),
        _ => "",
    };
    format!(
        "[[faults]]\naction = \"{action}\"\nframe = \"{frame}\"\nnth = {nth}\ncount = {count}\n{delay}"
    )
}

fn frames(seed: u64, client: &str, lane: Lane) -> Frames {
    frames_of(&world(seed, client), seed, lane)
}

fn frames_of(text: &str, seed: u64, lane: Lane) -> Frames {
    let scenario =
        Scenario::parse("random.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut frames = Frames::default();
    common::run_in(&scenario, seed, lane, Some(&mut frames));
    frames
}

/// Where the core's batch parts from the crate's, in words.
fn difference(core: &Batch, extra: &Batch) -> Option<String> {
    // The crate sends its pings and commits within calls: they are seen where they arrive or are
    // lost. Nor does it say of a call that fails whether its message was sent.
    let appended = |batch: &Batch| -> Vec<Sent> {
        let is_told = |sent: &&Sent| matches!(sent.operation, Operation::Start | Operation::Append);
        batch.sent.iter().filter(is_told).copied().collect()
    };
    let (sent, mut told) = (appended(core), appended(extra));
    if told.len() + 1 == sent.len() {
        told.extend(sent.last());
    }
    // What an application knows of a batch that failed is told by both, and by the crate in other
    // words: not every code, no difference between a batch that is refused and one that the server
    // ends, and no ack that was read in a call that failed.
    let ended = |batch: &Batch| match batch.end? {
        (Outcome::Committed, _, acknowledged) => Some((Outcome::Committed, acknowledged)),
        (Outcome::Refused, ..) => Some((Outcome::EndedByServer, 0)),
        (outcome, ..) => Some((outcome, 0)),
    };
    // What the crate hears of in its last call the core would in the next one, and leaves instead.
    let ends = match (ended(core), ended(extra)) {
        (Some((Outcome::Abandoned, _)), Some((Outcome::EndedByServer, _))) => [ended(extra); 2],
        ends => ends.into(),
    };
    core.arrives_not_as(extra)
        .or_else(|| parted("answered", &core.answered, &extra.answered))
        .or_else(|| parted("sent", &sent, &told))
        .or_else(|| parted("end", &ends[..1], &ends[1..]))
}

/// Whether the server ended a batch before its publisher did. How much more goes out until the
/// publisher hears of it is then a question of microseconds, which are not the same in both lanes:
/// bytes arrive together, frames one after the other.
fn is_race(frames: &Frames) -> bool {
    let early = |answer: &Answer| {
        matches!(
            answer,
            Answer::Refused { .. } | Answer::Gap { .. } | Answer::Error { .. }
        )
    };
    let mut batches = frames.batches.values();
    batches.any(|batch| batch.answered.iter().any(early))
}

/// What the worlds of all seeds come to.
#[derive(Default)]
struct Tally {
    differences: Vec<String>,
    /// Worlds that were compared in the event lane too.
    in_both_lanes: u64,
    /// Frames of publishers that were lost, replies of each kind, pings and failed batches.
    seen: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn compare(&mut self, seed: u64) {
        let extra = frames(seed, "client = \"jetstream-extra\"", WIRE);
        let mut lanes = vec![WIRE];
        if !is_race(&extra) {
            self.in_both_lanes += 1;
            lanes.push(Lane::Event);
        }
        for lane in lanes {
            let core = frames(seed, "profile = \"jetstream-extra\"", lane);
            let parted = parted_worlds(&core, &extra);
            self.differences
                .extend(parted.map(|what| format!("seed {seed}, core in {lane:?}: {what}")));
        }
        for batch in extra.batches.values() {
            self.count(batch);
        }
    }

    fn count(&mut self, batch: &Batch) {
        let mut count = |what, number: usize| *self.seen.entry(what).or_default() += number as u64;
        count("lost", batch.lost.len());
        let pings = batch.controls.iter();
        count(
            "ping",
            pings
                .filter(|sent| sent.operation == Operation::Ping)
                .count(),
        );
        for answer in &batch.answered {
            let kind = match answer {
                Answer::Ack { .. } => "ack",
                Answer::Gap { .. } => "gap",
                Answer::Error { .. } => "error",
                Answer::PubAck { .. } => "pub-ack",
                Answer::Refused { .. } => "refused",
            };
            count(kind, 1);
        }
        let end = match batch.end.map(|(outcome, ..)| outcome) {
            Some(Outcome::Committed) => "committed",
            Some(Outcome::EndedByServer) => "ended-by-server",
            Some(Outcome::TimedOut) => "timed-out",
            Some(Outcome::ClientError) => "client-error",
            Some(Outcome::Abandoned) => "abandoned",
            Some(Outcome::Refused | Outcome::NoResponders | Outcome::Interrupted) | None => "other",
        };
        count(end, 1);
    }

    fn add(mut self, other: Self) -> Self {
        self.differences.extend(other.differences);
        self.in_both_lanes += other.in_both_lanes;
        for (what, number) in other.seen {
            *self.seen.entry(what).or_default() += number;
        }
        self
    }
}

/// Compares batch by batch, up to the first that the server ended: the crate may hear of it in the
/// call at work where the core hears of it in the next one, so that what follows is shifted by the
/// time for a message.
fn parted_worlds(core: &Frames, extra: &Frames) -> Option<String> {
    let places = |frames: &Frames| frames.batches.keys().copied().collect::<Vec<_>>();
    parted("batch", &places(core), &places(extra)).or_else(|| {
        for (place, batch) in &core.batches {
            let other = &extra.batches[place];
            if let Some(what) = difference(batch, other) {
                return Some(format!("batch {place:?}: {what}"));
            }
            let (outcome, ..) = other.end?;
            if matches!(outcome, Outcome::EndedByServer | Outcome::Refused) {
                return None;
            }
        }
        None
    })
}

#[test]
fn the_core_with_the_profile_of_the_crate_sends_what_the_crate_sends() {
    let next = AtomicU64::new(1);
    let work = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > SEEDS {
                return tally;
            }
            tally.compare(seed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let tally = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let tallies = threads.into_iter().map(|thread| thread.join().unwrap());
        tallies.fold(Tally::default(), Tally::add)
    });
    let Tally {
        differences,
        in_both_lanes,
        seen,
    } = tally;
    assert!(
        differences.is_empty(),
        "{} worlds:\n{}",
        differences.len(),
        differences.join("\n")
    );
    // The worlds are worth comparing: all that can happen does, often.
    assert!(in_both_lanes >= SEEDS / 3, "{in_both_lanes}");
    for what in [
        "lost",
        "ping",
        "ack",
        "gap",
        "error",
        "pub-ack",
        "refused",
        "committed",
        "ended-by-server",
        "timed-out",
        "client-error",
        "abandoned",
    ] {
        let number = seen.get(what).copied().unwrap_or_default();
        assert!(number >= 20, "{what}: {seen:?}");
    }
}

/// A copy of an older ack comes late, while the flow of the batch goes up: the crate goes down again,
/// and waits at its gate until a ping repeats the newest ack. Few random worlds have this.
#[test]
fn an_older_ack_sets_the_flow_of_both() {
    let text = |client: &str| {
        format!(
            "format = 1\nabout = \"A late copy.\"\n[network]\nlatency = \"1ms\"\n[[publishers]]\n\
             {client}\nflow = 100\npublish_cost = \"50us\"\ncommit = \"none\"\nmessages = 200\nbatches = 2\n\
             [[faults]]\naction = \"duplicate\"\nframe = \"flow-ack\"\nnth = 5\ndelay = \"12ms\"\n"
        )
    };
    let extra = frames_of(&text("client = \"jetstream-extra\""), 1, WIRE);
    let core = frames_of(&text("profile = \"jetstream-extra\""), 1, WIRE);
    assert_eq!(parted_worlds(&core, &extra), None);
    let adr = frames_of(&text("gate = \"before-publish\""), 1, WIRE);
    assert!(parted_worlds(&adr, &extra).is_some());
}

/// The comparison does object: with the gate alone, the other ways of the crate show.
#[test]
fn the_gate_alone_is_not_the_crate() {
    let differ = |seed: &u64| {
        let extra = frames(*seed, "client = \"jetstream-extra\"", WIRE);
        let core = frames(*seed, "gate = \"before-publish\"", WIRE);
        parted_worlds(&core, &extra).is_some()
    };
    let differing = (1..=100).filter(differ).count();
    assert!(differing >= 10, "{differing}");
}
