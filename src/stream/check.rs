//! The checks of a message's headers and of room in the stream, before it goes in.
//!
//! The order differs between a message of a batch and a plain publish, as on a single nats-server.
//! Leans on `ask` and `ahead`.

use super::ahead::{Ahead, InBatch};
use super::ask::{self, Asked, Rollup};
use super::config::{Discard, Retention, StreamConfig};
use super::subjects::{self, Subjects};
use super::{Stream, Surroundings};
use crate::batch::message::{Publish, SubjectId};
use crate::nats::StreamSequence;
use crate::nats::error_code::{ApiError, Detail, ErrorCode};

/// Largest header block.
const MOST_HEADER_BYTES: u32 = 65_535;

/// Why a message does not go into the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Hindrance {
    /// Its message id is that of the message here; 0 if that is on its way there.
    Duplicate(StreamSequence),
    /// It is refused.
    Refused(ApiError),
}

impl From<ErrorCode> for Hindrance {
    fn from(code: ErrorCode) -> Self {
        Self::Refused(code.into())
    }
}

type Checked = Result<(), Hindrance>;

/// What comes before a message and is not in the log.
#[derive(Clone, Copy, Default)]
struct Before {
    messages: u64,
    bytes: u64,
    /// Messages of its subject.
    of_subject: u64,
}

fn refuse(code: ErrorCode, detail: Detail) -> Checked {
    Err(Hindrance::Refused(ApiError { code, detail }))
}

fn refuse_text(code: ErrorCode, text: &str) -> Checked {
    refuse(code, Detail::Text(text.into()))
}

impl Stream {
    /// The size limit of the stream, which comes before everything that a header can ask.
    pub(super) fn check_size(&self, header_bytes: u32, payload_bytes: u32) -> Checked {
        match StreamConfig::limit(self.config.max_msg_size) {
            Some(limit) if u64::from(header_bytes) + u64::from(payload_bytes) > limit => {
                Err(ErrorCode::MessageTooBig.into())
            }
            _ => Ok(()),
        }
    }

    fn check_bytes(&self, header_bytes: u32, payload_bytes: u32) -> Checked {
        self.check_size(header_bytes, payload_bytes)?;
        check_header_bytes(header_bytes)
    }

    /// The checks of a message of a batch: of a fast one whose sequence is accepted, or of an atomic
    /// one at its commit, with what the batch has `ahead` of it.
    pub(super) fn check_batched(
        &mut self,
        around: &Surroundings<'_>,
        publish: &Publish,
        asked: &Asked<'_>,
        header_bytes: u32,
        ahead: Option<&InBatch>,
    ) -> Checked {
        if publish.headers.is_some() {
            check_header_bytes(header_bytes)?;
            self.check_expected_stream(asked)?;
            if let Some(ttl) = asked.ttl {
                if !self.config.allow_msg_ttl {
                    return Err(ErrorCode::TtlDisabled.into());
                }
                check_ttl_value(ttl)?;
            }
            check_duplicate_ahead(asked, ahead)?;
            self.check_duplicate(around, asked)?;
            self.check_last_sequence_of_batch(asked, ahead)?;
            self.check_last_subject_sequence(around.subjects, publish.subject, asked, ahead)?;
            self.check_rollup(asked)?;
            check_rollup_ahead(publish.subject, asked, ahead)?;
        }
        self.check_room(around.subjects, publish, asked, header_bytes, ahead)
    }

