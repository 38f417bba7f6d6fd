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

/// Where clients differ. [`Profile::ADR`] is the rule of ADR-50, [`Profile::JETSTREAM_EXTRA`] what one
/// of them does.
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
    /// Shortest time between two pings of a wait.
    pub ping_interval_min: Time,
    /// The flow of an ack is taken even if its sequence is an older one.
    pub any_ack_sets_flow: bool,
    /// The batch ends by the error of a call, as the Rust client's does:
    ///
    /// - trouble (a gap or a flow error in gap mode fail, a refusal) ends a wait at once, without the
    ///   PubAck that the server may owe; otherwise it ends the next offer, and a commit is not sent
    ///   but waits for the PubAck without pings;
    /// - a PubAck before the commit is kept until the commit is sent, and passes for its answer;
    /// - a bare status is a frame that cannot be read;
    /// - a ping before the first message is an error, since nothing says where to send it.
    pub ends_in_calls: bool,
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
        ping_interval_min: Time::ZERO,
        any_ack_sets_flow: false,
        ends_in_calls: false,
        ignores_gate: false,
        waits_for_ever: false,
    };

    /// What the Rust client, `jetstream-extra` 0.3.0, does on the wire. `tests/lanes_random.rs`
    /// compares it with the crate.
    pub const JETSTREAM_EXTRA: Self = Self {
        gate_before_publish: true,
        ping_while_opening: false,
        ping_while_committing: false,
        ping_interval_min: Time::from_millis(100),
        any_ack_sets_flow: true,
        ends_in_calls: true,
        ..Self::ADR
    };
}
