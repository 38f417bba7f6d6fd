//! The crate in the place of tokio: the operating system's sockets without a network, the installed
//! network's with one, and tasks that belong to hosts.
//!
//! Leans on the facade alone, and on `cargo metadata` for what cargo makes of it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;
use tokio::hook::{self, Connecting, Listener, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::runtime::{LocalOptions, LocalRuntime};
// House rule: a `select!` is biased. Those of client crates are not, and are what is tested here.
use tokio::select as select_fairly;
use tokio::time::{Duration, sleep};

fn runtime() -> LocalRuntime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build_local(LocalOptions::default())
        .unwrap()
}

// -- what cargo makes of it ------------------------------------------------------------------

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .output()
        .unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The facade and the real crate, as `cargo metadata` has them.
fn both(metadata: &Value) -> (&Value, &Value) {
    let of = |own: bool| {
        let packages = metadata["packages"].as_array().unwrap().iter();
        let mut named = packages.filter(|package| package["name"] == "tokio");
        named
            .find(|package| package["source"].is_null() == own)
            .unwrap()
    };
    (of(true), of(false))
}

#[test]
fn every_crate_uses_the_facade_and_only_the_facade_the_real_crate() {
    let metadata = metadata();
    let (facade, real) = both(&metadata);
    let mut users = Vec::new();
    for node in metadata["resolve"]["nodes"].as_array().unwrap() {
        let mut dependencies = node["dependencies"].as_array().unwrap().iter();
        if dependencies.any(|used| *used == real["id"]) {
            users.push(&node["id"]);
        }
    }
    assert_eq!(users, [&facade["id"]], "run `cargo update tokio`");
}

#[test]
fn every_feature_of_the_real_crate_is_forwarded() {
    let metadata = metadata();
    let (facade, real) = both(&metadata);
    let features = |package: &Value| -> BTreeSet<String> {
        let features = package["features"].as_object().unwrap();
        features.keys().cloned().collect()
    };
    let mut wanted = features(real);
    for unstable in ["io-uring", "taskdump"] {
        assert!(wanted.remove(unstable), "{unstable} is gone");
    }
    assert_eq!(features(facade), wanted);
    for (feature, enables) in facade["features"].as_object().unwrap() {
        let forwarded = Value::from(format!("real/{feature}"));
        let forwards = enables.as_array().unwrap().contains(&forwarded);
        assert!(forwards || feature == "default", "{feature}");
    }
}

// -- without a network -----------------------------------------------------------------------

/// Both ends of a connection of the operating system.
async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (one, other) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (other, from) = other.unwrap();
    let one = one.unwrap();
    assert_eq!(one.local_addr().unwrap(), from);
    assert_eq!(one.peer_addr().unwrap(), address);
    (one, other)
}

#[test]
fn the_sockets_are_the_systems_without_a_network() {
    runtime().block_on(async {
        let (mut one, mut other) = connected().await;
        one.set_nodelay(true).unwrap();
        assert!(one.nodelay().unwrap());
        one.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        assert_eq!(other.peek(&mut bytes).await.unwrap(), 4);
        other.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        one.shutdown().await.unwrap();
        assert_eq!(other.read(&mut bytes).await.unwrap(), 0);
    });
}

#[test]
fn polls_without_waiting_and_vectored_calls_reach_the_system() {
    runtime().block_on(async {
        let (one, other) = connected().await;
        let mut bytes = [0; 8];
        let error = other.try_read(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        one.writable().await.unwrap();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cde")];
        assert_eq!(one.try_write_vectored(&parts).unwrap(), 5);
        other.readable().await.unwrap();
        let (first, second) = bytes.split_at_mut(1);
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(second)];
        assert_eq!(other.try_read_vectored(&mut parts).unwrap(), 5);
        assert_eq!(&bytes[..5], b"abcde");
        assert_eq!(one.try_write(b"f").unwrap(), 1);
        other.readable().await.unwrap();
        let mut grown = Vec::new();
        assert_eq!(other.try_read_buf(&mut grown).unwrap(), 1);
        assert!(tokio::io::AsyncWrite::is_write_vectored(&one));
    });
}

