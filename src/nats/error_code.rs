//! The JetStream errors that publishing meets, with status, number and text, both ways.
//!
//! Leans on nothing of ours. Texts are those that nats-server 2.15.1 sends; a text with a running
//! part is matched back into it.

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

/// Where the detail goes in a text.
const RUNNING_PART: char = '…';

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
    /// The group that would answer has no leader.
    SystemUnavailable = 10008, 503, "JetStream system temporarily unavailable";
    /// The request names a cluster operation on a single server.
    ClusterRequired = 10010, 503, "JetStream clustering support required";
    /// The server has no storage left.
    InsufficientResources = 10023, 503, "insufficient resources";
    /// A request that is no JSON; the detail says where.
    InvalidJson = 10025, 400, "invalid JSON: …";
    /// A message with this sequence does not exist.
    NoMessageFound = 10037, 404, "no message found";
    /// A message to delete does not exist; the detail is its sequence.
    SequenceNotFound = 10043, 400, "sequence … not found";
    /// Atomic batches and `persist_mode: async` exclude each other.
    AsyncPersistAtomic = 10052, 500, "async persist mode is not supported with atomic batch publish";
    /// A stream configuration that is refused; the detail says why.
    InvalidConfiguration = 10052, 500, "…";
    /// Larger than the stream's `max_msg_size`.
    MessageTooBig = 10054, 400, "message size exceeds maximum allowed";
    /// A stream of this name exists, with another configuration.
    StreamNameInUse = 10058, 400, "stream name already in use with a different configuration";
    /// No stream of this name.
    StreamNotFound = 10059, 404, "stream not found";
    /// `Nats-Expected-Stream` names another stream.
    ExpectedStream = 10060, 400, "expected stream does not match";
    /// Another stream takes some of the subjects.
    SubjectsOverlap = 10065, 400, "subjects overlap with an existing stream";
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
    /// The stream does not take atomic batches.
    AtomicDisabled = 10174, 400, "atomic publish is disabled";
    /// An atomic batch without a sequence that is a number.
    AtomicSequenceMissing = 10175, 400, "atomic publish sequence is missing";
    /// Messages of the atomic batch are missing, or the server knows no such batch.
    AtomicIncomplete = 10176, 400, "atomic publish batch is incomplete";
    /// A header that an atomic batch cannot have; the detail is its name.
    AtomicHeader = 10177, 400, "atomic publish unsupported header used: …";
    /// The id of the atomic batch is above 64 bytes.
    AtomicId = 10179, 400, "atomic publish batch ID is invalid";
    /// `Nats-Required-Api-Level` above what the server has, or no number.
    RequiredApiLevel = 10185, 412, "JetStream minimum api level required";
    /// An expected-subject header without its sequence.
    ExpectedSubjectMissing = 10193, 400, "missing sequence for expected last sequence per subject";
    /// A mirror cannot take atomic batches.
    MirrorAtomic = 10198, 400, "stream mirrors can not also use atomic publishing";
    /// The atomic batch is larger than the server allows; the detail is the limit.
    AtomicTooLarge = 10199, 400, "atomic publish batch is too large: …";
    /// The commit header of the atomic batch is neither `1` nor `eob`.
    AtomicCommit = 10200, 400, "atomic publish batch commit is invalid";
    /// A message id of the atomic batch comes twice, or is stored already.
    AtomicDuplicate = 10201, 400, "atomic publish batch contains duplicate message id";
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
    /// Too many atomic batches in flight on the stream or the server.
    AtomicInFlight = 10210, 429, "atomic publish too many inflight";
    /// Too many fast batches in flight on the stream or the server.
    BatchInFlight = 10211, 429, "batch publish too many inflight";
}

impl ErrorCode {
    /// The error with this number, if it is in the list. 10052 stands for two: the first is given.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::with_number(number).next()
    }

    fn with_number(number: u16) -> impl Iterator<Item = Self> {
        Self::ALL
            .iter()
            .copied()
            .filter(move |code| code.number() == number)
    }

    /// Whether the running part of the text is a number.
    const fn has_number(self) -> bool {
        matches!(
            self,
            Self::SequenceNotFound | Self::WrongLastSequence | Self::AtomicTooLarge
        )
    }

    /// What `description` says in the place of the running part; `None` if it is not this text.
    fn detail_of(self, description: &str) -> Option<Detail> {
        let Some((head, tail)) = self.text().split_once(RUNNING_PART) else {
            return (description == self.text()).then_some(Detail::None);
        };
        let detail = description.strip_prefix(head)?.strip_suffix(tail)?;
        if !self.has_number() {
            return Some(Detail::Text(detail.into()));
        }
        let number: u64 = detail.parse().ok()?;
        // A number in another spelling would not be printed again as it came.
        (number.to_string() == detail).then_some(Detail::Number(number))
    }
}

