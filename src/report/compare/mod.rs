//! Two or more sides of runs against each other: how much a figure changed, how sure that is, and
//! whether it is for the worse.
//!
//! Where both sides have several runs, a run is one observation, and the spread from run to run is what
//! the interval comes from (Welch). Where a side has a single run, its time slices are drawn again in
//! blocks twice as long as they are correlated, which says how sure the run is of itself and nothing of what
//! the next run would give. Leans on `result` and `seed`.

mod document;
mod metric;
mod notes;
mod page;
mod settings;
mod slices;
mod statistics;
mod text;

pub use document::{Basis, Candidate, Comparison, Finding, Row, SideSummary};
pub use metric::Metric;
pub use page::comparison_page;
pub use text::comparison_table;

use std::collections::BTreeMap;

use super::{RunResult, World};
use crate::measure::{LatencyHistogram, latency_histogram, rounded};
use crate::seed::Seed;
use metric::Scale;
use slices::Slices;
use statistics::{hedges_g, mean_and_variance, middle, welch};

/// Version of the document of a comparison.
const FORMAT: u32 = 1;
/// How often the slices of a run are drawn at least, and at most.
const DRAWS: (f64, f64) = (1_000.0, 20_000.0);
/// So many draws must lie beyond each end of an interval for it to say something.
const BEYOND: f64 = 10.0;

/// Runs of one thing.
#[derive(Clone, Debug)]
pub struct Side {
    /// What people call it: where its results came from.
    pub name: String,
    /// At least one.
    pub runs: Vec<RunResult>,
}

/// How a comparison is judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Rules {
    /// How sure the findings are together: 0 to 1.
    pub confidence: f64,
    /// Changes up to this part do not matter: 0 to 1.
    pub tolerance: f64,
    /// By what it is judged; the other figures are told only.
    pub judged: Vec<Metric>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            confidence: 0.95,
            tolerance: 0.05,
            judged: Metric::JUDGED.to_vec(),
        }
    }
}

/// Holds each of `candidates` against `baseline`.
pub fn compare(baseline: &Side, candidates: &[Side], rules: &Rules) -> Comparison {
    // So many intervals are to hold together (Bonferroni).
    let tests = (rules.judged.len() * candidates.len()).max(1) as f64;
    let confidence = 1.0 - (1.0 - rules.confidence) / tests;
    let found = candidates.iter().map(|candidate| {
        let pair = Pair {
            baseline,
            candidate,
            confidence,
            rules,
        };
        pair.compare()
    });
    Comparison {
        format: FORMAT,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        confidence: rules.confidence,
        tolerance: rules.tolerance,
        baseline: baseline.summary(),
        candidates: found.collect(),
    }
}

impl Side {
    fn summary(&self) -> SideSummary {
        SideSummary {
            name: self.name.clone(),
            world: self.runs.first().map_or(World::Sim, |run| run.world),
            runs: self.runs.len() as u64,
            unexpected: self.runs.iter().filter(|run| !run.expected).count() as u64,
        }
    }

    /// The figure of each run; empty unless every run has it.
    fn figures(&self, metric: Metric) -> Vec<f64> {
        let figures = self.runs.iter().map(|run| metric.of(run));
        figures.collect::<Option<_>>().unwrap_or_default()
    }

    /// The slices of its only run.
    fn slices(&self) -> Option<Slices> {
        match &self.runs[..] {
            [run] => Slices::of(run),
            _ => None,
        }
    }

    /// All latencies from send, or from the intended start, of all runs.
    pub(super) fn latencies(&self, response: bool) -> LatencyHistogram {
        let mut all = latency_histogram();
        for run in &self.runs {
            let of_run = if response {
                &run.response_time_ns
            } else {
                &run.ack_latency_ns
            };
            if let Ok(histogram) = of_run.histogram() {
                // Both have the bounds of a latency histogram.
                let _ = all.add(&histogram);
            }
        }
        all
    }
}

/// Two sides in comparison.
struct Pair<'a> {
    baseline: &'a Side,
    candidate: &'a Side,
    /// Of each interval.
    confidence: f64,
    rules: &'a Rules,
}

