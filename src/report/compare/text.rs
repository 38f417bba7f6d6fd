//! A comparison on a terminal: what it comes to first, then each figure.
//!
//! Leans on `text` of reports. Colour is the caller's choice: only where a person looks.

use std::fmt::Write as _;

use super::{Candidate, Comparison, Finding, Row, SideSummary};
use crate::report::paint::Painter;
use crate::report::text::{percent, printable};

/// The table of a comparison.
pub fn comparison_table(comparison: &Comparison, colour: bool) -> String {
    let paint = Painter { colour };
    let mut text = String::new();
    for candidate in &comparison.candidates {
        if !text.is_empty() {
            text.push('\n');
        }
        // Writing to memory does not fail.
        let _ = write!(
            text,
            "{}  {}\nagainst {}\n",
            badge(candidate.finding, paint),
            side(&candidate.summary),
            side(&comparison.baseline),
        );
        put_rows(&mut text, candidate, paint);
        let _ = writeln!(
            text,
            "judged by the figures marked *, {} sure together, changes up to {} aside",
            percent(comparison.confidence),
            percent(comparison.tolerance),
        );
        for note in &candidate.notes {
            let _ = writeln!(text, "note   {}", printable(note));
        }
    }
    text
}

/// `NAME (3 live runs)`.
pub(super) fn side(summary: &SideSummary) -> String {
    let ending = if summary.runs == 1 { "" } else { "s" };
    let (name, world) = (printable(&summary.name), summary.world.as_str());
    format!("{name} ({} {world} run{ending})", summary.runs)
}

fn put_rows(text: &mut String, candidate: &Candidate, paint: Painter) {
    let _ = writeln!(
        text,
        "\n{:21} {:>12} {:>12} {:>9}   interval",
        "", "baseline", "candidate", "change"
    );
    for row in &candidate.rows {
        let mark = if row.judged { "*" } else { " " };
        let _ = writeln!(
            text,
            "{mark} {:19} {:>12} {:>12} {:>9}   {:18} {}{}",
            row.metric.title(),
            row.metric.told(row.baseline),
            row.metric.told(row.candidate),
            row.metric.told_change(row.change),
            interval(row),
            finding(row.finding, paint),
            effect(row),
        );
    }
}

/// The interval in words.
pub(super) fn interval(row: &Row) -> String {
    match row.interval {
        None => "none".to_owned(),
        Some([low, high]) => format!(
            "{} to {}",
            row.metric.told_change(low),
            row.metric.told_change(high)
        )
        .replace(" % to", " to")
        .replace(" points to", " to"),
    }
}

/// What else is known of the size of a change.
pub(super) fn effect(row: &Row) -> String {
    let mut parts = Vec::new();
    if let Some(g) = row.hedges_g {
        parts.push(format!("g {g:.2}"));
    }
    if let Some(chance) = row.chance_faster {
        parts.push(format!("{} of messages faster", percent(chance)));
    }
    if parts.is_empty() {
        String::new()
    } else {
        format!("  ({})", parts.join(", "))
    }
}

fn badge(finding: Finding, paint: Painter) -> String {
    let word = finding.as_str().to_uppercase();
    match finding {
        Finding::Better | Finding::Same => paint.good(&word),
        Finding::Unclear => paint.notable(&word),
        Finding::Worse => paint.bad(&word),
    }
}

fn finding(finding: Finding, paint: Painter) -> String {
    let word = finding.as_str();
    match finding {
        Finding::Same | Finding::Unclear => word.to_owned(),
        Finding::Better => paint.good(word),
        Finding::Worse => paint.bad(word),
    }
}
