//! What befalls the servers of a group: processes that end and start, that stand still, slow disks,
//! and routes that are down, held, slow or narrow.
//!
//! A process that ends takes with it what only its memory had. Its log of RAFT and its store are as
//! the disk has them; what the store has is not applied again. Leans on `raft` and `disturb`.

use super::replica::{APPLIED_WHOLLY, Input, Member, Snapshot};
use super::route::Between;
use super::{Around, Group, lost};
use crate::machine::{Sink, Time};
use crate::net::limit::Limit;
use crate::raft::message::Position;
use crate::raft::{LogIndex, Restart};
use crate::server::Action;
use crate::server::disturb::{Disturbance, Routes};
use crate::server::message::Loss;
use crate::server::model::ServerDefect;
use crate::stream::Stream;
use crate::stream::proposal::Proposal;

impl Group {
    /// The replica that leads and is there to be asked.
    pub(in crate::server) fn leading(&self) -> Option<u8> {
        self.leader().map(|(index, _)| index as u8)
    }

    /// Whether somebody leads, and every replica has what the leader has applied.
    pub(in crate::server) fn is_current(&self) -> bool {
        self.leader().is_some_and(|(leader, _)| {
            let applied = self.members[leader].applied;
            let mut members = self.members.all().iter();
            members.all(|member| member.node.log().last_index() >= applied)
        })
    }

    /// Something befalls the server of a replica.
    pub(in crate::server) fn befall(
        &mut self,
        now: Time,
        index: usize,
        what: Disturbance,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if index >= self.servers() {
            return;
        }
        match what {
            Disturbance::Kill | Disturbance::PowerLoss => {
                self.end(now, index, out);
                // It leads no more: what its batches come to is not its to tell.
                self.on_host(now, index, around.servers, out, |host, out| {
                    host.befall(what, out);
                });
            }
            Disturbance::Shutdown => self.shut_down(now, index, around, out),
            Disturbance::Start => self.start(now, index, around, out),
            Disturbance::Freeze(_)
            | Disturbance::SlowDisk(_)
            | Disturbance::QuickenDisk(_)
            | Disturbance::HoldDisk(_) => {
                let member = &mut self.members[index];
                member.host.befall(what, out);
                if !around
                    .model
                    .defects
                    .contains(&ServerDefect::DeposedLeaderSpeaks)
                {
                    member.host.read_clients_last();
                }
                if member.write_end != Time::NEVER {
                    member.write_end = member.host.write_end(member.write_end, 0);
                }
            }
            Disturbance::CutRoutes(routes) => {
                for (from, to) in routes.ends(index, self.servers()) {
                    self.cut(from, to, Loss::RouteDown, out);
                }
            }
            Disturbance::MendRoutes(routes) => {
                for (from, to) in routes.ends(index, self.servers()) {
                    self.mend(now, from, to);
                }
            }
            Disturbance::HoldRoutes(routes, until) => {
                self.each_route(index, routes, |route| route.hold(until));
            }
            Disturbance::SlowRoutes(routes, by) => {
                self.each_route(index, routes, |route| route.slower += by);
            }
            Disturbance::QuickenRoutes(routes, by) => {
                self.each_route(index, routes, |route| route.slower = route.slower - by);
            }
            Disturbance::LimitRoutes(routes, bits_per_second, until) => {
                let limit = Limit {
                    from: now,
                    until,
                    bits_per_second,
                };
                self.each_route(index, routes, |route| route.limit(now, limit));
            }
        }
    }

    fn each_route(
        &mut self,
        index: usize,
        routes: Routes,
        mut act: impl FnMut(&mut super::route::Route),
    ) {
        let count = self.servers();
        for (from, to) in routes.ends(index, count) {
            act(&mut self.routes[from * count + to]);
        }
    }

    // -- processes -------------------------------------------------------------------------------

    /// The process of a replica ends: what it had told others still reaches them, and then they see
    /// that their connection to it is closed.
    fn end(&mut self, now: Time, index: usize, out: &mut dyn Sink<Action>) {
        let count = self.servers();
        // What it had not read.
        self.routes[index * count + index].under_way.clear();
        let member = &mut self.members[index];
        let led = member.term.take().is_some();
        member.end();
        for proposal in member.node.queued() {
            if let Proposal::Message(message) = proposal {
                lost(message.publish.frame(), Loss::ServerDown, out);
            }
        }
        self.broadcast(now, index, &Between::Interest(None));
        for from in (0..count).filter(|from| *from != index) {
            self.cut(from, index, Loss::ServerDown, out);
        }
        if led {
            self.forget_calls(index);
            self.tell_leader(out);
        }
    }

    /// The process of a replica is asked to end. A leader does so as soon as it has handed over: its
    /// last words are under way then.
    fn shut_down(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if self.leading() == Some(index as u8) && self.step_down(now, out).is_ok() {
            self.ending = Some(index);
        } else {
            self.befall(now, index, Disturbance::Kill, around, out);
        }
    }

