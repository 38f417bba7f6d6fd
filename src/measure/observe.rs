//! Which event means what to the [`Recorder`].
//!
//! Leans on `event` and its siblings in `measure`.

use super::Recorder;
use super::batch::AtServer;
use super::in_flight::Message;
use crate::event::{BatchNumber, DropCause, Event, Observer};
use crate::machine::Time;
use crate::nats::Operation;

impl Observer for Recorder {
    fn see(&mut self, at: Time, event: &Event) {
        self.make_room(at, event);
        match *event {
            Event::Published { .. } => self.see_publish(at, event),
            Event::Stored {
                batch, sequence, ..
            } => self.store(batch, sequence.0),
            Event::AckSeen {
                batch,
                flow,
                sequence,
            } => self.ack(at, batch, flow, sequence),
            Event::Blocked { batch } => self.block(at, batch),
            Event::Unblocked { batch } => self.unblock(at, batch),
            Event::BatchStarted {
                publisher,
                batch,
                flow,
                ..
            } => self.start(at, publisher, batch, flow),
            Event::GapSeen { .. } | Event::ErrorSeen { .. } | Event::RefusalSeen { .. } => {
                self.see_trouble(at, event);
            }
            Event::PubAckSeen { .. } | Event::BatchEnded { .. } => self.see_end(at, event),
            Event::MessageAckSeen {
                batch,
                duplicate,
                sequence,
                ..
            } => {
                self.totals.pub_acks += 1;
                self.duplicate_pub_acks += u64::from(duplicate);
                self.credit_one(at, batch, sequence);
            }
            Event::BatchOpened { batch, .. } => self.server_moves(batch, AtServer::Open),
            Event::BatchForgotten { batch, .. } => self.server_moves(batch, AtServer::Over),
            Event::RefusalSent { batch, code } => self.refusal_sent(batch, code),
            Event::Rejected {
                batch, sequence, ..
            } => self.decide(batch, sequence.0),
            Event::Deduplicated { batch, sequence } => {
                self.deduplicated += 1;
                self.decide(batch, sequence.0);
            }
            Event::Dropped {
                batch,
                cause,
                operation,
                sequence,
            } => {
                let message = operation.is_some_and(Operation::stores);
                self.drop_frame(batch, cause, message.then_some(sequence.0));
            }
            Event::Fault { fault, server } => self.fault(at, fault, server),
            Event::LeaderChanged { leader } => self.leader_changed(at, leader),
            Event::ApiAsked { .. } | Event::ApiAnswered { .. } | Event::ApiUnanswered { .. } => {
                self.api.see(at, event, &self.places);
            }
            Event::Withheld { messages, .. } => self.withheld += messages,
            Event::StreamRewound { lost, .. } => self.rewound(lost),
            // Judges read these.
            Event::Raft { .. } => {}
            // What the server sends is counted when it is seen; judges compare the two.
            Event::ControlReceived {
                batch,
                operation: Operation::Ping,
                ..
            } => self.ping_received(batch),
            Event::PublisherDone { .. }
            | Event::ControlReceived { .. }
            | Event::AtRest { .. }
            | Event::Healed { .. }
            | Event::ApiDropped { .. }
            | Event::AckSent { .. }
            | Event::GapSent { .. }
            | Event::ErrorSent { .. }
            | Event::PubAckSent { .. } => {}
        }
    }
}

/// The bare status of a full ingest queue.
const TOO_MANY_REQUESTS: u16 = 429;
/// Nobody listens on the subject.
const NO_RESPONDERS: u16 = 503;

