//! Bugs of a stream on several servers, each with the switch off and on: what is expected with it on is
//! what three nats-servers were seen to do or, where a test says so, what their source says.

use super::defects::switch;
use super::group::{ends, step_down};
use super::*;
use crate::server::model::ClusterModel;

const KNOWN: Lines<'_> = &[(header::MESSAGE_ID, "known")];

/// Three servers like 2.15.1, with this bug or without.
fn lab(defect: ServerDefect, on: bool, change: impl FnOnce(&mut ServerModel)) -> Lab {
    let mut model = ServerModel {
        cluster: ClusterModel {
            servers: 3,
            ..ClusterModel::default()
        },
        ..ServerModel::default()
    };
    change(&mut model);
    switch(&mut model, defect, on);
    Lab::with(model, |config| config.num_replicas = 3)
}

fn both<T>(defect: ServerDefect, play: impl Fn(&mut Lab) -> T) -> [T; 2] {
    [false, true].map(|on| play(&mut lab(defect, on, |_| {})))
}

/// What a new leader says of the batches that it takes up.
fn taken_up(lab: &mut Lab) -> Vec<String> {
    step_down(lab);
    lab.settle()
}

#[test]
fn ghost_batch() {
    for gap in [GapMode::Ok, GapMode::Fail] {
        let [off, on] = both(ServerDefect::GhostBatch, |lab| {
            lab.gap = gap;
            lab.send(0, START, 1);
            lab.send(0, APPEND, 2);
            lab.send(0, EOB, 3);
            (taken_up(lab), lab.send(1, START, 1)[0].clone())
        });
        assert_eq!(
            on,
            (vec!["0.2 ack 2/10".to_owned()], "1.1 ack 0/1".to_owned())
        );
        assert_eq!(off, (vec![], "1.1 ack 0/10".to_owned()));
    }
}

/// Whatever ends a batch without a commit that is stored, and whether all of it is applied by then.
#[test]
fn ghost_batch_by_every_end() {
    type End = fn(&mut Lab);
    let ends: [(End, &str); 4] = [
        (|lab| drop(lab.send(0, APPEND, 9)), "by a gap"),
        (
            |lab| {
                lab.write("t.a", lab.fast(0, APPEND, 2), 1, &[]);
                lab.write("t.a", lab.fast(0, EOB, 3), 1, &[]);
                lab.settle();
            },
            "by its end, with a message on its way",
        ),
        (
            |lab| drop(lab.send_with(0, COMMIT, 2, &[(header::EXPECTED_LAST_SEQUENCE, "99")])),
            "by a refused commit",
        ),
        (
            |lab| drop(lab.send_with(0, APPEND, 2, &[(header::REQUIRED_API_LEVEL, "99")])),
            "by an API level",
        ),
    ];
    for (end, how) in ends {
        let [off, on] = both(ServerDefect::GhostBatch, |lab| {
            lab.send(0, START, 1);
            end(lab);
            taken_up(lab).len()
        });
        assert_eq!((off, on), (0, 1), "{how}");
    }
}

#[test]
fn tail_dup_false_gap() {
    let [off, on] = both(ServerDefect::TailDupFalseGap, |lab| {
        lab.send(0, START, 1);
        lab.send_with(0, APPEND, 2, KNOWN);
        lab.send_with(0, APPEND, 3, KNOWN);
        lab.send_with(0, APPEND, 4, KNOWN);
        let new = taken_up(lab);
        (new, lab.send(0, APPEND, 5), lab.send(0, EOB, 6))
    });
    let unknown = ["0.6 refused 10208: batch publish ID unknown"];
    assert_eq!(on.0, ["0.2 ack 2/10"]);
    assert_eq!(on.1, ["0.5 gap 3->5", "0.5 pub 2 batch 0 count 2"]);
    assert_eq!(on.2, unknown);
    assert_eq!(off.0, ["0.2 ack 4/10"]);
    assert!(off.1.is_empty());
    assert_eq!(off.2, ["0.6 pub 3 batch 0 count 5"]);
}

/// A batch of which nothing is stored yet is unknown to followers.
#[test]
fn tail_dup_false_gap_from_the_start() {
    let [off, on] = both(ServerDefect::TailDupFalseGap, |lab| {
        lab.plain("t.a", 1, KNOWN);
        lab.send_with(0, START, 1, KNOWN);
        taken_up(lab);
        lab.send(0, APPEND, 2)
    });
    assert_eq!(on, ["0.2 refused 10208: batch publish ID unknown"]);
    assert!(off.is_empty());
}

#[test]
fn ping_after_eob_overcount() {
    let [off, on] = both(ServerDefect::PingAfterEobOvercount, |lab| {
        lab.gap = GapMode::Ok;
        for (operation, sequence) in [(START, 1), (APPEND, 2), (EOB, 3), (PING, 3)] {
            lab.write("t.a", lab.fast(0, operation, sequence), 1, &[]);
        }
        lab.settle()
    });
    let (start, ack) = ("0.1 ack 0/10", "0.3 ack 0/10");
    assert_eq!(
        on,
        [start, "0.3 gap 3->4", ack, "0.2 pub 2 batch 0 count 3"]
    );
    assert_eq!(off, [start, ack, "0.2 pub 2 batch 0 count 2"]);
}

