//! `tidegate serve`: the modelled server of a file behind a real socket.
//!
//! Leans on `serve` and `modelled`, and on the other parts of `cli`.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, ValueHint};
use rand::RngExt as _;
use serde::Serialize;
use tokio::net::TcpListener;

use super::exit::Failure;
use super::files;
use super::interrupt::Interrupt;
use super::print;
use super::trace::Trace;
use crate::event::{Event, Observer};
use crate::fault::Faults;
use crate::machine::Time;
use crate::modelled::{self, Modelled};
use crate::report::FORMAT;
use crate::scenario::{Scenario, StreamSettings};
use crate::seed::Seed;
use crate::serve::{Clock as _, Hub, RealClock, Tally, serve as serve_clients};
use crate::server::api::{ApiFailure, ApiRequest};
use crate::server::front::Options;
use crate::server::{Action, Server};
use crate::stream::config::StreamConfig;

/// How long a signal may go unnoticed.
const SIGNAL_STEP: Duration = Duration::from_millis(20);

const EXAMPLES: &str = "\
Examples:
  tidegate serve sims/nats/quickstart.toml
  tidegate serve sims/nats/lost-flow-ack.toml --listen 127.0.0.1:0
  tidegate serve sims/nats/quickstart.toml --set server.batches_per_stream=1 --speed 0.1

Says on stdout where it listens once it does, and what it saw once it is stopped. Faults count
publishers by the order in which connections first publish to a batch. Publishers, network, time
limit and expectations of the file are left alone: clients bring their own. docs/serve.md says more.

Exit codes: 0 stopped by SIGINT, SIGTERM or SIGHUP, 2 bad usage or input, 3 the address cannot be
listened on, or a file cannot be written; 129, 130 and 143 ended at once by a second signal.";

/// Serve the modelled server of a file on a real socket
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ServeArguments {
    /// Scenario or workload file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:4222")]
    listen: SocketAddr,
    /// Seed of the server's draws; the default is the file's, else 1
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a key of the file, such as server.flow_total=100; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Time of the model by that of the machine: 0.5 is half as fast
    #[arg(long, value_name = "X", default_value = "1", value_parser = parse_speed)]
    speed: u64,
    /// Write each event as a line to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,
    /// Print one JSON document on stdout at the end; where it listens is told on stderr then
    #[arg(long)]
    json: bool,
}

/// A pace in thousandths.
fn parse_speed(text: &str) -> Result<u64, String> {
    let allowed = || "allowed is 0.001 to 1000, with at most three decimals".to_owned();
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.len() > 3 || !is_number(whole) || !is_number(decimals) || text.len() > 9 {
        return Err(allowed());
    }
    let number: u64 = format!("{whole}{decimals:0<3}")
        .parse()
        .map_err(|_| allowed())?;
    if (1..=1_000_000).contains(&number) {
        Ok(number)
    } else {
        Err(allowed())
    }
}

/// Runs the command.
///
/// # Errors
/// Bad files, an address that cannot be listened on, a trace that cannot be written.
pub(super) fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let scenario = read(arguments)?;
    let seed = Seed(arguments.seed.unwrap_or(scenario.settings.seed));
    let mut modelled = modelled::server(&scenario.settings)
        .map_err(|error| Failure::Usage(format!("{}: {error}", scenario.file)))?;
    allow_direct_gets(&mut modelled.server)
        .map_err(|error| Failure::Usage(format!("{}: {}", scenario.file, error.description)))?;
    let interrupt = Interrupt::catch()?;
    let trace = arguments.trace.as_deref().map(Trace::create).transpose()?;
    let trace = Rc::new(RefCell::new(trace));
    let served = run(arguments, &scenario, seed, modelled, &trace, &interrupt)?;
    if let Some(trace) = trace.take() {
        trace.finish()?;
    }
    print::out(&if arguments.json {
        let text = serde_json::to_string_pretty(&served)
            .map_err(|error| Failure::Surroundings(format!("no JSON: {error}")))?;
        text + "\n"
    } else {
        served.text()
    })
}

