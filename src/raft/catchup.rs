//! Catch-ups: a follower that misses append entries asks its leader for them.
//!
//! The follower passes over new append entries meanwhile. Nothing that comes by a catch-up is acked,
//! so the leader hears of progress only when the follower takes new append entries again: a gap
//! above [`Settings::catchup_bytes`] takes several rounds. Leans on `node`.
//!
//! [`Settings::catchup_bytes`]: super::Settings::catchup_bytes

use std::collections::VecDeque;

use super::log::Snapshot;
use super::message::{Append, CatchupId, Channel, Message, Position, Response, SnapshotSent};
use super::node::{Node, Role};
use super::seam::{Action, Fact, Input};
use super::{Entry, LogIndex, NodeId, RaftDefect, State};
use crate::machine::{Sink, Time};

/// A follower's catch-up (`catchupState`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Catchup {
    pub(super) id: CatchupId,
    /// What preceded the append entry that did not follow: the catch-up is through when the log
    /// reaches it.
    until: Position,
    /// Where the log ended when progress was last seen, and when that was.
    reached: LogIndex,
    active: Time,
}

/// A leader's catch-up of one follower (`runCatchup`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Progress {
    id: CatchupId,
    next: LogIndex,
    /// Where the leader's log ended when it began.
    last: LogIndex,
    /// Sent and not told as stored.
    under_way: VecDeque<(LogIndex, u64)>,
    under_way_bytes: u64,
    stalls_at: Time,
    /// It hears of no progress: with [`RaftDefect::CatchupQueueDeleted`] only.
    deaf: bool,
}

impl Progress {
    pub(super) const fn stalls_at(&self) -> Time {
        self.stalls_at
    }

    fn acked(&mut self, index: LogIndex) {
        if let Some(place) = self.under_way.iter().position(|(sent, _)| *sent == index)
            && let Some((_, bytes)) = self.under_way.remove(place)
        {
            self.under_way_bytes -= bytes;
        }
    }
}

/// The follower's side.
impl<E: Entry, S: State> Node<E, S> {
    /// `createCatchup`.
    pub(super) fn ask_for_catchup(
        &mut self,
        now: Time,
        leader: NodeId,
        until: Position,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        self.catchups += 1;
        let (id, last) = (CatchupId(self.catchups), self.log.last());
        self.catchup = Some(Catchup {
            id,
            until,
            reached: last.index,
            active: now,
        });
        self.fact(Fact::AskedForCatchup, out);
        self.send(leader, Message::Response(Response::Behind(last, id)), out);
    }

    /// Whether it is of a catch-up that is over, or was asked for again: nobody subscribes to its
    /// inbox any more. What arrived before that may still wait to be looked at.
    pub(super) fn is_unasked_for(&self, input: &Input<E, S>) -> bool {
        let Input::Received { message, .. } = input else {
            return false;
        };
        let id = match message {
            Message::Append(append) => match append.channel {
                Channel::New => return false,
                Channel::Catchup(id) => id,
            },
            Message::Snapshot(snapshot) => snapshot.catchup,
            Message::Response(_) | Message::VoteRequest { .. } | Message::VoteResponse { .. } => {
                return false;
            }
        };
        self.catchup.as_ref().is_none_or(|own| own.id != id)
    }

    pub(super) fn end_catchup_if_through(&mut self) {
        let last = self.log.last();
        let through = |catchup: &mut Catchup| {
            last.term >= catchup.until.term && last.index >= catchup.until.index
        };
        self.catchup.take_if(through);
    }

    /// `catchupStalled`.
    pub(super) fn catchup_stalled(&mut self, now: Time) -> bool {
        let (stall, last) = (self.settings.catchup_stall, self.log.last_index());
        let Some(catchup) = &mut self.catchup else {
            return false;
        };
        if catchup.reached == last {
            return now - catchup.active > stall;
        }
        (catchup.reached, catchup.active) = (last, now);
        false
    }