/// Whether figures are kept by when this happened. What a server does counts in totals alone, and a live run
/// tells much of it when it reads back, long after the last message: slices must not grow for that.
const fn has_a_place(event: &Event) -> bool {
    match event {
        Event::Published { .. }
        | Event::AckSeen { .. }
        | Event::Blocked { .. }
        | Event::Unblocked { .. }
        | Event::BatchStarted { .. }
        | Event::GapSeen { .. }
        | Event::ErrorSeen { .. }
        | Event::RefusalSeen { .. }
        | Event::PubAckSeen { .. }
        | Event::MessageAckSeen { .. }
        | Event::BatchEnded { .. }
        | Event::ApiAsked { .. }
        | Event::ApiAnswered { .. }
        | Event::ApiUnanswered { .. } => true,
        Event::Stored { .. }
        | Event::BatchOpened { .. }
        | Event::BatchForgotten { .. }
        | Event::RefusalSent { .. }
        | Event::Rejected { .. }
        | Event::Deduplicated { .. }
        | Event::Dropped { .. }
        | Event::Fault { .. }
        | Event::LeaderChanged { .. }
        | Event::Withheld { .. }
        | Event::StreamRewound { .. }
        | Event::Raft { .. }
        | Event::ControlReceived { .. }
        | Event::PublisherDone { .. }
        | Event::AtRest { .. }
        | Event::Healed { .. }
        | Event::ApiDropped { .. }
        | Event::AckSent { .. }
        | Event::GapSent { .. }
        | Event::ErrorSent { .. }
        | Event::PubAckSent { .. } => false,
    }
}

impl Recorder {
    #[inline]
    fn make_room(&mut self, at: Time, event: &Event) {
        if has_a_place(event) {
            self.reach(at);
        }
    }

    #[inline]
    fn see_publish(&mut self, at: Time, event: &Event) {
        if let Event::Published {
            batch,
            operation,
            bytes,
            sequence,
            intended,
        } = *event
        {
            if operation.stores() {
                let message = Message {
                    sent: at.as_nanos(),
                    intended: intended.as_nanos().min(at.as_nanos()),
                    sequence: u32::try_from(sequence.0).unwrap_or(u32::MAX),
                    bytes,
                };
                self.publish(at, batch, message);
            }
            if operation == Operation::Ping {
                self.ping(batch);
            }
        }
    }

    fn see_end(&mut self, at: Time, event: &Event) {
        if let Event::PubAckSeen {
            batch,
            duplicate,
            count,
            ..
        } = *event
        {
            self.totals.pub_acks += 1;
            self.duplicate_pub_acks += u64::from(duplicate);
            self.credit(at, batch, count);
        }
        if let Event::BatchEnded {
            batch,
            outcome,
            code,
            acknowledged,
        } = *event
        {
            self.credit(at, batch, acknowledged);
            self.end(at, batch, (outcome, code));
        }
    }

    fn see_trouble(&mut self, at: Time, event: &Event) {
        if let Event::GapSeen {
            batch,
            expected,
            received,
        } = *event
        {
            let missing = self.strike(batch, expected.0, received.0);
            self.totals.gaps += 1;
            self.totals.missing += missing;
            self.series.gap(at, missing);
        }
        if let Event::ErrorSeen {
            batch,
            code,
            sequence,
        } = *event
        {
            let refused = self.strike(batch, sequence.0, sequence.0.saturating_add(1));
            self.totals.refused += refused;
            self.series.left_flight(at, refused);
            self.error(at, code);
        }
        if let Event::RefusalSeen { code, .. } = *event {
            self.error(at, code);
        }
    }

    fn refusal_sent(&mut self, batch: BatchNumber, code: u16) {
        // A full queue refuses one message, and so does an open batch's stream while nobody leads;
        // everything else refuses the batch.
        let leaderless = code == NO_RESPONDERS
            && self
                .batches
                .get_mut(batch)
                .is_some_and(|batch| batch.at_server == AtServer::Open);
        if code != TOO_MANY_REQUESTS && !leaderless {
            self.server_moves(batch, AtServer::Over);
        }
    }

    fn drop_frame(&mut self, number: BatchNumber, cause: DropCause, message: Option<u64>) {
        self.dropped[cause as usize] += 1;
        if let (Some(sequence), Some(batch)) = (message, self.batches.get_mut(number)) {
            batch.lose(sequence);
            self.forget_if_over(number);
        }
    }
}
