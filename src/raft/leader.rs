//! The leader: proposals into append entries, acks into commits, and ways to give it up.
//!
//! Leans on `node`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::catchup::Progress;
use super::log::Load;
use super::message::{Append, Channel, Content, Message, Position, Record, Response};
use super::node::{Node, Role};
use super::seam::{Action, Fact, Refusal};
use super::{Entry, LogIndex, NodeId, RaftDefect, Settings, State, Term};
use crate::machine::{Sink, Time};

/// Entries at which an append entry is full with [`RaftDefect::SmallBatches512`].
const SMALL_BATCH: u32 = 512;

/// What a leader keeps in mind.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Leading<E> {
    term: Term,
    /// Leadership is told when this is processed (`aflr`); `None` once it is told.
    tell_at: Option<LogIndex>,
    /// Proposals in no append entry yet.
    queue: VecDeque<E>,
    /// What they count towards a full append entry.
    queue_bytes: u64,
    /// So many of them were taken together, and go out before anything else is looked at.
    slice: usize,
    /// An append entry is being written, and proposals need no lock (`fastPathTerm`).
    fast_path: bool,
    acks: Acks,
    /// When something was last stored.
    stored_at: Time,
    heartbeat_at: Time,
    quorum_check_at: Time,
    pub(super) catchups: BTreeMap<NodeId, Progress>,
}

/// Who has acked exactly which append entry, one bit for each replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Acks {
    committed: LogIndex,
    masks: VecDeque<u64>,
}

impl Acks {
    /// Notes an ack for an index that is not committed, and says how many there are for it.
    fn add(&mut self, index: LogIndex, peer: NodeId) -> u32 {
        let place = index.since(self.committed.next()) as usize;
        if self.masks.len() <= place {
            self.masks.resize(place + 1, 0);
        }
        self.masks[place] |= 1 << peer.0;
        self.masks[place].count_ones()
    }

    fn commit(&mut self, index: LogIndex) {
        let gone = index.since(self.committed) as usize;
        self.masks.drain(..gone.min(self.masks.len()));
        self.committed = self.committed.max(index);
    }
}

impl<E: Entry> Leading<E> {
    /// A leader of `term` from `now` on, who may tell so when `tell_at` is processed.
    pub(super) fn new(
        now: Time,
        settings: &Settings,
        term: Term,
        commit: LogIndex,
        tell_at: LogIndex,
    ) -> Self {
        Self {
            term,
            tell_at: Some(tell_at),
            queue: VecDeque::new(),
            queue_bytes: 0,
            slice: 0,
            fast_path: false,
            acks: Acks {
                committed: commit,
                masks: VecDeque::new(),
            },
            stored_at: now,
            heartbeat_at: now + settings.heartbeat,
            quorum_check_at: now + settings.lost_quorum,
            catchups: BTreeMap::new(),
        }
    }

    pub(super) const fn term(&self) -> Term {
        self.term
    }

    pub(super) const fn is_told(&self) -> bool {
        self.tell_at.is_none()
    }

    pub(super) fn catches_up_others(&self) -> bool {
        !self.catchups.is_empty()
    }

    /// Proposals in no append entry yet.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &E> {
        self.queue.iter()
    }

    pub(super) fn queued(&self) -> Load {
        Load {
            append_entries: 0,
            proposals: self.queue.len() as u64,
            bytes: self.queue_bytes,
        }
    }

    pub(super) fn drain(self) -> Vec<E> {
        self.queue.into()
    }

    pub(super) fn due(&self) -> Time {
        let ticks = self.heartbeat_at.min(self.quorum_check_at);
        let catchups = self.catchups.values().map(Progress::stalls_at);
        catchups.fold(ticks, Time::min)
    }

    fn push(&mut self, entries: impl IntoIterator<Item = E>) {
        for entry in entries {
            self.queue_bytes += counted_bytes(&entry);
            self.queue.push_back(entry);
        }
    }

    /// Takes the next append entry's worth from the slice in work, with its bytes
    /// (`runAsLeader`): full is tested after an entry is added, so the last may overshoot.
    fn cut(&mut self, batch_bytes: u64, batch_entries: u32) -> (Box<[E]>, u64) {
        let most = self.slice.min(batch_entries as usize);
        let (mut count, mut bytes) = (most, self.queue_bytes);
        if most < self.queue.len() || bytes >= batch_bytes {
            (count, bytes) = (0, 0);
            while count < most && bytes < batch_bytes {
                bytes += counted_bytes(&self.queue[count]);
                count += 1;
            }
        }
        self.slice -= count;
        self.queue_bytes -= bytes;
        let entries = self.queue.drain(..count).collect();
        (entries, bytes - count as u64)
    }
}

