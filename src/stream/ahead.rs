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
    /// Messages by subject.
    subjects: BTreeMap<SubjectId, u64>,
    /// Digests of message ids.
    ids: BTreeSet<u128>,
}

impl Ahead {
    /// Counts a message that passed its checks; `bytes` is the size of its record.
    pub(super) fn add(&mut self, subject: SubjectId, asked: &Asked<'_>, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
        *self.subjects.entry(subject).or_default() += 1;
        if let Some(id) = asked.message_id {
            self.ids.insert(dedup::digest(id));
        }
    }

    /// Takes a message back that was added with the same arguments: it is in the log now, or lost.
    pub(super) fn settle(&mut self, subject: SubjectId, asked: &Asked<'_>, bytes: u64) {
        let Some(count) = self.subjects.get_mut(&subject) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.subjects.remove(&subject);
        }
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

    /// Messages of a subject.
    pub(super) fn messages_of(&self, subject: SubjectId) -> u64 {
        self.subjects.get(&subject).copied().unwrap_or(0)
    }

    /// Whether one of them has this message id.
    pub(super) fn has_id(&self, id: &str) -> bool {
        !self.ids.is_empty() && self.ids.contains(&dedup::digest(id))
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
        ahead.add(SubjectId(3), &asked, 40);
        ahead.add(SubjectId(3), &Asked::NOTHING, 50);
        ahead.add(SubjectId(4), &Asked::NOTHING, 1);
        assert_eq!((ahead.messages(), ahead.bytes()), (3, 91));
        assert_eq!(ahead.messages_of(SubjectId(3)), 2);
        assert_eq!(ahead.messages_of(SubjectId(5)), 0);
        assert!(ahead.has_id("m") && !ahead.has_id("n"));
        ahead.settle(SubjectId(3), &asked, 40);
        assert_eq!((ahead.messages(), ahead.bytes()), (2, 51));
        assert_eq!(ahead.messages_of(SubjectId(3)), 1);
        assert!(!ahead.has_id("m"));
        ahead.settle(SubjectId(3), &Asked::NOTHING, 50);
        ahead.settle(SubjectId(4), &Asked::NOTHING, 1);
        assert_eq!(ahead, Ahead::default());
    }
}
