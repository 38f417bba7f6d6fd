//! The follower: append entries in, acks out.
//!
//! Leans on `node`.

use std::sync::Arc;

use super::message::{Append, Channel, Content, Message, Position, Record, Response};
use super::node::{Node, Role};
use super::seam::{Action, Fact};
use super::timer::Timer;
use super::{Entry, LogIndex, NodeId, RaftDefect, State, Term};
use crate::machine::{Sink, Time};

impl<E: Entry, S: State> Node<E, S> {
    /// Takes an append entry or a heartbeat (`processAppendEntry`).
    pub(super) fn take_append(
        &mut self,
        now: Time,
        from: NodeId,
        append: Append<E>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let is_new = append.channel == Channel::New;
        if self.is_left_behind(&append) {
            self.hear_leader(now);
            return;
        }
        if !self.accept_leader(now, from, append.leader_term, is_new, out) {
            return;
        }
        self.end_catchup_if_through();
        if is_new && self.awaits_catchup(now, from, append.previous, out) {
            return;
        }
        if is_new {
            if self.leader != Some(from) {
                self.follow(Some(from));
                self.restart_election(now);
            }
            self.hear(now, from);
        }
        if self.is_paused_for_applies(out) || !self.fits(now, from, &append, out) {
            return;
        }
        if let Some(record) = append.record {
            if let Content::Transfer(target) = record.content
                && is_new
            {
                self.take_transfer(now, target);
            }
            self.store(record, out);
        }
        self.commit_up_to(append.commit, out);
        // Only new ones are answered: an ack for what came by a catch-up would not say that the
        // log is up to date.
        if is_new {
            let success = Response::Success(self.log.last());
            self.send(from, Message::Response(success), out);
        }
    }

    fn hear_leader(&mut self, now: Time) {
        if !self.transfer_target {
            self.restart_election(now);
        }
    }

    /// Whether it comes from a catch-up that is over, and would truncate what came since.
    fn is_left_behind(&self, append: &Append<E>) -> bool {
        let Channel::Catchup(id) = append.channel else {
            return false;
        };
        append.previous.index < self.log.last_index()
            && self.catchup.as_ref().is_none_or(|own| own.id != id)
            && !self.has(RaftDefect::ParallelCatchupTruncates)
    }

    /// Compares terms, and gives way to a leader of an equal or higher one; false if the sender has
    /// to give way.
    pub(super) fn accept_leader(
        &mut self,
        now: Time,
        from: NodeId,
        leader_term: Term,
        is_new: bool,
        out: &mut dyn Sink<Action<E, S>>,
    ) -> bool {
        self.hear_leader(now);
        if leader_term < self.term {
            if is_new {
                let refused = Response::Refused(self.term);
                self.send(from, Message::Response(refused), out);
            }
            return false;
        }
        let follows = matches!(self.role, Role::Follower);
        if leader_term > self.term {
            (self.term, self.vote) = (leader_term, None);
            // From a catch-up the term is written with the next promise only.
            if is_new || !follows {
                self.save_promise();
            }
        }
        if !follows {
            self.step_down(now, Some(from), out);
        }
        true
    }

    /// Whether new append entries are passed over until a catch-up is through; one that stalls is
    /// asked for again.
    fn awaits_catchup(
        &mut self,
        now: Time,
        from: NodeId,
        previous: Position,
        out: &mut dyn Sink<Action<E, S>>,
    ) -> bool {
        if self.catchup.is_none() {
            return false;
        }
        if self.catchup_stalled(now) {
            self.ask_for_catchup(now, from, previous, out);
        }
        true
    }

    /// Whether append entries are passed over until the layer above has applied what it has:
    /// from `overrun` on, down to `resume`.
    pub(super) fn is_paused_for_applies(&mut self, out: &mut dyn Sink<Action<E, S>>) -> bool {
        let (commit, applied) = self.progress();
        let behind = commit.since(applied);
        if self.paused && behind <= self.settings.resume {
            self.paused = false;
            self.fact(Fact::Resumed, out);
        } else if !self.paused && behind > self.settings.overrun {
            self.paused = true;
            self.fact(Fact::Paused, out);
        }
        if self.paused && !self.has(RaftDefect::OverrunKeepsCatchup) {
            self.catchup = None;
        }
        self.paused
    }

    /// Whether the append entry follows the end of the log; makes it so where that is right, and
    /// asks for a catch-up where something is missing.
    fn fits(
        &mut self,
        now: Time,
        from: NodeId,
        append: &Append<E>,
        out: &mut dyn Sink<Action<E, S>>,
    ) -> bool {
        let (previous, last) = (append.previous, self.log.last());
        if previous == last {
            return true;
        }
        if previous.index <= last.index {
            return self.go_back(append, out);
        }
        if self.catchup.is_some() && append.channel != Channel::New {
            // The leader had no snapshot for the gap: try again with the next that comes.
            self.catchup = None;
        } else {
            self.ask_for_catchup(now, from, previous, out);
        }
        false
    }

    /// An append entry that belongs before the end of the log: what is there may be in the way.
    /// Never answered, for it says nothing about the end of the log.
    fn go_back(&mut self, append: &Append<E>, out: &mut dyn Sink<Action<E, S>>) -> bool {
        let (previous, last) = (append.previous, self.log.last());
        if previous.index < self.commit {
            return false;
        }
        let fits = match self.log.get(previous.index).map(|record| record.term) {
            Some(term) if term == previous.term => {
                self.truncate(previous, out);
                true
            }
            Some(_) => {
                let index = LogIndex(previous.index.0 - 1);
                if index < self.commit && !self.has(RaftDefect::CommitRegression) {
                    return false;
                }
                let term = self.log.term_at(index).unwrap_or_default();
                self.truncate(Position { index, term }, out);
                false
            }
            None if previous.term == last.term && append.channel == Channel::New => return false,
            None if previous.index == last.index => {
                self.truncate(previous, out);
                false
            }
            None => {
                let snapshot = self.log.snapshot().map(|snapshot| snapshot.last);
                let back = snapshot.filter(|at| *at == previous);
                self.truncate(back.unwrap_or_default(), out);
                back.is_some()
            }
        };
        if !fits {
            self.catchup = None;
        }
        fits
    }

    /// Adds an append entry to the log (`storeToWAL`).
    pub(super) fn store(&mut self, record: Arc<Record<E>>, out: &mut dyn Sink<Action<E, S>>) {
        self.is_new = false;
        self.write.records += 1;
        self.write.record_bytes += record.bytes;
        self.log.append(Arc::clone(&record));
        let at = self.log.last();
        self.fact(Fact::Stored { at, record }, out);
    }

    /// Leadership is handed over: the target campaigns soon, and nothing puts it off.
    fn take_transfer(&mut self, now: Time, target: NodeId) {
        if target == self.id {
            self.transfer_target = true;
            self.election = Timer::fixed(now, self.settings.transfer_delay);
        } else if self.has(RaftDefect::RepeatVoteSameTerm) {
            self.vote = None;
            self.save_promise();
        }
    }
}
