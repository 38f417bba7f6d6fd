//! Whether what came is what was recorded: exact, but for what the recording marks as volatile.
//!
//! Leans on `vector`.

use serde_json::{Map, Value};

use super::vector::VOLATILE;

/// Whether `got` equals `expected` as JSON, with wildcards in `expected`.
pub(super) fn matches(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::String(text), _) if text == VOLATILE => true,
        (Value::Object(expected), Value::Object(got)) => {
            expected.len() == got.len()
                && expected
                    .iter()
                    .all(|(key, value)| got.get(key).is_some_and(|got| matches(value, got)))
        }
        (Value::Array(expected), Value::Array(got)) => {
            expected.len() == got.len() && expected.iter().zip(got).all(|(e, g)| matches(e, g))
        }
        _ => expected == got,
    }
}

/// Whether these replies came: all of them, no other, in this order.
pub(super) fn replies_match(expected: &[Value], got: &[Value]) -> bool {
    expected.len() == got.len() && expected.iter().zip(got).all(|(e, g)| reply_matches(e, g))
}

/// Whether the same advisories came, in any order.
pub(super) fn advisories_match(expected: &[Value], got: &[Value]) -> bool {
    let mut left: Vec<&Value> = got.iter().collect();
    let all_found = expected.iter().all(|expected| {
        let found = left.iter().position(|got| matches(expected, got));
        found.map(|index| left.swap_remove(index)).is_some()
    });
    all_found && left.is_empty()
}

/// For one write to a replicated stream: gaps and errors leave on receipt, acks and PubAcks on apply, so
/// how they interleave is a matter of timing. Each type in its own order, and the flow ack of the last
/// messages may be missing where an end of batch overtook it.
pub(super) fn replies_match_by_type(expected: &[Value], got: &[Value]) -> bool {
    let of_type = |replies: &[Value], wanted: ReplyType| -> Vec<Value> {
        let of_type = replies.iter().filter(|reply| reply_type(reply) == wanted);
        of_type.cloned().collect()
    };
    [ReplyType::Gap, ReplyType::PubAck, ReplyType::Other]
        .into_iter()
        .all(|wanted| replies_match(&of_type(expected, wanted), &of_type(got, wanted)))
        && acks_match(
            &of_type(expected, ReplyType::Ack),
            &of_type(got, ReplyType::Ack),
            ends_with_eob(expected),
        )
}

/// The acks agree, or one of both lists has one more at its end and an end of batch allows that.
fn acks_match(expected: &[Value], got: &[Value], may_miss_last: bool) -> bool {
    if replies_match(expected, got) {
        return true;
    }
    let without_last = |list: &[Value]| list.split_last().map(|(_, head)| head.to_vec());
    may_miss_last
        && (without_last(expected).is_some_and(|head| replies_match(&head, got))
            || without_last(got).is_some_and(|head| replies_match(expected, &head)))
}

