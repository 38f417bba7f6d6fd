//! What clients and the driver ask of a group: calls that go through its proposals, a step-down, and
//! the draws that it waits for.
//!
//! Leans on `raft` and `stream::proposal`.

use std::collections::VecDeque;

use super::replica::Input;
use super::route::Between;
use super::{Around, Awaited, CHANCES, Group};
use crate::machine::{Sink, Time};
use crate::nats::error_code::ErrorCode;
use crate::net::link::Passage;
use crate::raft::{NodeId, Term};
use crate::server::Action;
use crate::server::api::{ApiAnswer, ApiCall, ApiFailure};
use crate::server::desk::Asked;
use crate::server::message::ReplyTo;
use crate::stream::proposal::{CallResult, Called, Proposal};

/// Calls whose proposals are on their way, in their order, with the replica that proposed them.
pub(super) type Calls = VecDeque<(usize, ReplyTo, ApiCall)>;

impl Group {
    /// The driver's draw, for what was asked for first.
    pub(in crate::server) fn drawn(
        &mut self,
        now: Time,
        span: Time,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let Some(awaited) = self.drawing.pop_front() else {
            return;
        };
        let (id, input) = match awaited {
            Awaited::Election(id) => (id, Input::Drawn(span)),
            Awaited::Successor(id) => {
                let input = Input::StepDown {
                    preferred: None,
                    chance: span.as_nanos(),
                };
                (id, input)
            }
        };
        self.raft(now, usize::from(id.0), input, around, out);
    }

    /// A client of this server asks something; one that stands still reads it later.
    pub(in crate::server) fn ask(&mut self, now: Time, home: usize, asked: Asked) {
        let count = self.servers();
        let at = home % count;
        if self.members[at].host.is_awake(now) {
            return self.pass_on(now, at, asked);
        }
        // To itself nothing else is ever under way.
        let own = &mut self.routes[at * count + at].under_way;
        own.push_back((Passage::at(now), Between::Call(asked)));
    }

    /// A request goes on to the leader, as far as this server has heard of one.
    pub(super) fn pass_on(&mut self, now: Time, at: usize, asked: Asked) {
        let member = &self.members[at];
        let leader = match member.term {
            Some(_) => at,
            None => member.interested().unwrap_or(at),
        };
        if leader == at {
            self.asked.push((at as u8, asked));
        } else {
            // One that the route loses is answered by nobody.
            let _ = self.send(now, at, leader, Between::Call(asked));
        }
    }

    /// Requests that have reached their server, with its number.
    pub(in crate::server) fn take_asked(&mut self) -> Vec<(u8, Asked)> {
        std::mem::take(&mut self.asked)
    }

    /// An answer of this server goes to where its client is.
    pub(in crate::server) fn tell_answer(
        &mut self,
        now: Time,
        server: usize,
        reply: Action,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let at = server % self.servers();
        self.on_host(now, at, around.servers, out, |_, out| out.emit(reply));
    }

    /// A call that goes through the proposals; without a leader it fails at once.
    pub(in crate::server) fn call(
        &mut self,
        now: Time,
        (to, call): (ReplyTo, ApiCall),
        proposal: Proposal,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let Some((index, term)) = self.awake_leader(now) else {
            return answer_call(to, call, Err(unavailable()), out);
        };
        self.calls.push_back((index, to, call));
        let input = Input::Propose {
            term,
            entry: proposal,
        };
        self.raft(now, index, input, around, out);
        if self.members[index].term.is_none() && !around.switches.refusals_are_silent {
            answer_call(to, call, Err(unavailable()), out);
        }
    }

    /// The leader steps down and hands over, as soon as the driver has drawn to whom.
    ///
    /// # Errors
    /// There is no leader, or it stands still.
    pub(in crate::server) fn step_down(
        &mut self,
        now: Time,
        out: &mut dyn Sink<Action>,
    ) -> Result<(), ApiFailure> {
        let (index, _) = self.awake_leader(now).ok_or_else(unavailable)?;
        self.drawing
            .push_back(Awaited::Successor(NodeId(index as u8)));
        out.emit(Action::Draw(CHANCES));
        Ok(())
    }

    /// A leader steps down: nobody answers what it proposed, those included that it drops.
    pub(super) fn drop_calls(
        &mut self,
        leader: usize,
        drained: &[Proposal],
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        if !around.switches.refusals_are_silent {
            let calls = drained
                .iter()
                .filter(|one| matches!(one, Proposal::Purge(_) | Proposal::Delete(_)));
            let own: Vec<_> = self.calls.iter().filter(|(of, ..)| *of == leader).collect();
            // They are the last ones that it proposed.
            let kept = own.len().saturating_sub(calls.count());
            for (_, to, call) in &own[kept..] {
                answer_call(*to, *call, Err(unavailable()), out);
            }
        }
        self.forget_calls(leader);
    }

    /// Nobody answers what this replica proposed.
    pub(super) fn forget_calls(&mut self, leader: usize) {
        self.calls.retain(|(of, ..)| *of != leader);
    }

    fn awake_leader(&self, now: Time) -> Option<(usize, Term)> {
        let leader = self.leader()?;
        let is_awake = self.members[leader.0].host.is_awake(now);
        is_awake.then_some(leader)
    }
}

/// The oldest call that this replica proposed.
pub(super) fn take_call(calls: &mut Calls, leader: usize) -> Option<(ReplyTo, ApiCall)> {
    let own = calls.iter().position(|(of, ..)| *of == leader)?;
    let (_, to, call) = calls.remove(own)?;
    Some((to, call))
}

fn unavailable() -> ApiFailure {
    ErrorCode::SystemUnavailable.into()
}

pub(super) fn answer_call(
    to: ReplyTo,
    call: ApiCall,
    result: CallResult,
    out: &mut dyn Sink<Action>,
) {
    let answer = result.map(|called| match called {
        Called::Purged(messages) => ApiAnswer::Purged(messages),
        Called::Deleted => ApiAnswer::Done,
    });
    out.emit(Action::ApiReply { to, call, answer });
}
