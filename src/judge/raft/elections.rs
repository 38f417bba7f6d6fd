//! Judges of elections: votes, leaders, and what a leader must have.
//!
//! Leans on `view`.

use std::collections::BTreeMap;

use super::{RaftBench, RaftJudge, View};
use crate::raft::message::Position;
use crate::raft::{NodeId, RaftEvent, Settings, Term};

/// A replica votes for at most one candidate in a term.
#[derive(Clone, Debug)]
pub struct OneVotePerTerm {
    last: Vec<Option<(Term, NodeId)>>,
}

impl OneVotePerTerm {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            last: vec![None; usize::from(settings.members)],
        }
    }
}

impl RaftJudge for OneVotePerTerm {
    const NAME: &'static str = "one-vote-per-term";
    const RULE: &'static str = "RAFT, 5.2: a server votes for at most one candidate in a term";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, _: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Voted { term, candidate } = *event {
            let last = &mut self.last[usize::from(node.0)];
            if let Some((before, other)) = *last
                && before >= term
                && other != candidate
            {
                bench.object::<Self>(format!(
                    "replica {node} votes for {candidate} in term {term}, and for {other} in term {before}"
                ));
            }
            *last = Some((term, candidate));
        }
    }
}

/// A term has at most one leader.
#[derive(Clone, Debug, Default)]
pub struct OneLeaderPerTerm {
    leaders: BTreeMap<Term, NodeId>,
}

impl RaftJudge for OneLeaderPerTerm {
    const NAME: &'static str = "one-leader-per-term";
    const RULE: &'static str = "RAFT, figure 3, Election Safety: a term has at most one leader";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, _: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Elected { term } = *event
            && let Some(other) = self.leaders.insert(term, node)
        {
            bench.object::<Self>(format!("{other} and {node} lead in term {term}"));
        }
    }
}

/// Whoever leads has everything that is committed.
#[derive(Clone, Copy, Debug)]
pub struct LeadersHaveWhatIsCommitted;

impl RaftJudge for LeadersHaveWhatIsCommitted {
    const NAME: &'static str = "leaders-have-what-is-committed";
    const RULE: &'static str =
        "RAFT, figure 3, Leader Completeness: committed entries are in the logs of later leaders";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Elected { term } = *event {
            let log = view.replica(node);
            let mut committed = view.committed_from(crate::raft::LogIndex(1));
            let lacks = |at: &Position| {
                view.was_committed_before(at.index, term) && !log.holds(at.index, at.term)
            };
            if let Some(missing) = committed.find(lacks) {
                let (index, of) = (missing.index, missing.term);
                bench.object_at::<Self>(
                    index,
                    format!("{node} leads in term {term} without {index} of term {of}"),
                );
            }
        }
    }
}

/// The layer above hears that its replica leads when all that leaders before it committed is
/// applied, its own first entry included.
#[derive(Clone, Copy, Debug)]
pub struct LeadsAfterItsFirstEntry;

impl RaftJudge for LeadsAfterItsFirstEntry {
    const NAME: &'static str = "leads-after-its-first-entry";
    const RULE: &'static str =
        "raft.go, switchToLeader: leadership is told when the first entry of the term is processed";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Led { term } = *event {
            let replica = view.replica(node);
            let applied = replica.applied;
            if replica.term_at(applied) != Some(term) {
                bench.object::<Self>(format!(
                    "{node} is told to lead in term {term}, and has applied {applied} only"
                ));
            }
        }
    }
}
