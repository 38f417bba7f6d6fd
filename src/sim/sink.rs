//! What the server of the event lane wants done, as frames and events.
//!
//! Leans on `fabric`, on `probes` for answers to them, and on the server model.

use super::fabric::Fabric;
use super::probes;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, PublisherId};
use crate::machine::Sink;
use crate::raft::Range;
use crate::server::Action;
use crate::server::message::{Fact, Reply, ReplyTo};

/// Turns what the server decides into frames and events.
pub(super) struct ServerSink<'s, 'o> {
    pub(super) fabric: &'s mut Fabric<'o>,
    /// A loop has to choose what it turns to.
    pub(super) choose: bool,
    /// Spans that replicas wait to be drawn.
    pub(super) draws: Vec<Range>,
}

impl Sink<Action> for ServerSink<'_, '_> {
    fn emit(&mut self, action: Action) {
        match action {
            Action::Send { to, reply } => self.send(to, &reply),
            Action::Lost { to, reply, loss } => self.lost(to, &reply, loss.into()),
            Action::Fact(fact) => self.fact(&fact),
            Action::Choose => self.choose = true,
            Action::Draw(range) => self.draws.push(range),
            Action::Raft { replica, event } => self.fabric.tell(&Event::Raft {
                replica: replica.0,
                event,
            }),
            Action::ApiReply { to, answer, .. } => {
                self.answer(to, (probes::answer_code(&answer), None));
            }
        }
    }
}

impl ServerSink<'_, '_> {
    /// An answer to a probe.
    fn answer(&mut self, to: ReplyTo, told: probes::Told) {
        if let Some(number) = probes::number_of(to) {
            let client = PublisherId(to.connection.0);
            self.fabric.answer(client, number, told);
        }
    }

    fn send(&mut self, to: ReplyTo, reply: &Reply) {
        if probes::number_of(to).is_some() {
            return self.answer(to, probes::told(reply));
        }
        let batch = BatchNumber(to.tag as u32);
        let Some(frame) = ControlFrame::of(reply) else {
            return;
        };
        self.fabric.tell(&Event::sent(batch, frame));
        self.fabric
            .send_down(PublisherId(to.connection.0), batch, frame);
    }

    fn lost(&mut self, to: ReplyTo, reply: &Reply, cause: DropCause) {
        if probes::number_of(to).is_some() {
            return;
        }
        let batch = BatchNumber(to.tag as u32);
        if let Some(frame) = ControlFrame::of(reply) {
            self.fabric.tell(&Event::sent(batch, frame));
            self.fabric.lost_inside(batch, frame, cause);
        }
    }

    /// Plain publishes have no batch, and tell nothing.
    fn fact(&mut self, fact: &Fact) {
        if let Some(event) = Event::of_fact(fact, |batch| BatchNumber(batch.0)) {
            self.fabric.tell(&event);
        }
    }
}
