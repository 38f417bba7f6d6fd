//! Judges: each holds a run to one promise of ADR-50.
//!
//! A judge reads events, keeps its own idea of the truth, and never believes a client. What the
//! server stored is what `Stored` says. A judge is the state of one batch; [`Judges`] finds the
//! batch of an event once for all of them. Leans on `event`.

mod acks;
mod cadence;
mod gate;
mod liveness;
mod once;
mod pub_ack;

use crate::event::{BatchNumber, BatchTable, Event, Observer, PublisherId};
use crate::machine::Time;
use crate::nats::GapMode;

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
    /// Ack timeout of the publisher.
    pub ack_timeout: Time,
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

/// The judges of one batch.
#[derive(Clone, Debug)]
struct Case {
    publisher: PublisherId,
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
            acks: AcksCoverWhatTheyClaim::new(start),
            pub_ack: PubAckAgreesWithTheStream::new(start),
            once: NothingStoredTwice::new(start),
            cadence: AcksComeAsOftenAsPromised::new(start),
            gate: NothingSentThroughAShutGate::new(start),
            liveness: EveryPublisherEnds::new(start),
        }
    }

    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        self.acks.see(event, bench);
        self.pub_ack.see(event, bench);
        self.once.see(event, bench);
        self.cadence.see(event, bench);
        self.gate.see(event, bench);
        self.liveness.see(event, bench);
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
}

/// All judges over one run.
#[derive(Clone, Debug)]
pub struct Judges {
    /// The ack timeout of each publisher, by number.
    ack_timeouts: Vec<Time>,
    cases: BatchTable<Case>,
    server_told: bool,
    findings: Findings,
}

impl Judges {
    /// The names of all judges.
    pub const NAMES: [&'static str; 6] = [
        AcksCoverWhatTheyClaim::NAME,
        PubAckAgreesWithTheStream::NAME,
        NothingStoredTwice::NAME,
        AcksComeAsOftenAsPromised::NAME,
        NothingSentThroughAShutGate::NAME,
        EveryPublisherEnds::NAME,
    ];

    /// Objects when the stream, read back after a live run, breaks what publishers were promised.
    pub const OF_READ_BACK: &'static str = "the-stream-has-what-acks-cover";

    /// The names that a file may expect to object: all judges, and the one of the read-back.
    pub const EXPECTABLE: [&'static str; 7] = {
        let [first, second, third, fourth, fifth, sixth] = Self::NAMES;
        [
            first,
            second,
            third,
            fourth,
            fifth,
            sixth,
            Self::OF_READ_BACK,
        ]
    };

    /// Judges for a run whose publishers have these ack timeouts, by number. `server_told`: events
    /// tell the server's side.
    pub fn new(ack_timeouts: Vec<Time>, server_told: bool) -> Self {
        Self {
            ack_timeouts,
            cases: BatchTable::default(),
            server_told,
            findings: Findings::default(),
        }
    }

    /// The findings at the end of the run; a batch that has not ended by then is one.
    pub fn finish(mut self, at: Time) -> Findings {
        for (batch, case) in self.cases.iter() {
            let (publisher, server_told) = (case.publisher, self.server_told);
            let mut bench = Bench {
                at,
                publisher,
                batch,
                server_told,
                findings: &mut self.findings,
            };
            bench.object::<EveryPublisherEnds>(
                "the run is over and the batch has not ended".to_owned(),
            );
        }
        self.findings
    }
}

impl Observer for Judges {
    fn see(&mut self, at: Time, event: &Event) {
        if let Event::BatchStarted {
            publisher,
            batch,
            flow,
            outstanding_acks,
            gap,
        } = *event
        {
            let ack_timeout = self
                .ack_timeouts
                .get(publisher.0 as usize)
                .copied()
                .unwrap_or(Time::NEVER);
            let start = Start {
                flow,
                outstanding_acks,
                gap,
                ack_timeout,
            };
            self.cases.insert(batch, Case::new(publisher, &start));
            return;
        }
        let Some(batch) = event.batch() else { return };
        let Some(case) = self.cases.get_mut(batch) else {
            return;
        };
        let (publisher, server_told) = (case.publisher, self.server_told);
        let mut bench = Bench {
            at,
            publisher,
            batch,
            server_told,
            findings: &mut self.findings,
        };
        case.see(event, &mut bench);
        if matches!(event, Event::BatchEnded { .. }) {
            self.cases.remove(batch);
        }
    }
}
