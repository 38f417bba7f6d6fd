//! Front, server and faults as one machine: what comes from sockets goes in, what goes to sockets
//! comes out, and time is an argument.
//!
//! Leans on `server::front`, `fault` and `links`.

mod timed;

use std::collections::BTreeMap;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use rand::RngExt;

use super::kinds::{Hosts, Messages, Numbering, kind_of, reply_kind, stored_otherwise};
use super::links::{Late, Links, Way};
use super::ports::Ports;
use super::tally::Tally;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, Observer, PublisherId};
use crate::fault::{Fate, Faults, Rolling, TimedKind};
use crate::machine::{Machine as _, Sink, Time};
use crate::modelled::{Modelled, draw};
use crate::scenario::FrameKind;
use crate::seed::{Generator, Seed};
use crate::server::front::{Front, FrontAction, Options};
use crate::server::message::{BatchHandle, ConnectionId, Fact, Reply, ReplyTo};
use crate::server::{Action, Input, Server, Source};

/// Most numbers of batches that are remembered; of more, the oldest batch is asked for again.
const NUMBERS_MAX: usize = 1 << 20;

/// A served model without its socket.
pub struct Hub {
    server: Server,
    front: Front,
    faults: Faults,
    /// Which cuts and holds have begun, and which are over.
    cuts: Vec<CutState>,
    /// By the same numbers: the server that a fault befell.
    victims: Vec<Option<u8>>,
    /// By the same numbers: how far a rolling restart is, and when its next step is due.
    rolling: Vec<(Rolling, Time)>,
    links: Links,
    coin: Generator,
    /// Draws the spans that replicas wait for.
    elections: Generator,
    numbering: Numbering,
    numbers: BTreeMap<BatchHandle, BatchNumber>,
    hosts: Option<Hosts>,
    messages: Messages,
    /// By connection: whose it is, as far as is known: its number among those that published to a
    /// batch, unless its address told.
    publishers: BTreeMap<ConnectionId, PublisherId>,
    observer: Box<dyn Observer>,
    tally: Tally,
    now: Time,
    ports: Ports,
    asked: Vec<FrontAction>,
    answered: Vec<Action>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutState {
    Ahead,
    On,
    Over,
}

impl Hub {
    /// A hub around a server, with these faults; draws follow from `seed`, and `observer` sees what
    /// the server does. Batches are numbered by their handle until [`Hub::number_batches`].
    pub fn new(
        modelled: Modelled,
        options: Options,
        faults: Faults,
        seed: Seed,
        observer: Box<dyn Observer>,
    ) -> Self {
        let Modelled { server, beginning } = modelled;
        let of_raft = |action: &Action| matches!(action, Action::Raft { .. });
        Self {
            cuts: vec![CutState::Ahead; faults.timed().len()],
            victims: vec![None; faults.timed().len()],
            rolling: vec![(Rolling::default(), Time::NEVER); faults.timed().len()],
            front: Front::new(&server, options),
            server,
            faults,
            links: Links::default(),
            // The same draw as in the simulator's event lane.
            coin: seed.generator("coin", 0),
            elections: seed.generator("elections", 0),
            numbering: Box::new(|handle, _| BatchNumber(handle.0)),
            numbers: BTreeMap::new(),
            hosts: None,
            messages: Box::new(|_| None),
            publishers: BTreeMap::new(),
            observer,
            tally: Tally::default(),
            now: Time::ZERO,
            ports: Ports::default(),
            asked: Vec::new(),
            answered: beginning.into_iter().filter(of_raft).collect(),
        }
    }

    /// From now on `numbering` gives batches their numbers.
    pub fn number_batches(&mut self, numbering: Numbering) {
        self.numbering = numbering;
    }

    /// From now on `hosts` says which publisher a connection is, by the address that it comes from;
    /// without, publishers are counted as they first publish to a batch.
    pub fn name_publishers(&mut self, hosts: Hosts) {
        self.hosts = Some(hosts);
    }

    /// From now on it is told, too, when messages are stored that are of no fast batch, if `messages`
    /// knows them.
    pub fn name_messages(&mut self, messages: Messages) {
        self.messages = messages;
    }

