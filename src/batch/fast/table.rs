//! All fast batches of one stream: lookup by handle, limits in flight, idle timers.
//!
//! Every operation on the way of a message costs the same, however many batches are open. Leans on
//! `ingest` and `machine`.

use std::collections::BTreeSet;

use super::ingest::Ingest;
use crate::batch::limits::Limits;
use crate::batch::message::BatchHandle;
use crate::machine::Time;

/// A batch with what the table keeps beside it. `T` is the stream's own, for each batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Slot<T> {
    handle: BatchHandle,
    ingest: Ingest,
    own: T,
    last_seen: Time,
    /// The entry of this batch in `Table::timers`; `NEVER` once the commit stopped the timer.
    timer: Time,
}

/// Where a batch lies in its table: valid until the batch is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotId(u32);

/// The fast batches registered on a stream.
///
/// Handles are numbered densely by the edge, so they index a vector of four bytes each.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Table<T> {
    /// By handle: 1 + the index of its slot, or 0.
    slot_of: Vec<u32>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<u32>,
    open: u32,
    /// One entry for each batch with a running timer. It is moved when it comes up, not at each
    /// message, so it may be earlier than the true deadline, never later.
    timers: BTreeSet<(Time, SlotId)>,
    /// The first of `timers`, at hand because it is asked for at every turn.
    due: Time,
    timeout: Time,
}

impl<T> Table<T> {
    /// An empty table whose batches are forgotten after `timeout` without messages.
    pub const fn new(timeout: Time) -> Self {
        Self {
            slot_of: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            open: 0,
            timers: BTreeSet::new(),
            due: Time::NEVER,
            timeout,
        }
    }

    /// After so long without messages a batch is forgotten.
    pub const fn timeout(&self) -> Time {
        self.timeout
    }

    /// Batches registered: those that commit, or wait for ever, included.
    pub const fn open(&self) -> u32 {
        self.open
    }

    /// The batch with this handle.
    pub fn find(&self, handle: BatchHandle) -> Option<SlotId> {
        match self.slot_of.get(handle.0 as usize) {
            None | Some(0) => None,
            Some(index) => Some(SlotId(index - 1)),
        }
    }

    /// Whether one more batch would break a limit.
    pub const fn is_full(&self, limits: Limits) -> bool {
        limits.are_reached(self.open)
    }

