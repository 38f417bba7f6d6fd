//! One modelled nats-server: ingest queue, internal loop, out-queue and API around its streams.
//!
//! Leans on `stream`, `batch` and `net::disk`.

pub mod api;
pub mod message;

use std::collections::BTreeSet;

use crate::machine::{Machine, Sink, Time};
use crate::net::disk::Disk;
use crate::stream::subjects::Subjects;
use api::{ApiAnswer, ApiCall, ApiFailure, ApiRequest};
use message::{Fact, Publish, Reply, ReplyTo, SubjectId};

/// What the modelled server is like.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ServerModel {
    /// Highest API level: 5 on 2.15.
    pub api_level: u32,
    /// Flow shared by the fast batches of a stream.
    pub flow_total: u16,
    /// Idle time after which a batch is forgotten.
    pub batch_idle_timeout: Time,
    /// Most fast batches per stream.
    pub batches_per_stream: u32,
    /// Most fast batches per server.
    pub batches_per_server: u32,
    /// Most messages in the ingest queue.
    pub ingest_messages: u32,
    /// Most bytes in the ingest queue.
    pub ingest_bytes: u64,
    /// Loop time for each message.
    pub message_cost: Time,
    /// Loop time for each KiB of a message.
    pub kibibyte_cost: Time,
    /// Time of an API call.
    pub api_cost: Time,
    /// The disk under file stores.
    pub disk: Disk,
    /// Bugs switched on.
    pub defects: BTreeSet<ServerDefect>,
}

/// Bugs of the server half, for judges to find.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServerDefect {
    /// Acks a full flow interval before it is stored.
    AckBeforeStore,
    /// The PubAck counts one message too many.
    PubAckCountsOneMore,
    /// Each hundredth message of a batch is stored twice.
    StoreTwice,
    /// Every second flow ack only is sent.
    AckHalfAsOften,
}

/// What happens to the server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A message arrived on a connection.
    Publish(Publish),
    /// The driver's answer to [`Action::Choose`].
    Chosen(Source),
    /// An API call; [`Action::ApiReply`] answers it.
    Api {
        /// The answer goes there.
        to: ReplyTo,
        /// What is asked.
        request: Box<ApiRequest>,
    },
}

/// What the internal loop turns to next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Source {
    /// The ingest queue.
    Ingest,
    /// The out-queue.
    Out,
}

/// What the server wants done, and what became true in it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// A frame leaves for a client.
    Send {
        /// Where to.
        to: ReplyTo,
        /// What.
        reply: Reply,
    },
    /// The answer to an API call.
    ApiReply {
        /// Where to.
        to: ReplyTo,
        /// Which call it answers.
        call: ApiCall,
        /// What it achieved, or why not.
        answer: Result<ApiAnswer, ApiFailure>,
    },
    /// Ingest and out-queue are both ready: the driver draws which is served first.
    Choose,
    /// A fact for events.
    Fact(Fact),
}

/// One modelled server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Server {
    model: ServerModel,
    subjects: Subjects,
}

impl Server {
    /// A server without streams.
    pub fn new(model: ServerModel) -> Self {
        Self {
            model,
            subjects: Subjects::default(),
        }
    }

    /// The id of a subject, to publish to.
    pub fn intern(&mut self, subject: &str) -> SubjectId {
        self.subjects.intern(subject)
    }

    /// The text of a subject.
    pub fn subject(&self, subject: SubjectId) -> &str {
        self.subjects.text(subject)
    }

    /// The name of the stream that takes `subject`, if any: answers to it carry this name.
    pub fn stream_of(&self, _subject: SubjectId) -> Option<&str> {
        None
    }

    /// Does an API call at once, for setting a world up; facts go to `out`, the answer is returned.
    ///
    /// # Errors
    /// As the API refuses the call.
    pub fn call(
        &mut self,
        _now: Time,
        _request: &ApiRequest,
        _out: &mut dyn Sink<Action>,
    ) -> Result<ApiAnswer, ApiFailure> {
        Ok(ApiAnswer::Done)
    }
}

impl Machine for Server {
    type Input = Input;
    type Action = Action;

    fn step(&mut self, _now: Time, _input: Input, _out: &mut dyn Sink<Action>) {}

    fn due(&self) -> Time {
        Time::NEVER
    }

    fn wake(&mut self, _now: Time, _out: &mut dyn Sink<Action>) {}
}
impl Server {
    /// temp
    pub fn holds(&self, _c: message::ConnectionId) -> bool {
        false
    }
}
