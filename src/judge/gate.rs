//! Judge: a publisher sends nothing through a shut gate.
//!
//! Leans on `event` and on the window rule of `batch`.

use super::{Bench, Judge};
use crate::batch::fast::window::Window;
use crate::event::{BatchTable, Event, PublisherId};
use crate::machine::Time;
use crate::nats::ack::FlowAck;
use crate::nats::{BatchSequence, Operation};

/// No message is sent while the gate is shut by the newest ack that the publisher has received. A
/// flow that shrinks leaves a publisher over its window lawfully; it must only not send. Pings are
/// free. The second message waits for the first reply.
#[derive(Clone, Debug, Default)]
pub struct NothingSentThroughAShutGate {
    batches: BatchTable<Batch>,
}

#[derive(Clone, Debug)]
struct Batch {
    publisher: PublisherId,
    window: Window,
    opened: bool,
    /// The client tells no flow with its acks: its gate cannot be judged.
    untold: bool,
}

impl Judge for NothingSentThroughAShutGate {
    const NAME: &'static str = "nothing-sent-through-a-shut-gate";
    const CLAUSE: &'static str = "ADR-50, Flow Control: the client stops at its outstanding acks";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::BatchStarted {
                publisher,
                batch,
                flow,
                outstanding_acks,
                ..
            } => {
                let window = Window::new(flow, u8::try_from(outstanding_acks).unwrap_or(u8::MAX));
                self.batches.insert(
                    batch,
                    Batch {
                        publisher,
                        window,
                        opened: false,
                        untold: false,
                    },
                );
            }
            Event::Published {
                batch,
                operation,
                sequence,
                ..
            } => {
                let Some(state) = self.batches.get_mut(batch) else {
                    return;
                };
                let sent = BatchSequence(sequence.0.saturating_sub(1));
                if operation == Operation::Ping || sent.0 == 0 || state.untold {
                    return;
                }
                if !state.opened {
                    let message = format!("{sequence} was sent before the first reply came");
                    bench.object::<Self>(at, Some(state.publisher), batch, message);
                } else if !state.window.is_open_at(sent) {
                    let (acked, flow) = (state.window.acked(), state.window.flow());
                    let message = format!(
                        "{sequence} was sent with {sent} out, acked {acked} at a flow of {flow}"
                    );
                    bench.object::<Self>(at, Some(state.publisher), batch, message);
                }
            }
            Event::AckSeen {
                batch,
                flow,
                sequence,
            } => {
                if let Some(state) = self.batches.get_mut(batch) {
                    state.opened = true;
                    state.untold |= flow == 0;
                    state.window.on_ack(FlowAck {
                        sequence,
                        messages: flow,
                    });
                }
            }
            Event::BatchEnded { batch, .. } => {
                self.batches.remove(batch);
            }
            _ => {}
        }
    }
}
