//! What befalls servers: one on its own, and those of a stream with three replicas.

use super::super::disturb::{Disturbance, Routes};
use super::group::{ends, lab, lab_with, replicas};
use super::*;

impl Lab {
    fn befall(&mut self, server: u8, what: Disturbance) {
        assert!(
            self.server
                .befall(self.now, server, what, &mut self.actions),
            "{what:?}"
        );
        self.note();
    }

    fn losses(&self) -> Vec<(u64, Loss)> {
        let facts = self.facts.iter();
        let losses = facts.filter_map(|fact| match fact {
            Fact::LostInside { sequence, loss, .. } => Some((sequence.0, *loss)),
            _ => None,
        });
        losses.collect()
    }

    fn leaders(&self) -> Vec<Option<u8>> {
        let facts = self.facts.iter();
        let leaders = facts.filter_map(|fact| match fact {
            Fact::Leader(leader) => Some(*leader),
            _ => None,
        });
        leaders.collect()
    }
}

#[test]
fn a_server_that_was_killed_has_its_stream_and_no_batch() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.send(0, APPEND, 2);
    lab.write("t.a", lab.fast(0, APPEND, 3), 1, &[]);
    lab.befall(0, Disturbance::Kill);
    assert_eq!(lab.losses(), [(3, Loss::ServerDown)], "it was in the queue");
    assert!(lab.send(0, APPEND, 4).is_empty(), "nobody is there");
    assert_eq!(lab.losses().len(), 2);
    lab.befall(0, Disturbance::Start);
    let unknown = ["0.5 refused 10208: batch publish ID unknown"];
    assert_eq!(lab.send(0, APPEND, 5), unknown);
    assert_eq!(lab.plain("t.a", 1, &[]), ["pub 3"]);
    let again = lab
        .server
        .befall(lab.now, 0, Disturbance::Start, &mut lab.actions);
    assert!(!again, "it is up");
}

#[test]
fn a_server_that_stands_still_reads_what_was_sent_when_it_goes_on() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.befall(0, Disturbance::Freeze(lab.now + Time::from_secs(5)));
    lab.flow = 2;
    assert!(lab.send(0, APPEND, 2).is_empty());
    lab.pass(Time::from_secs(4));
    assert!(lab.send(0, PING, 2).is_empty());
    lab.pass(Time::from_secs(2));
    assert_eq!(lab.settle(), ["0.2 ack 0/10"]);
    assert_eq!(lab.send(0, COMMIT, 3), ["0.3 pub 3 batch 0 count 3"]);
}

#[test]
fn a_write_takes_as_long_as_a_slow_disk_needs() {
    let mut lab = Lab::new(|config| config.storage = crate::stream::config::Storage::File);
    lab.befall(0, Disturbance::SlowDisk(Time::from_millis(50)));
    lab.write("t.a", Control::Plain, 1, &[]);
    lab.pass(Time::from_millis(49));
    assert!(std::mem::take(&mut lab.sent).is_empty());
    lab.pass(Time::from_millis(2));
    assert_eq!(std::mem::take(&mut lab.sent), ["pub 1"]);
    lab.befall(0, Disturbance::QuickenDisk(Time::from_millis(50)));
    lab.befall(0, Disturbance::HoldDisk(lab.now + Time::from_secs(1)));
    lab.write("t.a", Control::Plain, 1, &[]);
    lab.pass(Time::from_millis(999));
    assert!(std::mem::take(&mut lab.sent).is_empty());
    lab.pass(Time::from_millis(2));
    assert_eq!(std::mem::take(&mut lab.sent), ["pub 2"]);
}

/// The log of a replica that was killed is replayed, and what its store has is not stored again.
#[test]
fn a_replica_that_comes_back_has_everything_once() {
    for how in [Disturbance::Kill, Disturbance::PowerLoss] {
        let mut lab = lab(|_| {});
        lab.send(0, START, 1);
        lab.send(0, APPEND, 2);
        lab.befall(2, how);
        lab.send(0, APPEND, 3);
        lab.send(0, APPEND, 4);
        assert_eq!(ends(&lab), [4, 4, 2]);
        lab.befall(2, Disturbance::Start);
        lab.pass(Time::from_secs(2));
        lab.send(0, APPEND, 5);
        lab.pass(Time::from_secs(2));
        assert_eq!(ends(&lab), [5, 5, 5], "{how:?}");
        let logs: Vec<_> = replicas(&lab)
            .iter()
            .map(|stream| (stream.log().last(), stream.log().bytes()))
            .collect();
        assert_eq!(logs[0], logs[2], "{how:?}");
        assert_eq!(lab.send(0, EOB, 6), ["0.6 pub 5 batch 0 count 5"]);
    }
}

