//! Random cases: drawn from a seed, played on the model and on a server, and compared as recordings
//! are. A case that differs is shrunk, and given as the file of recordings that the server's answers
//! make of it.
//!
//! Not drawn: what waits for time, such as idle batches; what the model leaves out, or a server leaves to
//! chance (`draw::steady_limits`, `calls::Removals`); other subjects of the stream than `t.>`. With replicas also direct gets, which another server may answer from behind;
//! an expected last message id; and, within one write, messages whose answers depend on which of those
//! before them have been applied.
//!
//! Leans on the runner of recorded cases: the model records, the server replays. A server is used with
//! [`Pace::Fenced`](super::Pace).

mod batches;
mod calls;
mod draw;
mod headers;
mod play;
mod shrink;

use std::collections::BTreeMap;

use serde_json::Value;

use super::model::Model;
use super::run::{Difference, Outcome, Peer, Stop, record, replay};
use super::vector::Case;
use super::{NamedCase, Options, Pace, groups};
use crate::seed::Seed;
use crate::server::ServerModel;
use draw::draw;
use play::{Play, file_of, read};
use shrink::shrink;

/// Operations of one round: then servers are started anew, and memory is given back.
const ROUND: u64 = 20_000;
/// So often a case is played that something else than its steps disturbs.
const ATTEMPTS: u32 = 3;

/// What is played.
#[derive(Clone, Debug)]
pub struct Random {
    /// The same seed draws the same cases, however many operations are asked for.
    pub seed: u64,
    /// Messages and requests, at least; a case begun is played to its end.
    pub operations: u64,
    /// Replicas of the streams: 1 or 3.
    pub replicas: u64,
    /// What the server is held against, and which version it must be.
    pub model: ServerModel,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Tally {
    /// Cases played.
    pub cases: u64,
    /// Messages and requests in them.
    pub operations: u64,
    /// Cases that could not be played, with the reason.
    pub skipped: Vec<(String, String)>,
    /// Cases that came out otherwise on the server than on the model.
    pub found: Vec<Found>,
}

/// A case that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its name: seed, replicas and number.
    pub name: String,
    /// The first difference of the shrunk case: `expected` is the model's.
    pub difference: Difference,
    /// Messages and requests that are left.
    pub operations: usize,
    /// It came out otherwise in a second attempt: a matter of timing.
    pub unsteady: bool,
    /// The shrunk case with the answers of the server, as a file of recordings.
    pub recording: Value,
}

/// Plays random cases until there are enough operations. `progress` hears of operations done.
///
/// The second part says why it ended early: the surroundings fail, or a signal came.
pub fn explore(
    random: &Random,
    options: &Options,
    progress: &mut dyn FnMut(u64),
) -> (Tally, Result<(), Stop>) {
    let mut tally = Tally::default();
    let mut drawn = 0;
    let mut number = 0;
    while drawn < random.operations {
        let mut plays = Vec::new();
        let end = (drawn + ROUND).min(random.operations);
        while drawn < end {
            let play = draw(Seed(random.seed), number, random);
            drawn += play.operations() as u64;
            number += 1;
            plays.push(play);
        }
        if let Err(stop) = play_round(random, &plays, options, &mut tally, progress) {
            return (tally, Err(stop));
        }
    }
    (tally, Ok(()))
}

fn play_round(
    random: &Random,
    plays: &[Play],
    options: &Options,
    tally: &mut Tally,
    progress: &mut dyn FnMut(u64),
) -> Result<(), Stop> {
    let cases: Vec<Case> = plays.iter().map(Play::case).collect::<Result<_, _>>()?;
    let named: Vec<NamedCase<'_>> = cases
        .iter()
        .map(|case| NamedCase {
            name: case.name.clone(),
            case,
        })
        .collect();
    let by_name: BTreeMap<&str, &Play> = plays.iter().map(|play| (&*play.name, play)).collect();
    let work = |case: &Case, peer: &mut dyn Peer, _: &str| match by_name.get(&*case.name) {
        Some(play) => compare(play, &random.model, peer),
        None => Ok(None),
    };
    groups::for_each_case(&named, options, &work, &mut |index, outcome| {
        let operations = plays[index].operations() as u64;
        tally.cases += 1;
        tally.operations += operations;
        progress(operations);
        match outcome {
            Ok(found) => tally.found.extend(found),
            Err(why) => tally.skipped.push((plays[index].name.clone(), why)),
        }
    })
}

/// Plays a case on the model and on the server. What differs is shrunk.
///
/// # Errors
/// The server or the model fails to answer at all.
fn compare(play: &Play, model: &ServerModel, peer: &mut dyn Peer) -> Result<Option<Found>, Stop> {
    let difference = match differs(play, model, peer)? {
        Compared::Alike => return Ok(None),
        Compared::Differs(difference) => difference,
        Compared::Disturbed => {
            return Err(Stop::Unsupported(format!(
                "in each of {ATTEMPTS} attempts the stream changed its leader unasked, or did not answer in time"
            )));
        }
    };
    // From here on there is a difference to tell: what is disturbed only says nothing more of it.
    let again = differs(play, model, peer)?.difference();
    let unsteady = again.as_ref() != Some(&difference);
    let (play, difference) = match again {
        Some(_) => shrink(play.clone(), difference, &mut |play| {
            Ok(differs(play, model, peer)?.difference())
        })?,
        None => (play.clone(), difference),
    };
    let case = play.case()?;
    let mut recorded = record(&case, peer, &play.version)?;
    for _ in 1..ATTEMPTS {
        if peer.was_disturbed() {
            recorded = record(&case, peer, &play.version)?;
        }
    }
    Ok(Some(Found {
        name: play.name.clone(),
        difference,
        operations: play.operations(),
        unsteady,
        recording: file_of(&[recorded]),
    }))
}

/// What the answers of model and server are to each other.
enum Compared {
    Alike,
    Differs(Difference),
    /// The case came to something else each time, and its server was never left alone with it.
    Disturbed,
}

impl Compared {
    fn difference(self) -> Option<Difference> {
        match self {
            Self::Differs(difference) => Some(difference),
            Self::Alike | Self::Disturbed => None,
        }
    }
}

/// What the model answers, held against what the server answers. A case is played again if the stream
/// changed its leader amid it unasked, or the server was out of breath: what is lost or late then says
/// nothing of the model, unless it is the same each time.
fn differs(play: &Play, model: &ServerModel, peer: &mut dyn Peer) -> Result<Compared, Stop> {
    let mut model = Model::with(model.clone(), Pace::Fenced);
    let recorded = record(&play.case()?, &mut model, &play.version)?;
    let case = read(&recorded)?;
    let mut before = None;
    let mut is_same = true;
    for _ in 0..ATTEMPTS {
        let difference = match replay(&case, peer)? {
            Outcome::Passed => return Ok(Compared::Alike),
            Outcome::Failed(difference) => difference,
            Outcome::Skipped(why) => return Err(Stop::Unsupported(why)),
        };
        if !peer.was_disturbed() {
            return Ok(Compared::Differs(difference));
        }
        is_same &= before.as_ref().is_none_or(|before| *before == difference);
        before = Some(difference);
    }
    Ok(match before.filter(|_| is_same) {
        Some(difference) => Compared::Differs(difference),
        None => Compared::Disturbed,
    })
}
