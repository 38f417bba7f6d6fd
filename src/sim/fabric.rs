//! What lies between the machines: queue, links, faults, draws and observers.
//!
//! The fabric is the only owner of time and chance in a simulated world. Machines sit beside it, so
//! that the sink of a machine can borrow the fabric while the machine is borrowed. Leans on the
//! machines of floor 2, `event`, `judge` and `measure`.

use std::sync::Arc;

use rand::RngExt;

use super::probes::Told;
use super::queue::Queue;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, Observer, PublisherId};
use crate::fault::{Fate, Faults};
use crate::load::Ask;
use crate::machine::Time;
use crate::modelled::draw;
use crate::nats::header::Headers;
use crate::nats::{BatchSequence, Operation};
use crate::net::link::Link;
use crate::raft::Range;
use crate::scenario::{FrameKind, NetworkSettings};
use crate::seed::{Generator, Seed};
use crate::server::message::{Payload, SubjectId};

/// Bytes of a reply frame on the wire: `MSG` line, subject and a short JSON body. Replies differ by
/// a few digits; the model gives them one size.
const REPLY_FRAME_BYTES: u64 = 150;

/// Bytes of the control line around subjects and payload of a publish: verb, spaces, size, line
/// ends.
const CONTROL_LINE_BYTES: u64 = 16;

/// Bytes of what a probe asks, and of the answer: most of it is a stream's configuration and state.
const ASK_BYTES: u64 = 200;
const ANSWER_BYTES: u64 = 1_000;

/// A frame on a link.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// From a publisher to the server.
    Up(UpFrame),
    /// From the server to a publisher.
    Down(BatchNumber, ControlFrame),
    /// From a probe to the server.
    Ask(u32, Ask),
    /// From the server to a probe.
    Told(u32, Told),
}

/// A message, an end of batch or a ping on its way to the server.
#[derive(Clone, Debug)]
pub(super) struct UpFrame {
    pub(super) batch: BatchNumber,
    pub(super) operation: Operation,
    pub(super) sequence: BatchSequence,
    pub(super) subject: SubjectId,
    pub(super) payload: Payload,
    pub(super) headers: Option<Arc<Headers>>,
    /// Subject, reply subject, headers and payload.
    pub(super) wire_bytes: u32,
}

impl UpFrame {
    fn dropped(&self, cause: DropCause) -> Event {
        Event::Dropped {
            batch: self.batch,
            cause,
            operation: Some(self.operation),
            sequence: self.sequence,
        }
    }

    const fn kind(&self) -> FrameKind {
        match self.operation {
            Operation::Start | Operation::Append | Operation::Commit => FrameKind::Message,
            Operation::CommitEob => FrameKind::Eob,
            Operation::Ping => FrameKind::Ping,
        }
    }
}

fn dropped_reply(batch: BatchNumber, frame: ControlFrame, cause: DropCause) -> Event {
    let (_, sequence) = about(frame);
    Event::Dropped {
        batch,
        cause,
        operation: None,
        sequence,
    }
}

/// What faults call a reply, and the batch sequence that it is about.
fn about(frame: ControlFrame) -> (Option<FrameKind>, BatchSequence) {
    match frame {
        ControlFrame::Ack(ack) => (Some(FrameKind::FlowAck), ack.sequence),
        ControlFrame::Gap(gap) => (Some(FrameKind::Gap), gap.received),
        ControlFrame::Error { sequence, .. } => (Some(FrameKind::FlowError), sequence),
        ControlFrame::PubAck(ack) => (Some(FrameKind::PubAck), ack.count.unwrap_or_default()),
        ControlFrame::Refused(_) => (Some(FrameKind::PubAck), BatchSequence(0)),
        ControlFrame::Status(_) => (None, BatchSequence(0)),
    }
}

/// Queue, links, faults, draws and observers of one world.
pub(super) struct Fabric<'a> {
    pub(super) now: Time,
    pub(super) queue: Queue<Frame>,
    lanes: usize,
    /// Frames on their way to the server.
    inbound: u64,
    pub(super) faults: Faults,
    pub(super) observer: &'a mut dyn Observer,
    up: Vec<Link>,
    down: Vec<Link>,
    jitter: Time,
    /// A generator for each direction of each link; empty without jitter.
    up_jitters: Vec<Generator>,
    down_jitters: Vec<Generator>,
    coin: Generator,
    elections: Generator,
    /// Clients: publishers, and behind them probes.
    publishers: usize,
    /// By publisher: until when it has no server to hear from, since its own went down; empty as
    /// long as none did.
    away_until: Vec<Time>,
}

