//! Target: header blocks, read from any bytes and from what is printed.
//!
//! Leans on `dice` and `nats::header`.

use tidegate::nats::header::{HeaderBlock, Headers, Status};

use crate::dice::Dice;

const SAMPLES: &[&str] = &[
    "NATS/1.0\r\n\r\n",
    "NATS/1.0\r\nNats-Msg-Id: m1\r\nA: x\r\nA: y\r\n\r\n",
    "NATS/1.0 503\r\nNats-Subject: a.b\r\n\r\n",
    "NATS/1.0 429 Too Many Requests\r\n\r\n",
];
const PIECES: &[&str] = &[
    "\r\n", "\r", "\n", ":", " ", "\t", "NATS/1.0", "NATS/2.0", "503", "5", "A: x\r\n", "é", "\0",
];
const TEXTS: &[&str] = &["a", "Z", "-", "1", " ", "\t", "\r", "\n", ":", "é", "\0"];
/// No error is longer: it keeps no more than an excerpt of what it complains about.
const ERROR_BYTES_MAX: usize = 1_000;

pub(crate) fn check(input: &[u8]) {
    read(input);
    let mut dice = Dice::new(input);
    let sample = dice.pick(SAMPLES);
    let spoiled = dice.spoiled(sample.as_bytes(), PIECES);
    read(&spoiled);
    let mut headers = Headers::default();
    for _ in 0..dice.below(5) {
        let (name, value) = (dice.text(4, TEXTS), dice.text(6, TEXTS));
        // What `append` takes must survive; what it refuses must leave no trace.
        let lines = headers.lines().len();
        let taken = headers.append(&name, &value).is_ok();
        assert_eq!(headers.lines().len(), lines + usize::from(taken));
    }
    let status = match dice.below(3) {
        0 => None,
        1 => Some(Status::new(dice.below(1_000) as u16, "")),
        _ => Some(Status::new(dice.below(1_000) as u16, "two words")),
    };
    prints_as_itself(&HeaderBlock { status, headers });
}

fn read(bytes: &[u8]) {
    match HeaderBlock::parse(bytes) {
        Ok(block) => prints_as_itself(&block),
        Err(error) => assert!(error.to_string().len() < ERROR_BYTES_MAX),
    }
}

fn prints_as_itself(block: &HeaderBlock) {
    let mut bytes = b"before".to_vec();
    block.write_to(&mut bytes);
    let bytes = &bytes["before".len()..];
    assert_eq!(bytes.len(), block.wire_bytes());
    assert_eq!(HeaderBlock::parse(bytes).as_ref(), Ok(block));
}
