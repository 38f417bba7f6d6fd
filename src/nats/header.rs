//! Header blocks: read from the wire, printed to it, and the headers that a stream reads.
//!
//! A block is `NATS/1.0`, perhaps with a status, CRLF; `name: value` CRLF for each line; CRLF.
//! Names keep their case and are compared as they stand. Spaces before a value do not belong to it,
//! all else does: tabs, trailing spaces, single CR and LF (all seen on nats-server 2.15.1).
//!
//! This is stricter than nats-server, which searches for headers in any bytes: blocks that break
//! the form are errors here. Leans on nothing of ours. Form: ADR-4, "NATS Message Headers".

use std::borrow::Cow;

/// `Nats-Msg-Id`: deduplication.
pub const MESSAGE_ID: &str = "Nats-Msg-Id";
/// `Nats-Expected-Stream`: the stream that must take the message.
pub const EXPECTED_STREAM: &str = "Nats-Expected-Stream";
/// `Nats-Expected-Last-Sequence`: last sequence of the stream.
pub const EXPECTED_LAST_SEQUENCE: &str = "Nats-Expected-Last-Sequence";
/// `Nats-Expected-Last-Subject-Sequence`: last sequence of a subject.
pub const EXPECTED_LAST_SUBJECT_SEQUENCE: &str = "Nats-Expected-Last-Subject-Sequence";
/// `Nats-Expected-Last-Subject-Sequence-Subject`: the subject meant by the former.
pub const EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT: &str =
    "Nats-Expected-Last-Subject-Sequence-Subject";
/// `Nats-Expected-Last-Msg-Id`: message id of the last message.
pub const EXPECTED_LAST_MESSAGE_ID: &str = "Nats-Expected-Last-Msg-Id";
/// `Nats-Required-Api-Level`: lowest API level that the server must have.
pub const REQUIRED_API_LEVEL: &str = "Nats-Required-Api-Level";
/// `Nats-TTL`: time to live of one message.
pub const TTL: &str = "Nats-TTL";
/// `Nats-Rollup`: replaces older messages of the subject or the stream.
pub const ROLLUP: &str = "Nats-Rollup";

/// `Nats-Batch-Id`: the atomic batch of the message.
pub const BATCH_ID: &str = "Nats-Batch-Id";
/// `Nats-Batch-Sequence`: batch sequence within it.
pub const BATCH_SEQUENCE: &str = "Nats-Batch-Sequence";
/// `Nats-Batch-Commit`: ends it.
pub const BATCH_COMMIT: &str = "Nats-Batch-Commit";
/// `Nats-Subject`: the subject of the message that a status answers.
pub const SUBJECT: &str = "Nats-Subject";

/// What every block starts with.
const VERSION: &str = "NATS/1.0";
const LINE_END: &str = "\r\n";
/// Between name and value.
const SEPARATOR: &str = ": ";
/// Characters of a bad line that an error message keeps.
const EXCERPT_CHARACTERS_MAX: usize = 64;

/// Why bytes are no header block, or a line cannot stand in one. Lines are counted from 1, the
/// version line included.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeaderError {
    /// The block does not start with `NATS/1.0`.
    #[error("the header block does not start with `NATS/1.0`")]
    Version,
    /// What follows the version is no status of three digits.
    #[error("the header block has the bad status {0:?}")]
    Status(String),
    /// A line, or the block, is not ended by CRLF.
    #[error("line {line} of the header block does not end in CRLF")]
    LineEnd {
        /// Which line.
        line: usize,
    },
    /// Bytes follow the empty line that ends the block.
    #[error("the header block has {bytes} bytes after its end")]
    AfterEnd {
        /// How many.
        bytes: usize,
    },
    /// A line without a colon.
    #[error("line {line} of the header block has no colon: {text:?}")]
    NoColon {
        /// Which line.
        line: usize,
        /// Its beginning.
        text: String,
    },
    /// Nothing before the colon of a line.
    #[error("line {line} of the header block has no name")]
    NoName {
        /// Which line.
        line: usize,
    },
    /// The block is not UTF-8 from this byte on.
    #[error("the header block is not UTF-8 from byte {byte} on")]
    NotText {
        /// Which byte, counted from 0.
        byte: usize,
    },
    /// A name that would not be read back: empty, with a colon, or not printable ASCII.
    #[error("{0:?} is no header name")]
    Name(String),
    /// A value that would not be read back: with CRLF inside or a space at the start.
    #[error("header `{name}` has a value that cannot be sent: {value:?}")]
    Value {
        /// Whose value.
        name: String,
        /// Its beginning.
        value: String,
    },
}

