//! Unit tests of replicas that are turned by hand: the disk is done at once, messages are passed on
//! by the test.

use std::sync::Arc;

use super::*;
use crate::raft::message::{Append, CatchupId, Channel, Content, Response};
use crate::raft::seam::Refusal;
use crate::raft::{RaftDefect, RaftDefects};

type TestNode = Node<u32, u64>;
type TestAction = Action<u32, u64>;
type TestMessage = Message<u32, u64>;

/// A proposal is its own size.
impl Entry for u32 {
    fn bytes(&self) -> u64 {
        u64::from(*self)
    }

    fn digest(&self) -> u64 {
        u64::from(*self)
    }
}

impl State for u64 {
    fn bytes(&self) -> u64 {
        8
    }
}

const SECOND: Time = Time::from_secs(1);
const FIRST: NodeId = NodeId(0);
const SECOND_NODE: NodeId = NodeId(1);

/// Steps, with a disk that is done at once and draws that give the shortest span.
fn step(node: &mut TestNode, now: Time, input: Input<u32, u64>) -> Vec<TestAction> {
    let mut done = Vec::new();
    let mut out = Vec::new();
    node.step(now, input, &mut out);
    settle(node, now, &mut out, &mut done);
    done
}

fn wake(node: &mut TestNode, now: Time) -> Vec<TestAction> {
    let mut done = Vec::new();
    while node.due() <= now {
        let mut out = Vec::new();
        node.wake(now, &mut out);
        settle(node, now, &mut out, &mut done);
    }
    done
}

fn settle(node: &mut TestNode, now: Time, out: &mut Vec<TestAction>, done: &mut Vec<TestAction>) {
    while !out.is_empty() {
        let mut next = Vec::new();
        for action in out.drain(..) {
            match action {
                Action::Write(_) => node.step(now, Input::Written, &mut next),
                Action::Draw(range) => node.step(now, Input::Drawn(range.least), &mut next),
                action => done.push(action),
            }
        }
        *out = next;
    }
}

fn received(from: NodeId, message: TestMessage) -> Input<u32, u64> {
    Input::Received { from, message }
}

fn success(index: u64, term: u32) -> TestMessage {
    Message::Response(Response::Success(Position {
        index: LogIndex(index),
        term: Term(term),
    }))
}

/// What it sends of append entries.
fn appends(actions: &[TestAction]) -> Vec<&Append<u32>> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Broadcast(Message::Append(append)) => Some(append),
        Action::Send {
            message: Message::Append(append),
            ..
        } => Some(append),
        _ => None,
    });
    sent.collect()
}

fn sizes(actions: &[TestAction]) -> Vec<usize> {
    let records = appends(actions)
        .into_iter()
        .filter_map(|append| append.record.as_ref());
    records
        .map(|record| record.content.proposed().len())
        .collect()
}

fn applied(actions: &[TestAction]) -> Vec<u64> {
    let indexes = actions.iter().filter_map(|action| match action {
        Action::Apply { index, .. } => Some(index.0),
        _ => None,
    });
    indexes.collect()
}

/// A leader of term 1, at 4 s, that has applied its first entry.
fn leader(settings: Settings) -> TestNode {
    let mut node = Node::new(Time::ZERO, FIRST, settings);
    let now = Time::from_secs(4);
    wake(&mut node, now);
    let vote = Message::VoteResponse {
        term: Term(1),
        granted: true,
        empty: false,
    };
    step(&mut node, now, received(SECOND_NODE, vote));
    step(&mut node, now, received(SECOND_NODE, success(1, 1)));
    let (processed, applied) = (LogIndex(1), LogIndex(1));
    let told = step(&mut node, now, Input::Processed { processed, applied });
    assert_eq!(told, [Action::Lead { term: Term(1) }]);
    node
}

fn propose(entries: Vec<u32>) -> Input<u32, u64> {
    let term = Term(1);
    Input::ProposeAll { term, entries }
}

#[test]
fn an_append_entry_is_full_after_the_entry_that_fills_it() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings {
        batch_bytes: 100,
        batch_entries: 4,
        ..Settings::default()
    });
    // Each counts one more than its size: 50 + 50 fill it, and so do 30 + 90.
    let actions = step(&mut node, now, propose(vec![49, 49, 29, 89, 1, 1, 1, 1, 1]));
    assert_eq!(sizes(&actions), [2, 2, 4, 1]);
    let mut small = leader(Settings {
        defects: RaftDefects::default().with(RaftDefect::SmallBatches512),
        ..Settings::default()
    });
    let actions = step(&mut small, now, propose(vec![1; 5_000]));
    assert_eq!(sizes(&actions), [[512; 9].as_slice(), &[392]].concat());
    let actions = step(
        &mut leader(Settings::default()),
        now,
        propose(vec![1; 5_000]),
    );
    assert_eq!(sizes(&actions), [4_096, 904]);
}

