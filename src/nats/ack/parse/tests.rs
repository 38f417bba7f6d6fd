//! Tests of reading answers, table by table. Leans on `ack` and `error_code`.

use super::*;
use crate::nats::ack::{FlowError, PubAckNames};
use crate::nats::error_code::{Detail, ErrorCode};

fn parse(body: &str) -> ServerReply<'_> {
    match parse_reply(body.as_bytes()) {
        Ok(reply) => reply,
        Err(error) => panic!("{body}: {error}"),
    }
}

fn refuse(body: &[u8]) -> ReplyError {
    match parse_reply(body) {
        Ok(reply) => panic!("{}: {reply:?}", String::from_utf8_lossy(body)),
        Err(error) => error,
    }
}

fn flow_ack(sequence: u64, messages: u16) -> FlowAck {
    FlowAck {
        sequence: BatchSequence(sequence),
        messages,
    }
}

fn gap(expected: u64, received: u64) -> Gap {
    Gap {
        expected: BatchSequence(expected),
        received: BatchSequence(received),
    }
}

fn pub_ack(sequence: u64, count: Option<u64>, duplicate: bool) -> PubAck {
    PubAck {
        sequence: StreamSequence(sequence),
        count: count.map(BatchSequence),
        duplicate,
    }
}

fn known(code: ErrorCode, detail: Detail) -> ReportedError<'static> {
    ReportedError::Known(ApiError::new(code, detail))
}

#[test]
fn the_answers_are_told_apart() {
    for (body, reply) in [
        (
            r#"{"type":"ack","seq":0,"msgs":500}"#,
            ServerReply::Ack(flow_ack(0, 500)),
        ),
        (
            r#"{"type":"gap","last_seq":3,"seq":5}"#,
            ServerReply::Gap(gap(3, 5)),
        ),
        (
            r#"{"type":"err","seq":2,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}"#,
            ServerReply::Error(FlowErrorReply {
                sequence: BatchSequence(2),
                error: known(ErrorCode::WrongLastSequence, Detail::Number(9)),
            }),
        ),
        (
            r#"{"stream":"S","seq":1}"#,
            ServerReply::PubAck(PubAckReply {
                ack: pub_ack(1, None, false),
                stream: "S".into(),
                domain: None,
                batch: None,
            }),
        ),
        (
            r#"{"stream":"S","domain":"D","seq":1,"duplicate": true,"batch":"zz","count":1}"#,
            ServerReply::PubAck(PubAckReply {
                ack: pub_ack(1, Some(1), true),
                stream: "S".into(),
                domain: Some("D".into()),
                batch: Some("zz".into()),
            }),
        ),
        (
            r#"{"error":{"code":400,"err_code":10208,"description":"batch publish ID unknown"},"stream":"S","seq":0}"#,
            ServerReply::Refused(known(ErrorCode::BatchUnknown, Detail::None)),
        ),
    ] {
        assert_eq!(parse(body), reply, "{body}");
    }
}

#[test]
fn order_white_space_unknown_fields_and_nulls_make_no_difference() {
    for body in [
        r#"{"msgs":7,"seq":9,"type":"ack"}"#,
        " \t\r\n{ \"type\" : \"ack\" , \"seq\" : 9 , \"msgs\" : 7 } \n",
        r#"{"type":"ack","seq":9,"msgs":7,"new":{"deep":[1,{"x":null}]},"other":-1.5e9}"#,
        r#"{"type":"ack","seq":9,"msgs":7,"stream":null,"error":null}"#,
        r#"{"t\u0079pe":"\u0061ck","seq":9,"msgs":7}"#,
    ] {
        assert_eq!(parse(body), ServerReply::Ack(flow_ack(9, 7)), "{body}");
    }
    let reply = parse(
        r#"{"type":null,"error":null,"seq":4,"batch":null,"count":null,"stream":"S","duplicate":null}"#,
    );
    let expected = PubAckReply {
        ack: pub_ack(4, None, false),
        stream: "S".into(),
        domain: None,
        batch: None,
    };
    assert_eq!(reply, ServerReply::PubAck(expected));
}

