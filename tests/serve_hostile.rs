//! `tidegate serve` among users who mean it ill, or do not know better.
//!
//! Leans on the binary, and on `/proc` for its memory and processor time. Whatever they do, others
//! are served, nothing panics, and what they took is given back.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![cfg(target_os = "linux")]

#[path = "common/raw.rs"]
mod raw;
#[path = "common/served.rs"]
mod served;

use std::io::Write as _;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, prlimit, setrlimit};

use raw::Raw;
use served::Served;

/// Clock ticks of `/proc` in a second.
const TICKS: u64 = 100;

impl Served {
    /// Resident memory, in MiB.
    fn memory_mib(&self) -> u64 {
        let status = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap();
        let kib = line.split_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap() / 1_024
    }

    /// Processor time so far, in ticks.
    fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }

    /// Somebody else is served.
    fn serves(&self) {
        let mut other = Raw::connect(self.address());
        other.say("SUB other 1\r\nPUB other 2\r\nhi\r\n");
        other.until("MSG other 1 2\r\nhi\r\n");
        other.publish("t.other", "other", "x");
        other.until("{\"stream\":\"S\"");
    }

    /// Ends it by a signal; it ends well and has had nothing to complain of.
    fn ends_well(mut self) -> String {
        let (code, told) = self.stop(Signal::TERM);
        assert_eq!((code, self.stderr()), (Some(0), String::new()), "{told}");
        told
    }
}

/// File descriptors for a thousand connections, at both ends.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
}

fn pause(span: Duration) {
    // A park may end early, by chance.
    for _ in 0..10 {
        std::thread::park_timeout(span / 10);
    }
}

#[test]
fn a_thousand_clients_hear_one_message_and_the_signal() {
    raise_descriptors();
    let (served, _directory) = Served::with("");
    let mut clients: Vec<Raw> = (0..1_000).map(|_| Raw::connect(served.address())).collect();
    for client in &mut clients {
        client.say("SUB all 1\r\n");
        client.sync();
    }
    clients[0].say("PUB all 5\r\nhello\r\n");
    for client in &mut clients {
        client.until("MSG all 1 5\r\nhello\r\n");
    }
    // With nothing to do it does nothing: a loop that spins would take all of it.
    let before = served.ticks();
    pause(Duration::from_secs(2));
    assert!(served.ticks() - before < TICKS / 2, "busy while idle");
    // Half of them leave, the rest are there when it is stopped.
    clients.truncate(500);
    served.serves();
    let told = served.ends_well();
    assert!(told.contains("1001 connected"), "{told}");
    for mut client in clients {
        assert!(client.is_closed());
    }
}

/// Bytes without sense, many at a time, by connections that come and go.
fn garbage(served: &Served) {
    let mut state = 1_u64;
    for length in 0..500 {
        let bytes: Vec<u8> = (0..length % 97 + 1)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 33) as u8
            })
            .collect();
        let mut raw = Raw::silent(served.address());
        // It may be closed already.
        let _ = raw.socket.write_all(&bytes);
        let _ = raw.socket.write_all(b"\r\n");
    }
    let mut long = Raw::connect(served.address());
    long.say(&format!("PUB {} 1\r\n", "a".repeat(100_000)));
    long.until("-ERR 'maximum control line exceeded'\r\n");
    let mut large = Raw::connect(served.address());
    large.say("PUB t.a 99999999\r\n");
    large.until("-ERR 'Maximum Payload Violation'\r\n");
    assert!(large.is_closed());
}

/// Clients that say nothing, or stop in the middle of it.
fn half_open(served: &Served) -> Vec<Raw> {
    let texts = ["", "CONN", "CONNECT {}", "PUB t.a 100000\r\nxxx", "SUB a"];
    let clients = texts.iter().cycle().take(200);
    clients
        .map(|text| {
            let mut raw = Raw::silent(served.address());
            raw.say(text);
            raw
        })
        .collect()
}

/// More subscriptions than one connection may have.
fn flood(served: &Served) {
    let mut raw = Raw::connect(served.address());
    for part in 0..120_u32 {
        let own = part * 1_000..(part + 1) * 1_000;
        let text: String = own.map(|id| format!("SUB f.{id}.*.> {id}\r\n")).collect();
        raw.say(&text);
    }
    raw.until("-ERR 'maximum subscriptions exceeded'\r\n");
    // Many on one subject: a message is multiplied, by what it costs and no more.
    let mut raw = Raw::connect(served.address());
    let text: String = (0..50_000).map(|id| format!("SUB same {id}\r\n")).collect();
    raw.say(&text);
    raw.sync();
    Raw::connect(served.address()).publish("same", "", "x");
    raw.until("MSG same 49999 1\r\nx\r\n");
}

