//! `tidegate live`: runs files with real clients against real servers.
//!
//! Leans on `live`, `watch`, `report` and the other parts of `cli`.

use std::path::PathBuf;

use clap::Args;

use super::cost::Stopwatch;
use super::exit::Failure;
use super::output::Output;
use super::record::{Run, record};
use crate::judge::Violation;
use crate::live::{
    Ended, Interrupts, LiveError, LiveOutcome, LocalServers, Options, ReadBack, RunOptions,
    Surroundings, Target, check_scenario, find_server,
};
use crate::machine::Time;
use crate::report::{RunResult, World, replay_command};
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::watch::{Seen, Watch};

const EXAMPLES: &str = "\
Examples:
  tidegate live workloads/quickstart.toml
  tidegate live workloads/quickstart.toml --local 3
  tidegate live workloads/many-fast-publishers.toml --servers nats://127.0.0.1:4222
  tidegate live workloads/quickstart.toml --set publishers.0.flow=500 --json

Without --servers a nats-server of our own is started on 127.0.0.1 and removed afterwards. With
--local 3 the stream has three replicas unless the file or --set says stream.replicas. The stream is
made as the file says and removed at the end; a stream of that name that is there already is used
only if it is as the file says, and stays.

Exit codes: 0 the run did what its file expects, 1 it did not, 2 bad usage or input,
3 the surroundings failed, 130 and 143 ended by a signal after the partial result was written.";

/// Objects when the stream that is read back breaks what publishers were promised.
const READ_BACK_JUDGE: &str = "the-stream-has-what-acks-cover";
const READ_BACK_CLAUSE: &str = "ADR-50, Flow Control: BatchFlowAck.Sequence";

/// Run files with real clients against real servers
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LiveArguments {
    /// Scenario or workload files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Servers to connect to; credentials as user:password@ or token@
    #[arg(
        long,
        value_name = "URL,…",
        value_delimiter = ',',
        conflicts_with = "local"
    )]
    servers: Vec<String>,
    /// Start so many servers of our own: 1, or a cluster of 3
    #[arg(long, value_name = "N", value_parser = parse_local)]
    local: Option<u8>,
    /// Seed of arrivals and sizes; the default is the file's, else 1
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a key of the file, such as publishers.0.flow=50; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write results there; the default is results/NAME-live-seedN
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Refuse what would be a note: sections of the file that a live run leaves out, a stream that
    /// is there already
    #[arg(long)]
    strict: bool,
    /// Leave the stream in place
    #[arg(long)]
    keep: bool,
}

fn parse_local(text: &str) -> Result<u8, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("allowed are 1 and 3".to_owned()),
    }
}

/// Runs the command.
pub(super) fn live(arguments: &LiveArguments) -> Result<(), Failure> {
    let scenarios = read(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Surroundings(format!("no runtime: {error}")))?;
    // before signals are taken over: until then one ends the process at once, and its servers too
    let (local, urls) = servers(arguments)?;
    let (results, signal) = runtime.block_on(run_all(arguments, &scenarios, &urls))?;
    if let Some(local) = local {
        local.stop()?;
    }
    let told = if results.is_empty() {
        Ok(())
    } else {
        Output::new(arguments.out.clone(), arguments.json).tell(results)
    };
    signal.map_or(told, |signal| Err(Failure::Signal(signal)))
}

