//! Judge: an ack covers what it claims.
//!
//! Leans on `event`.

use super::{Bench, Judge};
use crate::event::{BatchNumber, BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode};

/// In gap mode fail a flow ack means that everything up to its sequence is stored, or is the
/// duplicate of something stored. In gap mode ok it only may not run ahead of what arrived.
#[derive(Clone, Debug, Default)]
pub struct AcksCoverWhatTheyClaim {
    batches: BatchTable<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    publisher: PublisherId,
    gap: GapMode,
    /// Everything up to here is stored or a duplicate, without a hole.
    contiguous: BatchSequence,
    /// The highest sequence that the server has met or named as met.
    highest: BatchSequence,
}

impl AcksCoverWhatTheyClaim {
    fn persisted(&mut self, batch: BatchNumber, sequence: BatchSequence) {
        if let Some(state) = self.batches.get_mut(batch) {
            if sequence == state.contiguous.next() {
                state.contiguous = sequence;
            }
            state.highest = state.highest.max(sequence);
        }
    }

    fn met(&mut self, batch: BatchNumber, sequence: BatchSequence) {
        if let Some(state) = self.batches.get_mut(batch) {
            state.highest = state.highest.max(sequence);
        }
    }

    fn claim(&mut self, at: Time, batch: BatchNumber, sequence: BatchSequence, bench: &mut Bench) {
        let Some(state) = self.batches.get_mut(batch) else {
            return;
        };
        let (covered, what) = match state.gap {
            GapMode::Fail => (state.contiguous, "is stored without a hole up to"),
            GapMode::Ok => (state.highest, "has arrived up to"),
        };
        if sequence > covered {
            let message = format!("an ack covers {sequence}, but the batch {what} {covered}");
            bench.object::<Self>(at, Some(state.publisher), batch, message);
        }
    }
}

impl Judge for AcksCoverWhatTheyClaim {
    const NAME: &'static str = "acks-cover-what-they-claim";
    const CLAUSE: &'static str = "ADR-50, Flow Control: BatchFlowAck.Sequence";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::BatchStarted {
                publisher,
                batch,
                gap,
                ..
            } => {
                let (contiguous, highest) = (BatchSequence(0), BatchSequence(0));
                self.batches.insert(
                    batch,
                    Batch {
                        publisher,
                        gap,
                        contiguous,
                        highest,
                    },
                );
            }
            Event::Stored {
                batch, sequence, ..
            }
            | Event::Deduplicated { batch, sequence } => {
                self.persisted(batch, sequence);
            }
            Event::Rejected {
                batch, sequence, ..
            }
            | Event::ControlReceived {
                batch, sequence, ..
            } => {
                self.met(batch, sequence);
            }
            Event::AckSent {
                batch, sequence, ..
            } => self.claim(at, batch, sequence, bench),
            Event::BatchEnded { batch, .. } => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }
}