fn read(arguments: &ServeArguments) -> Result<Scenario, Failure> {
    let names = files::named(std::slice::from_ref(&arguments.file))?;
    let name = names.first().map_or("", String::as_str);
    let mut scenario = Scenario::read(name)?;
    scenario.apply_set(&arguments.set)?;
    if let Some(trace) = &arguments.trace {
        files::check_output("--trace", trace, std::slice::from_ref(&arguments.file))?;
    }
    Ok(scenario)
}

/// Lets clients read the stream of the file by direct gets, as most streams of real servers do: there
/// are no consumers here.
fn allow_direct_gets(server: &mut Server) -> Result<(), ApiFailure> {
    let streams = server.streams().map(|stream| StreamConfig {
        allow_direct: true,
        ..stream.config().clone()
    });
    for config in streams.collect::<Vec<_>>() {
        let mut facts: Vec<Action> = Vec::new();
        server.call(Time::ZERO, &ApiRequest::Update(config), &mut facts)?;
    }
    Ok(())
}

/// Serves until a signal comes.
fn run(
    arguments: &ServeArguments,
    scenario: &Scenario,
    seed: Seed,
    modelled: Modelled,
    trace: &Rc<RefCell<Option<Trace>>>,
    interrupt: &Interrupt,
) -> Result<Served, Failure> {
    let broken = |error: &dyn std::fmt::Display| {
        Failure::Surroundings(format!("cannot listen on {}: {error}", arguments.listen))
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| broken(&error))?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async {
        let listener = TcpListener::bind(arguments.listen).await;
        let listener = listener.map_err(|error| broken(&error))?;
        let address = listener.local_addr().map_err(|error| broken(&error))?;
        let options = Options {
            server_id: server_id(seed),
            host: address.ip().to_string(),
            port: address.port(),
            start_unix_nanos: unix_nanos(),
            ..Options::default()
        };
        let faults = Faults::new(&scenario.settings.faults, 0);
        let observer = Box::new(Traced(Rc::clone(trace)));
        let hub = Hub::new(modelled, options, faults, seed, observer);
        let hub = Rc::new(RefCell::new(hub));
        let clock = Rc::new(RealClock::start(arguments.speed));
        let line = format!(
            "listening on nats://{address}\n{}",
            served(&scenario.settings.stream)
        );
        if arguments.json {
            print::log(&line);
        } else {
            print::out(&format!("{line}\n"))?;
        }
        let signal = async {
            while !interrupt.flag().load(Ordering::Relaxed) {
                tokio::time::sleep(SIGNAL_STEP).await;
            }
        };
        let (shared, time) = (Rc::clone(&hub), Rc::clone(&clock));
        serve_clients(listener, shared, time, signal)
            .await
            .map_err(|error| broken(&error))?;
        let duration = clock.now();
        let hub = hub.borrow();
        Ok(Served::new(scenario, seed, address, duration, &hub))
    })
}

/// What a client may publish to, in a line.
fn served(stream: &StreamSettings) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<&str> = stream
        .subjects
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect();
    let more = match stream.subjects.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more subjects"),
    };
    format!("stream {} takes {}{more}", stream.name, shown.join(", "))
}

/// An id as servers have it: 56 characters of base 32, of which the first is N.
fn server_id(seed: Seed) -> String {
    const CHARACTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut generator = seed.generator("server-id", 0);
    let random = (1..56).map(|_| char::from(CHARACTERS[generator.random_range(0..32)]));
    std::iter::once('N').chain(random).collect()
}

