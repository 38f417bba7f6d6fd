//! The recorder: watches a run and keeps counts, histograms and series, never events.
//!
//! A publish is held until an ack covers it, so memory is bounded by what is in flight. Acks are
//! cumulative: one flow ack credits every message up to its sequence, and a later ack credits what
//! a lost one would have. Leans on `event` and its siblings in `measure`.

use std::collections::BTreeMap;

use super::api::ApiRecord;
use super::batch::{AtServer, Batch};
use super::batches::Batches;
use super::finish::DROP_CAUSES;
use super::groups::{Group, GroupRecord, Runs, group_records};
use super::in_flight::{InFlight, Message, Stretch};
use super::measured::{self, Credit, Measured};
use super::parts::{Parts, Places};
use super::series::SeriesRecorder;
use super::summary::{FaultTimes, LeaderChange, Totals};
use crate::event::{BatchNumber, Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::BatchSequence;

/// Moments kept of each fault.
const FAULT_MOMENTS: usize = 64;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rates and latencies leave out messages sent before; none: where the run becomes steady is to be
    /// found.
    pub warm_up: Option<Time>,
    /// When the load that is offered begins to change by itself, and has changed: a run is not steady before.
    pub load_changes: Vec<(Time, Time)>,
    /// The groups of the file, in its order; publishers are numbered through them. Empty: one
    /// group of everybody.
    pub groups: Vec<Group>,
    /// Whether events tell what the server stores (the simulator) or not (a live cluster).
    pub server_watched: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            warm_up: Some(Time::ZERO),
            load_changes: Vec::new(),
            groups: Vec::new(),
            server_watched: false,
        }
    }
}

/// Watches a run in constant memory.
pub struct Recorder {
    pub(super) places: Places,
    pub(super) load_changes: Vec<(Time, Time)>,
    pub(super) server_watched: bool,
    /// Nothing is on its way to the stream any more.
    pub(super) settled: bool,
    pub(super) batches: Batches<Batch>,
    pub(super) groups: Vec<GroupRecord>,
    /// Publishers that have started: one more than the highest number of them.
    pub(super) publishers: usize,
    pub(super) totals: Totals,
    pub(super) series: SeriesRecorder,
    pub(super) withheld: u64,
    pub(super) stored: u64,
    pub(super) deduplicated: u64,
    pub(super) duplicate_pub_acks: u64,
    pub(super) measured: Parts<Measured>,
    pub(super) open_batches: u64,
    pub(super) first_start: Option<u64>,
    pub(super) last_end: u64,
    pub(super) endings: BTreeMap<(Outcome, u16), u64>,
    /// By the causes of [`DROP_CAUSES`].
    pub(super) dropped: [u64; DROP_CAUSES.len()],
    pub(super) api: ApiRecord,
    pub(super) faults: BTreeMap<u32, FaultTimes>,
    pub(super) leader_changes: Vec<LeaderChange>,
}

impl Recorder {
    /// A recorder that has seen nothing.
    pub fn new(options: Options) -> Self {
        Self {
            places: match options.warm_up {
                Some(warm_up) => Places::after(warm_up.as_nanos()),
                None => Places::slices(),
            },
            load_changes: options.load_changes,
            server_watched: options.server_watched,
            settled: false,
            batches: Batches::new(),
            groups: group_records(options.groups),
            publishers: 0,
            totals: Totals::default(),
            series: SeriesRecorder::new(),
            withheld: 0,
            stored: 0,
            deduplicated: 0,
            duplicate_pub_acks: 0,
            measured: Parts::default(),
            open_batches: 0,
            first_start: None,
            last_end: 0,
            endings: BTreeMap::new(),
            dropped: [0; DROP_CAUSES.len()],
            api: ApiRecord::default(),
            faults: BTreeMap::new(),
            leader_changes: Vec::new(),
        }
    }

    /// Makes room for what happens at `now`.
    #[inline]
    pub(super) fn reach(&mut self, now: Time) {
        if self.places.are_outgrown(now.as_nanos()) {
            self.fold(now.as_nanos());
        }
    }

    #[cold]
    fn fold(&mut self, now: u64) {
        // as in the series: a moment near the end of time would never be reached
        let now = now.min(u64::MAX / 4);
        while self.places.are_outgrown(now) {
            self.places.fold();
            self.measured.fold();
            self.groups.iter_mut().for_each(|group| group.parts.fold());
            self.api.fold();
        }
    }

    /// Nothing is on its way to the stream any more.
    pub const fn settle(&mut self) {
        self.settled = true;
    }

    /// So many stored messages are gone.
    pub(super) const fn rewound(&mut self, lost: u64) {
        self.totals.lost_to_power += lost;
        self.stored = self.stored.saturating_sub(lost);
    }

    /// Messages published so far: for a progress line.
    pub const fn published(&self) -> u64 {
        self.totals.published
    }

