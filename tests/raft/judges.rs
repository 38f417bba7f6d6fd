//! Every judge objects to what it is there for, in a running world, and is silent without.
//!
//! Leans on `world` and the judges of RAFT.

use std::collections::BTreeSet;

use tidegate::judge::Violation;
use tidegate::judge::raft::{RaftFindings, RaftJudges};
use tidegate::machine::Time;
use tidegate::raft::{NodeId, RaftDefect, RaftDefects, Restart};
use tidegate::seed::Seed;

use crate::TROUBLE;
use crate::plan::{Fault, Plan, millis};
use crate::world::World;

type Names = BTreeSet<&'static str>;

/// Runs a world with or without defects.
type Scene = fn(Seed, RaftDefects) -> World;

fn names(violations: &[Violation]) -> Names {
    let judges = violations.iter().map(|violation| violation.judge);
    judges.collect()
}

/// Who objects to `defect`, over `seeds` runs of a scene in which nobody does without it. Where
/// power was lost, who has nothing to excuse without it.
fn objections(defect: RaftDefect, seeds: u64, scene: Scene) -> Names {
    let mut objecting = Names::new();
    for seed in (1..=seeds).map(Seed) {
        let without = scene(seed, RaftDefects::default()).findings();
        assert_eq!(without.violations, [], "{defect:?}, {seed:?}");
        let with = scene(seed, RaftDefects::default().with(defect)).findings();
        objecting.extend(names(&with.violations));
        objecting.extend(&names(&with.lost_to_power) - &names(&without.lost_to_power));
    }
    objecting
}

// -- scenes ----------------------------------------------------------------------------------

fn world(mut plan: Plan, seed: Seed, defects: RaftDefects) -> World {
    plan.settings.defects = defects;
    World::new(plan, seed, true)
}

/// A world as the seed draws it.
fn drawn(seed: Seed, defects: RaftDefects) -> World {
    let mut world = world(Plan::drawn(seed), seed, defects);
    world.run_for(TROUBLE);
    world
}

/// A drawn world in which machines lose power and nothing else goes wrong. Nothing is synced.
fn blackouts(seed: Seed, defects: RaftDefects) -> World {
    let mut plan = Plan::drawn(seed);
    plan.settings.members = 3;
    plan.settings.sync_always = false;
    plan.faults = vec![Fault::Blackout, Fault::PowerLoss, Fault::Kill];
    let mut world = world(plan, seed, defects);
    world.run_for(TROUBLE);
    world
}

/// Followers apply slowly and miss entries meanwhile.
fn slow_applies(seed: Seed, defects: RaftDefects) -> World {
    let mut plan = Plan::drawn(seed);
    plan.settings.members = 3;
    plan.settings.batch_entries = 4;
    plan.proposals = 8;
    plan.propose_every = Time::from_millis(30);
    plan.faults = vec![Fault::CutOneWay, Fault::SlowApply];
    let mut world = world(plan, seed, defects);
    world.run_for(TROUBLE);
    world
}

/// Messages get lost, and disks are so slow that what catch-ups send waits for them.
fn slow_disks(seed: Seed, defects: RaftDefects) -> World {
    let mut plan = Plan::calm();
    plan.propose_every = Time::from_millis(150);
    plan.loss_permille = 20;
    plan.catchup_delay = millis(0, 100);
    let mut world = world(plan, seed, defects);
    for node in world.everybody() {
        world.slow_disk(node, TROUBLE);
    }
    world.run_for(TROUBLE);
    world
}

/// Three replicas in a calm world, the leader first.
fn settled(plan: Plan, seed: Seed, defects: RaftDefects) -> (World, [NodeId; 3]) {
    let mut world = world(plan, seed, defects);
    let led = world.run_while(TROUBLE, |world| world.leader().is_none());
    assert!(led);
    world.run_for(Time::from_secs(1));
    let leader = world.leader().unwrap();
    let others = [1, 2].map(|step| NodeId((leader.0 + step) % 3));
    (world, [leader, others[0], others[1]])
}

/// A replica loses leadership and has it back before the layer above notices either.
fn leads_again(seed: Seed, defects: RaftDefects) -> World {
    let mut plan = Plan::calm();
    plan.notice = millis(400, 500);
    let (mut world, [first, second, _]) = settled(plan, seed, defects);
    world.step_down(first, Some(second));
    assert!(world.run_while(TROUBLE, |world| world.leader() != Some(second)));
    world.run_for(Time::from_millis(5));
    world.step_down(second, Some(first));
    assert!(world.run_while(TROUBLE, |world| world.leader() != Some(first)));
    world.run_for(Time::from_secs(2));
    world
}

/// An ack is under way for so long that its leader has lost and won an election meanwhile, and
/// nobody hears its new term.
fn late_ack(seed: Seed, defects: RaftDefects) -> World {
    let (mut world, [first, second, third]) = settled(Plan::calm(), seed, defects);
    world.fall_silent();
    world.run_for(Time::from_secs(1));
    world.delay(second, first, Time::from_secs(12));
    world.cut(first, third, Time::from_millis(50));
    world.propose(1);
    world.run_for(Time::from_millis(20));
    world.crash(first, Restart::AfterKill, Time::from_millis(40));
    let again = |world: &World| world.node(first).leader() == Some(first);
    world.run_for(Time::from_millis(100));
    if world.run_while(Time::from_secs(10), |world| !again(world)) {
        world.cut(first, second, TROUBLE);
        world.cut(first, third, TROUBLE);
        world.run_for(Time::from_secs(9));
    }
    world
}

