//! The way of an API request: to the server that answers it, over its desk, to the stream, and back.
//!
//! A request about a stream with replicas goes over the routes to its leader. Leans on `desk`, `calls`
//! and `group`.

use super::api::{ApiAnswer, ApiCall, ApiFailure, ApiRequest};
use super::desk::{Asked, DeskModel};
use super::message::{Fact, ReplyTo};
use super::{Action, Place, Server};
use crate::machine::{Sink, Time};

/// Bytes of a configuration or an answer between servers.
const CONFIG_BYTES: u64 = 1_000;

/// What happens to a request later.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Later {
    /// It arrives at this server.
    Arrives(u8, Asked),
    /// It has what it waited for on this server: the lock of its stream, or the other servers.
    Settles(u8, Asked),
    /// Its answer arrives at the server of its client.
    Told(ReplyTo, ApiCall, Box<Result<ApiAnswer, ApiFailure>>),
}

impl Server {
    /// A client asks something of the API. What is asked of a server that is down is lost.
    pub(super) fn ask(&mut self, now: Time, asked: Asked, out: &mut dyn Sink<Action>) {
        let home = self.home(asked.to.connection);
        if !self.is_up(home) {
            return;
        }
        match self.group_of(&asked.request) {
            Some(index) => self.on_group(now, index, out, |group, _, _| {
                group.ask(now, usize::from(home), asked);
                None
            }),
            // Streams without replicas are on the first server, and so is what concerns no stream.
            None if home == 0 => self.take_request(now, 0, asked, out),
            None => {
                let at = now + self.model.cluster.latency;
                self.api_later.push((at, Later::Arrives(0, asked)));
            }
        }
        self.look_at_api();
    }

    /// A request is at the server that answers it.
    pub(super) fn take_request(
        &mut self,
        now: Time,
        server: u8,
        asked: Asked,
        out: &mut dyn Sink<Action>,
    ) {
        let model = self.desk_model();
        let Some(desk) = self.desks.get_mut(usize::from(server)) else {
            return;
        };
        let requests = desk.take(now, asked, model);
        if requests > 0 {
            out.emit(Action::Fact(Fact::ApiDropped { server, requests }));
        }
        self.look_at_api();
    }

    /// The next thing that is due in the API.
    pub(super) fn api_turn(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        let mut later = self.api_later.iter();
        if let Some(index) = later.position(|(at, _)| *at <= now) {
            match self.api_later.remove(index).1 {
                Later::Arrives(server, asked) => self.take_request(now, server, asked, out),
                Later::Settles(server, asked) => self.settle_request(now, server, &asked, out),
                Later::Told(to, call, answer) => out.emit(Action::ApiReply {
                    to,
                    call,
                    answer: *answer,
                }),
            }
            return self.look_at_api();
        }
        let model = self.desk_model();
        for server in 0..self.desks.len() as u8 {
            if self.desk_due(server) > now {
                continue;
            }
            if let Some(asked) = self.desks[usize::from(server)].finish(now, model) {
                let at = self.settles_at(now, &asked.request);
                if at > now {
                    self.api_later.push((at, Later::Settles(server, asked)));
                } else {
                    self.settle_request(now, server, &asked, out);
                }
            }
            break;
        }
        self.look_at_api();
    }

    /// A server went down: what it was asked is lost.
    pub(super) fn forget_requests(&mut self, server: u8) {
        self.desks[usize::from(server)] = Default::default();
        self.api_later.retain(|(_, later)| match later {
            Later::Arrives(at, _) | Later::Settles(at, _) => *at != server,
            Later::Told(..) => true,
        });
        self.look_at_api();
    }

    /// Notes when something is due in the API: asked for at every turn of the server.
    pub(super) fn look_at_api(&mut self) {
        let later = self.api_later.iter().map(|(at, _)| *at);
        let desks = (0..self.desks.len() as u8).map(|server| self.desk_due(server));
        self.api_due = later.chain(desks).min().unwrap_or(Time::NEVER);
    }

    /// A server that stands still works on nothing meanwhile.
    fn desk_due(&self, server: u8) -> Time {
        let due = self.desks[usize::from(server)].due();
        due.max(self.frozen_until(server))
    }

    fn desk_model(&self) -> DeskModel {
        DeskModel {
            workers: usize::from(self.model.api_workers),
            limit: self.model.api_queue as usize,
            cost: self.model.api_cost,
        }
    }

    /// When what a request waits for after its worker is there.
    ///
    /// nats-server locks a stream for each message that it stores (`processJetStreamMsg`), and calls about
    /// it get in between two of them. What changes configurations in a cluster goes through the meta
    /// group, which is not modelled: a round trip and a write at either end stand for it.
    fn settles_at(&self, now: Time, request: &ApiRequest) -> Time {
        let is_of_meta = matches!(
            request.call(),
            ApiCall::Create | ApiCall::Update | ApiCall::Delete
        );
        let cluster = &self.model.cluster;
        if is_of_meta && cluster.servers > 1 {
            let write = self.model.disk.span(1, CONFIG_BYTES);
            return now + cluster.latency + cluster.latency + write + write;
        }
        let index = request.stream().and_then(|name| self.names.get(name));
        match index.and_then(|index| self.places.get(*index as usize)) {
            Some(Some(Place::Alone(host))) => host.unlocked(now),
            Some(Some(Place::Group(_)) | None) | None => now,
        }
    }

    /// Does a request, or hands it to the replicas of its stream, who answer it.
    fn settle_request(&mut self, now: Time, server: u8, asked: &Asked, out: &mut dyn Sink<Action>) {
        let Asked { to, request } = asked;
        if self.propose_call(now, *to, request, out) {
            return;
        }
        let answer = self.answer(now, request, out);
        let reply = Action::ApiReply {
            to: *to,
            call: request.call(),
            answer,
        };
        if server == self.home(to.connection) {
            return out.emit(reply);
        }
        if let Some(index) = self.group_of(request) {
            return self.on_group(now, index, out, |group, around, out| {
                group.tell_answer(now, usize::from(server), reply, around, out);
                None
            });
        }
        if let Action::ApiReply { to, call, answer } = reply {
            let at = now + self.model.cluster.latency;
            let told = Later::Told(to, call, Box::new(answer));
            self.api_later.push((at, told));
        }
    }

    /// The place of the stream that a request is about, if that has replicas.
    fn group_of(&self, request: &ApiRequest) -> Option<u32> {
        let index = *self.names.get(request.stream()?)?;
        let place = self.places.get(index as usize)?.as_ref()?;
        matches!(place, Place::Group(_)).then_some(index)
    }
}
