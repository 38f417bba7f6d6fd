//! A stream with replicas: its leader checks and proposes, every replica applies.
//!
//! What is proposed and not applied counts in the leader's checks. A follower knows of a fast batch
//! what it applied and nothing else; a new leader goes on from there. How proposals reach the
//! replicas is the business of others. Leans on `ahead`, `intake`, `atomic` and `keep`. ADR-50
//! [fast.leader.survive]; nats-server's `applyStreamMsgOp`, `processStreamLeaderChange`.

use std::collections::VecDeque;

use super::ahead::Ahead;
use super::ask::Asked;
use super::atomic::forgotten;
use super::check::{Hindrance, header_bytes};
use super::intake::{Answers, Fast};
use super::keep::{Incoming, Sender};
use super::log::{Log, Origin};
use super::note::Owed;
use super::proposal::{CallResult, Called, Proposal, Proposed};
use super::{Effect, Stream, Surroundings};
use crate::batch::message::{BatchHandle, Control, Fact, Publish, Reply};
use crate::machine::Sink;
use crate::nats::ack::PubAck;
use crate::nats::{BatchSequence, Operation, StreamSequence};

/// What a stream with replicas keeps on each of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Replicated {
    leads: bool,
    /// On a follower: PubAcks of commits that it applied, oldest first.
    pub(super) owed: VecDeque<Owed>,
    /// On the leader: proposed and not applied.
    in_flight: Ahead,
    /// What is to be proposed next.
    pub(super) outbox: Vec<Proposal>,
    /// Applied messages of an atomic batch whose end is still to come.
    gathered: Vec<Proposed>,
}

impl Stream {
    /// Makes it one replica of several, a follower.
    pub fn replicate(&mut self) {
        self.replicated = Some(Box::default());
        // A snapshot of a leader's stream still counts what that one had in flight.
        self.forget_in_flight();
    }

    /// Whether it takes messages: alone, or as the leader of its replicas.
    pub fn leads(&self) -> bool {
        self.replicated.as_ref().is_none_or(|own| own.leads)
    }

    /// Whether it is one of several.
    pub const fn is_replicated(&self) -> bool {
        self.replicated.is_some()
    }

