//! A stream with replicas: each on a server of its own, with RAFT and routes between them.
//!
//! A message enters at the server that its client is connected to and goes on to the leader, which
//! checks and proposes it; every replica applies what is committed, and the leader's answers go back
//! the same way. Leans on `host`, `raft`, `stream::replicated` and `net::link`.

use std::collections::VecDeque;
use std::sync::Arc;

use super::api::{ApiAnswer, ApiCall, ApiFailure};
use super::host::Host;
use super::message::{Fact, Publish, Reply, ReplyTo};
use super::model::ClusterModel;
use super::{Action, ServerModel, Source, unheard};
use crate::machine::{Machine as _, Sink, Time};
use crate::nats::StreamSequence;
use crate::nats::error_code::ErrorCode;
use crate::net::link::Link;
use crate::raft::message::{Content, Message};
use crate::raft::seam::Write;
use crate::raft::{self, Entry, LogIndex, Node, NodeId, State, Term};
use crate::stream::replicated::{CallResult, Called, Proposal};
use crate::stream::{Stream, Surroundings};

/// Append entries in the log at which a snapshot is taken (`monitorStream`).
const SNAPSHOT_ENTRIES: u64 = 65_536;
/// Bytes of interest, and of a routed message beside its texts and payload.
const ROUTE_BYTES: u64 = 40;

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

type Input = raft::Input<Proposal, Snapshot>;
type RaftAction = raft::Action<Proposal, Snapshot>;

/// What servers say to each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Between {
    Raft(Message<Proposal, Snapshot>),
    /// The sender takes messages for the stream, or does not any more.
    Interest(bool),
    /// A message of a client of the sender.
    Publish(Publish),
    /// An answer for a client of the receiver.
    Answer(ReplyTo, Reply),
}

impl Between {
    fn bytes(&self) -> u64 {
        match self {
            Self::Raft(message) => message.bytes(),
            Self::Interest(_) => ROUTE_BYTES,
            Self::Publish(publish) => ROUTE_BYTES + u64::from(publish.wire_bytes),
            Self::Answer(..) => 3 * ROUTE_BYTES,
        }
    }
}

/// One direction between two servers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Route {
    link: Link,
    under_way: VecDeque<(Time, Between)>,
}

/// One replica and its server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Member {
    host: Host,
    node: Node<Proposal, Snapshot>,
    /// In which it may propose: it leads.
    term: Option<Term>,
    /// Who takes messages for the stream, as far as this server has heard.
    interest: Option<NodeId>,
    /// When the disk under the log is done; `NEVER` while it rests.
    write_end: Time,
    /// Committed, and waiting to be applied.
    committed: VecDeque<(LogIndex, Content<Proposal>)>,
    /// When those in work are applied; `NEVER` while there are none.
    apply_end: Time,
    /// So many of `committed` are in work.
    applying: usize,
    processed: LogIndex,
    applied: LogIndex,
}

/// All replicas of a stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Group {
    members: Vec<Member>,
    /// By sender and receiver.
    routes: Vec<Route>,
    model: ClusterModel,
    /// Up to here the facts of what is stored are told.
    told: StreamSequence,
    /// Calls whose proposals are on their way, in their order.
    calls: VecDeque<(ReplyTo, ApiCall)>,
    /// Replicas that wait for a draw, in the order in which they asked.
    drawing: VecDeque<NodeId>,
}

/// What a group needs of the server model while it works.
pub(super) struct Around<'a> {
    pub(super) stream: Surroundings<'a>,
    pub(super) model: &'a ServerModel,
    pub(super) idle_advisory: bool,
}

/// What comes up in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    Arrival(usize),
    Written(usize),
    Applied(usize),
    Raft(usize),
    Turn(usize),
    Timers(usize),
}

impl Group {
    /// The replicas of a new stream, the first of which leads at once.
    pub(super) fn new(now: Time, stream: &Stream, around: &Around<'_>) -> Self {
        let replicas = stream.config().num_replicas.max(1) as u8;
        let model = around.model.cluster;
        let settings = raft::Settings {
            members: replicas,
            sync_always: around.model.disk.syncs(),
            ..model.raft
        };
        let members = (0..replicas).map(|id| {
            let mut stream = stream.clone();
            stream.replicate();
            Member {
                host: Host::new(stream),
                node: Node::new(now, NodeId(id), settings),
                term: None,
                interest: None,
                write_end: Time::NEVER,
                committed: VecDeque::new(),
                apply_end: Time::NEVER,
                applying: 0,
                processed: LogIndex(0),
                applied: LogIndex(0),
            }
        });
        let link = Link::new(model.latency, model.bits_per_second, u64::MAX);
        let route = Route {
            link,
            under_way: VecDeque::new(),
        };
        let mut group = Self {
            members: members.collect(),
            routes: vec![route; usize::from(replicas) * usize::from(replicas)],
            model,
            told: StreamSequence(0),
            calls: VecDeque::new(),
            drawing: VecDeque::new(),
        };
        group.elect_first(now, around);
        group
    }

