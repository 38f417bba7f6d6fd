//! What each replica of a group does with RAFT: it proposes, writes, applies, leads and steps down.
//!
//! Leans on `raft` and `stream::proposal`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::calls::{answer_call, take_call};
use super::route::Between;
pub(super) use super::snapshot::Snapshot;
use super::told::word;
use super::{Around, Awaited, Group};
use crate::machine::{Machine as _, Sink, Time};
use crate::net::link::Passage;
use crate::raft::message::{Record, lengthened};
use crate::raft::seam::Write;
use crate::raft::{self, Entry, LogIndex, Node, NodeId, RaftEvent, Restart, Term};
use crate::server::host::Host;
use crate::server::message::Loss;
use crate::server::{Action, ServerModel, lost, unheard};
pub(super) use crate::stream::proposal::Proposal;
use crate::stream::{Stream, Surroundings};

impl Entry for Proposal {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }

    fn digest(&self) -> u64 {
        word(self)
    }
}

pub(super) type Input = raft::Input<Proposal, Snapshot>;
pub(super) type RaftAction = raft::Action<Proposal, Snapshot>;

/// One replica and its server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Member {
    pub(super) host: Host,
    pub(super) node: Node<Proposal, Snapshot>,
    /// In which it may propose: it leads.
    pub(super) term: Option<Term>,
    /// Who takes messages for the stream, as far as this server has heard: by server, the term in which
    /// it leads.
    pub(super) interest: Vec<Option<Term>>,
    /// When the disk under the log is done; `NEVER` while it rests.
    pub(super) write_end: Time,
    /// Committed, and waiting to be applied.
    pub(super) committed: VecDeque<(LogIndex, Arc<Record<Proposal>>)>,
    /// When those in work are applied; `NEVER` while there are none.
    pub(super) apply_end: Time,
    /// So many of `committed` are in work.
    pub(super) applying: usize,
    /// How far it was handed append entries.
    pub(super) handed_over: LogIndex,
    pub(super) processed: LogIndex,
    pub(super) applied: LogIndex,
    /// What the store has: all append entries before this, and so many proposals of this one. A
    /// process that starts again does not apply them again.
    pub(super) stable: (LogIndex, usize),
    /// Digest of all that it was given and has dealt with.
    pub(super) prefix: u64,
    /// Its process is just starting, after an end of this kind.
    pub(super) starts: Option<Restart>,
}

/// An append entry is applied to its end.
pub(super) const APPLIED_WHOLLY: usize = usize::MAX;

impl Member {
    /// A replica that starts for the first time, a follower.
    pub(super) fn new(now: Time, id: NodeId, mut stream: Stream, settings: raft::Settings) -> Self {
        stream.replicate();
        Self {
            host: Host::new(stream),
            node: Node::new(now, id, settings),
            term: None,
            interest: vec![None; usize::from(settings.members)],
            write_end: Time::NEVER,
            committed: VecDeque::new(),
            apply_end: Time::NEVER,
            applying: 0,
            handed_over: LogIndex(0),
            processed: LogIndex(0),
            applied: LogIndex(0),
            stable: (LogIndex(0), APPLIED_WHOLLY),
            prefix: 0,
            starts: None,
        }
    }
}

impl Member {
    /// The server that messages for the stream go to: of two that want them, the one that does not know
    /// yet that it is deposed is the older.
    pub(super) fn interested(&self) -> Option<usize> {
        let wanting = self.interest.iter().enumerate();
        let wanting = wanting.filter_map(|(server, term)| Some((server, (*term)?)));
        wanting
            .max_by_key(|(_, term)| *term)
            .map(|(server, _)| server)
    }
}

impl Group {
    /// Proposes what the loop of a replica has let pass.
    pub(super) fn propose_decided(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let mut proposals = self.members[index].host.stream.take_proposals();
        while !proposals.is_empty() {
            let member = &self.members[index];
            let Some(term) = member.term else {
                return self.refuse(now, index, &proposals, around, out);
            };
            // The first begins a write, and while the disk writes all others get in alike.
            let entries = if member.node.is_busy() {
                std::mem::take(&mut proposals)
            } else {
                let together = Proposal::together(&proposals);
                proposals.drain(..together).collect()
            };
            let frame = entries.first().and_then(Proposal::frame);
            let tried = (!around.switches.refusals_are_silent).then(|| entries.clone());
            self.raft(now, index, Input::ProposeAll { term, entries }, around, out);
            if self.members[index].term.is_none() {
                // Overrun: the leader steps down over this very proposal, which it does not take.
                match tried {
                    Some(tried) => self.refuse(now, index, &tried, around, out),
                    None => lost(frame, Loss::NoLeader, out),
                }
            }
        }
    }

