//! Judge: the PubAck of a batch agrees with the stream.
//!
//! Leans on `contiguous` and `event`.

use super::contiguous::Contiguous;
use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// `seq` is the stream sequence of the last message that the batch stored, and `count` the batch
/// sequence up to which it came: in gap mode fail without a hole, in gap mode ok the highest.
#[derive(Clone, Debug)]
pub struct PubAckAgreesWithTheStream {
    gap: GapMode,
    contiguous: Contiguous,
    highest: BatchSequence,
    /// The commit, once it is sent: refused, it does not count.
    commit: Option<BatchSequence>,
    commit_refused: bool,
    last_stored: StreamSequence,
    /// The server has forgotten the batch: its PubAck may still wait to be sent, and what arrives
    /// from here on is no part of it.
    over: bool,
}

impl Judge for PubAckAgreesWithTheStream {
    const NAME: &'static str = "pub-ack-agrees-with-the-stream";
    const CLAUSE: &'static str = "fast.pub-ack.count, fast.pub-ack.count-fail, fast.pub-ack.sequence, \
         fast.gap.fail, fast.gap.order: the PubAck says how far the batch came";

    fn new(start: &Start) -> Self {
        Self {
            gap: start.gap,
            contiguous: Contiguous::default(),
            highest: BatchSequence(0),
            commit: None,
            commit_refused: false,
            last_stored: StreamSequence(0),
            over: false,
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        match *event {
            Event::Stored {
                sequence,
                stream_sequence,
                ..
            } => {
                self.contiguous.stored(sequence);
                self.met(sequence);
                self.last_stored = stream_sequence;
            }
            Event::Deduplicated { sequence, .. } => {
                self.contiguous.duplicate(sequence);
                self.met(sequence);
            }
            Event::Rejected { sequence, .. } if !self.over => {
                self.met(sequence);
                self.commit_refused |= self.commit == Some(sequence);
            }
            Event::Published {
                operation: Operation::Commit,
                sequence,
                ..
            } => self.commit = Some(sequence),
            Event::BatchForgotten { .. } => self.over = true,
            // A gap found by an end of batch or a ping moves the count up to the one before it.
            Event::GapSent { received, .. } if received.0 > 0 => {
                self.met(BatchSequence(received.0 - 1));
            }
            Event::PubAckSent {
                duplicate: false,
                count,
                sequence,
                ..
            } => self.judge(count, sequence, bench),
            _ => {}
        }
    }
}

impl PubAckAgreesWithTheStream {
    fn met(&mut self, sequence: BatchSequence) {
        self.highest = self.highest.max(sequence);
    }

    fn judge(&self, count: BatchSequence, sequence: StreamSequence, bench: &mut Bench<'_>) {
        let right = match self.gap {
            GapMode::Fail => self.contiguous.up_to(),
            GapMode::Ok if self.commit_refused => BatchSequence(self.highest.0.saturating_sub(1)),
            GapMode::Ok => self.highest,
        };
        if count != right {
            bench.object::<Self>(format!(
                "the PubAck counts {count}, the batch came to {right}"
            ));
        }
        if sequence != self.last_stored {
            bench.object::<Self>(format!(
                "the PubAck names stream sequence {sequence}, the last one stored is {}",
                self.last_stored
            ));
        }
    }
}
