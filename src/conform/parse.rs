//! Reads vector files: every key is checked, and an error names file, case, step and key.
//!
//! Leans on `vector` and on the input errors of `scenario`.

mod messages;
mod object;

use serde_json::{Map, Value};

use super::vector::{Answer, Case, Step, StepKind, VectorFile};
use crate::nats::wire::Token;
use crate::scenario::InputError;
use messages::{Budget, Payloads, substitute, substitute_in_json};
use object::{Bad, Object};

/// The format written and the newest read.
pub const FORMAT: u64 = 1;
/// Longest `wait_ms`.
const WAIT_MS_MAX: u64 = 600_000;

/// Reads a vector file from its text; `file` names it in errors.
///
/// # Errors
/// The text is no JSON, or is not of the format: the first offence.
pub fn parse(file: &str, text: &str) -> Result<VectorFile, InputError> {
    let value: Value = serde_json::from_str(text).map_err(|error| InputError {
        file: file.to_owned(),
        line: Some(error.line()),
        key: None,
        message: format!("not JSON: {error}"),
    })?;
    whole(file, &value).map_err(|bad| InputError {
        file: file.to_owned(),
        line: None,
        key: bad.place(),
        message: bad.message,
    })
}

fn whole(file: &str, value: &Value) -> Result<VectorFile, Bad> {
    let mut object = Object::of(value)?;
    let format = object.optional_number("format")?.unwrap_or(FORMAT);
    if format > FORMAT {
        let message = format!("{format} is newer than this tidegate, which reads {FORMAT}");
        return Err(Bad::new(message).within("format"));
    }
    let server_version = object.text("server_version")?.to_owned();
    let replicas = object.number("replicas")?;
    object.skip("note");
    let mut cases: Vec<Case> = Vec::new();
    let mut budget = Budget::new();
    let mut names = std::collections::BTreeSet::new();
    for (index, value) in object.list("cases")?.iter().enumerate() {
        let name = value.get("name").and_then(Value::as_str);
        let place = match name {
            Some(name) => format!("case {}", name.escape_debug()),
            None => format!("cases[{index}]"),
        };
        let case = case(value, &server_version, replicas, &mut budget)
            .map_err(|bad| bad.within(&place))?;
        if !names.insert(case.name.clone()) {
            return Err(Bad::new("there is a case of this name already").within(&place));
        }
        cases.push(case);
    }
    object.finish()?;
    Ok(VectorFile {
        file: file.to_owned(),
        server_version,
        replicas,
        cases,
    })
}

fn case(
    value: &Value,
    file_version: &str,
    file_replicas: u64,
    budget: &mut Budget,
) -> Result<Case, Bad> {
    let mut object = Object::of(value)?;
    let name = object.text("name")?.to_owned();
    let server_version = object.optional_text("server_version")?;
    let server_version = server_version.unwrap_or(file_version).to_owned();
    let replicas = object.optional_number("replicas")?.unwrap_or(file_replicas);
    if !matches!(replicas, 1 | 3 | 5) {
        return Err(Bad::new("1, 3 or 5").within("replicas"));
    }
    if let Some(tags) = object.optional("tags") {
        let is_texts = tags
            .as_array()
            .is_some_and(|tags| tags.iter().all(Value::is_string));
        if !is_texts {
            return Err(Bad::new("a list of texts").within("tags"));
        }
    }
    let server_batch_limits = match object.optional("server_batch_limits") {
        None | Some(Value::Null) => None,
        Some(value) => Some(limits(value).map_err(|bad| bad.within("server_batch_limits"))?),
    };
    let final_config = object.map("stream_config")?.clone();
    let required_api_level = object.optional("required_api_level").cloned();
    let create_error = match object.optional("create_error") {
        None => None,
        Some(Value::Object(error)) => Some(Value::Object(error.clone())),
        Some(_) => return Err(Bad::new("an error object").within("create_error")),
    };
    object.skip("note");
    let values = match object.optional("steps") {
        None if create_error.is_some() => &[],
        None => return Err(Bad::new("missing").within("steps")),
        Some(Value::Array(values)) => values.as_slice(),
        Some(_) => return Err(Bad::new("a list of steps").within("steps")),
    };
    let steps = steps(&name, values, budget)?;
    object.finish()?;
    let mut raw = object.map_itself().clone();
    raw.remove("steps");
    Ok(Case {
        initial_config: initial_config(final_config, &steps),
        name,
        server_version,
        replicas,
        server_batch_limits,
        required_api_level,
        create_error,
        steps,
        raw,
    })
}

/// Limits go into a configuration file, so each must be one of the known options with a plain
/// value.
fn limits(value: &Value) -> Result<Map<String, Value>, Bad> {
    let mut object = Object::of(value)?;
    for key in ["max_inflight_per_stream", "max_inflight_total", "max_msgs"] {
        object.optional_number(key)?;
    }
    if let Some(timeout) = object.optional_text("timeout")? {
        let inner = timeout.trim_matches('"');
        let is_duration =
            !inner.is_empty() && inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
        if !is_duration {
            return Err(Bad::new("a duration such as \"\\\"700ms\\\"\"").within("timeout"));
        }
    }
    object.finish()?;
    Ok(object.map_itself().clone())
}

/// The recorded configuration is the one after the last update. A key that an update switches off
/// first was on before; any other key that updates name was absent.
fn initial_config(mut config: Map<String, Value>, steps: &[Step]) -> Map<String, Value> {
    let mut seen = std::collections::BTreeSet::new();
    for step in steps {
        let StepKind::Update { keys, .. } = &step.kind else {
            continue;
        };
        for (key, value) in keys {
            if !seen.insert(key.clone()) {
                continue;
            }
            if *value == Value::Bool(false) {
                config.insert(key.clone(), Value::Bool(true));
            } else {
                config.remove(key);
            }
        }
    }
    config
}

