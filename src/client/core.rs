//! tidegate's own publisher, the pure machine of `batch`, over an async-nats connection.
//!
//! The adapter publishes what the machine names, reads the batch inbox in every call, and keeps the
//! machine's timers while it waits. Leans on `client`, `batch` and the words of `nats`.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::ops::RangeInclusive;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use async_nats::client::traits::Publisher as _;
use async_nats::message::OutboundMessage;
use async_nats::{Client, Subject, Subscriber};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt};

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::batch::fast::publisher::{Action, ControlFrame, Input, Publisher};
use crate::event::{Event, Outcome};
use crate::machine::{Machine, Time};
use crate::nats::ack::{ServerReply, parse_reply};
use crate::nats::reply::ReplyPrefix;
use crate::nats::{BatchSequence, Operation};

/// Reply subjects are cut from buffers of two flows of them, within these bytes: many publishers with a
/// small flow each take little memory.
const REPLY_BUFFER_BYTES: RangeInclusive<usize> = 1 << 10..=16 << 10;

/// One batch of tidegate's own publisher.
pub struct CoreClient<'w, W> {
    connection: Client,
    inbox: Subscriber,
    machine: Publisher,
    teller: Teller<'w, W>,
    replies: Replies,
    /// Subject of the first message: pings and end of batch go there, so that the same stream gets
    /// them.
    first_subject: Option<Subject>,
    /// Offered, and not sent yet.
    held: Option<(Message, Time)>,
    actions: Vec<Action>,
}

