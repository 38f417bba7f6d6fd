//! Speed and memory of the wire lane with the unmodified crate `jetstream-extra`, and beside it the
//! same program over loopback sockets to a responder that does nothing but ack. Three replicas are
//! measured with our own publishers, whose cost is small beside that of the servers.
//!
//! Prints a figure beside each target. Cases are interleaved over several rounds, and the best
//! round counts: other work on the machine only ever makes a round slower. Leans on the library.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use jetstream_extra::batch_publish_fast::{FastPublishExt, GapMode};
use tidegate::scenario::{Lane, Scenario, Substrate};
use tidegate::seed::Seed;
use tidegate::sim::{Outside, run};

type Failure = Box<dyn Error + Send + Sync>;

const ROUNDS: usize = 5;
const PAYLOAD_BYTES: usize = 1_024;
/// Publishers and messages of the case that is compared with sockets.
const FEW: (u32, u32) = (10, 50_000);
const MANY: (u32, u32) = (900, 200);
const REPLICATED: (u32, u32) = (100, 2_000);
const FLOW: u16 = 100;

fn publishers((count, messages): (u32, u32)) -> String {
    format!(
        "format = 1\nabout = \"benchmark\"\ntime_limit = \"1h\"\n\
         [server]\nmessage_cost = \"400ns\"\nkibibyte_cost = \"100ns\"\n\
         [disk]\nwrite_latency = \"100ns\"\nbytes_per_second = \"10GB\"\n\
         [network]\nlatency = \"250us\"\n\
         [[publishers]]\nclient = \"jetstream-extra\"\ncount = {count}\nflow = {FLOW}\n\
         messages = {messages}\npayload = \"1KiB\"\n"
    )
}

/// Our own publishers, and three servers.
fn replicated(load: (u32, u32)) -> String {
    publishers(load)
        .replace("\"jetstream-extra\"", "\"core\"")
        .replace(
            "[server]",
            "[stream]\nreplicas = 3\n[raft]\napply_cost = \"300ns\"\n[server]",
        )
}

/// Publishers that send one message and then rest for ten seconds.
fn idle(count: u32) -> String {
    format!(
        "format = 1\nabout = \"benchmark\"\ntime_limit = \"10s\"\n\
         [[publishers]]\nclient = \"jetstream-extra\"\ncount = {count}\nflow = {FLOW}\n\
         messages = 2\npauses = [{{ after = 1, for = \"20s\" }}]\n"
    )
}

/// Messages published and the wall time, in seconds.
fn simulated(file: &str) -> Result<(u64, f64), Failure> {
    let scenario = Scenario::parse("bench.toml", file)?;
    let stop = AtomicBool::new(false);
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: None,
    };
    let started = now();
    let lane = Lane::Wire(Substrate::Event);
    let outcome = run(&scenario.settings, Seed(1), lane, outside)?;
    let seconds = started.elapsed().as_secs_f64();
    let violations = &outcome.seen.findings.violations;
    assert!(violations.is_empty(), "{:?}", violations.first());
    Ok((outcome.seen.summary.totals.published, seconds))
}

#[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
fn now() -> Instant {
    Instant::now()
}

/// The wall time of as many publishers, each with a connection of its own, on one thread.
fn over_sockets((count, messages): (u32, u32)) -> Result<f64, Failure> {
    let address = respond()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..count {
            let options = async_nats::ConnectOptions::new()
                .client_capacity(8_192)
                .subscription_capacity(8_192);
            clients.push(options.connect(address.to_string()).await?);
        }
        let started = now();
        let publishing = clients.into_iter().map(|client| async move {
            let jetstream = async_nats::jetstream::new(client);
            let builder = jetstream.fast_publish().flow(FLOW).max_outstanding_acks(2);
            let mut publisher = builder.gap_mode(GapMode::Fail).build()?;
            let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD_BYTES]);
            for _ in 1..messages {
                publisher.add("tidegate.0", payload.clone()).await?;
            }
            publisher.commit("tidegate.0", payload).await?;
            Ok::<(), Failure>(())
        });
        futures_util::future::try_join_all(publishing).await?;
        Ok(started.elapsed().as_secs_f64())
    })
}

/// A server that speaks just enough of the protocol to keep fast publishers going: a thread for each
/// connection, which stores nothing.
fn respond() -> Result<SocketAddr, Failure> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().take(FEW.0 as usize).flatten() {
            std::thread::spawn(move || attend(stream));
        }
    });
    Ok(address)
}

