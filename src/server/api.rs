//! The JetStream API of the modelled server, typed: stream and message calls and their answers.
//!
//! `api_json` translates from and to what clients send. Leans on `stream` and the error codes of
//! `nats`.

use std::sync::Arc;

use crate::batch::message::Payload;
use crate::machine::Time;
use crate::nats::StreamSequence;
use crate::nats::header::Headers;
use crate::stream::config::StreamConfig;
pub use crate::stream::failure::ApiFailure;
pub use crate::stream::purge::Purge;

/// The calls that the model knows, without their arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ApiCall {
    /// Stream creation.
    Create,
    /// Stream update.
    Update,
    /// Stream deletion.
    Delete,
    /// Stream information.
    Info,
    /// Stream purge.
    Purge,
    /// Read of one message.
    MessageGet,
    /// Deletion of one message.
    MessageDelete,
    /// Leader step-down.
    StepDown,
}

/// A call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ApiRequest {
    /// Creates a stream.
    Create(StreamConfig),
    /// Puts a whole configuration in place of the current one.
    Update(StreamConfig),
    /// Deletes a stream.
    Delete {
        /// Name of the stream.
        stream: String,
    },
    /// Tells configuration and state of a stream.
    Info {
        /// Name of the stream.
        stream: String,
    },
    /// Removes messages.
    Purge {
        /// Name of the stream.
        stream: String,
        /// What goes.
        purge: Purge,
    },
    /// Reads one message.
    MessageGet {
        /// Name of the stream.
        stream: String,
        /// Which message.
        sequence: StreamSequence,
    },
    /// Removes one message.
    MessageDelete {
        /// Name of the stream.
        stream: String,
        /// Which message.
        sequence: StreamSequence,
    },
    /// Asks the leader of a stream to step down: a cluster operation, refused by a single server.
    StepDown {
        /// Name of the stream.
        stream: String,
    },
}

/// What a call achieved.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ApiAnswer {
    /// The stream as it is now: create, update and info.
    Stream(Box<StreamInfo>),
    /// It is done: delete, message delete.
    Done,
    /// So many messages were purged.
    Purged(u64),
    /// One message.
    Message(Box<StoredMessage>),
}

/// Configuration and state of a stream.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StreamInfo {
    /// Configuration, with the server's defaults and metadata.
    pub config: StreamConfig,
    /// When it was created.
    pub created: Time,
    /// Messages kept.
    pub messages: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// First sequence; 0 on a stream never written, last + 1 on one that is empty again.
    pub first: StreamSequence,
    /// When the first message was stored, roughly; `None` without messages.
    pub first_at: Option<Time>,
    /// Last sequence given out.
    pub last: StreamSequence,
    /// When the last message was stored; `None` if none ever was.
    pub last_at: Option<Time>,
    /// Sequences missing between first and last.
    pub deleted: u64,
    /// Subjects with messages.
    pub subjects: u64,
    /// When this was true.
    pub at: Time,
}

/// A message as it is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StoredMessage {
    /// Subject.
    pub subject: Arc<str>,
    /// Sequence.
    pub sequence: StreamSequence,
    /// Headers, if there are any.
    pub headers: Option<Arc<Headers>>,
    /// Payload.
    pub payload: Payload,
    /// When it was stored, roughly.
    pub at: Time,
}

impl ApiRequest {
    /// Which call it is.
    pub const fn call(&self) -> ApiCall {
        match self {
            Self::Create(_) => ApiCall::Create,
            Self::Update(_) => ApiCall::Update,
            Self::Delete { .. } => ApiCall::Delete,
            Self::Info { .. } => ApiCall::Info,
            Self::Purge { .. } => ApiCall::Purge,
            Self::MessageGet { .. } => ApiCall::MessageGet,
            Self::MessageDelete { .. } => ApiCall::MessageDelete,
            Self::StepDown { .. } => ApiCall::StepDown,
        }
    }
}
