//! `tidegate sim --check-determinism`, and the hidden command `trace` that its other process runs.
//!
//! Leans on `sim`.

use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use serde::Serialize;

use super::exit::Failure;
use super::files;
use super::interrupt::Interrupt;
use super::lane::LaneArguments;
use super::print;
use super::sim::{Job, Jobs, replay};
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::sim::determinism::{
    Difference, TraceWriter, compare, trace_from_a_process, trace_in_a_thread,
};
use crate::sim::{Outside, run};

/// Print the trace of one run (used by --check-determinism)
#[derive(Args, Debug)]
pub(super) struct TraceArguments {
    file: PathBuf,
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    lane: LaneArguments,
    #[arg(long = "set")]
    set: Vec<String>,
}

/// What was compared, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Checked {
    file: String,
    seed: u64,
    /// Events compared.
    events: u64,
    equal: bool,
    /// Where the traces part, in words.
    difference: Option<String>,
    replay: String,
}

/// Compares three traces of each job: two threads of this process, and another process.
///
/// # Errors
/// Traces differ, no process can be started, or a signal came.
pub(super) fn check_determinism(
    jobs: &Jobs,
    lane: LaneArguments,
    set: &[String],
    json: bool,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for job in jobs.iter() {
        let checked = check(job, lane, set, interrupt)?;
        if interrupt.signal().is_some() {
            break;
        }
        if !json && checked.equal {
            print::out(&format!(
                "{} seed {}: {} events, equal in two threads and two processes\n",
                checked.file, checked.seed, checked.events
            ))?;
        }
        all.push(checked);
    }
    let partial = interrupt.signal().is_some();
    if json {
        let document = serde_json::json!({
            "format": crate::report::FORMAT,
            "checked": all,
            "partial": partial,
        });
        print::out(&format!("{document:#}\n"))?;
    }
    if let Some(number) = interrupt.signal() {
        let left = Some(format!("{} runs were compared until then", all.len()));
        return Err(Failure::Signal { number, left });
    }
    let differing: Vec<String> = all
        .iter()
        .filter_map(|checked| {
            let difference = checked.difference.as_ref()?;
            Some(format!(
                "{} seed {}: not deterministic: {difference}\n  {}",
                checked.file, checked.seed, checked.replay
            ))
        })
        .collect();
    if differing.is_empty() {
        Ok(())
    } else {
        Err(Failure::Unexpected(differing.join("\n")))
    }
}

fn check(
    job: Job<'_>,
    lane: LaneArguments,
    set: &[String],
    interrupt: &Interrupt,
) -> Result<Checked, Failure> {
    let trace = || {
        let lines = trace_in_a_thread(job.scenario.settings.clone(), job.seed, job.lane);
        lines.take_while(|_| !interrupt.flag().load(Ordering::Relaxed))
    };
    let mut compared = compare(trace(), trace()).map_err(|difference| ("thread", difference));
    if compared.is_ok() {
        let (mut child, out) = spawn_trace(job, lane, set)?;
        let there = trace_from_a_process(BufReader::new(out))
            .take_while(|_| !interrupt.flag().load(Ordering::Relaxed));
        compared = compare(trace(), there).map_err(|difference| ("process", difference));
        // On a difference the child still writes: it ends when its output is closed.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (file, seed) = (job.scenario.file.clone(), job.seed.0);
    let replay = replay(job, lane, set) + " --check-determinism";
    Ok(Checked {
        file,
        seed,
        events: match &compared {
            Ok(events) => *events,
            Err((_, difference)) => difference.event.saturating_sub(1),
        },
        equal: compared.is_ok(),
        difference: compared
            .err()
            .map(|(other, difference)| told(other, difference)),
        replay,
    })
}

fn told(other: &str, difference: Difference) -> String {
    let show = |side: Option<String>| side.unwrap_or_else(|| "the end of the trace".to_owned());
    format!(
        "event {} differs in another {other}\n  here:  {}\n  there: {}",
        difference.event,
        show(difference.here),
        show(difference.there)
    )
}

fn spawn_trace(
    job: Job<'_>,
    lane: LaneArguments,
    set: &[String],
) -> Result<(Child, ChildStdout), Failure> {
    let failed = |error: std::io::Error| {
        Failure::Surroundings(format!("another process cannot be started: {error}"))
    };
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(["trace", "--seed", &job.seed.0.to_string()]);
    command.args(lane.words());
    command.args(set.iter().map(|change| format!("--set={change}")));
    // A name that begins like an option stays a name.
    command.args(["--", &job.scenario.file]);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    match child.stdout.take() {
        Some(out) => Ok((child, out)),
        None => Err(Failure::Surroundings(
            "the other process has no output".to_owned(),
        )),
    }
}

/// Prints the trace of one run.
///
/// # Errors
/// The file is bad, or stdout cannot be written.
pub(super) fn trace(arguments: &TraceArguments) -> Result<(), Failure> {
    let mut names = files::named(std::slice::from_ref(&arguments.file))?;
    let mut scenario = Scenario::read(&names.remove(0))?;
    scenario.apply_set(&arguments.set)?;
    let stop = AtomicBool::new(false);
    let mut writer = TraceWriter::new(BufWriter::new(std::io::stdout()));
    let outside = Outside {
        stop: &stop,
        progress: &mut |_| {},
        observer: Some(&mut writer),
    };
    let lane = arguments.lane.lane(&scenario.settings);
    let lane = lane.map_err(Failure::Usage)?;
    run(&scenario.settings, Seed(arguments.seed), lane, outside)
        .map_err(|error| Failure::Usage(format!("{}: {error}", scenario.file)))?;
    print::written(writer.finish().map(|_| ()))
}
