//! Reading what a server answered: which of the answers it is, by its content.
//!
//! Unknown fields, any order of fields and any white space are fine. What is missing or of the
//! wrong kind is an error that names the field; nothing that a peer sends panics or recurses without
//! bound, and only texts with escapes are copied. Leans on `ack` and `error_code`.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{FlowAck, Gap, PubAck};
use crate::nats::error_code::ApiError;
use crate::nats::{BatchSequence, StreamSequence};

/// An answer of a server, told apart by its content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerReply<'a> {
    /// `{"type":"ack"}`.
    Ack(FlowAck),
    /// `{"type":"gap"}`.
    Gap(Gap),
    /// `{"type":"err"}`.
    Error(FlowErrorReply<'a>),
    /// No type and no error: the end of a batch, or a plain publish that is stored.
    PubAck(PubAckReply<'a>),
    /// No type and an error: the message, and mostly the batch, is refused.
    Refused(ReportedError<'a>),
}

/// A flow error as received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowErrorReply<'a> {
    /// Batch sequence of the refused message.
    pub sequence: BatchSequence,
    /// Why it was refused.
    pub error: ReportedError<'a>,
}

/// A PubAck as received, with its names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PubAckReply<'a> {
    /// How far it came. Its count may be missing though a batch is named.
    pub ack: PubAck,
    /// The stream that stored the message.
    pub stream: Cow<'a, str>,
    /// The JetStream domain of the server.
    pub domain: Option<Cow<'a, str>>,
    /// The batch id; `None` for a plain publish.
    pub batch: Option<Cow<'a, str>>,
}

/// An error as a server reported it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReportedError<'a> {
    /// One of our list: number, status and text are as there.
    Known(ApiError),
    /// Another one.
    Unknown {
        /// `err_code`.
        number: u16,
        /// `code`.
        status: u16,
        /// `description`; empty if there was none.
        description: Cow<'a, str>,
    },
}

impl ReportedError<'_> {
    /// `err_code`: the number that names the error.
    pub const fn number(&self) -> u16 {
        match self {
            Self::Known(error) => error.code.number(),
            Self::Unknown { number, .. } => *number,
        }
    }

    /// `code`: the HTTP-like status.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Known(error) => error.code.status(),
            Self::Unknown { status, .. } => *status,
        }
    }
}

/// The description as it came.
impl fmt::Display for ReportedError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(error) => error.fmt(f),
            Self::Unknown { description, .. } => f.write_str(description),
        }
    }
}

/// Why a body is none of the answers.
#[derive(Debug, thiserror::Error)]
pub enum ReplyError {
    /// No bytes: the body of a bare status, or the ack of a message inside an atomic batch.
    #[error("the reply is empty")]
    Empty,
    /// JSON of another kind, or no JSON from its first byte on.
    #[error("the reply is no JSON object")]
    NotAnObject,
    /// Malformed JSON, text that is not UTF-8, or a field that comes twice.
    #[error("the reply is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A `type` that is none of ours. Long ones are cut.
    #[error("the reply has the unknown type {0:?}")]
    UnknownType(String),
    /// A field that this answer must have.
    #[error("the reply lacks `{0}`")]
    Missing(&'static str),
    /// A field whose value is of the wrong kind or out of range.
    #[error("the reply has `{field}` that is not {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
}

/// Characters of an unknown type that an error message keeps.
const TYPE_CHARACTERS_MAX: usize = 64;

/// Reads the body of an answer: a frame on the control channel, or the answer to a plain publish.
///
/// # Errors
/// Says what is wrong with the body, naming the field.
pub fn parse_reply(body: &[u8]) -> Result<ServerReply<'_>, ReplyError> {
    match body.trim_ascii_start().first() {
        Some(b'{') => {}
        Some(_) => return Err(ReplyError::NotAnObject),
        None => return Err(ReplyError::Empty),
    }
    let mut fields: Fields<'_> = serde_json::from_slice(body)?;
    let kind = std::mem::take(&mut fields.kind).text("type")?;
    match kind.as_deref() {
        Some("ack") => Ok(ServerReply::Ack(FlowAck {
            sequence: BatchSequence(fields.sequence.whole("seq")?),
            messages: fields.messages.flow("msgs")?,
        })),
        Some("gap") => Ok(ServerReply::Gap(Gap {
            expected: BatchSequence(fields.last_sequence.whole("last_seq")?),
            received: BatchSequence(fields.sequence.whole("seq")?),
        })),
        Some("err") => Ok(ServerReply::Error(FlowErrorReply {
            sequence: BatchSequence(fields.sequence.whole("seq")?),
            error: fields
                .error
                .error("error")?
                .ok_or(ReplyError::Missing("error"))?,
        })),
        Some(other) => Err(ReplyError::UnknownType(
            other.chars().take(TYPE_CHARACTERS_MAX).collect(),
        )),
        None => parse_untyped(fields),
    }
}

