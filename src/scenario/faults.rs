//! `[[faults]]`: what goes wrong, where and when. `worlds` says which of it a live run can do.
//!
//! Leans on `units`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{BitRate, Span};

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
    /// how much later the copy does; for `slow`, `slow-routes` and `slow-disk`, how much longer each message
    /// or write takes.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub delay: Option<Span>,
    /// Most that a link or a route carries, each way; for `limit` and `limit-routes`, which need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1kbit/s", "x-maximum" = "1000Gbit/s"))]
    pub bandwidth: Option<BitRate>,
    /// When it begins; for faults of links and servers, which need this, and for nothing else.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub from: Option<Span>,
    /// When it ends, after `from`; for faults of links and servers that last. `hold`, `freeze`,
    /// `restart`, `hold-routes` and `hold-disk` need this; for the others absent means never.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub until: Option<Span>,
    /// How long each server is down; for `rolling-restart`, which needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub down_for: Option<Span>,
    /// Which server, by what it is when the fault begins; for faults of servers. Absent, and without
    /// `server`: the leader.
    pub role: Option<ServerRole>,
    /// Which server, by number from 0; for faults of servers.
    #[schemars(range(min = 0, max = 63))]
    pub server: Option<u8>,
    /// The server at the other end of the route, by number from 0; for faults of routes. Absent: all
    /// others.
    #[schemars(range(min = 0, max = 63))]
    pub peer: Option<u8>,
    /// Which way; for faults of routes.
    #[serde(default)]
    pub way: RouteWay,
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
    /// What is sent on the link between a publisher and the server takes `delay` longer, each way.
    Slow,
    /// The link between a publisher and the server carries no more than `bandwidth`, each way.
    Limit,
    /// The leader of the stream steps down at `from` and hands over, as an operator asks it to.
    StepDown,
    /// The process of a server ends at once, and starts again at `until`.
    Kill,
    /// The process of a server is asked to end: it hands over what it leads, ends, and starts again
    /// at `until`.
    Restart,
    /// Each server in turn, by number, is restarted as by `restart`, is down for `down_for`, and the
    /// next one follows when all are up and every replica has caught up.
    RollingRestart,
    /// The machine of a server loses power: what its disk had not synced is gone when it starts
    /// again at `until`.
    PowerLoss,
    /// A server stands still, its connections open.
    Freeze,
    /// The routes of a server are down: what is under way on them or sent then is lost.
    CutRoutes,
    /// The same, but it waits until the end.
    HoldRoutes,
    /// What travels on the routes of a server is late by `delay`.
    SlowRoutes,
    /// Each route of a server carries no more than `bandwidth`, each way.
    LimitRoutes,
    /// Each write of a server's disk takes `delay` longer.
    SlowDisk,
    /// No write of a server's disk ends before the end.
    HoldDisk,
}

impl FaultAction {
    /// Whether it befalls a server, its disk or its routes.
    pub const fn is_of_server(self) -> bool {
        match self {
            Self::Drop
            | Self::Delay
            | Self::Duplicate
            | Self::Cut
            | Self::Hold
            | Self::Slow
            | Self::Limit
            | Self::StepDown
            | Self::RollingRestart => false,
            Self::Kill
            | Self::Restart
            | Self::PowerLoss
            | Self::Freeze
            | Self::CutRoutes
            | Self::HoldRoutes
            | Self::SlowRoutes
            | Self::LimitRoutes
            | Self::SlowDisk
            | Self::HoldDisk => true,
        }
    }

    /// Whether it ends processes of servers, or what is in the memory of their machines.
    pub const fn ends_servers(self) -> bool {
        matches!(
            self,
            Self::Kill | Self::Restart | Self::RollingRestart | Self::PowerLoss
        )
    }

    /// Whether it befalls links between publishers and servers.
    pub const fn is_of_links(self) -> bool {
        matches!(self, Self::Cut | Self::Hold | Self::Slow | Self::Limit)
    }

    /// Whether a live run makes it, at least on servers of its own.
    pub const fn is_made_live(self) -> bool {
        match self {
            Self::Cut
            | Self::Hold
            | Self::Slow
            | Self::Limit
            | Self::StepDown
            | Self::Kill
            | Self::Restart
            | Self::RollingRestart
            | Self::Freeze
            | Self::CutRoutes
            | Self::HoldRoutes
            | Self::SlowRoutes
            | Self::LimitRoutes => true,
            Self::Drop
            | Self::Delay
            | Self::Duplicate
            | Self::PowerLoss
            | Self::SlowDisk
            | Self::HoldDisk => false,
        }
    }

    /// Whether it befalls routes between servers.
    pub const fn is_of_routes(self) -> bool {
        matches!(
            self,
            Self::CutRoutes | Self::HoldRoutes | Self::SlowRoutes | Self::LimitRoutes
        )
    }

    /// Its word in a file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Drop => "drop",
            Self::Delay => "delay",
            Self::Duplicate => "duplicate",
            Self::Cut => "cut",
            Self::Hold => "hold",
            Self::Slow => "slow",
            Self::Limit => "limit",
            Self::StepDown => "step-down",
            Self::Kill => "kill",
            Self::Restart => "restart",
            Self::RollingRestart => "rolling-restart",
            Self::PowerLoss => "power-loss",
            Self::Freeze => "freeze",
            Self::CutRoutes => "cut-routes",
            Self::HoldRoutes => "hold-routes",
            Self::SlowRoutes => "slow-routes",
            Self::LimitRoutes => "limit-routes",
            Self::SlowDisk => "slow-disk",
            Self::HoldDisk => "hold-disk",
        }
    }
}

/// A server by what it is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ServerRole {
    /// The one that leads the stream; nothing happens while none does.
    Leader,
    /// The first that does not.
    Follower,
}

/// A direction of the routes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteWay {
    /// In both directions.
    #[default]
    Both,
    /// What goes to the server.
    In,
    /// What comes from it.
    Out,
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
