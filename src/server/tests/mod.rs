//! The server as a client sees it: messages in, frames out, time passing in between.

mod atomic;
mod checks;
mod defects;
mod defects_of_replicas;
mod faults;
mod flow;
mod group;
mod keep;
mod life;
mod observed;
mod random;
mod turns;

use std::collections::BTreeSet;

use super::api::Purge;
use super::message::{AtomicFact, BatchHandle, ConnectionId, Control, Payload};
use super::*;
use crate::nats::header::{self, Headers};
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};
use crate::net::disk::Disk;
use crate::stream::config::{Discard, StreamConfig};

const START: Operation = Operation::Start;
const APPEND: Operation = Operation::Append;
const COMMIT: Operation = Operation::Commit;
const EOB: Operation = Operation::CommitEob;
const PING: Operation = Operation::Ping;

/// A server with one stream `S` on `t.>`, and all frames that left it, in short.
struct Lab {
    server: Server,
    now: Time,
    actions: Vec<Action>,
    flow: u16,
    gap: GapMode,
    sent: Vec<String>,
    facts: Vec<Fact>,
    /// What the driver answers when it has to choose.
    source: Source,
    draws: u64,
    /// Snapshots that replicas took over from others.
    taken_over: u32,
    /// Of whom messages come.
    connection: u32,
}

type Lines<'a> = &'a [(&'a str, &'a str)];

impl Lab {
    fn new(change: impl FnOnce(&mut StreamConfig)) -> Self {
        Self::with(ServerModel::default(), change)
    }

    fn with(model: ServerModel, change: impl FnOnce(&mut StreamConfig)) -> Self {
        let mut config = StreamConfig {
            name: "S".to_owned(),
            subjects: vec!["t.>".to_owned()],
            allow_batched: true,
            ..StreamConfig::default()
        };
        change(&mut config);
        let mut lab = Self {
            server: Server::new(model),
            now: Time::from_secs(1),
            actions: Vec::new(),
            flow: 10,
            gap: GapMode::Fail,
            sent: Vec::new(),
            facts: Vec::new(),
            source: Source::Ingest,
            draws: 0,
            taken_over: 0,
            connection: 0,
        };
        lab.call(&ApiRequest::Create(config)).unwrap();
        lab
    }

    fn call(&mut self, request: &ApiRequest) -> Result<ApiAnswer, ApiFailure> {
        let answer = self.server.call(self.now, request, &mut self.actions);
        self.note();
        answer
    }

    fn update(&mut self, change: impl FnOnce(&mut StreamConfig)) {
        let mut config = self.stream().config().clone();
        change(&mut config);
        self.call(&ApiRequest::Update(config)).unwrap();
    }

    fn stream(&self) -> &Stream {
        self.server.stream("S").unwrap()
    }

    /// Sends one message and lets nothing happen yet.
    fn write(&mut self, subject: &str, control: Control, bytes: u32, lines: Lines<'_>) {
        let subject = self.server.intern(subject);
        let tag = match control {
            Control::Fast {
                batch, sequence, ..
            } => u64::from(batch.0) << 32 | sequence.0 & 0xffff_ffff,
            Control::Plain
            | Control::BadPattern
            | Control::BadBatchId
            | Control::BadAtomicId
            | Control::Atomic { .. } => 0,
        };
        let lines = lines
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let lines: Vec<_> = lines.collect();
        let publish = Publish {
            subject,
            reply: Some(ReplyTo {
                connection: ConnectionId(self.connection),
                tag,
            }),
            control,
            payload: Payload { bytes, digest: 0 },
            headers: (!lines.is_empty()).then(|| Arc::new(Headers::new(lines))),
            wire_bytes: bytes + 40,
        };
        self.server
            .step(self.now, Input::Publish(publish), &mut self.actions);
        self.note();
    }

    const fn fast(&self, batch: u32, operation: Operation, sequence: u64) -> Control {
        Control::Fast {
            batch: BatchHandle(batch),
            flow: self.flow,
            gap: self.gap,
            sequence: BatchSequence(sequence),
            operation,
        }
    }

    /// Sends one message of a batch and waits for the answers.
    fn send(&mut self, batch: u32, operation: Operation, sequence: u64) -> Vec<String> {
        self.send_with(batch, operation, sequence, &[])
    }

    fn send_with(
        &mut self,
        batch: u32,
        operation: Operation,
        sequence: u64,
        lines: Lines<'_>,
    ) -> Vec<String> {
        self.write("t.a", self.fast(batch, operation, sequence), 1, lines);
        self.settle()
    }

    fn plain(&mut self, subject: &str, bytes: u32, lines: Lines<'_>) -> Vec<String> {
        self.write(subject, Control::Plain, bytes, lines);
        self.settle()
    }

    /// Lets 100 ms pass and hands over what was sent.
    fn settle(&mut self) -> Vec<String> {
        self.pass(Time::from_millis(100));
        std::mem::take(&mut self.sent)
    }

    fn pass(&mut self, span: Time) {
        let until = self.now + span;
        while self.server.due() <= until {
            self.now = self.now.max(self.server.due());
            self.server.wake(self.now, &mut self.actions);
            self.note();
        }
        self.now = until;
    }

    fn note(&mut self) {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send { to, reply } => self.sent.push(short(to, &reply)),
                    Action::Fact(fact) => self.facts.push(fact),
                    Action::ApiReply { call, answer, .. } => {
                        self.sent.push(format!("{call:?} {}", answer.is_ok()));
                    }
                    Action::Choose => {
                        let chosen = Input::Chosen(self.source);
                        self.server.step(self.now, chosen, &mut self.actions);
                    }
                    Action::Raft { event, .. } => {
                        let taken_over = matches!(event, RaftEvent::SnapshotStored { .. });
                        self.taken_over += u32::from(taken_over);
                    }
                    Action::Lost { .. } => {}
                    Action::Draw(range) => {
                        // Two elections never come up at once.
                        self.draws += 1;
                        let drawn = Input::Drawn(range.part(self.draws * 3 % 7, 7));
                        self.server.step(self.now, drawn, &mut self.actions);
                    }
                }
            }
        }
    }

    /// Sequences in the stream.
    fn kept(&self) -> Vec<u64> {
        let log = self.stream().log();
        log.from(log.first()).map(|(at, _)| at.0).collect()
    }
}

fn short(to: ReplyTo, reply: &Reply) -> String {
    let place = format!("{}.{}", to.tag >> 32, to.tag & 0xffff_ffff);
    match reply {
        Reply::Empty => "empty".to_owned(),
        Reply::Ack(ack) => format!("{place} ack {}/{}", ack.sequence, ack.messages),
        Reply::Gap(gap) => format!("{place} gap {}->{}", gap.expected, gap.received),
        Reply::Error(error) => format!("{place} err {}: {}", error.sequence, error.error),
        Reply::PubAck(ack, batch) => match (batch, ack.count) {
            (Some(batch), Some(count)) => {
                format!(
                    "{place} pub {} batch {} count {count}",
                    ack.sequence, batch.0
                )
            }
            _ if ack.duplicate => format!("pub {} duplicate", ack.sequence),
            _ => format!("pub {}", ack.sequence),
        },
        Reply::Refused(error) => format!("{place} refused {}: {error}", error.code.number()),
        Reply::NoResponders(_) => format!("{place} 503"),
        Reply::TooManyRequests => format!("{place} 429"),
    }
}