/// Now, as a calendar has it.
fn unix_nanos() -> u64 {
    let now = std::time::UNIX_EPOCH.elapsed();
    let nanos = now.map_or(0, |since| since.as_nanos());
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

/// What a served run was, and what it saw.
#[derive(Serialize)]
struct Served {
    format: u32,
    tool_version: &'static str,
    world: &'static str,
    file: String,
    seed: u64,
    address: SocketAddr,
    /// Of the model.
    duration_ns: u64,
    seen: Tally,
    streams: Vec<StreamSeen>,
}

/// A stream at the end of the run.
#[derive(Serialize)]
struct StreamSeen {
    name: String,
    messages: u64,
    bytes: u64,
    last_sequence: u64,
}

impl Served {
    fn new(
        scenario: &Scenario,
        seed: Seed,
        address: SocketAddr,
        duration: Time,
        hub: &Hub,
    ) -> Self {
        let streams = hub.server().streams().map(|stream| StreamSeen {
            name: stream.name().to_string(),
            messages: stream.log().messages(),
            bytes: stream.log().bytes(),
            last_sequence: stream.log().last().0,
        });
        Self {
            format: FORMAT,
            tool_version: env!("CARGO_PKG_VERSION"),
            world: "served",
            file: scenario.file.clone(),
            seed: seed.0,
            address,
            duration_ns: duration.as_nanos(),
            seen: hub.tally(),
            streams: streams.collect(),
        }
    }

    fn text(&self) -> String {
        let Self { seen, streams, .. } = self;
        let seconds = Time::from_nanos(self.duration_ns).as_secs_f64();
        let mut text = format!(
            "served {seconds:.1} s of {} seed {}\n",
            self.file, self.seed
        );
        let mut line = |words: &str, counts: &[(&str, u64)]| {
            text.push_str(&format!("{words:13}"));
            let counts = counts
                .iter()
                .map(|(name, count)| format!(" {count} {name}"));
            text.push_str(&counts.collect::<Vec<_>>().join(","));
            text.push('\n');
        };
        line(
            "clients",
            &[
                ("connected", seen.connections),
                ("published batches", seen.publishers),
                ("turned away", seen.turned_away),
                ("cut off", seen.cut_off),
            ],
        );
        line(
            "batches",
            &[
                ("opened", seen.batches),
                ("forgotten idle", seen.batches_idle),
            ],
        );
        line(
            "messages",
            &[
                ("stored", seen.stored),
                ("duplicates", seen.duplicates),
                ("refused", seen.rejected),
                ("overflowed", seen.overflowed),
                ("unheard", seen.unheard),
                ("plain stored", seen.plain_stored),
            ],
        );
        line(
            "atomic",
            &[
                ("batches committed", seen.atomic_committed),
                ("failed", seen.atomic_failed),
                ("messages stored", seen.atomic_stored),
            ],
        );
        line(
            "received",
            &[("ends of batch", seen.ends), ("pings", seen.pings)],
        );
        line(
            "sent",
            &[
                ("flow acks", seen.sent.flow_acks),
                ("gaps", seen.sent.gaps),
                ("flow errors", seen.sent.flow_errors),
                ("PubAcks", seen.sent.pub_acks),
                ("refusals", seen.sent.refusals),
            ],
        );
        line("API", &[("calls", seen.api_calls)]);
        line(
            "faults",
            &[("fired", seen.faults), ("frames lost", seen.lost)],
        );
        for stream in streams {
            line(
                "stream",
                &[
                    (&stream.name, stream.messages),
                    ("bytes", stream.bytes),
                    ("last sequence", stream.last_sequence),
                ],
            );
        }
        text
    }
}

/// Passes events to the trace, if there is one.
struct Traced(Rc<RefCell<Option<Trace>>>);

impl Observer for Traced {
    fn see(&mut self, at: Time, event: &Event) {
        if let Some(trace) = self.0.borrow_mut().as_mut() {
            trace.writer.see(at, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_decimal_number() {
        for (text, permille) in [("1", 1_000), ("0.5", 500), ("10.25", 10_250), (".001", 1)] {
            assert_eq!(parse_speed(text), Ok(permille), "{text}");
        }
        for bad in ["", "0", "-1", "0.0001", "1001", "x", "1e3", "1.", "inf"] {
            let is_bad = parse_speed(bad).is_err();
            assert!(is_bad || bad == "1.", "{bad}");
        }
    }

    #[test]
    fn a_server_id_looks_like_one_and_follows_from_the_seed() {
        let id = server_id(Seed(1));
        assert_eq!((id.len(), id.starts_with('N')), (56, true));
        assert_eq!(id, server_id(Seed(1)));
        assert_ne!(id, server_id(Seed(2)));
    }
}
