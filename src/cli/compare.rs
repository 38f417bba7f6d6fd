//! `tidegate compare`: runs against others, with an exit code for gates.
//!
//! Leans on `report`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::Failure;
use super::folder::RESULT_FILE;
use super::{print, report};
use crate::report::chart::{self, MOST_SIDES};
use crate::report::{
    Comparison, Finding, Metric, Rules, RunResult, Side, World, comparison_page, comparison_table,
    write_atomically,
};

const EXAMPLES: &str = "\
Examples:
  tidegate compare results/before results/after
  tidegate compare results/quickstart-sim-seed1 results/quickstart-live-seed1 --out comparison
  tidegate compare main-runs/ branch-runs/ --tolerance 3% --judge throughput,ack-p99 --strict

A side is a result file, the folder of one, or a folder with the folders of several: those are the runs
of that side. Several runs of each side, made in turn, say how sure a change is; of single runs only
their own unevenness is known.

Exit codes: 0 nothing that is judged got worse, 1 something did (with --strict: or may have), 2 bad
usage or a file that is no result, 3 something cannot be written, 129, 130 and 143 ended by a signal.";

/// Hold runs against others: how much changed, how sure that is, and whether it got worse
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct CompareArguments {
    /// What the others are held against: a result, or a folder of results
    #[arg(value_name = "BASELINE", value_hint = ValueHint::AnyPath)]
    baseline: PathBuf,
    /// What is held against it
    #[arg(required = true, value_name = "CANDIDATE", value_hint = ValueHint::AnyPath, num_args = 1..MOST_SIDES)]
    candidates: Vec<PathBuf>,
    /// Changes up to this part do not matter
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = part)]
    tolerance: f64,
    /// How sure all findings are together
    #[arg(long, value_name = "PERCENT", default_value = "95%", value_parser = confidence)]
    confidence: f64,
    /// The figures that decide, separated by commas
    #[arg(long, value_name = "FIGURE", value_delimiter = ',', value_parser = metric, default_values_t = Metric::JUDGED.map(Metric::word).map(str::to_owned))]
    judge: Vec<String>,
    /// End with 1 too where it is unclear whether something got worse
    #[arg(long)]
    strict: bool,
    /// Folder for charts and a page; none are made without
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Unexpected when a candidate got worse, bad input when a file is no result, surroundings when something
/// cannot be written.
pub(super) fn run(arguments: &CompareArguments) -> Result<(), Failure> {
    let baseline = side(&arguments.baseline)?;
    let candidates: Vec<Side> = arguments
        .candidates
        .iter()
        .map(|path| side(path))
        .collect::<Result<_, _>>()?;
    let judged = Metric::ALL.into_iter();
    let rules = Rules {
        confidence: arguments.confidence,
        tolerance: arguments.tolerance,
        judged: judged
            .filter(|metric| arguments.judge.iter().any(|word| word == metric.word()))
            .collect(),
    };
    let comparison = crate::report::compare(&baseline, &candidates, &rules);
    if let Some(folder) = &arguments.out {
        let sides: Vec<&Side> = std::iter::once(&baseline).chain(&candidates).collect();
        write(folder, &comparison, &sides)?;
    }
    print::out(&if arguments.json {
        document(&comparison)
    } else {
        comparison_table(&comparison, print::colour())
    })?;
    judge(&comparison, arguments.strict)
}

