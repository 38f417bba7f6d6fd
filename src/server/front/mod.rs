//! The server's front: the NATS client protocol in bytes around the modelled server.
//!
//! A pure machine. A driver reports connections, bytes and time; the front hands it what is meant
//! for the [`Server`] as typed actions, so that faults can be put between the two, and takes the
//! server's answers back. Bytes for a client gather in one buffer for each connection: the driver is
//! told once by [`FrontAction::Ready`] and fetches them with [`Front::take_output`].
//!
//! `connection` is one client, `interest` who has subscribed to what, `switch` brings messages to
//! them; `publish` and `answer` are the two ways between client and server, `advisory` what is told
//! to whoever listens; `names` numbers batches
//! and reply subjects, `contents` keeps the bytes of stored messages, `direct` reads them past the
//! API. Leans on `server`, `stream` and the words of `nats`. Texts and edge cases are those of
//! nats-server 2.15.1, seen on its socket.

mod advisory;
mod answer;
mod connection;
mod contents;
mod coupled;
mod direct;
mod greeting;
mod interest;
mod names;
mod publish;
mod switch;
#[cfg(test)]
mod tests;

pub use coupled::Coupled;

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use super::Server;
use super::api::ApiRequest;
use super::message::{BatchHandle, ConnectionId, Fact, Publish, ReplyTo};
use crate::machine::{Sink, Time};
use crate::nats::version::ServerVersion;
use crate::nats::wire::{ClientFrame, Limits, ServerFrame, Token, WireError};
use crate::nats::{MAX_PAYLOAD_BYTES, StreamSequence, subject};
use connection::Connection;
use contents::Contents;
use interest::Subscription;
use names::Names;
use switch::Switch;

/// What the front is like, and how much it lets grow.
#[derive(Clone, Debug)]
pub struct Options {
    /// Id of the server, shown to clients.
    pub server_id: String,
    /// Host that it listens on, shown to clients.
    pub host: String,
    /// Port that it listens on, shown to clients.
    pub port: u16,
    /// Nanoseconds since 1970 at the start of the run.
    pub start_unix_nanos: u64,
    /// Most bytes of header block and payload of one message.
    pub max_payload_bytes: usize,
    /// Most bytes of arguments on a control line.
    pub control_line_bytes: usize,
    /// An idle client is pinged so often.
    pub ping_interval: Time,
    /// A client that leaves more pings than this unanswered is cut off.
    pub pings_unanswered_max: u8,
    /// A client with more unwritten bytes than this is cut off.
    pub pending_bytes_max: usize,
    /// Most subscriptions of one connection.
    pub subscriptions_max: usize,
    /// Most bytes of subjects, queues and ids of the subscriptions of one connection.
    pub subscription_bytes_max: usize,
    /// Most subjects that streams may ever have taken; a message on one more is refused.
    pub subjects_max: usize,
    /// Most bytes of content kept for reading back; the oldest goes first. Zero: none is kept.
    pub contents_bytes_max: u64,
    /// A content that is not kept is read back as zeros: where nobody looks at it.
    pub blank_contents: bool,
    /// The digest of a payload, as facts carry it.
    pub digest: fn(&[u8]) -> u32,
}

/// nats-server 2.15.1 with its defaults; limits of our own where it has none.
impl Default for Options {
    fn default() -> Self {
        Self {
            server_id: "NTIDEGATE".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 4_222,
            start_unix_nanos: 1_800_000_000_000_000_000,
            max_payload_bytes: MAX_PAYLOAD_BYTES,
            control_line_bytes: 4_096,
            ping_interval: Time::from_secs(120),
            pings_unanswered_max: 2,
            pending_bytes_max: 64 << 20,
            subscriptions_max: 100_000,
            subscription_bytes_max: 16 << 20,
            subjects_max: 1 << 20,
            contents_bytes_max: 1 << 30,
            blank_contents: false,
            digest: |payload| xxh3_64(payload) as u32,
        }
    }
}

/// What the front wants done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrontAction {
    /// A connection has output, after having none: [`Front::take_output`].
    Ready(ConnectionId),
    /// Write what is left, close the connection, and call [`Front::disconnect`].
    Close(ConnectionId, CloseReason),
    /// A message for a stream.
    Publish(Publish),
    /// An API call.
    Api {
        /// The answer goes there.
        to: ReplyTo,
        /// What is asked.
        request: Box<ApiRequest>,
    },
}

/// Why the front closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CloseReason {
    /// The client's bytes break the protocol.
    Protocol,
    /// A message above the largest payload.
    MaximumPayload,
    /// The client does not read what it is sent.
    SlowConsumer,
    /// The client answers no pings.
    Stale,
}