/// Over every moment of a step-down after a commit was sent: whether it was stored, and how often it was
/// answered.
fn commits_over_a_step_down(on: bool) -> Vec<(bool, usize)> {
    let moments = (0..1_500).step_by(10);
    moments
        .map(|micros| {
            let mut lab = lab(ServerDefect::CommitLostPuback, on, |_| {});
            lab.send(0, START, 1);
            lab.write("t.a", lab.fast(0, COMMIT, 2), 1, &[]);
            lab.pass(Time::from_micros(micros));
            step_down(&mut lab);
            let answers = lab.settle();
            let answered = answers.iter().filter(|one| one.contains(" pub 2 ")).count();
            (ends(&lab) == [2, 2, 2], answered)
        })
        .collect()
}

/// By the source of nats-server; nobody has recorded it.
#[test]
fn commit_lost_puback() {
    let [off, on] = [false, true].map(commits_over_a_step_down);
    let lost = |runs: &[(bool, usize)]| runs.iter().filter(|run| **run == (true, 0)).count();
    assert!(lost(&on) > 0, "{on:?}");
    assert_eq!(lost(&off), 0, "{off:?}");
    assert!(off.iter().all(|(stored, answers)| *stored || *answers == 0));
}

/// What the first of three messages keeps the disk from is dropped at the step-down.
fn dropped(defect: ServerDefect, on: bool, ask: impl FnOnce(&mut Lab)) -> Lab {
    let mut lab = lab(defect, on, |model| {
        model.disk = Disk::new(Time::from_millis(5), 1_000_000_000, None);
    });
    lab.plain("t.a", 1, &[]);
    lab.plain("t.a", 1, &[]);
    lab.write("t.a", Control::Plain, 1, &[]);
    lab.pass(Time::from_micros(500));
    ask(&mut lab);
    lab.pass(Time::from_micros(500));
    step_down(&mut lab);
    lab
}

/// By the source of nats-server; nobody has recorded it.
#[test]
fn refused_propose_silent() {
    type Ask = fn(&mut Lab, ReplyTo);
    let defect = ServerDefect::RefusedProposeSilent;
    let to = ReplyTo {
        connection: ConnectionId(0),
        tag: 7 << 32 | 7,
    };
    let asks: [(Ask, &str); 3] = [
        (
            |lab, _| lab.write("t.a", lab.fast(0, START, 1), 1, &[]),
            "0.1 503",
        ),
        (|lab, _| lab.write("t.a", Control::Plain, 1, &[]), "0.0 503"),
        (
            |lab, to| {
                let stream = "S".to_owned();
                let sequence = StreamSequence(1);
                let request = Box::new(ApiRequest::MessageDelete { stream, sequence });
                let input = Input::Api { to, request };
                lab.server.step(lab.now, input, &mut lab.actions);
                lab.note();
            },
            "MessageDelete false",
        ),
    ];
    for (ask, told) in asks {
        let [off, on] = [false, true].map(|on| {
            let mut lab = dropped(defect, on, |lab| ask(lab, to));
            lab.settle()
        });
        let is_told = |answers: &[String]| answers.iter().any(|answer| answer == told);
        assert!(is_told(&off), "{told}: {off:?}");
        assert!(!is_told(&on), "{told}: {on:?}");
    }
}

/// A leader that lags too far behind refuses what it is asked, and steps down.
#[test]
fn refused_propose_silent_by_an_overrun() {
    let [off, on] = [false, true].map(|on| {
        let mut lab = lab(ServerDefect::RefusedProposeSilent, on, |model| {
            model.cluster.raft.overrun = 1;
        });
        for _ in 0..5 {
            lab.write("t.a", Control::Plain, 1, &[]);
            lab.pass(Time::from_micros(20));
        }
        lab.settle()
    });
    let refused = |answers: &[String]| answers.iter().filter(|one| *one == "0.0 503").count();
    assert_eq!(refused(&off), refused(&on) + 1, "{off:?} {on:?}");
}

/// Before 2.14.0; by the change that ended it.
#[test]
fn no_clean_leader_change() {
    let [off, on] = both(ServerDefect::NoCleanLeaderChange, |lab| {
        lab.send(0, START, 1);
        lab.send(0, APPEND, 2);
        (taken_up(lab), lab.send(0, COMMIT, 3))
    });
    assert_eq!(on.0, [""; 0]);
    assert_eq!(on.1, ["0.3 refused 10208: batch publish ID unknown"]);
    assert_eq!(off.0, ["0.2 ack 2/10"]);
    assert_eq!(off.1, ["0.3 pub 3 batch 0 count 3"]);
}

/// In 2.14.0; by the change that ended it.
#[test]
fn dedup_cleanup_race() {
    let [off, on] = [false, true].map(|on| {
        let ask = |lab: &mut Lab| lab.write("t.a", Control::Plain, 1, KNOWN);
        let mut lab = dropped(ServerDefect::DedupCleanupRace, on, ask);
        // Until the one that dropped it leads again.
        let leads = |lab: &Lab| {
            lab.facts.iter().rev().find_map(|fact| match fact {
                Fact::Leader(leader) => Some(*leader),
                _ => None,
            })
        };
        for _ in 0..20 {
            lab.pass(Time::from_secs(1));
            if leads(&lab) == Some(Some(0)) {
                break;
            }
            step_down(&mut lab);
        }
        assert_eq!(leads(&lab), Some(Some(0)));
        lab.sent.clear();
        let soon = lab.plain("t.a", 1, KNOWN);
        lab.pass(Time::from_secs(120));
        lab.sent.clear();
        (soon, lab.plain("t.a", 1, KNOWN))
    });
    let refused = "0.0 refused 10158: duplicate message id is in process";
    assert_eq!(on, (vec![refused.to_owned()], vec!["pub 4".to_owned()]));
    assert_eq!(off, (vec!["pub 4".to_owned()], vec!["pub 5".to_owned()]));
}
