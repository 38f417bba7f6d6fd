//! The wire lane is deterministic: same file, same seed, same run, in parallel threads of one process
//! and in two processes, with both clients, on every substrate. And what would break that is found: a
//! leak that is planted in the software of a small world is named by its first differing event.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(
    clippy::disallowed_types,
    reason = "random order is what is planted here"
)]

mod common;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::machine::Time;
use tidegate::scenario::{Lane, Scenario, Substrate};
use tidegate::seed::Seed;
use tidegate::sim::determinism::{Difference, compare};
use tidegate::sim::substrate::{
    EventSubstrate, LinkSettings, Links, Progress, Substrate as _, isolated,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What carries the bytes, and its word on the command line.
const SUBSTRATES: [(Substrate, &str); 2] =
    [(Substrate::Event, "event"), (Substrate::Turmoil, "turmoil")];
const CLIENTS: [&str; 2] = ["core", "jetstream-extra"];

const CUT: &str = r#"
[[faults]]
action = "cut"
publisher = 0
from = "6ms"
until = "8ms"
"#;

/// Everything that draws: jitter, Poisson arrivals, sizes; and faults on frames and links.
fn busy(client: &str, publishers: u32, substrate: Substrate) -> String {
    let last = publishers - 1;
    let cut = match substrate {
        Substrate::Event => CUT,
        Substrate::Turmoil => "", // has no resets
    };
    format!(
        r#"
format = 1
about = "Everything that draws, over real connections."
[network]
latency = "200us"
jitter = "150us"
[[publishers]]
client = "{client}"
count = {publishers}
flow = 20
gap = "ok"
ack_timeout = "3s"
arrival = "poisson"
rate_per_second = 5_000
messages = 60
batches = 2
payload = {{ min = "16B", max = "2KiB" }}
stagger = "100us"
[[faults]]
action = "drop"
place = "route"
frame = "message"
publisher = {last}
nth = 50
[[faults]]
action = "delay"
frame = "flow-ack"
nth = 3
delay = "5ms"
[[faults]]
action = "hold"
publisher = 0
from = "2ms"
until = "4ms"
{cut}"#
    )
}

fn trace_hash(scenario: &Scenario, seed: u64, substrate: Substrate) -> u64 {
    let outcome = common::run_in(scenario, seed, Lane::Wire(substrate), None);
    outcome.seen.trace_hash.unwrap()
}

/// Each file of this test: clients, and how many publishers.
fn files(substrate: Substrate) -> impl Iterator<Item = (String, u32)> {
    let each = CLIENTS
        .into_iter()
        .flat_map(|client| [(client, 1), (client, 100)]);
    each.map(move |(client, publishers)| (busy(client, publishers, substrate), publishers))
}

#[test]
fn equal_in_parallel_threads_and_different_for_another_seed() {
    for (substrate, _) in SUBSTRATES {
        for (text, publishers) in files(substrate) {
            let scenario = Scenario::parse("busy.toml", &text).unwrap();
            let hashes: Vec<u64> = std::thread::scope(|scope| {
                let run = || scope.spawn(|| trace_hash(&scenario, 7, substrate));
                let threads: Vec<_> = (0..4).map(|_| run()).collect();
                let joined = threads.into_iter().map(|thread| thread.join().unwrap());
                joined.collect()
            });
            let what = format!("{substrate:?}, {publishers} publishers: {hashes:x?}");
            assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{what}");
            assert_ne!(trace_hash(&scenario, 8, substrate), hashes[0], "{what}");
        }
    }
}

/// Another process, with other addresses in memory and other threads before this one.
#[test]
fn equal_in_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    for (substrate, word) in SUBSTRATES {
        for (number, (text, publishers)) in files(substrate).enumerate() {
            let file = folder.path().join(format!("busy-{number}.toml"));
            std::fs::write(&file, &text).unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
                .args(["sim", "--lane", "wire", "--substrate", word])
                .args(["--seed", "7", "--check-determinism"])
                .arg(&file)
                .output()
                .unwrap();
            let told = String::from_utf8_lossy(&output.stdout).into_owned();
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            let what = format!("{publishers} publishers: {told}{error}");
            assert!(
                told.contains("equal in two threads and two processes"),
                "{what}"
            );

            let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
                .args(["sim", "--lane", "wire", "--substrate", word])
                .args(["--seed", "7", "--json"])
                .arg(&file)
                .output()
                .unwrap();
            let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let scenario = Scenario::parse("busy.toml", &text).unwrap();
            let here = format!("{:016x}", trace_hash(&scenario, 7, substrate));
            assert_eq!(result["trace_hash"], here.as_str(), "{what}");
        }
    }
}

#[test]
fn every_file_of_the_project_is_deterministic() {
    for file in common::files("sims/nats") {
        let scenario = Scenario::read(&file).unwrap();
        for (substrate, _) in SUBSTRATES {
            if scenario.check_simulatable(Lane::Wire(substrate)).is_err() {
                continue;
            }
            let [one, other] = [1, 1].map(|seed| trace_hash(&scenario, seed, substrate));
            assert_eq!(one, other, "{file} on {substrate:?}");
        }
    }
}