/// The client side of one modelled server.
#[derive(Clone, Debug)]
pub struct Front {
    /// Shown to clients.
    version: ServerVersion,
    options: Options,
    switch: Switch,
    names: Names,
    contents: Contents,
    /// When each connection is looked at for pings.
    timers: BTreeSet<(Time, ConnectionId)>,
    /// API calls answered, and those that failed.
    calls: (u64, u64),
    /// Advisories told.
    advisories: u64,
    scratch: Vec<u8>,
}

impl Front {
    /// A front of this server, without clients.
    pub fn new(server: &Server, options: Options) -> Self {
        Self {
            version: server.model().version,
            switch: Switch::new(options.pending_bytes_max),
            names: Names::default(),
            contents: Contents::new(options.contents_bytes_max),
            timers: BTreeSet::new(),
            calls: (0, 0),
            advisories: 0,
            scratch: Vec::new(),
            options,
        }
    }

    /// A client has connected from `client_ip`; it is greeted. Ids are the driver's choice and
    /// must not be in use.
    pub fn connect(
        &mut self,
        now: Time,
        id: ConnectionId,
        client_ip: &str,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let limits = Limits {
            control_line_bytes: self.options.control_line_bytes,
            payload_bytes: self.options.max_payload_bytes,
            ..Limits::default()
        };
        let due = now + self.options.ping_interval;
        self.timers.insert((due, id));
        let info = greeting::info(&self.options, self.version, id, client_ip);
        self.switch.add(id, Connection::new(limits, now, due));
        self.switch.frame(id, &ServerFrame::Info(info), out);
    }

    /// A client is gone: its subscriptions and its output with it.
    pub fn disconnect(&mut self, id: ConnectionId) {
        if let Some(connection) = self.switch.remove(id) {
            self.timers.remove(&(connection.due, id));
        }
    }

    /// The buffer to read a client's bytes into; [`Front::received`] then takes them. `None`: the
    /// connection is closed.
    pub fn buffer(&mut self, id: ConnectionId) -> Option<&mut BytesMut> {
        let connection = self.switch.open(id)?;
        Some(connection.decoder.buffer())
    }

    /// Takes what was read into [`Front::buffer`], in any split. True: there is more in it, and this is
    /// to be called again once what came out is done.
    #[must_use]
    pub fn received(
        &mut self,
        now: Time,
        server: &mut Server,
        id: ConnectionId,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        while let Some(connection) = self.switch.open(id) {
            connection.heard = now;
            match connection.decoder.next_frame() {
                Ok(Some(ClientFrame::Publish(publish))) => {
                    if self.publish(server, id, &publish, out) {
                        return true;
                    }
                }
                Ok(Some(frame)) => self.take(id, frame, out),
                Ok(None) => return false,
                Err(error) => {
                    self.refuse(id, error, out);
                    return false;
                }
            }
        }
        false
    }

    /// The bytes for a client that have gathered; empty if there are none. They count as pending
    /// until [`Front::written`].
    pub fn take_output(&mut self, id: ConnectionId) -> Bytes {
        self.switch.take_output(id)
    }

    /// So many bytes of a connection's output were written.
    pub fn written(&mut self, id: ConnectionId, bytes: usize) {
        self.switch.written(id, bytes);
    }

