//! Target: the fast-ingest reply subject, against a second reading of its rules.
//!
//! Leans on `dice` and `nats::reply`.

use tidegate::nats::reply::{
    BATCH_ID_BYTES_MAX, FastReply, Parsed, ReplyPrefix, SEQUENCE_MAX, parse,
};
use tidegate::nats::{BatchSequence, GapMode, Operation};

use crate::dice::Dice;

const PREFIXES: &[&str] = &["_INBOX", "_INBOX.a.b", "", "x.", "é"];
const TOKENS: &[&str] = &[
    "",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "00",
    "001",
    "-1",
    "+1",
    "10",
    "500",
    "65535",
    "65536",
    "ok",
    "fail",
    "OK",
    "Fail",
    "okk",
    "$FI",
    "$fi",
    "id",
    "é",
    " ",
    "*",
    ">",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551614",
    "18446744073709551615",
    "18446744073709551616",
    "18446744073709551617",
    "99999999999999999999999999999999999999999",
    "éééééééééééééééééééééééééééééééééééééé",
    "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii",
    "iiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiiii",
];
/// Tokens that go well together, from the batch id on.
const GOOD_TAIL: [&str; 6] = ["id", "10", "ok", "2", "1", "$FI"];

pub(crate) fn check(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        agree(text);
    }
    let mut dice = Dice::new(input);
    let mut tokens = vec![dice.pick(PREFIXES)];
    tokens.extend(GOOD_TAIL.map(|good| match dice.below(3) {
        0 => dice.pick(TOKENS),
        _ => good,
    }));
    tokens.drain(..dice.below(3));
    agree(&tokens.join("."));
    round_trip(&mut dice);
}

/// The parser and the reference say the same of `text`.
fn agree(text: &str) {
    let parsed = parse(text);
    match (parsed, reference(text)) {
        (Parsed::NotFast, Verdict::NotFast)
        | (Parsed::BadPattern(_), Verdict::BadPattern)
        | (Parsed::BadBatchId, Verdict::BadBatchId) => {}
        (Parsed::Fast(found), Verdict::Fast(expected)) => {
            assert_eq!(found, expected, "{text:?}");
            let printed = found.to_string();
            assert_eq!(parse(&printed), Parsed::Fast(found), "{text:?}");
        }
        (parsed, _) => panic!("{text:?}: {parsed:?}"),
    }
}

/// Any good reply prints, in both ways, as what is read back.
fn round_trip(dice: &mut Dice<'_>) {
    let prefix = dice.pick(PREFIXES);
    let batch_id = dice.text(BATCH_ID_BYTES_MAX / 2, &["a", "Z", "9", "é", "$", "_"]);
    let operation = dice.pick(&[
        Operation::Start,
        Operation::Append,
        Operation::Commit,
        Operation::CommitEob,
        Operation::Ping,
    ]);
    let sequence = match operation {
        Operation::Start => 1,
        Operation::Append | Operation::CommitEob => dice.number().clamp(2, SEQUENCE_MAX.0),
        Operation::Commit | Operation::Ping => dice.number().clamp(1, SEQUENCE_MAX.0),
    };
    let reply = FastReply {
        prefix,
        batch_id: &batch_id,
        flow: (dice.number() as u16).max(1),
        gap: dice.pick(&[GapMode::Ok, GapMode::Fail]),
        sequence: BatchSequence(sequence),
        operation,
    };
    let printed = reply.to_string();
    assert_eq!(parse(&printed), Parsed::Fast(reply));
    if let Ok(common) = ReplyPrefix::new(prefix, &batch_id, reply.flow, reply.gap) {
        let mut written = "before".to_owned();
        common.write(reply.sequence, operation, &mut written);
        assert_eq!(written, printed);
    }
}

enum Verdict<'a> {
    NotFast,
    BadPattern,
    BadBatchId,
    Fast(FastReply<'a>),
}

/// The rules once more, over a list of tokens and numbers without a limit.
fn reference(text: &str) -> Verdict<'_> {
    if text == ".$FI" || !text.ends_with(".$FI") {
        return Verdict::NotFast;
    }
    let tokens: Vec<&str> = text.split('.').collect();
    let [.., batch_id, flow, gap, sequence, operation, _] = tokens[..] else {
        return Verdict::BadPattern;
    };
    if tokens.len() < 7 {
        return Verdict::BadPattern;
    }
    let digits = |token: &str| !token.is_empty() && token.chars().all(|c| c.is_ascii_digit());
    let wrapped = |token: &str| {
        let value = token.bytes().fold(0_u128, |value, digit| {
            (value * 10 + u128::from(digit - b'0')) % (1 << 64)
        });
        value as u64 as i64
    };
    let operation = match digits(operation).then(|| wrapped(operation)) {
        Some(0) => Operation::Start,
        Some(1) => Operation::Append,
        Some(2) => Operation::Commit,
        Some(3) => Operation::CommitEob,
        Some(4) => Operation::Ping,
        _ => return Verdict::BadPattern,
    };
    let significant = sequence.trim_start_matches('0');
    if !digits(sequence) || significant.is_empty() || significant.len() > 20 {
        return Verdict::BadPattern;
    }
    let sequence: u128 = significant.parse().expect("digits");
    if sequence >= u128::from(u64::MAX)
        || (operation == Operation::Start) && sequence != 1
        || matches!(operation, Operation::Append | Operation::CommitEob) && sequence == 1
    {
        return Verdict::BadPattern;
    }
    let gap = match gap {
        "ok" => GapMode::Ok,
        "fail" => GapMode::Fail,
        _ => return Verdict::BadPattern,
    };
    if batch_id.len() > BATCH_ID_BYTES_MAX {
        return Verdict::BadBatchId;
    }
    let flow = match digits(flow).then(|| wrapped(flow)) {
        Some(flow @ 1..) => flow.min(65_535) as u16,
        Some(..=0) | None => 10,
    };
    let tail: usize = tokens[tokens.len() - 6..]
        .iter()
        .map(|token| token.len() + 1)
        .sum();
    Verdict::Fast(FastReply {
        prefix: &text[..text.len() - tail],
        batch_id,
        flow,
        gap,
        sequence: BatchSequence(sequence as u64),
        operation,
    })
}