#[test]
fn what_is_proposed_while_the_disk_writes_goes_out_together() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings::default());
    let mut out = Vec::new();
    node.step(now, propose(vec![1]), &mut out);
    assert!(
        matches!(out[..], [Action::Write(_)]),
        "nothing is sent before it is written"
    );
    for entry in 2..=4 {
        let term = Term(1);
        node.step(now, Input::Propose { term, entry }, &mut out);
    }
    assert_eq!(out.len(), 1);
    assert_eq!(node.lag().queued.proposals, 3);
    let mut done = Vec::new();
    settle(&mut node, now, &mut out, &mut done);
    assert_eq!(sizes(&done), [1, 3]);
    assert_eq!(node.lag().uncommitted.proposals, 4);
}

#[test]
fn an_ack_counts_for_exactly_its_index() {
    let now = Time::from_secs(5);
    let mut node = Node::new(
        Time::ZERO,
        FIRST,
        Settings {
            members: 5,
            ..Settings::default()
        },
    );
    wake(&mut node, now);
    for voter in [1, 2] {
        let vote = Message::VoteResponse {
            term: Term(1),
            granted: true,
            empty: false,
        };
        step(&mut node, now, received(NodeId(voter), vote));
    }
    step(&mut node, now, propose(vec![1]));
    step(&mut node, now, propose(vec![2]));
    // Two acks and the leader are a quorum of five, but not for the same index.
    step(&mut node, now, received(NodeId(1), success(3, 1)));
    let actions = step(&mut node, now, received(NodeId(2), success(2, 1)));
    assert_eq!(applied(&actions), [0; 0]);
    let actions = step(&mut node, now, received(NodeId(3), success(3, 1)));
    assert_eq!(applied(&actions), [1, 2, 3]);
}

#[test]
fn a_commit_is_spread_at_once_if_nothing_is_queued() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings::default());
    step(&mut node, now, propose(vec![1]));
    let old = step(&mut node, now, received(SECOND_NODE, success(2, 0)));
    assert_eq!(old, [], "of an earlier term");
    let actions = step(&mut node, now, received(SECOND_NODE, success(2, 1)));
    assert_eq!(applied(&actions), [2]);
    let sent = appends(&actions);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].commit, &sent[0].record), (LogIndex(2), &None));
}

#[test]
fn a_proposal_of_another_term_or_to_no_leader_is_refused() {
    let now = Time::from_secs(5);
    let (term, entry) = (Term(0), 1);
    let refused = [Action::Refused(Refusal::NotLeader)];
    let mut node = leader(Settings::default());
    assert_eq!(
        step(&mut node, now, Input::Propose { term, entry }),
        refused
    );
    let mut node = Node::new(Time::ZERO, FIRST, Settings::default());
    assert_eq!(
        step(&mut node, now, Input::Propose { term, entry }),
        refused
    );
}

#[test]
fn a_step_down_drains_what_is_in_no_append_entry() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings::default());
    let mut out = Vec::new();
    node.step(now, propose(vec![1]), &mut out);
    node.step(now, propose(vec![2, 3]), &mut out);
    let (preferred, chance) = (Some(SECOND_NODE), 0);
    node.step(now, Input::StepDown { preferred, chance }, &mut out);
    let mut done = Vec::new();
    settle(&mut node, now, &mut out, &mut done);
    let sent: Vec<_> = appends(&done)
        .iter()
        .filter_map(|append| append.record.as_ref())
        .collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1].content, Content::Transfer(SECOND_NODE));
    let (term, drained) = (Term(1), vec![2, 3]);
    assert!(done.contains(&Action::SteppedDown { term, drained }));
    assert!(!node.leads());
}

#[test]
fn an_overrun_leader_steps_down_with_the_next_proposal() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings {
        overrun: 3,
        ..Settings::default()
    });
    for _ in 0..4 {
        let actions = step(&mut node, now, propose(vec![1]));
        assert_eq!(sizes(&actions), [1]);
    }
    let actions = step(&mut node, now, propose(vec![1]));
    assert!(actions.contains(&Action::Refused(Refusal::Overrun)));
    assert_eq!(
        appends(&actions),
        Vec::<&Append<u32>>::new(),
        "nobody is asked to take over"
    );
    assert!(!node.leads());
}