#[test]
fn a_leader_that_is_killed_is_followed_by_another_after_an_election() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(0, Disturbance::Kill);
    assert_eq!(lab.leaders(), [None]);
    assert_eq!(lab.server.leader(), None);
    // The others notice that their connection to it is closed.
    lab.pass(Time::from_millis(1));
    assert_eq!(lab.send(0, APPEND, 2), ["0.2 503"]);
    lab.pass(Time::from_secs(10));
    let leader = lab.server.leader();
    assert!(matches!(leader, Some(1 | 2)), "{leader:?}");
    assert_eq!(lab.leaders(), [None, leader]);
    assert_eq!(std::mem::take(&mut lab.sent), ["0.1 ack 1/10"]);
    lab.befall(0, Disturbance::Start);
    lab.pass(Time::from_secs(2));
    assert_eq!(lab.send(0, COMMIT, 2), ["0.2 pub 2 batch 0 count 2"]);
    lab.pass(Time::from_secs(2));
    assert_eq!(ends(&lab), [2, 2, 2]);
}

#[test]
fn a_leader_that_is_asked_to_end_hands_over_first() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(0, Disturbance::Shutdown);
    assert!(!lab.server.is_up(0) && !lab.server.is_healthy());
    lab.pass(Time::from_millis(50));
    let leader = lab.server.leader();
    assert!(matches!(leader, Some(1 | 2)), "{leader:?}");
    assert_eq!(lab.leaders(), [None, leader], "without an election timer");
    assert_eq!(std::mem::take(&mut lab.sent), ["0.1 ack 1/10"]);
    lab.send(0, APPEND, 2);
    assert_eq!(ends(&lab), [1, 2, 2], "it is gone");
    lab.befall(0, Disturbance::Start);
    assert!(!lab.server.is_healthy(), "it has not caught up");
    lab.send(0, APPEND, 3);
    lab.pass(Time::from_secs(2));
    assert!(lab.server.is_healthy());
    assert_eq!(ends(&lab), [3, 3, 3]);
}

#[test]
fn a_follower_that_is_asked_to_end_ends() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(2, Disturbance::Shutdown);
    lab.send(0, APPEND, 2);
    assert_eq!((ends(&lab), lab.server.leader()), (vec![2, 2, 1], Some(0)));
    lab.befall(2, Disturbance::Start);
    lab.send(0, APPEND, 3);
    lab.pass(Time::from_secs(2));
    assert_eq!((ends(&lab), lab.leaders()), (vec![3, 3, 3], vec![]));
}

/// The old leader is alone: what it takes is never committed, and its successor's log replaces it.
#[test]
fn what_a_leader_takes_that_is_cut_off_is_lost() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(0, Disturbance::CutRoutes(Routes::ALL));
    assert!(
        lab.send(0, APPEND, 2).is_empty(),
        "taken, and not committed"
    );
    lab.pass(Time::from_secs(25));
    assert!(matches!(lab.server.leader(), Some(1 | 2)));
    lab.befall(0, Disturbance::MendRoutes(Routes::ALL));
    lab.pass(Time::from_secs(3));
    assert_eq!(ends(&lab), [1, 1, 1]);
    assert_eq!(lab.plain("t.a", 1, &[]), ["pub 2"]);
    lab.pass(Time::from_secs(3));
    assert_eq!(ends(&lab), [2, 2, 2]);
}

#[test]
fn a_leader_without_followers_steps_down_when_it_looks_for_its_quorum() {
    let mut lab = lab(|_| {});
    lab.befall(1, Disturbance::Kill);
    lab.befall(2, Disturbance::Kill);
    assert!(lab.plain("t.a", 1, &[]).is_empty());
    lab.pass(Time::from_secs(21));
    assert_eq!(lab.server.leader(), None);
    assert_eq!(lab.plain("t.a", 1, &[]), ["0.0 503"]);
    lab.befall(1, Disturbance::Start);
    lab.pass(Time::from_secs(20));
    assert!(lab.server.leader().is_some());
    assert_eq!(
        lab.plain("t.a", 1, &[]),
        ["pub 2"],
        "the first was in a log"
    );
}

