//! What a client publishes: to subscribers, to a stream, to the API, or to nobody.
//!
//! Leans on `switch` and `names`, and on `api_json` for calls.

use std::sync::Arc;

use super::connection::{Route, StreamRoute};
use super::switch::Parcel;
use super::{Front, FrontAction};
use crate::batch::atomic;
use crate::batch::message::{ConnectionId, Control, Payload, Publish, ReplyTo, SubjectId};
use crate::machine::Sink;
use crate::nats::error_code::{ApiError, ErrorCode};
use crate::nats::header::{HeaderBlock, Headers, SUBJECT, Status};
use crate::nats::{subject, wire};
use crate::server::api::ApiFailure;
use crate::server::{Server, api_json};

/// Reads of messages past the API.
const DIRECT_GET: &str = "DIRECT.GET.";
/// Asks a consumer for messages: nobody listens there without consumers.
const NEXT_MESSAGE: &str = "CONSUMER.MSG.NEXT.";

impl Front {
    /// A client publishes. True: what follows has to wait for the answer, which nats-server gives at
    /// once.
    pub(super) fn publish(
        &mut self,
        server: &mut Server,
        id: ConnectionId,
        publish: &wire::Publish,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        let Some(connection) = self.switch.open(id) else {
            return false;
        };
        let options = connection.options;
        if publish.header.is_some() && !options.headers {
            self.switch.close(id, super::CloseReason::Protocol, out);
            return false;
        }
        self.switch.ok(id, out);
        let Some(route) = self.route(server, id, publish) else {
            return false;
        };
        if !route.is_valid && options.pedantic {
            self.switch.error(id, "Invalid Publish Subject", out);
        }
        let mut heard = 0;
        if !route.subscriptions.is_empty() {
            let parcel = Parcel {
                subject: publish.subject.as_bytes(),
                reply: publish.reply.as_ref().map(wire::Token::as_bytes),
                header: publish.header.as_deref(),
                payload: &publish.payload,
            };
            let except = (!options.echo).then_some(id);
            let numbers = &route.subscriptions;
            heard = self.switch.deliver(numbers, parcel, except, out);
        }
        let mut waits = false;
        if let Some(stream) = &route.stream {
            self.pass_to_stream(server, id, publish, stream, out);
        } else if (route.is_whole && self.pass_to_api(server, id, publish, out)) || heard > 0 {
            // Somebody listens.
        } else {
            waits = self.pass_unheard(id, publish, out);
            if !waits {
                self.nobody_listens(id, publish, out);
            }
        }
        if let Some(connection) = self.switch.open(id) {
            connection.route = Some(route);
        }
        waits
    }

    /// Where the subject of a message leads; the last answer is kept for each connection, taken
    /// out here and put back by the caller.
    fn route(
        &mut self,
        server: &mut Server,
        id: ConnectionId,
        publish: &wire::Publish,
    ) -> Option<Route> {
        let (routing, interest) = (server.routing(), self.switch.interest().version());
        if let Some(route) = self.switch.open(id)?.route.take()
            && route.subject == publish.subject
            && route.routing == routing
            && route.interest == interest
        {
            return Some(route);
        }
        let text = publish.subject.as_str();
        let is_whole = text.split('.').all(|token| !token.is_empty());
        // The API's subjects are no stream's, whatever its filters say.
        let stream = (is_whole && !text.starts_with(api_json::PREFIX))
            .then(|| server.intern_taken(text))
            .flatten();
        Some(Route {
            subject: publish.subject.clone(),
            routing,
            interest,
            is_valid: subject::check_publish(text).is_ok(),
            is_whole,
            stream: stream.map(|(subject, stream)| StreamRoute {
                subject,
                number: stream.number(),
                name: Arc::clone(stream.name()),
            }),
            subscriptions: self.switch.interest().find(text).into(),
        })
    }

    fn pass_to_stream(
        &mut self,
        server: &Server,
        id: ConnectionId,
        publish: &wire::Publish,
        stream: &StreamRoute,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let Some(connection) = self.switch.open(id) else {
            return;
        };
        let reply = publish.reply.as_ref();
        let (mut control, tag) = match reply {
            None => (Control::Plain, None),
            Some(reply) => {
                let hint = &mut connection.prefix;
                let names = &mut self.names;
                let (control, tag) = names.read(reply.as_str(), stream.number, &stream.name, hint);
                (control, Some(tag))
            }
        };
        let reply_to = tag.map(|tag| ReplyTo {
            connection: id,
            tag,
        });
        let headers = publish.header.as_deref().map(read_headers);
        if control == Control::Plain
            && let Some(headers) = &headers
            && let Some(atomic) = atomic::headers::read(headers, |id| self.names.handle(id))
        {
            control = atomic;
        }
        if server.subjects().len() > self.options.subjects_max {
            if let Some(to) = reply_to {
                let error = ApiError::from(ErrorCode::InsufficientResources);
                self.refuse_message(to, &error, out);
            }
            return;
        }
        let bytes = saturating(publish.payload.len());
        let payload = Payload {
            bytes,
            digest: (self.options.digest)(&publish.payload),
        };
        let header_bytes = publish.header.as_ref().map_or(0, bytes::Bytes::len);
        let reply_bytes = reply.map_or(0, |reply| reply.as_bytes().len());
        let texts = publish.subject.as_bytes().len() + reply_bytes + header_bytes;
        self.contents.hold(control, payload, &publish.payload);
        out.emit(FrontAction::Publish(Publish {
            subject: stream.subject,
            reply: reply_to,
            control,
            payload,
            headers: headers.map(Arc::new),
            wire_bytes: bytes.saturating_add(saturating(texts)),
        }));
    }

