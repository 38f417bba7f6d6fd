//! What a fast publisher asks for, and how it behaves where clients differ.
//!
//! Leans on `machine` and the words of `nats`.

use crate::machine::Time;
use crate::nats::GapMode;

/// What a publisher asks for, and how it behaves where clients differ.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// Initial and highest flow, 1 or more.
    pub flow: u16,
    /// Flow acks that may be outstanding, 1..=3.
    pub outstanding_acks: u8,
    /// What a gap does.
    pub gap: GapMode,
    /// Longest wait for a reply.
    pub ack_timeout: Time,
    /// Behaviour where clients differ.
    pub profile: Profile,
}

/// Where clients differ. [`Profile::ADR`] is the rule of ADR-50.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Profile {
    /// Test the gate before the sequence is taken and the message sent, against the next sequence;
    /// commits wait at the gate too. The Rust client 0.3.0 does this.
    pub gate_before_publish: bool,
    /// Ping while waiting for the first reply. Not against 2.14, where such a ping opens a batch.
    pub ping_while_opening: bool,
    /// Ping while waiting for the PubAck of a commit.
    pub ping_while_committing: bool,
    /// Ping when nothing was sent for this long, so that the server keeps the batch.
    pub idle_ping: Option<Time>,
    /// In gap mode ok, a flow error counts as an ack of its sequence.
    pub errors_count_as_acks: bool,
    /// Bug switch: sends on when the gate is shut.
    pub ignores_gate: bool,
    /// Bug switch: waits without pings and deadline.
    pub waits_for_ever: bool,
}

impl Profile {
    /// The rule of ADR-50, revision 11.
    pub const ADR: Self = Self {
        gate_before_publish: false,
        ping_while_opening: true,
        ping_while_committing: true,
        idle_ping: None,
        errors_count_as_acks: false,
        ignores_gate: false,
        waits_for_ever: false,
    };
}
