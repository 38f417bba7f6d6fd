//! What the live generator costs: CPU time for each message, beside a bare loop over the same
//! client.
//!
//! The bare loop does what `jetstream-extra`'s own example `bench_normal_vs_fast` does in its fast
//! part: one connection, one batch, one static payload of 63 bytes, flow 1000. Both run against the
//! same server in the same process, in turn, and the best round of each counts; the server is a
//! process of its own and is not counted. Leans on the library. Without a nats-server it says so.

use std::error::Error;
use std::process::ExitCode;

use jetstream_extra::batch_publish_fast::{FastPublishExt, GapMode};
use rustix::time::{ClockId, clock_gettime};
use tidegate::live::{
    Interrupts, LocalServers, Options, RunOptions, Surroundings, Target, find_server,
};
use tidegate::scenario::Scenario;
use tidegate::seed::Seed;
use tidegate::watch::Watch;

const ROUNDS: usize = 7;
const MESSAGES: u32 = 200_000;
const PAYLOAD_BYTES: usize = 63;
const TARGET: f64 = 1.10;

/// CPU time of this process so far, in nanoseconds.
fn cpu_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn file(client: &str) -> String {
    format!(
        "format = 1\nabout = \"benchmark\"\n[[publishers]]\nclient = \"{client}\"\nflow = 1000\n\
         outstanding_acks = 2\nmessages = {MESSAGES}\npayload = \"{PAYLOAD_BYTES}B\"\n"
    )
}

/// The whole generator with everyone watching: nanoseconds of CPU for each message.
async fn generator(urls: &[String], client: &str) -> Result<f64, Box<dyn Error>> {
    let scenario = Scenario::parse("bench.toml", &file(client))?;
    let target = Target::prepare(urls, &scenario.settings.stream).await?;
    let mut interrupts = Interrupts::new()?;
    let mut watch = Watch::new(&scenario.settings, false, None);
    let options = RunOptions {
        seed: Seed(1),
        read_back: false,
        own_servers: None,
    };
    let before = cpu_ns();
    let observers: &mut [&mut dyn tidegate::event::Observer] = &mut [&mut watch];
    tidegate::live::run(&scenario, &target, observers, &options, &mut interrupts).await?;
    let spent = cpu_ns() - before;
    assert_eq!(watch.published(), u64::from(MESSAGES), "the run is whole");
    target.remove().await?;
    Ok(spent / f64::from(MESSAGES))
}

/// The bare loop.
async fn bare(urls: &[String]) -> Result<f64, Box<dyn Error>> {
    let scenario = Scenario::parse("bench.toml", &file("jetstream-extra"))?;
    let target = Target::prepare(urls, &scenario.settings.stream).await?;
    let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
    let before = cpu_ns();
    let options = async_nats::ConnectOptions::new()
        .client_capacity(8_192)
        .subscription_capacity(8_192);
    let client = options.connect(&urls[0]).await?;
    let jetstream = async_nats::jetstream::new(client);
    let builder = jetstream.fast_publish().flow(1_000).max_outstanding_acks(2);
    let mut publisher = builder.gap_mode(GapMode::Fail).build()?;
    for _ in 0..MESSAGES {
        publisher.add("tidegate.0", payload.clone()).await?;
    }
    publisher.close().await?;
    let spent = cpu_ns() - before;
    target.remove().await?;
    Ok(spent / f64::from(MESSAGES))
}

async fn measure(urls: &[String]) -> Result<(), Box<dyn Error>> {
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(bare(urls).await?);
        best[1] = best[1].min(generator(urls, "jetstream-extra").await?);
        best[2] = best[2].min(generator(urls, "core").await?);
    }
    println!(
        "{:<28} {:>12} {:>12} {:>8}",
        "live, R1, 63 B, flow 1000", "CPU/message", "target", "ratio"
    );
    println!("{:<28} {:>9.0} ns", "bare loop, jetstream-extra", best[0]);
    for (name, figure) in [
        ("tidegate, jetstream-extra", best[1]),
        ("tidegate, core", best[2]),
    ] {
        let ratio = figure / best[0];
        println!(
            "{name:<28} {figure:>9.0} ns {:>12} {ratio:>7.2}x",
            format!("<= {TARGET:.2}x")
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let run = || -> Result<(), Box<dyn Error>> {
        let mut progress = |text: &str| eprintln!("{text}");
        let server = find_server(None, &Surroundings::of_process(), &mut progress)?;
        let servers = LocalServers::start(1, &Options::new(server.path))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(measure(servers.urls()))?;
        Ok(servers.stop()?)
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live cost is not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
