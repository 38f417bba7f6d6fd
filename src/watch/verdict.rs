//! The verdict on a run, and whether it is what the file expects.
//!
//! Leans on `judge`, `measure` and `scenario`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judge::Findings;
use crate::measure::{Ending, Summary};
use crate::scenario::{Expect, ExpectedVerdict};

/// A verdict with what the file expected instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// In one word.
    pub verdict: ExpectedVerdict,
    /// Each expectation of the file that does not hold, in words; none: as expected.
    pub unmet: Vec<String>,
}

impl Verdict {
    /// The verdict on a run.
    ///
    /// A violation outweighs a stall, a stall outweighs a failure.
    pub fn of(findings: &Findings, summary: &Summary, expect: &Expect) -> Self {
        let failed = summary.totals.batches.endings.iter().any(|ending| is_failure(ending, expect));
        let verdict = if !findings.violations.is_empty() {
            ExpectedVerdict::Violation
        } else if !findings.stalls.is_empty() {
            ExpectedVerdict::Stall
        } else if failed {
            ExpectedVerdict::Failed
        } else {
            ExpectedVerdict::Pass
        };
        Self { verdict, unmet: unmet(verdict, findings, summary, expect) }
    }

    /// Whether the run did what its file expects.
    pub fn is_expected(&self) -> bool {
        self.unmet.is_empty()
    }
}

/// The word for a verdict in files and results.
pub const fn word(verdict: ExpectedVerdict) -> &'static str {
    match verdict {
        ExpectedVerdict::Pass => "pass",
        ExpectedVerdict::Violation => "violation",
        ExpectedVerdict::Stall => "stall",
        ExpectedVerdict::Failed => "failed",
    }
}

/// A batch that did not end as its publisher wanted, for a reason that the file does not name: its
/// error code among `expect.errors`, or a gap where `expect.gaps` is above 0.
fn is_failure(ending: &Ending, expect: &Expect) -> bool {
    match ending.outcome.as_str() {
        "committed" | "abandoned" | "interrupted" => false,
        "ended-by-server" if ending.code == 0 => expect.gaps.is_none_or(|gaps| gaps == 0),
        _ => !expect.errors.contains(&ending.code),
    }
}

fn unmet(verdict: ExpectedVerdict, findings: &Findings, summary: &Summary, expect: &Expect) -> Vec<String> {
    let mut unmet = Vec::new();
    if verdict != expect.verdict {
        unmet.push(format!("the verdict is {}, expected is {}", word(verdict), word(expect.verdict)));
    }
    let totals = &summary.totals;
    let counts = [
        ("stored", totals.stored, expect.stored),
        ("lost", totals.lost, expect.lost),
        ("gaps", Some(totals.gaps), expect.gaps),
        ("stalls", Some(totals.stalls), expect.stalls),
    ];
    for (name, got, wanted) in counts {
        if let Some(wanted) = wanted
            && got != Some(wanted)
        {
            let got = got.map_or_else(|| "unknown".to_owned(), |got| got.to_string());
            unmet.push(format!("{name} is {got}, expected is {wanted}"));
        }
    }
    if let Some(least) = expect.pings_min.filter(|least| totals.pings < *least) {
        unmet.push(format!("pings are {}, expected are at least {least}", totals.pings));
    }
    if let Some(most) = expect.pings_max.filter(|most| totals.pings > *most) {
        unmet.push(format!("pings are {}, expected are at most {most}", totals.pings));
    }
    let objecting: BTreeSet<_> = findings.violations.iter().map(|violation| violation.judge).collect();
    for judge in &expect.judges {
        if !objecting.contains(judge.as_str()) {
            unmet.push(format!("the judge {judge} does not object"));
        }
    }
    unmet
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchNumber, PublisherId};
    use crate::judge::{Stall, Violation};
    use crate::machine::Time;

    fn ending(outcome: &str, code: u16) -> Summary {
        let mut summary = Summary::default();
        summary.totals.batches.endings.push(Ending { outcome: outcome.to_owned(), code, batches: 1 });
        summary
    }

    fn stall() -> Stall {
        let (publisher, batch) = (PublisherId(0), BatchNumber(0));
        Stall { publisher, batch, at: Time::ZERO, waited: Time::ZERO, release: String::new() }
    }

    fn violation() -> Violation {
        Violation { judge: "a", clause: "", at: Time::ZERO, publisher: None, batch: None, message: String::new() }
    }

    fn verdict(findings: &Findings, summary: &Summary, expect: &Expect) -> ExpectedVerdict {
        Verdict::of(findings, summary, expect).verdict
    }

    #[test]
    fn the_worst_gives_the_verdict() {
        let expect = Expect::default();
        let mut findings = Findings::default();
        assert_eq!(verdict(&findings, &ending("committed", 0), &expect), ExpectedVerdict::Pass);
        assert_eq!(verdict(&findings, &ending("timed-out", 0), &expect), ExpectedVerdict::Failed);
        findings.stalls.push(stall());
        assert_eq!(verdict(&findings, &ending("timed-out", 0), &expect), ExpectedVerdict::Stall);
        findings.violations.push(violation());
        assert_eq!(verdict(&findings, &ending("timed-out", 0), &expect), ExpectedVerdict::Violation);
    }

    #[test]
    fn an_error_that_the_file_names_is_no_failure() {
        let expect = Expect { errors: vec![10_208], ..Expect::default() };
        let findings = Findings::default();
        assert_eq!(verdict(&findings, &ending("refused", 10_208), &expect), ExpectedVerdict::Pass);
        assert_eq!(verdict(&findings, &ending("refused", 10_205), &expect), ExpectedVerdict::Failed);
        assert_eq!(verdict(&findings, &ending("ended-by-server", 0), &expect), ExpectedVerdict::Failed);
        let expect = Expect { gaps: Some(1), ..Expect::default() };
        assert_eq!(verdict(&findings, &ending("ended-by-server", 0), &expect), ExpectedVerdict::Pass);
    }

    #[test]
    fn each_expectation_that_does_not_hold_is_named() {
        let expect = Expect {
            verdict: ExpectedVerdict::Violation,
            stored: Some(3),
            pings_min: Some(1),
            judges: vec!["b".to_owned()],
            ..Expect::default()
        };
        let findings = Findings { violations: vec![violation()], ..Findings::default() };
        let found = Verdict::of(&findings, &ending("committed", 0), &expect);
        assert_eq!(
            found.unmet,
            ["stored is unknown, expected is 3", "pings are 0, expected are at least 1", "the judge b does not object"]
        );
    }
}
