//! Judge: nothing is stored twice.
//!
//! Leans on `event`.

use super::{Bench, Judge, Start};
use crate::event::Event;
use crate::nats::BatchSequence;

/// Within a batch, messages go into the stream in the order of their sequences and each at most
/// once, in either gap mode.
#[derive(Clone, Debug)]
pub struct NothingStoredTwice {
    last: BatchSequence,
}

impl Judge for NothingStoredTwice {
    const NAME: &'static str = "nothing-stored-twice";
    const CLAUSE: &'static str =
        "fast.gap.order, fast.gap.backward: messages are stored in order, each at most once";

    fn new(_: &Start) -> Self {
        Self {
            last: BatchSequence(0),
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        if let Event::Stored {
            sequence,
            stream_sequence,
            ..
        } = *event
        {
            if sequence <= self.last {
                let last = self.last;
                bench.object::<Self>(format!(
                    "{sequence} is stored at {stream_sequence}, after {last} of the same batch"
                ));
            }
            self.last = sequence.max(self.last);
        }
    }
}
