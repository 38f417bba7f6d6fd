//! `tidegate live`: runs files with real clients against real servers.
//!
//! Leans on `live`, `watch`, `report` and the other parts of `cli`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tokio::runtime::Runtime;

use super::access::{AccessArguments, access};
use super::cost::Stopwatch;
use super::exit::Failure;
use super::files;
use super::folder::Ran;
use super::generator::Look;
use super::interrupt::{Answer, Interrupt};
use super::notes::notes;
use super::output::{Output, Wanted};
use super::print;
use super::progress::{LiveProgress, Progress};
use super::record::{Run, record};
use super::servers::Servers;
use crate::judge::{Judges, Violation};
use crate::live::{
    Access, Connector, Ended, Interrupts, LiveError, LiveOutcome, LocalServers, ReadBack,
    RunOptions, Target,
};
use crate::machine::Time;
use crate::report::{RunResult, World, replay_command, shell_word};
use crate::scenario::{LiveServers, RunsIn, Scenario};
use crate::seed::Seed;
use crate::watch::{Seen, Watch};

const EXAMPLES: &str = "\
Examples:
  tidegate live workloads/quickstart.toml
  tidegate live workloads/quickstart.toml --local 3
  tidegate live workloads/many-fast-publishers.toml --servers nats://127.0.0.1:4222
  tidegate live workloads/quickstart.toml --context staging
  tidegate live workloads/quickstart.toml --set publishers.0.flow=500 --json

Without --servers a nats-server of our own is started on 127.0.0.1 and removed afterwards. With
--local 3 the stream has three replicas unless the file or --set says stream.replicas. The stream is
made as the file says and removed at the end; a stream of that name that is there already is used
only if it is as the file says, and stays. Servers of our own get the limits that the file sets
under [server]; servers of yours have their own.

Faults of processes, links and routes are made for real on servers of our own; a leader of yours steps
down only if the file says live.allow_leader_changes. What a file says under [only.live] counts here alone.

Exit codes: 0 the run did what its file expects, 1 it did not, 2 bad usage or input,
3 the surroundings failed, 129, 130 and 143 ended by a signal after the partial result was written.";

/// Run files with real clients against real servers
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct LiveArguments {
    /// Scenario or workload files
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Servers to connect to; credentials as user:password@ or token@
    #[arg(
        long,
        value_name = "URL,…",
        value_delimiter = ',',
        conflicts_with = "local"
    )]
    servers: Vec<String>,
    #[command(flatten)]
    access: AccessArguments,
    /// Start so many servers of our own: 1, or a cluster of 3
    #[arg(long, value_name = "N", value_parser = parse_local)]
    local: Option<u8>,
    /// Seed of arrivals, sizes and contents; the default is the file's, else 1
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Change a key of the file, such as publishers.0.flow=50; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write results there; the default is results/NAME-live-seedN, and no folder with --json
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Print one JSON document on stdout instead of a table
    #[arg(long)]
    json: bool,
    /// Refuse what else is a note: sections that a live run leaves out, a stream that is there; and
    /// exit with 1 where the generator was the limit
    #[arg(long)]
    strict: bool,
    /// Leave the stream in place
    #[arg(long)]
    keep: bool,
    /// Measure after each run what the generator can do at the most; else only where it was busy
    #[arg(long)]
    ceiling: bool,
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
    let interrupt = Interrupt::catch()?;
    let (urls, access) = access(&arguments.servers, &arguments.access)?;
    let mut servers = Servers::new(&urls, arguments.local);
    let scenarios = read(arguments, servers.kind())?;
    let files: Vec<&Scenario> = scenarios.iter().collect();
    let first = scenarios.first().map_or(0, |one| seed(arguments, one).0);
    let mut output = Output::open(&Wanted {
        folder: arguments.out.as_deref(),
        json: arguments.json,
        ran: Ran {
            world: World::Live,
            lane: None,
            files: &files,
            seeds: (first, first),
            set: &arguments.set,
        },
        runs: scenarios.len(),
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Surroundings(format!("no runtime: {error}")))?;
    let progress = Progress::new(1);
    let mut session = Session {
        arguments,
        access,
        progress: &progress,
        output: &mut output,
        done: 0,
        shared: false,
        look: Look::new(arguments.ceiling, arguments.strict),
    };
    let ran = session.run_all(&scenarios, &mut servers, &runtime, &interrupt);
    let done = session.done;
    progress.finish();
    let stopped = servers.stop();
    // What was measured first: it stands whatever else went wrong.
    let told = output.finish(done < scenarios.len())?;
    let signal = ran?;
    stopped?;
    told.outcome(signal)
}

fn seed(arguments: &LiveArguments, scenario: &Scenario) -> Seed {
    Seed(arguments.seed.unwrap_or(scenario.settings.seed))
}