/// A client that goes ends it, with an error that nobody needs.
fn attend(mut stream: TcpStream) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::with_capacity(256 << 10, stream.try_clone()?);
    stream.write_all(
        b"INFO {\"server_id\":\"N\",\"version\":\"2.15.1\",\"proto\":1,\"headers\":true,\
          \"max_payload\":1048576,\"jetstream\":true}\r\n",
    )?;
    let (mut line, mut payload, mut sid) = (Vec::new(), Vec::new(), String::new());
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = std::str::from_utf8(&line)?;
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match words[..] {
            ["PING"] => stream.write_all(b"PONG\r\n")?,
            ["SUB", _, number] => number.clone_into(&mut sid),
            ["PUB", _, reply, size] => {
                payload.resize(size.parse::<usize>()? + 2, 0);
                input.read_exact(&mut payload)?;
                answer(&mut stream, &sid, reply)?;
            }
            _ => {}
        }
    }
}

fn answer(stream: &mut TcpStream, sid: &str, reply: &str) -> Result<(), Failure> {
    let mut words = reply.rsplit('.').skip(1);
    let (Some(operation), Some(sequence)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let sequence: u64 = sequence.parse()?;
    let body = match operation {
        "0" => format!("{{\"type\":\"ack\",\"seq\":0,\"msgs\":{FLOW}}}"),
        "2" => {
            format!("{{\"stream\":\"S\",\"seq\":{sequence},\"batch\":\"b\",\"count\":{sequence}}}")
        }
        _ if sequence.is_multiple_of(u64::from(FLOW)) => {
            format!("{{\"type\":\"ack\",\"seq\":{sequence},\"msgs\":{FLOW}}}")
        }
        _ => return Ok(()),
    };
    let frame = format!("MSG {reply} {sid} {}\r\n{body}\r\n", body.len());
    stream.write_all(frame.as_bytes())?;
    Ok(())
}

fn measure() -> Result<(), Failure> {
    let mut best = [f64::INFINITY; 5];
    let mut messages = [0; 3];
    for _ in 0..ROUNDS {
        let (published, seconds) = simulated(&publishers(FEW))?;
        messages[0] = published;
        best[0] = best[0].min(seconds);
        best[1] = best[1].min(over_sockets(FEW)?);
        let (published, seconds) = simulated(&publishers(MANY))?;
        messages[1] = published;
        best[2] = best[2].min(seconds);
        best[3] = best[3].min(simulated(&idle(100))?.1);
        let (published, seconds) = simulated(&replicated(REPLICATED))?;
        messages[2] = published;
        best[4] = best[4].min(seconds);
    }
    println!(
        "{:<34} {:>12} {:>12} {:>8}",
        "wire lane, jetstream-extra, 1 KiB", "measured", "target", "ratio"
    );
    let rates = [
        ("10 publishers, flow 100", messages[0], best[0], 300e3),
        ("900 publishers, flow 1", messages[1], best[2], 60e3),
        ("R3, 100 of our own publishers", messages[2], best[4], 100e3),
    ];
    for (name, messages, seconds, target) in rates {
        let rate = messages as f64 / seconds;
        println!(
            "{name:<34} {:>12} {:>12} {:>7.2}x",
            format!("{:.0} k/s", rate / 1e3),
            format!(">= {:.0} k/s", target / 1e3),
            rate / target
        );
    }
    let ratio = best[1] / best[0];
    println!(
        "{:<34} {:>12} {:>12} {:>7.2}x",
        "10 publishers, beside sockets",
        format!("{ratio:.2}x"),
        ">= 0.70x",
        ratio / 0.7
    );
    println!(
        "{:<34} {:>12} {:>12} {:>7.2}x",
        "100 idle publishers, 10 s",
        format!("{:.1} ms", best[3] * 1e3),
        "< 20 ms",
        0.020 / best[3]
    );
    let own = std::env::current_exe()?;
    let out = Command::new(own).arg("--memory").output()?;
    print!("{}", String::from_utf8_lossy(&out.stdout));
    Ok(())
}

/// The peak memory of the largest case, in a process of its own.
fn memory() -> Result<(), Failure> {
    simulated(&publishers(MANY))?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes: f64 = peak
        .and_then(|peak| peak.split_whitespace().next())
        .ok_or("no VmHWM")?
        .parse()?;
    let mebibytes = kibibytes / 1_024.0;
    println!(
        "{:<34} {:>12} {:>12} {:>7.2}x",
        "memory, 900 publishers",
        format!("{mebibytes:.0} MiB"),
        "< 500 MiB",
        500.0 / mebibytes
    );
    Ok(())
}

fn main() -> ExitCode {
    let run = if std::env::args().any(|argument| argument == "--memory") {
        memory
    } else {
        measure
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the wire lane is not measured: {error}");
            ExitCode::FAILURE
        }
    }
}
