//! Which event means what to the [`Recorder`].
//!
//! Leans on `event` and its siblings in `measure`.

use super::in_flight::Message;
use super::{Recorder, latency_histogram};
use crate::event::{Event, Observer};
use crate::machine::Time;
use crate::nats::Operation;

impl Observer for Recorder {
    fn see(&mut self, at: Time, event: &Event) {
        match *event {
            Event::Published {
                batch,
                operation,
                bytes,
                sequence,
                intended,
            } => {
                if operation.stores() {
                    let message = Message {
                        sent: at.as_nanos(),
                        intended: intended.as_nanos().min(at.as_nanos()),
                        sequence: u32::try_from(sequence.0).unwrap_or(u32::MAX),
                        bytes,
                    };
                    self.publish(at, batch, message);
                }
                self.totals.pings += u64::from(operation == Operation::Ping);
            }
            Event::Stored {
                batch, sequence, ..
            } => self.store(batch, sequence.0),
            Event::AckSeen {
                batch,
                flow,
                sequence,
            } => {
                self.totals.flow_acks += 1;
                self.flow(at, batch, flow);
                self.credit(at, batch, sequence);
            }
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
            Event::BatchOpened { .. }
            | Event::BatchForgotten { .. }
            | Event::Deduplicated { .. }
            | Event::Dropped { .. } => self.see_server(event),
            Event::Fault { fault } => self.fault(at, fault),
            Event::ApiAnswered {
                operation, latency, ..
            } => self
                .api
                .entry(operation)
                .or_insert_with(latency_histogram)
                .saturating_record(latency.as_nanos()),
            Event::Withheld { messages, .. } => self.withheld += messages,
            // What the server sends is counted when it is seen; judges compare the two.
            Event::PublisherDone { .. }
            | Event::ControlReceived { .. }
            | Event::AtRest { .. }
            | Event::Healed { .. }
            | Event::Rejected { .. }
            | Event::AckSent { .. }
            | Event::GapSent { .. }
            | Event::ErrorSent { .. }
            | Event::PubAckSent { .. }
            | Event::RefusalSent { .. } => {}
        }
    }
}

impl Recorder {
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

    fn see_server(&mut self, event: &Event) {
        if let Event::BatchOpened { batch, .. } = *event
            && let Some(batch) = self.batches.get_mut(batch)
        {
            batch.open_at_server = true;
        }
        if let Event::BatchForgotten { batch: number, .. } = *event {
            if let Some(batch) = self.batches.get_mut(number) {
                batch.open_at_server = false;
            }
            self.forget_if_over(number);
        }
        self.deduplicated += u64::from(matches!(event, Event::Deduplicated { .. }));
        if let Event::Dropped { cause, .. } = *event {
            self.dropped[cause as usize] += 1;
        }
    }
}