/// An append entry of term 1 that follows `index`.
fn append(index: u64, commit: u64, channel: Channel) -> TestMessage {
    let previous = Position {
        index: LogIndex(index),
        term: Term(u32::from(index > 0)),
    };
    Message::Append(Append {
        leader_term: Term(1),
        previous,
        commit: LogIndex(commit),
        record: Some(Arc::new(crate::raft::message::Record {
            term: Term(1),
            commit: LogIndex(commit),
            content: Content::Proposed([index as u32].into()),
            bytes: 100,
            digest: index,
        })),
        channel,
    })
}

fn follower(settings: Settings) -> TestNode {
    Node::new(Time::ZERO, SECOND_NODE, settings)
}

fn answers(actions: &[TestAction]) -> Vec<Response> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send {
            message: Message::Response(response),
            ..
        } => Some(*response),
        _ => None,
    });
    sent.collect()
}

#[test]
fn a_follower_that_misses_an_entry_asks_and_acks_nothing_until_it_is_through() {
    let mut node = follower(Settings::default());
    let new = |index| received(FIRST, append(index, 0, Channel::New));
    assert_eq!(answers(&step(&mut node, SECOND, new(0))).len(), 1);
    let asked = answers(&step(&mut node, SECOND, new(2)));
    let Response::Behind(last, id) = asked[0] else {
        panic!("{asked:?}");
    };
    assert_eq!(last.index, LogIndex(1));
    assert_eq!(answers(&step(&mut node, SECOND, new(3))), []);
    let missing = |index| received(FIRST, append(index, 0, Channel::Catchup(id)));
    assert_eq!(answers(&step(&mut node, SECOND, missing(1))), []);
    let other = received(FIRST, append(2, 0, Channel::Catchup(CatchupId(99))));
    step(&mut node, SECOND, other);
    assert_eq!(
        node.log().last_index(),
        LogIndex(2),
        "nobody asked for that"
    );
    assert_eq!(answers(&step(&mut node, SECOND, new(2))).len(), 1);
    assert!(!node.is_catching_up());
}

#[test]
fn a_catch_up_that_stalls_is_asked_for_again_after_two_seconds() {
    let mut node = follower(Settings::default());
    let mut at = |ms: u64, index| {
        let input = received(FIRST, append(index, 0, Channel::New));
        answers(&step(&mut node, Time::from_millis(ms), input)).len()
    };
    assert_eq!(
        [
            at(1_000, 5),
            at(2_000, 6),
            at(3_000, 7),
            at(3_001, 8),
            at(3_002, 9)
        ],
        [1, 0, 0, 1, 0]
    );
}

#[test]
fn a_follower_that_applies_too_slowly_takes_nothing_until_it_has_caught_up() {
    let mut node = follower(Settings {
        overrun: 3,
        resume: 1,
        ..Settings::default()
    });
    for index in 0..6 {
        let input = received(FIRST, append(index, index, Channel::New));
        step(&mut node, SECOND, input);
    }
    assert!(node.is_paused());
    // Four were committed and none applied when the sixth came.
    assert_eq!(
        (node.log().last_index(), node.commit()),
        (LogIndex(5), LogIndex(4))
    );
    let done = |index| Input::Processed {
        processed: LogIndex(index),
        applied: LogIndex(index),
    };
    let next = || received(FIRST, append(5, 5, Channel::New));
    step(&mut node, SECOND, done(2));
    assert_eq!(answers(&step(&mut node, SECOND, next())), []);
    step(&mut node, SECOND, done(3));
    assert_eq!(answers(&step(&mut node, SECOND, next())).len(), 1);
    assert!(!node.is_paused());
}

#[test]
fn a_follower_campaigns_only_with_all_commits_processed_and_then_takes_entries_again() {
    let mut node = follower(Settings {
        overrun: 1,
        resume: 0,
        ..Settings::default()
    });
    for index in 0..4 {
        step(
            &mut node,
            SECOND,
            received(FIRST, append(index, index, Channel::New)),
        );
    }
    assert!(node.is_paused());
    assert_eq!(
        wake(&mut node, Time::from_secs(5)),
        [],
        "two are not processed"
    );
    let (processed, applied) = (node.commit(), node.commit());
    step(
        &mut node,
        Time::from_secs(5),
        Input::Processed { processed, applied },
    );
    let actions = wake(&mut node, Time::from_secs(6));
    assert!(actions.contains(&Action::Fact(Fact::Resumed)));
    assert_eq!((node.term(), node.is_paused()), (Term(2), false));
}

