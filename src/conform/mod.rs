//! Holds the server model to the real server: recorded exchanges, replayed against either.
//!
//! `vector` and `parse` read the recordings, `run` does the steps of a case against a `Peer`, and
//! `real` and `model` are the two peers. Leans on `nats` for the wire, on `server` for the model,
//! and on the input errors of `scenario`.

mod compare;
mod connection;
mod duration;
mod frames;
mod groups;
mod inbox;
pub mod local;
mod model;
mod observe;
mod outcome;
mod parse;
pub mod random;
mod readback;
mod real;
mod run;
mod served;
pub mod vector;

pub use connection::Address;
pub use duration::expected_duration;
pub use model::Model;
pub use outcome::{Failed, Skipped, Summary};
pub use parse::{FORMAT, parse};
pub use real::Real;
pub use run::{Difference, Opened, Outcome, Peer, Seen, Stop, Wanted, record, replay};

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use vector::{Case, VectorFile};

/// What cases are run against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Against {
    /// The server model.
    Model,
    /// The server model behind a socket, in real time.
    Served,
    /// Servers that are started for the run.
    Local,
    /// A running server.
    Server(Address),
}

/// How to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What cases are run against.
    pub against: Against,
    /// Only this server version counts; `None`: with servers of our own the one that each case was
    /// recorded on, else the one that is there.
    pub server_version: Option<String>,
    /// Servers that are not here may be fetched.
    pub may_fetch: bool,
    /// Hears what takes time beside the cases, such as fetching a server.
    pub notice: fn(&str),
    /// Replies are recorded, not compared: cases of other versions count as well.
    pub recording: bool,
    /// How a real server's replies are known to be all.
    pub pace: Pace,
    /// Set to a signal's number to end the run early.
    pub interrupt: Interrupt,
}

/// How it is known that everything has come that a step leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Nothing has come for a while, as when exchanges are recorded.
    Quiet,
    /// A sentinel behind the step has been answered. Faster by far, and deaf to timers: no case may
    /// wait for one.
    Fenced,
}

/// Ends a run from outside: it looks here between any two waits.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// The number of the signal that came; 0 for none. Signal handlers write it.
    pub fn flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    fn check(&self) -> Result<(), Stop> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => Err(Stop::Signal(u8::try_from(number).unwrap_or(u8::MAX))),
        }
    }
}

/// Runs the cases of all files and gives each its outcome, in the order of the files. `progress`
/// hears each name as its case ends.
///
/// The second part says why the run ended early: the surroundings fail, or a signal came. The
/// summary then holds the cases that were run until then.
pub fn run(
    files: &[VectorFile],
    options: &Options,
    progress: &mut dyn FnMut(&str, &Outcome),
) -> (Summary, Result<(), Stop>) {
    let cases = named_cases(files);
    let mut outcomes: Vec<Option<Outcome>> = vec![None; cases.len()];
    let result = groups::for_each_case(
        &cases,
        options,
        &|case, peer, _| replay(case, peer),
        &mut |index, outcome| {
            let outcome = outcome.unwrap_or_else(Outcome::Skipped);
            progress(&cases[index].name, &outcome);
            outcomes[index] = Some(outcome);
        },
    );
    let mut summary = Summary {
        partial: result.is_err(),
        ..Summary::default()
    };
    for (named, outcome) in cases.into_iter().zip(outcomes) {
        if let Some(outcome) = outcome {
            summary.add(named.name, outcome);
        }
    }
    (summary, result)
}

/// Runs the steps of all cases and gives a vector file with what this server answers, as JSON.
/// Cases that it cannot run are left out and returned as skipped.
///
/// # Errors
/// The surroundings fail, or a signal came.
pub fn record_all(
    files: &[VectorFile],
    options: &Options,
    progress: &mut dyn FnMut(&str),
) -> Result<(Value, Vec<Skipped>), Stop> {
    let cases = named_cases(files);
    let mut recorded: Vec<Option<Value>> = vec![None; cases.len()];
    let mut skipped = Vec::new();
    groups::for_each_case(
        &cases,
        options,
        &|case, peer, version| match record(case, peer, version) {
            Err(Stop::Unsupported(why)) => Ok(Err(why)),
            result => result.map(Ok),
        },
        &mut |index, result| {
            let name = &cases[index].name;
            progress(name);
            match result.and_then(|result| result) {
                Ok(value) => recorded[index] = Some(value),
                Err(why) => skipped.push(Skipped {
                    name: name.clone(),
                    why,
                }),
            }
        },
    )?;
    let replicas = files.first().map_or(1, |file| file.replicas);
    let recorded: Vec<Value> = recorded.into_iter().flatten().collect();
    let version = recorded.first().map(|case| &case["server_version"]);
    let file = json!({
        "format": FORMAT,
        "server_version": version,
        "replicas": replicas,
        "cases": recorded,
    });
    Ok((file, skipped))
}

/// A case and the name that it goes by in results.
struct NamedCase<'a> {
    name: String,
    case: &'a Case,
}

fn named_cases(files: &[VectorFile]) -> Vec<NamedCase<'_>> {
    let name = |file: &VectorFile, case: &Case| match files.len() {
        1 => case.name.clone(),
        _ => format!("{}: {}", file.file, case.name),
    };
    let of_file = |file| {
        let file: &VectorFile = file;
        file.cases.iter().map(move |case| NamedCase {
            name: name(file, case),
            case,
        })
    };
    files.iter().flat_map(of_file).collect()
}
