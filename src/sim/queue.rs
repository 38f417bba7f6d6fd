//! The event queue of the event lane: first-in-first-out lanes, bare wake-ups, and a tournament
//! over their heads.
//!
//! Order is (time, rank, first in first out). A tie is settled by rank, never by the order of
//! insertion, so that no refactoring can change it; the seed permutes the ranks. Faults are
//! operations on lanes: clear, hold. Leans on `lanes` and `tournament`.

use super::lanes::Lanes;
use crate::machine::Time;
use crate::tournament::Tournament;

/// What is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<E> {
    /// The head of a lane.
    Item(usize, E),
    /// A wake-up that was armed.
    Wake(usize),
}

/// Lanes that carry items, and wake-ups that carry nothing.
///
/// Lanes are numbered from 0, wake-ups apart from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Queue<E> {
    lanes: Lanes<(Time, E)>,
    /// By lane: nothing leaves it before this. Empty until a lane is held.
    held_until: Vec<Time>,
    /// Leaf of each lane, then of each wake-up.
    leaf: Vec<u32>,
    /// Owner of each leaf: a lane, or the number of lanes plus a wake-up.
    owner: Vec<u32>,
    tree: Tournament,
    /// The leaf of a wake-up that has fired and is not yet taken out of the tree: most are armed
    /// again at once, which then costs one walk instead of two.
    fired: Option<u32>,
    restless: Option<Restless>,
}

/// A wake-up that almost every event moves: beside the tree that costs nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Restless {
    wake: usize,
    leaf: usize,
    at: Time,
}

impl<E> Queue<E> {
    /// A queue of `lanes` lanes and `wakes` wake-ups. `rank` gives the order of ties: a permutation
    /// of `0..lanes + wakes`, lanes first.
    ///
    /// # Panics
    /// If `rank` is no such permutation.
    pub fn new(lanes: usize, wakes: usize, rank: &[u32]) -> Self {
        let count = lanes + wakes;
        assert_eq!(rank.len(), count, "a rank for each lane and wake-up");
        let mut owner = vec![u32::MAX; count];
        for (index, &leaf) in rank.iter().enumerate() {
            let slot = &mut owner[leaf as usize];
            assert_eq!(*slot, u32::MAX, "ranks are a permutation");
            *slot = index as u32;
        }
        Self {
            lanes: Lanes::new(lanes),
            held_until: Vec::new(),
            leaf: rank.to_vec(),
            owner,
            tree: Tournament::new(count),
            fired: None,
            restless: None,
        }
    }

    /// The queue, with this wake-up moved far more often than others. It must not be armed yet.
    #[must_use]
    pub fn with_restless(mut self, wake: usize) -> Self {
        self.restless = Some(Restless {
            wake,
            leaf: self.leaf[self.lanes.count() + wake] as usize,
            at: Time::NEVER,
        });
        self
    }

    /// Puts an item at the end of a lane. Lanes are monotone: `at` is not before the last item.
    pub fn push(&mut self, lane: usize, at: Time, item: E) {
        debug_assert!(self.last_at(lane) <= at, "a lane went back");
        if self.lanes.push(lane, (at, item)) {
            let head = self.leaves_at(lane, at);
            self.tree.set(self.leaf[lane] as usize, head);
        }
    }

    /// Moves a wake-up to `at`; [`Time::NEVER`] disarms it.
    pub fn arm(&mut self, wake: usize, at: Time) {
        if let Some(restless) = &mut self.restless
            && restless.wake == wake
        {
            restless.at = if at < self.tree.horizon() {
                at
            } else {
                Time::NEVER
            };
            return;
        }
        let leaf = self.leaf[self.lanes.count() + wake];
        if self.fired == Some(leaf) {
            self.fired = None;
            self.tree.set(leaf as usize, at);
        } else if self.tree.time(leaf as usize) != at {
            self.tree.set(leaf as usize, at);
        }
    }

    /// Moves a wake-up that may fire early, and is not the restless one: only an earlier moment counts, a later one is looked at
    /// when the wake-up fires. Saves two walks where a timer is set and taken back again and again.
    pub fn arm_by(&mut self, wake: usize, at: Time) {
        let leaf = self.leaf[self.lanes.count() + wake];
        if self.fired == Some(leaf) || at < self.tree.time(leaf as usize) {
            self.arm(wake, at);
        }
    }

