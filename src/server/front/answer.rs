//! The server's answers as bytes, on their way to whoever has subscribed to the reply subject.
//!
//! Leans on `names` and `switch`, on the bodies of `nats::ack` and on `api_print`.

use std::fmt::Display;
use std::io::Write as _;
use std::sync::Arc;

use super::switch::Parcel;
use super::{Front, FrontAction};
use crate::batch::message::{Reply, ReplyTo};
use crate::machine::Sink;
use crate::nats::ack::PubAckNames;
use crate::nats::error_code::{ApiError, ErrorCode};
use crate::nats::header::{HeaderBlock, Headers, Status};
use crate::server::Server;
use crate::server::api::{ApiAnswer, ApiCall, ApiFailure, StoredMessage};
use crate::server::api_print::{Edge, print};

impl Front {
    /// Sends what the server answers to a message.
    pub fn send(
        &mut self,
        server: &Server,
        to: ReplyTo,
        reply: &Reply,
        out: &mut dyn Sink<FrontAction>,
    ) {
        match reply {
            Reply::Ack(ack) => self.body(to, None, &ack.json(), out),
            Reply::Gap(gap) => self.body(to, None, &gap.json(), out),
            Reply::Error(error) => self.body(to, None, &error.json(), out),
            Reply::Empty => self.body(to, None, &"", out),
            Reply::PubAck(ack, batch) => {
                let stream = self.stream_of(to);
                let batch = batch.and_then(|batch| self.names.batch_id(batch));
                let batch = batch.map(str::to_owned);
                let names = PubAckNames {
                    stream: &stream,
                    domain: None,
                    batch: batch.as_deref(),
                };
                self.body(to, None, &ack.json(names), out);
            }
            Reply::Refused(error) => self.refuse_message(to, error, out),
            Reply::NoResponders(subject) => {
                let destination = self.names.destination(to.tag);
                let texts = destination.and_then(|own| {
                    let subject = own.asked.unwrap_or_else(|| server.subject(*subject));
                    Some((subject.to_owned(), own.subject?.to_owned()))
                });
                if let Some((subject, reply)) = texts {
                    self.tell_nobody_listens(to.connection, &subject, &reply, out);
                }
                self.names.answered(to.tag);
            }
            Reply::TooManyRequests => {
                let stream = self.stream_of(to);
                let block = HeaderBlock {
                    status: Some(Status::TOO_MANY_REQUESTS),
                    headers: Headers::default(),
                };
                let mut header = Vec::new();
                block.write_to(&mut header);
                let error = ApiError::from(ErrorCode::TooManyRequests);
                self.body(to, Some(&header), &error.refusal_json(&stream), out);
            }
        }
    }

    /// Sends the answer to an API call.
    pub fn api_reply(
        &mut self,
        server: &Server,
        to: ReplyTo,
        call: ApiCall,
        answer: &Result<ApiAnswer, ApiFailure>,
        out: &mut dyn Sink<FrontAction>,
    ) {
        self.calls.0 += 1;
        self.calls.1 += u64::from(answer.is_err());
        let contents = &self.contents;
        let blank = |message: &StoredMessage| {
            let bytes = message.payload.bytes as usize;
            self.options.blank_contents.then(|| vec![0; bytes].into())
        };
        let edge = Edge {
            start_unix_nanos: self.options.start_unix_nanos,
            calls: self.calls,
            payload: &|message: &StoredMessage| {
                let kept = contents.get(message.stream, message.sequence);
                kept.or_else(|| blank(message))
            },
        };
        let body = print(call, answer, &edge);
        self.body(to, None, &body, out);
        // Many messages may have gone, with or without their stream.
        match call {
            ApiCall::Update | ApiCall::Delete | ApiCall::Purge => {
                self.contents.follow(server);
            }
            _ => {}
        }
    }

    /// An error in place of a PubAck.
    pub(super) fn refuse_message(
        &mut self,
        to: ReplyTo,
        error: &ApiError,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let stream = self.stream_of(to);
        self.body(to, None, &error.refusal_json(&stream), out);
    }

    /// The name of the stream that answers.
    fn stream_of(&mut self, to: ReplyTo) -> Arc<str> {
        let destination = self.names.destination(to.tag);
        let stream = destination.and_then(|own| own.stream.cloned());
        stream.unwrap_or_else(|| "".into())
    }

    /// Sends a body to where a tag leads.
    fn body(
        &mut self,
        to: ReplyTo,
        header: Option<&[u8]>,
        body: &dyn Display,
        out: &mut dyn Sink<FrontAction>,
    ) {
        self.scratch.clear();
        // Into memory: this does not fail.
        let _ = write!(self.scratch, "{body}");
        let prefix = self.names.destination(to.tag).and_then(|own| own.prefix);
        let known = prefix.map(|number| self.subscriptions_under(number));
        let Some(subject) = self.names.destination(to.tag).and_then(|own| own.subject) else {
            return self.names.answered(to.tag);
        };
        let numbers = match known.flatten() {
            Some(numbers) => numbers,
            None => self.switch.interest().find(subject).into(),
        };
        let parcel = Parcel {
            subject: subject.as_bytes(),
            reply: None,
            header,
            payload: &self.scratch,
        };
        self.switch.deliver(&numbers, parcel, None, out);
        self.names.answered(to.tag);
    }

    /// Who takes all reply subjects of a prefix, if that does not depend on the rest of them; looked
    /// up once for each state of the subscriptions.
    fn subscriptions_under(&mut self, number: u32) -> Option<Arc<[u64]>> {
        let interest = self.switch.interest();
        let prefix = self.names.prefix_mut(number)?;
        match &prefix.subscriptions {
            Some((version, known)) if *version == interest.version() => known.clone(),
            _ => {
                let known: Option<Arc<[u64]>> =
                    interest.find_all_under(&prefix.text).map(Into::into);
                prefix.subscriptions = Some((interest.version(), known.clone()));
                known
            }
        }
    }
}
