//! The live generator beside `nats bench js pub fast`: CPU time for each message, and throughput, with
//! the same settings on the same server, in turn.
//!
//! The server is a process of its own and is not counted. What `nats` needs to start, connect and end
//! is measured with one message for each client and taken off; the generator's figure is of this whole
//! process, from its connections to its last PubAck, with everyone watching. The best of the rounds counts
//! for CPU, the median for throughput: the machine is rarely quiet. Needs a nats-server, and `nats` (the
//! NATS CLI, 0.5.0 or later) in the PATH or named by NATS_CLI; without them it says so. Leans on the
//! library.

use std::error::Error;
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::time::{ClockId, clock_gettime};
use tidegate::event::Observer;
use tidegate::live::{
    Interrupts, LocalServers, Options, RunOptions, Surroundings, Target, find_server,
};
use tidegate::scenario::Scenario;
use tidegate::seed::Seed;
use tidegate::watch::Watch;

const ROUNDS: usize = 3;
const FLOW: u32 = 500;
const OUTSTANDING: u32 = 2;
const PAYLOAD_BYTES: u32 = 128;
const STREAM: &str = "BENCH";
const SUBJECT: &str = "bench";
/// Ticks of /proc/PID/stat in a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// One row of the table.
struct Setting {
    name: &'static str,
    servers: usize,
    replicas: u8,
    storage: &'static str,
    messages: u32,
}

/// What a run took.
#[derive(Clone, Copy)]
struct Taken {
    cpu_ns: f64,
    per_second: f64,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "R1 memory",
        servers: 1,
        replicas: 1,
        storage: "memory",
        messages: 512_000,
    },
    Setting {
        name: "R1 file",
        servers: 1,
        replicas: 1,
        storage: "file",
        messages: 512_000,
    },
    Setting {
        name: "R3 file",
        servers: 3,
        replicas: 3,
        storage: "file",
        messages: 256_000,
    },
];
const CLIENTS: [u32; 3] = [1, 16, 64];

fn scenario(setting: &Setting, clients: u32) -> Result<Scenario, Box<dyn Error>> {
    let text = format!(
        "format = 1\nabout = \"benchmark\"\n[stream]\nname = \"{STREAM}\"\nsubjects = [\"{SUBJECT}\"]\n\
         replicas = {}\nstorage = \"{}\"\n[[publishers]]\ncount = {clients}\nflow = {FLOW}\n\
         outstanding_acks = {OUTSTANDING}\nsubject = \"{SUBJECT}\"\nmessages = {}\n\
         payload = \"{PAYLOAD_BYTES}B\"\n",
        setting.replicas,
        setting.storage,
        setting.messages / clients,
    );
    Ok(Scenario::parse("bench.toml", &text)?)
}

/// The generator, with everyone watching.
async fn generator(urls: &[String], scenario: &Scenario) -> Result<Taken, Box<dyn Error>> {
    let target = Target::prepare(urls, &scenario.settings.streams_of_run()).await?;
    let mut interrupts = Interrupts::new()?;
    let mut watch = Watch::new(&scenario.settings, false, None);
    let options = RunOptions {
        seed: Seed(1),
        read_back: false,
        own_servers: None,
        say: |_| {},
    };
    let observers: &mut [&mut dyn Observer] = &mut [&mut watch];
    let clock = || {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    };
    let before = clock();
    let run = tidegate::live::run(scenario, &target, observers, &options, &mut interrupts).await?;
    let cpu_ns = clock() - before;
    target.remove().await?;
    let seconds = run.published_until.as_nanos() as f64 / 1e9;
    Ok(Taken {
        cpu_ns: cpu_ns / watch.published() as f64,
        per_second: watch.published() as f64 / seconds,
    })
}

