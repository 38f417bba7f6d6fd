//! One run in the wire lane, from start to end.
//!
//! Leans on `crew`, `substrate` and `watch`.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use super::clock::RunClock;
use super::crew;
use super::seat::{Batches, Log, Made, Seat, Shared};
use super::{SERVER, host_of, publisher_on};
use crate::event::{Event, PublisherId};
use crate::fault::{Faults, Timed, TimedKind};
use crate::load::{ClientCode, MessageMaker, MessagesOfRun, PayloadContent, Plan};
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::scenario::{Lane, Settings, Substrate as SubstrateWord};
use crate::seed::Seed;
use crate::serve::Hub;
use crate::server::front::Options;
use crate::sim::run::{Outside, SimOutcome};
use crate::sim::substrate::{
    EventSubstrate, LinkSettings, Links, Progress, Substrate, TurmoilSubstrate, isolated,
};
use crate::sim::{SimError, model};
use crate::watch::Watch;

/// Runs a file at a seed, on a thread of its own.
///
/// # Errors
/// If the file describes what the model cannot do, or this platform cannot run clients of others in
/// simulated time.
pub(in crate::sim) fn run(
    settings: &Settings,
    seed: Seed,
    substrate: SubstrateWord,
    outside: Outside<'_>,
) -> Result<SimOutcome, SimError> {
    let lane = Lane::Wire(substrate);
    isolated(seed, || {
        let links = Links::all(link(settings));
        match substrate {
            SubstrateWord::Event => {
                let substrate = EventSubstrate::new(links, seed.child("substrate", 0))?;
                World::new(settings, seed, lane, substrate)?.run(outside)
            }
            SubstrateWord::Turmoil => {
                let substrate = TurmoilSubstrate::new(links, seed.child("substrate", 0))?;
                World::new(settings, seed, lane, substrate)?.run(outside)
            }
        }
    })?
}

/// The link of each publisher.
fn link(settings: &Settings) -> LinkSettings {
    let network = settings.network.clone().unwrap_or_default();
    LinkSettings {
        latency: network.latency.0,
        jitter: network.jitter.0,
        bits_per_second: network.bandwidth.0,
        window_bytes: network.window.0,
    }
}

/// Turmoil's timers go in steps of this.
const TICK: Time = Time::from_millis(1);

/// The first moment at which the clock of a run goes.
const BEGUN: Time = Time::from_nanos(1);
/// Between two looks at what is under way when everybody is done.
const LOOK: Time = Time::from_micros(100);

/// A world on its way.
struct World<'s, S> {
    settings: &'s Settings,
    substrate: S,
    shared: Rc<Shared>,
    publishers: usize,
    /// Publishers and probes.
    crew: usize,
    /// Cuts and holds that have not begun, and those that have not ended, by when they do.
    ahead: Vec<Timed>,
    on: Vec<Timed>,
}

/// Why a run came to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Done,
    TimeLimit,
    Stopped,
}

