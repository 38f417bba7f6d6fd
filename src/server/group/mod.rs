//! A stream with replicas: each on a server of its own, with RAFT and routes between them.
//!
//! A message enters at the server that its client is connected to and goes on to the leader, which
//! checks and proposes it; every replica applies what is committed, and the leader's answers go back
//! the same way. `replica` is what each does with RAFT, `route` what lies between two. Leans on `host`,
//! `raft`, `stream::proposal` and `net::link`.

mod agenda;
mod calls;
mod fault;
mod replica;
mod route;
mod snapshot;
mod told;

use std::collections::VecDeque;

use super::cluster::Servers;
use super::desk::Asked;
use super::host::Host;
use super::message::{Fact, Loss, Publish, Reply, ReplyTo};
use super::model::ClusterModel;
use super::{Action, Around, Source, lost, unheard};
use crate::machine::{Machine as _, Sink, Time};
use crate::nats::StreamSequence;
use crate::net::link::Link;
use crate::raft::{self, NodeId, Range, Term};
use crate::stream::Stream;
use agenda::{Coming, Due, Watched};
use calls::Calls;
use replica::{Input, Member, RaftAction};
use route::{Between, Route, Routed, home};

/// All replicas of a stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Group {
    members: Watched<Member>,
    /// By sender and receiver.
    routes: Watched<Route>,
    model: ClusterModel,
    told_leader: Option<u8>,
    /// Up to here the facts of what is stored are told.
    told: StreamSequence,
    calls: Calls,
    /// Requests that have reached their server, with its number.
    asked: Vec<(u8, Asked)>,
    /// What waits for a draw, in the order in which it was asked for.
    drawing: VecDeque<Awaited>,
    /// The leader whose process ends as soon as it has handed over.
    ending: Option<usize>,
    /// Room for what a replica wants done, kept from one time to the next.
    wanted: Vec<RaftAction>,
    /// The stream as it was created.
    pristine: Stream,
    /// What comes up first at each server, and of those the first.
    coming: Vec<Coming>,
    next: Coming,
    /// The routes to the first server, as [`agenda::inward`] has them.
    inward: u64,
}

/// What a draw is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Awaited {
    /// How long this replica waits before it campaigns.
    Election(NodeId),
    /// Whom this leader hands over to.
    Successor(NodeId),
}

/// Nanoseconds of this stand for the choice of a successor.
const CHANCES: Range = Range {
    least: Time::ZERO,
    most: Time::from_secs(1),
};

impl Group {
    /// The replicas of a new stream, the first of which leads at once.
    pub(super) fn new(
        now: Time,
        stream: &Stream,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) -> Self {
        let replicas = stream.config().num_replicas.max(1) as u8;
        let model = around.model.cluster;
        let settings = raft::Settings {
            members: replicas,
            sync_always: around.model.disk.syncs(),
            ..model.raft
        };
        let count = usize::from(replicas);
        let members =
            (0..replicas).map(|id| Member::new(now, NodeId(id), stream.clone(), settings));
        let link = Link::new(model.latency, model.bits_per_second, u64::MAX);
        let route = Route::new(link);
        let mut group = Self {
            members: Watched::new(members.collect()),
            routes: Watched::new(vec![route; count * count]),
            model,
            told: StreamSequence(0),
            told_leader: None,
            calls: VecDeque::new(),
            asked: Vec::new(),
            drawing: VecDeque::new(),
            ending: None,
            wanted: Vec::new(),
            pristine: stream.clone(),
            coming: vec![Coming::NOTHING; count],
            next: Coming::NOTHING,
            inward: agenda::inward(count),
        };
        group.elect_first(now, around, out);
        group.look_ahead();
        group
    }

    /// The stream as its leader has it; without one, as the replica that has applied most has it.
    pub(super) fn stream(&self) -> &Stream {
        let best = |members: &[Member]| {
            let of_all = (0..members.len()).max_by_key(|index| members[*index].applied);
            // A group has replicas.
            of_all.unwrap_or(0)
        };
        let leader = self.leader().map(|(index, _)| index);
        let index = leader.unwrap_or_else(|| best(self.members.all()));
        &self.members[index].host.stream
    }

