//! The judges' own idea of every log on disk, and of what is committed.
//!
//! Leans on `raft`.

use super::RaftEvent;
use crate::raft::message::Position;
use crate::raft::{LogIndex, NodeId, Settings, Term};

/// A replica as its disk shows it.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    /// What a snapshot stands for.
    base: Position,
    /// Terms of the append entries after it.
    terms: Vec<Term>,
    /// How far it has handed append entries to the layer above, since it started.
    pub committed: LogIndex,
    /// How far the layer above has applied them.
    pub applied: LogIndex,
    /// The term of its last election.
    pub elected: Option<Term>,
}

impl Replica {
    /// The index at which its log ends.
    pub fn last_index(&self) -> LogIndex {
        LogIndex(self.base.index.0 + self.terms.len() as u64)
    }

    /// The term of what stands at `index` in its log; `None` if nothing does, or if a snapshot
    /// stands for it.
    pub fn term_at(&self, index: LogIndex) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        let place = index.0.checked_sub(self.base.index.0 + 1)?;
        self.terms.get(place as usize).copied()
    }

    /// Whether its disk has the append entry of `term` at `index`, be it in a snapshot.
    pub fn holds(&self, index: LogIndex, term: Term) -> bool {
        index < self.base.index || self.term_at(index) == Some(term)
    }

    fn end_at(&mut self, last: Position) {
        let keep = last.index.since(self.base.index) as usize;
        self.terms.truncate(keep);
        if last.index < self.base.index {
            self.base = last;
        }
    }
}

/// All replicas of a group.
#[derive(Clone, Debug)]
pub struct View {
    replicas: Vec<Replica>,
    quorum: usize,
    /// Terms of what is committed, from index 1 on: as the first replica said that handed it over.
    committed: Vec<Term>,
    excused_from: LogIndex,
}

impl View {
    /// Beyond every log.
    pub(super) const NOWHERE: LogIndex = LogIndex(u64::MAX);

    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            replicas: vec![Replica::default(); usize::from(settings.members)],
            quorum: settings.quorum() as usize,
            committed: Vec::new(),
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
        LogIndex(self.committed.len() as u64)
    }

    /// What is committed, from `from` on.
    pub fn committed_from(&self, from: LogIndex) -> impl Iterator<Item = Position> {
        let skipped = from.0.saturating_sub(1) as usize;
        let terms = self.committed.iter().enumerate().skip(skipped);
        terms.map(|(place, term)| Position {
            index: LogIndex(place as u64 + 1),
            term: *term,
        })
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
            RaftEvent::Stored { at, .. } => replica.terms.push(at.term),
            RaftEvent::Truncated { last } => {
                replica.end_at(last);
                replica.committed = replica.committed.min(last.index);
                replica.applied = replica.applied.min(last.index);
            }
            RaftEvent::SnapshotStored { last } => {
                replica.base = last;
                replica.terms.clear();
                replica.committed = last.index;
            }
            RaftEvent::Recovered { last, .. } => {
                replica.end_at(last);
                (replica.committed, replica.applied) = (LogIndex(0), LogIndex(0));
                replica.elected = None;
            }
            RaftEvent::Elected { term } => replica.elected = Some(term),
            RaftEvent::Committed { index } => {
                replica.committed = index;
                let term = replica.term_at(index);
                if index == self.committed_index().next()
                    && let Some(term) = term
                {
                    self.committed.push(term);
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
