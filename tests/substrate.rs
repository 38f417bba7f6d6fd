//! The event substrate: exact times, order, windows, faults, crashes, and the same run again.
//!
//! Software is ordinary async code over `tokio::net`. Each test runs its world on a thread of its
//! own, as the wire lane does. Leans on `sim::substrate`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use tidegate::machine::Time;
use tidegate::seed::Seed;
use tidegate::sim::substrate::{
    EventSubstrate, LinkSettings, Links, LocalFuture, Progress, Substrate, isolated,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Mutex;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 2));
const PORT: u16 = 4_222;

const US: fn(u64) -> Time = Time::from_micros;
const MS: fn(u64) -> Time = Time::from_millis;

/// One way 150 us; bandwidth (a byte takes no picosecond) and window out of the way.
fn link() -> LinkSettings {
    LinkSettings {
        latency: US(150),
        jitter: Time::ZERO,
        bits_per_second: 1_000_000_000_000_000,
        window_bytes: 1 << 30,
    }
}

/// What software says, with the time at which it says it.
type Said = Rc<RefCell<Vec<(Time, String)>>>;

/// A world and what was said in it.
struct Scene {
    world: EventSubstrate,
    said: Said,
}

impl Scene {
    fn new(link: LinkSettings) -> Self {
        Self::with(Links::all(link), Seed(1))
    }

    fn with(links: Links, seed: Seed) -> Self {
        let mut world = EventSubstrate::new(links, seed).unwrap();
        world.name("server", SERVER);
        let said = Said::default();
        Self { world, said }
    }

    /// A voice for software: says something at its time.
    fn voice(&self) -> impl Fn(&str) + Clone + 'static {
        let (said, clock) = (Rc::clone(&self.said), self.world.clock());
        move |text| said.borrow_mut().push((clock.now(), text.to_owned()))
    }

    fn host(&mut self, host: IpAddr, software: impl Future<Output = ()> + 'static) {
        self.world.host(host, Box::pin(software));
    }

    /// Runs to `until`, and gives what was said since the last call.
    fn run(&mut self, until: Time) -> Vec<(Time, String)> {
        loop {
            match self.world.step(until) {
                Progress::Going => {}
                Progress::Reached(at) => {
                    assert_eq!((at, self.world.now()), (until, until));
                    break;
                }
                Progress::Idle => {
                    assert_eq!(until, Time::NEVER);
                    break;
                }
                Progress::Panicked(host) => panic!("software of {host} panicked"),
            }
        }
        self.said.take()
    }
}

/// Runs a scene on a thread of its own.
fn scene<T: Send>(play: impl FnOnce() -> T + Send) -> T {
    isolated(Seed(1), play).unwrap()
}

fn said(at: Time, text: &str) -> (Time, String) {
    (at, text.to_owned())
}

async fn listen() -> TcpListener {
    TcpListener::bind(("0.0.0.0", PORT)).await.unwrap()
}

/// Sends back what it reads, connection by connection.
async fn echo() {
    let listener = listen().await;
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        tokio::spawn(async move {
            let mut bytes = [0; 4_096];
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                if stream.write_all(&bytes[..count]).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn dial() -> io::Result<TcpStream> {
    TcpStream::connect(("server", PORT)).await
}

fn outcome<T>(result: io::Result<T>) -> String {
    match result {
        Ok(_) => "fine".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
    }
}

// -- times -----------------------------------------------------------------------------------

#[test]
fn a_connect_takes_a_round_trip_and_an_echo_another() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, echo());
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            say("connected");
            let mut bytes = [0; 4];
            for _ in 0..2 {
                stream.write_all(b"ping").await.unwrap();
                stream.read_exact(&mut bytes).await.unwrap();
                say("echoed");
            }
            assert_eq!(stream.peer_addr().unwrap(), (SERVER, PORT).into());
            assert_eq!(stream.local_addr().unwrap().ip(), CLIENT);
        });
        let heard = scene.run(MS(5));
        assert_eq!(
            heard,
            [
                said(US(300), "connected"),
                said(US(600), "echoed"),
                said(US(900), "echoed"),
            ]
        );
    });
}