fn read(arguments: &LiveArguments) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = Vec::with_capacity(arguments.files.len());
    for file in &arguments.files {
        let mut scenario = Scenario::read(file)?;
        let replicas_said =
            says_replicas(file) || arguments.set.iter().any(|set| sets_replicas(set));
        if arguments.local == Some(3) && !replicas_said {
            scenario.settings.stream.replicas = 3;
        }
        scenario.apply_set(&arguments.set)?;
        for note in check_scenario(&scenario, arguments.strict)? {
            eprintln!("tidegate: {}: {note}", scenario.file);
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

/// Whether the file itself says `stream.replicas`; what cannot be read was refused before.
fn says_replicas(file: &str) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let table: toml::Table = text.parse().unwrap_or_default();
    let stream = table.get("stream");
    stream.is_some_and(|stream| stream.get("replicas").is_some())
}

fn sets_replicas(set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default();
    key.trim() == "stream.replicas" || key.trim() == "stream"
}

/// The servers to run against; our own ones live as long as the first value.
fn servers(arguments: &LiveArguments) -> Result<(Option<LocalServers>, Vec<String>), Failure> {
    if !arguments.servers.is_empty() {
        return Ok((None, arguments.servers.clone()));
    }
    let mut progress = |text: &str| eprintln!("tidegate: {text}");
    let found = find_server(None, &Surroundings::of_process(), &mut progress)?;
    let count = usize::from(arguments.local.unwrap_or(1));
    let local = LocalServers::start(count, &Options::new(found.path))?;
    let urls = local.urls().to_vec();
    Ok((Some(local), urls))
}

/// Runs the files one after the other, until a signal.
async fn run_all(
    arguments: &LiveArguments,
    scenarios: &[Scenario],
    urls: &[String],
) -> Result<(Vec<RunResult>, Option<u8>), Failure> {
    let mut interrupts = Interrupts::new()?;
    let mut results = Vec::with_capacity(scenarios.len());
    for scenario in scenarios {
        let target = tokio::select! {
            biased;
            signal = interrupts.next() => return Ok((results, Some(signal))),
            target = Target::prepare(urls, &scenario.settings.stream) => target?,
        };
        if !target.created() {
            let note = format!(
                "stream {} is there already; it is used, and stays",
                target.stream()
            );
            if arguments.strict {
                return Err(Failure::Usage(note));
            }
            eprintln!("tidegate: {note}");
        }
        let done = run_one(arguments, scenario, &target, &mut interrupts).await;
        let removed = if arguments.keep {
            Ok(())
        } else {
            target.remove().await
        };
        let (result, signal) = done?;
        results.extend(result);
        removed?;
        if signal.is_some() {
            return Ok((results, signal));
        }
    }
    Ok((results, None))
}

async fn run_one(
    arguments: &LiveArguments,
    scenario: &Scenario,
    target: &Target,
    interrupts: &mut Interrupts,
) -> Result<(Option<RunResult>, Option<u8>), Failure> {
    let stopwatch = Stopwatch::start();
    let seed = Seed(arguments.seed.unwrap_or(scenario.settings.seed));
    let mut watch = Watch::new(&scenario.settings, false, None);
    let options = RunOptions {
        seed,
        read_back: true,
    };
    let outcome =
        crate::live::run(scenario, target, &mut [&mut watch], &options, interrupts).await?;
    let end = outcome.published_until;
    let mut seen = watch.finish(end);
    if let Some(found) = &outcome.read_back {
        add_read_back(found, end, &mut seen);
    }
    let cost = stopwatch.stop(seen.summary.totals.published, end.as_nanos());
    let run = Run {
        world: World::Live,
        scenario,
        seed,
        partial: outcome.is_partial(),
        cost,
        replay: replay_command(World::Live, &scenario.file, seed.0, &arguments.set),
        notes: notes(&outcome),
    };
    let signal = match outcome.ended {
        Ended::Signal(signal) => Some(signal),
        Ended::Complete | Ended::TimeLimit => None,
    };
    Ok((Some(RunResult::new(record(run, seen))), signal))
}

/// The server's side of a live run, which no event tells while it happens.
fn add_read_back(found: &ReadBack, end: Time, seen: &mut Seen) {
    let totals = &mut seen.summary.totals;
    totals.stored = Some(found.stored);
    totals.lost = Some(found.lost);
    totals.stored_again = found.duplicates;
    let violations = found.findings.iter().map(|finding| Violation {
        judge: READ_BACK_JUDGE,
        clause: READ_BACK_CLAUSE,
        at: end,
        publisher: Some(finding.publisher),
        batch: Some(finding.batch),
        message: format!("message {}: {}", finding.sequence, finding.what),
    });
    seen.findings.violations.extend(violations);
    seen.findings.violations_left_out += found.more_findings;
}

/// What a reader of the result should know besides the numbers.
fn notes(outcome: &LiveOutcome) -> Vec<String> {
    let mut notes = vec![format!(
        "nats-server {} at {}",
        outcome.server_version, outcome.servers
    )];
    for failure in &outcome.failures {
        let end = &failure.end;
        notes.push(format!(
            "publisher {} ({}) ended with {:?}: {}",
            failure.publisher.0, failure.group, end.outcome, end.detail
        ));
    }
    match &outcome.read_back {
        None => notes.push("the stream was not read back".to_owned()),
        Some(found) if !found.complete || found.foreign > 0 || found.evicted > 0 => {
            notes.push(format!(
                "read back with {} messages of others and {} dropped by the stream at its limits",
                found.foreign, found.evicted
            ));
        }
        Some(_) => {}
    }
    notes
}

impl From<LiveError> for Failure {
    fn from(error: LiveError) -> Self {
        match error {
            LiveError::Scenario { .. } | LiveError::Version(_) => Self::Usage(error.to_string()),
            other => Self::Surroundings(other.to_string()),
        }
    }
}
