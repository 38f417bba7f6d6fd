//! The unmodified `FastPublisher` of the crate `jetstream-extra`, as an application sees it.
//!
//! The crate reads its inbox only inside calls, so acks, gaps and errors are told when a call
//! returns, not when they arrived. What it does not show is told as 0: the flow of an ack, the
//! sequences of a gap, the sequence of a flow error, and the code of an error that has no kind of
//! its own. It also drops the PubAck of a batch that it has given up. Leans on `client`.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_nats::jetstream::Context;
use jetstream_extra::batch_publish::BatchPubAck;
use jetstream_extra::batch_publish_fast::{
    FastPublishError, FastPublishErrorKind, FastPublishExt, FastPublisher, GapMode as ExtraGapMode,
};

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::event::{Event, Outcome};
use crate::machine::Time;
use crate::nats::error_code::ErrorCode;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};

/// One batch of `jetstream-extra`.
pub struct ExtraClient<'w, W> {
    publisher: FastPublisher,
    story: Story<'w, W>,
    /// Highest sequence that a call has sent.
    sent: BatchSequence,
    /// Initial flow times outstanding acks: no gate is wider.
    widest_window: u64,
}

impl<'w, W: Witness> ExtraClient<'w, W> {
    /// A batch that has sent nothing.
    ///
    /// # Errors
    /// The crate refuses the settings or the connection's inbox prefix; the batch is over then.
    pub fn open(
        jetstream: &Context,
        settings: &BatchSettings,
        world: &'w W,
    ) -> Result<Self, BatchEnd> {
        let BatchSettings { batch, publisher } = settings;
        let widest_window = u64::from(publisher.flow) * u64::from(publisher.outstanding_acks);
        let reported = Arc::new(Reported::default());
        let publisher = jetstream
            .fast_publish()
            .flow(publisher.flow)
            .max_outstanding_acks(u16::from(publisher.outstanding_acks))
            .ack_timeout(Duration::from_nanos(publisher.ack_timeout.as_nanos()))
            .gap_mode(match publisher.gap {
                GapMode::Ok => ExtraGapMode::Ok,
                GapMode::Fail => ExtraGapMode::Fail,
            })
            .on_error({
                let reported = Arc::clone(&reported);
                move |error| reported.push(error.kind())
            })
            .build();
        let story = Story {
            teller: Teller::new(world, *batch),
            reported,
            answered_once: false,
        };
        match publisher {
            Ok(publisher) => {
                // what the crate calls the id is the whole inbox
                let inbox = publisher.batch_id();
                let id = inbox.rsplit_once('.').map_or(inbox, |(_, id)| id);
                world.named(*batch, id);
                Ok(Self {
                    publisher,
                    story,
                    sent: BatchSequence(0),
                    widest_window,
                })
            }
            Err(error) => Err(story.failed(world.now(), &error)),
        }
    }

    /// Whether the crate must wait at its gate before it sends `next`: the flow in force is never
    /// above the initial one, so a gate that is shut by that is shut.
    fn gate_is_shut_for(&self, next: BatchSequence) -> bool {
        self.story.teller.acknowledged.0 + self.widest_window <= next.0
    }

    /// The next message as it goes out, and whether the call with it opens the batch: such a call
    /// waits for the first reply, and its message is told at once, since it is on the way long
    /// before the call ends.
    fn prepare(&self, message: &Message, intended: Time) -> (Sent, bool) {
        let sequence = self.sent.next();
        let first = sequence == BatchSequence(1);
        let sent = Sent {
            operation: if first {
                Operation::Start
            } else {
                Operation::Append
            },
            sequence,
            bytes: message.payload.len(),
            intended,
        };
        let opening = first && !self.gate_is_shut_for(sequence);
        if opening {
            sent.tell(&self.story.teller, self.story.teller.now());
        }
        (sent, opening)
    }

    /// Whether the crate waited at its gate before a commit is known only where the initial flow
    /// says so; then the commit is told as sent when it is answered, otherwise at the call.
    async fn commit(self, last: Option<Message>, intended: Time) -> BatchEnd {
        let sequence = self.sent.next();
        let (operation, expected) = match last {
            Some(_) => (Operation::Commit, sequence),
            None => (Operation::CommitEob, self.sent),
        };
        let sent = Sent {
            operation,
            sequence,
            bytes: last.as_ref().map_or(0, |message| message.payload.len()),
            intended,
        };
        let shut = self.gate_is_shut_for(sequence);
        let story = self.story;
        if shut {
            story.teller.blocked(story.teller.now());
        } else {
            sent.tell(&story.teller, story.teller.now());
        }
        let answer = match last {
            Some(message) => self.publisher.commit_message(message).await,
            None => self.publisher.close().await,
        };
        let at = story.teller.now();
        match answer {
            Ok(pub_ack) => {
                if shut {
                    story.teller.unblocked(at);
                    sent.tell(&story.teller, at);
                }
                story.answered(at, &pub_ack, expected)
            }
            Err(error) => story.failed(at, &error),
        }
    }
}

