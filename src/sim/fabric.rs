//! What lies between the machines: queue, links, faults, draws and observers.
//!
//! The fabric is the only owner of time and chance in a simulated world. Machines sit beside it, so
//! that the sink of a machine can borrow the fabric while the machine is borrowed. Leans on the
//! machines of floor 2, `event`, `judge` and `measure`.

use std::sync::Arc;

use rand::RngExt;

use super::fault::{Fate, Faults};
use super::queue::Queue;
use crate::batch::fast::publisher::ControlFrame;
use crate::event::{BatchNumber, DropCause, Event, Observer, PublisherId};
use crate::machine::Time;
use crate::nats::header::Headers;
use crate::nats::{BatchSequence, Operation};
use crate::net::link::Link;
use crate::scenario::{FrameKind, NetworkSettings};
use crate::seed::{Generator, Seed};
use crate::server::message::{Payload, SubjectId};

/// Bytes of a reply frame on the wire: `MSG` line, subject and a short JSON body. Replies differ by
/// a few digits; the model gives them one size.
const REPLY_FRAME_BYTES: u64 = 150;

/// Bytes of the control line around subjects and payload of a publish: verb, spaces, size, line
/// ends.
const CONTROL_LINE_BYTES: u64 = 16;

/// A frame on a link.
#[derive(Clone, Debug)]
pub(super) enum Frame {
    /// From a publisher to the server.
    Up(UpFrame),
    /// From the server to a publisher.
    Down(BatchNumber, ControlFrame),
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
    const fn kind(&self) -> FrameKind {
        match self.operation {
            Operation::Start | Operation::Append | Operation::Commit => FrameKind::Message,
            Operation::CommitEob => FrameKind::Eob,
            Operation::Ping => FrameKind::Ping,
        }
    }
}

/// What faults call a reply, and the batch sequence that it is about.
pub(super) fn about(frame: ControlFrame) -> (Option<FrameKind>, BatchSequence) {
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
    pub(super) faults: Faults,
    pub(super) observer: &'a mut dyn Observer,
    up: Vec<Link>,
    down: Vec<Link>,
    jitter: Time,
    /// A generator for each direction of each link; empty without jitter.
    jitters: Vec<Generator>,
    coin: Generator,
    publishers: usize,
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
        let count = if jitter == Time::ZERO {
            0
        } else {
            2 * publishers as u64
        };
        let wakes = 2 * publishers + 1 + 2 * faults.cuts().len();
        let rank = permutation(2 * publishers + wakes, &mut seed.generator("ranks", 0));
        Self {
            now: Time::ZERO,
            queue: Queue::new(2 * publishers, wakes, &rank),
            faults,
            observer,
            up: vec![link.clone(); publishers],
            down: vec![link; publishers],
            jitter,
            jitters: (0..count)
                .map(|index| seed.generator("jitter", index))
                .collect(),
            coin: seed.generator("coin", 0),
            publishers,
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

    /// Passes a frame to the server.
    pub(super) fn send_up(&mut self, publisher: PublisherId, frame: UpFrame) {
        let bytes = u64::from(frame.wire_bytes) + CONTROL_LINE_BYTES;
        let (batch, sequence) = (frame.batch, frame.sequence);
        let lost = |cause| Event::Dropped {
            batch,
            cause,
            reply: false,
            sequence,
        };
        let fate = self.fate(publisher, frame.kind());
        let lane = publisher.0 as usize;
        self.send(publisher, lane, Frame::Up(frame), bytes, fate, lost);
    }

    /// Passes a reply to a publisher.
    pub(super) fn send_down(
        &mut self,
        publisher: PublisherId,
        batch: BatchNumber,
        frame: ControlFrame,
    ) {
        let (kind, sequence) = about(frame);
        let lost = |cause| Event::Dropped {
            batch,
            cause,
            reply: true,
            sequence,
        };
        let fate = kind.map_or(Fate::Pass, |kind| self.fate(publisher, kind));
        let lane = self.publishers + publisher.0 as usize;
        self.send(
            publisher,
            lane,
            Frame::Down(batch, frame),
            REPLY_FRAME_BYTES,
            fate,
            lost,
        );
    }

    fn fate(&mut self, publisher: PublisherId, kind: FrameKind) -> Fate {
        if !self.faults.touch_frames() {
            return Fate::Pass;
        }
        let fate = self.faults.fate(publisher, kind);
        if let Fate::LostAtOutput(fault)
        | Fate::LostOnRoute(fault)
        | Fate::Late(fault, _)
        | Fate::Twice(fault, _) = fate
        {
            self.tell(&Event::Fault { fault });
        }
        fate
    }

    fn send(
        &mut self,
        publisher: PublisherId,
        lane: usize,
        frame: Frame,
        bytes: u64,
        fate: Fate,
        lost: impl Fn(DropCause) -> Event,
    ) {
        if matches!(fate, Fate::LostAtOutput(_)) {
            self.tell(&lost(DropCause::Fault));
            return;
        }
        let late = if let Fate::Late(_, span) = fate {
            span
        } else {
            Time::ZERO
        };
        let extra = late + self.draw_jitter(lane);
        let link = self.link(lane);
        let arrival = link.1.pass(link.0, bytes, extra);
        if let Fate::LostOnRoute(_) = fate {
            self.tell(&lost(DropCause::Fault));
            return;
        }
        let cut = self.faults.cut_at(publisher, self.now);
        if cut.is_some_and(|cut| !cut.holds) {
            self.tell(&lost(DropCause::Cut));
            return;
        }
        let copy = if let Fate::Twice(_, span) = fate {
            let link = self.link(lane);
            Some((link.1.pass(link.0, bytes, span), frame.clone()))
        } else {
            None
        };
        self.queue.push(lane, arrival, frame);
        if let Some((arrival, copy)) = copy {
            self.queue.push(lane, arrival, copy);
        }
    }

    fn link(&mut self, lane: usize) -> (Time, &mut Link) {
        let link = match lane.checked_sub(self.publishers) {
            None => &mut self.up[lane],
            Some(down) => &mut self.down[down],
        };
        (self.now, link)
    }

    fn draw_jitter(&mut self, lane: usize) -> Time {
        if self.jitter == Time::ZERO {
            return Time::ZERO;
        }
        Time::from_nanos(self.jitters[lane].random_range(0..=self.jitter.as_nanos()))
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
