//! Scenes of one publisher against replies by hand.

use super::*;
use crate::nats::StreamSequence;
use crate::nats::ack::{FlowAck, Gap};

struct Scene {
    publisher: Publisher,
    now: Time,
}

impl Scene {
    fn new(flow: u16, outstanding_acks: u8, gap: GapMode, profile: Profile) -> Self {
        let ack_timeout = Time::from_secs(3);
        let publisher = Publisher::new(Settings {
            flow,
            outstanding_acks,
            gap,
            ack_timeout,
            profile,
        });
        Self {
            publisher,
            now: Time::ZERO,
        }
    }

    fn step(&mut self, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        self.publisher.step(self.now, input, &mut out);
        out
    }

    fn ack(&mut self, sequence: u64, messages: u16) -> Vec<Action> {
        self.step(Input::Reply(ControlFrame::Ack(FlowAck {
            sequence: BatchSequence(sequence),
            messages,
        })))
    }

    /// Lets time pass up to the next wake-up.
    fn wake(&mut self) -> (Time, Vec<Action>) {
        let mut out = Vec::new();
        self.now = self.publisher.due();
        assert_ne!(self.now, Time::NEVER, "nothing is due");
        self.publisher.wake(self.now, &mut out);
        (self.now, out)
    }

    /// Offers until the gate shuts and returns how many went out.
    fn offer_all(&mut self) -> u64 {
        while self.publisher.is_ready() {
            self.step(Input::Offer);
        }
        self.publisher.sent().0
    }
}

const fn publish(operation: Operation, sequence: u64) -> Action {
    Action::Publish {
        operation,
        sequence: BatchSequence(sequence),
    }
}

const fn pub_ack(sequence: u64, count: u64) -> PubAck {
    PubAck {
        sequence: StreamSequence(sequence),
        count: Some(BatchSequence(count)),
        duplicate: false,
    }
}

const fn ended(outcome: Outcome, code: u16, acknowledged: u64, pub_ack: Option<PubAck>) -> Action {
    Action::Ended(End {
        outcome,
        code,
        acknowledged: BatchSequence(acknowledged),
        pub_ack,
    })
}

#[test]
fn the_first_reply_opens_the_batch() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    assert_eq!(scene.step(Input::Offer), [publish(Operation::Start, 1)]);
    assert!(
        !scene.publisher.is_ready(),
        "a publisher must wait for the first reply"
    );
    assert_eq!(scene.ack(0, 10), [Action::Ready]);
    assert_eq!(
        scene.step(Input::Offer),
        [publish(Operation::Append, 2), Action::Ready]
    );
}

#[test]
fn unacked_messages_at_the_gate_are_flow_times_outstanding() {
    for (flow, outstanding, out) in [
        (1, 1, 1),
        (1, 2, 2),
        (2, 1, 2),
        (10, 2, 20),
        (100, 1, 100),
        (100, 3, 300),
    ] {
        let mut scene = Scene::new(flow, outstanding, GapMode::Fail, Profile::ADR);
        scene.step(Input::Offer);
        scene.ack(0, flow);
        assert_eq!(
            scene.offer_all(),
            out,
            "flow {flow}, outstanding {outstanding}"
        );
    }
}

#[test]
fn a_gate_before_the_send_lets_one_less_out() {
    let profile = Profile {
        gate_before_publish: true,
        ..Profile::ADR
    };
    for (flow, outstanding, out) in [
        (2, 1, 1),
        (10, 1, 9),
        (100, 1, 99),
        (1, 2, 1),
        (10, 2, 19),
        (100, 3, 299),
    ] {
        let mut scene = Scene::new(flow, outstanding, GapMode::Fail, profile);
        scene.step(Input::Offer);
        scene.ack(0, flow);
        assert_eq!(
            scene.offer_all(),
            out,
            "flow {flow}, outstanding {outstanding}"
        );
    }
    let mut scene = Scene::new(1, 1, GapMode::Fail, profile);
    assert_eq!(
        scene.offer_all(),
        0,
        "window of one: not even the first message leaves"
    );
    for _ in 0..2 {
        assert_eq!(scene.wake().1, [], "and there is no batch to ping");
    }
    assert_eq!(scene.wake().1, [ended(Outcome::TimedOut, 0, 0, None)]);
}

