//! Judge: an ack covers what it claims.
//!
//! Leans on `contiguous` and `event`.

use super::contiguous::Contiguous;
use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::{BatchSequence, GapMode};

/// In gap mode fail a flow ack means that everything up to its sequence is stored, or is the
/// duplicate of something stored. In gap mode ok it only may not run ahead of what arrived.
#[derive(Clone, Debug)]
pub struct AcksCoverWhatTheyClaim {
    gap: GapMode,
    /// Everything up to here is stored or a duplicate, without a hole.
    contiguous: Contiguous,
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
            contiguous: Contiguous::default(),
            highest: BatchSequence(0),
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        match *event {
            Event::Stored { sequence, .. } => {
                self.contiguous.stored(sequence);
                self.highest = self.highest.max(sequence);
            }
            Event::Deduplicated { sequence, .. } => {
                self.contiguous.duplicate(sequence);
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
            GapMode::Fail => (self.contiguous.up_to(), "is stored without a hole up to"),
            GapMode::Ok => (self.highest, "has arrived up to"),
        };
        if sequence > covered {
            bench.object::<Self>(format!(
                "an ack covers {sequence}, but the batch {what} {covered}"
            ));
        }
    }
}
