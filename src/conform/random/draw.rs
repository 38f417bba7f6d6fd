//! Draws a random case: which stream, which kinds of acts, and how many.
//!
//! Leans on `batches` and `calls` for the acts, and on `seed`. Each case has weights of its own, so
//! that some are all about one thing and others mix everything.

use rand::RngExt;
use serde_json::{Map, Value, json};

use super::Random;
use super::batches::Traffic;
use super::calls::Calls;
use super::play::{Act, Play};
use crate::seed::{Generator, Seed};

/// Most acts of a case.
const ACTS_MAX: u32 = 40;
/// Most messages of one write.
const WRITE_MAX: u32 = 8;
/// One hour: nothing expires while a case is played.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Chance, in the words of this generator.
pub(super) struct Dice(pub(super) Generator);

impl Dice {
    /// Once in so many times.
    pub(super) fn one_in(&mut self, times: u32) -> bool {
        self.0.random_ratio(1, times)
    }

    /// Both ends included.
    pub(super) fn range(&mut self, from: u64, to: u64) -> u64 {
        self.0.random_range(from..=to)
    }

    /// One of these; `choices` has at least one.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.0.random_range(0..choices.len())]
    }

    /// The index of a weight, as often as the weight says; one of them is not 0.
    pub(super) fn weighted(&mut self, weights: &[u32]) -> usize {
        let mut left = self.0.random_range(0..weights.iter().sum());
        let position = weights.iter().position(|weight| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        position.unwrap_or(0)
    }
}

/// The case of this number.
pub(super) fn draw(seed: Seed, number: u64, random: &Random) -> Play {
    let mut dice = Dice(seed.generator("case", number));
    let replicated = random.replicas > 1;
    let limits = (!replicated && number % 4 == 3).then(narrow_limits);
    let config = config(&mut dice, replicated);
    let mut hand = Hand {
        traffic: Traffic::new(&mut dice, replicated),
        calls: Calls::new(&mut dice, config.clone(), replicated),
        replicated,
    };
    let acts = hand.acts(&mut dice);
    Play {
        name: format!("random-{}-r{}-{number}", seed.0, random.replicas),
        version: random.model.version.to_string(),
        replicas: random.replicas,
        limits,
        config,
        acts,
    }
}

