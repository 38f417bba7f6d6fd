//! Atomic batches through a stream: staged as they come, checked and stored whole at the commit.
//!
//! Checking (`check_atomic`) leaves the log as it is, and storing (`store_atomic`) asks nothing, so
//! that a stream with replicas can put its proposal in between. Leans on `batch::atomic`, `ahead`, `check` and `keep`. ADR-50 [atomic.checks,
//! atomic.pub-ack, atomic.commit.eob-header, atomic.answer.commit].

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ahead::InBatch;
use super::ask::{self, Asked};
use super::check::{Hindrance, header_bytes};
use super::config::Retention;
use super::intake::without_level;
use super::keep::{Incoming, Sender};
use super::log::{Origin, OriginId};
use super::{Effect, Stream, Surroundings};
use crate::batch::atomic::staging::{Ended, Next};
use crate::batch::message::{
    AtomicCommit, AtomicFact, BatchHandle, Fact, Membership, Publish, Reply, SubjectId,
};
use crate::machine::Sink;
use crate::nats::ack::PubAck;
use crate::nats::error_code::{ApiError, Detail, ErrorCode};
use crate::nats::header::{BATCH_COMMIT, EXPECTED_LAST_MESSAGE_ID};
use crate::nats::{BatchSequence, StreamSequence};

/// Bugs of a stream that come with atomic batches.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AtomicDefects {
    /// A batch that fails its checks leaves the messages that passed in the last sequence which
    /// messages of fast batches expect.
    pub shifts_last: bool,
    /// The header that an end of batch adds is not counted before the batch is stored.
    pub eob_store_refused: bool,
}

impl Stream {
    /// Takes a message of an atomic batch.
    pub(super) fn take_atomic(
        &mut self,
        publish: &Publish,
        member: Membership,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        if let Err(error) = self.check_before_atomic(publish) {
            return self.refuse_atomic(publish, member, error, out);
        }
        let level = asked.api_level;
        let is_met = level.is_none_or(|level| ask::level_is_met(level, around.api_level));
        let staged = || match level.and(publish.headers.as_deref()) {
            None => publish.clone(),
            Some(headers) => without_level(publish, headers),
        };
        let taken = self
            .staging
            .take(around.now, member, is_met, around.staging, staged);
        if taken.is_new {
            let batch = member.batch;
            out.emit(Effect::Fact(Fact::Atomic(AtomicFact::Opened { batch })));
        }
        match taken.next {
            Next::Staged => self.answer_atomic(publish, Reply::Empty, out),
            Next::Refused(error, ended) => {
                if let Some(ended) = ended {
                    self.tell_ended(ended, out);
                }
                self.refuse_atomic(publish, member, error, out);
            }
            Next::Commit(messages) => {
                if let Some(answer) = self.commit(publish, member, messages, around, out) {
                    self.answer_atomic(publish, answer, out);
                }
            }
        }
    }

    /// A message whose batch id is too long: no batch is touched.
    pub(super) fn take_bad_atomic_id(&self, publish: &Publish, out: &mut impl Sink<Effect>) {
        let error = match self.check_before_atomic(publish) {
            Err(error) => error,
            Ok(()) => ErrorCode::AtomicId.into(),
        };
        self.answer_atomic(publish, Reply::Refused(Box::new(error)), out);
    }

    /// Forgets all atomic batches, without a word to their clients.
    pub(super) fn forget_atomic_batches(&mut self, out: &mut (impl Sink<Effect> + ?Sized)) {
        for ended in self.staging.clear() {
            self.tell_ended(ended, out);
        }
    }

    /// Tells what is over without having been stored.
    pub(super) fn tell_ended(&self, ended: Ended<Publish>, out: &mut (impl Sink<Effect> + ?Sized)) {
        let Ended {
            batch,
            messages,
            advisory,
        } = ended;
        for message in &messages {
            if let Some(member) = message.control.membership() {
                out.emit(dropped(member, message));
            }
        }
        if let Some(reason) = advisory {
            out.emit(Effect::Fact(Fact::Abandoned {
                batch,
                stream: self.number,
                reason,
            }));
        }
        out.emit(forgotten(batch, false));
    }