    /// Gives a replica an input, and does what it wants done.
    pub(super) fn raft(
        &mut self,
        now: Time,
        index: usize,
        input: Input,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        self.on_node(now, index, around, out, |node, actions| {
            node.step(now, input, actions);
        });
    }

    /// Lets the RAFT of a replica act, and does what it wants done.
    pub(super) fn on_node(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
        act: impl FnOnce(&mut Node<Proposal, Snapshot>, &mut Vec<RaftAction>),
    ) {
        let mut actions = std::mem::take(&mut self.wanted);
        act(&mut self.members[index].node, &mut actions);
        for action in actions.drain(..) {
            self.take(now, index, action, around, out);
        }
        self.wanted = actions;
        self.end_if_handed_over(now, index, around, out);
    }

    fn take(
        &mut self,
        now: Time,
        index: usize,
        action: RaftAction,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        match action {
            RaftAction::Broadcast(message) => {
                self.broadcast(now, index, &Between::Raft(message));
            }
            RaftAction::Send { to, message } => {
                // What a route loses, RAFT asks for again.
                let _ = self.send(now, index, usize::from(to.0), Between::Raft(message));
            }
            RaftAction::Write(write) => {
                let cost = self.write_cost(index, write, around.model);
                let member = &mut self.members[index];
                let records = if member.host.stream.writes_files() {
                    write.records
                } else {
                    0
                };
                member.write_end = match write.files + records {
                    0 => now + cost,
                    writes => member.host.write_end(now + cost, writes),
                };
            }
            RaftAction::Draw(range) => {
                self.drawing
                    .push_back(Awaited::Election(NodeId(index as u8)));
                out.emit(Action::Draw(range));
            }
            RaftAction::Apply { index: at, record } => {
                self.tell(index, RaftEvent::Committed { index: at }, out);
                let member = &mut self.members[index];
                member.committed.push_back((at, record));
                member.handed_over = at;
                self.begin_apply(now, index);
            }
            RaftAction::Restore { index: at, state } => {
                self.restore(index, at, &state, around);
                self.tell_applied(at, index, out);
                self.tell_processed(now, index, around, out);
            }
            RaftAction::Lead { term } => {
                self.tell(index, RaftEvent::Led { term }, out);
                self.lead(now, index, term, around, out);
            }
            RaftAction::SteppedDown { drained, .. } => {
                self.stepped_down(now, index, &drained, around, out);
            }
            RaftAction::Fact(fact) => {
                self.tell_fact(index, &fact, out);
                if let raft::Fact::Truncated { last } = fact {
                    self.take_back(now, index, last, around);
                }
            }
            // Who is refused steps down or has done so: nothing in flight counts any more.
            RaftAction::Refused(_) => {}
        }
    }

    fn write_cost(&self, index: usize, write: Write, model: &ServerModel) -> Time {
        let files = model.disk.files_span(write.files, write.file_bytes);
        if !self.members[index].host.stream.writes_files() {
            return files;
        }
        files + model.disk.span(write.records, write.record_bytes)
    }

    // -- applying --------------------------------------------------------------------------------

    pub(super) fn begin_apply(&mut self, now: Time, index: usize) {
        let cost = self.model.apply_cost;
        let member = &mut self.members[index];
        if member.apply_end != Time::NEVER || member.committed.is_empty() {
            return;
        }
        member.applying = member.committed.len();
        let records = member.committed.iter().take(member.applying);
        let entries: usize = records.map(|(_, one)| one.content.proposed().len()).sum();
        member.apply_end = now + Time::from_nanos(cost.as_nanos().saturating_mul(entries as u64));
    }

    pub(super) fn end_apply(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) -> Option<u8> {
        let applying = std::mem::take(&mut self.members[index].applying);
        self.members[index].apply_end = Time::NEVER;
        // Experiments with flow look at it, and nothing else does.
        let host = &self.members[index].host;
        let permille = around
            .model
            .flow_room
            .map(|_| host.ingest_permille(around.model));
        let surroundings = around.stream(now, permille.unwrap_or(0));
        for _ in 0..applying {
            let Some((at, record)) = self.members[index].committed.pop_front() else {
                break;
            };
            self.apply(at, &record, index, &surroundings, around, out);
            self.tell_applied(at, index, out);
        }
        if self.members[index].host.stream.log().has_new_chunks() {
            self.share_log(index);
        }
        self.tell_processed(now, index, around, out);
        self.snapshot(now, index, around, out);
        self.begin_apply(now, index);
        // Notes on batches that are over by what was applied.
        self.propose_decided(now, index, around, out);
        let chooses = self.on_host(now, index, around.servers, out, |host, out| {
            host.look(now, around.model, out)
        });
        chooses.then_some(index as u8)
    }

