//! One client: what it sent so far, what it asked for, and what waits to be written to it.
//!
//! Leans on the decoder of `nats::wire`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;

use super::CloseReason;
use crate::batch::message::{StreamNumber, SubjectId};
use crate::machine::Time;
use crate::nats::wire::{ClientFrame, Decoder, Limits, Token};

/// What a client said in its `CONNECT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ClientOptions {
    /// Each frame is answered by `+OK`.
    pub(super) verbose: bool,
    /// It wants to hear of subjects that are none to publish to.
    pub(super) pedantic: bool,
    /// The client hears its own messages.
    pub(super) echo: bool,
    /// It takes header blocks.
    pub(super) headers: bool,
    /// It wants to hear that nobody listens.
    pub(super) no_responders: bool,
}

/// One client.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    pub(super) decoder: Decoder<ClientFrame>,
    pub(super) output: BytesMut,
    /// Bytes handed to the driver and not written yet.
    pub(super) handed: usize,
    /// The driver knows that there is output.
    pub(super) is_ready: bool,
    pub(super) options: ClientOptions,
    /// By the client's id: our number of the subscription.
    pub(super) subscriptions: BTreeMap<Token, u64>,
    pub(super) subscription_bytes: usize,
    /// When bytes last came.
    pub(super) heard: Time,
    pub(super) pings_unanswered: u8,
    /// When the client is looked at for a ping.
    pub(super) due: Time,
    /// Where the subject of its last message led.
    pub(super) route: Option<Route>,
    /// Number of the reply prefix of its last fast message.
    pub(super) prefix: u32,
    /// It is to be closed, and nothing counts any more.
    pub(super) closed: Option<CloseReason>,
}

/// Where a subject leads, as long as streams and subscriptions stay.
#[derive(Clone, Debug)]
pub(super) struct Route {
    pub(super) subject: Token,
    /// Of the server's routing.
    pub(super) routing: u64,
    /// Of the subscriptions.
    pub(super) interest: u64,
    /// The subject is one to publish to. A wildcard leads somewhere all the same.
    pub(super) is_valid: bool,
    /// It has no empty token, with which it leads nowhere.
    pub(super) is_whole: bool,
    pub(super) stream: Option<StreamRoute>,
    pub(super) subscriptions: Arc<[u64]>,
}

/// The stream that takes a subject.
#[derive(Clone, Debug)]
pub(super) struct StreamRoute {
    pub(super) subject: SubjectId,
    pub(super) number: StreamNumber,
    pub(super) name: Arc<str>,
}

impl Connection {
    pub(super) fn new(limits: Limits, now: Time, due: Time) -> Self {
        Self {
            decoder: Decoder::new(limits),
            output: BytesMut::new(),
            handed: 0,
            is_ready: false,
            // As nats-server takes a client that has not said anything.
            options: ClientOptions {
                verbose: true,
                pedantic: true,
                echo: true,
                headers: false,
                no_responders: false,
            },
            subscriptions: BTreeMap::new(),
            subscription_bytes: 0,
            heard: now,
            pings_unanswered: 0,
            due,
            route: None,
            prefix: u32::MAX,
            closed: None,
        }
    }
}
