//! Draws messages: of fast batches, of atomic batches, and plain ones, several batches at once.
//!
//! Leans on `headers`. What a batch would expect next is guessed, not asked: most messages are right,
//! and the others are wrong in every way there is.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::draw::{Dice, object};
use super::headers;
use crate::nats::header;

const FAST_IDS: &[&str] = &["A", "B", "C", "D"];
const ATOMIC_IDS: &[&str] = &["X", "Y", "Z", "A"];
/// One byte longer than is allowed.
const LONG_ID: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
const SUBJECTS: &[&str] = &["t.a", "t.a", "t.a", "t.b", "t.b", "t.c.d"];
/// Sequences at the ends of what a sequence may be, and beyond.
const ODD_SEQUENCES: &[&str] = &[
    "0",
    "007",
    "-1",
    "x",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
];

/// What is known of a batch.
#[derive(Clone)]
struct Batch {
    /// The sequence that is probably expected.
    next: u64,
    flow: &'static str,
    gap: &'static str,
}

/// The messages of a case.
pub(super) struct Traffic {
    fast: BTreeMap<&'static str, Batch>,
    atomic: BTreeMap<&'static str, u64>,
    /// Weights of fast, atomic and plain messages.
    weights: [u32; 3],
    /// One in so many messages has headers.
    headers: u32,
    /// One in so many is wrong.
    wrong: u32,
    ids: usize,
    /// Messages that may have been stored.
    stored: u64,
    replicated: bool,
}

impl Traffic {
    pub(super) fn new(dice: &mut Dice, replicated: bool) -> Self {
        let mut weights = [8, 8, 8];
        for weight in &mut weights {
            *weight = [0, 1, 8, 8][dice.range(0, 3) as usize];
        }
        if weights == [0, 0, 0] {
            weights[0] = 1;
        }
        Self {
            fast: BTreeMap::new(),
            atomic: BTreeMap::new(),
            weights,
            headers: dice.range(1, 12) as u32,
            wrong: dice.range(2, 30) as u32,
            ids: dice.range(1, FAST_IDS.len() as u64) as usize,
            stored: 0,
            replicated,
        }
    }

    /// About the last sequence of the stream.
    pub(super) const fn stored(&self) -> u64 {
        self.stored
    }

    /// A message by itself: some are for a subject that nobody listens on. That is told by the
    /// connection, so among others of a write its answer may come at any place.
    pub(super) fn single_message(&mut self, dice: &mut Dice) -> Map<String, Value> {
        let mut message = self.message(dice);
        if dice.one_in(60) {
            message.insert("publish".to_owned(), json!("nowhere"));
        }
        message
    }

    /// A message of any kind.
    pub(super) fn message(&mut self, dice: &mut Dice) -> Map<String, Value> {
        match dice.weighted(&self.weights) {
            0 => self.fast(dice),
            1 => self.atomic(dice),
            _ => self.plain(dice),
        }
    }

    /// A message whose answers do not depend on which of those before it, in the same write, have been
    /// applied already: the next of a fast batch, or a plain one.
    pub(super) fn steady_message(&mut self, dice: &mut Dice) -> Map<String, Value> {
        let id = FAST_IDS[dice.range(0, self.ids as u64 - 1) as usize];
        match self.fast.get_mut(id) {
            Some(batch) if batch.next > 1 && !dice.one_in(4) => {
                let reply = fast_reply(id, batch, &batch.next.to_string(), "1");
                batch.next = batch.next.saturating_add(1);
                self.stored += 1;
                outgoing(dice, Some(&reply), &[])
            }
            _ => {
                self.stored += 1;
                outgoing(dice, Some("_INBOX.p"), &[])
            }
        }
    }

    fn plain(&mut self, dice: &mut Dice) -> Map<String, Value> {
        let reply = (!dice.one_in(10)).then_some("_INBOX.p");
        let lines = self.own_lines(dice);
        self.stored += 1;
        outgoing(dice, reply, &lines)
    }

    fn own_lines(&self, dice: &mut Dice) -> Vec<(String, String)> {
        if dice.one_in(self.headers) {
            headers::lines(dice, self.stored, self.replicated)
        } else {
            Vec::new()
        }
    }

    fn fast(&mut self, dice: &mut Dice) -> Map<String, Value> {
        if dice.one_in(self.wrong * 4) {
            let reply = malformed_reply(dice);
            let lines = self.own_lines(dice);
            return outgoing(dice, Some(&reply), &lines);
        }
        let id = if dice.one_in(200) {
            LONG_ID
        } else {
            FAST_IDS[dice.range(0, self.ids as u64 - 1) as usize]
        };
        let mut batch = match self.fast.get(id) {
            Some(batch) => batch.clone(),
            None => new_batch(dice),
        };
        let operation = fast_operation(dice, batch.next);
        let sequence = self.fast_sequence(dice, &batch, operation);
        let mut named = batch.clone();
        if dice.one_in(20) {
            named = new_batch(dice);
        }
        let reply = fast_reply(id, &named, &sequence, operation);
        follow(&mut batch, operation, &sequence);
        if dice.one_in(12) {
            // It may have ended for reasons that are not followed here.
            batch = new_batch(dice);
        }
        self.fast.insert(id, batch);
        self.stored += u64::from(["0", "1", "2"].contains(&operation));
        let lines = self.own_lines(dice);
        outgoing(dice, Some(&reply), &lines)
    }