impl<'a> Fabric<'a> {
    pub(super) fn new(
        publishers: usize,
        network: &NetworkSettings,
        faults: Faults,
        seed: Seed,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let link = Link::new(network.latency.0, network.bandwidth.0, network.window.0);
        let jitter = network.jitter.0;
        let jitters = |label: &str| {
            let count = if jitter == Time::ZERO {
                0
            } else {
                publishers as u64
            };
            (0..count)
                .map(|index| seed.generator(label, index))
                .collect()
        };
        let lanes = if faults.make_copies() {
            4 * publishers
        } else {
            2 * publishers
        };
        let wakes = 2 * publishers + 1 + 2 * faults.timed().len();
        let rank = permutation(lanes + wakes, &mut seed.generator("ranks", 0));
        Self {
            now: Time::ZERO,
            queue: Queue::new(lanes, wakes, &rank).with_restless(Wake::Server.index(publishers)),
            lanes,
            inbound: 0,
            faults,
            observer,
            up: vec![link.clone(); publishers],
            down: vec![link; publishers],
            jitter,
            up_jitters: jitters("jitter-up"),
            down_jitters: jitters("jitter-down"),
            coin: seed.generator("coin", 0),
            elections: seed.generator("elections", 0),
            publishers,
            away_until: Vec::new(),
        }
    }

    /// The lanes of a publisher: to the server, from the server, and those of copies.
    pub(super) fn lanes_of(&self, publisher: usize) -> impl Iterator<Item = usize> + use<> {
        (publisher..self.lanes).step_by(self.publishers.max(1))
    }

    /// Whose lane it is.
    pub(super) const fn owner(&self, lane: usize) -> usize {
        lane % self.publishers
    }

    /// Whether a frame is on its way to the server.
    pub(super) const fn has_inbound(&self) -> bool {
        self.inbound > 0
    }

    /// A frame has reached the server.
    pub(super) const fn arrived(&mut self) {
        self.inbound -= 1;
    }

    /// What is under way on the link of a publisher is lost, and the link is as new.
    pub(super) fn lose(&mut self, publisher: usize) {
        let cause = DropCause::Cut;
        for lane in self.lanes_of(publisher) {
            for frame in self.queue.clear(lane).collect::<Vec<_>>() {
                let event = match frame {
                    Frame::Up(frame) => {
                        self.inbound -= 1;
                        frame.dropped(cause)
                    }
                    Frame::Down(batch, frame) => dropped_reply(batch, frame, cause),
                    // Its probe gives it up.
                    Frame::Ask(..) | Frame::Told(..) => continue,
                };
                self.tell(&event);
            }
        }
        self.up[publisher].reset(self.now);
        self.down[publisher].reset(self.now);
    }

    /// Does something to the link of a publisher, each way.
    pub(super) fn each_way(&mut self, publisher: usize, act: impl Fn(&mut Link)) {
        act(&mut self.up[publisher]);
        act(&mut self.down[publisher]);
    }

    /// Tells the links of so many publishers of their limits, before anything is under way.
    pub(super) fn limit_links(&mut self, publishers: u32) {
        for publisher in (0..publishers).map(PublisherId) {
            for limit in self.faults.limits(publisher).collect::<Vec<_>>() {
                let act = |link: &mut Link| link.limit(Time::ZERO, limit, []);
                self.each_way(publisher.0 as usize, act);
            }
        }
    }

    /// The server of a publisher is gone: what is under way is lost, and what the publisher sends
    /// waits in its client until it is connected to another one, at `until`.
    pub(super) fn lose_server(&mut self, publisher: usize, until: Time) {
        self.lose(publisher);
        if self.away_until.is_empty() {
            self.away_until = vec![Time::ZERO; self.publishers];
        }
        let away = &mut self.away_until[publisher];
        *away = until.max(*away);
        for lane in self.lanes_of(publisher) {
            self.queue.hold(lane, until);
        }
    }

    /// Shows an event of this moment to the observers.
    pub(super) fn tell(&mut self, event: &Event) {
        self.observer.see(self.now, event);
    }

    /// A fair draw.
    pub(super) fn flip(&mut self) -> bool {
        self.coin.random()
    }

    /// A span of this range, drawn evenly.
    pub(super) fn draw(&mut self, range: Range) -> Time {
        draw(range, &mut self.elections)
    }

    /// Passes a frame to the server.
    pub(super) fn send_up(&mut self, publisher: PublisherId, frame: UpFrame) {
        let bytes = u64::from(frame.wire_bytes) + CONTROL_LINE_BYTES;
        let lost = |cause| frame.dropped(cause);
        let losses = [lost(DropCause::Fault), lost(DropCause::Cut)];
        let fate = self.fate(publisher, frame.kind());
        let lane = publisher.0 as usize;
        self.send(publisher, lane, Frame::Up(frame), bytes, fate, losses);
    }

    /// Passes a reply to a publisher.
    pub(super) fn send_down(
        &mut self,
        publisher: PublisherId,
        batch: BatchNumber,
        frame: ControlFrame,
    ) {
        let (kind, _) = about(frame);
        let lost = |cause| dropped_reply(batch, frame, cause);
        let losses = [lost(DropCause::Fault), lost(DropCause::Cut)];
        let away = self.away_until.get(publisher.0 as usize);
        if away.is_some_and(|until| self.now < *until) {
            return self.tell(&losses[1]);
        }
        let fate = kind.map_or(Fate::Pass, |kind| self.fate(publisher, kind));
        let lane = self.publishers + publisher.0 as usize;
        let frame = Frame::Down(batch, frame);
        self.send(publisher, lane, frame, REPLY_FRAME_BYTES, fate, losses);
    }

