//! tidegate's own publisher of atomic batches, the pure machine of `batch`, over an async-nats
//! connection.
//!
//! The first message is waited for, so that a stream without the feature is noticed at once; from
//! there on nothing is answered but the commit. Until then nothing is stored, so that nothing counts as
//! acknowledged. Leans on `client`, `batch` and the words of `nats`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use async_nats::client::traits::Publisher as _;
use async_nats::message::OutboundMessage;
use async_nats::{Client, Subject, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;

use super::{BatchClient, BatchEnd, BatchSettings, Message, Next, Source, Teller, Turn, Witness};
use crate::batch::atomic::publisher::{Action, AtomicReply, Input, Publisher, Settings};
use crate::batch::fast::publisher::{ControlFrame, End};
use crate::batch::message::AtomicCommit;
use crate::event::{Event, Outcome};
use crate::machine::{Machine, Time};
use crate::nats::ack::{ServerReply, parse_reply};
use crate::nats::header::{BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE};
use crate::nats::{BatchSequence, Operation};

/// One atomic batch.
pub struct AtomicClient<'w, W> {
    connection: Client,
    inbox: Subscriber,
    /// Reply subjects are this, a dot and the sequence; its last token is the batch id.
    inbox_subject: String,
    machine: Publisher,
    teller: Teller<'w, W>,
    /// Subject of the first message: the end of batch goes there, so that the same stream gets it.
    first_subject: Option<Subject>,
    /// Offered, and not sent yet.
    held: Option<(Message, Time)>,
    actions: Vec<Action>,
}

impl<'w, W: Witness> AtomicClient<'w, W> {
    /// A batch that has sent nothing, with an inbox of its own on `connection`.
    ///
    /// # Errors
    /// The connection does not take the subscription; the batch is over then.
    pub async fn open(
        connection: &Client,
        settings: &BatchSettings,
        world: &'w W,
    ) -> Result<Self, BatchEnd> {
        let teller = Teller::new(world, settings.batch);
        let inbox_subject = connection.new_inbox();
        world.named(settings.batch, batch_id(&inbox_subject));
        let inbox = match connection.subscribe(format!("{inbox_subject}.>")).await {
            Ok(inbox) => inbox,
            Err(error) => {
                let (at, reason) = (world.now(), error.to_string());
                return Err(teller.ended(at, Outcome::ClientError, 0, reason));
            }
        };
        Ok(Self {
            connection: connection.clone(),
            inbox,
            inbox_subject,
            machine: Publisher::new(Settings {
                ack_first: true,
                ack_every: 0,
                ack_timeout: settings.publisher.ack_timeout,
                // the file has no more in a batch than the server takes
                messages_max: u64::MAX,
            }),
            teller,
            first_subject: None,
            held: None,
            actions: Vec::new(),
        })
    }

