//! The client's end of a connection: bytes of the server in, frames kept in order.
//!
//! Leans on `nats::wire`.

use bytes::BytesMut;
use serde_json::Value;

use super::run::Stop;
use crate::nats::wire::{ClientFrame, Decoder, Limits, Message, ServerFrame};

/// Id of the subscription to advisories of elections.
pub(super) const ELECTIONS: &str = "elections";
/// Most messages that a peer may send ahead of being read.
const MESSAGES_MAX: usize = 1_000_000;

/// What a server said on a connection.
pub(super) struct Inbox {
    decoder: Decoder<ServerFrame>,
    /// The server's `INFO`.
    pub(super) info: Value,
    /// Messages in order of arrival.
    pub(super) messages: Vec<Message>,
    /// `-ERR` lines.
    pub(super) errors: Vec<String>,
    /// The other end is gone.
    pub(super) closed: bool,
    /// Answers to pings.
    pub(super) pongs: u64,
    /// Advisories of elections: no frame of a case.
    pub(super) elections: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new(Limits {
                payload_bytes: 64 << 20,
                ..Limits::default()
            }),
            info: Value::Null,
            messages: Vec::new(),
            errors: Vec::new(),
            closed: false,
            pongs: 0,
            elections: 0,
        }
    }

    /// The buffer to read into.
    pub(super) const fn buffer(&mut self) -> &mut BytesMut {
        self.decoder.buffer()
    }

    /// Takes the frames of what was read; what the client has to answer goes to `outgoing`.
    pub(super) fn take_frames(&mut self, outgoing: &mut BytesMut) -> Result<(), Stop> {
        let broken = |what: &dyn std::fmt::Display| {
            Stop::Surroundings(format!("the server breaks the NATS protocol: {what}"))
        };
        while let Some(frame) = self.decoder.next_frame().map_err(|error| broken(&error))? {
            match frame {
                ServerFrame::Info(json) => {
                    self.info = serde_json::from_str(json.as_str()).map_err(|e| broken(&e))?;
                }
                ServerFrame::Message(message) if message.subscription.as_str() == ELECTIONS => {
                    self.elections += 1;
                }
                ServerFrame::Message(message) => {
                    if self.messages.len() >= MESSAGES_MAX {
                        return Err(broken(&format!("more than {MESSAGES_MAX} messages")));
                    }
                    self.messages.push(message);
                }
                ServerFrame::Ping => ClientFrame::Pong.encode(outgoing),
                ServerFrame::Pong => self.pongs += 1,
                ServerFrame::Ok => {}
                ServerFrame::Error(text) => {
                    self.errors.push(format!("-ERR {}", text.as_str()));
                }
            }
        }
        Ok(())
    }
}