/// A leader of a term gives it up, loses power with all that it wrote in that term, and is asked
/// for its vote in the same term once more.
fn asked_again(seed: Seed, defects: RaftDefects) -> World {
    let mut plan = Plan::calm();
    plan.sync_every = Time::from_secs(600);
    let (mut world, [old, one, two]) = settled(plan, seed, defects);
    world.fall_silent();
    world.run_for(Time::from_secs(1));
    for node in world.everybody() {
        world.step(node, tidegate::raft::Input::Synced);
    }
    // The two do not hear each other, so both would campaign in the next term.
    world.cut(one, two, TROUBLE);
    world.cut(two, one, TROUBLE);
    world.crash(old, Restart::AfterKill, Time::from_millis(500));
    let elected = |world: &World, node| world.node(node).leader() == Some(node);
    world.run_for(Time::from_secs(1));
    world.run_while(TROUBLE, |world| {
        !elected(world, one) && !elected(world, two)
    });
    let (first, second) = if elected(&world, one) {
        (one, two)
    } else {
        (two, one)
    };
    if !elected(&world, first) {
        return world;
    }
    world.cut(first, old, TROUBLE);
    world.cut(old, first, TROUBLE);
    world.cut(old, second, TROUBLE);
    world.run_for(Time::from_millis(1));
    world.step_down(first, None);
    world.run_for(Time::from_millis(1));
    world.crash(first, Restart::AfterPowerLoss, Time::from_millis(100));
    world.cut(first, second, Time::ZERO);
    world.cut(second, first, Time::ZERO);
    world.run_while(TROUBLE, |world| !elected(world, second));
    world.speak(1);
    world.run_for(Time::from_secs(2));
    world
}

// -- judges ----------------------------------------------------------------------------------

#[test]
fn each_defect_is_found() {
    let cases: [(RaftDefect, u64, Scene, &[&str]); 8] = [
        (
            RaftDefect::LeaderBeforeNoop,
            3,
            drawn,
            &["leads-after-its-first-entry"],
        ),
        (
            RaftDefect::NoOverrunStepdown,
            30,
            drawn,
            &["overrun-leaders-step-down"],
        ),
        (
            RaftDefect::OverrunKeepsCatchup,
            30,
            slow_applies,
            &["paused-followers-ask-for-nothing"],
        ),
        (
            RaftDefect::CommitRegression,
            200,
            blackouts,
            &["commits-never-go-back"],
        ),
        (
            RaftDefect::ParallelCatchupTruncates,
            100,
            slow_disks,
            &["what-is-committed-stays"],
        ),
        (
            RaftDefect::StaleTermProposal,
            3,
            leads_again,
            &["proposals-keep-their-term"],
        ),
        (
            RaftDefect::CommitsPreviousTerm,
            10,
            late_ack,
            &["what-is-committed-stays"],
        ),
        (
            RaftDefect::RepeatVoteSameTerm,
            10,
            asked_again,
            &["one-vote-per-term", "one-leader-per-term", "logs-match"],
        ),
    ];
    let mut found = Names::new();
    for (defect, seeds, scene, judges) in cases {
        let objecting = objections(defect, seeds, scene);
        for judge in judges {
            assert!(
                objecting.contains(judge),
                "{defect:?}: {objecting:?} object"
            );
        }
        found.extend(judges);
    }
    // The remaining ones object where unsynced entries are lost: see below.
    found.extend(LOST);
    assert_eq!(found, Names::from_iter(RaftJudges::NAMES));
}

/// Judges that object to what a loss of power takes from a group that does not sync.
const LOST: [&str; 3] = [
    "leaders-have-what-is-committed",
    "replicas-apply-the-same",
    "what-is-committed-stays",
];

#[test]
fn what_is_lost_with_the_power_is_a_class_of_its_own() {
    let mut lost = Names::new();
    for seed in (1..=40).map(Seed) {
        let world = blackouts(seed, RaftDefects::default());
        let findings = world.findings();
        assert_eq!(findings.violations, []);
        lost.extend(
            findings
                .lost_to_power
                .iter()
                .map(|violation| violation.judge),
        );
    }
    assert_eq!(lost, Names::from(LOST));
}

#[test]
fn nothing_is_lost_by_a_group_that_syncs_or_whose_machines_keep_power() {
    for seed in (1..=100).map(Seed) {
        let mut plan = Plan::drawn(seed);
        plan.settings.sync_always = seed.0.is_multiple_of(2);
        if !plan.settings.sync_always {
            plan.faults = crate::plan::FAULTS.to_vec();
        }
        let mut world = World::new(plan, seed, true);
        world.run_for(TROUBLE);
        assert_eq!(world.findings(), RaftFindings::default());
    }
}
