//! The verdict on a run, and whether it is the one its file expects.
//!
//! Leans on `measure` and `scenario`.

use super::{RunResult, Stall, Verdict, Violation};
use crate::measure::{BatchOutcome, Ending, Totals};
use crate::scenario::Expect;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The expectations that were not met, in words; none: the run did what its file expects.
    pub unmet: Vec<String>,
}

/// What ended a run before it was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The time limit of its file. Where a pass is expected that is not met, for what the load
    /// wanted was not all tried; where trouble is expected, waiting for the limit may be the very
    /// trouble.
    TimeLimit,
    /// A signal, or its surroundings. The verdict is about what was seen until then, and such a run
    /// is never what its file expects: the rest was not tried.
    Interrupted,
}

/// Judges a run by what its file expects.
///
/// A violation outranks a stall, and a stall a failure: each may well be the cause of the next.
/// `cut`: what ended the run before its publishers were done, if anything did.
pub fn judge(
    expect: &Expect,
    totals: &Totals,
    violations: &[Violation],
    stalls: &[Stall],
    cut: Option<Cut>,
) -> Judgement {
    let failure = first_failure(expect, totals);
    let verdict = if !violations.is_empty() {
        Verdict::Violation
    } else if !stalls.is_empty() {
        Verdict::Stall
    } else if failure.is_some() {
        Verdict::Failed
    } else {
        Verdict::Pass
    };
    let mut unmet = Vec::new();
    let interrupted = cut == Some(Cut::Interrupted);
    // What an interrupted run did not come to may have been ahead of it.
    if verdict != expect.verdict && !(interrupted && verdict == Verdict::Pass) {
        let why = match verdict {
            Verdict::Pass => String::new(),
            Verdict::Violation => violations
                .first()
                .map(|first| format!(": {}: {}", first.judge, first.message))
                .unwrap_or_default(),
            Verdict::Stall => stalls
                .first()
                .map(|first| {
                    format!(
                        ": publisher {} waits for {}",
                        first.publisher, first.release
                    )
                })
                .unwrap_or_default(),
            Verdict::Failed => failure.map(|why| format!(": {why}")).unwrap_or_default(),
        };
        unmet.push(format!(
            "verdict: expected {}, got {}{why}",
            word(expect.verdict),
            word(verdict)
        ));
    }
    match cut {
        Some(Cut::TimeLimit) if expect.verdict == Verdict::Pass => {
            unmet.push("the time limit came before the publishers were done".to_owned());
        }
        Some(Cut::Interrupted) => {
            unmet.push("the run was broken off before it was over".to_owned());
            return Judgement { verdict, unmet };
        }
        Some(Cut::TimeLimit) | None => {}
    }
    unmet.extend(unmet_counts(expect, totals));
    for judge in &expect.judges {
        if !violations.iter().any(|violation| violation.judge == *judge) {
            unmet.push(format!(
                "judges: {judge} was expected to object and did not"
            ));
        }
    }
    Judgement { verdict, unmet }
}

/// Whether a run ended early with nothing wrong seen, so that `pass` would say too much.
pub(super) fn is_open(result: &RunResult) -> bool {
    result.partial && !result.expected && result.verdict == Verdict::Pass
}

/// The verdict as files write it.
pub(super) const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Violation => "violation",
        Verdict::Stall => "stall",
        Verdict::Failed => "failed",
    }
}

