//! Atomic batches: staged, checked together, stored whole or not at all.

use super::*;
use crate::batch::message::AbandonReason;
use crate::nats::header::{BATCH_COMMIT, BATCH_ID, BATCH_SEQUENCE};

impl Lab {
    fn for_atomic(change: impl FnOnce(&mut StreamConfig)) -> Self {
        Self::without(&[], change)
    }

    /// A server that lacks these defects of its version.
    fn without(defects: &[ServerDefect], change: impl FnOnce(&mut StreamConfig)) -> Self {
        let mut model = ServerModel::default();
        for defect in defects {
            assert!(model.defects.remove(defect), "{defect:?}");
        }
        Self::with(model, |config| {
            config.allow_atomic = true;
            change(config);
        })
    }

    /// Sends a message of batch `A` with these headers besides, and waits for the answers.
    pub(super) fn atomic(
        &mut self,
        subject: &str,
        sequence: u64,
        commit: &str,
        lines: Lines<'_>,
    ) -> Vec<String> {
        self.atomic_of("A", subject, sequence, commit, 1, lines)
    }

    fn atomic_of(
        &mut self,
        id: &str,
        subject: &str,
        sequence: u64,
        commit: &str,
        bytes: u32,
        lines: Lines<'_>,
    ) -> Vec<String> {
        let number = sequence.to_string();
        let mut all = vec![(BATCH_ID, id), (BATCH_SEQUENCE, number.as_str())];
        all.extend((!commit.is_empty()).then_some((BATCH_COMMIT, commit)));
        all.extend(lines);
        self.atomic_with(subject, bytes, &all)
    }

    /// Sends a message with these headers, which make it one of an atomic batch.
    pub(super) fn atomic_with(
        &mut self,
        subject: &str,
        bytes: u32,
        lines: Lines<'_>,
    ) -> Vec<String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = Headers::new(lines.iter().map(own).collect());
        let handle = |id: &str| BatchHandle(id.bytes().map(u32::from).sum());
        let control = crate::batch::atomic::headers::read(&headers, handle).unwrap();
        self.write(subject, control, bytes, lines);
        self.settle()
    }

    pub(super) fn advisories(&self) -> Vec<AbandonReason> {
        let reason = |fact: &Fact| match fact {
            Fact::Abandoned { reason, .. } => Some(*reason),
            _ => None,
        };
        self.facts.iter().filter_map(reason).collect()
    }
}

const NO_LINES: Lines<'_> = &[];

/// ADR-50 [atomic.commit.store, atomic.answer.first, atomic.answer.next]
#[test]
fn nothing_is_stored_before_the_commit() {
    let mut lab = Lab::for_atomic(|_| {});
    assert_eq!(lab.atomic("t.a", 1, "", NO_LINES), ["empty"]);
    lab.plain("t.b", 1, NO_LINES);
    assert_eq!(lab.atomic("t.c", 2, "", NO_LINES), ["empty"]);
    assert_eq!(lab.stream().log().messages(), 1);
    assert_eq!(
        lab.atomic("t.a", 3, "1", NO_LINES),
        ["0.0 pub 4 batch 65 count 3"]
    );
    assert_eq!(lab.kept(), [1, 2, 3, 4]);
    assert_eq!(lab.stream().open_atomic_batches(), 0);
}

/// ADR-50 [atomic.commit.eob, atomic.commit.eob-header]
#[test]
fn an_end_of_batch_marks_the_message_before_it() {
    for defects in [&[][..], &[ServerDefect::AtomicEobStoreRefused]] {
        let mut lab = Lab::without(defects, |_| {});
        lab.atomic("t.a", 1, "", NO_LINES);
        let answers = lab.atomic("t.a", 2, "eob", NO_LINES);
        assert_eq!(answers, ["0.0 pub 1 batch 65 count 1"]);
        let headers = lab.stream().log().headers(StreamSequence(1)).unwrap();
        let last = headers.lines().last().unwrap();
        assert_eq!(last, &(BATCH_COMMIT.to_owned(), "1".to_owned()));
    }
}

