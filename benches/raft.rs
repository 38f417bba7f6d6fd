//! Speed of RAFT: proposals through three replicas, from the layer above to the layer above.
//!
//! A world of its own, as small as it can be: links of constant latency, disks of constant cost, and
//! layers that look at each entry once. Cases are interleaved over several rounds, and the best
//! round counts. Leans on the library. `-- --quick` runs fewer messages.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use tidegate::machine::{Machine, Time};
use tidegate::raft::{Action, Entry, Input, Message, Node, NodeId, Settings, State, Term};

const ROUNDS: usize = 5;
const LATENCY: Time = Time::from_micros(100);
const REPLICAS: u8 = 3;

/// About what a stream proposes for a message: subject, reply, payload by length and digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Proposal {
    publisher: u32,
    subject: u32,
    reply: u64,
    payload_bytes: u32,
    digest: u32,
}

impl Entry for Proposal {
    fn bytes(&self) -> u64 {
        u64::from(self.payload_bytes) + 60
    }

    fn digest(&self) -> u64 {
        self.reply
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Nothing;

impl State for Nothing {
    fn bytes(&self) -> u64 {
        64
    }
}

struct Case {
    name: &'static str,
    /// Messages under way at most: what the publishers' windows let through.
    window: u64,
    /// Messages of one proposal.
    together: u64,
    write: Time,
    target: f64,
}

enum Happening {
    Arrive(NodeId, NodeId, Message<Proposal, Nothing>),
    Written(NodeId),
    Wake(NodeId),
}

/// What a replica wants, by the moment at which it happens.
struct World {
    nodes: Vec<Node<Proposal, Nothing>>,
    wake_at: Vec<Time>,
    /// By time and then by order of scheduling, with the place among the happenings.
    order: BinaryHeap<Reverse<(Time, u64, u32)>>,
    happenings: Vec<Option<Happening>>,
    free: Vec<u32>,
    scheduled: u64,
    /// Kept for their memory.
    spare: Vec<Vec<Action<Proposal, Nothing>>>,
    now: Time,
    write: Time,
    leads: Option<(NodeId, Term)>,
    /// Sum over what each layer has seen, so that looking at it is not left out.
    seen: [u64; REPLICAS as usize],
    applied: [u64; REPLICAS as usize],
}

impl World {
    fn new(write: Time) -> Self {
        let settings = Settings::default();
        let node = |id| Node::new(Time::ZERO, NodeId(id), settings);
        let mut world = Self {
            nodes: (0..REPLICAS).map(node).collect(),
            wake_at: vec![Time::NEVER; usize::from(REPLICAS)],
            order: BinaryHeap::new(),
            happenings: Vec::new(),
            free: Vec::new(),
            scheduled: 0,
            spare: Vec::new(),
            now: Time::ZERO,
            write,
            leads: None,
            seen: [0; REPLICAS as usize],
            applied: [0; REPLICAS as usize],
        };
        (0..REPLICAS).for_each(|id| world.schedule_wake(NodeId(id)));
        world
    }

    fn schedule(&mut self, at: Time, happening: Happening) {
        self.scheduled += 1;
        let place = self.free.pop().unwrap_or_else(|| {
            self.happenings.push(None);
            self.happenings.len() as u32 - 1
        });
        self.happenings[place as usize] = Some(happening);
        self.order.push(Reverse((at, self.scheduled, place)));
    }

    fn schedule_wake(&mut self, id: NodeId) {
        let (place, due) = (usize::from(id.0), self.nodes[usize::from(id.0)].due());
        if due < self.wake_at[place] {
            self.wake_at[place] = due;
            self.schedule(due, Happening::Wake(id));
        }
    }

    fn next(&mut self) {
        let Reverse((at, _, place)) = self.order.pop().expect("timers never end");
        self.now = at;
        self.free.push(place);
        let happening = self.happenings[place as usize].take();
        let mut actions = self.spare.pop().unwrap_or_default();
        let id = match happening.expect("it was scheduled") {
            Happening::Arrive(from, to, message) => {
                let input = Input::Received { from, message };
                self.nodes[usize::from(to.0)].step(at, input, &mut actions);
                to
            }
            Happening::Written(id) => {
                self.nodes[usize::from(id.0)].step(at, Input::Written, &mut actions);
                id
            }
            Happening::Wake(id) => {
                self.wake_at[usize::from(id.0)] = Time::NEVER;
                self.nodes[usize::from(id.0)].wake(at, &mut actions);
                id
            }
        };
        self.perform(id, actions);
    }

    fn propose(&mut self, entries: impl Iterator<Item = Proposal>, together: bool) {
        let (id, term) = self.leads.expect("a leader was elected");
        let mut actions = self.spare.pop().unwrap_or_default();
        let node = &mut self.nodes[usize::from(id.0)];
        if together {
            let entries = entries.collect();
            node.step(self.now, Input::ProposeAll { term, entries }, &mut actions);
        } else {
            for entry in entries {
                node.step(self.now, Input::Propose { term, entry }, &mut actions);
            }
        }
        self.perform(id, actions);
    }

    fn perform(&mut self, id: NodeId, mut actions: Vec<Action<Proposal, Nothing>>) {
        let mut processed = None;
        for action in actions.drain(..) {
            match action {
                Action::Broadcast(message) => {
                    for to in (0..REPLICAS).map(NodeId).filter(|to| *to != id) {
                        let arrive = Happening::Arrive(id, to, message.clone());
                        self.schedule(self.now + LATENCY, arrive);
                    }
                }
                Action::Send { to, message } => {
                    self.schedule(self.now + LATENCY, Happening::Arrive(id, to, message));
                }
                Action::Write(_) => self.schedule(self.now + self.write, Happening::Written(id)),
                Action::Draw(range) => {
                    // The first replica wins the election.
                    let span = range.least + Time::from_secs(u64::from(id.0));
                    let mut actions = self.spare.pop().unwrap_or_default();
                    let node = &mut self.nodes[usize::from(id.0)];
                    node.step(self.now, Input::Drawn(span), &mut actions);
                    self.perform(id, actions);
                }
                Action::Apply { index, record } => {
                    let entries = record.content.proposed();
                    for entry in entries {
                        self.seen[usize::from(id.0)] ^= entry.reply;
                    }
                    self.applied[usize::from(id.0)] += entries.len() as u64;
                    processed = Some(index);
                }
                Action::Lead { term } => self.leads = Some((id, term)),
                Action::Restore { .. } | Action::SteppedDown { .. } | Action::Refused(_) => {
                    panic!("nothing goes wrong here")
                }
                Action::Fact(_) => {}
            }
        }
        self.spare.push(actions);
        if let Some(index) = processed {
            let (processed, applied) = (index, index);
            let mut actions = self.spare.pop().unwrap_or_default();
            let input = Input::Processed { processed, applied };
            self.nodes[usize::from(id.0)].step(self.now, input, &mut actions);
            // The log would keep every message of the run.
            if index.0.is_multiple_of(256) {
                let (state, force) = (Nothing, true);
                let input = Input::SnapshotTaken {
                    index,
                    state,
                    force,
                };
                self.nodes[usize::from(id.0)].step(self.now, input, &mut actions);
            }
            self.perform(id, actions);
        }
        self.schedule_wake(id);
    }
}

/// Messages of a second of wall time.
fn measure(case: &Case, messages: u64) -> (f64, f64) {
    let mut world = World::new(case.write);
    while world.leads.is_none() {
        world.next();
    }
    #[expect(clippy::disallowed_methods, reason = "wall time is what is measured")]
    let started = Instant::now();
    let leader = usize::from(world.leads.map_or(0, |(id, _)| id.0));
    let mut proposed = 0;
    while world.applied.iter().any(|applied| *applied < messages) {
        let room = (world.applied[leader] + case.window).min(messages) - proposed;
        if room >= case.together || room + proposed == messages && room > 0 {
            let entries = (proposed..proposed + room).map(|number| Proposal {
                publisher: (number % 100) as u32,
                subject: 1,
                reply: number,
                payload_bytes: 128,
                digest: number as u32,
            });
            world.propose(entries, case.together > 1);
            proposed += room;
        }
        world.next();
    }
    let seconds = started.elapsed().as_secs_f64();
    assert!(world.seen.iter().all(|seen| *seen == world.seen[0]));
    let append_entries = world.nodes[leader].log().last_index().0;
    (
        messages as f64 / seconds,
        messages as f64 / append_entries as f64,
    )
}

fn main() {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let messages = if quick { 300_000 } else { 3_000_000 };
    let cases = [
        Case {
            name: "100 publishers, one at a time",
            window: 100,
            together: 1,
            write: Time::from_micros(10),
            target: 2.5e6,
        },
        Case {
            name: "100 publishers, flow 10",
            window: 2_000,
            together: 1,
            write: Time::from_micros(10),
            target: 2.5e6,
        },
        Case {
            name: "proposals of 1,000",
            window: 20_000,
            together: 1_000,
            write: Time::from_micros(10),
            target: 2.5e6,
        },
    ];
    let mut best = vec![0.0_f64; cases.len()];
    let mut filled = vec![0.0_f64; cases.len()];
    for _ in 0..ROUNDS {
        for (place, case) in cases.iter().enumerate() {
            let (rate, entries) = measure(case, messages);
            best[place] = best[place].max(rate);
            filled[place] = entries;
        }
    }
    let (name, filling) = ("raft, 3 replicas, 128 B", "in an entry");
    println!(
        "{name:<32} {filling:>12} {:>12} {:>12} {:>8}",
        "measured", "target", "ratio"
    );
    for (place, case) in cases.iter().enumerate() {
        let (rate, target) = (best[place], case.target);
        println!(
            "{:<32} {:>12.1} {:>10.2} M/s {:>8.1} M/s {:>7.2}x",
            case.name,
            filled[place],
            rate / 1e6,
            target / 1e6,
            rate / target
        );
    }
}
