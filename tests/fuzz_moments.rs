//! Any bytes as a file of moments: an error that names a line of it, or moments in order.
//!
//! As a plain test it runs some random inputs; `cargo bolero test` goes on for as long as it is let.

use bolero::check;
use tidegate::scenario::{
    MomentOrigin, MomentShare, MomentUnit, Moments, MomentsError, TimestampsFile,
};

/// Ways to read a file, by a few bits.
fn how(bits: u8) -> TimestampsFile {
    const UNITS: [MomentUnit; 4] = [
        MomentUnit::S,
        MomentUnit::Ms,
        MomentUnit::Us,
        MomentUnit::Ns,
    ];
    TimestampsFile {
        file: "moments.txt".to_owned(),
        unit: UNITS[usize::from(bits & 3)],
        origin: if bits & 4 == 0 {
            MomentOrigin::Start
        } else {
            MomentOrigin::First
        },
        share: MomentShare::Copy,
        repeat_every: None,
        digest: None,
    }
}

/// What holds for every file.
fn reads_or_explains(bytes: &[u8], bits: u8) {
    const DAY_NS: u64 = 24 * 3_600 * 1_000_000_000;
    let how = how(bits);
    let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
    let message = match Moments::parse(bytes, &how) {
        Ok(moments) => {
            assert!(!moments.ns.is_empty() && moments.ns.len() <= lines);
            assert!(moments.ns.is_sorted());
            assert!(moments.ns.last().is_some_and(|last| *last <= DAY_NS));
            assert!(how.origin == MomentOrigin::Start || moments.ns[0] == 0);
            assert_eq!(Moments::parse(bytes, &how), Ok(moments));
            return;
        }
        Err(MomentsError::File(message)) => message,
        Err(MomentsError::Line(line, message)) => {
            assert!((1..=lines).contains(&line));
            message
        }
    };
    assert!(!message.contains(char::is_control), "{message:?}");
}

#[test]
fn any_bytes_read_or_explain() {
    check!()
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(bytes, bits)| reads_or_explains(bytes, *bits));
}

/// Random bytes are seldom numbers, so this writes lines that nearly are.
#[test]
fn lines_that_are_nearly_moments_read_or_explain() {
    const PARTS: [&str; 16] = [
        "0",
        "1",
        "9",
        "7",
        ".",
        "_",
        "\n",
        "\r\n",
        " ",
        "#",
        "ms",
        "us",
        "s",
        "h",
        "-",
        "18446744073709551615",
    ];
    check!()
        .with_type::<(Vec<u8>, u8)>()
        .for_each(|(parts, bits)| {
            let parts = parts.iter().map(|part| PARTS[usize::from(part % 16)]);
            reads_or_explains(parts.collect::<String>().as_bytes(), *bits);
        });
}
