//! Bytes in, frames out: an incremental decoder for either direction.
//!
//! Leans on the frames and argument types of `wire`. Verbs may be in any case, arguments stand
//! between runs of blanks, and a line may end in a bare LF, as nats-server takes it.

use std::marker::PhantomData;
use std::num::NonZeroU32;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{ClientFrame, Limits, Line, Message, Publish, ServerFrame, Token, WireError, is_blank};

/// Room for the verb and the blanks around it, above the limit for the arguments.
const VERB_ROOM: usize = 16;
/// A size has at most so many digits.
const SIZE_DIGITS: usize = 9;

/// Takes bytes in any split and gives frames of one direction: those of a client
/// (`Decoder<ClientFrame>`) or of a server (`Decoder<ServerFrame>`).
///
/// The same bytes give the same frames, and the same error after them, however they are split.
#[derive(Clone, Debug)]
pub struct Decoder<F: Direction> {
    limits: Limits,
    buffer: BytesMut,
    /// So many bytes at the front of `buffer` hold no line end.
    scanned: usize,
    state: State<F::Head>,
    direction: PhantomData<F>,
}

#[derive(Clone, Debug)]
enum State<H> {
    /// The next byte starts a line.
    Line,
    /// A line announced a body.
    Body(Announced<H>),
    /// The bytes made no sense.
    Failed(WireError),
}

/// A message whose control line is read and whose bytes are awaited.
#[derive(Clone, Debug)]
pub struct Announced<H> {
    head: H,
    header_bytes: Option<usize>,
    total_bytes: usize,
}

/// A direction of the protocol: which verbs there are, and what they make.
pub trait Direction: Sized + sealed::Sealed {
    /// Whether `INFO` is a verb of this direction, with a limit of its own.
    #[doc(hidden)]
    const HAS_INFO: bool;

    /// What the control line of a message says, until its body is there.
    type Head: Clone + std::fmt::Debug;

