//! Judge: the server acks as often as it promised.
//!
//! Leans on `event`.

use super::{Bench, Judge};
use crate::event::{BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::BatchSequence;

/// Each flow ack names the number of messages to the next one; that one comes no later. Only a
/// jump (a gap, refused or duplicate messages) may carry an ack over several intervals, and a
/// commit on the boundary is answered by its PubAck alone.
#[derive(Clone, Debug, Default)]
pub struct AcksComeAsOftenAsPromised {
    batches: BatchTable<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    publisher: PublisherId,
    asked: u16,
    promise: Option<Promise>,
}

#[derive(Clone, Debug)]
struct Promise {
    acked: BatchSequence,
    flow: u16,
    stored: BatchSequence,
    jumped: bool,
}

impl Batch {
    fn stored(&mut self, sequence: BatchSequence) {
        if let Some(promise) = &mut self.promise {
            promise.jumped |= sequence != promise.stored.next();
            promise.stored = sequence;
        }
    }

    fn jumped(&mut self) {
        if let Some(promise) = &mut self.promise {
            promise.jumped = true;
        }
    }
}

impl Judge for AcksComeAsOftenAsPromised {
    const NAME: &'static str = "acks-come-as-often-as-promised";
    const CLAUSE: &'static str =
        "ADR-50, Flow Control: BatchFlowAck.Messages; the initial flow is the upper bound";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::BatchStarted {
                publisher,
                batch,
                flow,
                ..
            } => {
                self.batches.insert(
                    batch,
                    Batch {
                        publisher,
                        asked: flow,
                        promise: None,
                    },
                );
            }
            Event::BatchOpened { batch, flow, .. } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    let zero = BatchSequence(0);
                    state.promise = Some(Promise {
                        acked: zero,
                        flow,
                        stored: zero,
                        jumped: false,
                    });
                }
            }
            Event::Stored {
                batch, sequence, ..
            } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.stored(sequence);
                }
            }
            Event::Deduplicated { batch, .. }
            | Event::Rejected { batch, .. }
            | Event::GapSent { batch, .. } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.jumped();
                }
            }
            Event::AckSent {
                batch,
                flow,
                sequence,
            } => {
                let Some(state) = self.batches.get_mut(batch) else {
                    return;
                };
                if flow > state.asked {
                    let message = format!(
                        "the server grants a flow of {flow}, asked were {}",
                        state.asked
                    );
                    bench.object::<Self>(at, Some(state.publisher), batch, message);
                }
                let Some(promise) = &mut state.promise else {
                    return;
                };
                let due = promise.acked.0 + u64::from(promise.flow);
                if sequence.0 > due && !promise.jumped {
                    let message = format!(
                        "after an ack for {} with a flow of {} the next is for {sequence}",
                        promise.acked, promise.flow
                    );
                    bench.object::<Self>(at, Some(state.publisher), batch, message);
                }
                if sequence > promise.acked {
                    promise.jumped = false;
                }
                promise.acked = sequence;
                promise.flow = flow;
            }
            Event::PubAckSent { batch, count, .. } => {
                let Some(state) = self.batches.get_mut(batch) else {
                    return;
                };
                if let Some(promise) = &state.promise
                    && count.0 > promise.acked.0 + u64::from(promise.flow)
                    && !promise.jumped
                {
                    let message = format!(
                        "the last ack was for {} with a flow of {}, the batch came to {count}",
                        promise.acked, promise.flow
                    );
                    bench.object::<Self>(at, Some(state.publisher), batch, message);
                }
            }
            Event::BatchEnded { batch, .. } => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }
}