#[test]
fn a_held_message_leaves_when_the_ack_comes() {
    let profile = Profile {
        gate_before_publish: true,
        ..Profile::ADR
    };
    let mut scene = Scene::new(2, 2, GapMode::Fail, profile);
    scene.step(Input::Offer);
    scene.ack(0, 2);
    assert_eq!(scene.offer_all(), 3);
    assert_eq!(
        scene.ack(2, 2),
        [
            Action::Unblocked,
            publish(Operation::Append, 4),
            Action::Ready
        ]
    );
}

/// A new leader starts every flow at one, and repeats what is acked.
#[test]
fn an_ack_that_lowers_the_flow_shuts_an_open_gate() {
    let mut scene = Scene::new(100, 2, GapMode::Ok, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 100);
    (0..50).for_each(|_| drop(scene.step(Input::Offer)));
    assert!(scene.publisher.is_ready());
    assert_eq!(scene.ack(0, 1), [Action::Blocked]);
    assert!(!scene.publisher.is_ready());
    assert_eq!(scene.ack(50, 1), [Action::Unblocked, Action::Ready]);
}

#[test]
fn an_ack_that_lowers_the_flow_does_not_open_the_gate() {
    let mut scene = Scene::new(100, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 100);
    assert_eq!(scene.offer_all(), 200);
    assert_eq!(scene.ack(100, 50), [], "100 + 2 x 50 <= 200");
    assert_eq!(scene.ack(150, 50), [Action::Unblocked, Action::Ready]);
}

#[test]
fn a_wait_pings_at_each_third_and_ends_at_the_timeout() {
    let mut scene = Scene::new(1, 1, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 1);
    assert_eq!(
        scene.wake(),
        (Time::from_secs(1), vec![publish(Operation::Ping, 1)])
    );
    assert_eq!(
        scene.wake(),
        (Time::from_secs(2), vec![publish(Operation::Ping, 1)])
    );
    let end = vec![ended(Outcome::TimedOut, 0, 0, None)];
    assert_eq!(scene.wake(), (Time::from_secs(3), end));
    assert_eq!(scene.publisher.due(), Time::NEVER);
}

#[test]
fn a_lost_ack_is_covered_by_the_next() {
    let mut scene = Scene::new(10, 3, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    assert_eq!(scene.offer_all(), 30);
    assert_eq!(scene.ack(20, 10), [Action::Unblocked, Action::Ready]);
    assert_eq!(scene.publisher.acknowledged(), BatchSequence(20));
}

#[test]
fn commit_and_eob_take_the_next_sequence_and_end_in_the_pub_ack() {
    for (input, operation) in [
        (Input::Commit, Operation::Commit),
        (Input::CommitEob, Operation::CommitEob),
    ] {
        let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
        scene.step(Input::Offer);
        scene.ack(0, 10);
        assert_eq!(scene.step(input), [publish(operation, 2)]);
        let reply = pub_ack(7, scene.publisher.sent().0);
        let end = ended(Outcome::Committed, 0, scene.publisher.sent().0, Some(reply));
        assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);
    }
}

#[test]
fn a_ping_after_the_end_of_batch_names_the_last_message() {
    let mut scene = Scene::new(10, 2, GapMode::Ok, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    scene.step(Input::CommitEob);
    assert_eq!(scene.wake().1, [publish(Operation::Ping, 1)]);
}

#[test]
fn in_gap_mode_fail_a_gap_stops_sending_and_waits_for_the_pub_ack() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    scene.step(Input::Offer);
    let gap = Gap {
        expected: BatchSequence(2),
        received: BatchSequence(3),
    };
    assert_eq!(scene.step(Input::Reply(ControlFrame::Gap(gap))), []);
    assert!(!scene.publisher.is_ready());
    let reply = pub_ack(1, 1);
    let end = ended(Outcome::EndedByServer, 0, 1, Some(reply));
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);
}

