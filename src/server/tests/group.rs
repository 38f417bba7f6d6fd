//! A stream with three replicas: what its leader, its followers and a change between them do.

use super::*;
use crate::server::model::ClusterModel;
use crate::stream::proposal::{Proposal, Proposed};

pub(super) fn lab(change: impl FnOnce(&mut StreamConfig)) -> Lab {
    lab_of(ClusterModel::default(), change)
}

/// The same on another cluster.
pub(super) fn lab_with(change: impl FnOnce(&mut ClusterModel)) -> Lab {
    let mut cluster = ClusterModel::default();
    change(&mut cluster);
    lab_of(cluster, |_| {})
}

fn lab_of(cluster: ClusterModel, change: impl FnOnce(&mut StreamConfig)) -> Lab {
    let model = ServerModel {
        cluster: ClusterModel {
            servers: 3,
            ..cluster
        },
        ..ServerModel::default()
    };
    Lab::with(model, |config| {
        config.num_replicas = 3;
        change(config);
    })
}

pub(super) fn replicas(lab: &Lab) -> Vec<&Stream> {
    let places = lab.server.places.iter().flatten();
    let groups = places.filter_map(|place| match place {
        Place::Group(group) => Some(group),
        Place::Alone(_) => None,
    });
    groups.flat_map(|group| group.replicas()).collect()
}

/// The last sequence of each replica's log.
pub(super) fn ends(lab: &Lab) -> Vec<u64> {
    let streams = replicas(lab).into_iter();
    streams.map(|stream| stream.log().last().0).collect()
}

pub(super) fn step_down(lab: &mut Lab) {
    let stream = "S".to_owned();
    lab.call(&ApiRequest::StepDown { stream }).unwrap();
}

#[test]
fn every_message_is_on_every_replica_and_acked_once() {
    let mut lab = lab(|_| {});
    assert_eq!(lab.send(0, START, 1), ["0.1 ack 0/10"]);
    assert!(lab.send(0, APPEND, 2).is_empty());
    assert_eq!(lab.send(0, COMMIT, 3), ["0.3 pub 3 batch 0 count 3"]);
    assert_eq!(lab.plain("t.b", 5, &[]), ["pub 4"]);
    assert_eq!(ends(&lab), [4, 4, 4]);
    let stored = lab.facts.iter();
    let stored = stored.filter(|fact| matches!(fact, Fact::Stored { .. }));
    assert_eq!(stored.count(), 4, "told once, not by each replica");
    assert!(
        replicas(&lab)
            .iter()
            .all(|stream| stream.open_batches() == 0)
    );
}

/// ADR-50 [fast.leader.survive].
#[test]
fn a_new_leader_acks_what_is_stored_and_the_batch_goes_on() {
    let mut lab = lab(|_| {});
    lab.flow = 2;
    lab.send(0, START, 1);
    lab.send(0, APPEND, 2);
    lab.send(0, APPEND, 3);
    step_down(&mut lab);
    assert_eq!(lab.settle(), ["0.3 ack 3/2"]);
    assert!(lab.send(0, APPEND, 4).is_empty());
    assert_eq!(lab.send(0, APPEND, 5), ["0.5 ack 5/2"]);
    assert_eq!(lab.send(0, EOB, 6), ["0.6 pub 5 batch 0 count 5"]);
    assert_eq!(ends(&lab), [5, 5, 5]);
    let leaders = lab.facts.iter().filter_map(|fact| match fact {
        Fact::Leader(leader) => Some(*leader),
        _ => None,
    });
    let leaders: Vec<_> = leaders.collect();
    assert_eq!((leaders.len(), leaders[0]), (2, None));
    assert!(matches!(leaders[1], Some(1 | 2)));
}

/// ADR-50 [fast.leader.fail].
#[test]
fn what_comes_while_nobody_leads_is_answered_with_503_and_is_a_gap() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    step_down(&mut lab);
    lab.pass(Time::from_millis(1));
    lab.write("t.a", lab.fast(0, APPEND, 2), 1, &[]);
    let answers = lab.settle();
    assert_eq!(answers, ["0.2 503", "0.1 ack 1/10"]);
    let unheard = Fact::Unheard {
        batch: BatchHandle(0),
        operation: APPEND,
        sequence: BatchSequence(2),
    };
    assert!(lab.facts.contains(&unheard));
    let answers = lab.send(0, APPEND, 3);
    assert_eq!(answers, ["0.3 gap 2->3", "0.3 pub 1 batch 0 count 1"]);
}

