//! One replica: its state, the loop that takes one thing after the other, and its restart.
//!
//! nats-server runs a replica in one goroutine, which writes to disk itself: while it writes, only
//! proposals get in. Here a turn ends with at most one [`Action::Write`], everything decided after
//! it is held back until [`Input::Written`], and inputs wait meanwhile. Leans on the rest of `raft`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::catchup::Catchup;
use super::leader::Leading;
use super::log::{Load, Log};
use super::message::{Message, Position};
use super::seam::{Action, Fact, Input, Restart, Write};
use super::timer::Timer;
use super::{Entry, LogIndex, NodeId, Settings, State, Term};
use crate::machine::{Machine, Sink, Time};

/// What a replica currently is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role<E> {
    Follower,
    Candidate(Ballot),
    Leader(Leading<E>),
}

/// Votes for a candidate, one bit for each replica.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Ballot {
    pub(super) votes: u64,
    /// From replicas with an empty log.
    pub(super) empty_votes: u64,
}

/// How far the layer above is behind, for flow policies and displays.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Lag {
    /// Proposals that are in no append entry yet, and their bytes.
    pub queued: Load,
    /// In the log and not committed, as far as this replica knows.
    pub uncommitted: Load,
    /// Committed and not applied here.
    pub unapplied: Load,
}

/// A term, and who has this replica's vote in it.
pub(super) type Promise = (Term, Option<NodeId>);

/// One replica of one group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Node<E, S> {
    pub(super) id: NodeId,
    pub(super) settings: Settings,
    pub(super) term: Term,
    pub(super) vote: Option<NodeId>,
    /// What the term file has, once the write under way is done.
    pub(super) promised: Promise,
    /// What the term file has.
    saved: Promise,
    pub(super) role: Role<E>,
    pub(super) leader: Option<NodeId>,
    pub(super) log: Log<E, S>,
    pub(super) commit: LogIndex,
    pub(super) processed: LogIndex,
    pub(super) applied: LogIndex,
    pub(super) election: Timer,
    /// Chosen to lead next: the election timer is not put off (`lxfer`).
    pub(super) transfer_target: bool,
    /// Takes no append entries until it has applied what it has (`quorumPaused`).
    pub(super) paused: bool,
    /// Never had a log: its votes count though that is empty (`initializing`).
    pub(super) is_new: bool,
    /// When each replica was last heard, by number.
    pub(super) heard: Vec<Option<Time>>,
    pub(super) catchup: Option<Catchup>,
    pub(super) catchups: u64,
    /// What other replicas said while the disk wrote.
    inbox: VecDeque<Input<E, S>>,
    /// What the layer above or an operator wanted meanwhile: it waits for the lock only.
    calls: VecDeque<Input<E, S>>,
    /// What this turn writes.
    pub(super) write: Write,
    /// The disk writes.
    busy: bool,
    /// Decided after the write, and not to be seen before it is done.
    held: Vec<Action<E, S>>,
}

impl<E: Entry, S: State> Node<E, S> {
    /// A replica that starts for the first time, at `now`. `id` is below `settings.members`.
    pub fn new(now: Time, id: NodeId, settings: Settings) -> Self {
        debug_assert!(id.0 < settings.members && settings.members <= 64);
        Self {
            id,
            settings,
            term: Term(0),
            vote: None,
            promised: (Term(0), None),
            saved: (Term(0), None),
            role: Role::Follower,
            leader: None,
            log: Log::default(),
            commit: LogIndex(0),
            processed: LogIndex(0),
            applied: LogIndex(0),
            election: Timer::new(now, settings.election),
            transfer_target: false,
            paused: false,
            is_new: true,
            heard: vec![None; usize::from(settings.members)],
            catchup: None,
            catchups: 0,
            inbox: VecDeque::new(),
            calls: VecDeque::new(),
            write: Write::default(),
            busy: false,
            held: Vec::new(),
        }
    }

    /// Which replica it is.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// The constants of its group.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its term.
    pub const fn term(&self) -> Term {
        self.term
    }

    /// Who leads, as far as it knows; `None` answers publishers with 503.
    pub const fn leader(&self) -> Option<NodeId> {
        self.leader
    }

    /// Whether it leads and [`Action::Lead`] has been told (`Leader`).
    pub fn leads(&self) -> bool {
        matches!(&self.role, Role::Leader(leading) if leading.is_told())
    }

    /// Its log.
    pub const fn log(&self) -> &Log<E, S> {
        &self.log
    }

    /// How far it knows the log to be committed.
    pub const fn commit(&self) -> LogIndex {
        self.commit
    }

    /// How far the layer above has applied it.
    pub const fn applied(&self) -> LogIndex {
        self.applied
    }

    /// Whether it takes no append entries until it has applied what it has.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether it waits for append entries that it missed.
    pub const fn is_catching_up(&self) -> bool {
        self.catchup.is_some()
    }

