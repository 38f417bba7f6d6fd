//! What replicas know of fast batches beyond the messages that are stored, if they are told.
//!
//! nats-server tells them nothing of it: each rule here ends one of its bugs, and is asleep while that is
//! switched on. Leans on `replicated` and `proposal`. ADR-50 [fast.leader.survive].

use super::intake::Fast;
use super::proposal::{Note, Proposal};
use super::{BatchOrigins, Effect, Stream, Surroundings};
use crate::batch::fast::ingest::Ingest;
use crate::batch::fast::table::SlotId;
use crate::batch::message::{BatchHandle, Publish, Reply, ReplyTo};
use crate::machine::{Sink, Time};
use crate::nats::ack::PubAck;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// Bugs of a stream on several servers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ReplicaDefects {
    /// The leader does not tell followers that a batch is over, unless by a commit that is stored.
    pub ends_are_untold: bool,
    /// Nor that a message of a batch was a duplicate or refused.
    pub passed_over_is_untold: bool,
    /// A commit that a new leader had applied as a follower gets no PubAck from it.
    pub late_commits_are_silent: bool,
    /// A new leader forgets the fast batches.
    pub forgets_batches: bool,
    /// A leader that steps down keeps the message ids that it had in flight, without a sequence.
    pub keeps_ids_in_flight: bool,
}

/// The PubAck of a commit that a follower has applied.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Owed {
    since: Time,
    to: ReplyTo,
    ack: PubAck,
    batch: BatchHandle,
}

impl Stream {
    /// A follower applies a commit, and cannot know whether its leader will live to answer it. It keeps
    /// the answer for as long as it would keep an idle batch.
    pub(super) fn owe(
        &mut self,
        publish: &Publish,
        fast: Fast,
        at: StreamSequence,
        around: &Surroundings<'_>,
    ) {
        let kept = self.batches.timeout();
        let (Some(own), Some(to)) = (&mut self.replicated, publish.reply) else {
            return;
        };
        let is_old = |owed: &Owed| owed.since + kept <= around.now;
        while own.owed.front().is_some_and(is_old) {
            own.owed.pop_front();
        }
        own.owed.push_back(Owed {
            since: around.now,
            to,
            ack: PubAck {
                sequence: at,
                count: Some(fast.sequence),
                duplicate: false,
            },
            batch: fast.batch,
        });
    }

    /// A new leader answers what its predecessor may have left unanswered.
    pub(super) fn answer_owed(&mut self, out: &mut impl Sink<Effect>) {
        if let Some(own) = &mut self.replicated {
            for owed in std::mem::take(&mut own.owed) {
                let reply = Reply::PubAck(owed.ack, Some(owed.batch));
                out.emit(Effect::Answer(owed.to, reply));
            }
        }
    }

    /// A batch is over for its leader, without a commit that is stored.
    pub(super) fn end(
        &mut self,
        slot: SlotId,
        fast: Fast,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        if !around.replica_defects.ends_are_untold {
            self.note(fast, fast.sequence, true);
        }
        self.forget(slot, fast.batch, out);
    }

    /// The same behind a message that was applied: if that was the commit, followers know.
    pub(super) fn end_applied(
        &mut self,
        slot: SlotId,
        fast: Fast,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        if fast.operation == Operation::Commit {
            self.forget(slot, fast.batch, out);
        } else {
            self.end(slot, fast, around, out);
        }
    }

    /// Tells followers that all up to `sequence` is dealt with, though the last of it is not stored.
    pub(super) fn note_passed_over(
        &mut self,
        fast: Fast,
        sequence: BatchSequence,
        around: &Surroundings<'_>,
    ) {
        if !around.replica_defects.passed_over_is_untold {
            self.note(fast, sequence, false);
        }
    }

    fn note(&mut self, fast: Fast, sequence: BatchSequence, is_over: bool) {
        if let Some(own) = &mut self.replicated {
            own.outbox.push(Proposal::Note(Note {
                batch: fast.batch,
                flow: fast.flow,
                gap: fast.gap,
                sequence,
                is_over,
            }));
        }
    }

    /// A follower applies a note.
    pub(super) fn take_note(&mut self, note: Note, around: &Surroundings<'_>) {
        let known = self.batches.find(note.batch);
        if note.is_over {
            if let Some(slot) = known {
                self.batches.remove(slot);
            }
            return;
        }
        let slot =
            known.unwrap_or_else(|| self.open_follower(note.batch, note.flow, note.gap, around));
        self.batches.restart_timer(slot, around.now);
        if let Some((ingest, _)) = self.batches.get_mut(slot) {
            ingest.catch_up(note.sequence);
        }
    }

    /// A follower hears of a batch for the first time.
    pub(super) fn open_follower(
        &mut self,
        batch: BatchHandle,
        flow: u16,
        gap: GapMode,
        around: &Surroundings<'_>,
    ) -> SlotId {
        let mut rules = self.rules(around);
        rules.pressure.open += 1;
        let ingest = Ingest::open(flow, gap, rules);
        let own = BatchOrigins::default();
        self.batches.insert(around.now, batch, ingest, own)
    }
}