    /// The stream as its leader has it; without one, as the replica that has applied most has it.
    pub(super) fn stream(&self) -> &Stream {
        let leads = |member: &&Member| member.host.stream.leads();
        let members = self.members.iter();
        let leader = members.clone().rev().find(leads);
        let best = leader.or_else(|| members.max_by_key(|member| member.applied));
        // A group has replicas.
        &best.unwrap_or(&self.members[0]).host.stream
    }

    /// Changes the configuration of the stream on every replica, or its set of batches.
    pub(super) fn each_host(&mut self) -> impl Iterator<Item = &mut Host> {
        self.members.iter_mut().map(|member| &mut member.host)
    }

    /// Batches registered at the leader: fast ones, and atomic ones.
    pub(super) fn open_batches(&self) -> (u32, u32) {
        let stream = self.stream();
        (stream.open_batches(), stream.open_atomic_batches())
    }

    pub(super) fn messages_inside(&self) -> impl Iterator<Item = &Publish> {
        let hosts = self.members.iter();
        let inside = hosts.flat_map(|member| member.host.messages_inside());
        let routed = self.under_way().filter_map(|between| match between {
            Between::Publish(publish) => Some(publish),
            Between::Raft(_) | Between::Interest(_) | Between::Answer(..) => None,
        });
        inside.chain(routed)
    }

    pub(super) fn answers_inside(&self) -> impl Iterator<Item = (&ReplyTo, &Reply)> {
        let hosts = self.members.iter();
        let inside = hosts.flat_map(|member| member.host.answers_inside());
        let routed = self.under_way().filter_map(|between| match between {
            Between::Answer(to, reply) => Some((to, reply)),
            Between::Raft(_) | Between::Interest(_) | Between::Publish(_) => None,
        });
        inside.chain(routed)
    }

    fn under_way(&self) -> impl Iterator<Item = &Between> {
        let routes = self.routes.iter();
        routes.flat_map(|route| route.under_way.iter().map(|(_, between)| between))
    }

    /// Whether a message or an answer is inside: RAFT alone is no work.
    pub(super) fn is_busy(&self) -> bool {
        self.messages_inside().next().is_some()
            || self.answers_inside().next().is_some()
            || self.members.iter().any(|member| {
                let load = member.node.lag();
                member.host.is_busy()
                    || !member.committed.is_empty()
                    || (member.term.is_some()
                        && load.queued.proposals + load.uncommitted.proposals > 0)
            })
    }

    /// The replica on whose server a client is.
    fn home(&self, to: ReplyTo) -> usize {
        self.model.home(to.connection, self.members.len())
    }

    /// A message from a client: it goes to the leader, or nobody listens.
    pub(super) fn publish(
        &mut self,
        now: Time,
        publish: Publish,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let at = publish.reply.map_or(0, |to| self.home(to));
        if self.members[at].term.is_some() {
            return self.members[at].host.push(now, publish, around.model, out);
        }
        match self.members[at].interest {
            Some(leader) => {
                self.send(now, at, usize::from(leader.0), Between::Publish(publish));
            }
            None => unheard(&publish, out),
        }
    }

    /// The loop of this member turns to `source`; true if it has to choose again.
    pub(super) fn serve(
        &mut self,
        now: Time,
        member: u8,
        source: Source,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        self.on_host(now, usize::from(member), out, |host, out| {
            host.serve(now, source, around.model, out)
        })
    }

    /// The driver's draw, for the replica that asked first.
    pub(super) fn drawn(
        &mut self,
        now: Time,
        span: Time,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if let Some(id) = self.drawing.pop_front() {
            let input = Input::Drawn(span);
            self.raft(now, usize::from(id.0), input, around, out);
        }
    }