#[test]
fn a_catch_up_that_replaces_another_hears_of_progress_but_for_the_defect() {
    let more = |defects: RaftDefects| {
        let mut node = leader(Settings {
            catchup_bytes: 100,
            defects,
            ..Settings::default()
        });
        let now = Time::from_secs(5);
        for _ in 0..20 {
            step(&mut node, now, propose(vec![50]));
        }
        let behind = |id| {
            let last = Position::default();
            received(
                NodeId(2),
                Message::Response(Response::Behind(last, CatchupId(id))),
            )
        };
        let first = appends(&step(&mut node, now, behind(1))).len();
        assert_eq!(first, appends(&step(&mut node, now, behind(2))).len());
        let told = step(&mut node, now, received(NodeId(2), success(1, 1)));
        appends(&told).len()
    };
    assert_eq!(more(RaftDefects::default()), 1);
    assert_eq!(
        more(RaftDefects::default().with(RaftDefect::CatchupQueueDeleted)),
        0
    );
}

#[test]
fn a_follower_from_before_the_log_gets_the_snapshot_and_what_follows() {
    let now = Time::from_secs(5);
    let mut node = leader(Settings::default());
    let mut other = Node::new(Time::ZERO, NodeId(2), Settings::default());
    for _ in 0..3 {
        step(&mut node, now, propose(vec![7]));
    }
    step(&mut node, now, received(SECOND_NODE, success(4, 1)));
    let (processed, applied) = (LogIndex(4), LogIndex(3));
    step(&mut node, now, Input::Processed { processed, applied });
    let (index, state, force) = (LogIndex(3), 33, false);
    step(
        &mut node,
        now,
        Input::SnapshotTaken {
            index,
            state,
            force,
        },
    );
    assert_eq!(node.log().first_index(), LogIndex(4));
    // The follower hears of the fifth first; what it asks for goes to the leader and back.
    let mut forth = step(&mut node, now, propose(vec![8]));
    let mut seen = Vec::new();
    while !forth.is_empty() {
        let mut back = Vec::new();
        for action in forth.drain(..) {
            if let Action::Broadcast(message) | Action::Send { message, .. } = action {
                back.extend(step(&mut other, now, received(FIRST, message)));
            }
        }
        for action in back {
            match action {
                Action::Send { message, .. } => {
                    forth.extend(step(&mut node, now, received(NodeId(2), message)));
                }
                action => seen.push(action),
            }
        }
    }
    assert!(seen.contains(&Action::Restore { index, state }));
    assert_eq!(other.log().last(), node.log().last());
    assert_eq!(other.log().snapshot_index(), index);
}

#[test]
fn a_crash_during_a_write_leaves_what_was_written_before() {
    let mut node = follower(Settings::default());
    let new = |index| received(FIRST, append(index, 0, Channel::New));
    step(&mut node, SECOND, new(0));
    step(&mut node, SECOND, Input::Synced);
    step(&mut node, SECOND, new(1));
    let mut out = Vec::new();
    node.step(SECOND, new(2), &mut out);
    assert!(matches!(out[..], [Action::Write(_)]));
    let mut killed = node.clone();
    step(&mut killed, SECOND, Input::Restarted(Restart::AfterKill));
    assert_eq!(killed.log().last_index(), LogIndex(2));
    step(&mut node, SECOND, Input::Restarted(Restart::AfterPowerLoss));
    assert_eq!(node.log().last_index(), LogIndex(1));
}

#[test]
fn a_vote_is_on_disk_before_it_is_told_and_survives_a_loss_of_power() {
    let mut node = follower(Settings::default());
    let request = |candidate| {
        let (term, last) = (Term(3), Position::default());
        received(candidate, Message::VoteRequest { term, last })
    };
    let mut out = Vec::new();
    node.step(SECOND, request(FIRST), &mut out);
    let [Action::Write(write)] = out[..] else {
        panic!("{out:?}");
    };
    assert_eq!(
        (write.files, write.records),
        (2, 0),
        "the term, and then the vote"
    );
    let mut done = Vec::new();
    settle(&mut node, SECOND, &mut out, &mut done);
    let granted = |actions: &[TestAction]| {
        actions.iter().any(|action| {
            matches!(
                action,
                Action::Send {
                    message: Message::VoteResponse { granted: true, .. },
                    ..
                }
            )
        })
    };
    assert!(granted(&done));
    step(&mut node, SECOND, Input::Restarted(Restart::AfterPowerLoss));
    assert!(!granted(&step(&mut node, SECOND, request(NodeId(2)))));
    assert!(granted(&step(&mut node, SECOND, request(FIRST))));
}

#[test]
fn a_heartbeat_goes_out_only_if_nothing_was_stored_for_more_than_a_second() {
    let mut node = leader(Settings::default());
    let at = Time::from_millis;
    step(&mut node, at(4_500), propose(vec![1]));
    assert_eq!(appends(&wake(&mut node, at(5_000))).len(), 0);
    assert_eq!(appends(&wake(&mut node, at(6_000))).len(), 1);
    assert_eq!(appends(&wake(&mut node, at(7_000))).len(), 1);
}