impl<'s, S: Substrate> World<'s, S> {
    fn new(
        settings: &'s Settings,
        seed: Seed,
        lane: Lane,
        mut substrate: S,
    ) -> Result<Self, SimError> {
        let publishers: u32 = settings.publishers.iter().map(|group| group.count).sum();
        let shared = Rc::new(share(settings, seed, lane, substrate.clock(), publishers)?);
        substrate.host(SERVER, Box::pin(crew::server(Rc::clone(&shared))));
        let defects = model::PublisherDefects::of(settings);
        let groups = settings.publishers.iter().enumerate();
        let group_of = groups.flat_map(|(index, group)| (0..group.count).map(move |_| index));
        let crew = publishers as usize + settings.probes.len();
        let messages = MessagesOfRun::new(settings, seed.0);
        for ((plan, group), index) in Plan::all(settings, seed).zip(group_of) {
            let publisher = plan.publisher();
            let maker = MessageMaker::new(group, publisher.0, messages.clone());
            let maker = maker.map_err(|message| {
                SimError::new(&format!("publishers.{index}.headers"), &message)
            })?;
            let crew_member = crew::Publisher {
                client: ClientCode::of(group),
                settings: defects.settings(group),
                cost: group.publish_cost.0,
                plan,
                maker,
                time_limit: settings.time_limit.0,
                crew,
            };
            let seat = Seat::new(Rc::clone(&shared), publisher)
                .noting_messages(!group.client.is_fast_ingest());
            let software = Box::pin(crew::publisher(seat, crew_member));
            substrate.host(host_of(publisher), software);
        }
        let probing = Rc::new(settings.clone());
        for id in 0..settings.probes.len() as u32 {
            // Their hosts come behind those of publishers.
            let own = PublisherId(publishers + id);
            let seat = Seat::new(Rc::clone(&shared), own);
            let software = Box::pin(crew::probe(seat, Rc::clone(&probing), id, crew));
            substrate.host(host_of(own), software);
        }
        let mut ahead = Faults::new(&settings.faults, publishers).timed().to_vec();
        // what happens inside the server is the hub's
        ahead.retain(|fault| fault.kind.is_of_links());
        ahead.sort_by_key(|cut| cut.from);
        Ok(Self {
            settings,
            substrate,
            shared,
            publishers: publishers as usize,
            crew,
            ahead,
            on: Vec::new(),
        })
    }

    fn run(mut self, outside: Outside<'_>) -> Result<SimOutcome, SimError> {
        let Outside {
            stop,
            progress,
            observer,
        } = outside;
        let observer = observer.map(|observer| observer as &mut dyn crate::event::Observer);
        let mut watch = Watch::new(self.settings, true, observer);
        let mut steps = 0;
        let ended = loop {
            let step = self.substrate.step(self.next_look());
            steps += self.shared.log.drain(&mut watch);
            if self.is_done() {
                break Ended::Done;
            }
            match step {
                Progress::Going => {}
                Progress::Idle => break Ended::TimeLimit,
                Progress::Reached(_) if self.is_at_time_limit() => break Ended::TimeLimit,
                Progress::Reached(_) => {
                    self.turn_faults()?;
                    steps += self.shared.log.drain(&mut watch);
                }
                Progress::Panicked(host) => {
                    let message = format!("its code panicked on host {host}");
                    return Err(SimError::new("client", &message));
                }
            }
            progress(self.shared.clock.now());
            if stop.load(Ordering::Relaxed) {
                break Ended::Stopped;
            }
        };
        self.finish(ended);
        steps += self.shared.log.drain(&mut watch);
        if ended == Ended::Done {
            watch.settle();
        }
        let end = match ended {
            Ended::Done => self.shared.log.last_at(),
            Ended::TimeLimit | Ended::Stopped => self.shared.clock.now(),
        };
        Ok(SimOutcome {
            seen: watch.finish(end),
            end,
            partial: ended == Ended::Stopped,
            unfinished: ended == Ended::TimeLimit && self.shared.unfinished.get() > 0,
            steps,
        })
    }

    /// Every publisher is done, all that they sent has arrived, and the stream has dealt with it.
    fn is_done(&self) -> bool {
        let hub = self.shared.hub.borrow();
        self.shared.done.get() == self.crew && hub.front().connections() == 0 && hub.is_at_rest()
    }

    /// Ends those who are not done; what they say last is in the log then.
    fn finish(&mut self, ended: Ended) {
        if ended == Ended::Done {
            return;
        }
        for publisher in (0..self.crew as u32).map(PublisherId) {
            self.substrate.crash(host_of(publisher));
        }
        // within the step of the substrate's timers at the latest
        let at_once = self.substrate.now() + self.shared.clock.slack();
        while self.shared.done.get() + self.shared.unfinished.get() < self.crew
            && self.substrate.step(at_once) == Progress::Going
        {}
    }

    fn is_at_time_limit(&self) -> bool {
        self.shared.clock.now() >= self.settings.time_limit.0
    }

    /// Up to where the substrate may go by itself, in its own time. When everybody is done, what is
    /// still under way is looked at often.
    fn next_look(&self) -> Time {
        let boundary = self.shared.clock.outside(self.next_boundary());
        if self.shared.done.get() < self.crew {
            return boundary;
        }
        boundary.min(self.substrate.now() + LOOK)
    }

