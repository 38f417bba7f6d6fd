//! Sentinels: exchanges whose answers prove that a step has been dealt with, in place of silence.
//!
//! Leans on `connection`. What orders behind what, in nats-server 2.15.1:
//!
//! - A stream takes messages from one queue and sends replies from another, both in order
//!   (`stream.go`, `internalLoop`): the answer to a message behind the step comes behind all that
//!   the step is told on receipt. On one server that is everything but advisories. Direct gets of a
//!   client of the same server are answered by its connection into the same queue, so a message
//!   behind one does for them too (`processDirectGetRequest`).
//! - With replicas, a purge goes through the proposals like messages, and is answered when it is
//!   applied (`jetstream_cluster.go`, `jsClusteredStreamPurgeRequest`): once it is, all acks are in the
//!   queue of replies, and one more message passes behind them.
//! - Advisories and answers of the API leave the server through one queue of its own (`events.go`,
//!   `internalSendLoop`), so an API call made after the sentinel's answer comes behind advisories of the
//!   same server.
//!
//! The message is a ping of a batch that nobody has: it is refused on whatever stream, and changes
//! nothing. The purge is of a subject that has no messages.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::super::connection::Connection;
use super::super::frames::{count_advisories, seen};
use super::super::run::{Seen, Stop, Wanted};
use super::super::vector::{Case, STREAM, StepKind};
use super::OpenCase;
use super::name::Name;
use crate::nats::wire::{ClientFrame, Message, Publish, Token};

/// Answers to sentinels come there.
const ANSWERS: &str = "_TIDEGATE_FENCE";
/// Id of the subscription to them.
const SUBSCRIPTION: &str = "fence";
/// Subject of sentinels: of the stream, and without messages.
const SUBJECT: &str = "t.~fence";
/// How long an answer may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(5);
/// A stream with `no_ack` answers no sentinel: then silence has to do, for so long at the most, ...
const SILENCE: Duration = Duration::from_millis(200);
/// ... and for so long in all: a batch that waits is forgotten after ten seconds.
const SILENCE_OF_CASE: Duration = Duration::from_secs(5);
/// How long expected advisories of another server, which pass no sentinel, may be on their way.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// How long the leader of a replicated stream may be out of reach.
const OUT_OF_REACH: Duration = Duration::from_secs(10);
/// Between two looks for it.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// A leader that has stepped down says nothing.
const LOOK_PATIENCE: Duration = Duration::from_millis(50);

/// The sentinels of a case.
pub(super) struct Fence {
    sent: u64,
    name: Name,
    is_replicated: bool,
    /// The stream has `no_ack`, or may come to have it: the silence that stands for an answer.
    silence: Option<Duration>,
    /// A sentinel was not answered in time: what should have come before may come at a later step.
    pub(super) has_holes: bool,
}

/// What became of a sentinel.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// It was answered, without an error where it is a call.
    Yes,
    /// With an error, or nobody listens.
    Refused,
    /// Not in time, or the connection is gone.
    No,
}

impl Fence {
    /// Sentinels on the connection of this case.
    pub(super) fn behind(
        connection: &mut Connection,
        case: &Case,
        name: &Name,
    ) -> Result<Self, Stop> {
        connection.subscribe(&format!("{ANSWERS}.>"), SUBSCRIPTION)?;
        Ok(Self {
            sent: 0,
            name: name.clone(),
            is_replicated: case.replicas > 1,
            silence: may_be_silent(case).then(|| silence(case)),
            has_holes: false,
        })
    }
}

impl OpenCase {
    /// What was sent is on its way; where steps are fenced, the sentinel flushes it.
    pub(super) async fn sent(&mut self) -> Result<(), Stop> {
        match self.fence {
            Some(_) => Ok(()),
            None => self.connection.fence().await,
        }
    }

