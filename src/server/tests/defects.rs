//! Bugs of real servers, each shown with the switch off and on; what is expected with it on is what
//! nats-server 2.14.0 or 2.14.6 was seen to do, where one of them has the bug.

use super::*;
use crate::batch::message::AbandonReason;
use crate::nats::version::ServerVersion;
use crate::stream::config::Retention;

/// A server like 2.15.1, with this bug or without.
fn lab(defect: ServerDefect, on: bool, gap: GapMode) -> Lab {
    let mut model = ServerModel {
        atomic_batch_messages: 2,
        ..ServerModel::default()
    };
    switch(&mut model, defect, on);
    let mut lab = Lab::with(model, |config| config.allow_atomic = true);
    lab.gap = gap;
    lab
}

/// Puts a bug in, or takes it away.
pub(super) fn switch(model: &mut ServerModel, defect: ServerDefect, on: bool) {
    if on {
        model.defects.insert(defect);
    } else {
        model.defects.remove(&defect);
    }
}

/// What `play` gives without the defect, and with it.
fn both<T>(defect: ServerDefect, gap: GapMode, play: impl Fn(&mut Lab) -> T) -> [T; 2] {
    [false, true].map(|on| play(&mut lab(defect, on, gap)))
}

/// A message that fails its checks.
const WRONG: Lines<'_> = &[(header::EXPECTED_LAST_SEQUENCE, "99")];
const KNOWN: Lines<'_> = &[(header::MESSAGE_ID, "known")];

#[test]
fn a_version_has_its_bugs_and_no_made_up_ones() {
    let of = |version| ServerModel::of(version).defects.len();
    assert_eq!(ServerVersion::ALL.map(of), [18, 15, 12]);
    for version in ServerVersion::ALL {
        let model = ServerModel::of(version);
        assert!(!model.defects.contains(&ServerDefect::StoreTwice));
        assert!(
            model
                .defects
                .contains(&ServerDefect::R1FailedAtomicShiftsLast)
        );
    }
}

#[test]
fn ping1_creates_batch() {
    let defect = ServerDefect::Ping1CreatesBatch;
    let unknown = "0.1 refused 10208: batch publish ID unknown";
    let play = |lab: &mut Lab| lab.send(0, PING, 1);
    let [off, on] = both(defect, GapMode::Fail, play);
    assert_eq!(off, [unknown]);
    assert_eq!(on, ["0.1 gap 1->2", "0.1 pub 0 batch 0 count 0"]);
    let [off, on] = both(defect, GapMode::Ok, play);
    assert_eq!(off, [unknown]);
    assert_eq!(on, ["0.1 gap 1->2", "0.1 ack 0/10"]);
}

#[test]
fn backward_silent() {
    let [off, on] = both(ServerDefect::BackwardSilent, GapMode::Fail, |lab| {
        lab.send(0, START, 1);
        lab.send(0, APPEND, 2);
        lab.send(0, APPEND, 2)
    });
    assert_eq!(off, ["0.2 gap 3->2", "0.2 pub 2 batch 0 count 2"]);
    assert_eq!(on, ["0.2 pub 2 batch 0 count 2"]);
}

#[test]
fn plain_size_late() {
    let [off, on] = both(ServerDefect::PlainSizeLate, GapMode::Fail, |lab| {
        lab.update(|config| config.max_msg_size = 50);
        lab.plain("t.a", 1, KNOWN);
        let wrong = (header::TTL, "x");
        [KNOWN, WRONG, &[], &[wrong]].map(|lines| lab.plain("t.a", 51, lines).concat())
    });
    let too_large = "0.0 refused 10054: message size exceeds maximum allowed";
    assert_eq!(off, [too_large; 4]);
    let refused = "0.0 refused 10071: wrong last sequence: 1";
    // What a time to live says comes after the size either way.
    assert_eq!(on, ["pub 1 duplicate", refused, too_large, too_large]);
}

#[test]
fn gap_ok_commit_err_strands() {
    let defect = ServerDefect::GapOkCommitErrStrands;
    let refused = "0.3 err 3: wrong last sequence: 2";
    let [off, on] = both(defect, GapMode::Ok, |lab| {
        lab.send(0, START, 1);
        lab.send(0, APPEND, 2);
        let commit = lab.send_with(0, COMMIT, 3, WRONG);
        lab.pass(Time::from_secs(60));
        let rest = [(EOB, 4), (PING, 9), (PING, 9)]
            .map(|(operation, sequence)| lab.send(0, operation, sequence));
        (commit, rest, lab.stream().open_batches())
    });
    assert_eq!(off.0, [refused, "0.3 pub 2 batch 0 count 2"]);
    assert_eq!(off.2, 0);
    assert_eq!(on.0, [refused]);
    let nothing: &[&str] = &[];
    assert_eq!(on.1[0], nothing);
    assert_eq!(on.1[1], ["0.9 gap 4->10", "0.9 ack 0/10"]);
    assert_eq!(on.1[2], ["0.9 ack 0/10"]);
    assert_eq!(on.2, 1);
    // In gap mode fail a commit ends the batch whatever becomes of it.
    let [off, on] = both(defect, GapMode::Fail, |lab| {
        lab.send(0, START, 1);
        lab.send_with(0, COMMIT, 2, WRONG)
    });
    assert_eq!(off, on);
    assert_eq!(on.len(), 2);
}

