//! A small world around replicas of one group: links, disks, the layer above, faults, judges.
//!
//! Everything that happens follows from the plan and its seed. Leans on `raft` and its judges.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use tidegate::judge::raft::{RaftEvent, RaftFindings, RaftJudges};
use tidegate::machine::{Machine, Time};
use tidegate::raft::message::{Channel, Message as Said, Record, lengthened, short};
use tidegate::raft::{Action, Entry, Fact, Input, LogIndex, Node, NodeId, Restart, State, Term};
use tidegate::seed::Seed;

use crate::plan::{Dice, Fault, Plan, millis};

/// A layer does not propose while more than this waits for an append entry.
const QUEUED: u64 = 32;

/// What clients propose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) bytes: u32,
    pub(crate) checked_in: Term,
}

impl Entry for Message {
    fn bytes(&self) -> u64 {
        u64::from(self.bytes)
    }

    fn digest(&self) -> u64 {
        self.number
    }
}

/// All that was applied, in one word.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Applied {
    pub(crate) messages: u64,
    pub(crate) digest: u64,
}

impl State for Applied {
    fn bytes(&self) -> u64 {
        64
    }
}

impl Applied {
    fn apply(&mut self, record: &Record<Message>) {
        self.messages += record.content.proposed().len() as u64;
        self.digest = lengthened(self.digest, record.digest);
    }
}

/// What the layer above a replica does.
#[derive(Debug, Default)]
struct Layer {
    /// It proposes in this term.
    leads: Option<Term>,
    state: Applied,
    queue: VecDeque<Work>,
    /// It is busy with the first so many of the queue.
    busy_with: usize,
    snapshot_at: LogIndex,
}

#[derive(Debug)]
enum Work {
    Apply(LogIndex, Arc<Record<Message>>),
    Restore(LogIndex, Applied),
}

#[derive(Debug)]
struct Host {
    node: Node<Message, Applied>,
    layer: Layer,
    up: bool,
    /// Goes up with each crash: what was under way then comes to nothing.
    life: u32,
    wake_at: Time,
    slow_disk_until: Time,
    slow_apply_until: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    cut_until: Time,
    slow_until: Time,
    /// What its messages take beyond the plan.
    extra: Time,
    /// When the last message arrives, of each of the two lanes.
    last: [Time; 2],
}

#[derive(Debug)]
enum Happening {
    Arrive(NodeId, NodeId, Said<Message, Applied>),
    Written(NodeId, u32),
    Wake(NodeId),
    Applied(NodeId, u32),
    Notice(NodeId, u32, Option<Term>),
    Propose,
    Sync,
    Fault,
    Start(NodeId, Restart),
}

#[derive(Debug)]
struct Scheduled {
    at: Time,
    number: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// What a run did, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) proposed: u64,
    pub(crate) refused: u64,
    pub(crate) drained: u64,
    pub(crate) elections: u64,
    pub(crate) led: u64,
    pub(crate) crashes: u64,
    pub(crate) catchups: u64,
    pub(crate) snapshots_received: u64,
    pub(crate) overruns: u64,
    pub(crate) pauses: u64,
    pub(crate) truncations: u64,
}

impl Counts {
    pub(crate) const fn add(&mut self, other: &Self) {
        self.proposed += other.proposed;
        self.refused += other.refused;
        self.drained += other.drained;
        self.elections += other.elections;
        self.led += other.led;
        self.crashes += other.crashes;
        self.catchups += other.catchups;
        self.snapshots_received += other.snapshots_received;
        self.overruns += other.overruns;
        self.pauses += other.pauses;
        self.truncations += other.truncations;
    }
}

/// The world.
pub(crate) struct World {
    plan: Plan,
    pub(crate) now: Time,
    hosts: Vec<Host>,
    links: Vec<Link>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    network: Dice,
    disks: Dice,
    elections: Dice,
    layers: Dice,
    mishaps: Dice,
    judges: Option<RaftJudges>,
    pub(crate) counts: Counts,
    actions: Vec<Action<Message, Applied>>,
    /// When each leader was told, newest last.
    pub(crate) leaders: Vec<(Time, NodeId, Term)>,
    /// When leaders stepped down, newest last.
    pub(crate) ended: Vec<(Time, NodeId)>,
}