    /// When [`Front::wake`] is wanted: a client is to be pinged.
    pub fn due(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |(due, _)| *due)
    }

    /// Pings idle clients, and closes those that do not answer.
    pub fn wake(&mut self, now: Time, out: &mut dyn Sink<FrontAction>) {
        while let Some((due, id)) = self.timers.first().copied()
            && due <= now
        {
            self.timers.pop_first();
            let Some(connection) = self.switch.open(id) else {
                continue;
            };
            let interval = self.options.ping_interval;
            let quiet = now.since(connection.heard);
            let next = if quiet < interval {
                connection.heard + interval
            } else if connection.pings_unanswered >= self.options.pings_unanswered_max {
                self.switch.error(id, "Stale Connection", out);
                self.switch.close(id, CloseReason::Stale, out);
                continue;
            } else {
                connection.pings_unanswered += 1;
                self.switch.frame(id, &ServerFrame::Ping, out);
                now + interval
            };
            // A clock that stands still, or an interval of nothing, must not keep this going.
            let next = next.max(now + Time::from_nanos(1));
            if let Some(connection) = self.switch.open(id) {
                connection.due = next;
                self.timers.insert((next, id));
            }
        }
    }

    /// Takes note of what became true in the server. To be called for each fact, when the server is
    /// at rest again.
    pub fn fact(
        &mut self,
        now: Time,
        server: &Server,
        fact: &Fact,
        out: &mut dyn Sink<FrontAction>,
    ) {
        self.names.note(fact);
        self.contents.note(server, fact);
        match *fact {
            Fact::Abandoned {
                batch,
                stream,
                reason,
            } => self.advise(now, server, (batch, stream), reason, out),
            Fact::ApiDropped { requests, .. } => self.advise_api(now, requests, out),
            _ => {}
        }
    }

    /// Nothing is on its way into the server any more: what is neither stored nor staged will not be.
    pub fn settled(&mut self) {
        self.contents.forget_pending(self.names.has_open_atomic());
    }

    /// The batch that an answer to there is about, if it is about one.
    pub fn batch_of(&self, to: ReplyTo) -> Option<BatchHandle> {
        self.names.batch_of(to.tag)
    }

    /// The text of a batch id, as long as it is remembered.
    pub fn batch_id(&self, batch: BatchHandle) -> Option<&str> {
        self.names.batch_id(batch)
    }

    /// The connections that there are.
    pub fn connection_ids(&self) -> Vec<ConnectionId> {
        self.switch.ids()
    }

    /// Clients that are connected.
    pub fn connections(&self) -> usize {
        self.switch.len()
    }

    /// The content of a stored message; `None` if it is not kept (any more).
    pub fn content(&self, server: &Server, stream: &str, at: StreamSequence) -> Option<Bytes> {
        let stream = server.stream(stream)?;
        let record = stream.log().get(at)?;
        match record.payload.bytes {
            0 => Some(Bytes::new()),
            _ => self.contents.get(stream.number(), at),
        }
    }

    /// A frame that is no message.
    fn take(&mut self, id: ConnectionId, frame: ClientFrame, out: &mut dyn Sink<FrontAction>) {
        match frame {
            ClientFrame::Connect(line) => {
                let Some(options) = greeting::connect(line.as_str()) else {
                    return self.switch.close(id, CloseReason::Protocol, out);
                };
                if let Some(connection) = self.switch.open(id) {
                    connection.options = options;
                }
                self.switch.ok(id, out);
            }
            ClientFrame::Ping => self.switch.frame(id, &ServerFrame::Pong, out),
            ClientFrame::Pong => {
                if let Some(connection) = self.switch.open(id) {
                    connection.pings_unanswered = 0;
                }
            }
            ClientFrame::Subscribe {
                subject,
                queue,
                subscription,
            } => self.subscribe(id, &subject, queue.as_ref(), subscription, out),
            ClientFrame::Unsubscribe {
                subscription,
                after,
            } => {
                let after = after.map_or(0, |after| u64::from(after.get()));
                self.switch.unsubscribe(id, subscription.as_str(), after);
                self.switch.ok(id, out);
            }
            // Taken by the caller already.
            ClientFrame::Publish(_) => {}
        }
    }

    fn subscribe(
        &mut self,
        id: ConnectionId,
        filter: &Token,
        queue: Option<&Token>,
        name: Token,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let filter = filter.as_str();
        if subject::check_filter(filter).is_err() {
            return self.switch.error(id, "Invalid Subject", out);
        }
        let subscription = Subscription::new(id, name, filter, queue.map(Token::as_str));
        let Some(connection) = self.switch.open(id) else {
            return;
        };
        let bytes = connection.subscription_bytes + subscription.bytes();
        if connection.subscriptions.len() >= self.options.subscriptions_max
            || bytes > self.options.subscription_bytes_max
        {
            return self.switch.error(id, "maximum subscriptions exceeded", out);
        }
        self.switch.subscribe(subscription);
        self.switch.ok(id, out);
    }

    /// The bytes of a client made no sense: it is told what nats-server tells, which is often
    /// nothing, and cut off.
    fn refuse(&mut self, id: ConnectionId, error: WireError, out: &mut dyn Sink<FrontAction>) {
        let unknown = Some("Unknown Protocol Operation");
        let (text, why) = match error {
            WireError::UnknownVerb
            | WireError::PayloadEnd
            | WireError::ArgumentCount { verb: "UNSUB" } => (unknown, CloseReason::Protocol),
            WireError::LineTooLong { .. } => {
                let text = "maximum control line exceeded";
                (Some(text), CloseReason::Protocol)
            }
            WireError::PayloadTooLarge { .. } => {
                let text = "Maximum Payload Violation";
                (Some(text), CloseReason::MaximumPayload)
            }
            WireError::ArgumentCount { .. }
            | WireError::BadSize { .. }
            | WireError::HeaderAboveTotal
            | WireError::NotText => (None, CloseReason::Protocol),
        };
        if let Some(text) = text {
            self.switch.error(id, text, out);
        }
        self.switch.close(id, why, out);
    }
}