    /// Passes what a probe asks to the server. Faults of frames and links are about publishers.
    pub(super) fn ask(&mut self, client: PublisherId, number: u32, ask: Ask) {
        let lane = client.0 as usize;
        self.pass(lane, Frame::Ask(number, ask), ASK_BYTES);
    }

    /// Passes an answer to a probe.
    pub(super) fn answer(&mut self, client: PublisherId, number: u32, told: Told) {
        let away = self.away_until.get(client.0 as usize);
        if away.is_none_or(|until| self.now >= *until) {
            let lane = self.publishers + client.0 as usize;
            self.pass(lane, Frame::Told(number, told), ANSWER_BYTES);
        }
    }

    fn pass(&mut self, lane: usize, frame: Frame, bytes: u64) {
        let extra = self.draw_jitter(lane);
        let now = self.now;
        let arrival = self.link_of(lane).pass(now, bytes, extra);
        self.push(lane, arrival, frame);
    }

    fn link_of(&mut self, lane: usize) -> &mut Link {
        match lane.checked_sub(self.publishers) {
            None => &mut self.up[lane],
            Some(down) => &mut self.down[down],
        }
    }

    /// A reply was lost before it left the servers.
    pub(super) fn lost_inside(
        &mut self,
        batch: BatchNumber,
        frame: ControlFrame,
        cause: DropCause,
    ) {
        self.tell(&dropped_reply(batch, frame, cause));
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

    /// Sends a frame to its fate; `losses` tell of it, lost by a fault or in a cut.
    fn send(
        &mut self,
        publisher: PublisherId,
        lane: usize,
        frame: Frame,
        bytes: u64,
        fate: Fate,
        [lost, cut]: [Event; 2],
    ) {
        if matches!(fate, Fate::LostAtOutput(_)) {
            self.tell(&lost);
            return;
        }
        if !self.faults.timed().is_empty() && self.faults.is_cut(publisher, self.now) {
            self.tell(&cut);
            return;
        }
        let late = if let Fate::Late(_, span) = fate {
            span
        } else {
            Time::ZERO
        };
        let extra = late + self.draw_jitter(lane);
        let now = self.now;
        let arrival = self.link_of(lane).pass(now, bytes, extra);
        if matches!(fate, Fate::LostOnRoute(_)) {
            self.tell(&lost);
            return;
        }
        if let Fate::Twice(_, span) = fate {
            // A lane of its own, so that a late copy holds nothing up.
            let lane = lane + 2 * self.publishers;
            let arrival = (arrival + span).max(self.queue.last_at(lane));
            self.push(lane, arrival, frame.clone());
        }
        self.push(lane, arrival, frame);
    }

    fn push(&mut self, lane: usize, arrival: Time, frame: Frame) {
        self.inbound += u64::from(matches!(frame, Frame::Up(_)));
        self.queue.push(lane, arrival, frame);
    }

    fn draw_jitter(&mut self, lane: usize) -> Time {
        if self.jitter == Time::ZERO {
            return Time::ZERO;
        }
        let generator = match lane.checked_sub(self.publishers) {
            None => &mut self.up_jitters[lane],
            Some(down) => &mut self.down_jitters[down],
        };
        Time::from_nanos(generator.random_range(0..=self.jitter.as_nanos()))
    }
}

/// Which wake-up is which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wake {
    /// A publisher may offer its next message.
    Ready(usize),
    /// A publisher's own timer.
    Timer(usize),
    /// The server's own timer.
    Server,
    /// A cut begins (`true`) or ends.
    Cut(usize, bool),
}

impl Wake {
    pub(super) const fn index(self, publishers: usize) -> usize {
        match self {
            Self::Ready(publisher) => publisher,
            Self::Timer(publisher) => publishers + publisher,
            Self::Server => 2 * publishers,
            Self::Cut(cut, begins) => 2 * publishers + 1 + 2 * cut + begins as usize,
        }
    }

    pub(super) const fn from_index(index: usize, publishers: usize) -> Self {
        if index < publishers {
            Self::Ready(index)
        } else if index < 2 * publishers {
            Self::Timer(index - publishers)
        } else if index == 2 * publishers {
            Self::Server
        } else {
            let rest = index - 2 * publishers - 1;
            Self::Cut(rest / 2, rest % 2 == 1)
        }
    }
}

/// A random order of ties, so that publisher 0 does not win each of them.
fn permutation(count: usize, draw: &mut Generator) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count as u32).collect();
    for index in (1..count).rev() {
        order.swap(index, draw.random_range(0..=index));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wake_ups_have_their_own_numbers() {
        for index in 0..20 {
            assert_eq!(Wake::from_index(index, 5).index(5), index);
        }
    }
}
