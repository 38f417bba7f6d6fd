//! From what the watchers saw to the record that a result is made of.
//!
//! Leans on `watch`, `measure` and `report`.

use crate::measure::{Generator, ServerSeries};
use crate::report::{Cost, RunLane, RunRecord, World};
use crate::scenario::Scenario;
use crate::seed::Seed;
use crate::watch::Seen;

/// How a run was made.
pub(super) struct Run<'a> {
    pub(super) world: World,
    pub(super) lane: Option<RunLane>,
    pub(super) scenario: &'a Scenario,
    pub(super) seed: Seed,
    pub(super) partial: bool,
    pub(super) unfinished: bool,
    pub(super) cost: Cost,
    pub(super) generator: Option<Generator>,
    pub(super) servers: Vec<ServerSeries>,
    pub(super) objections: Vec<String>,
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
        lane: run.lane,
        file: run.scenario.file.clone(),
        seed: run.seed.0,
        trace_hash,
        partial: run.partial,
        unfinished: run.unfinished,
        summary,
        violations: findings.violations.into_iter().map(Into::into).collect(),
        stalls: findings.stalls.into_iter().map(Into::into).collect(),
        cost: run.cost,
        generator: run.generator,
        servers: run.servers,
        objections: run.objections,
        settings: run.scenario.settings.clone(),
        notes,
        replay: run.replay,
    }
}
