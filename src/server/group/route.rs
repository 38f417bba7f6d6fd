//! What lies between the servers of a group, and what travels there.
//!
//! Leans on `raft` for messages and on `net::link`.

use std::collections::VecDeque;

use super::replica::Snapshot;
use crate::machine::{Sink, Time};
use crate::nats::StreamSequence;
use crate::net::link::Link;
use crate::raft::message::Message;
use crate::server::message::{AtomicFact, Fact, Publish, Reply, ReplyTo};
use crate::server::{Action, ClusterModel};
use crate::stream::replicated::Proposal;

/// Bytes of interest, and of a routed message beside its texts and payload.
const ROUTE_BYTES: u64 = 40;

/// What servers say to each other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Between {
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
pub(super) struct Route {
    pub(super) link: Link,
    pub(super) under_way: VecDeque<(Time, Between)>,
}

/// Takes what a host wants done: on to the servers of its clients, or out.
pub(super) struct Routed<'a> {
    pub(super) now: Time,
    pub(super) index: usize,
    pub(super) leads: bool,
    pub(super) model: &'a ClusterModel,
    /// From this server, by receiver.
    pub(super) routes: &'a mut [Route],
    pub(super) told: &'a mut StreamSequence,
    pub(super) out: &'a mut dyn Sink<Action>,
}

impl Sink<Action> for Routed<'_> {
    fn emit(&mut self, action: Action) {
        match action {
            Action::Send { to, reply } => {
                let home = self.model.home(to.connection, self.routes.len());
                if home == self.index {
                    self.out.emit(Action::Send { to, reply });
                } else if let Some(route) = self.routes.get_mut(home) {
                    route.send(self.now, Between::Answer(to, reply));
                }
            }
            Action::Fact(fact) if !self.tells(&fact) => {}
            Action::Fact(_) | Action::Choose | Action::ApiReply { .. } | Action::Draw(_) => {
                self.out.emit(action);
            }
        }
    }
}

impl Routed<'_> {
    /// What is stored is true once the first replica has applied it; the rest is the leader's.
    fn tells(&mut self, fact: &Fact) -> bool {
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

impl Route {
    pub(super) fn send(&mut self, now: Time, between: Between) {
        let arrival = self.link.pass(now, between.bytes(), Time::ZERO);
        self.under_way.push_back((arrival, between));
    }
}