#[test]
fn bandwidth_is_exact_to_the_nanosecond() {
    scene(|| {
        // 80 Mbit/s: a byte takes 100 ns.
        let slow = LinkSettings {
            bits_per_second: 80_000_000,
            ..link()
        };
        let mut scene = Scene::new(slow);
        let say = scene.voice();
        scene.host(SERVER, async move {
            let (mut stream, _) = listen().await.accept().await.unwrap();
            say("accepted");
            let mut bytes = vec![0; 1_000_000];
            stream.read_exact(&mut bytes).await.unwrap();
            say("read");
            assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
        });
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            let bytes: Vec<u8> = (0..1_000_000).map(|at| at as u8).collect();
            stream.write_all(&bytes).await.unwrap();
            say("written");
            std::future::pending::<()>().await;
        });
        assert_eq!(
            scene.run(Time::from_secs(1)),
            [
                said(US(300), "written"),
                said(US(450), "accepted"),
                said(US(300 + 100_000 + 150), "read"),
            ]
        );
    });
}

#[test]
fn the_window_blocks_the_writer_until_the_reader_has_read() {
    scene(|| {
        let narrow = LinkSettings {
            window_bytes: 1_000,
            ..link()
        };
        let mut scene = Scene::new(narrow);
        let clock = scene.world.clock();
        scene.host(SERVER, async move {
            let (mut stream, _) = listen().await.accept().await.unwrap();
            clock.sleep_until(US(5_010)).await;
            let mut bytes = [0; 1_000];
            stream.read_exact(&mut bytes[..400]).await.unwrap();
            clock.sleep_until(US(7_000)).await;
            stream.read_exact(&mut bytes).await.unwrap();
            std::future::pending::<()>().await;
        });
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            stream.write_all(&[1; 1_000]).await.unwrap();
            say("full");
            assert_eq!(
                stream.try_write(&[1]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
            stream.write_all(&[1; 400]).await.unwrap();
            say("room");
            stream.write_all(&[1; 600]).await.unwrap();
            say("more");
        });
        assert_eq!(
            scene.run(MS(50)),
            [
                said(US(300), "full"),
                said(US(5_160), "room"),
                said(US(7_150), "more"),
            ]
        );
    });
}

#[test]
fn sleeps_of_the_clock_are_exact_and_those_of_tokio_whole_milliseconds() {
    scene(|| {
        let mut scene = Scene::new(link());
        let (say, clock) = (scene.voice(), scene.world.clock());
        scene.host(CLIENT, async move {
            clock.sleep_until(Time::from_nanos(1_234_567)).await;
            say("exact");
            tokio::time::sleep(Duration::from_micros(10)).await;
            say("tokio");
            clock.sleep_until(US(1)).await;
            say("past");
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            say("an hour");
        });
        assert_eq!(
            scene.run(Time::from_secs(10_000)),
            [
                said(Time::from_nanos(1_234_567), "exact"),
                said(MS(2), "tokio"),
                said(MS(2), "past"),
                said(MS(3_600_002), "an hour"),
            ]
        );
    });
}

#[test]
fn clocks_of_others_show_simulated_time() {
    scene(|| {
        let mut scene = Scene::new(link());
        let (say, clock) = (scene.voice(), scene.world.clock());
        scene.host(CLIENT, async move {
            #[expect(clippy::disallowed_methods, reason = "what client crates do")]
            let now = std::time::Instant::now;
            let (start, tokios) = (now(), tokio::time::Instant::now());
            clock.sleep_until(US(2_500)).await;
            assert_eq!(now() - start, Duration::from_micros(2_500));
            // The runtime jumps here by itself.
            tokio::time::sleep(Duration::from_millis(500)).await;
            assert_eq!(now() - start, Duration::from_millis(503));
            assert_eq!(tokios.elapsed(), Duration::from_millis(503));
            say("done");
        });
        assert_eq!(scene.run(Time::from_secs(1)), [said(MS(503), "done")]);
    });
}

#[test]
fn a_world_without_anything_to_do_is_idle() {
    scene(|| {
        let mut scene = Scene::new(link());
        assert_eq!(scene.world.step(MS(7)), Progress::Reached(MS(7)));
        let clock = scene.world.clock();
        let say = scene.voice();
        scene.host(CLIENT, async move {
            clock.sleep_until(Time::from_secs(86_400)).await;
            say("a day");
            std::future::pending::<()>().await;
        });
        let heard = scene.run(Time::NEVER);
        assert_eq!(heard, [said(Time::from_secs(86_400), "a day")]);
        assert_eq!(scene.world.now(), Time::from_secs(86_400));
        assert_eq!(scene.world.step(Time::NEVER), Progress::Idle);
        // It can go on from there.
        let say = scene.voice();
        scene.host(OTHER, async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            say("more");
        });
        let heard = scene.run(Time::NEVER);
        assert_eq!(heard, [said(MS(86_400_001), "more")]);
    });
}