    /// Reads a control line without its end. The limits are checked already.
    #[doc(hidden)]
    fn line(line: &Words<'_>) -> Result<Parsed<Self>, WireError>;

    /// Joins the control line of a message and its body.
    #[doc(hidden)]
    fn message(head: Self::Head, header: Option<Bytes>, payload: Bytes) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::ClientFrame {}
    impl Sealed for super::ServerFrame {}
}

/// What a control line makes.
#[doc(hidden)]
#[derive(Debug)]
pub enum Parsed<F: Direction> {
    /// A whole frame.
    Frame(F),
    /// The first part of one.
    Body(Announced<F::Head>),
}

impl<F: Direction> Decoder<F> {
    /// A decoder at the start of a connection.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: BytesMut::new(),
            scanned: 0,
            state: State::Line,
            direction: PhantomData,
        }
    }

    /// Changes the limits from the next control line on (a client learns `max_payload` by `INFO`).
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes the next bytes of the stream. Call [`Decoder::next_frame`] until it has no more.
    pub fn push(&mut self, bytes: &[u8]) {
        if !matches!(self.state, State::Failed(_)) {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The buffer to read into, so that bytes need not be copied once more.
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Whether the stream could end here: no frame is half read.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Line) && self.buffer.is_empty()
    }

    /// The next frame; `None` when more bytes are needed.
    ///
    /// # Errors
    /// The bytes make no sense or are above a limit. The error stays: every further call gives it.
    pub fn next_frame(&mut self) -> Result<Option<F>, WireError> {
        match self.advance() {
            Ok(frame) => Ok(frame),
            Err(error) => {
                self.buffer = BytesMut::new();
                self.scanned = 0;
                self.state = State::Failed(error);
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<F>, WireError> {
        loop {
            match std::mem::replace(&mut self.state, State::Line) {
                State::Failed(error) => return Err(error),
                State::Body(announced) => {
                    if self.body_missing(&announced)? {
                        self.state = State::Body(announced);
                        return Ok(None);
                    }
                    return Ok(Some(self.take_body(announced)));
                }
                State::Line => {
                    let Some(line) = self.take_line()? else {
                        return Ok(None);
                    };
                    match F::line(&Words::new(&line.text, line.limit)?)? {
                        Parsed::Frame(frame) => return Ok(Some(frame)),
                        Parsed::Body(announced) => {
                            let limit = self.limits.payload_bytes;
                            if announced.total_bytes > limit {
                                return Err(WireError::PayloadTooLarge {
                                    bytes: announced.total_bytes,
                                    limit,
                                });
                            }
                            self.state = State::Body(announced);
                        }
                    }
                }
            }
        }
    }

    /// Takes a line and its end out of the buffer.
    fn take_line(&mut self) -> Result<Option<ControlLine>, WireError> {
        let verb = self.buffer.get(..4).unwrap_or_default();
        let is_info = F::HAS_INFO && verb.eq_ignore_ascii_case(b"INFO");
        let limit = if is_info {
            self.limits.info_line_bytes
        } else {
            self.limits.control_line_bytes
        };
        let room = limit.saturating_add(VERB_ROOM);
        let unread = &self.buffer[self.scanned.min(self.buffer.len())..];
        let Some(offset) = memchr(b'\n', unread) else {
            self.scanned = self.buffer.len();
            if self.scanned > room {
                return Err(WireError::LineTooLong { limit });
            }
            return Ok(None);
        };
        let end = self.scanned + offset;
        if end > room {
            return Err(WireError::LineTooLong { limit });
        }
        self.scanned = 0;
        let mut text = self.buffer.split_to(end + 1).freeze();
        text.truncate(end);
        if text.last() == Some(&b'\r') {
            text.truncate(end - 1);
        }
        Ok(Some(ControlLine { text, limit }))
    }

    /// Whether the body is not complete yet; a wrong byte behind it shows as soon as it is there.
    fn body_missing(&self, announced: &Announced<F::Head>) -> Result<bool, WireError> {
        let total = announced.total_bytes;
        let behind = self.buffer.get(total..).unwrap_or_default();
        let expected = &b"\r\n"[..behind.len().min(2)];
        if !behind.starts_with(expected) {
            return Err(WireError::PayloadEnd);
        }
        Ok(behind.len() < 2)
    }

    fn take_body(&mut self, announced: Announced<F::Head>) -> F {
        let mut payload = self.buffer.split_to(announced.total_bytes).freeze();
        self.buffer.advance(2);
        let header = announced
            .header_bytes
            .map(|header_bytes| payload.split_to(header_bytes));
        F::message(announced.head, header, payload)
    }
}

/// A control line without its end, and the most bytes that its arguments may have.
struct ControlLine {
    text: Bytes,
    limit: usize,
}

/// The parts of a control line: its verb, and the rest.
#[doc(hidden)]
#[derive(Debug)]
pub struct Words<'a> {
    line: &'a Bytes,
    verb: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    fn new(line: &'a Bytes, limit: usize) -> Result<Self, WireError> {
        if std::str::from_utf8(line).is_err() {
            return Err(WireError::NotText);
        }
        let is_end = |byte: &u8| is_blank(*byte);
        let end = line.iter().position(is_end).unwrap_or(line.len());
        let (verb, rest) = line.split_at(end);
        let rest = trim_blanks(rest);
        if rest.len() > limit {
            return Err(WireError::LineTooLong { limit });
        }
        Ok(Self { line, verb, rest })
    }

    fn is(&self, verb: &str) -> bool {
        self.verb.eq_ignore_ascii_case(verb.as_bytes())
    }

    /// `PING` and `PONG` take no arguments, and what follows them on the line is not looked at.
    fn begins(&self, verb: &str) -> bool {
        self.verb
            .get(..verb.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(verb.as_bytes()))
    }

    fn line(&self) -> Result<Line, WireError> {
        // A CR inside would end the line for other readers of the same text.
        if self.rest.contains(&b'\r') {
            return Err(WireError::NotText);
        }
        Ok(Line::from_checked(self.line.slice_ref(self.rest)))
    }

    /// The arguments, at most `N` of them.
    fn arguments<const N: usize>(&self, verb: &'static str) -> Result<Arguments<'a, N>, WireError> {
        let mut parts = [&b""[..]; N];
        let mut count = 0;
        for part in self.rest.split(|byte| is_blank(*byte)) {
            if part.is_empty() {
                continue;
            }
            let slot = parts.get_mut(count);
            *slot.ok_or(WireError::ArgumentCount { verb })? = part;
            count += 1;
        }
        Ok(Arguments {
            verb,
            line: self.line,
            parts: parts.into_iter(),
            count,
        })
    }
}

fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_blank(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_blank(*last)
    {
        bytes = rest;
    }
    bytes
}

/// The arguments of a line, taken from the front.
struct Arguments<'a, const N: usize> {
    verb: &'static str,
    line: &'a Bytes,
    /// Those behind the last argument are empty.
    parts: std::array::IntoIter<&'a [u8], N>,
    count: usize,
}

impl<'a, const N: usize> Arguments<'a, N> {
    fn part(&mut self) -> Result<&'a [u8], WireError> {
        let part = self.parts.next().filter(|part| !part.is_empty());
        part.ok_or(WireError::ArgumentCount { verb: self.verb })
    }

    fn next(&mut self) -> Result<Token, WireError> {
        let part = self.part()?;
        Ok(Token::from_checked(self.line.slice_ref(part)))
    }

    /// The argument that stands only on lines with all `N`.
    fn next_if_full(&mut self) -> Result<Option<Token>, WireError> {
        if self.count == N {
            self.next().map(Some)
        } else {
            Ok(None)
        }
    }

    fn size(&mut self) -> Result<usize, WireError> {
        let verb = self.verb;
        number(self.part()?).ok_or(WireError::BadSize { verb })
    }

    /// The size or, for the verbs with a header block, the two sizes at the end of the line.
    fn announced<H>(mut self, head: H, has_header: bool) -> Result<Announced<H>, WireError> {
        let header_bytes = has_header.then(|| self.size()).transpose()?;
        let total_bytes = self.size()?;
        if header_bytes.is_some_and(|header| header > total_bytes) {
            return Err(WireError::HeaderAboveTotal);
        }
        Ok(Announced {
            head,
            header_bytes,
            total_bytes,
        })
    }
}

