//! What is told of the requests of probes: whether they were as fast as expected, and their rows.
//!
//! Leans on `measure`, `scenario` and `text`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::RunResult;
use super::rows::quantiles;
use super::text::{count, duration, printable};
use crate::measure::{ApiCalls, Distribution};
use crate::scenario::Expect;

/// The bound of ADR-50 for calls of the API, in nanoseconds: "Realistically we can't have those take more
/// than 2 seconds" ("Flow Control").
pub(super) const BOUND_NS: u64 = 2_000_000_000;

/// What of `expect.api_latency` was not met, in words.
pub(super) fn unmet(
    expect: &Expect,
    latencies: &BTreeMap<String, Distribution>,
    calls: &BTreeMap<String, ApiCalls>,
) -> Vec<String> {
    let Some(bound) = expect.api_latency else {
        return Vec::new();
    };
    if calls.values().all(|calls| calls.asked == 0) {
        return vec!["api_latency: no request was sent".to_owned()];
    }
    let mut unmet = Vec::new();
    for (operation, latency) in latencies {
        if latency.max > bound.0.as_nanos() {
            let slowest = duration(latency.max);
            unmet.push(format!(
                "api_latency: expected at most {bound}, {operation} took up to {slowest}"
            ));
        }
    }
    for (operation, calls) in calls {
        if calls.unanswered > 0 {
            unmet.push(format!(
                "api_latency: {operation} was not answered {}",
                times(calls.unanswered)
            ));
        }
        let unexpected = |code: &u16| !expect.errors.contains(code);
        for (code, refused) in calls.refused.iter().filter(|(code, _)| unexpected(code)) {
            unmet.push(format!(
                "api_latency: {operation} was refused {} with error {code}",
                times(*refused)
            ));
        }
    }
    unmet
}

fn times(number: u64) -> String {
    match number {
        1 => "once".to_owned(),
        number => format!("{} times", count(number)),
    }
}

/// A row for each operation, under the heads of `rows::QUANTILES`.
pub(super) fn rows(result: &RunResult) -> Vec<String> {
    let nothing = Distribution::default();
    let calls = result.api_calls.iter();
    calls
        .map(|(operation, calls)| {
            let latency = result.api_latency_ns.get(operation).unwrap_or(&nothing);
            let cells = quantiles(latency).map(|value| match latency.count {
                0 => format!("{:>10}", "-"),
                _ => format!("{:>10}", duration(value)),
            });
            let name = printable(operation);
            format!("{name:<15}{}  {}", cells.concat(), fates(calls))
        })
        .collect()
}

/// How requests fared: `20 answered`, and whatever else became of some.
pub(super) fn fates(calls: &ApiCalls) -> String {
    let mut text = format!("{} answered", count(calls.answered));
    for (code, refused) in &calls.refused {
        // Writing to memory does not fail.
        let _ = write!(text, ", {} x {code}", count(*refused));
    }
    if calls.unanswered > 0 {
        let _ = write!(text, ", {} unanswered", count(calls.unanswered));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::units::Span;

    fn expect(errors: Vec<u16>) -> Expect {
        Expect {
            api_latency: Some(Span(Time::from_secs(2))),
            errors,
            ..Expect::default()
        }
    }

    #[test]
    fn slow_unanswered_and_refused_requests_are_not_what_a_bound_expects() {
        let slow = Distribution {
            count: 1,
            max: BOUND_NS + 1,
            ..Distribution::default()
        };
        let latencies = BTreeMap::from([("purge".to_owned(), slow)]);
        let calls = ApiCalls {
            asked: 4,
            answered: 1,
            refused: [(10_008, 1)].into(),
            unanswered: 2,
        };
        let calls = BTreeMap::from([("purge".to_owned(), calls)]);
        let found = unmet(&expect(Vec::new()), &latencies, &calls);
        let expected = [
            "api_latency: expected at most 2s, purge took up to 2 s",
            "api_latency: purge was not answered 2 times",
            "api_latency: purge was refused once with error 10008",
        ];
        assert_eq!(found, expected);
        assert_eq!(unmet(&expect(vec![10_008]), &latencies, &calls).len(), 2);
        assert!(unmet(&Expect::default(), &latencies, &calls).is_empty());
    }

    #[test]
    fn a_bound_on_nothing_is_not_met() {
        let nobody = unmet(&expect(Vec::new()), &BTreeMap::new(), &BTreeMap::new());
        assert_eq!(nobody, ["api_latency: no request was sent"]);
    }
}
