//! What judges of logs keep for each index: of one stretch of the log, and only so much.
//!
//! What all replicas have reached is forgotten. A replica that stays down holds that up for good, so
//! there is a most. Leans on `raft`.

use std::collections::VecDeque;

use crate::raft::LogIndex;

/// Append entries of which something is kept: more than replicas that are up are ever apart.
pub(super) const MOST: usize = 1 << 17;

/// The newest values by number, at most so many.
#[derive(Clone, Debug)]
pub(super) struct Stretch<T> {
    first: u64,
    slots: VecDeque<Option<T>>,
    most: usize,
}

impl<T: Copy> Stretch<T> {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
            most,
        }
    }

    /// What was said of this number first, be it now; `None` for a number before the stretch.
    pub(super) fn first_said(&mut self, number: u64, value: T) -> Option<T> {
        if self.slots.is_empty() {
            self.first = number;
        }
        while number < self.first && self.slots.len() < self.most {
            self.slots.push_front(None);
            self.first -= 1;
        }
        let mut place = usize::try_from(number.checked_sub(self.first)?).unwrap_or(usize::MAX);
        if place >= self.most {
            let excess = place - self.most + 1;
            self.forget(excess);
            place -= excess;
        }
        if self.slots.len() <= place {
            self.slots.resize(place + 1, None);
        }
        Some(*self.slots[place].get_or_insert(value))
    }

    /// Forgets what is before this number.
    pub(super) fn forget_before(&mut self, number: u64) {
        let gone = number.saturating_sub(self.first);
        self.forget(
            usize::try_from(gone)
                .unwrap_or(usize::MAX)
                .min(self.slots.len()),
        );
    }

    fn forget(&mut self, count: usize) {
        self.slots.drain(..count.min(self.slots.len()));
        self.first += count as u64;
    }

    fn end(&self) -> u64 {
        self.first.saturating_add(self.most as u64)
    }

    /// Keeps every second number, which is half of it from then on.
    fn halve(&mut self) {
        let odd = (self.first % 2) as usize;
        let kept = self.slots.iter().skip(odd).step_by(2);
        self.slots = kept.copied().collect();
        self.first = self.first.div_ceil(2);
    }
}

/// Digests of all that comes before an index: kept for each index, and for every second, fourth, …
/// where that would be too many. None of them is needed to notice a difference, since it is in all that
/// come after it.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    every: u64,
    kept: Stretch<u32>,
}

impl Prefixes {
    pub(super) const fn new(most: usize) -> Self {
        Self {
            every: 1,
            kept: Stretch::new(most),
        }
    }

    /// What was said of this index first, be it now; `None` if nothing is kept for it.
    pub(super) fn first_said(&mut self, index: LogIndex, prefix: u32) -> Option<u32> {
        if self.kept.slots.is_empty() {
            self.every = 1;
        }
        while !self.kept.slots.is_empty() && index.0 / self.every >= self.kept.end() {
            self.kept.halve();
            self.every *= 2;
        }
        if !index.0.is_multiple_of(self.every) {
            return None;
        }
        self.kept.first_said(index.0 / self.every, prefix)
    }

    /// Forgets what is before this index.
    pub(super) fn forget_before(&mut self, index: LogIndex) {
        self.kept.forget_before(index.0.div_ceil(self.every));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_kept() {
        let mut stretch = Stretch::new(4);
        for number in 10..16 {
            assert_eq!(stretch.first_said(number, number), Some(number));
        }
        assert_eq!(stretch.first_said(12, 0), Some(12));
        assert_eq!(stretch.first_said(11, 0), None);
        stretch.forget_before(15);
        assert_eq!(stretch.first_said(15, 0), Some(15));
        assert_eq!(stretch.first_said(13, 1), Some(1));
        assert_eq!(stretch.first_said(1_000, 2), Some(2));
        assert_eq!(stretch.first_said(15, 0), None);
        assert_eq!(stretch.slots.len(), 4);
        stretch.forget_before(2_000);
        assert_eq!(stretch.first_said(3, 4), Some(4));
    }

    #[test]
    fn prefixes_become_rare_and_still_tell() {
        let mut prefixes = Prefixes::new(16);
        for index in 1..=1_000 {
            prefixes.first_said(LogIndex(index), index as u32);
        }
        assert!(prefixes.kept.slots.len() <= 16);
        let said = (1..=1_000).map(|index| prefixes.first_said(LogIndex(index), 0));
        let said: Vec<u32> = said.flatten().collect();
        assert!(said.len() >= 8, "{said:?}");
        assert!(said.iter().all(|one| *one > 0 && *one <= 1_000), "{said:?}");
        prefixes.forget_before(LogIndex(1_001));
        for index in 1_001..1_010 {
            assert_eq!(prefixes.first_said(LogIndex(index), 1), Some(1));
            assert_eq!(prefixes.first_said(LogIndex(index), 2), Some(1));
        }
    }
}
