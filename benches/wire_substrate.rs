//! How fast the event substrate is under unmodified clients: messages in a wall second, and what
//! idle connections cost.
//!
//! The server is scripted and stores nothing, so this is the ground under the wire lane and not the
//! lane. The best of some rounds counts. Leans on the library and on the tests' scripted server.

#[path = "../tests/common/scripted.rs"]
mod scripted;

use std::cell::Cell;
use std::net::IpAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use jetstream_extra::batch_publish_fast::{FastPublishExt, GapMode};
use rustix::time::{ClockId, clock_gettime};
use tidegate::machine::Time;
use tidegate::seed::Seed;
use tidegate::sim::SimError;
use tidegate::sim::substrate::{
    EventSubstrate, LinkSettings, Links, Progress, Substrate, isolated,
};

const ROUNDS: usize = 5;
const PAYLOAD_BYTES: usize = 1_024;
const MESSAGES_TARGET: f64 = 300_000.0;
const IDLE_TARGET_MS: f64 = 20.0;
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

/// Processor time of this thread, which nothing simulates.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn world() -> Result<EventSubstrate, SimError> {
    let links = Links::all(LinkSettings {
        latency: Time::from_micros(100),
        jitter: Time::ZERO,
        bits_per_second: 10_000_000_000,
        window_bytes: 4 << 20,
    });
    let mut world = EventSubstrate::new(links, Seed(1))?;
    world.name("server", SERVER);
    let ear: scripted::Ear = Rc::new(|_, _| {});
    world.host(SERVER, Box::pin(scripted::serve(ear)));
    Ok(world)
}

fn host(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([10, 1, high, low])
}

/// Messages in a second of processor time.
fn publish(publishers: u16, messages: u32) -> Result<f64, SimError> {
    let mut world = world()?;
    let done = Rc::new(Cell::new(0));
    for number in 0..publishers {
        let (done, clock) = (Rc::clone(&done), world.clock());
        let software = async move {
            let client = async_nats::connect("nats://server:4222").await;
            let jetstream = async_nats::jetstream::new(client.expect("a connection"));
            let builder = jetstream.fast_publish().flow(100).max_outstanding_acks(2);
            let publisher = builder.gap_mode(GapMode::Fail).build();
            let mut publisher = publisher.expect("a publisher");
            let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
            for _ in 0..messages {
                let added = publisher.add("tidegate.0", payload.clone()).await;
                added.expect("a message is taken");
            }
            publisher.close().await.expect("a commit");
            done.set(done.get() + 1);
            clock.interrupt();
        };
        world.host(host(number), Box::pin(software));
    }
    let before = cpu_seconds();
    while done.get() < publishers {
        assert_eq!(world.step(Time::from_secs(100)), Progress::Going);
    }
    let messages = f64::from(publishers) * f64::from(messages);
    Ok(messages / (cpu_seconds() - before))
}

/// Milliseconds for ten simulated seconds of connections that do nothing but ping each second.
fn idle(connections: u16) -> Result<f64, SimError> {
    let mut world = world()?;
    for number in 0..connections {
        let software = async move {
            let options = async_nats::ConnectOptions::new().ping_interval(Duration::from_secs(1));
            let client = options.connect("nats://server:4222").await;
            let _client = client.expect("a connection");
            std::future::pending::<()>().await;
        };
        world.host(host(number), Box::pin(software));
    }
    let run = |world: &mut EventSubstrate, until| while world.step(until) == Progress::Going {};
    run(&mut world, Time::from_secs(1));
    let before = cpu_seconds();
    run(&mut world, Time::from_secs(11));
    Ok((cpu_seconds() - before) * 1e3)
}

fn best(
    pick: fn(f64, f64) -> f64,
    measure: impl Fn() -> Result<f64, SimError> + Sync,
) -> Result<f64, SimError> {
    let mut best = None;
    for _ in 0..ROUNDS {
        let figure = isolated(Seed(1), &measure)??;
        best = Some(best.map_or(figure, |best| pick(best, figure)));
    }
    Ok(best.unwrap_or_default())
}

fn measure() -> Result<(), SimError> {
    println!(
        "{:<44} {:>14} {:>14}",
        "event substrate, 1 KiB, flow 100", "measured", "target"
    );
    for (publishers, messages) in [(1, 100_000), (10, 10_000), (100, 1_000), (1_000, 100)] {
        let figure = best(f64::max, || publish(publishers, messages))?;
        let target = if publishers == 10 {
            MESSAGES_TARGET
        } else {
            0.0
        };
        println!(
            "{:<44} {:>8.0} k/s {:>14}",
            format!("{publishers} publishers, {messages} messages each"),
            figure / 1e3,
            if target > 0.0 {
                format!(">= {:.0} k/s", target / 1e3)
            } else {
                String::new()
            }
        );
    }
    let figure = best(f64::min, || idle(100))?;
    let target = format!("<= {IDLE_TARGET_MS:.0} ms");
    println!(
        "{:<44} {figure:>11.1} ms {target:>14}",
        "10 s of 100 connections that ping each second"
    );
    Ok(())
}

fn main() -> ExitCode {
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the event substrate is not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