/// The status of a block: what a server says instead of, or about, a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Status {
    /// Three digits, such as 503: no responders.
    pub code: u16,
    /// What follows them, without white space around it; often empty.
    pub description: Cow<'static, str>,
}

impl Status {
    /// 503: nobody listens on the subject.
    pub const NO_RESPONDERS: Self = Self::new(503, "");
    /// 429: the ingest queue of the stream is full.
    pub const TOO_MANY_REQUESTS: Self = Self::new(429, "Too Many Requests");

    /// A status with this code of three digits.
    pub const fn new(code: u16, description: &'static str) -> Self {
        Self {
            code,
            description: Cow::Borrowed(description),
        }
    }

    /// Reads what stands between the version and the end of its line.
    fn parse(text: &str) -> Result<Option<Self>, HeaderError> {
        let trimmed = text.trim_matches([' ', '\t']);
        if trimmed.is_empty() {
            return Ok(None);
        }
        let bad = || HeaderError::Status(excerpt(text));
        if !text.starts_with([' ', '\t']) {
            return Err(HeaderError::Version);
        }
        let (digits, description) = trimmed.split_once([' ', '\t']).unwrap_or((trimmed, ""));
        if digits.len() != 3 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        Ok(Some(Self {
            code: digits.parse().map_err(|_| bad())?,
            description: description
                .trim_start_matches([' ', '\t'])
                .to_owned()
                .into(),
        }))
    }

    /// Bytes that it adds to the version line.
    fn wire_bytes(&self) -> usize {
        match self.description.len() {
            0 => " 503".len(),
            bytes => " 503 ".len() + bytes,
        }
    }

    fn write_to(&self, block: &mut Vec<u8>) {
        // Three digits whatever the code, so that the block keeps its form.
        block.extend_from_slice(format!(" {:03}", self.code.min(999)).as_bytes());
        if !self.description.is_empty() {
            block.push(b' ');
            block.extend_from_slice(self.description.as_bytes());
        }
    }
}

/// A whole block as it stands before a payload: status, if any, and lines.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct HeaderBlock {
    /// The status; only servers send one.
    pub status: Option<Status>,
    /// The lines.
    pub headers: Headers,
}

impl HeaderBlock {
    /// Reads the bytes that an `HPUB` or `HMSG` line announces as header.
    ///
    /// # Errors
    /// Says where the block breaks the form.
    pub fn parse(block: &[u8]) -> Result<Self, HeaderError> {
        let text = std::str::from_utf8(block).map_err(|error| HeaderError::NotText {
            byte: error.valid_up_to(),
        })?;
        let text = text.strip_prefix(VERSION).ok_or(HeaderError::Version)?;
        let (status, mut rest) = text
            .split_once(LINE_END)
            .ok_or(HeaderError::LineEnd { line: 1 })?;
        let status = Status::parse(status)?;
        let mut lines = Vec::new();
        for line in 2.. {
            let (text, after) = rest
                .split_once(LINE_END)
                .ok_or(HeaderError::LineEnd { line })?;
            rest = after;
            if text.is_empty() {
                break;
            }
            lines.push(parse_line(text, line)?);
        }
        match rest.len() {
            0 => Ok(Self {
                status,
                headers: Headers { lines },
            }),
            bytes => Err(HeaderError::AfterEnd { bytes }),
        }
    }

    /// Appends the block to `block`: [`HeaderBlock::wire_bytes`] bytes.
    pub fn write_to(&self, block: &mut Vec<u8>) {
        self.headers.write_with(self.status.as_ref(), block);
    }

    /// Bytes of the block on the wire.
    pub fn wire_bytes(&self) -> usize {
        self.status.as_ref().map_or(0, Status::wire_bytes) + self.headers.wire_bytes()
    }
}

fn parse_line(text: &str, line: usize) -> Result<(String, String), HeaderError> {
    let (name, value) = text.split_once(':').ok_or_else(|| HeaderError::NoColon {
        line,
        text: excerpt(text),
    })?;
    if name.is_empty() {
        return Err(HeaderError::NoName { line });
    }
    Ok((name.to_owned(), value.trim_start_matches(' ').to_owned()))
}

/// Enough of `text` for an error message.
fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARACTERS_MAX).collect()
}

/// The lines of a header block, in the order sent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Headers {
    lines: Vec<(String, String)>,
}

impl Headers {
    /// A block with these lines, which are taken as they are; [`Headers::append`] checks.
    pub const fn new(lines: Vec<(String, String)>) -> Self {
        Self { lines }
    }

    /// The lines, in order.
    pub fn lines(&self) -> &[(String, String)] {
        &self.lines
    }

