//! Every row of the batch's transitions, on the batch alone: a stream is played by hand.

use super::*;
use crate::batch::fast::flow::EvenShare;
use crate::nats::error_code::ErrorCode;

const START: Operation = Operation::Start;
const APPEND: Operation = Operation::Append;
const COMMIT: Operation = Operation::Commit;
const EOB: Operation = Operation::CommitEob;
const PING: Operation = Operation::Ping;

/// What the stream says of a message that the batch lets pass.
#[derive(Clone, Copy)]
enum Fate {
    Store,
    Duplicate,
    Refuse,
    /// Passes the checks, and the store refuses it.
    RefuseAtStore,
}

/// The bugs of every release.
const RELEASED: BatchDefects = BatchDefects {
    ack_before_store: false,
    count_one_more: false,
    ack_half_as_often: false,
    ping_opens: false,
    backward_silent: false,
    rewinds: false,
    gap_one_too_low: false,
    ok_commit_strands: false,
    uncounted_at_open: false,
    idle_advisory: false,
    refusals_do_not_count: true,
    ping_after_end_counts: true,
    no_first_ack: true,
};

/// A batch, a stream that only counts, and the answers in short.
struct Bench {
    batch: Option<Ingest>,
    gap: GapMode,
    rules: Rules,
    last: u64,
}

impl Bench {
    fn new(flow: u16, gap: GapMode) -> Self {
        let rules = Rules {
            policy: Policy::EvenShare(EvenShare { total: 500 }),
            pressure: Pressure {
                open: 1,
                ..Pressure::default()
            },
            no_ack: false,
            defects: RELEASED,
        };
        Self {
            batch: Some(Ingest::open(flow, gap, rules)),
            gap,
            rules,
            last: 100,
        }
    }

    /// A batch with `stored` messages in it.
    fn with(flow: u16, gap: GapMode, stored: u64) -> Self {
        let mut bench = Self::new(flow, gap);
        for sequence in 1..=stored {
            let operation = if sequence == 1 { START } else { APPEND };
            bench.send(operation, sequence);
        }
        bench
    }

    fn send(&mut self, operation: Operation, sequence: u64) -> Vec<String> {
        self.send_to(operation, sequence, Fate::Store)
    }

    fn send_to(&mut self, operation: Operation, sequence: u64, fate: Fate) -> Vec<String> {
        let mut out: Vec<Answer> = Vec::new();
        let (rules, gap) = (self.rules, self.gap);
        let sequence = BatchSequence(sequence);
        let batch = self.batch.as_mut().expect("the batch is open");
        let error: ApiError = ErrorCode::ExpectedStream.into();
        let over = match (batch.arrive(operation, sequence, rules, &mut out), fate) {
            (Next::Done, _) => false,
            (Next::Forget, _) => true,
            (Next::Check, Fate::Store) => {
                self.last += 1;
                batch.accepted();
                batch.stored(sequence, StreamSequence(self.last), None, rules, &mut out)
            }
            (Next::Check, Fate::Duplicate) => {
                batch.duplicate(operation, gap, StreamSequence(7), rules, &mut out)
            }
            (Next::Check, Fate::Refuse) => batch.refused(operation, gap, error, rules, &mut out),
            (Next::Check, Fate::RefuseAtStore) => {
                batch.accepted();
                false
            }
        };
        if rules.defects == RELEASED {
            assert!(batch.is_ordered(), "{batch:?}");
        }
        if over {
            self.batch = None;
        }
        out.iter().map(short).collect()
    }

    fn is_over(&self) -> bool {
        self.batch.is_none()
    }
}

fn short(answer: &Answer) -> String {
    match answer {
        Answer::Ack(ack) => format!("ack {}/{}", ack.sequence, ack.messages),
        Answer::Gap(gap) => format!("gap {}->{}", gap.expected, gap.received),
        Answer::Error(error) => format!("err {}: {}", error.sequence, error.error.code.number()),
        Answer::PubAck(ack) => {
            let count = ack.count.map_or(0, |count| count.0);
            let mark = if ack.duplicate { " dup" } else { "" };
            format!("pub {} count {count}{mark}", ack.sequence)
        }
        Answer::Refused(error) => format!("refused {}", error.code.number()),
    }
}