    /// When a fault begins or ends next, or the run does.
    fn next_boundary(&self) -> Time {
        let begins = self.ahead.iter().map(|cut| cut.from);
        let ends = self.on.iter().map(|cut| cut.until);
        let next = begins.chain(ends).min().unwrap_or(Time::NEVER);
        next.min(self.settings.time_limit.0)
    }

    /// Begins and ends the cuts and holds whose time has come.
    fn turn_faults(&mut self) -> Result<(), SimError> {
        let now = self.shared.clock.now();
        let (ending, on) = std::mem::take(&mut self.on)
            .into_iter()
            .partition(|cut| cut.until <= now);
        self.on = on;
        for cut in ending {
            self.end(cut)?;
        }
        let (beginning, ahead) = std::mem::take(&mut self.ahead)
            .into_iter()
            .partition(|cut| cut.from <= now);
        self.ahead = ahead;
        for cut in beginning {
            self.begin(cut)?;
            self.on.push(cut);
        }
        Ok(())
    }

    fn begin(&mut self, cut: Timed) -> Result<(), SimError> {
        let now = self.shared.clock.now();
        let (fault, server) = (cut.fault, None);
        self.shared.log.push(now, Event::Fault { fault, server });
        if let TimedKind::Slow(by) = cut.kind {
            return self
                .publishers_of(cut)
                .try_for_each(|publisher| self.slow(publisher, by));
        }
        if let TimedKind::Limit(bits_per_second) = cut.kind {
            let limit = Limit {
                from: self.substrate.now(),
                until: self.shared.clock.outside(cut.until),
                bits_per_second,
            };
            return self
                .publishers_of(cut)
                .try_for_each(|publisher| self.limit(publisher, limit));
        }
        for publisher in self.publishers_of(cut) {
            *self.stopped(publisher) += 1;
            let host = host_of(publisher);
            if cut.kind != TimedKind::Hold {
                self.shared.hub.borrow_mut().lose(now, publisher);
                self.substrate.reset(host, SERVER)?;
            }
            for (from, to) in both_ways(host) {
                if cut.kind == TimedKind::Hold {
                    self.substrate.hold(from, to);
                } else {
                    self.substrate.cut(from, to);
                }
            }
        }
        Ok(())
    }

    /// The link of a publisher is as slow as the faults that are on have it, and by so much more.
    fn slow(&mut self, publisher: PublisherId, more: Time) -> Result<(), SimError> {
        let mut latency = link(self.settings).latency + more;
        for other in &self.on {
            if let TimedKind::Slow(by) = other.kind
                && other.hits(publisher)
            {
                latency += by;
            }
        }
        self.shared.log.ways().set_latency(publisher, latency);
        for (from, to) in both_ways(host_of(publisher)) {
            self.substrate.set_latency(from, to, latency)?;
        }
        Ok(())
    }

    /// The link of a publisher has one more limit.
    fn limit(&mut self, publisher: PublisherId, limit: Limit) -> Result<(), SimError> {
        self.follow_limits(publisher, limit.bits_per_second);
        for (from, to) in both_ways(host_of(publisher)) {
            self.substrate.limit(from, to, limit)?;
        }
        Ok(())
    }

    /// What is said of the link of a publisher is as the faults that are on limit it, and to this at the most.
    fn follow_limits(&self, publisher: PublisherId, most: u64) {
        let mut bits_per_second = link(self.settings).bits_per_second.min(most);
        for other in self.on.iter().filter(|other| other.hits(publisher)) {
            if let TimedKind::Limit(rate) = other.kind {
                bits_per_second = bits_per_second.min(rate);
            }
        }
        let now = self.shared.clock.now();
        let mut ways = self.shared.log.ways();
        ways.set_bandwidth(now, publisher, bits_per_second);
    }