impl<'w, W: Witness> CoreClient<'w, W> {
    /// A batch that has sent nothing, with an inbox of its own on `connection`.
    ///
    /// # Errors
    /// The connection does not take the subscription, or its inbox prefix cannot carry a batch; the
    /// batch is over then.
    pub async fn open(
        connection: &Client,
        settings: &BatchSettings,
        world: &'w W,
    ) -> Result<Self, BatchEnd> {
        let publisher = &settings.publisher;
        let teller = Teller::new(world, settings.batch);
        let refuse = |reason: String| teller.ended(world.now(), Outcome::ClientError, 0, reason);
        let inbox_subject = connection.new_inbox();
        let (prefix, batch_id) = inbox_subject
            .rsplit_once('.')
            .unwrap_or(("", &inbox_subject));
        let replies = ReplyPrefix::new(prefix, batch_id, publisher.flow, publisher.gap)
            .map_err(|error| refuse(error.to_string()))?;
        world.named(settings.batch, batch_id);
        let inbox = connection
            .subscribe(format!("{inbox_subject}.>"))
            .await
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self {
            connection: connection.clone(),
            inbox,
            machine: Publisher::new(publisher.clone()),
            teller,
            replies: Replies::new(replies),
            first_subject: None,
            held: None,
            actions: Vec::new(),
        })
    }

    /// Publishes until the batch is over, which is the error.
    async fn play(&mut self, source: &mut impl Source) -> Result<Infallible, BatchEnd> {
        let mut now = self.teller.now();
        let mut turn = Turn::new();
        loop {
            let input = match source.next(now, self.teller.acknowledged) {
                Next::Offer(message, intended) => {
                    self.held = Some((message, intended));
                    Input::Offer
                }
                Next::Commit(message, intended) => {
                    self.held = Some((message, intended));
                    Input::Commit
                }
                Next::CommitEob => Input::CommitEob,
                Next::Abandon => {
                    let at = self.teller.now();
                    return Err(self.teller.ended(at, Outcome::Abandoned, 0, String::new()));
                }
                Next::Wait(until) => {
                    now = self.rest(now, source.until(until)).await?;
                    continue;
                }
            };
            now = self.teller.now_roughly();
            while let Some(message) = self.inbox.next().now_or_never() {
                now = self.take_in(now, message).await?;
            }
            // A smaller flow may have shut the gate meanwhile.
            now = self.settle(now).await?;
            self.machine.step(now, input, &mut self.actions);
            now = self.perform(now).await?;
            if !self.machine.is_ready() {
                now = self.settle(now).await?;
            } else if turn.is_over() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes in what comes until `pause` is over.
    async fn rest(
        &mut self,
        mut now: Time,
        pause: impl Future<Output = ()>,
    ) -> Result<Time, BatchEnd> {
        let mut pause = pin!(pause);
        loop {
            let woken = tokio::select! {
                biased;
                woken = self.wait(now) => woken,
                () = &mut pause => return Ok(self.teller.now()),
            };
            now = self.act_on(self.teller.now(), woken).await?;
        }
    }

    /// Waits, with the machine's timers, until the machine takes another offer.
    async fn settle(&mut self, mut now: Time) -> Result<Time, BatchEnd> {
        while !self.machine.is_ready() {
            let woken = self.wait(now).await;
            now = self.act_on(self.teller.now(), woken).await?;
        }
        Ok(now)
    }

    /// Waits for one frame or timer of the batch. Nothing is lost when the wait is given up.
    async fn wait(&mut self, now: Time) -> Woken {
        let due = self.machine.due();
        let timer = tokio::time::sleep(Duration::from_nanos(due.since(now).as_nanos()));
        tokio::select! {
            biased;
            message = self.inbox.next() => Woken::Frame(message),
            () = timer => Woken::Due(due),
        }
    }

    /// Says what time it is afterwards, as do the two below: a connection may let itself be waited
    /// for.
    async fn act_on(&mut self, now: Time, woken: Woken) -> Result<Time, BatchEnd> {
        match woken {
            Woken::Frame(message) => self.take_in(now, message).await,
            Woken::Due(due) => {
                // the timers of a world may be coarser than the machine's
                self.machine.wake(now.max(due), &mut self.actions);
                self.perform(now).await
            }
        }
    }

    async fn take_in(
        &mut self,
        now: Time,
        message: Option<async_nats::Message>,
    ) -> Result<Time, BatchEnd> {
        let Some(message) = message else {
            return Err(self.client_error(now, "the subscription was closed".to_owned()));
        };
        let frame = match read_frame(&message) {
            Ok(frame) => frame,
            Err(reason) => return Err(self.client_error(now, reason)),
        };
        self.tell_frame(now, frame);
        self.machine
            .step(now, Input::Reply(frame), &mut self.actions);
        self.perform(now).await
    }

    async fn perform(&mut self, mut now: Time) -> Result<Time, BatchEnd> {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Publish {
                    operation,
                    sequence,
                } => {
                    let sent = self.send(now, operation, sequence).await;
                    now = sent.map_err(|reason| self.not_taken(sequence, reason))?;
                }
                Action::Ready => {}
                Action::Blocked => self.teller.blocked(now),
                Action::Unblocked => self.teller.unblocked(now),
                Action::Ended(end) => {
                    self.teller.acknowledged = end.acknowledged;
                    return Err(self.teller.ended(now, end.outcome, end.code, String::new()));
                }
            }
        }
        self.actions = actions;
        Ok(now)
    }

    /// Sends what the machine wants sent, and tells it once the connection has taken it; says when
    /// that was.
    async fn send(
        &mut self,
        now: Time,
        operation: Operation,
        sequence: BatchSequence,
    ) -> Result<Time, String> {
        let (message, intended) = if operation.stores() {
            self.held.take()
        } else {
            self.control_message(now)
        }
        .ok_or_else(|| "nothing to publish".to_owned())?;
        if self.first_subject.is_none() {
            self.first_subject = Some(message.subject.clone());
        }
        let bytes = message.payload.len();
        let flow = self.machine.flow();
        let outbound = OutboundMessage {
            subject: message.subject,
            reply: Some(self.replies.subject(sequence, operation, flow)),
            payload: message.payload,
            headers: message.headers,
        };
        let (taken, at) = {
            let mut sending = pin!(self.connection.publish_message(outbound));
            match poll_fn(|context| Poll::Ready(sending.as_mut().poll(context))).await {
                Poll::Ready(taken) => (taken, now),
                Poll::Pending => (sending.await, self.teller.now()),
            }
        };
        taken.map_err(|error| error.to_string())?;
        self.teller
            .published(at, operation, sequence, bytes, intended);
        Ok(at)
    }

    /// The batch ends when the connection does not take a message, as an application would that
    /// gets the error: it names no message that could be sent instead. What the machine had decided
    /// for after the send never comes to pass.
    fn not_taken(&mut self, sequence: BatchSequence, reason: String) -> BatchEnd {
        let now = self.teller.now();
        let mut follow_up = Vec::new();
        self.machine
            .step(now, Input::PublishFailed(sequence), &mut follow_up);
        let ended = follow_up.iter().find_map(|action| match action {
            Action::Ended(end) => Some(*end),
            Action::Publish { .. } | Action::Ready | Action::Blocked | Action::Unblocked => None,
        });
        match ended {
            Some(end) => {
                self.teller.acknowledged = end.acknowledged;
                self.teller.ended(now, end.outcome, end.code, reason)
            }
            None => self.client_error(now, reason),
        }
    }

    /// The message of a ping or an end of batch: its payload is never stored.
    fn control_message(&self, now: Time) -> Option<(Message, Time)> {
        let subject = self.first_subject.clone()?;
        let message = Message {
            subject,
            payload: Bytes::new(),
            headers: None,
        };
        Some((message, now))
    }

    fn tell_frame(&mut self, now: Time, frame: ControlFrame) {
        if let ControlFrame::Ack(ack) = frame {
            self.teller.acknowledged = self.teller.acknowledged.max(ack.sequence);
        }
        let event = Event::seen(self.teller.batch, frame);
        self.teller.tell(now, event);
    }

    fn client_error(&self, now: Time, reason: String) -> BatchEnd {
        self.teller.ended(now, Outcome::ClientError, 0, reason)
    }
}