fn number(digits: &[u8]) -> Option<usize> {
    if digits.is_empty() || digits.len() > SIZE_DIGITS {
        return None;
    }
    digits.iter().try_fold(0, |number, digit| {
        digit
            .is_ascii_digit()
            .then(|| number * 10 + usize::from(digit - b'0'))
    })
}

/// Subject and reply subject of a `PUB`.
type PublishHead = (Token, Option<Token>);

impl Direction for ClientFrame {
    const HAS_INFO: bool = false;
    type Head = PublishHead;

    fn line(line: &Words<'_>) -> Result<Parsed<Self>, WireError> {
        let frame = if line.is("PUB") {
            return publish_head(line.arguments::<3>("PUB")?, false);
        } else if line.is("HPUB") {
            return publish_head(line.arguments::<4>("HPUB")?, true);
        } else if line.begins("PING") {
            Self::Ping
        } else if line.begins("PONG") {
            Self::Pong
        } else if line.is("SUB") {
            let mut arguments = line.arguments::<3>("SUB")?;
            Self::Subscribe {
                subject: arguments.next()?,
                queue: arguments.next_if_full()?,
                subscription: arguments.next()?,
            }
        } else if line.is("UNSUB") {
            let mut arguments = line.arguments::<2>("UNSUB")?;
            let subscription = arguments.next()?;
            // A count that is no number means "at once", as it does to nats-server.
            let after = arguments
                .next_if_full()?
                .and_then(|after| number(after.as_bytes()));
            Self::Unsubscribe {
                subscription,
                after: after
                    .and_then(|count| u32::try_from(count).ok())
                    .and_then(NonZeroU32::new),
            }
        } else if line.is("CONNECT") {
            Self::Connect(line.line()?)
        } else {
            return Err(WireError::UnknownVerb);
        };
        Ok(Parsed::Frame(frame))
    }

    fn message(head: PublishHead, header: Option<Bytes>, payload: Bytes) -> Self {
        Self::Publish(Publish {
            subject: head.0,
            reply: head.1,
            header,
            payload,
        })
    }
}

fn publish_head<const N: usize>(
    mut arguments: Arguments<'_, N>,
    has_header: bool,
) -> Result<Parsed<ClientFrame>, WireError> {
    let head = (arguments.next()?, arguments.next_if_full()?);
    arguments.announced(head, has_header).map(Parsed::Body)
}

/// Subject, subscription id and reply subject of a `MSG`.
type MessageHead = (Token, Token, Option<Token>);

impl Direction for ServerFrame {
    const HAS_INFO: bool = true;
    type Head = MessageHead;

    fn line(line: &Words<'_>) -> Result<Parsed<Self>, WireError> {
        let frame = if line.is("MSG") {
            return message_head(line.arguments::<4>("MSG")?, false);
        } else if line.is("HMSG") {
            return message_head(line.arguments::<5>("HMSG")?, true);
        } else if line.begins("PING") {
            Self::Ping
        } else if line.begins("PONG") {
            Self::Pong
        } else if line.begins("+OK") {
            Self::Ok
        } else if line.is("-ERR") {
            Self::Error(line.line()?)
        } else if line.is("INFO") {
            Self::Info(line.line()?)
        } else {
            return Err(WireError::UnknownVerb);
        };
        Ok(Parsed::Frame(frame))
    }

    fn message(head: MessageHead, header: Option<Bytes>, payload: Bytes) -> Self {
        Self::Message(Message {
            subject: head.0,
            subscription: head.1,
            reply: head.2,
            header,
            payload,
        })
    }
}