#[test]
fn gap_ok_commit_err_strands_duplicates_and_what_is_unsettled() {
    let defect = ServerDefect::GapOkCommitErrStrands;
    let [off, on] = both(defect, GapMode::Ok, |lab| {
        lab.send_with(0, START, 1, KNOWN);
        lab.send_with(0, COMMIT, 2, KNOWN)
    });
    assert_eq!(off, ["0.2 pub 1 batch 0 count 2"]);
    assert!(on.is_empty());
    // A refused message of gap mode fail ends a batch of gap mode ok.
    let [off, on] = both(defect, GapMode::Ok, |lab| {
        lab.send(0, START, 1);
        lab.send_with(0, APPEND, 2, WRONG);
        lab.gap = GapMode::Fail;
        lab.send_with(0, APPEND, 3, WRONG)
    });
    let refused = "0.3 err 3: wrong last sequence: 1";
    assert_eq!(off, [refused, "0.3 pub 1 batch 0 count 2"]);
    assert_eq!(on, [refused]);
}

#[test]
fn gap_ok_backward_rewinds() {
    let [off, on] = both(ServerDefect::GapOkBackwardRewinds, GapMode::Ok, |lab| {
        lab.send(0, START, 1);
        lab.send(0, APPEND, 5);
        let back = lab.send(0, APPEND, 2);
        (back, lab.send(0, COMMIT, 3))
    });
    assert_eq!(off.0, ["0.2 gap 6->2", "0.2 pub 2 batch 0 count 5"]);
    assert_eq!(on.0, ["0.2 gap 6->2"]);
    assert_eq!(on.1, ["0.3 pub 4 batch 0 count 3"]);
}

#[test]
fn gap_last_seq_off_by_one() {
    let [off, on] = both(ServerDefect::GapLastSeqOffByOne, GapMode::Ok, |lab| {
        lab.send(0, START, 1);
        [lab.send(0, APPEND, 4), lab.send(0, PING, 6)].concat()
    });
    assert_eq!(off, ["0.4 gap 2->4", "0.6 gap 5->7", "0.6 ack 0/10"]);
    assert_eq!(on, ["0.4 gap 1->4", "0.6 gap 4->7", "0.6 ack 0/10"]);
}

#[test]
fn flow_init_off_by_one() {
    let [off, on] = both(ServerDefect::FlowInitOffByOne, GapMode::Ok, |lab| {
        lab.flow = 1_000;
        [0, 1, 2].map(|batch| lab.send(batch, START, 1)[0].clone())
    });
    assert_eq!(off, ["0.1 ack 0/500", "1.1 ack 0/1", "2.1 ack 0/1"]);
    assert_eq!(on, ["0.1 ack 0/500", "1.1 ack 0/500", "2.1 ack 0/1"]);
}

#[test]
fn timeout_advisory_fast() {
    let [off, on] = both(ServerDefect::TimeoutAdvisoryFast, GapMode::Ok, |lab| {
        lab.send(0, START, 1);
        lab.pass(Time::from_secs(11));
        lab.advisories()
    });
    assert_eq!(off, []);
    assert_eq!(on, [AbandonReason::Timeout]);
}

#[test]
fn atomic_seq_lenient() {
    let [off, on] = both(ServerDefect::AtomicSeqLenient, GapMode::Ok, |lab| {
        lab.atomic("t.a", 1, "", &[]);
        let lines = [(header::BATCH_ID, "A"), (header::BATCH_SEQUENCE, "abc")];
        (lab.atomic_with("t.a", 1, &lines), lab.advisories())
    });
    let missing = "0.0 refused 10175: atomic publish sequence is missing";
    assert_eq!(off, (vec![missing.to_owned()], vec![]));
    let incomplete = "0.0 refused 10176: atomic publish batch is incomplete";
    let advisory = vec![AbandonReason::Incomplete];
    assert_eq!(on, (vec![incomplete.to_owned()], advisory));
}

#[test]
fn atomic_eob_max_size() {
    let [off, on] = both(ServerDefect::AtomicEobMaxSize, GapMode::Ok, |lab| {
        lab.atomic("t.a", 1, "", &[]);
        lab.atomic("t.a", 2, "", &[]);
        lab.atomic("t.a", 3, "eob", &[])
    });
    assert_eq!(off, ["0.0 pub 2 batch 65 count 2"]);
    let text = "0.0 refused 10199: atomic publish batch is too large: 2";
    assert_eq!(on, [text]);
}

#[test]
fn unsupported_advisory_missing() {
    let defect = ServerDefect::UnsupportedAdvisoryMissing;
    let [off, on] = both(defect, GapMode::Ok, |lab| {
        let lines = [(header::REQUIRED_API_LEVEL, "9")];
        (lab.atomic("t.a", 1, "", &lines), lab.advisories())
    });
    let text = "0.0 refused 10185: JetStream minimum api level required";
    let refused = vec![text.to_owned()];
    assert_eq!(off, (refused.clone(), vec![AbandonReason::Unsupported]));
    assert_eq!(on, (refused, vec![]));
}