    /// Whether a message of a publisher, or an answer to one, is between its socket and the stream.
    pub fn has_work_of(&self, publisher: PublisherId) -> bool {
        let messages = self.server.messages_inside();
        let asked = messages.filter_map(|publish| Some(publish.reply?.connection));
        let answered = self.server.answers_inside().map(|(to, _)| to.connection);
        let mut all = asked.chain(answered).chain(self.links.connections());
        all.any(|id| self.publishers.get(&id) == Some(&publisher))
    }

    /// The modelled server.
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// Its front.
    pub const fn front(&self) -> &Front {
        &self.front
    }

    /// What was seen so far.
    pub const fn tally(&self) -> Tally {
        Tally {
            cut_off: self.ports.cut_off,
            ..self.tally
        }
    }

    /// Whether nothing but idle timers is left to do.
    pub fn is_at_rest(&self) -> bool {
        self.links.is_empty() && !self.server.is_busy()
    }

    /// A client connects. False: a cut keeps everybody out.
    pub fn connect(&mut self, now: Time, id: ConnectionId, client_ip: &str) -> bool {
        self.pass(now);
        let is_out = (0..self.cuts.len()).any(|index| {
            let cut = &self.faults.timed()[index];
            self.cuts[index] == CutState::On
                && cut.kind == TimedKind::Cut
                && cut.publisher.is_none()
        });
        let is_out = is_out || !self.server.is_up(self.server.home(id));
        if is_out {
            self.turn_away();
            return false;
        }
        if let Some(hosts) = &mut self.hosts {
            self.publishers.insert(id, hosts(client_ip));
        }
        self.tally.connections += 1;
        self.front.connect(self.now, id, client_ip, &mut self.ports);
        true
    }

    /// A client was not let in.
    pub const fn turn_away(&mut self) {
        self.tally.turned_away += 1;
    }

    /// A client is gone. What it sent goes on; what was on its way to it reaches nobody any more.
    pub fn disconnect(&mut self, now: Time, id: ConnectionId) {
        self.pass(now);
        self.front.disconnect(id);
        self.ports.wakers.remove(&id);
        self.ports.closing.remove(&id);
        self.ports.broken.remove(&id);
        self.publishers.remove(&id);
        self.links.forget_replies(id);
    }

    /// The buffer to read a client's bytes into; `None`: the connection is to be closed.
    pub fn buffer(&mut self, id: ConnectionId) -> Option<&mut BytesMut> {
        self.front.buffer(id)
    }

    /// Takes what was read into [`Hub::buffer`].
    pub fn received(&mut self, now: Time, id: ConnectionId) {
        self.pass(now);
        let mut asked = std::mem::take(&mut self.asked);
        let mut more = true;
        while more {
            more = self
                .front
                .received(self.now, &mut self.server, id, &mut asked);
            for action in asked.drain(..) {
                match action {
                    FrontAction::Publish(publish) => self.up(id, Input::Publish(publish)),
                    FrontAction::Api { to, request } => self.up(id, Input::Api { to, request }),
                    FrontAction::Ready(_) | FrontAction::Close(..) => self.ports.emit(action),
                }
            }
        }
        self.asked = asked;
    }

    /// The bytes for a client that have gathered.
    pub fn take_output(&mut self, id: ConnectionId) -> Bytes {
        self.front.take_output(id)
    }

    /// So many of them were written.
    pub fn written(&mut self, id: ConnectionId, bytes: usize) {
        self.front.written(id, bytes);
    }

    /// Whether a connection is to be closed once its output is written.
    pub fn is_closing(&self, id: ConnectionId) -> bool {
        self.ports.closing.contains(&id)
    }

    /// Whether a connection has broken: nothing more is written.
    pub fn is_broken(&self, id: ConnectionId) -> bool {
        self.ports.broken.contains(&id)
    }

    /// Whether a hold keeps all bytes of a connection where they are.
    pub fn is_held(&self, id: ConnectionId) -> bool {
        self.cuts.contains(&CutState::On)
            && (0..self.cuts.len()).any(|index| {
                let cut = &self.faults.timed()[index];
                self.cuts[index] == CutState::On
                    && cut.kind == TimedKind::Hold
                    && self.is_meant(cut.publisher, id)
            })
    }

