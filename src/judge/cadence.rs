//! Judge: the server acks as often as it promised.
//!
//! Leans on `event`.

use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::BatchSequence;

/// Each flow ack names the number of messages to the next one; that one comes no later. Only a
/// jump (a gap, refused or duplicate messages) may carry an ack over several intervals, and a
/// commit on the boundary is answered by its PubAck alone. No flow is above the one asked for.
#[derive(Clone, Debug)]
pub struct AcksComeAsOftenAsPromised {
    asked: u16,
    flow: u16,
    acked: BatchSequence,
    stored: BatchSequence,
    jumped: bool,
    /// The last gap ended here: on a stream with replicas it is told before the messages before it are
    /// acked.
    gap_end: BatchSequence,
}

impl Judge for AcksComeAsOftenAsPromised {
    const NAME: &'static str = "acks-come-as-often-as-promised";
    const CLAUSE: &'static str =
        "fast.channel.ack-every, fast.flow.every, fast.flow.bound: acks come every flow messages";

    fn new(start: &Start) -> Self {
        let zero = BatchSequence(0);
        Self {
            asked: start.flow,
            flow: start.flow,
            acked: zero,
            stored: zero,
            jumped: false,
            gap_end: zero,
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        match *event {
            Event::BatchOpened { flow, .. } => self.flow = flow,
            Event::Stored { sequence, .. } => {
                self.jumped |= sequence != self.stored.next();
                self.stored = sequence;
            }
            Event::GapSent { received, .. } => {
                self.jumped = true;
                self.gap_end = received;
            }
            Event::Deduplicated { .. } | Event::Rejected { .. } => self.jumped = true,
            // Acks may have gone down with the old leader; the new one begins with its own.
            Event::LeaderChanged { .. } => self.jumped = true,
            Event::AckSent { flow, sequence, .. } => self.judge(flow, sequence, bench),
            Event::PubAckSent { count, .. } if count.0 > self.due() && !self.jumped => {
                bench.object::<Self>(format!(
                    "the last ack was for {} with a flow of {}, the batch came to {count}",
                    self.acked, self.flow
                ));
            }
            _ => {}
        }
    }
}

impl AcksComeAsOftenAsPromised {
    fn due(&self) -> u64 {
        self.acked.0 + u64::from(self.flow)
    }

    fn judge(&mut self, flow: u16, sequence: BatchSequence, bench: &mut Bench<'_>) {
        if flow > self.asked {
            bench.object::<Self>(format!(
                "the server grants a flow of {flow}, asked were {}",
                self.asked
            ));
        }
        if sequence.0 > self.due() && !self.jumped {
            bench.object::<Self>(format!(
                "after an ack for {} with a flow of {} the next is for {sequence}",
                self.acked, self.flow
            ));
        }
        if sequence > self.acked {
            self.jumped = sequence < self.gap_end;
        }
        // One of a former leader may come late, over a slow route.
        if sequence >= self.acked {
            self.acked = sequence;
            self.flow = flow;
        }
    }
}
