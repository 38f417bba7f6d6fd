//! The atomic batches of one stream that wait for their commits: sequences, limits, idle timers.
//!
//! Nothing of a batch is in the stream before its commit. Then [`Staging::take`] hands over its
//! messages, and the batch stays registered until [`Staging::close`]: what lies between, checking
//! and storing on one server or proposing and applying on several, belongs to the stream.
//! Leans on `limits` and `machine`. ADR-50 [atomic.gap, atomic.unknown, atomic.error.ends,
//! atomic.idle, atomic.limit.size].

use std::collections::{BTreeMap, BTreeSet};

use crate::batch::limits::Limits;
use crate::batch::message::{AbandonReason, AtomicCommit, AtomicSequence, BatchHandle, Membership};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::nats::error_code::{ApiError, Detail, ErrorCode};

/// What all atomic batches of a stream have in common while one message is handled.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rules {
    /// Most batches in flight.
    pub limits: Limits,
    /// Most messages of a batch.
    pub messages_max: u64,
    /// Bugs switched on.
    pub defects: StagingDefects,
}

/// Bugs that the batches of a server can have before their commits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StagingDefects {
    /// A sequence that is no number is taken for the largest one.
    pub lenient_sequence: bool,
    /// An end of batch counts as a message against the largest batch.
    pub eob_counts: bool,
    /// No advisory for a batch whose required API level is not met.
    pub silent_level: bool,
}

/// What a message did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken<M> {
    /// It opened its batch.
    pub is_new: bool,
    /// What becomes of it.
    pub next: Next<M>,
}

/// What becomes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next<M> {
    /// It waits for the commit of its batch.
    Staged,
    /// The batch is complete. It stays registered, without a timer, until [`Staging::close`].
    Commit(Vec<M>),
    /// It is refused, and perhaps its batch with it.
    Refused(ApiError, Option<Ended<M>>),
}

/// A batch that is over without having been stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended<M> {
    /// Which batch.
    pub batch: BatchHandle,
    /// What was staged of it.
    pub messages: Vec<M>,
    /// Why it was abandoned, where an advisory tells so.
    pub advisory: Option<AbandonReason>,
}

/// One batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Batch<M> {
    messages: Vec<M>,
    received: BatchSequence,
    /// When it is abandoned; `NEVER` once its commit is in.
    deadline: Time,
}

/// The atomic batches registered on a stream. `M` is a message as the stream keeps it.
///
/// There are few (50 by default) and each message of them takes far more than a lookup.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Staging<M> {
    batches: BTreeMap<BatchHandle, Batch<M>>,
    timers: BTreeSet<(Time, BatchHandle)>,
    /// The first of `timers`.
    due: Time,
    timeout: Time,
}

impl<M> Staging<M> {
    /// No batches; those to come are abandoned after `timeout` without messages.
    pub const fn new(timeout: Time) -> Self {
        Self {
            batches: BTreeMap::new(),
            timers: BTreeSet::new(),
            due: Time::NEVER,
            timeout,
        }
    }

    /// Batches registered: those that were stranded by their commit included.
    pub fn open(&self) -> u32 {
        // Limits are of this type.
        self.batches.len() as u32
    }

    /// Takes a message of a batch. `level_is_met` says whether the server has the API level that it
    /// requires, `message` gives it as it is to be staged.
    pub fn take(
        &mut self,
        now: Time,
        member: Membership,
        level_is_met: bool,
        rules: Rules,
        message: impl FnOnce() -> M,
    ) -> Taken<M> {
        let refused = |error| Taken {
            is_new: false,
            next: Next::Refused(error, None),
        };
        match member.given {
            AtomicSequence::Number => {}
            AtomicSequence::NoNumber if rules.defects.lenient_sequence => {}
            AtomicSequence::NoNumber | AtomicSequence::Missing => {
                return refused(ErrorCode::AtomicSequenceMissing.into());
            }
        }
        let is_new = !self.batches.contains_key(&member.batch);
        if is_new && let Err(error) = self.open_batch(member, rules) {
            return refused(error);
        }
        let next = match self.check(member, is_new, level_is_met, rules) {
            Err((error, advisory)) => Next::Refused(error, self.end(member.batch, advisory)),
            Ok(()) => self.accept(now, member, message),
        };
        Taken { is_new, next }
    }

    /// Forgets a batch whose commit was dealt with.
    pub fn close(&mut self, batch: BatchHandle) {
        self.end(batch, None);
    }

