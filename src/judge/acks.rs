//! Judge: an ack covers what it claims.
//!
//! Leans on `event`.

use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::{BatchSequence, GapMode};

/// In gap mode fail a flow ack means that everything up to its sequence is stored, or is the
/// duplicate of something stored. In gap mode ok it only may not run ahead of what arrived.
#[derive(Clone, Debug)]
pub struct AcksCoverWhatTheyClaim {
    gap: GapMode,
    /// Everything up to here is stored or a duplicate, without a hole.
    contiguous: BatchSequence,
    /// The highest sequence that the server has met.
    highest: BatchSequence,
}

impl Judge for AcksCoverWhatTheyClaim {
    const NAME: &'static str = "acks-cover-what-they-claim";
    const CLAUSE: &'static str =
        "fast.ack.covers-fail, fast.ack.covers-ok: an ack covers what is persisted";

    fn new(start: &Start) -> Self {
        Self {
            gap: start.gap,
            contiguous: BatchSequence(0),
            highest: BatchSequence(0),
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        match *event {
            Event::Stored { sequence, .. } | Event::Deduplicated { sequence, .. } => {
                if sequence == self.contiguous.next() {
                    self.contiguous = sequence;
                }
                self.highest = self.highest.max(sequence);
            }
            Event::Rejected { sequence, .. } | Event::ControlReceived { sequence, .. } => {
                self.highest = self.highest.max(sequence);
            }
            Event::AckSent { sequence, .. } => self.judge(sequence, bench),
            _ => {}
        }
    }
}

impl AcksCoverWhatTheyClaim {
    fn judge(&self, sequence: BatchSequence, bench: &mut Bench<'_>) {
        let (covered, what) = match self.gap {
            GapMode::Fail => (self.contiguous, "is stored without a hole up to"),
            GapMode::Ok => (self.highest, "has arrived up to"),
        };
        if sequence > covered {
            bench.object::<Self>(format!(
                "an ack covers {sequence}, but the batch {what} {covered}"
            ));
        }
    }
}
