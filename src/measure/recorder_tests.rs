//! Scenes with latencies worked out by hand, and the promises that hold for every run.

use super::*;
use crate::event::{ApiOperation, DropCause, Event, Observer};
use crate::measure::{BatchOutcome, Summary};
use crate::nats::{GapMode, Operation, StreamSequence};

/// A run written down by hand; times in microseconds.
struct Scene {
    recorder: Recorder,
    now: Time,
}

impl Scene {
    fn new(options: Options) -> Self {
        Self {
            recorder: Recorder::new(options),
            now: Time::ZERO,
        }
    }

    fn watched() -> Self {
        Self::new(Options {
            server_watched: true,
            ..Options::default()
        })
    }

    fn at(&mut self, microseconds: u64) -> &mut Self {
        self.now = Time::from_micros(microseconds);
        self
    }

    fn see(&mut self, event: Event) -> &mut Self {
        self.recorder.see(self.now, &event);
        self
    }

    fn withhold(&mut self, publisher: u32, messages: u64) -> &mut Self {
        self.see(Event::Withheld {
            publisher: PublisherId(publisher),
            messages,
        })
    }

    fn start(&mut self, publisher: u32, batch: u32) -> &mut Self {
        self.see(Event::BatchStarted {
            publisher: PublisherId(publisher),
            batch: BatchNumber(batch),
            flow: 10,
            outstanding_acks: 2,
            gap: GapMode::Ok,
        })
    }

    fn publish(&mut self, batch: u32, sequence: u64) -> &mut Self {
        let intended = self.now;
        self.publish_meant_at(batch, sequence, intended)
    }

    fn publish_meant_at(&mut self, batch: u32, sequence: u64, intended: Time) -> &mut Self {
        self.see(Event::Published {
            batch: BatchNumber(batch),
            operation: if sequence == 1 {
                Operation::Start
            } else {
                Operation::Append
            },
            bytes: 100,
            sequence: BatchSequence(sequence),
            intended,
        })
    }

    fn ack(&mut self, batch: u32, flow: u16, sequence: u64) -> &mut Self {
        self.see(Event::AckSeen {
            batch: BatchNumber(batch),
            flow,
            sequence: BatchSequence(sequence),
        })
    }

    fn pub_ack(&mut self, batch: u32, count: u64, duplicate: bool) -> &mut Self {
        self.see(Event::PubAckSeen {
            batch: BatchNumber(batch),
            duplicate,
            count: BatchSequence(count),
            sequence: StreamSequence(count),
        })
    }

    fn store(&mut self, batch: u32, sequence: u64) -> &mut Self {
        self.see(Event::Stored {
            batch: BatchNumber(batch),
            bytes: 100,
            digest: 0,
            sequence: BatchSequence(sequence),
            stream_sequence: StreamSequence(sequence),
        })
    }

    fn end(&mut self, batch: u32, outcome: Outcome, code: u16, acknowledged: u64) -> &mut Self {
        self.see(Event::BatchEnded {
            batch: BatchNumber(batch),
            outcome,
            code,
            acknowledged: BatchSequence(acknowledged),
        })
    }

    fn finish(self, microseconds: u64) -> Summary {
        self.recorder.finish(Time::from_micros(microseconds))
    }
}

/// The latencies of a distribution in microseconds, sorted, each as often as it was measured.
fn latencies(distribution: &crate::measure::Distribution) -> Vec<u64> {
    let histogram = distribution.histogram().unwrap();
    let mut found = Vec::new();
    for value in histogram.iter_recorded() {
        let microseconds = (value.value_iterated_to() as f64 / 1e3).round() as u64;
        found.extend(vec![microseconds; value.count_at_value() as usize]);
    }
    found
}

