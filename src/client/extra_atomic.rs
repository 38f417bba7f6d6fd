//! The unmodified `BatchPublish` of the crate `jetstream-extra`: atomic batches as an application sends them.
//!
//! A call that asks for an answer ends when it is there, and the others when the connection has taken
//! the message. The crate ends a batch with a message only: one that has none left is given up. Leans
//! on `client`.

use std::convert::Infallible;
use std::error::Error as _;
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::{RequestError, RequestErrorKind};
use jetstream_extra::batch_publish::{
    BatchPublish, BatchPublishError, BatchPublishErrorKind, BatchPublishExt,
};

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::event::{Event, Outcome};
use crate::machine::Time;
use crate::nats::error_code::ErrorCode;
use crate::nats::header::Status;
use crate::nats::{BatchSequence, Operation, StreamSequence};

/// One atomic batch of `jetstream-extra`.
pub struct ExtraAtomicClient<'w, W> {
    batch: BatchPublish<Context>,
    teller: Teller<'w, W>,
    /// Highest sequence that a call has sent.
    sent: BatchSequence,
}

impl<'w, W: Witness> ExtraAtomicClient<'w, W> {
    /// A batch that has sent nothing.
    pub fn new(jetstream: &Context, settings: &BatchSettings, world: &'w W) -> Self {
        let timeout = settings.publisher.ack_timeout;
        let batch = jetstream
            .batch_publish()
            .timeout(Duration::from_nanos(timeout.as_nanos()))
            .build();
        world.named(settings.batch, batch.batch_id());
        Self {
            batch,
            teller: Teller::new(world, settings.batch),
            sent: BatchSequence(0),
        }
    }

    /// Publishes until the batch is over, which is the error.
    async fn play(mut self, source: &mut impl Source) -> Result<Infallible, BatchEnd> {
        let mut now = self.teller.now();
        let mut turn = Turn::new();
        loop {
            match source.next(now, BatchSequence(0)) {
                Next::Offer(message, intended) => self.add(message, intended, now).await?,
                Next::Commit(message, intended) => {
                    return Err(self.commit(message, intended, now).await);
                }
                // what was sent is dropped by the server when the batch has been idle for long enough
                Next::CommitEob | Next::Abandon => {
                    let at = self.teller.now();
                    return Err(self.teller.ended(at, Outcome::Abandoned, 0, String::new()));
                }
                Next::Wait(until) => source.until(until).await,
            }
            now = self.teller.now_roughly();
            if turn.is_over() {
                tokio::task::yield_now().await;
                now = self.teller.now();
            }
        }
    }

    /// The first message is answered, and on its way long before that is there: it is told at once.
    async fn add(&mut self, message: Message, intended: Time, now: Time) -> Result<(), BatchEnd> {
        let sequence = self.sent.next();
        let bytes = message.payload.len();
        let is_first = sequence == BatchSequence(1);
        let published = |teller: &Teller<'_, W>, at, operation| {
            teller.published(at, operation, sequence, bytes, intended);
        };
        if is_first {
            published(&self.teller, now, Operation::Start);
            self.teller.blocked(now);
        }
        let taken = self.batch.add_message(message).await;
        let at = self.teller.now_roughly();
        if is_first {
            self.teller.unblocked(at);
        }
        taken.map_err(|error| failed(&self.teller, at, &error))?;
        if !is_first {
            published(&self.teller, at, Operation::Append);
        }
        self.sent = sequence;
        Ok(())
    }

    async fn commit(self, message: Message, intended: Time, now: Time) -> BatchEnd {
        let Self {
            batch,
            mut teller,
            sent,
        } = self;
        let sequence = sent.next();
        let bytes = message.payload.len();
        teller.published(now, Operation::Commit, sequence, bytes, intended);
        let answer = batch.commit_message(message).await;
        let at = teller.now();
        match answer {
            Ok(ack) => {
                teller.tell(
                    at,
                    Event::PubAckSeen {
                        batch: teller.batch,
                        duplicate: false,
                        count: BatchSequence(ack.batch_size),
                        sequence: StreamSequence(ack.sequence),
                    },
                );
                teller.acknowledged = sequence;
                teller.ended(at, Outcome::Committed, 0, String::new())
            }
            Err(error) => failed(&teller, at, &error),
        }
    }
}

impl<W: Witness> BatchClient for ExtraAtomicClient<'_, W> {
    async fn publish(self, source: &mut impl Source) -> BatchEnd {
        match self.play(source).await {
            Err(end) => end,
            Ok(never) => match never {},
        }
    }
}

/// The end of a batch that the crate gives up.
fn failed<W: Witness>(teller: &Teller<'_, W>, at: Time, error: &BatchPublishError) -> BatchEnd {
    let (outcome, code) = why(error);
    if outcome == Outcome::Refused {
        let batch = teller.batch;
        teller.tell(at, Event::RefusalSeen { batch, code });
    }
    teller.ended(at, outcome, code, error.to_string())
}

/// How a batch ends with this error, and the server's code if it answered.
fn why(error: &BatchPublishError) -> (Outcome, u16) {
    if error.kind() == BatchPublishErrorKind::MaxMessagesExceeded && error.source().is_none() {
        return (Outcome::ClientError, ErrorCode::AtomicTooLarge.number());
    }
    let Some(source) = error.source() else {
        return (Outcome::ClientError, 0);
    };
    if let Some(refusal) = source.downcast_ref::<async_nats::jetstream::Error>() {
        let code = u16::try_from(refusal.error_code().0).unwrap_or(0);
        return (Outcome::Refused, code);
    }
    // the crate does not show a status: it is known by its empty body
    if let Some(unread) = source.downcast_ref::<serde_json::Error>() {
        return match unread.is_eof() {
            true => (Outcome::Refused, Status::TOO_MANY_REQUESTS.code),
            false => (Outcome::ClientError, 0),
        };
    }
    match source
        .downcast_ref::<RequestError>()
        .map(RequestError::kind)
    {
        Some(RequestErrorKind::TimedOut) => (Outcome::TimedOut, 0),
        Some(RequestErrorKind::NoResponders) => (Outcome::NoResponders, Status::NO_RESPONDERS.code),
        _ => (Outcome::ClientError, 0),
    }
}
