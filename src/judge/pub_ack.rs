//! Judge: the PubAck of a batch agrees with the stream.
//!
//! Leans on `event`.

use super::{Bench, Judge};
use crate::event::{BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, StreamSequence};

/// `seq` is the stream sequence of the last message that the batch stored, and `count` the batch
/// sequence up to which it came: in gap mode fail without a hole, in gap mode ok the highest.
#[derive(Clone, Debug, Default)]
pub struct PubAckAgreesWithTheStream {
    batches: BatchTable<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    publisher: PublisherId,
    gap: GapMode,
    contiguous: BatchSequence,
    highest: BatchSequence,
    /// The highest message was refused: as a commit it does not count.
    highest_refused: bool,
    last_stored: StreamSequence,
}

impl Batch {
    fn met(&mut self, sequence: BatchSequence, refused: bool) {
        if sequence > self.highest {
            self.highest = sequence;
            self.highest_refused = refused;
        }
    }

    fn persisted(&mut self, sequence: BatchSequence) {
        if sequence == self.contiguous.next() {
            self.contiguous = sequence;
        }
        self.met(sequence, false);
    }

    /// Whether `count` is right.
    fn counts(&self, count: BatchSequence) -> bool {
        match self.gap {
            GapMode::Fail => count == self.contiguous,
            GapMode::Ok => {
                count == self.highest || (self.highest_refused && count.next() == self.highest)
            }
        }
    }
}

impl Judge for PubAckAgreesWithTheStream {
    const NAME: &'static str = "pub-ack-agrees-with-the-stream";
    const CLAUSE: &'static str =
        "ADR-50, Server Behavior Design: BatchSize and the sequence of the PubAck";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::BatchStarted {
                publisher,
                batch,
                gap,
                ..
            } => {
                let state = Batch {
                    publisher,
                    gap,
                    contiguous: BatchSequence(0),
                    highest: BatchSequence(0),
                    highest_refused: false,
                    last_stored: StreamSequence(0),
                };
                self.batches.insert(batch, state);
            }
            Event::Stored {
                batch,
                sequence,
                stream_sequence,
                ..
            } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.persisted(sequence);
                    state.last_stored = stream_sequence;
                }
            }
            Event::Deduplicated { batch, sequence } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.persisted(sequence);
                }
            }
            Event::Rejected {
                batch, sequence, ..
            } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.met(sequence, true);
                }
            }
            // A gap found by an end of batch or a ping moves the count up to the one before it.
            Event::GapSent {
                batch, received, ..
            } => {
                if let Some(state) = self.batches.get_mut(batch)
                    && received.0 > 0
                {
                    state.met(BatchSequence(received.0 - 1), false);
                }
            }
            Event::PubAckSent {
                batch,
                duplicate: false,
                count,
                sequence,
            } => {
                let Some(state) = self.batches.get_mut(batch) else {
                    return;
                };
                let publisher = Some(state.publisher);
                if !state.counts(count) {
                    let right = match state.gap {
                        GapMode::Fail => state.contiguous,
                        GapMode::Ok => state.highest,
                    };
                    let message = format!("the PubAck counts {count}, the batch came to {right}");
                    bench.object::<Self>(at, publisher, batch, message);
                }
                let stored = self.batches.get_mut(batch).map(|state| state.last_stored);
                if let Some(stored) = stored
                    && stored != sequence
                {
                    let message = format!(
                        "the PubAck names stream sequence {sequence}, the last one stored is {stored}"
                    );
                    bench.object::<Self>(at, publisher, batch, message);
                }
            }
            Event::BatchEnded { batch, .. } => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }
}
