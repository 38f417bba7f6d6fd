//! What the publishers of a run say they did, batch by batch, gathered from their events.
//!
//! Leans on `event` and `sequences`. `verify` holds it to the stream.

use super::sequences::Sequences;
use crate::event::{BatchNumber, Event, Observer, Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation};

/// At most so many gaps and refused messages are kept of a batch.
const KEPT: usize = 10_000;

/// All batches of a run, as their publishers tell them.
#[derive(Debug, Default)]
pub struct Claims {
    batches: Vec<Claim>,
    /// The batches of each publisher, in order.
    of_publisher: Vec<Vec<BatchNumber>>,
    leader_stood_still: bool,
}

/// One batch, as its publisher tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose it is.
    pub publisher: PublisherId,
    /// Gap mode.
    pub gap: GapMode,
    /// Highest sequence sent that is to be stored.
    pub published: BatchSequence,
    /// Highest sequence that the publisher takes as covered.
    pub acknowledged: BatchSequence,
    /// How it ended; `None` while it has not.
    pub outcome: Option<Outcome>,
    /// Batch count of the PubAck.
    pub counted: Option<BatchSequence>,
    /// Sequences reported missing: first and first that is there again.
    pub gaps: Vec<(BatchSequence, BatchSequence)>,
    /// How many of them, the first, were told before any leader stood still.
    pub(super) gaps_of_leaders: usize,
    /// Sequences reported as refused.
    pub refused: Vec<BatchSequence>,
    /// The messages that have a PubAck of their own; `None`: none has, as in a batch of any kind.
    pub(super) acked_singly: Option<Sequences>,
    /// The client does not say which messages it was told to be missing or refused.
    pub vague: bool,
}

impl Claims {
    /// Every batch, by number.
    pub fn batches(&self) -> &[Claim] {
        &self.batches
    }

    /// Batch `index`, from 0, of a publisher.
    pub fn find(&self, publisher: u32, index: u32) -> Option<BatchNumber> {
        let batches = self.of_publisher.get(publisher as usize)?;
        batches.get(index as usize).copied()
    }

    /// What one publisher sent in all its batches.
    pub fn published_by(&self, publisher: u32) -> u64 {
        let batches = self.of_publisher.get(publisher as usize);
        batches
            .into_iter()
            .flatten()
            .filter_map(|batch| self.batches.get(batch.0 as usize))
            .map(|claim| claim.published.0)
            .sum()
    }

    /// A leader stands still from now on: gaps that are told later may be those of one that is deposed.
    pub(super) const fn leader_stands_still(&mut self) {
        self.leader_stood_still = true;
    }

    fn with(&mut self, batch: BatchNumber, change: impl FnOnce(&mut Claim)) {
        if let Some(claim) = self.batches.get_mut(batch.0 as usize) {
            change(claim);
        }
    }

    fn started(&mut self, publisher: PublisherId, batch: BatchNumber, gap: GapMode) {
        debug_assert_eq!(
            batch.0 as usize,
            self.batches.len(),
            "batches start in order"
        );
        self.batches.push(Claim {
            publisher,
            gap,
            published: BatchSequence(0),
            acknowledged: BatchSequence(0),
            outcome: None,
            counted: None,
            gaps: Vec::new(),
            gaps_of_leaders: 0,
            refused: Vec::new(),
            acked_singly: None,
            vague: false,
        });
        let index = publisher.0 as usize;
        if self.of_publisher.len() <= index {
            self.of_publisher.resize_with(index + 1, Vec::new);
        }
        self.of_publisher[index].push(batch);
    }
}

impl Claim {
    fn gap(&mut self, expected: BatchSequence, received: BatchSequence, is_of_leader: bool) {
        if expected == BatchSequence(0) || self.gaps.len() == KEPT {
            self.vague = true;
        } else {
            self.gaps.push((expected, received));
            if is_of_leader {
                self.gaps_of_leaders = self.gaps.len();
            }
        }
    }

    fn refused(&mut self, sequence: BatchSequence) {
        if sequence == BatchSequence(0) || self.refused.len() == KEPT {
            self.vague = true;
        } else {
            self.refused.push(sequence);
        }
    }
}

impl Observer for Claims {
    fn see(&mut self, _: Time, event: &Event) {
        match *event {
            Event::Published {
                batch,
                operation: Operation::Start | Operation::Append | Operation::Commit,
                sequence,
                ..
            } => self.with(batch, |claim| claim.published = sequence),
            Event::AckSeen {
                batch, sequence, ..
            } => self.with(batch, |claim| {
                claim.acknowledged = claim.acknowledged.max(sequence);
            }),
            Event::BatchStarted {
                publisher,
                batch,
                gap,
                ..
            } => self.started(publisher, batch, gap),
            Event::GapSeen {
                batch,
                expected,
                received,
            } => {
                let is_of_leader = !self.leader_stood_still;
                self.with(batch, |claim| claim.gap(expected, received, is_of_leader));
            }
            Event::ErrorSeen {
                batch, sequence, ..
            } => self.with(batch, |claim| claim.refused(sequence)),
            Event::MessageAckSeen {
                batch, sequence, ..
            } => self.with(batch, |claim| {
                claim.acknowledged = claim.acknowledged.max(sequence);
                let acked = claim.acked_singly.get_or_insert_default();
                acked.take(sequence.0);
            }),
            Event::PubAckSeen { batch, count, .. } => {
                self.with(batch, |claim| claim.counted = Some(count));
            }
            Event::BatchEnded {
                batch,
                outcome,
                acknowledged,
                ..
            } => self.with(batch, |claim| {
                claim.outcome = Some(outcome);
                claim.acknowledged = claim.acknowledged.max(acknowledged);
            }),
            // told by no client, or of no interest here
            _ => {}
        }
    }
}
