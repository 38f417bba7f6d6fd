//! What a server answers on the control channel of a batch: flow ack, gap, flow error, PubAck.
//!
//! Each prints as JSON byte for byte as nats-server 2.15.1 does (the space in `"duplicate": true`
//! included), and [`parse_reply`] tells them apart again. Leans on `error_code`. Shapes: ADR-50,
//! "Message Gaps", "Flow Control", "Server Errors" and "Publish Acknowledgements".

mod parse;

pub use parse::{FlowErrorReply, PubAckReply, ReplyError, ReportedError, ServerReply, parse_reply};

use std::fmt::{self, Display, Write};

use super::error_code::ApiError;
use super::{BatchSequence, StreamSequence};

/// `{"type":"ack"}`: everything up to `sequence` is dealt with, and the next flow ack comes after
/// `messages` more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowAck {
    /// Ack sequence: covers this batch sequence and all before it. 0 in the first ack of a batch.
    pub sequence: BatchSequence,
    /// The flow now in force: an ack every this many messages, 1..=65535.
    pub messages: u16,
}

/// `{"type":"gap"}`: messages `expected..received` never arrived (or, where `received` is lower,
/// a sequence came again).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Gap {
    /// `last_seq`: the batch sequence that the server expected next.
    pub expected: BatchSequence,
    /// `seq`: the batch sequence that came instead.
    pub received: BatchSequence,
}

/// `{"type":"err"}`: the message with this sequence was refused; the gap mode says what follows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FlowError {
    /// Batch sequence of the refused message.
    pub sequence: BatchSequence,
    /// Why it was refused.
    pub error: ApiError,
}

/// The batch is over (or a plain publish is stored): how far it came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PubAck {
    /// Stream sequence of the last message stored; 0 if the batch stored none.
    pub sequence: StreamSequence,
    /// Batch sequence of the commit, an EOB not counted; `None` for a plain publish.
    pub count: Option<BatchSequence>,
    /// The message was known already, and `sequence` is that of the original.
    pub duplicate: bool,
}

/// The names in a PubAck.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PubAckNames<'a> {
    /// The stream that stored the message.
    pub stream: &'a str,
    /// The JetStream domain of the server, if it has one.
    pub domain: Option<&'a str>,
    /// The batch id; `None` for a plain publish.
    pub batch: Option<&'a str>,
}

