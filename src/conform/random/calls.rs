//! Draws API calls and direct gets, sound and unsound.
//!
//! Leans on `draw`.

use serde_json::{Map, Value, json};

use super::draw::{Dice, setting, steady_limits};
use super::play::Act;

/// The calls of a case.
pub(super) struct Calls {
    /// The configuration that is probably in force.
    config: Map<String, Value>,
    replicated: bool,
    /// One in so many calls of its kind makes a leader step down, where there are several.
    step_downs: u32,
    removals: Removals,
}

/// How calls take messages out of the stream.
///
/// A purge below a sequence that leaves a block of a file store without messages, where the end of that
/// block was removed before, forgets to move the first sequence of the block on. The stream's is taken
/// from it now, or some writes later (`filestore.go`, `compactLocked`, `trackingStatesEqual`). That
/// is damage and no rule, so a stream in files meets the one kind of removal or the other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Removals {
    /// Of whatever kind.
    Any,
    /// No purge below a sequence.
    Picked,
    /// No message by its number or subject.
    Below,
}

impl Removals {
    fn draw(dice: &mut Dice, config: &Map<String, Value>) -> Self {
        let in_memory = config.get("storage") == Some(&json!("memory"));
        match dice.one_in(2) {
            _ if in_memory => Self::Any,
            true => Self::Picked,
            false => Self::Below,
        }
    }

    fn take(self, act: &Act) -> bool {
        let Act::Call(subject, body) = act else {
            return true;
        };
        let has_sequence = body.get("seq").is_some();
        let of_some = body.get("filter").is_some_and(|filter| filter != ">");
        match subject.as_str() {
            "STREAM.MSG.DELETE.S" => self != Self::Below,
            "STREAM.PURGE.S" if of_some => self != Self::Below,
            "STREAM.PURGE.S" if has_sequence => self != Self::Picked,
            _ => true,
        }
    }
}

impl Calls {
    pub(super) fn new(dice: &mut Dice, config: Map<String, Value>, replicated: bool) -> Self {
        Self {
            removals: Removals::draw(dice, &config),
            config,
            replicated,
            step_downs: dice.range(1, 12) as u32,
        }
    }

    /// A call; `stored` is about the last sequence.
    pub(super) fn call(&mut self, dice: &mut Dice, stored: u64) -> Act {
        let act = self.any_call(dice, stored);
        if self.removals.take(&act) {
            act
        } else {
            call("INFO", Value::Null)
        }
    }

    fn any_call(&mut self, dice: &mut Dice, stored: u64) -> Act {
        let sequence = dice.range(0, stored + 2);
        match dice.range(0, 11) {
            0..=3 => self.update(dice),
            4 | 5 => call("PURGE", purge(dice, sequence)),
            6 | 7 => call("MSG.DELETE", json!({ "seq": sequence })),
            8 => call("MSG.DELETE", dice.pick(&[&json!({}), &Value::Null]).clone()),
            9 => call("MSG.GET", message_get(dice, sequence)),
            10 => call("INFO", Value::Null),
            _ if !self.replicated || dice.one_in(self.step_downs) => {
                call("LEADER.STEPDOWN", Value::Null)
            }
            _ => call("INFO", json!({ "subjects_filter": ">" })),
        }
    }

    /// Another configuration, as a whole.
    fn update(&mut self, dice: &mut Dice) -> Act {
        let mut config = self.config.clone();
        for _ in 0..dice.range(1, 2) {
            let (key, value) = match dice.range(0, 6) {
                0 => ("allow_batched", json!(dice.one_in(2))),
                1 => ("allow_atomic", json!(dice.one_in(2))),
                2 if dice.one_in(6) => ("storage", json!(dice.pick(&["file", "memory"]))),
                3 if dice.one_in(4) => ("sealed", json!(dice.one_in(2))),
                _ => setting(dice),
            };
            config.insert(key.to_owned(), value);
            if dice.one_in(6) {
                config.remove(setting(dice).0);
            }
        }
        steady_limits(&mut config);
        // It may be refused.
        if dice.one_in(2) {
            self.config.clone_from(&config);
        }
        call("UPDATE", Value::Object(config))
    }

    /// A direct get.
    pub(super) fn get(&self, dice: &mut Dice, stored: u64) -> Act {
        if dice.one_in(8) {
            let subject = dice.pick(&["t.a", "t.b", "t.none", "t.*"]);
            let body = if dice.one_in(3) {
                json!({ "batch": 2 })
            } else {
                Value::Null
            };
            return Act::Get(format!("$JS.API.DIRECT.GET.S.{subject}"), body);
        }
        let mut body = Map::new();
        for _ in 0..dice.range(1, 3) {
            let (key, value) = get_field(dice, stored);
            body.insert(key.to_owned(), value);
        }
        let body = match dice.range(0, 29) {
            0 => Value::Null,
            1 => json!("{ not json"),
            _ => Value::Object(body),
        };
        Act::Get("$JS.API.DIRECT.GET.S".to_owned(), body)
    }
}

fn call(call: &str, body: Value) -> Act {
    Act::Call(format!("STREAM.{call}.S"), body)
}

fn purge(dice: &mut Dice, sequence: u64) -> Value {
    let filter = dice.pick(&["t.a", "t.b", "t.*", "t.none", ">"]);
    let keep = dice.range(0, 3);
    match dice.range(0, 6) {
        0 => Value::Null,
        1 => json!({ "filter": filter }),
        2 => json!({ "seq": sequence }),
        3 => json!({ "keep": keep }),
        4 => json!({ "filter": filter, "seq": sequence }),
        5 => json!({ "filter": filter, "keep": keep }),
        _ => json!({ "seq": sequence, "keep": keep }),
    }
}

fn message_get(dice: &mut Dice, sequence: u64) -> Value {
    match dice.range(0, 4) {
        0 | 1 => json!({ "seq": sequence }),
        2 => json!({ "last_by_subj": dice.pick(&["t.a", "t.none"]) }),
        3 => json!({ "seq": sequence, "next_by_subj": "t.*" }),
        _ => json!({}),
    }
}

fn get_field(dice: &mut Dice, stored: u64) -> (&'static str, Value) {
    let sequence = dice.range(0, stored + 2);
    match dice.range(0, 10) {
        0..=2 => ("seq", json!(sequence)),
        3 | 4 => ("batch", json!(dice.range(0, 5))),
        5 => ("max_bytes", json!(dice.range(0, 120))),
        6 => (
            "next_by_subj",
            json!(dice.pick(&["t.a", "t.*", "t.>", "t.none"])),
        ),
        7 => ("last_by_subj", json!(dice.pick(&["t.a", "t.b", "t.none"]))),
        8 => {
            let lists = [
                json!(["t.a"]),
                json!(["t.>"]),
                json!(["t.a", "t.*"]),
                json!([]),
            ];
            ("multi_last", lists[dice.range(0, 3) as usize].clone())
        }
        9 => ("up_to_seq", json!(sequence)),
        _ => ("no_hdr", json!(dice.one_in(2))),
    }
}