    /// The first value of `name`; names are compared as they stand, as nats-server does.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Adds a line at the end.
    ///
    /// # Errors
    /// A name or value that would not be read back as it is; nothing is added then.
    pub fn append(&mut self, name: &str, value: &str) -> Result<(), HeaderError> {
        let printable = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        if name.is_empty() || !name.bytes().all(printable) {
            return Err(HeaderError::Name(excerpt(name)));
        }
        if value.starts_with(' ') || value.contains(LINE_END) {
            return Err(HeaderError::Value {
                name: excerpt(name),
                value: excerpt(value),
            });
        }
        self.lines.push((name.to_owned(), value.to_owned()));
        Ok(())
    }

    /// Whether the block has no lines.
    pub const fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Takes out every line called `name`.
    pub fn remove(&mut self, name: &str) {
        self.lines.retain(|(key, _)| key != name);
    }

    /// Appends a block without a status to `block`: [`Headers::wire_bytes`] bytes.
    pub fn write_to(&self, block: &mut Vec<u8>) {
        self.write_with(None, block);
    }

    /// Bytes of a block without a status on the wire: `NATS/1.0` CRLF, `name: value` CRLF each,
    /// CRLF.
    pub fn wire_bytes(&self) -> usize {
        let lines = self.lines.iter();
        let lines = lines.map(|(name, value)| Self::line_bytes(name, value.len()));
        Self::EMPTY_BYTES + lines.sum::<usize>()
    }

    /// Bytes of a block without lines.
    pub const EMPTY_BYTES: usize = VERSION.len() + 2 * LINE_END.len();

    /// Bytes that a line adds to a block.
    pub const fn line_bytes(name: &str, value_bytes: usize) -> usize {
        name.len() + SEPARATOR.len() + value_bytes + LINE_END.len()
    }

