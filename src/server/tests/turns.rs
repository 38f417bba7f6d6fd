//! Turns of the loop, the ingest queue, API calls, defects.

use super::*;

/// Costs that are easy to count: 1 us a message, no bytes, no disk.
fn plain_costs() -> ServerModel {
    ServerModel {
        message_cost: Time::from_micros(1),
        kibibyte_cost: Time::ZERO,
        disk: Disk::new(Time::ZERO, 1_000_000_000_000, None),
        ..ServerModel::default()
    }
}

#[test]
fn the_answers_of_a_slice_leave_after_the_slice() {
    let mut lab = Lab::with(plain_costs(), |_| {});
    lab.flow = 1;
    let start = lab.now;
    for sequence in 1..=5 {
        let operation = if sequence == 1 { START } else { APPEND };
        lab.write("t.a", lab.fast(0, operation, sequence), 1, &[]);
    }
    // The first message went alone; the four behind it are one slice.
    assert_eq!(lab.server.due(), start + Time::from_micros(1));
    lab.source = Source::Out;
    lab.pass(Time::from_micros(1));
    assert_eq!(lab.sent, ["0.1 ack 0/1", "0.1 ack 1/1"]);
    assert_eq!(lab.server.due(), start + Time::from_micros(5));
    lab.pass(Time::from_micros(3));
    assert_eq!(lab.sent.len(), 2);
    lab.pass(Time::from_micros(1));
    let acks = ["0.2 ack 2/1", "0.3 ack 3/1", "0.4 ack 4/1", "0.5 ack 5/1"];
    assert_eq!(lab.sent[2..], acks);
}

#[test]
fn answers_wait_when_the_ingest_queue_is_chosen() {
    let mut lab = Lab::with(plain_costs(), |_| {});
    lab.flow = 1;
    lab.write("t.a", lab.fast(0, START, 1), 1, &[]);
    lab.write("t.a", lab.fast(0, APPEND, 2), 1, &[]);
    lab.pass(Time::from_micros(1));
    assert!(lab.sent.is_empty());
    lab.pass(Time::from_micros(1));
    assert_eq!(lab.sent.len(), 3);
}

#[test]
fn waking_early_changes_nothing() {
    let mut lab = Lab::with(plain_costs(), |_| {});
    lab.write("t.a", lab.fast(0, START, 1), 1, &[]);
    let before = lab.server.clone();
    lab.server.wake(lab.now, &mut lab.actions);
    assert_eq!(before, lab.server);
    assert!(lab.actions.is_empty());
}

#[test]
fn a_slice_costs_messages_bytes_and_writes() {
    let model = ServerModel {
        message_cost: Time::from_micros(1),
        kibibyte_cost: Time::from_micros(10),
        disk: Disk::new(Time::from_micros(100), 1_000_000, None),
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model.clone(), |_| {});
    let start = lab.now;
    lab.write("t.a", Control::Plain, 2_048 - 40, &[]);
    let disk = Time::from_micros(100 + 2_048);
    assert_eq!(lab.server.due(), start + Time::from_micros(21) + disk);
    let mut lab = Lab::with(model, |config| {
        config.persist_mode = crate::stream::config::PersistMode::Async;
    });
    lab.write("t.a", Control::Plain, 2_048 - 40, &[]);
    assert_eq!(lab.server.due(), start + Time::from_micros(21));
}

#[test]
fn a_full_ingest_queue_refuses_at_once() {
    let model = ServerModel {
        ingest_messages: 2,
        ..plain_costs()
    };
    let mut lab = Lab::with(model, |_| {});
    lab.gap = GapMode::Ok;
    for sequence in 1..=5 {
        let operation = if sequence == 1 { START } else { APPEND };
        lab.write("t.a", lab.fast(0, operation, sequence), 1, &[]);
    }
    assert_eq!(lab.sent, ["0.4 429", "0.5 429"]);
    let lost = Fact::Overflowed {
        batch: BatchHandle(0),
        operation: Operation::Append,
        sequence: BatchSequence(4),
    };
    assert!(lab.facts.contains(&lost));
    lab.settle();
    assert_eq!(lab.send(0, APPEND, 6), ["0.6 gap 4->6"]);
    lab.write("t.a", Control::Plain, 1 << 28, &[]);
    assert_eq!(lab.settle(), ["0.0 429"]);
}

#[test]
fn api_calls_run_beside_the_loop_one_after_the_other() {
    let mut lab = Lab::new(|_| {});
    let start = lab.now;
    for _ in 0..2 {
        let to = ReplyTo {
            connection: ConnectionId(0),
            tag: 1,
        };
        let stream = "S".to_owned();
        let request = Box::new(ApiRequest::Info {
            stream,
            details: Default::default(),
        });
        let input = Input::Api { to, request };
        lab.server.step(lab.now, input, &mut lab.actions);
    }
    assert_eq!(lab.server.due(), start + Time::from_micros(200));
    lab.pass(Time::from_micros(399));
    assert_eq!(lab.sent, ["Info true"]);
    lab.pass(Time::from_micros(1));
    assert_eq!(lab.sent.len(), 2);
}

fn with_defect(defect: ServerDefect, messages: u64) -> Lab {
    let model = ServerModel {
        defects: BTreeSet::from([defect]),
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model, |_| {});
    for sequence in 1..=messages {
        let operation = if sequence == 1 { START } else { APPEND };
        lab.write("t.a", lab.fast(0, operation, sequence), 1, &[]);
    }
    lab.pass(Time::from_millis(100));
    lab
}

#[test]
fn each_defect_misbehaves_in_a_running_server() {
    let lab = with_defect(ServerDefect::AckBeforeStore, 1);
    assert_eq!(lab.sent, ["0.1 ack 0/10", "0.1 ack 10/10"]);

    let mut lab = with_defect(ServerDefect::PubAckCountsOneMore, 1);
    assert_eq!(
        lab.send(0, COMMIT, 2).last().unwrap(),
        "0.2 pub 2 batch 0 count 3"
    );

    let lab = with_defect(ServerDefect::StoreTwice, 200);
    assert_eq!(lab.kept().len(), 202);

    let lab = with_defect(ServerDefect::AckHalfAsOften, 40);
    assert_eq!(
        lab.sent,
        ["0.1 ack 0/10", "0.20 ack 20/10", "0.40 ack 40/10"]
    );
}