/// ADR-50 says nothing of what a refused message does to the flow in gap mode ok; without the bug it
/// counts like a duplicate.
#[test]
fn err_window_stall() {
    let [off, on] = both(ServerDefect::ErrWindowStall, GapMode::Ok, |lab| {
        lab.flow = 2;
        lab.send(0, START, 1);
        let refused = [2, 3].map(|sequence| lab.send_with(0, APPEND, sequence, WRONG));
        let ping = lab.send(0, PING, 3);
        (refused.concat(), ping, lab.send(0, APPEND, 4))
    });
    let error = |sequence| format!("0.{sequence} err {sequence}: wrong last sequence: 1");
    let ack = |to, sequence| format!("0.{to} ack {sequence}/2");
    assert_eq!(on.0, [error(2), error(3)]);
    assert_eq!((on.1, on.2), (vec![ack(3, 0)], vec![ack(4, 4)]));
    assert_eq!(off.0, [error(2), ack(2, 2), error(3)]);
    assert_eq!((off.1, off.2), (vec![ack(3, 2)], vec![ack(4, 4)]));
}

#[test]
fn last_msg_id_leak_r1() {
    let wrong: Lines<'_> = &[(header::EXPECTED_LAST_MESSAGE_ID, "x")];
    for (operation, sequence) in [(EOB, 3), (COMMIT, 2)] {
        let [off, on] = both(ServerDefect::LastMsgIdLeakR1, GapMode::Ok, |lab| {
            lab.send(0, START, 1);
            let mut answers = Vec::new();
            if operation == EOB {
                answers = lab.send_with(0, APPEND, 2, wrong);
            }
            answers.extend(lab.send_with(0, operation, sequence, wrong));
            lab.pass(Time::from_secs(60));
            (answers, lab.stream().open_batches())
        });
        assert_eq!(on.0, ["0.2 refused 10070: wrong last msg ID: "]);
        assert_eq!(on.1, 1, "it holds its place for ever");
        let count = if operation == EOB { 2 } else { 1 };
        let over = format!("0.{sequence} pub 1 batch 0 count {count}");
        assert_eq!(off.0, ["0.2 err 2: wrong last msg ID: ".to_owned(), over]);
        assert_eq!(off.1, 0);
    }
}

#[test]
fn no_ack_no_start_ack() {
    let [off, on] = both(ServerDefect::NoAckNoStartAck, GapMode::Ok, |lab| {
        lab.update(|config| config.no_ack = true);
        [lab.send(0, START, 1), lab.send(0, PING, 1)]
    });
    let ack = vec!["0.1 ack 0/10".to_owned()];
    assert_eq!(on, [vec![], ack.clone()]);
    assert_eq!(off, [ack.clone(), ack]);
}

#[test]
fn the_api_level_is_that_of_the_version() {
    for (version, met) in [
        (ServerVersion::V2_14_0, false),
        (ServerVersion::V2_14_6, false),
        (ServerVersion::V2_15_1, true),
    ] {
        let mut lab = Lab::with(ServerModel::of(version), |_| {});
        let lines = [(header::REQUIRED_API_LEVEL, "5")];
        let answers = lab.send_with(0, START, 1, &lines);
        assert_eq!(answers == ["0.1 ack 0/10"], met, "{version}: {answers:?}");
        let level = &lab.stream().config().metadata["_nats.level"];
        assert_eq!(*level, version.api_level().to_string());
    }
}

/// Of one stream whose ids are remembered for ten seconds: what comes of the second message, five seconds
/// after the first, when it is sent again as the window of the first ends, and then with another window.
fn sent_again(defect: bool, retention: Retention) -> [bool; 2] {
    let mut model = ServerModel::default();
    switch(&mut model, ServerDefect::InterestIdsUndated, defect);
    let mut lab = Lab::with(model, |config| {
        config.retention = retention;
        config.duplicate_window = 10_000_000_000;
    });
    let is_known = |lab: &mut Lab, id: &str| {
        let answers = lab.plain("t.a", 1, &[(header::MESSAGE_ID, id)]);
        answers[0].contains("duplicate")
    };
    assert!(!is_known(&mut lab, "first"));
    lab.pass(Time::from_secs(5));
    assert!(!is_known(&mut lab, "second"));
    assert!(is_known(&mut lab, "second"));
    lab.pass(Time::from_millis(5_500));
    let window_ended = is_known(&mut lab, "second");
    lab.update(|config| config.duplicate_window = 3_600_000_000_000);
    [window_ended, is_known(&mut lab, "second")]
}

#[test]
fn interest_ids_undated() {
    assert_eq!(sent_again(true, Retention::Interest), [false, false]);
    for [known, still] in [
        sent_again(false, Retention::Interest),
        sent_again(true, Retention::Limits),
    ] {
        assert!(known && still);
    }
}