fn message_head<const N: usize>(
    mut arguments: Arguments<'_, N>,
    has_header: bool,
) -> Result<Parsed<ServerFrame>, WireError> {
    let head = (
        arguments.next()?,
        arguments.next()?,
        arguments.next_if_full()?,
    );
    arguments.announced(head, has_header).map(Parsed::Body)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that comes out when the bytes arrive in these chunks.
    fn decode<'a, F: Direction>(
        chunks: impl IntoIterator<Item = &'a [u8]>,
        limits: Limits,
    ) -> (Vec<F>, Option<WireError>) {
        let mut decoder = Decoder::<F>::new(limits);
        let mut frames = Vec::new();
        for chunk in chunks {
            decoder.push(chunk);
            loop {
                match decoder.next_frame() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error)),
                }
            }
        }
        (frames, None)
    }

    /// The frames of the bytes, after it was seen that every split position and every chunk length
    /// gives the same.
    fn decode_every_split<F: Direction + PartialEq + std::fmt::Debug>(
        bytes: &[u8],
    ) -> (Vec<F>, Option<WireError>) {
        let whole = decode::<F>([bytes], Limits::default());
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            assert_eq!(
                decode::<F>([head, tail], Limits::default()),
                whole,
                "split at {at}"
            );
        }
        for length in 1..=bytes.len().min(7) {
            let chunks = bytes.chunks(length);
            assert_eq!(
                decode::<F>(chunks, Limits::default()),
                whole,
                "chunks of {length}"
            );
        }
        whole
    }

    fn token(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    fn client_frames() -> Vec<ClientFrame> {
        let publish = |reply: Option<&str>, header: Option<&'static [u8]>, payload| {
            ClientFrame::Publish(Publish {
                subject: token("t.a"),
                reply: reply.map(token),
                header: header.map(Bytes::from_static),
                payload: Bytes::from_static(payload),
            })
        };
        vec![
            ClientFrame::Connect(Line::new(r#"{"verbose":false}"#).unwrap()),
            ClientFrame::Ping,
            publish(None, None, b"x\r\n"),
            publish(Some("_INBOX.A.10.ok.1.0.$FI"), None, b""),
            publish(None, Some(b"NATS/1.0\r\nA: b\r\n\r\n"), b"PING\r\n"),
            publish(Some("r"), Some(b""), b"yy"),
            ClientFrame::Subscribe {
                subject: token("_INBOX.>"),
                queue: None,
                subscription: token("1"),
            },
            ClientFrame::Subscribe {
                subject: token("größe"),
                queue: Some(token("q")),
                subscription: token("2"),
            },
            ClientFrame::Unsubscribe {
                subscription: token("1"),
                after: NonZeroU32::new(5),
            },
            ClientFrame::Unsubscribe {
                subscription: token("2"),
                after: None,
            },
            ClientFrame::Pong,
        ]
    }

    #[test]
    fn client_frames_come_back_from_every_split() {
        let frames = client_frames();
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        assert_eq!(decode_every_split(&bytes), (frames, None));
    }

    #[test]
    fn server_frames_come_back_from_every_split() {
        let message = |reply: Option<&str>, header: Option<&'static [u8]>, payload| {
            ServerFrame::Message(Message {
                subject: token("_INBOX.x"),
                subscription: token("7"),
                reply: reply.map(token),
                header: header.map(Bytes::from_static),
                payload: Bytes::from_static(payload),
            })
        };
        let frames = vec![
            ServerFrame::Info(Line::new(r#"{"max_payload":1048576}"#).unwrap()),
            message(None, None, b"{}"),
            message(Some("r"), None, b"\n"),
            message(None, Some(b"NATS/1.0 503\r\n\r\n"), b""),
            message(Some("r"), Some(b"NATS/1.0\r\n\r\n"), b"z"),
            ServerFrame::Ping,
            ServerFrame::Pong,
            ServerFrame::Ok,
            ServerFrame::Error(Line::new("'Maximum Payload Violation'").unwrap()),
            ServerFrame::Error(Line::new("").unwrap()),
        ];
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        assert_eq!(decode_every_split(&bytes), (frames, None));
    }

    #[test]
    fn verbs_take_any_case_and_arguments_any_run_of_blanks() {
        let bytes =
            b"pub\tt.a \t 2 \r\nhi\r\nhPuB  t.a   r 0  0\n\r\npInG\nsub a  1\r\nPONG now\r\n";
        let (frames, error) = decode_every_split::<ClientFrame>(bytes);
        assert_eq!(error, None);
        assert_eq!(frames.len(), 5);
        let ClientFrame::Publish(publish) = &frames[0] else {
            panic!("{:?}", frames[0]);
        };
        assert_eq!(publish.payload, "hi");
    }

    #[test]
    fn hostile_lines_give_typed_errors_after_the_frames_before_them() {
        use WireError::*;
        let cases: &[(&[u8], WireError)] = &[
            (b"HELLO\r\n", UnknownVerb),
            (b"\r\n", UnknownVerb),
            (b" PING\r\n", UnknownVerb),
            (b"MSG a 1 0\r\n\r\n", UnknownVerb),
            (b"PUB a\r\n", ArgumentCount { verb: "PUB" }),
            (b"PUB a b 1 2\r\n", ArgumentCount { verb: "PUB" }),
            (b"HPUB a 1\r\n", ArgumentCount { verb: "HPUB" }),
            (b"SUB a\r\n", ArgumentCount { verb: "SUB" }),
            (b"UNSUB\r\n", ArgumentCount { verb: "UNSUB" }),
            (b"PUB a -1\r\n", BadSize { verb: "PUB" }),
            (b"PUB a 1x\r\n", BadSize { verb: "PUB" }),
            (b"PUB a 1000000000\r\n", BadSize { verb: "PUB" }),
            (b"HPUB a 5 4\r\n", HeaderAboveTotal),
            (b"PUB a 2\r\nabcd\r\n", PayloadEnd),
            (b"PUB a 2\r\nab\rX", PayloadEnd),
            (b"PUB \xff 2\r\nab\r\n", NotText),
            (b"CONNECT {\r}\r\n", NotText),
            (
                b"PUB a 1048577\r\n",
                PayloadTooLarge {
                    bytes: 1_048_577,
                    limit: 1 << 20,
                },
            ),
        ];
        for (bytes, expected) in cases {
            let bytes = [b"PING\r\n", *bytes].concat();
            let (frames, error) = decode_every_split::<ClientFrame>(&bytes);
            assert_eq!(error, Some(*expected), "{}", bytes.escape_ascii());
            assert_eq!(frames, [ClientFrame::Ping], "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn an_error_stays_and_later_bytes_are_dropped() {
        let mut decoder = Decoder::<ClientFrame>::new(Limits::default());
        decoder.push(b"NONSENSE\r\n");
        assert_eq!(decoder.next_frame(), Err(WireError::UnknownVerb));
        decoder.push(b"PING\r\n");
        assert_eq!(decoder.next_frame(), Err(WireError::UnknownVerb));
        assert!(decoder.buffer().is_empty());
    }

    #[test]
    fn a_line_may_have_exactly_the_limit_of_arguments() {
        let line = |length: usize| format!("SUB {} 1\r\n", "s".repeat(length - 2)).into_bytes();
        let limits = Limits::default();
        let (frames, error) = decode::<ClientFrame>([&line(4_096)[..]], limits);
        assert_eq!((frames.len(), error), (1, None));
        let (frames, error) = decode::<ClientFrame>([&line(4_097)[..]], limits);
        assert_eq!(frames, []);
        assert_eq!(error, Some(WireError::LineTooLong { limit: 4_096 }));
    }

    #[test]
    fn bytes_without_line_end_are_not_kept_for_ever() {
        let mut decoder = Decoder::<ClientFrame>::new(Limits::default());
        let mut taken = 0;
        while decoder.next_frame().is_ok() {
            decoder.push(b"x");
            taken += 1;
        }
        assert_eq!(taken, 4_096 + VERB_ROOM + 1);
        assert_eq!(
            decoder.next_frame(),
            Err(WireError::LineTooLong { limit: 4_096 })
        );
    }

    #[test]
    fn an_info_line_has_a_limit_of_its_own() {
        let info = format!("INFO {{{}}}\r\n", "\"a\":1,".repeat(2_000));
        let (frames, error) = decode::<ServerFrame>(info.as_bytes().chunks(999), Limits::default());
        assert_eq!((frames.len(), error), (1, None));
    }

    #[test]
    fn payloads_share_the_memory_they_were_read_into() {
        let mut decoder = Decoder::<ClientFrame>::new(Limits::default());
        decoder.push(b"PUB a 4\r\nabcd\r\n");
        let start = decoder.buffer().as_ptr() as usize;
        let Ok(Some(ClientFrame::Publish(publish))) = decoder.next_frame() else {
            panic!("no message");
        };
        assert_eq!(
            publish.payload.as_ptr() as usize - start,
            "PUB a 4\r\n".len()
        );
        assert!(decoder.is_at_rest());
    }
}
