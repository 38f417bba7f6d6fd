//! Both lanes of the simulator speak the same protocol: our own client gives the same verdict, the
//! same counts and the same frames of each batch in the event lane and in the wire lane.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::frames::{Answer, Batch, Frames};
use tidegate::machine::Time;
use tidegate::report::{RunResult, Verdict};
use tidegate::scenario::{FaultAction, Lane, Scenario, Settings, Substrate};

const WIRE: Lane = Lane::Wire(Substrate::Event);

/// A run: what came of it, and its frames.
struct Ran {
    result: RunResult,
    frames: Frames,
}

fn ran(scenario: &Scenario, seed: u64, lane: Lane) -> Ran {
    let mut frames = Frames::default();
    let outcome = common::run_in(scenario, seed, lane, Some(&mut frames));
    Ran {
        result: common::result(scenario, seed, outcome),
        frames,
    }
}

/// The scenarios that only have clients of our own.
fn core_scenarios() -> Vec<Scenario> {
    let files = common::files("sims/nats");
    let scenarios = files.iter().map(|file| Scenario::read(file).unwrap());
    scenarios
        .filter(|scenario| scenario.settings.lane() == Lane::Event)
        .collect()
}

/// The batches of a run, and what to call them. Of publishers that start at the same moment chance
/// decides who is first, and with it who is granted the full flow and who begins at 1: their
/// batches are ordered by what is in them instead. Where servers fail, the first batch of each is
/// compared: how much a later one is granted depends on when its ghost is forgotten.
fn comparable(scenario: &Scenario, frames: Frames) -> Vec<(String, Batch)> {
    let groups = &scenario.settings.publishers;
    let is_alone = scenario.settings.publisher_count() == 1;
    let group_of = |publisher: u32| {
        let mut first = 0;
        let mut groups = groups.iter();
        groups.find(|group| {
            first += group.count;
            publisher < first
        })
    };
    let mut faults = scenario.settings.faults.iter();
    let only_first = faults.any(|fault| fault.action.is_of_server());
    let named = frames
        .batches
        .into_iter()
        .filter(|((_, index), _)| *index == 0 || !only_first)
        .map(|((publisher, index), batch)| {
            let group = group_of(publisher).unwrap();
            let batch = if is_alone { batch } else { batch.alone() };
            if group.count > 1 && group.stagger.0 == Time::ZERO {
                (format!("{} {index} {batch:?}", group.name), batch)
            } else {
                (format!("{publisher} {index}"), batch)
            }
        });
    let mut named: Vec<_> = named.collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    named
}

/// Whether publishers make each other slow down: the server grants less than one of them asks for.
fn is_shared(settings: &Settings) -> bool {
    let total = settings.server.clone().unwrap_or_default().flow_total;
    let share = (u64::from(total) / settings.publisher_count()).max(1);
    let mut groups = settings.publishers.iter();
    groups.any(|group| u64::from(group.flow) > share)
}

/// Leaves out what two batches were answered after the first batch of their run was over.
fn while_all_are_there(one: &mut Batch, other: &mut Batch) {
    let counts = [&*one, &*other].map(|batch| batch.answered_with_all.unwrap_or(usize::MAX));
    let count = counts.into_iter().min().unwrap_or_default();
    one.answered.truncate(count);
    other.answered.truncate(count);
}

/// Leaves out the flow ack of the last message before the PubAck: on a stream with replicas it is sent
/// only if a quorum has that message before the end of batch arrives.
fn without_last_ack(batch: &mut Batch) {
    let ends = batch.answered.windows(2).position(|pair| {
        matches!(pair, [Answer::Ack { sequence, .. }, Answer::PubAck { count, .. }] if sequence == count)
    });
    if let Some(last) = ends {
        batch.answered.remove(last);
    }
}

/// Whether servers are restarted one after the other. Each step waits for the one before, and clients find
/// another server after a constant time in one lane and as their code does it in the other: whose
/// messages meet a handover of some 26 ms is timing.
fn rolls(settings: &Settings) -> bool {
    let mut faults = settings.faults.iter();
    faults.any(|fault| fault.action == FaultAction::RollingRestart)
}