/// Nothing is synced by default: with the power of all servers everything goes.
#[test]
fn what_nobody_has_synced_is_gone_when_all_lose_power() {
    let mut lab = lab(|_| {});
    assert_eq!(lab.plain("t.a", 1, &[]), ["pub 1"]);
    for server in 0..3 {
        lab.befall(server, Disturbance::PowerLoss);
    }
    for server in 0..3 {
        lab.befall(server, Disturbance::Start);
    }
    lab.pass(Time::from_secs(20));
    let gone = Fact::Rewound {
        last: StreamSequence(0),
        lost: 1,
    };
    assert!(lab.facts.contains(&gone), "{:?}", lab.facts);
    assert_eq!(lab.plain("t.b", 1, &[]), ["pub 1"]);
    assert_eq!(ends(&lab), [1, 1, 1]);
}

#[test]
fn a_held_route_delays_and_loses_nothing() {
    let mut lab = lab(|_| {});
    let until = lab.now + Time::from_millis(500);
    lab.befall(0, Disturbance::HoldRoutes(Routes::ALL, until));
    lab.write("t.a", Control::Plain, 1, &[]);
    lab.pass(Time::from_millis(499));
    assert!(std::mem::take(&mut lab.sent).is_empty());
    lab.pass(Time::from_millis(3));
    assert_eq!(std::mem::take(&mut lab.sent), ["pub 1"]);
}

/// At a byte in a millisecond an append entry needs longer than the limit lasts, also one that had not left
/// when it began.
#[test]
fn a_limited_route_delays_and_loses_nothing() {
    for sent_first in [false, true] {
        let mut lab = lab_with(|cluster| cluster.bits_per_second = 16_000);
        let until = lab.now + Time::from_millis(50);
        let limit = Disturbance::LimitRoutes(Routes::ALL, 8_000, until);
        if sent_first {
            lab.write("t.a", Control::Plain, 1, &[]);
            lab.befall(0, limit);
        } else {
            lab.befall(0, limit);
            lab.write("t.a", Control::Plain, 1, &[]);
        }
        let mut unlimited = lab_with(|cluster| cluster.bits_per_second = 16_000);
        unlimited.write("t.a", Control::Plain, 1, &[]);
        // Half of the rate for 50 ms: 25 ms later.
        let mut took = 0;
        while std::mem::take(&mut unlimited.sent).is_empty() {
            unlimited.pass(Time::from_millis(1));
            took += 1;
        }
        lab.pass(Time::from_millis(took + 22));
        assert!(std::mem::take(&mut lab.sent).is_empty(), "{took}");
        lab.pass(Time::from_millis(6));
        assert_eq!(std::mem::take(&mut lab.sent), ["pub 1"], "{took}");
    }
}

/// A log that no longer reaches back: the leader's snapshot begins the catch-up.
#[test]
fn a_snapshot_stands_for_what_a_replica_missed() {
    let mut lab = lab_with(|cluster| cluster.snapshot_entries = 8);
    lab.send(0, START, 1);
    lab.befall(2, Disturbance::CutRoutes(Routes::ALL));
    for sequence in 2..=30 {
        lab.send(0, APPEND, sequence);
    }
    assert_eq!(ends(&lab), [30, 30, 1]);
    lab.befall(2, Disturbance::MendRoutes(Routes::ALL));
    lab.pass(Time::from_secs(10));
    assert_eq!(ends(&lab), [30, 30, 30]);
    assert!(lab.taken_over > 0, "by a snapshot");
}

/// A machine that lost its power begins at its last snapshot, and nothing is stored twice.
#[test]
fn a_replica_begins_at_its_snapshot_after_a_loss_of_power() {
    let mut lab = lab_with(|cluster| cluster.snapshot_entries = 8);
    for _ in 0..30 {
        lab.plain("t.a", 1, &[]);
    }
    lab.befall(1, Disturbance::PowerLoss);
    lab.befall(1, Disturbance::Start);
    lab.pass(Time::from_secs(10));
    lab.plain("t.a", 1, &[]);
    lab.pass(Time::from_secs(10));
    assert_eq!(ends(&lab), [31, 31, 31]);
}

/// The route of a server is mended while it is down: it is up when the server is.
#[test]
fn a_trouble_ends_whether_the_server_is_up_or_not() {
    let mut lab = lab(|_| {});
    lab.befall(2, Disturbance::CutRoutes(Routes::ALL));
    lab.befall(2, Disturbance::Freeze(lab.now + Time::from_secs(60)));
    lab.befall(2, Disturbance::Kill);
    lab.befall(2, Disturbance::MendRoutes(Routes::ALL));
    lab.befall(2, Disturbance::Start);
    lab.plain("t.a", 1, &[]);
    lab.pass(Time::from_secs(10));
    assert_eq!(
        ends(&lab),
        [1, 1, 1],
        "nor does the new process stand still"
    );
}