    /// Ends a process that waited for this replica to have handed over.
    pub(super) fn end_if_handed_over(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if self.ending == Some(index) && self.members[index].term.is_none() {
            self.ending = None;
            self.befall(now, index, Disturbance::Kill, around, out);
        }
    }

    fn start(&mut self, now: Time, index: usize, around: &Around<'_>, out: &mut dyn Sink<Action>) {
        self.ending = self.ending.filter(|ending| *ending != index);
        let Some(how) = self.members[index].host.went_down() else {
            return;
        };
        self.members[index].host.befall(Disturbance::Start, out);
        for from in (0..self.servers()).filter(|from| *from != index) {
            self.mend(now, from, index);
        }
        if how == Restart::AfterPowerLoss {
            self.set_stream(index, None, around);
        }
        let member = &mut self.members[index];
        (member.processed, member.applied) = (LogIndex(0), LogIndex(0));
        member.handed_over = LogIndex(0);
        (member.prefix, member.starts) = (0, Some(how));
        self.raft(now, index, Input::Restarted(how), around, out);
        self.members[index].starts = None;
    }

    /// Gives a replica the state of a snapshot, or that of a new stream, in the stream's present
    /// configuration.
    pub(super) fn set_stream(
        &mut self,
        index: usize,
        snapshot: Option<(LogIndex, &Snapshot)>,
        around: &Around<'_>,
    ) {
        let config = self.stream().config().clone();
        let (at, from) = match snapshot {
            Some((at, state)) => (at, state.stream()),
            None => (LogIndex(0), &self.pristine),
        };
        let mut stream = Stream::clone(from);
        stream.replicate();
        // A snapshot has messages, and no batches.
        stream.crash(&mut Vec::new());
        // It was valid as an update when it was made one, and is the same otherwise.
        let _ = stream.update(config, around.model.version, &mut Vec::new());
        let member = &mut self.members[index];
        member.host.stream = stream;
        member.stable = (at, APPLIED_WHOLLY);
    }

    /// The log of a replica lost what it had applied already, as only a loss of power allows: its
    /// stream begins again at the snapshot.
    pub(super) fn take_back(
        &mut self,
        now: Time,
        index: usize,
        last: Position,
        around: &Around<'_>,
    ) {
        if last.index >= self.members[index].stable.0 {
            return;
        }
        let node = &self.members[index].node;
        // One that reaches beyond the log stands for what the group has lost: it begins anew.
        let snapshot = node.log().snapshot();
        let snapshot = snapshot.filter(|snapshot| snapshot.last.index <= last.index);
        let snapshot = snapshot.map(|snapshot| (snapshot.last.index, snapshot.state.clone()));
        let at = snapshot.as_ref().map_or(LogIndex(0), |(at, _)| *at);
        let mut again = Vec::new();
        let mut next = at.next();
        // What is committed since is handed over after this.
        while next <= last.index.min(self.members[index].handed_over) {
            if let Some(record) = node.log().get(next) {
                again.push((next, record.clone()));
            }
            next = next.next();
        }
        let snapshot = snapshot.as_ref().map(|(at, state)| (*at, state));
        self.set_stream(index, snapshot, around);
        let member = &mut self.members[index];
        (member.processed, member.applied) = (at, at);
        member.handed_over = member.handed_over.min(last.index);
        member.prefix = snapshot.map_or(0, |(_, state)| state.prefix());
        member.committed = again.into();
        member.apply_end = Time::NEVER;
        member.applying = 0;
        self.begin_apply(now, index);
    }

    // -- routes ----------------------------------------------------------------------------------

    /// One direction of a route goes down.
    fn cut(&mut self, from: usize, to: usize, loss: Loss, out: &mut dyn Sink<Action>) {
        let count = self.servers();
        let route = &mut self.routes[from * count + to];
        route.cuts += 1;
        for (_, between) in route.under_way.drain(..) {
            between.lose(loss, out);
        }
        self.members[to].interest[from] = None;
    }

    /// One direction of a route is up again: a leader says once more what it wants.
    fn mend(&mut self, now: Time, from: usize, to: usize) {
        let count = self.servers();
        let route = &mut self.routes[from * count + to];
        route.cuts = route.cuts.saturating_sub(1);
        if route.cuts == 0 {
            route.link.reset(now);
            if let Some(term) = self.members[from].term {
                let _ = self.send(now, from, to, Between::Interest(Some(term)));
            }
        }
    }
}

impl Member {
    /// All that is not on disk is gone; the store is.
    fn end(&mut self) {
        self.interest.fill(None);
        self.write_end = Time::NEVER;
        self.committed.clear();
        self.apply_end = Time::NEVER;
        self.applying = 0;
    }
}