/// What an entry counts towards a full append entry.
fn counted_bytes<E: Entry>(entry: &E) -> u64 {
    entry.bytes() + 1
}

/// The first tick after `now`: those missed meanwhile are dropped, as Go's tickers do.
fn next_tick(mut tick: Time, interval: Time, now: Time) -> Time {
    while tick <= now {
        tick += interval;
    }
    tick
}

impl<E: Entry, S: State> Node<E, S> {
    /// Whether a proposal of `term` gets in while the disk writes (`tryFastPathPropose`).
    pub(super) fn fast_path_open(&self, term: Term) -> bool {
        match &self.role {
            Role::Leader(leading) => leading.fast_path && self.accepts_term(term),
            Role::Follower | Role::Candidate(_) => false,
        }
    }

    pub(super) const fn close_fast_path(&mut self) {
        if let Role::Leader(leading) = &mut self.role {
            leading.fast_path = false;
        }
    }

    fn accepts_term(&self, term: Term) -> bool {
        term == self.term || self.has(RaftDefect::StaleTermProposal)
    }

    pub(super) const fn has(&self, defect: RaftDefect) -> bool {
        self.settings.defects.has(defect)
    }

    /// `Propose`, `ProposeMulti`.
    pub(super) fn propose(
        &mut self,
        now: Time,
        term: Term,
        entries: impl IntoIterator<Item = E>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let checked = self.accepts_term(term);
        let fast = self.is_busy();
        let overrun = !fast && self.is_overrun();
        match &mut self.role {
            Role::Leader(leading) if checked && !overrun => leading.push(entries),
            Role::Leader(_) if checked => {
                self.step_down(now, None, out);
                self.fact(Fact::Overrun, out);
                self.emit(Action::Refused(Refusal::Overrun), out);
            }
            Role::Leader(_) | Role::Follower | Role::Candidate(_) => {
                self.emit(Action::Refused(Refusal::NotLeader), out);
            }
        }
    }

    /// Whether a leader is to step down (`isLeaderOverrun`).
    fn is_overrun(&self) -> bool {
        let (commit, applied) = self.progress();
        let limit = self.settings.overrun;
        let over = self.log.last_index().since(commit) > limit || commit.since(applied) > limit;
        over && !self.has(RaftDefect::NoOverrunStepdown)
    }

    /// Takes everything that is proposed so far; false if that is nothing.
    pub(super) fn begin_slice(&mut self) -> bool {
        match &mut self.role {
            Role::Leader(leading) => {
                leading.slice = leading.queue.len();
                leading.slice > 0
            }
            Role::Follower | Role::Candidate(_) => false,
        }
    }

    /// Sends an append entry from the slice in work; false if there is none.
    pub(super) fn send_slice(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) -> bool {
        let small = self.has(RaftDefect::SmallBatches512);
        let Role::Leader(leading) = &mut self.role else {
            return false;
        };
        if leading.slice == 0 {
            return false;
        }
        let most = self.settings.batch_entries;
        let most = if small { most.min(SMALL_BATCH) } else { most };
        let (entries, bytes) = leading.cut(self.settings.batch_bytes, most);
        self.store_and_send(now, Content::Proposed(entries), bytes, out);
        true
    }

    /// Stores an append entry and sends it to everybody (`sendAppendEntryLocked`).
    pub(super) fn store_and_send(
        &mut self,
        now: Time,
        content: Content<E>,
        proposed_bytes: u64,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let fast_path = !self.is_overrun();
        if let Role::Leader(leading) = &mut self.role {
            leading.fast_path = fast_path;
            leading.stored_at = now;
        }
        let previous = self.log.last();
        let record = Record::new(self.term, self.commit, content, proposed_bytes);
        let record = Arc::new(record);
        self.store(Arc::clone(&record), out);
        self.broadcast(previous, Some(record), out);
        if self.settings.quorum() == 1 {
            self.commit_by_acks(self.log.last_index(), out);
        }
    }

    /// Tells followers the commit index, and that the leader lives (`sendHeartbeat`).
    fn send_heartbeat(&mut self, out: &mut dyn Sink<Action<E, S>>) {
        self.broadcast(self.log.last(), None, out);
    }

    fn broadcast(
        &mut self,
        previous: Position,
        record: Option<Arc<Record<E>>>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let append = Append {
            leader_term: self.term,
            previous,
            commit: self.commit,
            record,
            channel: Channel::New,
        };
        self.emit(Action::Broadcast(Message::Append(append)), out);
    }

