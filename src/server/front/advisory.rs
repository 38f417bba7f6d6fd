//! What the server tells whoever listens: batches that it has abandoned.
//!
//! Leans on `switch` and `names`. ADR-50 [atomic.advisory].

use serde::Serialize;

use super::switch::Parcel;
use super::{Front, FrontAction};
use crate::batch::message::{AbandonReason, BatchHandle, StreamNumber};
use crate::machine::{Sink, Time};
use crate::server::{Server, stamp};

/// The name of the stream follows.
const ABANDONED: &str = "$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.";
const ABANDONED_TYPE: &str = "io.nats.jetstream.advisory.v1.stream_batch_abandoned";

/// The body, its fields in the order of nats-server.
#[derive(Serialize)]
struct Abandoned<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    timestamp: String,
    stream: &'a str,
    batch: &'a str,
    reason: &'static str,
}

impl Front {
    /// Tells that a batch of a stream was abandoned.
    pub(super) fn advise(
        &mut self,
        now: Time,
        server: &Server,
        (batch, stream): (BatchHandle, StreamNumber),
        reason: AbandonReason,
        out: &mut dyn Sink<FrontAction>,
    ) {
        let Some(stream) = server.stream_numbered(stream) else {
            return;
        };
        let subject = format!("{ABANDONED}{}", stream.name());
        let numbers = self.switch.interest().find(&subject);
        if numbers.is_empty() {
            return;
        }
        self.advisories += 1;
        let body = Abandoned {
            kind: ABANDONED_TYPE,
            // As long as those of nats-server, which are drawn.
            id: format!("ADVISORY{:014}", self.advisories),
            timestamp: stamp::print(self.options.start_unix_nanos, Some(now)),
            stream: stream.name(),
            batch: self.names.batch_id(batch).unwrap_or_default(),
            reason: reason.word(),
        };
        // Texts and numbers: this does not fail.
        let payload = serde_json::to_vec(&body).unwrap_or_default();
        let parcel = Parcel {
            subject: subject.as_bytes(),
            reply: None,
            header: None,
            payload: &payload,
        };
        self.switch.deliver(&numbers, parcel, None, out);
    }
}