    /// A snapshot begins a catch-up: it takes the place of the log (`processAppendEntry`).
    pub(super) fn take_snapshot_sent(
        &mut self,
        now: Time,
        from: NodeId,
        sent: SnapshotSent<S>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let awaited = |catchup: &Catchup| catchup.id == sent.catchup;
        if !self.catchup.as_ref().is_some_and(awaited)
            || !self.accept_leader(now, from, sent.leader_term, false, out)
        {
            return;
        }
        self.end_catchup_if_through();
        if self.catchup.is_none()
            || self.is_paused_for_applies(out)
            || sent.last.index <= self.log.last_index()
        {
            return;
        }
        self.write.files += 1;
        self.write.file_bytes += sent.state.bytes();
        self.is_new = false;
        self.commit = sent.last.index;
        self.log.compact(Snapshot {
            last: sent.last,
            state: sent.state.clone(),
        });
        // The log has it from now on: a crash while it is written comes after the write.
        let last = sent.last;
        out.emit(Action::Fact(Fact::SnapshotStored { last }));
        let restore = Action::Restore {
            index: sent.last.index,
            state: sent.state,
        };
        self.emit(restore, out);
    }
}

/// The leader's side.
impl<E: Entry, S: State> Node<E, S> {
    /// `catchupFollower`: `last` is where the follower's log ends.
    pub(super) fn begin_catchup(
        &mut self,
        now: Time,
        follower: NodeId,
        last: Position,
        id: CatchupId,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        let replaced = leading.catchups.remove(&follower).is_some();
        let mut next = last.index.next();
        if next < self.log.first_index() {
            let Some(snapshot) = self.log.snapshot().cloned() else {
                self.step_down(now, None, out);
                return;
            };
            next = snapshot.last.index.next();
            let sent = Message::Snapshot(Box::new(SnapshotSent {
                leader_term: self.term,
                last: snapshot.last,
                state: snapshot.state,
                catchup: id,
            }));
            self.send(follower, sent, out);
            if next > self.log.last_index() {
                return;
            }
        }
        if next > self.log.last_index() {
            // Asked for what it does not have, it must not lead.
            self.step_down(now, None, out);
            return;
        }
        let progress = Progress {
            id,
            next,
            last: self.log.last_index(),
            under_way: VecDeque::new(),
            under_way_bytes: 0,
            stalls_at: now + self.settings.catchup_stall,
            deaf: replaced && self.has(RaftDefect::CatchupQueueDeleted),
        };
        self.send_missing(follower, progress, out);
    }

    /// The follower has told where its log ends.
    pub(super) fn advance_catchup(
        &mut self,
        now: Time,
        follower: NodeId,
        index: LogIndex,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        let told = leading.catchups.get(&follower);
        if told.is_none_or(|progress| progress.deaf) {
            return;
        }
        let Some(mut progress) = leading.catchups.remove(&follower) else {
            return;
        };
        progress.stalls_at = now + self.settings.catchup_stall;
        progress.acked(index);
        if index <= progress.last {
            self.send_missing(follower, progress, out);
        }
    }

    /// Sends what is missing as far as it may be under way; forgets the catch-up if that is all.
    fn send_missing(
        &mut self,
        follower: NodeId,
        mut progress: Progress,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        while progress.under_way_bytes <= self.settings.catchup_bytes {
            let index = progress.next;
            let before = LogIndex(index.0 - 1);
            let record = self.log.get(index).filter(|_| index <= progress.last);
            let (Some(record), Some(term)) = (record.cloned(), self.log.term_at(before)) else {
                return;
            };
            progress.next = index.next();
            progress.under_way.push_back((index, record.bytes));
            progress.under_way_bytes += record.bytes;
            let append = Append {
                leader_term: self.term,
                previous: Position {
                    index: before,
                    term,
                },
                commit: record.commit,
                record: Some(record),
                channel: Channel::Catchup(progress.id),
            };
            self.send(follower, Message::Append(append), out);
        }
        if let Role::Leader(leading) = &mut self.role {
            leading.catchups.insert(follower, progress);
        }
    }
}
