//! `[[faults]]`: what goes wrong, where and when. Simulator only.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// One fault. `action` decides which other keys it takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What happens.
    pub action: FaultAction,
    /// Where it happens; not for faults that have `from`.
    #[serde(default)]
    pub place: FaultPlace,
    /// Which frames are meant; not for faults that have `from`.
    pub frame: Option<FrameKind>,
    /// The publisher whose frames are meant, from 0; absent: each publisher, counted apart.
    #[schemars(range(min = 0, max = 99_999))]
    pub publisher: Option<u32>,
    /// The n-th such frame, from 1; absent: the first. Not for faults that have
    /// `from`.
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_u64))]
    pub nth: Option<u64>,
    /// So many frames from the n-th on; not for faults that have `from`.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_u64))]
    pub count: u64,
    /// How much later a delayed frame (and with it the lane behind it) arrives; for a duplicate,
    /// how much later the copy does.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub delay: Option<Span>,
    /// When the link goes down or the leader steps down; for `cut`, `hold` and `step-down`, which
    /// need this, and for nothing else.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub from: Option<Span>,
    /// When the link is back, after `from`; for `cut`, where absent means never, and for `hold`,
    /// which needs this.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub until: Option<Span>,
}

const fn one() -> u64 {
    1
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultAction {
    /// The frame is lost.
    Drop,
    /// The frame is late, and everything behind it on the same connection.
    Delay,
    /// The frame arrives twice.
    Duplicate,
    /// Nothing passes the link between a publisher and the server, in either direction, from
    /// `from` until `until`: what is sent then, or is under way, is lost.
    Cut,
    /// As a cut, but what is sent, or is under way, waits until the end: a living TCP connection
    /// over a route that is down.
    Hold,
    /// The leader of the stream steps down at `from` and hands over, as an operator asks it to.
    StepDown,
}

/// Where a fault acts. A frame lost at the server's output or on the route is *synthetic*: a living
/// TCP connection loses nothing. A cut is *realistic*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FaultPlace {
    /// As the frame leaves its sender's process (the server for replies, the client for publishes).
    #[default]
    Output,
    /// Between client and server.
    Route,
}

/// A kind of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FrameKind {
    /// A message with operation start, append or commit.
    Message,
    /// An end of batch.
    Eob,
    /// A ping.
    Ping,
    /// A flow ack.
    FlowAck,
    /// A gap.
    Gap,
    /// A flow error.
    FlowError,
    /// A PubAck, error or not.
    PubAck,
}
