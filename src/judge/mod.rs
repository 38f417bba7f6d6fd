//! Judges: each holds a run to one promise of ADR-50.
//!
//! A judge reads events, keeps its own idea of the truth, and never believes a client. What the
//! server stored is what `Stored` says. A judge is the state of one batch; [`Judges`] finds the
//! batch of an event once for all of them. Leans on `event`.

mod acks;
mod cadence;
mod contiguous;
mod gate;
mod liveness;
mod once;
mod pub_ack;
pub mod raft;

use crate::event::{BatchNumber, BatchTable, Event, Observer, PublisherId};
use crate::machine::Time;
use crate::nats::GapMode;
use crate::raft::{NodeId, Settings};
use raft::RaftJudges;

pub use acks::AcksCoverWhatTheyClaim;
pub use cadence::AcksComeAsOftenAsPromised;
pub use gate::NothingSentThroughAShutGate;
pub use liveness::{EveryPublisherEnds, Stall};
pub use once::NothingStoredTwice;
pub use pub_ack::PubAckAgreesWithTheStream;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The judge that objects.
    pub judge: &'static str,
    /// The clause of ADR-50 that it guards.
    pub clause: &'static str,
    /// When it was seen.
    pub at: Time,
    /// Whose batch.
    pub publisher: Option<PublisherId>,
    /// Which batch.
    pub batch: Option<BatchNumber>,
    /// What was promised and what came instead.
    pub message: String,
}

/// One promise, kept or broken in one batch.
pub trait Judge {
    /// Its name, as results and `[expect]` write it.
    const NAME: &'static str;
    /// The clause of ADR-50 that it guards.
    const CLAUSE: &'static str;

    /// A batch begins.
    fn new(start: &Start) -> Self;

    /// Takes one event of the batch.
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>);
}

/// How a batch begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// Asked flow.
    pub flow: u16,
    /// Outstanding acks.
    pub outstanding_acks: u16,
    /// Gap mode.
    pub gap: GapMode,
    /// Whose batch it is.
    pub manner: Manner,
}

/// How a publisher behaves, as far as judges must know.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// Its ack timeout.
    pub ack_timeout: Time,
    /// It counts a refused message as acked (gap mode ok).
    pub errors_count_as_acks: bool,
    /// It publishes by fast ingest: its batches are what most judges are about.
    pub fast_ingest: bool,
}

/// At most this many violations are kept; the rest are counted.
const KEPT: usize = 100;

/// Where judges put what they find in one batch at one moment.
pub struct Bench<'a> {
    at: Time,
    publisher: PublisherId,
    batch: BatchNumber,
    server_told: bool,
    findings: &'a mut Findings,
}

impl Bench<'_> {
    /// The moment of the event in hand.
    pub const fn at(&self) -> Time {
        self.at
    }

    /// Whether events tell the server's side: they do in the simulator.
    pub const fn server_told(&self) -> bool {
        self.server_told
    }

    /// `J` objects.
    pub fn object<J: Judge>(&mut self, message: String) {
        if self.findings.violations.len() == KEPT {
            self.findings.violations_left_out += 1;
            return;
        }
        self.findings.violations.push(Violation {
            judge: J::NAME,
            clause: J::CLAUSE,
            at: self.at,
            publisher: Some(self.publisher),
            batch: Some(self.batch),
            message,
        });
    }

    /// The publisher waited in vain.
    pub fn stall(&mut self, waited: Time, release: String) {
        let (publisher, batch, at) = (self.publisher, self.batch, self.at);
        self.findings.stalls.push(Stall {
            publisher,
            batch,
            at,
            waited,
            release,
        });
    }
}

/// The judges of one batch. It is open until the batch is over for both its publisher and the
/// server: what a server does after a publisher has left is judged too.
#[derive(Clone, Debug)]
struct Case {
    publisher: PublisherId,
    /// Whether it is one of fast ingest. Of any other must hold that nothing is stored twice, and that
    /// it ends.
    fast: bool,
    ended: bool,
    open_at_server: bool,
    /// Its stream lost stored messages with the power of machines: what it holds proves nothing.
    rewound: bool,
    acks: AcksCoverWhatTheyClaim,
    pub_ack: PubAckAgreesWithTheStream,
    once: NothingStoredTwice,
    cadence: AcksComeAsOftenAsPromised,
    gate: NothingSentThroughAShutGate,
    liveness: EveryPublisherEnds,
}

impl Case {
    fn new(publisher: PublisherId, start: &Start) -> Self {
        Self {
            publisher,
            fast: start.manner.fast_ingest,
            ended: false,
            open_at_server: false,
            rewound: false,
            acks: AcksCoverWhatTheyClaim::new(start),
            pub_ack: PubAckAgreesWithTheStream::new(start),
            once: NothingStoredTwice::new(start),
            cadence: AcksComeAsOftenAsPromised::new(start),
            gate: NothingSentThroughAShutGate::new(start),
            liveness: EveryPublisherEnds::new(start),
        }
    }

    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        if !self.rewound {
            self.once.see(event, bench);
        }
        if self.fast {
            self.see_fast(event, bench);
        }
        match event {
            Event::BatchEnded { .. } => self.ended = true,
            Event::BatchOpened { .. } => self.open_at_server = true,
            Event::BatchForgotten { .. } => self.open_at_server = false,
            Event::StreamRewound { .. } => self.rewound = true,
            _ => {}
        }
    }

    #[inline]
    fn see_fast(&mut self, event: &Event, bench: &mut Bench<'_>) {
        if !self.rewound {
            self.acks.see(event, bench);
            self.pub_ack.see(event, bench);
            self.cadence.see(event, bench);
        }
        self.gate.see(event, bench);
        self.liveness.see(event, bench);
    }

    fn bench<'a>(
        &self,
        at: Time,
        batch: BatchNumber,
        server_told: bool,
        findings: &'a mut Findings,
    ) -> Bench<'a> {
        let publisher = self.publisher;
        Bench {
            at,
            publisher,
            batch,
            server_told,
            findings,
        }
    }

    const fn is_over(&self) -> bool {
        self.ended && !self.open_at_server
    }
}