#[test]
fn an_error_outside_the_list_keeps_its_text() {
    for (error, number, status, description) in [
        (
            r#"{"code":418,"err_code":12345,"description":"tea \u003c pot"}"#,
            12_345,
            418,
            "tea < pot",
        ),
        // Known by number, and yet another text or status than the list has.
        (
            r#"{"code":400,"err_code":10208,"description":"who?"}"#,
            10_208,
            400,
            "who?",
        ),
        (
            r#"{"code":404,"err_code":10208,"description":"batch publish ID unknown"}"#,
            10_208,
            404,
            "batch publish ID unknown",
        ),
        (r#"{"code":500,"err_code":0}"#, 0, 500, ""),
    ] {
        let body = format!(r#"{{"error":{error},"stream":"S","seq":0}}"#);
        let expected = ReportedError::Unknown {
            number,
            status,
            description: description.into(),
        };
        assert_eq!((expected.number(), expected.status()), (number, status));
        assert_eq!(expected.to_string(), description);
        assert_eq!(parse(&body), ServerReply::Refused(expected), "{body}");
    }
}

#[test]
fn a_known_error_prints_its_parts_again() {
    let error = known(
        ErrorCode::StoreFailed,
        Detail::Text("maximum messages exceeded".into()),
    );
    assert_eq!((error.number(), error.status()), (10_077, 503));
    assert_eq!(error.to_string(), "maximum messages exceeded");
}

#[test]
fn what_is_missing_is_named() {
    for (body, field) in [
        (r#"{"type":"ack","msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":1}"#, "msgs"),
        (r#"{"type":"ack","seq":null,"msgs":1}"#, "seq"),
        (r#"{"type":"gap","seq":1}"#, "last_seq"),
        (r#"{"type":"gap","last_seq":1}"#, "seq"),
        (r#"{"type":"err","seq":1}"#, "error"),
        (r#"{"type":"err","error":{"code":400,"err_code":1}}"#, "seq"),
        (
            r#"{"type":"err","seq":1,"error":{"err_code":1}}"#,
            "error.code",
        ),
        (r#"{"error":{"code":400}}"#, "error.err_code"),
        (r#"{"error":{}}"#, "error.code"),
        ("{}", "stream"),
        (r#"{"seq":1}"#, "stream"),
        (r#"{"stream":"S"}"#, "seq"),
    ] {
        match refuse(body.as_bytes()) {
            ReplyError::Missing(found) => assert_eq!(found, field, "{body}"),
            other => panic!("{body}: {other}"),
        }
    }
}

#[test]
fn what_is_of_the_wrong_kind_or_out_of_range_is_named() {
    for (body, field) in [
        (r#"{"type":1}"#, "type"),
        (r#"{"type":["ack"]}"#, "type"),
        (r#"{"type":"ack","seq":"1","msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":-1,"msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":1.5,"msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":1e3,"msgs":1}"#, "seq"),
        (
            r#"{"type":"ack","seq":18446744073709551616,"msgs":1}"#,
            "seq",
        ),
        (r#"{"type":"ack","seq":{"seq":1},"msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":true,"msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":[1],"msgs":1}"#, "seq"),
        (r#"{"type":"ack","seq":1,"msgs":0}"#, "msgs"),
        (r#"{"type":"ack","seq":1,"msgs":65536}"#, "msgs"),
        (r#"{"type":"gap","last_seq":false,"seq":1}"#, "last_seq"),
        (r#"{"type":"err","seq":1,"error":"no"}"#, "error"),
        (r#"{"type":"err","seq":1,"error":[]}"#, "error"),
        (r#"{"error":false}"#, "error"),
        (r#"{"error":{"code":70000,"err_code":1}}"#, "error.code"),
        (r#"{"error":{"code":400,"err_code":"1"}}"#, "error.err_code"),
        (
            r#"{"error":{"code":400,"err_code":1,"description":2}}"#,
            "error.description",
        ),
        (r#"{"stream":7,"seq":1}"#, "stream"),
        (r#"{"stream":"S","seq":1,"domain":{}}"#, "domain"),
        (r#"{"stream":"S","seq":1,"batch":[]}"#, "batch"),
        (r#"{"stream":"S","seq":1,"count":"1"}"#, "count"),
        (r#"{"stream":"S","seq":1,"duplicate":1}"#, "duplicate"),
    ] {
        match refuse(body.as_bytes()) {
            ReplyError::Field { field: found, .. } => assert_eq!(found, field, "{body}"),
            other => panic!("{body}: {other}"),
        }
    }
}

#[test]
fn what_is_no_answer_at_all_says_so() {
    for body in ["", " ", "\r\n\t"] {
        assert!(
            matches!(refuse(body.as_bytes()), ReplyError::Empty),
            "{body:?}"
        );
    }
    for body in [
        "[]",
        r#"["ack",0,1]"#,
        "null",
        "7",
        r#""ack""#,
        "x",
        "+OK",
        "\u{feff}{}",
    ] {
        assert!(
            matches!(refuse(body.as_bytes()), ReplyError::NotAnObject),
            "{body}"
        );
    }
    for body in [
        "{",
        "{}}",
        r#"{"type":"ack","seq":1,"msgs":1}{"#,
        r#"{"type":"ack","seq":01,"msgs":1}"#,
        r#"{"type":"ack","seq":1e999,"msgs":1}"#,
        r#"{"type":"ack","seq":1,"seq":2,"msgs":1}"#,
        r#"{"type":"ack","seq":NaN,"msgs":1}"#,
        r#"{"type":"\ud800"}"#,
        "{\"type\":\"a\nck\"}",
    ] {
        assert!(
            matches!(refuse(body.as_bytes()), ReplyError::Malformed(_)),
            "{body}"
        );
    }
    assert!(matches!(
        refuse(b"{\"stream\":\"\xff\",\"seq\":1}"),
        ReplyError::Malformed(_)
    ));
    match refuse(br#"{"type":"io.nats.jetstream.api.v1.stream_info_response"}"#) {
        ReplyError::UnknownType(name) => assert!(name.starts_with("io.nats."), "{name}"),
        other => panic!("{other}"),
    }
    let long = format!(r#"{{"type":"{}"}}"#, "é".repeat(100_000));
    assert!(refuse(long.as_bytes()).to_string().len() < 200);
}

#[test]
fn depth_does_not_matter() {
    for (open, close) in [("[", "]"), (r#"{"code":"#, "}"), (r#"{"x":"#, "}")] {
        let nested = format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
        for field in ["unknown", "seq", "error", "type", "stream"] {
            let body = format!(r#"{{"{field}":{nested}}}"#);
            refuse(body.as_bytes());
            // Cut off in the middle.
            refuse(&body.as_bytes()[..body.len() / 2]);
        }
        let body = format!(r#"{{"unknown":{nested},"type":"ack","seq":1,"msgs":1}}"#);
        assert_eq!(parse(&body), ServerReply::Ack(flow_ack(1, 1)));
    }
}

#[test]
fn texts_without_escapes_are_borrowed() {
    let ServerReply::PubAck(reply) = parse(r#"{"stream":"S","batch":"a\u0062","seq":1}"#) else {
        panic!("a PubAck");
    };
    assert!(matches!(reply.stream, Cow::Borrowed("S")));
    assert_eq!(reply.batch, Some(Cow::Owned("ab".to_owned())));
}

#[test]
fn what_is_printed_is_read_back() {
    let ack = flow_ack(u64::MAX, u16::MAX);
    assert_eq!(parse(&ack.json().to_string()), ServerReply::Ack(ack));
    let gap = gap(u64::MAX, 0);
    assert_eq!(parse(&gap.json().to_string()), ServerReply::Gap(gap));
    let detail = Detail::Text("\u{0}\"\\<&>\u{2028}é".into());
    let error = ApiError::new(ErrorCode::WrongLastMessageId, detail);
    let refusal = error.refusal_json("S<").to_string();
    let reported = ReportedError::Known(error.clone());
    assert_eq!(parse(&refusal), ServerReply::Refused(reported.clone()));
    let flow_error = FlowError {
        sequence: BatchSequence(3),
        error,
    };
    let expected = FlowErrorReply {
        sequence: BatchSequence(3),
        error: reported,
    };
    assert_eq!(
        parse(&flow_error.json().to_string()),
        ServerReply::Error(expected)
    );
    for (count, duplicate) in [(None, false), (Some(0), true), (Some(u64::MAX), false)] {
        let ack = pub_ack(12, count, duplicate);
        let names = PubAckNames {
            stream: "S\u{1}",
            domain: Some("D"),
            batch: count.map(|_| "\"\\\u{7f}\n"),
        };
        let expected = PubAckReply {
            ack,
            stream: names.stream.into(),
            domain: names.domain.map(Cow::from),
            batch: names.batch.map(Cow::from),
        };
        assert_eq!(
            parse(&ack.json(names).to_string()),
            ServerReply::PubAck(expected)
        );
    }
}
