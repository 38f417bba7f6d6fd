//! One message through a stream: the order of checks, and the batch that it belongs to.
//!
//! Leans on `batch::fast`, `check` and `keep`.

use std::sync::Arc;

use super::ahead::Ahead;
use super::ask::{self, Asked};
use super::check::{Hindrance, header_bytes};
use super::keep::{Incoming, Sender};
use super::{BatchOrigins, Effect, Stream, Surroundings};
use crate::batch::fast::flow::{BACKLOG_FULL, Pressure};
use crate::batch::fast::ingest::{Answer, Ingest, Next, Rules};
use crate::batch::fast::table::SlotId;
use crate::batch::message::{BatchHandle, Control, Fact, Payload, Publish, Reply, ReplyTo};
use crate::machine::Sink;
use crate::nats::error_code::{ApiError, ErrorCode};
use crate::nats::header::{Headers, REQUIRED_API_LEVEL};
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// Every so manieth message of a batch the defect stores twice.
const TWICE_EVERY: u64 = 100;

/// A fast-ingest message, its reply subject read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fast {
    pub(super) batch: BatchHandle,
    pub(super) flow: u16,
    pub(super) gap: GapMode,
    pub(super) sequence: BatchSequence,
    pub(super) operation: Operation,
}

/// Passes the answers of a batch on to the reply subject of the message in hand.
pub(super) struct Answers<'a, S> {
    pub(super) to: Option<ReplyTo>,
    pub(super) batch: BatchHandle,
    pub(super) out: &'a mut S,
}

impl<S: Sink<Effect>> Sink<Answer> for Answers<'_, S> {
    fn emit(&mut self, answer: Answer) {
        let Some(to) = self.to else {
            return;
        };
        let reply = match answer {
            Answer::Ack(ack) => Reply::Ack(ack),
            Answer::Gap(gap) => Reply::Gap(gap),
            Answer::Error(error) => Reply::Error(Box::new(error)),
            Answer::PubAck(ack) => Reply::PubAck(ack, Some(self.batch)),
            Answer::Refused(error) => Reply::Refused(Box::new(error)),
        };
        self.out.emit(Effect::Answer(to, reply));
    }
}

impl Stream {
    /// Takes one message that arrived on a subject of this stream.
    pub fn take(
        &mut self,
        publish: &Publish,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        let read;
        let asked = match publish.headers.as_deref() {
            None => &Asked::NOTHING,
            Some(headers) => {
                read = Asked::read(headers);
                &read
            }
        };
        let header_bytes = header_bytes(publish);
        match publish.control {
            Control::Plain => self.take_plain(publish, asked, header_bytes, around, out),
            Control::BadPattern | Control::BadBatchId => {
                let error = match self.check_before_fast(publish, header_bytes) {
                    Err(error) => error,
                    Ok(()) if publish.control == Control::BadPattern => {
                        ErrorCode::BatchPattern.into()
                    }
                    Ok(()) => ErrorCode::BatchId.into(),
                };
                self.refuse(publish, error, out);
            }
            Control::Fast { .. } => {
                if let Some(fast) = Fast::of(publish.control) {
                    self.take_fast(publish, fast, asked, header_bytes, around, out);
                }
            }
            Control::BadAtomicId => self.take_bad_atomic_id(publish, out),
            Control::Atomic { .. } => {
                if let Some(member) = publish.control.membership() {
                    self.take_atomic(publish, member, asked, around, out);
                }
            }
        }
    }

    fn check_before_fast(&self, publish: &Publish, header_bytes: u32) -> Result<(), ApiError> {
        let allowed = (self.config.allow_batched, ErrorCode::BatchDisabled);
        self.check_before_batch(publish, header_bytes, allowed)
    }

    /// The checks that touch no batch: a message that fails one consumes no batch sequence. The last
    /// is whether the stream takes such batches.
    pub(super) fn check_before_batch(
        &self,
        publish: &Publish,
        header_bytes: u32,
        (is_allowed, disabled): (bool, ErrorCode),
    ) -> Result<(), ApiError> {
        if self.config.sealed {
            return Err(ErrorCode::Sealed.into());
        }
        if let Err(Hindrance::Refused(error)) = self.check_size(header_bytes, publish.payload.bytes)
        {
            return Err(error);
        }
        if is_allowed {
            Ok(())
        } else {
            Err(disabled.into())
        }
    }

