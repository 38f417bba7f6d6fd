//! From what the watchers saw to the record that a result is made of.
//!
//! Leans on `watch`, `judge` and `report`.

use crate::judge;
use crate::report::{Cost, LeaderChange, RunRecord, Stall, Violation, World};
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::watch::Seen;

/// How a run was made.
pub(super) struct Run<'a> {
    pub(super) world: World,
    pub(super) scenario: &'a Scenario,
    pub(super) seed: Seed,
    pub(super) partial: bool,
    pub(super) cost: Cost,
    pub(super) replay: String,
    pub(super) notes: Vec<String>,
}

/// The record of a run.
pub(super) fn record(run: Run<'_>, seen: Seen) -> RunRecord {
    let Seen {
        trace_hash,
        findings,
        summary,
        ..
    } = seen;
    let mut notes = run.notes;
    if findings.violations_left_out > 0 {
        notes.push(format!(
            "{} more violations are left out",
            findings.violations_left_out
        ));
    }
    RunRecord {
        world: run.world,
        file: run.scenario.file.clone(),
        seed: run.seed.0,
        // A live run cannot be repeated event for event.
        trace_hash: (run.world == World::Sim).then_some(trace_hash),
        partial: run.partial,
        summary,
        violations: findings.violations.into_iter().map(violation).collect(),
        stalls: findings.stalls.into_iter().map(stall).collect(),
        leader_changes: Vec::<LeaderChange>::new(),
        cost: run.cost,
        settings: run.scenario.settings.clone(),
        notes,
        replay: run.replay,
    }
}

fn violation(found: judge::Violation) -> Violation {
    Violation {
        judge: found.judge.to_owned(),
        clause: found.clause.to_owned(),
        at_ns: found.at.as_nanos(),
        publisher: found.publisher.map(|publisher| publisher.0),
        batch: found.batch.map(|batch| batch.0),
        message: found.message,
    }
}

fn stall(found: judge::Stall) -> Stall {
    Stall {
        publisher: found.publisher.0,
        batch: found.batch.0,
        at_ns: found.at.as_nanos(),
        release: found.release,
    }
}