    fn write_with(&self, status: Option<&Status>, block: &mut Vec<u8>) {
        block.extend_from_slice(VERSION.as_bytes());
        if let Some(status) = status {
            status.write_to(block);
        }
        block.extend_from_slice(LINE_END.as_bytes());
        for (name, value) in &self.lines {
            for part in [name, SEPARATOR, value, LINE_END] {
                block.extend_from_slice(part.as_bytes());
            }
        }
        block.extend_from_slice(LINE_END.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> Headers {
        let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        Headers::new(lines.iter().map(own).collect())
    }

    fn block(status: Option<Status>, lines: &[(&str, &str)]) -> HeaderBlock {
        HeaderBlock {
            status,
            headers: headers(lines),
        }
    }

    fn printed(block: &HeaderBlock) -> String {
        let mut bytes = Vec::new();
        block.write_to(&mut bytes);
        assert_eq!(bytes.len(), block.wire_bytes());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn blocks_are_read_and_printed_again() {
        for (wire, expected) in [
            ("NATS/1.0\r\n\r\n", block(None, &[])),
            ("NATS/1.0\r\nA: x\r\n\r\n", block(None, &[("A", "x")])),
            (
                "NATS/1.0\r\nA: x\r\nB: \r\nA: y:z\r\n\r\n",
                block(None, &[("A", "x"), ("B", ""), ("A", "y:z")]),
            ),
            (
                "NATS/1.0 503\r\nNats-Subject: a.b\r\n\r\n",
                block(Some(Status::NO_RESPONDERS), &[(SUBJECT, "a.b")]),
            ),
            (
                "NATS/1.0 429 Too Many Requests\r\n\r\n",
                block(Some(Status::TOO_MANY_REQUESTS), &[]),
            ),
            (
                "NATS/1.0 099 é\r\n\r\n",
                block(Some(Status::new(99, "é")), &[]),
            ),
        ] {
            assert_eq!(
                HeaderBlock::parse(wire.as_bytes()),
                Ok(expected.clone()),
                "{wire:?}"
            );
            assert_eq!(printed(&expected), wire);
        }
    }

    #[test]
    fn only_spaces_before_a_value_are_trimmed() {
        for (line, name, value) in [
            ("A:x", "A", "x"),
            ("A:    x", "A", "x"),
            ("A:", "A", ""),
            ("A:   ", "A", ""),
            ("A: x ", "A", "x "),
            ("A:\tx", "A", "\tx"),
            ("A: x\t", "A", "x\t"),
            ("A: x\nB: y", "A", "x\nB: y"),
            ("A: x\ry", "A", "x\ry"),
            ("A : x", "A ", "x"),
            (" A: x", " A", "x"),
            ("a: x", "a", "x"),
            ("é: ü", "é", "ü"),
        ] {
            let wire = format!("NATS/1.0\r\n{line}\r\n\r\n");
            let expected = block(None, &[(name, value)]);
            assert_eq!(
                HeaderBlock::parse(wire.as_bytes()),
                Ok(expected),
                "{line:?}"
            );
        }
    }

    #[test]
    fn white_space_around_a_status_is_trimmed() {
        for (version_line, status) in [
            ("NATS/1.0  ", None),
            ("NATS/1.0\t408 ", Some(Status::new(408, ""))),
            (
                "NATS/1.0   100  Idle  Heartbeat ",
                Some(Status::new(100, "Idle  Heartbeat")),
            ),
        ] {
            let wire = format!("{version_line}\r\n\r\n");
            let expected = block(status, &[]);
            assert_eq!(
                HeaderBlock::parse(wire.as_bytes()),
                Ok(expected),
                "{wire:?}"
            );
        }
    }

    #[test]
    fn what_breaks_the_form_says_where() {
        let no_colon = |line, text: &str| HeaderError::NoColon {
            line,
            text: text.to_owned(),
        };
        let status = |text: &str| HeaderError::Status(text.to_owned());
        for (wire, error) in [
            ("", HeaderError::Version),
            ("NATS/1", HeaderError::Version),
            ("nats/1.0\r\n\r\n", HeaderError::Version),
            ("NATS/1.05\r\n\r\n", HeaderError::Version),
            ("NATS/1.0503\r\n\r\n", HeaderError::Version),
            ("A: x\r\n\r\n", HeaderError::Version),
            ("NATS/1.0", HeaderError::LineEnd { line: 1 }),
            ("NATS/1.0\n\n", HeaderError::LineEnd { line: 1 }),
            ("NATS/1.0\r\n", HeaderError::LineEnd { line: 2 }),
            ("NATS/1.0\r\nA: x", HeaderError::LineEnd { line: 2 }),
            ("NATS/1.0\r\nA: x\r\n", HeaderError::LineEnd { line: 3 }),
            ("NATS/1.0\r\nA: x\r\n\r", HeaderError::LineEnd { line: 3 }),
            (
                "NATS/1.0\r\n\r\nA: x\r\n",
                HeaderError::AfterEnd { bytes: 6 },
            ),
            ("NATS/1.0\r\nA: x\r\nB\r\n\r\n", no_colon(3, "B")),
            ("NATS/1.0\r\nA: x\r\n y\r\n\r\n", no_colon(3, " y")),
            ("NATS/1.0\r\n: x\r\n\r\n", HeaderError::NoName { line: 2 }),
            ("NATS/1.0 50\r\n\r\n", status(" 50")),
            ("NATS/1.0 5033\r\n\r\n", status(" 5033")),
            ("NATS/1.0 +50\r\n\r\n", status(" +50")),
            ("NATS/1.0 OK\r\n\r\n", status(" OK")),
        ] {
            assert_eq!(HeaderBlock::parse(wire.as_bytes()), Err(error), "{wire:?}");
        }
        assert_eq!(
            HeaderBlock::parse(b"NATS/1.0\r\nA: \xff\r\n\r\n"),
            Err(HeaderError::NotText { byte: 13 })
        );
        let long = format!("NATS/1.0\r\n{}\r\n\r\n", "x".repeat(100_000));
        let error = HeaderBlock::parse(long.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 200);
    }

    #[test]
    fn a_line_that_would_not_be_read_back_is_refused() {
        let mut headers = Headers::default();
        for name in ["", "A B", "A:", "A\r\nB", "é", "A\u{7f}"] {
            let error = HeaderError::Name(name.to_owned());
            assert_eq!(headers.append(name, "x"), Err(error));
        }
        for value in [" x", "x\r\nB: y", "\r\n"] {
            let error = HeaderError::Value {
                name: "A".to_owned(),
                value: value.to_owned(),
            };
            assert_eq!(headers.append("A", value), Err(error));
        }
        assert!(headers.is_empty());
        for value in ["", "x", "x y ", "\tx", "x\ny", "x\r", "\n", "ü"] {
            assert_eq!(headers.append("A", value), Ok(()));
        }
        let mut wire = Vec::new();
        headers.write_to(&mut wire);
        assert_eq!(wire.len(), headers.wire_bytes());
        assert_eq!(
            HeaderBlock::parse(&wire).map(|block| block.headers),
            Ok(headers)
        );
    }

    #[test]
    fn the_first_line_of_a_name_counts_and_case_does() {
        let mut headers = headers(&[("a", "1"), ("A", "2"), ("A", "3"), ("B", "4")]);
        assert_eq!(headers.get("A"), Some("2"));
        assert_eq!(headers.get("b"), None);
        headers.remove("A");
        assert_eq!(headers.lines().len(), 2);
        assert_eq!(headers.get("A"), None);
    }
}
