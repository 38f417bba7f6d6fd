//! The faults of a file made for real: leaders asked to step down, processes of our own servers
//! killed, stopped, ended and started again, and their links and routes cut, held, slowed down and limited.
//!
//! What it does and what it hears of leaders is told in the events of the simulator. Leans on
//! `cluster`, `node`, `links` and the faults of `fault`.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rustix::process::Signal;

use super::clock::Clock;
use super::cluster::{Cluster, LOOK};
use super::door::Trouble;
use super::error::LiveError;
use super::fleet::LiveWorld;
use super::links::{Links, Whose};
use super::local::LocalServers;
use super::node::Node;
use crate::client::Witness as _;
use crate::event::Event;
use crate::fault::{Faults, Rolling, Timed, TimedKind, Turn, Whom};
use crate::machine::Time;
use crate::scenario::Fault;
use crate::server::disturb::{Disturbance, Routes};

/// Longest wait for servers to be well again after the publishing: a leader that was cut off was seen to need
/// half a minute, with refused catch-ups in its log.
const RECOVERY: Duration = Duration::from_secs(60);
/// A wait that is shorter needs no word.
const PATIENCE: Duration = Duration::from_secs(1);
/// Looks in a row that find nothing under way, until nothing is: what waits in a socket is not seen.
const EMPTY_LOOKS: u32 = 3;
/// Longest wait for a process to end.
const END: Duration = Duration::from_secs(10);

/// The faults of a run at work.
pub(super) struct Chaos<'a, 'o> {
    faults: Vec<Timed>,
    cluster: &'a Cluster<'a>,
    world: &'a LiveWorld<'o>,
    /// By number of the server: whether it stands still.
    frozen: RefCell<Vec<bool>>,
    notes: RefCell<Vec<String>>,
    /// Something was done to servers, or between them.
    meddled: Cell<bool>,
}

impl<'a, 'o> Chaos<'a, 'o> {
    /// The faults of a file, at work on `cluster` and told to `world`.
    pub(super) fn new(
        faults: &[Fault],
        cluster: &'a Cluster<'a>,
        world: &'a LiveWorld<'o>,
    ) -> Self {
        let servers = cluster.own().map_or(0, LocalServers::count);
        Self {
            faults: Faults::new(faults, 0).timed().to_vec(),
            cluster,
            world,
            frozen: RefCell::new(vec![false; servers]),
            notes: RefCell::new(cluster.key().into_iter().collect()),
            meddled: Cell::new(false),
        }
    }

    /// What a reader of the result should know.
    pub(super) fn into_notes(self) -> Vec<String> {
        self.notes.into_inner()
    }

    /// Makes every fault at its time and tells of new leaders, for as long as it is polled.
    ///
    /// # Errors
    /// Leaders cannot be heard of, or a server does not start again.
    pub(super) async fn run(&self) -> Result<Infallible, LiveError> {
        let mut leaders = self.cluster.leaders().await?;
        let faults = self.faults.iter().map(|fault| self.make(*fault));
        let mut faults: FuturesUnordered<_> = faults.collect();
        loop {
            tokio::select! {
                biased;
                Some(leader) = leaders.next() => self.tell(Event::LeaderChanged { leader }),
                Some(made) = faults.next() => made?,
                else => std::future::pending::<()>().await,
            }
        }
    }

    /// After the publishing: nothing lies in the way, no server stands still or is down any more, all have caught
    /// up, and what was kept back has arrived.
    ///
    /// # Errors
    /// A server does not start again.
    pub(super) async fn heal(&self) -> Result<(), LiveError> {
        if let Some(links) = self.links() {
            links.free();
        }
        if self.meddled.get() {
            self.recover().await?;
        }
        if let Some(links) = self.links() {
            self.empty(links).await;
        }
        Ok(())
    }

