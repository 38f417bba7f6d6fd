//! Everyone who watches a run: trace hash, judges, recorder, and one more by request.
//!
//! The same watchers stand in both worlds. Leans on `event`, `judge`, `measure`,
//! `modelled` and `scenario`.

use crate::event::{Event, Observer, TraceHasher};
use crate::judge::{Findings, Judges, Manner};
use crate::machine::Time;
use crate::measure::{Options, Recorder, Summary};
use crate::modelled;
use crate::scenario::{ClientKind, Publishers, Settings};

/// The watchers of one run.
pub struct Watch<'a> {
    /// Only where a run can be repeated: the simulator.
    hash: Option<TraceHasher>,
    judges: Judges,
    recorder: Recorder,
    extra: Option<&'a mut dyn Observer>,
}

/// What they saw.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Equal hashes mean equal runs, event for event; none for a live run, which cannot be repeated.
    pub trace_hash: Option<u64>,
    /// What the judges found.
    pub findings: Findings,
    /// What was measured.
    pub summary: Summary,
}

/// What a latency means for a client that reads its inbox only inside calls.
const APPLICATION_SEEN: &str = "application-seen: this client reads its inbox only inside calls, so an ack counts from \
                                the call in which the application could know of it, not from its arrival";

impl<'a> Watch<'a> {
    /// Watchers for a run of this file. `server_watched`: events tell the server's side.
    pub fn new(
        settings: &Settings,
        server_watched: bool,
        extra: Option<&'a mut dyn Observer>,
    ) -> Self {
        let groups = settings
            .publishers
            .iter()
            .map(|group| crate::measure::Group {
                name: group.name.clone(),
                publishers: group.count,
                note: (group.client == ClientKind::JetstreamExtra)
                    .then(|| APPLICATION_SEEN.to_owned()),
            });
        let options = Options {
            warm_up: settings.warm_up.known(),
            load_changes: settings
                .publishers
                .iter()
                .flat_map(Publishers::rate_changes)
                .collect(),
            groups: groups.collect(),
            server_watched,
        };
        let manners = |group: &Publishers| {
            let manner = Manner {
                ack_timeout: group.ack_timeout.0,
                errors_count_as_acks: group.errors_count_as_acks,
                fast_ingest: group.client.is_fast_ingest(),
            };
            std::iter::repeat_n(manner, group.count as usize)
        };
        let manners = settings.publishers.iter().flat_map(manners).collect();
        let mut judges = Judges::new(manners, server_watched);
        if let Some(raft) = modelled::raft(settings).filter(|_| server_watched) {
            judges = judges.over_replicas(&raft);
        }
        Self {
            hash: server_watched.then(TraceHasher::default),
            judges,
            recorder: Recorder::new(options),
            extra,
        }
    }

    /// Messages published so far.
    pub const fn published(&self) -> u64 {
        self.recorder.published()
    }

    /// Nothing is on its way to the stream any more: what was published and is not stored is lost.
    pub const fn settle(&mut self) {
        self.recorder.settle();
    }

    /// What everyone saw, at the end of the run.
    pub fn finish(self, end: Time) -> Seen {
        let mut summary = self.recorder.finish(end);
        let findings = self.judges.finish(end);
        summary.totals.stalls = findings.stalls.len() as u64;
        Seen {
            trace_hash: self.hash.map(TraceHasher::finish),
            findings,
            summary,
        }
    }
}

impl Observer for Watch<'_> {
    fn see(&mut self, at: Time, event: &Event) {
        if let Some(hash) = &mut self.hash {
            hash.see(at, event);
        }
        self.judges.see(at, event);
        self.recorder.see(at, event);
        if let Some(extra) = &mut self.extra {
            extra.see(at, event);
        }
    }
}
