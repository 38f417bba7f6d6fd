//! The NATS client protocol as bytes: frames of both directions, decoded from any split of the
//! stream and encoded back.
//!
//! Leans on `bytes` only. JSON and header blocks are handed out as they stand; what they say is
//! the business of others.

mod decode;
mod frame;

pub use decode::{Decoder, Direction};
pub use frame::{ClientFrame, Message, Publish, ServerFrame, put_decimal};

use std::fmt;

use bytes::Bytes;

use super::MAX_PAYLOAD_BYTES;

/// How much of a peer's bytes a [`Decoder`] takes before it calls them an error.
///
/// They bound its memory: between two frames it keeps no more than one unfinished frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most bytes of arguments on a control line; nats-server's default is 4096.
    pub control_line_bytes: usize,
    /// Most bytes of an `INFO` line, which grows with the size of a cluster.
    pub info_line_bytes: usize,
    /// Most bytes of header block and payload together; nats-server's default is 1 MiB.
    pub payload_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            control_line_bytes: 4_096,
            info_line_bytes: 1 << 20,
            payload_bytes: MAX_PAYLOAD_BYTES,
        }
    }
}

/// What was wrong with a peer's bytes. The stream cannot be followed after any of them: the
/// [`Decoder`] repeats the error from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The line starts with no verb of this direction.
    UnknownVerb,
    /// More arguments than [`Limits`] allow, or as many bytes without an end of line.
    LineTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Too few or too many arguments.
    ArgumentCount {
        /// The verb, in capitals.
        verb: &'static str,
    },
    /// A size that is not one to nine digits.
    BadSize {
        /// The verb, in capitals.
        verb: &'static str,
    },
    /// A header size above the total size.
    HeaderAboveTotal,
    /// A payload above [`Limits::payload_bytes`].
    PayloadTooLarge {
        /// Announced bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A payload without CRLF behind it.
    PayloadEnd,
    /// Arguments that are no UTF-8.
    NotText,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownVerb => f.write_str("unknown protocol operation"),
            Self::LineTooLong { limit } => write!(f, "control line above {limit} bytes"),
            Self::ArgumentCount { verb } => write!(f, "{verb}: wrong number of arguments"),
            Self::BadSize { verb } => write!(f, "{verb}: bad or missing size"),
            Self::HeaderAboveTotal => f.write_str("header size above the total size"),
            Self::PayloadTooLarge { bytes, limit } => {
                write!(f, "payload of {bytes} bytes, above {limit}")
            }
            Self::PayloadEnd => f.write_str("payload not followed by CRLF"),
            Self::NotText => f.write_str("control line is not UTF-8"),
        }
    }
}

impl std::error::Error for WireError {}

/// Bytes between the arguments of a control line.
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// One argument of a control line, such as a subject: UTF-8, not empty, without blanks.
///
/// Shares memory with the bytes it was decoded from.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(Bytes);

impl Token {
    /// `text` as an argument; `None` if it is empty or has blanks or line ends.
    pub fn new(text: &str) -> Option<Self> {
        Self::is_valid(text).then(|| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn is_valid(text: &str) -> bool {
        !text.is_empty() && !text.bytes().any(is_blank)
    }

    /// Bytes already known to be such a text.
    const fn from_checked(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Checked when it was made; the check is repeated because unsafe code is not allowed here.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Compares like the bytes: a map by tokens can be asked with bytes.
impl std::borrow::Borrow<[u8]> for Token {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

/// The rest of a control line behind its verb: UTF-8 on one line, without blanks at its ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(Bytes);

impl Line {
    /// `text` without the blanks at its ends; `None` if it has a line end inside.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim_matches(|c: char| u8::try_from(c).is_ok_and(is_blank));
        (!text.bytes().any(|byte| byte == b'\r' || byte == b'\n'))
            .then(|| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Nothing.
    pub const fn empty() -> Self {
        Self(Bytes::new())
    }

    /// Bytes already known to be such a text.
    const fn from_checked(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