    fn take_fast(
        &mut self,
        publish: &Publish,
        fast: Fast,
        asked: &Asked<'_>,
        header_bytes: u32,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        if let Err(error) = self.check_before_fast(publish, header_bytes) {
            return self.refuse(publish, error, out);
        }
        let slot = match self.find_or_open(fast, around, out) {
            Ok(slot) => slot,
            Err(code) => return self.refuse(publish, code.into(), out),
        };
        if let Some(level) = asked.api_level
            && !ask::level_is_met(level, around.api_level)
        {
            self.end(slot, fast, around, out);
            return self.refuse(publish, ErrorCode::RequiredApiLevel.into(), out);
        }
        let rules = self.rules(around);
        let Some((ingest, _)) = self.batches.get_mut(slot) else {
            return;
        };
        let was_committing = ingest.is_committing();
        let mut answers = Answers {
            to: publish.reply,
            batch: fast.batch,
            out,
        };
        let next = ingest.arrive(fast.operation, fast.sequence, rules, &mut answers);
        let is_committing = ingest.is_committing();
        if is_committing {
            self.batches.stop_timer(slot);
        } else if !was_committing {
            self.batches.touch(slot, around.now);
        }
        match next {
            Next::Done => {}
            Next::Forget => self.end(slot, fast, around, out),
            Next::Check => {
                let over = match asked.api_level.and(publish.headers.as_deref()) {
                    None => self.take_checked(publish, fast, slot, asked, around, out),
                    Some(headers) => {
                        let stripped = without_level(publish, headers);
                        self.take_checked(&stripped, fast, slot, asked, around, out)
                    }
                };
                if over {
                    self.end(slot, fast, around, out);
                }
            }
        }
    }

