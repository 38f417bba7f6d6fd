//! The headers that make a message part of an atomic batch.
//!
//! Leans on the header names of `nats`. ADR-50 [atomic.start, atomic.append].

use crate::batch::message::{AtomicCommit, AtomicSequence, BatchHandle, Control};
use crate::nats::header::{BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE, Headers};

/// Longest batch id, in bytes.
const ID_BYTES_MAX: usize = 64;

/// What the headers of a message make of it: a message of an atomic batch, whose id `handle` turns
/// into a handle, or nothing. Of a name that stands twice the first line counts; an empty id is
/// none, as nats-server sees it.
pub fn read(headers: &Headers, handle: impl FnOnce(&str) -> BatchHandle) -> Option<Control> {
    let id = headers.get(BATCH_ID).filter(|id| !id.is_empty())?;
    if id.len() > ID_BYTES_MAX {
        return Some(Control::BadAtomicId);
    }
    let (given, sequence) = match headers.get(BATCH_SEQUENCE) {
        None | Some("") => (AtomicSequence::Missing, u32::MAX),
        Some(text) => match number(text) {
            Some((number, given)) => (given, u32::try_from(number).unwrap_or(u32::MAX)),
            None => (AtomicSequence::NoNumber, u32::MAX),
        },
    };
    let commit = match headers.get(BATCH_COMMIT) {
        None => AtomicCommit::No,
        Some("1") => AtomicCommit::Store,
        Some("eob") => AtomicCommit::Eob,
        Some(_) => AtomicCommit::Unknown,
    };
    Some(Control::Atomic {
        batch: handle(id),
        sequence,
        given,
        commit,
    })
}

/// Decimal digits. What does not fit into 64 bits is no number, but keeps the bits that old servers
/// read.
fn number(text: &str) -> Option<(u64, AtomicSequence)> {
    if let Ok(number) = text.parse()
        && !text.starts_with('+')
    {
        return Some((number, AtomicSequence::Number));
    }
    let wrapped = text.bytes().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(number.wrapping_mul(10).wrapping_add(digit))
    });
    Some((wrapped?, AtomicSequence::NoNumber))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u64 = u32::MAX as u64;

    fn control(lines: &[(&str, &str)]) -> Option<Control> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = Headers::new(lines.iter().map(own).collect());
        read(&headers, |_| BatchHandle(7))
    }

    #[test]
    fn an_id_makes_the_message_one_of_a_batch() {
        assert_eq!(control(&[]), None);
        assert_eq!(control(&[(BATCH_SEQUENCE, "1")]), None);
        assert_eq!(control(&[(BATCH_ID, ""), (BATCH_ID, "A")]), None);
        assert_eq!(control(&[("nats-batch-id", "A")]), None);
        let longest = "x".repeat(64);
        assert!(matches!(
            control(&[(BATCH_ID, &longest)]),
            Some(Control::Atomic { .. })
        ));
        let longer = "x".repeat(65);
        assert_eq!(control(&[(BATCH_ID, &longer)]), Some(Control::BadAtomicId));
    }

    /// As recorded in `at-seq-missing`.
    #[test]
    fn a_sequence_is_a_number_missing_or_neither() {
        let given = |text: &str| {
            let control = control(&[(BATCH_ID, "A"), (BATCH_SEQUENCE, text)]);
            let member = control.and_then(Control::membership).unwrap();
            (member.given, member.sequence.0)
        };
        assert_eq!(given(""), (AtomicSequence::Missing, MOST));
        assert_eq!(given("007"), (AtomicSequence::Number, 7));
        assert_eq!(given("4294967296"), (AtomicSequence::Number, MOST));
        assert_eq!(given("18446744073709551618"), (AtomicSequence::NoNumber, 2));
        for bad in ["abc", "-1", "+2", "1.5", "99999999999999999999"] {
            assert_eq!(given(bad), (AtomicSequence::NoNumber, MOST), "{bad}");
        }
    }

    #[test]
    fn a_commit_that_is_there_says_how() {
        let commit = |lines: &[(&str, &str)]| {
            let all = [&[(BATCH_ID, "A"), (BATCH_SEQUENCE, "1")], lines].concat();
            let member = control(&all).and_then(Control::membership).unwrap();
            member.commit
        };
        assert_eq!(commit(&[]), AtomicCommit::No);
        assert_eq!(commit(&[(BATCH_COMMIT, "1")]), AtomicCommit::Store);
        assert_eq!(commit(&[(BATCH_COMMIT, "eob")]), AtomicCommit::Eob);
        for unknown in ["", "2", "yes", "EOB"] {
            let lines = [(BATCH_COMMIT, unknown)];
            assert_eq!(commit(&lines), AtomicCommit::Unknown, "{unknown}");
        }
    }
}