#[test]
fn a_later_ack_credits_what_a_lost_one_would_have() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1);
    scene.at(10).publish(0, 2);
    scene.at(20).publish(0, 3);
    // The ack for 2 is lost; the one for 3 covers all three.
    scene.at(520).ack(0, 10, 3);
    // Said again: nothing is counted twice.
    scene.at(700).ack(0, 10, 3).ack(0, 10, 2);
    let summary = scene.finish(1_000);
    assert_eq!(latencies(&summary.ack_latency_ns), [500, 510, 520]);
    assert_eq!(summary.totals.acknowledged, 3);
    assert_eq!(summary.totals.acknowledged_bytes, 300);
    assert_eq!(summary.totals.flow_acks, 3);
    assert_eq!(summary.totals.unacknowledged, 0);
    assert_eq!(summary.series.acknowledged.iter().sum::<u64>(), 3);
}

#[test]
fn response_time_runs_from_the_intended_start() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0);
    scene.at(300).publish_meant_at(0, 1, Time::from_micros(100));
    // A start in the future cannot be: it counts from the send.
    scene.publish_meant_at(0, 2, Time::from_micros(900));
    scene.at(400).ack(0, 10, 2);
    let summary = scene.finish(400);
    assert_eq!(latencies(&summary.ack_latency_ns), [100, 100]);
    assert_eq!(latencies(&summary.response_time_ns), [100, 300]);
}

#[test]
fn gap_mode_ok_credits_all_but_what_was_missing_or_refused() {
    let mut scene = Scene::watched();
    scene.at(0).start(0, 0);
    for sequence in 1..=6 {
        scene.publish(0, sequence);
    }
    for sequence in [1, 2, 5] {
        scene.store(0, sequence);
    }
    scene.at(100).see(Event::GapSeen {
        batch: BatchNumber(0),
        expected: BatchSequence(3),
        received: BatchSequence(5),
    });
    scene.see(Event::Rejected {
        batch: BatchNumber(0),
        code: 10071,
        sequence: BatchSequence(6),
    });
    scene.at(150).see(Event::ErrorSeen {
        batch: BatchNumber(0),
        code: 10071,
        sequence: BatchSequence(6),
    });
    scene.at(200).ack(0, 10, 6);
    let summary = scene.finish(200);
    assert_eq!(latencies(&summary.ack_latency_ns), [200, 200, 200]);
    let totals = &summary.totals;
    assert_eq!((totals.gaps, totals.missing, totals.refused), (1, 2, 1));
    assert_eq!((totals.stored, totals.lost), (Some(3), Some(3)));
    assert_eq!(totals.errors, BTreeMap::from([(10071, 1)]));
    assert_eq!(summary.gap_rate, 2.0 / 5.0);
    assert_eq!(summary.series.missing, [0, 2, 0][..summary.series.len()]);
}

#[test]
fn a_pub_ack_credits_up_to_its_count_and_a_second_one_credits_nothing() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1).publish(0, 2);
    scene.publish(0, 3);
    scene.at(50).pub_ack(0, 2, false);
    scene.at(60).pub_ack(0, 2, true);
    scene.end(0, Outcome::EndedByServer, 0, 2);
    // Too late: the batch is over.
    scene.at(70).ack(0, 10, 3).pub_ack(0, 3, false);
    let summary = scene.finish(100);
    assert_eq!(latencies(&summary.ack_latency_ns), [50, 50]);
    let totals = &summary.totals;
    assert_eq!(totals.unacknowledged, 1);
    assert_eq!((totals.pub_acks, totals.duplicates), (3, 1));
    assert_eq!((totals.stored, totals.lost), (None, None));
    assert_eq!(totals.under_way, None);
    assert_eq!(totals.batches.endings.len(), 1);
    assert_eq!(
        totals.batches.endings[0].outcome,
        BatchOutcome::EndedByServer
    );
}

#[test]
fn two_batches_are_kept_apart() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).start(1, 1);
    scene.publish(0, 1).publish(1, 1);
    scene.at(10).publish(0, 2).publish(1, 2);
    scene.at(30).ack(1, 10, 2);
    scene.at(100).ack(0, 10, 1);
    let summary = scene.finish(100);
    assert_eq!(latencies(&summary.ack_latency_ns), [20, 30, 100]);
    assert_eq!(summary.totals.unacknowledged, 1);
    // Shares 1 and 2: (1 + 2)^2 / (2 * (1 + 4)).
    assert_eq!(summary.fairness, Some(0.9));
}

