//! The JetStream errors that publishing meets, with code, number and text.
//!
//! Leans on nothing of ours. Texts are those that nats-server 2.15.1 sends.

use std::fmt;
use std::sync::Arc;

/// An error with the part of its text that changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ApiError {
    /// Which error.
    pub code: ErrorCode,
    /// What the running part of the description says.
    pub detail: Detail,
}

/// The running part of an error description.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Detail {
    /// The text is constant.
    #[default]
    None,
    /// A number, such as the last sequence.
    Number(u64),
    /// A text, such as the last message id.
    Text(Arc<str>),
}

impl From<ErrorCode> for ApiError {
    fn from(code: ErrorCode) -> Self {
        Self {
            code,
            detail: Detail::None,
        }
    }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $status:literal, $text:literal;)*) => {
        /// A JetStream error that a publisher, or the API calls around it, can meet.
        ///
        /// A `…` at the end of a text stands for the [`Detail`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// Every error of this list.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `err_code`: the number that names the error.
            pub const fn number(self) -> u16 {
                match self { $(Self::$name => $number,)* }
            }

            /// `code`: the HTTP-like status.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// The description, with `…` where the detail goes.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

error_codes! {
    /// The account has no room left.
    AccountLimits = 10002, 400, "resource limits exceeded for account";
    /// The request names a cluster operation on a single server.
    ClusterRequired = 10010, 503, "JetStream clustering support required";
    /// The server has no storage left.
    InsufficientResources = 10023, 503, "insufficient resources";
    /// A message with this sequence does not exist.
    NoMessageFound = 10037, 404, "no message found";
    /// Atomic batches and `persist_mode: async` exclude each other.
    AsyncPersistAtomic = 10052, 500, "async persist mode is not supported with atomic batch publish";
    /// Larger than the stream's `max_msg_size`.
    MessageTooBig = 10054, 400, "message size exceeds maximum allowed";
    /// No stream of this name.
    StreamNotFound = 10059, 404, "stream not found";
    /// `Nats-Expected-Stream` names another stream.
    ExpectedStream = 10060, 400, "expected stream does not match";
    /// `Nats-Expected-Last-Msg-Id` names another id.
    WrongLastMessageId = 10070, 400, "wrong last msg ID: …";
    /// An expected last sequence is not the one found.
    WrongLastSequence = 10071, 400, "wrong last sequence: …";
    /// A limit of a `discard: new` stream is reached; the detail says which.
    StoreFailed = 10077, 503, "…";
    /// Header block above 64 KiB.
    HeaderTooBig = 10097, 400, "header size exceeds maximum allowed of 64k";
    /// The stream is sealed.
    Sealed = 10109, 400, "invalid operation on sealed stream";
    /// A rollup header that the stream does not take; the detail says why.
    RollupFailed = 10111, 500, "…";
    /// The same message id is being stored right now.
    DuplicateInProcess = 10158, 409, "duplicate message id is in process";
    /// The expected sequence cannot be checked while writes are in flight.
    WrongLastSequenceConstant = 10164, 400, "wrong last sequence";
    /// `Nats-TTL` is malformed.
    InvalidTtl = 10165, 400, "invalid per-message TTL";
    /// The stream does not take `Nats-TTL`.
    TtlDisabled = 10166, 400, "per-message TTL is disabled";
    /// The ingest queue of the stream is full.
    TooManyRequests = 10167, 429, "too many requests";
    /// `Nats-Required-Api-Level` above what the server has, or no number.
    RequiredApiLevel = 10185, 412, "JetStream minimum api level required";
    /// An expected-subject header without its sequence.
    ExpectedSubjectMissing = 10193, 400, "missing sequence for expected last sequence per subject";
    /// A mirror cannot take atomic batches.
    MirrorAtomic = 10198, 400, "stream mirrors can not also use atomic publishing";
    /// The stream does not take fast batches.
    BatchDisabled = 10205, 400, "batch publish is disabled";
    /// The reply subject is no valid fast-ingest pattern.
    BatchPattern = 10206, 400, "batch publish pattern is invalid";
    /// The batch id is above 64 bytes.
    BatchId = 10207, 400, "batch publish ID is invalid";
    /// The server knows no such batch.
    BatchUnknown = 10208, 400, "batch publish ID unknown";
    /// A mirror cannot take fast batches.
    MirrorBatch = 10209, 400, "stream mirrors can not also use batch publishing";
    /// Too many fast batches in flight on the stream or the server.
    BatchInFlight = 10211, 429, "batch publish too many inflight";
}

impl ErrorCode {
    /// The error with this number, if it is in the list.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|code| code.number() == number)
    }
}

/// The description as the server words it.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code.text().split_once('…') {
            None => f.write_str(self.code.text()),
            Some((head, tail)) => match &self.detail {
                Detail::None => write!(f, "{head}{tail}"),
                Detail::Number(number) => write!(f, "{head}{number}{tail}"),
                Detail::Text(text) => write!(f, "{head}{text}{tail}"),
            },
        }
    }
}
