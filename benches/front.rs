//! Speed of the server's front with the modelled server behind it: bytes of a publisher in, bytes of
//! acks out, no socket.
//!
//! Prints a figure beside its target; the best of several rounds counts. Leans on the library.
//! `-- --quick` runs fewer messages.

use std::fmt::Write as _;
use std::time::Instant;

use tidegate::machine::Time;
use tidegate::server::front::{Coupled, FrontAction, Options};
use tidegate::server::message::ConnectionId;
use tidegate::server::{Server, ServerModel, Source};

const ROUNDS: usize = 5;
const PAYLOAD_BYTES: usize = 1_024;
/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
const CLIENT: ConnectionId = ConnectionId(0);
/// Messages in a second; the whole wire lane aims at 300,000 with a client beside it.
const TARGET: f64 = 1e6;

/// How messages are published.
#[derive(Clone, Copy)]
enum Kind {
    /// As one fast batch.
    Fast,
    /// Each with a reply subject of its own.
    Plain,
    /// To a subscriber, past all streams.
    Core,
}

/// The bytes of a publisher.
fn bytes(kind: Kind, messages: usize) -> Vec<u8> {
    let payload = "x".repeat(PAYLOAD_BYTES);
    let mut text = String::with_capacity(messages * (PAYLOAD_BYTES + 80));
    for message in 1..=messages {
        let (subject, reply) = match kind {
            Kind::Fast => {
                let operation = u8::from(message > 1);
                (
                    "t.a",
                    format!(
                        "_INBOX.abcdefghijklmnopqrstuv.wxyzabcdefghijklmnopqr.100.ok.{message}.{operation}.$FI "
                    ),
                )
            }
            Kind::Plain => ("t.a", format!("_INBOX.abcdefghijklmnopqrstuv.{message} ")),
            Kind::Core => ("core.a", String::new()),
        };
        // Into memory: this does not fail.
        let _ = write!(
            text,
            "PUB {subject} {reply}{PAYLOAD_BYTES}\r\n{payload}\r\n"
        );
    }
    text.into_bytes()
}

/// Seconds for all of them.
fn measure(input: &[u8], messages: usize) -> f64 {
    let options = Options {
        // As much as is reached in a long run: the oldest content goes.
        contents_bytes_max: 64 << 20,
        ..Options::default()
    };
    let mut coupled = Coupled::new(Server::new(ServerModel::default()), options, Source::Ingest);
    let mut actions: Vec<FrontAction> = Vec::new();
    let mut now = Time::ZERO;
    coupled.connect(now, CLIENT, &mut actions);
    let config = r#"{"name":"S","subjects":["t.>"],"allow_batched":true,"storage":"memory"}"#;
    let hello = format!(
        "CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB _INBOX.abcdefghijklmnopqrstuv.> 1\r\nSUB core.* 2\r\nPUB $JS.API.STREAM.CREATE.S {}\r\n{config}\r\n",
        config.len()
    );
    coupled.receive(now, CLIENT, hello.as_bytes(), &mut actions);
    let mut heard = 0;
    #[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
    let started = Instant::now();
    for chunk in input.chunks(READ_BYTES) {
        while coupled.due() < now + Time::from_secs(1) {
            now = now.max(coupled.due());
            coupled.wake(now, &mut actions);
        }
        actions.clear();
        coupled.receive(now, CLIENT, chunk, &mut actions);
        heard += coupled.take_output(CLIENT).len();
    }
    let seconds = started.elapsed().as_secs_f64();
    assert!(heard > messages / 100, "acks or messages came");
    seconds
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let messages = if quick { 20_000 } else { 200_000 };
    for (name, kind) in [
        ("front, one fast batch of 1 KiB messages", Kind::Fast),
        ("front, plain publishes of 1 KiB", Kind::Plain),
        ("front, core messages of 1 KiB to a subscriber", Kind::Core),
    ] {
        let input = bytes(kind, messages);
        let best = (0..ROUNDS)
            .map(|_| measure(&input, messages))
            .fold(f64::INFINITY, f64::min);
        let rate = messages as f64 / best;
        println!(
            "{name:48} {:8.0} ns each, {:6.2}M messages/s (target {:.1}M)",
            best / messages as f64 * 1e9,
            rate / 1e6,
            TARGET / 1e6
        );
    }
}
