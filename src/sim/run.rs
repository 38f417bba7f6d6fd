//! One run from start to end, with its watchers; progress and interruption from outside.
//!
//! Leans on `world`, `wire`, `leak` and `watch`.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{Progress, SimError, World, leak, wire};
use crate::event::Observer;
use crate::machine::Time;
use crate::scenario::{Lane, Settings};
use crate::seed::Seed;
use crate::watch::{Seen, Watch};

/// Queue events between two looks at the outside.
const STRIDE: u64 = 100_000;

/// What a run may ask of its surroundings.
pub struct Outside<'a> {
    /// Set: end early.
    pub stop: &'a AtomicBool,
    /// Called now and then with the simulated moment.
    pub progress: &'a mut (dyn FnMut(Time) + Send),
    /// One more watcher.
    pub observer: Option<&'a mut (dyn Observer + Send)>,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct SimOutcome {
    /// What the watchers saw.
    pub seen: Seen,
    /// When the run ended.
    pub end: Time,
    /// It was ended early, from outside.
    pub partial: bool,
    /// The time limit came before the publishers were done.
    pub unfinished: bool,
    /// Events of the queue.
    pub steps: u64,
}

/// Runs a file at a seed in a lane.
///
/// # Errors
/// If the file describes what the model or the lane cannot do.
pub fn run(
    settings: &Settings,
    seed: Seed,
    lane: Lane,
    outside: Outside<'_>,
) -> Result<SimOutcome, SimError> {
    let settings = leak::planted(settings);
    match lane {
        Lane::Event => run_event_lane(&settings, seed, outside),
        Lane::Wire(substrate) => wire::run(&settings, seed, substrate, outside),
    }
}

fn run_event_lane(
    settings: &Settings,
    seed: Seed,
    outside: Outside<'_>,
) -> Result<SimOutcome, SimError> {
    let observer = outside
        .observer
        .map(|observer| observer as &mut dyn Observer);
    let mut watch = Watch::new(settings, true, observer);
    let mut world = World::new(settings, seed, &mut watch)?;
    let (mut partial, mut unfinished, mut settled) = (false, false, false);
    loop {
        match world.run(STRIDE) {
            Progress::Going => (outside.progress)(world.now()),
            Progress::Done => {
                settled = true;
                break;
            }
            Progress::Over => {
                unfinished = world.finish(true);
                break;
            }
        }
        if outside.stop.load(Ordering::Relaxed) {
            world.finish(false);
            partial = true;
            break;
        }
    }
    let (end, steps) = (world.now(), world.steps());
    drop(world);
    if settled {
        watch.settle();
    }
    Ok(SimOutcome {
        seen: watch.finish(end),
        end,
        partial,
        unfinished,
        steps,
    })
}
