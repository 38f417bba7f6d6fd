//! A probe at work: asks over a real connection what its machine wants asked.
//!
//! The same loop serves every world that runs real clients. Leans on `probe` and async-nats.

use std::future::Future;
use std::pin::pin;

use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::{Ask, PROBE_PAYLOAD_BYTES, Probe, ProbeAction, ProbeInput, Timed};
use crate::machine::{Machine as _, Time};
use crate::nats::StreamSequence;
use crate::scenario::{ProbeOperation, Settings};

/// One probe with its connection.
pub struct Prober {
    client: Client,
    /// What subjects of the API begin with.
    api: String,
    probe: Probe,
    inbox: String,
    answers: Subscriber,
    stream: String,
    other: String,
    subject: String,
    /// Of the stream, where it is to be updated.
    config: Value,
    /// Messages that the stream said it has.
    stored: u64,
}

impl Prober {
    /// Makes probe number `id` of a file ready, on a connection of its own; its streams are there. Subjects
    /// of the API begin with `api`.
    ///
    /// # Errors
    /// In words: the connection takes no subscription, or the stream does not tell its configuration.
    pub async fn prepare(
        client: Client,
        api: &str,
        settings: &Settings,
        id: u32,
    ) -> Result<Self, String> {
        let Some(wanted) = settings.probes.get(id as usize) else {
            return Err(format!("the file has no probe {id}"));
        };
        let inbox = client.new_inbox();
        let answers = client.subscribe(format!("{inbox}.*")).await;
        let answers = answers.map_err(|error| error.to_string())?;
        let stream = settings.stream.numbered(0).name;
        let config = match wanted.operation {
            ProbeOperation::Update => configuration(&client, api, &stream).await?,
            _ => Value::Null,
        };
        Ok(Self {
            client,
            api: api.to_owned(),
            probe: Probe::new(id, wanted),
            inbox,
            answers,
            stream,
            other: settings.other_stream().unwrap_or_default(),
            subject: settings.probe_subject(id),
            config,
            stored: 0,
        })
    }

    /// Asks until `publishing` has ended and everything is answered or given up. Gives the number of
    /// messages that it had stored.
    pub async fn run<W: Timed>(mut self, world: &W, publishing: impl Future<Output = ()>) -> u64 {
        let mut publishing = pin!(publishing);
        let mut is_stopped = false;
        while !self.probe.is_done() {
            let mut actions: Vec<ProbeAction> = Vec::new();
            tokio::select! {
                biased;
                answer = self.answers.next() => match answer {
                    Some(answer) => self.take(world.now(), &answer, &mut actions),
                    None => break,
                },
                () = &mut publishing, if !is_stopped => {
                    is_stopped = true;
                    self.probe.step(world.now(), ProbeInput::Stop, &mut actions);
                }
                () = world.until(self.probe.due()) => self.probe.wake(world.now(), &mut actions),
            }
            for action in actions {
                match action {
                    ProbeAction::Tell(event) => world.tell(world.now(), event),
                    ProbeAction::Send(number, ask) => self.send(number, ask).await,
                }
            }
        }
        self.restore().await;
        self.stored
    }

    fn take(&mut self, now: Time, answer: &Message, actions: &mut Vec<ProbeAction>) {
        let number = answer.subject.rsplit('.').next();
        let Some(number) = number.and_then(|number| number.parse().ok()) else {
            return;
        };
        let (code, sequence) = read(answer);
        self.stored += u64::from(sequence.is_some());
        let input = ProbeInput::Answered {
            number,
            code,
            sequence,
        };
        self.probe.step(now, input, actions);
    }

    /// What cannot be sent is not answered, and given up in time.
    async fn send(&self, number: u32, ask: Ask) {
        let (api, stream) = (&self.api, &self.stream);
        let (subject, body) = match ask {
            Ask::Publish => (self.subject.clone(), Value::Null),
            Ask::Info => (format!("{api}.STREAM.INFO.{stream}"), Value::Null),
            Ask::MessageGet(sequence) => (
                format!("{api}.STREAM.MSG.GET.{stream}"),
                json!({ "seq": sequence.0 }),
            ),
            Ask::MessageDelete(sequence) => (
                format!("{api}.STREAM.MSG.DELETE.{stream}"),
                json!({ "seq": sequence.0 }),
            ),
            Ask::Purge => (
                format!("{api}.STREAM.PURGE.{stream}"),
                json!({ "filter": self.subject }),
            ),
            Ask::PurgeOther => (format!("{api}.STREAM.PURGE.{}", self.other), Value::Null),
            Ask::Update(number) => {
                let mut config = self.config.clone();
                config["description"] = Ask::description(number).into();
                (format!("{api}.STREAM.UPDATE.{stream}"), config)
            }
        };
        let payload = match (ask, body) {
            (Ask::Publish, _) => vec![b'.'; PROBE_PAYLOAD_BYTES as usize],
            (_, Value::Null) => Vec::new(),
            (_, body) => body.to_string().into_bytes(),
        };
        let reply = format!("{}.{number}", self.inbox);
        let sent = self
            .client
            .publish_with_reply(subject, reply, payload.into());
        let _ = sent.await;
    }

    /// Gives the stream its own description back.
    async fn restore(&self) {
        if !self.config.is_null() {
            let subject = format!("{}.STREAM.UPDATE.{}", self.api, self.stream);
            let body = self.config.to_string();
            // A stream that is there to stay keeps a description of ours at worst.
            let _ = self.client.request(subject, body.into()).await;
        }
    }
}

async fn configuration(client: &Client, api: &str, stream: &str) -> Result<Value, String> {
    let subject = format!("{api}.STREAM.INFO.{stream}");
    let answer = client.request(subject, "".into()).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    match &answer["config"] {
        Value::Null => Err("the stream does not tell its configuration".to_owned()),
        config => Ok(config.clone()),
    }
}

/// What an answer says: 0 or the error, and of a PubAck where the message is.
fn read(answer: &Message) -> (u16, Option<StreamSequence>) {
    // 503, where nobody listens; 429, where the ingest queue is full.
    if let Some(status) = answer.status {
        return (status.as_u16(), None);
    }
    let body: Value = serde_json::from_slice(&answer.payload).unwrap_or_default();
    if let Some(error) = body.get("error") {
        let code = error["err_code"]
            .as_u64()
            .or_else(|| error["code"].as_u64());
        return (
            code.and_then(|code| u16::try_from(code).ok())
                .unwrap_or(u16::MAX),
            None,
        );
    }
    (0, body["seq"].as_u64().map(StreamSequence))
}
