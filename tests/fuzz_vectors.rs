//! Fuzzing of the reader of recorded exchanges: whatever a file says, it is read or refused with
//! one error that has a message, and never panics or takes all memory.
//!
//! Leans on `conform`.

use serde_json::{Value, json};
use tidegate::conform::parse;

fn reads_or_refuses(text: &str) {
    match parse("fuzz.json", text) {
        Ok(file) => assert!(file.cases.len() <= text.len()),
        Err(error) => assert!(!error.message.is_empty() && error.file == "fuzz.json"),
    }
}

#[test]
fn any_text() {
    bolero::check!()
        .with_type::<String>()
        .for_each(|text| reads_or_refuses(text));
}

/// Values that stand where others are awaited.
fn odd_value(choice: u8) -> Value {
    match choice % 16 {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(u64::MAX),
        4 => json!(1.5),
        5 => json!(""),
        6 => json!("a b\r\n"),
        7 => json!([]),
        8 => json!([[], {}, null]),
        9 => json!({}),
        10 => json!({ "expect": 1 }),
        11 => json!([["A"]]),
        12 => json!("$S$T$$SYS$"),
        13 => json!(1_000_001),
        14 => json!("99999999999999999999 messages on t.s99999999999999999999"),
        _ => json!("t.a"),
    }
}

/// A file with one step of each kind.
fn file() -> Value {
    json!({
        "format": 1, "server_version": "2.15.1", "replicas": 1,
        "cases": [{
            "name": "dg-all", "server_version": "2.15.1", "replicas": 1, "tags": ["fast"],
            "server_batch_limits": { "max_inflight_per_stream": 2, "timeout": "\"700ms\"" },
            "stream_config": { "name": "S", "subjects": ["t.>"], "max_msgs": 3 },
            "required_api_level": "4",
            "create_error": { "code": 400 },
            "note": "all of it",
            "steps": [
                { "publish": "t.a", "reply": "_INBOX.A", "payload_len": 3,
                  "headers": [["Nats-Msg-Id", "$S"]], "id": "A", "seq": 1 },
                { "publish_burst": [{ "publish": "t.a", "id": "A", "flow": 10, "gap": "ok", "op": 1,
                                      "from_seq": 2, "to_seq": 9, "payload_len": 1 }] },
                { "publish_round_robin": { "ids": ["A", "B"], "flow": 10, "gap": "ok", "op": 1,
                                           "from_seq": 2, "to_seq": 9, "payload_len": 1 } },
                { "fill": "5 messages, one on each of t.s0 .. t.s4" },
                { "expect": [{ "to": "A", "body": { "seq": 1 } }], "advisories": [{ "id": "x" }] },
                { "wait_ms": 10 },
                { "stream_update": { "max_msgs": 3 }, "reply": "ok" },
                { "api": "STREAM.PURGE.S", "body": null, "reply": { "error": { "code": 1 } } },
                { "direct_get": "$JS.API.DIRECT.GET.S", "body": { "multi_last": ["$T.>"] } },
                { "stored": { "messages": 0, "msgs": [] } },
            ],
        }],
    })
}

/// All places in a value, as JSON pointers.
fn places(value: &Value, here: &str, out: &mut Vec<String>) {
    out.push(here.to_owned());
    match value {
        Value::Object(map) => map
            .iter()
            .for_each(|(key, value)| places(value, &format!("{here}/{key}"), out)),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .for_each(|(index, value)| places(value, &format!("{here}/{index}"), out)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn any_value_in_any_place() {
    let mut all = Vec::new();
    places(&file(), "", &mut all);
    assert!(parse("whole.json", &file().to_string()).is_ok());
    bolero::check!()
        .with_type::<Vec<(u16, u8)>>()
        .for_each(|changes| {
            let mut file = file();
            for (place, choice) in changes.iter().take(4) {
                let place = &all[usize::from(*place) % all.len()];
                if let Some(value) = file.pointer_mut(place) {
                    *value = odd_value(*choice);
                }
            }
            reads_or_refuses(&file.to_string());
        });
}