    /// Has what other replicas store alike lie in memory once.
    pub fn share_log<'a>(&mut self, others: &(impl Iterator<Item = &'a Log> + Clone)) {
        self.log.share(others);
    }

    /// Whether applied messages wait for the end of their atomic batch: no snapshot may be taken.
    pub fn is_gathering(&self) -> bool {
        let own = self.replicated.as_ref();
        own.is_some_and(|own| !own.gathered.is_empty())
    }

    pub(super) fn in_flight(&self) -> Option<&Ahead> {
        self.replicated.as_ref().map(|own| &own.in_flight)
    }

    /// Becomes leader, everything that was committed before being applied: each fast batch goes on
    /// from what is stored, and its publisher is told so.
    pub fn lead(&mut self, around: &Surroundings<'_>, out: &mut impl Sink<Effect>) {
        let Some(own) = &mut self.replicated else {
            return;
        };
        own.leads = true;
        self.answer_owed(out);
        self.forget_in_flight();
        if around.replica_defects.forgets_batches {
            self.forget_fast_batches(out);
        }
        let rules = self.rules(around);
        for (batch, slot) in self.batches.ids() {
            self.batches.restart_timer(slot, around.now);
            let Some((ingest, _)) = self.batches.get_mut(slot) else {
                continue;
            };
            let to = ingest.reply();
            ingest.reset(rules, &mut Answers { to, batch, out });
        }
    }

    /// Leads no more. What was proposed and is not in the logs of others is lost without a word, and
    /// so are atomic batches; of fast ones it keeps what it knows.
    pub fn step_down(&mut self, around: &Surroundings<'_>, out: &mut impl Sink<Effect>) {
        if let Some(own) = &mut self.replicated {
            own.leads = false;
            own.outbox.clear();
            if around.replica_defects.keeps_ids_in_flight {
                for id in own.in_flight.ids() {
                    self.dedup.insert_digest(around.now, id, StreamSequence(0));
                }
            }
            self.forget_in_flight();
            self.forget_atomic_batches(out);
        }
    }

    /// Its server goes down: what it keeps in memory of batches and proposals is gone.
    pub fn crash(&mut self, out: &mut impl Sink<Effect>) {
        if let Some(own) = &mut self.replicated {
            **own = Replicated::default();
        }
        self.forget_in_flight();
        self.forget_batches(out);
    }

    /// What messages that were taken since the last call are to be proposed as, in their order.
    pub fn take_proposals(&mut self) -> Vec<Proposal> {
        let Some(own) = &mut self.replicated else {
            return Vec::new();
        };
        // As much room as this time, so that it need not grow again.
        let next = Vec::with_capacity(own.outbox.len());
        std::mem::replace(&mut own.outbox, next)
    }

    /// Proposes a message that passed the checks.
    pub(super) fn propose(
        &mut self,
        publish: &Publish,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
    ) {
        self.fly(publish, asked, around);
        if let Some(own) = &mut self.replicated {
            own.outbox.push(Proposal::Message(Proposed {
                publish: publish.clone(),
                at: around.now,
            }));
        }
    }

    /// Proposes an atomic batch that passed the checks, as entries that stand together.
    pub(super) fn propose_atomic(&mut self, messages: Vec<Publish>, around: &Surroundings<'_>) {
        let last = messages.len().saturating_sub(1);
        for (index, publish) in messages.into_iter().enumerate() {
            let headers = publish.headers.clone();
            let asked = headers.as_deref().map_or(Asked::NOTHING, Asked::read);
            self.fly(&publish, &asked, around);
            let at = around.now;
            let proposal = Proposal::OfBatch {
                message: Proposed { publish, at },
                is_last: index == last,
            };
            if let Some(own) = &mut self.replicated {
                own.outbox.push(proposal);
            }
        }
    }

    /// Applies what is committed, on the leader and on followers alike; a call gives its result.
    pub fn apply(
        &mut self,
        proposal: &Proposal,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> Option<CallResult> {
        if let Proposal::OfBatch { message, is_last } = proposal {
            self.gather(message, *is_last, around, out);
            return None;
        }
        self.reject_gathered(around);
        match proposal {
            Proposal::Message(message) => {
                self.apply_message(message, around, out);
                None
            }
            Proposal::OfBatch { .. } => None,
            Proposal::Purge(purge) => {
                let purged = self.purge(around.subjects, purge);
                Some(purged.map(Called::Purged))
            }
            Proposal::Delete(sequence) => {
                let deleted = self.delete_message(*sequence);
                Some(deleted.map(|()| Called::Deleted))
            }
            Proposal::Note(note) => {
                if !self.leads() {
                    self.take_note(*note, around);
                }
                None
            }
        }
    }

    /// A message is on its way.
    fn fly(&mut self, publish: &Publish, asked: &Asked<'_>, around: &Surroundings<'_>) {
        let bytes = self.record_bytes(around.subjects, publish, header_bytes(publish));
        if let Some(own) = &mut self.replicated {
            own.in_flight.add(asked, bytes);
            self.subject_mut(publish.subject).in_flight += 1;
        }
    }

    /// A message has come through. One that another leader proposed was never counted here.
    fn land(&mut self, publish: &Publish, asked: &Asked<'_>, around: &Surroundings<'_>) {
        if !self.leads() {
            return;
        }
        let bytes = self.record_bytes(around.subjects, publish, header_bytes(publish));
        let state = self.subject_mut(publish.subject);
        if let Some(left) = state.in_flight.checked_sub(1) {
            state.in_flight = left;
            if let Some(own) = &mut self.replicated {
                own.in_flight.settle(asked, bytes);
            }
        }
    }

    fn forget_in_flight(&mut self) {
        if let Some(own) = &mut self.replicated {
            own.in_flight = Ahead::default();
        }
        for state in &mut self.subjects {
            state.in_flight = 0;
        }
    }

    fn apply_message(
        &mut self,
        message: &Proposed,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        let publish = &message.publish;
        let headers = publish.headers.as_deref();
        let asked = headers.map_or(Asked::NOTHING, Asked::read);
        self.land(publish, &asked, around);
        if let Err(Hindrance::Refused(error)) = self.check_last_message_id(&asked) {
            // A batch counts the message as accepted and never as stored.
            if self.leads() {
                self.refuse(publish, error, out);
            }
            return;
        }
        let at_their_time = Surroundings {
            now: message.at,
            ..*around
        };
        match Fast::of(publish.control) {
            None => {
                let at = self.store_plain(publish, &asked, &at_their_time, out);
                if self.leads() {
                    self.acknowledge_plain(publish, at, false, out);
                }
            }
            Some(fast) if self.leads() => match self.batches.find(fast.batch) {
                Some(slot) => {
                    if self.store_and_register(publish, fast, slot, &asked, &at_their_time, out) {
                        self.end_applied(slot, fast, around, out);
                    }
                }
                // Forgotten meanwhile: the message stays, and nobody hears of it.
                None => {
                    self.store_loose(publish, fast, &asked, &at_their_time, out);
                }
            },
            Some(fast) => self.follow(publish, fast, &asked, around, &at_their_time, out),
        }
    }

    /// A follower stores a message of a fast batch, and notes how far the batch has come.
    fn follow(
        &mut self,
        publish: &Publish,
        fast: Fast,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        at_their_time: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        let known = self.batches.find(fast.batch);
        if fast.operation == Operation::Commit {
            let at = self.store_loose(publish, fast, asked, at_their_time, out);
            if let Some(slot) = known {
                self.batches.remove(slot);
            }
            if !around.replica_defects.late_commits_are_silent {
                self.owe(publish, fast, at, around);
            }
            return;
        }
        let slot =
            known.unwrap_or_else(|| self.open_follower(fast.batch, fast.flow, fast.gap, around));
        let at = self.store_fast(publish, fast, slot, asked, at_their_time, out);
        self.batches.restart_timer(slot, around.now);
        if let Some((ingest, _)) = self.batches.get_mut(slot) {
            ingest.follow(fast.sequence, at, publish.reply);
        }
    }

    /// Stores a message of a fast batch that is not registered, or not for longer.
    fn store_loose(
        &mut self,
        publish: &Publish,
        fast: Fast,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> StreamSequence {
        let origin = self.log.origin(Origin {
            batch: Some(fast.batch),
            subject: publish.subject,
            subject_bytes: around.subjects.text(publish.subject).len() as u32,
        });
        let incoming = Incoming {
            subject: publish.subject,
            sender: Sender::Known(origin),
            sequence: fast.sequence,
            payload: publish.payload,
            headers: publish.headers.as_ref(),
        };
        let at = self.store(around, &incoming, asked);
        out.emit(Effect::Fact(Fact::Stored {
            batch: Some(fast.batch),
            sequence: fast.sequence,
            stream: self.number,
            stream_sequence: at,
            payload: publish.payload,
        }));
        at
    }

    /// Keeps a message of an atomic batch until the end of the batch. One that does not follow on what
    /// is kept rejects that, here as on every replica, and counts only if it begins a batch itself.
    fn gather(
        &mut self,
        message: &Proposed,
        is_last: bool,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        let key = |message: &Proposed| {
            let member = message.publish.control.membership();
            member.map(|member| (member.batch, member.sequence))
        };
        let last = self.replicated.as_ref().and_then(|own| own.gathered.last());
        let next = last.and_then(key).map(|(batch, last)| (batch, last.next()));
        let follows = next.is_some() && next == key(message);
        if !follows {
            self.reject_gathered(around);
        }
        if let Some(own) = &mut self.replicated {
            own.gathered.push(message.clone());
        }
        let begins = key(message).is_some_and(|(_, sequence)| sequence == BatchSequence(1));
        if !follows && !begins {
            self.reject_gathered(around);
        } else if is_last {
            self.apply_atomic(around, out);
        }
    }

    /// What was gathered has no end: it is not stored on any replica.
    fn reject_gathered(&mut self, around: &Surroundings<'_>) {
        let Some(own) = &mut self.replicated else {
            return;
        };
        if own.gathered.is_empty() {
            return;
        }
        for message in std::mem::take(&mut own.gathered) {
            let headers = message.publish.headers.clone();
            let asked = headers.as_deref().map_or(Asked::NOTHING, Asked::read);
            self.land(&message.publish, &asked, around);
        }
    }

    /// The batch is whole.
    fn apply_atomic(&mut self, around: &Surroundings<'_>, out: &mut impl Sink<Effect>) {
        let Some(own) = &mut self.replicated else {
            return;
        };
        let gathered = std::mem::take(&mut own.gathered);
        let Some(last) = gathered.last() else {
            return;
        };
        let (reply, now) = (last.publish.reply, last.at);
        let messages: Vec<Publish> = gathered.into_iter().map(|one| one.publish).collect();
        for message in &messages {
            let headers = message.headers.as_deref();
            let asked = headers.map_or(Asked::NOTHING, Asked::read);
            self.land(message, &asked, around);
        }
        let at_their_time = Surroundings { now, ..*around };
        let sequence = self.store_atomic(&messages, &at_their_time, out);
        let Some(batch) = batch_of(&messages) else {
            return;
        };
        if !self.leads() {
            return;
        }
        out.emit(forgotten(batch, true));
        if let Some(to) = reply.filter(|_| !self.config.no_ack) {
            let ack = PubAck {
                sequence,
                count: Some(BatchSequence(messages.len() as u64)),
                duplicate: false,
            };
            out.emit(Effect::Answer(to, Reply::PubAck(ack, Some(batch))));
        }
    }
}

fn batch_of(messages: &[Publish]) -> Option<BatchHandle> {
    let member = messages.first()?.control.membership()?;
    Some(member.batch)
}

impl Fast {
    /// What the reply subject says, if the message is one of fast ingest.
    pub(super) const fn of(control: Control) -> Option<Self> {
        match control {
            Control::Fast {
                batch,
                flow,
                gap,
                sequence,
                operation,
            } => Some(Self {
                batch,
                flow,
                gap,
                sequence,
                operation,
            }),
            _ => None,
        }
    }
}
