//! One fast batch at the server: what has arrived, what is stored, and what to answer.
//!
//! Every rule of the batch itself lives here; whether a message may go into the stream is the
//! stream's business. The order within one message: [`Ingest::arrive`], then the stream's checks,
//! then exactly one of [`Ingest::stored`], [`Ingest::duplicate`], [`Ingest::refused`] or, where the
//! store itself refuses, none: the message then stays pending, as it does in nats-server.
//! Leans on `flow` and the words of `nats`. ADR-50 [fast.gap.fail, fast.gap.ok, fast.gap.backward,
//! fast.check.fail, fast.check.ok, fast.pub-ack.count, fast.ping.repeats, fast.ping.gap].

use super::flow::{FlowPolicy, Policy, Pressure};
use crate::batch::message::ReplyTo;
use crate::machine::Sink;
use crate::nats::ack::{FlowAck, FlowError, Gap, PubAck};
use crate::nats::error_code::{ApiError, ErrorCode};
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// What all batches of a stream have in common while one message is handled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// How flow is chosen.
    pub policy: Policy,
    /// What the policy looks at.
    pub pressure: Pressure,
    /// The stream has `no_ack`.
    pub no_ack: bool,
    /// Bugs switched on.
    pub defects: BatchDefects,
}

/// Bugs that a batch can have: of old servers, or for judges to find.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct BatchDefects {
    /// Acks a full flow interval before it is stored.
    pub ack_before_store: bool,
    /// The PubAck counts one message too many.
    pub count_one_more: bool,
    /// Every second flow ack only is sent.
    pub ack_half_as_often: bool,
    /// A ping with sequence 1 opens a batch.
    pub ping_opens: bool,
    /// A repeated or lower sequence is told in no gap.
    pub backward_silent: bool,
    /// In gap mode ok a repeated or lower sequence sets the batch back.
    pub rewinds: bool,
    /// A gap names the last sequence received as the expected one.
    pub gap_one_too_low: bool,
    /// In gap mode ok a commit that is refused or a duplicate ends nothing, and a refusal that ends
    /// the batch does not settle it.
    pub ok_commit_strands: bool,
    /// A new batch does not count itself where its first flow is chosen.
    pub uncounted_at_open: bool,
    /// An advisory tells of a batch that was forgotten by the idle timeout.
    pub idle_advisory: bool,
    /// A refused message moves neither the persisted sequence nor the flow.
    pub refusals_do_not_count: bool,
    /// A ping behind an end of batch whose PubAck is still to come counts as a message.
    pub ping_after_end_counts: bool,
    /// A stream with `no_ack` does not send the first ack.
    pub no_first_ack: bool,
}

/// What a batch answers to the message in hand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Answer {
    /// Flow ack.
    Ack(FlowAck),
    /// Gap.
    Gap(Gap),
    /// Flow error.
    Error(FlowError),
    /// The batch is over.
    PubAck(PubAck),
    /// Error in place of a PubAck: the batch is over and nothing came of it.
    Refused(ApiError),
}

/// What becomes of a message after the batch has looked at its sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// The stream checks it and stores it.
    Check,
    /// Nothing more: it is dealt with.
    Done,
    /// Nothing more, and the batch is to be forgotten.
    Forget,
}

/// One fast batch. Invariant, unless it [rewinds](BatchDefects::rewinds): `acked <= persisted <=
/// received`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Ingest {
    /// Highest batch sequence accepted.
    received: BatchSequence,
    /// Highest batch sequence that counts as stored: duplicates, refusals and gaps included.
    persisted: BatchSequence,
    /// Batch sequence of the last flow ack.
    acked: BatchSequence,
    /// Stream sequence of the last message that this batch stored.
    stored: StreamSequence,
    /// Messages that passed the checks and are not stored. On one server that is the message in
    /// hand, plus those that the store refused: these stay for good.
    pending: u64,
    /// Flow in force.
    flow: u16,
    /// Highest flow that the client wants.
    most: u16,
    /// Gap mode of the message that opened the batch: rules over gaps, repeats and pings.
    gap: GapMode,
    committing: bool,
    /// Reply subject of the last message stored.
    reply: Option<ReplyTo>,
    /// Flow acks that came due so far are odd in number. Only kept with the defect that needs it.
    odd_ack: bool,
}

impl Ingest {
    /// Opens a batch. `rules.pressure` counts it already.
    pub fn open(flow: u16, gap: GapMode, rules: Rules) -> Self {
        Self {
            received: BatchSequence(0),
            persisted: BatchSequence(0),
            acked: BatchSequence(0),
            stored: StreamSequence(0),
            pending: 0,
            flow: rules.policy.initial(flow, rules.pressure),
            most: flow,
            gap,
            committing: false,
            reply: None,
            odd_ack: false,
        }
    }

