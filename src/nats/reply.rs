//! The fast-ingest reply subject `<prefix>.<id>.<flow>.<gap>.<seq>.<op>.$FI`, both ways.
//!
//! Here a client puts what it asks for, and here the server's answers go. Parsing borrows and
//! allocates nothing; [`ReplyPrefix`] writes the subject of each message of a batch into a buffer
//! that is used again. Leans on `subject` and the words of `nats`. Source: ADR-50, "Fast-ingest
//! Batch Publishing" ("Client Design" for the form, "Message Gaps" and "Server Behavior Design" for
//! what is refused); edge cases as nats-server 2.15.1 decides them.

use std::fmt;

use super::subject;
use super::{BatchSequence, GapMode, Operation};

/// The last token of a fast-ingest reply subject, with its dot.
pub const SUFFIX: &str = ".$FI";
/// Most bytes of a batch id ("Server Behavior Design" says characters; the server counts bytes).
pub const BATCH_ID_BYTES_MAX: usize = 64;
/// The flow where the flow token is no number above 0.
pub const FLOW_DEFAULT: u16 = 10;
/// The highest batch sequence that a message can have.
pub const SEQUENCE_MAX: BatchSequence = BatchSequence(u64::MAX - 1);

/// What the reply subject of a published message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Parsed<'a> {
    /// Not longer than `.$FI`, or without that end: no fast-ingest message.
    NotFast,
    /// It ends in `.$FI` and breaks the pattern (error 10206).
    BadPattern(BadPattern),
    /// The pattern holds, and the batch id is above [`BATCH_ID_BYTES_MAX`] (error 10207).
    BadBatchId,
    /// A fast-ingest message.
    Fast(FastReply<'a>),
}

/// Which rule of the pattern is broken; the tokens are checked from the right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum BadPattern {
    /// A dot is missing before the operation, sequence, gap mode, flow or batch id. The last of
    /// them means that at least one token (an empty one will do) stands before the batch id.
    #[error("too few tokens")]
    TooFewTokens,
    /// The operation is not a number of 0 to 4 ("Client Design": the server rejects any operation
    /// that it does not know).
    #[error("the operation is not 0 to 4")]
    Operation,
    /// The batch sequence is not a number of 1 to 2^64-2.
    #[error("the batch sequence is not 1 to 18446744073709551614")]
    Sequence,
    /// A start has sequence 1; an append and an end of batch have 2 or more; a commit or ping any
    /// ("Client Design": a batch starts at 1, and may commit or ping there).
    #[error("the operation does not go with the batch sequence")]
    OperationSequence,
    /// The gap mode is neither `ok` nor `fail` ("Message Gaps").
    #[error("the gap mode is neither `ok` nor `fail`")]
    GapMode,
}

/// A fast-ingest reply subject in its parts. Prints as the subject.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FastReply<'a> {
    /// All before the batch id: the inbox. One token or more; empty only on a subject that starts
    /// with a dot.
    pub prefix: &'a str,
    /// One token; empty only where two dots meet.
    pub batch_id: &'a str,
    /// Initial and highest flow, 1..=65535. Counts only in the message that opens the batch.
    pub flow: u16,
    /// Gap mode.
    pub gap: GapMode,
    /// Batch sequence, 1..=[`SEQUENCE_MAX`].
    pub sequence: BatchSequence,
    /// Operation; it goes with the sequence.
    pub operation: Operation,
}

/// Reads the reply subject of a published message.
pub fn parse(reply: &str) -> Parsed<'_> {
    // A subject that is all suffix is a plain one: there is nothing before its dot.
    if reply.len() <= SUFFIX.len() {
        return Parsed::NotFast;
    }
    let Some(body) = reply.strip_suffix(SUFFIX) else {
        return Parsed::NotFast;
    };
    match parse_body(body) {
        Err(rule) => Parsed::BadPattern(rule),
        Ok(fast) if fast.batch_id.len() > BATCH_ID_BYTES_MAX => Parsed::BadBatchId,
        Ok(fast) => Parsed::Fast(fast),
    }
}