/// ADR-50 [atomic.checks.last-sequence, atomic.checks.subject-sequence, atomic.error.header,
/// atomic.last-message-id, atomic.duplicates]
#[test]
fn one_message_that_fails_refuses_the_whole_batch() {
    let filter = header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT;
    let cases: &[(Lines<'_>, &str)] = &[
        (
            &[
                (header::EXPECTED_LAST_MESSAGE_ID, "x"),
                (header::EXPECTED_STREAM, "Q"),
            ],
            "10177: atomic publish unsupported header used: Nats-Expected-Last-Msg-Id",
        ),
        (
            &[(header::EXPECTED_STREAM, "Q")],
            "10060: expected stream does not match",
        ),
        (&[(header::TTL, "5s")], "10166: per-message TTL is disabled"),
        (
            &[
                (header::MESSAGE_ID, "m1"),
                (header::EXPECTED_LAST_SEQUENCE, "9"),
            ],
            "10201: atomic publish batch contains duplicate message id",
        ),
        (
            &[(header::MESSAGE_ID, "known")],
            "10201: atomic publish batch contains duplicate message id",
        ),
        (
            &[(header::EXPECTED_LAST_SEQUENCE, "1")],
            "10071: wrong last sequence: 2",
        ),
        (
            &[(header::EXPECTED_LAST_SEQUENCE, "2")],
            "10164: wrong last sequence",
        ),
        (
            &[(header::EXPECTED_LAST_SUBJECT_SEQUENCE, "9")],
            "10164: wrong last sequence",
        ),
        (
            &[
                (header::EXPECTED_LAST_SUBJECT_SEQUENCE, "9"),
                (filter, "t.*"),
            ],
            "10071: wrong last sequence: 1",
        ),
        (
            &[(filter, "t.a")],
            "10193: missing sequence for expected last sequence per subject",
        ),
        (
            &[(header::ROLLUP, "sub")],
            "10111: batch rollup sub invalid",
        ),
        (
            &[(header::ROLLUP, "all")],
            "10111: batch rollup all invalid",
        ),
        (
            &[(header::ROLLUP, "x")],
            "10111: rollup value invalid: \"x\"",
        ),
    ];
    for (lines, text) in cases {
        let mut lab = Lab::for_atomic(|config| config.allow_rollup_hdrs = true);
        lab.plain("t.z", 1, &[(header::MESSAGE_ID, "known")]);
        lab.atomic("t.a", 1, "", &[(header::MESSAGE_ID, "m1")]);
        let answers = lab.atomic("t.a", 2, "1", lines);
        assert_eq!(answers, [format!("0.0 refused {text}")]);
        assert_eq!(lab.kept(), [1]);
        assert_eq!(lab.stream().open_atomic_batches(), 0);
        assert_eq!(lab.advisories(), []);
    }
}

#[test]
fn the_first_of_several_messages_that_fail_is_told() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "", &[(header::EXPECTED_STREAM, "Q")]);
    let answers = lab.atomic("t.a", 2, "1", &[(header::EXPECTED_LAST_MESSAGE_ID, "x")]);
    assert_eq!(
        answers,
        ["0.0 refused 10060: expected stream does not match"]
    );
}

#[test]
fn room_is_counted_for_the_whole_batch() {
    let mut lab = Lab::for_atomic(|config| {
        config.discard = Discard::New;
        config.max_msgs = 2;
        config.max_bytes = 1_000;
        config.max_msgs_per_subject = 1;
        config.discard_new_per_subject = true;
    });
    let mut batch = |bytes: u32, subjects: &[&str]| {
        let mut answers = Vec::new();
        for (sequence, subject) in (1..).zip(subjects) {
            let commit = if sequence == subjects.len() as u64 {
                "1"
            } else {
                ""
            };
            answers = lab.atomic_of("A", subject, sequence, commit, bytes, NO_LINES);
        }
        answers
    };
    let refused = |what| [format!("0.0 refused 10077: maximum {what} exceeded")];
    assert_eq!(batch(1, &["t.a", "t.b", "t.c"]), refused("messages"));
    assert_eq!(batch(500, &["t.a", "t.b"]), refused("bytes"));
    assert_eq!(batch(1, &["t.a", "t.a"]), refused("messages per subject"));
    let answers = batch(1, &["t.a", "t.b"]);
    assert_eq!(answers, ["0.0 pub 2 batch 65 count 2"]);
}

#[test]
fn the_headers_of_an_end_of_batch_are_not_read() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "", NO_LINES);
    let lines = [
        (header::EXPECTED_LAST_MESSAGE_ID, "x"),
        (header::EXPECTED_STREAM, "Q"),
    ];
    let answers = lab.atomic("t.a", 2, "eob", &lines);
    assert_eq!(answers, ["0.0 pub 1 batch 65 count 1"]);
}

