//! `tidegate conform`: replays recorded exchanges against the model or a real server.
//!
//! Leans on `conform`, and on `report` for writing files.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;

use super::Failure;
use super::explore;
use super::files;
use super::interrupt::Interrupt;
use super::print;
use super::progress::Progress;
use super::server::check_version;
use crate::conform::vector::VectorFile;
use crate::conform::{
    self, Address, Against, Options, Outcome, Pace, Stop, Summary, parse, record_all, run,
};
use crate::report::{AtomicFile, shell_word};
use crate::scenario::InputError;

/// A run that takes so long is announced.
const WORTH_SAYING_S: u64 = 3;
/// Largest file of recordings that is read.
const LARGEST_BYTES: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  tidegate conform tests/vectors/r1-2.15.1.json
  tidegate conform tests/vectors/*.json --against local
  tidegate conform cases.json --against nats://127.0.0.1:4222 --json
  tidegate conform cases.json --against local --record recorded.json
  tidegate conform --random 10000 --seed 7 --against local

Each case makes a stream `S` for `t.>` and removes it; a server that has such a stream already is
left alone. Cases that the target cannot run are skipped, and counted by reason; --verbose and --json
name them all.

Exit codes: 0 every case that was run came out as recorded, 1 some did not, 2 bad usage or input,
3 the surroundings failed, 129, 130 and 143 ended by a signal after the partial result was written.";

/// Replay recorded exchanges against the server model or a real server
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConformArguments {
    /// Files of recorded exchanges
    #[arg(required_unless_present = "random", value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Instead of files: draw so many random operations, play them on the model and on the server, and
    /// compare; what differs is shrunk, and given as a file of recordings
    #[arg(long, value_name = "N", conflicts_with = "files", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) random: Option<u64>,
    /// Seed of the random operations
    #[arg(long, value_name = "N", requires = "random", default_value_t = 1)]
    pub(super) seed: u64,
    /// Replicas of the streams of random operations
    #[arg(long, value_name = "1|3", requires = "random", default_value_t = 1, value_parser = replicas)]
    pub(super) replicas: u64,
    /// What to hold against the recordings: the model, the model behind a socket, servers started
    /// for the run, or a running server
    #[arg(long, value_name = "model|serve|local|URL", default_value = "model", value_parser = against)]
    pub(super) against: Against,
    /// Only this server version: the one to start, or the one that must be there
    #[arg(long, value_name = "V")]
    pub(super) server_version: Option<String>,
    /// Write what the server answers as a new file of recordings, instead of comparing; with --random:
    /// of the cases that differ
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) record: Option<PathBuf>,
    /// Print one JSON document on stdout instead of text
    #[arg(long)]
    pub(super) json: bool,
    /// Name each case as it ends, and every case that is skipped
    #[arg(long, short)]
    verbose: bool,
}

fn replicas(text: &str) -> Result<u64, String> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        _ => Err("1 and 3 are allowed".to_owned()),
    }
}

fn against(text: &str) -> Result<Against, String> {
    match text {
        "model" => Ok(Against::Model),
        "serve" => Ok(Against::Served),
        "local" => Ok(Against::Local),
        url => Address::parse(url)
            .map(Against::Server)
            .map_err(|error| format!("none of `model`, `serve` and `local`, and {error}")),
    }
}

/// Runs the command.
///
/// # Errors
/// Bad files, a server that is not there, differences, or a signal.
pub(super) fn conform(arguments: &ConformArguments) -> Result<(), Failure> {
    if let Some(version) = &arguments.server_version {
        check_version(version)?;
    }
    let is_model = matches!(arguments.against, Against::Model | Against::Served);
    if arguments.record.is_some() && is_model && arguments.random.is_none() {
        return Err(Failure::Usage(
            "--record needs a real server: add --against local or --against URL".to_owned(),
        ));
    }
    if let Some(target) = &arguments.record {
        files::check_output("--record", target, &arguments.files)?;
    }
    if let Some(operations) = arguments.random {
        let options = options(arguments, Pace::Fenced)?;
        return explore::explore(arguments, operations, &options);
    }
    let files = read(&arguments.files)?;
    let options = options(arguments, Pace::Quiet)?;
    announce(&files, &arguments.against);
    match &arguments.record {
        Some(target) => record(target, &files, &options, arguments),
        None => compare(&files, &options, arguments),
    }
}

fn options(arguments: &ConformArguments, pace: Pace) -> Result<Options, Failure> {
    let interrupt = conform::Interrupt::default();
    Interrupt::catch_into(interrupt.flag())?;
    Ok(Options {
        against: arguments.against.clone(),
        server_version: arguments.server_version.clone(),
        may_fetch: true,
        notice: print::note,
        recording: arguments.record.is_some() && arguments.random.is_none(),
        pace,
        interrupt,
    })
}

fn read(paths: &[PathBuf]) -> Result<Vec<VectorFile>, Failure> {
    paths
        .iter()
        .map(|path| {
            let file = path.display().to_string();
            let bad = |message: String| InputError {
                file: file.clone(),
                line: None,
                key: None,
                message,
            };
            let mut bytes = Vec::new();
            File::open(path)
                .and_then(|file| file.take(LARGEST_BYTES + 1).read_to_end(&mut bytes))
                .map_err(|error| bad(format!("cannot be read: {error}")))?;
            if bytes.len() as u64 > LARGEST_BYTES {
                return Err(
                    bad("is larger than 64 MiB, the largest file allowed".to_owned()).into(),
                );
            }
            let text = String::from_utf8(bytes).map_err(|_| bad("is not UTF-8 text".to_owned()))?;
            Ok(parse(&file, &text)?)
        })
        .collect()
}

/// Says beforehand what will take a while.
fn announce(files: &[VectorFile], against: &Against) {
    let cases = cases(files);
    let seconds = conform::expected_duration(files, against).as_secs();
    if seconds >= WORTH_SAYING_S {
        print::note(&format!(
            "{cases} cases, which take about {seconds} s; less where some are skipped"
        ));
    }
}

fn cases(files: &[VectorFile]) -> usize {
    files.iter().map(|file| file.cases.len()).sum()
}

fn compare(
    files: &[VectorFile],
    options: &Options,
    arguments: &ConformArguments,
) -> Result<(), Failure> {
    let progress = Progress::of(cases(files), "cases");
    let (summary, result) = run(files, options, &mut |name, outcome| {
        progress.run_done();
        let word = match outcome {
            Outcome::Failed(_) => "FAILED",
            Outcome::Passed if arguments.verbose => "ok",
            Outcome::Passed | Outcome::Skipped(_) => return,
        };
        progress.log(&format!("{word:7} {}", name.escape_debug()));
    });
    progress.finish();
    print::out(&text_of(&summary, arguments)?)?;
    result.map_err(|stop| {
        failure(
            stop,
            "what was compared so far is on stdout, marked partial",
        )
    })?;
    // Green with nothing tested would be a lie; against the model, cases are left out by design.
    if summary.passed == 0 && summary.failed.is_empty() && arguments.against != Against::Model {
        return Err(Failure::Surroundings(
            "no case could be run; the reasons are with the cases that were skipped".to_owned(),
        ));
    }
    if summary.is_conform() {
        return Ok(());
    }
    let failed = summary.failed.len();
    let cases = if failed == 1 { "case" } else { "cases" };
    Err(Failure::Unexpected(format!(
        "{failed} {cases} came out otherwise than recorded; they run again with\n  {}",
        replay(arguments)
    )))
}

fn text_of(summary: &Summary, arguments: &ConformArguments) -> Result<String, Failure> {
    if arguments.json {
        let text = serde_json::to_string_pretty(summary)
            .map_err(|error| Failure::Surroundings(format!("no JSON: {error}")))?;
        return Ok(text + "\n");
    }
    let partial = if summary.partial { "partial: " } else { "" };
    Ok(if arguments.verbose {
        format!("{partial}{summary}\n")
    } else {
        format!("{partial}{}\n", summary.brief())
    })
}

/// The command that compares again.
fn replay(arguments: &ConformArguments) -> String {
    let mut command = "tidegate conform".to_owned();
    for file in &arguments.files {
        command.push(' ');
        command.push_str(&shell_word(&file.display().to_string()));
    }
    match &arguments.against {
        Against::Model => {}
        Against::Served => command.push_str(" --against serve"),
        Against::Local => command.push_str(" --against local"),
        Against::Server(address) => {
            // Without credentials.
            let url = format!("nats://{}", address.host);
            command.push_str(&format!(" --against {}", shell_word(&url)));
        }
    }
    if let Some(version) = &arguments.server_version {
        command.push_str(&format!(" --server-version {}", shell_word(version)));
    }
    command
}

fn record(
    target: &Path,
    files: &[VectorFile],
    options: &Options,
    arguments: &ConformArguments,
) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::Surroundings(format!("{}: cannot be written: {error}", target.display()))
    };
    // Before anything is run: a recording takes its time.
    let mut file = AtomicFile::create(target).map_err(cannot)?;
    let progress = Progress::of(cases(files), "cases");
    let recorded = record_all(files, options, &mut |name| {
        progress.run_done();
        if arguments.verbose {
            progress.log(&format!("        {}", name.escape_debug()));
        }
    });
    progress.finish();
    let (recorded, skipped) = recorded.map_err(|stop| failure(stop, "nothing is recorded"))?;
    for skipped in &skipped {
        print::log(&format!(
            "skipped {}: {}",
            skipped.name.escape_debug(),
            skipped.why
        ));
    }
    file.write_all(format!("{recorded:#}\n").as_bytes())
        .and_then(|()| file.commit())
        .map_err(cannot)?;
    let cases = recorded["cases"].as_array().map_or(0, Vec::len);
    let written = target.display().to_string();
    print::out(&if arguments.json {
        let document = json!({ "recorded": cases, "skipped": skipped, "file": written });
        format!("{document:#}\n")
    } else {
        format!("{cases} recorded in {written}, {} skipped\n", skipped.len())
    })
}

pub(super) fn failure(stop: Stop, left: &str) -> Failure {
    match stop {
        Stop::Signal(number) => Failure::Signal {
            number,
            left: Some(left.to_owned()),
        },
        Stop::Unsupported(why) | Stop::Surroundings(why) => Failure::Surroundings(why),
    }
}