fn read(arguments: &LiveArguments, servers: LiveServers) -> Result<Vec<Scenario>, Failure> {
    let mut scenarios = Vec::with_capacity(arguments.files.len());
    for file in files::named(&arguments.files)? {
        let mut scenario = Scenario::read_for(&file, RunsIn::Live)?;
        let replicas_said =
            scenario.says("stream.replicas") || arguments.set.iter().any(|set| sets_replicas(set));
        if arguments.local == Some(3) && !replicas_said {
            scenario.settings.stream.replicas = 3;
        }
        scenario.apply_set(&arguments.set)?;
        for note in scenario.check_live(servers, arguments.strict)? {
            print::note(&format!("{}: {note}", scenario.file));
        }
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

fn sets_replicas(set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default();
    key.trim() == "stream.replicas" || key.trim() == "stream"
}

/// Everything that the runs of one command share.
struct Session<'a> {
    arguments: &'a LiveArguments,
    /// How to get into servers that the user named.
    access: Access,
    progress: &'a Progress,
    output: &'a mut Output,
    /// Runs with a result.
    done: usize,
    /// Others published to the stream of the run at hand: it is theirs too, and stays.
    shared: bool,
    /// At the generators of its runs.
    look: Look,
}

impl Session<'_> {
    /// Runs the files one after the other, until a signal; gives its number.
    fn run_all(
        &mut self,
        scenarios: &[Scenario],
        servers: &mut Servers,
        runtime: &Runtime,
        interrupt: &Interrupt,
    ) -> Result<Option<u8>, Failure> {
        // While a run is on it hears signals itself, and ends in order.
        let mut interrupts = {
            let _guard = runtime.enter();
            Interrupts::new()?
        };
        for scenario in scenarios {
            let urls = match servers.ready_for(&scenario.settings, interrupt) {
                Err(Failure::Signal { number, .. }) => return Ok(Some(number)),
                urls => urls?,
            };
            interrupt.answer_by(Answer::Elsewhere);
            if let Some(signal) = interrupt.signal() {
                return Ok(Some(signal));
            }
            let own = servers.own();
            let running = self.prepare_and_run(scenario, (&urls, own), &mut interrupts);
            let ran = runtime.block_on(running);
            // Whatever failed then, this is why.
            let ran = ran.map_err(|failure| {
                let death = own.and_then(LocalServers::death);
                death.map_or(failure, Failure::from)
            });
            // The next one is for the process: what is left to do is short.
            interrupt.answer_by(match ran {
                Ok(Some(_)) => Answer::EndAtOnce,
                Ok(None) | Err(_) => Answer::EndEarly,
            });
            if let Some(signal) = ran? {
                return Ok(Some(signal));
            }
        }
        Ok(None)
    }

    /// Makes the stream, runs, removes the stream; gives the signal that ended it.
    async fn prepare_and_run(
        &mut self,
        scenario: &Scenario,
        (urls, own): (&[String], Option<&LocalServers>),
        interrupts: &mut Interrupts,
    ) -> Result<Option<u8>, Failure> {
        let streams = scenario.settings.streams_of_run();
        let connector = Connector::new(urls)?;
        let connector = match own {
            Some(own) => own.lead(connector)?,
            None => connector.with_access(self.access.clone()),
        };
        let prepared = Target::prepare_unless_interrupted(connector, &streams, interrupts);
        let target = match prepared.await? {
            Ok(target) => target,
            Err(signal) => return Ok(Some(signal)),
        };
        if let Some(there) = streams_there(&target) {
            if self.arguments.strict {
                target.remove().await?;
                return Err(Failure::Usage(format!(
                    "{there} already, and --strict wants streams of its own; choose another name with \
                     --set stream.name=NAME"
                )));
            }
            print::note(&format!("{there} already; it is used, and stays"));
        }
        let done = self.run_one(scenario, (&target, own), interrupts).await;
        // A stream on servers of our own goes with them, where no further run follows.
        let goes_anyway = own.is_some() && !matches!(done, Ok(None));
        let removed = if self.arguments.keep || self.shared || goes_anyway {
            Ok(())
        } else {
            target.remove().await
        };
        match (done, removed) {
            (done, Ok(())) => done,
            (Err(failure), Err(remains)) => {
                print::note(&remains.to_string());
                Err(failure)
            }
            (Ok(_), Err(remains)) => Err(remains.into()),
        }
    }

    /// Does one run; gives the signal that ended it.
    async fn run_one(
        &mut self,
        scenario: &Scenario,
        (target, own): (&Target, Option<&LocalServers>),
        interrupts: &mut Interrupts,
    ) -> Result<Option<u8>, Failure> {
        let stopwatch = Stopwatch::start();
        let settings = &scenario.settings;
        let seed = seed(self.arguments, scenario);
        let mut watch = Watch::new(settings, false, None);
        let mut progress = LiveProgress::new(self.progress, settings.time_limit.0);
        let options = RunOptions {
            seed,
            read_back: true,
            own_servers: own,
            say: print::note,
        };
        let outcome = crate::live::run(
            scenario,
            target,
            &mut [&mut watch, &mut progress],
            &options,
            interrupts,
        )
        .await;
        self.shared = false;
        let (end, partial, mut notes) = match &outcome {
            Ok(outcome) => {
                let partial = matches!(outcome.ended, Ended::Signal(_));
                (outcome.published_until, partial, notes(outcome))
            }
            // Broken off: what was seen until then is a result, if a partial one.
            Err(error) => match progress.newest() {
                Some(newest) => (newest, true, vec![broken_off(error)]),
                None => (Time::ZERO, true, Vec::new()),
            },
        };
        if let (Ok(_), Some(own)) = (&outcome, own) {
            notes.extend(own.losses());
        }
        let mut seen = watch.finish(end);
        if let Ok(LiveOutcome {
            read_back: Some(found),
            ..
        }) = &outcome
        {
            add_read_back(found, end, &mut seen);
            self.shared = found.foreign > 0 && target.created();
        }
        if self.shared {
            notes.push(format!(
                "others published to {} during the run: it stays",
                names(target)
            ));
        }
        let cost = stopwatch.stop(seen.summary.totals.published, end.as_nanos());
        let looked = self.look.at(&outcome, (scenario, seed), interrupts).await;
        notes.extend(looked.notes);
        let run = Run {
            world: World::Live,
            lane: None,
            scenario,
            seed,
            partial,
            unfinished: matches!(&outcome, Ok(outcome) if matches!(outcome.ended, Ended::TimeLimit)),
            cost,
            generator: looked.figures,
            servers: outcome
                .as_ref()
                .map_or_else(|_| Vec::new(), |it| it.monitored.clone()),
            objections: looked.objections,
            replay: self.replay(scenario, seed, target),
            notes,
        };
        let cut_short =
            matches!(&outcome, Ok(outcome) if matches!(outcome.ended, Ended::Signal(_)));
        if progress.newest().is_some() || (outcome.is_ok() && !cut_short) {
            self.done += usize::from(outcome.is_ok());
            self.output.add(RunResult::new(record(run, seen)))?;
        }
        match outcome?.ended {
            Ended::Signal(signal) => Ok(Some(signal)),
            Ended::Complete | Ended::TimeLimit => Ok(looked.signal),
        }
    }

    /// The command that runs it again; credentials are left out.
    fn replay(&self, scenario: &Scenario, seed: Seed, target: &Target) -> String {
        let arguments = self.arguments;
        let mut command = replay_command(World::Live, &scenario.file, seed.0, &arguments.set);
        if !arguments.servers.is_empty() {
            let servers = target.connector().shown().replace(", ", ",");
            command.push_str(&format!(" --servers {}", shell_word(&servers)));
        }
        for (word, value) in arguments.access.words() {
            command.push_str(&format!(" --{word}"));
            if !value.is_empty() {
                command.push_str(&format!(" {}", shell_word(&value)));
            }
        }
        if let Some(local) = arguments.local {
            command.push_str(&format!(" --local {local}"));
        }
        for (word, said) in [
            ("strict", arguments.strict),
            ("keep", arguments.keep),
            ("ceiling", arguments.ceiling),
        ] {
            if said {
                command.push_str(&format!(" --{word}"));
            }
        }
        command
    }
}

