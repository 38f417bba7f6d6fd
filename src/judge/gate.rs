//! Judge: a publisher sends nothing through a shut gate.
//!
//! Leans on `event` and on the window rule of `batch`.

use super::{Bench, Judge, Start};
use crate::batch::fast::window::Window;
use crate::event::Event;
use crate::nats::ack::FlowAck;
use crate::nats::{BatchSequence, GapMode, Operation};

/// No message is sent while the gate is shut by the newest ack that the publisher has received. A
/// flow that shrinks leaves a publisher over its window lawfully; it must only not send. Pings are
/// free. The second message waits for the first reply.
#[derive(Clone, Debug)]
pub struct NothingSentThroughAShutGate {
    window: Window,
    opened: bool,
    /// The client tells no flow with its acks: its gate cannot be judged.
    untold: bool,
    errors_count_as_acks: bool,
}

impl Judge for NothingSentThroughAShutGate {
    const NAME: &'static str = "nothing-sent-through-a-shut-gate";
    const CLAUSE: &'static str =
        "fast.flow.gate, fast.start.wait: a client stops at its outstanding acks";

    fn new(start: &Start) -> Self {
        let outstanding_acks = u8::try_from(start.outstanding_acks).unwrap_or(u8::MAX);
        Self {
            window: Window::new(start.flow, outstanding_acks),
            opened: false,
            untold: false,
            errors_count_as_acks: start.manner.errors_count_as_acks && start.gap == GapMode::Ok,
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        match *event {
            Event::Published {
                operation,
                sequence,
                ..
            } if operation != Operation::Ping => {
                self.judge(sequence, bench);
            }
            Event::AckSeen { flow, sequence, .. } => {
                self.opened = true;
                self.untold |= flow == 0;
                self.window.on_ack(FlowAck {
                    sequence,
                    messages: flow,
                });
            }
            Event::ErrorSeen { sequence, .. } if self.errors_count_as_acks => {
                self.opened = true;
                self.window.cover(sequence);
            }
            _ => {}
        }
    }
}

impl NothingSentThroughAShutGate {
    fn judge(&self, sequence: BatchSequence, bench: &mut Bench<'_>) {
        let sent = BatchSequence(sequence.0.saturating_sub(1));
        if self.untold || sent.0 == 0 || (self.opened && self.window.is_open_at(sent)) {
            return;
        }
        let (acked, flow) = (self.window.acked(), self.window.flow());
        bench.object::<Self>(if self.opened {
            format!("{sequence} was sent with {sent} out, acked {acked} at a flow of {flow}")
        } else {
            format!("{sequence} was sent before the first reply came")
        });
    }
}