/// A client that does not read what it asked for is cut off; the publisher is not.
fn slow_consumer(served: &Served) {
    let mut slow = Raw::connect(served.address());
    slow.say("SUB large 1\r\n");
    slow.sync();
    let mut publisher = Raw::connect(served.address());
    let payload = "y".repeat(1 << 20);
    for _ in 0..100 {
        publisher.publish("large", "", &payload);
    }
    publisher.sync();
    assert!(slow.is_closed());
}

/// A publisher of a batch that never reads its acks.
fn unread_acks(served: &Served) {
    let mut raw = Raw::connect(served.address());
    raw.say("SUB _INBOX.u.> 1\r\n");
    for sequence in 1..=20_000 {
        let operation = u8::from(sequence > 1);
        let reply = format!("_INBOX.u.b.1.ok.{sequence}.{operation}.$FI");
        raw.publish("t.a", &reply, "x");
    }
}

#[test]
fn others_are_served_whatever_some_do_and_memory_comes_back() {
    raise_descriptors();
    let (served, _directory) = Served::with("");
    let mut peak = Vec::new();
    for _ in 0..3 {
        let silent = half_open(&served);
        for attack in [garbage, flood, slow_consumer, unread_acks] {
            attack(&served);
            served.serves();
        }
        drop(silent);
        served.serves();
        peak.push(served.memory_mib());
    }
    // Bounded by what one round takes, which is far below what all rounds sent.
    assert!(peak[2] < 300 && peak[2] < peak[0] * 2, "{peak:?} MiB");
    let told = served.ends_well();
    assert!(told.contains("plain stored"), "{told}");
}

/// Without file descriptors nobody gets in, and it does not spin; with them again it goes on at once,
/// however slow the model's time is.
#[test]
fn descriptors_that_run_out_are_waited_for() {
    for speed in ["0.001", "1", "1000"] {
        let directory = tempfile::tempdir().unwrap();
        let file = served::file(directory.path(), "");
        let served = Served::start(&[&file, "--speed", speed]);
        let pid = Pid::from_child(&served.child);
        let few = Rlimit {
            current: Some(40),
            maximum: Some(40),
        };
        prlimit(Some(pid), Resource::Nofile, few).unwrap();
        let waiting: Vec<Raw> = (0..100).map(|_| Raw::silent(served.address())).collect();
        let before = served.ticks();
        pause(Duration::from_secs(1));
        assert!(served.ticks() - before < TICKS / 2, "busy at speed {speed}");
        drop(waiting);
        Raw::connect(served.address());
        served.ends_well();
    }
}

/// At both ends of `--speed` a message gets its ack, and a signal is heard.
#[test]
fn any_pace_serves() {
    for speed in ["0.001", "1000"] {
        let directory = tempfile::tempdir().unwrap();
        let file = served::file(directory.path(), "");
        let served = Served::start(&[&file, "--speed", speed]);
        served.serves();
        served.ends_well();
    }
}

/// Cuts and holds that are on when the signal comes.
#[test]
fn a_signal_is_heard_under_every_fault() {
    let fault = |action: &str, from: &str| {
        format!("[[faults]]\naction = \"{action}\"\nfrom = \"{from}\"\nuntil = \"1h\"\n")
    };
    // Held: it says nothing, and takes nothing in.
    let (served, _directory) = Served::with(&fault("hold", "0s"));
    let mut held = Raw::silent(served.address());
    held.say("PING\r\n");
    assert!(held.is_quiet(Duration::from_millis(300)));
    let told = served.ends_well();
    assert!(told.contains("1 connected"), "{told}");
    assert!(held.is_closed());

    // Cut: nobody gets in, and it is told how many tried.
    let (served, _directory) = Served::with(&fault("cut", "0s"));
    for _ in 0..3 {
        assert!(Raw::silent(served.address()).is_closed());
    }
    let told = served.ends_well();
    assert!(
        told.contains("0 connected") && told.contains("3 turned away"),
        "{told}"
    );

    // Delayed: an answer on its way does not hold it up.
    let delay = "[[faults]]\naction = \"delay\"\nframe = \"message\"\ndelay = \"1h\"\n";
    let (served, _directory) = Served::with(delay);
    let mut late = Raw::connect(served.address());
    late.say("SUB _INBOX.l.> 1\r\n");
    late.publish("t.a", "_INBOX.l.b.5.ok.1.0.$FI", "x");
    late.sync();
    served.ends_well();
}