#[test]
fn software_ends_the_step_when_it_has_news() {
    scene(|| {
        let mut scene = Scene::new(link());
        let clock = scene.world.clock();
        scene.host(CLIENT, async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            clock.interrupt();
            std::future::pending::<()>().await;
        });
        assert_eq!(scene.world.step(MS(100)), Progress::Going);
        assert_eq!(scene.world.now(), MS(5));
        assert_eq!(scene.world.step(MS(100)), Progress::Reached(MS(100)));
    });
}

// -- order and ends --------------------------------------------------------------------------

#[test]
fn bytes_stay_in_order_under_jitter() {
    scene(|| {
        let shaky = LinkSettings {
            jitter: US(400),
            window_bytes: 3_000,
            ..link()
        };
        let mut scene = Scene::new(shaky);
        scene.host(SERVER, echo());
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let (mut read, mut write) = dial().await.unwrap().into_split();
            tokio::spawn(async move {
                for number in 0..2_000_u32 {
                    write.write_all(&number.to_be_bytes()).await.unwrap();
                }
            });
            for number in 0..2_000 {
                assert_eq!(read.read_u32().await.unwrap(), number);
            }
            assert_eq!(read.read(&mut [0]).await.unwrap(), 0, "then the end");
            say("all");
        });
        let heard = scene.run(Time::from_secs(1));
        assert_eq!(heard.len(), 1);
    });
}

#[test]
fn a_close_is_an_end_and_unread_bytes_a_reset() {
    scene(|| {
        let mut scene = Scene::new(link());
        let say = scene.voice();
        scene.host(SERVER, async move {
            let listener = listen().await;
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).await.unwrap();
            say(&format!("{} and the end", bytes.len()));
            stream.write_all(b"too late").await.unwrap();
            let error = stream.read(&mut [0]).await;
            assert_eq!(error.unwrap(), 0, "the end stays, until the reset is here");
            tokio::time::sleep(Duration::from_millis(2)).await;
            say(&outcome(stream.read(&mut [0]).await));
            say(&outcome(stream.write(b"x").await));
        });
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            stream.write_all(b"12345").await.unwrap();
            drop(stream);
            say("closed");
        });
        let heard: Vec<_> = scene.run(MS(9)).into_iter().map(|(_, text)| text).collect();
        let reset = "ConnectionReset";
        assert_eq!(heard, ["closed", "5 and the end", reset, reset]);
    });
}

#[test]
fn who_leaves_bytes_unread_resets() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, async move {
            let (mut stream, _) = listen().await.accept().await.unwrap();
            stream.write_all(b"hello").await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
            drop(stream);
        });
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            stream.write_all(b"nobody reads this").await.unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).await.unwrap();
            say(&outcome(stream.read(&mut bytes).await));
        });
        let heard = scene.run(MS(9));
        assert_eq!(heard, [said(US(4_150), "ConnectionReset")]);
    });
}

#[test]
fn a_wake_of_a_task_that_has_ended_stops_nothing() {
    // Within a host bytes arrive at once: the clock need not move for that.
    let play = |host| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, echo());
        let (say, clock) = (scene.voice(), scene.world.clock());
        scene.host(host, async move {
            let stream = Rc::new(Mutex::new(dial().await.unwrap()));
            let reader = Rc::clone(&stream);
            let waiting = tokio::task::spawn_local(async move {
                let mut bytes = [0; 8];
                let mut stream = reader.lock().await;
                let read = stream.read(&mut bytes);
                // Waits for bytes, and then no longer.
                let waited = tokio::time::timeout(Duration::from_millis(1), read).await;
                assert!(waited.is_err());
            });
            waiting.await.unwrap();
            stream.lock().await.write_all(b"ping").await.unwrap();
            say("written");
            clock.sleep_until(MS(30)).await;
            say("later");
        });
        let heard = scene.run(Time::NEVER);
        assert_eq!(heard[1], said(MS(30), "later"));
    };
    for host in [CLIENT, SERVER] {
        scene(|| play(host));
    }
}

#[test]
fn nobody_there_refuses_after_a_round_trip() {
    scene(|| {
        let mut scene = Scene::new(link());
        let say = scene.voice();
        scene.host(CLIENT, async move {
            say(&outcome(dial().await));
            say(&outcome(TcpStream::connect("nobody:1").await));
        });
        assert_eq!(
            scene.run(MS(9)),
            [
                said(US(300), "ConnectionRefused"),
                said(US(300), "NotFound"),
            ]
        );
    });
}

