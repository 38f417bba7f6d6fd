//! Client crates that nobody changed, in the simulator: they connect, lose their connection and
//! come back, publish fast batches, and do the same again for the same seed.
//!
//! Leans on `sim::substrate` and a scripted server.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/scripted.rs"]
mod scripted;

use std::cell::RefCell;
use std::net::IpAddr;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event};
use jetstream_extra::batch_publish_fast::{FastPublishExt, GapMode};
use tidegate::machine::Time;
use tidegate::seed::Seed;
use tidegate::sim::substrate::{
    EventSubstrate, LinkSettings, Links, Progress, Substrate, TurmoilSubstrate, isolated,
};

const MS: fn(u64) -> Time = Time::from_millis;
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
/// Set in the environment of a second process of these tests.
const CHILD: &str = "TIDEGATE_TEST_CHILD";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Event,
    Turmoil,
}

const BOTH: [Kind; 2] = [Kind::Event, Kind::Turmoil];

fn client_host(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 1, number])
}

fn world(kind: Kind, seed: u64) -> Box<dyn Substrate> {
    let links = Links::all(LinkSettings {
        latency: MS(1),
        jitter: Time::ZERO,
        bits_per_second: 10_000_000_000,
        window_bytes: 4 << 20,
    });
    let mut world: Box<dyn Substrate> = match kind {
        Kind::Event => Box::new(EventSubstrate::new(links, Seed(seed)).unwrap()),
        Kind::Turmoil => Box::new(TurmoilSubstrate::new(links, Seed(seed)).unwrap()),
    };
    world.name("server", SERVER);
    world
}

fn run(world: &mut dyn Substrate, until: Time) {
    loop {
        match world.step(until) {
            Progress::Going => {}
            Progress::Reached(_) => return,
            other => panic!("{other:?}"),
        }
    }
}

/// What happened, with times: equal for equal runs.
type Notes = Rc<RefCell<Vec<String>>>;

/// A voice for software: notes something with its time.
fn voice(world: &dyn Substrate, notes: &Notes) -> impl Fn(&str) + Clone + 'static {
    let (clock, notes) = (world.clock(), Rc::clone(notes));
    move |text| notes.borrow_mut().push(format!("{} {text}", clock.now()))
}

fn start_server(world: &mut dyn Substrate, notes: &Notes) {
    let say = voice(world, notes);
    let ear: scripted::Ear = Rc::new(move |from, count| say(&format!("{} {count}", from.ip())));
    world.host(SERVER, Box::pin(scripted::serve(ear)));
}

/// Notices soon that a connection is dead.
fn attentive() -> ConnectOptions {
    ConnectOptions::new()
        .ping_interval(Duration::from_millis(200))
        .connection_timeout(Duration::from_millis(500))
        .request_timeout(Some(Duration::from_millis(100)))
}

async fn connect(options: ConnectOptions) -> Client {
    options.connect("nats://server:4222").await.unwrap()
}

#[test]
fn an_unmodified_client_connects_and_asks() {
    for kind in BOTH {
        isolated(Seed(1), || {
            let (mut world, notes) = (world(kind, 1), Notes::default());
            start_server(&mut *world, &Rc::default());
            let say = voice(&*world, &notes);
            world.host(
                client_host(1),
                Box::pin(async move {
                    let client = connect(ConnectOptions::new()).await;
                    say("connected");
                    let answer = client.request("subject", "question".into()).await.unwrap();
                    say(std::str::from_utf8(&answer.payload).unwrap());
                }),
            );
            run(&mut *world, MS(100));
            let heard = notes.borrow();
            let words: Vec<_> = heard
                .iter()
                .map(|note| note.split_once(' ').unwrap())
                .collect();
            assert_eq!(words.len(), 2, "{kind:?} {words:?}");
            assert_eq!((words[0].1, words[1].1), ("connected", "question"));
            if kind == Kind::Event {
                // The server has a connection after one and a half round trips, its greeting comes
                // after two, the answer to the first ping after three; and some wire.
                assert!(words[0].0.starts_with("0.006000"), "{words:?}");
                assert!(words[1].0.starts_with("0.008000"), "{words:?}");
            }
        })
        .unwrap();
    }
}

#[test]
fn a_client_comes_back_after_a_cut() {
    for kind in BOTH {
        isolated(Seed(1), || {
            let (mut world, notes) = (world(kind, 1), Notes::default());
            start_server(&mut *world, &Rc::default());
            let say = voice(&*world, &notes);
            let (events, hears) = std::sync::mpsc::channel();
            world.host(
                client_host(1),
                Box::pin(async move {
                    let options = attentive().event_callback(move |event| {
                        let events = events.clone();
                        async move { events.send(event).unwrap() }
                    });
                    let client = connect(options).await;
                    loop {
                        tokio::time::sleep(Duration::from_millis(300)).await;
                        if client.request("subject", "x".into()).await.is_ok() {
                            say("answered");
                        }
                    }
                }),
            );
            run(&mut *world, MS(1_000));
            let answered = |notes: &Notes| notes.take().len();
            assert_eq!(answered(&notes), 3, "{kind:?}");
            for (from, to) in [(SERVER, client_host(1)), (client_host(1), SERVER)] {
                world.cut(from, to);
            }
            run(&mut *world, MS(4_000));
            assert_eq!(answered(&notes), 0, "{kind:?}");
            for (from, to) in [(SERVER, client_host(1)), (client_host(1), SERVER)] {
                world.heal(from, to);
            }
            run(&mut *world, MS(10_000));
            assert!(answered(&notes) > 5, "{kind:?}");
            let heard: Vec<Event> = hears.try_iter().collect();
            let count = |wanted: &Event| heard.iter().filter(|event| *event == wanted).count();
            assert_eq!(count(&Event::Connected), 2, "{kind:?} {heard:?}");
            assert_eq!(count(&Event::Disconnected), 1, "{kind:?} {heard:?}");
        })
        .unwrap();
    }
}

