//! Several runs in one file: the summary over them, and a writer that holds one run at a time.
//!
//! Leans on `result` and on the distributions of `measure`.

use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FORMAT, RunResult, Verdict};
use crate::measure::{Distribution, DistributionError, LatencyHistogram, latency_histogram};

/// Several runs: seeds of a file, or files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunSet {
    /// Version of the format: 1.
    pub format: u32,
    /// The version of tidegate that ran.
    pub tool_version: String,
    /// Each run, in the order of files and seeds.
    pub runs: Vec<RunResult>,
    /// Over all runs.
    pub summary: SetSummary,
}

/// Figures over several runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSummary {
    /// How many runs there are.
    pub runs: u64,
    /// How many the command was to make.
    #[serde(default)]
    pub wanted: u64,
    /// Runs that did what their file expects.
    pub expected: u64,
    /// Runs that did not.
    pub unexpected: u64,
    /// Something ended the command early: runs are missing, or not whole.
    #[serde(default)]
    pub partial: bool,
    /// Runs by verdict.
    pub pass: u64,
    /// Runs by verdict.
    pub violation: u64,
    /// Runs by verdict.
    pub stall: u64,
    /// Runs by verdict.
    pub failed: u64,
    /// Messages sent.
    pub published: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages lost in those runs where somebody looked.
    pub lost: u64,
    /// Latency from send over all messages of all runs.
    pub ack_latency_ns: Distribution,
    /// Latency from the intended start over all messages of all runs.
    pub response_time_ns: Distribution,
    /// Wall time of all runs added up.
    pub wall_ns: u64,
    /// The commands that repeat the runs which did not do what their file expects.
    pub replay: Vec<String>,
}

impl RunSet {
    /// Puts runs together.
    ///
    /// # Errors
    /// When a histogram of a run is damaged; runs of this process have none.
    pub fn new(runs: Vec<RunResult>) -> Result<Self, DistributionError> {
        let mut sums = Sums::new(runs.len() as u64);
        for run in &runs {
            sums.add(run)?;
        }
        Ok(Self {
            format: FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            runs,
            summary: sums.finish(false),
        })
    }
}

/// A summary in work.
struct Sums {
    summary: SetSummary,
    ack_latency: LatencyHistogram,
    response_time: LatencyHistogram,
}

impl Sums {
    fn new(wanted: u64) -> Self {
        Self {
            summary: SetSummary {
                wanted,
                ..SetSummary::default()
            },
            ack_latency: latency_histogram(),
            response_time: latency_histogram(),
        }
    }

