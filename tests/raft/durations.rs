//! How long a group is without a leader.
//!
//! Leans on `world`.

use tidegate::machine::Time;
use tidegate::raft::{NodeId, Restart};
use tidegate::seed::Seed;

use crate::plan::{Dice, Plan};
use crate::world::World;

const LONG: Time = Time::from_secs(60);

/// A calm world with a leader, at some moment of its second.
fn settled(seed: u64) -> (World, NodeId) {
    let seed = Seed(seed);
    let mut world = World::new(Plan::calm(), seed, true);
    assert!(world.run_while(LONG, |world| world.leader().is_none()));
    let phase = Dice(seed.generator("phase", 0)).below(10_000);
    world.run_for(Time::from_millis(2_000 + phase));
    let leader = world.leader().unwrap();
    (world, leader)
}

/// How long it takes until another one than `old` leads and has said so.
fn until_next_leader(world: &mut World, old: NodeId) -> Time {
    let from = world.now;
    let next = |world: &World| world.leader().filter(|leader| *leader != old);
    assert!(world.run_while(LONG, |world| next(world).is_none()));
    world.now - from
}

#[test]
fn a_transfer_takes_its_delay_and_a_few_round_trips() {
    for seed in 1..=50 {
        let (mut world, leader) = settled(seed);
        let target = NodeId((leader.0 + 1) % 3);
        world.step_down(leader, Some(target));
        let took = until_next_leader(&mut world, leader);
        assert_eq!(world.leader(), Some(target));
        assert!(
            took > Time::from_millis(10) && took < Time::from_millis(14),
            "{took}"
        );
        assert_eq!(world.findings().violations, []);
    }
}

#[test]
fn a_killed_leader_is_replaced_after_the_shorter_of_two_timers() {
    let mut sum = 0;
    let (mut shortest, mut longest) = (Time::NEVER, Time::ZERO);
    let runs = 400;
    for seed in 1..=runs {
        let (mut world, leader) = settled(seed);
        world.crash(leader, Restart::AfterKill, LONG);
        let took = until_next_leader(&mut world, leader);
        sum += took.as_nanos() / 1_000_000;
        (shortest, longest) = (shortest.min(took), longest.max(took));
    }
    let mean = sum / runs;
    // The smaller of two draws from 4 s to 9 s: 5.67 s on average, deviating by 1.18 s.
    assert!((5_490..=5_850).contains(&mean), "{mean} ms");
    let (least, most) = (Time::from_millis(3_990), Time::from_secs(9));
    assert!(
        shortest > least && shortest < Time::from_millis(4_300),
        "{shortest}"
    );
    assert!(longest < most && longest > Time::from_secs(8), "{longest}");
}

#[test]
fn a_leader_without_followers_notices_after_ten_to_twenty_seconds() {
    let (mut shortest, mut longest) = (Time::NEVER, Time::ZERO);
    for seed in 1..=100 {
        let (mut world, leader) = settled(seed);
        for follower in world.everybody().filter(|node| *node != leader) {
            world.crash(follower, Restart::AfterKill, LONG);
        }
        let from = world.now;
        assert!(world.run_while(LONG, |world| world.leader().is_some()));
        let took = world.now - from;
        (shortest, longest) = (shortest.min(took), longest.max(took));
    }
    assert!(
        shortest >= Time::from_secs(10) && shortest < Time::from_secs(11),
        "{shortest}"
    );
    assert!(
        longest <= Time::from_secs(20) && longest > Time::from_secs(19),
        "{longest}"
    );
}

#[test]
fn a_candidate_that_is_behind_is_refused_and_a_better_one_leads() {
    let mut refused = 0;
    for seed in 1..=50 {
        let (mut world, leader) = settled(seed);
        let behind = NodeId((leader.0 + 1) % 3);
        let other = NodeId((leader.0 + 2) % 3);
        world.cut(leader, behind, Time::from_millis(50));
        world.run_for(Time::from_millis(50));
        let term = world.node(leader).term().0;
        world.crash(leader, Restart::AfterKill, LONG);
        until_next_leader(&mut world, leader);
        assert_eq!(world.leader(), Some(other));
        refused += u32::from(world.node(other).term().0 > term + 1);
    }
    // Whose timer is the shorter one is a draw.
    assert!((10..=40).contains(&refused), "{refused}");
}
