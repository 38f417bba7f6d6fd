//! Groups of publishers: each with counts and histograms of its own.
//!
//! Leans on its siblings in `measure`.

use std::borrow::Cow;

use super::series::SeriesRecorder;
use super::summary::GroupSummary;
use super::{Distribution, LatencyHistogram, jain, latency_histogram};

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
    pub(super) acknowledged_measured: u64,
    /// Latencies of messages whose response time is the same: sent when the load wanted it.
    punctual: LatencyHistogram,
    /// The others, once there is one.
    late: Option<Box<Late>>,
}

/// Messages sent later than the load wanted.
struct Late {
    latency: LatencyHistogram,
    response: LatencyHistogram,
}

impl GroupRecord {
    /// From send to ack.
    pub(super) fn latency(&self) -> Cow<'_, LatencyHistogram> {
        self.with(self.late.as_ref().map(|late| &late.latency))
    }

    /// From the intended start to ack.
    pub(super) fn response(&self) -> Cow<'_, LatencyHistogram> {
        self.with(self.late.as_ref().map(|late| &late.response))
    }

    /// All are made alike, so adding cannot fail.
    fn with(&self, late: Option<&LatencyHistogram>) -> Cow<'_, LatencyHistogram> {
        let Some(late) = late else {
            return Cow::Borrowed(&self.punctual);
        };
        let mut sum = self.punctual.clone();
        let added = sum.add(late);
        debug_assert!(added.is_ok());
        Cow::Owned(sum)
    }
}

/// Messages in a row with equal times.
pub(super) struct Run {
    latency: u64,
    response: u64,
    measured: bool,
    times: u32,
}

impl Run {
    #[inline]
    pub(super) fn record(&self, group: &mut GroupRecord, series: &mut SeriesRecorder) {
        series.latency(self.latency, self.times);
        if self.measured {
            let times = u64::from(self.times);
            if self.latency == self.response {
                group.punctual.saturating_record_n(self.latency, times);
            } else {
                let late = group.late.get_or_insert_with(|| {
                    Box::new(Late {
                        latency: latency_histogram(),
                        response: latency_histogram(),
                    })
                });
                late.latency.saturating_record_n(self.latency, times);
                late.response.saturating_record_n(self.response, times);
            }
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
        (latency, response, measured): (u64, u64, bool),
        times: u32,
    ) -> Option<Run> {
        match &mut self.run {
            Some(run)
                if run.latency == latency
                    && run.response == response
                    && run.measured == measured =>
            {
                run.times = run.times.saturating_add(times);
                None
            }
            run => run.replace(Run {
                latency,
                response,
                measured,
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
            acknowledged_measured: 0,
            punctual: latency_histogram(),
            late: None,
        }
    });
    records.collect()
}

pub(super) fn group_summaries(
    groups: &[GroupRecord],
    publishers: &[u64],
    per_second: impl Fn(u64) -> f64,
) -> Vec<GroupSummary> {
    let mut first = 0;
    let last = groups.len() - 1;
    let mut summaries = Vec::with_capacity(groups.len());
    for (index, record) in groups.iter().enumerate() {
        // Whoever is numbered beyond all groups is counted with the last.
        let end = if index == last {
            publishers.len()
        } else {
            (record.end as usize).min(publishers.len())
        };
        let members = &publishers[first.min(end)..end];
        first = end;
        let ack_latency_ns = Distribution::of(&record.latency());
        let response_time_ns = match record.late {
            None => ack_latency_ns.clone(),
            Some(_) => Distribution::of(&record.response()),
        };
        summaries.push(GroupSummary {
            name: record.group.name.clone(),
            publishers: u64::from(record.group.publishers).max(members.len() as u64),
            published: record.published,
            acknowledged: record.acknowledged,
            messages_per_second: per_second(record.acknowledged_measured),
            ack_latency_ns,
            response_time_ns,
            fairness: jain(members),
            note: record.group.note.clone(),
        });
    }
    summaries
}
