//! The log of a replica: a snapshot, append entries after it, and how much of that is safe.
//!
//! nats-server keeps it in a file store of its own, the WAL. Leans on the words of `raft`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::message::{Position, Record};
use super::{LogIndex, Term};

/// An amount of log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Load {
    /// Append entries.
    pub append_entries: u64,
    /// Proposals in them.
    pub proposals: u64,
    /// Encoded bytes of the append entries.
    pub bytes: u64,
}

impl Load {
    fn plus<E>(self, record: &Record<E>) -> Self {
        Self {
            append_entries: self.append_entries + 1,
            proposals: self.proposals + record.content.proposed().len() as u64,
            bytes: self.bytes + record.bytes,
        }
    }

    const fn minus(self, earlier: Self) -> Self {
        Self {
            append_entries: self.append_entries.saturating_sub(earlier.append_entries),
            proposals: self.proposals.saturating_sub(earlier.proposals),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

/// A snapshot: it stands for the log up to its place.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot<S> {
    /// Its place.
    pub last: Position,
    /// What the layer above put into it.
    pub state: S,
}

/// The log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Log<E, S> {
    snapshot: Option<Snapshot<S>>,
    /// What comes before the first record.
    base: Position,
    records: VecDeque<Kept<E>>,
    /// Everything that was ever before the first record.
    base_load: Load,
    /// The disk has everything up to here.
    written: LogIndex,
    /// A loss of power leaves everything up to here.
    synced: LogIndex,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Kept<E> {
    record: Arc<Record<E>>,
    /// Everything up to this one, itself included.
    load: Load,
}

impl<E, S> Default for Log<E, S> {
    fn default() -> Self {
        Self {
            snapshot: None,
            base: Position::default(),
            records: VecDeque::new(),
            base_load: Load::default(),
            written: LogIndex(0),
            synced: LogIndex(0),
        }
    }
}

impl<E, S> Log<E, S> {
    /// Where it ends.
    pub fn last(&self) -> Position {
        match self.records.back() {
            Some(kept) => Position {
                index: self.last_index(),
                term: kept.record.term,
            },
            None => self.base,
        }
    }

    /// The index at which it ends.
    pub fn last_index(&self) -> LogIndex {
        LogIndex(self.base.index.0 + self.records.len() as u64)
    }

    /// The first index whose record is there, or would be.
    pub const fn first_index(&self) -> LogIndex {
        self.base.index.next()
    }

    /// The snapshot before the first record.
    pub const fn snapshot(&self) -> Option<&Snapshot<S>> {
        self.snapshot.as_ref()
    }

    /// The index that the snapshot stands for; 0 without one.
    pub fn snapshot_index(&self) -> LogIndex {
        let snapshot = self.snapshot.as_ref();
        snapshot.map_or(LogIndex(0), |snapshot| snapshot.last.index)
    }

    /// Everything up to here survives a loss of power.
    pub const fn synced_index(&self) -> LogIndex {
        self.synced
    }

    /// The record at `index`.
    pub fn get(&self, index: LogIndex) -> Option<&Arc<Record<E>>> {
        let place = index.0.checked_sub(self.first_index().0)?;
        Some(&self.records.get(place as usize)?.record)
    }

    /// The term of what stands at `index`, be it the end of the snapshot.
    pub fn term_at(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        Some(self.get(index)?.term)
    }

    /// What lies after `from`, up to `to`.
    pub fn load_between(&self, from: LogIndex, to: LogIndex) -> Load {
        self.load_up_to(to).minus(self.load_up_to(from))
    }

    /// Everything up to `index`, from the first on that this log has seen.
    fn load_up_to(&self, index: LogIndex) -> Load {
        let place = index.since(self.base.index) as usize;
        match place.min(self.records.len()).checked_sub(1) {
            Some(place) => self.records[place].load,
            None => self.base_load,
        }
    }

    /// Adds a record, which the disk has yet to write.
    pub(super) fn append(&mut self, record: Arc<Record<E>>) {
        let load = self
            .records
            .back()
            .map_or(self.base_load, |kept| kept.load)
            .plus(&record);
        self.records.push_back(Kept { record, load });
    }

    /// The disk has written everything.
    pub(super) fn set_written(&mut self, synced: bool) {
        self.written = self.last_index();
        if synced {
            self.synced = self.written;
        }
    }

    /// The disk has synced what was written.
    pub(super) const fn set_synced(&mut self) {
        self.synced = self.written;
    }

    /// Ends the log at `last`. A snapshot of more than that goes too (`truncateWAL`).
    pub(super) fn truncate(&mut self, last: Position) {
        if self.snapshot_index() > last.index {
            self.snapshot = None;
        }
        let keep = last.index.since(self.base.index) as usize;
        self.records.truncate(keep);
        if self.records.is_empty() {
            self.base = last;
        }
        self.written = self.written.min(last.index);
        self.synced = self.synced.min(last.index);
    }

    /// Lets a snapshot stand for everything up to its place; records after it stay
    /// (`installSnapshot`). The snapshot itself is on disk when `set_written` is called.
    pub(super) fn compact(&mut self, snapshot: Snapshot<S>) {
        let last = snapshot.last;
        let gone = last.index.since(self.base.index) as usize;
        self.base_load = self.load_up_to(last.index);
        self.records.drain(..gone.min(self.records.len()));
        self.base = last;
        self.snapshot = Some(snapshot);
        self.written = self.written.max(last.index);
        self.synced = self.synced.max(last.index);
    }

    /// What is left after a crash.
    pub(super) fn recover(&mut self, power_lost: bool) {
        let last = if power_lost {
            self.synced
        } else {
            self.written
        };
        if let Some(term) = self.term_at(last) {
            self.truncate(Position { index: last, term });
        }
    }

    /// The highest commit index that a record tells, and the snapshot's.
    pub(super) fn known_commit(&self) -> LogIndex {
        let records = self.records.iter().map(|kept| kept.record.commit);
        records.fold(self.snapshot_index(), LogIndex::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::message::Content;

    fn log(records: u64) -> Log<u64, u64> {
        let mut log = Log::default();
        for index in 1..=records {
            log.append(Arc::new(Record {
                term: Term(index.div_ceil(2) as u32),
                commit: LogIndex(index.saturating_sub(2)),
                content: Content::Proposed([index].into()),
                bytes: 10,
                digest: index,
            }));
        }
        log.set_written(false);
        log
    }

    fn at(index: u64, term: u32) -> Position {
        Position {
            index: LogIndex(index),
            term: Term(term),
        }
    }

    #[test]
    fn a_snapshot_stands_for_the_records_that_go() {
        let mut log = log(5);
        log.compact(Snapshot {
            last: at(3, 2),
            state: 0,
        });
        assert_eq!(log.first_index(), LogIndex(4));
        assert_eq!(log.last(), at(5, 3));
        assert_eq!(log.term_at(LogIndex(3)), Some(Term(2)));
        assert_eq!(log.term_at(LogIndex(2)), None);
        let load = log.load_between(LogIndex(3), LogIndex(5));
        assert_eq!(
            (load.append_entries, load.proposals, load.bytes),
            (2, 2, 20)
        );
        log.truncate(at(3, 2));
        assert_eq!(log.last(), at(3, 2));
        assert!(log.snapshot().is_some());
        log.truncate(Position::default());
        assert_eq!(log.last(), Position::default());
        assert!(log.snapshot().is_none());
    }

    #[test]
    fn a_crash_leaves_what_was_written_or_synced() {
        let mut log = log(4);
        log.set_synced();
        let record = log.get(LogIndex(4)).cloned().expect("it is there");
        log.append(record.clone());
        log.set_written(false);
        log.append(record);
        let mut killed = log.clone();
        killed.recover(false);
        assert_eq!(killed.last_index(), LogIndex(5));
        log.recover(true);
        assert_eq!(log.last_index(), LogIndex(4));
        assert_eq!(log.known_commit(), LogIndex(2));
    }
}