#[test]
fn the_end_of_a_batch_credits_what_its_publisher_knows_to_be_covered() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1).publish(0, 2);
    scene.at(40).end(0, Outcome::TimedOut, 0, 1);
    let summary = scene.finish(90);
    assert_eq!(latencies(&summary.ack_latency_ns), [40]);
    assert_eq!(summary.totals.unacknowledged, 1);
    assert_eq!(summary.window.until_ns, 40_000);
}

/// A second of one message each 100 us that is acked after `latency` of its number.
fn steady_after(latency_ns: impl Fn(u64) -> u64, warm_up: Option<Time>) -> Summary {
    let mut scene = Scene::new(Options {
        warm_up,
        ..Options::default()
    });
    scene.at(0).start(0, 0);
    let mut acks = std::collections::BTreeMap::new();
    for sequence in 1..=10_000 {
        let sent = sequence * 100;
        while let Some((at, acked)) = acks.pop_first() {
            if at > sent {
                acks.insert(at, acked);
                break;
            }
            scene.at(at).ack(0, 10, acked);
        }
        scene.at(sent).publish(0, sequence);
        acks.insert(sent + latency_ns(sequence) / 1_000, sequence);
    }
    for (at, acked) in acks {
        scene.at(at).ack(0, 10, acked);
    }
    scene.recorder.finish(Time::from_micros(1_010_000))
}

/// What a found warm-up leaves of the run is what the same warm-up leaves that a file says.
#[test]
fn a_warm_up_that_is_found_is_as_one_that_is_known() {
    let slow_start = |sequence: u64| match sequence {
        ..2_000 => 9_000_000 - sequence * 4_000,
        _ => 1_000_000 + sequence % 7 * 1_000,
    };
    let found = steady_after(slow_start, None);
    let warm_up = found.window.warm_up.unwrap();
    assert!(warm_up.steady, "{warm_up:?}");
    // 200 ms, to a slice and a latency
    assert!(
        (180_000_000..=280_000_000).contains(&warm_up.until_ns),
        "{warm_up:?}"
    );
    let mut known = steady_after(slow_start, Some(Time::from_nanos(warm_up.until_ns)));
    known.window.warm_up = Some(warm_up);
    assert_eq!(found, known);
    assert!(
        found.ack_latency_ns.max < 1_100_000,
        "{}",
        found.ack_latency_ns.max
    );
}

#[test]
fn a_run_that_is_steady_leaves_out_its_first_acks_at_most_and_one_that_never_is_nothing() {
    let even: fn(u64) -> u64 = |_| 1_000_000;
    let rising: fn(u64) -> u64 = |sequence| 1_000_000 + sequence * 10_000;
    for (latency, steady) in [(even, true), (rising, false)] {
        let found = steady_after(latency, None);
        let warm_up = found.window.warm_up.unwrap();
        assert_eq!(warm_up.steady, steady, "{warm_up:?}");
        // before the first ack there is less to see than later
        let most = if steady { warm_up.slice_ns } else { 0 };
        assert!(warm_up.until_ns <= most, "{warm_up:?}");
        let mut known = steady_after(latency, Some(Time::from_nanos(warm_up.until_ns)));
        known.window.warm_up = Some(warm_up);
        assert_eq!(found, known);
    }
}

/// Rates over time may look even where nothing can go faster: what the file does counts, too.
#[test]
fn no_run_is_steady_while_its_file_changes_the_load() {
    let found = |until| {
        let mut scene = Scene::new(Options {
            warm_up: None,
            load_changes: vec![(Time::ZERO, Time::from_micros(until))],
            ..Options::default()
        });
        scene.at(0).start(0, 0);
        for sequence in 1..10_000 {
            scene.at(sequence * 100).publish(0, sequence);
            scene.at(sequence * 100 + 50).ack(0, 10, sequence);
        }
        let summary = scene.finish(1_000_000);
        (summary.window.from_ns, summary.window.warm_up.unwrap())
    };
    let (_, even) = found(0);
    assert!(even.steady && even.load_changes_until_ns.is_none());
    let (later, early) = found(300_000);
    assert!(
        early.steady && (300_000_000..350_000_000).contains(&later),
        "{early:?}"
    );
    assert_eq!(early.until_ns, later);
    let (whole, late) = found(900_000);
    assert!(!late.steady && whole == 0, "{late:?}");
    assert_eq!(
        (late.until_ns, late.load_changes_until_ns),
        (0, Some(900_000_000))
    );
}

