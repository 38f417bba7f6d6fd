//! The order of checks, and what each looks at.

use super::*;
use crate::nats::StreamSequence;

#[test]
fn the_order_before_the_batch_is_fixed() {
    let mut lab = Lab::new(|config| {
        config.allow_batched = false;
        config.max_msg_size = 10;
    });
    let code = |lab: &mut Lab, control, bytes| {
        lab.write("t.a", control, bytes, &[]);
        lab.settle()[0].split(' ').nth(2).unwrap().to_owned()
    };
    assert_eq!(code(&mut lab, Control::BadPattern, 11), "10054:");
    assert_eq!(code(&mut lab, Control::BadPattern, 1), "10205:");
    lab.update(|config| config.allow_batched = true);
    assert_eq!(code(&mut lab, Control::BadPattern, 1), "10206:");
    assert_eq!(code(&mut lab, Control::BadBatchId, 1), "10207:");
}

#[test]
fn an_api_level_that_is_not_met_destroys_the_batch() {
    let mut lab = Lab::new(|_| {});
    let level = "refused 10185: JetStream minimum api level required";
    for operation in [APPEND, PING, EOB] {
        lab.send(0, START, 1);
        let answers = lab.send_with(0, operation, 2, &[(header::REQUIRED_API_LEVEL, "6")]);
        assert_eq!(answers, [format!("0.2 {level}")]);
        assert_eq!(lab.stream().open_batches(), 0);
    }
    let answers = lab.send_with(0, START, 1, &[(header::REQUIRED_API_LEVEL, "x")]);
    assert_eq!(answers, [format!("0.1 {level}")]);
    assert_eq!(lab.stream().open_batches(), 0);
}

#[test]
fn a_level_that_is_met_is_stripped_before_the_message_is_stored() {
    let mut lab = Lab::new(|_| {});
    lab.send_with(0, START, 1, &[(header::REQUIRED_API_LEVEL, "5")]);
    let lines = [(header::REQUIRED_API_LEVEL, "-1"), ("K", "v")];
    lab.send_with(0, APPEND, 2, &lines);
    let log = lab.stream().log();
    assert_eq!(log.headers(StreamSequence(1)), None);
    let kept = log.headers(StreamSequence(2)).unwrap();
    assert_eq!(kept.lines(), [("K".to_owned(), "v".to_owned())]);
}

/// The first failing check decides: each line would fail alone, and hides those after it.
#[test]
fn headers_are_checked_in_the_order_of_a_batch() {
    let wrong = [
        (
            header::EXPECTED_STREAM,
            "Q",
            "expected stream does not match",
        ),
        (header::TTL, "x", "per-message TTL is disabled"),
        (header::MESSAGE_ID, "known", ""),
        (
            header::EXPECTED_LAST_SEQUENCE,
            "9",
            "wrong last sequence: 1",
        ),
        (
            header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT,
            "t.>",
            "missing sequence for expected last sequence per subject",
        ),
        (header::ROLLUP, "sub", "rollup not permitted"),
    ];
    for first in 0..wrong.len() {
        let mut lab = Lab::new(|_| {});
        lab.gap = GapMode::Ok;
        lab.plain("t.b", 1, &[(header::MESSAGE_ID, "known")]);
        // The order in the block does not matter.
        let rest = wrong[first..].iter().rev();
        let lines: Vec<(&str, &str)> = rest.map(|(k, v, _)| (*k, *v)).collect();
        let answers = lab.send_with(0, START, 1, &lines);
        let text = wrong[first].2;
        if text.is_empty() {
            assert_eq!(answers, ["0.1 ack 0/10"]);
        } else {
            assert_eq!(
                answers,
                ["0.1 ack 0/10".to_owned(), format!("0.1 err 1: {text}")]
            );
        }
    }
}