impl ApiError {
    /// An error whose text has a running part.
    pub const fn new(code: ErrorCode, detail: Detail) -> Self {
        Self { code, detail }
    }

    /// The error with this `err_code`, `code` and `description`.
    ///
    /// `None` unless all three are as this list has them, so that what is found prints the same
    /// again.
    pub fn from_parts(number: u16, status: u16, description: &str) -> Option<Self> {
        ErrorCode::with_number(number)
            .filter(|code| code.status() == status)
            .find_map(|code| Some(Self::new(code, code.detail_of(description)?)))
    }
}

/// The description as the server words it.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((head, tail)) = self.code.text().split_once(RUNNING_PART) else {
            return f.write_str(self.code.text());
        };
        match &self.detail {
            Detail::None => write!(f, "{head}{tail}"),
            Detail::Number(number) => write!(f, "{head}{number}{tail}"),
            Detail::Text(text) => write!(f, "{head}{text}{tail}"),
        }
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_found_again() {
        assert!(ErrorCode::ALL.is_sorted_by_key(|code| code.number()));
        for &code in ErrorCode::ALL {
            let found = ErrorCode::from_number(code.number()).unwrap();
            assert_eq!(found.number(), code.number());
            assert_eq!(found == code, code != ErrorCode::InvalidConfiguration);
        }
        assert_eq!(ErrorCode::from_number(1), None);
    }

    #[test]
    fn every_text_is_printed_and_read_back() {
        for &code in ErrorCode::ALL {
            let detail = if !code.text().contains(RUNNING_PART) {
                Detail::None
            } else if code.has_number() {
                Detail::Number(7)
            } else {
                Detail::Text("why \"…\": a.b".into())
            };
            let error = ApiError::new(code, detail);
            let printed = error.to_string();
            assert_eq!(
                ApiError::from_parts(code.number(), code.status(), &printed),
                Some(error),
                "{printed}"
            );
        }
    }

    #[test]
    fn the_running_part_stands_in_its_place() {
        for (code, detail, printed) in [
            (
                ErrorCode::BatchUnknown,
                Detail::None,
                "batch publish ID unknown",
            ),
            (
                ErrorCode::WrongLastSequence,
                Detail::Number(2),
                "wrong last sequence: 2",
            ),
            (
                ErrorCode::WrongLastSequenceConstant,
                Detail::None,
                "wrong last sequence",
            ),
            (
                ErrorCode::WrongLastMessageId,
                Detail::Text("".into()),
                "wrong last msg ID: ",
            ),
            (
                ErrorCode::WrongLastMessageId,
                Detail::Text("m 1".into()),
                "wrong last msg ID: m 1",
            ),
            (ErrorCode::StoreFailed, Detail::Text("no".into()), "no"),
            (
                ErrorCode::SequenceNotFound,
                Detail::Number(99),
                "sequence 99 not found",
            ),
            (
                ErrorCode::AsyncPersistAtomic,
                Detail::None,
                "async persist mode is not supported with atomic batch publish",
            ),
            (
                ErrorCode::InvalidConfiguration,
                Detail::Text("no".into()),
                "no",
            ),
        ] {
            let error = ApiError::new(code, detail);
            assert_eq!(error.to_string(), printed);
            let read = ApiError::from_parts(code.number(), code.status(), printed);
            assert_eq!(read, Some(error));
        }
    }

    #[test]
    fn what_the_list_does_not_have_is_left_to_the_caller() {
        for (number, status, description) in [
            (1, 400, "batch publish ID unknown"),
            (10_208, 503, "batch publish ID unknown"),
            (10_208, 400, "batch publish id unknown"),
            (10_208, 400, ""),
            (10_071, 400, "wrong last sequence: many"),
            (10_071, 400, "wrong last sequence: 007"),
            (10_071, 400, "wrong last sequence: +7"),
            (10_071, 400, "wrong last sequence: 18446744073709551616"),
            (10_071, 400, "wrong last sequence"),
        ] {
            assert_eq!(ApiError::from_parts(number, status, description), None);
        }
    }
}