/// Whether the last reply is the PubAck of an end of batch (operation 3).
fn ends_with_eob(replies: &[Value]) -> bool {
    replies.last().is_some_and(|reply| {
        let to = reply.get("to").and_then(Value::as_str).unwrap_or_default();
        to.ends_with(".3.$FI") && reply.pointer("/body/batch").is_some()
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplyType {
    Ack,
    Gap,
    PubAck,
    Other,
}

fn reply_type(reply: &Value) -> ReplyType {
    match reply.pointer("/body/type").and_then(Value::as_str) {
        Some("ack") => ReplyType::Ack,
        Some("gap") => ReplyType::Gap,
        None if is_pub_ack(reply) => ReplyType::PubAck,
        _ => ReplyType::Other,
    }
}

fn is_pub_ack(reply: &Value) -> bool {
    reply.pointer("/body/seq").is_some() && reply.pointer("/body/error").is_none()
}

/// A reply; text in `body_raw` counts as the JSON that it holds.
fn reply_matches(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Object(expected), Value::Object(got)) => {
            matches(&parsed(expected), &parsed(got)) || connection_matches(expected, got)
        }
        _ => matches(expected, got),
    }
}

fn parsed(reply: &Map<String, Value>) -> Value {
    let mut reply = reply.clone();
    if let Some(raw) = reply.get_mut("body_raw") {
        let json = raw
            .as_str()
            .and_then(|text| serde_json::from_str(text).ok());
        if let Some(json) = json {
            *raw = json;
        }
    }
    Value::Object(reply)
}

/// A closed connection is a closed connection, whichever way the recording words it.
fn connection_matches(expected: &Map<String, Value>, got: &Map<String, Value>) -> bool {
    let is_closed = |reply: &Map<String, Value>| {
        let connection = reply.get("connection").and_then(Value::as_str);
        connection.is_some_and(|text| text.starts_with("closed"))
    };
    expected.contains_key("protocol_error")
        && is_closed(expected)
        && is_closed(got)
        && got
            .get("protocol_error")
            .is_some_and(|lines| matches(&expected["protocol_error"], lines))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ack(sequence: u64) -> Value {
        json!({ "to": "A", "body": { "type": "ack", "seq": sequence, "msgs": 5 } })
    }

    fn gap(sequence: u64) -> Value {
        json!({ "to": "A", "body": { "type": "gap", "last_seq": 1, "seq": sequence } })
    }

    #[test]
    fn volatile_needs_the_key() {
        let expected = json!({ "id": VOLATILE, "reason": "timeout" });
        assert!(matches(
            &expected,
            &json!({ "id": "x", "reason": "timeout" })
        ));
        assert!(!matches(&expected, &json!({ "reason": "timeout" })));
        assert!(!matches(
            &expected,
            &json!({ "id": "x", "reason": "timeout", "more": 1 })
        ));
    }

    #[test]
    fn order_and_completeness_count() {
        assert!(replies_match(&[ack(1), ack(2)], &[ack(1), ack(2)]));
        assert!(!replies_match(&[ack(1), ack(2)], &[ack(2), ack(1)]));
        assert!(!replies_match(&[ack(1)], &[ack(1), ack(2)]));
        assert!(!replies_match(&[ack(1), ack(2)], &[ack(1)]));
    }

    #[test]
    fn advisories_are_a_set_with_counts() {
        let (a, b) = (json!({ "batch": "A" }), json!({ "batch": "B" }));
        assert!(advisories_match(
            &[a.clone(), b.clone()],
            &[b.clone(), a.clone()]
        ));
        assert!(!advisories_match(&[a.clone(), a.clone()], &[a.clone(), b]));
        assert!(!advisories_match(&[], &[a]));
    }

    #[test]
    fn by_type_forgives_interleaving_and_nothing_else() {
        let expected = [gap(3), ack(1), gap(9), ack(5)];
        assert!(replies_match_by_type(
            &expected,
            &[gap(3), gap(9), ack(1), ack(5)]
        ));
        assert!(!replies_match_by_type(
            &expected,
            &[gap(9), gap(3), ack(1), ack(5)]
        ));
        assert!(!replies_match_by_type(&expected, &[gap(3), gap(9), ack(1)]));
    }

    #[test]
    fn by_type_errors_may_come_before_pub_acks() {
        let pub_ack = |sequence: u64| json!({ "to": "p", "body": { "seq": sequence } });
        let error = json!({ "to": "A", "body": { "error": { "code": 400 }, "seq": 0 } });
        let expected = [error.clone(), pub_ack(1), pub_ack(2)];
        let got = [pub_ack(1), error.clone(), pub_ack(2)];
        assert!(replies_match_by_type(&expected, &got));
        let got = [pub_ack(2), error, pub_ack(1)];
        assert!(!replies_match_by_type(&expected, &got));
    }

    #[test]
    fn by_type_an_end_of_batch_may_overtake_the_last_ack() {
        let commit = json!({ "to": "A.5.ok.6.3.$FI", "body": { "batch": "A", "count": 5 } });
        assert!(replies_match_by_type(
            &[ack(5), commit.clone()],
            std::slice::from_ref(&commit)
        ));
        assert!(replies_match_by_type(
            std::slice::from_ref(&commit),
            &[ack(5), commit.clone()]
        ));
        assert!(!replies_match_by_type(
            &[ack(1), ack(5), commit.clone()],
            &[commit]
        ));
    }

    #[test]
    fn text_outside_the_inbox_is_compared_as_json() {
        let expected = json!({ "to": "Z", "body_raw": "{\"a\":1,\"b\":2}" });
        let got = json!({ "to": "Z", "body_raw": "{ \"b\":2, \"a\":1 }" });
        assert!(replies_match(&[expected], &[got]));
    }
}