#[test]
fn a_client_comes_back_to_a_server_that_was_started_again() {
    for kind in BOTH {
        isolated(Seed(1), || {
            let (mut world, notes) = (world(kind, 1), Notes::default());
            start_server(&mut *world, &Rc::default());
            let say = voice(&*world, &notes);
            world.host(
                client_host(1),
                Box::pin(async move {
                    let client = connect(attentive()).await;
                    loop {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        if client.request("subject", "x".into()).await.is_ok() {
                            say("answered");
                        }
                    }
                }),
            );
            run(&mut *world, MS(1_000));
            assert!(notes.take().len() > 5, "{kind:?}");
            world.crash(SERVER);
            run(&mut *world, MS(2_000));
            assert_eq!(notes.take(), [""; 0], "{kind:?}");
            start_server(&mut *world, &Rc::default());
            run(&mut *world, MS(6_000));
            assert!(notes.take().len() > 5, "{kind:?}");
        })
        .unwrap();
    }
}

/// Publishers of fast batches, each on a host of its own; the whole trace.
fn batches(kind: Kind, publishers: u8, messages: u32, seed: u64) -> Vec<String> {
    isolated(Seed(seed), move || {
        let (mut world, notes) = (world(kind, seed), Notes::default());
        start_server(&mut *world, &notes);
        let done: Rc<RefCell<u8>> = Rc::default();
        for number in 0..publishers {
            let say = voice(&*world, &notes);
            let done = Rc::clone(&done);
            world.host(
                client_host(number),
                Box::pin(async move {
                    let client = connect(ConnectOptions::new()).await;
                    let jetstream = async_nats::jetstream::new(client);
                    let builder = jetstream.fast_publish().flow(50).max_outstanding_acks(2);
                    let mut publisher = builder.gap_mode(GapMode::Fail).build().unwrap();
                    let payload = bytes::Bytes::from(vec![b'x'; 1_024]);
                    for _ in 0..messages {
                        publisher.add("tidegate.0", payload.clone()).await.unwrap();
                    }
                    let end = publisher.close().await.unwrap();
                    say(&format!("{number} committed {}", end.batch_size));
                    *done.borrow_mut() += 1;
                }),
            );
        }
        while *done.borrow() < publishers {
            let limit = world.now() + MS(100);
            assert!(limit < Time::from_secs(60), "{kind:?}");
            run(&mut *world, limit);
        }
        notes.take()
    })
    .unwrap()
}

/// Runs that are held to be equal.
const RUNS: [(Kind, u8, u32); 4] = [
    (Kind::Event, 1, 1_000),
    (Kind::Event, 100, 50),
    (Kind::Turmoil, 1, 1_000),
    (Kind::Turmoil, 20, 50),
];

#[test]
fn fast_batches_are_committed() {
    for (kind, publishers, messages) in RUNS {
        let notes = batches(kind, publishers, messages, 1);
        let committed = format!("committed {messages}");
        let committed = notes.iter().filter(|note| note.ends_with(&committed));
        assert_eq!(committed.count(), usize::from(publishers), "{kind:?}");
    }
}

#[test]
fn equal_seeds_are_equal_runs_in_a_row_and_side_by_side() {
    for (kind, publishers, messages) in RUNS {
        let run = || batches(kind, publishers, messages, 1);
        let first = run();
        assert!(first == run(), "{kind:?} {publishers}: in a row");
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(run)).collect();
            for other in others {
                let same = other.join().unwrap() == first;
                assert!(same, "{kind:?} {publishers}: side by side");
            }
        });
    }
}

#[test]
fn equal_seeds_are_equal_runs_in_two_processes() {
    let notes = RUNS.map(|(kind, publishers, messages)| batches(kind, publishers, messages, 1));
    let notes = format!("{notes:?}");
    let hash = format!(
        "hash {:032x}",
        xxhash_rust::xxh3::xxh3_128(notes.as_bytes())
    );
    if std::env::var_os(CHILD).is_some() {
        println!("\n{hash}");
        return;
    }
    let name = "equal_seeds_are_equal_runs_in_two_processes";
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8(child.stdout).unwrap();
    let told = told.lines().find(|line| line.starts_with("hash "));
    assert_eq!(told, Some(hash.as_str()));
}

#[test]
fn other_seeds_are_other_runs() {
    let run = |seed| batches(Kind::Event, 20, 20, seed);
    assert_ne!(run(1), run(2));
}
