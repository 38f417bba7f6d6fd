//! Limits in flight, idle timers, and what configuration does to open batches.

use super::*;

#[test]
fn the_batch_beyond_a_limit_is_refused() {
    let too_many = "2.1 refused 10211: batch publish too many inflight";
    for (per_stream, per_server) in [(2, 100), (100, 2)] {
        let model = ServerModel {
            batches_per_stream: per_stream,
            batches_per_server: per_server,
            ..ServerModel::default()
        };
        let mut lab = Lab::with(model, |_| {});
        lab.send(0, START, 1);
        lab.send(1, START, 1);
        assert_eq!(lab.send(2, START, 1), [too_many]);
        lab.send(0, EOB, 2);
        assert_eq!(lab.send(2, START, 1)[0], "2.1 ack 0/1");
    }
}

#[test]
fn the_server_limit_counts_all_streams() {
    let model = ServerModel {
        batches_per_server: 1,
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model, |_| {});
    lab.call(&ApiRequest::Create(StreamConfig {
        name: "Q".to_owned(),
        allow_batched: true,
        ..StreamConfig::default()
    }))
    .unwrap();
    lab.write("Q", lab.fast(0, START, 1), 1, &[]);
    lab.settle();
    let answers = lab.send(1, START, 1);
    assert_eq!(
        answers,
        ["1.1 refused 10211: batch publish too many inflight"]
    );
}

#[test]
fn an_idle_batch_is_forgotten_in_silence() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.pass(Time::from_millis(9_800));
    assert_eq!(lab.send(0, PING, 1), ["0.1 ack 0/10"]);
    lab.pass(Time::from_millis(9_800));
    assert_eq!(lab.stream().open_batches(), 1);
    lab.pass(Time::from_millis(200));
    assert_eq!(lab.stream().open_batches(), 0);
    assert!(lab.sent.is_empty());
    let forgotten = Fact::BatchForgotten {
        batch: BatchHandle(0),
        idle: true,
    };
    assert!(lab.facts.contains(&forgotten));
    let unknown = "0.2 refused 10208: batch publish ID unknown";
    assert_eq!(lab.send(0, APPEND, 2), [unknown]);
    assert_eq!(lab.send(0, START, 1), ["0.1 ack 0/10"]);
}

#[test]
fn what_touches_no_batch_does_not_keep_it_alive() {
    let mut lab = Lab::new(|config| config.max_msg_size = 50);
    lab.send(0, START, 1);
    lab.pass(Time::from_secs(9));
    lab.write("t.a", lab.fast(0, APPEND, 2), 60, &[]);
    let too_big = "0.2 refused 10054: message size exceeds maximum allowed";
    assert_eq!(lab.settle(), [too_big]);
    lab.pass(Time::from_secs(1));
    assert_eq!(lab.stream().open_batches(), 0);
}

#[test]
fn switching_the_feature_off_forgets_the_batches() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.update(|config| config.allow_batched = false);
    let off = "0.2 refused 10205: batch publish is disabled";
    assert_eq!(lab.send(0, APPEND, 2), [off]);
    assert_eq!(lab.stream().config().metadata["_nats.req.level"], "0");
    lab.update(|config| config.allow_batched = true);
    let unknown = "0.2 refused 10208: batch publish ID unknown";
    assert_eq!(lab.send(0, APPEND, 2), [unknown]);
}

#[test]
fn other_updates_and_purges_leave_batches_alone() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.update(|config| config.max_msgs = 100);
    let purge = Purge::default();
    let stream = "S".to_owned();
    let purged = lab.call(&ApiRequest::Purge { stream, purge }).unwrap();
    assert_eq!(purged, ApiAnswer::Purged(1));
    assert_eq!(lab.send(0, COMMIT, 2), ["0.2 pub 2 batch 0 count 2"]);
    assert_eq!(lab.kept(), [2]);
}

#[test]
fn a_sealed_stream_refuses_everything_and_keeps_its_batches() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    lab.update(|config| config.sealed = true);
    let sealed = "refused 10109: invalid operation on sealed stream";
    assert_eq!(lab.send(0, PING, 1), [format!("0.1 {sealed}")]);
    assert_eq!(lab.plain("t.a", 1, &[]), [format!("0.0 {sealed}")]);
    assert_eq!(lab.stream().open_batches(), 1);
}

#[test]
fn a_deleted_stream_leaves_nobody_listening() {
    let mut lab = Lab::new(|_| {});
    lab.send(0, START, 1);
    let config = lab.stream().config().clone();
    let stream = "S".to_owned();
    lab.call(&ApiRequest::Delete { stream }).unwrap();
    assert_eq!(lab.send(0, APPEND, 2), ["0.2 503"]);
    lab.call(&ApiRequest::Create(config)).unwrap();
    let unknown = "0.2 refused 10208: batch publish ID unknown";
    assert_eq!(lab.send(0, APPEND, 2), [unknown]);
}

#[test]
fn a_subject_of_no_stream_is_answered_at_once() {
    let mut lab = Lab::new(|_| {});
    lab.write("nowhere", lab.fast(0, APPEND, 2), 1, &[]);
    assert_eq!(lab.sent, ["0.2 503"]);
}

/// ADR-50 [fast.limit.stream, fast.limit.server]
#[test]
fn the_limits_are_those_of_a_server_as_it_comes() {
    let mut lab = Lab::new(|_| {});
    let too_many = "refused 10211: batch publish too many inflight";
    for batch in 0..1_000 {
        lab.write("t.a", lab.fast(batch, START, 1), 1, &[]);
    }
    lab.write("t.a", lab.fast(1_000, START, 1), 1, &[]);
    let answers = lab.settle();
    assert_eq!(answers.last().unwrap(), &format!("1000.1 {too_many}"));
    assert_eq!(lab.stream().open_batches(), 1_000);
    let mut answers = Vec::new();
    for stream in 1..=50 {
        let name = format!("S{stream}");
        lab.call(&ApiRequest::Create(StreamConfig {
            name: name.clone(),
            allow_batched: true,
            ..StreamConfig::default()
        }))
        .unwrap();
        for batch in 0..1_000 {
            let batch = 1_000 * stream + batch;
            lab.write(&name, lab.fast(batch, START, 1), 1, &[]);
        }
        answers = lab.settle();
        let refused = answers.iter().any(|answer| answer.ends_with(too_many));
        assert_eq!(refused, stream == 50, "49 more streams can be full");
    }
    assert!(answers.iter().all(|answer| answer.ends_with(too_many)));
    assert_eq!(answers.len(), 1_000);
}