    /// Proposals that are in no append entry yet.
    pub fn queued(&self) -> impl Iterator<Item = &E> {
        let leading = match &self.role {
            Role::Leader(leading) => Some(leading),
            Role::Follower | Role::Candidate(_) => None,
        };
        leading.into_iter().flat_map(Leading::waiting)
    }

    /// How far things are behind.
    pub fn lag(&self) -> Lag {
        let queued = match &self.role {
            Role::Leader(leading) => leading.queued(),
            Role::Follower | Role::Candidate(_) => Load::default(),
        };
        Lag {
            queued,
            uncommitted: self.log.load_between(self.commit, self.log.last_index()),
            unapplied: self.log.load_between(self.applied, self.commit),
        }
    }

    // -- the loop ----------------------------------------------------------------------------

    /// Whether the disk writes: inputs wait meanwhile, and proposals get in beside it or wait too.
    pub const fn is_busy(&self) -> bool {
        self.busy
    }

    /// Puts an input behind the write under way.
    fn wait(&mut self, input: Input<E, S>) {
        match input {
            Input::Received { .. } => self.inbox.push_back(input),
            _ => self.calls.push_back(input),
        }
    }

    /// Has `action` done once everything that this turn writes is on disk.
    pub(super) fn emit(&mut self, action: Action<E, S>, out: &mut dyn Sink<Action<E, S>>) {
        if self.write.is_empty() {
            out.emit(action);
        } else {
            self.held.push(action);
        }
    }

    pub(super) fn send(
        &mut self,
        to: NodeId,
        message: Message<E, S>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        self.emit(Action::Send { to, message }, out);
    }

    pub(super) fn fact(&mut self, fact: Fact<E>, out: &mut dyn Sink<Action<E, S>>) {
        self.emit(Action::Fact(fact), out);
    }

    /// Ends a turn: the disk gets what the turn wrote.
    fn end_turn(&mut self, out: &mut dyn Sink<Action<E, S>>) {
        if !self.write.is_empty() {
            self.busy = true;
            out.emit(Action::Write(std::mem::take(&mut self.write)));
        }
    }

    /// Turns, until the disk has to write or nothing is left. Calls get in between any two; then a
    /// slice of proposals that was begun is sent to its end, before what others said is looked at,
    /// and new proposals come last (`runAsLeader`).
    pub(super) fn run(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        self.end_turn(out);
        while !self.busy {
            if let Some(call) = self.calls.pop_front() {
                self.take(now, call, out);
            } else if !self.send_slice(now, out) {
                if let Some(input) = self.inbox.pop_front() {
                    self.take(now, input, out);
                } else if !self.begin_slice() {
                    return;
                }
            }
            self.end_turn(out);
        }
    }

    fn take(&mut self, now: Time, input: Input<E, S>, out: &mut dyn Sink<Action<E, S>>) {
        match input {
            Input::Propose { term, entry } => self.propose(now, term, Some(entry), out),
            Input::ProposeAll { term, entries } => self.propose(now, term, entries, out),
            Input::Received { from, message } => self.receive(now, from, message, out),
            Input::Processed { processed, applied } => self.note_processed(processed, applied, out),
            Input::SnapshotTaken {
                index,
                state,
                force,
            } => self.take_snapshot(index, state, force),
            Input::StepDown { preferred, chance } => self.hand_over(now, preferred, chance, out),
            Input::Written => self.written(out),
            Input::Synced => self.log.set_synced(),
            Input::Drawn(span) => self.election.drawn(span),
            Input::Campaign => self.campaign_now(now, out),
            Input::Restarted(restart) => self.restart(now, restart, out),
        }
    }

    fn receive(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message<E, S>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        match message {
            Message::Append(append) => self.take_append(now, from, append, out),
            Message::Snapshot(snapshot) => self.take_snapshot_sent(now, from, *snapshot, out),
            Message::Response(response) => self.take_response(now, from, response, out),
            Message::VoteRequest { term, last } => {
                self.take_vote_request(now, from, term, last, out);
            }
            Message::VoteResponse {
                term,
                granted,
                empty,
            } => self.take_vote_response(now, from, term, granted, empty, out),
        }
    }

    /// Everything that the last turn wrote is on disk: what waited for it is done.
    fn written(&mut self, out: &mut dyn Sink<Action<E, S>>) {
        self.busy = false;
        self.log.set_written(self.settings.sync_always);
        self.saved = self.promised;
        self.close_fast_path();
        for action in self.held.drain(..) {
            out.emit(action);
        }
    }

    // -- the layer above ---------------------------------------------------------------------

    /// `Processed`.
    fn note_processed(
        &mut self,
        processed: LogIndex,
        applied: LogIndex,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        if processed > self.commit {
            return;
        }
        self.processed = self.processed.max(processed);
        self.applied = self.applied.max(applied.min(processed));
        self.tell_leadership(out);
    }