#[test]
fn the_required_level_is_not_stored() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "1", &[(header::REQUIRED_API_LEVEL, "5")]);
    let headers = lab.stream().log().headers(StreamSequence(1)).unwrap();
    assert_eq!(headers.get(header::REQUIRED_API_LEVEL), None);
    assert_eq!(headers.lines().len(), 3);
}

/// ADR-50 [atomic.id, atomic.error.disabled, atomic.error.id]
#[test]
fn what_comes_before_the_batch_leaves_it_alone() {
    let mut lab = Lab::for_atomic(|config| config.max_msg_size = 300);
    lab.atomic("t.a", 1, "", NO_LINES);
    let answers = lab.atomic_of("A", "t.a", 2, "", 300, NO_LINES);
    let text = "0.0 refused 10054: message size exceeds maximum allowed";
    assert_eq!(answers, [text]);
    let id = "x".repeat(65);
    let answers = lab.atomic_of(&id, "t.a", 1, "", 1, NO_LINES);
    let text = "0.0 refused 10179: atomic publish batch ID is invalid";
    assert_eq!(answers, [text]);
    let answers = lab.atomic("t.a", 2, "1", NO_LINES);
    assert_eq!(answers, ["0.0 pub 2 batch 65 count 2"]);
    lab.update(|config| config.allow_atomic = false);
    for id in ["A", &id] {
        let answers = lab.atomic_of(id, "t.a", 1, "", 1, NO_LINES);
        let text = "0.0 refused 10174: atomic publish is disabled";
        assert_eq!(answers, [text]);
    }
}

/// ADR-50 [atomic.idle, atomic.advisory]
#[test]
fn an_idle_batch_is_abandoned_and_told_of() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "", NO_LINES);
    lab.pass(Time::from_secs(9));
    assert_eq!(lab.stream().open_atomic_batches(), 1);
    lab.pass(Time::from_secs(2));
    assert_eq!(lab.stream().open_atomic_batches(), 0);
    assert_eq!(lab.advisories(), [AbandonReason::Timeout]);
}

#[test]
fn a_batch_goes_with_its_feature_and_its_stream_in_silence() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "", NO_LINES);
    lab.update(|config| config.allow_atomic = false);
    lab.update(|config| config.allow_atomic = true);
    assert_eq!(lab.stream().open_atomic_batches(), 0);
    lab.atomic("t.a", 1, "", NO_LINES);
    let stream = "S".to_owned();
    lab.call(&ApiRequest::Delete { stream }).unwrap();
    assert_eq!(lab.advisories(), []);
    let forgotten = lab.facts.iter().filter(|fact| {
        matches!(
            fact,
            Fact::Atomic(AtomicFact::Forgotten {
                committed: false,
                ..
            })
        )
    });
    assert_eq!(forgotten.count(), 2);
}

#[test]
fn a_stream_without_acks_is_silent_about_everything() {
    let mut lab = Lab::for_atomic(|config| config.no_ack = true);
    for (sequence, commit) in [(5, ""), (1, ""), (1, ""), (1, ""), (2, "1"), (1, "x")] {
        let answers = lab.atomic("t.a", sequence, commit, NO_LINES);
        assert!(answers.is_empty(), "{answers:?}");
    }
    assert_eq!(lab.kept(), [1, 2]);
    assert_eq!(lab.advisories(), [AbandonReason::Incomplete]);
}

#[test]
fn fast_and_atomic_batches_of_one_id_do_not_meet() {
    let mut lab = Lab::for_atomic(|_| {});
    lab.atomic("t.a", 1, "", NO_LINES);
    lab.send(65, START, 1);
    assert_eq!(lab.stream().open_batches(), 1);
    let answers = lab.atomic("t.a", 2, "1", NO_LINES);
    assert_eq!(answers, ["0.0 pub 3 batch 65 count 2"]);
    assert_eq!(lab.send(65, COMMIT, 2), ["65.2 pub 4 batch 65 count 2"]);
}

/// What a fast message that expects the last sequence 99 is told, on a stream with one message whose
/// atomic batch failed at its third message.
fn told_after_failure(lab: &mut Lab) -> Vec<String> {
    lab.gap = GapMode::Ok;
    lab.plain("t.a", 1, NO_LINES);
    lab.send(0, START, 1);
    lab.atomic("t.a", 1, "", NO_LINES);
    lab.atomic("t.a", 2, "", NO_LINES);
    lab.atomic("t.a", 3, "1", &[(header::EXPECTED_STREAM, "Q")]);
    lab.send_with(0, APPEND, 2, &[(header::EXPECTED_LAST_SEQUENCE, "99")])
}