/// What the judges found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Broken promises, the first hundred.
    pub violations: Vec<Violation>,
    /// How many more there were.
    pub violations_left_out: u64,
    /// Publishers that waited for what would not come.
    pub stalls: Vec<Stall>,
    /// What would be violations, had machines not lost with their power what the settings let them
    /// keep unsynced.
    pub excused: Vec<Violation>,
}

/// All judges over one run.
#[derive(Clone, Debug)]
pub struct Judges {
    /// How each publisher behaves, by number.
    manners: Vec<Manner>,
    cases: BatchTable<Case>,
    server_told: bool,
    /// Of the stream's replicas, where it has several.
    raft: Option<RaftJudges>,
    findings: Findings,
}

impl Judges {
    /// The names of the judges that read events while a run lasts.
    pub const OF_EVENTS: [&'static str; 6] = [
        AcksCoverWhatTheyClaim::NAME,
        PubAckAgreesWithTheStream::NAME,
        NothingStoredTwice::NAME,
        AcksComeAsOftenAsPromised::NAME,
        NothingSentThroughAShutGate::NAME,
        EveryPublisherEnds::NAME,
    ];

    /// The judge that objects when the stream, read back after a live run, breaks what publishers
    /// were promised. `live` does the reading and the comparing.
    pub const OF_READ_BACK: &'static str = "the-stream-has-what-acks-cover";

    /// The clauses of ADR-50 that the judge of the read-back guards.
    pub const READ_BACK_CLAUSE: &'static str =
        "fast.ack.covers-fail, fast.gap.order, fast.gap.report: the stream holds what was promised";

    /// The names of all judges, as results and `[expect]` write them.
    pub const NAMES: [&'static str; 18] = {
        let mut names = [Self::OF_READ_BACK; 18];
        let mut place = 0;
        while place < Self::OF_EVENTS.len() {
            names[place] = Self::OF_EVENTS[place];
            place += 1;
        }
        while place < Self::OF_EVENTS.len() + RaftJudges::NAMES.len() {
            names[place] = RaftJudges::NAMES[place - Self::OF_EVENTS.len()];
            place += 1;
        }
        names
    };

    /// Judges for a run whose publishers behave like this, by number. `server_told`: events tell
    /// the server's side.
    pub fn new(manners: Vec<Manner>, server_told: bool) -> Self {
        Self {
            manners,
            cases: BatchTable::default(),
            server_told,
            raft: None,
            findings: Findings::default(),
        }
    }

    /// The same, and the judges of RAFT over the replicas of the stream.
    #[must_use]
    pub fn over_replicas(mut self, settings: &Settings) -> Self {
        self.raft = Some(RaftJudges::new(settings));
        self
    }

    /// The findings at the end of the run; a batch that has not ended by then is one.
    pub fn finish(mut self, at: Time) -> Findings {
        for (batch, case) in self.cases.iter().filter(|(_, case)| !case.ended) {
            let server_told = self.server_told;
            let mut bench = case.bench(at, batch, server_told, &mut self.findings);
            bench.object::<EveryPublisherEnds>(
                "the run is over and the batch has not ended".to_owned(),
            );
        }
        if let Some(raft) = self.raft {
            let found = raft.into_findings();
            let room = KEPT.saturating_sub(self.findings.violations.len());
            let left_out = found.violations.len().saturating_sub(room) as u64;
            self.findings.violations_left_out += left_out + found.left_out;
            let kept = found.violations.into_iter().take(room);
            self.findings.violations.extend(kept);
            self.findings.excused = found.lost_to_power;
        }
        self.findings
    }
}

impl Observer for Judges {
    fn see(&mut self, at: Time, event: &Event) {
        if let Event::Raft { replica, event } = event {
            if let Some(raft) = &mut self.raft {
                raft.see(at, NodeId(*replica), event);
            }
            return;
        }
        if let Event::BatchStarted {
            publisher,
            batch,
            flow,
            outstanding_acks,
            gap,
        } = *event
        {
            let manner = self.manners.get(publisher.0 as usize).copied();
            let start = Start {
                flow,
                outstanding_acks,
                gap,
                manner: manner.unwrap_or(Manner {
                    ack_timeout: Time::NEVER,
                    errors_count_as_acks: false,
                    fast_ingest: true,
                }),
            };
            self.cases.insert(batch, Case::new(publisher, &start));
            return;
        }
        if matches!(
            event,
            Event::LeaderChanged { .. } | Event::StreamRewound { .. }
        ) {
            for (batch, case) in self.cases.iter_mut() {
                let mut bench = case.bench(at, batch, self.server_told, &mut self.findings);
                case.see(event, &mut bench);
            }
            return;
        }
        let Some(batch) = event.batch() else { return };
        let Some(case) = self.cases.get_mut(batch) else {
            return;
        };
        let mut bench = case.bench(at, batch, self.server_told, &mut self.findings);
        case.see(event, &mut bench);
        if case.is_over() {
            self.cases.remove(batch);
        }
    }
}
