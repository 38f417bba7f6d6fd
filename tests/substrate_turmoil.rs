//! The turmoil substrate: the same seam, in ticks of a millisecond.
//!
//! What both substrates say of client crates is in `substrate_nats.rs`; this is about the seam
//! alone. Leans on `sim::substrate`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use tidegate::machine::Time;
use tidegate::seed::Seed;
use tidegate::sim::substrate::{
    LinkSettings, Links, Progress, Substrate, TurmoilSubstrate, isolated,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2));
const MS: fn(u64) -> Time = Time::from_millis;

type Said = Rc<RefCell<Vec<(Time, String)>>>;

fn world(links: Links) -> TurmoilSubstrate {
    let mut world = TurmoilSubstrate::new(links, Seed(1)).unwrap();
    world.name("server", SERVER);
    world
}

fn links() -> Links {
    Links::all(LinkSettings {
        latency: MS(2),
        jitter: Time::ZERO,
        bits_per_second: 1_000,
        window_bytes: 1,
    })
}

fn run(world: &mut TurmoilSubstrate, until: Time) {
    loop {
        match world.step(until) {
            Progress::Going => {}
            Progress::Reached(at) => return assert_eq!(at, until),
            other => panic!("{other:?}"),
        }
    }
}

async fn echo() {
    let listener = TcpListener::bind("0.0.0.0:7").await.unwrap();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut bytes = [0; 64];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// Sends a byte every ten milliseconds and says when it is back.
async fn ticking(say: impl Fn(String)) {
    let mut stream = TcpStream::connect("server:7").await.unwrap();
    for number in 0.. {
        stream.write_u8(number).await.unwrap();
        say(format!("{}", stream.read_u8().await.unwrap()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn voice(world: &TurmoilSubstrate, said: &Said) -> impl Fn(String) + 'static {
    let (clock, said) = (world.clock(), Rc::clone(said));
    move |text| said.borrow_mut().push((clock.now(), text))
}

#[test]
fn an_echo_takes_two_latencies_in_whole_milliseconds() {
    isolated(Seed(1), || {
        let (mut world, said) = (world(links()), Said::default());
        world.host(SERVER, Box::pin(echo()));
        let say = voice(&world, &said);
        let clock = world.clock();
        world.host(
            CLIENT,
            Box::pin(async move {
                let mut stream = TcpStream::connect("server:7").await.unwrap();
                say("connected".to_owned());
                stream.write_all(b"ping").await.unwrap();
                let mut bytes = [0; 4];
                stream.read_exact(&mut bytes).await.unwrap();
                say("echoed".to_owned());
                clock.sleep_until(MS(50)).await;
                say("slept".to_owned());
                let refused = TcpStream::connect("server:8").await.unwrap_err();
                say(format!("{:?}", refused.kind()));
            }),
        );
        run(&mut world, MS(100));
        let said = said.take();
        let at = |text: &str| said.iter().find(|(_, said)| said == text).unwrap().0;
        let echoed = at("echoed").since(at("connected"));
        // A tick more for each hop at most.
        assert!((MS(4)..=MS(6)).contains(&echoed), "{said:?}");
        assert_eq!(at("slept"), MS(50));
        assert!(at("ConnectionRefused") > MS(50));
    })
    .unwrap();
}

#[test]
fn a_cut_is_silence_and_a_hold_a_delay() {
    isolated(Seed(1), || {
        for cut in [true, false] {
            let (mut world, said) = (world(links()), Said::default());
            world.host(SERVER, Box::pin(echo()));
            let say = voice(&world, &said);
            world.host(CLIENT, Box::pin(ticking(say)));
            run(&mut world, MS(50));
            assert!(said.take().len() >= 2);
            match cut {
                true => world.cut(CLIENT, SERVER),
                false => world.hold(CLIENT, SERVER),
            }
            run(&mut world, MS(100));
            assert!(said.take().len() <= 1);
            match cut {
                true => world.heal(CLIENT, SERVER),
                false => world.release(CLIENT, SERVER),
            }
            run(&mut world, MS(200));
            assert_eq!(said.take().is_empty(), cut, "what was lost stays lost");
        }
    })
    .unwrap();
}

#[test]
fn a_cut_that_comes_before_its_hosts_counts() {
    isolated(Seed(1), || {
        let (mut world, said) = (world(links()), Said::default());
        world.cut(CLIENT, SERVER);
        world.host(SERVER, Box::pin(echo()));
        for host in [CLIENT, OTHER] {
            let say = voice(&world, &said);
            let software = async move {
                let connected = TcpStream::connect("server:7").await.is_ok();
                say(format!("{host} {connected}"));
            };
            world.host(host, Box::pin(software));
        }
        run(&mut world, MS(50));
        let mut said: Vec<String> = said.take().into_iter().map(|(_, text)| text).collect();
        said.sort();
        assert_eq!(said, [format!("{CLIENT} false"), format!("{OTHER} true")]);
    })
    .unwrap();
}

#[test]
fn a_crash_ends_hidden_tasks_of_one_host() {
    isolated(Seed(1), || {
        let mut world = world(links());
        let counts = [CLIENT, OTHER].map(|host| {
            let count: Rc<Cell<u32>> = Rc::default();
            let ticks = Rc::clone(&count);
            let software = async move {
                drop(tokio::task::spawn_local(async move {
                    loop {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        ticks.set(ticks.get() + 1);
                    }
                }));
            };
            world.host(host, Box::pin(software));
            count
        });
        run(&mut world, MS(10));
        world.crash(CLIENT);
        world.crash(CLIENT);
        let before = counts[0].get();
        assert!(before > 5);
        run(&mut world, MS(30));
        assert_eq!(counts[0].get(), before);
        assert!(counts[1].get() > before + 10);
        // It starts again, and takes more software while it runs.
        for _ in 0..2 {
            let count = Rc::clone(&counts[0]);
            world.host(
                CLIENT,
                Box::pin(async move { count.set(count.get() + 100) }),
            );
            let limit = world.now() + MS(3);
            run(&mut world, limit);
        }
        assert_eq!(counts[0].get(), before + 200);
    })
    .unwrap();
}

#[test]
fn what_turmoil_has_not_is_refused() {
    isolated(Seed(1), || {
        let mut world = world(links());
        let refused = world.reset(CLIENT, SERVER).unwrap_err();
        assert_eq!(refused.key, "substrate");
        world.host(CLIENT, Box::pin(async { panic!("a defect") }));
        assert_eq!(world.step(MS(9)), Progress::Panicked(CLIENT));
        assert_eq!(world.step(MS(2)), Progress::Reached(MS(2)));
    })
    .unwrap();
    let refused = TurmoilSubstrate::new(links(), Seed(1)).err().unwrap();
    assert_eq!(refused.key, "lane");
}
