//! What a stream keeps and lets go of.

use super::*;
use crate::nats::StreamSequence;

#[test]
fn discard_old_drops_the_oldest() {
    let mut lab = Lab::new(|config| config.max_msgs = 2);
    lab.send(0, START, 1);
    lab.send(0, APPEND, 2);
    lab.send(0, APPEND, 3);
    assert_eq!(lab.send(0, COMMIT, 4), ["0.4 pub 4 batch 0 count 4"]);
    assert_eq!(lab.kept(), [3, 4]);
    lab.update(|config| config.max_bytes = 40);
    assert_eq!(lab.kept(), [4]);
}

#[test]
fn discard_new_refuses_in_the_order_messages_bytes_subject() {
    let full = |change: fn(&mut StreamConfig)| {
        let mut lab = Lab::new(|config| {
            config.discard = Discard::New;
            change(config);
        });
        lab.gap = GapMode::Ok;
        lab.send(0, START, 1);
        lab.send(0, APPEND, 2)
    };
    assert_eq!(
        full(|config| {
            config.max_msgs = 1;
            config.max_bytes = 40;
        }),
        ["0.2 err 2: maximum messages exceeded"]
    );
    assert_eq!(
        full(|config| {
            config.max_bytes = 67;
            config.max_msgs_per_subject = 1;
            config.discard_new_per_subject = true;
        }),
        ["0.2 err 2: maximum bytes exceeded"]
    );
    assert_eq!(
        full(|config| {
            config.max_bytes = 68;
            config.max_msgs_per_subject = 1;
            config.discard_new_per_subject = true;
        }),
        ["0.2 err 2: maximum messages per subject exceeded"]
    );
    assert!(full(|config| config.max_bytes = 68).is_empty());
}

#[test]
fn a_full_stream_takes_what_replaces_the_oldest_of_its_subject() {
    let mut lab = Lab::new(|config| {
        config.discard = Discard::New;
        config.max_msgs = 2;
        config.max_msgs_per_subject = 1;
    });
    lab.plain("t.a", 1, &[]);
    lab.plain("t.b", 1, &[]);
    assert_eq!(lab.plain("t.a", 1, &[]), ["pub 3"]);
    let full = "0.0 refused 10077: maximum messages exceeded";
    assert_eq!(lab.plain("t.c", 1, &[]), [full]);
    assert_eq!(lab.kept(), [2, 3]);
    // A batch counts before it stores, and has no such exception.
    let answers = lab.send(0, COMMIT, 1);
    assert_eq!(answers, ["0.1 refused 10077: maximum messages exceeded"]);
}

#[test]
fn a_rollup_replaces_its_subject_or_all() {
    let mut lab = Lab::new(|config| config.allow_rollup_hdrs = true);
    for subject in ["t.a", "t.b", "t.a"] {
        lab.plain(subject, 1, &[]);
    }
    lab.plain("t.a", 1, &[(header::ROLLUP, "sub")]);
    assert_eq!(lab.kept(), [2, 4]);
    assert_eq!(lab.stream().subject_count(), 2);
    lab.send_with(0, START, 1, &[(header::ROLLUP, "ALL")]);
    assert_eq!(lab.kept(), [5]);
    let answers = lab.plain("t.a", 1, &[(header::ROLLUP, "x")]);
    assert_eq!(answers, ["0.0 refused 10111: rollup value invalid: \"x\""]);
}

#[test]
fn the_size_of_a_message_includes_its_header_block() {
    let mut lab = Lab::new(|config| config.max_msg_size = 20);
    // 10 + 6 + 2 bytes of header block, and the payload.
    assert_eq!(lab.plain("t.a", 2, &[("K", "v")]), ["pub 1"]);
    let too_big = "0.0 refused 10054: message size exceeds maximum allowed";
    assert_eq!(lab.plain("t.a", 3, &[("K", "v")]), [too_big]);
}

#[test]
fn purges_take_subjects_sequences_and_what_to_keep() {
    let mut lab = Lab::new(|_| {});
    for subject in ["t.a", "t.b", "t.a", "t.b", "t.a", "t.b"] {
        lab.plain(subject, 1, &[]);
    }
    let mut purge = |purge: Purge| {
        let stream = "S".to_owned();
        let answer = lab.call(&ApiRequest::Purge { stream, purge });
        (answer.map_err(|failure| failure.number), lab.kept())
    };
    let filter = || Some("t.a".to_owned());
    let below = |sequence| Some(StreamSequence(sequence));
    let gone = |count| Ok(ApiAnswer::Purged(count));
    assert_eq!(
        purge(Purge {
            filter: filter(),
            sequence: below(3),
            keep: None
        }),
        (gone(1), vec![2, 3, 4, 5, 6])
    );
    assert_eq!(
        purge(Purge {
            filter: filter(),
            sequence: None,
            keep: Some(1)
        }),
        (gone(1), vec![2, 4, 5, 6])
    );
    assert_eq!(
        purge(Purge {
            filter: None,
            sequence: below(5),
            keep: None
        }),
        (gone(2), vec![5, 6])
    );
    assert_eq!(
        purge(Purge {
            filter: None,
            sequence: None,
            keep: Some(1)
        }),
        (gone(1), vec![6])
    );
    assert_eq!(
        purge(Purge {
            filter: None,
            sequence: below(80),
            keep: None
        }),
        (gone(1), vec![])
    );
    assert_eq!(lab.plain("t.a", 1, &[]), ["pub 80"]);
}

#[test]
fn a_removed_message_uncovers_the_one_before_it_on_its_subject() {
    let mut lab = Lab::new(|_| {});
    for subject in ["t.a", "t.b", "t.a"] {
        lab.plain(subject, 1, &[]);
    }
    let request = ApiRequest::MessageDelete {
        stream: "S".to_owned(),
        sequence: StreamSequence(3),
    };
    lab.call(&request).unwrap();
    assert_eq!(lab.call(&request).unwrap_err().number, 10043);
    let lines = [(header::EXPECTED_LAST_SUBJECT_SEQUENCE, "1")];
    assert_eq!(lab.plain("t.a", 1, &lines), ["pub 4"]);
}

#[test]
fn a_stream_without_acks_is_silent_where_nats_server_is() {
    let mut lab = Lab::new(|config| config.no_ack = true);
    lab.flow = 2;
    assert!(lab.plain("t.a", 1, &[]).is_empty());
    assert!(lab.send(0, START, 1).is_empty());
    assert!(lab.send(7, APPEND, 2).is_empty());
    assert_eq!(lab.send(0, PING, 1), ["0.1 ack 0/2"]);
    assert_eq!(lab.send(0, APPEND, 2), ["0.2 ack 2/2"]);
    let wrong = [(header::EXPECTED_LAST_SEQUENCE, "9")];
    let answers = lab.send_with(0, COMMIT, 3, &wrong);
    let text = "0.3 err 3: wrong last sequence: 3";
    assert_eq!(answers, [text, "0.3 pub 3 batch 0 count 2"]);
}
