//! Judges of RAFT: each holds a group of replicas to one promise.
//!
//! They read what replicas wrote to disk, promised and applied, keep their own idea of every log,
//! and never believe a replica's commit index. What a group loses because it does not sync and lost
//! power is a class of its own: the settings permit it. Leans on `raft` and on the violations of
//! `judge`.

mod elections;
mod limits;
mod logs;
mod stretch;
mod view;

use super::{KEPT, Violation};
use crate::machine::Time;
use crate::raft::{LogIndex, NodeId, Settings};

pub use crate::raft::RaftEvent;
pub use elections::{
    LeadersHaveWhatIsCommitted, LeadsAfterItsFirstEntry, OneLeaderPerTerm, OneVotePerTerm,
};
pub use limits::{OverrunLeadersStepDown, PausedFollowersAskForNothing};
pub use logs::{
    CommitsNeverGoBack, LogsMatch, ProposalsKeepTheirTerm, ReplicasApplyTheSame,
    WhatIsCommittedStays,
};
pub use view::View;

/// One promise, kept or broken by one group.
pub trait RaftJudge {
    /// Its name.
    const NAME: &'static str;
    /// What it guards: a property of RAFT, or a function of nats-server's `server/raft.go`.
    const RULE: &'static str;

    /// Takes one event of `node`; `view` is what was there before.
    fn see(&mut self, node: NodeId, event: &RaftEvent, view: &View, bench: &mut RaftBench<'_>);
}

/// What the judges found in one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaftFindings {
    /// Broken promises.
    pub violations: Vec<Violation>,
    /// What would be broken promises, had the group not lost unsynced entries with the power of its
    /// machines.
    pub lost_to_power: Vec<Violation>,
    /// How many more there were of either: the first hundred are kept.
    pub left_out: u64,
}

impl RaftFindings {
    fn keep(&mut self, violation: Violation, is_excused: bool) {
        let kept = if is_excused {
            &mut self.lost_to_power
        } else {
            &mut self.violations
        };
        if kept.len() < KEPT {
            kept.push(violation);
        } else {
            self.left_out += 1;
        }
    }
}

/// Where judges put what they find.
pub struct RaftBench<'a> {
    at: Time,
    excused_from: LogIndex,
    findings: &'a mut RaftFindings,
}

impl RaftBench<'_> {
    /// `J` objects to something that no loss excuses.
    pub fn object<J: RaftJudge>(&mut self, message: String) {
        self.findings.keep(violation::<J>(self.at, message), false);
    }

    /// `J` objects to what happened at `index`.
    pub fn object_at<J: RaftJudge>(&mut self, index: LogIndex, message: String) {
        let is_excused = index >= self.excused_from;
        self.findings
            .keep(violation::<J>(self.at, message), is_excused);
    }
}

fn violation<J: RaftJudge>(at: Time, message: String) -> Violation {
    Violation {
        judge: J::NAME,
        clause: J::RULE,
        at,
        publisher: None,
        batch: None,
        message,
    }
}

/// All judges over one group.
#[derive(Clone, Debug)]
pub struct RaftJudges {
    view: View,
    votes: OneVotePerTerm,
    leaders: OneLeaderPerTerm,
    complete: LeadersHaveWhatIsCommitted,
    told: LeadsAfterItsFirstEntry,
    logs: LogsMatch,
    terms: ProposalsKeepTheirTerm,
    stays: WhatIsCommittedStays,
    forward: CommitsNeverGoBack,
    applied: ReplicasApplyTheSame,
    overrun: OverrunLeadersStepDown,
    paused: PausedFollowersAskForNothing,
    findings: RaftFindings,
}

impl RaftJudges {
    /// The names of all judges.
    pub const NAMES: [&'static str; 11] = [
        OneVotePerTerm::NAME,
        OneLeaderPerTerm::NAME,
        LeadersHaveWhatIsCommitted::NAME,
        LeadsAfterItsFirstEntry::NAME,
        LogsMatch::NAME,
        ProposalsKeepTheirTerm::NAME,
        WhatIsCommittedStays::NAME,
        CommitsNeverGoBack::NAME,
        ReplicasApplyTheSame::NAME,
        OverrunLeadersStepDown::NAME,
        PausedFollowersAskForNothing::NAME,
    ];

    /// Judges of a group with these settings, which has an empty log.
    pub fn new(settings: &Settings) -> Self {
        Self {
            view: View::new(settings),
            votes: OneVotePerTerm::new(settings),
            leaders: OneLeaderPerTerm::default(),
            complete: LeadersHaveWhatIsCommitted,
            told: LeadsAfterItsFirstEntry,
            logs: LogsMatch::new(),
            terms: ProposalsKeepTheirTerm,
            stays: WhatIsCommittedStays,
            forward: CommitsNeverGoBack,
            applied: ReplicasApplyTheSame::new(),
            overrun: OverrunLeadersStepDown::new(settings),
            paused: PausedFollowersAskForNothing::default(),
            findings: RaftFindings::default(),
        }
    }

    /// Takes one event.
    pub fn see(&mut self, at: Time, node: NodeId, event: &RaftEvent) {
        let view = &mut self.view;
        view.note_exposure(node, event);
        let mut bench = RaftBench {
            at,
            excused_from: view.excused_from(),
            findings: &mut self.findings,
        };
        self.votes.see(node, event, view, &mut bench);
        self.leaders.see(node, event, view, &mut bench);
        self.complete.see(node, event, view, &mut bench);
        self.told.see(node, event, view, &mut bench);
        self.logs.see(node, event, view, &mut bench);
        self.terms.see(node, event, view, &mut bench);
        self.stays.see(node, event, view, &mut bench);
        self.forward.see(node, event, view, &mut bench);
        self.applied.see(node, event, view, &mut bench);
        self.overrun.see(node, event, view, &mut bench);
        self.paused.see(node, event, view, &mut bench);
        view.update(node, event);
    }

    /// What was found so far.
    pub const fn findings(&self) -> &RaftFindings {
        &self.findings
    }

    /// What was found.
    pub fn into_findings(self) -> RaftFindings {
        self.findings
    }

    /// Whether the group has lost committed entries from so many disks that it may forget them.
    pub fn has_lost_to_power(&self) -> bool {
        self.view.excused_from() < View::NOWHERE
    }
}
