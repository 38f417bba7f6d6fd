//! Which batch sequences have come: the highest, and the holes below it.
//!
//! Memory follows the holes, not the sequences. Leans on nothing of ours.

use std::collections::BTreeMap;

/// How a sequence came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Came {
    /// Above all before.
    First,
    /// Behind a later one.
    Late,
    /// Not for the first time.
    Again,
}

/// Sequences from 1 that have come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sequences {
    highest: u64,
    /// Ranges below `highest` that have not come: first and last of each.
    holes: BTreeMap<u64, u64>,
}

impl Sequences {
    /// The highest that has come; 0: none has.
    pub(super) const fn highest(&self) -> u64 {
        self.highest
    }

    /// One comes.
    pub(super) fn take(&mut self, sequence: u64) -> Came {
        if sequence > self.highest {
            if sequence > self.highest + 1 {
                self.holes.insert(self.highest + 1, sequence - 1);
            }
            self.highest = sequence;
            return Came::First;
        }
        let hole = self.holes.range(..=sequence).next_back();
        let Some((first, last)) = hole
            .map(|(first, last)| (*first, *last))
            .filter(|(_, last)| *last >= sequence)
        else {
            return Came::Again;
        };
        self.holes.remove(&first);
        if first < sequence {
            self.holes.insert(first, sequence - 1);
        }
        if sequence < last {
            self.holes.insert(sequence + 1, last);
        }
        Came::Late
    }

    /// Ranges of `1..=up_to` that have not come, the first and last of each.
    pub(super) fn missing(&self, up_to: u64) -> impl Iterator<Item = (u64, u64)> {
        let tail = (self.highest < up_to).then_some((self.highest + 1, up_to));
        self.holes
            .iter()
            .take_while(move |(first, _)| **first <= up_to)
            .map(move |(first, last)| (*first, (*last).min(up_to)))
            .chain(tail)
    }

    /// The first that has come of these ranges, each its first and the first beyond it.
    pub(super) fn first_within(&self, mut ranges: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
        ranges.find_map(|(first, beyond)| {
            let mut next = first;
            while next < beyond {
                let mut holes = self.missing(beyond - 1);
                match holes.find(|(_, last)| *last >= next) {
                    Some((start, last)) if start <= next => next = last + 1,
                    Some(_) | None => return Some(next),
                }
            }
            None
        })
    }
}
