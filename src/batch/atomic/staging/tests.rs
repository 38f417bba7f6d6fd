//! Staging by itself, with numbers for messages.

use super::*;

const A: BatchHandle = BatchHandle(0);
const B: BatchHandle = BatchHandle(1);
const C: BatchHandle = BatchHandle(2);
const SECOND: fn(u64) -> Time = Time::from_secs;

const RULES: Rules = Rules {
    limits: Limits {
        per_stream: 2,
        per_server: 5,
        elsewhere: 0,
    },
    messages_max: 3,
    defects: StagingDefects {
        lenient_sequence: false,
        eob_counts: false,
        silent_level: false,
    },
};

const fn member(batch: BatchHandle, sequence: u64, commit: AtomicCommit) -> Membership {
    Membership {
        batch,
        sequence: BatchSequence(sequence),
        given: AtomicSequence::Number,
        commit,
    }
}

/// What a message gives, with the sequence for a message.
fn take_at(
    staging: &mut Staging<u64>,
    now: Time,
    rules: Rules,
    member: Membership,
    level_is_met: bool,
) -> Next<u64> {
    staging
        .take(now, member, level_is_met, rules, || member.sequence.0)
        .next
}

fn take(staging: &mut Staging<u64>, sequence: u64, commit: AtomicCommit) -> Next<u64> {
    let now = SECOND(0);
    take_at(staging, now, RULES, member(A, sequence, commit), true)
}

fn staging() -> Staging<u64> {
    Staging::new(SECOND(10))
}