    /// The batch of a message: known, or opened by this message.
    fn find_or_open(
        &mut self,
        fast: Fast,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> Result<SlotId, ErrorCode> {
        if let Some(slot) = self.batches.find(fast.batch) {
            return Ok(slot);
        }
        let may_open = fast.operation != Operation::Ping || around.defects.ping_opens;
        if fast.sequence != BatchSequence(1) || !may_open {
            return Err(ErrorCode::BatchUnknown);
        }
        if self.batches.is_full(around.limits) {
            return Err(ErrorCode::BatchInFlight);
        }
        let mut rules = self.rules(around);
        rules.pressure.open += u32::from(!around.defects.uncounted_at_open);
        let ingest = Ingest::open(fast.flow, fast.gap, rules);
        let flow = ingest.flow();
        let slot = self
            .batches
            .insert(around.now, fast.batch, ingest, BatchOrigins::default());
        out.emit(Effect::Fact(Fact::BatchOpened {
            batch: fast.batch,
            open: self.batches.open(),
            flow,
        }));
        Ok(slot)
    }

    /// Header checks, then store and register, or propose; true if the batch is over.
    fn take_checked(
        &mut self,
        publish: &Publish,
        fast: Fast,
        slot: SlotId,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> bool {
        let header_bytes = header_bytes(publish);
        let store_refuses = around.last_id_leaks || self.is_replicated();
        let mut checked = self.check_batched(around, publish, asked, header_bytes, None);
        if checked.is_ok() && !store_refuses {
            checked = self.check_last_message_id(asked);
        }
        let over = match checked {
            Err(hindrance) => self.hinder(publish, fast, slot, hindrance, around, out),
            Ok(()) => {
                if let Some((ingest, _)) = self.batches.get_mut(slot) {
                    ingest.accepted();
                }
                if self.is_replicated() {
                    self.propose(publish, asked, around);
                    return false;
                }
                if let Err(Hindrance::Refused(error)) = self.check_last_message_id(asked) {
                    self.unshift_last(error.code);
                    // The store refuses: the message counts as accepted and never as stored.
                    self.refuse(publish, error, out);
                    return false;
                }
                self.store_and_register(publish, fast, slot, asked, around, out)
            }
        };
        if !over
            && let Some((ingest, _)) = self.batches.get_mut(slot)
            && ingest.is_committing()
        {
            self.batches.stop_timer(slot);
        }
        over
    }

    /// A check keeps a message out of the stream; true if the batch is over.
    fn hinder(
        &mut self,
        publish: &Publish,
        fast: Fast,
        slot: SlotId,
        hindrance: Hindrance,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> bool {
        let rules = self.rules(around);
        let Some((ingest, _)) = self.batches.get_mut(slot) else {
            return false;
        };
        let mut answers = Answers {
            to: publish.reply,
            batch: fast.batch,
            out,
        };
        let over = match hindrance {
            Hindrance::Duplicate(original) => {
                answers.out.emit(Effect::Fact(Fact::Deduplicated {
                    batch: fast.batch,
                    sequence: fast.sequence,
                    payload: publish.payload,
                }));
                ingest.duplicate(fast.operation, fast.gap, original, rules, &mut answers)
            }
            Hindrance::Refused(error) => {
                let fact = rejected(publish.control, publish.payload, error.code);
                fact.into_iter().for_each(|fact| answers.out.emit(fact));
                ingest.refused(fast.operation, fast.gap, error, rules, &mut answers)
            }
        };
        if !over {
            let received = ingest.received();
            self.note_passed_over(fast, received, around);
        }
        over
    }

    /// Stores a message that the batch has accepted; true if the batch is over.
    pub(super) fn store_and_register(
        &mut self,
        publish: &Publish,
        fast: Fast,
        slot: SlotId,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> bool {
        let rules = self.rules(around);
        let at = self.store_fast(publish, fast, slot, asked, around, out);
        let Some((ingest, _)) = self.batches.get_mut(slot) else {
            return false;
        };
        let mut answers = Answers {
            to: publish.reply,
            batch: fast.batch,
            out,
        };
        ingest.stored(fast.sequence, at, publish.reply, rules, &mut answers)
    }

    pub(super) fn store_fast(
        &mut self,
        publish: &Publish,
        fast: Fast,
        slot: SlotId,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> StreamSequence {
        let message = Incoming {
            subject: publish.subject,
            sender: Sender::Fast(fast.batch, slot),
            sequence: fast.sequence,
            payload: publish.payload,
            headers: publish.headers.as_ref(),
        };
        let twice = around.store_twice && fast.sequence.0.is_multiple_of(TWICE_EVERY);
        let mut at = StreamSequence(0);
        for _ in 0..=u8::from(twice) {
            at = self.store(around, &message, asked);
            out.emit(Effect::Fact(Fact::Stored {
                batch: Some(fast.batch),
                sequence: fast.sequence,
                stream: self.number,
                stream_sequence: at,
                payload: publish.payload,
            }));
        }
        at
    }

    /// What is proposed and not applied, in thousandths of a backlog that counts as too large.
    fn backlog_permille(&self) -> u16 {
        let ahead = self.in_flight().map_or(0, Ahead::messages);
        (ahead.saturating_mul(1_000) / BACKLOG_FULL).min(1_000) as u16
    }

    pub(super) fn rules(&self, around: &Surroundings<'_>) -> Rules {
        Rules {
            policy: around.policy,
            pressure: Pressure {
                open: self.batches.open(),
                ingest_permille: around.ingest_permille,
                backlog_permille: self.backlog_permille(),
            },
            no_ack: self.config.no_ack,
            defects: around.defects,
        }
    }

    pub(super) fn forget(&mut self, slot: SlotId, batch: BatchHandle, out: &mut impl Sink<Effect>) {
        self.batches.remove(slot);
        out.emit(Effect::Fact(Fact::BatchForgotten { batch, idle: false }));
    }

    /// Refuses a message in place of a PubAck; a stream without acks does so in silence.
    pub(super) fn refuse(&self, publish: &Publish, error: ApiError, out: &mut impl Sink<Effect>) {
        if let Some(fact) = rejected(publish.control, publish.payload, error.code) {
            out.emit(fact);
        }
        if !self.config.no_ack {
            answer_refused(publish, error, out);
        }
    }
}

/// Answers a refused message in place of a PubAck.
pub(super) fn answer_refused(publish: &Publish, error: ApiError, out: &mut impl Sink<Effect>) {
    if let Some(to) = publish.reply {
        out.emit(Effect::Answer(to, Reply::Refused(Box::new(error))));
    }
}

fn rejected(control: Control, payload: Payload, code: ErrorCode) -> Option<Effect> {
    let fast = Fast::of(control)?;
    Some(Effect::Fact(Fact::Rejected {
        batch: fast.batch,
        operation: fast.operation,
        sequence: fast.sequence,
        payload,
        code: code.number(),
    }))
}

/// The message as it goes on once its required API level is met: without that header, and without
/// a header block if no other is left.
pub(super) fn without_level(publish: &Publish, headers: &Headers) -> Publish {
    let mut headers = headers.clone();
    headers.remove(REQUIRED_API_LEVEL);
    let left = !headers.lines().is_empty();
    Publish {
        headers: left.then(|| Arc::new(headers)),
        ..publish.clone()
    }
}
