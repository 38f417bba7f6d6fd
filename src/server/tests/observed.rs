//! What was seen of real servers and no recorded exchange holds the model to.

use super::group::{lab as replicated, step_down};
use super::*;

const WRONG_LAST_ID: Lines<'_> = &[(header::EXPECTED_LAST_MESSAGE_ID, "x")];

/// A batch that was over and came back with a new leader is one like any other.
#[test]
fn a_batch_that_came_back_takes_pings_messages_and_another_commit() {
    let mut lab = replicated(|_| {});
    lab.send(0, START, 1);
    lab.send(0, APPEND, 2);
    lab.send(0, EOB, 3);
    step_down(&mut lab);
    assert_eq!(lab.settle(), ["0.2 ack 2/10"]);
    assert_eq!(lab.send(0, PING, 2), ["0.2 ack 2/10"]);
    assert!(lab.send(0, APPEND, 3).is_empty());
    assert_eq!(lab.send(0, COMMIT, 4), ["0.4 pub 4 batch 0 count 4"]);
}

#[test]
fn each_message_behind_the_end_of_its_batch_is_refused() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    for sequence in 3..=6 {
        lab.write("t.a", lab.fast(0, APPEND, sequence), 1, &[]);
    }
    let unknown = |sequence| format!("0.{sequence} refused 10208: batch publish ID unknown");
    let mut expected = vec![
        "0.3 gap 2->3".to_owned(),
        "0.3 pub 1 batch 0 count 1".to_owned(),
    ];
    expected.extend([4, 5, 6].map(unknown));
    assert_eq!(lab.settle(), expected);
}

/// The gap that lost messages leave is told as soon as one gets in, and a batch of gap mode ok goes on.
#[test]
fn a_batch_goes_on_behind_messages_that_found_the_queue_full() {
    let model = ServerModel {
        ingest_messages: 10,
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model, |config| config.no_ack = true);
    lab.gap = GapMode::Ok;
    lab.send(0, START, 1);
    let (mut full, mut gaps) = (0, 0);
    let mut sequence = 1;
    for _ in 0..20 {
        for _ in 0..30 {
            sequence += 1;
            lab.write("t.a", lab.fast(0, APPEND, sequence), 1, &[]);
        }
        let answers = lab.settle();
        full += answers.iter().filter(|one| one.ends_with(" 429")).count();
        gaps += answers.iter().filter(|one| one.contains(" gap ")).count();
    }
    // A stream without acks says so all the same.
    assert!(full >= 300, "{full}");
    assert_eq!(gaps, 19);
    let end = lab.send(0, EOB, sequence + 1).pop().unwrap();
    let stored = lab.kept().len();
    assert_eq!(
        end,
        format!("0.{} pub {stored} batch 0 count {sequence}", sequence + 1)
    );
}

/// Unlike the refusal of a header check.
#[test]
fn what_the_store_refuses_is_silent_on_a_stream_without_acks() {
    let mut lab = Lab::new(|config| config.no_ack = true);
    lab.gap = GapMode::Ok;
    lab.send(0, START, 1);
    assert!(lab.send_with(0, APPEND, 2, WRONG_LAST_ID).is_empty());
    let wrong = [(header::EXPECTED_LAST_SEQUENCE, "9")];
    let told = lab.send_with(0, APPEND, 3, &wrong);
    assert_eq!(told, ["0.3 err 3: wrong last sequence: 1"]);
}

#[test]
fn rollups_and_times_to_live_are_refused_in_these_words() {
    let mut lab = Lab::new(|config| {
        config.allow_rollup_hdrs = true;
        config.allow_msg_ttl = true;
    });
    lab.gap = GapMode::Ok;
    lab.send(0, START, 1);
    for (sequence, line, text) in [
        (2, (header::ROLLUP, "q"), "rollup value invalid: \"q\""),
        (3, (header::TTL, "soon"), "invalid per-message TTL"),
        (
            4,
            (header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT, "t.a"),
            "missing sequence for expected last sequence per subject",
        ),
    ] {
        let answers = lab.send_with(0, APPEND, sequence, &[line]);
        assert_eq!(answers, [format!("0.{sequence} err {sequence}: {text}")]);
    }
}