    /// The stream as each replica has it.
    #[cfg(test)]
    pub(super) fn replicas(&self) -> impl Iterator<Item = &Stream> {
        self.members.all().iter().map(|member| &member.host.stream)
    }

    /// The hosts of all replicas, in their order.
    pub(super) fn each_host(&mut self) -> impl Iterator<Item = &mut Host> {
        let members = self.members.all_mut().iter_mut();
        members.map(|member| &mut member.host)
    }

    /// Batches registered at the leader: fast ones, and atomic ones.
    pub(super) fn open_batches(&self) -> (u32, u32) {
        let stream = self.stream();
        (stream.open_batches(), stream.open_atomic_batches())
    }

    pub(super) fn messages_inside(&self) -> impl Iterator<Item = &Publish> {
        let hosts = self.members.all().iter();
        let inside = hosts.flat_map(|member| member.host.messages_inside());
        let routed = self.under_way().filter_map(|between| match between {
            Between::Publish(publish) => Some(publish),
            Between::Raft(_)
            | Between::Interest(_)
            | Between::Answer(..)
            | Between::Call(_)
            | Between::Told(_) => None,
        });
        inside.chain(routed)
    }

    pub(super) fn answers_inside(&self) -> impl Iterator<Item = (&ReplyTo, &Reply)> {
        let hosts = self.members.all().iter();
        let inside = hosts.flat_map(|member| member.host.answers_inside());
        let routed = self.under_way().filter_map(|between| match between {
            Between::Answer(to, reply) => Some((to, reply)),
            Between::Raft(_)
            | Between::Interest(_)
            | Between::Publish(_)
            | Between::Call(_)
            | Between::Told(_) => None,
        });
        inside.chain(routed)
    }

    fn under_way(&self) -> impl Iterator<Item = &Between> {
        let routes = self.routes.all().iter();
        routes.flat_map(|route| route.under_way.iter().map(|(_, between)| between))
    }

    /// Whether a message or an answer is inside: RAFT alone is no work.
    pub(super) fn is_busy(&self) -> bool {
        self.messages_inside().next().is_some()
            || self.answers_inside().next().is_some()
            || self.members.all().iter().any(|member| {
                let load = member.node.lag();
                member.host.is_busy()
                    || !member.committed.is_empty()
                    || (member.term.is_some()
                        && load.queued.proposals + load.uncommitted.proposals > 0)
            })
    }

    /// A message from a client: it goes to the leader, or nobody listens.
    pub(super) fn publish(
        &mut self,
        now: Time,
        publish: Publish,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let replicas = self.servers();
        let at = publish
            .reply
            .map_or(0, |to| home(around.servers, to, replicas));
        let Some(publish) = self.members[at].host.let_in(now, publish, out) else {
            return;
        };
        self.read(now, at, publish, around, out);
    }

