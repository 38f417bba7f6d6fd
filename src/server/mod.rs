//! One modelled nats-server: ingest queue, internal loop, out-queue and API around its streams.
//!
//! Leans on `stream`, `batch` and `net::disk`.

pub mod api;
pub mod api_json;
mod api_print;
mod calls;
pub mod front;
mod host;
pub mod message;
mod model;
pub mod stamp;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::batch::atomic::staging::Rules;
use crate::batch::fast::flow::{EvenShare, Policy};
use crate::batch::limits::Limits;
use crate::machine::{Machine, Sink, Time};
use crate::stream::subjects::{Subjects, matches};
use crate::stream::{Stream, Surroundings};
use api::{ApiAnswer, ApiCall, ApiFailure, ApiRequest};
use host::Host;
use message::{Fact, Publish, Reply, ReplyTo, StreamNumber, SubjectId};
use model::Switches;
pub use model::{ServerDefect, ServerModel};

/// What happens to the server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A message arrived on a connection.
    Publish(Publish),
    /// The driver's answer to [`Action::Choose`].
    Chosen(Source),
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
    /// A fact for events.
    Fact(Fact),
}

/// An API call that waits for its turn.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Call {
    at: Time,
    to: ReplyTo,
    request: Box<ApiRequest>,
}

/// Subjects of no stream lead here.
const NOWHERE: u32 = u32::MAX;

/// One modelled server.
///
/// Each stream has an internal loop of its own, as in nats-server; API calls run beside the loops,
/// one after the other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    model: ServerModel,
    subjects: Subjects,
    /// By subject id: the index of the stream's host, or [`NOWHERE`].
    routes: Vec<u32>,
    hosts: Vec<Option<Host>>,
    names: BTreeMap<Arc<str>, u32>,
    /// Streams created so far: the number of the next.
    created: u32,
    /// Goes up whenever subjects may lead elsewhere.
    routing: u64,
    calls: VecDeque<Call>,
    /// Hosts that wait for [`Input::Chosen`], in the order in which they asked.
    choosing: VecDeque<u32>,
    /// The model's defects, looked up once.
    switches: Switches,
}

