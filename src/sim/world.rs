//! One simulated world: publishers, links and a server on one event queue, from one seed.
//!
//! Leans on `fabric` and `host`, and on the server model.

mod faults;

use std::sync::Arc;

use super::SimError;
use super::fabric::{Fabric, Frame, UpFrame, Wake};
use super::host::{Group, Host, Shared};
use super::model;
use super::queue::Next;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, Observer, PublisherId};
use crate::fault::{Faults, Rolling};
use crate::load::{PayloadContent, Plan};
use crate::machine::{Machine, Sink, Time};
use crate::modelled::Modelled;
use crate::nats::Operation;
use crate::raft::Range;
use crate::scenario::{Lane, Settings};
use crate::seed::Seed;
use crate::server::message::{Control, Fact, Publish, Reply, ReplyTo};
use crate::server::{Action, Input, Server, Source};

/// A world on its way.
pub struct World<'a> {
    fabric: Fabric<'a>,
    server: Server,
    hosts: Vec<Host>,
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
        let mut fabric = Fabric::new(publishers as usize, &network, faults, seed, observer);
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
                let names = group.subjects_of(id.0).names;
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
                .arm(Wake::Ready(host).index(hosts.len()), Time::ZERO);
        }
        let timed = fabric.faults.timed().to_vec();
        for (index, cut) in timed.iter().enumerate() {
            fabric
                .queue
                .arm(Wake::Cut(index, true).index(hosts.len()), cut.from);
        }
        for action in beginning {
            if let Action::Raft { replica, event } = action {
                let replica = replica.0;
                fabric.tell(&Event::Raft { replica, event });
            }
        }
        let content = PayloadContent::new(seed.0);
        let time_limit = settings.time_limit.0;
        Ok(Self {
            fabric,
            server,
            hosts,
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
            if self.done == self.hosts.len() && !self.fabric.has_inbound() && !self.server.is_busy()
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
                Next::Wake(wake) => self.wake(Wake::from_index(wake, self.hosts.len())),
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
        let publishers = self.hosts.len();
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
        self.fabric
            .queue
            .arm(Wake::Server.index(self.hosts.len()), due);
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

/// Turns what the server decides into frames and events.
struct ServerSink<'s, 'o> {
    fabric: &'s mut Fabric<'o>,
    choose: bool,
    draws: Vec<Range>,
}

impl Sink<Action> for ServerSink<'_, '_> {
    fn emit(&mut self, action: Action) {
        match action {
            Action::Send { to, reply } => self.send(to, &reply),
            Action::Lost { to, reply, loss } => self.lost(to, &reply, loss.into()),
            Action::Fact(fact) => self.fact(&fact),
            Action::Choose => self.choose = true,
            Action::Draw(range) => self.draws.push(range),
            Action::Raft { replica, event } => self.fabric.tell(&Event::Raft {
                replica: replica.0,
                event,
            }),
            Action::ApiReply { .. } => {}
        }
    }
}

impl ServerSink<'_, '_> {
    fn send(&mut self, to: ReplyTo, reply: &Reply) {
        let batch = BatchNumber(to.tag as u32);
        let Some(frame) = ControlFrame::of(reply) else {
            return;
        };
        self.fabric.tell(&Event::sent(batch, frame));
        self.fabric
            .send_down(PublisherId(to.connection.0), batch, frame);
    }

    fn lost(&mut self, to: ReplyTo, reply: &Reply, cause: DropCause) {
        let batch = BatchNumber(to.tag as u32);
        if let Some(frame) = ControlFrame::of(reply) {
            self.fabric.tell(&Event::sent(batch, frame));
            self.fabric.lost_inside(batch, frame, cause);
        }
    }

    /// Plain publishes have no batch, and tell nothing; the event lane sends none.
    fn fact(&mut self, fact: &Fact) {
        if let Some(event) = Event::of_fact(fact, |batch| BatchNumber(batch.0)) {
            self.fabric.tell(&event);
        }
    }
}
