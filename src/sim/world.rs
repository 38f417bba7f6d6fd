//! One simulated world: publishers, links and a server on one event queue, from one seed.
//!
//! Leans on `fabric` and `host`, and on the server model.

use std::sync::Arc;

use super::SimError;
use super::fabric::{Fabric, Frame, UpFrame, Wake, about};
use super::fault::Faults;
use super::host::{Group, Host, Shared};
use super::model;
use super::queue::Next;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, Observer, PublisherId};
use crate::load::{PayloadContent, Plan};
use crate::machine::{Machine, Sink, Time};
use crate::nats::Operation;
use crate::scenario::Settings;
use crate::seed::Seed;
use crate::server::message::{ConnectionId, Fact, Reply, ReplyTo};
use crate::server::{Action, Input, Server, Source};

/// A world on its way.
pub struct World<'a> {
    fabric: Fabric<'a>,
    server: Server,
    hosts: Vec<Host>,
    content: PayloadContent,
    next_batch: u32,
    done: usize,
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
        let mut server = model::server(settings)?;

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
        for (index, cut) in fabric.faults.cuts().to_vec().into_iter().enumerate() {
            fabric
                .queue
                .arm(Wake::Cut(index, true).index(hosts.len()), cut.from);
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
            if self.done == self.hosts.len() {
                return Progress::Done;
            }
            if self.fabric.queue.next_at() > self.time_limit {
                return Progress::Over;
            }
            let Some((at, next)) = self.fabric.queue.pop() else {
                return Progress::Over;
            };
            self.fabric.now = at;
            self.events += 1;
            match next {
                Next::Item(lane, Frame::Up(frame)) => self.arrive(lane, frame),
                Next::Item(lane, Frame::Down(batch, frame)) => {
                    let host = lane - self.hosts.len();
                    self.with_host(host, false, |host, shared| host.reply(batch, frame, shared));
                }
                Next::Wake(wake) => self.wake(Wake::from_index(wake, self.hosts.len())),
            }
        }
        Progress::Going
    }

    /// Ends the run: who is not done is interrupted. `patient`: nothing more would happen before
    /// the time limit, so waits last until then.
    pub fn finish(&mut self, patient: bool) {
        if patient {
            self.fabric.now = self.fabric.now.max(self.time_limit);
        }
        for host in 0..self.hosts.len() {
            let at_rest = self.at_rest(host);
            self.with_host(host, at_rest, |host, shared| host.interrupt(shared));
        }
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
        let (batch, operation, sequence) = (frame.batch, frame.operation, frame.sequence);
        if matches!(operation, Operation::CommitEob | Operation::Ping) {
            self.fabric.tell(&Event::ControlReceived {
                batch,
                operation,
                sequence,
            });
        }
        let publish = self.hosts[host].publish(frame);
        self.serve(|server, now, sink| server.step(now, Input::Publish(publish), sink));
    }

    /// Lets the server act, and answers its draws.
    fn serve(&mut self, act: impl FnOnce(&mut Server, Time, &mut dyn Sink<Action>)) {
        let now = self.fabric.now;
        let mut sink = ServerSink {
            fabric: &mut self.fabric,
            choose: false,
        };
        act(&mut self.server, now, &mut sink);
        while sink.choose {
            sink.choose = false;
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

    /// Nothing of this publisher is under way: no frame on its links, nothing in the server.
    fn at_rest(&self, host: usize) -> bool {
        let lanes = [host, self.hosts.len() + host];
        lanes.iter().all(|&lane| self.fabric.queue.is_empty(lane))
            && !self.server.holds(ConnectionId(self.hosts[host].id.0))
    }

    fn cut(&mut self, index: usize, begins: bool) {
        let cut = self.fabric.faults.cuts()[index];
        self.fabric.tell(&Event::Fault { fault: cut.fault });
        if !begins {
            return;
        }
        self.fabric
            .queue
            .arm(Wake::Cut(index, false).index(self.hosts.len()), cut.until);
        let publishers = self.hosts.len();
        for host in 0..publishers {
            if cut.publisher.is_some_and(|whose| whose.0 as usize != host) {
                continue;
            }
            for lane in [host, publishers + host] {
                if cut.holds {
                    self.fabric.queue.hold(lane, cut.until);
                } else {
                    self.lose(lane);
                }
            }
        }
    }

    /// What is under way on a lane is lost.
    fn lose(&mut self, lane: usize) {
        let cause = DropCause::Cut;
        for frame in self.fabric.queue.clear(lane).collect::<Vec<_>>() {
            let event = match frame {
                Frame::Up(frame) => Event::Dropped {
                    batch: frame.batch,
                    cause,
                    reply: false,
                    sequence: frame.sequence,
                },
                Frame::Down(batch, frame) => Event::Dropped {
                    batch,
                    cause,
                    reply: true,
                    sequence: about(frame).1,
                },
            };
            self.fabric.tell(&event);
        }
    }
}

/// Turns what the server decides into frames and events.
struct ServerSink<'s, 'o> {
    fabric: &'s mut Fabric<'o>,
    choose: bool,
}

impl Sink<Action> for ServerSink<'_, '_> {
    fn emit(&mut self, action: Action) {
        match action {
            Action::Send { to, reply } => self.send(to, reply),
            Action::Fact(fact) => self.fact(fact),
            Action::Choose => self.choose = true,
            Action::ApiReply { .. } => {}
        }
    }
}

impl ServerSink<'_, '_> {
    fn send(&mut self, to: ReplyTo, reply: Reply) {
        let batch = BatchNumber(to.tag as u32);
        let (event, frame) = match reply {
            Reply::Ack(ack) => (
                Some(Event::AckSent {
                    batch,
                    flow: ack.messages,
                    sequence: ack.sequence,
                }),
                ControlFrame::Ack(ack),
            ),
            Reply::Gap(gap) => {
                let event = Event::GapSent {
                    batch,
                    expected: gap.expected,
                    received: gap.received,
                };
                (Some(event), ControlFrame::Gap(gap))
            }
            Reply::Error(error) => {
                let (sequence, code) = (error.sequence, error.error.code.number());
                (
                    Some(Event::ErrorSent {
                        batch,
                        code,
                        sequence,
                    }),
                    ControlFrame::Error { sequence, code },
                )
            }
            Reply::PubAck(ack, _) => {
                let event = Event::PubAckSent {
                    batch,
                    duplicate: ack.duplicate,
                    count: ack.count.unwrap_or_default(),
                    sequence: ack.sequence,
                };
                (Some(event), ControlFrame::PubAck(ack))
            }
            Reply::Refused(error) => {
                let code = error.code.number();
                (
                    Some(Event::RefusalSent { batch, code }),
                    ControlFrame::Refused(code),
                )
            }
            Reply::NoResponders(_) => (
                Some(Event::RefusalSent { batch, code: 503 }),
                ControlFrame::Status(503),
            ),
            Reply::TooManyRequests => (
                Some(Event::RefusalSent { batch, code: 429 }),
                ControlFrame::Status(429),
            ),
        };
        if let Some(event) = event {
            self.fabric.tell(&event);
        }
        self.fabric
            .send_down(PublisherId(to.connection.0), batch, frame);
    }

    fn fact(&mut self, fact: Fact) {
        let event = match fact {
            Fact::BatchOpened { batch, open, flow } => Event::BatchOpened {
                batch: BatchNumber(batch.0),
                open,
                flow,
            },
            Fact::BatchForgotten { batch, idle } => Event::BatchForgotten {
                batch: BatchNumber(batch.0),
                idle,
            },
            Fact::Stored {
                batch: Some(batch),
                sequence,
                stream_sequence,
                payload,
            } => Event::Stored {
                batch: BatchNumber(batch.0),
                bytes: payload.bytes,
                digest: payload.digest,
                sequence,
                stream_sequence,
            },
            Fact::Deduplicated { batch, sequence } => Event::Deduplicated {
                batch: BatchNumber(batch.0),
                sequence,
            },
            Fact::Rejected {
                batch,
                sequence,
                code,
            } => Event::Rejected {
                batch: BatchNumber(batch.0),
                code,
                sequence,
            },
            Fact::Overflowed {
                batch: Some(batch),
                sequence,
            } => {
                let cause = DropCause::IngestQueue;
                Event::Dropped {
                    batch: BatchNumber(batch.0),
                    cause,
                    reply: false,
                    sequence,
                }
            }
            // Plain publishes have no batch; the event lane sends none.
            Fact::Stored { batch: None, .. } | Fact::Overflowed { batch: None, .. } => return,
        };
        self.fabric.tell(&event);
    }
}
