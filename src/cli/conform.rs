//! `tidegate conform`: replays recorded exchanges against the model or a real server.
//!
//! Leans on `conform`, and on `report` for writing files.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::Failure;
use crate::conform::vector::VectorFile;
use crate::conform::{
    Address, Against, Interrupt, Options, Outcome, Stop, Summary, parse, record_all, run,
};
use crate::report::write_atomically;
use crate::scenario::InputError;

const EXAMPLES: &str = "\
Examples:
  tidegate conform tests/vectors/r1-2.15.1.json
  tidegate conform tests/vectors/*.json --against local
  tidegate conform cases.json --against nats://127.0.0.1:4222 --json
  tidegate conform cases.json --against local --record recorded.json

Each case makes a stream `S` for `t.>` and removes it; a server that has such a stream already is
left alone. Cases that the target cannot run are skipped by name, with the reason.

Exit codes: 0 every case that was run came out as recorded, 1 some did not, 2 bad usage or input,
3 the surroundings failed, 130 and 143 ended by a signal after the partial result was written.";

/// Replay recorded exchanges against the server model or a real server
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConformArguments {
    /// Files of recorded exchanges
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What to hold against the recordings: the model, servers started for the run, or a running
    /// server
    #[arg(long, value_name = "model|local|URL", default_value = "model", value_parser = against)]
    against: Against,
    /// Only this server version: the one to start, or the one that must be there
    #[arg(long, value_name = "V")]
    server_version: Option<String>,
    /// Write what the server answers as a new file of recordings, instead of comparing
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

fn against(text: &str) -> Result<Against, String> {
    match text {
        "model" => Ok(Against::Model),
        "local" => Ok(Against::Local),
        url => Address::parse(url)
            .map(Against::Server)
            .map_err(|error| format!("neither `model` nor `local`, and {error}")),
    }
}

/// Runs the command.
///
/// # Errors
/// Bad files, a server that is not there, differences, or a signal.
pub(super) fn conform(arguments: &ConformArguments) -> Result<(), Failure> {
    let files = read(&arguments.files)?;
    let interrupt = catch_signals()
        .map_err(|error| Failure::Surroundings(format!("no signal handler: {error}")))?;
    let options = Options {
        against: arguments.against.clone(),
        server_version: arguments.server_version.clone(),
        may_fetch: true,
        notice: |text| eprintln!("{text}"),
        recording: arguments.record.is_some(),
        interrupt,
    };
    match &arguments.record {
        Some(_) if options.against == Against::Model => Err(Failure::Usage(
            "--record needs a real server: add --against local or --against URL".to_owned(),
        )),
        Some(target) => record(target, &files, &options),
        None => compare(&files, &options, arguments.json),
    }
}

/// The first signal ends the run early, the second the process.
fn catch_signals() -> std::io::Result<Interrupt> {
    let interrupt = Interrupt::default();
    let came = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Order matters: a second signal finds the flag set.
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&came))?;
        flag::register_usize(signal, interrupt.flag(), signal as usize)?;
        flag::register(signal, Arc::clone(&came))?;
    }
    Ok(interrupt)
}

fn read(paths: &[PathBuf]) -> Result<Vec<VectorFile>, Failure> {
    paths
        .iter()
        .map(|path| {
            let file = path.display().to_string();
            let text = std::fs::read_to_string(path).map_err(|error| InputError {
                file: file.clone(),
                line: None,
                key: None,
                message: format!("cannot be read: {error}"),
            })?;
            Ok(parse(&file, &text)?)
        })
        .collect()
}

fn compare(files: &[VectorFile], options: &Options, json: bool) -> Result<(), Failure> {
    let (summary, result) = run(files, options, &mut |name, outcome| {
        let word = match outcome {
            Outcome::Passed => "ok",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => return,
        };
        eprintln!("{word:7} {}", name.escape_debug());
    });
    print(&summary, json)?;
    result.map_err(failure)?;
    if summary.is_conform() {
        Ok(())
    } else {
        let failed = summary.failed.len();
        let cases = if failed == 1 { "case" } else { "cases" };
        Err(Failure::Unexpected(format!(
            "{failed} {cases} came out otherwise than recorded"
        )))
    }
}

fn print(summary: &Summary, json: bool) -> Result<(), Failure> {
    let text = if json {
        serde_json::to_string_pretty(summary)
            .map_err(|error| Failure::Surroundings(format!("no JSON: {error}")))?
    } else {
        summary.to_string()
    };
    writeln!(std::io::stdout(), "{text}")
        .map_err(|error| Failure::Surroundings(format!("cannot write to stdout: {error}")))
}

fn record(target: &Path, files: &[VectorFile], options: &Options) -> Result<(), Failure> {
    let (recorded, skipped) = record_all(files, options, &mut |name| {
        eprintln!("        {}", name.escape_debug());
    })
    .map_err(failure)?;
    for skipped in &skipped {
        eprintln!("skipped {}: {}", skipped.name.escape_debug(), skipped.why);
    }
    write_atomically(target, format!("{recorded:#}\n").as_bytes()).map_err(|error| {
        Failure::Surroundings(format!("cannot write {}: {error}", target.display()))
    })
}

fn failure(stop: Stop) -> Failure {
    match stop {
        Stop::Signal(number) => Failure::Signal(number),
        Stop::Unsupported(why) | Stop::Surroundings(why) => Failure::Surroundings(why),
    }
}