    /// A call that goes through the proposals; without a leader it fails at once.
    pub(super) fn call(
        &mut self,
        now: Time,
        (to, call): (ReplyTo, ApiCall),
        proposal: Proposal,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let Some((index, term)) = self.leader() else {
            return answer_call(to, call, Err(unavailable()), out);
        };
        self.calls.push_back((to, call));
        let input = Input::Propose {
            term,
            entry: proposal,
        };
        self.raft(now, index, input, around, out);
    }

    /// The leader steps down and hands over.
    ///
    /// # Errors
    /// There is no leader.
    pub(super) fn step_down(
        &mut self,
        now: Time,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) -> Result<(), ApiFailure> {
        let (index, _) = self.leader().ok_or_else(unavailable)?;
        let input = Input::StepDown {
            preferred: None,
            chance: now.as_nanos(),
        };
        self.raft(now, index, input, around, out);
        Ok(())
    }

    fn leader(&self) -> Option<(usize, Term)> {
        let mut members = self.members.iter().enumerate();
        members.find_map(|(index, member)| Some((index, member.term?)))
    }

    /// When [`Group::wake`] is wanted.
    pub(super) fn due(&self) -> Time {
        self.next().map_or(Time::NEVER, |(at, _)| at)
    }

    /// Handles the next thing that is due; the member whose loop has to choose, if one has.
    pub(super) fn wake(&mut self, around: &Around<'_>, out: &mut dyn Sink<Action>) -> Option<u8> {
        let (at, due) = self.next()?;
        let around = &Around {
            stream: Surroundings {
                now: at,
                ..around.stream
            },
            ..*around
        };
        let chooses = match due {
            Due::Arrival(route) => {
                self.arrive(at, route, around, out);
                return None;
            }
            Due::Written(index) => {
                self.members[index].write_end = Time::NEVER;
                self.raft(at, index, Input::Written, around, out);
                return None;
            }
            Due::Raft(index) => {
                let mut actions = Vec::new();
                self.members[index].node.wake(at, &mut actions);
                self.take(at, index, actions, around, out);
                return None;
            }
            Due::Applied(index) => return self.end_apply(at, index, around, out),
            Due::Turn(index) => {
                let chooses = self.end_turn(at, index, around, out);
                (index, chooses)
            }
            Due::Timers(index) => {
                let advisory = around.idle_advisory;
                let chooses = self.on_host(at, index, out, |host, out| {
                    host.expire(at, advisory, out);
                    host.look(at, around.model, out)
                });
                (index, chooses)
            }
        };
        chooses.1.then_some(chooses.0 as u8)
    }

    fn next(&self) -> Option<(Time, Due)> {
        let mut next: Option<(Time, Due)> = None;
        let mut offer = |at: Time, due: Due| {
            if at != Time::NEVER && next.is_none_or(|(earliest, _)| at < earliest) {
                next = Some((at, due));
            }
        };
        for (index, route) in self.routes.iter().enumerate() {
            if let Some((at, _)) = route.under_way.front() {
                offer(*at, Due::Arrival(index));
            }
        }
        for (index, member) in self.members.iter().enumerate() {
            offer(member.write_end, Due::Written(index));
            offer(member.apply_end, Due::Applied(index));
            offer(member.node.due(), Due::Raft(index));
            offer(member.host.stream.due(), Due::Timers(index));
            offer(member.host.turn_end(), Due::Turn(index));
        }
        next
    }

    fn send(&mut self, now: Time, from: usize, to: usize, between: Between) {
        let count = self.members.len();
        if let Some(route) = self.routes.get_mut(from * count + to) {
            let arrival = route.link.pass(now, between.bytes(), Time::ZERO);
            route.under_way.push_back((arrival, between));
        }
    }

    fn broadcast(&mut self, now: Time, from: usize, between: &Between) {
        for to in (0..self.members.len()).filter(|to| *to != from) {
            self.send(now, from, to, between.clone());
        }
    }

    fn arrive(&mut self, now: Time, route: usize, around: &Around<'_>, out: &mut dyn Sink<Action>) {
        let count = self.members.len();
        let (from, to) = (route / count, route % count);
        let Some((_, between)) = self.routes[route].under_way.pop_front() else {
            return;
        };
        match between {
            Between::Raft(message) => {
                let from = NodeId(from as u8);
                self.raft(now, to, Input::Received { from, message }, around, out);
            }
            Between::Interest(true) => self.members[to].interest = Some(NodeId(from as u8)),
            Between::Interest(false) => {
                let member = &mut self.members[to];
                member.interest = member.interest.filter(|other| usize::from(other.0) != from);
            }
            // Who does not lead any more has no subscription: lost, and nobody hears of it.
            Between::Publish(publish) if self.members[to].term.is_none() => lost(&publish, out),
            Between::Publish(publish) => {
                self.members[to].host.push(now, publish, around.model, out);
            }
            Between::Answer(to, reply) => out.emit(Action::Send { to, reply }),
        }
    }