// -- the plain course ---------------------------------------------------------------------------

#[test]
fn a_start_is_acked_at_once_and_a_commit_ends() {
    let mut bench = Bench::new(10, GapMode::Fail);
    assert_eq!(bench.send(START, 1), ["ack 0/10"]);
    assert!(bench.send(APPEND, 2).is_empty());
    assert_eq!(bench.send(COMMIT, 3), ["pub 103 count 3"]);
    assert!(bench.is_over());
}

#[test]
fn a_single_commit_is_not_acked_first() {
    let mut bench = Bench::new(10, GapMode::Ok);
    assert_eq!(bench.send(COMMIT, 1), ["pub 101 count 1"]);
}

#[test]
fn an_end_of_batch_does_not_count() {
    let mut bench = Bench::with(10, GapMode::Fail, 2);
    assert_eq!(bench.send(EOB, 3), ["pub 102 count 2"]);
    assert!(bench.is_over());
}

#[test]
fn a_stream_without_acks_swallows_the_first_ack_only() {
    let mut bench = Bench::new(2, GapMode::Fail);
    bench.rules.no_ack = true;
    assert!(bench.send(START, 1).is_empty());
    assert_eq!(bench.send(APPEND, 2), ["ack 2/2"]);
    assert_eq!(bench.send(PING, 2), ["ack 2/2"]);
    assert_eq!(bench.send(COMMIT, 3), ["pub 103 count 3"]);
}

// -- flow ---------------------------------------------------------------------------------------

#[test]
fn acks_come_at_each_full_flow() {
    let mut bench = Bench::new(3, GapMode::Fail);
    let mut acks = Vec::new();
    acks.extend(bench.send(START, 1));
    for sequence in 2..=7 {
        acks.extend(bench.send(APPEND, sequence));
    }
    assert_eq!(acks, ["ack 0/3", "ack 3/3", "ack 6/3"]);
}

#[test]
fn a_commit_on_the_boundary_is_not_acked_as_well() {
    let mut bench = Bench::with(3, GapMode::Fail, 2);
    assert_eq!(bench.send(COMMIT, 3), ["pub 103 count 3"]);
}

#[test]
fn an_end_on_the_boundary_comes_after_the_ack_of_the_last_message() {
    let mut bench = Bench::with(3, GapMode::Fail, 2);
    assert_eq!(bench.send(APPEND, 3), ["ack 3/3"]);
    assert_eq!(bench.send(EOB, 4), ["pub 103 count 3"]);
}

#[test]
fn one_ack_stands_for_all_intervals_that_a_gap_skips() {
    let mut bench = Bench::with(3, GapMode::Ok, 2);
    assert_eq!(bench.send(APPEND, 11), ["gap 3->11", "ack 9/3"]);
    assert_eq!(bench.send(APPEND, 12), ["ack 12/3"]);
}

#[test]
fn an_ack_carries_the_flow_that_follows_it() {
    let mut bench = Bench::new(65_535, GapMode::Fail);
    bench.send(START, 1);
    for sequence in 2..500 {
        assert!(bench.send(APPEND, sequence).is_empty());
    }
    bench.rules.pressure.open = 2;
    assert_eq!(bench.send(APPEND, 500), ["ack 500/250"]);
    for sequence in 501..750 {
        assert!(bench.send(APPEND, sequence).is_empty());
    }
    assert_eq!(bench.send(APPEND, 750), ["ack 750/250"]);
}

// -- gaps and repeats ---------------------------------------------------------------------------

#[test]
fn a_gap_ends_a_batch_that_does_not_allow_it() {
    let mut bench = Bench::with(10, GapMode::Fail, 2);
    assert_eq!(bench.send(APPEND, 5), ["gap 3->5", "pub 102 count 2"]);
    assert!(bench.is_over());
}