/// Six seconds of one message each millisecond, and what is seen when they are over and slices would double.
fn six_seconds_and(later: &[Event]) -> Summary {
    let mut scene = Scene::new(Options {
        warm_up: None,
        ..Options::default()
    });
    scene.at(0).start(0, 0);
    for sequence in 1..6_000 {
        scene.at(sequence * 1_000).publish(0, sequence);
        scene.at(sequence * 1_000 + 500).ack(0, 10, sequence);
    }
    scene.end(0, Outcome::Committed, 0, 5_999).at(6_200_000);
    for event in later {
        scene.see(*event);
    }
    scene.finish(6_000_000)
}

/// A live run tells what was stored when it reads back.
#[test]
fn what_servers_did_does_not_change_how_a_warm_up_is_found() {
    let alone = six_seconds_and(&[]);
    let warm_up = alone.window.warm_up.unwrap();
    assert!(warm_up.steady, "{warm_up:?}");
    assert_eq!((warm_up.slice_ns, warm_up.slices), (128_000_000, 46));
    let stored = Event::Stored {
        batch: BatchNumber(0),
        bytes: 100,
        digest: 0,
        sequence: BatchSequence(1),
        stream_sequence: StreamSequence(1),
    };
    let leader = Event::LeaderChanged { leader: None };
    let mut read_back = six_seconds_and(&[stored, leader]);
    assert_eq!(read_back.leader_changes.len(), 1);
    read_back.leader_changes.clear();
    assert_eq!(read_back, alone);
}

#[test]
fn a_request_answered_after_the_end_leaves_a_warm_up_to_be_found() {
    let found = six_seconds_and(&[Event::ApiAnswered {
        probe: 0,
        operation: ApiOperation::Info,
        code: 0,
        latency: Time::from_millis(500),
    }]);
    let warm_up = found.window.warm_up.unwrap();
    assert!(warm_up.steady, "{warm_up:?}");
    assert_eq!((warm_up.slice_ns, warm_up.slices), (256_000_000, 23));
}

/// Waits and open batches count by what of them lies within the window, wherever that begins.
#[test]
fn a_wait_over_the_end_of_a_found_warm_up_counts_by_what_is_left_of_it() {
    let story = |warm_up| {
        let mut scene = Scene::new(Options {
            warm_up,
            ..Options::default()
        });
        scene.at(0).start(0, 0);
        for sequence in 1..=400_u64 {
            let sent = sequence * 1_000;
            // shut over each border of slices, longer at the beginning
            scene.at(sent).publish(0, sequence);
            scene.see(Event::Blocked {
                batch: BatchNumber(0),
            });
            let wait = if sequence < 80 { 900 } else { 100 };
            scene.at(sent + wait).see(Event::Unblocked {
                batch: BatchNumber(0),
            });
            scene.at(sent + wait).ack(0, 10, sequence);
        }
        scene.recorder.finish(Time::from_micros(401_500))
    };
    let found = story(None);
    let warm_up = found.window.warm_up.unwrap();
    assert!(warm_up.steady && warm_up.until_ns > 0, "{warm_up:?}");
    let mut known = story(Some(Time::from_nanos(warm_up.until_ns)));
    known.window.warm_up = Some(warm_up);
    assert_eq!(found, known);
    assert!(found.stall_time_ns.waits.count > 0);
}