    fn check_before_atomic(&self, publish: &Publish) -> Result<(), ApiError> {
        let header_bytes = header_bytes(publish);
        let allowed = (self.config.allow_atomic, ErrorCode::AtomicDisabled);
        self.check_before_batch(publish, header_bytes, allowed)
    }

    /// The batch is complete: all of it goes into the stream, or nothing. Without an answer it was
    /// proposed.
    fn commit(
        &mut self,
        commit: &Publish,
        member: Membership,
        mut messages: Vec<Publish>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> Option<Reply> {
        let batch = member.batch;
        let is_eob = member.commit == AtomicCommit::Eob;
        let marks_late = is_eob && around.atomic_defects.eob_store_refused && !self.is_replicated();
        if is_eob && !marks_late {
            mark_last(&mut messages);
        }
        if let Err(error) = self.check_atomic(&messages, around) {
            self.staging.close(batch);
            let ended = Ended {
                batch,
                messages,
                advisory: None,
            };
            self.tell_ended(ended, out);
            return Some(Reply::Refused(Box::new(error)));
        }
        if self.is_replicated() {
            if let Some(last) = messages.last_mut() {
                // The end of a batch is not stored, and it is what the answer is for.
                last.reply = commit.reply;
            }
            self.staging.close(batch);
            self.propose_atomic(messages, around);
            return None;
        }
        let stored = if marks_late {
            mark_last(&mut messages);
            self.store_marked(&messages, around, out)
        } else {
            Ok(self.store_atomic(&messages, around, out))
        };
        Some(match stored {
            Err(error) => Reply::Refused(Box::new(error)),
            Ok(sequence) => {
                self.staging.close(batch);
                out.emit(forgotten(batch, true));
                let ack = PubAck {
                    sequence,
                    count: Some(BatchSequence(messages.len() as u64)),
                    duplicate: false,
                };
                Reply::PubAck(ack, Some(batch))
            }
        })
    }

    /// The checks of a whole batch, message by message, each as if those before it were stored.
    fn check_atomic(
        &mut self,
        messages: &[Publish],
        around: &Surroundings<'_>,
    ) -> Result<(), ApiError> {
        let mut ahead = InBatch::default();
        let checked = messages
            .iter()
            .try_for_each(|message| self.check_behind(message, around, &mut ahead));
        let shifts = around.atomic_defects.shifts_last && !self.is_replicated();
        self.shifted_last = if checked.is_err() && shifts {
            self.log.last().0 + ahead.all().messages()
        } else {
            0
        };
        checked
    }

    /// A message that the store has refused is taken off what a failed batch has left in the last
    /// sequence (`stream.go`, `bumpCLFS`).
    pub(super) fn unshift_last(&mut self, code: ErrorCode) {
        if matches!(code, ErrorCode::StoreFailed | ErrorCode::WrongLastMessageId) {
            self.shifted_last = self.shifted_last.saturating_sub(1);
        }
    }

    /// The checks of one message of a batch, which is then ahead of the next one.
    fn check_behind(
        &mut self,
        message: &Publish,
        around: &Surroundings<'_>,
        ahead: &mut InBatch,
    ) -> Result<(), ApiError> {
        let headers = message.headers.as_deref();
        let asked = headers.map_or(Asked::NOTHING, Asked::read);
        if asked.last_message_id.is_some() {
            let detail = Detail::Text(EXPECTED_LAST_MESSAGE_ID.into());
            return Err(ApiError::new(ErrorCode::AtomicHeader, detail));
        }
        let bytes = header_bytes(message);
        let checked = self.check_batched(around, message, &asked, bytes, Some(ahead));
        checked.map_err(|hindrance| match hindrance {
            Hindrance::Duplicate(StreamSequence(0)) => ErrorCode::DuplicateInProcess.into(),
            Hindrance::Duplicate(_) => ErrorCode::AtomicDuplicate.into(),
            Hindrance::Refused(error) => error,
        })?;
        let record = self.record_bytes(around.subjects, message, bytes);
        ahead.add(message.subject, &asked, record);
        Ok(())
    }

    /// Stores messages that passed their checks, in order; gives the sequence of the last one.
    pub(super) fn store_atomic(
        &mut self,
        messages: &[Publish],
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> StreamSequence {
        let mut origins: BTreeMap<SubjectId, OriginId> = BTreeMap::new();
        let mut last = StreamSequence(0);
        for message in messages {
            let Some(member) = message.control.membership() else {
                continue;
            };
            let subject = message.subject;
            let origin = *origins.entry(subject).or_insert_with(|| {
                self.log.origin(Origin {
                    batch: Some(member.batch),
                    subject,
                    subject_bytes: around.subjects.text(subject).len() as u32,
                })
            });
            let incoming = Incoming {
                subject,
                sender: Sender::Known(origin),
                sequence: member.sequence,
                payload: message.payload,
                headers: message.headers.as_ref(),
            };
            let headers = message.headers.as_deref();
            let asked = headers.map_or(Asked::NOTHING, Asked::read);
            last = self.store(around, &incoming, &asked);
            out.emit(Effect::Fact(Fact::Atomic(AtomicFact::Stored {
                batch: member.batch,
                sequence: member.sequence,
                stream: self.number,
                stream_sequence: last,
                payload: message.payload,
            })));
        }
        last
    }

    /// Stores a batch whose last message got a header after its checks, for which there may be no
    /// room: then all but that message are stored, and the batch keeps its place among those in
    /// flight until its id is used again.
    fn store_marked(
        &mut self,
        messages: &[Publish],
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> Result<StreamSequence, ApiError> {
        let Some((last, before)) = messages.split_last() else {
            return Ok(StreamSequence(0));
        };
        self.store_atomic(before, around, out);
        if self.config.retention != Retention::Interest {
            let bytes = header_bytes(last);
            let asked = last.headers.as_deref().map_or(Asked::NOTHING, Asked::read);
            let room = self.check_room_at_store(around.subjects, last, &asked, bytes);
            if let Err(Hindrance::Refused(error)) = room {
                if let Some(member) = last.control.membership() {
                    out.emit(dropped(member, last));
                }
                return Err(error);
            }
        }
        let last = std::slice::from_ref(last);
        Ok(self.store_atomic(last, around, out))
    }

    fn refuse_atomic(
        &self,
        publish: &Publish,
        member: Membership,
        error: ApiError,
        out: &mut impl Sink<Effect>,
    ) {
        if member.commit != AtomicCommit::Eob {
            out.emit(dropped(member, publish));
        }
        self.answer_atomic(publish, Reply::Refused(Box::new(error)), out);
    }

    /// A stream without acks answers nothing at all.
    fn answer_atomic(&self, publish: &Publish, reply: Reply, out: &mut impl Sink<Effect>) {
        if let Some(to) = publish.reply.filter(|_| !self.config.no_ack) {
            out.emit(Effect::Answer(to, reply));
        }
    }
}

/// An end of batch makes the message before it the commit.
fn mark_last(messages: &mut [Publish]) {
    let Some(last) = messages.last_mut() else {
        return;
    };
    let mut headers = last.headers.as_deref().cloned().unwrap_or_default();
    // Name and value are lawful: this does not fail.
    let _ = headers.append(BATCH_COMMIT, "1");
    last.headers = Some(Arc::new(headers));
}

fn dropped(member: Membership, publish: &Publish) -> Effect {
    Effect::Fact(Fact::Atomic(AtomicFact::Dropped {
        batch: member.batch,
        sequence: member.sequence,
        payload: publish.payload,
    }))
}

pub(super) fn forgotten(batch: BatchHandle, committed: bool) -> Effect {
    Effect::Fact(Fact::Atomic(AtomicFact::Forgotten { batch, committed }))
}