#[test]
fn a_commit_after_a_gap_is_not_stored_where_gaps_end_a_batch() {
    let mut bench = Bench::with(10, GapMode::Fail, 2);
    assert_eq!(bench.send(COMMIT, 5), ["gap 3->5", "pub 102 count 2"]);
    let mut bench = Bench::with(10, GapMode::Fail, 2);
    assert_eq!(bench.send(EOB, 5), ["gap 3->5", "pub 102 count 2"]);
}

#[test]
fn a_gap_is_told_and_counted_where_it_is_allowed() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    assert_eq!(bench.send(APPEND, 5), ["gap 3->5"]);
    assert_eq!(bench.send(EOB, 8), ["gap 6->8", "pub 103 count 7"]);
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    assert_eq!(bench.send(COMMIT, 5), ["gap 3->5", "pub 103 count 5"]);
}

#[test]
fn a_repeat_ends_the_batch_in_both_modes() {
    for gap in [GapMode::Ok, GapMode::Fail] {
        for (operation, sequence) in [(START, 1), (APPEND, 2), (COMMIT, 1), (EOB, 2)] {
            let mut bench = Bench::with(10, gap, 3);
            let told = format!("gap 4->{sequence}");
            let answers = bench.send(operation, sequence);
            assert_eq!(answers, [told.as_str(), "pub 103 count 3"], "{operation:?}");
            assert!(bench.is_over());
        }
    }
}

#[test]
fn the_highest_sequences_do_not_overflow() {
    let most = u64::MAX - 1;
    let mut bench = Bench::with(10, GapMode::Ok, 1);
    let answers = bench.send(APPEND, most);
    assert_eq!(answers[0], format!("gap 2->{most}"));
    let end = format!("gap {}->5", u64::MAX);
    assert_eq!(bench.send(APPEND, 5)[0], end);
    let mut bench = Bench::with(10, GapMode::Ok, 1);
    assert_eq!(bench.send(PING, most)[0], format!("gap 2->{}", u64::MAX));
}

// -- pings --------------------------------------------------------------------------------------

#[test]
fn a_ping_repeats_the_last_ack() {
    let mut bench = Bench::with(3, GapMode::Fail, 5);
    for sequence in [5, 4, 1] {
        assert_eq!(bench.send(PING, sequence), ["ack 3/3"]);
    }
    assert_eq!(bench.send(APPEND, 6), ["ack 6/3"]);
}

#[test]
fn a_ping_ahead_ends_a_batch_that_allows_no_gap() {
    let mut bench = Bench::with(3, GapMode::Fail, 4);
    assert_eq!(bench.send(PING, 6), ["gap 5->7", "pub 104 count 4"]);
    assert!(bench.is_over());
}

#[test]
fn a_ping_ahead_moves_a_batch_that_allows_gaps() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    assert_eq!(bench.send(PING, 4), ["gap 3->5", "ack 0/10"]);
    assert_eq!(bench.send(PING, 25), ["gap 5->26", "ack 20/10"]);
    assert_eq!(bench.send(EOB, 26), ["pub 102 count 25"]);
}

#[test]
fn the_gap_mode_of_the_opening_message_rules_over_gaps() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    bench.gap = GapMode::Fail;
    assert_eq!(bench.send(APPEND, 5), ["gap 3->5"]);
    assert_eq!(bench.send(PING, 6), ["gap 6->7", "ack 0/10"]);
}

// -- duplicates ---------------------------------------------------------------------------------

#[test]
fn duplicates_count_and_are_acked() {
    let mut bench = Bench::new(3, GapMode::Fail);
    assert_eq!(bench.send_to(START, 1, Fate::Duplicate), ["ack 0/3"]);
    assert!(bench.send_to(APPEND, 2, Fate::Duplicate).is_empty());
    assert_eq!(bench.send_to(APPEND, 3, Fate::Duplicate), ["ack 3/3"]);
    assert_eq!(bench.send(EOB, 4), ["pub 0 count 3"]);
}

#[test]
fn an_end_of_batch_counts_the_duplicates_before_it() {
    let mut bench = Bench::new(10, GapMode::Fail);
    bench.send(START, 1);
    assert!(bench.send_to(APPEND, 2, Fate::Duplicate).is_empty());
    assert_eq!(bench.send(EOB, 3), ["pub 101 count 2"]);
}

