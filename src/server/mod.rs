//! One modelled nats-server, or a cluster of them: ingest queue, internal loop, out-queue and API
//! around its streams.
//!
//! `host` is a stream on one server, `group` its replicas on several, `place` either. Leans on
//! `stream`, `batch`, `raft` and `net`.

pub mod api;
pub mod api_json;
mod api_print;
mod around;
mod calls;
mod cluster;
mod desk;
pub mod disturb;
pub mod front;
mod group;
mod host;
pub mod message;
mod model;
mod place;
mod requests;
pub mod stamp;
mod unanswered;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::machine::{Machine, Sink, Time};
use crate::raft::{NodeId, RaftEvent, Range};
use crate::stream::Stream;
use crate::stream::subjects::{Subjects, matches};
use api::{ApiAnswer, ApiCall, ApiFailure, ApiRequest};
use around::Around;
use cluster::Servers;
use desk::{Asked, Desk};
use group::Group;
use message::{Fact, Loss, Publish, Reply, ReplyTo, StreamNumber, SubjectId};
use model::Switches;
pub use model::{ClusterModel, Home, ServerDefect, ServerModel};
use place::{Coming, Place};
use requests::Later;
use unanswered::{lost, unheard};

/// What happens to the server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A message arrived on a connection.
    Publish(Publish),
    /// The driver's answer to [`Action::Choose`].
    Chosen(Source),
    /// The driver's answer to [`Action::Draw`], before any other input.
    Drawn(Time),
    /// An API call; [`Action::ApiReply`] answers it.
    Api {
        /// The answer goes there.
        to: ReplyTo,
        /// What is asked.
        request: Box<ApiRequest>,
    },
}

/// What the internal loop turns to next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The ingest queue.
    Ingest,
    /// The out-queue.
    Out,
}

/// What the server wants done, and what became true in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A frame leaves for a client.
    Send {
        /// Where to.
        to: ReplyTo,
        /// What.
        reply: Reply,
    },
    /// An answer that left its stream is lost on its way to the server of its client.
    Lost {
        /// Where to.
        to: ReplyTo,
        /// What.
        reply: Reply,
        /// Why.
        loss: Loss,
    },
    /// The answer to an API call.
    ApiReply {
        /// Where to.
        to: ReplyTo,
        /// Which call it answers.
        call: ApiCall,
        /// What it achieved, or why not.
        answer: Result<ApiAnswer, ApiFailure>,
    },
    /// Ingest and out-queue are both ready: the driver draws which is served first.
    Choose,
    /// A replica waits for a span: the driver draws it evenly from this range, at once.
    Draw(Range),
    /// A fact for events.
    Fact(Fact),
    /// A fact of a replica of a stream, for judges of RAFT.
    Raft {
        /// On which server.
        replica: NodeId,
        /// What became true.
        event: RaftEvent,
    },
}

/// Subjects of no stream lead here.
const NOWHERE: u32 = u32::MAX;

/// One modelled server, or the cluster that its streams have replicas on.
///
/// Each stream has an internal loop of its own, as in nats-server; API calls run beside the loops, on
/// the desk of each server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    model: ServerModel,
    subjects: Subjects,
    /// By subject id: the index of the stream's host, or [`NOWHERE`].
    routes: Vec<u32>,
    places: Vec<Option<Place>>,
    names: BTreeMap<Arc<str>, u32>,
    /// Streams created so far: the number of the next.
    created: u32,
    /// Goes up whenever subjects may lead elsewhere.
    routing: u64,
    /// By server.
    desks: Vec<Desk>,
    /// Requests and answers between two places, in no order.
    api_later: Vec<(Time, Later)>,
    /// When something of these two is due.
    api_due: Time,
    /// Loops that wait for [`Input::Chosen`], in the order in which they asked: the place, and the
    /// replica there.
    choosing: VecDeque<(u32, u8)>,
    servers: Servers,
    /// Places that wait for [`Input::Drawn`], in the order in which they asked.
    drawing: VecDeque<u32>,
    /// The model's defects, looked up once.
    switches: Switches,
}

impl Server {
    /// A server without streams.
    pub fn new(model: ServerModel) -> Self {
        let model_servers = model.cluster.servers.max(1);
        Self {
            switches: Switches::of(&model),
            servers: Servers::new(&model.cluster),
            model,
            subjects: Subjects::default(),
            routes: Vec::new(),
            places: Vec::new(),
            names: BTreeMap::new(),
            created: 0,
            routing: 0,
            desks: vec![Desk::default(); usize::from(model_servers)],
            api_later: Vec::new(),
            api_due: Time::NEVER,
            choosing: VecDeque::new(),
            drawing: VecDeque::new(),
        }
    }

    /// What it is like.
    pub const fn model(&self) -> &ServerModel {
        &self.model
    }

