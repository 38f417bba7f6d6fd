//! The judges' own idea of every log on disk, and of what is committed.
//!
//! Leans on `raft`.

use crate::raft::message::Position;
use crate::raft::{LogIndex, NodeId, RaftEvent, Settings, Term};

/// The terms of append entries, one behind the other. Terms never go down along a log, and change
/// rarely: what is kept is where each begins.
#[derive(Clone, Debug, Default)]
struct Terms {
    /// What comes before the first.
    base: Position,
    /// The first index of each term, and the term.
    runs: Vec<(LogIndex, Term)>,
    last: LogIndex,
}

impl Terms {
    fn push(&mut self, term: Term) {
        self.last = self.last.next();
        if self.runs.last().is_none_or(|(_, newest)| *newest != term) {
            self.runs.push((self.last, term));
        }
    }

    /// The term of what stands at `index`; `None` if nothing does, or if something before the first
    /// does.
    fn get(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        if index < self.base.index || index > self.last {
            return None;
        }
        let run = self.runs.partition_point(|(first, _)| *first <= index);
        Some(self.runs[run.checked_sub(1)?].1)
    }

    fn end_at(&mut self, last: Position) {
        if last.index < self.base.index {
            *self = Self::after(last);
        } else if last.index < self.last {
            self.last = last.index;
            self.runs.retain(|(first, _)| *first <= last.index);
        }
    }

    fn after(base: Position) -> Self {
        Self {
            base,
            runs: Vec::new(),
            last: base.index,
        }
    }
}

/// A replica as its disk shows it.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// After what a snapshot stands for.
    terms: Terms,
    /// How far it has handed append entries to the layer above, since it started.
    pub committed: LogIndex,
    /// How far the layer above has applied them.
    pub applied: LogIndex,
    /// The term of its last election.
    pub elected: Option<Term>,
}

impl Replica {
    /// The index at which its log ends.
    pub const fn last_index(&self) -> LogIndex {
        self.terms.last
    }

    /// The term of what stands at `index` in its log; `None` if nothing does, or if a snapshot
    /// stands for it.
    pub fn term_at(&self, index: LogIndex) -> Option<Term> {
        self.terms.get(index)
    }

    /// Whether its disk has the append entry of `term` at `index`, be it in a snapshot.
    pub fn holds(&self, index: LogIndex, term: Term) -> bool {
        index < self.terms.base.index || self.term_at(index) == Some(term)
    }
}

/// All replicas of a group.
#[derive(Clone, Debug)]
pub struct View {
    replicas: Vec<Replica>,
    quorum: usize,
    /// What is committed, from index 1 on: as the first replica said that handed it over.
    committed: Terms,
    /// For each of these: the newest term with a leader at that time. It was committed in this term at
    /// the latest.
    committed_by: Terms,
    /// The newest term that had a leader.
    newest: Term,
    excused_from: LogIndex,
}

impl View {
    /// Beyond every log.
    pub(super) const NOWHERE: LogIndex = LogIndex(u64::MAX);

    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            replicas: vec![Replica::default(); usize::from(settings.members)],
            quorum: settings.quorum() as usize,
            committed: Terms::default(),
            committed_by: Terms::default(),
            newest: Term(0),
            excused_from: Self::NOWHERE,
        }
    }

    /// One replica.
    pub fn replica(&self, node: NodeId) -> &Replica {
        &self.replicas[usize::from(node.0)]
    }

    /// Disks that decide.
    pub const fn quorum(&self) -> usize {
        self.quorum
    }

    /// How far the group has committed.
    pub fn committed_index(&self) -> LogIndex {
        self.committed.last
    }

    /// What is committed, from `from` on.
    pub fn committed_from(&self, from: LogIndex) -> impl Iterator<Item = Position> {
        let indices = (from.0.max(1)..=self.committed.last.0).map(LogIndex);
        indices.filter_map(|index| {
            let term = self.committed.get(index)?;
            Some(Position { index, term })
        })
    }

    /// Whether what stands at `index` was committed before `term` had a leader. A leader of an older
    /// term may be elected late, and know nothing of it.
    pub fn was_committed_before(&self, index: LogIndex, term: Term) -> bool {
        self.committed_by.get(index).is_some_and(|by| by < term)
    }

    /// Up to here every replica has handed append entries to the layer above.
    pub fn handed_over_by_all(&self) -> LogIndex {
        let replicas = self.replicas.iter();
        let least = replicas.map(|replica| replica.committed).min();
        least.unwrap_or_default()
    }

    /// Up to here every replica has applied them.
    pub fn applied_by_all(&self) -> LogIndex {
        let replicas = self.replicas.iter();
        let least = replicas.map(|replica| replica.applied).min();
        least.unwrap_or_default()
    }

    /// How many disks have the append entry at `at`.
    pub fn holders(&self, at: Position) -> usize {
        let holds = |replica: &&Replica| replica.holds(at.index, at.term);
        self.replicas.iter().filter(holds).count()
    }

    /// The first committed entry that a quorum has no more if the log of `node` ends at `last`.
    pub fn first_lost(&self, node: NodeId, last: LogIndex) -> Option<Position> {
        let own = self.replica(node);
        self.committed_from(last.next())
            .take_while(|at| at.index <= own.last_index())
            .find(|at| own.holds(at.index, at.term) && self.holders(*at) <= self.quorum)
    }

    /// From here on, losses and what follows from them are excused.
    pub const fn excused_from(&self) -> LogIndex {
        self.excused_from
    }

    /// A replica comes back without what it had not synced: what a quorum has no more may be lost.
    pub(super) fn note_exposure(&mut self, node: NodeId, event: &RaftEvent) {
        if let RaftEvent::Recovered {
            last,
            may_lose: true,
        } = *event
            && let Some(lost) = self.first_lost(node, last.index)
        {
            self.excused_from = self.excused_from.min(lost.index);
        }
    }

    pub(super) fn update(&mut self, node: NodeId, event: &RaftEvent) {
        let replica = &mut self.replicas[usize::from(node.0)];
        match *event {
            RaftEvent::Stored { term, .. } => replica.terms.push(term),
            RaftEvent::Truncated { last } => {
                replica.terms.end_at(last);
                replica.committed = replica.committed.min(last.index);
                replica.applied = replica.applied.min(last.index);
            }
            RaftEvent::SnapshotStored { last } => {
                replica.terms = Terms::after(last);
                replica.committed = last.index;
            }
            RaftEvent::Recovered { last, .. } => {
                replica.terms.end_at(last);
                (replica.committed, replica.applied) = (LogIndex(0), LogIndex(0));
                replica.elected = None;
            }
            RaftEvent::Elected { term } => {
                replica.elected = Some(term);
                self.newest = self.newest.max(term);
            }
            RaftEvent::Committed { index } => {
                replica.committed = index;
                let term = replica.term_at(index);
                if index == self.committed_index().next()
                    && let Some(term) = term
                {
                    self.committed.push(term);
                    self.committed_by.push(self.newest);
                }
            }
            RaftEvent::Applied { index, .. } => {
                replica.applied = index;
                replica.committed = replica.committed.max(index);
            }
            RaftEvent::Voted { .. }
            | RaftEvent::Led { .. }
            | RaftEvent::AskedForCatchup
            | RaftEvent::Paused
            | RaftEvent::Resumed => {}
        }
    }
}
