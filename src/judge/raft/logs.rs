//! Judges of logs: what is stored, committed and applied.
//!
//! Leans on `view`.

use std::collections::BTreeMap;

use super::{RaftBench, RaftJudge, View};
use crate::raft::message::Position;
use crate::raft::{LogIndex, NodeId, RaftEvent, Term};

/// What an append entry holds and what precedes it follow from its index and term.
#[derive(Clone, Debug, Default)]
pub struct LogsMatch {
    /// Those that not all replicas have handed over yet.
    entries: BTreeMap<(LogIndex, Term), (u32, Option<Term>)>,
}

impl RaftJudge for LogsMatch {
    const NAME: &'static str = "logs-match";
    const RULE: &'static str =
        "RAFT, figure 3, Log Matching: equal index and term, equal logs up to there";

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
            let new = (content, log.term_at(last));
            let known = *self.entries.entry((index, term)).or_insert(new);
            if known != new {
                bench.object_at::<Self>(
                    index,
                    format!(
                        "{node} stores another entry {index} of term {term}, or after another one, than was stored before"
                    ),
                );
            }
            forget_before(&mut self.entries, (view.handed_over_by_all(), Term(0)));
        }
    }
}

/// Forgets what is before `end`: memory follows how far replicas are apart. The first goes with each
/// that comes, and one more.
fn forget_before<K: Ord + Copy, V>(known: &mut BTreeMap<K, V>, end: K) {
    for _ in 0..2 {
        match known.first_key_value() {
            Some((first, _)) if *first < end => known.pop_first(),
            _ => return,
        };
    }
}

/// A proposal enters the log in the term in which the layer above checked it.
#[derive(Clone, Copy, Debug)]
pub struct ProposalsKeepTheirTerm;

impl RaftJudge for ProposalsKeepTheirTerm {
    const NAME: &'static str = "proposals-keep-their-term";
    const RULE: &'static str =
        "raft.go, Propose: a proposal that was checked in an earlier term is refused";

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
#[derive(Clone, Debug, Default)]
pub struct ReplicasApplyTheSame {
    /// At each index that not all replicas have handed over yet.
    prefixes: BTreeMap<LogIndex, u32>,
}

impl RaftJudge for ReplicasApplyTheSame {
    const NAME: &'static str = "replicas-apply-the-same";
    const RULE: &'static str =
        "RAFT, figure 3, State Machine Safety: replicas apply the same entry at each index";

    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Applied { index, prefix } = *event {
            let known = *self.prefixes.entry(index).or_insert(prefix);
            if known != prefix {
                bench.object_at::<Self>(
                    index,
                    format!("{node} has applied something else up to {index} than others"),
                );
            }
            forget_before(&mut self.prefixes, view.applied_by_all());
        }
    }
}
