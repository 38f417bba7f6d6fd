//! First-in-first-out lanes whose items lie together in one place.
//!
//! Thousands of lanes carry a few items each. A place that an item left is the next to be filled, so
//! that memory, and what of it the processor has at hand, follows the items under way and not the lanes.
//! Leans on nothing of ours.

/// Nothing: the end of a lane, or of the places that are free.
const NONE: u32 = u32::MAX;

/// Lanes, numbered from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Lanes<T> {
    lanes: Vec<Lane>,
    places: Vec<Place<T>>,
    /// The first free place.
    free: u32,
}

/// The first and the last place of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Lane {
    first: u32,
    last: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Place<T> {
    /// The place behind it, on the lane or among the free ones.
    next: u32,
    /// Empty while the place is free.
    item: Option<T>,
}

impl<T> Lanes<T> {
    pub(super) fn new(count: usize) -> Self {
        let empty = Lane {
            first: NONE,
            last: NONE,
        };
        Self {
            lanes: vec![empty; count],
            places: Vec::new(),
            free: NONE,
        }
    }

    pub(super) const fn count(&self) -> usize {
        self.lanes.len()
    }

    /// Puts an item at the end of a lane; true if it is the only one there.
    pub(super) fn push(&mut self, lane: usize, item: T) -> bool {
        let place = self.fill(item);
        let last = std::mem::replace(&mut self.lanes[lane].last, place);
        if last == NONE {
            self.lanes[lane].first = place;
        } else {
            self.places[last as usize].next = place;
        }
        last == NONE
    }

    /// Takes the first item of a lane out.
    pub(super) fn pop(&mut self, lane: usize) -> Option<T> {
        let lane = &mut self.lanes[lane];
        let place = self.places.get_mut(lane.first as usize)?;
        let item = place.item.take();
        let next = std::mem::replace(&mut place.next, self.free);
        self.free = std::mem::replace(&mut lane.first, next);
        if next == NONE {
            lane.last = NONE;
        }
        item
    }

    /// The first item of a lane.
    pub(super) fn first(&self, lane: usize) -> Option<&T> {
        self.item(self.lanes[lane].first)
    }

    /// The last item of a lane.
    pub(super) fn last(&self, lane: usize) -> Option<&T> {
        self.item(self.lanes[lane].last)
    }

    /// What is on a lane, in order.
    pub(super) fn items(&self, lane: usize) -> impl Iterator<Item = &T> {
        let mut next = self.lanes[lane].first;
        std::iter::from_fn(move || {
            let place = self.places.get(next as usize)?;
            next = place.next;
            place.item.as_ref()
        })
    }

    fn item(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.item.as_ref()
    }

    fn fill(&mut self, item: T) -> u32 {
        let filled = Place {
            next: NONE,
            item: Some(item),
        };
        let index = self.free;
        match self.places.get_mut(index as usize) {
            Some(place) => {
                self.free = place.next;
                *place = filled;
                index
            }
            None => {
                self.places.push(filled);
                // Four thousand million items do not fit into memory.
                self.places.len() as u32 - 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_keep_their_order_and_share_places() {
        let mut lanes = Lanes::new(2);
        for round in 0..1_000 {
            assert!(lanes.push(0, round));
            assert!(lanes.push(1, -round));
            assert!(!lanes.push(0, round + 1));
            assert_eq!(
                lanes.items(0).copied().collect::<Vec<_>>(),
                [round, round + 1]
            );
            assert_eq!(
                (lanes.first(0), lanes.last(0)),
                (Some(&round), Some(&(round + 1)))
            );
            assert_eq!(lanes.pop(0), Some(round));
            assert_eq!(lanes.pop(1), Some(-round));
            assert_eq!(lanes.pop(1), None);
            assert_eq!(lanes.pop(0), Some(round + 1));
            assert_eq!((lanes.first(0), lanes.last(0)), (None, None));
        }
        assert_eq!(lanes.places.len(), 3);
    }
}