#[test]
fn streams_are_split_and_put_together() {
    runtime().block_on(async {
        let (mut one, other) = connected().await;
        {
            let (read, mut write) = one.split();
            write.write_all(b"lent").await.unwrap();
            assert_eq!(
                read.try_read(&mut [0]).unwrap_err().kind(),
                ErrorKind::WouldBlock
            );
        }
        let (mut read, write) = other.into_split();
        let mut bytes = [0; 4];
        read.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"lent");
        let (stranger, _far) = connected().await;
        let (_, strange) = stranger.into_split();
        let error = read.reunite(strange).unwrap_err();
        let mut other = error.0.reunite(write).unwrap();
        other.write_all(b"whole").await.unwrap();
        let (mut read, write) = one.into_split();
        drop(write);
        assert_eq!(
            other.read(&mut bytes).await.unwrap(),
            0,
            "a dropped half ends"
        );
        let mut bytes = [0; 5];
        read.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"whole");
    });
}

#[test]
fn sockets_bind_before_they_connect() {
    runtime().block_on(async {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(loopback(0)).unwrap();
        let listener = socket.listen(8).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(loopback(0)).unwrap();
        let from = socket.local_addr().unwrap();
        let connect = socket.connect(listener.local_addr().unwrap());
        let (one, other) = tokio::join!(connect, listener.accept());
        assert_eq!(one.unwrap().local_addr().unwrap(), from);
        assert_eq!(other.unwrap().1, from);
    });
}

#[test]
fn addresses_are_resolved_by_the_system() {
    runtime().block_on(async {
        let resolved: Vec<SocketAddr> = lookup_host("localhost:7").await.unwrap().collect();
        assert!(resolved.iter().all(|address| address.ip().is_loopback()));
        assert!(!resolved.is_empty());
        let wanted = vec![loopback(7)];
        let pair = ("127.0.0.1", 7);
        assert_eq!(lookup_host(pair).await.unwrap().collect::<Vec<_>>(), wanted);
        let owned = ("127.0.0.1".to_owned(), 7);
        assert_eq!(
            lookup_host(&owned).await.unwrap().collect::<Vec<_>>(),
            wanted
        );
        let all = lookup_host(wanted.as_slice()).await.unwrap();
        assert_eq!(all.collect::<Vec<_>>(), wanted);
        for bad in ["localhost", "localhost:x", "localhost:70000"] {
            let error = lookup_host(bad).await.err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
        }
    });
}

// -- with a network --------------------------------------------------------------------------

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A network that nobody answers on: it writes down what it is asked.
#[derive(Default)]
struct Notes {
    asked: RefCell<Vec<String>>,
    draws: Cell<u32>,
}

impl Network for Notes {
    fn connect(&self, local: Option<SocketAddr>, remote: SocketAddr) -> Connecting {
        let asked = format!("connect {local:?} {remote} {:?}", hook::current_host());
        self.asked.borrow_mut().push(asked);
        Box::pin(std::future::ready(Err(ErrorKind::ConnectionRefused.into())))
    }

    fn listen(&self, local: SocketAddr, backlog: u32) -> io::Result<Arc<dyn Listener>> {
        let asked = format!("listen {local} {backlog}");
        self.asked.borrow_mut().push(asked);
        Err(ErrorKind::AddrInUse.into())
    }

    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.asked
            .borrow_mut()
            .push(format!("resolve {name} {port}"));
        Ok(vec![loopback(port), loopback(port + 1)])
    }

    fn choose(&self, options: u32) -> u32 {
        self.draws.set(self.draws.get() + 1);
        (self.draws.get() / 2) % options
    }
}

