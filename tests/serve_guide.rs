//! The worked examples of `docs/serve.md`: each is served, and what its client says and hears is said
//! and heard.
//!
//! Leans on the binary and on the text of the page.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/raw.rs"]
mod raw;
#[path = "common/served.rs"]
mod served;

use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use raw::Raw;
use served::Served;

const PAGE: &str = include_str!("../docs/serve.md");
/// How often a client tries to get in.
const TRIES: u32 = 300;
/// Between two tries.
const REST: Duration = Duration::from_millis(20);

/// One example: its heading, what it adds to the file, and what is said.
struct Example {
    name: &'static str,
    more: &'static str,
    dialogue: &'static str,
}

/// The file that all examples begin with, and the examples.
fn examples() -> (&'static str, Vec<Example>) {
    let (_, section) = PAGE.split_once("\n## What a client meets").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut parts = section.split("\n### ");
    let file = block(parts.next().unwrap(), "toml").unwrap();
    let examples = parts.map(|part| Example {
        name: part.lines().next().unwrap(),
        more: block(part, "toml").unwrap_or_default(),
        dialogue: block(part, "text").unwrap(),
    });
    (file, examples.collect())
}

/// The first block of a kind.
fn block(text: &'static str, kind: &str) -> Option<&'static str> {
    let (_, block) = text.split_once(&format!("\n```{kind}\n"))?;
    block.split("```").next()
}

/// The line with each number of the `{from..to}` in it, or as it is.
fn expanded(line: &str) -> Vec<String> {
    let found = line.match_indices('{').find_map(|(at, _)| {
        let (range, after) = line[at + 1..].split_once('}')?;
        let (from, to) = range.split_once("..")?;
        let range = from.parse::<u32>().ok()?..=to.parse::<u32>().ok()?;
        Some((&line[..at], range, after))
    });
    match found {
        Some((before, range, after)) => range
            .map(|number| format!("{before}{number}{after}"))
            .collect(),
        None => vec![line.to_owned()],
    }
}

fn subscribe(mut client: Raw) -> Raw {
    client.say("SUB _INBOX.me.> 1\r\n");
    client.sync();
    client
}

/// A client that is let in, sooner or later.
fn reconnect(address: &str) -> Raw {
    for _ in 0..TRIES {
        if Raw::silent(address).is_greeted() {
            return subscribe(Raw::connect(address));
        }
        std::thread::park_timeout(REST);
    }
    panic!("never let in");
}

/// `SUBJECT REPLY [PAYLOAD]`, and perhaps a header in brackets behind.
fn publish(client: &mut Raw, words: &str) {
    let (words, header) = match words.split_once(" [") {
        Some((words, header)) => (words, header.strip_suffix(']')),
        None => (words, None),
    };
    let words: Vec<&str> = words.split(' ').collect();
    let payload = words.get(2).copied().unwrap_or_default();
    let Some(header) = header else {
        return client.publish(words[0], words[1], payload);
    };
    let header = format!("NATS/1.0\r\n{header}\r\n\r\n");
    let (heads, all) = (header.len(), header.len() + payload.len());
    client.say(&format!(
        "HPUB {} {} {heads} {all}\r\n{header}{payload}\r\n",
        words[0], words[1]
    ));
}

fn play(example: &Example, served: &Served) {
    let mut client = subscribe(Raw::connect(served.address()));
    for line in example.dialogue.lines().flat_map(expanded) {
        let at = || format!("{}: {line}", example.name);
        let (sign, words) = line.split_once(' ').unwrap_or((&line, ""));
        match sign {
            ">" => publish(&mut client, words),
            "<" => {
                let heard = client.message();
                let [heard, wanted]: [Value; 2] =
                    [&heard, words].map(|text| serde_json::from_str(text).unwrap());
                assert_eq!(heard, wanted, "{}", at());
            }
            "-" => {
                let span = words.strip_suffix("ms").unwrap().parse().unwrap();
                assert!(client.is_quiet(Duration::from_millis(span)), "{}", at());
            }
            "!" => assert!(client.is_closed(), "{}", at()),
            "+" => client = reconnect(served.address()),
            _ => panic!("{}", at()),
        }
    }
}

#[test]
fn every_worked_example_is_as_the_page_says() {
    let (file, examples) = examples();
    let names: Vec<&str> = examples.iter().map(|example| example.name).collect();
    assert_eq!(
        names,
        [
            "A lost flow ack",
            "A lost PubAck",
            "A window that is refused",
            "A slow store",
            "A batch that is forgotten",
            "A connection that is cut",
            "A connection that stands still",
        ]
    );
    for example in &examples {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("served.toml");
        std::fs::write(&path, format!("{file}\n{}", example.more)).unwrap();
        let mut served = Served::start(&[path.to_str().unwrap()]);
        play(example, &served);
        let (code, told) = served.stop(Signal::TERM);
        assert_eq!(code, Some(0));
        // A fault of the page is one that fires.
        let faults = u32::from(example.more.contains("[[faults]]"));
        let fired = format!("{faults} fired");
        assert!(told.contains(&fired), "{}: {told}", example.name);
    }
}

#[test]
fn ranges_are_written_out() {
    assert_eq!(expanded("> a.{2..3}.b"), ["> a.2.b", "> a.3.b"]);
    let lines = [r#"< {"seq":6,"e":{"c":1}}"#, r#"< {"seq":7,"e":{"c":1}}"#];
    assert_eq!(expanded(r#"< {"seq":{6..7},"e":{"c":1}}"#), lines);
    assert_eq!(expanded(lines[0]), [lines[0]]);
}
