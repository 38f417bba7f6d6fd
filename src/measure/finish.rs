//! The end of measuring: from a [`Recorder`] to the [`Summary`] that is left of the run.
//!
//! Leans on its siblings in `measure` and the words of `event`.

use std::borrow::Cow;

use super::groups::{GroupRecord, group_summaries};
use super::summary::{BatchTotals, Ending, StallTime, Summary, Throughput, Totals, Window, jain};
use super::{Distribution, LatencyHistogram, Recorder, latency_histogram, rounded};
use crate::event::DropCause;
use crate::machine::Time;

impl Recorder {
    /// Ends the measuring at `end`. What is still open counts up to there.
    pub fn finish(mut self, end: Time) -> Summary {
        let open = self.open_batches;
        let live = self.batches.live();
        let mut under_way = 0_u64;
        if !self.settled {
            for batch in &live {
                let batch = self.batches.get_mut(*batch);
                under_way = under_way.saturating_add(batch.map_or(0, |batch| batch.under_way()));
            }
        }
        for batch in live {
            self.close(end, batch);
        }
        let window = Window {
            from_ns: self.warm_up.max(self.first_start.unwrap_or(0)),
            until_ns: if open == 0 && self.last_end > 0 {
                self.last_end
            } else {
                end.as_nanos()
            },
        };
        let per_second = |count: u64| match window.seconds() {
            seconds if seconds > 0.0 => rounded(count as f64 / seconds, 3),
            _ => 0.0,
        };
        let groups = group_summaries(&self.groups, &self.publishers, per_second);
        let (ack_latency_ns, response_time_ns) = match groups.as_slice() {
            [only] => (only.ack_latency_ns.clone(), only.response_time_ns.clone()),
            _ => (
                over_all(self.groups.iter().map(GroupRecord::latency)),
                over_all(self.groups.iter().map(GroupRecord::response)),
            ),
        };
        let totals = self.totals(under_way);
        let answered = totals.acknowledged + totals.missing;
        let throughput = Throughput {
            messages_per_second: per_second(self.measured.acknowledged),
            bytes_per_second: per_second(self.measured.bytes),
            published_per_second: per_second(self.measured.published),
        };
        let (series, flow) = self.series.finish(end);
        Summary {
            duration_ns: end.as_nanos(),
            window,
            throughput,
            ack_latency_ns,
            response_time_ns,
            stall_time_ns: StallTime {
                total: self.waited,
                share: ratio(self.waited, self.open_time),
                waits: Distribution::of(&self.waits),
            },
            gap_rate: ratio(totals.missing, answered),
            fairness: jain(&self.publishers),
            groups,
            flow,
            series,
            api_latency_ns: self.api.latencies(),
            api_calls: self.api.calls(),
            faults: self.faults.into_values().collect(),
            leader_changes: self.leader_changes,
            totals,
        }
    }

    /// `under_way`: what batches have under way at the end.
    fn totals(&self, under_way: u64) -> Totals {
        let endings = self
            .endings
            .iter()
            .map(|(&(outcome, code), &batches)| Ending {
                outcome: outcome.into(),
                code,
                batches,
            });
        let dropped = DROP_CAUSES.iter().zip(self.dropped);
        let never_stored = self
            .totals
            .published
            .saturating_sub(self.stored)
            .saturating_sub(self.deduplicated);
        let under_way = under_way.min(never_stored);
        Totals {
            offered: self.totals.published + self.withheld,
            stored: self.server_watched.then_some(self.stored),
            lost: self.server_watched.then_some(never_stored - under_way),
            under_way: self.server_watched.then_some(under_way),
            duplicates: if self.server_watched {
                self.deduplicated
            } else {
                self.duplicate_pub_acks
            },
            dropped: dropped
                .filter(|(_, count)| *count > 0)
                .map(|(cause, count)| (drop_name(*cause).to_owned(), count))
                .collect(),
            batches: BatchTotals {
                started: self.totals.batches.started,
                endings: endings.collect(),
            },
            ..self.totals.clone()
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        rounded(part as f64 / whole as f64, 9)
    }
}

pub(super) const DROP_CAUSES: [DropCause; 7] = [
    DropCause::IngestQueue,
    DropCause::Fault,
    DropCause::Cut,
    DropCause::NoResponders,
    DropCause::NoLeader,
    DropCause::ServerDown,
    DropCause::RouteDown,
];

const fn drop_name(cause: DropCause) -> &'static str {
    match cause {
        DropCause::IngestQueue => "ingest-queue",
        DropCause::Fault => "fault",
        DropCause::Cut => "cut",
        DropCause::NoResponders => "no-responders",
        DropCause::NoLeader => "no-leader",
        DropCause::ServerDown => "server-down",
        DropCause::RouteDown => "route-down",
    }
}

/// One distribution over several groups.
fn over_all<'a>(groups: impl Iterator<Item = Cow<'a, LatencyHistogram>>) -> Distribution {
    let mut all = latency_histogram();
    for group in groups {
        all.add(group.as_ref())
            .expect("all these histograms have the same bounds");
    }
    Distribution::of(&all)
}