impl World {
    pub(crate) fn new(plan: Plan, seed: Seed, judged: bool) -> Self {
        let members = plan.settings.members;
        let host = |number| Host {
            node: Node::new(Time::ZERO, NodeId(number), plan.settings),
            layer: Layer::default(),
            up: true,
            life: 0,
            wake_at: Time::NEVER,
            slow_disk_until: Time::ZERO,
            slow_apply_until: Time::ZERO,
        };
        let dice = |label| Dice(seed.generator(label, 0));
        let mut world = Self {
            hosts: (0..members).map(host).collect(),
            links: vec![Link::default(); usize::from(members) * usize::from(members)],
            now: Time::ZERO,
            queue: BinaryHeap::new(),
            scheduled: 0,
            network: dice("network"),
            disks: dice("disks"),
            elections: dice("elections"),
            layers: dice("layers"),
            mishaps: dice("mishaps"),
            judges: judged.then(|| RaftJudges::new(&plan.settings)),
            counts: Counts::default(),
            actions: Vec::new(),
            leaders: Vec::new(),
            ended: Vec::new(),
            plan,
        };
        for node in world.everybody() {
            world.schedule_wake(node);
        }
        world.schedule(world.plan.propose_every, Happening::Propose);
        world.schedule(world.plan.sync_every, Happening::Sync);
        if let Some(range) = world.plan.fault_every {
            let at = world.mishaps.span(range);
            world.schedule(at, Happening::Fault);
        }
        world
    }

    // -- looking at it -------------------------------------------------------------------------

    pub(crate) fn everybody(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.plan.settings.members).map(NodeId)
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node<Message, Applied> {
        &self.hosts[usize::from(node.0)].node
    }