/// Every frame of every batch, in both directions, each in its order.
///
/// Two things are left out where there are several publishers. The stream's own sequence in a
/// PubAck: it counts the messages of all of them, and which of two that arrive within a microsecond
/// comes first is timing. And, where they share the server's flow, the answers after the first of
/// them is done: the others are granted more from their next ack on, and which one that is for is
/// timing too. So is, with replicas, the ack of the last message.
#[test]
fn scenarios_give_the_same_frames_in_both_lanes() {
    let scenarios = core_scenarios();
    assert!(scenarios.len() >= 14);
    for scenario in scenarios.iter().filter(|one| !rolls(&one.settings)) {
        let file = &scenario.file;
        for seed in 1..=2 {
            let [event, wire] = [Lane::Event, WIRE]
                .map(|lane| comparable(scenario, ran(scenario, seed, lane).frames));
            assert_eq!(event.len(), wire.len(), "{file} at {seed}");
            for ((name, mut batch), (_, mut other)) in event.into_iter().zip(wire) {
                if is_shared(&scenario.settings) {
                    while_all_are_there(&mut batch, &mut other);
                }
                if scenario.settings.stream.replicas > 1 {
                    for batch in [&mut batch, &mut other] {
                        without_last_ack(batch);
                        // Each of the two in its order.
                        batch.fates.sort_by_key(|fate| fate.is_stored());
                    }
                }
                assert!(!batch.sent.is_empty() && !batch.answered.is_empty());
                let parted = batch.parts_from(&other);
                let name = name.split(" Batch").next().unwrap();
                assert_eq!(parted, None, "{file} at {seed}: batch {name}");
            }
        }
    }
}

/// The verdict, and the counts that `[expect]` can name.
#[test]
fn scenarios_come_to_the_same_in_both_lanes() {
    for scenario in &core_scenarios() {
        let [event, wire] = [Lane::Event, WIRE].map(|lane| ran(scenario, 1, lane).result);
        let counts = |result: &RunResult| {
            let totals = &result.totals;
            let counts = [totals.gaps, totals.stalls, totals.pings, totals.published];
            (totals.stored, totals.lost, counts, totals.errors.clone())
        };
        let file = &scenario.file;
        assert_eq!(event.verdict, wire.verdict, "{file}");
        if rolls(&scenario.settings) {
            continue;
        }
        assert_eq!(counts(&event), counts(&wire), "{file}");
        let released = |result: &RunResult| {
            let releases = result.stalls.iter().map(|stall| stall.release.clone());
            releases.collect::<Vec<_>>()
        };
        assert_eq!(released(&event), released(&wire), "{file}");
    }
}

/// The comparison does object: a gate that stands elsewhere shows in the frames.
#[test]
fn other_frames_are_found() {
    let file = common::tree::top().join("sims/nats/window-of-one.toml");
    let mut scenario = Scenario::read(file.to_str().unwrap()).unwrap();
    let before = ran(&scenario, 1, Lane::Event)
        .frames
        .batches
        .remove(&(0, 0));
    scenario
        .apply_set(&["publishers.0.gate=after-publish".to_owned()])
        .unwrap();
    let after = ran(&scenario, 1, WIRE).frames.batches.remove(&(0, 0));
    let parted = before.unwrap().parts_from(&after.unwrap()).unwrap();
    assert!(parted.starts_with("sent 9: "), "{parted}");
}

/// One publisher at an even rate, whose link fails from 20 ms on.
fn over_a_link_that(client: &str, action: &str, until: &str) -> Ran {
    let text = format!(
        "format = 1\nabout = \"A link fails.\"\n[[publishers]]\nclient = \"{client}\"\nflow = 10\n\
         gap = \"ok\"\nack_timeout = \"20s\"\narrival = \"constant\"\nrate_per_second = 10000\n\
         messages = 1000\n[[faults]]\naction = \"{action}\"\nfrom = \"20ms\"\nuntil = \"{until}\"\n"
    );
    ran(&Scenario::parse("link.toml", &text).unwrap(), 1, WIRE)
}

