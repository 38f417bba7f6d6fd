//! The JetStream API of the modelled server, typed: calls and their answers.
//!
//! `api_json` and `api_print` translate from and to what clients send. Leans on `stream` and the
//! error codes of `nats`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::batch::message::{Payload, StreamNumber};
use crate::machine::Time;
use crate::nats::StreamSequence;
use crate::nats::header::Headers;
use crate::stream::config::StreamConfig;
pub use crate::stream::failure::ApiFailure;
pub use crate::stream::purge::Purge;

/// The calls that the model knows, without their arguments.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ApiCall {
    /// Account information.
    Account,
    /// Names of streams.
    Names,
    /// Information on all streams.
    List,
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
    /// Removal of a peer from a stream.
    PeerRemove,
    /// Backup of a stream.
    Snapshot,
    /// Restoring of a stream.
    Restore,
    /// Consumer creation.
    ConsumerCreate,
    /// Consumer deletion.
    ConsumerDelete,
    /// Consumer information.
    ConsumerInfo,
    /// Names of consumers.
    ConsumerNames,
    /// Information on all consumers.
    ConsumerList,
}

/// A call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ApiRequest {
    /// What the account uses, and its limits.
    Account,
    /// Names of streams, some hundred at a time.
    Names(Page),
    /// Information on streams, some hundred at a time.
    List(Page),
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
        /// What else is told.
        details: InfoDetails,
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
        which: Which,
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
    /// A call that the model answers for an existing stream without doing anything: what concerns
    /// peers, backups and consumers.
    Other {
        /// Name of the stream.
        stream: String,
        /// Which call.
        call: ApiCall,
    },
}

/// Which part of a list is wanted.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Page {
    /// Only streams with a subject that overlaps this one.
    pub subject: Option<String>,
    /// So many are left out at the front.
    pub offset: u64,
}

/// What information on a stream tells beyond configuration and state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct InfoDetails {
    /// Messages of each subject that this filter takes.
    pub subjects_filter: Option<String>,
    /// So many of those subjects are left out at the front.
    pub offset: u64,
    /// The sequences that are missing.
    pub deleted: bool,
}

/// Which message is read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Which {
    /// The one with this sequence.
    At(StreamSequence),
    /// The last whose subject matches.
    Last(String),
    /// The first at or after a sequence whose subject matches.
    Next(StreamSequence, String),
}

/// What a call achieved.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ApiAnswer {
    /// What the account uses.
    Account(AccountInfo),
    /// Names of streams, and how many there are in all.
    Names(Vec<Arc<str>>, Listed),
    /// Streams, and how many there are in all.
    List(Vec<StreamInfo>, Listed),
    /// The stream as it is now: update and info; and create, unless it is there already.
    Stream(Box<StreamInfo>),
    /// A stream of the same name and configuration was there already.
    Existing(Box<StreamInfo>),
    /// It is done: delete, message delete.
    Done,
    /// So many messages were purged.
    Purged(u64),
    /// One message.
    Message(Box<StoredMessage>),
    /// A list of consumers, which has none.
    NoConsumers,
}

/// Which part of a list this is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Listed {
    /// Entries in all.
    pub total: u64,
    /// So many were left out at the front.
    pub offset: u64,
    /// Most entries of one answer.
    pub limit: u64,
}

/// What the account uses. It has no limits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct AccountInfo {
    /// Bytes of streams in memory.
    pub memory_bytes: u64,
    /// Bytes of streams in files.
    pub storage_bytes: u64,
    /// Streams.
    pub streams: u64,
    /// Highest API level of the server.
    pub api_level: u32,
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
    /// Which they are, if that was asked.
    pub deleted_sequences: Vec<StreamSequence>,
    /// Subjects with messages.
    pub subjects: u64,
    /// Messages by subject, if that was asked, and how many such subjects there are in all.
    pub subject_counts: Option<(BTreeMap<String, u64>, Listed)>,
    /// When this was true.
    pub at: Time,
}

/// A message as it is kept.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StoredMessage {
    /// Its stream.
    pub stream: StreamNumber,
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
    /// The name of the stream that it is about, if it is about one.
    pub fn stream(&self) -> Option<&str> {
        match self {
            Self::Account | Self::Names(_) | Self::List(_) => None,
            Self::Create(config) | Self::Update(config) => Some(&config.name),
            Self::Delete { stream }
            | Self::Info { stream, .. }
            | Self::Purge { stream, .. }
            | Self::MessageGet { stream, .. }
            | Self::MessageDelete { stream, .. }
            | Self::StepDown { stream }
            | Self::Other { stream, .. } => Some(stream),
        }
    }

    /// Which call it is.
    pub const fn call(&self) -> ApiCall {
        match self {
            Self::Account => ApiCall::Account,
            Self::Names(_) => ApiCall::Names,
            Self::List(_) => ApiCall::List,
            Self::Create(_) => ApiCall::Create,
            Self::Update(_) => ApiCall::Update,
            Self::Delete { .. } => ApiCall::Delete,
            Self::Info { .. } => ApiCall::Info,
            Self::Purge { .. } => ApiCall::Purge,
            Self::MessageGet { .. } => ApiCall::MessageGet,
            Self::MessageDelete { .. } => ApiCall::MessageDelete,
            Self::StepDown { .. } => ApiCall::StepDown,
            Self::Other { call, .. } => *call,
        }
    }
}
