//! What probes asked and were answered: latencies and counts by operation.
//!
//! Leans on `parts`, `distribution` and the words of `event`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Distribution;
use super::parts::{Part, Parts, Places, Spans};
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

/// Latencies and counts by operation, of each part of the run.
#[derive(Debug, Default)]
pub(super) struct ApiRecord {
    by_operation: BTreeMap<ApiOperation, Parts<ApiPart>>,
}

/// How the requests of one operation fared that were wanted within a part of the run.
#[derive(Clone, Debug, Default)]
struct ApiPart {
    latencies: Spans,
    calls: ApiCalls,
}

impl Part for ApiPart {
    fn absorb(&mut self, next: Self) {
        self.latencies.absorb(next.latencies);
        self.calls.asked += next.calls.asked;
        self.calls.answered += next.calls.answered;
        self.calls.unanswered += next.calls.unanswered;
        for (code, count) in next.calls.refused {
            *self.calls.refused.entry(code).or_default() += count;
        }
    }
}

impl ApiRecord {
    /// Takes an event about a request, which belongs to the part in which it was wanted.
    pub(super) fn see(&mut self, at: Time, event: &Event, places: &Places) {
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
        let wanted = at.as_nanos().saturating_sub(since.as_nanos());
        let Some(place) = places.of(wanted) else {
            return;
        };
        let ApiPart { latencies, calls } =
            self.by_operation.entry(operation).or_default().at(place);
        match *event {
            Event::ApiAsked { .. } => calls.asked += 1,
            Event::ApiAnswered { code: 0, .. } => {
                calls.answered += 1;
                latencies.record(since.as_nanos(), 1);
            }
            Event::ApiAnswered { code, .. } => *calls.refused.entry(code).or_default() += 1,
            _ => calls.unanswered += 1,
        }
    }

    /// Each two parts are one from now on.
    pub(super) fn fold(&mut self) {
        self.by_operation.values_mut().for_each(Parts::fold);
    }

    /// Latencies and counts from part `place` on, by the names of operations.
    pub(super) fn window(
        self,
        place: usize,
    ) -> (BTreeMap<String, Distribution>, BTreeMap<String, ApiCalls>) {
        let (mut latencies, mut calls) = (BTreeMap::new(), BTreeMap::new());
        for (operation, mut parts) in self.by_operation {
            let window = parts.from(place);
            let name = operation.as_str().to_owned();
            if window.calls.answered > 0 {
                let spans = window.latencies.histogram();
                latencies.insert(name.clone(), Distribution::of(&spans));
            }
            if window.calls != ApiCalls::default() {
                calls.insert(name, window.calls);
            }
        }
        (latencies, calls)
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
        let places = Places::after(MS(10).as_nanos());
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
            record.see(MS(at), &event, &places);
        }
        let expected = ApiCalls {
            asked: 3,
            answered: 1,
            refused: [(10_008, 1)].into(),
            unanswered: 1,
        };
        let (latencies, calls) = record.window(0);
        assert_eq!(calls["purge"], expected);
        assert_eq!(latencies["purge"].count, 1);
    }
}
