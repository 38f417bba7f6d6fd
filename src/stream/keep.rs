//! Storing a message, and what goes for it: limits, rollups, removals.
//!
//! Leans on `log`.

use std::sync::Arc;

use super::ask::{Asked, Rollup};
use super::config::{Discard, Retention, StreamConfig};
use super::dedup::DedupWindow;
use super::log::{Origin, OriginId};
use super::subjects::Subjects;
use super::{Stream, SubjectState, Surroundings};
use crate::batch::fast::table::SlotId;
use crate::batch::message::{BatchHandle, Payload, SubjectId};
use crate::nats::header::Headers;
use crate::nats::{BatchSequence, StreamSequence};

/// A message on its way into the log.
#[derive(Clone, Debug)]
pub(super) struct Incoming<'a> {
    pub(super) subject: SubjectId,
    pub(super) sender: Sender,
    pub(super) sequence: BatchSequence,
    pub(super) payload: Payload,
    pub(super) headers: Option<&'a Arc<Headers>>,
}

/// What a message is part of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sender {
    /// No batch.
    Plain,
    /// A fast batch.
    Fast(BatchHandle, SlotId),
    /// A batch whose messages of this subject have this origin.
    Known(OriginId),
}

impl Stream {
    /// Stores a message that passed all checks, and lets go of what the limits or a rollup say.
    pub(super) fn store(
        &mut self,
        around: &Surroundings<'_>,
        message: &Incoming<'_>,
        asked: &Asked<'_>,
    ) -> StreamSequence {
        let now = around.now;
        let subject = message.subject;
        let origin = self.origin(around.subjects, message);
        let headers = message.headers.cloned();
        let at = self.log.append(
            now,
            origin,
            message.sequence,
            message.payload,
            headers.clone(),
        );
        self.last_headers = headers;
        let is_kept = self.config.retention != Retention::Interest;
        if let Some(id) = asked.message_id {
            let is_dated = is_kept || self.is_replicated() || !around.undated_ids;
            let insert = if is_dated {
                DedupWindow::insert
            } else {
                DedupWindow::insert_undated
            };
            insert(&mut self.dedup, now, id, at);
        }
        let state = self.subject_mut(subject);
        if state.count == 0 {
            state.first = at.0;
        }
        state.count += 1;
        state.last = at.0;
        if !is_kept {
            // Nobody is interested: the sequence is used up, the message is not kept.
            self.remove(at);
            return at;
        }
        self.enforce_subject_limit(subject);
        self.enforce_limits();
        match asked.rollup.and_then(Rollup::parse) {
            None => {}
            Some(Rollup::Subject) => self.keep_newest_of(subject, 1),
            Some(Rollup::All) => self.keep_newest(1),
        }
        at
    }

    /// Removes one message; false if it is not there.
    pub(super) fn remove(&mut self, sequence: StreamSequence) -> bool {
        let Some(record) = self.log.remove(sequence) else {
            return false;
        };
        let Some(state) = self.subjects.get_mut(record.subject.0 as usize) else {
            return true;
        };
        state.count -= 1;
        if state.count == 0 {
            state.first = 0;
            state.last = 0;
            return true;
        }
        if state.first == sequence.0 {
            state.first += 1;
        }
        if state.last == sequence.0 {
            let first = state.first;
            let before = (first..sequence.0).rev().find(|at| {
                self.log
                    .get(StreamSequence(*at))
                    .is_some_and(|other| other.subject == record.subject)
            });
            if let Some(state) = self.subjects.get_mut(record.subject.0 as usize) {
                state.last = before.unwrap_or(0);
            }
        }
        true
    }

    /// Removes everything; sequences go on.
    pub(super) fn remove_all(&mut self) {
        self.log.clear();
        for state in &mut self.subjects {
            *state = SubjectState {
                in_flight: state.in_flight,
                plain: state.plain,
                ..SubjectState::default()
            };
        }
    }

    /// Removes all but the newest `keep` messages.
    pub(super) fn keep_newest(&mut self, keep: u64) {
        if keep == 0 {
            self.remove_all();
        }
        while self.log.messages() > keep {
            self.remove(self.log.first());
        }
    }

    /// Removes all but the newest `keep` messages of a subject.
    pub(super) fn keep_newest_of(&mut self, subject: SubjectId, keep: u64) {
        while self
            .subjects
            .get(subject.0 as usize)
            .is_some_and(|state| state.count > keep)
        {
            let Some(first) = self.first_of(subject) else {
                return;
            };
            self.remove(first);
        }
    }

    /// The first message of a subject; notes where it was found.
    pub(super) fn first_of(&mut self, subject: SubjectId) -> Option<StreamSequence> {
        let state = self.subjects.get(subject.0 as usize)?;
        if state.count == 0 {
            return None;
        }
        let start = state.first.max(self.log.first().0);
        let found = (start..=state.last).find(|at| {
            self.log
                .get(StreamSequence(*at))
                .is_some_and(|record| record.subject == subject)
        })?;
        self.subject_mut(subject).first = found;
        Some(StreamSequence(found))
    }

    pub(super) fn enforce_all_subject_limits(&mut self) {
        for subject in 0..self.subjects.len() as u32 {
            self.enforce_subject_limit(SubjectId(subject));
        }
    }

    fn enforce_subject_limit(&mut self, subject: SubjectId) {
        if let Some(limit) = StreamConfig::limit(self.config.max_msgs_per_subject) {
            self.keep_newest_of(subject, limit);
        }
    }

    /// Drops the oldest messages while there are too many, or they are too large.
    pub(super) fn enforce_limits(&mut self) {
        if self.config.discard != Discard::Old {
            return;
        }
        let messages = StreamConfig::limit(self.config.max_msgs).unwrap_or(u64::MAX);
        let bytes = StreamConfig::limit(self.config.max_bytes).unwrap_or(u64::MAX);
        while self.log.messages() > messages || self.log.bytes() > bytes {
            self.remove(self.log.first());
        }
    }

    pub(super) fn subject_mut(&mut self, subject: SubjectId) -> &mut SubjectState {
        let index = subject.0 as usize;
        if self.subjects.len() <= index {
            self.subjects.resize(index + 1, SubjectState::default());
        }
        &mut self.subjects[index]
    }

    fn origin(&mut self, subjects: &Subjects, message: &Incoming<'_>) -> OriginId {
        let subject = message.subject;
        let make = |batch| Origin {
            batch,
            subject,
            subject_bytes: subjects.text(subject).len() as u32,
        };
        let (handle, slot) = match message.sender {
            Sender::Fast(handle, slot) => (handle, slot),
            Sender::Known(origin) => return origin,
            Sender::Plain => {
                let known = self.subject_mut(subject).plain;
                return known.unwrap_or_else(|| {
                    let id = self.log.origin(make(None));
                    self.subject_mut(subject).plain = Some(id);
                    id
                });
            }
        };
        let Some((_, own)) = self.batches.get_mut(slot) else {
            return self.log.origin(make(Some(handle)));
        };
        match own.last {
            Some((last, id)) if last == subject => id,
            _ => {
                let id = match own.others.get(&subject) {
                    Some(id) => *id,
                    None => {
                        let id = self.log.origin(make(Some(handle)));
                        own.others.insert(subject, id);
                        id
                    }
                };
                own.last = Some((subject, id));
                id
            }
        }
    }
}
