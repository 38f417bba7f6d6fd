//! RAFT in a small world: no seed breaks a promise, every promise is shown to be guarded, and what
//! takes time takes as long as it does in nats-server.
//!
//! `TIDEGATE_RAFT_SEEDS` sets how many seeds are run. Leans on `raft` and its judges.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod durations;
mod judges;
mod plan;
mod world;

use tidegate::machine::Time;
use tidegate::seed::Seed;

use plan::Plan;
use world::{Counts, World};

/// Seeds that the property is tested with, unless told otherwise.
const SEEDS: u64 = 1_000;
/// How long faults go on, how long proposals go on after them, and how long the group then has to
/// come to rest.
const TROUBLE: Time = Time::from_secs(60);
const RECOVERY: Time = Time::from_secs(30);
const REST: Time = Time::from_secs(300);

/// Runs the world of `seed`; what is wrong with it, if anything is.
fn run(seed: Seed) -> Result<World, String> {
    let mut world = World::new(Plan::drawn(seed), seed, true);
    world.run_for(TROUBLE);
    world.heal();
    world.run_for(RECOVERY);
    if let Some(violation) = world.findings().violations.first() {
        let (at, judge, message) = (violation.at, violation.judge, &violation.message);
        return Err(format!("at {at} {judge}: {message}"));
    }
    world.fall_silent();
    // Without what it lost a group may be stuck for good, as in nats-server.
    let rests = world.run_while(REST, |world| !world.is_at_rest());
    if rests || world.may_have_lost() {
        return Ok(world);
    }
    Err(format!("no rest in the end, leader {:?}", world.leader()))
}

#[test]
fn no_seed_breaks_a_promise() {
    let seeds = std::env::var("TIDEGATE_RAFT_SEEDS").ok();
    let seeds = seeds.map_or(SEEDS, |text| text.parse().unwrap());
    let mut total = Counts::default();
    let mut failed = Vec::new();
    for seed in 1..=seeds {
        match run(Seed(seed)) {
            Ok(world) => total.add(&world.counts),
            Err(what) => failed.push(format!("seed {seed}: {what}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // All of it happened: the property is not kept by a world in which nothing goes wrong.
    let Counts {
        proposed,
        refused,
        drained,
        elections,
        led,
        crashes,
        catchups,
        snapshots_received,
        overruns,
        pauses,
        truncations,
    } = total;
    let seldom = refused.min(drained).min(overruns).min(pauses);
    let often = elections
        .min(led)
        .min(crashes)
        .min(catchups)
        .min(snapshots_received);
    assert!(proposed > 500 * seeds && often > seeds, "{total:?}");
    assert!(seldom * 20 > seeds && truncations > seeds, "{total:?}");
}

#[test]
fn a_seed_is_one_run() {
    let run = |seed| {
        let mut world = World::new(Plan::drawn(Seed(seed)), Seed(seed), false);
        world.run_for(TROUBLE);
        let states: Vec<_> = world.everybody().map(|node| world.applied(node)).collect();
        (world.counts, states)
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}