    /// Publishes until the batch is over, which is the error.
    async fn play(&mut self, source: &mut impl Source) -> Result<Infallible, BatchEnd> {
        let mut turn = Turn::new();
        let mut now = self.teller.now();
        loop {
            let input = match source.next(now, BatchSequence(0)) {
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
                    self.rest(source.until(until)).await?;
                    now = self.teller.now();
                    continue;
                }
            };
            now = self.teller.now_roughly();
            self.machine.step(now, input, &mut self.actions);
            self.perform(now).await?;
            if self.machine.due() < Time::NEVER {
                while self.machine.due() < Time::NEVER {
                    let woken = self.wait().await;
                    self.act_on(woken).await?;
                }
                now = self.teller.now();
            } else if turn.is_over() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes in what comes until `pause` is over.
    async fn rest(&mut self, pause: impl Future<Output = ()>) -> Result<(), BatchEnd> {
        let mut pause = pin!(pause);
        loop {
            let woken = tokio::select! {
                biased;
                woken = self.wait() => woken,
                () = &mut pause => return Ok(()),
            };
            self.act_on(woken).await?;
        }
    }

    /// Waits for a reply or the deadline. Nothing is lost when the wait is given up.
    async fn wait(&mut self) -> Woken {
        let due = self.machine.due();
        let left = due.since(self.teller.now());
        let deadline = tokio::time::sleep(Duration::from_nanos(left.as_nanos()));
        tokio::select! {
            biased;
            message = self.inbox.next() => Woken::Reply(message),
            () = deadline, if due < Time::NEVER => Woken::Due(due),
        }
    }

    async fn act_on(&mut self, woken: Woken) -> Result<(), BatchEnd> {
        let now = self.teller.now();
        match woken {
            // the timers of a world may be coarser than the machine's
            Woken::Due(due) => self.machine.wake(now.max(due), &mut self.actions),
            Woken::Reply(None) => {
                let reason = "the subscription was closed".to_owned();
                return Err(self.client_error(reason));
            }
            Woken::Reply(Some(message)) => {
                let (sequence, reply) =
                    read_reply(&message).map_err(|reason| self.client_error(reason))?;
                self.tell_reply(now, reply);
                let input = Input::Reply(sequence, reply);
                self.machine.step(now, input, &mut self.actions);
            }
        }
        self.perform(now).await
    }

    async fn perform(&mut self, now: Time) -> Result<(), BatchEnd> {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Publish {
                    commit,
                    sequence,
                    wants_reply,
                } => {
                    let sent = self.send(commit, sequence, wants_reply).await;
                    sent.map_err(|reason| self.client_error(reason))?;
                }
                Action::Ready | Action::Full => {}
                Action::Blocked => self.teller.blocked(self.teller.now_roughly()),
                Action::Unblocked => self.teller.unblocked(now),
                Action::Ended(end) => return Err(self.ended(now, &end)),
            }
        }
        self.actions = actions;
        Ok(())
    }

    async fn send(
        &mut self,
        commit: AtomicCommit,
        sequence: BatchSequence,
        wants_reply: bool,
    ) -> Result<(), String> {
        let held = match commit {
            AtomicCommit::Eob => self.end_of_batch(),
            _ => self.held.take(),
        };
        let (message, intended) = held.ok_or_else(|| "nothing to publish".to_owned())?;
        if self.first_subject.is_none() {
            self.first_subject = Some(message.subject.clone());
        }
        let bytes = message.payload.len();
        let mut headers = message.headers.unwrap_or_default();
        headers.insert(BATCH_ID, batch_id(&self.inbox_subject));
        headers.insert(BATCH_SEQUENCE, sequence.0.to_string());
        let (operation, committing) = words_of(commit, sequence);
        if let Some(committing) = committing {
            headers.insert(BATCH_COMMIT, committing);
        }
        let reply = wants_reply.then(|| format!("{}.{}", self.inbox_subject, sequence.0).into());
        let outbound = OutboundMessage {
            subject: message.subject,
            reply,
            payload: message.payload,
            headers: Some(headers),
        };
        let taken = self.connection.publish_message(outbound).await;
        taken.map_err(|error| error.to_string())?;
        let at = self.teller.now_roughly();
        self.teller
            .published(at, operation, sequence, bytes, intended);
        Ok(())
    }

    /// Its payload is never stored.
    fn end_of_batch(&self) -> Option<(Message, Time)> {
        let message = Message {
            subject: self.first_subject.clone()?,
            payload: Bytes::new(),
            headers: None,
        };
        Some((message, self.teller.now_roughly()))
    }

    /// That a message is staged is no event: it may never be stored.
    fn tell_reply(&self, now: Time, reply: AtomicReply) {
        let frame = match reply {
            AtomicReply::Empty => return,
            AtomicReply::PubAck(ack) => ControlFrame::PubAck(ack),
            AtomicReply::Refused(code) => ControlFrame::Refused(code),
            AtomicReply::Status(code) => ControlFrame::Status(code),
        };
        let event = Event::seen(self.teller.batch, frame);
        self.teller.tell(now, event);
    }

    fn ended(&mut self, now: Time, end: &End) -> BatchEnd {
        if end.outcome == Outcome::Committed {
            self.teller.acknowledged = end.acknowledged;
        }
        self.teller.ended(now, end.outcome, end.code, String::new())
    }

    fn client_error(&self, reason: String) -> BatchEnd {
        let now = self.teller.now();
        self.teller.ended(now, Outcome::ClientError, 0, reason)
    }
}

impl<W: Witness> BatchClient for AtomicClient<'_, W> {
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
    Reply(Option<async_nats::Message>),
    /// The machine wanted to be woken at this moment.
    Due(Time),
}