#[test]
fn in_gap_mode_ok_gaps_and_errors_inform_only() {
    let mut scene = Scene::new(10, 2, GapMode::Ok, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    let gap = Gap {
        expected: BatchSequence(2),
        received: BatchSequence(3),
    };
    assert_eq!(scene.step(Input::Reply(ControlFrame::Gap(gap))), []);
    let error = ControlFrame::Error {
        sequence: BatchSequence(3),
        code: 10_071,
    };
    assert_eq!(scene.step(Input::Reply(error)), []);
    assert!(scene.publisher.is_ready());
}

#[test]
fn errors_open_the_gate_only_for_clients_that_count_them() {
    for (counts, opens) in [(false, false), (true, true)] {
        let profile = Profile {
            errors_count_as_acks: counts,
            ..Profile::ADR
        };
        let mut scene = Scene::new(2, 1, GapMode::Ok, profile);
        scene.step(Input::Offer);
        scene.ack(0, 2);
        scene.offer_all();
        scene.step(Input::Reply(ControlFrame::Error {
            sequence: BatchSequence(2),
            code: 10_071,
        }));
        assert_eq!(scene.publisher.is_ready(), opens);
    }
}

#[test]
fn the_error_that_ended_the_batch_outlives_the_unknown_batch_behind_it() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    scene.step(Input::Reply(ControlFrame::Error {
        sequence: BatchSequence(2),
        code: 10_071,
    }));
    let out = scene.step(Input::Reply(ControlFrame::Refused(10_208)));
    assert_eq!(out, [ended(Outcome::Refused, 10_071, 0, None)]);
}

#[test]
fn status_503_ends_an_opening_and_is_about_one_message_in_the_middle() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    let out = scene.step(Input::Reply(ControlFrame::Status(503)));
    assert_eq!(out, [ended(Outcome::NoResponders, 503, 0, None)]);

    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    assert_eq!(scene.step(Input::Reply(ControlFrame::Status(503))), []);
    assert!(scene.publisher.is_ready());
}

#[test]
fn a_message_that_never_left_gives_its_sequence_back() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    scene.step(Input::Offer);
    assert_eq!(scene.step(Input::PublishFailed(BatchSequence(2))), []);
    assert_eq!(
        scene.step(Input::Offer),
        [publish(Operation::Append, 2), Action::Ready]
    );
    let out = scene.step(Input::PublishFailed(BatchSequence(1)));
    assert_eq!(
        out,
        [ended(Outcome::ClientError, 0, 0, None)],
        "a hole behind which others are out"
    );
}

#[test]
fn an_idle_batch_is_kept_alive_only_on_request() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    assert_eq!(scene.publisher.due(), Time::NEVER);

    let profile = Profile {
        idle_ping: Some(Time::from_secs(4)),
        ..Profile::ADR
    };
    let mut scene = Scene::new(10, 2, GapMode::Fail, profile);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    assert_eq!(
        scene.wake(),
        (Time::from_secs(4), vec![publish(Operation::Ping, 1)])
    );
    assert_eq!(
        scene.wake(),
        (Time::from_secs(8), vec![publish(Operation::Ping, 1)])
    );
}

#[test]
fn a_first_ack_that_is_lost_is_asked_for() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    assert_eq!(
        scene.wake(),
        (Time::from_secs(1), vec![publish(Operation::Ping, 1)])
    );
    assert_eq!(scene.ack(0, 10), [Action::Ready]);
}

/// ADR-50 [fast.start.wait, fast.client.both-replies]
#[test]
fn an_error_or_a_pub_ack_in_place_of_the_first_ack_ends_the_batch() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    let out = scene.step(Input::Reply(ControlFrame::Refused(10_205)));
    assert_eq!(out, [ended(Outcome::Refused, 10_205, 0, None)]);

    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    let reply = pub_ack(0, 0);
    let out = scene.step(Input::Reply(ControlFrame::PubAck(reply)));
    assert_eq!(out, [ended(Outcome::EndedByServer, 0, 0, Some(reply))]);
}

/// ADR-50 [fast.client.commit-wait]
#[test]
fn a_batch_of_one_message_commits_at_once() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::ADR);
    assert_eq!(scene.step(Input::Commit), [publish(Operation::Commit, 1)]);
    let reply = pub_ack(1, 1);
    let end = ended(Outcome::Committed, 0, 1, Some(reply));
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);
}

/// ADR-50 [fast.client.commit-wait]
#[test]
fn acks_behind_the_commit_are_passed_over() {
    let mut scene = Scene::new(2, 1, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 2);
    scene.step(Input::Offer);
    scene.ack(2, 2);
    scene.step(Input::Offer);
    scene.step(Input::CommitEob);
    for (sequence, messages) in [(2, 1), (3, 2)] {
        assert_eq!(scene.ack(sequence, messages), []);
        assert!(!scene.publisher.is_ready(), "nothing follows a commit");
    }
    let reply = pub_ack(3, 3);
    let end = ended(Outcome::Committed, 0, 3, Some(reply));
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);
}