    /// `waker` hears when a connection has output, is to be closed, or is held or limited no longer.
    pub fn wait(&mut self, id: ConnectionId, waker: &Waker) {
        self.ports.wakers.insert(id, waker.clone());
    }

    /// When [`Hub::pass`] is wanted.
    pub fn due(&self) -> Time {
        let states = self.cuts.iter().zip(&self.rolling);
        let cuts = self.faults.timed().iter().zip(states);
        let cuts = cuts.map(|(cut, (state, (_, next)))| match state {
            CutState::Ahead => cut.from,
            CutState::On => cut.until.min(*next),
            CutState::Over => Time::NEVER,
        });
        let machines = self.server.due().min(self.front.due());
        machines
            .min(self.links.due())
            .min(cuts.min().unwrap_or(Time::NEVER))
    }

    /// Lets everything happen that is due until `until`, each at its own time.
    pub fn pass(&mut self, until: Time) {
        loop {
            let due = self.due();
            if due > until || due == Time::NEVER {
                break;
            }
            self.now = self.now.max(due);
            self.cut();
            while let Some(late) = self.links.pop(self.now) {
                self.arrive(late);
            }
            self.server.wake(self.now, &mut self.answered);
            self.answer();
            self.front.wake(self.now, &mut self.ports);
        }
        self.now = self.now.max(until);
        if self.is_at_rest() {
            self.front.settled();
        }
    }

    /// A frame leaves a client for the server.
    fn up(&mut self, id: ConnectionId, input: Input) {
        let mut fate = Fate::Pass;
        if let Input::Publish(publish) = &input
            && let Some((_, operation, _)) = publish.frame()
        {
            let publisher = self.publisher(id);
            fate = self.fate(publisher, kind_of(operation));
        }
        let late = Late::Up(id, input);
        self.meet(late, fate, (id, Way::Up));
    }

    /// A reply leaves the server for a client.
    fn down(&mut self, to: ReplyTo, reply: Reply) {
        let batch = self.front.batch_of(to).map(|batch| self.number(batch));
        let mut fate = Fate::Pass;
        if let (Some(batch), Some(frame)) = (batch, ControlFrame::of(&reply)) {
            self.tell(&Event::sent(batch, frame));
            // nobody's fault hits a reply to a connection that is gone
            if let Some(kind) = reply_kind(frame)
                && let Some(publisher) = self.publishers.get(&to.connection)
            {
                fate = self.fate(*publisher, kind);
            }
        }
        let lane = (to.connection, Way::Down);
        self.meet(Late::Down(to, reply), fate, lane);
    }

    /// A reply was lost before it left the servers.
    fn lost_inside(&mut self, to: ReplyTo, reply: Reply, cause: DropCause) {
        let batch = self.front.batch_of(to).map(|batch| self.number(batch));
        if let (Some(batch), Some(frame)) = (batch, ControlFrame::of(&reply)) {
            self.tell(&Event::sent(batch, frame));
        }
        self.tell_lost(&Late::Down(to, reply), cause);
    }

    /// Sends something to its fate.
    fn meet(&mut self, late: Late, fate: Fate, (id, way): (ConnectionId, Way)) {
        match fate {
            Fate::LostAtOutput(_) | Fate::LostOnRoute(_) => {
                self.tell_lost(&late, DropCause::Fault);
            }
            Fate::Late(_, span) => self.links.push(self.now + span, late),
            // A copy right behind the frame: before anything that follows it.
            Fate::Twice(_, Time::ZERO) if !self.links.is_busy(id, way) => {
                self.arrive(late.clone());
                self.arrive(late);
            }
            Fate::Twice(_, span) => {
                self.links.push_aside(self.now + span, late.clone());
                self.go(late, id, way);
            }
            Fate::Pass => self.go(late, id, way),
        }
    }

    /// Behind what is under way on the lane, as late as its link is slow, or at once.
    fn go(&mut self, late: Late, id: ConnectionId, way: Way) {
        let slower = self.slower(id);
        if slower > Time::ZERO || self.links.is_busy(id, way) {
            self.links.push(self.now + slower, late);
        } else {
            self.arrive(late);
        }
    }