impl Server {
    /// A server without streams.
    pub fn new(model: ServerModel) -> Self {
        Self {
            switches: Switches::of(&model),
            model,
            subjects: Subjects::default(),
            routes: Vec::new(),
            hosts: Vec::new(),
            names: BTreeMap::new(),
            created: 0,
            routing: 0,
            calls: VecDeque::new(),
            choosing: VecDeque::new(),
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
        let host = self.hosts.get(route as usize)?.as_ref()?;
        Some((id, &host.stream))
    }

    /// A number that changes whenever streams come, go or change their subjects: as long as it is
    /// the same, [`Server::intern_taken`] gives the same.
    pub const fn routing(&self) -> u64 {
        self.routing
    }

    /// All streams, by name.
    pub fn streams(&self) -> impl Iterator<Item = &Stream> {
        let hosts = self.names.values();
        hosts.filter_map(|index| Some(&self.hosts.get(*index as usize)?.as_ref()?.stream))
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
        let host = self.hosts.get(route as usize)?.as_ref()?;
        Some(host.stream.name())
    }

    /// A stream by name.
    pub fn stream(&self, name: &str) -> Option<&Stream> {
        let index = *self.names.get(name)?;
        let host = self.hosts.get(index as usize)?.as_ref()?;
        Some(&host.stream)
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
        self.hosts.iter().flatten().flat_map(Host::messages_inside)
    }

    /// Answers inside that are not yet sent, with where they go.
    pub fn answers_inside(&self) -> impl Iterator<Item = &(ReplyTo, Reply)> {
        self.hosts.iter().flatten().flat_map(Host::answers_inside)
    }

    /// Whether there is work inside: nothing but idle timers is left otherwise.
    pub fn is_busy(&self) -> bool {
        self.hosts.iter().flatten().any(Host::is_busy)
    }

    fn publish(&mut self, now: Time, publish: Publish, out: &mut dyn Sink<Action>) {
        let route = self.routes.get(publish.subject.0 as usize);
        let route = route.copied().unwrap_or(NOWHERE);
        let Some(Some(host)) = self.hosts.get_mut(route as usize) else {
            if let Some((batch, operation, sequence)) = publish.frame() {
                out.emit(Action::Fact(Fact::Unheard {
                    batch,
                    operation,
                    sequence,
                }));
            }
            if let Some(to) = publish.reply {
                let reply = Reply::NoResponders(publish.subject);
                out.emit(Action::Send { to, reply });
            }
            return;
        };
        host.push(now, publish, &self.model, out);
    }

    /// The driver chose for the host that asked first.
    fn chosen(&mut self, now: Time, source: Source, out: &mut dyn Sink<Action>) {
        let Some(index) = self.choosing.pop_front() else {
            return;
        };
        if let Some(Some(host)) = self.hosts.get_mut(index as usize)
            && host.serve(now, source, &self.model, out)
        {
            self.choosing.push_back(index);
        }
    }

    /// Ends the turn of a host: its slice of messages goes into the stream.
    fn end_turn(&mut self, now: Time, index: u32, out: &mut dyn Sink<Action>) {
        let hosts = self.hosts.iter().flatten();
        let (fast, atomic) = hosts.map(Host::open_batches).fold((0, 0), add);
        let Some(Some(host)) = self.hosts.get_mut(index as usize) else {
            return;
        };
        let own = host.open_batches();
        let model = &self.model;
        let around = Surroundings {
            now,
            subjects: &self.subjects,
            api_level: model.version.api_level(),
            limits: Limits {
                per_stream: model.batches_per_stream,
                per_server: model.batches_per_server,
                elsewhere: fast - own.0,
            },
            staging: Rules {
                limits: Limits {
                    per_stream: model.atomic_batches_per_stream,
                    per_server: model.atomic_batches_per_server,
                    elsewhere: atomic - own.1,
                },
                messages_max: u64::from(model.atomic_batch_messages),
                defects: self.switches.staging,
            },
            atomic_defects: self.switches.atomic,
            policy: Policy::EvenShare(EvenShare {
                total: model.flow_total,
            }),
            ingest_permille: host.ingest_permille(model),
            defects: self.switches.fast,
            store_twice: self.switches.store_twice,
            plain_size_late: self.switches.plain_size_late,
        };
        if host.end_turn(now, &around, &self.model, out) {
            self.choosing.push_back(index);
        }
    }

    fn end_call(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        if let Some(call) = self.calls.pop_front() {
            let answer = self.answer(now, &call.request, out);
            out.emit(Action::ApiReply {
                to: call.to,
                call: call.request.call(),
                answer,
            });
        }
    }

    /// What comes up next, and when. Of two at the same time, timers go first, then loops.
    ///
    /// Asked several times for each message, hence by hand.
    fn next(&self) -> (Time, Due) {
        let call = self.calls.front().map_or(Time::NEVER, |call| call.at);
        let mut next = (call, Due::Call);
        for (index, host) in self.hosts.iter().enumerate().rev() {
            let Some(host) = host else {
                continue;
            };
            if host.turn_end() <= next.0 {
                next = (host.turn_end(), Due::Turn(index as u32));
            }
            if host.stream.due() <= next.0 {
                next = (host.stream.due(), Due::Timers(index as u32));
            }
        }
        next
    }

    fn route(&self, subject: &str) -> u32 {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .filter_map(|(index, host)| Some((index as u32, host.as_ref()?)))
            .find(|(_, host)| {
                let filters = &host.stream.config().subjects;
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

/// What comes up in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Due {
    /// Idle timers of a stream's batches.
    Timers(u32),
    /// The end of a turn of a stream's loop.
    Turn(u32),
    /// An API call is done.
    Call,
}

impl Machine for Server {
    type Input = Input;
    type Action = Action;

    fn step(&mut self, now: Time, input: Input, out: &mut dyn Sink<Action>) {
        match input {
            Input::Publish(publish) => self.publish(now, publish, out),
            Input::Chosen(source) => self.chosen(now, source, out),
            Input::Api { to, request } => {
                let free = self.calls.back().map_or(now, |call| call.at.max(now));
                let at = free + self.model.api_cost;
                self.calls.push_back(Call { at, to, request });
            }
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
                Due::Timers(index) => {
                    if let Some(Some(host)) = self.hosts.get_mut(index as usize) {
                        host.expire(at, self.switches, out);
                    }
                }
                Due::Turn(index) => self.end_turn(at, index, out),
                Due::Call => self.end_call(at, out),
            }
        }
    }
}

#[cfg(test)]
mod tests;
