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
use tidegate::batch::fast::publisher::{Profile, Settings};
use tidegate::client::{BatchClient, BatchSettings, CoreClient, Message, Next, Source, Witness};
use tidegate::event::{BatchNumber, Event as TidegateEvent};
use tidegate::machine::Time;
use tidegate::nats::BatchSequence;
use tidegate::seed::Seed;
use tidegate::sim::substrate::{
    Clock, EventSubstrate, LinkSettings, Links, Progress, Substrate, TurmoilSubstrate, isolated,
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

/// Whose code publishes.
#[derive(Clone, Copy, Debug)]
enum Publishes {
    /// The crate jetstream-extra.
    Extra,
    /// tidegate's own core, on a connection of async-nats.
    Core,
}

async fn publish_by_extra(messages: u32) -> u64 {
    let client = connect(ConnectOptions::new()).await;
    let jetstream = async_nats::jetstream::new(client);
    let builder = jetstream.fast_publish().flow(50).max_outstanding_acks(2);
    let mut publisher = builder.gap_mode(GapMode::Fail).build().unwrap();
    let payload = bytes::Bytes::from(vec![b'x'; 1_024]);
    for _ in 0..messages {
        publisher.add("tidegate.0", payload.clone()).await.unwrap();
    }
    publisher.close().await.unwrap().batch_size
}

/// Tells the events of the core client by its voice.
struct Ears<F> {
    clock: Rc<dyn Clock>,
    say: F,
}

impl<F: Fn(&str)> Witness for Ears<F> {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn now_roughly(&self) -> Time {
        self.clock.now()
    }

    fn tell(&self, at: Time, event: TidegateEvent) {
        (self.say)(&format!("{at} {event:?}"));
    }
}

/// So many messages, as fast as the client takes them, and then the end of the batch.
struct Rush(u32);

impl Source for Rush {
    fn next(&mut self, now: Time, _: BatchSequence) -> Next {
        let Some(left) = self.0.checked_sub(1) else {
            return Next::CommitEob;
        };
        self.0 = left;
        let message = Message {
            subject: "tidegate.0".into(),
            payload: bytes::Bytes::from_static(&[b'x'; 1_024]),
            headers: None,
        };
        Next::Offer(message, now)
    }

    async fn until(&self, _: Time) {
        std::future::pending::<()>().await;
    }
}

async fn publish_by_core(messages: u32, ears: &Ears<impl Fn(&str)>) -> u64 {
    let client = connect(ConnectOptions::new()).await;
    let settings = BatchSettings {
        batch: BatchNumber(0),
        publisher: Settings {
            flow: 50,
            outstanding_acks: 2,
            gap: tidegate::nats::GapMode::Fail,
            ack_timeout: Time::from_secs(5),
            profile: Profile::ADR,
        },
    };
    let batch = CoreClient::open(&client, &settings, ears).await.unwrap();
    batch.publish(&mut Rush(messages)).await.acknowledged.0
}

/// Publishers of fast batches, each on a host of its own; the whole trace.
fn batches((kind, publishes, publishers, messages): Run, seed: u64) -> Vec<String> {
    isolated(Seed(seed), move || {
        let (mut world, notes) = (world(kind, seed), Notes::default());
        start_server(&mut *world, &notes);
        let done: Rc<RefCell<u8>> = Rc::default();
        for number in 0..publishers {
            let say = voice(&*world, &notes);
            let (done, clock) = (Rc::clone(&done), world.clock());
            world.host(
                client_host(number),
                Box::pin(async move {
                    let stored = match publishes {
                        Publishes::Extra => publish_by_extra(messages).await,
                        Publishes::Core => {
                            let (say, clock) = (say.clone(), Rc::clone(&clock));
                            publish_by_core(messages, &Ears { clock, say }).await
                        }
                    };
                    say(&format!("{number} committed {stored}"));
                    *done.borrow_mut() += 1;
                    clock.interrupt();
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

/// The substrate, whose code publishes, how many publishers, and messages of each.
type Run = (Kind, Publishes, u8, u32);

/// Runs that are held to be equal.
const RUNS: [Run; 8] = [
    (Kind::Event, Publishes::Extra, 1, 1_000),
    (Kind::Event, Publishes::Extra, 100, 60),
    (Kind::Event, Publishes::Core, 1, 1_000),
    (Kind::Event, Publishes::Core, 100, 60),
    (Kind::Turmoil, Publishes::Extra, 1, 1_000),
    (Kind::Turmoil, Publishes::Extra, 20, 60),
    (Kind::Turmoil, Publishes::Core, 1, 1_000),
    (Kind::Turmoil, Publishes::Core, 20, 60),
];

#[test]
fn fast_batches_are_committed() {
    for run in RUNS {
        let (_, _, publishers, messages) = run;
        let committed = format!("committed {messages}");
        let notes = batches(run, 1);
        let committed = notes.iter().filter(|note| note.ends_with(&committed));
        assert_eq!(committed.count(), usize::from(publishers), "{run:?}");
    }
}

#[test]
fn equal_seeds_are_equal_runs_in_a_row_and_side_by_side() {
    for run in RUNS {
        let again = || batches(run, 1);
        let first = again();
        assert!(first == again(), "{run:?}: in a row");
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(again)).collect();
            for other in others {
                assert!(other.join().unwrap() == first, "{run:?}: side by side");
            }
        });
    }
}

#[test]
fn equal_seeds_are_equal_runs_in_two_processes() {
    let notes = RUNS.map(|run| batches(run, 1));
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
    let run = |seed| batches((Kind::Event, Publishes::Extra, 20, 20), seed);
    assert_ne!(run(1), run(2));
}