/// What broke a run off, in one line: the end of a log is for the terminal.
fn broken_off(error: &LiveError) -> String {
    let text = error.to_string();
    format!("broken off: {}", text.lines().next().unwrap_or_default())
}

/// The server's side of a live run, which no event tells while it happens.
fn add_read_back(found: &ReadBack, end: Time, seen: &mut Seen) {
    let totals = &mut seen.summary.totals;
    totals.stored = Some(found.stored);
    totals.lost = Some(found.lost);
    totals.stored_again = found.duplicates;
    let violations = found.findings.iter().map(|finding| Violation {
        judge: Judges::OF_READ_BACK,
        clause: Judges::READ_BACK_CLAUSE,
        at: end,
        publisher: Some(finding.publisher),
        batch: Some(finding.batch),
        message: format!("message {}: {}", finding.sequence, finding.what),
    });
    seen.findings.violations.extend(violations);
    seen.findings.violations_left_out += found.more_findings;
}

impl From<LiveError> for Failure {
    fn from(error: LiveError) -> Self {
        match error {
            // What to change is the file, or what is asked for.
            LiveError::Scenario { .. }
            | LiveError::NoBatches { .. }
            | LiveError::OtherStream { .. }
            | LiveError::RefusedStream { .. } => Self::Usage(error.to_string()),
            other => Self::Surroundings(other.to_string()),
        }
    }
}

/// That a stream was there before the run, or several were, in words.
fn streams_there(target: &Target) -> Option<String> {
    let mut there = target.streams().iter().filter(|stream| !stream.created);
    let first = &there.next()?.name;
    Some(match there.count() {
        0 => format!("stream {first} is there"),
        others => format!("stream {first}, with {others} others of the run, is there"),
    })
}

/// The streams of a run, in words.
fn names(target: &Target) -> String {
    match target.streams() {
        [one] => format!("stream {}", one.name),
        several => format!("{} and the other streams of the run", several[0].name),
    }
}
