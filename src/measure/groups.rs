//! Groups of publishers: each with counts and histograms of its own.
//!
//! Leans on its siblings in `measure`.

use super::parts::{Part, Parts, Spans};
use super::series::SeriesRecorder;
use super::summary::GroupSummary;
use super::{Distribution, LatencyHistogram, jain};

/// Groups with histograms of their own; further ones share the last.
const GROUPS: usize = 16;

/// A group of publishers with figures of its own.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Name in the file.
    pub name: String,
    /// How many publishers.
    pub publishers: u32,
    /// What its latencies mean, where that is not the moment when the ack arrived.
    pub note: Option<String>,
}

pub(super) struct GroupRecord {
    pub(super) group: Group,
    /// First publisher after the group.
    pub(super) end: u32,
    pub(super) published: u64,
    pub(super) acknowledged: u64,
    pub(super) parts: Parts<GroupPart>,
}

/// What a group has of a part of the run, by when messages were sent.
#[derive(Default)]
pub(super) struct GroupPart {
    pub(super) acknowledged: u64,
    /// Latencies of messages whose response time is the same: sent when the load wanted it.
    punctual: Spans,
    /// The others, once there is one.
    late: Option<Box<Late>>,
}

/// Messages sent later than the load wanted.
#[derive(Default)]
struct Late {
    latency: Spans,
    response: Spans,
}

impl Part for GroupPart {
    fn absorb(&mut self, next: Self) {
        self.acknowledged += next.acknowledged;
        self.punctual.absorb(next.punctual);
        match (&mut self.late, next.late) {
            (Some(mine), Some(theirs)) => {
                mine.latency.absorb(theirs.latency);
                mine.response.absorb(theirs.response);
            }
            (mine @ None, theirs) => *mine = theirs,
            (Some(_), None) => {}
        }
    }
}

impl GroupPart {
    /// From send to ack.
    pub(super) fn latency(&self) -> LatencyHistogram {
        self.with(self.late.as_ref().map(|late| &late.latency))
    }

    /// From the intended start to ack.
    pub(super) fn response(&self) -> LatencyHistogram {
        self.with(self.late.as_ref().map(|late| &late.response))
    }

    /// All are made alike, so adding cannot fail.
    fn with(&self, late: Option<&Spans>) -> LatencyHistogram {
        let mut sum = self.punctual.histogram();
        if let Some(late) = late {
            let added = sum.add(late.histogram());
            debug_assert!(added.is_ok());
        }
        sum
    }
}

/// Messages in a row with equal times.
pub(super) struct Run {
    latency: u64,
    response: u64,
    place: Option<usize>,
    times: u32,
}

impl Run {
    #[inline]
    pub(super) fn record(&self, group: &mut GroupRecord, series: &mut SeriesRecorder) {
        series.latency(self.latency, self.times);
        let Some(place) = self.place else {
            return;
        };
        let part = group.parts.at(place);
        let times = u64::from(self.times);
        if self.latency == self.response {
            part.punctual.record(self.latency, times);
        } else {
            let late = part.late.get_or_insert_default();
            late.latency.record(self.latency, times);
            late.response.record(self.response, times);
        }
    }
}

/// Gathers equal times, so that a histogram is asked once for all of them.
#[derive(Default)]
pub(super) struct Runs {
    run: Option<Run>,
}

impl Runs {
    /// Takes so many messages; gives back the run that they end.
    #[inline]
    pub(super) fn next(
        &mut self,
        (latency, response, place): (u64, u64, Option<usize>),
        times: u32,
    ) -> Option<Run> {
        match &mut self.run {
            Some(run)
                if run.latency == latency && run.response == response && run.place == place =>
            {
                run.times = run.times.saturating_add(times);
                None
            }
            run => run.replace(Run {
                latency,
                response,
                place,
                times,
            }),
        }
    }

    pub(super) fn last(self) -> Option<Run> {
        self.run
    }
}

pub(super) fn group_records(mut groups: Vec<Group>) -> Vec<GroupRecord> {
    if groups.is_empty() {
        groups.push(Group {
            name: "publishers".to_owned(),
            publishers: 0,
            note: None,
        });
    }
    if groups.len() > GROUPS {
        let others = groups.split_off(GROUPS - 1);
        groups.push(Group {
            name: format!("{} more groups", others.len()),
            publishers: others.iter().map(|group| group.publishers).sum(),
            note: others.into_iter().find_map(|group| group.note),
        });
    }
    let mut end = 0_u32;
    let records = groups.into_iter().map(|group| {
        end = end.saturating_add(group.publishers);
        GroupRecord {
            group,
            end,
            published: 0,
            acknowledged: 0,
            parts: Parts::default(),
        }
    });
    records.collect()
}

/// `window`: what each group has of the window.
pub(super) fn group_summaries(
    groups: &[GroupRecord],
    window: &[GroupPart],
    publishers: &[u64],
    per_second: impl Fn(u64) -> f64,
) -> Vec<GroupSummary> {
    let mut first = 0;
    let last = groups.len() - 1;
    let mut summaries = Vec::with_capacity(groups.len());
    for (index, (record, part)) in groups.iter().zip(window).enumerate() {
        // Whoever is numbered beyond all groups is counted with the last.
        let end = if index == last {
            publishers.len()
        } else {
            (record.end as usize).min(publishers.len())
        };
        let members = &publishers[first.min(end)..end];
        first = end;
        let ack_latency_ns = Distribution::of(&part.latency());
        let response_time_ns = match part.late {
            None => ack_latency_ns.clone(),
            Some(_) => Distribution::of(&part.response()),
        };
        summaries.push(GroupSummary {
            name: record.group.name.clone(),
            publishers: u64::from(record.group.publishers).max(members.len() as u64),
            published: record.published,
            acknowledged: record.acknowledged,
            messages_per_second: per_second(part.acknowledged),
            ack_latency_ns,
            response_time_ns,
            fairness: jain(members),
            note: record.group.note.clone(),
        });
    }
    summaries
}
