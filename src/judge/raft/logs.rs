//! Judges of logs: what is stored, committed and applied.
//!
//! Leans on `view`.

use std::collections::BTreeMap;

use super::stretch::{MOST, Prefixes, Stretch};
use super::{RaftBench, RaftJudge, View};
use crate::raft::message::Position;
use crate::raft::{LogIndex, NodeId, RaftEvent, Term};

/// What an append entry holds and what precedes it follow from its index and term.
///
/// Of a replica that is down for long, what it stores when it is back is compared only as far as it is
/// among the newest; [`ReplicasApplyTheSame`] sees the rest when it is applied.
#[derive(Clone, Debug)]
pub struct LogsMatch {
    /// At each index that not all replicas have handed over yet: the first that was stored there.
    entries: Stretch<(Term, Held)>,
    /// Those of other terms.
    others: BTreeMap<(LogIndex, Term), Held>,
}

/// What an append entry holds, and the term of what precedes it.
type Held = (u32, Option<Term>);

impl LogsMatch {
    pub(super) const fn new() -> Self {
        Self {
            entries: Stretch::new(MOST),
            others: BTreeMap::new(),
        }
    }

    /// What was stored first at this place, be it now; `None` if that is forgotten.
    fn first_stored(&mut self, index: LogIndex, term: Term, held: Held) -> Option<Held> {
        let (first, known) = self.entries.first_said(index.0, (term, held))?;
        if first == term {
            return Some(known);
        }
        Some(*self.others.entry((index, term)).or_insert(held))
    }

    fn forget_before(&mut self, index: LogIndex) {
        self.entries.forget_before(index.0);
        while let Some((place, _)) = self.others.first_key_value()
            && place.0 < index
        {
            self.others.pop_first();
        }
    }
}

impl RaftJudge for LogsMatch {
    const NAME: &'static str = "logs-match";
    const RULE: &'static str =
        "RAFT, figure 3, Log Matching: equal index and term, equal logs up to there";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Stored {
            index,
            term,
            content,
            ..
        } = *event
        {
            let log = view.replica(node);
            let last = log.last_index();
            if index != last.next() {
                bench.object::<Self>(format!("{node} stores {index} after {last}"));
            }
            let held = (content, log.term_at(last));
            let known = self.first_stored(index, term, held);
            if known.is_some_and(|known| known != held) {
                bench.object_at::<Self>(
                    index,
                    format!(
                        "{node} stores another entry {index} of term {term}, or after another one, than was stored before"
                    ),
                );
            }
            self.forget_before(view.handed_over_by_all());
        }
    }
}

/// A proposal enters the log in the term in which the layer above checked it.
#[derive(Clone, Copy, Debug)]
pub struct ProposalsKeepTheirTerm;

impl RaftJudge for ProposalsKeepTheirTerm {
    const NAME: &'static str = "proposals-keep-their-term";
    const RULE: &'static str =
        "raft.go, Propose: a proposal that was checked in an earlier term is refused";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, _: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Stored {
            index,
            term,
            checked_in: checked,
            ..
        } = *event
            && checked != Term(0)
            && checked != term
        {
            bench.object::<Self>(format!(
                "{node} stores {index} of term {term} with a proposal checked in term {checked}"
            ));
        }
    }
}

/// What is committed is in the logs of a quorum, from then on.
#[derive(Clone, Copy, Debug)]
pub struct WhatIsCommittedStays;

impl RaftJudge for WhatIsCommittedStays {
    const NAME: &'static str = "what-is-committed-stays";
    const RULE: &'static str =
        "RAFT, 5.3 and 5.4.2: what is committed is on the disks of a quorum and stays there";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        match *event {
            RaftEvent::Committed { index } if index == view.committed_index().next() => {
                if let Some(why) = unfounded(node, index, view) {
                    bench.object_at::<Self>(index, format!("{node} commits {index}: {why}"));
                }
            }
            RaftEvent::Truncated { last } | RaftEvent::Recovered { last, .. } => {
                if let Some(lost) = view.first_lost(node, last.index) {
                    let (index, term) = (lost.index, lost.term);
                    // A log that has what others lost may have to begin anew (`resetWAL`).
                    bench.object_at::<Self>(
                        view.replica(node).last_index(),
                        format!("{node} loses {index} of term {term}, committed, which no quorum has then"),
                    );
                }
            }
            _ => {}
        }
    }
}

/// Why a leader may not commit up to `index`: an entry of its own term, there or later, has to be
/// on the disks of a quorum.
fn unfounded(node: NodeId, index: LogIndex, view: &View) -> Option<String> {
    let replica = view.replica(node);
    let elected = replica.elected?;
    let own = (index.0..=replica.last_index().0).map(LogIndex);
    let mut own = own.filter(|index| replica.term_at(*index) == Some(elected));
    let on_a_quorum = |index: LogIndex| {
        let term = elected;
        view.holders(Position { index, term }) >= view.quorum()
    };
    (!own.any(on_a_quorum))
        .then(|| format!("nothing of its term {elected} from there on is on a quorum of disks"))
}

/// A replica that runs never takes back what it has committed.
#[derive(Clone, Copy, Debug)]
pub struct CommitsNeverGoBack;

impl RaftJudge for CommitsNeverGoBack {
    const NAME: &'static str = "commits-never-go-back";
    const RULE: &'static str = "raft.go, truncateWAL: what is committed is not truncated";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Truncated { last } = *event {
            let committed = view.replica(node).committed;
            if last.index < committed {
                let index = last.index;
                bench.object_at::<Self>(
                    committed,
                    format!("{node} goes back to {index} and had committed {committed}"),
                );
            }
        }
    }
}

/// Replicas apply the same entries in the same order.
#[derive(Clone, Debug)]
pub struct ReplicasApplyTheSame {
    /// Of what not all replicas have applied yet.
    prefixes: Prefixes,
}

impl ReplicasApplyTheSame {
    pub(super) const fn new() -> Self {
        Self {
            prefixes: Prefixes::new(MOST),
        }
    }
}

impl RaftJudge for ReplicasApplyTheSame {
    const NAME: &'static str = "replicas-apply-the-same";
    const RULE: &'static str =
        "RAFT, figure 3, State Machine Safety: replicas apply the same entry at each index";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Applied { index, prefix } = *event {
            let known = self.prefixes.first_said(index, prefix);
            if known.is_some_and(|known| known != prefix) {
                bench.object_at::<Self>(
                    index,
                    format!("{node} has applied something else up to {index} than others"),
                );
            }
            self.prefixes.forget_before(view.applied_by_all());
        }
    }
}
