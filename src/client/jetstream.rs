//! `JetStream` of the crate async-nats: each message has a PubAck of its own, and so many may be
//! without it at a time.
//!
//! A message that is refused is told as such, and the next one is sent; one that stays unanswered ends
//! the batch. The crate does not show a status 429: it is known by its empty body. Leans on `client`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error as _;
use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::task::{Context as Waiting, Poll};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{PublishAckFuture, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::event::{Event, Outcome};
use crate::machine::Time;
use crate::nats::{BatchSequence, Operation, StreamSequence};

/// Nobody takes the subject, or nobody leads the stream.
const NO_RESPONDERS: u16 = 503;
/// The server has no room for the message.
const TOO_MANY_REQUESTS: u16 = 429;

/// Messages that are counted together, each with its own PubAck.
pub struct JetStreamClient<'w, W> {
    jetstream: Context,
    teller: Teller<'w, W>,
    in_flight: usize,
    asked: FuturesUnordered<Asked>,
    /// Whether each message above those that the teller has as acknowledged is answered.
    answered: VecDeque<bool>,
    sent: BatchSequence,
}

impl<'w, W: Witness> JetStreamClient<'w, W> {
    /// One that has sent nothing, and will have `in_flight` messages without a PubAck at most; 1: each
    /// waits for the one before.
    pub fn new(
        jetstream: &Context,
        settings: &BatchSettings,
        in_flight: u16,
        world: &'w W,
    ) -> Self {
        let mut jetstream = jetstream.clone();
        let timeout = settings.publisher.ack_timeout;
        jetstream.set_timeout(Duration::from_nanos(timeout.as_nanos()));
        Self {
            jetstream,
            teller: Teller::new(world, settings.batch),
            in_flight: usize::from(in_flight),
            asked: FuturesUnordered::new(),
            answered: VecDeque::new(),
            sent: BatchSequence(0),
        }
    }

    /// Publishes until the batch is over, which is the error.
    async fn play(&mut self, source: &mut impl Source) -> Result<Infallible, BatchEnd> {
        let mut now = self.teller.now();
        let mut turn = Turn::new();
        loop {
            match source.next(now, self.teller.acknowledged) {
                Next::Offer(message, intended) | Next::Commit(message, intended) => {
                    self.send(message, intended).await?;
                }
                Next::CommitEob => return Err(self.drain().await?),
                Next::Abandon => {
                    let at = self.teller.now();
                    return Err(self.teller.ended(at, Outcome::Abandoned, 0, String::new()));
                }
                Next::Wait(until) => self.rest(source.until(until)).await?,
            }
            now = self.teller.now_roughly();
            while let Some(Some(answer)) = self.asked.next().now_or_never() {
                self.take_in(now, answer)?;
            }
            if self.asked.len() >= self.in_flight {
                self.wait_for_room().await?;
                now = self.teller.now();
            } else if turn.is_over() {
                tokio::task::yield_now().await;
            }
        }
    }

    async fn send(&mut self, message: Message, intended: Time) -> Result<(), BatchEnd> {
        let sequence = self.sent.next();
        let bytes = message.payload.len();
        let mut publish = PublishMessage::build().payload(message.payload);
        if let Some(headers) = message.headers {
            publish = publish.headers(headers);
        }
        let sent = self.jetstream.send_publish(message.subject, publish).await;
        let at = self.teller.now_roughly();
        let answer = match sent {
            Ok(answer) => answer.into_future(),
            Err(error) => return Err(self.failed(Outcome::ClientError, &error)),
        };
        let operation = Operation::Append;
        self.teller
            .published(at, operation, sequence, bytes, intended);
        self.sent = sequence;
        self.answered.push_back(false);
        self.asked.push(Asked { sequence, answer });
        Ok(())
    }

