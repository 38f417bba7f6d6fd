//! Target: what a monitoring port answers, read from any bytes and from spoiled answers.
//!
//! Leans on `dice` and `live`.

use tidegate::live::{Answers, lags_of};

use crate::dice::Dice;

const VARZ: &[u8] =
    b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\"server_name\":\"n1\",\
    \"cpu\":12.5,\"mem\":7,\"slow_consumers\":0,\"connections\":2,\
    \"jetstream\":{\"stats\":{\"api\":{\"total\":5,\"inflight\":1}}}}";
const JSZ: &[u8] =
    b"HTTP/1.0 200 OK\r\n\r\n{\"account_details\":[{\"stream_detail\":[{\"name\":\"S\",\
    \"cluster\":{\"leader\":\"n1\",\"replicas\":[{\"name\":\"n2\",\"lag\":40}]}}]}]}";
const CONNZ: &[u8] =
    b"HTTP/1.0 200 OK\r\n\r\n{\"connections\":[{\"pending_bytes\":3},{\"pending_bytes\":4}]}";
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "-1",
    "1e999",
    "18446744073709551615",
    "\r\n",
    "\r\n\r\n",
    "HTTP/1.0 500 ",
    "\"name\":\"S\"",
    "[[[[[[[[",
    "\0",
    "\\ud800",
];
/// No figure of a result is larger.
const MOST: u64 = 1 << 53;

pub(crate) fn check(input: &[u8]) {
    read(input, Some(input), Some(input));
    let mut dice = Dice::new(input);
    let varz = dice.spoiled(VARZ, PIECES);
    let jsz = dice.spoiled(JSZ, PIECES);
    let connz = dice.spoiled(CONNZ, PIECES);
    read(&varz, Some(&jsz), Some(&connz));
    read(VARZ, Some(&jsz), Some(&connz));
}

/// Whatever comes, its figures are such as a result can hold.
fn read(varz: &[u8], jsz: Option<&[u8]>, connz: Option<&[u8]>) {
    let Ok(said) = Answers::read(varz, jsz, connz, "S") else {
        return;
    };
    let figures = said.figures();
    assert!(
        figures
            .cpu_percent
            .is_none_or(|cpu| cpu.is_finite() && cpu >= 0.0)
    );
    let lags = lags_of([&said]);
    let told = [
        figures.memory_bytes,
        figures.slow_consumers,
        figures.connections,
        figures.pending_bytes,
        figures.api_requests,
        figures.api_in_flight,
    ];
    let told = told.into_iter().flatten();
    assert!(
        told.chain(lags.values().copied())
            .all(|number| number <= MOST)
    );
    let name = said.server();
    assert!(name.is_none_or(|name| !name.is_empty() && !name.contains(char::is_control)));
}
