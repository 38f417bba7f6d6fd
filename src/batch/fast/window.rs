//! The gate of a fast publisher: how far it may run ahead of the server's acks.
//!
//! Leans on the words of `nats`. ADR-50 [fast.flow.gate]: wait while
//! `acked + flow x outstanding acks <= sent`.

use crate::nats::BatchSequence;
use crate::nats::ack::FlowAck;

/// The newest ack, and what it allows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Window {
    acked: BatchSequence,
    flow: u16,
    outstanding_acks: u8,
}

impl Window {
    /// A window before the first ack: `flow` is the one asked for.
    pub const fn new(flow: u16, outstanding_acks: u8) -> Self {
        Self {
            acked: BatchSequence(0),
            flow,
            outstanding_acks,
        }
    }

    /// The highest batch sequence that an ack covers.
    pub const fn acked(&self) -> BatchSequence {
        self.acked
    }

    /// The flow in force.
    pub const fn flow(&self) -> u16 {
        self.flow
    }

    /// Whether the gate is open once `sent` messages are out.
    pub fn is_open_at(&self, sent: BatchSequence) -> bool {
        let room = u64::from(self.flow) * u64::from(self.outstanding_acks);
        self.acked.0.saturating_add(room) > sent.0
    }

    /// Takes an ack. A later ack covers earlier ones that were lost, so an older one changes
    /// nothing: neither the ack sequence nor the flow go back. A flow of 0 would shut the gate for
    /// good and is taken as 1.
    pub fn on_ack(&mut self, ack: FlowAck) {
        if ack.sequence >= self.acked {
            self.acked = ack.sequence;
            self.flow = ack.messages.max(1);
        }
    }

    /// Takes the flow of any ack, even of one whose sequence is older.
    pub fn on_any_ack(&mut self, ack: FlowAck) {
        self.acked = self.acked.max(ack.sequence);
        self.flow = ack.messages.max(1);
    }

    /// Counts everything up to `sequence` as dealt with, at the same flow.
    pub fn cover(&mut self, sequence: BatchSequence) {
        self.acked = self.acked.max(sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ack(sequence: u64, messages: u16) -> FlowAck {
        FlowAck {
            sequence: BatchSequence(sequence),
            messages,
        }
    }

    #[test]
    fn the_gate_shuts_at_equality() {
        let mut window = Window::new(10, 2);
        assert!(window.is_open_at(BatchSequence(19)));
        assert!(!window.is_open_at(BatchSequence(20)));
        window.on_ack(ack(10, 10));
        assert!(window.is_open_at(BatchSequence(29)));
        assert!(!window.is_open_at(BatchSequence(30)));
    }

    #[test]
    fn a_shrinking_flow_shuts_the_gate_over_what_is_out() {
        let mut window = Window::new(100, 2);
        window.on_ack(ack(100, 50));
        assert!(!window.is_open_at(BatchSequence(200)));
    }

    #[test]
    fn an_older_ack_changes_nothing() {
        let mut window = Window::new(100, 2);
        window.on_ack(ack(40, 10));
        window.on_ack(ack(30, 100));
        assert_eq!((window.acked(), window.flow()), (BatchSequence(40), 10));
    }

    #[test]
    fn an_older_ack_may_be_let_set_the_flow() {
        let mut window = Window::new(100, 2);
        window.on_any_ack(ack(40, 10));
        window.on_any_ack(ack(30, 100));
        assert_eq!((window.acked(), window.flow()), (BatchSequence(40), 100));
    }

    #[test]
    fn a_flow_of_zero_does_not_shut_the_gate_for_good() {
        let mut window = Window::new(100, 1);
        window.on_ack(ack(5, 0));
        assert!(window.is_open_at(BatchSequence(5)));
    }
}