/// `nats bench` on a stream that is made and removed around it.
async fn peer(
    urls: &[String],
    scenario: &Scenario,
    (clients, messages): (u32, u32),
) -> Result<Taken, Box<dyn Error>> {
    let target = Target::prepare(urls, &scenario.settings.streams_of_run()).await?;
    let home = tempfile::tempdir()?;
    let child = Command::new(program())
        .args([
            "--server",
            &urls.join(","),
            "bench",
            "js",
            "pub",
            "fast",
            SUBJECT,
        ])
        .args(["--stream", STREAM, "--no-progress"])
        .args(["--batch", &FLOW.to_string()])
        .args(["--max-outstanding-acks", &OUTSTANDING.to_string()])
        .args(["--msgs", &messages.to_string()])
        .args(["--size", &PAYLOAD_BYTES.to_string()])
        .args(["--clients", &clients.to_string()])
        .env("HOME", home.path())
        .env("XDG_CONFIG_HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let pid = Pid::from_child(&child);
    // Its output is short: it fits into the pipe while nobody reads.
    waitid(
        WaitId::Pid(pid),
        WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
    )?;
    let ticks = cpu_ticks(pid)?;
    let output = child.wait_with_output()?;
    target.remove().await?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("nats bench failed: {said}{complaint}").into());
    }
    Ok(Taken {
        cpu_ns: ticks / TICKS_PER_SECOND * 1e9,
        per_second: rate_in(&said).ok_or_else(|| format!("nats bench gives no rate: {said}"))?,
    })
}

fn program() -> OsString {
    std::env::var_os("NATS_CLI").unwrap_or_else(|| "nats".into())
}

/// User and system time of a process that has ended and that nobody has waited for, in ticks.
fn cpu_ticks(pid: Pid) -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    // The name, in parentheses, may hold anything; user and system time are the 12th and 13th behind it.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = behind_name.split_whitespace().collect();
    let tick = |index: usize| {
        fields
            .get(index)
            .and_then(|field| field.parse::<f64>().ok())
    };
    match (tick(11), tick(12)) {
        (Some(user), Some(system)) => Ok(user + system),
        _ => Err(format!("no times in {stat}").into()),
    }
}

/// The rate in the last line with statistics: of one client, or of all together.
fn rate_in(said: &str) -> Option<f64> {
    let line = said.lines().rev().find(|line| line.contains("stats:"))?;
    let number = line.split("stats:").nth(1)?.trim().split(' ').next()?;
    number.replace(',', "").parse().ok()
}

async fn compare(urls: &[String], setting: &Setting, clients: u32) -> Result<(), Box<dyn Error>> {
    let scenario = scenario(setting, clients)?;
    let messages = setting.messages / clients * clients;
    let (mut ours, mut theirs, mut start) = (Vec::new(), Vec::new(), f64::INFINITY);
    for _ in 0..ROUNDS {
        ours.push(generator(urls, &scenario).await?);
        theirs.push(peer(urls, &scenario, (clients, messages)).await?);
        start = start.min(peer(urls, &scenario, (clients, clients)).await?.cpu_ns);
    }
    let least = |taken: &[Taken]| {
        taken
            .iter()
            .map(|taken| taken.cpu_ns)
            .fold(f64::INFINITY, f64::min)
    };
    let ours_cpu = least(&ours);
    let theirs_cpu = (least(&theirs) - start) / f64::from(messages - clients);
    let (ours_rate, theirs_rate) = (median(&ours), median(&theirs));
    println!(
        "{:<10} {clients:>3} {ours_cpu:>8.0} ns {theirs_cpu:>8.0} ns {:>6.2}x {ours_rate:>10.0} {theirs_rate:>10.0} {:>6.2}x",
        setting.name,
        ours_cpu / theirs_cpu,
        ours_rate / theirs_rate,
    );
    Ok(())
}

fn median(taken: &[Taken]) -> f64 {
    let mut rates: Vec<f64> = taken.iter().map(|taken| taken.per_second).collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() -> ExitCode {
    let version = match Command::new(program()).arg("--version").output() {
        Ok(version) => version,
        Err(error) => {
            eprintln!("nothing to compare with, no program nats: {error}");
            return ExitCode::SUCCESS;
        }
    };
    let run = || -> Result<(), Box<dyn Error>> {
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let mut progress = |text: &str| eprintln!("{text}");
        let server = find_server(None, &Surroundings::of_process(), &mut progress)?;
        println!(
            "{PAYLOAD_BYTES} B, flow {FLOW}, {OUTSTANDING} outstanding acks; nats {}",
            version.trim()
        );
        println!(
            "{:<10} {:>3} {:>11} {:>11} {:>7} {:>10} {:>10} {:>7}",
            "", "pub", "CPU/message", "nats bench", "<= 1.00", "msg/s", "nats bench", ">= 1.00"
        );
        for setting in &SETTINGS {
            let servers = LocalServers::start(setting.servers, &Options::new(server.path.clone()))?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            for clients in CLIENTS {
                runtime.block_on(compare(servers.urls(), setting, clients))?;
            }
            servers.stop()?;
        }
        Ok(())
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nothing is compared: {error}");
            ExitCode::FAILURE
        }
    }
}