#[test]
fn warm_up_is_left_out_of_rates_and_latencies_but_not_of_totals() {
    let mut scene = Scene::new(Options {
        warm_up: Some(Time::from_micros(100)),
        ..Options::default()
    });
    scene.at(0).start(0, 0).publish(0, 1);
    scene.at(90).publish(0, 2);
    scene.at(100).publish(0, 3);
    scene.at(150).publish(0, 4).ack(0, 10, 3);
    scene.at(350).ack(0, 10, 4);
    let summary = scene.finish(1_100);
    assert_eq!(latencies(&summary.ack_latency_ns), [50, 200]);
    assert_eq!(summary.totals.acknowledged, 4);
    assert_eq!(summary.window.from_ns, 100_000);
    // The batch is open to the end: 2 messages of 100 bytes in 1 ms.
    assert_eq!(summary.throughput.messages_per_second, 2_000.0);
    assert_eq!(summary.throughput.bytes_per_second, 200_000.0);
    assert_eq!(summary.throughput.published_per_second, 2_000.0);
}

#[test]
fn waits_are_timed_and_one_that_never_ends_counts_to_the_end() {
    let blocked = |batch| Event::Blocked {
        batch: BatchNumber(batch),
    };
    let unblocked = |batch| Event::Unblocked {
        batch: BatchNumber(batch),
    };
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).start(1, 1);
    scene.at(10).see(blocked(0)).see(blocked(0));
    scene.at(30).see(unblocked(0)).see(unblocked(0));
    scene.at(60).see(blocked(1));
    let summary = scene.finish(100);
    assert_eq!(latencies(&summary.stall_time_ns.waits), [20, 40]);
    assert_eq!(summary.stall_time_ns.total, 60_000);
    assert_eq!(summary.stall_time_ns.share, 60.0 / 200.0);
    assert_eq!(summary.series.blocked_mean, [0.6]);
}

#[test]
fn a_wait_counts_within_the_window_only() {
    let gate = |shut| {
        let batch = BatchNumber(0);
        if shut {
            Event::Blocked { batch }
        } else {
            Event::Unblocked { batch }
        }
    };
    let mut scene = Scene::new(Options {
        warm_up: Some(Time::from_micros(100)),
        ..Options::default()
    });
    scene.at(0).start(0, 0);
    scene.at(10).see(gate(true)).at(50).see(gate(false));
    scene.at(80).see(gate(true)).at(130).see(gate(false));
    scene.at(150).see(gate(true)).at(170).see(gate(false));
    for (at, latency) in [(90, 10), (110, 20), (190, 40)] {
        scene.at(at).see(Event::ApiAnswered {
            probe: 0,
            operation: ApiOperation::Info,
            code: 0,
            latency: Time::from_micros(latency),
        });
    }
    let summary = scene.finish(200);
    assert_eq!(latencies(&summary.stall_time_ns.waits), [20, 30]);
    assert_eq!(summary.stall_time_ns.total, 50_000);
    assert_eq!(summary.stall_time_ns.share, 0.5);
    assert_eq!(latencies(&summary.api_latency_ns["info"]), [40]);
}

#[test]
fn what_is_under_way_at_the_end_is_not_lost() {
    let opened = |batch| Event::BatchOpened {
        batch: BatchNumber(batch),
        open: 1,
        flow: 10,
    };
    let dropped = |batch, sequence| Event::Dropped {
        batch: BatchNumber(batch),
        cause: DropCause::Fault,
        operation: Some(Operation::Append),
        sequence: BatchSequence(sequence),
    };
    let mut scene = Scene::watched();
    // Of eight: 1 and 3 stored, 2 and 6 dropped, 4 refused; 5, 7 and 8 are under way.
    scene.at(0).start(0, 0).see(opened(0));
    for sequence in 1..=8 {
        scene.publish(0, sequence);
    }
    scene.see(dropped(0, 2)).see(dropped(0, 6));
    // A lost ping is no message.
    scene.see(Event::Dropped {
        batch: BatchNumber(0),
        cause: DropCause::Fault,
        operation: Some(Operation::Ping),
        sequence: BatchSequence(8),
    });
    scene.store(0, 1).store(0, 3).see(Event::Rejected {
        batch: BatchNumber(0),
        code: 10071,
        sequence: BatchSequence(4),
    });
    // The server has not heard of this batch, and its publisher has left it.
    scene.start(1, 1).publish(1, 1).publish(1, 2);
    scene.end(1, Outcome::Interrupted, 0, 0);
    // This one never arrives, and that one is refused: what follows their first message is lost.
    scene.start(2, 2).publish(2, 1).see(dropped(2, 1));
    scene.publish(2, 2);
    scene.start(3, 3).publish(3, 1).publish(3, 2);
    scene.see(Event::RefusalSent {
        batch: BatchNumber(3),
        code: 10205,
    });
    // The server is done with this one.
    scene.start(4, 4).see(opened(4)).publish(4, 1).publish(4, 2);
    scene.store(4, 1).see(Event::BatchForgotten {
        batch: BatchNumber(4),
        idle: false,
    });
    let totals = scene.finish(10).totals;
    assert_eq!((totals.published, totals.stored), (16, Some(3)));
    assert_eq!(totals.under_way, Some(3 + 2));
    assert_eq!(totals.lost, Some(3 + 2 + 2 + 1));
}