#[test]
fn an_error_behind_a_duplicate_counts_it() {
    let mut bench = Bench::new(2, GapMode::Fail);
    assert_eq!(bench.send_to(START, 1, Fate::Duplicate), ["ack 0/2"]);
    let answers = bench.send_to(APPEND, 2, Fate::Refuse);
    assert_eq!(answers, ["err 2: 10060", "pub 0 count 1"]);
    assert!(bench.is_over());
}

/// Until it is stored nothing is acked; then one ack stands for it and the duplicates.
#[test]
fn a_message_that_was_pending_acks_the_duplicates_behind_it() {
    let mut bench = Bench::with(4, GapMode::Fail, 1);
    let mut out: Vec<Answer> = Vec::new();
    let rules = bench.rules;
    let batch = bench.batch.as_mut().unwrap();
    assert_eq!(
        batch.arrive(APPEND, BatchSequence(2), rules, &mut out),
        Next::Check
    );
    batch.accepted();
    for sequence in 3..=8 {
        let sequence = BatchSequence(sequence);
        assert_eq!(batch.arrive(APPEND, sequence, rules, &mut out), Next::Check);
        let original = StreamSequence(7);
        assert!(!batch.duplicate(APPEND, GapMode::Fail, original, rules, &mut out));
    }
    assert!(out.is_empty());
    let (second, at) = (BatchSequence(2), StreamSequence(102));
    assert!(!batch.stored(second, at, None, rules, &mut out));
    let acks = out.iter().map(|answer| match answer {
        Answer::Ack(ack) => (ack.sequence.0, ack.messages),
        other => panic!("{other:?}"),
    });
    assert_eq!(acks.collect::<Vec<_>>(), [(8, 4)]);
    assert_eq!(
        bench.send_to(COMMIT, 9, Fate::Duplicate),
        ["pub 102 count 9"]
    );
}

#[test]
fn a_lone_duplicate_commit_names_the_original() {
    let mut bench = Bench::new(10, GapMode::Fail);
    let answers = bench.send_to(COMMIT, 1, Fate::Duplicate);
    assert_eq!(answers, ["pub 7 count 1 dup"]);
    let mut bench = Bench::new(10, GapMode::Ok);
    let answers = bench.send_to(COMMIT, 1, Fate::Duplicate);
    assert_eq!(answers, ["pub 0 count 1"]);
    assert!(bench.is_over());
}

#[test]
fn a_duplicate_commit_on_the_boundary_is_acked_and_ends() {
    let mut bench = Bench::with(3, GapMode::Fail, 2);
    let answers = bench.send_to(COMMIT, 3, Fate::Duplicate);
    assert_eq!(answers, ["ack 3/3", "pub 102 count 3"]);
    let mut bench = Bench::new(1, GapMode::Fail);
    let answers = bench.send_to(COMMIT, 1, Fate::Duplicate);
    assert_eq!(answers, ["ack 1/1", "pub 7 count 1 dup"]);
}

// -- refused messages ---------------------------------------------------------------------------

#[test]
fn a_refused_first_message_leaves_no_batch() {
    let mut bench = Bench::new(10, GapMode::Fail);
    let answers = bench.send_to(START, 1, Fate::Refuse);
    assert_eq!(answers, ["ack 0/10", "refused 10060"]);
    assert!(bench.is_over());
    let mut bench = Bench::new(10, GapMode::Fail);
    let answers = bench.send_to(COMMIT, 1, Fate::Refuse);
    assert_eq!(answers, ["refused 10060"]);
}

#[test]
fn a_refused_message_ends_a_batch_that_allows_no_gap() {
    for operation in [APPEND, COMMIT] {
        let mut bench = Bench::with(10, GapMode::Fail, 2);
        let answers = bench.send_to(operation, 3, Fate::Refuse);
        assert_eq!(answers, ["err 3: 10060", "pub 102 count 2"]);
        assert!(bench.is_over());
    }
}

#[test]
fn a_refused_message_is_a_hole_where_gaps_are_allowed() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    assert_eq!(bench.send_to(APPEND, 3, Fate::Refuse), ["err 3: 10060"]);
    assert!(bench.send(APPEND, 4).is_empty());
    assert_eq!(bench.send(EOB, 5), ["pub 103 count 4"]);
}