impl Pair<'_> {
    fn compare(&self) -> Candidate {
        let spreads = self.spreads_within();
        let rows: Vec<Row> = Metric::ALL
            .into_iter()
            .filter_map(|metric| self.row(metric, spreads.get(&metric)))
            .collect();
        let has = |finding| {
            let mut judged = rows.iter().filter(|row| row.judged);
            judged.any(|row| row.finding == finding)
        };
        let missing = self.missing();
        let finding = match () {
            () if self.broke() || has(Finding::Worse) => Finding::Worse,
            () if missing.contains(&Metric::Throughput) && self.stopped() => Finding::Worse,
            () if !missing.is_empty() || has(Finding::Unclear) => Finding::Unclear,
            () if has(Finding::Better) => Finding::Better,
            () => Finding::Same,
        };
        Candidate {
            summary: self.candidate.summary(),
            finding,
            notes: self.notes(&rows, &missing),
            rows,
        }
    }

    /// The figures to judge by that a side has not measured in each of its runs.
    fn missing(&self) -> Vec<Metric> {
        let judged = self.rules.judged.iter().copied();
        let sides = [self.baseline, self.candidate];
        judged
            .filter(|metric| sides.iter().any(|side| side.figures(*metric).is_empty()))
            .collect()
    }

    /// Whether nothing was acknowledged in a run of the candidate, and something in each of the baseline.
    fn stopped(&self) -> bool {
        !self.baseline.figures(Metric::Throughput).is_empty()
            && self.candidate.figures(Metric::Throughput).is_empty()
    }

    /// Whether a larger part of the candidate's runs went wrong.
    fn broke(&self) -> bool {
        let (base, new) = (self.baseline.summary(), self.candidate.summary());
        new.unexpected * base.runs > base.unexpected * new.runs
    }

    fn row(&self, metric: Metric, within: Option<&(f64, f64)>) -> Option<Row> {
        let (base, new) = (
            self.baseline.figures(metric),
            self.candidate.figures(metric),
        );
        let scaled = |values: &[f64]| -> Vec<f64> {
            match metric.scale() {
                Scale::Ratio => values.iter().map(|value| value.ln()).collect(),
                Scale::Difference => values.to_vec(),
            }
        };
        let (base, new) = (scaled(&base), scaled(&new));
        if base.is_empty() || new.is_empty() {
            return None;
        }
        let (base_mean, new_mean) = (mean_and_variance(&base).0, mean_and_variance(&new).0);
        let unscaled = |value: f64| match metric.scale() {
            Scale::Ratio => value.exp(),
            Scale::Difference => value,
        };
        let changed = |difference: f64| match metric.scale() {
            Scale::Ratio => difference.exp_m1(),
            Scale::Difference => difference,
        };
        let (interval, basis) = match (welch(&base, &new, self.confidence), within) {
            (Some((low, high)), _) => (Some([changed(low), changed(high)]), Basis::Runs),
            (None, Some((low, high))) => (Some([changed(*low), changed(*high)]), Basis::Slices),
            (None, None) => (None, Basis::Nothing),
        };
        let change = changed(new_mean - base_mean);
        let places = |value: f64| rounded(value, 6);
        Some(Row {
            metric,
            baseline: rounded(unscaled(base_mean), 6),
            candidate: rounded(unscaled(new_mean), 6),
            change: places(change),
            interval: interval.map(|ends| ends.map(places)),
            basis,
            hedges_g: hedges_g(&base, &new).map(places),
            chance_faster: self.chance_faster(metric).map(places),
            finding: self.finding(metric, change, interval),
            judged: self.rules.judged.contains(&metric),
        })
    }

    fn finding(&self, metric: Metric, change: f64, interval: Option<[f64; 2]>) -> Finding {
        let Some([low, high]) = interval else {
            return Finding::Unclear;
        };
        let tolerance = metric.tolerated(self.rules.tolerance);
        let sign = if metric.more_is_better() { 1.0 } else { -1.0 };
        let (gain, least, most) = (
            change * sign,
            (low * sign).min(high * sign),
            (low * sign).max(high * sign),
        );
        if most < 0.0 && gain < -tolerance {
            Finding::Worse
        } else if least > 0.0 && gain > tolerance {
            Finding::Better
        } else if least >= -tolerance && most <= tolerance {
            Finding::Same
        } else {
            Finding::Unclear
        }
    }

    /// For single runs: the middle of what the ratio of two draws comes to, in logarithms.
    fn spreads_within(&self) -> BTreeMap<Metric, (f64, f64)> {
        let (Some(base), Some(new)) = (self.baseline.slices(), self.candidate.slices()) else {
            return BTreeMap::new();
        };
        let mut differences: BTreeMap<Metric, Vec<f64>> = BTreeMap::new();
        let tail = (1.0 - self.confidence) / 2.0;
        let draws = (BEYOND / tail).clamp(DRAWS.0, DRAWS.1);
        if draws * tail < BEYOND {
            // So sure nobody can be from so few draws.
            return BTreeMap::new();
        }
        // Fixed: the same files give the same document.
        let mut generator = Seed(1).generator("compare", 0);
        let (base_whole, new_whole) = (base.whole(), new.whole());
        for _ in 0..draws.ceil() as u64 {
            let (base, new) = (base.draw(&mut generator), new.draw(&mut generator));
            for metric in Metric::ALL {
                if let (Some(base), Some(new)) = (base.figure(metric), new.figure(metric)) {
                    differences
                        .entry(metric)
                        .or_default()
                        .push((new / base).ln());
                }
            }
        }
        // Slices are coarser than the figures of a run, and leave its edges out: what counts is how far
        // draws are from the whole of them.
        let shift = |metric: Metric| {
            let figure = |side: &Side| side.figures(metric).first().copied();
            let told = (figure(self.candidate)? / figure(self.baseline)?).ln();
            let whole = (new_whole.figure(metric)? / base_whole.figure(metric)?).ln();
            Some(told - whole)
        };
        let middles = differences
            .into_iter()
            .filter_map(|(metric, mut differences)| {
                let (low, high) = middle(&mut differences, self.confidence)?;
                let shift = shift(metric)?;
                Some((metric, (low + shift, high + shift)))
            });
        middles.collect()
    }

    /// How often a message of the candidate beats one of the baseline.
    fn chance_faster(&self, metric: Metric) -> Option<f64> {
        let response = match metric {
            Metric::AckP50 => false,
            Metric::ResponseP50 => true,
            _ => return None,
        };
        let (base, new) = (
            self.baseline.latencies(response),
            self.candidate.latencies(response),
        );
        if base.is_empty() || new.is_empty() {
            return None;
        }
        // Both sides have the same buckets, so equal values are ties.
        let mut counts: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for step in base.iter_recorded() {
            counts.entry(step.value_iterated_to()).or_default().0 += step.count_at_value() as f64;
        }
        for step in new.iter_recorded() {
            counts.entry(step.value_iterated_to()).or_default().1 += step.count_at_value() as f64;
        }
        let (mut faster, mut sum) = (0.0, 0.0);
        for (of_base, of_new) in counts.values() {
            sum += of_base * (faster + of_new / 2.0);
            faster += of_new;
        }
        Some(sum / (base.len() as f64 * new.len() as f64))
    }
}

#[cfg(test)]
mod tests;
