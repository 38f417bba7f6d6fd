//! What is to happen when: events in the order of time, rank, and first in first out.
//!
//! Each connection end, listener and timer has a rank that the seed gives it, so that ties between
//! them do not follow from the order in which code was written. Leans on `machine`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::machine::Time;

/// Events to come.
#[derive(Debug)]
pub(super) struct Agenda<E> {
    entries: BinaryHeap<Reverse<Entry<E>>>,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    key: (Time, u64, u64),
    event: E,
}

impl<E> Agenda<E> {
    pub(super) fn new() -> Self {
        Self {
            entries: BinaryHeap::new(),
            added: 0,
        }
    }

    /// Adds an event at `at`; `rank` settles ties.
    pub(super) fn add(&mut self, at: Time, rank: u64, event: E) {
        self.added += 1;
        let key = (at, rank, self.added);
        self.entries.push(Reverse(Entry { key, event }));
    }

    /// When the next event is; [`Time::NEVER`] if there is none.
    pub(super) fn next_at(&self) -> Time {
        let next = self.entries.peek();
        next.map_or(Time::NEVER, |Reverse(entry)| entry.key.0)
    }

    /// Takes the next event, if it is due at `now`.
    pub(super) fn pop_by(&mut self, now: Time) -> Option<E> {
        if self.entries.is_empty() || self.next_at() > now {
            return None;
        }
        self.entries.pop().map(|Reverse(entry)| entry.event)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_comes_first_then_rank_then_order() {
        let mut agenda = Agenda::new();
        let at = Time::from_micros;
        for (us, rank, event) in [
            (5, 1, 'd'),
            (5, 1, 'e'),
            (5, 0, 'c'),
            (3, 9, 'b'),
            (2, 9, 'a'),
        ] {
            agenda.add(at(us), rank, event);
        }
        assert_eq!(agenda.next_at(), at(2));
        assert_eq!(agenda.pop_by(at(1)), None);
        let order: String = std::iter::from_fn(|| agenda.pop_by(at(9))).collect();
        assert_eq!(order, "abcde");
        assert_eq!(agenda.next_at(), Time::NEVER);
        assert_eq!(agenda.pop_by(Time::NEVER), None);
    }
}
