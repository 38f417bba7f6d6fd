//! Brings messages to those who have subscribed, and keeps what waits to be written.
//!
//! Leans on `connection` and `interest`.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::connection::Connection;
use super::interest::{Interest, Subscription};
use super::{CloseReason, FrontAction};
use crate::batch::message::ConnectionId;
use crate::machine::Sink;
use crate::nats::wire::{Line, ServerFrame, put_decimal};

/// A message on its way to subscribers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parcel<'a> {
    pub(super) subject: &'a [u8],
    pub(super) reply: Option<&'a [u8]>,
    pub(super) header: Option<&'a [u8]>,
    pub(super) payload: &'a [u8],
}

/// Connections and subscriptions.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    connections: BTreeMap<ConnectionId, Connection>,
    interest: Interest,
    pending_bytes_max: usize,
}

impl Switch {
    pub(super) const fn new(pending_bytes_max: usize) -> Self {
        Self {
            connections: BTreeMap::new(),
            interest: Interest::new(),
            pending_bytes_max,
        }
    }

    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.connections.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) const fn interest(&self) -> &Interest {
        &self.interest
    }

    pub(super) fn add(&mut self, id: ConnectionId, connection: Connection) {
        self.connections.insert(id, connection);
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        for number in connection.subscriptions.values() {
            self.interest.remove(*number);
        }
        Some(connection)
    }

    /// A connection that is not to be closed.
    pub(super) fn open(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        let connection = self.connections.get_mut(&id)?;
        connection.closed.is_none().then_some(connection)
    }

    /// Subscribes; an id that is in use already keeps its old subscription, as on nats-server.
    pub(super) fn subscribe(&mut self, subscription: Subscription) {
        let Some(connection) = self.connections.get_mut(&subscription.connection) else {
            return;
        };
        let name = subscription.name.clone();
        if connection.subscriptions.contains_key(&name) {
            return;
        }
        connection.subscription_bytes += subscription.bytes();
        let number = self.interest.add(subscription);
        connection.subscriptions.insert(name, number);
    }

    /// Ends a subscription; with `after` above 0, only once so many messages were delivered in all.
    pub(super) fn unsubscribe(&mut self, id: ConnectionId, name: &str, after: u64) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        let Some(number) = connection.subscriptions.get(name.as_bytes()).copied() else {
            return;
        };
        let Some(subscription) = self.interest.get_mut(number) else {
            return;
        };
        subscription.most = after;
        if after == 0 || subscription.is_over() {
            self.end(number);
        }
    }

    /// Brings a message to the subscriptions with these numbers, but not to connection `except`,
    /// and says how many got it. Of the members of a queue one gets it, each in turn.
    pub(super) fn deliver(
        &mut self,
        numbers: &[u64],
        parcel: Parcel<'_>,
        except: Option<ConnectionId>,
        out: &mut dyn Sink<FrontAction>,
    ) -> usize {
        let mut count = 0;
        let mut queues: BTreeMap<std::sync::Arc<str>, Vec<u64>> = BTreeMap::new();
        for number in numbers {
            let Some(subscription) = self.interest.get(*number) else {
                continue;
            };
            if except == Some(subscription.connection) {
                continue;
            }
            if let Some(queue) = &subscription.queue {
                let is_open = self.connections.get(&subscription.connection);
                if is_open.is_some_and(|connection| connection.closed.is_none()) {
                    queues.entry(queue.clone()).or_default().push(*number);
                }
                continue;
            }
            count += usize::from(self.hand(*number, parcel, out));
        }
        for (queue, members) in queues {
            let turn = self.interest.turn(&queue, members.len());
            if let Some(number) = members.get(turn) {
                count += usize::from(self.hand(*number, parcel, out));
            }
        }
        count
    }

    /// Brings a message to one subscription.
    pub(super) fn hand(
        &mut self,
        number: u64,
        parcel: Parcel<'_>,
        out: &mut dyn Sink<FrontAction>,
    ) -> bool {
        let Some(subscription) = self.interest.get_mut(number) else {
            return false;
        };
        let id = subscription.connection;
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        if connection.closed.is_some() {
            return false;
        }
        let header = parcel.header.filter(|_| connection.options.headers);
        let parcel = Parcel { header, ..parcel };
        put_message(&mut connection.output, subscription.name.as_bytes(), parcel);
        subscription.delivered += 1;
        if subscription.is_over() {
            self.end(number);
        }
        self.wrote(id, out);
        true
    }

    /// Sends a frame to a client.
    pub(super) fn frame(
        &mut self,
        id: ConnectionId,
        frame: &ServerFrame,
        out: &mut dyn Sink<FrontAction>,
    ) {
        if let Some(connection) = self.open(id) {
            frame.encode(&mut connection.output);
            self.wrote(id, out);
        }
    }

    /// Sends `-ERR`.
    pub(super) fn error(&mut self, id: ConnectionId, text: &str, out: &mut dyn Sink<FrontAction>) {
        let line = Line::new(&format!("'{text}'")).unwrap_or_else(Line::empty);
        self.frame(id, &ServerFrame::Error(line), out);
    }

    /// Sends `+OK` to a client that wants it.
    pub(super) fn ok(&mut self, id: ConnectionId, out: &mut dyn Sink<FrontAction>) {
        if self.open(id).is_some_and(|own| own.options.verbose) {
            self.frame(id, &ServerFrame::Ok, out);
        }
    }

    /// From now on nothing counts on this connection; what it has to read is still written.
    pub(super) fn close(
        &mut self,
        id: ConnectionId,
        why: CloseReason,
        out: &mut dyn Sink<FrontAction>,
    ) {
        if let Some(connection) = self.open(id) {
            connection.closed = Some(why);
            out.emit(FrontAction::Close(id, why));
        }
    }

    pub(super) fn take_output(&mut self, id: ConnectionId) -> Bytes {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Bytes::new();
        };
        connection.is_ready = false;
        let output = connection.output.split().freeze();
        connection.handed += output.len();
        output
    }

    pub(super) fn written(&mut self, id: ConnectionId, bytes: usize) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.handed = connection.handed.saturating_sub(bytes);
        }
    }

    /// The output of a connection has grown: the driver hears of it, and too much of it ends the
    /// connection. What it has not read yet is thrown away then.
    fn wrote(&mut self, id: ConnectionId, out: &mut dyn Sink<FrontAction>) {
        let most = self.pending_bytes_max;
        let Some(connection) = self.open(id) else {
            return;
        };
        if connection.output.len() + connection.handed > most {
            connection.output = BytesMut::new();
            self.close(id, CloseReason::SlowConsumer, out);
        } else if !connection.is_ready {
            connection.is_ready = true;
            out.emit(FrontAction::Ready(id));
        }
    }

    fn end(&mut self, number: u64) {
        let Some(subscription) = self.interest.remove(number) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&subscription.connection) {
            connection.subscription_bytes -= subscription.bytes();
            connection.subscriptions.remove(&subscription.name);
        }
    }
}

/// Appends a `MSG` or `HMSG`.
fn put_message(out: &mut BytesMut, name: &[u8], parcel: Parcel<'_>) {
    let Parcel {
        subject,
        reply,
        header,
        payload,
    } = parcel;
    let header_bytes = header.map_or(0, <[u8]>::len);
    let texts = subject.len() + name.len() + reply.map_or(0, <[u8]>::len);
    out.reserve(texts + header_bytes + payload.len() + 64);
    out.put_slice(if header.is_some() { b"HMSG " } else { b"MSG " });
    out.put_slice(subject);
    out.put_u8(b' ');
    out.put_slice(name);
    if let Some(reply) = reply {
        out.put_u8(b' ');
        out.put_slice(reply);
    }
    if header.is_some() {
        out.put_u8(b' ');
        put_decimal(out, header_bytes as u64);
    }
    out.put_u8(b' ');
    put_decimal(out, (header_bytes + payload.len()) as u64);
    out.put_slice(b"\r\n");
    out.put_slice(header.unwrap_or_default());
    out.put_slice(payload);
    out.put_slice(b"\r\n");
}