impl fmt::Display for FastReply<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            prefix,
            batch_id,
            flow,
            gap,
            sequence,
            operation,
        } = self;
        let gap = gap.as_str();
        let operation = *operation as u8;
        write!(
            f,
            "{prefix}.{batch_id}.{flow}.{gap}.{sequence}.{operation}{SUFFIX}"
        )
    }
}

/// Why the reply subjects of a batch cannot be built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplyPrefixError {
    /// The prefix is no subject to publish to.
    #[error("the reply prefix {0}")]
    Prefix(subject::SubjectError),
    /// The batch id is no single token without wildcards.
    #[error("the batch id is not one subject token")]
    BatchId,
    /// The batch id is too long.
    #[error("the batch id has {0} bytes; {BATCH_ID_BYTES_MAX} are allowed")]
    BatchIdBytes(usize),
    /// No flow.
    #[error("the flow is 0; it is 1 to 65535")]
    Flow,
}

/// What the reply subjects of one batch have in common: `<prefix>.<id>.<flow>.<gap>.`
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ReplyPrefix {
    text: String,
    /// Bytes of `<prefix>.<id>.`
    inbox_bytes: usize,
}

/// Digits of the largest 64-bit number.
const DIGITS_MAX: usize = 20;

impl ReplyPrefix {
    /// The reply subjects of batch `batch_id` below the inbox `prefix`.
    ///
    /// # Errors
    /// Says which part cannot stand in a subject; see [`ReplyPrefixError`].
    pub fn new(
        prefix: &str,
        batch_id: &str,
        flow: u16,
        gap: GapMode,
    ) -> Result<Self, ReplyPrefixError> {
        subject::check_publish(prefix).map_err(ReplyPrefixError::Prefix)?;
        if batch_id.contains('.') || subject::check_publish(batch_id).is_err() {
            return Err(ReplyPrefixError::BatchId);
        }
        if batch_id.len() > BATCH_ID_BYTES_MAX {
            return Err(ReplyPrefixError::BatchIdBytes(batch_id.len()));
        }
        if flow == 0 {
            return Err(ReplyPrefixError::Flow);
        }
        let gap = gap.as_str();
        let text = format!("{prefix}.{batch_id}.{flow}.{gap}.");
        let inbox_bytes = prefix.len() + batch_id.len() + "..".len();
        Ok(Self { text, inbox_bytes })
    }

    /// The filter to subscribe to for the whole batch: `<prefix>.<id>.>` ("Control Channel").
    pub fn control_channel(&self) -> String {
        format!("{}>", &self.text[..self.inbox_bytes])
    }

    /// The common part, with its last dot.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Replaces the content of `reply` by the subject of the message with this sequence and
    /// operation. Allocates nothing once `reply` has held the longest subject.
    pub fn write(&self, sequence: BatchSequence, operation: Operation, reply: &mut String) {
        reply.clear();
        reply.reserve(self.text.len() + DIGITS_MAX + ".0".len() + SUFFIX.len());
        reply.push_str(&self.text);
        push_number(sequence.0, reply);
        reply.push('.');
        reply.push(char::from(b'0' + operation as u8));
        reply.push_str(SUFFIX);
    }
}

/// Takes the tokens from the right, each with the rule that it must keep.
fn parse_body(body: &str) -> Result<FastReply<'_>, BadPattern> {
    let (rest, operation) = split_last(body)?;
    let operation = u64::try_from(wrapping_number(operation))
        .ok()
        .and_then(Operation::from_number)
        .ok_or(BadPattern::Operation)?;
    let (rest, sequence) = split_last(rest)?;
    let sequence = parse_sequence(sequence).ok_or(BadPattern::Sequence)?;
    let goes_together = match operation {
        Operation::Start => sequence.0 == 1,
        Operation::Append | Operation::CommitEob => sequence.0 >= 2,
        Operation::Commit | Operation::Ping => true,
    };
    if !goes_together {
        return Err(BadPattern::OperationSequence);
    }
    let (rest, gap) = split_last(rest)?;
    let gap = match gap {
        "ok" => GapMode::Ok,
        "fail" => GapMode::Fail,
        _ => return Err(BadPattern::GapMode),
    };
    let (rest, flow) = split_last(rest)?;
    let (prefix, batch_id) = split_last(rest)?;
    Ok(FastReply {
        prefix,
        batch_id,
        flow: parse_flow(flow),
        gap,
        sequence,
        operation,
    })
}