fn steps(case: &str, values: &[Value], budget: &mut Budget) -> Result<Vec<Step>, Bad> {
    let mut payloads = Payloads::new(case, values, budget);
    let mut steps = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let step =
            step(value, &mut payloads).map_err(|bad| bad.within(&format!("step {index}")))?;
        steps.push(step);
    }
    Ok(steps)
}

/// The keys that say what a step is; each step has exactly one of them.
const STEP_KEYS: &[&str] = &[
    "publish",
    "publish_burst",
    "publish_round_robin",
    "fill",
    "expect",
    "wait_ms",
    "stream_update",
    "api",
    "direct_get",
    "stored",
];

fn step(value: &Value, payloads: &mut Payloads<'_>) -> Result<Step, Bad> {
    let mut object = Object::of(value)?;
    let mut kinds = STEP_KEYS.iter().filter(|key| object.has(key));
    let kind = match (kinds.next(), kinds.next()) {
        (Some(kind), None) => *kind,
        (Some(first), Some(second)) => {
            return Err(Bad::new(format!(
                "a step is either `{first}` or `{second}`"
            )));
        }
        (None, _) => {
            let allowed = STEP_KEYS.join(", ");
            return Err(Bad::new(format!(
                "no known step; one of {allowed} is needed"
            )));
        }
    };
    object.skip("note");
    let kind = match kind {
        "publish" => StepKind::Publish(vec![payloads.message(&mut object)?]),
        "publish_burst" => StepKind::Publish(payloads.bursts(object.list("publish_burst")?)?),
        "publish_round_robin" => {
            let value = object.required("publish_round_robin")?;
            let messages = payloads.round_robin(value);
            StepKind::Publish(messages.map_err(|bad| bad.within("publish_round_robin"))?)
        }
        "fill" => {
            let messages = payloads.fill(object.text("fill")?);
            StepKind::Publish(messages.map_err(|bad| bad.within("fill"))?)
        }
        "expect" => expect(&mut object)?,
        "wait_ms" => {
            let milliseconds = object.number("wait_ms")?;
            if milliseconds > WAIT_MS_MAX {
                return Err(Bad::new(format!("at most {WAIT_MS_MAX}")).within("wait_ms"));
            }
            StepKind::Wait(milliseconds)
        }
        "stream_update" => StepKind::Update {
            keys: object.map("stream_update")?.clone(),
            reply: answer(object.required("reply")?)?,
        },
        "api" => api(&mut object)?,
        "direct_get" => direct_get(&mut object)?,
        _ => StepKind::Stored(Value::Object(object.map("stored")?.clone())),
    };
    object.finish()?;
    Ok(Step {
        raw: object.map_itself().clone(),
        kind,
    })
}

/// The keys that an expected reply may have.
const REPLY_KEYS: &[&str] = &[
    "to",
    "body",
    "body_raw",
    "empty",
    "payload",
    "payload_len",
    "status",
    "desc",
    "headers",
    "protocol_error",
    "connection",
];

fn expect(object: &mut Object<'_>) -> Result<StepKind, Bad> {
    let replies = object.list("expect")?;
    for (index, reply) in replies.iter().enumerate() {
        check_reply(reply).map_err(|bad| bad.within(&format!("expect[{index}]")))?;
    }
    let advisories = match object.optional("advisories") {
        None => Vec::new(),
        Some(Value::Array(advisories)) => advisories.clone(),
        Some(_) => return Err(Bad::new("a list of objects").within("advisories")),
    };
    Ok(StepKind::Expect {
        replies: replies.clone(),
        advisories,
    })
}

fn check_reply(reply: &Value) -> Result<(), Bad> {
    let mut object = Object::of(reply)?;
    REPLY_KEYS.iter().for_each(|key| object.skip(key));
    object.finish()?;
    if object.has("protocol_error") {
        return Ok(());
    }
    object.text("to")?;
    let forms = ["body", "body_raw", "empty", "payload_len"];
    if !forms.iter().any(|key| object.has(key)) {
        let message = format!("one of {} is needed", forms.join(", "));
        return Err(Bad::new(message));
    }
    Ok(())
}

fn answer(value: &Value) -> Result<Answer, Bad> {
    match value {
        Value::String(text) if text == "ok" => Ok(Answer::Ok),
        Value::Object(map) if map.len() == 1 && map.contains_key("error") => {
            Ok(Answer::Error(map["error"].clone()))
        }
        _ => Err(Bad::new("\"ok\" or { \"error\": … }").within("reply")),
    }
}

fn api(object: &mut Object<'_>) -> Result<StepKind, Bad> {
    let subject = object.text("api")?;
    if Token::new(subject).is_none() {
        return Err(Bad::new("not a subject").within("api"));
    }
    Ok(StepKind::Api {
        subject: substitute(subject),
        body: match object.optional("body") {
            None => Value::Null,
            Some(body) => substitute_in_json(body),
        },
        reply: object.optional("reply").map(answer).transpose()?,
    })
}

fn direct_get(object: &mut Object<'_>) -> Result<StepKind, Bad> {
    let subject = Token::new(&substitute(object.text("direct_get")?))
        .ok_or_else(|| Bad::new("not a subject").within("direct_get"))?;
    let body = match object.optional("body") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::String(text)) => substitute(text).into_bytes(),
        Some(body) => substitute_in_json(body).to_string().into_bytes(),
    };
    Ok(StepKind::DirectGet { subject, body })
}

#[cfg(test)]
mod tests;