    /// Takes a wake-up that has fired, and was not armed again, out of the tree.
    fn settle(&mut self) {
        if let Some(leaf) = self.fired.take() {
            self.tree.set(leaf as usize, Time::NEVER);
        }
    }

    /// The first moment that this queue takes as never: a queue of many lanes sees less far.
    pub fn horizon(&self) -> Time {
        self.tree.horizon()
    }

    /// What is on a lane, in order.
    pub fn items(&self, lane: usize) -> impl Iterator<Item = &E> {
        self.lanes.items(lane).map(|(_, item)| item)
    }

    /// The moment of the last item on a lane; the start of the run if there is none.
    pub fn last_at(&self, lane: usize) -> Time {
        self.lanes.last(lane).map_or(Time::ZERO, |(at, _)| *at)
    }

    /// Takes what is next. A wake-up that fires is disarmed.
    pub fn pop(&mut self) -> Option<(Time, Next<E>)> {
        self.pop_by(Time::NEVER)
    }

    /// Takes what is next, if it comes by `limit`.
    pub fn pop_by(&mut self, limit: Time) -> Option<(Time, Next<E>)> {
        self.settle();
        let (at, leaf) = self.tree.winner();
        if let Some(restless) = &mut self.restless
            && restless.at != Time::NEVER
            && restless.at <= limit
            && (restless.at, restless.leaf) < (at, leaf)
        {
            let at = std::mem::replace(&mut restless.at, Time::NEVER);
            return Some((at, Next::Wake(restless.wake)));
        }
        if at > limit || at == Time::NEVER {
            return None;
        }
        let owner = self.owner[leaf] as usize;
        if let Some(wake) = owner.checked_sub(self.lanes.count()) {
            self.fired = Some(leaf as u32);
            return Some((at, Next::Wake(wake)));
        }
        let (_, item) = self.lanes.pop(owner)?;
        let next = self.lanes.first(owner);
        let head = next.map_or(Time::NEVER, |(next, _)| self.leaves_at(owner, *next));
        self.tree.set(leaf, head);
        Some((at, Next::Item(owner, item)))
    }

    /// When an item leaves a lane that arrives at `at`.
    fn leaves_at(&self, lane: usize, at: Time) -> Time {
        let held_until = self.held_until.get(lane).copied();
        at.max(held_until.unwrap_or(Time::ZERO))
    }

    /// Empties a lane and returns what was in it, in order: a cut.
    pub fn clear(&mut self, lane: usize) -> impl Iterator<Item = E> + use<E> {
        self.tree.set(self.leaf[lane] as usize, Time::NEVER);
        let items: Vec<E> = std::iter::from_fn(|| self.lanes.pop(lane))
            .map(|(_, item)| item)
            .collect();
        items.into_iter()
    }