/// An answer without `type` is a PubAck, or the error in its place.
fn parse_untyped(fields: Fields<'_>) -> Result<ServerReply<'_>, ReplyError> {
    if let Some(error) = fields.error.error("error")? {
        return Ok(ServerReply::Refused(error));
    }
    Ok(ServerReply::PubAck(PubAckReply {
        stream: fields
            .stream
            .text("stream")?
            .ok_or(ReplyError::Missing("stream"))?,
        domain: fields.domain.text("domain")?,
        batch: fields.batch.text("batch")?,
        ack: PubAck {
            sequence: StreamSequence(fields.sequence.whole("seq")?),
            count: fields.count.optional_whole("count")?.map(BatchSequence),
            duplicate: fields.duplicate.flag("duplicate")?,
        },
    }))
}

/// The fields of all answers.
#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Value<'a>,
    #[serde(borrow, default, rename = "seq")]
    sequence: Value<'a>,
    #[serde(borrow, default, rename = "msgs")]
    messages: Value<'a>,
    #[serde(borrow, default, rename = "last_seq")]
    last_sequence: Value<'a>,
    #[serde(borrow, default)]
    error: Value<'a>,
    #[serde(borrow, default)]
    stream: Value<'a>,
    #[serde(borrow, default)]
    domain: Value<'a>,
    #[serde(borrow, default)]
    duplicate: Value<'a>,
    #[serde(borrow, default)]
    batch: Value<'a>,
    #[serde(borrow, default)]
    count: Value<'a>,
}

/// The fields of an error object.
#[derive(Debug, serde::Deserialize)]
struct ErrorFields<'a> {
    #[serde(borrow, default)]
    code: Value<'a>,
    #[serde(borrow, default)]
    err_code: Value<'a>,
    #[serde(borrow, default)]
    description: Value<'a>,
}

/// The value of a field before anybody asks for its kind, so that the error can name the field.
#[derive(Debug, Default)]
enum Value<'a> {
    /// No such field, or `null`, which other servers write for the same.
    #[default]
    Absent,
    Flag(bool),
    Whole(u64),
    Text(Cow<'a, str>),
    Object(Box<ErrorFields<'a>>),
    /// A negative number, a fraction, a number above 64 bits, or a list.
    Other,
}

const WHOLE: &str = "a whole number of 0 to 18446744073709551615";
const FLOW: &str = "a whole number of 1 to 65535";
const NUMBER: &str = "a whole number of 0 to 65535";

impl<'a> Value<'a> {
    fn optional_whole(&self, field: &'static str) -> Result<Option<u64>, ReplyError> {
        match self {
            Self::Absent => Ok(None),
            Self::Whole(number) => Ok(Some(*number)),
            Self::Flag(_) | Self::Text(_) | Self::Object(_) | Self::Other => {
                Err(wrong(field, WHOLE))
            }
        }
    }

    fn whole(&self, field: &'static str) -> Result<u64, ReplyError> {
        self.optional_whole(field)?
            .ok_or(ReplyError::Missing(field))
    }

    fn number(&self, field: &'static str) -> Result<u16, ReplyError> {
        u16::try_from(self.whole(field)?).map_err(|_| wrong(field, NUMBER))
    }

    fn flow(&self, field: &'static str) -> Result<u16, ReplyError> {
        match u16::try_from(self.whole(field)?) {
            Ok(0) | Err(_) => Err(wrong(field, FLOW)),
            Ok(flow) => Ok(flow),
        }
    }

    /// A flag that is absent is not set.
    fn flag(&self, field: &'static str) -> Result<bool, ReplyError> {
        match self {
            Self::Absent => Ok(false),
            Self::Flag(flag) => Ok(*flag),
            Self::Whole(_) | Self::Text(_) | Self::Object(_) | Self::Other => {
                Err(wrong(field, "true or false"))
            }
        }
    }

    fn text(self, field: &'static str) -> Result<Option<Cow<'a, str>>, ReplyError> {
        match self {
            Self::Absent => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Flag(_) | Self::Whole(_) | Self::Object(_) | Self::Other => {
                Err(wrong(field, "a text"))
            }
        }
    }

    fn error(self, field: &'static str) -> Result<Option<ReportedError<'a>>, ReplyError> {
        let fields = match self {
            Self::Absent => return Ok(None),
            Self::Object(fields) => fields,
            Self::Flag(_) | Self::Whole(_) | Self::Text(_) | Self::Other => {
                return Err(wrong(field, "an object"));
            }
        };
        let status = fields.code.number("error.code")?;
        let number = fields.err_code.number("error.err_code")?;
        let description = fields
            .description
            .text("error.description")?
            .unwrap_or_default();
        let error = match ApiError::from_parts(number, status, &description) {
            Some(known) => ReportedError::Known(known),
            None => ReportedError::Unknown {
                number,
                status,
                description,
            },
        };
        Ok(Some(error))
    }
}

const fn wrong(field: &'static str, expected: &'static str) -> ReplyError {
    ReplyError::Field { field, expected }
}

impl<'de: 'a, 'a> Deserialize<'de> for Value<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyKind)
    }
}

/// Takes a value of any kind.
struct AnyKind;

impl<'de> Visitor<'de> for AnyKind {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value<'de>, E> {
        Ok(Value::Absent)
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Value<'de>, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value<'de>, E> {
        Ok(Value::Whole(number))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value<'de>, E> {
        Ok(Value::Other)
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value<'de>, A::Error> {
        let fields = ErrorFields::deserialize(de::value::MapAccessDeserializer::new(map))?;
        Ok(Value::Object(Box::new(fields)))
    }
}

#[cfg(test)]
mod tests;
