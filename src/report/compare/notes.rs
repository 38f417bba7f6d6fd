//! What a reader of a comparison has to know beside its figures.
//!
//! Leans on `document` and `settings`.

use std::collections::BTreeSet;

use super::settings::differing_settings;
use super::{Basis, Metric, Pair, Row, Side};
use crate::report::World;

impl Pair<'_> {
    pub(super) fn notes(&self, rows: &[Row], missing: &[Metric]) -> Vec<String> {
        let mut notes = Vec::new();
        for (which, side) in [("baseline", self.baseline), ("candidate", self.candidate)] {
            notes.extend(of_side(which, side));
        }
        if !missing.is_empty() {
            let words: Vec<&str> = missing.iter().map(|metric| metric.title()).collect();
            notes.push(format!(
                "judged by what was not measured in every run: {}",
                words.join(", ")
            ));
        }
        notes.extend(self.certainty(rows).map(str::to_owned));
        if let (Some(base), Some(new)) = (self.baseline.runs.first(), self.candidate.runs.first()) {
            notes.extend(differing_settings(base, new));
        }
        notes
    }

    /// What the intervals leave out, or why there are none.
    fn certainty(&self, rows: &[Row]) -> Option<&'static str> {
        let has = |basis| rows.iter().any(|row| row.basis == basis);
        let single = [self.baseline, self.candidate].map(|side| side.runs.len() == 1);
        match single {
            [false, false] => None,
            [true, true] if has(Basis::Slices) => Some(
                "a side has one run: intervals come from its time slices and leave out what changes \
                 from run to run; compare several runs of each side, made in turn",
            ),
            [true, true] => Some(
                "a side has one run, too short or from a file too old to say how sure its figures are, \
                 or not as sure as is asked for",
            ),
            [_, _] => Some(
                "one side has a single run, so that nothing says how sure a change is; give both sides \
                 several runs",
            ),
        }
    }
}

fn of_side(which: &str, side: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    let summary = side.summary();
    let mut count = |runs: usize, what: &str| {
        if runs > 0 {
            notes.push(format!(
                "{runs} of {} runs of the {which} {what}",
                summary.runs
            ));
        }
    };
    count(
        summary.unexpected as usize,
        "did not do what their file expects",
    );
    count(
        side.runs.iter().filter(|run| run.partial).count(),
        "ended early",
    );
    let first = side.runs.first().map(|run| &run.config_hash);
    let others = side
        .runs
        .iter()
        .filter(|run| Some(&run.config_hash) != first);
    count(others.count(), "have other settings than its first");
    let simulated = side.runs.iter().filter(|run| run.world == World::Sim);
    let mut seen = BTreeSet::new();
    let again = simulated
        .filter(|run| !seen.insert((&run.config_hash, run.seed, run.lane.map(|lane| lane as u8))));
    count(
        again.count(),
        "are one that is there already: equal seeds give equal runs, which say nothing of chance",
    );
    notes
}