    /// When [`Staging::expire`] is wanted.
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Abandons the next batch that has been idle for the timeout at `now`.
    pub fn expire(&mut self, now: Time) -> Option<Ended<M>> {
        let (at, batch) = *self.timers.first()?;
        (at <= now)
            .then(|| self.end(batch, Some(AbandonReason::Timeout)))
            .flatten()
    }

    /// Forgets all batches, in the order of their handles, without an advisory.
    pub fn clear(&mut self) -> Vec<Ended<M>> {
        self.timers.clear();
        self.due = Time::NEVER;
        let batches = std::mem::take(&mut self.batches).into_iter();
        let ended = batches.map(|(batch, own)| Ended {
            batch,
            messages: own.messages,
            advisory: None,
        });
        ended.collect()
    }

    /// Registers a batch; its first message starts the timer.
    fn open_batch(&mut self, member: Membership, rules: Rules) -> Result<(), ApiError> {
        if member.sequence != BatchSequence(1) {
            return Err(if is_too_large(member, rules) {
                too_large(rules)
            } else {
                ErrorCode::AtomicIncomplete.into()
            });
        }
        if rules.limits.are_reached(self.open()) {
            return Err(ErrorCode::AtomicInFlight.into());
        }
        self.batches.insert(
            member.batch,
            Batch {
                messages: Vec::new(),
                received: BatchSequence(0),
                deadline: Time::NEVER,
            },
        );
        Ok(())
    }

    /// Takes a message that passed all checks into its batch.
    fn accept(&mut self, now: Time, member: Membership, message: impl FnOnce() -> M) -> Next<M> {
        let goes_on = member.commit == AtomicCommit::No;
        let deadline = if goes_on {
            now + self.timeout
        } else {
            Time::NEVER
        };
        self.set_deadline(member.batch, deadline);
        let Some(batch) = self.batches.get_mut(&member.batch) else {
            return Next::Staged;
        };
        batch.received = member.sequence;
        if member.commit != AtomicCommit::Eob {
            batch.messages.push(message());
        }
        if goes_on {
            Next::Staged
        } else {
            Next::Commit(std::mem::take(&mut batch.messages))
        }
    }

    /// Why a message ends its batch, if it does, and what the advisory says.
    fn check(
        &self,
        member: Membership,
        is_new: bool,
        level_is_met: bool,
        rules: Rules,
    ) -> Result<(), (ApiError, Option<AbandonReason>)> {
        if member.commit == AtomicCommit::Unknown {
            return Err((ErrorCode::AtomicCommit.into(), None));
        }
        if !level_is_met {
            let advisory = (!rules.defects.silent_level).then_some(AbandonReason::Unsupported);
            return Err((ErrorCode::RequiredApiLevel.into(), advisory));
        }
        let is_next = self.batches.get(&member.batch).is_some_and(|batch| {
            // An old one without a timer has seen its commit.
            let is_open = is_new || batch.deadline != Time::NEVER;
            is_open && batch.received.next() == member.sequence
        });
        let is_empty = member.commit == AtomicCommit::Eob && member.sequence == BatchSequence(1);
        if !is_next || is_empty {
            let advisory = Some(AbandonReason::Incomplete);
            return Err((ErrorCode::AtomicIncomplete.into(), advisory));
        }
        if is_too_large(member, rules) {
            return Err((too_large(rules), Some(AbandonReason::Large)));
        }
        Ok(())
    }

    fn end(&mut self, batch: BatchHandle, advisory: Option<AbandonReason>) -> Option<Ended<M>> {
        self.set_deadline(batch, Time::NEVER);
        let own = self.batches.remove(&batch)?;
        Some(Ended {
            batch,
            messages: own.messages,
            advisory,
        })
    }

    fn set_deadline(&mut self, batch: BatchHandle, deadline: Time) {
        let Some(own) = self.batches.get_mut(&batch) else {
            return;
        };
        self.timers.remove(&(own.deadline, batch));
        own.deadline = deadline;
        if deadline != Time::NEVER {
            self.timers.insert((deadline, batch));
        }
        self.due = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
    }
}

/// Whether a batch that ends here has too many messages. An end of batch is none; one with the
/// sequence 0 counts as very many, as in nats-server.
const fn is_too_large(member: Membership, rules: Rules) -> bool {
    let is_message = !matches!(member.commit, AtomicCommit::Eob) || rules.defects.eob_counts;
    let messages = member
        .sequence
        .0
        .wrapping_sub(if is_message { 0 } else { 1 });
    messages > rules.messages_max
}

const fn too_large(rules: Rules) -> ApiError {
    ApiError::new(
        ErrorCode::AtomicTooLarge,
        Detail::Number(rules.messages_max),
    )
}

#[cfg(test)]
mod tests;
