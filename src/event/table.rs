//! State kept per batch by whoever reads events: found by number, freed when the batch is over.
//!
//! Leans on `event`.

use std::collections::VecDeque;

use super::BatchNumber;

/// A value for each open batch. Numbers only grow, so the table is a window over them: memory
/// follows the span between the oldest open batch and the newest, not the length of the run.
#[derive(Clone, Debug)]
pub struct BatchTable<T> {
    first: u32,
    slots: VecDeque<Option<T>>,
}

impl<T> Default for BatchTable<T> {
    fn default() -> Self {
        Self {
            first: 0,
            slots: VecDeque::new(),
        }
    }
}

impl<T> BatchTable<T> {
    /// The state of a batch, if it is there.
    pub fn get_mut(&mut self, batch: BatchNumber) -> Option<&mut T> {
        let index = batch.0.checked_sub(self.first)?;
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Puts a batch in; one whose window has passed is left out.
    pub fn insert(&mut self, batch: BatchNumber, state: T) {
        if self.slots.is_empty() {
            self.first = batch.0;
        }
        let Some(index) = batch.0.checked_sub(self.first) else {
            return;
        };
        while self.slots.len() <= index as usize {
            self.slots.push_back(None);
        }
        self.slots[index as usize] = Some(state);
    }

    /// Takes a batch out.
    pub fn remove(&mut self, batch: BatchNumber) -> Option<T> {
        let index = batch.0.checked_sub(self.first)?;
        let state = self.slots.get_mut(index as usize)?.take();
        while let Some(None) = self.slots.front() {
            self.slots.pop_front();
            self.first += 1;
        }
        state
    }

    /// Every batch that is there, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (BatchNumber, &mut T)> {
        (self.first..)
            .zip(&mut self.slots)
            .filter_map(|(number, slot)| Some((BatchNumber(number), slot.as_mut()?)))
    }

    /// Every batch that is there, in order.
    pub fn iter(&self) -> impl Iterator<Item = (BatchNumber, &T)> {
        (self.first..)
            .zip(&self.slots)
            .filter_map(|(number, slot)| Some((BatchNumber(number), slot.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_the_open_batches() {
        let mut table = BatchTable::default();
        for number in 0..10_000 {
            table.insert(BatchNumber(number), number);
            if number >= 3 {
                assert_eq!(table.remove(BatchNumber(number - 3)), Some(number - 3));
            }
        }
        assert!(table.slots.len() <= 4);
        assert_eq!(table.remove(BatchNumber(5)), None);
        assert_eq!(
            table.iter().map(|(batch, _)| batch.0).collect::<Vec<_>>(),
            [9_997, 9_998, 9_999]
        );
    }

    #[test]
    fn batches_may_come_in_any_order_of_insertion() {
        let mut table = BatchTable::default();
        table.insert(BatchNumber(5), 'a');
        table.insert(BatchNumber(7), 'b');
        assert_eq!(table.get_mut(BatchNumber(6)), None);
        assert_eq!(table.get_mut(BatchNumber(7)), Some(&mut 'b'));
    }
}