    /// Applies an append entry, but for what the store has already.
    fn apply(
        &mut self,
        at: LogIndex,
        record: &Record<Proposal>,
        index: usize,
        surroundings: &Surroundings<'_>,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let mut calls = std::mem::take(&mut self.calls);
        let now = surroundings.now;
        let (member, mut routed) = self.at_server(now, index, around.servers, out);
        for (place, proposal) in record.content.proposed().iter().enumerate() {
            if (at, place) < member.stable {
                continue;
            }
            let called = member.host.with_facts(&mut routed, |stream, mut effects| {
                stream.apply(proposal, surroundings, &mut effects)
            });
            if let Some(result) = called
                && member.term.is_some()
                && let Some((to, call)) = take_call(&mut calls, index)
            {
                answer_call(to, call, result, &mut routed);
            }
            if !member.host.stream.is_gathering() {
                member.stable = (at, place + 1);
            }
        }
        member.prefix = lengthened(member.prefix, record.digest);
        member.processed = at;
        if !member.host.stream.is_gathering() {
            member.applied = at;
            member.stable = member.stable.max((at, APPLIED_WHOLLY));
        }
        self.calls = calls;
    }

    /// What a replica stored is in memory already where another one has the same.
    fn share_log(&mut self, index: usize) {
        let (before, rest) = self.members.all_mut().split_at_mut(index);
        if let Some((member, after)) = rest.split_first_mut() {
            let others = before.iter().chain(after.iter());
            let logs = others.map(|other| other.host.stream.log());
            member.host.stream.share_log(&logs);
        }
    }

    fn tell_processed(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let member = &self.members[index];
        let input = Input::Processed {
            processed: member.processed,
            applied: member.applied,
        };
        self.raft(now, index, input, around, out);
    }

    // -- leadership ------------------------------------------------------------------------------

    fn lead(
        &mut self,
        now: Time,
        index: usize,
        term: Term,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        self.members[index].term = Some(term);
        self.broadcast(now, index, &Between::Interest(Some(term)));
        self.tell_leader(out);
        self.tell_rewound(index, out);
        self.on_host(now, index, around.servers, out, |host, out| {
            host.with_facts(out, |stream, mut effects| {
                stream.lead(&around.stream(now, 0), &mut effects);
            });
            host.look(now, around.model, out)
        });
    }

    fn stepped_down(
        &mut self,
        now: Time,
        index: usize,
        drained: &[Proposal],
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if self.members[index].term.take().is_none() {
            return;
        }
        self.drop_calls(index, drained, around, out);
        self.broadcast(now, index, &Between::Interest(None));
        self.tell_leader(out);
        self.on_host(now, index, around.servers, out, |host, out| {
            host.with_facts(out, |stream, mut effects| {
                stream.step_down(&around.stream(now, 0), &mut effects);
            });
            false
        });
        self.refuse(now, index, drained, around, out);
    }

    /// Nothing comes of these proposals.
    fn refuse(
        &mut self,
        now: Time,
        index: usize,
        proposals: &[Proposal],
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        self.on_host(now, index, around.servers, out, |_, out| {
            for proposal in proposals {
                match proposal.asked_by() {
                    Some(publish) if !around.switches.refusals_are_silent => unheard(publish, out),
                    _ => lost(proposal.frame(), Loss::NoLeader, out),
                }
            }
        });
    }

    /// Has the first replica elected before anything else happens, at one moment.
    ///
    /// `out` hears what replicas tell of it, and not that there is a leader: there was never none.
    pub(super) fn elect_first(
        &mut self,
        now: Time,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let mut told: Vec<Action> = Vec::new();
        self.raft(now, 0, Input::Campaign, around, &mut told);
        while self.members[0].term.is_none() || self.under_way().next().is_some() {
            for route in self.routes.all_mut() {
                for (passage, _) in &mut route.under_way {
                    *passage = Passage::at(now);
                }
                route.link.reset(now);
            }
            for member in self.members.all_mut() {
                if member.write_end != Time::NEVER {
                    member.write_end = now;
                }
            }
            self.look_ahead();
            if self.due() > now {
                break;
            }
            self.wake(around, &mut told);
        }
        let of_raft = |action: &Action| matches!(action, Action::Raft { .. });
        told.into_iter()
            .filter(of_raft)
            .for_each(|action| out.emit(action));
    }
}