    /// A server reads a message of a client.
    fn read(
        &mut self,
        now: Time,
        at: usize,
        publish: Publish,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if self.members[at].term.is_some() {
            return self.members[at].host.push(now, publish, around.model, out);
        }
        match self.members[at].interested() {
            Some(leader) => {
                let message = Between::Publish(publish);
                if let Err(message) = self.send(now, at, leader, message) {
                    message.lose(Loss::RouteDown, out);
                }
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
        self.on_host(
            now,
            usize::from(member),
            around.servers,
            out,
            |host, out| host.serve(now, source, around.model, out),
        )
    }

    /// Who leads; of two, one of which has not heard of it yet, the newer.
    fn leader(&self) -> Option<(usize, Term)> {
        let members = self.members.all().iter().enumerate();
        let leaders = members.filter_map(|(index, member)| Some((index, member.term?)));
        leaders.max_by_key(|(_, term)| *term)
    }

    /// Tells who leads, if that has changed.
    fn tell_leader(&mut self, out: &mut dyn Sink<Action>) {
        let leader = self.leading();
        if self.told_leader != leader {
            self.told_leader = leader;
            out.emit(Action::Fact(Fact::Leader(leader)));
        }
    }

    /// Handles the next thing that is due; the member whose loop has to choose, if one has.
    pub(super) fn wake(&mut self, around: &Around<'_>, out: &mut dyn Sink<Action>) -> Option<u8> {
        let (at, due) = self.next()?;
        let chooses = match due {
            Due::Arrival(route) => {
                self.arrive(at, route, around, out);
                return None;
            }
            Due::Thaw(index) => {
                let member = &mut self.members[index];
                let leads = member.term.is_some();
                for publish in member.host.read_again(at, leads, around.model) {
                    self.read(at, index, publish, around, out);
                }
                return None;
            }
            Due::Written(index) => {
                self.members[index].write_end = Time::NEVER;
                self.raft(at, index, Input::Written, around, out);
                return None;
            }
            Due::Raft(index) => {
                self.on_node(at, index, around, out, |node, actions| {
                    node.wake(at, actions);
                });
                return None;
            }
            Due::Applied(index) => return self.end_apply(at, index, around, out),
            Due::Turn(index) => {
                let chooses = self.end_turn(at, index, around, out);
                (index, chooses)
            }
            Due::Timers(index) => {
                let advisory = around.switches.fast.idle_advisory;
                let chooses = self.on_host(at, index, around.servers, out, |host, out| {
                    host.expire(at, advisory, out);
                    host.look(at, around.model, out)
                });
                (index, chooses)
            }
        };
        chooses.1.then_some(chooses.0 as u8)
    }

    /// Sends something from one server to another.
    ///
    /// # Errors
    /// The route is down: it comes back.
    fn send(&mut self, now: Time, from: usize, to: usize, between: Between) -> Result<(), Between> {
        let route = from * self.servers() + to;
        self.routes[route].send(now, between)
    }

    fn broadcast(&mut self, now: Time, from: usize, between: &Between) {
        for to in (0..self.servers()).filter(|to| *to != from) {
            // RAFT notices what is lost, and interest is told again.
            let _ = self.send(now, from, to, between.clone());
        }
    }

    fn arrive(&mut self, now: Time, route: usize, around: &Around<'_>, out: &mut dyn Sink<Action>) {
        let count = self.servers();
        let (from, to) = (route / count, route % count);
        let Some((_, between)) = self.routes[route].under_way.pop_front() else {
            return;
        };
        match between {
            Between::Raft(message) => {
                let from = NodeId(from as u8);
                self.raft(now, to, Input::Received { from, message }, around, out);
            }
            Between::Interest(term) => self.members[to].interest[from] = term,
            // Who does not lead any more has no subscription: lost, and nobody hears of it.
            Between::Publish(publish) if self.members[to].term.is_none() => {
                lost(publish.frame(), Loss::NoLeader, out);
            }
            Between::Publish(publish) => {
                self.members[to].host.push(now, publish, around.model, out);
            }
            Between::Answer(to, reply) => out.emit(Action::Send { to, reply }),
            Between::Call(asked) if from == to => self.pass_on(now, to, asked),
            Between::Call(asked) => self.asked.push((to as u8, asked)),
            Between::Told(told) => out.emit(told.into()),
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
                lost(publish.frame(), Loss::NoLeader, out);
            }
            return self.on_host(now, index, around.servers, out, |host, out| {
                host.go_on(now, around.model, out)
            });
        }
        let permille = self.members[index].host.ingest_permille(around.model);
        let surroundings = around.stream(now, permille);
        let chooses = self.on_host(now, index, around.servers, out, |host, out| {
            host.end_turn(now, &surroundings, around.model, out)
        });
        self.propose_decided(now, index, around, out);
        chooses
    }

    /// Lets a host act: its answers go to where their clients are, and its facts are told once.
    fn on_host<R>(
        &mut self,
        now: Time,
        index: usize,
        servers: &Servers,
        out: &mut dyn Sink<Action>,
        act: impl FnOnce(&mut Host, &mut dyn Sink<Action>) -> R,
    ) -> R {
        let (member, mut routed) = self.at_server(now, index, servers, out);
        act(&mut member.host, &mut routed)
    }

    /// A replica, and what takes the effects of its host.
    fn at_server<'a>(
        &'a mut self,
        now: Time,
        index: usize,
        servers: &'a Servers,
        out: &'a mut dyn Sink<Action>,
    ) -> (&'a mut Member, Routed<'a>) {
        let replicas = self.servers();
        let member = &mut self.members[index];
        let routed = Routed {
            now,
            index,
            leads: member.term.is_some(),
            servers,
            replicas,
            routes: &mut self.routes,
            told: &mut self.told,
            out,
        };
        (member, routed)
    }
}
