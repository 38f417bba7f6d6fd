//! A stream on a server that something is wrong with: it is down, stands still, or has a bad disk.
//!
//! Leans on `host` and `disturb`.

use std::collections::VecDeque;

use super::super::disturb::Disturbance;
use super::super::message::{Loss, Publish};
use super::super::{Action, ServerModel, lost};
use super::Host;
use crate::machine::{Sink, Time};
use crate::raft::Restart;

impl Host {
    /// When a write of so many parts, done at `end` on a healthy disk, is done on this one.
    pub(in crate::server) fn write_end(&self, end: Time, writes: u64) -> Time {
        let trouble = self.trouble.as_ref();
        trouble.map_or(end, |trouble| trouble.write_end(end, writes))
    }

    /// When its server gets to what is due at `at`.
    pub(in crate::server) fn awake(&self, at: Time) -> Time {
        let trouble = self.trouble.as_ref();
        trouble.map_or(at, |trouble| trouble.awake(at))
    }

    /// When it reads what its clients sent while it stood still.
    pub(in crate::server) fn thaw(&self) -> Time {
        let trouble = self.trouble.as_ref();
        trouble.map_or(Time::NEVER, |trouble| trouble.thaw())
    }

    /// What its clients sent while it stood still.
    pub(in crate::server) fn take_unread(&mut self) -> VecDeque<Publish> {
        let trouble = self.trouble.as_mut();
        trouble.map_or_else(VecDeque::new, |trouble| std::mem::take(&mut trouble.unread))
    }

    /// The same, now that it goes on: until a leader has dealt with all of that, its replica comes to
    /// nothing. Others pass messages on at no cost.
    pub(in crate::server) fn read_again(
        &mut self,
        now: Time,
        leads: bool,
        model: &ServerModel,
    ) -> VecDeque<Publish> {
        let unread = self.take_unread();
        let bytes = unread.iter().map(|publish| u64::from(publish.wire_bytes));
        let cost = match leads {
            true => self.loop_cost(unread.len() as u64, bytes.sum(), model),
            false => Time::ZERO,
        };
        if let Some(trouble) = &mut self.trouble
            && !trouble.reads_clients_last
        {
            trouble.behind_until = now + cost;
        }
        unread
    }

    /// Its server gets to clients after everything else when it goes on.
    pub(in crate::server) fn read_clients_last(&mut self) {
        self.trouble.get_or_insert_default().reads_clients_last = true;
    }

    /// Until when its replica comes to nothing, since its server stands still or has just gone on.
    pub(in crate::server) fn behind_until(&self) -> Time {
        let trouble = self.trouble.as_ref();
        trouble.map_or(Time::ZERO, |trouble| trouble.behind_until)
    }

    /// How its server went down; `None`: it is up.
    pub(in crate::server) fn went_down(&self) -> Option<Restart> {
        self.trouble.as_ref()?.down
    }

    /// Whether its server is there to be asked.
    pub(in crate::server) fn is_awake(&self, now: Time) -> bool {
        self.awake(now) == now
    }

    /// Something befalls its server. One that goes down keeps what the stream has stored, and nothing
    /// else.
    pub(in crate::server) fn befall(&mut self, what: Disturbance, out: &mut dyn Sink<Action>) {
        self.trouble.get_or_insert_default().note(what);
        let writes = self.stream.writes_files() && !self.stream.is_replicated();
        if what.ends_process() {
            self.end(out);
        } else if writes && self.turn_end != Time::NEVER {
            self.turn_end = self.write_end(self.turn_end, 0);
        }
    }

    fn end(&mut self, out: &mut dyn Sink<Action>) {
        let unread = self.take_unread();
        let queued = self.turn.messages.iter().chain(&self.ingest.messages);
        for publish in queued.chain(&unread) {
            lost(publish.frame(), Loss::ServerDown, out);
        }
        self.turn.clear();
        self.ingest.clear();
        self.turn_end = Time::NEVER;
        self.choosing = false;
        self.with_facts(out, |stream, mut effects| stream.crash(&mut effects));
        self.out.clear();
    }
}
