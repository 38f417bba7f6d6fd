//! Judge: nothing is stored twice.
//!
//! Leans on `event`.

use super::{Bench, Judge};
use crate::event::{BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::BatchSequence;

/// Within a batch, messages go into the stream in the order of their sequences and each at most
/// once, in either gap mode.
#[derive(Clone, Debug, Default)]
pub struct NothingStoredTwice {
    batches: BatchTable<(PublisherId, BatchSequence)>,
}

impl Judge for NothingStoredTwice {
    const NAME: &'static str = "nothing-stored-twice";
    const CLAUSE: &'static str =
        "ADR-50, Message Gaps: a lower or repeated batch sequence ends the batch";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::BatchStarted {
                publisher, batch, ..
            } => {
                self.batches.insert(batch, (publisher, BatchSequence(0)));
            }
            Event::Stored {
                batch,
                sequence,
                stream_sequence,
                ..
            } => {
                let Some((publisher, last)) = self.batches.get_mut(batch) else {
                    return;
                };
                if sequence <= *last {
                    let message = format!(
                        "{sequence} is stored at {stream_sequence}, after {last} of the same batch"
                    );
                    bench.object::<Self>(at, Some(*publisher), batch, message);
                }
                *last = sequence.max(*last);
            }
            Event::BatchEnded { batch, .. } => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }
}
