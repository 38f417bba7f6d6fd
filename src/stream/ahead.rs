//! Messages that are checked and not in the log yet: what they will have changed.
//!
//! An atomic batch is checked whole before any of it is stored, and the leader of a stream with
//! replicas checks what it proposes before any replica applies it. Leans on `dedup` for message ids.

use std::collections::{BTreeMap, BTreeSet};

use super::ask::Asked;
use super::dedup;
use crate::batch::message::SubjectId;

/// What is ahead of the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Ahead {
    messages: u64,
    bytes: u64,
    /// Digests of message ids.
    ids: BTreeSet<u128>,
}

impl Ahead {
    /// Counts a message that passed its checks; `bytes` is the size of its record.
    pub(super) fn add(&mut self, asked: &Asked<'_>, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
        if let Some(id) = asked.message_id {
            self.ids.insert(dedup::digest(id));
        }
    }

    /// Takes a message back that was added with the same arguments: it is in the log now, or lost.
    pub(super) fn settle(&mut self, asked: &Asked<'_>, bytes: u64) {
        self.messages -= 1;
        self.bytes -= bytes;
        if let Some(id) = asked.message_id {
            self.ids.remove(&dedup::digest(id));
        }
    }

    /// Messages.
    pub(super) const fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of their records.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Digests of their message ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = u128> {
        self.ids.iter().copied()
    }

    /// Whether one of them has this message id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        !self.ids.is_empty() && self.ids.contains(&dedup::digest(id))
    }
}

/// What an atomic batch has ahead of the message in hand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct InBatch {
    all: Ahead,
    subjects: BTreeMap<SubjectId, u64>,
}

impl InBatch {
    /// Counts a message that passed its checks; `bytes` is the size of its record.
    pub(super) fn add(&mut self, subject: SubjectId, asked: &Asked<'_>, bytes: u64) {
        self.all.add(asked, bytes);
        *self.subjects.entry(subject).or_default() += 1;
    }

    /// All of them.
    pub(super) const fn all(&self) -> &Ahead {
        &self.all
    }

    /// Messages of a subject.
    pub(super) fn messages_of(&self, subject: SubjectId) -> u64 {
        self.subjects.get(&subject).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_counts() {
        let mut ahead = Ahead::default();
        let asked = Asked {
            message_id: Some("m"),
            ..Asked::NOTHING
        };
        ahead.add(&asked, 40);
        ahead.add(&Asked::NOTHING, 50);
        assert_eq!((ahead.messages(), ahead.bytes()), (2, 90));
        assert!(ahead.has_id("m") && !ahead.has_id("n"));
        ahead.settle(&asked, 40);
        assert_eq!((ahead.messages(), ahead.bytes()), (1, 50));
        assert!(!ahead.has_id("m"));
        ahead.settle(&Asked::NOTHING, 50);
        assert_eq!(ahead, Ahead::default());
    }

    #[test]
    fn a_batch_counts_its_subjects() {
        let mut batch = InBatch::default();
        batch.add(SubjectId(3), &Asked::NOTHING, 40);
        batch.add(SubjectId(3), &Asked::NOTHING, 50);
        batch.add(SubjectId(4), &Asked::NOTHING, 1);
        assert_eq!((batch.all().messages(), batch.all().bytes()), (3, 91));
        assert_eq!(batch.messages_of(SubjectId(3)), 2);
        assert_eq!(batch.messages_of(SubjectId(5)), 0);
    }
}