#[test]
fn headers_are_checked_in_another_order_on_a_plain_publish() {
    let wrong = [
        (
            header::EXPECTED_STREAM,
            "Q",
            "10060: expected stream does not match",
        ),
        (header::TTL, "5", "10166: per-message TTL is disabled"),
        (
            header::EXPECTED_LAST_SUBJECT_SEQUENCE,
            "9",
            "10071: wrong last sequence: 0",
        ),
        (
            header::EXPECTED_LAST_SEQUENCE,
            "9",
            "10071: wrong last sequence: 1",
        ),
        (header::MESSAGE_ID, "known", ""),
        (
            header::EXPECTED_LAST_MESSAGE_ID,
            "q",
            "10070: wrong last msg ID: known",
        ),
        (header::ROLLUP, "q", "10111: rollup not permitted"),
        (header::TTL, "x", "10165: invalid per-message TTL"),
    ];
    for first in 0..wrong.len() {
        let mut lab = Lab::new(|_| {});
        lab.plain("t.b", 1, &[(header::MESSAGE_ID, "known")]);
        let lines: Vec<(&str, &str)> = wrong[first..].iter().map(|(k, v, _)| (*k, *v)).collect();
        let answers = lab.plain("t.a", 1, &lines);
        let text = wrong[first].2;
        if text.is_empty() {
            assert_eq!(answers, ["pub 1 duplicate"]);
        } else {
            assert_eq!(answers, [format!("0.0 refused {text}")]);
        }
    }
}

#[test]
fn an_expected_last_sequence_counts_what_the_batch_has_stored() {
    let mut lab = Lab::new(|_| {});
    lab.send_with(0, START, 1, &[(header::EXPECTED_LAST_SEQUENCE, "0")]);
    assert!(
        lab.send_with(0, APPEND, 2, &[(header::EXPECTED_LAST_SEQUENCE, "1")])
            .is_empty()
    );
    let answers = lab.send_with(0, COMMIT, 3, &[(header::EXPECTED_LAST_SEQUENCE, "1")]);
    let text = "0.3 err 3: wrong last sequence: 2";
    assert_eq!(answers, [text, "0.3 pub 2 batch 0 count 2"]);
}

#[test]
fn an_expected_last_subject_sequence_takes_wildcards() {
    let mut lab = Lab::new(|_| {});
    lab.plain("t.a", 1, &[]);
    lab.plain("t.b", 1, &[]);
    let ask = |lab: &mut Lab, sequence, filter| {
        let lines = [
            (header::EXPECTED_LAST_SUBJECT_SEQUENCE, sequence),
            (header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, filter),
        ];
        lab.plain("t.c", 1, &lines)[0].clone()
    };
    assert_eq!(ask(&mut lab, "2", "t.*"), "pub 3");
    assert_eq!(ask(&mut lab, "1", "t.a"), "pub 4");
    assert_eq!(ask(&mut lab, "0", "q.*"), "pub 5");
    let wrong = "0.0 refused 10071: wrong last sequence: 5";
    assert_eq!(ask(&mut lab, "4", "t.>"), wrong);
}

#[test]
fn a_wrong_last_message_id_leaves_the_batch_open_for_good() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    let answers = lab.send_with(0, APPEND, 2, &[(header::EXPECTED_LAST_MESSAGE_ID, "z")]);
    assert_eq!(answers, ["0.2 refused 10070: wrong last msg ID: "]);
    assert!(lab.send(0, EOB, 3).is_empty());
    lab.pass(Time::from_secs(60));
    assert_eq!(lab.stream().open_batches(), 1);
    assert_eq!(lab.send(0, PING, 2), ["0.2 ack 0/10"]);
    assert_eq!(lab.send(1, START, 1)[0], "1.1 ack 0/1");
}

#[test]
fn message_ids_are_known_for_the_window() {
    let mut lab = Lab::new(|config| config.duplicate_window = 2_000_000_000);
    let id = [(header::MESSAGE_ID, "a")];
    assert_eq!(lab.plain("t.a", 1, &id), ["pub 1"]);
    let stream = "S".to_owned();
    let purge = Purge::default();
    lab.call(&ApiRequest::Purge { stream, purge }).unwrap();
    assert_eq!(lab.plain("t.a", 1, &id), ["pub 1 duplicate"]);
    let answers = lab.send_with(0, COMMIT, 1, &id);
    assert_eq!(answers, ["0.1 pub 1 batch 0 count 1"]);
    lab.pass(Time::from_secs(2));
    assert_eq!(lab.plain("t.a", 1, &id), ["pub 2"]);
}

#[test]
fn a_commit_behind_a_gap_that_is_refused_frees_its_place() {
    let wrong: Lines<'_> = &[(header::EXPECTED_LAST_SEQUENCE, "99")];
    let mut lab = Lab::new(|_| {});
    lab.gap = GapMode::Ok;
    lab.send(0, START, 1);
    let answers = lab.send_with(0, COMMIT, 5, wrong);
    let expected = [
        "0.5 gap 2->5",
        "0.5 err 5: wrong last sequence: 1",
        "0.5 pub 1 batch 0 count 4",
    ];
    assert_eq!(answers, expected);
    assert_eq!(lab.stream().open_batches(), 0);
}