/// While nobody leads, a message of an open batch is answered with 503, and the batch goes on.
#[test]
fn a_503_ends_no_batch_that_is_open() {
    let states = |code| {
        let batch = BatchNumber(0);
        let mut scene = Scene::watched();
        let refused = Event::RefusalSent { batch, code };
        scene.start(0, 0).see(Event::BatchOpened {
            batch,
            open: 1,
            flow: 10,
        });
        scene.see(refused);
        scene.recorder.batches.get_mut(batch).unwrap().at_server
    };
    assert_eq!(states(503), AtServer::Open);
    assert_eq!(states(429), AtServer::Open);
    assert_eq!(states(10_208), AtServer::Over);
}

#[test]
fn a_lost_message_before_a_stored_one_is_lost_for_good() {
    let mut scene = Scene::watched();
    scene.at(0).start(0, 0);
    for sequence in 1..=3 {
        scene.publish(0, sequence);
    }
    scene.store(0, 1).store(0, 3);
    let totals = scene.finish(10).totals;
    assert_eq!((totals.lost, totals.under_way), (Some(1), Some(0)));
}

#[test]
fn stores_are_counted_once_each_and_duplicates_are_not_lost() {
    let mut scene = Scene::watched();
    scene.at(0).start(0, 0);
    for sequence in 1..=4 {
        scene.publish(0, sequence);
    }
    scene.store(0, 1).store(0, 2).store(0, 2);
    scene.see(Event::Deduplicated {
        batch: BatchNumber(0),
        sequence: BatchSequence(3),
    });
    scene.see(Event::Dropped {
        batch: BatchNumber(0),
        cause: DropCause::Cut,
        operation: Some(Operation::Append),
        sequence: BatchSequence(4),
    });
    let totals = scene.finish(10).totals;
    assert_eq!((totals.stored, totals.lost), (Some(2), Some(1)));
    assert_eq!((totals.stored_again, totals.duplicates), (1, 1));
    assert_eq!(totals.dropped, BTreeMap::from([("cut".to_owned(), 1)]));
}

#[test]
fn pings_and_ends_of_batch_are_no_messages() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1);
    for operation in [Operation::Ping, Operation::CommitEob] {
        scene.see(Event::Published {
            batch: BatchNumber(0),
            operation,
            bytes: 0,
            sequence: BatchSequence(2),
            intended: Time::ZERO,
        });
    }
    scene.at(5).pub_ack(0, 2, false);
    let totals = scene.finish(5).totals;
    assert_eq!((totals.published, totals.acknowledged), (1, 1));
    assert_eq!((totals.pings, totals.unacknowledged), (1, 0));
}

#[test]
fn a_ping_counts_once_and_also_where_only_the_server_tells() {
    let received = Event::ControlReceived {
        batch: BatchNumber(0),
        operation: Operation::Ping,
        sequence: BatchSequence(1),
    };
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1);
    scene.see(Event::Published {
        batch: BatchNumber(0),
        operation: Operation::Ping,
        bytes: 0,
        sequence: BatchSequence(1),
        intended: Time::ZERO,
    });
    scene.see(received);
    scene.see(received);
    assert_eq!(scene.finish(5).totals.pings, 2);
}