    /// `createSnapshotCheckpointLocked`, `installSnapshot`.
    fn take_snapshot(&mut self, index: LogIndex, state: S, force: bool) {
        let catching_up_others =
            matches!(&self.role, Role::Leader(leading) if leading.catches_up_others());
        if index > self.applied || (catching_up_others && !force) {
            return;
        }
        if let Some(record) = self.log.get(index) {
            let term = record.term;
            self.log.compact(super::log::Snapshot {
                last: Position { index, term },
                state,
            });
        }
    }

    // -- restart -----------------------------------------------------------------------------

    /// Starts again on what the disk has, and gives the layer above what is known as committed
    /// (`initRaftNode`).
    fn restart(&mut self, now: Time, restart: Restart, out: &mut dyn Sink<Action<E, S>>) {
        let mut log = std::mem::take(&mut self.log);
        log.recover(restart == Restart::AfterPowerLoss);
        let (saved, catchups) = (self.saved, self.catchups);
        *self = Self::new(now, self.id, self.settings);
        self.is_new = false;
        self.catchups = catchups;
        (self.saved, self.promised) = (saved, saved);
        (self.term, self.vote) = saved;
        let last = log.last();
        if last.term > self.term {
            (self.term, self.vote) = (last.term, None);
        }
        self.commit = log.snapshot_index();
        let known_commit = log.known_commit();
        let snapshot = log.snapshot().cloned();
        self.log = log;
        out.emit(Action::Fact(Fact::Recovered { last }));
        if let Some(snapshot) = snapshot {
            out.emit(Action::Restore {
                index: snapshot.last.index,
                state: snapshot.state,
            });
        }
        self.commit_up_to(known_commit, out);
    }

    /// Commits and hands over all that the log has up to `index`.
    pub(super) fn commit_up_to(&mut self, index: LogIndex, out: &mut dyn Sink<Action<E, S>>) {
        while self.commit < index {
            let next = self.commit.next();
            let Some(record) = self.log.get(next) else {
                return;
            };
            let record = Arc::clone(record);
            self.commit = next;
            let apply = Action::Apply {
                index: next,
                record,
            };
            self.emit(apply, out);
        }
    }

    /// Ends the log at `last`; commits and applies beyond it are taken back (`truncateWAL`).
    pub(super) fn truncate(&mut self, last: Position, out: &mut dyn Sink<Action<E, S>>) {
        self.log.truncate(last);
        self.commit = self.commit.min(last.index);
        self.processed = self.processed.min(self.commit);
        self.applied = self.applied.min(self.processed);
        self.fact(Fact::Truncated { last }, out);
    }

    /// How far commits and applies are, a snapshot counting as both (`isLeaderOverrun`).
    pub(super) fn progress(&self) -> (LogIndex, LogIndex) {
        let snapshot = self.log.snapshot_index();
        (self.commit.max(snapshot), self.applied.max(snapshot))
    }

    /// Notes that `peer` was heard.
    pub(super) fn hear(&mut self, now: Time, peer: NodeId) {
        if let Some(heard) = self.heard.get_mut(usize::from(peer.0)) {
            *heard = Some(now);
        }
    }

    /// Whether `peer` was heard less than `span` ago.
    pub(super) fn heard_within(&self, now: Time, peer: NodeId, span: Time) -> bool {
        let heard = self.heard.get(usize::from(peer.0)).copied().flatten();
        heard.is_some_and(|at| now - at < span)
    }

    /// All other replicas.
    pub(super) fn others(&self) -> impl Iterator<Item = NodeId> + use<E, S> {
        let own = self.id;
        (0..self.settings.members)
            .map(NodeId)
            .filter(move |peer| *peer != own)
    }
}

impl<E: Entry, S: State> Machine for Node<E, S> {
    type Input = Input<E, S>;
    type Action = Action<E, S>;

    fn step(&mut self, now: Time, input: Input<E, S>, out: &mut dyn Sink<Action<E, S>>) {
        let waits = match &input {
            Input::Propose { term, .. } | Input::ProposeAll { term, .. } => {
                self.is_busy() && !self.fast_path_open(*term)
            }
            Input::Received { .. }
            | Input::Processed { .. }
            | Input::SnapshotTaken { .. }
            | Input::Campaign
            | Input::StepDown { .. } => self.is_busy(),
            Input::Written | Input::Synced | Input::Drawn(_) | Input::Restarted(_) => false,
        };
        if self.is_unasked_for(&input) {
            return;
        }
        if waits {
            self.wait(input);
            return;
        }
        self.take(now, input, out);
        if !self.is_busy() {
            self.run(now, out);
        }
    }

    fn due(&self) -> Time {
        if self.is_busy() {
            return Time::NEVER;
        }
        match &self.role {
            Role::Follower | Role::Candidate(_) => self.election.due(),
            Role::Leader(leading) => leading.due(),
        }
    }

    fn wake(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        if self.is_busy() {
            return;
        }
        if matches!(self.role, Role::Leader(_)) {
            self.tick(now, out);
        } else {
            self.watch_election(now, out);
        }
        self.run(now, out);
    }
}

#[cfg(test)]
mod tests;
