//! What probes asked and were answered: latencies and counts by operation.
//!
//! Leans on `distribution` and the words of `event`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Distribution, LatencyHistogram, latency_histogram};
use crate::event::{ApiOperation, Event};
use crate::machine::Time;

/// How the requests of one operation fared that were wanted within the window. What was under way when
/// the run ended is in `asked` alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiCalls {
    /// Sent.
    pub asked: u64,
    /// Answered with success: these have a latency.
    pub answered: u64,
    /// Refused, by code.
    pub refused: BTreeMap<u16, u64>,
    /// Given up after the timeout of their probe.
    pub unanswered: u64,
}

/// Latencies and counts by operation.
#[derive(Debug, Default)]
pub(super) struct ApiRecord {
    by_operation: BTreeMap<ApiOperation, (LatencyOnce, ApiCalls)>,
}

/// A histogram that is made when it is first needed.
type LatencyOnce = Option<LatencyHistogram>;

impl ApiRecord {
    /// Takes an event about a request; those wanted before `warm_up` do not count.
    pub(super) fn see(&mut self, at: Time, event: &Event, warm_up: u64) {
        let (operation, since) = match *event {
            Event::ApiAsked {
                operation, late, ..
            } => (operation, late),
            Event::ApiAnswered {
                operation, latency, ..
            } => (operation, latency),
            Event::ApiUnanswered {
                operation, waited, ..
            } => (operation, waited),
            _ => return,
        };
        if at.as_nanos().saturating_sub(since.as_nanos()) < warm_up {
            return;
        }
        let (latencies, calls) = self.by_operation.entry(operation).or_default();
        match *event {
            Event::ApiAsked { .. } => calls.asked += 1,
            Event::ApiAnswered { code: 0, .. } => {
                calls.answered += 1;
                let latencies = latencies.get_or_insert_with(latency_histogram);
                latencies.saturating_record(since.as_nanos());
            }
            Event::ApiAnswered { code, .. } => *calls.refused.entry(code).or_default() += 1,
            _ => calls.unanswered += 1,
        }
    }

    /// The counts, by the names of operations.
    pub(super) fn calls(&self) -> BTreeMap<String, ApiCalls> {
        let all = self.by_operation.iter();
        all.map(|(operation, (_, calls))| (operation.as_str().to_owned(), calls.clone()))
            .collect()
    }

    /// The latencies, by the names of operations.
    pub(super) fn latencies(&self) -> BTreeMap<String, Distribution> {
        let all = self.by_operation.iter();
        all.filter_map(|(operation, (latencies, _))| {
            let latencies = latencies.as_ref()?;
            Some((operation.as_str().to_owned(), Distribution::of(latencies)))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_and_requests_given_up_have_no_latency() {
        const MS: fn(u64) -> Time = Time::from_millis;
        let (probe, operation) = (0, ApiOperation::Purge);
        let answered = |code, latency| Event::ApiAnswered {
            probe,
            operation,
            code,
            latency: MS(latency),
        };
        let asked = Event::ApiAsked {
            probe,
            operation,
            late: Time::ZERO,
        };
        let unanswered = Event::ApiUnanswered {
            probe,
            operation,
            waited: MS(50),
        };
        let mut record = ApiRecord::default();
        let warm_up = MS(10).as_nanos();
        for (at, event) in [
            (5, asked),
            (11, answered(0, 6)),
            (15, asked),
            (20, asked),
            (22, answered(0, 7)),
            (30, asked),
            (31, answered(10_008, 1)),
            (70, unanswered),
        ] {
            record.see(MS(at), &event, warm_up);
        }
        let expected = ApiCalls {
            asked: 3,
            answered: 1,
            refused: [(10_008, 1)].into(),
            unanswered: 1,
        };
        assert_eq!(record.calls()["purge"], expected);
        assert_eq!(record.latencies()["purge"].count, 1);
    }
}