    /// The checks of a plain publish, its size among them.
    pub(super) fn check_plain(
        &mut self,
        around: &Surroundings<'_>,
        publish: &Publish,
        asked: &Asked<'_>,
        header_bytes: u32,
    ) -> Checked {
        let bytes = publish.payload.bytes;
        if !around.plain_size_late {
            self.check_bytes(header_bytes, bytes)?;
        }
        if publish.headers.is_some() {
            self.check_expected_stream(asked)?;
            // One that is no time at all comes up later.
            if asked.ttl.is_some_and(ask::ttl_is_valid) && !self.config.allow_msg_ttl {
                return Err(ErrorCode::TtlDisabled.into());
            }
            self.check_last_subject_sequence(around.subjects, publish.subject, asked, None)?;
            check_last_sequence(asked, self.log.last().0)?;
            self.check_duplicate(around, asked)?;
            self.check_last_message_id(asked)?;
            self.check_rollup(asked)?;
        }
        if around.plain_size_late {
            self.check_bytes(header_bytes, bytes)?;
        }
        if self.config.retention == Retention::Interest {
            // Nobody is interested: the store, which checks the rest, never sees the message.
            return Ok(());
        }
        if let Some(ttl) = asked.ttl {
            check_ttl_value(ttl)?;
        }
        self.check_room_at_store(around.subjects, publish, asked, header_bytes)
    }

    fn check_expected_stream(&self, asked: &Asked<'_>) -> Checked {
        match asked.expected_stream {
            Some(name) if name != &*self.name => Err(ErrorCode::ExpectedStream.into()),
            _ => Ok(()),
        }
    }

    fn check_duplicate(&mut self, around: &Surroundings<'_>, asked: &Asked<'_>) -> Checked {
        if let (Some(id), Some(in_flight)) = (asked.message_id, self.in_flight())
            && in_flight.has_id(id)
        {
            return Err(Hindrance::Duplicate(StreamSequence(0)));
        }
        let known = asked
            .message_id
            .and_then(|id| self.dedup.find(around.now, id));
        known.map_or(Ok(()), |at| Err(Hindrance::Duplicate(at)))
    }

    /// Compared with where the message would go. Behind others of an atomic batch even the right
    /// number is refused.
    fn check_last_sequence_of_batch(&self, asked: &Asked<'_>, ahead: Option<&InBatch>) -> Checked {
        let last = self.log.last().0 + self.in_flight().map_or(0, Ahead::messages);
        let Some(ahead) = ahead else {
            return check_last_sequence(asked, last.max(self.shifted_last));
        };
        check_last_sequence(asked, last + ahead.all().messages())?;
        if asked.last_sequence.is_some() && ahead.all().messages() > 0 {
            return Err(ErrorCode::WrongLastSequenceConstant.into());
        }
        Ok(())
    }

    fn check_last_subject_sequence(
        &self,
        subjects: &Subjects,
        subject: SubjectId,
        asked: &Asked<'_>,
        ahead: Option<&InBatch>,
    ) -> Checked {
        let Some(expected) = asked.last_subject_sequence else {
            return if asked.subject_filter.is_some() {
                Err(ErrorCode::ExpectedSubjectMissing.into())
            } else {
                Ok(())
            };
        };
        // By its text alone: a filter with wildcards meets no subject.
        let meant = match asked.subject_filter {
            None => Some(subject),
            Some(filter) => subjects.find(filter),
        };
        if meant.is_some_and(|meant| self.messages_before(ahead, meant).of_subject > 0) {
            return Err(ErrorCode::WrongLastSequenceConstant.into());
        }
        let last = asked.subject_filter.map_or_else(
            || self.last_of(subject),
            |filter| self.last_under(subjects, filter),
        );
        if ask::sequence(expected) == last.0 {
            Ok(())
        } else {
            refuse(ErrorCode::WrongLastSequence, Detail::Number(last.0))
        }
    }

    /// Last sequence of all subjects under a filter; 0 without messages.
    fn last_under(&self, subjects: &Subjects, filter: &str) -> StreamSequence {
        if let Some(subject) = subjects.find(filter) {
            return self.last_of(subject);
        }
        let last = self
            .subjects
            .iter()
            .enumerate()
            .filter(|(id, state)| {
                let text = subjects.text(SubjectId(*id as u32));
                state.count > 0 && subjects::matches(filter, text)
            })
            .map(|(_, state)| state.last)
            .max();
        StreamSequence(last.unwrap_or(0))
    }

