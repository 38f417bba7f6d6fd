//! The reader of vector files: what it makes of steps, and how it names what is wrong.

use serde_json::{Value, json};

use super::super::vector::{Outgoing, StepKind, VectorFile};
use super::parse;
use crate::scenario::InputError;

fn read_case(case: &Value) -> Result<VectorFile, InputError> {
    let file = json!({ "server_version": "2.15.1", "replicas": 1, "cases": [case] });
    parse("cases.json", &file.to_string())
}

fn read_steps(name: &str, steps: &Value) -> Result<VectorFile, InputError> {
    read_case(&json!({ "name": name, "stream_config": { "name": "S" }, "steps": steps }))
}

fn messages(name: &str, steps: &Value) -> Vec<Outgoing> {
    let file = read_steps(name, steps).unwrap();
    let of_step = |kind: &StepKind| match kind {
        StepKind::Publish(messages) => messages.clone(),
        _ => Vec::new(),
    };
    let steps = file.cases[0].steps.iter();
    steps.flat_map(|step| of_step(&step.kind)).collect()
}

fn replies(messages: &[Outgoing]) -> Vec<&str> {
    let replies = messages.iter().filter_map(|message| message.reply.as_ref());
    replies.map(crate::nats::wire::Token::as_str).collect()
}

#[test]
fn a_key_that_an_update_switches_off_was_on_before() {
    let file = read_case(&json!({
        "name": "fi-x",
        "stream_config": {
            "name": "S", "allow_batched": true, "sealed": true, "allow_atomic": true, "max_msgs": 9
        },
        "steps": [
            { "stream_update": { "allow_batched": false }, "reply": "ok" },
            { "stream_update": { "allow_batched": true, "sealed": true }, "reply": "ok" },
            { "stream_update": { "allow_atomic": true }, "reply": { "error": { "code": 500 } } },
        ],
    }))
    .unwrap();
    let expected = json!({ "name": "S", "allow_batched": true, "max_msgs": 9 });
    assert_eq!(
        Value::Object(file.cases[0].initial_config.clone()),
        expected
    );
}

#[test]
fn bursts_and_round_robins_count_their_sequences_up() {
    let steps = json!([{ "publish_burst": [
        { "publish": "t.b", "id": "A", "flow": 10, "gap": "ok", "op": 1, "from_seq": 2, "to_seq": 3,
          "payload_len": 7 },
        { "publish": "t.c", "id": "B", "flow": "x", "gap": "fail", "op": 4, "from_seq": 9, "to_seq": 9 },
    ] }]);
    let burst = messages("fi-x", &steps);
    let expected = [
        "_INBOX.A.10.ok.2.1.$FI",
        "_INBOX.A.10.ok.3.1.$FI",
        "_INBOX.B.x.fail.9.4.$FI",
    ];
    assert_eq!(replies(&burst), expected);
    let lengths: Vec<usize> = burst.iter().map(|message| message.payload_bytes).collect();
    assert_eq!(lengths, [7, 7, 1]);

    let steps = json!([{ "publish_round_robin": {
        "ids": ["A", "B"], "flow": 5, "gap": "ok", "op": 1, "from_seq": 2, "to_seq": 3 } }]);
    let robin = messages("fi-x", &steps);
    let expected = [
        "_INBOX.A.5.ok.2.1.$FI",
        "_INBOX.B.5.ok.2.1.$FI",
        "_INBOX.A.5.ok.3.1.$FI",
        "_INBOX.B.5.ok.3.1.$FI",
    ];
    assert_eq!(replies(&robin), expected);
    assert!(
        robin
            .iter()
            .all(|message| message.subject.as_str() == "t.a")
    );
}

#[test]
fn seeded_messages_of_direct_get_repeat_their_digit() {
    let fillers = |name: &str, last: Value| {
        let publish = json!({ "publish": "t.a", "reply": "_INBOX.r", "payload_len": 2 });
        let mut steps = vec![publish; 11];
        steps.push(last);
        let messages = messages(name, &Value::Array(steps));
        let fillers: Vec<u8> = messages.iter().map(|message| message.filler).collect();
        String::from_utf8(fillers).unwrap()
    };
    let get = json!({ "direct_get": "$JS.API.DIRECT.GET.S", "body": "" });
    assert_eq!(fillers("dg-x", get.clone()), "01234567890");
    assert_eq!(fillers("dg-x", json!({ "expect": [] })), "xxxxxxxxxxx");
    assert_eq!(fillers("fi-x", get), "xxxxxxxxxxx");
}

#[test]
fn a_fill_numbers_its_subjects() {
    let steps = json!([{ "fill": "1,025 messages, one on each of t.s0 .. t.s1024" }]);
    let fill = messages("dg-x", &steps);
    assert_eq!(fill.len(), 1_025);
    assert_eq!(fill[0].subject.as_str(), "t.s0");
    assert_eq!(fill[1_024].subject.as_str(), "t.s1024");
    assert!(fill.iter().all(|message| message.reply.is_none()));
}