/// What a message is told as, and the value of its commit header.
const fn words_of(
    commit: AtomicCommit,
    sequence: BatchSequence,
) -> (Operation, Option<&'static str>) {
    match commit {
        AtomicCommit::Eob => (Operation::CommitEob, Some("eob")),
        AtomicCommit::Store => (Operation::Commit, Some("1")),
        AtomicCommit::No | AtomicCommit::Unknown if sequence.0 == 1 => (Operation::Start, None),
        AtomicCommit::No | AtomicCommit::Unknown => (Operation::Append, None),
    }
}

/// The last token of an inbox: no two are alike.
fn batch_id(inbox: &str) -> &str {
    inbox.rsplit_once('.').map_or(inbox, |(_, id)| id)
}

/// Which message a reply answers, and what it says.
fn read_reply(message: &async_nats::Message) -> Result<(BatchSequence, AtomicReply), String> {
    let subject = message.subject.as_str();
    let sequence = subject.rsplit_once('.').map_or(subject, |(_, last)| last);
    let sequence = sequence
        .parse()
        .map_err(|_| format!("a reply on {subject}, which nobody asked for"))?;
    let status = message.status.map(|status| status.as_u16());
    let reply = match status.filter(|status| *status >= 300) {
        Some(status) => AtomicReply::Status(status),
        None if message.payload.is_empty() => AtomicReply::Empty,
        None => match parse_reply(&message.payload).map_err(|error| error.to_string())? {
            ServerReply::PubAck(reply) => AtomicReply::PubAck(reply.ack),
            ServerReply::Refused(error) => AtomicReply::Refused(error.number()),
            ServerReply::Ack(_) | ServerReply::Gap(_) | ServerReply::Error(_) => {
                return Err("a reply of fast ingest to an atomic batch".to_owned());
            }
        },
    };
    Ok((BatchSequence(sequence), reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        subject: &str,
        payload: &'static [u8],
        status: Option<u16>,
    ) -> Result<(u64, AtomicReply), String> {
        let message = async_nats::Message {
            subject: subject.into(),
            reply: None,
            payload: Bytes::from_static(payload),
            headers: None,
            status: status.map(|status| async_nats::StatusCode::from_u16(status).unwrap()),
            description: None,
            length: payload.len(),
        };
        read_reply(&message).map(|(sequence, reply)| (sequence.0, reply))
    }

    #[test]
    fn replies_are_told_apart_and_name_their_message() {
        let staged = read("_INBOX.a.1", b"", None);
        assert_eq!(staged, Ok((1, AtomicReply::Empty)));
        let status = read("_INBOX.a.7", b"", Some(503));
        assert_eq!(status, Ok((7, AtomicReply::Status(503))));
        let refused =
            br#"{"error":{"code":400,"err_code":10174,"description":"x"},"stream":"S","seq":0}"#;
        assert_eq!(
            read("_INBOX.a.2", refused, None),
            Ok((2, AtomicReply::Refused(10_174)))
        );
        let pub_ack = read(
            "_INBOX.a.3",
            br#"{"stream":"S","seq":9,"batch":"a","count":3}"#,
            None,
        );
        assert!(matches!(pub_ack, Ok((3, AtomicReply::PubAck(ack))) if ack.sequence.0 == 9));
    }

    #[test]
    fn hostile_replies_are_errors() {
        for (subject, payload) in [
            ("_INBOX.a.x", b"".as_slice()),
            ("_INBOX.a.-1", b""),
            ("_INBOX.a.1", b"{"),
            ("_INBOX.a.1", br#"{"type":"ack","seq":5,"msgs":10}"#),
        ] {
            assert!(read(subject, payload, None).is_err(), "{subject}");
        }
    }

    #[test]
    fn a_message_says_how_it_commits() {
        let words = |commit, sequence| words_of(commit, BatchSequence(sequence));
        assert_eq!(words(AtomicCommit::No, 1), (Operation::Start, None));
        assert_eq!(words(AtomicCommit::No, 2), (Operation::Append, None));
        assert_eq!(
            words(AtomicCommit::Store, 1),
            (Operation::Commit, Some("1"))
        );
        assert_eq!(
            words(AtomicCommit::Eob, 3),
            (Operation::CommitEob, Some("eob"))
        );
    }
}