    /// The flow in force.
    pub const fn flow(&self) -> u16 {
        self.flow
    }

    /// Highest batch sequence accepted.
    pub const fn received(&self) -> BatchSequence {
        self.received
    }

    /// Whether the commit is in: such a batch has no idle timeout.
    pub const fn is_committing(&self) -> bool {
        self.committing
    }

    /// Reply subject of the last message that was stored.
    pub const fn reply(&self) -> Option<ReplyTo> {
        self.reply
    }

    /// The leader tells a follower how far the batch has come without a message that is stored.
    pub fn catch_up(&mut self, sequence: BatchSequence) {
        self.received = self.received.max(sequence);
        self.persisted = self.received;
    }

    /// A follower applied a message of this batch: it knows what is stored, and nothing of what was
    /// received. nats-server's `applyStreamMsgOp`.
    pub const fn follow(
        &mut self,
        sequence: BatchSequence,
        at: StreamSequence,
        reply: Option<ReplyTo>,
    ) {
        self.received = sequence;
        self.persisted = sequence;
        self.stored = at;
        self.reply = reply;
    }

    /// The replica has become leader: the batch goes on from what is stored, with a flow chosen anew
    /// and an ack that says so, for [`Ingest::reply`]. `rules.pressure` counts the batch.
    /// ADR-50 [fast.leader.survive].
    pub fn reset(&mut self, rules: Rules, out: &mut impl Sink<Answer>) {
        self.flow = rules.policy.initial(self.most, rules.pressure);
        self.committing = false;
        self.pending = 0;
        self.received = self.persisted;
        self.acked = self.persisted;
        self.repeat_ack(self.acked, out);
    }

    /// Takes a message of this batch: its sequence and what it asks for.
    pub fn arrive(
        &mut self,
        operation: Operation,
        sequence: BatchSequence,
        rules: Rules,
        out: &mut impl Sink<Answer>,
    ) -> Next {
        if operation == Operation::Ping {
            return self.ping(sequence, rules, out);
        }
        if self.committing {
            return Next::Done;
        }
        if sequence != self.received.next() {
            let is_back = sequence <= self.received;
            if !(is_back && rules.defects.backward_silent) {
                out.emit(self.gap_before(sequence, rules));
            }
            if self.gap == GapMode::Fail || (is_back && !rules.defects.rewinds) {
                return self.commit(rules, out);
            }
        }
        self.received = sequence;
        match operation {
            Operation::CommitEob => {
                // The end itself is no message and does not count.
                self.received.0 -= 1;
                self.settle();
                return self.commit(rules, out);
            }
            // Completes when the message is dealt with: it cannot be now.
            Operation::Commit => self.committing = true,
            Operation::Start => {
                if !(rules.no_ack && rules.defects.no_first_ack) {
                    self.repeat_ack(BatchSequence(0), out);
                }
            }
            Operation::Append | Operation::Ping => {}
        }
        Next::Check
    }

    /// The message that [`Ingest::arrive`] let pass also passed the stream's checks: it is about to
    /// be stored.
    pub const fn accepted(&mut self) {
        self.pending += 1;
    }

    /// An accepted message was stored; true if the batch is over.
    pub fn stored(
        &mut self,
        sequence: BatchSequence,
        at: StreamSequence,
        reply: Option<ReplyTo>,
        rules: Rules,
        out: &mut impl Sink<Answer>,
    ) -> bool {
        self.reply = reply;
        self.stored = at;
        self.pending = self.pending.saturating_sub(1);
        self.persisted = if self.pending == 0 {
            // Skips over duplicates, refusals and gaps.
            self.received
        } else {
            sequence
        };
        if self.committing && self.persisted == self.received {
            // A stream without acks stays silent here only while a refused message is pending.
            if !(rules.no_ack && self.pending > 0) {
                self.pub_ack(rules, out);
            }
            return true;
        }
        self.advance_flow(rules, out);
        false
    }

    /// The message in hand is a duplicate of the one at `original` in the stream, or of one that is
    /// on its way there if that is 0; true if the batch is over. `gap` is the message's own gap mode.
    pub fn duplicate(
        &mut self,
        operation: Operation,
        gap: GapMode,
        original: StreamSequence,
        rules: Rules,
        out: &mut impl Sink<Answer>,
    ) -> bool {
        self.pass_over(rules, out);
        if operation != Operation::Commit || (gap == GapMode::Ok && rules.defects.ok_commit_strands)
        {
            return false;
        }
        if gap == GapMode::Fail && self.received == BatchSequence(1) {
            if original == StreamSequence(0) {
                out.emit(Answer::Refused(ErrorCode::DuplicateInProcess.into()));
                return true;
            }
            out.emit(Answer::PubAck(PubAck {
                sequence: original,
                count: Some(self.counted(rules)),
                duplicate: true,
            }));
            return true;
        }
        self.complete(rules, out)
    }

