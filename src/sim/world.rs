//! One simulated world: publishers, links and a server on one event queue, from one seed.
//!
//! Leans on `fabric` and `host`, and on the server model.

mod faults;

use std::sync::Arc;

use super::SimError;
use super::fabric::{Fabric, Frame, UpFrame, Wake};
use super::host::{Group, Host, Shared};
use super::model;
use super::probes::ProbeHost;
use super::queue::Next;
use super::sink::ServerSink;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, Event, Observer};
use crate::fault::{Faults, Rolling};
use crate::load::{PayloadContent, Plan};
use crate::machine::{Machine, Sink, Time};
use crate::modelled::Modelled;
use crate::nats::Operation;
use crate::scenario::{Lane, Settings};
use crate::seed::Seed;
use crate::server::message::{Control, Publish, ReplyTo};
use crate::server::{Action, Input, Server, Source};

/// A world on its way.
pub struct World<'a> {
    fabric: Fabric<'a>,
    server: Server,
    hosts: Vec<Host>,
    probes: Vec<ProbeHost>,
    /// Publishers and probes.
    clients: usize,
    content: PayloadContent,
    next_batch: u32,
    done: usize,
    /// Name of the stream.
    stream: String,
    /// By number of the timed fault: which server it befell.
    victims: Vec<Option<u8>>,
    /// By the same number: when that server starts again, and how far a rolling restart is.
    back: Vec<Time>,
    rolling: Vec<Rolling>,
    /// How long a client needs to be connected to another server.
    reconnect: Time,
    time_limit: Time,
    events: u64,
}

/// How far a world has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do.
    Going,
    /// Every publisher is done.
    Done,
    /// Nothing will ever happen again, or the time limit is reached: some publishers are not done.
    Over,
}