#[test]
fn a_leak_in_a_whole_world_is_found_in_every_lane() {
    const LANES: [&[&str]; 3] = [
        &["--lane", "event"],
        &["--lane", "wire"],
        &["--lane", "wire", "--substrate", "turmoil"],
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leak.toml");
    for (defects, code) in [("", 0), ("\"unseeded-draw\"", 1), ("\"hash-order\"", 1)] {
        let text = format!(
            "format = 1\nabout = \"A planted leak.\"\n[server]\ndefects = [{defects}]\n\
             [[publishers]]\nmessages = 5\n"
        );
        std::fs::write(&file, text).unwrap();
        for lane in LANES {
            let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
                .args(["sim", "--check-determinism"])
                .args(lane)
                .arg(&file)
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(code),
                "{defects} {lane:?}: {error}"
            );
            let named = error.contains("event 1 differs") && error.contains("publisher");
            assert_eq!(named, code == 1, "{defects} {lane:?}: {error}");
        }
    }
}

// -- what breaks it ---------------------------------------------------------------------------

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const PORT: u16 = 4_222;

/// Words that a client may send in the order of a map.
const KEYS: u32 = 20;

/// What the client of the small world sends in its third round.
#[derive(Clone, Copy, Debug)]
enum Planted {
    /// Nothing that does not follow from the seed: a map of its own thread, and drawn bytes.
    Nothing,
    /// A draw from the system, around the seed of the thread.
    Draw,
    /// A number that the process counts, not the world.
    Counter,
    /// The order of a map whose keys were drawn elsewhere.
    Order,
}

fn elsewhere() -> RandomState {
    // A thread that no seed belongs to.
    std::thread::spawn(RandomState::new).join().unwrap()
}

fn order(state: RandomState) -> Vec<u32> {
    let mut map = HashMap::with_hasher(state);
    map.extend((0..KEYS).map(|key| (key, ())));
    map.into_keys().collect()
}

impl Planted {
    fn word(self) -> String {
        static COUNTED: AtomicU64 = AtomicU64::new(0);
        match self {
            Self::Nothing => {
                let drawn = RandomState::new().hash_one(0);
                format!("{drawn:x} {:?}", order(RandomState::new()))
            }
            Self::Draw => format!("{:x}", elsewhere().hash_one(0)),
            Self::Counter => COUNTED.fetch_add(1, Ordering::Relaxed).to_string(),
            Self::Order => format!("{:?}", order(elsewhere())),
        }
    }
}

type Said = Rc<RefCell<Vec<String>>>;

/// Sends five lines, one after the other, and waits for each to come back. The third one is planted.
async fn client(planted: Planted, say: impl Fn(String)) {
    let mut stream = TcpStream::connect((SERVER, PORT)).await.unwrap();
    for round in 1..=5 {
        let word = match round {
            3 => planted.word(),
            _ => "as always".to_owned(),
        };
        let line = format!("{round} {word}");
        say(format!("sends {line}"));
        stream.write_all(line.as_bytes()).await.unwrap();
        let mut back = vec![0; line.len()];
        stream.read_exact(&mut back).await.unwrap();
        say(format!("hears {round}"));
    }
}

async fn echo() {
    let listener = TcpListener::bind((SERVER, PORT)).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        stream.write_all(&bytes[..count]).await.unwrap();
    }
}

/// The trace of a world of two hosts at seed 1.
fn trace(planted: Planted) -> Vec<String> {
    isolated(Seed(1), || {
        let link = LinkSettings {
            latency: Time::from_micros(150),
            jitter: Time::from_micros(50),
            bits_per_second: 1_000_000_000,
            window_bytes: 1 << 20,
        };
        let links = Links {
            default: link,
            between: BTreeMap::new(),
        };
        let mut world = EventSubstrate::new(links, Seed(1)).unwrap();
        let (said, clock) = (Said::default(), world.clock());
        let log = Rc::clone(&said);
        let say = move |what: String| log.borrow_mut().push(format!("{} {what}", clock.now()));
        world.host(SERVER, Box::pin(echo()));
        world.host(CLIENT, Box::pin(client(planted, say)));
        while world.step(Time::NEVER) == Progress::Going {}
        let lines = said.take();
        assert_eq!(lines.len(), 10, "{lines:?}");
        lines
    })
    .unwrap()
}

fn compared(planted: Planted) -> Result<u64, Difference> {
    let [one, other] = [(); 2].map(|()| trace(planted));
    compare(one.into_iter(), other.into_iter())
}

#[test]
fn draws_and_orders_of_the_worlds_thread_follow_the_seed() {
    assert_eq!(compared(Planted::Nothing), Ok(10));
}

#[test]
fn a_leak_is_found_and_its_first_event_is_named() {
    for planted in [Planted::Draw, Planted::Counter, Planted::Order] {
        let difference = compared(planted).expect_err("a leak");
        assert_eq!(difference.event, 5, "{planted:?}: {difference:?}");
        for side in [&difference.here, &difference.there] {
            let line = side.as_deref().unwrap();
            assert!(line.contains("s sends 3 "), "{planted:?}: {line}");
        }
    }
}