impl<W: Witness> BatchClient for ExtraClient<'_, W> {
    async fn publish(mut self, source: &mut impl Source) -> BatchEnd {
        let mut now = self.story.teller.now();
        let mut turn = Turn::new();
        loop {
            let (message, intended) = match source.next(now, self.story.teller.acknowledged) {
                Next::Offer(message, intended) => (message, intended),
                Next::Commit(message, intended) => {
                    return self.commit(Some(message), intended).await;
                }
                Next::CommitEob => return self.commit(None, now).await,
                Next::Abandon => {
                    let at = self.story.teller.now();
                    return self
                        .story
                        .teller
                        .ended(at, Outcome::Abandoned, 0, String::new());
                }
                Next::Wait(until) => {
                    source.until(until).await;
                    now = self.story.teller.now();
                    continue;
                }
            };
            let (sent, opening) = self.prepare(&message, intended);
            let (answer, blocked) = {
                let mut call = pin!(self.publisher.add_message(message));
                match poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await {
                    Poll::Ready(answer) => (answer, false),
                    // the first reply is awaited, which is no gate
                    Poll::Pending if opening => (call.await, false),
                    // the send buffer holds more than a window: only the gate can hold a message,
                    // and the crate's own deadline began with the call
                    Poll::Pending => {
                        self.story.teller.blocked(now);
                        (call.await, true)
                    }
                }
            };
            now = self.story.teller.now_roughly();
            match answer {
                Ok(ack) => {
                    let untold = (!opening).then_some(&sent);
                    let acknowledged = BatchSequence(ack.ack_sequence);
                    self.story.taken(now, acknowledged, untold, blocked);
                    self.sent = sent.sequence;
                }
                Err(error) => {
                    let acknowledged = BatchSequence(self.publisher.last_ack_sequence());
                    self.story.acked(now, acknowledged);
                    return self.story.failed(now, &error);
                }
            }
            if turn.is_over() {
                tokio::task::yield_now().await;
                now = self.story.teller.now_roughly();
            }
        }
    }
}

/// What is told of the batch, apart from the publisher, which a commit uses up.
struct Story<'w, W> {
    teller: Teller<'w, W>,
    reported: Arc<Reported>,
    /// A call has ended well, so that the first ack has come.
    answered_once: bool,
}

