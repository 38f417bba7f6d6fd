//! Between text and the typed server model: what a client writes becomes input, and what the
//! model answers becomes the subject, header block and payload that a client would read.
//!
//! Leans on the words of `nats` and on `server`. Names are numbered by first appearance.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::vector::Outgoing;
use crate::nats::ack::PubAckNames;
use crate::nats::error_code::{ApiError, ErrorCode};
use crate::nats::header::{HeaderBlock, Headers, SUBJECT, Status};
use crate::nats::reply::{Parsed, parse};
use crate::nats::subject;
use crate::nats::wire::Token;
use crate::server::Server;
use crate::server::message::{
    BatchHandle, ConnectionId, Control, Payload, Publish, Reply, ReplyTo,
};

/// The only client of a case.
pub(super) const CONNECTION: ConnectionId = ConnectionId(0);

/// Names that the model knows by number.
#[derive(Default)]
pub(super) struct Edge {
    batches: Vec<Arc<str>>,
    handles: BTreeMap<Arc<str>, BatchHandle>,
    /// By the tag of a [`ReplyTo`].
    targets: Vec<Target>,
}

/// Where an answer goes, and which stream was asked.
struct Target {
    reply: Token,
    stream: Option<Arc<str>>,
}

/// An answer as bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) subject: Token,
    pub(super) header: Option<Vec<u8>>,
    pub(super) payload: Vec<u8>,
}

impl Edge {
    /// A message as the model takes it.
    pub(super) fn publish(&mut self, server: &mut Server, message: &Outgoing) -> Publish {
        let subject = server.intern(message.subject.as_str());
        let reply_text = message.reply.as_ref().map(Token::as_str);
        let headers = message.headers.clone().map(|lines| {
            let lines = lines.into_iter();
            // Spaces before a value do not belong to it once it was on the wire.
            let read = lines.map(|(name, value)| (name, value.trim_start_matches(' ').to_owned()));
            Arc::new(Headers::new(read.collect()))
        });
        let wire_bytes = message.subject.as_str().len()
            + reply_text.map_or(0, str::len)
            + headers.as_ref().map_or(0, |headers| headers.wire_bytes())
            + message.payload_bytes;
        Publish {
            subject,
            control: reply_text.map_or(Control::Plain, |reply| self.control(reply)),
            reply: message.reply.as_ref().map(|reply| {
                let tag = self.targets.len() as u64;
                self.targets.push(Target {
                    reply: reply.clone(),
                    stream: server.stream_of(subject).cloned(),
                });
                ReplyTo {
                    connection: CONNECTION,
                    tag,
                }
            }),
            payload: Payload {
                bytes: saturating(message.payload_bytes),
                // Equal bytes repeated: the byte says it all.
                digest: u32::from(message.filler),
            },
            headers,
            wire_bytes: saturating(wire_bytes),
        }
    }

    /// An answer as the client reads it; `None` where it cannot be delivered.
    pub(super) fn answer(&self, server: &Server, to: ReplyTo, reply: &Reply) -> Option<Answer> {
        let target = self.targets.get(usize::try_from(to.tag).ok()?)?;
        // A subject with an empty token is published to nobody.
        subject::check_publish(target.reply.as_str()).ok()?;
        let stream = target.stream.as_deref().unwrap_or_default();
        let mut header = None;
        let body = match reply {
            Reply::Ack(ack) => ack.json().to_string(),
            Reply::Gap(gap) => gap.json().to_string(),
            Reply::Error(error) => error.json().to_string(),
            Reply::PubAck(ack, batch) => {
                let names = PubAckNames {
                    stream,
                    domain: None,
                    batch: batch.and_then(|batch| self.batch(batch)),
                };
                ack.json(names).to_string()
            }
            Reply::Refused(error) => error.refusal_json(stream).to_string(),
            Reply::NoResponders(subject) => {
                let line = (SUBJECT.to_owned(), server.subject(*subject).to_owned());
                header = Some(block(Status::NO_RESPONDERS, vec![line]));
                String::new()
            }
            Reply::TooManyRequests => {
                header = Some(block(Status::TOO_MANY_REQUESTS, Vec::new()));
                let error = ApiError::from(ErrorCode::TooManyRequests);
                error.refusal_json(stream).to_string()
            }
        };
        Some(Answer {
            subject: target.reply.clone(),
            header,
            payload: body.into_bytes(),
        })
    }

    fn control(&mut self, reply: &str) -> Control {
        match parse(reply) {
            Parsed::NotFast => Control::Plain,
            Parsed::BadPattern(_) => Control::BadPattern,
            Parsed::BadBatchId => Control::BadBatchId,
            Parsed::Fast(fast) => Control::Fast {
                batch: self.handle(fast.batch_id),
                flow: fast.flow,
                gap: fast.gap,
                sequence: fast.sequence,
                operation: fast.operation,
            },
        }
    }

    fn handle(&mut self, batch_id: &str) -> BatchHandle {
        if let Some(handle) = self.handles.get(batch_id) {
            return *handle;
        }
        let handle = BatchHandle(self.batches.len() as u32);
        let batch_id: Arc<str> = batch_id.into();
        self.batches.push(Arc::clone(&batch_id));
        self.handles.insert(batch_id, handle);
        handle
    }

    fn batch(&self, handle: BatchHandle) -> Option<&str> {
        self.batches.get(handle.0 as usize).map(|id| &**id)
    }
}

fn block(status: Status, lines: Vec<(String, String)>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let block = HeaderBlock {
        status: Some(status),
        headers: Headers::new(lines),
    };
    block.write_to(&mut bytes);
    bytes
}

fn saturating(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