/// Whether the comparison passes.
fn judge(comparison: &Comparison, strict: bool) -> Result<(), Failure> {
    let name = |finding| {
        let found = comparison.candidates.iter();
        let found = found.filter(|candidate| candidate.finding == finding);
        found
            .map(|candidate| candidate.summary.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (worse, unclear) = (name(Finding::Worse), name(Finding::Unclear));
    if !worse.is_empty() {
        return Err(Failure::Unexpected(format!(
            "worse than the baseline: {worse}"
        )));
    }
    if strict && !unclear.is_empty() {
        return Err(Failure::Unexpected(format!(
            "not sure that it is no worse than the baseline: {unclear}"
        )));
    }
    Ok(())
}

fn write(folder: &Path, comparison: &Comparison, sides: &[&Side]) -> Result<(), Failure> {
    let cannot = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::Surroundings(format!("cannot write {}: {why}", path.display()))
    };
    for chart in chart::overlays(sides) {
        let path = folder.join(format!("{}.svg", chart.name));
        let svg = chart.svg().map_err(|why| cannot(&path, &why))?;
        write_atomically(&path, svg.as_bytes()).map_err(|why| cannot(&path, &why))?;
        let path = path.with_extension("png");
        chart.write_png(&path).map_err(|why| cannot(&path, &why))?;
    }
    let path = folder.join("comparison.json");
    write_atomically(&path, document(comparison).as_bytes()).map_err(|why| cannot(&path, &why))?;
    let path = folder.join("comparison.html");
    let page = comparison_page(comparison, sides).map_err(|why| cannot(&path, &why))?;
    write_atomically(&path, page.as_bytes()).map_err(|why| cannot(&path, &why))?;
    print::note(&format!("comparison in {}", path.display()));
    Ok(())
}

fn document(comparison: &Comparison) -> String {
    let mut text = serde_json::to_string_pretty(comparison)
        .expect("comparisons have text keys only, so they can be written");
    text.push('\n');
    text
}

/// The runs behind `path`.
fn side(path: &Path) -> Result<Side, Failure> {
    let mut runs: Vec<RunResult> = Vec::new();
    for path in results(path)? {
        runs.extend(report::read(&path)?.into_runs());
    }
    let worlds = |world| runs.iter().any(|run: &RunResult| run.world == world);
    if worlds(World::Sim) && worlds(World::Live) {
        return Err(Failure::Usage(format!(
            "{}: holds simulated and live runs; a side is of one world",
            path.display()
        )));
    }
    if runs.is_empty() {
        return Err(Failure::Usage(format!("{}: holds no run", path.display())));
    }
    Ok(Side {
        name: path.display().to_string(),
        runs,
    })
}

/// The result files that a side names: itself, or those in the folders of a folder without one.
fn results(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() || path.join(RESULT_FILE).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let cannot =
        |why: std::io::Error| Failure::Usage(format!("{}: cannot be read: {why}", path.display()));
    let mut inside = Vec::new();
    for entry in path.read_dir().map_err(cannot)? {
        let folder = entry.map_err(cannot)?.path();
        if folder.join(RESULT_FILE).is_file() {
            inside.push(folder.join(RESULT_FILE));
        } else if folder.is_dir() {
            // A run that came to nothing must not go unnoticed.
            print::note(&format!(
                "{} holds no result and is left out",
                folder.display()
            ));
        }
    }
    inside.sort_unstable();
    if inside.is_empty() {
        // Reading it tells what is missing.
        inside.push(path.to_owned());
    }
    Ok(inside)
}

/// A part of one, written as `5%`.
fn part(text: &str) -> Result<f64, String> {
    // Without the sign nobody knows whether 0.5 is a half or half a percent.
    let digits = text
        .strip_suffix('%')
        .ok_or("no percent sign; allowed are parts such as `5%` or `0.5%`")?;
    let value: f64 = digits
        .trim_end()
        .parse()
        .map_err(|_| "no number; allowed are parts such as `5%` or `0.5%`".to_owned())?;
    let value = value / 100.0;
    if (0.0..1.0).contains(&value) {
        Ok(value)
    } else {
        Err("out of range; allowed are 0% to below 100%".to_owned())
    }
}

fn confidence(text: &str) -> Result<f64, String> {
    let allowed = "out of range; allowed are 50% to 99.99%";
    let value = part(text).map_err(|why| {
        if why.starts_with("out of range") {
            allowed.to_owned()
        } else {
            why
        }
    })?;
    if (0.5..=0.9999).contains(&value) {
        Ok(value)
    } else {
        Err(allowed.to_owned())
    }
}

fn metric(text: &str) -> Result<String, String> {
    let text = text.trim();
    let known = Metric::ALL.map(Metric::word);
    if known.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("unknown; allowed are {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_in_percent() {
        assert_eq!(part("5%"), Ok(0.05));
        assert_eq!(metric(" ack-p99"), Ok("ack-p99".to_owned()));
        for bad in ["", "x", "0.05", "5", "-1%", "100%", "NaN", "inf", "5 %x"] {
            assert!(part(bad).is_err(), "{bad}");
        }
        assert!(confidence("95%").is_ok());
        for bad in ["20%", "100%"] {
            assert!(
                confidence(bad).unwrap_err().contains("50% to 99.99%"),
                "{bad}"
            );
        }
        let error = metric("speed").unwrap_err();
        assert!(error.contains("throughput, ack-p50"), "{error}");
    }
}
