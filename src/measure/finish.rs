//! The end of measuring: from a [`Recorder`] to the [`Summary`] that is left of the run.
//!
//! Leans on its siblings in `measure` and the words of `event`.

use super::groups::{GroupPart, group_summaries};
use super::series::Slice;
use super::steady::steady_from;
use super::summary::{
    BatchTotals, Ending, FoundWarmUp, StallTime, Summary, Throughput, Totals, Window, jain,
};
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
        self.reach(end);
        for batch in live {
            self.close(end, batch);
        }
        let until_ns = if open == 0 && self.last_end > 0 {
            self.last_end
        } else {
            end.as_nanos()
        };
        self.series.reach(end);
        let (place, warm_up) = self.warm_up(until_ns);
        let window = Window {
            from_ns: self.places.start(place).max(self.first_start.unwrap_or(0)),
            until_ns,
            warm_up,
        };
        let per_second = |count: u64| match window.seconds() {
            seconds if seconds > 0.0 => rounded(count as f64 / seconds, 3),
            _ => 0.0,
        };
        let mut measured = self.measured.from(place);
        let shares = measured.shares(self.publishers);
        let parts = self.groups.iter_mut().map(|group| group.parts.from(place));
        let parts: Vec<GroupPart> = parts.collect();
        let groups = group_summaries(&self.groups, &parts, &shares, per_second);
        let (ack_latency_ns, response_time_ns) = match groups.as_slice() {
            [only] => (only.ack_latency_ns.clone(), only.response_time_ns.clone()),
            _ => (
                over_all(parts.iter().map(GroupPart::latency)),
                over_all(parts.iter().map(GroupPart::response)),
            ),
        };
        let totals = self.totals(under_way);
        let answered = totals.acknowledged + totals.missing;
        let throughput = Throughput {
            messages_per_second: per_second(measured.acknowledged),
            bytes_per_second: per_second(measured.bytes),
            published_per_second: per_second(measured.published),
        };
        let (series, flow) = self.series.finish(end);
        let (api_latency_ns, api_calls) = self.api.window(place);
        Summary {
            duration_ns: end.as_nanos(),
            window,
            throughput,
            ack_latency_ns,
            response_time_ns,
            stall_time_ns: StallTime {
                total: measured.waited,
                share: ratio(measured.waited, measured.open_time),
                waits: Distribution::of(&measured.waits()),
            },
            gap_rate: ratio(totals.missing, answered),
            fairness: jain(&shares),
            groups,
            flow,
            series,
            api_latency_ns,
            api_calls,
            faults: self.faults.into_values().collect(),
            leader_changes: self.leader_changes,
            totals,
        }
    }

    /// The first part of the window, and how it was found if it had to be: where messages acknowledged (or
    /// sent, if nothing is ever acknowledged) and messages in flight have both become steady, and the file
    /// changes the load no more.
    fn warm_up(&self, until: u64) -> (usize, Option<FoundWarmUp>) {
        let Some(slice_ns) = self.places.slice_width() else {
            return (0, None);
        };
        let first = self.first_start.unwrap_or(0) / slice_ns;
        let whole = (until / slice_ns).saturating_sub(first);
        let slices = self.series.slices(slice_ns).into_iter();
        let slices = slices.skip(first as usize).take(whole as usize);
        let slices: Vec<Slice> = slices.collect();
        let moved = |slice: &Slice| match self.totals.acknowledged {
            0 => slice.published,
            _ => slice.acknowledged,
        };
        let moved: Vec<u64> = slices.iter().map(moved).collect();
        let in_flight: Vec<u64> = slices.iter().map(|slice| slice.in_flight).collect();
        let begun = self.load_changes.iter();
        let begun = begun.filter(|(from, _)| from.as_nanos() < until);
        let changed = begun.map(|(_, changed)| changed.as_nanos().min(until));
        let changes_ns = changed.max().unwrap_or(0);
        let changes = (changes_ns.div_ceil(slice_ns).saturating_sub(first)) as usize;
        // As with the others: what goes on in the second half is a trend.
        let load = (changes <= slices.len() / 2).then_some(changes);
        let ends = [steady_from(&moved), steady_from(&in_flight), load];
        let steady = ends.into_iter().collect::<Option<Vec<usize>>>();
        let left_out = steady.iter().flatten().copied().max().unwrap_or(0);
        let place = if left_out > 0 {
            first as usize + left_out
        } else {
            0
        };
        let found = FoundWarmUp {
            steady: steady.is_some(),
            load_changes_until_ns: (changes_ns > 0).then_some(changes_ns),
            until_ns: self.places.start(place),
            slice_ns,
            slices: slices.len() as u64,
        };
        (place, Some(found))
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
fn over_all(groups: impl Iterator<Item = LatencyHistogram>) -> Distribution {
    let mut all = latency_histogram();
    for group in groups {
        all.add(group)
            .expect("all these histograms have the same bounds");
    }
    Distribution::of(&all)
}
