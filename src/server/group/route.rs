//! What lies between the servers of a group, and what travels there.
//!
//! Leans on `raft` for messages and on `net::link`.

use std::collections::VecDeque;

use super::agenda::Watched;
use super::replica::Snapshot;
use crate::machine::{Sink, Time};
use crate::nats::StreamSequence;
use crate::net::limit::Limit;
use crate::net::link::{Link, Passage};
use crate::raft::Term;
use crate::raft::message::Message;
use crate::server::api::{ApiAnswer, ApiCall, ApiFailure};
use crate::server::cluster::Servers;
use crate::server::desk::Asked;
use crate::server::message::{AtomicFact, Fact, Loss, Publish, Reply, ReplyTo};
use crate::server::{Action, lost};
use crate::stream::proposal::Proposal;

/// Bytes of interest, and of a routed message beside its texts and payload.
const ROUTE_BYTES: u64 = 40;
/// Bytes of an answer of the API: most is configuration and state of a stream.
const API_ANSWER_BYTES: u64 = 1_000;

/// What servers say to each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Between {
    Raft(Message<Proposal, Snapshot>),
    /// The sender takes messages for the stream, since it leads in this term, or does not any more.
    Interest(Option<Term>),
    /// A message of a client of the sender.
    Publish(Publish),
    /// An answer for a client of the receiver.
    Answer(ReplyTo, Reply),
    /// A request of the API, of a client of the sender.
    Call(Asked),
    /// The answer to such a request, for a client of the receiver.
    Told(Box<Told>),
}

/// An answer of the API.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Told {
    to: ReplyTo,
    call: ApiCall,
    answer: Result<ApiAnswer, ApiFailure>,
}

impl From<Box<Told>> for Action {
    fn from(told: Box<Told>) -> Self {
        let Told { to, call, answer } = *told;
        Self::ApiReply { to, call, answer }
    }
}

impl Between {
    /// It is lost on its way.
    pub(super) fn lose(self, loss: Loss, out: &mut dyn Sink<Action>) {
        match self {
            Self::Publish(publish) => lost(publish.frame(), loss, out),
            Self::Answer(to, reply) => out.emit(Action::Lost { to, reply, loss }),
            // RAFT asks again, and interest is told again; who asks the API waits in vain.
            Self::Raft(_) | Self::Interest(_) | Self::Call(_) | Self::Told(_) => {}
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Raft(message) => message.bytes(),
            Self::Interest(_) => ROUTE_BYTES,
            Self::Publish(publish) => ROUTE_BYTES + u64::from(publish.wire_bytes),
            Self::Answer(..) | Self::Call(_) => 3 * ROUTE_BYTES,
            Self::Told(_) => API_ANSWER_BYTES,
        }
    }
}

/// One direction between two servers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Route {
    pub(super) link: Link,
    pub(super) under_way: VecDeque<(Passage, Between)>,
    /// So many faults have it down.
    pub(super) cuts: u32,
    /// Nothing arrives before then.
    held_until: Time,
    /// Everything is so much later.
    pub(super) slower: Time,
}

/// Takes what a host wants done: on to the servers of its clients, or out.
pub(super) struct Routed<'a> {
    pub(super) now: Time,
    pub(super) index: usize,
    pub(super) leads: bool,
    pub(super) servers: &'a Servers,
    pub(super) replicas: usize,
    /// By sender and receiver.
    pub(super) routes: &'a mut Watched<Route>,
    pub(super) told: &'a mut StreamSequence,
    pub(super) out: &'a mut dyn Sink<Action>,
}

impl Sink<Action> for Routed<'_> {
    fn emit(&mut self, action: Action) {
        match action {
            Action::Send { to, reply } => {
                let home = home(self.servers, to, self.replicas);
                if home == self.index {
                    return self.out.emit(Action::Send { to, reply });
                }
                let route = &mut self.routes[self.index * self.replicas + home];
                if let Err(answer) = route.send(self.now, Between::Answer(to, reply)) {
                    answer.lose(Loss::RouteDown, self.out);
                }
            }
            Action::ApiReply { to, call, answer } => {
                let home = home(self.servers, to, self.replicas);
                if home == self.index {
                    return self.out.emit(Action::ApiReply { to, call, answer });
                }
                let route = &mut self.routes[self.index * self.replicas + home];
                let told = Box::new(Told { to, call, answer });
                // One that the route loses reaches nobody.
                let _ = route.send(self.now, Between::Told(told));
            }
            Action::Fact(fact) if !self.tells(&fact) => {}
            Action::Fact(_)
            | Action::Lost { .. }
            | Action::Choose
            | Action::Draw(_)
            | Action::Raft { .. } => {
                self.out.emit(action);
            }
        }
    }
}

impl Routed<'_> {
    /// What is stored is true once the first replica has applied it, and what is lost is; the rest is the
    /// leader's.
    fn tells(&mut self, fact: &Fact) -> bool {
        if matches!(fact, Fact::LostInside { .. }) {
            return true;
        }
        let (Fact::Stored {
            stream_sequence, ..
        }
        | Fact::Atomic(AtomicFact::Stored {
            stream_sequence, ..
        })) = fact
        else {
            return self.leads;
        };
        let is_news = stream_sequence > self.told;
        if is_news {
            *self.told = *stream_sequence;
        }
        is_news
    }
}

/// The replica on whose server a client is, of so many.
pub(super) fn home(servers: &Servers, to: ReplyTo, replicas: usize) -> usize {
    usize::from(servers.home(to.connection)) % replicas.max(1)
}

impl Route {
    pub(super) const fn new(link: Link) -> Self {
        Self {
            link,
            under_way: VecDeque::new(),
            cuts: 0,
            held_until: Time::ZERO,
            slower: Time::ZERO,
        }
    }

    /// When the first of what is under way arrives; `NEVER` if nothing is.
    pub(super) fn first_arrival(&self) -> Time {
        let first = self.under_way.front();
        first.map_or(Time::NEVER, |(passage, _)| passage.arrival)
    }

    /// Sends something on its way.
    ///
    /// # Errors
    /// The route is down: it comes back.
    pub(super) fn send(&mut self, now: Time, between: Between) -> Result<(), Between> {
        if self.cuts > 0 {
            return Err(between);
        }
        let mut passage = self.link.passage(now, between.bytes(), self.slower);
        passage.arrival = passage.arrival.max(self.held_until);
        self.under_way.push_back((passage, between));
        Ok(())
    }

    /// What is under way, or sent from now on, does not arrive before `until`.
    pub(super) fn hold(&mut self, until: Time) {
        self.held_until = self.held_until.max(until);
        for (passage, _) in &mut self.under_way {
            passage.arrival = until.max(passage.arrival);
        }
    }

    /// It carries no more than this for a while, of what is under way, too.
    pub(super) fn limit(&mut self, now: Time, limit: Limit) {
        let under_way = self.under_way.iter_mut().map(|(passage, _)| passage);
        self.link.limit(now, limit, under_way);
    }
}
