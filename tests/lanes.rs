//! Both lanes of the simulator speak the same protocol: our own client gives the same verdict, the
//! same counts and the same frames of each batch in the event lane and in the wire lane.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::frames::{Batch, Frames};
use tidegate::machine::Time;
use tidegate::report::RunResult;
use tidegate::scenario::{Lane, Scenario, Settings, Substrate};

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
/// batches are ordered by what is in them instead.
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
    let named = frames
        .batches
        .into_iter()
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

/// Every frame of every batch, in both directions, each in its order.
///
/// Two things are left out where there are several publishers. The stream's own sequence in a
/// PubAck: it counts the messages of all of them, and which of two that arrive within a microsecond
/// comes first is timing. And, where they share the server's flow, the answers after the first of
/// them is done: the others are granted more from their next ack on, and which one that is for is
/// timing too.
#[test]
fn scenarios_give_the_same_frames_in_both_lanes() {
    let scenarios = core_scenarios();
    assert!(scenarios.len() >= 14);
    for scenario in &scenarios {
        let file = &scenario.file;
        for seed in 1..=2 {
            let [event, wire] = [Lane::Event, WIRE]
                .map(|lane| comparable(scenario, ran(scenario, seed, lane).frames));
            assert_eq!(event.len(), wire.len(), "{file} at {seed}");
            for ((name, mut batch), (_, mut other)) in event.into_iter().zip(wire) {
                if is_shared(&scenario.settings) {
                    while_all_are_there(&mut batch, &mut other);
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
