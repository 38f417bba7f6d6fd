//! Open batches by number: found by two indices, forgotten without trace.
//!
//! A run may open millions of batches and hold thousands. Numbers lead through small pages to
//! slots; pages without a live batch are freed, slots are used again. Leans on `event`.

use std::collections::VecDeque;

use crate::event::BatchNumber;

const PAGE: usize = 256;
const NONE: u32 = u32::MAX;

#[derive(Default)]
struct Page {
    live: u16,
    slots: Option<Box<[u32; PAGE]>>,
}

/// Values of live batches.
pub(super) struct Batches<T> {
    /// Number of the page at the front of `pages`.
    first_page: usize,
    pages: VecDeque<Page>,
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Batches<T> {
    pub(super) const fn new() -> Self {
        Self {
            first_page: 0,
            pages: VecDeque::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The value of a live batch.
    #[inline]
    pub(super) fn get_mut(&mut self, batch: BatchNumber) -> Option<&mut T> {
        let number = batch.0 as usize;
        let page = (number / PAGE).checked_sub(self.first_page)?;
        let slot = self.pages.get(page)?.slots.as_ref()?[number % PAGE];
        self.slots.get_mut(slot as usize)
    }

    /// Makes `batch` live with `value`; replaces the value of a live one.
    pub(super) fn insert(&mut self, batch: BatchNumber, value: T) {
        if let Some(old) = self.get_mut(batch) {
            *old = value;
            return;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = value;
                slot
            }
            None => {
                self.slots.push(value);
                self.slots.len() as u32 - 1
            }
        };
        let number = batch.0 as usize;
        let page = self.page_mut(number / PAGE);
        page.live += 1;
        page.slots.get_or_insert_with(|| Box::new([NONE; PAGE]))[number % PAGE] = slot;
    }

    /// Forgets `batch`; its slot keeps what `recycle` leaves in it.
    pub(super) fn remove(&mut self, batch: BatchNumber, recycle: impl FnOnce(&mut T)) {
        let number = batch.0 as usize;
        let Some(index) = (number / PAGE).checked_sub(self.first_page) else {
            return;
        };
        let Some(page) = self.pages.get_mut(index) else {
            return;
        };
        let Some(slots) = page.slots.as_mut() else {
            return;
        };
        let slot = std::mem::replace(&mut slots[number % PAGE], NONE);
        if slot == NONE {
            return;
        }
        recycle(&mut self.slots[slot as usize]);
        self.free.push(slot);
        page.live -= 1;
        // The newest page is still being filled.
        if index + 1 < self.pages.len() {
            self.free_page(index);
        }
    }

    /// Frees a page if nothing in it lives, and with it all empty pages at the front.
    fn free_page(&mut self, index: usize) {
        if self.pages[index].live > 0 {
            return;
        }
        self.pages[index].slots = None;
        while self.pages.len() > 1 && self.pages[0].live == 0 {
            self.pages.pop_front();
            self.first_page += 1;
        }
    }

    /// The value that a freed slot holds, to be used again by [`Batches::insert`].
    pub(super) fn take_spare(&mut self) -> T {
        match self.free.last() {
            Some(slot) => std::mem::take(&mut self.slots[*slot as usize]),
            None => T::default(),
        }
    }

    /// How many batches are live.
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Every live value, with its batch, in the order of numbers.
    pub(super) fn live(&self) -> Vec<BatchNumber> {
        let mut live = Vec::with_capacity(self.len());
        for (index, page) in self.pages.iter().enumerate() {
            for (offset, slot) in page.slots.iter().flat_map(|slots| slots.iter().enumerate()) {
                if *slot != NONE {
                    let number = (self.first_page + index) * PAGE + offset;
                    live.push(BatchNumber(number as u32));
                }
            }
        }
        live
    }

    /// Slots, pages and held page tables: what memory depends on.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> (usize, usize, usize) {
        let held = self.pages.iter().filter(|page| page.slots.is_some());
        (self.slots.len(), self.pages.len(), held.count())
    }

    /// The page with this number, made if need be. Numbers rise with few exceptions, so pages are
    /// added at the back; one that was freed early comes back at the front.
    fn page_mut(&mut self, number: usize) -> &mut Page {
        if self.pages.is_empty() {
            self.first_page = number;
        }
        while number < self.first_page {
            self.pages.push_front(Page::default());
            self.first_page -= 1;
        }
        while self.first_page + self.pages.len() <= number {
            self.pages.push_back(Page::default());
            if let Some(full) = self.pages.len().checked_sub(2) {
                self.free_page(full);
            }
        }
        &mut self.pages[number - self.first_page]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_batches_behind_a_straggler_cost_next_to_nothing() {
        let mut batches = Batches::new();
        batches.insert(BatchNumber(0), 7_u32);
        for number in 1..1_000_000 {
            batches.insert(BatchNumber(number), number);
            assert_eq!(
                batches.get_mut(BatchNumber(number)),
                Some(&mut number.clone())
            );
            batches.remove(BatchNumber(number), |_| ());
            assert_eq!(batches.get_mut(BatchNumber(number)), None);
        }
        assert_eq!(batches.get_mut(BatchNumber(0)), Some(&mut 7));
        let (slots, pages, held) = batches.footprint();
        assert_eq!(slots, 2);
        assert_eq!(pages, 1_000_000_usize.div_ceil(PAGE));
        assert!(held <= 2 + 1, "{held}");
        batches.remove(BatchNumber(0), |_| ());
        assert!(batches.footprint().1 <= 2);
        assert_eq!(batches.len(), 0);
    }

    #[test]
    fn numbers_out_of_order_and_twice_are_kept_apart() {
        let mut batches = Batches::new();
        for number in [5_000, 3, 4_999, 300] {
            batches.insert(BatchNumber(number), number);
        }
        batches.insert(BatchNumber(3), 33);
        batches.remove(BatchNumber(9), |_| ());
        batches.remove(BatchNumber(9_999), |_| ());
        assert_eq!(batches.get_mut(BatchNumber(3)), Some(&mut 33));
        assert_eq!(
            batches.live(),
            [3, 300, 4_999, 5_000].map(BatchNumber).to_vec()
        );
        batches.remove(BatchNumber(3), |_| ());
        batches.insert(BatchNumber(4), 4);
        assert_eq!(batches.get_mut(BatchNumber(4)), Some(&mut 4));
        assert_eq!(batches.get_mut(BatchNumber(300)), Some(&mut 300));
    }
}