#[test]
fn groups_have_figures_of_their_own() {
    let group = |name: &str, publishers| Group {
        name: name.to_owned(),
        publishers,
        note: None,
    };
    let mut scene = Scene::new(Options {
        groups: vec![group("fast", 2), group("slow", 1)],
        ..Options::default()
    });
    scene.at(0).start(1, 0).start(2, 1);
    scene.publish(0, 1).publish(1, 1);
    scene.at(10).ack(0, 10, 1);
    scene.at(500).ack(1, 10, 1);
    let summary = scene.finish(1_000_000);
    let [fast, slow] = &summary.groups[..] else {
        panic!("two groups");
    };
    assert_eq!(latencies(&fast.ack_latency_ns), [10]);
    assert_eq!(latencies(&slow.ack_latency_ns), [500]);
    assert_eq!((fast.publishers, slow.publishers), (2, 1));
    // Publisher 0 got nothing.
    assert_eq!((fast.fairness, slow.fairness), (Some(0.5), Some(1.0)));
    assert_eq!(latencies(&summary.ack_latency_ns), [10, 500]);
}

#[test]
fn many_groups_share_the_last_entry() {
    let groups = (0..40).map(|index| Group {
        name: format!("group {index}"),
        publishers: 1,
        note: None,
    });
    let mut scene = Scene::new(Options {
        groups: groups.collect(),
        ..Options::default()
    });
    for publisher in 0..40 {
        scene.start(publisher, publisher).publish(publisher, 1);
        scene.ack(publisher, 10, 1);
    }
    let groups = scene.finish(10).groups;
    assert_eq!(groups.len(), 16);
    assert_eq!(groups[15].name, "25 more groups");
    assert_eq!((groups[15].publishers, groups[15].acknowledged), (25, 25));
}

#[test]
fn an_empty_run_is_all_zero() {
    let summary = Recorder::new(Options::default()).finish(Time::ZERO);
    assert_eq!(summary.totals, Totals::default());
    assert_eq!(summary.fairness, None);
    assert_eq!(summary.ack_latency_ns.count, 0);
    assert_eq!(summary.throughput, crate::measure::Throughput::default());
}

#[test]
fn events_of_unknown_batches_and_absurd_numbers_do_no_harm() {
    let mut scene = Scene::watched();
    scene.at(0).ack(9, 0, u64::MAX).pub_ack(7, u64::MAX, true);
    scene.publish(3, u64::MAX).store(3, u64::MAX);
    scene.end(5, Outcome::ClientError, 0, u64::MAX);
    scene.start(0, 0).publish(0, u64::MAX).publish(0, 1);
    scene.see(Event::GapSeen {
        batch: BatchNumber(0),
        expected: BatchSequence(u64::MAX),
        received: BatchSequence(0),
    });
    scene.see(Event::ErrorSeen {
        batch: BatchNumber(0),
        code: u16::MAX,
        sequence: BatchSequence(u64::MAX),
    });
    scene.ack(0, u16::MAX, u64::MAX).ack(0, 0, 0);
    scene.end(0, Outcome::Committed, 0, 0);
    scene.end(0, Outcome::Committed, 0, 0);
    // The batch is over.
    scene.publish(0, 2);
    let totals = scene.finish(1).totals;
    // Of batch 0 the first message is covered; the second goes back in its batch, which is counted
    // and not timed; batch 3 never began.
    assert_eq!((totals.published, totals.acknowledged), (4, 1));
    assert_eq!(totals.unacknowledged, 2);
}

/// What one batch of the property test does next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Publish,
    Ack(u8),
    PubAck(u8),
    Gap(u8, u8),
    End,
}

impl Step {
    fn of((kind, first, second): (u8, u8, u8)) -> Self {
        match kind % 8 {
            0..=3 => Self::Publish,
            4 => Self::Ack(first),
            5 => Self::PubAck(first),
            6 => Self::Gap(first, second),
            _ => Self::End,
        }
    }
}

