//! The frames of each batch as a run tells them: what tests compare between lanes and clients.
//!
//! Times are left out. What is told at different stages of a frame's way is kept apart, each in its
//! own order: what a publisher sends, what is lost, what arrives, what becomes of messages in the
//! stream, what the server answers. How these interleave is timing. A batch goes by its publisher
//! and by its place among the batches of that publisher, since the numbers of batches follow the
//! order in which all publishers open theirs. Leans on `event`.

use std::collections::BTreeMap;
use std::fmt::Debug;

use tidegate::event::{BatchNumber, Event, Observer, Outcome, PublisherId};
use tidegate::machine::Time;
use tidegate::nats::Operation;

/// A batch: its publisher, and its place among the batches of it.
pub(crate) type Place = (u32, u32);

/// All batches of a run.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) batches: BTreeMap<Place, Batch>,
    places: BTreeMap<BatchNumber, Place>,
    opened: BTreeMap<PublisherId, u32>,
}

/// The frames of one batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    /// What its publisher sent.
    pub(crate) sent: Vec<Sent>,
    /// What of it was lost on its way.
    pub(crate) lost: Vec<Sent>,
    /// Pings and ends of batch that arrived.
    pub(crate) controls: Vec<Sent>,
    /// What became of its messages in the stream.
    pub(crate) fates: Vec<Fate>,
    /// What the server sent.
    pub(crate) answered: Vec<Answer>,
    /// So many of these answers were sent before the first batch of the run was over for the server.
    pub(crate) answered_with_all: Option<usize>,
    /// How it ended for its publisher: outcome, error, and what was acknowledged.
    pub(crate) end: Option<(Outcome, u16, u64)>,
}

/// A frame of a publisher; `bytes` is 0 where they are not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) operation: Operation,
    pub(crate) sequence: u64,
    pub(crate) bytes: u32,
}

/// What became of a message in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Stored { sequence: u64, bytes: u32 },
    Deduplicated { sequence: u64 },
    Rejected { sequence: u64, code: u16 },
}

impl Fate {
    /// What is refused or known already is dealt with on receipt, what is stored when a quorum has it: with
    /// replicas which of the two comes first is timing.
    pub(crate) const fn is_stored(self) -> bool {
        matches!(self, Self::Stored { .. })
    }
}

/// A frame of the server. Where the stream's own sequence is told, other publishers count in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ack { sequence: u64, flow: u16 },
    Gap { expected: u64, received: u64 },
    Error { sequence: u64, code: u16 },
    PubAck { count: u64, stream_sequence: u64 },
    Refused { code: u16 },
}

impl Frames {
    fn batch(&mut self, number: BatchNumber) -> Option<&mut Batch> {
        self.batches.get_mut(self.places.get(&number)?)
    }
}

impl Observer for Frames {
    fn see(&mut self, _at: Time, event: &Event) {
        if let Event::BatchStarted {
            publisher, batch, ..
        } = *event
        {
            let opened = self.opened.entry(publisher).or_default();
            let place = (publisher.0, *opened);
            *opened += 1;
            self.places.insert(batch, place);
            self.batches.insert(place, Batch::default());
            return;
        }
        if let Event::BatchForgotten { .. } = event {
            for batch in self.batches.values_mut() {
                let so_far = batch.answered.len();
                batch.answered_with_all.get_or_insert(so_far);
            }
        }
        let Some(number) = event.batch() else { return };
        let batch = self
            .batch(number)
            .unwrap_or_else(|| panic!("nobody opened the batch of {event:?}"));
        batch.see(event);
    }
}

impl Batch {
    fn see(&mut self, event: &Event) {
        match *event {
            Event::Published {
                operation,
                bytes,
                sequence,
                ..
            } => self.sent.push(Sent {
                operation,
                sequence: sequence.0,
                bytes,
            }),
            Event::Dropped {
                operation: Some(operation),
                sequence,
                ..
            } => self.lost.push(Sent {
                operation,
                sequence: sequence.0,
                bytes: 0,
            }),
            Event::ControlReceived {
                operation,
                sequence,
                ..
            } => self.controls.push(Sent {
                operation,
                sequence: sequence.0,
                bytes: 0,
            }),
            Event::BatchEnded {
                outcome,
                code,
                acknowledged,
                ..
            } => self.end = Some((outcome, code, acknowledged.0)),
            _ => {
                self.fates.extend(fate(event));
                self.answered.extend(answer(event));
            }
        }
    }

    /// The same without what other publishers have a share in: the stream's own sequences.
    pub(crate) fn alone(mut self) -> Self {
        for answer in &mut self.answered {
            if let Answer::PubAck {
                stream_sequence, ..
            } = answer
            {
                *stream_sequence = 0;
            }
        }
        self
    }

    /// Where two batches part first, in words.
    pub(crate) fn parts_from(&self, other: &Self) -> Option<String> {
        parted("sent", &self.sent, &other.sent)
            .or_else(|| parted("answered", &self.answered, &other.answered))
            .or_else(|| self.arrives_not_as(other))
            .or_else(|| parted("end", &[self.end], &[other.end]))
    }

    /// The same as the server sees it: what arrives of the batch, and what comes of it.
    pub(crate) fn arrives_not_as(&self, other: &Self) -> Option<String> {
        parted("fate", &self.fates, &other.fates)
            .or_else(|| parted("control", &self.controls, &other.controls))
            .or_else(|| parted("lost", &self.lost, &other.lost))
    }
}

/// The first place at which two lists part, in words.
pub(crate) fn parted<T: PartialEq + Debug>(what: &str, one: &[T], other: &[T]) -> Option<String> {
    let length = one.len().max(other.len());
    let index = (0..length).find(|index| one.get(*index) != other.get(*index))?;
    let (one, other) = (one.get(index), other.get(index));
    Some(format!("{what} {index}: {one:?} against {other:?}"))
}

fn fate(event: &Event) -> Option<Fate> {
    Some(match *event {
        Event::Stored {
            bytes, sequence, ..
        } => Fate::Stored {
            sequence: sequence.0,
            bytes,
        },
        Event::Deduplicated { sequence, .. } => Fate::Deduplicated {
            sequence: sequence.0,
        },
        Event::Rejected { code, sequence, .. } => Fate::Rejected {
            sequence: sequence.0,
            code,
        },
        _ => return None,
    })
}

fn answer(event: &Event) -> Option<Answer> {
    Some(match *event {
        Event::AckSent { flow, sequence, .. } => Answer::Ack {
            sequence: sequence.0,
            flow,
        },
        Event::GapSent {
            expected, received, ..
        } => Answer::Gap {
            expected: expected.0,
            received: received.0,
        },
        Event::ErrorSent { code, sequence, .. } => Answer::Error {
            sequence: sequence.0,
            code,
        },
        Event::PubAckSent {
            count, sequence, ..
        } => Answer::PubAck {
            count: count.0,
            stream_sequence: sequence.0,
        },
        Event::RefusalSent { code, .. } => Answer::Refused { code },
        _ => return None,
    })
}