    /// Waits until everything has come that was led to so far, and gives it.
    pub(super) async fn settle_fenced(&mut self, wanted: Wanted) -> Result<Seen, Stop> {
        self.message().await?;
        if self.is_replicated() {
            if self
                .call("STREAM.PURGE", r#"{"filter":"t.~fence"}"#)
                .await?
                == Answered::Refused
            {
                // Not permitted: then a deletion of what is not there, answered as late.
                self.call("STREAM.MSG.DELETE", r#"{"seq":9223372036854775807}"#)
                    .await?;
            }
            self.message().await?;
            let advisories = |messages: &[Message]| count_advisories(messages) >= wanted.advisories;
            self.await_messages(STRAGGLERS, advisories).await?;
        } else {
            self.call("STREAM.INFO", "").await?;
        }
        if self.silence().is_some() {
            // It proves nothing of what is still missing: a server that is busy answers later.
            let all = |messages: &[Message]| {
                count_replies(messages) >= wanted.replies
                    && count_advisories(messages) >= wanted.advisories
            };
            self.await_messages(PATIENCE, all).await?;
        }
        Ok(seen(&mut self.connection.inbox))
    }

    /// Waits until messages reach the leader of the stream.
    pub(super) async fn reach_stream(&mut self) -> Result<(), Stop> {
        if !self.is_replicated() {
            return Ok(());
        }
        if let Some(silence) = self.silence() {
            tokio::time::sleep(silence).await;
            return Ok(());
        }
        let patience = Instant::now() + OUT_OF_REACH;
        while Instant::now() < patience {
            if self.message_within(LOOK_PATIENCE).await? == Answered::Yes {
                break;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
        Ok(())
    }

    fn is_replicated(&self) -> bool {
        self.fence.as_ref().is_some_and(|fence| fence.is_replicated)
    }

    /// A message that is refused, behind all messages before it.
    async fn message(&mut self) -> Result<Answered, Stop> {
        let answered = match self.silence() {
            Some(silence) => return self.message_within(silence).await,
            None => self.message_within(PATIENCE).await?,
        };
        self.note_hole(answered);
        Ok(answered)
    }

    fn note_hole(&mut self, answered: Answered) {
        let is_hole = answered == Answered::No && !self.connection.inbox.closed;
        if let Some(fence) = &mut self.fence {
            fence.has_holes |= is_hole;
        }
    }

    async fn message_within(&mut self, patience: Duration) -> Result<Answered, Stop> {
        let reply = format!("{}.~fence.1.ok.2.4.$FI", self.next_answer());
        self.exchange(SUBJECT, &reply, "", patience).await
    }

    fn silence(&self) -> Option<Duration> {
        self.fence.as_ref()?.silence
    }

    async fn call(&mut self, call: &str, body: &str) -> Result<Answered, Stop> {
        let reply = self.next_answer();
        let mut subject = format!("$JS.API.{call}.{STREAM}");
        if let Some(fence) = &self.fence {
            subject = fence.name.subject(&subject);
        }
        let answered = self.exchange(&subject, &reply, body, PATIENCE).await?;
        self.note_hole(answered);
        Ok(answered)
    }

    fn next_answer(&mut self) -> String {
        let sent = self.fence.as_mut().map_or(0, |fence| {
            fence.sent += 1;
            fence.sent
        });
        format!("{ANSWERS}.{sent}")
    }

    async fn exchange(
        &mut self,
        subject: &str,
        reply: &str,
        body: &str,
        patience: Duration,
    ) -> Result<Answered, Stop> {
        let invalid = || Stop::Surroundings(format!("`{subject}` is no subject"));
        let connection = &mut self.connection;
        connection.send(&ClientFrame::Publish(Publish {
            subject: Token::new(subject).ok_or_else(invalid)?,
            reply: Token::new(reply),
            header: None,
            payload: Bytes::copy_from_slice(body.as_bytes()),
        }));
        let patience = Instant::now() + patience;
        while !connection.inbox.closed {
            if let Some(answer) = take_answer(&mut connection.inbox.messages, reply) {
                return Ok(read(&answer));
            }
            match timeout_at(patience, connection.turn()).await {
                Ok(turned) => turned?,
                Err(_) => break,
            }
        }
        Ok(Answered::No)
    }

    /// Waits, for so long at the most, until what came is enough.
    async fn await_messages(
        &mut self,
        patience: Duration,
        is_enough: impl Fn(&[Message]) -> bool,
    ) -> Result<(), Stop> {
        let patience = Instant::now() + patience;
        let connection = &mut self.connection;
        while !connection.inbox.closed && !is_enough(&connection.inbox.messages) {
            match timeout_at(patience, connection.turn()).await {
                Ok(turned) => turned?,
                Err(_) => break,
            }
        }
        Ok(())
    }
}

/// Messages that are replies: no advisories, and no answers to sentinels.
fn count_replies(messages: &[Message]) -> usize {
    let sentinels = messages.iter().filter(|message| is_answer(message)).count();
    messages.len() - sentinels - count_advisories(messages)
}

fn is_answer(message: &Message) -> bool {
    message.subscription.as_str() == SUBSCRIPTION
}

/// Whether the stream has `no_ack`, at the beginning or by an update.
fn may_be_silent(case: &Case) -> bool {
    let is_silent = |config: &Map<String, Value>| config.get("no_ack") == Some(&Value::Bool(true));
    let updated = case.steps.iter().any(|step| match &step.kind {
        StepKind::Update { keys, .. } => is_silent(keys),
        StepKind::Api { body, .. } => body.as_object().is_some_and(is_silent),
        StepKind::Publish(_)
        | StepKind::Expect { .. }
        | StepKind::Wait(_)
        | StepKind::DirectGet { .. }
        | StepKind::Stored(_) => false,
    });
    updated || is_silent(&case.initial_config)
}

/// The silence after each message to a stream of this case that does not answer.
fn silence(case: &Case) -> Duration {
    let expected = |kind: &StepKind| matches!(kind, StepKind::Expect { .. });
    let settled = case
        .steps
        .iter()
        .filter(|step| expected(&step.kind))
        .count();
    // With replicas two sentinels stand behind each step.
    let messages = settled.max(1) * if case.replicas > 1 { 2 } else { 1 };
    SILENCE.min(SILENCE_OF_CASE / u32::try_from(messages).unwrap_or(u32::MAX))
}

/// Takes the answer to a sentinel out of what came, and those that came too late.
fn take_answer(messages: &mut Vec<Message>, reply: &str) -> Option<Message> {
    let mut found = None;
    messages.retain(|message| {
        if !is_answer(message) {
            return true;
        }
        if message.subject.as_str() == reply {
            found = Some(message.clone());
        }
        false
    });
    found
}

fn read(answer: &Message) -> Answered {
    let is_status = answer.payload.is_empty();
    let is_call = !answer.subject.as_str().ends_with(".$FI");
    let has_error = is_call && answer.payload.windows(8).any(|part| part == b"\"error\":");
    if is_status || has_error {
        Answered::Refused
    } else {
        Answered::Yes
    }
}
