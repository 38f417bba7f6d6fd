//! Judge: the PubAck of a batch agrees with the stream.
//!
//! Leans on `event`.

use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::{BatchSequence, GapMode, StreamSequence};

/// `seq` is the stream sequence of the last message that the batch stored, and `count` the batch
/// sequence up to which it came: in gap mode fail without a hole, in gap mode ok the highest.
#[derive(Clone, Debug)]
pub struct PubAckAgreesWithTheStream {
    gap: GapMode,
    contiguous: BatchSequence,
    highest: BatchSequence,
    /// The highest message was refused: as a commit it does not count.
    highest_refused: bool,
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
            contiguous: BatchSequence(0),
            highest: BatchSequence(0),
            highest_refused: false,
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
                self.persisted(sequence);
                self.last_stored = stream_sequence;
            }
            Event::Deduplicated { sequence, .. } => self.persisted(sequence),
            Event::Rejected { sequence, .. } if !self.over => self.met(sequence, true),
            Event::BatchForgotten { .. } => self.over = true,
            // A gap found by an end of batch or a ping moves the count up to the one before it.
            Event::GapSent { received, .. } if received.0 > 0 => {
                self.met(BatchSequence(received.0 - 1), false);
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

    fn judge(&self, count: BatchSequence, sequence: StreamSequence, bench: &mut Bench<'_>) {
        let right = match self.gap {
            GapMode::Fail => self.contiguous,
            GapMode::Ok => self.highest,
        };
        let without_commit =
            self.gap == GapMode::Ok && self.highest_refused && count.next() == right;
        if count != right && !without_commit {
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
