//! Target: what a server answers, read from any bytes and from what is printed.
//!
//! Leans on `dice` and `nats::ack`.

use std::borrow::Cow;

use tidegate::nats::ack::{
    FlowAck, FlowError, FlowErrorReply, Gap, PubAck, PubAckNames, PubAckReply, ReportedError,
    ServerReply, parse_reply,
};
use tidegate::nats::error_code::{ApiError, Detail, ErrorCode};
use tidegate::nats::{BatchSequence, StreamSequence};

use crate::dice::Dice;

const SAMPLES: &[&str] = &[
    r#"{"type":"ack","seq":0,"msgs":500}"#,
    r#"{"type":"gap","last_seq":3,"seq":5}"#,
    r#"{"type":"err","seq":2,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}"#,
    r#"{"stream":"S","domain":"D","seq":1,"duplicate": true,"batch":"id","count":1}"#,
    r#"{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"},"stream":"S","seq":0}"#,
];
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "1.5",
    "\\u0041",
    "\\ud800",
    "\n",
    " ",
    "99999999999999999999",
    "[[[[[[[[",
    "{\"error\":",
    "\"seq\":1,",
    "\0",
    "\"type\":\"ack\",",
    "é",
    "10208",
    "batch publish ID unknown",
];
const TEXTS: &[&str] = &[
    "a", "\"", "\\", "<", "&", "\u{2028}", "\0", "\n", "é", "…", ": ", "7",
];
/// No error is longer: it keeps no more than an excerpt of what it complains about.
const ERROR_BYTES_MAX: usize = 400;

pub(crate) fn check(input: &[u8]) {
    read(input);
    let mut dice = Dice::new(input);
    let sample = dice.pick(SAMPLES);
    read(&dice.spoiled(sample.as_bytes(), PIECES));
    round_trip(&mut dice);
}

/// Any body is an answer, which can be printed and read again, or a short error.
fn read(body: &[u8]) {
    let reply = match parse_reply(body) {
        Ok(reply) => reply,
        Err(error) => return assert!(error.to_string().len() < ERROR_BYTES_MAX),
    };
    if let Some(printed) = print(&reply) {
        let again = parse_reply(printed.as_bytes());
        assert_eq!(again.ok(), Some(reply), "{printed}");
    }
}

/// The answer as a server prints it; `None` with an error that is not in our list.
fn print(reply: &ServerReply<'_>) -> Option<String> {
    let known = |error: &ReportedError<'_>| match error {
        ReportedError::Known(error) => Some(error.clone()),
        ReportedError::Unknown { .. } => None,
    };
    Some(match reply {
        ServerReply::Ack(ack) => ack.json().to_string(),
        ServerReply::Gap(gap) => gap.json().to_string(),
        ServerReply::Error(reply) => {
            let error = FlowError {
                sequence: reply.sequence,
                error: known(&reply.error)?,
            };
            error.json().to_string()
        }
        ServerReply::PubAck(reply) => {
            let names = PubAckNames {
                stream: &reply.stream,
                domain: reply.domain.as_deref(),
                batch: reply.batch.as_deref(),
            };
            reply.ack.json(names).to_string()
        }
        ServerReply::Refused(error) => known(error)?.refusal_json("S").to_string(),
    })
}

/// Any answer prints as what is read back.
fn round_trip(dice: &mut Dice<'_>) {
    let sequence = BatchSequence(dice.number());
    let code = dice.pick(ErrorCode::ALL);
    let error = ApiError {
        code,
        detail: detail(code, dice),
    };
    let names = [
        dice.text(8, TEXTS),
        dice.text(8, TEXTS),
        dice.text(8, TEXTS),
    ]
    .map(Cow::Owned);
    let [stream, domain, batch] = names;
    let reply = match dice.below(5) {
        0 => ServerReply::Ack(FlowAck {
            sequence,
            messages: (dice.number() as u16).max(1),
        }),
        1 => ServerReply::Gap(Gap {
            expected: sequence,
            received: BatchSequence(dice.number()),
        }),
        2 => ServerReply::Error(FlowErrorReply {
            sequence,
            error: ReportedError::Known(error),
        }),
        3 => ServerReply::Refused(ReportedError::Known(error)),
        _ => ServerReply::PubAck(PubAckReply {
            ack: PubAck {
                sequence: StreamSequence(dice.number()),
                count: dice.flip().then_some(sequence),
                duplicate: dice.flip(),
            },
            stream,
            domain: dice.flip().then_some(domain),
            batch: dice.flip().then_some(batch),
        }),
    };
    let printed = print(&reply).expect("a known error");
    match parse_reply(printed.as_bytes()) {
        Ok(again) => assert_eq!(again, reply, "{printed}"),
        Err(error) => panic!("{printed}: {error}"),
    }
}

/// A detail that fits `code`.
fn detail(code: ErrorCode, dice: &mut Dice<'_>) -> Detail {
    let number = Detail::Number(dice.number());
    let with_number = ApiError {
        code,
        detail: number.clone(),
    };
    // Where a number fits, a text would be taken for one or refused.
    match ApiError::from_parts(code.number(), code.status(), &with_number.to_string()) {
        Some(error) if error == with_number => number,
        Some(error) if error.code != code || error.detail == Detail::None => Detail::None,
        Some(_) | None => Detail::Text(dice.text(8, TEXTS).into()),
    }
}