#[test]
fn an_installed_network_is_asked_instead_of_the_system() {
    let notes = Rc::new(Notes::default());
    let installed = hook::install(notes.clone());
    runtime().block_on(async {
        let error = TcpStream::connect("server.example:4222").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(loopback(5)).unwrap();
        hook::on_host(IpAddr::from([10, 0, 0, 1]), socket.connect(loopback(6)))
            .await
            .unwrap_err();
        let error = TcpListener::bind("0.0.0.0:1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        let elsewhere = std::thread::spawn(|| hook::network().is_none());
        assert!(elsewhere.join().unwrap(), "other threads have none");
    });
    let asked = notes.asked.take();
    assert_eq!(
        asked,
        [
            "resolve server.example 4222",
            "connect None 127.0.0.1:4222 None",
            "connect None 127.0.0.1:4223 None",
            "connect Some(127.0.0.1:5) 127.0.0.1:6 Some(10.0.0.1)",
            "listen 0.0.0.0:1 1024",
        ]
    );
    {
        let _inner = hook::install(Rc::new(Notes::default()));
        assert!(Rc::strong_count(&notes) == 2);
    }
    let current: Rc<dyn Network> = hook::network().unwrap();
    assert!(Rc::ptr_eq(&current, &(notes.clone() as Rc<dyn Network>)));
    drop(installed);
    assert!(hook::network().is_none());
}

// -- hosts -----------------------------------------------------------------------------------

const ONE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Software that hides a task in a task, as client crates do, and never ends.
async fn software(ticks: Rc<Cell<u32>>) {
    let hidden = tokio::task::spawn_local(async move {
        let deeper = tokio::task::spawn_local(async move {
            loop {
                ticks.set(ticks.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        // Detached: nobody holds a handle.
        drop(deeper);
        std::future::pending::<()>().await;
    });
    drop(hidden);
    tokio::spawn(std::future::pending::<()>());
}

async fn turns(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_crash_ends_the_tasks_of_one_host_however_deep() {
    let (one, other) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    runtime().block_on(async {
        for (host, ticks) in [(ONE, &one), (OTHER, &other)] {
            let software = software(Rc::clone(ticks));
            hook::within(host, || tokio::task::spawn_local(software));
        }
        turns(8).await;
        assert_eq!((hook::tasks(ONE), hook::tasks(OTHER)), (3, 3));
        assert!(one.get() > 0);
        assert_eq!(hook::crash(ONE), 3);
        turns(2).await;
        let (stopped, running) = (one.get(), other.get());
        turns(8).await;
        assert_eq!(one.get(), stopped);
        assert!(other.get() > running);
        assert_eq!((hook::tasks(ONE), hook::tasks(OTHER)), (0, 3));
        assert_eq!(hook::current_host(), None);
    });
    assert_eq!(hook::tasks(OTHER), 0, "the runtime is gone, and its tasks");
}

#[test]
fn tasks_without_a_host_are_left_alone() {
    runtime().block_on(async {
        let task = tokio::spawn(async { hook::current_host() });
        assert_eq!(task.await.unwrap(), None);
        let task = hook::within(ONE, || tokio::spawn(async { hook::current_host() }));
        assert_eq!(hook::tasks(ONE), 1);
        assert_eq!(task.await.unwrap(), Some(ONE));
        assert_eq!(hook::tasks(ONE), 0);
        assert_eq!(hook::crash(ONE), 0);
    });
}

#[test]
fn the_panic_of_a_hidden_task_is_told() {
    runtime().block_on(async {
        hook::within(OTHER, || {
            drop(tokio::spawn(async { panic!("a bug in a client crate") }));
        });
        tokio::spawn(async { panic!("a task without a host") })
            .await
            .unwrap_err();
        turns(2).await;
        assert_eq!(hook::take_panics(), [OTHER]);
        assert_eq!(hook::take_panics(), Vec::<IpAddr>::new());
    });
}

// -- select! ---------------------------------------------------------------------------------

/// Which of two ready branches wins, so many times.
async fn winners(count: usize) -> Vec<u8> {
    let mut winners = Vec::new();
    for _ in 0..count {
        winners.push(select_fairly! {
            () = async {} => 0,
            value = async { 1_u8 }, if true => { value }
        });
    }
    winners
}

#[test]
fn the_network_draws_the_first_branch() {
    let notes = Rc::new(Notes::default());
    let _installed = hook::install(notes.clone());
    let won = runtime().block_on(winners(6));
    assert_eq!(won, [0, 1, 1, 0, 0, 1]);
    assert_eq!(notes.draws.get(), 6);
}

#[test]
fn without_a_network_both_branches_get_their_turn() {
    let won = runtime().block_on(winners(200));
    assert!(won.contains(&0) && won.contains(&1));
}

#[test]
fn every_form_of_select_is_understood() {
    let notes = Rc::new(Notes::default());
    let _installed = hook::install(notes.clone());
    runtime().block_on(async {
        let biased = tokio::select! { biased; () = async {} => 1, () = async {} => 2 };
        assert_eq!(biased, 1);
        assert_eq!(notes.draws.get(), 0, "no draw where there is no choice");
        let none = select_fairly! { Some(()) = async { None } => 1, else => 2 };
        assert_eq!(none, 2);
        let block = select_fairly! {
            () = std::future::pending() => 1,
            () = sleep(Duration::ZERO) => { 2 }
            _ = async { loop { tokio::task::yield_now().await } } => 3,
        };
        assert_eq!(block, 2);
        let only = select_fairly! { else => 4 };
        assert_eq!(only, 4);
        assert!(notes.draws.get() > 0);
    });
}
