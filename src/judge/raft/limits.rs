//! Judges of the brakes: what happens to a replica that is overrun.
//!
//! Leans on `view`.

use std::collections::BTreeSet;

use super::{RaftBench, RaftJudge, View};
use crate::raft::{NodeId, RaftEvent, Settings};

/// A leader whose commits or applies do not keep up steps down: either backlog stays below twice
/// the limit, which leaves room for what was queued when it was reached.
#[derive(Clone, Copy, Debug)]
pub struct OverrunLeadersStepDown {
    most: u64,
}

impl OverrunLeadersStepDown {
    pub(super) const fn new(settings: &Settings) -> Self {
        Self {
            most: settings.overrun.saturating_mul(2),
        }
    }
}

impl RaftJudge for OverrunLeadersStepDown {
    const NAME: &'static str = "overrun-leaders-step-down";
    const RULE: &'static str =
        "raft.go, isLeaderOverrun: at most twice the limit is uncommitted or unapplied at a leader";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>) {
        if let RaftEvent::Stored { index, term, .. } = *event {
            let replica = view.replica(node);
            let uncommitted = index.since(replica.committed);
            let unapplied = replica.committed.since(replica.applied);
            if replica.elected == Some(term) && uncommitted.max(unapplied) > self.most {
                bench.object::<Self>(format!(
                    "{node} goes on leading with {uncommitted} append entries uncommitted and {unapplied} unapplied"
                ));
            }
        }
    }
}

/// A follower that takes no more append entries does not ask for any.
#[derive(Clone, Debug, Default)]
pub struct PausedFollowersAskForNothing {
    paused: BTreeSet<NodeId>,
}

impl RaftJudge for PausedFollowersAskForNothing {
    const NAME: &'static str = "paused-followers-ask-for-nothing";
    const RULE: &'static str =
        "raft.go, processAppendEntry: a follower that is overrun gives its catch-up up";

    #[inline]
    fn see(&mut self, node: NodeId, event: &RaftEvent, _: &View, bench: &mut RaftBench<'_>) {
        match event {
            RaftEvent::Paused => {
                self.paused.insert(node);
            }
            RaftEvent::Resumed | RaftEvent::Recovered { .. } => {
                self.paused.remove(&node);
            }
            RaftEvent::AskedForCatchup if self.paused.contains(&node) => {
                bench.object::<Self>(format!(
                    "{node} asks for append entries that it passes over"
                ));
            }
            _ => {}
        }
    }
}