    /// The replica that leads and has said so, of the highest term.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        let leading = self
            .hosts
            .iter()
            .filter(|host| host.up && host.node.leads());
        let newest = leading.max_by_key(|host| host.node.term());
        newest.map(|host| host.node.id())
    }

    pub(crate) fn applied(&self, node: NodeId) -> Applied {
        self.hosts[usize::from(node.0)].layer.state
    }

    pub(crate) fn findings(&self) -> RaftFindings {
        let judges = self.judges.as_ref();
        judges
            .map(|judges| judges.findings().clone())
            .unwrap_or_default()
    }

    pub(crate) fn may_have_lost(&self) -> bool {
        self.judges
            .as_ref()
            .is_some_and(RaftJudges::has_lost_to_power)
    }

    // -- driving it ----------------------------------------------------------------------------

    /// Lets things happen up to `until`.
    pub(crate) fn run_until(&mut self, until: Time) {
        while let Some(Reverse(next)) = self.queue.peek()
            && next.at <= until
        {
            if let Some(Reverse(next)) = self.queue.pop() {
                self.now = next.at;
                self.happen(next.what);
            }
        }
        self.now = until;
    }

    pub(crate) fn run_for(&mut self, span: Time) {
        self.run_until(self.now + span);
    }

    /// Runs until `done`, for `span` at most; whether it was done.
    pub(crate) fn run_while(&mut self, span: Time, going: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + span;
        while going(self) {
            match self.queue.pop() {
                Some(Reverse(next)) if next.at <= end => {
                    self.now = next.at;
                    self.happen(next.what);
                }
                _ => return false,
            }
        }
        true
    }

    /// From now on nothing is proposed.
    pub(crate) const fn fall_silent(&mut self) {
        self.plan.proposals = 0;
    }

    /// From now on up to so many messages are proposed at a time.
    pub(crate) const fn speak(&mut self, proposals: u64) {
        self.plan.proposals = proposals;
    }

    /// Whether one replica leads, and all have applied what it has.
    pub(crate) fn is_at_rest(&self) -> bool {
        let Some(leader) = self.leader() else {
            return false;
        };
        let all = self.node(leader).log().last_index();
        let mut hosts = self.hosts.iter();
        hosts.all(|host| host.up && host.node.applied() == all)
    }

    /// Ends all faults; whoever is down starts in time.
    pub(crate) fn heal(&mut self) {
        self.plan.fault_every = None;
        self.plan.loss_permille = 0;
        for link in &mut self.links {
            (link.cut_until, link.slow_until) = (self.now, self.now);
        }
        for node in self.everybody() {
            let host = &mut self.hosts[usize::from(node.0)];
            (host.slow_disk_until, host.slow_apply_until) = (self.now, self.now);
        }
    }

    pub(crate) fn step_down(&mut self, node: NodeId, preferred: Option<NodeId>) {
        let chance = self.mishaps.word();
        self.step(node, Input::StepDown { preferred, chance });
    }

    /// Ends a process; it starts again after `down`.
    pub(crate) fn crash(&mut self, node: NodeId, restart: Restart, down: Time) {
        let host = &mut self.hosts[usize::from(node.0)];
        if !host.up {
            return;
        }
        self.counts.crashes += 1;
        host.up = false;
        host.life += 1;
        host.layer = Layer::default();
        self.schedule(self.now + down, Happening::Start(node, restart));
    }

    /// From now on `to` hears nothing of `from`, for `span`.
    pub(crate) fn cut(&mut self, from: NodeId, to: NodeId, span: Time) {
        let until = self.now + span;
        self.link(from, to).cut_until = until;
    }

    /// From now on `from` takes `extra` longer to reach `to`.
    pub(crate) fn delay(&mut self, from: NodeId, to: NodeId, extra: Time) {
        self.link(from, to).extra = extra;
    }

    /// Each write of a replica takes long, for `span`.
    pub(crate) fn slow_disk(&mut self, node: NodeId, span: Time) {
        self.hosts[usize::from(node.0)].slow_disk_until = self.now + span;
    }

    /// Proposes at every layer that leads, or believes so.
    pub(crate) fn propose(&mut self, most: u64) {
        for node in self.everybody() {
            let host = &self.hosts[usize::from(node.0)];
            let full = host.node.lag().queued.proposals > QUEUED;
            let Some(checked_in) = host.layer.leads.filter(|_| host.up && !full) else {
                continue;
            };
            let count = 1 + self.layers.below(most);
            let together = self.layers.below(2) == 0;
            let entries = (0..count).map(|_| {
                self.counts.proposed += 1;
                Message {
                    number: self.counts.proposed,
                    bytes: 1 + self.layers.below(self.plan.message_bytes) as u32,
                    checked_in,
                }
            });
            let entries: Vec<_> = entries.collect();
            let term = checked_in;
            if together {
                self.step(node, Input::ProposeAll { term, entries });
            } else {
                for entry in entries {
                    self.step(node, Input::Propose { term, entry });
                }
            }
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Arrive(from, to, message) => {
                let now = self.now;
                if self.link(from, to).cut_until <= now {
                    self.step(to, Input::Received { from, message });
                }
            }
            Happening::Written(node, life) if self.lives(node, life) => {
                self.step(node, Input::Written);
            }
            Happening::Wake(node) => self.wake(node),
            Happening::Applied(node, life) if self.lives(node, life) => self.end_apply(node),
            Happening::Notice(node, life, leads) if self.lives(node, life) => {
                self.hosts[usize::from(node.0)].layer.leads = leads;
            }
            Happening::Written(..) | Happening::Applied(..) | Happening::Notice(..) => {}
            Happening::Propose => {
                if self.plan.proposals > 0 {
                    self.propose(self.plan.proposals);
                }
                self.schedule(self.now + self.plan.propose_every, Happening::Propose);
            }
            Happening::Sync => {
                for node in self.everybody() {
                    self.step(node, Input::Synced);
                }
                self.schedule(self.now + self.plan.sync_every, Happening::Sync);
            }
            Happening::Fault => {
                if let Some(range) = self.plan.fault_every {
                    self.mishap();
                    let at = self.now + self.mishaps.span(range);
                    self.schedule(at, Happening::Fault);
                }
            }
            Happening::Start(node, restart) => {
                self.hosts[usize::from(node.0)].up = true;
                self.step(node, Input::Restarted(restart));
            }
        }
    }

    fn mishap(&mut self) {
        let members = u64::from(self.plan.settings.members);
        let node = NodeId(self.mishaps.below(members) as u8);
        let other = NodeId(self.mishaps.below(members) as u8);
        let span = self.mishaps.span(millis(50, 12_000));
        let now = self.now;
        let which = self.mishaps.below(self.plan.faults.len() as u64) as usize;
        match self.plan.faults[which] {
            Fault::CutOneWay => self.cut(node, other, span),
            Fault::Isolate => {
                for peer in self.everybody() {
                    self.cut(node, peer, span);
                    self.cut(peer, node, span);
                }
            }
            Fault::Kill => self.crash(node, Restart::AfterKill, span),
            Fault::PowerLoss => self.crash(node, Restart::AfterPowerLoss, span),
            Fault::Blackout => {
                for node in self.everybody() {
                    self.crash(node, Restart::AfterPowerLoss, span);
                }
            }
            Fault::StepDown => {
                if let Some(leader) = self.leader() {
                    self.step_down(
                        leader,
                        Some(other).filter(|_| span.as_nanos().is_multiple_of(2)),
                    );
                }
            }
            Fault::SlowDisk => self.slow_disk(node, span),
            Fault::SlowApply => self.hosts[usize::from(node.0)].slow_apply_until = now + span,
            Fault::SlowLink => self.link(node, other).slow_until = now + span,
        }
    }

    // -- one replica ---------------------------------------------------------------------------

    fn lives(&self, node: NodeId, life: u32) -> bool {
        let host = &self.hosts[usize::from(node.0)];
        host.up && host.life == life
    }

    pub(crate) fn step(&mut self, node: NodeId, input: Input<Message, Applied>) {
        if !self.hosts[usize::from(node.0)].up {
            return;
        }
        let power_lost = matches!(input, Input::Restarted(Restart::AfterPowerLoss));
        let mut actions = std::mem::take(&mut self.actions);
        self.hosts[usize::from(node.0)]
            .node
            .step(self.now, input, &mut actions);
        self.perform(node, &mut actions, power_lost);
        self.actions = actions;
        self.schedule_wake(node);
    }

    fn wake(&mut self, node: NodeId) {
        let host = &mut self.hosts[usize::from(node.0)];
        host.wake_at = Time::NEVER;
        if !host.up {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        host.node.wake(self.now, &mut actions);
        self.perform(node, &mut actions, false);
        self.actions = actions;
        self.schedule_wake(node);
    }

    fn perform(
        &mut self,
        node: NodeId,
        actions: &mut Vec<Action<Message, Applied>>,
        power_lost: bool,
    ) {
        let mut draw = None;
        for action in actions.drain(..) {
            match action {
                Action::Broadcast(message) => {
                    for peer in self.everybody().filter(|peer| *peer != node) {
                        self.transmit(node, peer, message.clone());
                    }
                }
                Action::Send { to, message } => self.transmit(node, to, message),
                Action::Write(write) => self.write(node, write),
                Action::Draw(range) => draw = Some(range),
                Action::Apply { index, record } => {
                    self.judge(node, &RaftEvent::Committed { index });
                    self.give(node, Work::Apply(index, record));
                }
                Action::Restore { index, state } => self.give(node, Work::Restore(index, state)),
                Action::Lead { term } => {
                    self.counts.led += 1;
                    self.judge(node, &RaftEvent::Led { term });
                    self.leaders.push((self.now, node, term));
                    self.notice(node, Some(term));
                }
                Action::SteppedDown { drained, .. } => {
                    self.counts.drained += drained.len() as u64;
                    self.ended.push((self.now, node));
                    self.notice(node, None);
                }
                Action::Refused(_) => self.counts.refused += 1,
                Action::Fact(fact) => self.tell(node, &fact, power_lost),
            }
        }
        if let Some(range) = draw {
            let span = self.elections.span(range);
            self.hosts[usize::from(node.0)]
                .node
                .step(self.now, Input::Drawn(span), actions);
            self.perform(node, actions, power_lost);
        }
    }

    fn tell(&mut self, node: NodeId, fact: &Fact<Message>, power_lost: bool) {
        let event = match *fact {
            Fact::Voted { term, candidate } => RaftEvent::Voted { term, candidate },
            Fact::Elected { term } => {
                self.counts.elections += 1;
                RaftEvent::Elected { term }
            }
            Fact::Stored { at, ref record } => {
                if self.judges.is_none() {
                    return;
                }
                let messages = record.content.proposed().iter();
                let checked = messages.map(|message| message.checked_in);
                RaftEvent::Stored {
                    index: at.index,
                    term: at.term,
                    checked_in: checked.min().unwrap_or_default(),
                    content: short(record.digest),
                }
            }
            Fact::Truncated { last } => {
                self.counts.truncations += 1;
                RaftEvent::Truncated { last }
            }
            Fact::SnapshotStored { last } => {
                self.counts.snapshots_received += 1;
                RaftEvent::SnapshotStored { last }
            }
            Fact::Recovered { last } => RaftEvent::Recovered {
                last,
                may_lose: power_lost && !self.plan.settings.sync_always,
            },
            Fact::AskedForCatchup => {
                self.counts.catchups += 1;
                RaftEvent::AskedForCatchup
            }
            Fact::Overrun => {
                self.counts.overruns += 1;
                return;
            }
            Fact::Paused => {
                self.counts.pauses += 1;
                RaftEvent::Paused
            }
            Fact::Resumed => RaftEvent::Resumed,
        };
        self.judge(node, &event);
    }

    fn judge(&mut self, node: NodeId, event: &RaftEvent) {
        if let Some(judges) = &mut self.judges {
            judges.see(self.now, node, event);
        }
    }

    fn write(&mut self, node: NodeId, write: tidegate::raft::seam::Write) {
        let mut span = self.disks.span(self.plan.write);
        let syncs = write.files
            + if self.plan.settings.sync_always {
                write.records
            } else {
                0
            };
        span += Time::from_nanos(self.plan.sync.as_nanos() * syncs);
        let host = &self.hosts[usize::from(node.0)];
        if host.slow_disk_until > self.now {
            span += Time::from_millis(50 + self.disks.below(200));
        }
        let life = host.life;
        self.schedule(self.now + span, Happening::Written(node, life));
    }

    fn transmit(&mut self, from: NodeId, to: NodeId, message: Said<Message, Applied>) {
        let beside = match &message {
            Said::Append(append) => append.channel != Channel::New,
            Said::Snapshot(_) => true,
            Said::Response(_) | Said::VoteRequest { .. } | Said::VoteResponse { .. } => false,
        };
        let range = if beside {
            self.plan.catchup_delay
        } else {
            self.plan.delay
        };
        let mut delay = self.network.span(range);
        let lost =
            self.plan.loss_permille > 0 && self.network.below(1_000) < self.plan.loss_permille;
        let slow = self.network.span(millis(100, 4_000));
        let now = self.now;
        let link = self.link(from, to);
        if lost || link.cut_until > now {
            return;
        }
        delay += link.extra;
        if link.slow_until > now {
            delay += slow;
        }
        let at = link.last[usize::from(beside)].max(now + delay);
        link.last[usize::from(beside)] = at;
        self.schedule(at, Happening::Arrive(from, to, message));
    }

    fn link(&mut self, from: NodeId, to: NodeId) -> &mut Link {
        let members = usize::from(self.plan.settings.members);
        &mut self.links[usize::from(from.0) * members + usize::from(to.0)]
    }

    // -- the layer above -----------------------------------------------------------------------

    fn notice(&mut self, node: NodeId, leads: Option<Term>) {
        let at = self.now + self.layers.span(self.plan.notice);
        let life = self.hosts[usize::from(node.0)].life;
        self.schedule(at, Happening::Notice(node, life, leads));
    }

    fn give(&mut self, node: NodeId, work: Work) {
        let layer = &mut self.hosts[usize::from(node.0)].layer;
        layer.queue.push_back(work);
        if layer.busy_with == 0 {
            self.begin_apply(node);
        }
    }

    /// Takes what is queued, not too much at once: a slow time may end.
    fn begin_apply(&mut self, node: NodeId) {
        let host = &mut self.hosts[usize::from(node.0)];
        host.layer.busy_with = host.layer.queue.len().min(16);
        if host.layer.busy_with == 0 {
            return;
        }
        let mut each = self.plan.apply;
        if host.slow_apply_until > self.now {
            each += Time::from_millis(200);
        }
        let span = Time::from_nanos(each.as_nanos() * host.layer.busy_with as u64);
        let life = host.life;
        self.schedule(self.now + span, Happening::Applied(node, life));
    }

    fn end_apply(&mut self, node: NodeId) {
        let mut reached = LogIndex(0);
        let count = self.hosts[usize::from(node.0)].layer.busy_with;
        for _ in 0..count {
            let layer = &mut self.hosts[usize::from(node.0)].layer;
            match layer.queue.pop_front() {
                Some(Work::Apply(index, record)) => {
                    layer.state.apply(&record);
                    reached = index;
                }
                Some(Work::Restore(index, state)) => {
                    layer.state = state;
                    layer.snapshot_at = index;
                    reached = index;
                }
                None => {}
            }
            let prefix = short(layer.state.digest);
            self.judge(
                node,
                &RaftEvent::Applied {
                    index: reached,
                    prefix,
                },
            );
        }
        let (processed, applied) = (reached, reached);
        self.step(node, Input::Processed { processed, applied });
        self.snapshot(node, reached);
        self.begin_apply(node);
    }

    fn snapshot(&mut self, node: NodeId, index: LogIndex) {
        let every = self.plan.snapshot_every;
        let layer = &mut self.hosts[usize::from(node.0)].layer;
        if every > 0 && index.since(layer.snapshot_at) >= every {
            layer.snapshot_at = index;
            let state = layer.state;
            let force = index.0.is_multiple_of(2);
            self.step(
                node,
                Input::SnapshotTaken {
                    index,
                    state,
                    force,
                },
            );
        }
    }

    // -- the queue -----------------------------------------------------------------------------

    fn schedule(&mut self, at: Time, what: Happening) {
        self.scheduled += 1;
        let number = self.scheduled;
        self.queue.push(Reverse(Scheduled { at, number, what }));
    }

    fn schedule_wake(&mut self, node: NodeId) {
        let host = &mut self.hosts[usize::from(node.0)];
        let due = host.node.due();
        if due < host.wake_at {
            host.wake_at = due;
            self.schedule(due.max(self.now), Happening::Wake(node));
        }
    }
}