#[test]
fn a_refused_commit_ends_the_batch_before_it() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    let answers = bench.send_to(COMMIT, 3, Fate::Refuse);
    assert_eq!(answers, ["err 3: 10060", "pub 102 count 2"]);
    let mut bench = Bench::new(10, GapMode::Ok);
    let answers = bench.send_to(COMMIT, 1, Fate::Refuse);
    assert_eq!(answers, ["err 1: 10060", "pub 0 count 0"]);
}

#[test]
fn a_window_of_refused_messages_gets_no_ack() {
    let mut bench = Bench::with(2, GapMode::Ok, 1);
    for sequence in [2, 3] {
        bench.send_to(APPEND, sequence, Fate::Refuse);
        assert_eq!(bench.send(PING, sequence), ["ack 0/2"]);
    }
    assert_eq!(bench.send(APPEND, 4), ["ack 4/2"]);
}

#[test]
fn the_gap_mode_of_the_message_itself_rules_over_its_refusal() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    bench.gap = GapMode::Fail;
    let answers = bench.send_to(APPEND, 3, Fate::Refuse);
    assert_eq!(answers, ["err 3: 10060", "pub 102 count 2"]);
}

// -- messages that the store refuses ------------------------------------------------------------

#[test]
fn what_the_store_refused_is_skipped_by_a_later_message() {
    let mut bench = Bench::with(10, GapMode::Fail, 2);
    bench.send_to(APPEND, 3, Fate::RefuseAtStore);
    assert_eq!(bench.send(COMMIT, 4), ["pub 103 count 4"]);
}

#[test]
fn a_batch_whose_last_message_the_store_refused_never_ends() {
    let mut bench = Bench::with(10, GapMode::Ok, 2);
    bench.send_to(APPEND, 3, Fate::RefuseAtStore);
    assert!(bench.send(EOB, 4).is_empty());
    assert!(bench.batch.as_ref().unwrap().is_committing());
    assert_eq!(bench.send(PING, 3), ["ack 0/10"]);
    assert_eq!(bench.send(PING, 4), ["gap 4->5", "ack 0/10"]);
    assert!(bench.send(APPEND, 5).is_empty());
    assert!(!bench.is_over());
}

#[test]
fn a_commit_that_the_store_refused_never_ends() {
    let mut bench = Bench::with(10, GapMode::Fail, 1);
    bench.send_to(COMMIT, 2, Fate::RefuseAtStore);
    assert_eq!(bench.send(PING, 3), ["gap 3->4", "ack 0/10"]);
    assert!(!bench.is_over());
}

#[test]
fn without_acks_a_leak_silences_the_commit() {
    let mut bench = Bench::with(10, GapMode::Fail, 1);
    bench.rules.no_ack = true;
    bench.send_to(APPEND, 2, Fate::RefuseAtStore);
    assert!(bench.send(COMMIT, 3).is_empty());
    assert!(bench.is_over());
}

// -- defects ------------------------------------------------------------------------------------

#[test]
fn the_defects_show() {
    let mut bench = Bench::new(4, GapMode::Fail);
    bench.rules.defects.ack_before_store = true;
    assert_eq!(bench.send(START, 1), ["ack 0/4", "ack 4/4"]);
    assert!(bench.send(APPEND, 2).is_empty());
    bench.send(APPEND, 3);
    assert_eq!(bench.send(APPEND, 4), ["ack 8/4"]);

    let mut bench = Bench::new(1, GapMode::Fail);
    bench.rules.defects.ack_half_as_often = true;
    assert_eq!(bench.send(START, 1), ["ack 0/1"]);
    assert_eq!(bench.send(APPEND, 2), ["ack 2/1"]);
    assert!(bench.send(APPEND, 3).is_empty());

    let mut bench = Bench::new(10, GapMode::Fail);
    bench.rules.defects.count_one_more = true;
    bench.send(START, 1);
    assert_eq!(bench.send(COMMIT, 2), ["pub 102 count 3"]);
}
