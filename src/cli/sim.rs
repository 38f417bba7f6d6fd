//! `tidegate sim`: runs files in the simulator.
//!
//! Leans on `sim`, `watch`, `report` and the other parts of `cli`.

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;

use super::cost::Stopwatch;
use super::exit::Failure;
use super::interrupt::Interrupt;
use super::output::Output;
use super::progress::Progress;
use super::record::{Run, record};
use crate::event::Observer;
use crate::report::{RunResult, World, replay_command};
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::sim::determinism::{TraceWriter, compare, trace_from_a_process, trace_in_a_thread};
use crate::sim::{Outside, SimError, run};

const EXAMPLES: &str = "\
Examples:
  tidegate sim sims/nats/quickstart.toml
  tidegate sim sims/nats/lost-flow-ack.toml --seed 7 --trace events.txt
  tidegate sim sims/nats/*.toml --seeds 1..20 --json
  tidegate sim sims/nats/quickstart.toml --set publishers.0.flow=50 --set network.latency=2ms
  tidegate sim sims/nats/quickstart.toml --check-determinism

Exit codes: 0 the run did what its file expects, 1 it did not, 2 bad usage or input,
3 the surroundings failed, 130 and 143 ended by a signal after the partial result was written.";

/// Run scenario files in the deterministic simulator
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct SimArguments {
    /// Scenario or workload files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Seed of the run; the default is the file's, else 1
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run each seed of this range, both ends included
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    seeds: Option<(u64, u64)>,
    /// Runs at the same time; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Lane: the pure machines on an event queue
    #[arg(long, value_enum, default_value_t = Lane::Event)]
    lane: Lane,
    /// Change a key of the file, such as publishers.0.flow=50; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write results there; the default is results/NAME-seedN
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Write each event as a line to this file; one file and one seed only
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Run twice in threads and once in another process, and compare event by event
    #[arg(long)]
    check_determinism: bool,
}

/// How a world is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lane {
    /// Pure machines on an event queue.
    Event,
}

/// Print the trace of one run (used by --check-determinism)
#[derive(Args, Debug)]
pub(super) struct TraceArguments {
    file: String,
    #[arg(long)]
    seed: u64,
    #[arg(long = "set")]
    set: Vec<String>,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let whole = |text: &str| text.trim().parse::<u64>().map_err(|_| ());
    let range = text
        .split_once("..")
        .map(|(from, to)| (whole(from), whole(to.trim_start_matches('='))));
    match range {
        Some((Ok(from), Ok(to))) if from <= to && to - from < 1_000_000 => Ok((from, to)),
        _ => Err(
            "allowed is A..B with whole numbers, A not above B, at most 1000000 seeds".to_owned(),
        ),
    }
}

/// One run to do.
struct Job {
    scenario: Scenario,
    seed: Seed,
}

/// Runs the command.
pub(super) fn sim(arguments: &SimArguments) -> Result<(), Failure> {
    let jobs = jobs(arguments)?;
    if arguments.check_determinism {
        return check_determinism(arguments, &jobs);
    }
    if arguments.trace.is_some() && jobs.len() > 1 {
        return Err(Failure::Usage(
            "--trace takes one file and one seed".to_owned(),
        ));
    }
    let interrupt = Interrupt::catch()
        .map_err(|error| Failure::Surroundings(format!("signals cannot be caught: {error}")))?;
    let progress = Progress::new(jobs.len());
    let results = run_all(arguments, &jobs, &interrupt, &progress);
    progress.finish();
    let told = Output::new(arguments.out.clone(), arguments.json).tell(results?);
    interrupt
        .signal()
        .map_or(told, |signal| Err(Failure::Signal(signal)))
}

fn jobs(arguments: &SimArguments) -> Result<Vec<Job>, Failure> {
    let Lane::Event = arguments.lane;
    let mut jobs = Vec::new();
    for file in &arguments.files {
        let mut scenario = Scenario::read(file)?;
        scenario.apply_set(&arguments.set)?;
        scenario.check_simulatable()?;
        let own = arguments.seed.unwrap_or(scenario.settings.seed);
        let (from, to) = arguments.seeds.unwrap_or((own, own));
        jobs.extend((from..=to).map(|seed| Job {
            scenario: scenario.clone(),
            seed: Seed(seed),
        }));
    }
    Ok(jobs)
}

/// Runs all jobs on as many threads as wanted; results keep the order of the jobs.
fn run_all(
    arguments: &SimArguments,
    jobs: &[Job],
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<Vec<RunResult>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments
        .jobs
        .map_or(cores, |jobs| jobs as usize)
        .min(jobs.len());
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<RunResult, Failure>)>> =
        Mutex::new(Vec::with_capacity(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    if index > 0 && interrupt.signal().is_some() {
                        break;
                    }
                    let result = run_one(arguments, job, interrupt, progress);
                    progress.run_done();
                    let mut results = results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    results.push((index, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn run_one(
    arguments: &SimArguments,
    job: &Job,
    interrupt: &Interrupt,
    progress: &Progress,
) -> Result<RunResult, Failure> {
    let stopwatch = Stopwatch::start();
    let mut trace = arguments.trace.as_ref().map(create_trace).transpose()?;
    let limit = job.scenario.settings.time_limit.0;
    let outside = Outside {
        stop: interrupt.flag(),
        progress: &mut |now| progress.simulated(now, limit),
        observer: trace.as_mut().map(|trace| trace as &mut dyn Observer),
    };
    let outcome =
        run(&job.scenario.settings, job.seed, outside).map_err(|error| refused(job, &error))?;
    if let (Some(trace), Some(path)) = (trace, &arguments.trace) {
        let failed = |error| Failure::Surroundings(format!("{}: {error}", path.display()));
        trace.finish().map_err(failed)?;
    }
    let cost = stopwatch.stop(
        outcome.seen.summary.totals.published,
        outcome.end.as_nanos(),
    );
    let run = Run {
        world: World::Sim,
        scenario: &job.scenario,
        seed: job.seed,
        partial: outcome.partial,
        cost,
        replay: replay_command(World::Sim, &job.scenario.file, job.seed.0, &arguments.set),
        notes: Vec::new(),
    };
    Ok(RunResult::new(record(run, outcome.seen)))
}

fn create_trace(path: &PathBuf) -> Result<TraceWriter<BufWriter<std::fs::File>>, Failure> {
    let file = std::fs::File::create(path)
        .map_err(|error| Failure::Surroundings(format!("{}: {error}", path.display())))?;
    Ok(TraceWriter::new(BufWriter::new(file)))
}

fn refused(job: &Job, error: &SimError) -> Failure {
    Failure::Usage(format!("{}: {error}", job.scenario.file))
}

/// Compares three traces of each job: two threads of this process, and another process.
fn check_determinism(arguments: &SimArguments, jobs: &[Job]) -> Result<(), Failure> {
    for job in jobs {
        let settings = &job.scenario.settings;
        let trace = || trace_in_a_thread(settings.clone(), job.seed);
        report_difference(job, "another thread", compare(trace(), trace()))?;
        let mut child = spawn_trace(arguments, job)?;
        let Some(out) = child.stdout.take() else {
            return Err(Failure::Surroundings(
                "the other process has no output".to_owned(),
            ));
        };
        let compared = compare(trace(), trace_from_a_process(std::io::BufReader::new(out)));
        // On a difference the child still writes: it ends when its output is closed.
        let _ = child.kill();
        let _ = child.wait();
        let events = report_difference(job, "another process", compared)?;
        println!(
            "{} seed {}: {events} events, equal in two threads and two processes",
            job.scenario.file, job.seed.0
        );
    }
    Ok(())
}

fn spawn_trace(arguments: &SimArguments, job: &Job) -> Result<std::process::Child, Failure> {
    let failed =
        |error| Failure::Surroundings(format!("another process cannot be started: {error}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args([
        "trace",
        &job.scenario.file,
        "--seed",
        &job.seed.0.to_string(),
    ]);
    for change in &arguments.set {
        command.args(["--set", change]);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)
}

fn report_difference(
    job: &Job,
    other: &str,
    compared: Result<u64, crate::sim::determinism::Difference>,
) -> Result<u64, Failure> {
    compared.map_err(|difference| {
        let show = |side: Option<String>| side.unwrap_or_else(|| "the end of the trace".to_owned());
        Failure::Unexpected(format!(
            "{} seed {}: not deterministic: event {} differs in {other}\n  here:  {}\n  there: {}",
            job.scenario.file,
            job.seed.0,
            difference.event,
            show(difference.here),
            show(difference.there)
        ))
    })
}

/// Prints the trace of one run.
pub(super) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    let mut scenario = Scenario::read(&arguments.file)?;
    scenario.apply_set(&arguments.set)?;
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut writer = TraceWriter::new(BufWriter::new(std::io::stdout().lock()));
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: Some(&mut writer),
    };
    let seed = Seed(arguments.seed);
    run(&scenario.settings, seed, outside)
        .map_err(|error| Failure::Usage(format!("{}: {error}", scenario.file)))?;
    writer
        .finish()
        .map_err(|error| Failure::Surroundings(format!("the trace cannot be written: {error}")))?;
    std::io::stdout()
        .flush()
        .map_err(|error| Failure::Surroundings(error.to_string()))
}