/// Every message published, and later covered while its batch was open, is credited exactly once
/// and with the latency from its own send.
#[test]
fn every_covered_message_is_credited_exactly_once() {
    bolero::check!()
        .with_type::<Vec<(u8, (u8, u8, u8))>>()
        .for_each(|steps| {
            let mut scene = Scene::new(Options::default());
            let mut model: [Vec<Option<u64>>; 3] = Default::default();
            let mut batch_of = [0_u32, 1, 2];
            let mut expected = Vec::new();
            let mut ended_open = 0;
            let mut now = 0;
            for batch in batch_of {
                scene.start(batch, batch);
            }
            for (who, step) in steps {
                let who = usize::from(*who) % 3;
                let (batch, flight) = (batch_of[who], &mut model[who]);
                now += 1;
                scene.at(now);
                let mut cover = |flight: &mut Vec<Option<u64>>, sequence: u8| {
                    let places = usize::from(sequence).min(flight.len());
                    let sent = flight[..places].iter_mut().filter_map(Option::take);
                    expected.extend(sent.map(|sent| now - sent));
                };
                match Step::of(*step) {
                    Step::Publish => {
                        flight.push(Some(now));
                        scene.publish(batch, flight.len() as u64);
                    }
                    Step::Ack(sequence) => {
                        cover(flight, sequence);
                        scene.ack(batch, 10, u64::from(sequence));
                    }
                    Step::PubAck(count) => {
                        cover(flight, count);
                        scene.pub_ack(batch, u64::from(count), false);
                    }
                    Step::Gap(from, until) => {
                        for sequence in from..until {
                            let index = usize::from(sequence).checked_sub(1);
                            if let Some(place) = index.and_then(|index| flight.get_mut(index)) {
                                place.take();
                            }
                        }
                        scene.see(Event::GapSeen {
                            batch: BatchNumber(batch),
                            expected: BatchSequence(u64::from(from)),
                            received: BatchSequence(u64::from(until)),
                        });
                    }
                    Step::End => {
                        ended_open += flight.drain(..).flatten().count() as u64;
                        scene.end(batch, Outcome::Abandoned, 0, 0);
                        batch_of[who] += 3;
                        scene.start(who as u32, batch_of[who]);
                    }
                }
            }
            let open = model.iter().flatten().flatten().count() as u64;
            let summary = scene.finish(now);
            expected.sort_unstable();
            assert_eq!(latencies(&summary.ack_latency_ns), expected);
            let totals = &summary.totals;
            assert_eq!(totals.acknowledged, expected.len() as u64);
            assert_eq!(totals.unacknowledged, open + ended_open);
            assert_eq!(
                totals.published,
                totals.acknowledged + totals.unacknowledged + totals.missing
            );
            let series: u64 = summary.series.acknowledged.iter().sum();
            assert_eq!(series, totals.acknowledged);
        });
}

#[test]
fn memory_does_not_grow_with_the_run() {
    let mut scene = Scene::watched();
    // 100000 batches of 4 messages after another, on two publishers.
    let mut places = 0;
    for batch in 0..100_000_u32 {
        scene.at(u64::from(batch) * 10).start(batch % 2, batch);
        scene.see(Event::BatchOpened {
            batch: BatchNumber(batch),
            open: 1,
            flow: 10,
        });
        for sequence in 1..=4 {
            scene.publish(batch, sequence).store(batch, sequence);
        }
        scene.pub_ack(batch, 4, false);
        scene.end(batch, Outcome::Committed, 0, 4);
        scene.see(Event::BatchForgotten {
            batch: BatchNumber(batch),
            idle: false,
        });
        let (slots, pages, held) = scene.recorder.batches.footprint();
        places = places.max(slots + pages + held);
    }
    assert!(places <= 6, "{places}");
    assert_eq!(scene.recorder.batches.len(), 0);
    assert_eq!(scene.recorder.publishers, 2);
    let summary = scene.finish(1_000_000);
    assert_eq!(summary.totals.acknowledged, 400_000);
    assert_eq!(summary.totals.lost, Some(0));
}

#[test]
fn what_is_withheld_was_offered_too() {
    let mut scene = Scene::new(Options::default());
    scene.at(0).start(0, 0).publish(0, 1).publish(0, 2);
    scene.at(100).ack(0, 10, 2).withhold(0, 40).withhold(1, 3);
    let totals = scene.finish(100).totals;
    assert_eq!((totals.offered, totals.published), (45, 2));
}