/// What nats-server does not replicate: the end of a batch by a gap, or by an end of batch.
#[test]
fn a_batch_that_has_ended_without_a_commit_comes_back_with_a_new_leader() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.send(0, APPEND, 2);
    assert_eq!(lab.send(0, EOB, 3), ["0.3 pub 2 batch 0 count 2"]);
    step_down(&mut lab);
    assert_eq!(lab.settle(), ["0.2 ack 2/10"]);
    let slow = ["1.1 ack 0/1", "1.1 ack 1/2"];
    assert_eq!(lab.send(1, START, 1), slow, "it counts");
    lab.pass(Time::from_secs(10));
    assert_eq!(lab.send(2, START, 1), ["2.1 ack 0/10"]);
}

#[test]
fn a_message_id_that_is_in_flight_is_refused() {
    let mut lab = lab(|_| {});
    let id = [("Nats-Msg-Id", "m")];
    lab.write("t.a", Control::Plain, 1, &id);
    lab.write("t.a", Control::Plain, 1, &id);
    let refused = "0.0 refused 10158: duplicate message id is in process";
    assert_eq!(lab.settle(), [refused, "pub 1"]);
    assert_eq!(lab.plain("t.a", 1, &id), ["pub 1 duplicate"]);
}

#[test]
fn expected_sequences_count_what_is_proposed() {
    let mut lab = lab(|_| {});
    lab.write("t.a", Control::Plain, 1, &[]);
    let expected = [("Nats-Expected-Last-Sequence", "1")];
    lab.write("t.a", Control::Plain, 1, &expected);
    let of_subject = [("Nats-Expected-Last-Subject-Sequence", "2")];
    lab.write("t.a", Control::Plain, 1, &of_subject);
    let refused = "0.0 refused 10164: wrong last sequence";
    assert_eq!(lab.settle(), [refused, "pub 1", "pub 2"]);
}

#[test]
fn purges_and_deletes_are_answered_when_they_are_applied() {
    let mut lab = lab(|_| {});
    (0..3).for_each(|_| drop(lab.plain("t.a", 1, &[])));
    let to = ReplyTo {
        connection: ConnectionId(0),
        tag: 0,
    };
    let stream = "S".to_owned();
    let delete = ApiRequest::MessageDelete {
        stream: stream.clone(),
        sequence: StreamSequence(2),
    };
    let purge = ApiRequest::Purge {
        stream,
        purge: Purge::default(),
    };
    for (request, answer, left) in [(delete, "MessageDelete true", 2), (purge, "Purge true", 0)] {
        let request = Box::new(request);
        let input = Input::Api { to, request };
        lab.server.step(lab.now, input, &mut lab.actions);
        assert_eq!(lab.settle(), [answer]);
        let mut kept = replicas(&lab).into_iter();
        assert!(kept.all(|stream| stream.log().messages() == left));
    }
}

#[test]
fn an_atomic_batch_is_on_all_replicas_or_on_none() {
    let mut lab = lab(|config| config.allow_atomic = true);
    assert_eq!(lab.atomic("t.a", 1, "", &[]), ["empty"]);
    assert_eq!(lab.atomic("t.b", 2, "", &[]), ["empty"]);
    assert_eq!(ends(&lab), [0, 0, 0]);
    let whole = "0.0 pub 3 batch 65 count 3";
    assert_eq!(lab.atomic("t.a", 3, "1", &[]), [whole]);
    assert_eq!(ends(&lab), [3, 3, 3]);

    assert_eq!(lab.atomic("t.a", 1, "", &[]), ["empty"]);
    step_down(&mut lab);
    assert!(lab.settle().is_empty(), "without a word");
    let refused = "0.0 refused 10176: atomic publish batch is incomplete";
    assert_eq!(lab.atomic("t.a", 2, "1", &[]), [refused]);
    assert_eq!(ends(&lab), [3, 3, 3]);
}

/// As clients on all three servers see it.
#[test]
fn a_message_finds_the_leader_from_any_server() {
    let mut lab = lab(|_| {});
    for (connection, answer) in [(0, "pub 1"), (1, "pub 2"), (2, "pub 3")] {
        let subject = lab.server.intern("t.a");
        let publish = Publish {
            subject,
            reply: Some(ReplyTo {
                connection: ConnectionId(connection),
                tag: 0,
            }),
            control: Control::Plain,
            payload: Payload::default(),
            headers: None,
            wire_bytes: 40,
        };
        let input = Input::Publish(publish);
        lab.server.step(lab.now, input, &mut lab.actions);
        assert_eq!(lab.settle(), [answer]);
    }
}