impl<'a> World<'a> {
    /// The world of a file at this seed, shown to `observer`.
    ///
    /// # Errors
    /// If the file describes what the model cannot do.
    pub fn new(
        settings: &Settings,
        seed: Seed,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, SimError> {
        let publishers: u32 = settings.publishers.iter().map(|group| group.count).sum();
        let network = settings.network.clone().unwrap_or_default();
        let faults = Faults::new(&settings.faults, publishers);
        let clients = publishers as usize + settings.probes.len();
        let mut fabric = Fabric::new(clients, &network, faults, seed, observer);
        fabric.limit_links(publishers);
        let horizon = fabric.queue.horizon();
        if settings.time_limit.0 >= horizon {
            let message = format!("allowed is less than {horizon} with {publishers} publishers");
            return Err(SimError::new("time_limit", &message));
        }
        let Modelled {
            mut server,
            beginning,
        } = model::server(settings, Lane::Event)?;

        let groups: Vec<_> = settings
            .publishers
            .iter()
            .map(|group| Arc::new(model::group(group, settings)))
            .collect();
        let mut hosts = Vec::with_capacity(publishers as usize);
        let mut plans = Plan::all(settings, seed);
        for (group, shared) in settings.publishers.iter().zip(&groups) {
            for _ in 0..group.count {
                let Some((plan, _)) = plans.next() else { break };
                let id = plan.publisher();
                let names = group.subjects_of(id.0, settings.stream.count).names;
                let subjects = names
                    .iter()
                    .map(|name| (server.intern(name), name.len() as u32))
                    .collect();
                hosts.push(Host::new(id, Arc::<Group>::clone(shared), plan, subjects));
            }
        }
        for host in 0..hosts.len() {
            fabric
                .queue
                .arm(Wake::Ready(host).index(clients), Time::ZERO);
        }
        let timed = fabric.faults.timed().to_vec();
        for (index, cut) in timed.iter().enumerate() {
            fabric
                .queue
                .arm(Wake::Cut(index, true).index(clients), cut.from);
        }
        for action in beginning {
            if let Action::Raft { replica, event } = action {
                let replica = replica.0;
                fabric.tell(&Event::Raft { replica, event });
            }
        }
        let mut probes = ProbeHost::all(settings, hosts.len(), &mut server);
        for probe in &mut probes {
            probe.begin(clients, &mut fabric);
        }
        let content = PayloadContent::new(seed.0);
        let time_limit = settings.time_limit.0;
        Ok(Self {
            fabric,
            server,
            hosts,
            probes,
            clients,
            content,
            next_batch: 0,
            done: 0,
            stream: settings.stream.name.clone(),
            victims: vec![None; timed.len()],
            back: vec![Time::NEVER; timed.len()],
            rolling: vec![Rolling::default(); timed.len()],
            reconnect: network.reconnect.0,
            time_limit,
            events: 0,
        })
    }

    /// The simulated moment.
    pub fn now(&self) -> Time {
        self.fabric.now
    }

    /// Queue events handled so far.
    pub const fn steps(&self) -> u64 {
        self.events
    }

    /// The modelled server, to be compared with what was published.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Handles up to `budget` events of the queue.
    pub fn run(&mut self, budget: u64) -> Progress {
        for _ in 0..budget {
            // What is still under way to the stream when the last publisher is done is not lost.
            if self.done == self.hosts.len()
                && !self.fabric.has_inbound()
                && !self.server.is_busy()
                && self.probes.iter().all(ProbeHost::is_done)
            {
                return Progress::Done;
            }
            let Some((at, next)) = self.fabric.queue.pop_by(self.time_limit) else {
                return Progress::Over;
            };
            self.fabric.now = at;
            self.events += 1;
            match next {
                Next::Item(lane, Frame::Up(frame)) => {
                    let host = self.fabric.owner(lane);
                    self.arrive(host, frame);
                }
                Next::Item(lane, Frame::Down(batch, frame)) => {
                    let host = self.fabric.owner(lane);
                    self.with_host(host, false, |host, shared| host.reply(batch, frame, shared));
                }
                Next::Item(lane, Frame::Ask(number, ask)) => {
                    let probe = self.fabric.owner(lane) - self.hosts.len();
                    let input = self.probes[probe].input(number, ask);
                    self.serve(|server, now, sink| server.step(now, input, sink));
                }
                Next::Item(lane, Frame::Told(number, told)) => {
                    let probe = self.fabric.owner(lane) - self.hosts.len();
                    self.probes[probe].answered(number, told, self.clients, &mut self.fabric);
                }
                Next::Wake(wake) => self.wake(Wake::from_index(wake, self.clients)),
            }
        }
        Progress::Going
    }

    /// Ends the run: who is not done is interrupted. `patient`: nothing more would happen before
    /// the time limit, so waits last until then. Says whether a publisher had more to do.
    pub fn finish(&mut self, patient: bool) -> bool {
        if patient {
            self.fabric.now = self.fabric.now.max(self.time_limit);
        }
        for host in 0..self.hosts.len() {
            let at_rest = self.at_rest(host);
            self.with_host(host, at_rest, |host, shared| host.interrupt(shared));
        }
        self.done < self.hosts.len()
    }

    fn wake(&mut self, wake: Wake) {
        match wake {
            Wake::Ready(host) => {
                self.with_host(host, false, |host, shared| host.ready(shared));
                self.done += usize::from(self.hosts[host].done);
                if self.done == self.hosts.len() {
                    for probe in &mut self.probes {
                        probe.stop(self.clients, &mut self.fabric);
                    }
                }
            }
            Wake::Timer(client) if client >= self.hosts.len() => {
                let probe = client - self.hosts.len();
                self.probes[probe].wake(self.clients, &mut self.fabric);
            }
            Wake::Timer(host) => {
                let at_rest = self.at_rest(host);
                self.with_host(host, at_rest, |host, shared| host.timer(shared));
            }
            Wake::Server => self.serve(|server, now, sink| server.wake(now, sink)),
            Wake::Cut(index, begins) => self.cut(index, begins),
        }
    }

    fn with_host(
        &mut self,
        host: usize,
        at_rest: bool,
        act: impl FnOnce(&mut Host, &mut Shared<'_, 'a>),
    ) {
        let publishers = self.clients;
        let mut shared = Shared {
            fabric: &mut self.fabric,
            content: &self.content,
            next_batch: &mut self.next_batch,
            publishers,
            at_rest,
        };
        act(&mut self.hosts[host], &mut shared);
    }

    /// A frame of a host reaches the server.
    fn arrive(&mut self, host: usize, frame: UpFrame) {
        self.fabric.arrived();
        let publish = self.hosts[host].publish(frame);
        if let Some(event) = Event::received(&publish, |batch| BatchNumber(batch.0)) {
            self.fabric.tell(&event);
        }
        self.serve(|server, now, sink| server.step(now, Input::Publish(publish), sink));
    }

    /// Lets the server act, and answers its draws.
    fn serve(&mut self, act: impl FnOnce(&mut Server, Time, &mut dyn Sink<Action>)) {
        let now = self.fabric.now;
        let mut sink = ServerSink {
            fabric: &mut self.fabric,
            choose: false,
            draws: Vec::new(),
        };
        act(&mut self.server, now, &mut sink);
        while sink.choose || !sink.draws.is_empty() {
            for range in std::mem::take(&mut sink.draws) {
                let span = sink.fabric.draw(range);
                self.server.step(now, Input::Drawn(span), &mut sink);
            }
            if !std::mem::take(&mut sink.choose) {
                continue;
            }
            let source = if sink.fabric.flip() {
                Source::Out
            } else {
                Source::Ingest
            };
            self.server.step(now, Input::Chosen(source), &mut sink);
        }
        let due = self.server.due();
        self.fabric.queue.arm(Wake::Server.index(self.clients), due);
    }

    /// Nothing under way could end the wait of this publisher: no message of its batch on its way
    /// into the stream, no reply on its way out that says more than it knows.
    fn at_rest(&self, host: usize) -> bool {
        let Some(waiting) = self.hosts[host].waiting() else {
            return true;
        };
        let releases = |frame: &Frame| match frame {
            Frame::Up(frame) => frame.batch == waiting.batch && frame.operation != Operation::Ping,
            Frame::Down(batch, frame) => *batch == waiting.batch && waiting.is_released_by(frame),
            Frame::Ask(..) | Frame::Told(..) => false,
        };
        let on_links = self
            .fabric
            .lanes_of(host)
            .any(|lane| self.fabric.queue.items(lane).any(releases));
        let of_batch = |to: ReplyTo| BatchNumber(to.tag as u32) == waiting.batch;
        let in_server = self
            .server
            .messages_inside()
            .any(|publish| publish.reply.is_some_and(of_batch) && !is_ping(publish));
        let answered = self
            .server
            .answers_inside()
            .filter(|(to, _)| of_batch(**to))
            .filter_map(|(_, reply)| ControlFrame::of(reply))
            .any(|frame| waiting.is_released_by(&frame));
        !(on_links || in_server || answered)
    }
}

const fn is_ping(publish: &Publish) -> bool {
    matches!(
        publish.control,
        Control::Fast {
            operation: Operation::Ping,
            ..
        }
    )
}