    /// Waits for what publishers sent and faults kept back: it may be stored yet.
    async fn empty(&self, links: &Links) {
        let clock = Clock::start();
        let mut looks = 0;
        while looks < EMPTY_LOOKS {
            looks = if links.are_empty() { looks + 1 } else { 0 };
            if clock.is_past(RECOVERY) {
                let seconds = RECOVERY.as_secs();
                self.note(format!(
                    "what was under way to the servers has not arrived within {seconds} s after the run"
                ));
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn recover(&self) -> Result<(), LiveError> {
        let clock = Clock::start();
        let servers = self.frozen.borrow().len() as u8;
        for (server, node) in (0..servers).filter_map(|it| Some((it, self.node(it)?))) {
            self.thaw(server, node);
            self.start(node).await?;
        }
        let mut said = false;
        while !self.cluster.is_healthy().await {
            if !said && clock.is_past(PATIENCE) {
                said = true;
                self.world.say(&format!(
                    "waiting up to {} s for servers to catch up after the faults; a signal ends the wait",
                    RECOVERY.as_secs()
                ));
            }
            if clock.is_past(RECOVERY) {
                let seconds = RECOVERY.as_secs();
                self.note(format!(
                    "the servers have not caught up within {seconds} s after the run"
                ));
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn make(&self, fault: Timed) -> Result<(), LiveError> {
        self.world.sleep_until(fault.from).await;
        match fault.kind {
            TimedKind::StepDown => self.step_down(fault).await,
            TimedKind::Server(whom, what, _) => match between(what) {
                Some((routes, trouble)) => self.befall_routes(fault, whom, (routes, trouble)).await,
                None => return self.befall(fault, whom, what).await,
            },
            TimedKind::Rolling(down_for) => return self.roll(fault, down_for).await,
            TimedKind::Cut => self.befall_links(fault, Trouble::Cut).await,
            TimedKind::Hold => self.befall_links(fault, Trouble::Hold).await,
            TimedKind::Slow(by) => self.befall_links(fault, Trouble::Slow(by)).await,
            TimedKind::Limit(rate) => self.befall_links(fault, Trouble::Limit(rate)).await,
        }
        Ok(())
    }

    async fn befall_links(&self, fault: Timed, trouble: Trouble) {
        self.hit(fault, None);
        let whose = Whose::Publisher(fault.publisher);
        self.disturb(fault, Some(whose), trouble).await;
    }

    async fn befall_routes(&self, fault: Timed, whom: Whom, (routes, trouble): (Routes, Trouble)) {
        let server = self.pick(whom).await;
        self.hit(fault, server);
        self.meddled.set(true);
        let whose = server.map(|server| Whose::Routes(server, routes));
        self.disturb(fault, whose, trouble).await;
    }

    /// A trouble of what lies between, until its end.
    async fn disturb(&self, fault: Timed, whose: Option<Whose>, trouble: Trouble) {
        let disturbed = self.links().zip(whose);
        if let Some((links, whose)) = disturbed {
            links.begin(whose, trouble);
        }
        self.world.sleep_until(fault.until).await;
        if let Some((links, whose)) = disturbed {
            links.end(whose, trouble);
        }
        self.tell(Event::Healed { fault: fault.fault });
    }

    async fn step_down(&self, fault: Timed) {
        let elections = self.cluster.elections();
        let server = self.cluster.ask_leader().await;
        self.hit(fault, server);
        match self.cluster.step_down().await {
            // The new leader may have been heard of already.
            Ok(()) if self.cluster.elections() == elections => self.lost_leader(),
            Ok(()) => {}
            Err(reason) => self.note(format!("fault {}, step-down: {reason}", fault.fault)),
        }
    }

    async fn befall(&self, fault: Timed, whom: Whom, what: Disturbance) -> Result<(), LiveError> {
        let server = self.pick(whom).await;
        let node = server.and_then(|server| Some((server, self.node(server)?)));
        let node = node.filter(|(_, node)| node.ended().is_none());
        self.hit(fault, server);
        if let Some((server, node)) = node {
            let leads = whom == Whom::Leader || self.cluster.may_lead(server);
            if leads && matches!(what, Disturbance::Freeze(_)) {
                self.world.leader_stands_still();
            }
            self.act(server, node, what);
        }
        self.world.sleep_until(fault.until).await;
        if let Some((server, node)) = node {
            match what {
                Disturbance::Freeze(_) => self.thaw(server, node),
                _ => self.start(node).await?,
            }
        }
        self.tell(Event::Healed { fault: fault.fault });
        Ok(())
    }

    async fn roll(&self, fault: Timed, down_for: Time) -> Result<(), LiveError> {
        let servers = self.frozen.borrow().len() as u8;
        let mut rolling = Rolling::default();
        loop {
            let healthy = self.cluster.is_healthy().await;
            let wait = match rolling.next(servers, down_for, healthy) {
                Turn::Befall(server, what, wait) => {
                    if let Some(node) = self.node(server) {
                        if what == Disturbance::Start {
                            self.start(node).await?;
                        } else {
                            self.hit(fault, Some(server));
                            self.act(server, node, what);
                        }
                    }
                    wait
                }
                Turn::Wait(wait) => wait,
                Turn::Over => break,
            };
            self.world.sleep_until(self.world.now() + wait).await;
        }
        self.tell(Event::Healed { fault: fault.fault });
        Ok(())
    }

    /// Does to the process of a server what can be done to it.
    fn act(&self, server: u8, node: &Node, what: Disturbance) {
        self.meddled.set(true);
        match what {
            Disturbance::Freeze(_) => {
                self.frozen.borrow_mut()[usize::from(server)] = true;
                // a process that stands still leads on, as far as it knows
                return node.signal(Signal::STOP, false);
            }
            Disturbance::Shutdown => node.signal(Signal::TERM, true),
            _ => node.signal(Signal::KILL, true),
        }
        if self.cluster.leader() == Some(server) {
            self.lost_leader();
        }
    }

    fn thaw(&self, server: u8, node: &Node) {
        self.frozen.borrow_mut()[usize::from(server)] = false;
        node.signal(Signal::CONT, false);
    }

    /// Starts a server again that a fault has ended.
    async fn start(&self, node: &Node) -> Result<(), LiveError> {
        let clock = Clock::start();
        while node.is_ended_by_fault() && node.ended().is_none() {
            if clock.is_past(END) {
                // asked to end, and it does not
                node.signal(Signal::KILL, true);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if node.is_ended_by_fault() {
            node.start_again()?;
        }
        Ok(())
    }

    /// The server that a fault befalls now, as the cluster tells.
    async fn pick(&self, whom: Whom) -> Option<u8> {
        match whom {
            Whom::Number(number) => Some(number),
            Whom::Leader => self.cluster.ask_leader().await,
            Whom::Follower => {
                let leader = self.cluster.ask_leader().await;
                let servers = 0..self.frozen.borrow().len() as u8;
                let mut others = servers.filter(|server| Some(*server) != leader);
                others.find(|server| {
                    self.node(*server)
                        .is_some_and(|node| node.ended().is_none())
                })
            }
        }
    }

    fn node(&self, server: u8) -> Option<&'a Node> {
        self.cluster.own()?.node(server)
    }

    fn links(&self) -> Option<&'a Links> {
        self.cluster.own()?.links()
    }

    fn hit(&self, fault: Timed, server: Option<u8>) {
        let fault = fault.fault;
        self.tell(Event::Fault { fault, server });
    }

    fn lost_leader(&self) {
        if self.cluster.lost_leader() {
            self.tell(Event::LeaderChanged { leader: None });
        }
    }

    fn tell(&self, event: Event) {
        self.world.tell(self.world.now(), event);
    }

    fn note(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }
}

/// What befalls routes, if it is that.
const fn between(what: Disturbance) -> Option<(Routes, Trouble)> {
    match what {
        Disturbance::CutRoutes(routes) => Some((routes, Trouble::Cut)),
        Disturbance::HoldRoutes(routes, _) => Some((routes, Trouble::Hold)),
        Disturbance::SlowRoutes(routes, by) => Some((routes, Trouble::Slow(by))),
        Disturbance::LimitRoutes(routes, rate, _) => Some((routes, Trouble::Limit(rate))),
        _ => None,
    }
}