/// The connection is reset: what is under way is lost, what the client has kept is sent when it is
/// connected again, and the batch goes on with one gap. An attempt to connect that is lost is made
/// again after one second and then after two, so that even a short cut costs a second.
#[test]
fn clients_connect_again_after_a_cut() {
    for client in ["core", "jetstream-extra"] {
        for (until, back_after_ms) in [("70ms", 1_000), ("3020ms", 3_000)] {
            let Ran { result, frames } = over_a_link_that(client, "cut", until);
            let totals = &result.totals;
            let what = format!("{client} until {until}: {totals:?}");
            assert_eq!(
                totals.batches.endings[0].outcome.as_str(),
                "committed",
                "{what}"
            );
            assert_eq!((totals.published, totals.gaps), (1_000, 1), "{what}");
            assert_eq!((totals.stored, totals.lost), (Some(998), Some(2)), "{what}");
            assert_eq!(totals.under_way, Some(0), "{what}");
            let gap = Answer::Gap {
                expected: 200,
                received: 202,
            };
            assert!(frames.batches[&(0, 0)].answered.contains(&gap), "{what}");
            let longest_ms = result.response_time_ns.max / 1_000_000;
            let expected = back_after_ms..back_after_ms + 100;
            assert!(expected.contains(&longest_ms), "{longest_ms} ms, {what}");
        }
    }
}

/// Nothing is lost over a route that is down for three seconds, and nobody connects anew.
#[test]
fn a_hold_makes_late_and_loses_nothing() {
    for client in ["core", "jetstream-extra"] {
        let Ran { result, .. } = over_a_link_that(client, "hold", "3020ms");
        let totals = &result.totals;
        assert_eq!((totals.stored, totals.gaps), (Some(1_000), 0), "{client}");
        let longest_ms = result.response_time_ns.max / 1_000_000;
        assert!(
            (3_000..3_100).contains(&longest_ms),
            "{client}: {longest_ms} ms"
        );
    }
}

/// Both lanes make what is sent meanwhile late by the same, and lose nothing.
#[test]
fn a_slow_link_makes_acks_later_by_both_ways() {
    let text = "format = 1\nabout = \"Slow.\"\n[[publishers]]\nflow = 10\nmessages = 200\n\
                arrival = \"constant\"\nrate_per_second = 100\n[[faults]]\naction = \"slow\"\n\
                delay = \"30ms\"\nfrom = \"500ms\"\nuntil = \"1500ms\"\n";
    let scenario = Scenario::parse("f.toml", text).unwrap();
    let spans = [Lane::Event, WIRE].map(|lane| {
        let Ran { result, .. } = ran(&scenario, 1, lane);
        assert_eq!(result.verdict, Verdict::Pass, "{lane:?}");
        assert_eq!((result.totals.stored, result.totals.gaps), (Some(200), 0));
        // Before, and amid.
        let latency = &result.ack_latency_ns;
        (latency.min / 1_000_000, latency.max / 1_000_000)
    });
    let [event, wire] = spans;
    assert_eq!(event, wire);
    // An ack covers ten messages, of which the first has waited 90 ms.
    assert_eq!(event, (0, 150));
}