    /// Whether the message before this one has the id that is expected. On a batch this comes only
    /// as the message is stored.
    pub(super) fn check_last_message_id(&self, asked: &Asked<'_>) -> Checked {
        let Some(expected) = asked.last_message_id else {
            return Ok(());
        };
        let headers = self.last_headers.as_deref();
        let last = headers.map_or("", |headers| {
            Asked::read(headers).message_id.unwrap_or_default()
        });
        if expected == last {
            Ok(())
        } else {
            refuse_text(ErrorCode::WrongLastMessageId, last)
        }
    }

    fn check_rollup(&self, asked: &Asked<'_>) -> Checked {
        let Some(text) = asked.rollup else {
            return Ok(());
        };
        if !self.config.allow_rollup_hdrs || self.config.deny_purge {
            return refuse_text(ErrorCode::RollupFailed, "rollup not permitted");
        }
        if Rollup::parse(text).is_none() {
            let text = format!("rollup value invalid: {text:?}");
            return refuse_text(ErrorCode::RollupFailed, &text);
        }
        Ok(())
    }

    /// Room under `discard: new`, as it is counted before a message of a batch is stored.
    fn check_room(
        &self,
        subjects: &Subjects,
        publish: &Publish,
        asked: &Asked<'_>,
        header_bytes: u32,
        ahead: Option<&InBatch>,
    ) -> Checked {
        if self.config.discard != Discard::New {
            return Ok(());
        }
        let subject = publish.subject;
        let before = self.messages_before(ahead, subject);
        if let Some(limit) = StreamConfig::limit(self.config.max_msgs)
            && self.log.messages() + before.messages >= limit
        {
            return refuse_text(ErrorCode::StoreFailed, MESSAGES);
        }
        if let Some(limit) = StreamConfig::limit(self.config.max_bytes)
            && self.log.bytes() + before.bytes + self.record_bytes(subjects, publish, header_bytes)
                > limit
        {
            return refuse_text(ErrorCode::StoreFailed, BYTES);
        }
        if self.config.discard_new_per_subject
            && asked.rollup.is_none()
            && self.is_subject_full(subject, before.of_subject)
        {
            return refuse_text(ErrorCode::StoreFailed, SUBJECT);
        }
        Ok(())
    }

    /// What comes before a message and is not in the log: proposals in flight, and the batch that it
    /// belongs to.
    fn messages_before(&self, batch: Option<&InBatch>, subject: SubjectId) -> Before {
        let state = self.subjects.get(subject.0 as usize);
        let in_flight = state.map_or(0, |state| u64::from(state.in_flight));
        let mut before = Before {
            of_subject: in_flight + batch.map_or(0, |batch| batch.messages_of(subject)),
            ..Before::default()
        };
        for ahead in self.in_flight().into_iter().chain(batch.map(InBatch::all)) {
            before.messages += ahead.messages();
            before.bytes += ahead.bytes();
        }
        before
    }

    /// Room under `discard: new`, as the store counts it: a message that replaces the oldest of its
    /// subject may come in where no further one could.
    pub(super) fn check_room_at_store(
        &mut self,
        subjects: &Subjects,
        publish: &Publish,
        asked: &Asked<'_>,
        header_bytes: u32,
    ) -> Checked {
        if self.config.discard != Discard::New {
            return Ok(());
        }
        let full = self.is_subject_full(publish.subject, 0);
        if full && self.config.discard_new_per_subject && asked.rollup.is_none() {
            return refuse_text(ErrorCode::StoreFailed, SUBJECT);
        }
        if let Some(limit) = StreamConfig::limit(self.config.max_msgs)
            && self.log.messages() >= limit
            && !full
        {
            return refuse_text(ErrorCode::StoreFailed, MESSAGES);
        }
        let bytes = self.record_bytes(subjects, publish, header_bytes);
        if let Some(limit) = StreamConfig::limit(self.config.max_bytes)
            && self.log.bytes() + bytes > limit
            && !(full && self.oldest_bytes(subjects, publish.subject) >= bytes)
        {
            return refuse_text(ErrorCode::StoreFailed, BYTES);
        }
        Ok(())
    }