    /// Tells the layer above that it leads, if it may know (`Processed`).
    pub(super) fn tell_leadership(&mut self, out: &mut dyn Sink<Action<E, S>>) {
        let processed = self.processed;
        if let Role::Leader(leading) = &mut self.role
            && leading.tell_at.is_some_and(|index| processed >= index)
        {
            leading.tell_at = None;
            let term = leading.term;
            self.emit(Action::Lead { term }, out);
        }
    }

    /// `processAppendEntryResponse`; only a leader listens.
    pub(super) fn take_response(
        &mut self,
        now: Time,
        from: NodeId,
        response: Response,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        if !matches!(self.role, Role::Leader(_)) {
            return;
        }
        self.hear(now, from);
        match response {
            Response::Success(at) => {
                self.advance_catchup(now, from, at.index, out);
                self.count_ack(from, at, out);
            }
            Response::Behind(from_here, catchup) => {
                self.begin_catchup(now, from, from_here, catchup, out);
            }
            Response::Refused(term) if term > self.term => {
                self.adopt(term);
                self.step_down(now, None, out);
            }
            Response::Refused(_) => {}
        }
    }

    /// An ack counts for exactly its index, and only in the term that the index is of
    /// (`trackResponse`).
    fn count_ack(&mut self, from: NodeId, at: Position, out: &mut dyn Sink<Action<E, S>>) {
        let of_this_term = at.term == self.term || self.has(RaftDefect::CommitsPreviousTerm);
        if at.index <= self.commit || !of_this_term || at.index > self.log.last_index() {
            return;
        }
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        // The leader's own copy counts too.
        if leading.acks.add(at.index, from) + 1 < self.settings.quorum() {
            return;
        }
        self.commit_by_acks(at.index, out);
        if matches!(&self.role, Role::Leader(leading) if leading.queue.is_empty()) {
            self.send_heartbeat(out);
        }
    }

    /// `tryCommit`: with an index all before it are committed.
    fn commit_by_acks(&mut self, index: LogIndex, out: &mut dyn Sink<Action<E, S>>) {
        self.commit_up_to(index, out);
        if let Role::Leader(leading) = &mut self.role {
            leading.acks.commit(index);
        }
    }

    /// What time brings to a leader: heartbeats, the look for a quorum, catch-ups that stall
    /// (`runAsLeader`).
    pub(super) fn tick(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        let settings = self.settings;
        let Role::Leader(leading) = &mut self.role else {
            return;
        };
        leading
            .catchups
            .retain(|_, progress| progress.stalls_at() > now);
        let heartbeat = leading.heartbeat_at <= now;
        if heartbeat {
            leading.heartbeat_at = next_tick(leading.heartbeat_at, settings.heartbeat, now);
        }
        let silent = now - leading.stored_at > settings.heartbeat;
        let check = leading.quorum_check_at <= now;
        if check {
            leading.quorum_check_at = next_tick(leading.quorum_check_at, settings.lost_quorum, now);
        }
        if heartbeat && silent {
            self.send_heartbeat(out);
        }
        if check && self.has_lost_quorum(now) {
            self.step_down(now, None, out);
        }
    }

    /// `lostQuorum`.
    fn has_lost_quorum(&self, now: Time) -> bool {
        let span = self.settings.lost_quorum;
        let heard = self
            .others()
            .filter(|peer| self.heard_within(now, *peer, span));
        heard.count() as u32 + 1 < self.settings.quorum()
    }

    /// `StepDown`: the transfer is stored and sent like any entry, and leadership given up at once.
    pub(super) fn hand_over(
        &mut self,
        now: Time,
        preferred: Option<NodeId>,
        chance: u64,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        if !matches!(self.role, Role::Leader(_)) {
            return;
        }
        let healthy = |peer: &NodeId| self.heard_within(now, *peer, self.settings.healthy);
        let candidates: Vec<_> = self.others().filter(healthy).collect();
        let target = match preferred.filter(|peer| candidates.contains(peer)) {
            Some(peer) => Some(peer),
            None if candidates.is_empty() => None,
            None => Some(candidates[(chance % candidates.len() as u64) as usize]),
        };
        if let Some(target) = target {
            self.store_and_send(now, Content::Transfer(target), 0, out);
        }
        if self.has(RaftDefect::RepeatVoteSameTerm) {
            self.vote = None;
        }
        self.step_down(now, None, out);
    }
}