    /// Takes in what comes until `pause` is over.
    async fn rest(&mut self, pause: impl Future<Output = ()>) -> Result<(), BatchEnd> {
        let mut pause = pin!(pause);
        loop {
            let answer = tokio::select! {
                biased;
                Some(answer) = self.asked.next(), if !self.asked.is_empty() => answer,
                () = &mut pause => return Ok(()),
            };
            self.take_in(self.teller.now(), answer)?;
        }
    }

    async fn wait_for_room(&mut self) -> Result<(), BatchEnd> {
        self.teller.blocked(self.teller.now());
        while self.asked.len() >= self.in_flight
            && let Some(answer) = self.asked.next().await
        {
            self.take_in(self.teller.now(), answer)?;
        }
        self.teller.unblocked(self.teller.now());
        Ok(())
    }

    /// The end of a batch whose messages are all answered.
    async fn drain(&mut self) -> Result<BatchEnd, BatchEnd> {
        while let Some(answer) = self.asked.next().await {
            self.take_in(self.teller.now(), answer)?;
        }
        let at = self.teller.now();
        Ok(self.teller.ended(at, Outcome::Committed, 0, String::new()))
    }

    fn take_in(&mut self, at: Time, (sequence, answer): Answer) -> Result<(), BatchEnd> {
        let batch = self.teller.batch;
        match answer {
            Ok(ack) => self.teller.tell(
                at,
                Event::MessageAckSeen {
                    batch,
                    duplicate: ack.duplicate,
                    sequence,
                    stream_sequence: StreamSequence(ack.sequence),
                },
            ),
            Err(error) => {
                let Some(code) = refused_with(&error) else {
                    let outcome = match error.kind() {
                        PublishErrorKind::TimedOut => Outcome::TimedOut,
                        _ => Outcome::ClientError,
                    };
                    return Err(self.failed(outcome, &error));
                };
                let event = Event::ErrorSeen {
                    batch,
                    code,
                    sequence,
                };
                self.teller.tell(at, event);
            }
        }
        self.settle(sequence);
        Ok(())
    }

    /// A message is answered. Acknowledged is everything below the first one that is not: what was
    /// refused has been told.
    fn settle(&mut self, sequence: BatchSequence) {
        let below = self.teller.acknowledged.0;
        let place = sequence.0.saturating_sub(below + 1) as usize;
        if let Some(answered) = self.answered.get_mut(place) {
            *answered = true;
        }
        while self.answered.front() == Some(&true) {
            self.answered.pop_front();
            self.teller.acknowledged = self.teller.acknowledged.next();
        }
    }

    fn failed(&self, outcome: Outcome, error: &PublishError) -> BatchEnd {
        let at = self.teller.now();
        self.teller.ended(at, outcome, 0, error.to_string())
    }
}

impl<W: Witness> BatchClient for JetStreamClient<'_, W> {
    async fn publish(mut self, source: &mut impl Source) -> BatchEnd {
        match self.play(source).await {
            Err(end) => end,
            Ok(never) => match never {},
        }
    }
}

/// A message and what came of it.
type Answer = (BatchSequence, Result<PublishAck, PublishError>);

/// A message that waits for its PubAck.
struct Asked {
    sequence: BatchSequence,
    answer: <PublishAckFuture as IntoFuture>::IntoFuture,
}

impl Future for Asked {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, waiting: &mut Waiting<'_>) -> Poll<Answer> {
        let sequence = self.sequence;
        let answer = self.answer.as_mut().poll(waiting);
        answer.map(|answer| (sequence, answer))
    }
}

/// The code of an error that the server answered with; `None`: it did not answer.
fn refused_with(error: &PublishError) -> Option<u16> {
    if error.kind() == PublishErrorKind::StreamNotFound {
        return Some(NO_RESPONDERS);
    }
    let source = error.source()?;
    if let Some(refusal) = source.downcast_ref::<async_nats::jetstream::Error>() {
        return u16::try_from(refusal.error_code().0).ok();
    }
    let unread = source.downcast_ref::<serde_json::Error>()?;
    unread.is_eof().then_some(TOO_MANY_REQUESTS)
}
