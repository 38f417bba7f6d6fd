//! How the flow of a stream is shared among its batches.

use super::*;

/// `count` publishers send their starts, then publisher `streaming` sends on until it had `acks`.
fn cadence(count: u32, streaming: u32, acks: usize) -> Vec<String> {
    let mut lab = Lab::new(|_| {});
    lab.flow = 65_535;
    // So little time passes that no batch is idle for too long.
    let step = Time::from_micros(50);
    for batch in 0..count {
        lab.write("t.a", lab.fast(batch, START, 1), 1, &[]);
        lab.pass(step);
    }
    lab.sent.clear();
    let mut seen = Vec::new();
    let mut sequence = 2;
    while seen.len() < acks {
        lab.write("t.a", lab.fast(streaming, APPEND, sequence), 1, &[]);
        lab.pass(step);
        seen.append(&mut lab.sent);
        sequence += 1;
    }
    let words = seen.iter().filter_map(|ack| ack.split(' ').nth(2));
    words.map(str::to_owned).collect()
}

#[test]
fn a_lone_batch_has_the_whole_flow() {
    assert_eq!(cadence(1, 0, 3), ["500/500", "1000/500", "1500/500"]);
}

#[test]
fn the_first_batch_comes_down_to_its_share() {
    assert_eq!(cadence(2, 0, 2), ["500/250", "750/250"]);
    assert_eq!(cadence(3, 0, 3), ["500/250", "750/166", "916/166"]);
    assert_eq!(
        cadence(10, 0, 4),
        ["500/250", "750/125", "875/62", "937/50"]
    );
    assert_eq!(
        cadence(50, 0, 7),
        [
            "500/250", "750/125", "875/62", "937/31", "968/15", "983/10", "993/10"
        ]
    );
}

#[test]
fn the_last_batch_comes_up_to_its_share() {
    // The ack of the first message, 1/2, came with the start.
    assert_eq!(
        cadence(2, 1, 9),
        [
            "3/4", "7/8", "15/16", "31/32", "63/64", "127/128", "255/250", "505/250", "755/250"
        ]
    );
    assert_eq!(
        cadence(3, 2, 8),
        [
            "3/4", "7/8", "15/16", "31/32", "63/64", "127/128", "255/166", "421/166"
        ]
    );
    assert_eq!(
        cadence(10, 9, 7),
        ["3/4", "7/8", "15/16", "31/32", "63/50", "113/50", "163/50"]
    );
    assert_eq!(cadence(50, 49, 4), ["3/4", "7/8", "15/10", "25/10"]);
    assert_eq!(cadence(250, 249, 3), ["3/2", "5/2", "7/2"]);
}

#[test]
fn from_five_hundred_batches_on_each_message_is_acked() {
    assert_eq!(cadence(1_000, 999, 3), ["2/1", "3/1", "4/1"]);
}

#[test]
fn the_second_batch_opens_with_one() {
    let mut lab = Lab::new(|_| {});
    assert_eq!(lab.send(0, START, 1), ["0.1 ack 0/10"]);
    assert_eq!(lab.send(1, START, 1), ["1.1 ack 0/1", "1.1 ack 1/2"]);
    let opened = |fact: &&Fact| matches!(fact, Fact::BatchOpened { .. });
    assert_eq!(
        lab.facts.iter().find(opened),
        Some(&Fact::BatchOpened {
            batch: BatchHandle(0),
            open: 1,
            flow: 10
        })
    );
}