/// A leader that stood still until its successor led, and had forgotten the batch by then, answers its
/// client before it hears of that; a server without the bug lets its successor answer.
#[test]
fn a_deposed_leader_goes_on_to_answer() {
    for has_it in [true, false] {
        let mut lab = lab(|_| {});
        if !has_it {
            let defects = &mut lab.server.model.defects;
            defects.remove(&ServerDefect::DeposedLeaderSpeaks);
        }
        lab.connection = 0;
        lab.send(0, START, 1);
        lab.befall(0, Disturbance::Freeze(lab.now + Time::from_secs(12)));
        assert!(lab.send(0, APPEND, 2).is_empty(), "it waits in a socket");
        lab.pass(Time::from_secs(11));
        assert!(lab.server.leader().is_some_and(|leader| leader != 0));
        std::mem::take(&mut lab.sent);
        lab.pass(Time::from_secs(2));
        let sent = std::mem::take(&mut lab.sent);
        let refused = sent
            .iter()
            .any(|sent| sent == "0.2 refused 10208: batch publish ID unknown");
        assert_eq!(refused, has_it, "{sent:?}");
        // Its successor knows the batch, and has the message unless the old leader took it.
        assert!(lab.server.leader().is_some_and(|leader| leader != 0));
        let ends = ends(&lab);
        assert_eq!(ends[1], if has_it { 1 } else { 2 }, "{ends:?}");
    }
}

/// A replica that stood still for longer than its timer campaigns as it goes on, before it hears what
/// was sent to it meanwhile.
#[test]
fn a_follower_that_stood_still_too_long_unseats_the_leader() {
    let mut lab = lab(|_| {});
    lab.pass(Time::from_secs(1));
    lab.befall(2, Disturbance::Freeze(lab.now + Time::from_secs(10)));
    for _ in 0..4 {
        lab.pass(Time::from_secs(2));
        lab.plain("t.a", 1, &[]);
        assert_eq!(lab.server.leader(), Some(0));
    }
    lab.pass(Time::from_secs(3));
    assert!(lab.leaders().contains(&None), "{:?}", lab.leaders());
    assert!(
        lab.server.leader().is_some_and(|leader| leader != 2),
        "its log is behind"
    );
}

/// A leader that was cut off does not know yet that it has a successor, and says once more that it
/// wants messages.
#[test]
fn the_newer_of_two_leaders_gets_the_messages() {
    let mut lab = lab(|_| {});
    lab.befall(0, Disturbance::CutRoutes(Routes::ALL));
    while lab.server.leader() == Some(0) {
        lab.pass(Time::from_millis(100));
    }
    lab.befall(0, Disturbance::MendRoutes(Routes::ALL));
    lab.pass(Time::from_secs(3));
    let follower = lab.server.follower();
    assert!(follower.is_some());
    for connection in 0..3 {
        lab.connection = connection;
        let answers = lab.plain("t.a", 1, &[]);
        assert_eq!(answers, [format!("pub {}", connection + 1)]);
    }
}

/// The batch goes on with the others: it is not forgotten.
#[test]
fn a_replica_that_is_killed_forgets_no_batch_of_others() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(2, Disturbance::Kill);
    let forgotten = lab
        .facts
        .iter()
        .any(|fact| matches!(fact, Fact::BatchForgotten { .. }));
    assert!(!forgotten);
}

/// It has not noticed yet: nothing is stored, and pings are answered as before.
#[test]
fn a_leader_without_followers_answers_pings_until_it_steps_down() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.befall(1, Disturbance::Kill);
    lab.befall(2, Disturbance::Kill);
    assert!(lab.send(0, APPEND, 2).is_empty());
    assert_eq!(lab.send(0, PING, 2), ["0.2 ack 0/10"]);
    lab.pass(Time::from_secs(21));
    assert_eq!(lab.send(0, PING, 2), ["0.2 503"]);
}

#[test]
fn a_call_that_needs_a_leader_is_refused_without_one() {
    let mut lab = lab(|_| {});
    lab.befall(1, Disturbance::Kill);
    lab.befall(2, Disturbance::Kill);
    lab.pass(Time::from_secs(21));
    let stream = "S".to_owned();
    let refused = lab.call(&ApiRequest::StepDown { stream }).unwrap_err();
    assert_eq!(
        refused,
        crate::nats::error_code::ErrorCode::SystemUnavailable.into()
    );
}