/// ADR-50 [fast.ping.sequence]
#[test]
fn a_ping_names_the_highest_sequence_and_takes_none() {
    let mut scene = Scene::new(3, 1, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 3);
    assert_eq!(scene.offer_all(), 3);
    assert_eq!(scene.wake().1, [publish(Operation::Ping, 3)]);
    assert_eq!(scene.wake().1, [publish(Operation::Ping, 3)]);
    scene.ack(3, 3);
    assert_eq!(
        scene.step(Input::Offer),
        [publish(Operation::Append, 4), Action::Ready]
    );
}

/// ADR-50 [fast.gap.informs]
#[test]
fn a_gap_moves_neither_the_ack_sequence_nor_the_flow() {
    let mut scene = Scene::new(5, 2, GapMode::Ok, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 5);
    assert_eq!(scene.offer_all(), 10);
    let gap = Gap {
        expected: BatchSequence(3),
        received: BatchSequence(10),
    };
    assert_eq!(scene.step(Input::Reply(ControlFrame::Gap(gap))), []);
    assert_eq!(scene.publisher.acknowledged(), BatchSequence(0));
    assert!(!scene.publisher.is_ready(), "the gate is as it was");
    assert_eq!(scene.ack(5, 5), [Action::Unblocked, Action::Ready]);
    assert_eq!(scene.offer_all(), 15);
}

/// ADR-50 [fast.client.flow, fast.flow.recompute]
#[test]
fn a_flow_that_is_raised_counts_from_the_next_message_on() {
    let mut scene = Scene::new(500, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    assert_eq!(scene.ack(0, 1), [Action::Ready]);
    assert_eq!(scene.offer_all(), 2, "not the flow that was asked for");
    scene.ack(1, 2);
    assert_eq!(scene.offer_all(), 5);
    scene.ack(3, 4);
    assert_eq!(scene.offer_all(), 11);
}

/// ADR-50 [fast.error.client-stop]
#[test]
fn in_gap_mode_fail_an_error_stops_sending_and_waits_for_the_pub_ack() {
    let mut scene = Scene::new(2, 1, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 2);
    scene.offer_all();
    let error = ControlFrame::Error {
        sequence: BatchSequence(2),
        code: 10_071,
    };
    assert_eq!(scene.step(Input::Reply(error)), [Action::Unblocked]);
    assert!(!scene.publisher.is_ready());
    assert_eq!(scene.ack(1, 2), [], "no ack lets it send again");
    let reply = pub_ack(1, 1);
    let end = ended(Outcome::EndedByServer, 10_071, 1, Some(reply));
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);
}

#[test]
fn an_ack_that_says_more_starts_the_wait_anew_and_a_repeated_one_does_not() {
    let mut scene = Scene::new(100, 2, GapMode::Fail, Profile::ADR);
    scene.step(Input::Offer);
    scene.ack(0, 100);
    assert_eq!(scene.offer_all(), 200);
    scene.now = Time::from_millis(900);
    assert_eq!(scene.ack(100, 50), [], "100 + 2 x 50 <= 200");
    assert_eq!(scene.publisher.due(), Time::from_millis(1_900));
    scene.now = Time::from_millis(1_000);
    assert_eq!(scene.ack(100, 50), []);
    assert_eq!(scene.publisher.due(), Time::from_millis(1_900));
}

/// A batch of the Rust client's ways that is open, with `sent` messages out.
fn rust(gap: GapMode, sent: u64) -> Scene {
    let mut scene = Scene::new(10, 2, gap, Profile::JETSTREAM_EXTRA);
    scene.step(Input::Offer);
    scene.ack(0, 10);
    for _ in 1..sent {
        scene.step(Input::Offer);
    }
    scene
}