    /// Whether a message that nobody takes is a frame of a batch, of a client that wants to hear of
    /// it. Such a one goes to the server all the same, so that it meets faults and is told of like
    /// any other; the server answers with status 503.
    fn pass_unheard(
        &mut self,
        id: ConnectionId,
        publish: &wire::Publish,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        let wants_to_hear = self.switch.open(id);
        let wants_to_hear = wants_to_hear.filter(|own| own.options.no_responders);
        let (Some(connection), Some(reply)) = (wants_to_hear, &publish.reply) else {
            return false;
        };
        let (reply, subject) = (reply.as_str(), publish.subject.as_str());
        let hint = &mut connection.prefix;
        let Some((control, tag)) = self.names.read_unheard(reply, subject, hint) else {
            return false;
        };
        out.emit(FrontAction::Publish(Publish {
            subject: SubjectId::UNKNOWN,
            reply: Some(ReplyTo {
                connection: id,
                tag,
            }),
            control,
            payload: Payload::default(),
            headers: None,
            wire_bytes: 0,
        }));
        true
    }

    /// Whether the message is for the API, and so is heard.
    fn pass_to_api(
        &mut self,
        server: &Server,
        id: ConnectionId,
        publish: &wire::Publish,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        let text = publish.subject.as_str();
        let Some(call) = text.strip_prefix(api_json::PREFIX) else {
            return false;
        };
        if call.starts_with(NEXT_MESSAGE) {
            return false;
        }
        if let Some(direct) = call.strip_prefix(DIRECT_GET) {
            return self.direct_get(server, direct, publish, out);
        }
        let reply = publish.reply.as_ref().map(wire::Token::as_str);
        match api_json::parse(text, &publish.payload) {
            // The server listens on all of the API and says nothing to what it does not know.
            None => {}
            Some(Ok(request)) => {
                let tag = self.names.call(reply);
                out.emit(FrontAction::Api {
                    to: ReplyTo {
                        connection: id,
                        tag,
                    },
                    request: Box::new(request),
                });
            }
            Some(Err(misread)) => {
                let tag = self.names.call(reply);
                let to = ReplyTo {
                    connection: id,
                    tag,
                };
                let is_unknown = server.model().cluster.servers > 1
                    && misread.comes_behind_the_stream()
                    && server.stream(&misread.stream).is_none();
                let answer: Result<_, ApiFailure> = Err(if is_unknown {
                    ErrorCode::StreamNotFound.into()
                } else {
                    misread.failure
                });
                self.api_reply(server, to, misread.call, &answer, out);
            }
        }
        true
    }

    /// A client that wants to know is told that nobody listens, on its own subscription.
    fn nobody_listens(
        &mut self,
        id: ConnectionId,
        publish: &wire::Publish,
        out: &mut dyn Sink<FrontAction>,
    ) {
        if let Some(reply) = &publish.reply {
            self.tell_nobody_listens(id, publish.subject.as_str(), reply.as_str(), out);
        }
    }

    /// Status 503 on the reply subject, if the connection has a subscription of its own for it.
    pub(super) fn tell_nobody_listens(
        &mut self,
        id: ConnectionId,
        subject: &str,
        reply: &str,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let Some(connection) = self.switch.open(id) else {
            return;
        };
        if !connection.options.no_responders || subject::check_publish(reply).is_err() {
            return;
        }
        let interest = self.switch.interest();
        let is_own = |number: &u64| {
            let subscription = interest.get(*number);
            subscription.is_some_and(|own| own.connection == id && own.queue.is_none())
        };
        // The newest of several: nats-server tells one.
        let Some(number) = interest.find(reply).into_iter().rfind(is_own) else {
            return;
        };
        let line = (SUBJECT.to_owned(), subject.to_owned());
        let block = HeaderBlock {
            status: Some(Status::NO_RESPONDERS),
            headers: Headers::new(vec![line]),
        };
        let mut header = Vec::with_capacity(block.wire_bytes());
        block.write_to(&mut header);
        let parcel = Parcel {
            subject: reply.as_bytes(),
            reply: None,
            header: Some(&header),
            payload: b"",
        };
        self.switch.hand(number, parcel, out);
    }
}

/// The lines of a header block. nats-server searches for headers in any bytes; of a block that
/// breaks the form those lines are taken that have one.
fn read_headers(block: &[u8]) -> Headers {
    if let Ok(block) = HeaderBlock::parse(block) {
        return block.headers;
    }
    let text = String::from_utf8_lossy(block);
    let lines = text.split("\r\n").skip(1).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim_start_matches(' ');
        (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
    });
    Headers::new(lines.collect())
}

fn saturating(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