#[test]
fn a_full_backlog_makes_the_next_one_come_again() {
    scene(|| {
        let mut scene = Scene::new(link());
        let clock = scene.world.clock();
        scene.host(SERVER, async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((SERVER, PORT).into()).unwrap();
            let listener = socket.listen(2).unwrap();
            clock.sleep_until(MS(500)).await;
            let mut streams = Vec::new();
            loop {
                streams.push(listener.accept().await.unwrap());
            }
        });
        for client in 0..3 {
            let say = scene.voice();
            scene.host(IpAddr::from([10, 0, 2, client]), async move {
                let _stream = dial().await.unwrap();
                say("fine");
                std::future::pending::<()>().await;
            });
        }
        let heard = scene.run(Time::from_secs(3));
        assert_eq!(
            heard,
            [
                said(US(300), "fine"),
                said(US(300), "fine"),
                said(US(1_000_300), "fine"),
            ]
        );
    });
}

// -- faults ----------------------------------------------------------------------------------

/// A client that sends numbers every ten milliseconds to a server that says when they arrive, and
/// says itself when its connection fails.
fn ticking(scene: &mut Scene) {
    let say = scene.voice();
    scene.host(SERVER, async move {
        let (mut stream, _) = listen().await.accept().await.unwrap();
        loop {
            match stream.read_u8().await {
                Ok(number) => say(&format!("got {number}")),
                Err(error) => return say(&format!("server {:?}", error.kind())),
            }
        }
    });
    let say = scene.voice();
    let clock = scene.world.clock();
    scene.host(CLIENT, async move {
        let mut stream = dial().await.unwrap();
        for number in 1.. {
            clock.sleep_until(MS(10 * number)).await;
            if let Err(error) = stream.write_u8(number as u8).await {
                return say(&format!("client {:?}", error.kind()));
            }
        }
    });
}

#[test]
fn a_cut_makes_late_and_loses_nothing() {
    scene(|| {
        let mut scene = Scene::new(link());
        ticking(&mut scene);
        let arrival = |number: u64| US(number * 10_000 + 150);
        scene.run(MS(15));
        scene.world.cut(CLIENT, SERVER);
        assert_eq!(scene.run(MS(45)), []);
        scene.world.heal(CLIENT, SERVER);
        let heard = scene.run(MS(235));
        // Byte 2, sent at 20 ms, is sent again 200.3 ms later, and what followed comes along.
        let again = US(20_000 + 200_300 + 150);
        let late = heard.iter().filter(|(at, _)| *at < again + US(1)).count();
        let texts: Vec<_> = heard.iter().map(|(_, text)| text.as_str()).collect();
        let wanted: Vec<String> = (2..24).map(|number| format!("got {number}")).collect();
        assert!(heard[0].0 >= again, "{:?}", heard[0]);
        assert_eq!(late, 21, "{heard:?}");
        assert_eq!(texts, wanted);
        assert_eq!(scene.run(MS(245)), [said(arrival(24), "got 24")]);
    });
}

#[test]
fn a_cut_of_one_way_leaves_the_other() {
    scene(|| {
        let mut scene = Scene::new(link());
        ticking(&mut scene);
        scene.run(MS(15));
        scene.world.cut(SERVER, CLIENT);
        let heard: Vec<_> = scene
            .run(MS(45))
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(heard, ["got 2", "got 3", "got 4"]);
    });
}

#[test]
fn a_cut_that_lasts_ends_in_a_timeout() {
    scene(|| {
        let mut scene = Scene::new(link());
        ticking(&mut scene);
        scene.run(MS(15));
        scene.world.cut(CLIENT, SERVER);
        scene.world.cut(SERVER, CLIENT);
        let mut heard = scene.run(Time::from_secs(1_000));
        let (at, text) = heard.remove(0);
        assert_eq!(text, "client TimedOut");
        assert_eq!(at.as_nanos() / 1_000_000_000, 924, "{at}");
        assert_eq!(heard, [], "the server knows nothing of it");
    });
}

#[test]
fn a_hold_delays_and_a_release_lets_all_go_at_once() {
    scene(|| {
        let mut scene = Scene::new(link());
        ticking(&mut scene);
        scene.run(MS(15));
        scene.world.hold(CLIENT, SERVER);
        assert_eq!(scene.run(MS(45)), []);
        scene.world.release(CLIENT, SERVER);
        assert_eq!(
            scene.run(MS(49)),
            [2, 3, 4].map(|number| said(MS(45), &format!("got {number}")))
        );
    });
}