fn unmet_counts(expect: &Expect, totals: &Totals) -> Vec<String> {
    let equal = [
        ("stored", expect.stored, totals.stored),
        ("lost", expect.lost, totals.lost),
        ("gaps", expect.gaps, Some(totals.gaps)),
        ("stalls", expect.stalls, Some(totals.stalls)),
    ];
    let mut unmet = Vec::new();
    for (name, expected, got) in equal {
        match (expected, got) {
            (Some(expected), Some(got)) if expected != got => {
                unmet.push(format!("{name}: expected {expected}, got {got}"));
            }
            (Some(expected), None) => {
                unmet.push(format!("{name}: expected {expected}, but nobody looked"));
            }
            (Some(_) | None, _) => {}
        }
    }
    let within = [
        ("gaps", expect.gaps_min, expect.gaps_max, totals.gaps),
        ("pings", expect.pings_min, expect.pings_max, totals.pings),
    ];
    for (name, least, most, got) in within {
        if let Some(least) = least.filter(|least| got < *least) {
            unmet.push(format!("{name}: expected at least {least}, got {got}"));
        }
        if let Some(most) = most.filter(|most| got > *most) {
            unmet.push(format!("{name}: expected at most {most}, got {got}"));
        }
    }
    unmet
}

/// The first error that the file does not expect.
fn first_failure(expect: &Expect, totals: &Totals) -> Option<String> {
    let unexpected = |code: &u16| !expect.errors.contains(code);
    if let Some((code, count)) = totals.errors.iter().find(|(code, _)| unexpected(code)) {
        let times = if *count == 1 { "time" } else { "times" };
        return Some(format!("error {code} was seen {count} {times}"));
    }
    let bad = |ending: &&Ending| match ending.outcome {
        BatchOutcome::Committed | BatchOutcome::Abandoned | BatchOutcome::Interrupted => false,
        // A batch that a gap ended is what a file with gaps asks for.
        BatchOutcome::EndedByServer if ending.code == 0 => {
            let asked = [expect.gaps, expect.gaps_min, expect.gaps_max];
            asked.into_iter().flatten().max().unwrap_or(0) == 0
        }
        BatchOutcome::EndedByServer
        | BatchOutcome::Refused
        | BatchOutcome::TimedOut
        | BatchOutcome::NoResponders
        | BatchOutcome::ClientError => ending.code == 0 || unexpected(&ending.code),
    };
    let ending = totals.batches.endings.iter().find(bad)?;
    let code = match ending.code {
        0 => String::new(),
        code => format!(" with error {code}"),
    };
    let batches = if ending.batches == 1 {
        "batch"
    } else {
        "batches"
    };
    Some(format!(
        "{} {batches} ended: {}{code}",
        ending.batches,
        ending.outcome.as_str()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::BatchTotals;

    fn violation(judge: &str) -> Violation {
        Violation {
            judge: judge.to_owned(),
            clause: "fast.flow.gate".to_owned(),
            at_ns: 1,
            publisher: None,
            batch: None,
            message: "sent at a shut gate".to_owned(),
        }
    }

    fn ended(outcome: BatchOutcome, code: u16) -> Totals {
        Totals {
            batches: BatchTotals {
                started: 1,
                endings: vec![Ending {
                    outcome,
                    code,
                    batches: 1,
                }],
            },
            ..Totals::default()
        }
    }

    fn verdict_of(expect: &Expect, totals: &Totals) -> Verdict {
        judge(expect, totals, &[], &[], None).verdict
    }

    #[test]
    fn a_violation_outranks_a_stall_and_a_stall_a_failure() {
        let stall = Stall {
            publisher: 0,
            batch: 0,
            at_ns: 0,
            release: "flow ack 10".to_owned(),
        };
        let expect = Expect::default();
        let totals = ended(BatchOutcome::TimedOut, 0);
        let both = judge(
            &expect,
            &totals,
            &[violation("gate")],
            std::slice::from_ref(&stall),
            None,
        );
        assert_eq!(both.verdict, Verdict::Violation);
        assert_eq!(
            both.unmet,
            ["verdict: expected pass, got violation: gate: sent at a shut gate"]
        );
        assert_eq!(
            judge(&expect, &totals, &[], &[stall], None).verdict,
            Verdict::Stall
        );
        assert_eq!(
            judge(&expect, &totals, &[], &[], None).verdict,
            Verdict::Failed
        );
    }

    #[test]
    fn errors_fail_a_run_unless_its_file_expects_them() {
        let mut expect = Expect::default();
        let seen = Totals {
            errors: [(10071, 2)].into(),
            ..ended(BatchOutcome::Refused, 10071)
        };
        assert_eq!(verdict_of(&expect, &seen), Verdict::Failed);
        expect.errors = vec![10071];
        assert_eq!(verdict_of(&expect, &seen), Verdict::Pass);
        for (outcome, verdict) in [
            (BatchOutcome::Committed, Verdict::Pass),
            (BatchOutcome::Abandoned, Verdict::Pass),
            (BatchOutcome::Interrupted, Verdict::Pass),
            (BatchOutcome::TimedOut, Verdict::Failed),
            (BatchOutcome::ClientError, Verdict::Failed),
            (BatchOutcome::EndedByServer, Verdict::Failed),
        ] {
            assert_eq!(
                verdict_of(&expect, &ended(outcome, 0)),
                verdict,
                "{outcome:?}"
            );
        }
        expect.gaps = Some(1);
        assert_eq!(
            verdict_of(&expect, &ended(BatchOutcome::EndedByServer, 0)),
            Verdict::Pass
        );
    }

    #[test]
    fn each_count_is_compared() {
        let expect = Expect {
            stored: Some(10),
            lost: Some(0),
            gaps: Some(1),
            stalls: Some(0),
            pings_min: Some(3),
            pings_max: Some(1),
            judges: vec!["order".to_owned()],
            ..Expect::default()
        };
        let totals = Totals {
            stored: Some(9),
            pings: 2,
            ..Totals::default()
        };
        assert_eq!(
            judge(&expect, &totals, &[], &[], None).unmet,
            [
                "stored: expected 10, got 9",
                "lost: expected 0, but nobody looked",
                "gaps: expected 1, got 0",
                "pings: expected at least 3, got 2",
                "pings: expected at most 1, got 2",
                "judges: order was expected to object and did not",
            ]
        );
    }

    #[test]
    fn an_unfinished_run_is_not_the_pass_that_a_file_expects() {
        let totals = ended(BatchOutcome::Interrupted, 0);
        let mut expect = Expect::default();
        let limit = Some(Cut::TimeLimit);
        assert_eq!(
            judge(&expect, &totals, &[], &[], limit).unmet,
            ["the time limit came before the publishers were done"]
        );
        expect.verdict = Verdict::Violation;
        let found = [violation("gate")];
        assert_eq!(judge(&expect, &totals, &found, &[], limit).unmet, [""; 0]);
    }

    #[test]
    fn an_interrupted_run_is_never_what_a_file_expects() {
        let totals = ended(BatchOutcome::Interrupted, 0);
        let interrupted = Some(Cut::Interrupted);
        let only = ["the run was broken off before it was over"];
        for verdict in [
            Verdict::Pass,
            Verdict::Violation,
            Verdict::Stall,
            Verdict::Failed,
        ] {
            let expect = Expect {
                verdict,
                // Its messages may have been ahead of it: no word about them.
                stored: Some(10),
                ..Expect::default()
            };
            let judgement = judge(&expect, &totals, &[], &[], interrupted);
            assert_eq!(judgement.verdict, Verdict::Pass);
            assert_eq!(judgement.unmet, only, "{verdict:?}");
        }
        let expect = Expect::default();
        let found = [violation("gate")];
        let judgement = judge(&expect, &totals, &found, &[], interrupted);
        assert_eq!(judgement.verdict, Verdict::Violation);
        assert_eq!(judgement.unmet.len(), 2, "{:?}", judgement.unmet);
    }

    #[test]
    fn an_expected_violation_is_as_expected() {
        let expect = Expect {
            verdict: Verdict::Violation,
            judges: vec!["gate".to_owned()],
            ..Expect::default()
        };
        let judgement = judge(&expect, &Totals::default(), &[violation("gate")], &[], None);
        assert_eq!(judgement.unmet, [""; 0]);
        let judgement = judge(&expect, &Totals::default(), &[], &[], None);
        assert_eq!(judgement.unmet.len(), 2);
    }
}