/// Code and advisory of a refusal; whether the batch went with it.
fn refusal(next: Next<u64>) -> (u16, bool, Option<AbandonReason>) {
    match next {
        Next::Refused(error, ended) => {
            let advisory = ended.as_ref().and_then(|ended| ended.advisory);
            (error.code.number(), ended.is_some(), advisory)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_commit_hands_over_all_that_was_staged() {
    let mut staging = staging();
    assert_eq!(take(&mut staging, 1, AtomicCommit::No), Next::Staged);
    assert_eq!(take(&mut staging, 2, AtomicCommit::No), Next::Staged);
    let commit = take(&mut staging, 3, AtomicCommit::Store);
    assert_eq!(commit, Next::Commit(vec![1, 2, 3]));
    // It counts until it is dealt with, and has no timer.
    assert_eq!((staging.open(), staging.due()), (1, Time::NEVER));
    staging.close(A);
    assert_eq!(staging.open(), 0);
    assert_eq!(
        take(&mut staging, 1, AtomicCommit::Store),
        Next::Commit(vec![1])
    );
}

#[test]
fn an_end_of_batch_is_no_message() {
    let mut staging = staging();
    for sequence in 1..=3 {
        take(&mut staging, sequence, AtomicCommit::No);
    }
    // Three are allowed.
    let commit = take(&mut staging, 4, AtomicCommit::Eob);
    assert_eq!(commit, Next::Commit(vec![1, 2, 3]));
}

/// ADR-50 [atomic.error.incomplete]
#[test]
fn what_is_not_the_next_message_ends_the_batch() {
    for (sequence, commit) in [
        (0, AtomicCommit::No),
        (1, AtomicCommit::No),
        (3, AtomicCommit::No),
        (1, AtomicCommit::Eob),
        (3, AtomicCommit::Store),
        (2_000, AtomicCommit::No),
        (u64::MAX, AtomicCommit::No),
    ] {
        let mut staging = staging();
        take(&mut staging, 1, AtomicCommit::No);
        let got = refusal(take(&mut staging, sequence, commit));
        let incomplete = Some(AbandonReason::Incomplete);
        assert_eq!(got, (10_176, true, incomplete), "{sequence}");
        assert_eq!(staging.open(), 0);
    }
}

#[test]
fn an_unknown_batch_is_told_as_incomplete_or_too_large() {
    for (sequence, commit, code) in [
        (0, AtomicCommit::No, 10_176),
        (2, AtomicCommit::Unknown, 10_176),
        (3, AtomicCommit::No, 10_176),
        (4, AtomicCommit::No, 10_199),
        (4, AtomicCommit::Eob, 10_176),
        (5, AtomicCommit::Eob, 10_199),
        // An end of batch before the first message wraps around.
        (0, AtomicCommit::Eob, 10_199),
    ] {
        let got = refusal(take(&mut staging(), sequence, commit));
        assert_eq!(got, (code, false, None), "{sequence}");
    }
}

/// ADR-50 [atomic.error.size]
#[test]
fn the_first_message_past_the_limit_ends_the_batch() {
    let mut staging = staging();
    for sequence in 1..=3 {
        take(&mut staging, sequence, AtomicCommit::No);
    }
    let got = take(&mut staging, 4, AtomicCommit::Store);
    assert!(matches!(&got, Next::Refused(error, _)
        if error.to_string() == "atomic publish batch is too large: 3"));
    assert_eq!(refusal(got), (10_199, true, Some(AbandonReason::Large)));
}

#[test]
fn an_unknown_commit_ends_the_batch_in_silence() {
    let mut staging = staging();
    let got = refusal(take(&mut staging, 1, AtomicCommit::Unknown));
    assert_eq!(got, (10_200, true, None));
    take(&mut staging, 1, AtomicCommit::No);
    // It comes before the look at the sequence.
    let got = refusal(take(&mut staging, 7, AtomicCommit::Unknown));
    assert_eq!(got, (10_200, true, None));
}

/// ADR-50 [atomic.api-level]
#[test]
fn a_level_that_is_not_met_ends_the_batch() {
    let at_level = |rules| {
        let mut staging = staging();
        take(&mut staging, 1, AtomicCommit::No);
        let member = member(A, 2, AtomicCommit::No);
        refusal(take_at(&mut staging, SECOND(0), rules, member, false))
    };
    let unsupported = Some(AbandonReason::Unsupported);
    assert_eq!(at_level(RULES), (10_185, true, unsupported));
    let mut silent = RULES;
    silent.defects.silent_level = true;
    assert_eq!(at_level(silent), (10_185, true, None));
}

/// ADR-50 [atomic.limit.stream, atomic.limit.server, atomic.error.in-flight]
#[test]
fn limits_in_flight_meet_the_first_message_only() {
    let mut staging = staging();
    let first = |staging: &mut Staging<u64>, batch, rules| {
        let member = member(batch, 1, AtomicCommit::No);
        take_at(staging, SECOND(0), rules, member, true)
    };
    assert_eq!(first(&mut staging, A, RULES), Next::Staged);
    let mut crowded = RULES;
    crowded.limits.elsewhere = 4;
    let got = refusal(first(&mut staging, B, crowded));
    assert_eq!(got, (10_210, false, None));
    assert_eq!(first(&mut staging, B, RULES), Next::Staged);
    let got = refusal(first(&mut staging, C, RULES));
    assert_eq!(got, (10_210, false, None));
    assert_eq!(take(&mut staging, 2, AtomicCommit::No), Next::Staged);
}

#[test]
fn an_idle_batch_is_abandoned_and_a_message_puts_that_off() {
    let mut staging = staging();
    let at = |staging: &mut Staging<u64>, second, sequence| {
        let member = member(A, sequence, AtomicCommit::No);
        take_at(staging, SECOND(second), RULES, member, true)
    };
    at(&mut staging, 0, 1);
    assert_eq!(staging.due(), SECOND(10));
    at(&mut staging, 9, 2);
    assert_eq!(staging.due(), SECOND(19));
    assert_eq!(staging.expire(SECOND(18)), None);
    let ended = staging.expire(SECOND(19)).unwrap();
    assert_eq!(ended.messages, [1, 2]);
    assert_eq!(ended.advisory, Some(AbandonReason::Timeout));
    assert_eq!((staging.open(), staging.due()), (0, Time::NEVER));
}

#[test]
fn a_message_without_a_sequence_is_dropped_alone() {
    let mut staging = staging();
    take(&mut staging, 1, AtomicCommit::No);
    let without = |given| Membership {
        given,
        ..member(A, u64::MAX, AtomicCommit::No)
    };
    for given in [AtomicSequence::Missing, AtomicSequence::NoNumber] {
        // It does not put the timeout off, either.
        let next = take_at(&mut staging, SECOND(5), RULES, without(given), true);
        assert_eq!(refusal(next), (10_175, false, None));
    }
    assert_eq!(staging.due(), SECOND(10));
    assert_eq!(take(&mut staging, 2, AtomicCommit::No), Next::Staged);

    let mut lenient = RULES;
    lenient.defects.lenient_sequence = true;
    let missing = without(AtomicSequence::Missing);
    let next = take_at(&mut staging, SECOND(0), lenient, missing, true);
    assert_eq!(refusal(next), (10_175, false, None));
    let no_number = without(AtomicSequence::NoNumber);
    let next = take_at(&mut staging, SECOND(0), lenient, no_number, true);
    let incomplete = Some(AbandonReason::Incomplete);
    assert_eq!(refusal(next), (10_176, true, incomplete));
    let next = take_at(&mut staging, SECOND(0), lenient, no_number, true);
    assert_eq!(refusal(next), (10_199, false, None));
}

#[test]
fn an_end_of_batch_that_counts_is_one_message_too_many() {
    let mut staging = staging();
    for sequence in 1..=3 {
        take(&mut staging, sequence, AtomicCommit::No);
    }
    let mut counting = RULES;
    counting.defects.eob_counts = true;
    let eob = member(A, 4, AtomicCommit::Eob);
    let next = take_at(&mut staging, SECOND(0), counting, eob, true);
    assert_eq!(refusal(next), (10_199, true, Some(AbandonReason::Large)));
}

#[test]
fn a_batch_whose_commit_was_not_dealt_with_is_freed_by_its_next_message() {
    let mut staging = staging();
    take(&mut staging, 1, AtomicCommit::Store);
    assert_eq!(staging.expire(SECOND(1_000)), None);
    let got = refusal(take(&mut staging, 2, AtomicCommit::No));
    assert_eq!(got, (10_176, true, Some(AbandonReason::Incomplete)));
    assert_eq!(take(&mut staging, 1, AtomicCommit::No), Next::Staged);
}

#[test]
fn clearing_gives_every_batch_back() {
    let mut staging = staging();
    take(&mut staging, 1, AtomicCommit::No);
    let other = member(B, 1, AtomicCommit::No);
    take_at(&mut staging, SECOND(0), RULES, other, true);
    let gone = staging.clear();
    let batches: Vec<BatchHandle> = gone.iter().map(|ended| ended.batch).collect();
    assert_eq!(batches, [A, B]);
    assert!(gone.iter().all(|ended| ended.advisory.is_none()));
    assert_eq!((staging.open(), staging.due()), (0, Time::NEVER));
}
