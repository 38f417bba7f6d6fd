//! Judges: each holds a run to one promise of ADR-50.
//!
//! A judge reads events, keeps its own idea of the truth, and never believes a client. What the
//! server stored is what `Stored` says. Leans on `event`.

mod acks;
mod cadence;
mod gate;
mod liveness;
mod once;
mod pub_ack;

use crate::event::{BatchNumber, Event, Observer, PublisherId};
use crate::machine::Time;

pub use acks::AcksCoverWhatTheyClaim;
pub use cadence::AcksComeAsOftenAsPromised;
pub use gate::NothingSentThroughAShutGate;
pub use liveness::{EveryPublisherEnds, Patience, Stall};
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

/// One promise.
pub trait Judge {
    /// Its name, as results and `[expect]` write it.
    const NAME: &'static str;
    /// The clause of ADR-50 that it guards.
    const CLAUSE: &'static str;

    /// Takes one event; an objection goes to `bench`.
    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench);
}

/// At most this many violations are kept; the rest are counted.
const KEPT: usize = 100;

/// Where judges put what they object to.
#[derive(Clone, Debug, Default)]
pub struct Bench {
    violations: Vec<Violation>,
    left_out: u64,
}

impl Bench {
    /// `J` objects.
    pub fn object<J: Judge>(
        &mut self,
        at: Time,
        publisher: Option<PublisherId>,
        batch: BatchNumber,
        message: String,
    ) {
        if self.violations.len() == KEPT {
            self.left_out += 1;
            return;
        }
        let batch = Some(batch);
        self.violations.push(Violation {
            judge: J::NAME,
            clause: J::CLAUSE,
            at,
            publisher,
            batch,
            message,
        });
    }
}

/// All judges over one run.
#[derive(Clone, Debug)]
pub struct Judges {
    acks: AcksCoverWhatTheyClaim,
    pub_ack: PubAckAgreesWithTheStream,
    once: NothingStoredTwice,
    cadence: AcksComeAsOftenAsPromised,
    gate: NothingSentThroughAShutGate,
    liveness: EveryPublisherEnds,
    bench: Bench,
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

    /// Judges for a run whose publishers have this patience: the ack timeout of each, by number.
    pub fn new(patience: Patience) -> Self {
        Self {
            acks: AcksCoverWhatTheyClaim::default(),
            pub_ack: PubAckAgreesWithTheStream::default(),
            once: NothingStoredTwice::default(),
            cadence: AcksComeAsOftenAsPromised::default(),
            gate: NothingSentThroughAShutGate::default(),
            liveness: EveryPublisherEnds::new(patience),
            bench: Bench::default(),
        }
    }

    /// The findings at the end of the run.
    pub fn finish(mut self, at: Time) -> Findings {
        let stalls = self.liveness.finish(at, &mut self.bench);
        Findings {
            violations: self.bench.violations,
            violations_left_out: self.bench.left_out,
            stalls,
        }
    }
}

impl Observer for Judges {
    fn see(&mut self, at: Time, event: &Event) {
        let bench = &mut self.bench;
        self.acks.see(at, event, bench);
        self.pub_ack.see(at, event, bench);
        self.once.see(at, event, bench);
        self.cadence.see(at, event, bench);
        self.gate.see(at, event, bench);
        self.liveness.see(at, event, bench);
    }
}