    /// The message in hand failed a check; true if the batch is over. `gap` is the message's own
    /// gap mode.
    pub fn refused(
        &mut self,
        operation: Operation,
        gap: GapMode,
        error: ApiError,
        rules: Rules,
        out: &mut impl Sink<Answer>,
    ) -> bool {
        if gap == GapMode::Fail && self.received == BatchSequence(1) {
            out.emit(Answer::Refused(error));
            return true;
        }
        out.emit(Answer::Error(FlowError {
            sequence: self.received,
            error,
        }));
        let strands = rules.defects.ok_commit_strands;
        if gap == GapMode::Ok && operation != Operation::Commit {
            if !rules.defects.refusals_do_not_count {
                self.pass_over(rules, out);
            }
            return false;
        }
        if gap == GapMode::Ok && strands {
            return false;
        }
        self.received.0 -= 1;
        if !strands {
            self.settle();
        }
        self.committing = true;
        self.complete(rules, out)
    }

    fn ping(&mut self, sequence: BatchSequence, rules: Rules, out: &mut impl Sink<Answer>) -> Next {
        let counts = !self.committing || rules.defects.ping_after_end_counts;
        if sequence <= self.received || !counts {
            self.repeat_ack(self.acked, out);
            return Next::Done;
        }
        out.emit(self.gap_before(sequence.next(), rules));
        match self.gap {
            GapMode::Ok => {
                self.received = sequence;
                self.settle();
                if !self.advance_flow(rules, out) {
                    self.repeat_ack(self.acked, out);
                }
                Next::Done
            }
            GapMode::Fail => match self.commit(rules, out) {
                Next::Forget => Next::Forget,
                Next::Check | Next::Done => {
                    self.repeat_ack(self.acked, out);
                    Next::Done
                }
            },
        }
    }

    /// What is told where `received` came instead of the next message.
    const fn gap_before(&self, received: BatchSequence, rules: Rules) -> Answer {
        let expected = if rules.defects.gap_one_too_low {
            self.received
        } else {
            self.received.next()
        };
        Answer::Gap(Gap { expected, received })
    }

    /// The message in hand is dealt with and not stored: it counts for the flow, if not behind one that
    /// is on its way to the store.
    fn pass_over(&mut self, rules: Rules, out: &mut impl Sink<Answer>) {
        if self.pending == 0 {
            self.persisted = self.received;
            self.advance_flow(rules, out);
        }
    }

    /// With nothing on its way to the store, all that arrived is dealt with.
    const fn settle(&mut self) {
        if self.pending == 0 {
            self.persisted = self.received;
        }
    }

    fn commit(&mut self, rules: Rules, out: &mut impl Sink<Answer>) -> Next {
        if self.committing {
            return Next::Done;
        }
        self.committing = true;
        if self.complete(rules, out) {
            Next::Forget
        } else {
            Next::Done
        }
    }

    /// Ends the batch if everything that arrived is dealt with.
    fn complete(&self, rules: Rules, out: &mut impl Sink<Answer>) -> bool {
        let over = self.received == self.persisted;
        if over {
            self.pub_ack(rules, out);
        }
        over
    }

    fn pub_ack(&self, rules: Rules, out: &mut impl Sink<Answer>) {
        out.emit(Answer::PubAck(PubAck {
            sequence: self.stored,
            count: Some(self.counted(rules)),
            duplicate: false,
        }));
    }

    fn counted(&self, rules: Rules) -> BatchSequence {
        BatchSequence(self.received.0 + u64::from(rules.defects.count_one_more))
    }

    fn repeat_ack(&self, sequence: BatchSequence, out: &mut impl Sink<Answer>) {
        out.emit(Answer::Ack(FlowAck {
            sequence,
            messages: self.flow,
        }));
    }

    /// Acks if a flow interval is full; true if it was. One ack stands for several full intervals.
    fn advance_flow(&mut self, rules: Rules, out: &mut impl Sink<Answer>) -> bool {
        let flow = u64::from(self.flow.max(1));
        let mut reached = self.persisted.0;
        if rules.defects.ack_before_store {
            reached = reached.saturating_add(flow);
        }
        let ahead = reached.saturating_sub(self.acked.0);
        if ahead < flow {
            return false;
        }
        self.acked.0 += ahead / flow * flow;
        self.flow = rules.policy.next(self.flow, self.most, rules.pressure);
        self.odd_ack = rules.defects.ack_half_as_often && !self.odd_ack;
        if !self.odd_ack {
            self.repeat_ack(self.acked, out);
        }
        true
    }

    /// Whether the invariant between the three sequences holds.
    #[cfg(test)]
    pub(crate) fn is_ordered(&self) -> bool {
        self.acked <= self.persisted && self.persisted <= self.received
    }
}

#[cfg(test)]
mod tests;
