//! Armed threads draw from the seed and see simulated time; all others keep what the system gives.
//!
//! Leans on `sim-entropy`, and asks through code of others: hash keys of the standard library take
//! the C library's `getrandom`, `ring` takes its `syscall`, `Instant` its `clock_gettime`.

#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "random order and clocks are what is tested"
)]

use std::collections::HashMap;
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

use async_nats::rustls::crypto::ring::default_provider;
use sim_entropy::{Refused, arm, is_armed, is_supported, isolated, set_elapsed_ns};

/// Set in the environment of a second process of these tests.
const CHILD: &str = "TIDEGATE_TEST_CHILD";

/// What code of others makes of the randomness of its thread.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Drawn {
    order: Vec<u32>,
    handshake: [u8; 32],
}

fn draw() -> Drawn {
    let map: HashMap<u32, ()> = (0..100).map(|key| (key, ())).collect();
    let mut handshake = [0; 32];
    default_provider()
        .secure_random
        .fill(&mut handshake)
        .unwrap();
    Drawn {
        order: map.into_keys().collect(),
        handshake,
    }
}

#[test]
fn armed_threads_draw_from_the_seed() {
    if !is_supported() {
        assert_eq!(isolated(1, draw), Err(Refused::Unsupported));
        return;
    }
    let drawn = isolated(1, draw).unwrap();
    let again = isolated(1, draw).unwrap();
    let other = isolated(2, draw).unwrap();
    assert_eq!(drawn, again);
    assert_ne!(drawn.order, other.order);
    assert_ne!(drawn.handshake, other.handshake);
}

#[test]
fn threads_that_are_not_armed_keep_the_systems_randomness() {
    let fresh = || std::thread::spawn(draw).join().unwrap();
    let (one, other) = (fresh(), fresh());
    assert_ne!(one.handshake, other.handshake);
    assert_ne!(one.order, other.order);
    if !is_supported() {
        return;
    }
    // The same while an armed thread runs, which is held between its draws.
    let (armed, is_there) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    std::thread::scope(|scope| {
        let simulation = scope.spawn(move || {
            isolated(1, move || {
                let first = draw();
                armed.send(()).unwrap();
                may_go.recv().unwrap();
                (first, draw())
            })
        });
        is_there.recv().unwrap();
        assert!(!is_armed());
        let (mine, fresh) = (draw(), fresh());
        go.send(()).unwrap();
        let (first, second) = simulation.join().unwrap().unwrap();
        let all = [&mine, &fresh, &first, &second, &one, &other].map(|drawn| drawn.handshake);
        for (index, drawn) in all.iter().enumerate() {
            assert!(!all[..index].contains(drawn), "{index} is not random");
        }
    });
}

#[test]
fn two_processes_draw_the_same() {
    if !is_supported() {
        return;
    }
    let drawn = format!("drawn {:?}", isolated(7, draw).unwrap());
    if std::env::var_os(CHILD).is_some() {
        println!("\n{drawn}");
        return;
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "two_processes_draw_the_same", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let told = String::from_utf8(child.stdout).unwrap();
    let told = told.lines().find(|line| line.starts_with("drawn "));
    assert_eq!(told, Some(drawn.as_str()));
}

#[test]
fn the_clocks_of_an_armed_thread_stand_where_they_are_set() {
    if !is_supported() {
        return;
    }
    let before = SystemTime::now();
    isolated(1, || {
        let (instant, date) = (Instant::now(), SystemTime::now());
        assert_eq!(Instant::now(), instant);
        set_elapsed_ns(1_500_000_001);
        let passed = Duration::new(1, 500_000_001);
        assert_eq!(instant.elapsed(), passed);
        assert_eq!(date.elapsed().unwrap(), passed);
        let year = Duration::from_secs(1_767_225_600);
        assert_eq!(date, SystemTime::UNIX_EPOCH + year, "the same in every run");
        // Processor time is not simulated: it is what a run costs.
        let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        assert!(spent.tv_sec < 1_000);
    })
    .unwrap();
    set_elapsed_ns(u64::MAX);
    assert!(SystemTime::now() >= before, "this thread is not armed");
    assert!(before.elapsed().unwrap() < Duration::from_secs(600));
}

#[test]
fn what_would_not_follow_the_seed_is_refused() {
    if !is_supported() {
        assert_eq!(arm(1).err(), Some(Refused::Unsupported));
        return;
    }
    let drawn_already = std::thread::spawn(|| {
        let _keys = std::hash::RandomState::new();
        (arm(1).err(), is_armed())
    });
    let refused = (Some(Refused::DrawnAlready), false);
    assert_eq!(drawn_already.join().unwrap(), refused);
    let twice = isolated(1, || arm(2).err());
    assert_eq!(twice, Ok(Some(Refused::ArmedAlready)));
}

#[test]
fn system_calls_of_others_pass_untouched() {
    // Locks and thread starts go through `syscall`; a failing call keeps its error number.
    let error = std::fs::File::open("no/such/file").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(2));
    let waits = std::thread::spawn(std::thread::park);
    waits.thread().unpark();
    waits.join().unwrap();
    let (sender, receiver) = mpsc::channel::<()>();
    let waited = receiver.recv_timeout(Duration::from_millis(1));
    assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout));
    drop(sender);
}

#[test]
fn a_panic_goes_on_in_the_caller() {
    if !is_supported() {
        return;
    }
    let caught = std::panic::catch_unwind(|| isolated(1, || panic!("in the simulation")));
    assert_eq!(
        caught.unwrap_err().downcast_ref(),
        Some(&"in the simulation")
    );
}
