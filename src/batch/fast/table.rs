//! All fast batches of one stream: lookup by handle, limits in flight, idle timers.
//!
//! Every operation on the way of a message costs the same, however many batches are open. Leans on
//! `ingest` and `machine`.

use std::collections::BTreeSet;

use super::ingest::Ingest;
use crate::batch::message::BatchHandle;
use crate::machine::Time;

/// Most batches in flight, and how many there are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Limits {
    /// Most on this stream.
    pub per_stream: u32,
    /// Most on the server.
    pub per_server: u32,
    /// Open on the server's other streams.
    pub elsewhere: u32,
}

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
            timeout,
        }
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
        self.open >= limits.per_stream
            || self.open.saturating_add(limits.elsewhere) >= limits.per_server
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
        SlotId(index)
    }

    /// Forgets a batch; does nothing if it is forgotten already.
    pub fn remove(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get_mut(id.0 as usize).and_then(Option::take) else {
            return;
        };
        self.timers.remove(&(slot.timer, id));
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
        }
    }

    /// When [`Table::expire`] is wanted; perhaps too early, never too late.
    pub fn due(&self) -> Time {
        self.timers.first().map_or(Time::NEVER, |(at, _)| *at)
    }

    /// Forgets the next batch that has been idle for the timeout at `now`, and names it.
    pub fn expire(&mut self, now: Time) -> Option<BatchHandle> {
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                return None;
            }
            self.timers.pop_first();
            let Some(Some(slot)) = self.slots.get_mut(id.0 as usize) else {
                continue;
            };
            let deadline = slot.last_seen + self.timeout;
            if deadline > now {
                slot.timer = deadline;
                self.timers.insert((deadline, id));
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
        let ids = (0..self.slots.len() as u32).map(SlotId);
        let open: Vec<SlotId> = ids
            .filter(|id| self.slots[id.0 as usize].is_some())
            .collect();
        let handles = open
            .iter()
            .filter_map(|id| self.slots[id.0 as usize].as_ref().map(|slot| slot.handle))
            .collect();
        for id in open {
            self.remove(id);
        }
        handles
    }
}
