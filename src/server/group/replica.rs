//! What each replica of a group does with RAFT: it proposes, writes, applies, leads and steps down.
//!
//! Leans on `raft` and `stream::proposal`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::calls::answer_call;
use super::route::Between;
use super::told::lengthened;
use super::{Around, Awaited, Group};
use crate::machine::{Machine as _, Sink, Time};
use crate::raft::message::Content;
use crate::raft::seam::Write;
use crate::raft::{self, Entry, LogIndex, Node, NodeId, RaftEvent, Restart, State, Term};
use crate::server::host::Host;
use crate::server::message::Loss;
use crate::server::{Action, ServerModel, lost};
use crate::stream::proposal::CallResult;
pub(super) use crate::stream::proposal::Proposal;
use crate::stream::{Stream, Surroundings};

/// Append entries in the log at which a snapshot is taken (`monitorStream`).
const SNAPSHOT_ENTRIES: u64 = 65_536;

impl Entry for Proposal {
    fn bytes(&self) -> u64 {
        Self::bytes(self)
    }
}

/// A stream as it was when a snapshot was taken.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Snapshot {
    stream: Arc<Stream>,
    /// Digest of all that it stands for.
    prefix: u64,
}

impl Snapshot {
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) const fn prefix(&self) -> u64 {
        self.prefix
    }
}

impl State for Snapshot {
    fn bytes(&self) -> u64 {
        self.stream.log().bytes()
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
            interest: None,
            write_end: Time::NEVER,
            committed: VecDeque::new(),
            apply_end: Time::NEVER,
            applying: 0,
            processed: LogIndex(0),
            applied: LogIndex(0),
            stable: (LogIndex(0), APPLIED_WHOLLY),
            prefix: 0,
            starts: None,
        }
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
        while let Some(first) = proposals.first() {
            let frame = first.frame();
            let member = &self.members[index];
            let Some(term) = member.term else {
                for proposal in &proposals {
                    lost(proposal.frame(), Loss::NoLeader, out);
                }
                return;
            };
            // The first begins a write, and while the disk writes all others get in alike.
            let entries = if member.node.is_busy() {
                std::mem::take(&mut proposals)
            } else {
                let together = Proposal::together(&proposals);
                proposals.drain(..together).collect()
            };
            self.raft(now, index, Input::ProposeAll { term, entries }, around, out);
            if self.members[index].term.is_none() {
                // Overrun: the leader steps down over this very proposal, which it does not take.
                lost(frame, Loss::NoLeader, out);
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
                    // What a route loses, RAFT asks for again.
                    let _ = self.send(now, index, usize::from(to.0), Between::Raft(message));
                }
                RaftAction::Write(write) => {
                    let cost = self.write_cost(index, write, around.model);
                    let member = &mut self.members[index];
                    let writes = write.files + write.records;
                    member.write_end = member.host.write_end(now + cost, writes);
                }
                RaftAction::Draw(range) => {
                    self.drawing
                        .push_back(Awaited::Election(NodeId(index as u8)));
                    out.emit(Action::Draw(range));
                }
                RaftAction::Apply { index: at, content } => {
                    self.tell(index, RaftEvent::Committed { index: at }, out);
                    self.members[index].committed.push_back((at, content));
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
    }

    fn write_cost(&self, index: usize, write: Write, model: &ServerModel) -> Time {
        let files = model.disk.span(write.files, write.file_bytes);
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
            for (place, proposal) in content.proposed().iter().enumerate() {
                if (at, place) < self.members[index].stable {
                    continue;
                }
                self.apply(now, index, proposal, around, out);
                let member = &mut self.members[index];
                if !member.host.stream.is_gathering() {
                    member.stable = (at, place + 1);
                }
            }
            let member = &mut self.members[index];
            member.prefix = lengthened(member.prefix, &content);
            member.processed = at;
            if !member.host.stream.is_gathering() {
                member.applied = at;
                member.stable = member.stable.max((at, APPLIED_WHOLLY));
            }
            self.tell_applied(at, index, out);
        }
        if self.members[index].host.stream.log().has_new_chunks() {
            self.share_log(index);
        }
        self.tell_processed(now, index, around, out);
        self.snapshot(now, index, around, out);
        self.begin_apply(now, index);
        let chooses = self.on_host(now, index, around.servers, out, |host, out| {
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
        // Experiments with flow look at it, and nothing else does.
        let host = &self.members[index].host;
        let under_pressure = around.model.flow_room.map(|_| Surroundings {
            ingest_permille: host.ingest_permille(around.model),
            ..around.stream
        });
        let surroundings = under_pressure.as_ref().unwrap_or(&around.stream);
        self.on_host(now, index, around.servers, out, |host, out| {
            host.with_facts(out, |stream, mut effects| {
                called = stream.apply(proposal, surroundings, &mut effects);
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

    /// What a replica stored is in memory already where another one has the same.
    fn share_log(&mut self, index: usize) {
        let (before, rest) = self.members.split_at_mut(index);
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
            state: Snapshot {
                stream: Arc::new(member.host.stream.clone()),
                prefix: member.prefix,
            },
            force: false,
        };
        self.raft(now, index, input, around, out);
    }

    /// Takes a snapshot over; one that its own disk had has nothing new for a store that was not lost.
    fn restore(&mut self, index: usize, at: LogIndex, state: &Snapshot, around: &Around<'_>) {
        let member = &self.members[index];
        if member.starts.is_none() || member.stable.0 < at {
            self.set_stream(index, Some((at, state)), around);
        }
        let member = &mut self.members[index];
        member.prefix = state.prefix;
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
        self.tell_leader(out);
        self.tell_rewound(index, out);
        self.on_host(now, index, around.servers, out, |host, out| {
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
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if self.members[index].term.take().is_none() {
            return;
        }
        self.calls.clear();
        self.broadcast(now, index, &Between::Interest(false));
        self.tell_leader(out);
        self.on_host(now, index, around.servers, out, |host, out| {
            host.with_facts(out, |stream, mut effects| stream.step_down(&mut effects));
            false
        });
        for proposal in drained {
            if let Proposal::Message(message) = proposal {
                lost(message.publish.frame(), Loss::NoLeader, out);
            }
        }
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