    fn arrive(&mut self, late: Late) {
        match late {
            Late::Up(_, input) => {
                if let Input::Publish(publish) = &input
                    && let Some(event) = Event::received(publish, |batch| self.number(batch))
                {
                    self.tell(&event);
                }
                self.server.step(self.now, input, &mut self.answered);
                self.answer();
            }
            Late::Down(to, reply) => {
                self.front.send(&self.server, to, &reply, &mut self.ports);
            }
            Late::Answer(to, call, answer) => {
                self.front
                    .api_reply(&self.server, to, call, &answer, &mut self.ports);
            }
        }
    }

    /// Takes what the server decided, and answers its draws.
    fn answer(&mut self) {
        while !self.answered.is_empty() {
            let mut answered = std::mem::take(&mut self.answered);
            for action in answered.drain(..) {
                match action {
                    Action::Send { to, reply } => self.down(to, reply),
                    Action::Lost { to, reply, loss } => self.lost_inside(to, reply, loss.into()),
                    Action::ApiReply { to, call, answer } => {
                        self.tally.api_calls += 1;
                        let late = Late::Answer(to, call, Box::new(answer));
                        self.go(late, to.connection, Way::Down);
                    }
                    Action::Fact(fact) => self.fact(&fact),
                    Action::Raft { replica, event } => self.tell(&Event::Raft {
                        replica: replica.0,
                        event,
                    }),
                    Action::Choose => {
                        let source = if self.coin.random() {
                            Source::Out
                        } else {
                            Source::Ingest
                        };
                        let input = Input::Chosen(source);
                        self.server.step(self.now, input, &mut self.answered);
                    }
                    Action::Draw(range) => {
                        let span = draw(range, &mut self.elections);
                        self.server
                            .step(self.now, Input::Drawn(span), &mut self.answered);
                    }
                }
            }
            if self.answered.is_empty() {
                // The buffer is used again.
                self.answered = answered;
                return;
            }
        }
    }

    fn fact(&mut self, fact: &Fact) {
        self.tally.note(fact);
        let event = Event::of_fact(fact, |batch| self.number(batch));
        if let Some(event) = event.or_else(|| stored_otherwise(fact, &mut self.messages)) {
            self.tell(&event);
        }
        self.front
            .fact(self.now, &self.server, fact, &mut self.ports);
    }

    fn fate(&mut self, publisher: PublisherId, kind: FrameKind) -> Fate {
        if !self.faults.touch_frames() {
            return Fate::Pass;
        }
        let fate = self.faults.fate(publisher, kind);
        if let Some(fault) = fate.fault() {
            let server = None;
            self.tell(&Event::Fault { fault, server });
        }
        fate
    }

    /// The number of a connection among those that published to a batch; a new one is the next.
    fn publisher(&mut self, id: ConnectionId) -> PublisherId {
        if let Some(publisher) = self.publishers.get(&id) {
            return *publisher;
        }
        let publisher = PublisherId(u32::try_from(self.tally.publishers).unwrap_or(u32::MAX));
        self.tally.publishers += 1;
        self.publishers.insert(id, publisher);
        publisher
    }

    fn number(&mut self, batch: BatchHandle) -> BatchNumber {
        if let Some(number) = self.numbers.get(&batch) {
            return *number;
        }
        let id = self.front.batch_id(batch).unwrap_or_default();
        let number = (self.numbering)(batch, id);
        if self.numbers.len() >= NUMBERS_MAX {
            self.numbers.pop_first();
        }
        self.numbers.insert(batch, number);
        number
    }

    /// A frame is lost.
    fn tell_lost(&mut self, late: &Late, cause: DropCause) {
        if let Some((batch, operation, sequence)) = late.frame(|to| self.front.batch_of(to)) {
            let batch = self.number(batch);
            self.tell(&Event::Dropped {
                batch,
                cause,
                operation,
                sequence,
            });
        }
    }

    fn tell(&mut self, event: &Event) {
        self.tally.see(self.now, event);
        self.observer.see(self.now, event);
    }
}

#[cfg(test)]
#[path = "hub_tests.rs"]
mod tests;
