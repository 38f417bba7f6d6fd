//! What each replica of a group does with RAFT: it proposes, writes, applies, leads and steps down.
//!
//! Leans on `raft` and `stream::replicated`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::route::Between;
use super::{Around, Awaited, Group, answer_call, lost};
use crate::machine::{Machine as _, Sink, Time};
use crate::raft::message::Content;
use crate::raft::seam::Write;
use crate::raft::{self, Entry, LogIndex, Node, NodeId, State, Term};
use crate::server::host::Host;
use crate::server::message::Fact;
use crate::server::{Action, ServerModel};
use crate::stream::Stream;
use crate::stream::replicated::{CallResult, Outgoing, Proposal};

/// Append entries in the log at which a snapshot is taken (`monitorStream`).
const SNAPSHOT_ENTRIES: u64 = 65_536;

impl Entry for Proposal {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }
}

/// A stream as it was when a snapshot was taken.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Snapshot(Arc<Stream>);

impl State for Snapshot {
    fn bytes(&self) -> u64 {
        self.0.log().bytes()
    }
}

pub(super) type Input = raft::Input<Proposal, Snapshot>;
type RaftAction = raft::Action<Proposal, Snapshot>;

/// One replica and its server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Member {
    pub(super) host: Host,
    pub(super) node: Node<Proposal, Snapshot>,
    /// In which it may propose: it leads.
    pub(super) term: Option<Term>,
    /// Who takes messages for the stream, as far as this server has heard.
    pub(super) interest: Option<NodeId>,
    /// When the disk under the log is done; `NEVER` while it rests.
    pub(super) write_end: Time,
    /// Committed, and waiting to be applied.
    pub(super) committed: VecDeque<(LogIndex, Content<Proposal>)>,
    /// When those in work are applied; `NEVER` while there are none.
    pub(super) apply_end: Time,
    /// So many of `committed` are in work.
    pub(super) applying: usize,
    pub(super) processed: LogIndex,
    pub(super) applied: LogIndex,
}

impl Member {
    /// A replica that starts for the first time, a follower.
    pub(super) fn new(now: Time, id: NodeId, mut stream: Stream, settings: raft::Settings) -> Self {
        stream.replicate();
        Self {
            host: Host::new(stream),
            node: Node::new(now, id, settings),
            term: None,
            interest: None,
            write_end: Time::NEVER,
            committed: VecDeque::new(),
            apply_end: Time::NEVER,
            applying: 0,
            processed: LogIndex(0),
            applied: LogIndex(0),
        }
    }
}