    /// Whether a subject has no room behind so many messages that are ahead of the log.
    fn is_subject_full(&self, subject: SubjectId, ahead: u64) -> bool {
        let count = self
            .subjects
            .get(subject.0 as usize)
            .map_or(0, |state| state.count);
        StreamConfig::limit(self.config.max_msgs_per_subject)
            .is_some_and(|limit| count + ahead >= limit)
    }

    pub(super) fn record_bytes(
        &self,
        subjects: &Subjects,
        publish: &Publish,
        header_bytes: u32,
    ) -> u64 {
        let subject = subjects.text(publish.subject).len() as u32;
        self.log
            .record_bytes(subject, header_bytes, publish.payload.bytes)
    }

    /// Bytes of the record of the oldest message of a subject.
    fn oldest_bytes(&mut self, subjects: &Subjects, subject: SubjectId) -> u64 {
        let text = subjects.text(subject).len() as u32;
        let Some(first) = self.first_of(subject) else {
            return 0;
        };
        let headers = self.log.headers(first);
        let header_bytes = headers.map_or(0, |headers| headers.wire_bytes() as u32);
        let payload = self.log.get(first).map_or(0, |record| record.payload.bytes);
        self.log.record_bytes(text, header_bytes, payload)
    }
}

const MESSAGES: &str = "maximum messages exceeded";
const BYTES: &str = "maximum bytes exceeded";
const SUBJECT: &str = "maximum messages per subject exceeded";

/// Bytes of the header block of a message; 0 without one.
pub(super) fn header_bytes(publish: &Publish) -> u32 {
    let headers = publish.headers.as_deref();
    headers.map_or(0, |headers| headers.wire_bytes() as u32)
}

fn check_header_bytes(bytes: u32) -> Checked {
    if bytes > MOST_HEADER_BYTES {
        Err(ErrorCode::HeaderTooBig.into())
    } else {
        Ok(())
    }
}

/// Whether a message id comes twice in an atomic batch.
fn check_duplicate_ahead(asked: &Asked<'_>, ahead: Option<&InBatch>) -> Checked {
    match (asked.message_id, ahead) {
        (Some(id), Some(ahead)) if ahead.all().has_id(id) => Err(ErrorCode::AtomicDuplicate.into()),
        _ => Ok(()),
    }
}

fn check_last_sequence(asked: &Asked<'_>, last: u64) -> Checked {
    match asked.last_sequence {
        Some(text) if ask::sequence(text) != last => {
            refuse(ErrorCode::WrongLastSequence, Detail::Number(last))
        }
        _ => Ok(()),
    }
}

/// A message of an atomic batch replaces nothing of its own batch.
fn check_rollup_ahead(subject: SubjectId, asked: &Asked<'_>, ahead: Option<&InBatch>) -> Checked {
    let (Some(rollup), Some(ahead)) = (asked.rollup.and_then(Rollup::parse), ahead) else {
        return Ok(());
    };
    match rollup {
        Rollup::Subject if ahead.messages_of(subject) > 0 => {
            refuse_text(ErrorCode::RollupFailed, "batch rollup sub invalid")
        }
        Rollup::All if ahead.all().messages() > 0 => {
            refuse_text(ErrorCode::RollupFailed, "batch rollup all invalid")
        }
        Rollup::Subject | Rollup::All => Ok(()),
    }
}

fn check_ttl_value(ttl: &str) -> Checked {
    if ask::ttl_is_valid(ttl) {
        Ok(())
    } else {
        Err(ErrorCode::InvalidTtl.into())
    }
}