#[test]
fn a_reset_is_seen_by_both_ends_at_once() {
    scene(|| {
        let mut scene = Scene::new(link());
        ticking(&mut scene);
        scene.run(MS(15));
        scene.world.reset(SERVER, CLIENT).unwrap();
        assert_eq!(
            scene.run(MS(29)),
            [
                said(MS(15), "server ConnectionReset"),
                said(MS(20), "client ConnectionReset"),
            ]
        );
    });
}

#[test]
fn attempts_across_a_cut_come_again_and_time_out() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, echo());
        scene.world.cut(CLIENT, SERVER);
        scene.world.cut(SERVER, OTHER);
        for client in [CLIENT, OTHER] {
            let say = scene.voice();
            scene.host(client, async move {
                say(&format!("{client} {}", outcome(dial().await)));
            });
        }
        scene.run(MS(6_500));
        scene.world.heal(CLIENT, SERVER);
        let heard = scene.run(Time::from_secs(200));
        // Tried at 0, 1, 3 and 7 seconds; the other gives up after 1 + 2 + … + 64.
        assert_eq!(
            heard,
            [
                said(US(7_000_300), &format!("{CLIENT} fine")),
                said(US(127_000_000), &format!("{OTHER} TimedOut")),
            ]
        );
    });
}

#[test]
fn attempts_wait_for_the_end_of_a_hold() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, echo());
        scene.world.hold(SERVER, CLIENT);
        let say = scene.voice();
        scene.host(CLIENT, async move { say(&outcome(dial().await)) });
        assert_eq!(scene.run(MS(100)), []);
        scene.world.release(SERVER, CLIENT);
        assert_eq!(scene.run(MS(200)), [said(US(100_300), "fine")]);
    });
}

// -- crashes ---------------------------------------------------------------------------------

/// Software that hides its connection in a task of its own, and never lets go of it.
async fn hiding(ticks: Rc<Cell<u32>>) {
    let mut stream = dial().await.unwrap();
    drop(tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            stream.write_u8(1).await.unwrap();
            ticks.set(ticks.get() + 1);
        }
    }));
}

/// Says how the connection of each host ends.
async fn watching(say: impl Fn(&str) + Clone + 'static) {
    let listener = listen().await;
    loop {
        let (mut stream, from) = listener.accept().await.unwrap();
        let say = say.clone();
        tokio::task::spawn_local(async move {
            let mut bytes = Vec::new();
            let end = stream.read_to_end(&mut bytes).await;
            say(&format!("{} {}", from.ip(), outcome(end)));
        });
    }
}

#[test]
fn a_crash_ends_hidden_tasks_and_resets_connections() {
    scene(|| {
        let mut scene = Scene::new(link());
        let server = watching(scene.voice());
        scene.host(SERVER, server);
        let ticks: Rc<Cell<u32>> = Rc::default();
        let others: Rc<Cell<u32>> = Rc::default();
        scene.host(CLIENT, hiding(Rc::clone(&ticks)));
        scene.host(OTHER, hiding(Rc::clone(&others)));
        assert_eq!(scene.run(MS(10)), []);
        scene.world.crash(CLIENT);
        let before = (ticks.get(), others.get());
        assert!(before.0 > 5);
        let reset = format!("{CLIENT} ConnectionReset");
        assert_eq!(scene.run(MS(20)), [said(US(10_150), &reset)]);
        assert_eq!(ticks.get(), before.0);
        assert_eq!(others.get(), before.1 + 10);
        assert_eq!(tokio::hook::tasks(CLIENT), 0);
        // It starts again on the same host.
        scene.host(CLIENT, hiding(Rc::clone(&ticks)));
        scene.run(MS(30));
        assert!(ticks.get() > before.0 + 5);
    });
}

#[test]
fn a_host_without_power_is_silent() {
    scene(|| {
        let mut scene = Scene::new(link());
        let server = watching(scene.voice());
        scene.host(SERVER, server);
        let ticks: Rc<Cell<u32>> = Rc::default();
        scene.host(CLIENT, hiding(Rc::clone(&ticks)));
        scene.run(MS(10));
        scene.world.cut(CLIENT, SERVER);
        scene.world.crash(CLIENT);
        assert_eq!(scene.run(Time::from_secs(60)), []);
    });
}

