//! Whatever comes in: counts agree and nothing panics.

use super::*;
use crate::nats::StreamSequence;

/// Whatever comes in, nothing panics, and the counts of what is kept agree.
#[test]
fn random_traffic_keeps_the_counts_right() {
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<Vec<(u8, u8, u8, u8)>>()
        .for_each(|moves| {
            let mut lab = Lab::new(|config| {
                config.max_msgs = 20;
                config.max_msgs_per_subject = 7;
                config.allow_rollup_hdrs = true;
            });
            for (kind, batch, sequence, extra) in moves {
                random_move(&mut lab, *kind, *batch, *sequence, *extra);
            }
            lab.settle();
            let Some(stream) = lab.server.stream("S") else {
                return;
            };
            let log = stream.log();
            assert_eq!(log.from(log.first()).count() as u64, log.messages());
            assert!(log.messages() <= 20);
            let opened = lab.facts.iter();
            let open: i64 = opened
                .map(|fact| match fact {
                    Fact::BatchOpened { .. } => 1,
                    Fact::BatchForgotten { .. } => -1,
                    _ => 0,
                })
                .sum();
            assert_eq!(open, i64::from(stream.open_batches()));
        });
}

fn random_move(lab: &mut Lab, kind: u8, batch: u8, sequence: u8, extra: u8) {
    let subject = ["t.a", "t.b", "t.c", "nowhere"][usize::from(batch >> 6)];
    lab.gap = if extra & 1 == 0 {
        GapMode::Ok
    } else {
        GapMode::Fail
    };
    lab.flow = u16::from(extra >> 4);
    let number = (u64::from(sequence) % 9).to_string();
    let names = [
        header::MESSAGE_ID,
        header::EXPECTED_LAST_SEQUENCE,
        header::EXPECTED_LAST_MESSAGE_ID,
        header::ROLLUP,
        header::REQUIRED_API_LEVEL,
        header::EXPECTED_LAST_SUBJECT_SEQUENCE,
    ];
    let name = names[usize::from(extra) % names.len()];
    let value = if name == header::ROLLUP {
        "sub"
    } else {
        &number
    };
    let line = [(name, value)];
    let lines: Lines<'_> = if extra & 2 == 0 { &[] } else { &line };
    let control = |operation| lab.fast(u32::from(batch & 7), operation, u64::from(sequence));
    match kind % 16 {
        0 => lab.write(subject, Control::Plain, u32::from(extra), lines),
        1 => lab.pass(Time::from_secs(u64::from(extra))),
        2 => lab.update(|config| config.allow_batched = extra & 4 == 0),
        3 => {
            let stream = "S".to_owned();
            let purge = Purge {
                filter: (extra & 8 == 0).then(|| "t.*".to_owned()),
                sequence: None,
                keep: Some(u64::from(extra & 7)),
            };
            lab.call(&ApiRequest::Purge { stream, purge }).unwrap();
        }
        4 => {
            let request = ApiRequest::MessageDelete {
                stream: "S".to_owned(),
                sequence: StreamSequence(u64::from(sequence)),
            };
            // Most are not there.
            drop(lab.call(&request));
        }
        5 | 6 => lab.write(subject, control(START), 1, lines),
        7 => lab.write(subject, control(COMMIT), 1, lines),
        8 => lab.write(subject, control(EOB), 1, lines),
        9 => lab.write(subject, control(PING), 1, lines),
        _ => lab.write(subject, control(APPEND), 1, lines),
    }
}