/// Both lanes carry no more than the limit, to within a few bytes of a frame, and go on as before after it.
#[test]
fn a_limited_link_takes_as_long_as_its_rate_has_it_in_both_lanes() {
    // 100 messages of 1 KiB are 4,096 ms of payload at 200 kbit/s.
    for (until, least_ms) in [("", 4_096), ("until = \"2s\"\n", 2_000)] {
        let text = format!(
            "format = 1\nabout = \"Narrow.\"\n[[publishers]]\nflow = 10\nmessages = 100\n\
             payload = \"1KiB\"\n[[faults]]\naction = \"limit\"\nbandwidth = \"200kbit/s\"\n\
             from = \"0s\"\n{until}[[faults]]\naction = \"limit\"\nbandwidth = \"1Mbit/s\"\n\
             from = \"0s\"\n"
        );
        let scenario = Scenario::parse("f.toml", &text).unwrap();
        let spans = [Lane::Event, WIRE].map(|lane| {
            let Ran { result, .. } = ran(&scenario, 1, lane);
            assert_eq!(result.verdict, Verdict::Pass, "{lane:?}");
            assert_eq!((result.totals.stored, result.totals.gaps), (Some(100), 0));
            result.duration_ns / 1_000_000
        });
        let [event, wire] = spans;
        assert!(event >= least_ms && wire >= least_ms, "{spans:?}");
        assert!(event.abs_diff(wire) <= least_ms / 25, "{spans:?}");
    }
}

/// A publisher that gives up while its answer is on its way, or while it is not connected, has not
/// stalled: the server answers, or would.
#[test]
fn an_answer_on_its_way_is_no_stall() {
    let text = |timeout: &str| {
        format!(
            "format = 1\nabout = \"A long way.\"\n[network]\nlatency = \"100ms\"\n[[publishers]]\n\
             flow = 10\nack_timeout = \"{timeout}\"\nmessages = 100\n"
        )
    };
    for (timeout, verdict) in [("150ms", Verdict::Failed), ("250ms", Verdict::Pass)] {
        let scenario = Scenario::parse("far.toml", &text(timeout)).unwrap();
        for lane in [Lane::Event, WIRE] {
            let result = ran(&scenario, 1, lane).result;
            assert_eq!(
                result.verdict, verdict,
                "{timeout} in {lane:?}: {:?}",
                result.stalls
            );
        }
    }
    let cut = "[[faults]]\naction = \"cut\"\nfrom = \"500ms\"\nuntil = \"600ms\"\n";
    // The attempts at 500 ms is lost, the next one is made at 1500 ms.
    let scenario = Scenario::parse("cut.toml", &(text("700ms") + cut)).unwrap();
    let result = ran(&scenario, 1, WIRE).result;
    assert_eq!(result.verdict, Verdict::Failed, "{:?}", result.stalls);
}

/// Nobody takes their subject: each frame that arrives is told as such and answered with status 503,
/// and a fault takes those that it is meant for.
#[test]
fn frames_that_nobody_takes_come_to_the_same_in_both_lanes() {
    let lost = "[[faults]]\naction = \"drop\"\nframe = \"message\"\n";
    let late = "[[faults]]\naction = \"duplicate\"\nframe = \"message\"\ndelay = \"1ms\"\n";
    for (fault, dropped) in [
        ("", &[("no-responders", 1)][..]),
        // The ping that asks again finds nobody either.
        (lost, &[("fault", 1), ("no-responders", 1)]),
        (late, &[("no-responders", 2)]),
    ] {
        let text = format!(
            "format = 1\nabout = \"Nobody.\"\n[[publishers]]\nsubject = \"elsewhere.a\"\n\
             outside_stream = true\nmessages = 10\n{fault}"
        );
        let scenario = Scenario::parse("nobody.toml", &text).unwrap();
        let [event, wire] = [Lane::Event, WIRE].map(|lane| ran(&scenario, 1, lane));
        for ran in [&event, &wire] {
            let totals = &ran.result.totals;
            let what = format!("{fault}{totals:?}");
            assert_eq!(
                (totals.lost, totals.under_way),
                (Some(1), Some(0)),
                "{what}"
            );
            let told = dropped
                .iter()
                .map(|(cause, count)| ((*cause).to_owned(), *count));
            assert_eq!(totals.dropped, told.collect(), "{what}");
        }
        assert_eq!(event.result.totals.errors, wire.result.totals.errors);
        let [event, wire] = [event, wire].map(|ran| ran.frames.batches[&(0, 0)].clone());
        assert_eq!(event.parts_from(&wire), None, "{fault}");
    }
}