    pub(super) fn start(
        &mut self,
        now: Time,
        publisher: PublisherId,
        number: BatchNumber,
        flow: u16,
    ) {
        if self.batches.get_mut(number).is_some() {
            self.close(now, number);
        }
        let at = now.as_nanos();
        self.publishers = self.publishers.max(publisher.0 as usize + 1);
        let group = self
            .groups
            .partition_point(|group| group.end <= publisher.0);
        let batch = Batch {
            in_flight: self.batches.take_spare().in_flight,
            publisher: publisher.0,
            group: group.min(self.groups.len() - 1),
            flow,
            started: at,
            ..Batch::default()
        };
        self.batches.insert(number, batch);
        self.totals.batches.started += 1;
        self.open_batches += 1;
        self.first_start.get_or_insert(at);
        self.series.change(now, |levels| {
            levels.open += 1;
            levels.flow_total += u64::from(flow);
        });
    }

    #[inline]
    pub(super) fn publish(&mut self, now: Time, number: BatchNumber, message: Message) {
        self.totals.published += 1;
        self.totals.published_bytes += u64::from(message.bytes);
        if let Some(place) = self.places.of(message.sent) {
            self.measured.at(place).published += 1;
        }
        let Some(batch) = self.batches.get_mut(number) else {
            self.totals.unacknowledged += 1;
            return;
        };
        batch.newest = batch.newest.max(u64::from(message.sequence));
        self.groups[batch.group].published += 1;
        if batch.ended {
            self.totals.unacknowledged += 1;
            return;
        }
        // A sequence that a client sends again is counted; the first of the two is timed.
        if batch.in_flight.push(message) {
            self.series.published(now);
        }
    }

    /// A flow ack has come.
    pub(super) fn ack(
        &mut self,
        now: Time,
        number: BatchNumber,
        flow: u16,
        sequence: BatchSequence,
    ) {
        self.totals.flow_acks += 1;
        let Some(batch) = self.batches.get_mut(number) else {
            return;
        };
        if !batch.ended {
            self.series.flow_seen(now, flow);
            if batch.flow != flow {
                let before = u64::from(std::mem::replace(&mut batch.flow, flow));
                self.series.change(now, |levels| {
                    levels.flow_total = levels.flow_total - before + u64::from(flow);
                });
            }
        }
        self.credit(now, number, sequence);
    }

    /// Credits every message of a batch up to `sequence`, each once.
    #[inline]
    pub(super) fn credit(&mut self, now: Time, number: BatchNumber, sequence: BatchSequence) {
        self.credit_all(now, number, |in_flight| in_flight.next_covered(sequence.0));
    }

    /// Credits one message of a batch, once.
    pub(super) fn credit_one(&mut self, now: Time, number: BatchNumber, sequence: BatchSequence) {
        let mut wanted = Some(sequence.0);
        self.credit_all(now, number, |in_flight| in_flight.take(wanted.take()?));
    }

    /// Credits what `next` takes out of the messages under way.
    #[inline]
    fn credit_all(
        &mut self,
        now: Time,
        number: BatchNumber,
        mut next: impl FnMut(&mut InFlight) -> Option<Stretch>,
    ) {
        let Some(batch) = self.batches.get_mut(number) else {
            return;
        };
        let at = now.as_nanos();
        let group = &mut self.groups[batch.group];
        let (mut messages, mut bytes) = (0, 0);
        let mut credit = Credit::default();
        let mut runs = Runs::default();
        self.series.reach(now);
        while let Some(stretch) = next(&mut batch.in_flight) {
            let place = self.places.of(stretch.sent);
            if place != credit.place {
                credit.book(&mut self.measured, group, batch.publisher);
                credit = Credit {
                    place,
                    ..Credit::default()
                };
            }
            let of_stretch = u64::from(stretch.messages);
            credit.messages += of_stretch;
            credit.bytes += u64::from(stretch.bytes) * of_stretch;
            messages += of_stretch;
            bytes += u64::from(stretch.bytes) * of_stretch;
            let latency = at.saturating_sub(stretch.sent);
            let response = at.saturating_sub(stretch.intended);
            if let Some(run) = runs.next((latency, response, place), stretch.messages) {
                run.record(group, &mut self.series);
            }
        }
        credit.book(&mut self.measured, group, batch.publisher);
        self.series.acknowledged(now, messages, bytes);
        if let Some(run) = runs.last() {
            run.record(group, &mut self.series);
        }
        group.acknowledged += messages;
        self.totals.acknowledged += messages;
        self.totals.acknowledged_bytes += bytes;
    }

    /// Takes `from..until` out of what acks may credit; says how many those were.
    pub(super) fn strike(&mut self, number: BatchNumber, from: u64, until: u64) -> u64 {
        let Some(batch) = self.batches.get_mut(number) else {
            return 0;
        };
        batch.in_flight.strike(from, until)
    }

