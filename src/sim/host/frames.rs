//! What a publisher core decides, as frames on the wire and events.
//!
//! Leans on its host, on `fabric` and on `load` for contents.

use std::sync::Arc;

use super::{Group, Shared};
use crate::batch::fast::publisher::{Action, End};
use crate::event::{BatchNumber, Event, PublisherId};
use crate::load::{Identity, Planned};
use crate::machine::Sink;
use crate::nats::header::{Headers, MESSAGE_ID};
use crate::nats::{BatchSequence, Operation};
use crate::scenario::HeaderRule;
use crate::server::message::{Payload, SubjectId};
use crate::sim::fabric::UpFrame;

/// Turns what the core decides into frames and events.
pub(super) struct HostSink<'h, 'w, 'o> {
    pub(super) id: PublisherId,
    pub(super) group: &'h Group,
    pub(super) subjects: &'h [(SubjectId, u32)],
    pub(super) batch: BatchNumber,
    pub(super) batch_of_publisher: u32,
    pub(super) planned: Option<Planned>,
    pub(super) home: (SubjectId, u32),
    pub(super) shared: &'h mut Shared<'w, 'o>,
    pub(super) ready: bool,
    pub(super) end: Option<End>,
}

impl Sink<Action> for HostSink<'_, '_, '_> {
    fn emit(&mut self, action: Action) {
        let batch = self.batch;
        match action {
            Action::Publish {
                operation,
                sequence,
            } => self.publish(operation, sequence),
            Action::Ready => self.ready = true,
            Action::Blocked => self.shared.fabric.tell(&Event::Blocked { batch }),
            Action::Unblocked => self.shared.fabric.tell(&Event::Unblocked { batch }),
            Action::Ended(end) => self.end = Some(end),
        }
    }
}

impl HostSink<'_, '_, '_> {
    fn publish(&mut self, operation: Operation, sequence: BatchSequence) {
        let now = self.shared.fabric.now;
        let planned = self.planned.filter(|_| operation.stores());
        let (subject, subject_bytes) =
            planned.map_or(self.home, |planned| self.subjects[planned.subject as usize]);
        let bytes = planned.map_or(0, |planned| planned.bytes);
        let intended = planned.map_or(now, |planned| planned.intended);
        let headers = planned.and_then(|_| self.headers(sequence));
        let payload = Payload {
            bytes,
            digest: planned.map_or(0, |planned| self.digest(planned)),
        };
        let event = Event::Published {
            batch: self.batch,
            operation,
            bytes,
            sequence,
            intended,
        };
        self.shared.fabric.tell(&event);

        let settings = &self.group.settings;
        let reply_bytes =
            reply_subject_bytes(settings.flow, sequence, settings.gap.as_str().len() as u32);
        let header_bytes = headers
            .as_ref()
            .map_or(0, |headers| headers.wire_bytes() as u32);
        let wire_bytes = subject_bytes + reply_bytes + header_bytes + bytes;
        let frame = UpFrame {
            batch: self.batch,
            operation,
            sequence,
            subject,
            payload,
            headers,
            wire_bytes,
        };
        self.shared.fabric.send_up(self.id, frame);
    }

    fn digest(&self, planned: Planned) -> u32 {
        let sequence = planned.sequence.0 as u32;
        let identity = Identity {
            publisher: self.id.0,
            batch: planned.batch,
            sequence,
        };
        self.shared.content.digest(identity, planned.bytes)
    }

    /// The headers of a message: by rule, and its id if the group has ids.
    fn headers(&self, sequence: BatchSequence) -> Option<Arc<Headers>> {
        let group = self.group;
        if !group.message_ids && group.headers.is_empty() {
            return None;
        }
        let mut lines = Vec::new();
        if group.message_ids {
            let id = format!("{}-{}-{sequence}", self.id.0, self.batch_of_publisher);
            lines.push((MESSAGE_ID.to_owned(), id));
        }
        let hits =
            |rule: &&HeaderRule| (u64::from(rule.from)..=u64::from(rule.to)).contains(&sequence.0);
        lines.extend(
            group
                .headers
                .iter()
                .filter(hits)
                .map(|rule| (rule.name.clone(), rule.value.clone())),
        );
        (!lines.is_empty()).then(|| Arc::new(Headers::new(lines)))
    }
}

/// Bytes of `_INBOX.<22>.<flow>.<gap>.<sequence>.<operation>.$FI`.
fn reply_subject_bytes(flow: u16, sequence: BatchSequence, gap_bytes: u32) -> u32 {
    let digits = |number: u64| number.checked_ilog10().unwrap_or(0) + 1;
    7 + 22 + 1 + digits(u64::from(flow)) + 1 + gap_bytes + 1 + digits(sequence.0) + 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_reply_subject_is_that_of_its_text() {
        for (flow, sequence) in [(1, 1), (10, 9), (100, 10), (65_535, 123_456)] {
            let text = format!("_INBOX.{}.{flow}.fail.{sequence}.1.$FI", "x".repeat(22));
            assert_eq!(
                reply_subject_bytes(flow, BatchSequence(sequence), 4),
                text.len() as u32
            );
        }
    }
}