#[test]
fn a_crash_of_the_server_is_met_by_its_clients() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(SERVER, echo());
        let say = scene.voice();
        scene.host(CLIENT, async move {
            let mut stream = dial().await.unwrap();
            say(&outcome(stream.read(&mut [0]).await));
            say(&outcome(dial().await));
            tokio::time::sleep(Duration::from_millis(20)).await;
            say(&outcome(dial().await));
        });
        scene.run(MS(10));
        scene.world.crash(SERVER);
        assert_eq!(
            scene.run(MS(20)),
            [
                said(US(10_150), "ConnectionReset"),
                said(US(10_450), "ConnectionRefused"),
            ]
        );
        scene.host(SERVER, echo());
        let heard = scene.run(MS(40));
        assert_eq!(heard, [said(US(31_300), "fine")]);
    });
}

#[test]
fn a_panic_in_a_hidden_task_is_told_with_its_host() {
    scene(|| {
        let mut scene = Scene::new(link());
        scene.host(CLIENT, async {
            drop(tokio::spawn(async { panic!("a defect of a client") }));
        });
        assert_eq!(scene.world.step(MS(1)), Progress::Panicked(CLIENT));
        assert_eq!(scene.world.step(MS(1)), Progress::Reached(MS(1)));
    });
}

// -- many, and the same again ----------------------------------------------------------------

/// Many clients that exchange messages with one server at once; the whole trace.
fn crowd(clients: u16, seed: u64) -> Vec<(Time, String)> {
    let shaky = LinkSettings {
        jitter: US(50),
        bits_per_second: 1_000_000_000,
        ..link()
    };
    let mut scene = Scene::with(Links::all(shaky), Seed(seed));
    scene.host(SERVER, echo());
    for client in 0..clients {
        let say = scene.voice();
        let [high, low] = client.to_be_bytes();
        scene.host(IpAddr::from([10, 1, high, low]), async move {
            let mut stream = dial().await.unwrap();
            let mut bytes = [client as u8; 100];
            for round in 0..3 {
                stream.write_all(&bytes).await.unwrap();
                stream.read_exact(&mut bytes).await.unwrap();
                say(&format!("{client} {round}"));
            }
        });
    }
    let heard = scene.run(Time::from_secs(1));
    assert_eq!(heard.len(), usize::from(clients) * 3);
    heard
}

#[test]
fn a_thousand_connections_are_served() {
    scene(|| crowd(1_000, 1));
}

#[test]
fn the_same_seed_is_the_same_run_one_after_the_other_and_side_by_side() {
    let run = |seed| isolated(Seed(seed), move || crowd(100, seed)).unwrap();
    let first = run(1);
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..4).map(|_| scope.spawn(|| run(1))).collect();
        for other in runs {
            assert_eq!(other.join().unwrap(), first);
        }
    });
}

#[test]
fn ties_are_settled_by_the_seed() {
    let order = |seed| {
        isolated(Seed(1), move || {
            let mut scene = Scene::with(Links::all(link()), Seed(seed));
            for client in 0..8 {
                let (say, clock) = (scene.voice(), scene.world.clock());
                scene.host(IpAddr::from([10, 0, 3, client]), async move {
                    clock.sleep_until(US(10)).await;
                    say(&client.to_string());
                });
            }
            scene.run(MS(1))
        })
        .unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn a_thread_that_does_not_follow_from_the_seed_is_refused() {
    let refused = EventSubstrate::new(Links::all(link()), Seed(1)).err();
    assert_eq!(refused.unwrap().key, "lane");
}

#[test]
fn links_differ_where_the_world_says_so() {
    scene(|| {
        let mut links = Links::all(link());
        let far = LinkSettings {
            latency: MS(20),
            ..link()
        };
        links.between.insert((CLIENT, SERVER), far);
        let mut scene = Scene::with(links, Seed(1));
        scene.host(SERVER, echo());
        let hello = |say: Box<dyn Fn(&str)>, host: IpAddr| -> LocalFuture {
            Box::pin(async move {
                dial().await.unwrap();
                say(&host.to_string());
            })
        };
        for host in [CLIENT, OTHER, SERVER] {
            let say = Box::new(scene.voice());
            scene.world.host(host, hello(say, host));
        }
        assert_eq!(
            scene.run(MS(30)),
            [
                said(Time::ZERO, &SERVER.to_string()),
                said(US(300), &OTHER.to_string()),
                said(US(20_150), &CLIENT.to_string()),
            ]
        );
    });
}