    fn fast_sequence(&self, dice: &mut Dice, batch: &Batch, operation: &str) -> String {
        let right = match operation {
            "0" => 1,
            "4" => batch.next.saturating_sub(1).max(1),
            _ => batch.next,
        };
        if dice.one_in(self.wrong) {
            wrong_sequence(dice, right)
        } else {
            right.to_string()
        }
    }

    fn atomic(&mut self, dice: &mut Dice) -> Map<String, Value> {
        let id = match dice.range(0, 199) {
            0 => LONG_ID,
            1 => "",
            _ => ATOMIC_IDS[dice.range(0, self.ids as u64 - 1) as usize],
        };
        let next = self.atomic.get(id).copied().unwrap_or(1);
        let is_wrong = dice.one_in(self.wrong);
        let sequence = if is_wrong {
            wrong_sequence(dice, next)
        } else {
            next.to_string()
        };
        let mut lines = vec![(header::BATCH_ID.to_owned(), id.to_owned())];
        if !dice.one_in(60) {
            lines.push((header::BATCH_SEQUENCE.to_owned(), sequence));
        }
        let ends = dice.one_in(if next == 1 { 12 } else { 4 });
        if ends {
            let wrong = dice.one_in(self.wrong);
            let value = dice.pick(if wrong {
                &["0", "2", "EOB", ""]
            } else {
                &["1", "eob"]
            });
            lines.push((header::BATCH_COMMIT.to_owned(), value.to_owned()));
        }
        let next = if ends || (is_wrong && dice.one_in(2)) {
            1
        } else {
            next + 1
        };
        self.atomic.insert(id, next);
        self.stored += u64::from(ends) * next.max(2);
        lines.extend(self.own_lines(dice));
        let reply = (!dice.one_in(12)).then_some("_INBOX.q");
        outgoing(dice, reply, &lines)
    }
}

fn new_batch(dice: &mut Dice) -> Batch {
    Batch {
        next: 1,
        flow: dice.pick(&["1", "2", "3", "5", "10", "600", "65536", "0", "x"]),
        gap: dice.pick(&["ok", "fail"]),
    }
}

fn fast_operation(dice: &mut Dice, next: u64) -> &'static str {
    let weights = if next == 1 {
        [14, 2, 3, 1, 1]
    } else {
        [1, 18, 2, 2, 3]
    };
    ["0", "1", "2", "3", "4"][dice.weighted(&weights)]
}

fn wrong_sequence(dice: &mut Dice, right: u64) -> String {
    match dice.range(0, 9) {
        0..=3 => right.saturating_add(dice.range(1, 4)).to_string(),
        4 => right.saturating_add(dice.range(5, 900)).to_string(),
        5..=7 => right.saturating_sub(dice.range(1, 3)).to_string(),
        _ => dice.pick(ODD_SEQUENCES).to_owned(),
    }
}

/// What the batch expects behind this message, if all went well.
fn follow(batch: &mut Batch, operation: &str, sequence: &str) {
    let Ok(sequence) = sequence.parse::<u64>() else {
        return;
    };
    match operation {
        "2" | "3" => batch.next = 1,
        "4" if sequence < batch.next => {}
        _ if sequence < batch.next => batch.next = 1,
        _ if sequence > batch.next && batch.gap == "fail" => batch.next = 1,
        _ => batch.next = sequence.saturating_add(1),
    }
}

fn fast_reply(id: &str, batch: &Batch, sequence: &str, operation: &str) -> String {
    let Batch { flow, gap, .. } = batch;
    format!("_INBOX.{id}.{flow}.{gap}.{sequence}.{operation}.$FI")
}

/// Reply subjects that are nearly those of fast ingest.
fn malformed_reply(dice: &mut Dice) -> String {
    dice.pick(&[
        "_INBOX.A.10.ok.1.5.$FI",
        "_INBOX.A.10.ok.1.-1.$FI",
        "_INBOX.A.10.ok.1.x.$FI",
        "_INBOX.A.10.ok.1.00.$FI",
        "_INBOX.A.10.OK.1.0.$FI",
        "_INBOX.A.10.none.1.0.$FI",
        "_INBOX.A.10.ok.2.0.$FI",
        "_INBOX.A.10.ok.1.1.$FI",
        "_INBOX.A.10.ok.1.3.$FI",
        "_INBOX.A.-5.ok.1.0.$FI",
        "_INBOX.A.1e3.fail.1.0.$FI",
        "_INBOX.ok.1.0.$FI",
        "_INBOX.0.$FI",
        "_INBOX.$FI",
        "A.10.ok.1.0.$FI",
        "_INBOX.A.10.ok.1.0.$fi",
        "_INBOX.A.10.ok.1.0",
        "_INBOX.A.10.ok.1.0.$FI.x",
        "_INBOX.very.long.prefix.A.10.ok.1.0.$FI",
    ])
    .to_owned()
}

/// As a `publish` step.
fn outgoing(
    dice: &mut Dice,
    reply: Option<&str>,
    lines: &[(String, String)],
) -> Map<String, Value> {
    let subject = dice.pick(SUBJECTS);
    let mut message = object(json!({ "publish": subject }));
    if let Some(reply) = reply {
        message.insert("reply".to_owned(), json!(reply));
    }
    let bytes: u64 = *dice.pick(&[&1, &1, &1, &0, &10, &60, &300]);
    message.insert("payload_len".to_owned(), json!(bytes));
    if !lines.is_empty() {
        message.insert("headers".to_owned(), json!(lines));
    }
    message
}