    /// Registers a batch and starts its timer. The handle must not be registered yet.
    pub fn insert(&mut self, now: Time, handle: BatchHandle, ingest: Ingest, own: T) -> SlotId {
        let timer = now + self.timeout;
        let slot = Some(Slot {
            handle,
            ingest,
            own,
            last_seen: now,
            timer,
        });
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                // No more slots than batches in flight.
                self.slots.len() as u32 - 1
            }
        };
        let place = handle.0 as usize;
        if self.slot_of.len() <= place {
            self.slot_of.resize(place + 1, 0);
        }
        self.slot_of[place] = index + 1;
        self.open += 1;
        self.timers.insert((timer, SlotId(index)));
        self.note_due();
        SlotId(index)
    }

    /// Forgets a batch; does nothing if it is forgotten already.
    pub fn remove(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.timers.remove(&(slot.timer, id));
        self.note_due();
        self.slot_of[slot.handle.0 as usize] = 0;
        self.free.push(id.0);
        self.open -= 1;
    }

    /// The batch in a slot and the stream's own part of it.
    pub fn get_mut(&mut self, id: SlotId) -> Option<(&mut Ingest, &mut T)> {
        let slot = self.slots.get_mut(id.0 as usize)?.as_mut()?;
        Some((&mut slot.ingest, &mut slot.own))
    }

    /// Notes that a batch was heard of, which puts its timeout off.
    pub fn touch(&mut self, id: SlotId, now: Time) {
        if let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) {
            slot.last_seen = now;
        }
    }

    /// Stops the timer of a batch whose commit is in.
    pub fn stop_timer(&mut self, id: SlotId) {
        if let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) {
            self.timers.remove(&(slot.timer, id));
            slot.timer = Time::NEVER;
            self.note_due();
        }
    }

    /// Notes that a batch was heard of, and starts its timer anew if that was stopped.
    pub fn restart_timer(&mut self, id: SlotId, now: Time) {
        if let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) {
            slot.last_seen = now;
            if slot.timer == Time::NEVER {
                slot.timer = now + self.timeout;
                self.timers.insert((slot.timer, id));
                self.note_due();
            }
        }
    }

    /// The batches registered, with their handles.
    pub fn ids(&self) -> Vec<(BatchHandle, SlotId)> {
        let slots = (0..).map(SlotId).zip(&self.slots);
        slots
            .filter_map(|(id, slot)| Some((slot.as_ref()?.handle, id)))
            .collect()
    }

    /// When [`Table::expire`] is wanted; perhaps too early, never too late.
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Forgets the next batch that has been idle for the timeout at `now`, and names it.
    pub fn expire(&mut self, now: Time) -> Option<BatchHandle> {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                return None;
            }
            self.timers.pop_first();
            self.note_due();
            let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) else {
                continue;
            };
            let deadline = slot.last_seen + self.timeout;
            if deadline > now {
                slot.timer = deadline;
                self.timers.insert((deadline, id));
                self.note_due();
                continue;
            }
            let handle = slot.handle;
            self.remove(id);
            return Some(handle);
        }
        None
    }

    /// Forgets every batch and names them in the order of their slots.
    pub fn clear(&mut self) -> Vec<BatchHandle> {
        let open = self.ids();
        open.into_iter()
            .map(|(handle, id)| {
                self.remove(id);
                handle
            })
            .collect()
    }

    fn note_due(&mut self) {
        self.due = self.timers.first().map_or(Time::NEVER, |(at, _)| *at);
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::{EvenShare, Policy, Pressure};
    use super::super::ingest::{BatchDefects, Rules};
    use super::*;
    use crate::nats::GapMode;

    const SECOND: fn(u64) -> Time = Time::from_secs;

    fn table() -> Table<()> {
        Table::new(SECOND(10))
    }

    fn ingest() -> Ingest {
        let rules = Rules {
            policy: Policy::EvenShare(EvenShare { total: 500 }),
            pressure: Pressure {
                open: 1,
                ..Pressure::default()
            },
            no_ack: false,
            defects: BatchDefects::default(),
        };
        Ingest::open(10, GapMode::Ok, rules)
    }

    #[test]
    fn a_batch_is_found_until_it_is_removed() {
        let mut table = table();
        let slot = table.insert(Time::ZERO, BatchHandle(3), ingest(), ());
        assert_eq!(table.find(BatchHandle(3)), Some(slot));
        assert_eq!(table.find(BatchHandle(2)), None);
        assert_eq!(table.find(BatchHandle(4)), None);
        table.remove(slot);
        table.remove(slot);
        assert_eq!(table.find(BatchHandle(3)), None);
        assert_eq!(table.open(), 0);
        assert_eq!(table.due(), Time::NEVER);
    }

    #[test]
    fn idle_batches_go_in_the_order_of_their_deadlines() {
        let mut table = table();
        let first = table.insert(SECOND(0), BatchHandle(0), ingest(), ());
        table.insert(SECOND(1), BatchHandle(1), ingest(), ());
        table.insert(SECOND(2), BatchHandle(2), ingest(), ());
        table.touch(first, SECOND(5));
        assert_eq!(table.expire(Time::from_millis(10_999)), None);
        assert_eq!(table.expire(SECOND(20)), Some(BatchHandle(1)));
        assert_eq!(table.expire(SECOND(20)), Some(BatchHandle(2)));
        assert_eq!(table.expire(SECOND(20)), Some(BatchHandle(0)));
        assert_eq!(table.expire(SECOND(20)), None);
    }

    #[test]
    fn a_batch_that_was_heard_of_is_due_later() {
        let mut table = table();
        let slot = table.insert(SECOND(0), BatchHandle(0), ingest(), ());
        table.touch(slot, SECOND(9));
        assert_eq!(table.due(), SECOND(10));
        assert_eq!(table.expire(SECOND(10)), None);
        assert_eq!(table.due(), SECOND(19));
        assert_eq!(table.expire(SECOND(19)), Some(BatchHandle(0)));
    }

    #[test]
    fn a_stopped_timer_never_fires() {
        let mut table = table();
        let slot = table.insert(SECOND(0), BatchHandle(0), ingest(), ());
        table.stop_timer(slot);
        table.touch(slot, SECOND(1));
        assert_eq!(table.due(), Time::NEVER);
        assert_eq!(table.expire(SECOND(100)), None);
        assert_eq!(table.open(), 1);
    }

    #[test]
    fn a_timer_starts_anew_after_it_was_stopped() {
        let mut table = table();
        let slot = table.insert(Time::ZERO, BatchHandle(0), ingest(), ());
        table.stop_timer(slot);
        table.restart_timer(slot, SECOND(3));
        assert_eq!(table.expire(SECOND(12)), None);
        assert_eq!(table.expire(SECOND(13)), Some(BatchHandle(0)));
        assert_eq!(table.due(), Time::NEVER);
    }

    #[test]
    fn clearing_names_every_batch() {
        let mut table = table();
        for handle in [4, 2, 9] {
            table.insert(Time::ZERO, BatchHandle(handle), ingest(), ());
        }
        let gone = table.clear();
        assert_eq!(gone, [BatchHandle(4), BatchHandle(2), BatchHandle(9)]);
        assert_eq!(table.open(), 0);
        assert_eq!(table.find(BatchHandle(4)), None);
        assert_eq!(table.due(), Time::NEVER);
    }
}
