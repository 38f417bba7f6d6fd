//! What the server tells whoever listens: batches that it has abandoned, and API requests that it has
//! dropped.
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

const API_LIMIT: &str = "$JS.EVENT.ADVISORY.API.LIMIT_REACHED";
const API_LIMIT_TYPE: &str = "io.nats.jetstream.advisory.v1.api_limit_reached";

#[derive(Serialize)]
struct ApiLimit<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    id: String,
    timestamp: String,
    server: &'a str,
    dropped: u32,
}

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
        if self.switch.interest().find(&subject).is_empty() {
            return;
        }
        let (id, timestamp) = self.sign(now);
        let body = Abandoned {
            kind: ABANDONED_TYPE,
            id,
            timestamp,
            stream: stream.name(),
            batch: self.names.batch_id(batch).unwrap_or_default(),
            reason: reason.word(),
        };
        // Texts and numbers: this does not fail.
        let payload = serde_json::to_vec(&body).unwrap_or_default();
        self.tell_all(&subject, &payload, out);
    }

    /// Tells that so many requests were dropped, since the queue of the API was full
    /// (`JSAPILimitReachedAdvisory`).
    pub(super) fn advise_api(&mut self, now: Time, requests: u32, out: &mut dyn Sink<FrontAction>) {
        if self.switch.interest().find(API_LIMIT).is_empty() {
            return;
        }
        let (id, timestamp) = self.sign(now);
        let body = ApiLimit {
            kind: API_LIMIT_TYPE,
            id,
            timestamp,
            server: &self.options.server_id,
            dropped: requests,
        };
        let payload = serde_json::to_vec(&body).unwrap_or_default();
        self.tell_all(API_LIMIT, &payload, out);
    }

    /// Id and time of the next advisory; the id is as long as those of nats-server, which are drawn.
    fn sign(&mut self, now: Time) -> (String, String) {
        self.advisories += 1;
        let id = format!("ADVISORY{:014}", self.advisories);
        (id, stamp::print(self.options.start_unix_nanos, Some(now)))
    }

    fn tell_all(&mut self, subject: &str, payload: &[u8], out: &mut dyn Sink<FrontAction>) {
        let numbers = self.switch.interest().find(subject);
        let parcel = Parcel {
            subject: subject.as_bytes(),
            reply: None,
            header: None,
            payload,
        };
        self.switch.deliver(&numbers, parcel, None, out);
    }
}
