//! The frames of the client protocol, and how they are written.
//!
//! Leans on the argument types of `wire`. Every value of these types can be written and read back
//! as the same value, as long as the reader's limits allow its size.

use std::num::NonZeroU32;

use bytes::{BufMut, Bytes, BytesMut};

use super::{Line, Token};

/// A frame that a client sends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ClientFrame {
    /// `CONNECT` and its JSON.
    Connect(Line),
    /// `PING`.
    Ping,
    /// `PONG`.
    Pong,
    /// `PUB` or, with a header block, `HPUB`.
    Publish(Publish),
    /// `SUB`.
    Subscribe {
        /// Subject, wildcards allowed.
        subject: Token,
        /// Queue group.
        queue: Option<Token>,
        /// Subscription id, the client's choice.
        subscription: Token,
    },
    /// `UNSUB`.
    Unsubscribe {
        /// Subscription id.
        subscription: Token,
        /// Only once this many messages were delivered in all; `None`: at once.
        after: Option<NonZeroU32>,
    },
}

/// A frame that a server sends.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ServerFrame {
    /// `INFO` and its JSON.
    Info(Line),
    /// `MSG` or, with a header block, `HMSG`.
    Message(Message),
    /// `PING`.
    Ping,
    /// `PONG`.
    Pong,
    /// `+OK`.
    Ok,
    /// `-ERR` and its text, quotes included.
    Error(Line),
}

/// A message on its way to the server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Publish {
    /// Subject.
    pub subject: Token,
    /// Reply subject.
    pub reply: Option<Token>,
    /// The header block as it stands, its closing empty line included; `None` for `PUB`.
    pub header: Option<Bytes>,
    /// Payload.
    pub payload: Bytes,
}

/// A message on its way to a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Message {
    /// Subject.
    pub subject: Token,
    /// Subscription id that it is for.
    pub subscription: Token,
    /// Reply subject.
    pub reply: Option<Token>,
    /// The header block as it stands, its closing empty line included; `None` for `MSG`.
    pub header: Option<Bytes>,
    /// Payload.
    pub payload: Bytes,
}

impl ClientFrame {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Connect(json) => put_line(out, "CONNECT", json),
            Self::Ping => out.put_slice(b"PING\r\n"),
            Self::Pong => out.put_slice(b"PONG\r\n"),
            Self::Publish(publish) => publish.encode(out),
            Self::Subscribe {
                subject,
                queue,
                subscription,
            } => {
                out.put_slice(b"SUB");
                put_tokens(out, [Some(subject), queue.as_ref(), Some(subscription)]);
                out.put_slice(b"\r\n");
            }
            Self::Unsubscribe {
                subscription,
                after,
            } => {
                out.put_slice(b"UNSUB");
                put_tokens(out, [Some(subscription)]);
                if let Some(after) = after {
                    put_number(out, after.get() as usize);
                }
                out.put_slice(b"\r\n");
            }
        }
    }
}

impl ServerFrame {
    /// Appends the frame to `out`.
    pub fn encode(&self, out: &mut BytesMut) {
        match self {
            Self::Info(json) => put_line(out, "INFO", json),
            Self::Message(message) => message.encode(out),
            Self::Ping => out.put_slice(b"PING\r\n"),
            Self::Pong => out.put_slice(b"PONG\r\n"),
            Self::Ok => out.put_slice(b"+OK\r\n"),
            Self::Error(text) => put_line(out, "-ERR", text),
        }
    }
}

impl Publish {
    /// Appends the message to `out`, as `PUB` or `HPUB`.
    pub fn encode(&self, out: &mut BytesMut) {
        let verb: &[u8] = if self.header.is_some() {
            b"HPUB"
        } else {
            b"PUB"
        };
        out.put_slice(verb);
        put_tokens(out, [Some(&self.subject), self.reply.as_ref()]);
        put_body(out, self.header.as_ref(), &self.payload);
    }
}

impl Message {
    /// Appends the message to `out`, as `MSG` or `HMSG`.
    pub fn encode(&self, out: &mut BytesMut) {
        let verb: &[u8] = if self.header.is_some() {
            b"HMSG"
        } else {
            b"MSG"
        };
        out.put_slice(verb);
        put_tokens(
            out,
            [
                Some(&self.subject),
                Some(&self.subscription),
                self.reply.as_ref(),
            ],
        );
        put_body(out, self.header.as_ref(), &self.payload);
    }
}

fn put_line(out: &mut BytesMut, verb: &str, rest: &Line) {
    out.put_slice(verb.as_bytes());
    if !rest.as_str().is_empty() {
        out.put_u8(b' ');
        out.put_slice(rest.as_str().as_bytes());
    }
    out.put_slice(b"\r\n");
}

fn put_tokens<const N: usize>(out: &mut BytesMut, tokens: [Option<&Token>; N]) {
    for token in tokens.into_iter().flatten() {
        out.put_u8(b' ');
        out.put_slice(&token.0);
    }
}

fn put_number(out: &mut BytesMut, number: usize) {
    out.put_u8(b' ');
    put_decimal(out, number as u64);
}

/// Appends the digits of `number`, without allocating.
pub fn put_decimal(out: &mut BytesMut, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.put_slice(&digits[start..]);
}

fn put_body(out: &mut BytesMut, header: Option<&Bytes>, payload: &Bytes) {
    let header_bytes = header.map_or(0, Bytes::len);
    out.reserve(header_bytes + payload.len() + 32);
    if header.is_some() {
        put_number(out, header_bytes);
    }
    put_number(out, header_bytes + payload.len());
    out.put_slice(b"\r\n");
    if let Some(header) = header {
        out.put_slice(header);
    }
    out.put_slice(payload);
    out.put_slice(b"\r\n");
}
