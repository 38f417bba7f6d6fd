//! What the live generator costs: CPU time for each message, beside a bare loop over the same
//! client.
//!
//! The bare loop does what `jetstream-extra`'s own example `bench_normal_vs_fast` does in its fast
//! part: one connection, one batch, one static payload of 63 bytes, flow 1000. Both run against the
//! same server in the same process, in turn, and the best round of each counts; the server is a
//! process of its own and is not counted. A third run has nobody watching: what is recorded costs the
//! difference. Against the null sink the publishing thread alone counts, as in `--ceiling`. Leans on the
//! library. Without a nats-server it says so.

use std::error::Error;
use std::process::ExitCode;

use jetstream_extra::batch_publish_fast::{FastPublishExt, GapMode};
use rustix::time::{ClockId, clock_gettime};
use tidegate::live::{
    Ceilings, Interrupts, LocalServers, Options, RunOptions, Surroundings, Target, find_server,
};
use tidegate::scenario::Scenario;
use tidegate::seed::Seed;
use tidegate::watch::Watch;

const ROUNDS: usize = 7;
const MESSAGES: u32 = 200_000;
const PAYLOAD_BYTES: usize = 63;
const TARGET: f64 = 1.10;
/// What recording may cost of all.
const RECORDING_TARGET: f64 = 1.05;
/// Messages per second of CPU time into the null sink.
const SINK_TARGET: f64 = 1.5e6;

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

/// The whole generator, with everyone watching or nobody: nanoseconds of CPU for each message.
async fn generator(urls: &[String], client: &str, watched: bool) -> Result<f64, Box<dyn Error>> {
    let scenario = Scenario::parse("bench.toml", &file(client))?;
    let target = Target::prepare(urls, &scenario.settings.streams_of_run()).await?;
    let mut interrupts = Interrupts::new()?;
    let mut watch = Watch::new(&scenario.settings, false, None);
    let options = RunOptions {
        seed: Seed(1),
        read_back: false,
        own_servers: None,
        say: |_| {},
    };
    let before = cpu_ns();
    let mut observers: Vec<&mut dyn tidegate::event::Observer> = Vec::new();
    if watched {
        observers.push(&mut watch);
    }
    let run = tidegate::live::run(
        &scenario,
        &target,
        &mut observers,
        &options,
        &mut interrupts,
    );
    let run = run.await?;
    let spent = cpu_ns() - before;
    assert!(
        !run.is_partial() && run.failures.is_empty(),
        "the run is whole"
    );
    target.remove().await?;
    Ok(spent / f64::from(MESSAGES))
}

/// The bare loop.
async fn bare(urls: &[String]) -> Result<f64, Box<dyn Error>> {
    let scenario = Scenario::parse("bench.toml", &file("jetstream-extra"))?;
    let target = Target::prepare(urls, &scenario.settings.streams_of_run()).await?;
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
    let mut best = [f64::INFINITY; 4];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(bare(urls).await?);
        best[1] = best[1].min(generator(urls, "jetstream-extra", true).await?);
        best[2] = best[2].min(generator(urls, "core", true).await?);
        best[3] = best[3].min(generator(urls, "core", false).await?);
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
    println!(
        "{:<28} {:>9.0} ns {:>12} {:>7.2}x",
        "recording, of nobody's",
        best[2] - best[3],
        format!("<= {RECORDING_TARGET:.2}x"),
        best[2] / best[3],
    );
    for client in ["core", "jetstream-extra"] {
        let rate = into_the_sink(client).await?;
        println!(
            "{:<28} {:>9.0} ns {:>12} {:>7.2} M/s",
            format!("into the null sink, {client}"),
            1e9 / rate,
            format!(">= {:.1} M/s", SINK_TARGET / 1e6),
            rate / 1e6,
        );
    }
    Ok(())
}

/// Messages per second of CPU time of the publishing thread, in the best of the rounds.
async fn into_the_sink(client: &str) -> Result<f64, Box<dyn Error>> {
    let scenario = Scenario::parse("bench.toml", &file(client))?;
    let mut interrupts = Interrupts::new()?;
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let mut ceilings = Ceilings::default();
        let measured = ceilings
            .measure(&scenario, Seed(1), &mut interrupts)
            .await?;
        best = best.max(measured.map_err(|signal| format!("signal {signal}"))?);
    }
    Ok(best)
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
