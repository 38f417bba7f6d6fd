//! Plain publishes through a stream: checked, then stored or proposed, and acknowledged.
//!
//! Leans on `check`, `keep` and `replicated`.

use super::ask::Asked;
use super::check::Hindrance;
use super::intake::answer_refused;
use super::keep::{Incoming, Sender};
use super::{Effect, Stream, Surroundings};
use crate::batch::message::{Fact, Publish, Reply};
use crate::machine::Sink;
use crate::nats::ack::PubAck;
use crate::nats::error_code::ErrorCode;
use crate::nats::{BatchSequence, StreamSequence};

impl Stream {
    pub(super) fn take_plain(
        &mut self,
        publish: &Publish,
        asked: &Asked<'_>,
        header_bytes: u32,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) {
        let checked = if self.config.sealed {
            Err(ErrorCode::Sealed.into())
        } else {
            match self.is_replicated() {
                true => self
                    .check_size(header_bytes, publish.payload.bytes)
                    .and_then(|()| self.check_batched(around, publish, asked, header_bytes, None)),
                false => self.check_plain(around, publish, asked, header_bytes),
            }
        };
        let (sequence, duplicate) = match checked {
            Ok(()) if self.is_replicated() => return self.propose(publish, asked, around),
            Ok(()) => (self.store_plain(publish, asked, around, out), false),
            Err(Hindrance::Duplicate(StreamSequence(0))) => {
                return self.refuse(publish, ErrorCode::DuplicateInProcess.into(), out);
            }
            Err(Hindrance::Duplicate(at)) => (at, true),
            Err(Hindrance::Refused(error)) => {
                self.unshift_last(error.code);
                // With replicas a sealed stream answers in spite of `no_ack`
                // (`jetstream_cluster.go`, `processClusteredInboundMsg`).
                if self.config.sealed && self.is_replicated() {
                    return answer_refused(publish, error, out);
                }
                return self.refuse(publish, error, out);
            }
        };
        self.acknowledge_plain(publish, sequence, duplicate, out);
    }

    pub(super) fn store_plain(
        &mut self,
        publish: &Publish,
        asked: &Asked<'_>,
        around: &Surroundings<'_>,
        out: &mut impl Sink<Effect>,
    ) -> StreamSequence {
        let message = Incoming {
            subject: publish.subject,
            sender: Sender::Plain,
            sequence: BatchSequence(0),
            payload: publish.payload,
            headers: publish.headers.as_ref(),
        };
        let at = self.store(around, &message, asked);
        out.emit(Effect::Fact(Fact::Stored {
            batch: None,
            sequence: BatchSequence(0),
            stream: self.number,
            stream_sequence: at,
            payload: publish.payload,
        }));
        at
    }

    pub(super) fn acknowledge_plain(
        &self,
        publish: &Publish,
        sequence: StreamSequence,
        duplicate: bool,
        out: &mut impl Sink<Effect>,
    ) {
        if let Some(to) = publish.reply.filter(|_| !self.config.no_ack) {
            let ack = PubAck {
                sequence,
                count: None,
                duplicate,
            };
            out.emit(Effect::Answer(to, Reply::PubAck(ack, None)));
        }
    }
}