    /// Lets nothing leave a lane before `until`: a hold. Nothing is lost; what waits leaves then.
    pub fn hold(&mut self, lane: usize, until: Time) {
        self.held_until.resize(self.lanes.count(), Time::ZERO);
        self.held_until[lane] = self.leaves_at(lane, until);
        if let Some((first, _)) = self.lanes.first(lane) {
            let head = self.leaves_at(lane, *first);
            self.tree.set(self.leaf[lane] as usize, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use rand::RngExt;

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    #[test]
    fn ties_are_settled_by_rank_and_lanes_are_first_in_first_out() {
        let mut queue = Queue::new(2, 1, &[2, 0, 1]);
        queue.push(0, at(5), "a");
        queue.push(0, at(5), "b");
        queue.push(1, at(5), "c");
        queue.arm(0, at(5));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop())
            .map(|(_, next)| next)
            .collect();
        assert_eq!(
            order,
            [
                Next::Item(1, "c"),
                Next::Wake(0),
                Next::Item(0, "a"),
                Next::Item(0, "b")
            ]
        );
    }

    #[test]
    fn a_wake_up_moves_both_ways_and_fires_once() {
        let mut queue: Queue<()> = Queue::new(0, 2, &[0, 1]);
        queue.arm(0, at(10));
        queue.arm(1, at(7));
        queue.arm(0, at(3));
        assert_eq!(queue.pop(), Some((at(3), Next::Wake(0))));
        queue.arm(1, at(20));
        queue.arm(1, Time::NEVER);
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn a_cut_loses_and_a_hold_delays() {
        let mut queue = Queue::new(2, 0, &[0, 1]);
        queue.push(0, at(1), 'x');
        queue.push(1, at(2), 'y');
        assert_eq!(queue.clear(0).collect::<Vec<_>>(), ['x']);
        queue.hold(1, at(9));
        queue.push(1, at(3), 'z');
        assert_eq!(queue.pop(), Some((at(9), Next::Item(1, 'y'))));
        assert_eq!(queue.pop(), Some((at(9), Next::Item(1, 'z'))));
        assert_eq!(queue.pop(), None);
    }

    /// The tournament against a sort of everything, over random operations.
    #[test]
    fn agrees_with_a_naive_queue() {
        let mut draw = Seed(3).generator("queue", 0);
        for leaves in [1, 2, 3, 7, 64, 65] {
            let rank: Vec<u32> = (0..leaves as u32).rev().collect();
            let mut queue: Queue<u64> = Queue::new(leaves, 0, &rank);
            let mut naive: Vec<Vec<(Time, u64)>> = vec![Vec::new(); leaves];
            let mut last = vec![0_u64; leaves];
            for item in 0..2_000 {
                if draw.random_range(0..3) > 0 {
                    let lane = draw.random_range(0..leaves);
                    last[lane] += draw.random_range(0..4);
                    queue.push(lane, at(last[lane]), item);
                    naive[lane].push((at(last[lane]), item));
                    continue;
                }
                let best = (0..leaves)
                    .filter(|&lane| !naive[lane].is_empty())
                    .min_by_key(|&lane| (naive[lane][0].0, rank[lane]));
                let expected = best.map(|lane| {
                    let (time, item) = naive[lane].remove(0);
                    (time, Next::Item(lane, item))
                });
                assert_eq!(queue.pop(), expected);
            }
        }
    }

    /// Cuts, holds, timers that fire early and a restless one, against a naive list of everything.
    #[test]
    fn cuts_holds_and_early_timers_agree_with_a_naive_queue() {
        let mut draw = Seed(4).generator("queue", 1);
        let (lanes, wakes) = (5, 4);
        let rank: Vec<u32> = (0..9).map(|index| (index * 4) % 9).collect();
        let mut queue: Queue<u32> = Queue::new(lanes, wakes, &rank).with_restless(1);
        let mut naive: Vec<Vec<(u64, u32)>> = vec![Vec::new(); lanes];
        let mut held = vec![0; lanes];
        let mut armed = vec![u64::MAX; wakes];
        let mut now = 0;
        for item in 0..20_000 {
            let lane = draw.random_range(0..lanes);
            let wake = draw.random_range(0..wakes);
            let soon = now + draw.random_range(0..20);
            match draw.random_range(0..10) {
                0 => {
                    queue.clear(lane).for_each(drop);
                    naive[lane].clear();
                }
                1 => {
                    queue.hold(lane, at(soon));
                    held[lane] = held[lane].max(soon);
                }
                2 => {
                    queue.arm(wake, at(soon));
                    armed[wake] = soon;
                }
                3 if wake != 1 => {
                    queue.arm_by(wake, at(soon));
                    armed[wake] = armed[wake].min(soon);
                }
                3..7 => {
                    let last = naive[lane].last().map_or(soon, |(last, _)| soon.max(*last));
                    queue.push(lane, at(last), item);
                    naive[lane].push((last, item));
                }
                _ => {
                    let heads = (0..lanes).filter_map(|lane| {
                        let (time, _) = naive[lane].first()?;
                        Some(((*time).max(held[lane]), rank[lane], lane))
                    });
                    let timers = (0..wakes).filter(|&wake| armed[wake] != u64::MAX);
                    let timers = timers.map(|wake| (armed[wake], rank[lanes + wake], lanes + wake));
                    let expected = heads.chain(timers).min().map(|(time, _, owner)| {
                        let next = if owner < lanes {
                            Next::Item(owner, naive[owner].remove(0).1)
                        } else {
                            armed[owner - lanes] = u64::MAX;
                            Next::Wake(owner - lanes)
                        };
                        (at(time), next)
                    });
                    now = expected.map_or(now, |(time, _)| time.as_nanos());
                    assert_eq!(queue.pop(), expected);
                }
            }
        }
    }
}
