//! The messages of a case: single ones, bursts, round robins and fills, with their payloads.
//!
//! Leans on `object`.

use serde_json::Value;

use super::super::vector::{INBOX, Outgoing, STREAM};
use super::object::{Bad, Object};
use crate::nats::wire::Token;

/// Most messages of one file; they are held in memory.
const MESSAGES_MAX: u64 = 500_000;
/// Most payload bytes of one case; a write is put together in memory.
const PAYLOAD_BYTES_MAX: u64 = 256 << 20;
/// The first token of the stream's subjects.
const SUBJECT_ROOT: &str = "t";

/// Messages that the cases of a file may still have.
pub(super) struct Budget {
    messages: u64,
}

impl Budget {
    /// For a new file.
    pub(super) const fn new() -> Self {
        Self {
            messages: MESSAGES_MAX,
        }
    }
}

/// Hands out messages, and keeps what their payloads depend on.
pub(super) struct Payloads<'a> {
    /// Each message repeats the last digit of its index, so that reads can tell them apart.
    digits: bool,
    index: u64,
    bytes: u64,
    budget: &'a mut Budget,
}

impl<'a> Payloads<'a> {
    /// For the steps of a case: the payloads of a case that reads back what it seeded are digits.
    pub(super) fn new(case: &str, steps: &[Value], budget: &'a mut Budget) -> Self {
        let is_publish = |step: &&Value| step.get("publish").is_some();
        let after_seeding = steps
            .iter()
            .find(|step| !is_publish(step))
            .is_none_or(|step| step.get("expect").is_none());
        let seeds = steps.first().is_some_and(|step| is_publish(&step));
        Self {
            digits: case.starts_with("dg-") && seeds && after_seeding,
            index: 0,
            bytes: 0,
            budget,
        }
    }

    /// Counts a message against the limits and gives its filler.
    fn next_filler(&mut self, payload_bytes: u64) -> Result<u8, Bad> {
        let index = self.index;
        self.index += 1;
        self.bytes = self.bytes.saturating_add(payload_bytes);
        let left = self.budget.messages.checked_sub(1);
        self.budget.messages =
            left.ok_or_else(|| Bad::new(format!("a file has at most {MESSAGES_MAX} messages")))?;
        if self.bytes > PAYLOAD_BYTES_MAX {
            let message = format!("a case has at most {PAYLOAD_BYTES_MAX} bytes of payload");
            return Err(Bad::new(message));
        }
        Ok(if self.digits {
            b'0' + (index % 10) as u8
        } else {
            b'x'
        })
    }

    /// A `publish` step.
    pub(super) fn message(&mut self, object: &mut Object<'_>) -> Result<Outgoing, Bad> {
        let subject = token(object.text("publish")?, "publish")?;
        let reply = match object.optional("reply") {
            None | Some(Value::Null) => None,
            Some(Value::String(reply)) => Some(token(reply, "reply")?),
            Some(_) => return Err(Bad::new("a subject or null").within("reply")),
        };
        // These repeat what the reply subject says; the reply subject counts.
        ["id", "flow", "gap", "seq", "op"]
            .iter()
            .for_each(|key| object.skip(key));
        self.outgoing(object, subject, reply)
    }

    /// A `publish_burst` step.
    pub(super) fn bursts(&mut self, bursts: &[Value]) -> Result<Vec<Outgoing>, Bad> {
        let mut messages = Vec::new();
        for (index, burst) in bursts.iter().enumerate() {
            self.burst(burst, &mut messages)
                .map_err(|bad| bad.within(&format!("publish_burst[{index}]")))?;
        }
        Ok(messages)
    }

    fn burst(&mut self, value: &Value, messages: &mut Vec<Outgoing>) -> Result<(), Bad> {
        let mut object = Object::of(value)?;
        let subject = token(object.text("publish")?, "publish")?;
        let pattern = Pattern::of(&mut object)?;
        let id = object.text("id")?;
        for sequence in range(&mut object)? {
            let reply = pattern.reply(id, sequence)?;
            messages.push(self.outgoing(&mut object, subject.clone(), Some(reply))?);
        }
        object.skip("reply");
        object.skip("headers");
        object.skip("payload_len");
        object.finish()
    }

    /// A `publish_round_robin` step.
    pub(super) fn round_robin(&mut self, value: &Value) -> Result<Vec<Outgoing>, Bad> {
        let mut object = Object::of(value)?;
        let subject = token(object.optional_text("publish")?.unwrap_or("t.a"), "publish")?;
        let pattern = Pattern::of(&mut object)?;
        let ids = object.list("ids")?;
        let mut messages = Vec::new();
        for sequence in range(&mut object)? {
            for id in ids {
                let id = id
                    .as_str()
                    .ok_or_else(|| Bad::new("a list of texts").within("ids"))?;
                let reply = pattern.reply(id, sequence)?;
                messages.push(self.outgoing(&mut object, subject.clone(), Some(reply))?);
            }
        }
        object.skip("headers");
        object.skip("payload_len");
        object.finish()?;
        Ok(messages)
    }