#[test]
fn a_client_that_ends_in_calls_hears_of_trouble_at_the_next_one() {
    let gap = Input::Reply(ControlFrame::Gap(Gap {
        expected: BatchSequence(3),
        received: BatchSequence(5),
    }));
    let refused = Input::Reply(ControlFrame::Refused(10_208));
    let mut scene = rust(GapMode::Fail, 5);
    assert_eq!(scene.step(gap), []);
    assert!(scene.publisher.is_ready());
    let end = ended(Outcome::EndedByServer, 0, 0, None);
    assert_eq!(scene.step(Input::Offer), [end]);

    let mut scene = rust(GapMode::Fail, 5);
    scene.step(gap);
    scene.step(refused);
    let end = ended(Outcome::Refused, 10_208, 0, None);
    assert_eq!(scene.step(Input::Offer), [end], "the newest counts");

    let mut scene = rust(GapMode::Fail, 5);
    scene.step(gap);
    assert_eq!(scene.step(Input::Commit), [], "it waits for the PubAck");
    assert_eq!(scene.publisher.due(), Time::from_secs(3), "without pings");
    let reply = pub_ack(2, 2);
    let end = ended(Outcome::EndedByServer, 0, 2, Some(reply));
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(reply))), [end]);

    let mut scene = rust(GapMode::Fail, 19);
    assert_eq!(scene.step(Input::Offer), [Action::Blocked]);
    let end = ended(Outcome::EndedByServer, 0, 0, None);
    assert_eq!(scene.step(gap), [end], "a wait is a call");

    let mut scene = rust(GapMode::Ok, 5);
    scene.step(gap);
    assert_eq!(
        scene.step(Input::Offer),
        [publish(Operation::Append, 6), Action::Ready]
    );
}

#[test]
fn a_pub_ack_before_the_commit_passes_for_its_answer() {
    let early = pub_ack(2, 2);
    let mut scene = rust(GapMode::Fail, 5);
    assert_eq!(scene.step(Input::Reply(ControlFrame::PubAck(early))), []);
    assert_eq!(
        scene.step(Input::Offer),
        [publish(Operation::Append, 6), Action::Ready]
    );
    let end = ended(Outcome::EndedByServer, 0, 2, Some(early));
    assert_eq!(
        scene.step(Input::CommitEob),
        [publish(Operation::CommitEob, 7), end]
    );

    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::JETSTREAM_EXTRA);
    scene.step(Input::Offer);
    let first = Input::Reply(ControlFrame::PubAck(early));
    assert_eq!(scene.step(first), [Action::Ready], "it opens the batch");
}

#[test]
fn a_client_that_reads_bodies_alone_cannot_read_a_status() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::JETSTREAM_EXTRA);
    scene.step(Input::Offer);
    let end = ended(Outcome::ClientError, 0, 0, None);
    assert_eq!(scene.step(Input::Reply(ControlFrame::Status(503))), [end]);
}

#[test]
fn a_gate_before_the_first_message_has_nothing_to_ping() {
    let mut scene = Scene::new(1, 1, GapMode::Fail, Profile::JETSTREAM_EXTRA);
    assert_eq!(scene.step(Input::Offer), [Action::Blocked]);
    let end = ended(Outcome::ClientError, 0, 0, None);
    assert_eq!(scene.wake(), (Time::from_secs(1), vec![end]));
}

#[test]
fn pings_may_have_a_shortest_distance() {
    for (timeout, pings) in [(90, 0), (150, 1), (250, 2), (3_000, 2)] {
        let mut scene = Scene::new(10, 1, GapMode::Fail, Profile::JETSTREAM_EXTRA);
        let settings = Arc::make_mut(&mut scene.publisher.settings);
        settings.ack_timeout = Time::from_millis(timeout);
        scene.step(Input::Offer);
        scene.ack(0, 10);
        while scene.step(Input::Offer) != [Action::Blocked] {}
        for _ in 0..pings {
            assert_eq!(
                scene.wake().1,
                [publish(Operation::Ping, 9)],
                "{timeout} ms"
            );
        }
        let end = ended(Outcome::TimedOut, 0, 0, None);
        assert_eq!(scene.wake(), (Time::from_millis(timeout), vec![end]));
    }
}

#[test]
fn the_rust_client_waits_for_replies_without_pings() {
    let mut scene = Scene::new(10, 2, GapMode::Fail, Profile::JETSTREAM_EXTRA);
    scene.step(Input::Offer);
    assert_eq!(scene.publisher.due(), Time::from_secs(3));
    scene.ack(0, 10);
    scene.step(Input::CommitEob);
    assert_eq!(scene.publisher.due(), Time::from_secs(3));
}