    /// The id of a subject, to publish to.
    pub fn intern(&mut self, subject: &str) -> SubjectId {
        let id = self.subjects.intern(subject);
        if self.routes.len() <= id.0 as usize {
            let route = self.route(subject);
            self.routes.push(route);
        }
        id
    }

    /// The id of a subject that a stream takes, and which stream; `None` if none does, and then the
    /// subject is not remembered.
    pub fn intern_taken(&mut self, subject: &str) -> Option<(SubjectId, &Stream)> {
        let id = match self.subjects.find(subject) {
            Some(id) => id,
            None if self.route(subject) == NOWHERE => return None,
            None => self.intern(subject),
        };
        let route = *self.routes.get(id.0 as usize)?;
        let place = self.places.get(route as usize)?.as_ref()?;
        Some((id, place.stream()))
    }

    /// A number that changes whenever streams come, go or change their subjects: as long as it is
    /// the same, [`Server::intern_taken`] gives the same.
    pub const fn routing(&self) -> u64 {
        self.routing
    }

    /// All streams, by name.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        let places = self.names.values();
        places.filter_map(|index| Some(self.places.get(*index as usize)?.as_ref()?.stream()))
    }

    /// A stream by number, as long as it exists.
    pub fn stream_numbered(&self, number: StreamNumber) -> Option<&Stream> {
        self.streams().find(|stream| stream.number() == number)
    }

    /// The text of a subject.
    pub fn subject(&self, subject: SubjectId) -> &str {
        self.subjects.text(subject)
    }

    /// All subjects.
    pub const fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    /// The name of the stream that takes `subject`, if any: answers to it carry this name.
    pub fn stream_of(&self, subject: SubjectId) -> Option<&Arc<str>> {
        let route = *self.routes.get(subject.0 as usize)?;
        let place = self.places.get(route as usize)?.as_ref()?;
        Some(place.stream().name())
    }

    /// A stream by name.
    pub fn stream(&self, name: &str) -> Option<&Stream> {
        let index = *self.names.get(name)?;
        let place = self.places.get(index as usize)?.as_ref()?;
        Some(place.stream())
    }

    /// Does an API call at once, for setting a world up; facts go to `out`, the answer is returned.
    ///
    /// # Errors
    /// As the API refuses the call.
    pub fn call(
        &mut self,
        now: Time,
        request: &ApiRequest,
        out: &mut dyn Sink<Action>,
    ) -> Result<ApiAnswer, ApiFailure> {
        self.answer(now, request, out)
    }

    /// Messages inside that are not yet dealt with.
    pub fn messages_inside(&self) -> impl Iterator<Item = &Publish> {
        self.places
            .iter()
            .flatten()
            .flat_map(Place::messages_inside)
    }

    /// Answers inside that are not yet sent, with where they go.
    pub fn answers_inside(&self) -> impl Iterator<Item = (&ReplyTo, &Reply)> {
        self.places.iter().flatten().flat_map(Place::answers_inside)
    }

    /// Whether there is work inside: nothing but idle timers is left otherwise.
    pub fn is_busy(&self) -> bool {
        self.places.iter().flatten().any(Place::is_busy)
    }

    fn publish(&mut self, now: Time, publish: Publish, out: &mut dyn Sink<Action>) {
        let route = self.routes.get(publish.subject.0 as usize);
        let route = route.copied().unwrap_or(NOWHERE);
        match self.places.get_mut(route as usize) {
            Some(Some(Place::Alone(host))) => host.receive(now, publish, &self.model, out),
            Some(Some(Place::Group(_))) => self.on_group(now, route, out, |group, around, out| {
                group.publish(now, publish, around, out);
                None
            }),
            _ => unheard(&publish, out),
        }
    }

    /// The driver chose for the loop that asked first.
    fn chosen(&mut self, now: Time, source: Source, out: &mut dyn Sink<Action>) {
        let Some((index, member)) = self.choosing.pop_front() else {
            return;
        };
        match self.places.get_mut(index as usize) {
            Some(Some(Place::Alone(host))) => {
                let again = host.serve(now, source, &self.model, out);
                self.choosing.extend(again.then_some((index, 0)));
            }
            Some(Some(Place::Group(_))) => self.on_group(now, index, out, |group, around, out| {
                let again = group.serve(now, member, source, around, out);
                again.then_some(member)
            }),
            _ => {}
        }
    }

    /// The driver drew for the place that asked first.
    fn drawn(&mut self, now: Time, span: Time, out: &mut dyn Sink<Action>) {
        if let Some(index) = self.drawing.pop_front() {
            self.on_group(now, index, out, |group, around, out| {
                group.drawn(now, span, around, out);
                None
            });
        }
    }

    /// Ends the turn of a host: its slice of messages goes into the stream.
    fn end_turn(&mut self, now: Time, index: u32, out: &mut dyn Sink<Action>) {
        let elsewhere = self.elsewhere(index);
        let Some(Some(Place::Alone(host))) = self.places.get_mut(index as usize) else {
            return;
        };
        let around = Around {
            model: &self.model,
            switches: &self.switches,
            subjects: &self.subjects,
            servers: &self.servers,
            elsewhere,
        };
        let surroundings = around.stream(now, host.ingest_permille(&self.model));
        if host.end_turn(now, &surroundings, &self.model, out) {
            self.choosing.push_back((index, 0));
        }
    }

    /// Lets a group act; it says which of its loops has to choose.
    fn on_group(
        &mut self,
        now: Time,
        index: u32,
        out: &mut dyn Sink<Action>,
        act: impl FnOnce(&mut Group, &Around<'_>, &mut dyn Sink<Action>) -> Option<u8>,
    ) {
        let elsewhere = self.elsewhere(index);
        let Some(Some(Place::Group(group))) = self.places.get_mut(index as usize) else {
            return;
        };
        let around = Around {
            model: &self.model,
            switches: &self.switches,
            subjects: &self.subjects,
            servers: &self.servers,
            elsewhere,
        };
        let mut noted = Noted { draws: 0, out };
        let chooses = act(group, &around, &mut noted);
        group.look_ahead();
        let draws = noted.draws;
        let asked = group.take_asked();
        self.drawing.extend((0..draws).map(|_| index));
        self.choosing.extend(chooses.map(|member| (index, member)));
        for (server, request) in asked {
            self.take_request(now, server, request, out);
        }
    }

    /// Batches registered in other places than this one: fast ones, and atomic ones.
    fn elsewhere(&self, index: u32) -> (u32, u32) {
        let places = self.places.iter().enumerate();
        let others = places.filter(|(other, _)| *other != index as usize);
        others
            .filter_map(|(_, place)| Some(place.as_ref()?.open_batches()))
            .fold((0, 0), add)
    }

    /// What comes up next, and when. Of two at the same time, timers go first, then loops.
    ///
    /// Asked several times for each message, hence by hand.
    fn next(&self) -> (Time, Due) {
        let mut next = (self.api_due, Due::Call);
        for (index, place) in self.places.iter().enumerate().rev() {
            if let Some(place) = place {
                let (at, coming) = place.next();
                if at <= next.0 {
                    next = (at, Due::At(index as u32, coming));
                }
            }
        }
        next
    }

    fn route(&self, subject: &str) -> u32 {
        let places = self.places.iter().enumerate();
        places
            .filter_map(|(index, place)| Some((index as u32, place.as_ref()?)))
            .find(|(_, place)| {
                let filters = &place.stream().config().subjects;
                filters.iter().any(|filter| matches(filter, subject))
            })
            .map_or(NOWHERE, |(index, _)| index)
    }

    /// After streams came, went or changed their subjects.
    fn route_again(&mut self) {
        self.routing += 1;
        self.routes = (0..self.subjects.len() as u32)
            .map(|id| self.route(self.subjects.text(SubjectId(id))))
            .collect();
    }
}

