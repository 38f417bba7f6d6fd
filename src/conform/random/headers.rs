//! Draws headers that a stream reads, with values that hold, do not hold, or are no values at all.
//!
//! Leans on the names of headers in `nats`.

use super::draw::Dice;
use crate::nats::header;

/// One or two header lines, some of them twice; `stored` is about the last sequence.
pub(super) fn lines(dice: &mut Dice, stored: u64, replicated: bool) -> Vec<(String, String)> {
    let mut lines = Vec::new();
    for _ in 0..dice.range(1, 2) {
        let (name, value) = line(dice, stored);
        if name == header::EXPECTED_LAST_MESSAGE_ID && replicated {
            continue;
        }
        if name == header::EXPECTED_LAST_SUBJECT_SEQUENCE && dice.one_in(3) {
            lines.push((
                header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT.to_owned(),
                filter(dice).to_owned(),
            ));
        }
        lines.push((name.to_owned(), value));
    }
    lines
}

fn line(dice: &mut Dice, stored: u64) -> (&'static str, String) {
    let text = |dice: &mut Dice, words: &[&str]| dice.pick(words).to_owned();
    match dice.range(0, 13) {
        0..=3 => (
            header::MESSAGE_ID,
            text(dice, &["m1", "m2", "m3", "m4", ""]),
        ),
        4 => (
            header::EXPECTED_STREAM,
            text(dice, &["S", "S", "other", ""]),
        ),
        5 | 6 => (header::EXPECTED_LAST_SEQUENCE, sequence(dice, stored)),
        7 | 8 => (
            header::EXPECTED_LAST_SUBJECT_SEQUENCE,
            sequence(dice, stored),
        ),
        9 => (
            header::EXPECTED_LAST_MESSAGE_ID,
            text(dice, &["m1", "m2", "m3", ""]),
        ),
        10 => (
            header::ROLLUP,
            text(dice, &["sub", "sub", "all", "ALL", "none", ""]),
        ),
        11 => (
            header::TTL,
            text(dice, &["60", "1h", "never", "0", "-1", "1ms", "soon", ""]),
        ),
        12 => (
            header::REQUIRED_API_LEVEL,
            text(dice, &["0", "4", "5", "6", "-1", "+1", "x", ""]),
        ),
        _ => {
            let name = dice.pick(&["Colour", "nats-msg-id", "Nats-Expected-Last-Sequences"]);
            (name, text(dice, &["blue", "1"]))
        }
    }
}

fn sequence(dice: &mut Dice, stored: u64) -> String {
    match dice.range(0, 9) {
        0..=3 => stored.to_string(),
        4 => stored.saturating_sub(1).to_string(),
        5 => (stored + 1).to_string(),
        6 | 7 => dice.range(0, stored + 2).to_string(),
        8 => "0".to_owned(),
        _ => dice
            .pick(&["x", "-1", "", "1x", "18446744073709551615"])
            .to_owned(),
    }
}

fn filter(dice: &mut Dice) -> &'static str {
    dice.pick(&["t.a", "t.b", "t.*", "t.>", "t.none", "x.y"])
}
