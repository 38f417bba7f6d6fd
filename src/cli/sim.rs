//! `tidegate sim`: runs files in the simulator.
//!
//! Leans on `sim`, `watch`, `report` and the other parts of `cli`.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueHint};

use super::cost::Stopwatch;
use super::crew;
use super::determinism::check_determinism;
use super::exit::Failure;
use super::files;
use super::folder::Ran;
use super::interrupt::Interrupt;
use super::lane::LaneArguments;
use super::notes::sim_notes;
use super::output::{Output, Wanted};
use super::progress::Progress;
use super::record::{Run, record};
use super::trace::Trace;
use crate::event::Observer;
use crate::report::{RunResult, World, replay_command};
use crate::scenario::{Lane, Scenario};
use crate::seed::Seed;
use crate::sim::{Outside, SimError, run};

/// Sets of more runs hold them without their figures over time.
const RUNS_IN_FULL: usize = 100;

const EXAMPLES: &str = "\
Examples:
  tidegate sim sims/nats/quickstart.toml
  tidegate sim sims/nats/lost-flow-ack.toml --seed 7 --trace events.txt
  tidegate sim sims/nats/*.toml --seeds 1..20 --json
  tidegate sim sims/nats/quickstart.toml --set publishers.0.flow=50 --set network.latency=2ms
  tidegate sim sims/nats/quickstart.toml --check-determinism

Results of a set of more than 100 runs leave out series and flow; each run has them when it is run
again by itself.

Exit codes: 0 the run did what its file expects, 1 it did not, 2 bad usage or input,
3 the surroundings failed, 129, 130 and 143 ended by a signal after the partial result was written.";

/// Run scenario files in the deterministic simulator
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct SimArguments {
    /// Scenario or workload files
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Seed of the run; the default is the file's, else 1
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Run each seed of this range, both ends included
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    seeds: Option<(u64, u64)>,
    /// Runs at the same time; the default is the number of cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    #[command(flatten)]
    lane: LaneArguments,
    /// Change a key of the file, such as publishers.0.flow=50; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write results there; the default is results/NAME-sim-seedN, and no folder with --json
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Write each event as a line to this file; one file and one seed only
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trace: Option<PathBuf>,
    /// Run twice in threads and once in another process, compare event by event, and leave no result
    #[arg(long, conflicts_with_all = ["out", "trace"])]
    check_determinism: bool,
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let whole = |text: &str| text.trim().parse::<u64>().map_err(|_| ());
    let range = text
        .split_once("..")
        .map(|(from, to)| (whole(from), whole(to.strip_prefix('=').unwrap_or(to))));
    match range {
        Some((Ok(from), Ok(to))) if from <= to && to - from < 1_000_000 => Ok((from, to)),
        _ => Err(
            "allowed is A..B with whole numbers, A not above B, at most 1000000 seeds".to_owned(),
        ),
    }
}

/// The runs to do: each file with each of its seeds.
pub(super) struct Jobs {
    files: Vec<(Scenario, Lane, u64)>,
    seeds_of_each: u64,
}

/// One run to do.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) lane: Lane,
    pub(super) seed: Seed,
}

impl Jobs {
    fn read(arguments: &SimArguments) -> Result<Self, Failure> {
        let mut scenarios = Vec::with_capacity(arguments.files.len());
        for file in files::named(&arguments.files)? {
            let mut scenario = Scenario::read(&file)?;
            scenario.apply_set(&arguments.set)?;
            let lane = arguments.lane.lane(&scenario.settings);
            let lane = lane.map_err(Failure::Usage)?;
            scenario.check_simulatable(lane)?;
            let first = match arguments.seeds {
                Some((first, _)) => first,
                None => arguments.seed.unwrap_or(scenario.settings.seed),
            };
            scenarios.push((scenario, lane, first));
        }
        Ok(Self {
            files: scenarios,
            seeds_of_each: arguments.seeds.map_or(1, |(first, last)| last - first + 1),
        })
    }

    fn len(&self) -> usize {
        usize::try_from(self.seeds_of_each)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.files.len())
    }

    fn get(&self, index: usize) -> Option<Job<'_>> {
        let index = index as u64;
        let file = usize::try_from(index / self.seeds_of_each).ok()?;
        let (scenario, lane, first) = self.files.get(file)?;
        Some(Job {
            scenario,
            lane: *lane,
            seed: Seed(first + index % self.seeds_of_each),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Job<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// Runs the command.
pub(super) fn sim(arguments: &SimArguments) -> Result<(), Failure> {
    let jobs = Jobs::read(arguments)?;
    let interrupt = Interrupt::catch()?;
    if arguments.check_determinism {
        return check_determinism(
            &jobs,
            arguments.lane,
            &arguments.set,
            arguments.json,
            &interrupt,
        );
    }
    let runs = jobs.len();
    if arguments.trace.is_some() && runs > 1 {
        return Err(Failure::Usage(
            "--trace takes one file and one seed".to_owned(),
        ));
    }
    if let Some(trace) = &arguments.trace {
        files::check_output("--trace", trace, &arguments.files)?;
    }
    let files: Vec<&Scenario> = jobs.files.iter().map(|(one, ..)| one).collect();
    let first = jobs.files.first().map_or(0, |(.., seed)| *seed);
    let mut output = Output::open(&Wanted {
        folder: arguments.out.as_deref(),
        json: arguments.json,
        ran: Ran {
            world: World::Sim,
            lane: jobs.files.first().map(|(_, lane, _)| (*lane).into()),
            files: &files,
            seeds: (first, first + (jobs.seeds_of_each - 1)),
            set: &arguments.set,
        },
        runs,
    })?;
    let trace = arguments.trace.as_deref().map(Trace::create).transpose()?;
    let trace = Mutex::new(trace);
    let progress = Progress::new(runs);
    let mut done = 0;
    let work = |index| {
        let job = jobs.get(index)?;
        // The first run begins whatever comes, so that there is a result.
        if index > 0 && interrupt.signal().is_some() {
            return None;
        }
        let result = run_one(job, arguments, &interrupt, &progress, &trace);
        progress.run_done();
        Some(result.map(|result| {
            if runs > RUNS_IN_FULL {
                result.without_series()
            } else {
                result
            }
        }))
    };
    let taken = crew::in_order(runs, threads(arguments).min(runs), work, |result| {
        done += 1;
        output.add(result?)
    });
    progress.finish();
    taken?;
    let told = output.finish(done < runs);
    let trace = trace.into_inner().unwrap_or_else(PoisonError::into_inner);
    let traced = trace.map_or(Ok(()), Trace::finish);
    let told = told?;
    traced?;
    told.outcome(interrupt.signal())
}

fn threads(arguments: &SimArguments) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    arguments.jobs.map_or_else(cores, |jobs| jobs as usize)
}

fn run_one(
    job: Job<'_>,
    arguments: &SimArguments,
    interrupt: &Interrupt,
    progress: &Progress,
    trace: &Mutex<Option<Trace>>,
) -> Result<RunResult, Failure> {
    let stopwatch = Stopwatch::start();
    let settings = &job.scenario.settings;
    // With a trace there is one run only; without one, nobody waits here for long.
    let mut trace = trace.try_lock().ok();
    let writer = trace.as_mut().and_then(|trace| trace.as_mut());
    let outside = Outside {
        stop: interrupt.flag(),
        progress: &mut |now| progress.simulated(now, settings.time_limit.0),
        observer: writer.map(|trace| &mut trace.writer as &mut (dyn Observer + Send)),
    };
    let outcome =
        run(settings, job.seed, job.lane, outside).map_err(|error| refused(job, &error))?;
    let cost = stopwatch.stop(
        outcome.seen.summary.totals.published,
        outcome.end.as_nanos(),
    );
    let run = Run {
        world: World::Sim,
        lane: Some(job.lane.into()),
        scenario: job.scenario,
        seed: job.seed,
        partial: outcome.partial,
        unfinished: outcome.unfinished,
        cost,
        generator: None,
        servers: Vec::new(),
        objections: Vec::new(),
        replay: replay(job, arguments.lane, &arguments.set),
        notes: sim_notes(&outcome),
    };
    Ok(RunResult::new(record(run, outcome.seen)))
}

/// The command that repeats a run.
pub(super) fn replay(job: Job<'_>, lane: LaneArguments, set: &[String]) -> String {
    let command = replay_command(World::Sim, &job.scenario.file, job.seed.0, set);
    std::iter::once(command)
        .chain(lane.words())
        .collect::<Vec<_>>()
        .join(" ")
}

fn refused(job: Job<'_>, error: &SimError) -> Failure {
    Failure::Usage(format!("{}: {error}", job.scenario.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_both_its_ends() {
        assert_eq!(parse_range("1..3"), Ok((1, 3)));
        assert_eq!(parse_range("4..=4"), Ok((4, 4)));
        assert_eq!(parse_range("1..1000000"), Ok((1, 1_000_000)));
        let last = u64::MAX;
        assert_eq!(parse_range(&format!("{last}..{last}")), Ok((last, last)));
        for bad in [
            "",
            "1",
            "3..1",
            "1..",
            "..1",
            "a..b",
            "-1..1",
            "1..1000001",
            "1...3",
        ] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn jobs_are_files_times_seeds() {
        let text = "format = 1\nabout = \"x\"\n[[publishers]]\n";
        let scenario = |name| Scenario::parse(name, text).unwrap();
        let jobs = Jobs {
            files: vec![
                (scenario("a"), Lane::Event, u64::MAX - 1),
                (scenario("b"), Lane::Event, 3),
            ],
            seeds_of_each: 2,
        };
        let all: Vec<_> = jobs
            .iter()
            .map(|job| (job.scenario.file.as_str(), job.seed.0))
            .collect();
        let most = u64::MAX;
        assert_eq!(all, [("a", most - 1), ("a", most), ("b", 3), ("b", 4)]);
    }
}