    pub(super) fn block(&mut self, now: Time, number: BatchNumber) {
        if let Some(batch) = self.batches.get_mut(number)
            && batch.blocked_since.is_none()
            && !batch.ended
        {
            batch.blocked_since = Some(now.as_nanos());
            self.series.change(now, |levels| levels.blocked += 1);
        }
    }

    pub(super) fn unblock(&mut self, now: Time, number: BatchNumber) {
        let Some(batch) = self.batches.get_mut(number) else {
            return;
        };
        let Some(since) = batch.blocked_since.take() else {
            return;
        };
        self.series.change(now, |levels| levels.blocked -= 1);
        measured::wait(&mut self.measured, &self.places, since, now.as_nanos());
    }

    /// The batch is over for its publisher: nothing of it is in flight any more.
    pub(super) fn close(&mut self, now: Time, number: BatchNumber) {
        self.unblock(now, number);
        let Some(batch) = self.batches.get_mut(number) else {
            return;
        };
        if !std::mem::replace(&mut batch.ended, true) {
            let left = batch.in_flight.clear();
            self.totals.unacknowledged += left;
            measured::open(
                &mut self.measured,
                &self.places,
                batch.started,
                now.as_nanos(),
            );
            self.open_batches -= 1;
            let flow = u64::from(batch.flow);
            self.series.left_flight(now, left);
            self.series.change(now, |levels| {
                levels.open -= 1;
                levels.flow_total -= flow;
            });
        }
        self.forget_if_over(number);
    }

    pub(super) fn end(&mut self, now: Time, number: BatchNumber, ending: (Outcome, u16)) {
        let ended = self.batches.get_mut(number).map(|batch| batch.ended);
        *self.endings.entry(ending).or_default() += 1;
        if ended == Some(false) {
            self.last_end = self.last_end.max(now.as_nanos());
            self.close(now, number);
        }
    }

    pub(super) fn forget_if_over(&mut self, number: BatchNumber) {
        if let Some(batch) = self.batches.get_mut(number)
            && batch.ended
            && match batch.at_server {
                // Its first message may be under way.
                AtServer::Coming => !self.server_watched,
                AtServer::Open => false,
                AtServer::Over => true,
            }
        {
            self.batches.remove(number, |_| ());
        }
    }

    pub(super) fn store(&mut self, number: BatchNumber, sequence: u64) {
        let Some(batch) = self.batches.get_mut(number) else {
            self.stored += 1;
            return;
        };
        batch.decide(sequence);
        // Within a batch the server stores upwards.
        if sequence <= batch.last_stored {
            self.totals.stored_again += 1;
        } else {
            batch.last_stored = sequence;
            self.stored += 1;
        }
    }

    pub(super) fn decide(&mut self, number: BatchNumber, sequence: u64) {
        if let Some(batch) = self.batches.get_mut(number) {
            batch.decide(sequence);
        }
    }

    /// The server tells where it is with a batch.
    pub(super) fn server_moves(&mut self, number: BatchNumber, at_server: AtServer) {
        if let Some(batch) = self.batches.get_mut(number) {
            batch.at_server = at_server;
        }
        self.forget_if_over(number);
    }

    /// A publisher tells of a ping.
    pub(super) fn ping(&mut self, number: BatchNumber) {
        self.totals.pings += 1;
        if let Some(batch) = self.batches.get_mut(number) {
            batch.pings_counted += 1;
        }
    }

    /// A ping arrived. It counts here if its client tells of none, as those of others do not.
    pub(super) fn ping_received(&mut self, number: BatchNumber) {
        let Some(batch) = self.batches.get_mut(number) else {
            return;
        };
        batch.pings_received += 1;
        if batch.pings_received > batch.pings_counted {
            batch.pings_counted += 1;
            self.totals.pings += 1;
        }
    }

    pub(super) fn error(&mut self, now: Time, code: u16) {
        *self.totals.errors.entry(code).or_default() += 1;
        self.series.error(now);
    }

    pub(super) fn leader_changed(&mut self, now: Time, leader: Option<u8>) {
        if self.leader_changes.len() < FAULT_MOMENTS {
            self.leader_changes.push(LeaderChange {
                at_ns: now.as_nanos(),
                leader: leader.map(named),
            });
        }
    }

    pub(super) fn fault(&mut self, now: Time, fault: u32, server: Option<u8>) {
        let times = self.faults.entry(fault).or_insert_with(|| FaultTimes {
            fault,
            ..FaultTimes::default()
        });
        times.count += 1;
        times.last_ns = now.as_nanos();
        if times.at_ns.len() < FAULT_MOMENTS {
            times.at_ns.push(now.as_nanos());
            times.servers.extend(server.map(named));
        }
    }
}

/// What results call a server.
fn named(server: u8) -> String {
    format!("server {server}")
}

#[cfg(test)]
#[path = "recorder_tests.rs"]
mod tests;