    fn add(&mut self, run: &RunResult) -> Result<(), DistributionError> {
        let sum = &mut self.summary;
        sum.runs += 1;
        *if run.expected {
            &mut sum.expected
        } else {
            sum.replay.push(run.replay.clone());
            &mut sum.unexpected
        } += 1;
        *match run.verdict {
            Verdict::Pass => &mut sum.pass,
            Verdict::Violation => &mut sum.violation,
            Verdict::Stall => &mut sum.stall,
            Verdict::Failed => &mut sum.failed,
        } += 1;
        sum.partial |= run.partial;
        for (sum, more) in [
            (&mut sum.published, run.totals.published),
            (&mut sum.acknowledged, run.totals.acknowledged),
            (&mut sum.lost, run.totals.lost.unwrap_or(0)),
            (&mut sum.wall_ns, run.cost.wall_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        merge(&mut self.ack_latency, &run.ack_latency_ns)?;
        merge(&mut self.response_time, &run.response_time_ns)
    }

    fn finish(self, partial: bool) -> SetSummary {
        let mut summary = self.summary;
        summary.partial |= partial || summary.runs < summary.wanted;
        summary.ack_latency_ns = Distribution::of(&self.ack_latency);
        summary.response_time_ns = Distribution::of(&self.response_time);
        summary
    }
}

fn merge(all: &mut LatencyHistogram, one: &Distribution) -> Result<(), DistributionError> {
    if one.count == 0 {
        return Ok(());
    }
    all.add(one.histogram()?).map_err(|_| DistributionError)
}

/// Writes a [`RunSet`] run by run, one run a line, so that any number of runs takes no more memory
/// than one.
pub struct SetWriter<W: Write> {
    out: W,
    sums: Sums,
}

impl<W: Write> SetWriter<W> {
    /// Begins a set of `wanted` runs on `out`; buffer it. With fewer the set is partial.
    ///
    /// # Errors
    /// When `out` refuses.
    pub fn new(mut out: W, wanted: u64) -> io::Result<Self> {
        let version = env!("CARGO_PKG_VERSION");
        write!(
            out,
            "{{\n\"format\": {FORMAT},\n\"tool_version\": \"{version}\",\n\"runs\": ["
        )?;
        Ok(Self {
            out,
            sums: Sums::new(wanted),
        })
    }

    /// Runs written so far.
    pub const fn runs(&self) -> u64 {
        self.sums.summary.runs
    }

    /// Writes the next run.
    ///
    /// # Errors
    /// When `out` refuses, or a histogram of the run is damaged.
    pub fn add(&mut self, run: &RunResult) -> io::Result<()> {
        let comma = if self.sums.summary.runs > 0 { "," } else { "" };
        self.sums.add(run).map_err(io::Error::other)?;
        writeln!(self.out, "{comma}")?;
        serde_json::to_writer(&mut self.out, run)?;
        Ok(())
    }

    /// Writes the summary; gives it and `out` back. `partial`: something ended the command early,
    /// even where no run is missing.
    ///
    /// # Errors
    /// When `out` refuses.
    pub fn finish(self, partial: bool) -> io::Result<(SetSummary, W)> {
        let Self { mut out, sums } = self;
        let summary = sums.finish(partial);
        write!(out, "\n],\n\"summary\": ")?;
        serde_json::to_writer_pretty(&mut out, &summary)?;
        writeln!(out, "\n}}")?;
        out.flush()?;
        Ok((summary, out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::ResultFile;
    use crate::report::result::tests::record;

    fn unexpected() -> RunResult {
        let mut bad = record();
        let mut histogram = latency_histogram();
        histogram.record(1_000).unwrap();
        bad.summary.ack_latency_ns = Distribution::of(&histogram);
        bad.summary.totals.published = 5;
        bad.settings.expect.gaps = Some(3);
        RunResult::new(bad)
    }

    #[test]
    fn a_set_adds_up_its_runs() {
        let bad = unexpected();
        let replay = bad.replay.clone();
        let summary = RunSet::new(vec![bad.clone(), RunResult::new(record()), bad])
            .unwrap()
            .summary;
        assert_eq!(
            (summary.runs, summary.expected, summary.unexpected),
            (3, 1, 2)
        );
        assert_eq!((summary.pass, summary.published), (3, 10));
        assert_eq!(summary.ack_latency_ns.count, 2);
        assert_eq!(summary.replay, [replay.clone(), replay]);
        assert!(!summary.partial);
    }

    #[test]
    fn a_set_written_run_by_run_is_the_set() {
        let runs = [unexpected(), RunResult::new(record())];
        for count in 0..=2 {
            let mut writer = SetWriter::new(Vec::new(), count as u64).unwrap();
            for run in &runs[..count] {
                writer.add(run).unwrap();
            }
            let (summary, text) = writer.finish(false).unwrap();
            let text = String::from_utf8(text).unwrap();
            let set = RunSet::new(runs[..count].to_vec()).unwrap();
            assert_eq!(summary, set.summary);
            let read = ResultFile::parse("set.json", &text).unwrap();
            assert_eq!(read, ResultFile::Set(Box::new(set)));
        }
    }

    #[test]
    fn a_set_with_a_partial_run_or_missing_runs_is_partial() {
        let mut part = record();
        part.partial = true;
        let set = RunSet::new(vec![RunResult::new(part)]).unwrap();
        assert!(set.summary.partial);
        for (wanted, ended_early, partial) in [(0, false, false), (0, true, true), (2, false, true)]
        {
            let writer = SetWriter::new(Vec::new(), wanted).unwrap();
            let (summary, _) = writer.finish(ended_early).unwrap();
            assert_eq!((summary.wanted, summary.partial), (wanted, partial));
        }
    }
}