fn split_last(text: &str) -> Result<(&str, &str), BadPattern> {
    text.rsplit_once('.').ok_or(BadPattern::TooFewTokens)
}

/// The flow token is never refused: what is no number above 0 is [`FLOW_DEFAULT`], what is too
/// large is the largest.
fn parse_flow(token: &str) -> u16 {
    match wrapping_number(token) {
        ..=0 => FLOW_DEFAULT,
        flow => u16::try_from(flow).unwrap_or(u16::MAX),
    }
}

/// Digits only, which leaves out signs; leading zeros are fine.
fn parse_sequence(token: &str) -> Option<BatchSequence> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let sequence = BatchSequence(token.parse().ok()?);
    (BatchSequence(1)..=SEQUENCE_MAX)
        .contains(&sequence)
        .then_some(sequence)
}

/// A number as the server reads flow and operation: -1 unless all are digits, leading zeros are
/// fine, and a number that is too large wraps around in 64 bits. So 2^64 + 3 is 3 for it.
fn wrapping_number(token: &str) -> i64 {
    if token.is_empty() {
        return -1;
    }
    let mut number = 0_i64;
    for byte in token.bytes() {
        if !byte.is_ascii_digit() {
            return -1;
        }
        number = number.wrapping_mul(10).wrapping_add(i64::from(byte - b'0'));
    }
    number
}