    /// A `fill` step, as in `1025 messages, one on each of t.s0 .. t.s1024`.
    pub(super) fn fill(&mut self, text: &str) -> Result<Vec<Outgoing>, Bad> {
        let bad = || Bad::new("as in `1025 messages, one on each of t.s0 .. t.s1024`");
        let (count, rest) = text.split_once(' ').ok_or_else(bad)?;
        let count: u64 = count.replace(',', "").parse().map_err(|_| bad())?;
        let first = rest
            .split_whitespace()
            .find(|word| word.contains('.') && word.ends_with(|c: char| c.is_ascii_digit()))
            .ok_or_else(bad)?;
        let stem = first.trim_end_matches(|c: char| c.is_ascii_digit());
        let start: u64 = first[stem.len()..].parse().map_err(|_| bad())?;
        if count > MESSAGES_MAX {
            return Err(Bad::new(format!("at most {MESSAGES_MAX} messages")));
        }
        (start..start.saturating_add(count))
            .map(|index| {
                self.next_filler(1)?;
                Ok(Outgoing {
                    subject: token(&format!("{stem}{index}"), "fill")?,
                    reply: None,
                    headers: None,
                    payload_bytes: 1,
                    filler: b'x',
                })
            })
            .collect()
    }

    fn outgoing(
        &mut self,
        object: &mut Object<'_>,
        subject: Token,
        reply: Option<Token>,
    ) -> Result<Outgoing, Bad> {
        let payload_bytes = object.optional_number("payload_len")?.unwrap_or(1);
        let headers = object.optional("headers").map(headers).transpose()?;
        Ok(Outgoing {
            subject,
            reply,
            headers,
            filler: self.next_filler(payload_bytes)?,
            payload_bytes: usize::try_from(payload_bytes)
                .map_err(|_| Bad::new("too large").within("payload_len"))?,
        })
    }
}

/// What the reply subjects of a burst have in common.
struct Pattern {
    flow: String,
    gap: String,
    operation: String,
}

impl Pattern {
    fn of(object: &mut Object<'_>) -> Result<Self, Bad> {
        let mut word = |key: &str| match object.required(key)? {
            Value::String(text) => Ok(text.clone()),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(Bad::new("a number or a word").within(key)),
        };
        Ok(Self {
            flow: word("flow")?,
            gap: word("gap")?,
            operation: word("op")?,
        })
    }

    fn reply(&self, id: &str, sequence: u64) -> Result<Token, Bad> {
        let Self {
            flow,
            gap,
            operation,
        } = self;
        let reply = format!("{INBOX}{id}.{flow}.{gap}.{sequence}.{operation}.$FI");
        token(&reply, "id")
    }
}

fn range(object: &mut Object<'_>) -> Result<std::ops::RangeInclusive<u64>, Bad> {
    let from = object.number("from_seq")?;
    let to = object.number("to_seq")?;
    if to < from {
        return Err(Bad::new("below `from_seq`").within("to_seq"));
    }
    Ok(from..=to)
}

fn token(text: &str, key: &str) -> Result<Token, Bad> {
    Token::new(&substitute(text)).ok_or_else(|| {
        Bad::new("a subject: at least one character, no blanks and no line ends").within(key)
    })
}

fn headers(value: &Value) -> Result<Vec<(String, String)>, Bad> {
    let bad = || Bad::new("a list of [name, value], on one line each").within("headers");
    let text = |value: &Value| {
        let text = value.as_str().ok_or_else(bad)?;
        if text.contains(['\r', '\n']) {
            return Err(bad());
        }
        Ok(text.to_owned())
    };
    value
        .as_array()
        .ok_or_else(bad)?
        .iter()
        .map(|line| match line.as_array().map(Vec::as_slice) {
            Some([name, value]) => {
                let name = text(name)?;
                if name.is_empty() || name.contains(':') {
                    return Err(bad());
                }
                Ok((name, substitute(&text(value)?)))
            }
            _ => Err(bad()),
        })
        .collect()
}

/// Puts the names of the run in: `$S` is the stream, `$T` the first token of its subjects. Longer
/// words that start alike, such as `$SYS`, stay.
pub(super) fn substitute(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (head, tail) = rest.split_at(at);
        result.push_str(head);
        let mut letters = tail[1..].chars();
        let name = match letters.next() {
            Some('S') => Some(STREAM),
            Some('T') => Some(SUBJECT_ROOT),
            _ => None,
        };
        let is_whole_word = !letters
            .next()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        match name.filter(|_| is_whole_word) {
            Some(name) => {
                result.push_str(name);
                rest = &tail[2..];
            }
            None => {
                result.push('$');
                rest = &tail[1..];
            }
        }
    }
    result.push_str(rest);
    result
}

/// The same in every text of a JSON value.
pub(super) fn substitute_in_json(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(substitute(text)),
        Value::Array(list) => list.iter().map(substitute_in_json).collect(),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), substitute_in_json(value)))
                .collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