impl<W: Witness> Story<'_, W> {
    /// A call has taken a message; `untold` is its sending, unless told before.
    fn taken(
        &mut self,
        at: Time,
        acknowledged: BatchSequence,
        untold: Option<&Sent>,
        blocked: bool,
    ) {
        self.tell_reported(at);
        // what opened the gate was seen before the message went out
        let covers_itself = untold.is_some_and(|sent| acknowledged >= sent.sequence);
        if !covers_itself {
            self.acked(at, acknowledged);
        }
        if blocked {
            self.teller.unblocked(at);
        }
        if let Some(sent) = untold {
            sent.tell(&self.teller, at);
        }
        self.acked(at, acknowledged);
        if !self.answered_once {
            // the first ack of a batch covers nothing, and says that the batch is open
            self.answered_once = true;
            if acknowledged == BatchSequence(0) {
                self.teller.acked(at, 0, acknowledged);
            }
        }
    }

    fn acked(&mut self, at: Time, acknowledged: BatchSequence) {
        if acknowledged > self.teller.acknowledged {
            self.teller.acked(at, 0, acknowledged);
        }
    }

    /// Tells what the callback was told; says whether there was anything.
    #[inline]
    fn tell_reported(&self, at: Time) -> bool {
        self.reported.any.load(Ordering::Relaxed) && self.tell_kinds(at)
    }

    #[cold]
    fn tell_kinds(&self, at: Time) -> bool {
        let kinds = self.reported.take();
        let batch = self.teller.batch;
        let unseen = BatchSequence(0);
        for kind in &kinds {
            let event = if *kind == FastPublishErrorKind::GapDetected {
                Event::GapSeen {
                    batch,
                    expected: unseen,
                    received: unseen,
                }
            } else {
                Event::ErrorSeen {
                    batch,
                    code: code_of(*kind),
                    sequence: unseen,
                }
            };
            self.teller.tell(at, event);
        }
        !kinds.is_empty()
    }

    fn failed(&self, at: Time, error: &FastPublishError) -> BatchEnd {
        // a refused message is reported to the callback, a refused batch is not
        let reported = self.tell_reported(at);
        let code = code_of(error.kind());
        let outcome = match error.kind() {
            FastPublishErrorKind::GapDetected => Outcome::EndedByServer,
            FastPublishErrorKind::Timeout => Outcome::TimedOut,
            kind if is_from_server(kind) && reported => Outcome::EndedByServer,
            kind if is_from_server(kind) => Outcome::Refused,
            _ => Outcome::ClientError,
        };
        if outcome == Outcome::Refused {
            let batch = self.teller.batch;
            self.teller.tell(at, Event::RefusalSeen { batch, code });
        }
        self.teller.ended(at, outcome, code, describe(error))
    }

    fn answered(mut self, at: Time, pub_ack: &BatchPubAck, expected: BatchSequence) -> BatchEnd {
        self.tell_reported(at);
        let count = BatchSequence(pub_ack.batch_size);
        let event = Event::PubAckSeen {
            batch: self.teller.batch,
            duplicate: false,
            count,
            sequence: StreamSequence(pub_ack.sequence),
        };
        self.teller.tell(at, event);
        // the crate hands out a PubAck that came before the commit as if it answered the commit
        let outcome = if count < expected {
            Outcome::EndedByServer
        } else {
            Outcome::Committed
        };
        self.teller.acknowledged = self.teller.acknowledged.max(count.min(expected));
        self.teller.ended(at, outcome, 0, String::new())
    }
}

/// A message on its way out.
struct Sent {
    operation: Operation,
    sequence: BatchSequence,
    bytes: usize,
    intended: Time,
}

impl Sent {
    fn tell<W: Witness>(&self, teller: &Teller<'_, W>, at: Time) {
        teller.published(at, self.operation, self.sequence, self.bytes, self.intended);
    }
}

/// What the crate's callback was told since the last look. The flag spares the lock of each call.
#[derive(Default)]
struct Reported {
    any: AtomicBool,
    kinds: Mutex<Vec<FastPublishErrorKind>>,
}

impl Reported {
    fn push(&self, kind: FastPublishErrorKind) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.push(kind);
        self.any.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<FastPublishErrorKind> {
        self.any.store(false, Ordering::Relaxed);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut kinds)
    }
}

const fn is_from_server(kind: FastPublishErrorKind) -> bool {
    matches!(kind, FastPublishErrorKind::FlowError) || code_of(kind) != 0
}

/// The `err_code` behind a kind of error; 0 where the crate does not say.
const fn code_of(kind: FastPublishErrorKind) -> u16 {
    match kind {
        FastPublishErrorKind::NotEnabled => ErrorCode::BatchDisabled.number(),
        FastPublishErrorKind::InvalidPattern => ErrorCode::BatchPattern.number(),
        FastPublishErrorKind::InvalidBatchId => ErrorCode::BatchId.number(),
        FastPublishErrorKind::UnknownBatchId => ErrorCode::BatchUnknown.number(),
        FastPublishErrorKind::TooManyInflight => ErrorCode::BatchInFlight.number(),
        _ => 0,
    }
}

fn describe(error: &FastPublishError) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{}: {source}", error.kind()),
        None => error.kind().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_taken_once_and_in_order() {
        let reported = Reported::default();
        assert!(reported.take().is_empty());
        reported.push(FastPublishErrorKind::GapDetected);
        reported.push(FastPublishErrorKind::FlowError);
        let kinds = reported.take();
        assert_eq!(
            kinds,
            [
                FastPublishErrorKind::GapDetected,
                FastPublishErrorKind::FlowError
            ]
        );
        assert!(reported.take().is_empty());
    }

    #[test]
    fn kinds_that_name_a_server_error_give_its_code() {
        assert_eq!(code_of(FastPublishErrorKind::NotEnabled), 10_205);
        assert_eq!(code_of(FastPublishErrorKind::TooManyInflight), 10_211);
        assert_eq!(code_of(FastPublishErrorKind::Timeout), 0);
        assert!(is_from_server(FastPublishErrorKind::FlowError));
        assert!(!is_from_server(FastPublishErrorKind::Serialization));
    }
}