impl Group {
    pub(super) fn propose_decided(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        for outgoing in self.members[index].host.stream.take_proposals() {
            let frame = outgoing.frame();
            let Some(term) = self.members[index].term else {
                lost(frame, out);
                continue;
            };
            let input = match outgoing {
                Outgoing::One(entry) => Input::Propose { term, entry },
                Outgoing::All(entries) => Input::ProposeAll { term, entries },
            };
            self.raft(now, index, input, around, out);
            if self.members[index].term.is_none() {
                // Overrun: the leader steps down over this very proposal, which it does not take.
                lost(frame, out);
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
        let mut actions = Vec::new();
        self.members[index].node.step(now, input, &mut actions);
        self.take(now, index, actions, around, out);
    }

    pub(super) fn take(
        &mut self,
        now: Time,
        index: usize,
        actions: Vec<RaftAction>,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        for action in actions {
            match action {
                RaftAction::Broadcast(message) => {
                    self.broadcast(now, index, &Between::Raft(message));
                }
                RaftAction::Send { to, message } => {
                    self.send(now, index, usize::from(to.0), Between::Raft(message));
                }
                RaftAction::Write(write) => {
                    let cost = self.write_cost(index, write, around.model);
                    self.members[index].write_end = now + cost;
                }
                RaftAction::Draw(range) => {
                    self.drawing
                        .push_back(Awaited::Election(NodeId(index as u8)));
                    out.emit(Action::Draw(range));
                }
                RaftAction::Apply { index: at, content } => {
                    self.members[index].committed.push_back((at, content));
                    self.begin_apply(now, index);
                }
                RaftAction::Restore { index: at, state } => {
                    self.restore(index, at, &state);
                    self.tell_processed(now, index, around, out);
                }
                RaftAction::Lead { term } => self.lead(now, index, term, around, out),
                RaftAction::SteppedDown { drained, .. } => {
                    self.stepped_down(now, index, &drained, out);
                }
                // Who is refused steps down or has done so: nothing in flight counts any more.
                RaftAction::Refused(_) | RaftAction::Fact(_) => {}
            }
        }
    }

    fn write_cost(&self, index: usize, write: Write, model: &ServerModel) -> Time {
        let files = model.disk.span(write.files, write.file_bytes);
        if !self.members[index].host.stream.writes_files() {
            return files;
        }
        files + model.disk.span(write.records, write.record_bytes)
    }

    // -- applying --------------------------------------------------------------------------------

    fn begin_apply(&mut self, now: Time, index: usize) {
        let cost = self.model.apply_cost;
        let member = &mut self.members[index];
        if member.apply_end != Time::NEVER || member.committed.is_empty() {
            return;
        }
        member.applying = member.committed.len();
        let contents = member.committed.iter().take(member.applying);
        let entries: u64 = contents.map(|(_, one)| one.proposed().len() as u64).sum();
        member.apply_end = now + Time::from_nanos(cost.as_nanos().saturating_mul(entries));
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
        for _ in 0..applying {
            let Some((at, content)) = self.members[index].committed.pop_front() else {
                break;
            };
            for proposal in content.proposed() {
                self.apply(now, index, proposal, around, out);
            }
            let member = &mut self.members[index];
            member.processed = at;
            if !member.host.stream.is_gathering() {
                member.applied = at;
            }
        }
        self.tell_processed(now, index, around, out);
        self.snapshot(now, index, around, out);
        self.begin_apply(now, index);
        let chooses = self.on_host(now, index, out, |host, out| {
            host.look(now, around.model, out)
        });
        chooses.then_some(index as u8)
    }

    fn apply(
        &mut self,
        now: Time,
        index: usize,
        proposal: &Proposal,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let mut called: Option<CallResult> = None;
        self.on_host(now, index, out, |host, out| {
            host.with_facts(out, |stream, mut effects| {
                called = stream.apply(proposal, &around.stream, &mut effects);
            });
            false
        });
        if let Some(result) = called
            && self.members[index].term.is_some()
            && let Some((to, call)) = self.calls.pop_front()
        {
            answer_call(to, call, result, out);
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

    fn snapshot(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let member = &self.members[index];
        let since = member.applied.since(member.node.log().snapshot_index());
        if since < SNAPSHOT_ENTRIES || member.host.stream.is_gathering() {
            return;
        }
        let input = Input::SnapshotTaken {
            index: member.applied,
            state: Snapshot(Arc::new(member.host.stream.clone())),
            force: false,
        };
        self.raft(now, index, input, around, out);
    }

    fn restore(&mut self, index: usize, at: LogIndex, state: &Snapshot) {
        let member = &mut self.members[index];
        let mut stream = Stream::clone(&state.0);
        stream.replicate();
        member.host.stream = stream;
        member.committed.clear();
        member.apply_end = Time::NEVER;
        member.applying = 0;
        member.processed = at;
        member.applied = at;
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
        self.members[index].interest = None;
        self.broadcast(now, index, &Between::Interest(true));
        out.emit(Action::Fact(Fact::Leader(Some(index as u8))));
        self.on_host(now, index, out, |host, out| {
            host.with_facts(out, |stream, mut effects| {
                stream.lead(&around.stream, &mut effects);
            });
            host.look(now, around.model, out)
        });
    }

    fn stepped_down(
        &mut self,
        now: Time,
        index: usize,
        drained: &[Proposal],
        out: &mut dyn Sink<Action>,
    ) {
        if self.members[index].term.take().is_none() {
            return;
        }
        self.calls.clear();
        self.broadcast(now, index, &Between::Interest(false));
        out.emit(Action::Fact(Fact::Leader(None)));
        self.on_host(now, index, out, |host, out| {
            host.with_facts(out, |stream, mut effects| stream.step_down(&mut effects));
            false
        });
        for proposal in drained {
            if let Proposal::Message(message) = proposal {
                lost(message.publish.frame(), out);
            }
        }
    }

    /// Has the first replica elected before anything else happens, at one moment.
    pub(super) fn elect_first(&mut self, now: Time, around: &Around<'_>) {
        let mut nothing: Vec<Action> = Vec::new();
        self.raft(now, 0, Input::Campaign, around, &mut nothing);
        while self.members[0].term.is_none() || self.under_way().next().is_some() {
            for route in &mut self.routes {
                for (arrival, _) in &mut route.under_way {
                    *arrival = now;
                }
                route.link.reset(now);
            }
            for member in &mut self.members {
                if member.write_end != Time::NEVER {
                    member.write_end = now;
                }
            }
            self.look_ahead();
            if self.due() > now {
                return;
            }
            self.wake(around, &mut nothing);
        }
    }
}