/// Limits that a case can reach.
fn narrow_limits() -> Map<String, Value> {
    let limits = json!({ "max_inflight_per_stream": 2, "max_inflight_total": 3, "max_msgs": 4 });
    object(limits)
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// What draws the acts of a case.
struct Hand {
    traffic: Traffic,
    calls: Calls,
    replicated: bool,
}

impl Hand {
    fn acts(&mut self, dice: &mut Dice) -> Vec<Act> {
        let calls = dice.range(0, 4) as u32;
        // Other servers of a cluster may be behind when they answer a direct get.
        let gets = if self.replicated {
            0
        } else {
            dice.range(0, 3) as u32
        };
        let bursts = dice.range(1, 6) as u32;
        let count = dice.range(8, u64::from(ACTS_MAX));
        let mut acts: Vec<Act> = (0..count)
            .map(|_| match dice.weighted(&[20, calls, gets]) {
                0 => self.write(dice, bursts),
                1 => self.calls.call(dice, self.traffic.stored()),
                _ => self.calls.get(dice, self.traffic.stored()),
            })
            .collect();
        acts.push(Act::Stored);
        acts
    }

    fn write(&mut self, dice: &mut Dice, bursts: u32) -> Act {
        if !dice.one_in(bursts) {
            return Act::Write(vec![self.traffic.single_message(dice)]);
        }
        let count = dice.range(2, u64::from(WRITE_MAX));
        let messages = (0..count).map(|_| {
            if self.replicated {
                self.traffic.steady_message(dice)
            } else {
                self.traffic.message(dice)
            }
        });
        Act::Write(messages.collect())
    }
}

/// A stream for `t.>`.
fn config(dice: &mut Dice, replicated: bool) -> Map<String, Value> {
    let mut config = object(json!({
        "name": "S",
        "subjects": ["t.>"],
        "num_replicas": if replicated { 3 } else { 1 },
        "storage": dice.pick(&["file", "memory"]),
    }));
    let count = dice.range(0, 6);
    for switch in ["allow_batched", "allow_atomic"] {
        if !dice.one_in(6) {
            config.insert(switch.to_owned(), json!(true));
        }
    }
    for _ in 0..count {
        let (key, value) = setting(dice);
        config.insert(key.to_owned(), value);
    }
    if config.contains_key("discard_new_per_subject") && !dice.one_in(8) {
        config.insert("discard".to_owned(), json!("new"));
        config.insert("max_msgs_per_subject".to_owned(), json!(dice.range(1, 3)));
    }
    steady_limits(&mut config);
    config
}

/// Leaves the limits of the whole stream out where each subject has one that refuses: whose messages are
/// then counted, for a message of an atomic batch with several subjects, is the chance of a map
/// (`jetstream_batching.go`, `checkMsgHeadersPreClusteredProposal`: the loop over `diff.inflight`).
pub(super) fn steady_limits(config: &mut Map<String, Value>) {
    if config.contains_key("discard_new_per_subject") && config.contains_key("allow_atomic") {
        config.remove("max_msgs");
        config.remove("max_bytes");
    }
}

/// A setting of a stream, lawful or not.
pub(super) fn setting(dice: &mut Dice) -> (&'static str, Value) {
    const RARE: u32 = 12;
    match dice.range(0, 15) {
        0 => ("max_msgs", json!(dice.range(0, 9))),
        1 => ("max_bytes", json!(dice.range(40, 900))),
        2 => ("max_msgs_per_subject", json!(dice.range(1, 4))),
        3 => ("max_msg_size", json!(dice.range(20, 160))),
        4 => ("discard", json!(dice.pick(&["new", "old"]))),
        5 => ("discard_new_per_subject", json!(true)),
        6 | 7 => ("allow_rollup_hdrs", json!(true)),
        8 | 9 => ("allow_direct", json!(true)),
        10 => ("allow_msg_ttl", json!(!dice.one_in(RARE))),
        11 if dice.one_in(2) => ("deny_delete", json!(true)),
        11 => ("deny_purge", json!(true)),
        12 => {
            let window: &u64 = dice.pick(&[&0, &120_000_000_000, &HOUR_NS, &50_000_000]);
            ("duplicate_window", json!(window))
        }
        13 if dice.one_in(3) => ("persist_mode", json!("async")),
        13 => (
            "retention",
            json!(dice.pick(&["workqueue", "interest", "limits"])),
        ),
        14 if dice.one_in(RARE) => ("no_ack", json!(true)),
        14 if dice.one_in(RARE) => ("sealed", json!(true)),
        14 => ("max_age", json!(2 * HOUR_NS)),
        _ => ("description", json!("a random stream")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::ServerModel;

    fn plays() -> impl Iterator<Item = Play> {
        let random = Random {
            seed: 1,
            operations: 0,
            replicas: 1,
            model: ServerModel::default(),
        };
        (0..2_000).map(move |number| draw(Seed(1), number, &random))
    }

    /// Bodies of the calls of this kind.
    fn bodies<'a>(play: &'a Play, call: &str) -> Vec<&'a Value> {
        let calls = play.acts.iter().filter_map(|act| match act {
            Act::Call(subject, body) if subject == call => Some(body),
            Act::Write(_) | Act::Get(..) | Act::Call(..) | Act::Stored => None,
        });
        calls.collect()
    }

    #[test]
    fn no_subject_is_counted_by_chance() {
        let mut met = [0; 2];
        for play in plays() {
            let first = Value::Object(play.config.clone());
            for config in bodies(&play, "STREAM.UPDATE.S").into_iter().chain([&first]) {
                let has = |key: &str| config.get(key).is_some();
                let is_whole = has("max_msgs") || has("max_bytes");
                let by_subject = has("discard_new_per_subject");
                assert!(!(is_whole && by_subject && has("allow_atomic")), "{config}");
                met[0] += usize::from(is_whole && has("allow_atomic"));
                met[1] += usize::from(is_whole && by_subject);
            }
        }
        assert!(met.into_iter().all(|count| count > 10), "{met:?}");
    }

    #[test]
    fn a_stream_in_files_meets_one_kind_of_removal() {
        let mut met = [[0; 2]; 2];
        for play in plays() {
            let picked = !bodies(&play, "STREAM.MSG.DELETE.S").is_empty();
            let purges = bodies(&play, "STREAM.PURGE.S");
            let below = purges
                .iter()
                .any(|body| body.get("seq").is_some() && body.get("filter").is_none());
            let in_memory = play.config["storage"] == json!("memory");
            assert!(in_memory || !(picked && below), "{}", play.name);
            met[usize::from(in_memory)][0] += usize::from(picked);
            met[usize::from(in_memory)][1] += usize::from(below);
        }
        assert!(met.into_iter().flatten().all(|count| count > 10), "{met:?}");
    }
}