/// Appends the digits of `number`; several times faster than the formatting machinery.
fn push_number(mut number: u64, text: &mut String) {
    let mut digits = [0_u8; DIGITS_MAX];
    let mut start = DIGITS_MAX;
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().copied().map(char::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fast(reply: &str) -> FastReply<'_> {
        match parse(reply) {
            Parsed::Fast(fast) => fast,
            other => panic!("{reply}: {other:?}"),
        }
    }

    #[test]
    fn the_parts_are_read_from_the_right() {
        let expected = FastReply {
            prefix: "_INBOX.a.b",
            batch_id: "uuid",
            flow: 100,
            gap: GapMode::Fail,
            sequence: BatchSequence(7),
            operation: Operation::Append,
        };
        assert_eq!(fast("_INBOX.a.b.uuid.100.fail.7.1.$FI"), expected);
    }

    #[test]
    fn a_fast_reply_is_longer_than_its_suffix_and_ends_in_it() {
        for plain in [
            "",
            "$FI",
            ".$FI",
            "_INBOX.x",
            "_INBOX.x$FI",
            "a.b.5.ok.1.0.$fi",
            "a.$FI.b",
        ] {
            assert_eq!(parse(plain), Parsed::NotFast, "{plain}");
        }
    }

    #[test]
    fn broken_patterns_name_the_rule() {
        use BadPattern::{GapMode, Operation, OperationSequence, Sequence, TooFewTokens};
        for (reply, rule) in [
            // Every token needs a dot before it.
            ("x.$FI", TooFewTokens),
            ("0.$FI", TooFewTokens),
            ("1.0.$FI", TooFewTokens),
            ("ok.1.0.$FI", TooFewTokens),
            ("10.ok.1.0.$FI", TooFewTokens),
            ("uuid.10.ok.1.0.$FI", TooFewTokens),
            // Operation: decimal digits, 0 to 4.
            ("..$FI", Operation),
            ("p.u.10.ok.1..$FI", Operation),
            ("p.u.10.ok.1.5.$FI", Operation),
            ("p.u.10.ok.1.+0.$FI", Operation),
            ("p.u.10.ok.1.-0.$FI", Operation),
            ("p.u.10.ok.1.x.$FI", Operation),
            ("p.u.10.ok.1.0x0.$FI", Operation),
            ("p.u.10.ok.1.١.$FI", Operation),
            ("p.u.10.ok.1.18446744073709551621.$FI", Operation),
            ("p.u.10.ok.1.9223372036854775808.$FI", Operation),
            // Sequence: decimal digits, 1 to 2^64-2.
            ("p.u.10.ok..2.$FI", Sequence),
            ("p.u.10.ok.0.2.$FI", Sequence),
            ("p.u.10.ok.000.2.$FI", Sequence),
            ("p.u.10.ok.+1.2.$FI", Sequence),
            ("p.u.10.ok.-1.2.$FI", Sequence),
            ("p.u.10.ok.one.2.$FI", Sequence),
            ("p.u.10.ok.1 .2.$FI", Sequence),
            ("p.u.10.ok.18446744073709551615.2.$FI", Sequence),
            ("p.u.10.ok.18446744073709551616.2.$FI", Sequence),
            ("p.u.10.ok.18446744073709551617.0.$FI", Sequence),
            // Operation and sequence together.
            ("p.u.10.ok.2.0.$FI", OperationSequence),
            ("p.u.10.ok.1.1.$FI", OperationSequence),
            ("p.u.10.ok.1.3.$FI", OperationSequence),
            // Gap mode, case and all.
            ("p.u.10..1.0.$FI", GapMode),
            ("p.u.10.OK.1.0.$FI", GapMode),
            ("p.u.10.Fail.1.0.$FI", GapMode),
            ("p.u.10.maybe.1.0.$FI", GapMode),
            // The rightmost broken token counts.
            ("p.u.10.OK.0.9.$FI", Operation),
            ("p.u.10.OK.0.0.$FI", Sequence),
            ("p.u.10.OK.2.0.$FI", OperationSequence),
        ] {
            assert_eq!(parse(reply), Parsed::BadPattern(rule), "{reply}");
        }
    }

    #[test]
    fn operations_and_sequences_that_go_together() {
        for (tail, operation, sequence) in [
            ("1.0", Operation::Start, 1),
            ("1.00", Operation::Start, 1),
            ("0001.0", Operation::Start, 1),
            (
                "00000000000000000000000000001.000000000000000000000",
                Operation::Start,
                1,
            ),
            ("2.1", Operation::Append, 2),
            ("18446744073709551614.1", Operation::Append, u64::MAX - 1),
            ("1.2", Operation::Commit, 1),
            ("2.2", Operation::Commit, 2),
            ("2.3", Operation::CommitEob, 2),
            ("1.4", Operation::Ping, 1),
            ("9.4", Operation::Ping, 9),
            // A number too large wraps around: 2^64 + 1 is an append.
            ("2.18446744073709551617", Operation::Append, 2),
        ] {
            let reply = format!("p.u.10.ok.{tail}.$FI");
            let fast = fast(&reply);
            assert_eq!(fast.operation, operation, "{reply}");
            assert_eq!(fast.sequence, BatchSequence(sequence), "{reply}");
        }
    }

    #[test]
    fn the_flow_is_never_refused() {
        for (token, flow) in [
            ("1", 1),
            ("10", 10),
            ("007", 7),
            ("65535", 65_535),
            ("65536", 65_535),
            ("4294967297", 65_535),
            ("0", 10),
            ("000", 10),
            ("", 10),
            ("-3", 10),
            ("+5", 10),
            ("0x5", 10),
            ("ten", 10),
            ("5 ", 10),
            ("é", 10),
            // As seen on nats-server 2.15.1: 64-bit numbers wrap around.
            ("9223372036854775807", 65_535),
            ("9223372036854775808", 10),
            ("18446744073709551616", 10),
            ("18446744073709551619", 3),
            ("99999999999999999999", 65_535),
            ("00000000000000000000000007", 7),
        ] {
            let reply = format!("p.u.{token}.ok.1.0.$FI");
            assert_eq!(fast(&reply).flow, flow, "{token}");
        }
    }

    #[test]
    fn the_batch_id_has_at_most_64_bytes() {
        let reply = |id: &str, operation| format!("p.{id}.10.ok.1.{operation}.$FI");
        assert_eq!(fast(&reply(&"i".repeat(64), 0)).batch_id.len(), 64);
        assert_eq!(parse(&reply(&"i".repeat(65), 0)), Parsed::BadBatchId);
        // Bytes, not characters.
        assert_eq!(parse(&reply(&"é".repeat(33), 0)), Parsed::BadBatchId);
        // The pattern is checked first.
        let both = reply(&"i".repeat(65), 9);
        assert_eq!(parse(&both), Parsed::BadPattern(BadPattern::Operation));
    }

    #[test]
    fn empty_tokens_pass_where_only_a_dot_is_asked_for() {
        assert_eq!(fast(".u.10.ok.1.0.$FI").prefix, "");
        assert_eq!(fast("p..10.ok.1.0.$FI").batch_id, "");
        assert_eq!(fast("...ok.1.0.$FI").flow, 10);
    }

    #[test]
    fn a_reply_prints_as_it_was() {
        for reply in [
            "_INBOX.uuid.10.ok.1.0.$FI",
            "a.b.c.d.65535.fail.18446744073709551614.3.$FI",
            "..1.ok.1.4.$FI",
        ] {
            assert_eq!(fast(reply).to_string(), reply);
        }
    }

    #[test]
    fn the_fast_writer_prints_the_same() {
        let prefix = ReplyPrefix::new("_INBOX.x", "id", 500, GapMode::Ok).unwrap();
        assert_eq!(prefix.as_str(), "_INBOX.x.id.500.ok.");
        assert_eq!(prefix.control_channel(), "_INBOX.x.id.>");
        let mut reply = "left over from before".to_owned();
        for (sequence, operation) in [
            (1, Operation::Start),
            (9, Operation::Append),
            (10, Operation::Append),
            (1_234_567_890, Operation::Ping),
            (u64::MAX - 1, Operation::Commit),
            (u64::MAX - 1, Operation::CommitEob),
        ] {
            prefix.write(BatchSequence(sequence), operation, &mut reply);
            let printed = FastReply {
                prefix: "_INBOX.x",
                batch_id: "id",
                flow: 500,
                gap: GapMode::Ok,
                sequence: BatchSequence(sequence),
                operation,
            };
            assert_eq!(reply, printed.to_string());
            assert_eq!(parse(&reply), Parsed::Fast(printed));
            assert!(subject::matches(&prefix.control_channel(), &reply));
        }
    }

    #[test]
    fn the_fast_writer_reuses_its_buffer() {
        let prefix = ReplyPrefix::new("_INBOX.x", "id", 500, GapMode::Fail).unwrap();
        let mut reply = String::new();
        prefix.write(BatchSequence(1), Operation::Start, &mut reply);
        let (before, capacity) = (reply.as_ptr(), reply.capacity());
        prefix.write(SEQUENCE_MAX, Operation::Append, &mut reply);
        assert_eq!((reply.as_ptr(), reply.capacity()), (before, capacity));
    }

    #[test]
    fn a_prefix_that_cannot_stand_in_a_subject_is_refused() {
        let build = |prefix: &str, id: &str, flow| ReplyPrefix::new(prefix, id, flow, GapMode::Ok);
        assert!(build("_INBOX.x", &"i".repeat(64), 1).is_ok());
        for (prefix, id, flow, error) in [
            (
                "",
                "id",
                1,
                ReplyPrefixError::Prefix(subject::SubjectError::Empty),
            ),
            (
                "a.*",
                "id",
                1,
                ReplyPrefixError::Prefix(subject::SubjectError::Wildcard { position: 2 }),
            ),
            ("p", "", 1, ReplyPrefixError::BatchId),
            ("p", "a.b", 1, ReplyPrefixError::BatchId),
            ("p", "a b", 1, ReplyPrefixError::BatchId),
            ("p", ">", 1, ReplyPrefixError::BatchId),
            ("p", &"i".repeat(65), 1, ReplyPrefixError::BatchIdBytes(65)),
            ("p", "id", 0, ReplyPrefixError::Flow),
        ] {
            assert_eq!(build(prefix, id, flow), Err(error), "{prefix} {id} {flow}");
        }
    }
}