impl FlowAck {
    /// The body that the server sends.
    pub fn json(&self) -> impl Display {
        let Self { sequence, messages } = *self;
        fmt::from_fn(move |f| write!(f, r#"{{"type":"ack","seq":{sequence},"msgs":{messages}}}"#))
    }
}

impl Gap {
    /// The body that the server sends.
    pub fn json(&self) -> impl Display {
        let Self { expected, received } = *self;
        fmt::from_fn(move |f| {
            write!(
                f,
                r#"{{"type":"gap","last_seq":{expected},"seq":{received}}}"#
            )
        })
    }
}

impl FlowError {
    /// The body that the server sends.
    pub fn json(&self) -> impl Display {
        fmt::from_fn(|f| {
            let Self { sequence, error } = self;
            let error = error.json();
            write!(f, r#"{{"type":"err","seq":{sequence},"error":{error}}}"#)
        })
    }
}

impl PubAck {
    /// The body that the server sends.
    pub fn json(&self, names: PubAckNames<'_>) -> impl Display {
        fmt::from_fn(move |f| {
            write!(f, r#"{{"stream":{}"#, plain_text(names.stream))?;
            if let Some(domain) = names.domain {
                write!(f, r#","domain":{}"#, plain_text(domain))?;
            }
            write!(f, r#","seq":{}"#, self.sequence)?;
            if self.duplicate {
                f.write_str(r#","duplicate": true"#)?;
            }
            if let Some(batch) = names.batch {
                write!(f, r#","batch":{}"#, plain_text(batch))?;
            }
            if let Some(count) = self.count {
                write!(f, r#","count":{count}"#)?;
            }
            f.write_char('}')
        })
    }
}

impl ApiError {
    /// The error object, as it stands in flow errors, refusals and API answers.
    pub fn json(&self) -> impl Display {
        fmt::from_fn(|f| {
            let (status, number) = (self.code.status(), self.code.number());
            let description = self.to_string();
            let description = escaped_text(&description);
            write!(
                f,
                r#"{{"code":{status},"err_code":{number},"description":{description}}}"#
            )
        })
    }

    /// The body that the server sends in place of a PubAck. It never names the domain.
    pub fn refusal_json(&self, stream: &str) -> impl Display {
        fmt::from_fn(move |f| {
            let error = self.json();
            let stream = escaped_text(stream);
            write!(f, r#"{{"error":{error},"stream":{stream},"seq":0}}"#)
        })
    }
}

/// A JSON string without needless escapes: so the server quotes the names in a PubAck.
///
/// Control characters are the exception: for them the server writes `\x01`, which is no JSON, and
/// this writes `\u0001`.
fn plain_text(text: &str) -> impl Display {
    quoted(text, |_| false)
}

/// A JSON string that is safe inside HTML: so the server quotes errors.
fn escaped_text(text: &str) -> impl Display {
    quoted(text, |character| {
        matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
    })
}

/// A JSON string; characters for which `escapes` holds are written as their number.
fn quoted(text: &str, escapes: fn(char) -> bool) -> impl Display {
    fmt::from_fn(move |f| {
        f.write_char('"')?;
        for character in text.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{c}' => f.write_str("\\f")?,
                _ if character < ' ' || escapes(character) => {
                    write!(f, "\\u{:04x}", u32::from(character))?;
                }
                _ => f.write_char(character)?,
            }
        }
        f.write_char('"')
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::error_code::{Detail, ErrorCode};

    /// Bodies as nats-server 2.15.1 sent them.
    #[test]
    fn bodies_are_those_of_the_server() {
        let names = |domain, batch| PubAckNames {
            stream: "S",
            domain,
            batch,
        };
        let ack = |sequence, count: Option<u64>, duplicate| PubAck {
            sequence: StreamSequence(sequence),
            count: count.map(BatchSequence),
            duplicate,
        };
        let wrong = ApiError::new(ErrorCode::WrongLastSequence, Detail::Number(9));
        let flow_ack = FlowAck {
            sequence: BatchSequence(0),
            messages: 500,
        };
        let gap = Gap {
            expected: BatchSequence(3),
            received: BatchSequence(5),
        };
        let error = FlowError {
            sequence: BatchSequence(2),
            error: wrong.clone(),
        };
        for (printed, body) in [
            (
                flow_ack.json().to_string(),
                r#"{"type":"ack","seq":0,"msgs":500}"#,
            ),
            (
                gap.json().to_string(),
                r#"{"type":"gap","last_seq":3,"seq":5}"#,
            ),
            (
                error.json().to_string(),
                r#"{"type":"err","seq":2,"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"}}"#,
            ),
            (
                ack(1, None, false).json(names(None, None)).to_string(),
                r#"{"stream":"S","seq":1}"#,
            ),
            (
                ack(2, None, true).json(names(None, None)).to_string(),
                r#"{"stream":"S","seq":2,"duplicate": true}"#,
            ),
            (
                ack(2, Some(1), true)
                    .json(names(None, Some("dup1")))
                    .to_string(),
                r#"{"stream":"S","seq":2,"duplicate": true,"batch":"dup1","count":1}"#,
            ),
            (
                ack(0, Some(0), false)
                    .json(names(None, Some("zero")))
                    .to_string(),
                r#"{"stream":"S","seq":0,"batch":"zero","count":0}"#,
            ),
            (
                ack(1, Some(1), true)
                    .json(names(Some("D"), Some("zz")))
                    .to_string(),
                r#"{"stream":"S","domain":"D","seq":1,"duplicate": true,"batch":"zz","count":1}"#,
            ),
            (
                wrong.refusal_json("S").to_string(),
                r#"{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 9"},"stream":"S","seq":0}"#,
            ),
        ] {
            assert_eq!(printed, body);
        }
    }

    #[test]
    fn names_and_descriptions_are_quoted_as_the_server_does() {
        let print = |batch| {
            let names = PubAckNames {
                stream: "S",
                domain: Some("D"),
                batch: Some(batch),
            };
            let ack = PubAck {
                sequence: StreamSequence(1),
                count: Some(BatchSequence(1)),
                duplicate: false,
            };
            ack.json(names).to_string()
        };
        for (batch, quoted) in [
            ("q\"<&>x", r#""q\"<&>x""#),
            ("b\\s", r#""b\\s""#),
            ("é\u{1f600}", "\"é\u{1f600}\""),
            ("c\u{8}\u{c}", r#""c\b\f""#),
            ("\u{1}\u{1f}\u{7f}", "\"\\u0001\\u001f\u{7f}\""),
        ] {
            let body =
                format!(r#"{{"stream":"S","domain":"D","seq":1,"batch":{quoted},"count":1}}"#);
            assert_eq!(print(batch), body);
        }
        let detail = "<a&\"b\\é\u{2028}\n\r\t\u{1}>";
        let error = ApiError::new(ErrorCode::RollupFailed, Detail::Text(detail.into()));
        assert_eq!(
            error.json().to_string(),
            "{\"code\":500,\"err_code\":10111,\"description\":\"\\u003ca\\u0026\\\"b\\\\é\\u2028\\n\\r\\t\\u0001\\u003e\"}"
        );
    }
}