/// Two batches share the flow from the beginning of a leadership, one alone has all that it asked for.
#[test]
fn a_reset_shares_the_flow_anew() {
    let mut lab = lab(|_| {});
    lab.send(0, START, 1);
    lab.send(1, START, 1);
    step_down(&mut lab);
    let mut told = lab.settle();
    told.sort();
    assert_eq!(told, ["0.1 ack 1/1", "1.1 ack 1/1"]);
    lab.send(1, COMMIT, 2);
    step_down(&mut lab);
    assert_eq!(lab.settle(), ["0.1 ack 1/10"]);
}

#[test]
fn a_batch_that_fails_its_checks_leaves_nothing_in_flight() {
    let mut lab = lab(|config| config.allow_atomic = true);
    lab.plain("t.a", 1, &[]);
    assert_eq!(lab.atomic("t.a", 1, "", &[]), ["empty"]);
    let wrong: Lines<'_> = &[("Nats-Expected-Last-Subject-Sequence", "9")];
    let refused = "0.0 refused 10071: wrong last sequence: 0";
    assert_eq!(lab.atomic("t.b", 2, "1", wrong), [refused]);
    // Neither sequences nor the subject that had passed are taken.
    let right: Lines<'_> = &[
        ("Nats-Expected-Last-Sequence", "1"),
        ("Nats-Expected-Last-Subject-Sequence", "1"),
    ];
    assert_eq!(lab.send_with(0, START, 1, right), ["0.1 ack 0/10"]);
    assert_eq!(ends(&lab), [2, 2, 2]);
}

/// Messages of an atomic batch as a replica gets them, applied to one that has nothing yet: the batch,
/// the batch sequence, and whether it is the last.
fn applied(entries: &[(Option<&str>, u64, bool)]) -> (u64, bool) {
    let mut lab = lab(|config| config.allow_atomic = true);
    let subject = lab.server.intern("t.a");
    let server = &lab.server;
    let around = Around {
        model: &server.model,
        switches: &server.switches,
        subjects: &server.subjects,
        servers: &server.servers,
        elsewhere: (0, 0),
    };
    let around = around.stream(lab.now, 0);
    let mut stream = replicas(&lab)[1].clone();
    for (batch, sequence, is_last) in entries {
        let sequence_text = sequence.to_string();
        let lines = batch.map(|id| {
            let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            vec![
                line(header::BATCH_ID, id),
                line(header::BATCH_SEQUENCE, &sequence_text),
            ]
        });
        let headers = lines.map(|lines| Arc::new(Headers::new(lines)));
        let handle = |id: &str| BatchHandle(id.bytes().map(u32::from).sum());
        let control = headers.as_deref().map_or(Control::Plain, |headers| {
            crate::batch::atomic::headers::read(headers, handle).unwrap()
        });
        let message = Proposed {
            publish: Publish {
                subject,
                reply: None,
                control,
                payload: Payload::default(),
                headers,
                wire_bytes: 40,
            },
            at: lab.now,
        };
        let proposal = match batch {
            None => Proposal::Message(message),
            Some(_) => Proposal::OfBatch {
                message,
                is_last: *is_last,
            },
        };
        stream.apply(&proposal, &around, &mut Vec::new());
    }
    (stream.log().last().0, stream.is_gathering())
}

/// Another message, another batch, or a hole in the batch: what was gathered is not stored.
#[test]
fn a_batch_without_its_end_is_refused_by_every_replica() {
    let first = (Some("A"), 1, false);
    let second = (Some("A"), 2, false);
    let plain = (None, 0, false);
    assert_eq!(applied(&[first, second]), (0, true));
    assert_eq!(applied(&[first, second, plain]), (1, false));
    assert_eq!(applied(&[plain, first, second, plain]), (2, false));
    assert_eq!(applied(&[first, second, (Some("B"), 1, true)]), (1, false));
    assert_eq!(applied(&[first, (Some("A"), 3, true)]), (0, false));
    assert_eq!(applied(&[first, (Some("B"), 2, true)]), (0, false));
    // One that has failed, and the same from its start.
    assert_eq!(applied(&[first, first, (Some("A"), 2, true)]), (2, false));
}

#[test]
fn a_batch_is_gathered_until_its_end_only() {
    let batch = |id| {
        [
            (Some(id), 1, false),
            (Some(id), 2, false),
            (Some(id), 3, true),
        ]
    };
    let mut entries = Vec::new();
    for (id, end) in [("A", 3), ("B", 6), ("C", 9)] {
        entries.extend(batch(id));
        assert_eq!(applied(&entries[..entries.len() - 1]), (end - 3, true));
        assert_eq!(applied(&entries), (end, false));
    }
}