impl<W: Witness> BatchClient for CoreClient<'_, W> {
    async fn publish(mut self, source: &mut impl Source) -> BatchEnd {
        match self.play(source).await {
            Err(end) => end,
            Ok(never) => match never {},
        }
    }
}

/// What ended a wait.
enum Woken {
    /// A message on the batch inbox; `None` when the subscription is over.
    Frame(Option<async_nats::Message>),
    /// The machine wanted to be woken at this moment.
    Due(Time),
}

/// Reads a frame of the batch inbox.
fn read_frame(message: &async_nats::Message) -> Result<ControlFrame, String> {
    let status = message.status.map(|status| status.as_u16());
    if let Some(status) = status.filter(|status| *status >= 300) {
        return Ok(ControlFrame::Status(status));
    }
    match parse_reply(&message.payload).map_err(|error| error.to_string())? {
        ServerReply::Ack(ack) => Ok(ControlFrame::Ack(ack)),
        ServerReply::Gap(gap) => Ok(ControlFrame::Gap(gap)),
        ServerReply::Error(error) => Ok(ControlFrame::Error {
            sequence: error.sequence,
            code: error.error.number(),
        }),
        ServerReply::PubAck(reply) => Ok(ControlFrame::PubAck(reply.ack)),
        ServerReply::Refused(error) => Ok(ControlFrame::Refused(error.number())),
    }
}

/// Writes reply subjects without an allocation for each.
struct Replies {
    prefix: ReplyPrefix,
    text: String,
    buffer: BytesMut,
}

impl Replies {
    fn new(prefix: ReplyPrefix) -> Self {
        Self {
            prefix,
            text: String::new(),
            buffer: BytesMut::new(),
        }
    }

    fn subject(&mut self, sequence: BatchSequence, operation: Operation, flow: u16) -> Subject {
        self.prefix.write(sequence, operation, &mut self.text);
        if self.buffer.capacity() < self.text.len() {
            let wanted = 2 * usize::from(flow) * self.text.len();
            let (least, most) = REPLY_BUFFER_BYTES.into_inner();
            self.buffer = BytesMut::with_capacity(wanted.clamp(least, most));
        }
        self.buffer.extend_from_slice(self.text.as_bytes());
        let bytes = self.buffer.split().freeze();
        Subject::from_utf8(bytes).unwrap_or_else(|_| Subject::from(self.text.as_str()))
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod played;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::GapMode;
    use async_nats::StatusCode;

    fn frame(payload: &'static [u8], status: Option<u16>) -> Result<ControlFrame, String> {
        read_frame(&async_nats::Message {
            subject: "_INBOX.a.10.fail.1.0.$FI".into(),
            reply: None,
            payload: Bytes::from_static(payload),
            headers: None,
            status: status.map(|status| StatusCode::from_u16(status).unwrap()),
            description: None,
            length: payload.len(),
        })
    }

    #[test]
    fn frames_of_the_control_channel_are_told_apart() {
        let ack = frame(br#"{"type":"ack","seq":5,"msgs":10}"#, None);
        assert!(matches!(ack, Ok(ControlFrame::Ack(ack)) if ack.messages == 10));
        let refused = frame(
            br#"{"error":{"code":400,"err_code":10205,"description":"x"},"stream":"S","seq":0}"#,
            None,
        );
        assert_eq!(refused, Ok(ControlFrame::Refused(10_205)));
        assert_eq!(frame(b"", Some(503)), Ok(ControlFrame::Status(503)));
    }

    #[test]
    fn hostile_frames_are_errors() {
        for bytes in [
            b"".as_slice(),
            b"\xff\xff",
            b"[1,2,3]",
            b"{",
            br#"{"type":"ack","seq":-1,"msgs":10}"#,
            br#"{"type":"ack","seq":99999999999999999999,"msgs":10}"#,
            br#"{"type":"what","seq":1}"#,
        ] {
            assert!(frame(bytes, None).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn reply_subjects_are_cut_from_one_buffer_after_another() {
        let prefix = ReplyPrefix::new("_INBOX", "id", 10, GapMode::Fail).unwrap();
        let mut replies = Replies::new(prefix);
        let subjects: Vec<_> = (1..=2_000)
            .map(|sequence| replies.subject(BatchSequence(sequence), Operation::Append, 10))
            .collect();
        for (sequence, subject) in (1..).zip(subjects) {
            assert_eq!(
                subject.as_str(),
                format!("_INBOX.id.10.fail.{sequence}.1.$FI")
            );
        }
    }
}