/// As a server was seen to do it.
#[test]
fn a_failed_batch_shifts_the_last_sequence_for_fast_messages() {
    let mut lab = Lab::for_atomic(|_| {});
    let text = "0.2 err 2: wrong last sequence: 4";
    assert_eq!(told_after_failure(&mut lab), [text]);
    // Plain publishes are right.
    let lines = [(header::EXPECTED_LAST_SEQUENCE, "99")];
    let answers = lab.plain("t.a", 1, &lines);
    assert_eq!(answers, ["0.0 refused 10071: wrong last sequence: 2"]);
    // So is the next atomic batch, and after it everybody is.
    lab.atomic("t.a", 1, "1", NO_LINES);
    let text = "0.3 err 3: wrong last sequence: 3";
    assert_eq!(lab.send_with(0, APPEND, 3, &lines), [text]);

    let mut lab = Lab::without(&[ServerDefect::R1FailedAtomicShiftsLast], |_| {});
    let text = "0.2 err 2: wrong last sequence: 2";
    assert_eq!(told_after_failure(&mut lab), [text]);
}

/// A batch of two messages with an end, on a stream whose `max_bytes` they fill but for ten bytes.
fn tight_batch(defects: &[ServerDefect]) -> (Lab, Vec<String>) {
    let mut lab = Lab::without(defects, |config| {
        config.discard = Discard::New;
        config.max_bytes = 2 * (3 + 54 + 50 + 34) + 10;
    });
    lab.atomic_of("A", "t.a", 1, "", 50, NO_LINES);
    lab.atomic_of("A", "t.b", 2, "", 50, NO_LINES);
    let answers = lab.atomic_of("A", "t.b", 3, "eob", 1, NO_LINES);
    (lab, answers)
}

/// As a server was seen to do it.
#[test]
fn a_header_that_no_room_is_left_for_strands_the_batch() {
    let refused = ["0.0 refused 10077: maximum bytes exceeded"];
    let (mut lab, answers) = tight_batch(&[]);
    assert_eq!(answers, refused);
    assert_eq!(lab.kept(), [1], "half a batch");
    assert_eq!(lab.stream().open_atomic_batches(), 1);
    lab.pass(Time::from_secs(60));
    assert_eq!(lab.stream().open_atomic_batches(), 1);
    let answers = lab.atomic("t.a", 4, "", NO_LINES);
    let text = "0.0 refused 10176: atomic publish batch is incomplete";
    assert_eq!(answers, [text]);
    assert_eq!(lab.advisories(), [AbandonReason::Incomplete]);
    assert_eq!(lab.stream().open_atomic_batches(), 0);

    let (lab, answers) = tight_batch(&[ServerDefect::AtomicEobStoreRefused]);
    assert_eq!(answers, refused);
    assert!(lab.kept().is_empty());
    assert_eq!(lab.stream().open_atomic_batches(), 0);
}

/// A message of a batch replaces nothing of its own batch: of a subject only the first may roll up, and
/// all only the first of the batch.
#[test]
fn rollups_in_a_batch_meet_no_message_of_it() {
    let sub: Lines<'_> = &[(header::ROLLUP, "sub")];
    let all: Lines<'_> = &[(header::ROLLUP, "all")];
    let refused = |kind: &str| format!("0.0 refused 10111: batch rollup {kind} invalid");
    let whole = |last| format!("0.0 pub {last} batch 65 count 2");
    type Message<'a> = (&'a str, Lines<'a>);
    let cases: [(Message<'_>, Message<'_>, String, &[u64]); 5] = [
        (("t.a", sub), ("t.b", sub), whole(3), &[2, 3]),
        (("t.a", all), ("t.b", NO_LINES), whole(3), &[2, 3]),
        (("t.a", NO_LINES), ("t.b", sub), whole(3), &[1, 2, 3]),
        (("t.a", NO_LINES), ("t.a", sub), refused("sub"), &[1]),
        (("t.a", NO_LINES), ("t.b", all), refused("all"), &[1]),
    ];
    for (first, second, answer, kept) in cases {
        let mut lab = Lab::for_atomic(|config| config.allow_rollup_hdrs = true);
        lab.plain("t.a", 1, NO_LINES);
        assert_eq!(lab.atomic(first.0, 1, "", first.1), ["empty"]);
        assert_eq!(lab.atomic(second.0, 2, "1", second.1), [answer]);
        assert_eq!(lab.kept(), kept);
    }
}