    fn end_turn(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        if self.members[index].term.is_none() {
            // From the step-down on messages are dropped without a word.
            for publish in self.members[index].host.drop_turn() {
                lost(&publish, out);
            }
            return self.on_host(now, index, out, |host, out| {
                host.go_on(now, around.model, out)
            });
        }
        let host = &self.members[index].host;
        let surroundings = Surroundings {
            ingest_permille: host.ingest_permille(around.model),
            ..around.stream
        };
        let chooses = self.on_host(now, index, out, |host, out| {
            host.end_turn(now, &surroundings, around.model, out)
        });
        self.propose_decided(now, index, around, out);
        chooses
    }

    fn propose_decided(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        for mut proposals in self.members[index].host.take_proposals() {
            let Some(term) = self.members[index].term else {
                return;
            };
            let input = if proposals.len() == 1
                && let Some(entry) = proposals.pop()
            {
                Input::Propose { term, entry }
            } else {
                let entries = proposals;
                Input::ProposeAll { term, entries }
            };
            self.raft(now, index, input, around, out);
        }
    }

    /// Gives a replica an input, and does what it wants done.
    fn raft(
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

    fn take(
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
                    self.drawing.push_back(NodeId(index as u8));
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
                RaftAction::Refused(_) => {}
                RaftAction::Fact(_) => {}
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

    fn end_apply(
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
                lost(&message.publish, out);
            }
        }
    }

    /// Has the first replica elected before anything else happens, at one moment.
    fn elect_first(&mut self, now: Time, around: &Around<'_>) {
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
            if self.due() > now {
                return;
            }
            self.wake(around, &mut nothing);
        }
    }

    /// Lets a host act: its answers go to where their clients are, and its facts are told once.
    fn on_host<R>(
        &mut self,
        now: Time,
        index: usize,
        out: &mut dyn Sink<Action>,
        act: impl FnOnce(&mut Host, &mut dyn Sink<Action>) -> R,
    ) -> R {
        let mut actions: Vec<Action> = Vec::new();
        let done = act(&mut self.members[index].host, &mut actions);
        let leads = self.members[index].term.is_some();
        for action in actions {
            match action {
                Action::Send { to, reply } => {
                    let home = self.home(to);
                    if home == index {
                        out.emit(Action::Send { to, reply });
                    } else {
                        self.send(now, index, home, Between::Answer(to, reply));
                    }
                }
                Action::Fact(fact) => self.tell(fact, leads, out),
                Action::Choose | Action::ApiReply { .. } | Action::Draw(_) => out.emit(action),
            }
        }
        done
    }

    /// What is stored is true once the first replica has applied it; the rest is the leader's.
    fn tell(&mut self, fact: Fact, leads: bool, out: &mut dyn Sink<Action>) {
        let stored = match fact {
            Fact::Stored {
                stream_sequence, ..
            }
            | Fact::Atomic(super::message::AtomicFact::Stored {
                stream_sequence, ..
            }) => Some(stream_sequence),
            _ => None,
        };
        let tells = match stored {
            Some(sequence) if sequence > self.told => {
                self.told = sequence;
                true
            }
            Some(_) => false,
            None => leads,
        };
        if tells {
            out.emit(Action::Fact(fact));
        }
    }
}

/// A message that nobody will ever answer.
fn lost(publish: &Publish, out: &mut dyn Sink<Action>) {
    if let Some((batch, operation, sequence)) = publish.frame() {
        out.emit(Action::Fact(Fact::LostWithoutLeader {
            batch,
            operation,
            sequence,
        }));
    }
}

fn unavailable() -> ApiFailure {
    ErrorCode::SystemUnavailable.into()
}

fn answer_call(to: ReplyTo, call: ApiCall, result: CallResult, out: &mut dyn Sink<Action>) {
    let answer = result.map(|called| match called {
        Called::Purged(messages) => ApiAnswer::Purged(messages),
        Called::Deleted => ApiAnswer::Done,
    });
    out.emit(Action::ApiReply { to, call, answer });
}