#[test]
fn names_of_the_run_are_put_in() {
    let steps = json!([
        { "publish": "$T.a", "reply": "_INBOX.A.1.ok.1.0.$FI",
          "headers": [["Nats-Expected-Stream", "$S"], ["A", "$SYS $T"]] },
        { "direct_get": "$JS.API.DIRECT.GET.$S", "body": { "multi_last": ["$T.>"] } },
    ]);
    let sent = messages("fi-x", &steps);
    assert_eq!(sent[0].subject.as_str(), "t.a");
    let headers = sent[0].headers.as_ref().unwrap();
    assert_eq!(headers[0].1, "S");
    assert_eq!(headers[1].1, "$SYS t");
    let file = read_steps("dg-x", &steps).unwrap();
    let StepKind::DirectGet { subject, body } = &file.cases[0].steps[1].kind else {
        panic!("no direct get");
    };
    assert_eq!(subject.as_str(), "$JS.API.DIRECT.GET.S");
    assert_eq!(body, br#"{"multi_last":["t.>"]}"#);
}

/// Each bad step gives one error that names the step, the key and what is allowed.
#[test]
fn bad_steps_are_named() {
    let burst = |key: &str, value: Value| {
        let mut burst = json!({ "publish": "t.a", "id": "A", "flow": 1, "gap": "ok", "op": 1,
                                "from_seq": 2, "to_seq": 3 });
        burst[key] = value;
        json!({ "publish_burst": [burst] })
    };
    let cases: &[(Value, &str, &str)] = &[
        (json!(1), "step 0", "an object"),
        (json!({}), "step 0", "no known step"),
        (
            json!({ "publish": "t.a", "wait_ms": 1 }),
            "step 0",
            "either",
        ),
        (json!({ "publish": "a b" }), "step 0: publish", "a subject"),
        (
            json!({ "publish": "t.a", "reply": "" }),
            "step 0: reply",
            "a subject",
        ),
        (
            json!({ "publish": "t.a", "rply": "x" }),
            "step 0",
            "unknown key `rply`",
        ),
        (
            json!({ "publish": "t.a", "payload_len": -1 }),
            "step 0: payload_len",
            "whole number",
        ),
        (
            json!({ "publish": "t.a", "payload_len": 1_u64 << 40 }),
            "step 0",
            "bytes of payload",
        ),
        (
            json!({ "publish": "t.a", "headers": [["a"]] }),
            "step 0: headers",
            "[name, value]",
        ),
        (
            json!({ "publish": "t.a", "headers": [["a", "b\r\nc"]] }),
            "step 0: headers",
            "one line",
        ),
        (
            burst("to_seq", json!(1)),
            "step 0: publish_burst[0]: to_seq",
            "below",
        ),
        (
            burst("to_seq", json!(u64::MAX)),
            "step 0: publish_burst[0]",
            "messages",
        ),
        (
            burst("id", json!("a b")),
            "step 0: publish_burst[0]: id",
            "a subject",
        ),
        (json!({ "fill": "many" }), "step 0: fill", "as in"),
        (json!({ "wait_ms": 600_001 }), "step 0: wait_ms", "at most"),
        (
            json!({ "expect": [{ "to": "A" }] }),
            "step 0: expect[0]",
            "one of body",
        ),
        (
            json!({ "expect": [{ "body": {} }] }),
            "step 0: expect[0]: to",
            "missing",
        ),
        (
            json!({ "expect": [], "advisories": 1 }),
            "step 0: advisories",
            "a list",
        ),
        (
            json!({ "stream_update": {}, "reply": "no" }),
            "step 0: reply",
            "\"ok\"",
        ),
        (json!({ "api": "" }), "step 0: api", "not a subject"),
        (json!({ "stored": [] }), "step 0: stored", "an object"),
    ];
    for (step, place, message) in cases {
        let error = read_steps("fi-x", &json!([step])).unwrap_err();
        assert_eq!(
            error.key.as_deref(),
            Some(format!("case fi-x: {place}").as_str()),
            "{step}"
        );
        assert!(error.message.contains(message), "{step}: {error}");
    }
}

#[test]
fn bad_cases_and_files_are_named() {
    let whole = |file: Value| parse("f.json", &file.to_string()).unwrap_err().to_string();
    let case = json!({ "name": "fi-x", "stream_config": {}, "steps": [] });
    let with = |key: &str, value: Value| {
        let mut case = case.clone();
        case[key] = value;
        read_case(&case).unwrap_err().to_string()
    };
    let file = |key: &str, value: Value| {
        let mut file = json!({ "server_version": "1", "replicas": 1, "cases": [case] });
        file[key] = value;
        whole(file)
    };
    for (error, part) in [
        (
            parse("f.json", "{\n]").unwrap_err().to_string(),
            "f.json:2: not JSON",
        ),
        (whole(json!([])), "f.json: an object"),
        (whole(json!({})), "f.json: server_version: missing"),
        (file("format", json!(2)), "f.json: format: 2 is newer"),
        (
            file("cases", json!([case, case])),
            "case fi-x: there is a case of this name",
        ),
        (file("cases", json!([{}])), "cases[0]: name: missing"),
        (file("more", json!(1)), "unknown key `more`"),
        (with("replicas", json!(2)), "case fi-x: replicas: 1, 3 or 5"),
        (with("tags", json!([1])), "case fi-x: tags"),
        (
            with("server_batch_limits", json!({ "x": 1 })),
            "unknown key `x`",
        ),
        (
            with("server_batch_limits", json!({ "timeout": "1s\n}" })),
            "timeout",
        ),
        (with("create_error", json!(1)), "case fi-x: create_error"),
        (with("steps", json!({})), "case fi-x: steps: a list"),
    ] {
        assert!(error.contains(part), "`{part}` in `{error}`");
    }
}
