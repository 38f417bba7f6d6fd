//! Turns of the loop, the ingest queue, API calls, defects.

use super::*;
use crate::stream::config::Storage;

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

fn ask(lab: &mut Lab, connection: u32, request: ApiRequest) {
    let to = ReplyTo {
        connection: ConnectionId(connection),
        tag: 1,
    };
    let request = Box::new(request);
    let input = Input::Api { to, request };
    lab.server.step(lab.now, input, &mut lab.actions);
    lab.note();
}

fn info() -> ApiRequest {
    ApiRequest::Info {
        stream: "S".to_owned(),
        details: Default::default(),
    }
}

#[test]
fn api_calls_run_beside_the_loop_as_many_at_a_time_as_there_are_workers() {
    let mut lab = Lab::new(|_| {});
    let start = lab.now;
    (0..3).for_each(|_| ask(&mut lab, 0, info()));
    assert_eq!(lab.server.due(), start + Time::from_micros(200));
    lab.pass(Time::from_micros(399));
    assert_eq!(lab.sent, ["Info true", "Info true"]);
    lab.pass(Time::from_micros(1));
    assert_eq!(lab.sent.len(), 3);
}

#[test]
fn a_full_queue_of_api_calls_is_emptied_without_an_answer() {
    let model = ServerModel {
        api_queue: 4,
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model, |_| {});
    (0..7).for_each(|_| ask(&mut lab, 0, info()));
    let dropped = Fact::ApiDropped {
        server: 0,
        requests: 4,
    };
    assert!(lab.facts.contains(&dropped), "{:?}", lab.facts);
    assert_eq!(lab.settle(), ["Info true"; 3]);
}

#[test]
fn a_call_gets_at_a_stream_between_two_messages_of_a_turn() {
    let model = ServerModel {
        api_cost: Time::from_micros(15),
        message_cost: Time::from_micros(10),
        kibibyte_cost: Time::ZERO,
        ..ServerModel::default()
    };
    let mut lab = Lab::with(model, |config| config.storage = Storage::Memory);
    // The first is taken alone, the others together.
    (0..11).for_each(|_| lab.write("t.a", Control::Plain, 1, &[]));
    lab.pass(Time::from_micros(12));
    ask(&mut lab, 0, info());
    lab.pass(Time::from_micros(17));
    assert_eq!(lab.sent, ["pub 1"; 0], "locked until 30 us");
    lab.pass(Time::from_micros(1));
    assert_eq!(lab.sent, ["Info true"]);
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