fn add(one: (u32, u32), other: (u32, u32)) -> (u32, u32) {
    (one.0 + other.0, one.1 + other.1)
}

/// Counts the draws that pass.
struct Noted<'a> {
    draws: usize,
    out: &'a mut dyn Sink<Action>,
}

impl Sink<Action> for Noted<'_> {
    fn emit(&mut self, action: Action) {
        self.draws += usize::from(matches!(action, Action::Draw(_)));
        self.out.emit(action);
    }
}

/// What comes up in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// Something in a place.
    At(u32, Coming),
    /// Something in the API.
    Call,
}

impl Machine for Server {
    type Input = Input;
    type Action = Action;

    fn step(&mut self, now: Time, input: Input, out: &mut dyn Sink<Action>) {
        match input {
            Input::Publish(publish) => self.publish(now, publish, out),
            Input::Chosen(source) => self.chosen(now, source, out),
            Input::Drawn(span) => self.drawn(now, span, out),
            Input::Api { to, request } => self.ask(now, Asked { to, request }, out),
        }
    }

    fn due(&self) -> Time {
        self.next().0
    }

    fn wake(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        loop {
            let (at, due) = self.next();
            if at > now || at == Time::NEVER {
                return;
            }
            match due {
                Due::At(index, Coming::Timers) => {
                    if let Some(Some(Place::Alone(host))) = self.places.get_mut(index as usize) {
                        host.expire(at, self.switches.fast.idle_advisory, out);
                    }
                }
                Due::At(index, Coming::Turn) => self.end_turn(at, index, out),
                Due::At(index, Coming::Thaw) => {
                    if let Some(Some(Place::Alone(host))) = self.places.get_mut(index as usize) {
                        for publish in host.take_unread() {
                            host.push(at, publish, &self.model, out);
                        }
                    }
                }
                Due::At(index, Coming::Group) => {
                    self.on_group(at, index, out, Group::wake);
                    if !self.drawing.is_empty() {
                        // The driver answers before anything else happens.
                        return;
                    }
                }
                Due::Call => self.api_turn(at, out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