    fn end(&mut self, cut: Timed) -> Result<(), SimError> {
        let now = self.shared.clock.now();
        let event = Event::Healed { fault: cut.fault };
        self.shared.log.push(now, event);
        if let TimedKind::Slow(_) = cut.kind {
            let mut slow = self.publishers_of(cut);
            return slow.try_for_each(|publisher| self.slow(publisher, Time::ZERO));
        }
        if let TimedKind::Limit(_) = cut.kind {
            for publisher in self.publishers_of(cut) {
                self.follow_limits(publisher, u64::MAX);
            }
            return Ok(());
        }
        for publisher in self.publishers_of(cut) {
            *self.stopped(publisher) -= 1;
            self.shared.log.ways().released(now, publisher);
            let others = self.on.iter().filter(|other| other.kind == cut.kind);
            let still = others.filter(|other| other.hits(publisher)).count();
            if still > 0 {
                continue;
            }
            for (from, to) in both_ways(host_of(publisher)) {
                if cut.kind == TimedKind::Hold {
                    self.substrate.release(from, to);
                } else {
                    self.substrate.heal(from, to);
                }
            }
        }
        Ok(())
    }

    fn publishers_of(&self, cut: Timed) -> impl Iterator<Item = PublisherId> + use<S> {
        (0..self.publishers as u32)
            .map(PublisherId)
            .filter(move |publisher| cut.hits(*publisher))
    }

    fn stopped(&self, publisher: PublisherId) -> std::cell::RefMut<'_, u32> {
        let links = self.shared.stopped_links.borrow_mut();
        std::cell::RefMut::map(links, |links| links.entry(publisher).or_default())
    }
}

fn both_ways(host: IpAddr) -> [(IpAddr, IpAddr); 2] {
    [(host, SERVER), (SERVER, host)]
}

/// The server of the file behind its front, and what everybody shares.
fn share(
    settings: &Settings,
    seed: Seed,
    lane: Lane,
    clock: Rc<dyn crate::sim::substrate::Clock>,
    publishers: u32,
) -> Result<Shared, SimError> {
    let slack = match lane {
        Lane::Wire(SubstrateWord::Turmoil) => TICK,
        Lane::Event | Lane::Wire(SubstrateWord::Event) => Time::ZERO,
    };
    // the links are the substrate's; the hub has what happens to single frames and to servers, once
    // the clock of the run goes: it stands until everybody is connected
    let faults = Faults::new(&settings.faults, publishers).without_links(BEGUN);
    let mut link = link(settings);
    link.latency += slack;
    let log = Log::new(publishers, link);
    let options = Options {
        host: SERVER.to_string(),
        port: super::PORT,
        // nobody looks at what is read back
        contents_bytes_max: 0,
        blank_contents: true,
        // publishers are ours: their payloads say what they are
        digest: PayloadContent::carried_digest,
        ..Options::default()
    };
    let mut hub = Hub::new(
        model::server(settings, lane)?,
        options,
        faults,
        seed,
        Box::new(log.clone()),
    );
    let batches = Rc::new(RefCell::new(Batches::default()));
    let numbers = Rc::clone(&batches);
    hub.number_batches(Box::new(move |_, id| numbers.borrow_mut().number_of(id)));
    let made = Rc::new(RefCell::new(Made::default()));
    let named = Rc::clone(&made);
    hub.name_messages(Box::new(move |payload| {
        named.borrow_mut().take(payload.digest)
    }));
    let clock = Rc::new(RunClock::new(clock, slack));
    let (connected, at) = (log.clone(), Rc::clone(&clock));
    hub.name_publishers(Box::new(move |ip| {
        // only hosts of publishers connect
        let publisher = publisher_on(ip).unwrap_or(PublisherId(u32::MAX));
        connected.ways().connected(at.now(), publisher);
        publisher
    }));
    Ok(Shared {
        clock,
        log,
        batches,
        made,
        hub: Rc::new(RefCell::new(hub)),
        publishing: Cell::new(publishers as usize),
        published: Default::default(),
        connected: Cell::new(0),
        done: Cell::new(0),
        unfinished: Cell::new(0),
        stopped_links: RefCell::default(),
    })
}
