//! `tidegate conform --random`: random operations on the model and on a server.
//!
//! Leans on `conform::random`, and on `report` for writing files.

use std::io::Write as _;

use serde_json::{Value, json};

use super::Failure;
use super::conform::{ConformArguments, failure};
use super::files;
use super::print;
use super::progress::Progress;
use crate::conform::random::{Random, Tally, explore as play};
use crate::conform::{Against, Failed, Options, Skipped, Summary};
use crate::nats::version::ServerVersion;
use crate::report::AtomicFile;
use crate::server::ServerModel;

/// Runs `conform` with so many random operations.
///
/// # Errors
/// Bad usage, a server that is not there, differences, or a signal.
pub(super) fn explore(
    arguments: &ConformArguments,
    operations: u64,
    options: &Options,
) -> Result<(), Failure> {
    if arguments.against == Against::Model {
        return Err(Failure::Usage(
            "--random holds the model against something else: add --against local, serve or URL"
                .to_owned(),
        ));
    }
    let random = Random {
        seed: arguments.seed,
        operations,
        replicas: arguments.replicas,
        model: ServerModel::of(version(arguments.server_version.as_deref())?),
    };
    if let Some(target) = &arguments.record {
        files::check_output("--record", target, &[])?;
    }
    let progress = Progress::of(
        usize::try_from(operations).unwrap_or(usize::MAX),
        "operations",
    );
    let (tally, result) = play(&random, options, &mut |done| progress.done(done));
    progress.finish();
    tell(&tally, arguments, result.is_err())?;
    result.map_err(|stop| failure(stop, "what was played so far is on stdout, marked partial"))?;
    verdict(&tally, &random)
}

fn version(text: Option<&str>) -> Result<ServerVersion, Failure> {
    let Some(text) = text else {
        return Ok(ServerVersion::default());
    };
    ServerVersion::from_text(text).ok_or_else(|| {
        let known = ServerVersion::ALL.map(ServerVersion::text).join(", ");
        Failure::Usage(format!(
            "--server-version {text} is not modelled; modelled are {known}"
        ))
    })
}

fn tell(tally: &Tally, arguments: &ConformArguments, partial: bool) -> Result<(), Failure> {
    let recording = recording(tally);
    if let (Some(target), Some(recording)) = (&arguments.record, &recording) {
        let cannot = |error: std::io::Error| {
            Failure::Surroundings(format!("{}: cannot be written: {error}", target.display()))
        };
        let mut file = AtomicFile::create(target).map_err(cannot)?;
        file.write_all(format!("{recording:#}\n").as_bytes())
            .and_then(|()| file.commit())
            .map_err(cannot)?;
    }
    let mut summary = summary(tally);
    summary.partial = partial;
    if arguments.json {
        let document = json!({
            "operations": tally.operations,
            "summary": summary,
            "recording": recording,
        });
        return print::out(&format!("{document:#}\n"));
    }
    let mut text = format!("{}\n{} operations\n", summary.brief(), tally.operations);
    if let Some(recording) = recording.filter(|_| arguments.record.is_none()) {
        text.push_str(&format!(
            "what the server answers, as a file of recordings:\n{recording:#}\n"
        ));
    }
    print::out(&text)
}

/// In the words of recorded cases: expected is what the model answers.
fn summary(tally: &Tally) -> Summary {
    let failed = tally.found.iter().map(|found| Failed {
        name: if found.unsteady {
            format!("{} (unsteady)", found.name)
        } else {
            found.name.clone()
        },
        step: found.difference.step,
        expected: found.difference.expected.clone(),
        got: found.difference.got.clone(),
    });
    let skipped = tally.skipped.iter().map(|(name, why)| Skipped {
        name: name.clone(),
        why: why.clone(),
    });
    let (failed, skipped): (Vec<_>, Vec<_>) = (failed.collect(), skipped.collect());
    let cases = usize::try_from(tally.cases).unwrap_or(usize::MAX);
    Summary {
        cases,
        passed: cases - failed.len() - skipped.len(),
        failed,
        skipped,
        partial: false,
    }
}

/// All cases that differ in one file; `None` if there are none.
fn recording(tally: &Tally) -> Option<Value> {
    let mut recordings = tally.found.iter().map(|found| found.recording.clone());
    let mut first = recordings.next()?;
    let more = recordings.flat_map(|file| file["cases"].as_array().cloned().unwrap_or_default());
    if let Some(cases) = first["cases"].as_array_mut() {
        cases.extend(more);
    }
    Some(first)
}

fn verdict(tally: &Tally, random: &Random) -> Result<(), Failure> {
    if tally.skipped.len() as u64 == tally.cases {
        return Err(Failure::Surroundings(
            "no case could be played; the reasons are with the cases that were skipped".to_owned(),
        ));
    }
    match tally.found.len() {
        0 => Ok(()),
        found => {
            let cases = if found == 1 { "case" } else { "cases" };
            Err(Failure::Unexpected(format!(
                "model and server differ in {found} {cases} of seed {}",
                random.seed
            )))
        }
    }
}
