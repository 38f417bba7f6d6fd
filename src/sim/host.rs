//! A publisher's host: its plan and its publisher core; `frames` makes what goes on the wire.
//!
//! Leans on `frames`, on `fabric`, on `load` for the plan and on the publisher core of `batch`.

mod frames;

use std::sync::Arc;

use self::frames::HostSink;
use super::fabric::{Fabric, UpFrame, Wake};
use crate::batch::fast::publisher::{self, Action, ControlFrame, End, Outcome, Publisher};
use crate::event::{BatchNumber, Event, PublisherId};
use crate::load::{PayloadContent, Plan, Planned, Step};
use crate::machine::{Machine, Sink, Time};
use crate::nats::{BatchSequence, GapMode};
use crate::scenario::{Commit, HeaderRule};
use crate::server::message::{BatchHandle, ConnectionId, Control, Publish, ReplyTo, SubjectId};

/// What the hosts of a group share.
pub(super) struct Group {
    pub(super) settings: Arc<publisher::Settings>,
    pub(super) publish_cost: Time,
    pub(super) message_ids: bool,
    pub(super) headers: Vec<HeaderRule>,
}

/// One publisher of the run.
pub(super) struct Host {
    pub(super) id: PublisherId,
    pub(super) group: Arc<Group>,
    pub(super) plan: Plan,
    pub(super) subjects: Vec<(SubjectId, u32)>,
    pub(super) done: bool,
    /// The open batch.
    open: Option<Open>,
}

struct Open {
    number: BatchNumber,
    core: Publisher,
    /// The message that the core holds or is about to publish.
    planned: Option<Planned>,
    /// The first subject used: pings and ends of batch go there.
    home: (SubjectId, u32),
}

/// A publisher that waits for a reply.
pub(super) struct Waiting {
    pub(super) batch: BatchNumber,
    acknowledged: BatchSequence,
    opening: bool,
    gap: GapMode,
}

impl Waiting {
    /// Whether this reply says more than the publisher knows.
    pub(super) fn is_released_by(&self, frame: &ControlFrame) -> bool {
        match frame {
            ControlFrame::Ack(ack) => self.opening || ack.sequence > self.acknowledged,
            ControlFrame::PubAck(_) | ControlFrame::Refused(_) => true,
            // In gap mode ok both only inform.
            ControlFrame::Gap(_) | ControlFrame::Error { .. } => self.gap == GapMode::Fail,
            ControlFrame::Status(_) => false,
        }
    }
}

/// What every host needs of the world.
pub(super) struct Shared<'w, 'o> {
    pub(super) fabric: &'w mut Fabric<'o>,
    pub(super) content: &'w PayloadContent,
    pub(super) next_batch: &'w mut u32,
    pub(super) publishers: usize,
    /// Whether nothing of a batch is under way, asked when a wait ends in vain.
    pub(super) at_rest: bool,
}

impl Host {
    pub(super) const fn new(
        id: PublisherId,
        group: Arc<Group>,
        plan: Plan,
        subjects: Vec<(SubjectId, u32)>,
    ) -> Self {
        Self {
            id,
            group,
            plan,
            subjects,
            done: false,
            open: None,
        }
    }

    /// What this publisher waits for, if it has an open batch.
    pub(super) fn waiting(&self) -> Option<Waiting> {
        let open = self.open.as_ref()?;
        Some(Waiting {
            batch: open.number,
            acknowledged: open.core.acknowledged(),
            opening: open.core.is_opening(),
            gap: self.group.settings.gap,
        })
    }

    /// A frame of this host as the server takes it.
    pub(super) fn publish(&self, frame: UpFrame) -> Publish {
        let settings = &self.group.settings;
        Publish {
            subject: frame.subject,
            reply: Some(ReplyTo {
                connection: ConnectionId(self.id.0),
                tag: u64::from(frame.batch.0),
            }),
            control: Control::Fast {
                batch: BatchHandle(frame.batch.0),
                flow: settings.flow,
                gap: settings.gap,
                sequence: frame.sequence,
                operation: frame.operation,
            },
            payload: frame.payload,
            headers: frame.headers,
            wire_bytes: frame.wire_bytes,
        }
    }

    /// The plan is asked for its next step.
    pub(super) fn ready(&mut self, shared: &mut Shared<'_, '_>) {
        // Between room for one more message and that message, the server may have ended the batch.
        if self.open.as_ref().is_some_and(|open| !open.core.is_ready()) {
            return;
        }
        let now = shared.fabric.now;
        match self.plan.step(now) {
            Step::Wait(until) => self.arm_ready(shared, until),
            Step::Offer(planned) => {
                if self.open.is_none() {
                    self.start_batch(planned, shared);
                }
                if let Some(open) = &mut self.open {
                    open.planned = Some(planned);
                }
                let input = if planned.last {
                    publisher::Input::Commit
                } else {
                    publisher::Input::Offer
                };
                self.step(input, shared);
            }
            Step::End => match (self.plan.commit(), self.open.is_some()) {
                (_, false) => self.next_batch(Outcome::Abandoned, BatchSequence(0), now, shared),
                (Commit::None, true) => self.leave(Outcome::Abandoned, shared),
                (Commit::Eob | Commit::Message, true) => {
                    self.step(publisher::Input::CommitEob, shared);
                }
            },
            Step::Done => {
                self.done = true;
                self.tell_withheld(shared);
                shared
                    .fabric
                    .tell(&Event::PublisherDone { publisher: self.id });
            }
        }
    }

    /// The core's own timer.
    pub(super) fn timer(&mut self, shared: &mut Shared<'_, '_>) {
        self.act(shared, |core, now, sink| core.wake(now, sink));
    }

    /// A reply arrives. One for a batch that is over finds no subscription any more.
    pub(super) fn reply(
        &mut self,
        batch: BatchNumber,
        frame: ControlFrame,
        shared: &mut Shared<'_, '_>,
    ) {
        if self.open.as_ref().is_none_or(|open| open.number != batch) {
            return;
        }
        shared.fabric.tell(&Event::seen(batch, frame));
        self.step(publisher::Input::Reply(frame), shared);
    }

    /// The run is over before this publisher is.
    pub(super) fn interrupt(&mut self, shared: &mut Shared<'_, '_>) {
        if self.open.is_some() {
            self.leave(Outcome::Interrupted, shared);
        }
        if !self.done {
            self.tell_withheld(shared);
        }
    }

    fn tell_withheld(&self, shared: &mut Shared<'_, '_>) {
        let messages = self.plan.withheld(shared.fabric.now);
        if messages > 0 {
            shared.fabric.tell(&Event::Withheld {
                publisher: self.id,
                messages,
            });
        }
    }

    fn start_batch(&mut self, planned: Planned, shared: &mut Shared<'_, '_>) {
        let number = BatchNumber(*shared.next_batch);
        *shared.next_batch += 1;
        let settings = &self.group.settings;
        shared.fabric.tell(&Event::BatchStarted {
            publisher: self.id,
            batch: number,
            flow: settings.flow,
            outstanding_acks: u16::from(settings.outstanding_acks),
            gap: settings.gap,
        });
        let home = self.subjects[planned.subject as usize];
        self.open = Some(Open {
            number,
            core: Publisher::new(Arc::clone(settings)),
            planned: None,
            home,
        });
    }

    fn step(&mut self, input: publisher::Input, shared: &mut Shared<'_, '_>) {
        self.act(shared, |core, now, sink| core.step(now, input, sink));
    }

    /// Lets the core act, then follows up on what it decided.
    fn act(
        &mut self,
        shared: &mut Shared<'_, '_>,
        act: impl FnOnce(&mut Publisher, Time, &mut dyn Sink<Action>),
    ) {
        let now = shared.fabric.now;
        let Some(open) = &mut self.open else { return };
        let mut sink = HostSink {
            id: self.id,
            group: &self.group,
            subjects: &self.subjects,
            batch: open.number,
            batch_of_publisher: open.planned.map_or(0, |planned| planned.batch),
            planned: open.planned,
            home: open.home,
            shared,
            ready: false,
            end: None,
        };
        act(&mut open.core, now, &mut sink);
        let (ready, end) = (sink.ready, sink.end);
        let due = open.core.due();
        shared.fabric.queue.arm_by(
            Wake::Timer(self.id.0 as usize).index(shared.publishers),
            due,
        );
        if ready {
            self.arm_ready(shared, now + self.group.publish_cost);
        }
        if let Some(end) = end {
            self.ended(end, shared);
        }
    }

    fn ended(&mut self, end: End, shared: &mut Shared<'_, '_>) {
        let Some(open) = self.open.take() else { return };
        let batch = open.number;
        if end.outcome == Outcome::TimedOut && shared.at_rest {
            shared.fabric.tell(&Event::AtRest { batch });
        }
        let End {
            outcome,
            code,
            acknowledged,
            ..
        } = end;
        shared.fabric.tell(&Event::BatchEnded {
            batch,
            outcome,
            code,
            acknowledged,
        });
        let now = shared.fabric.now;
        let sent = open.core.sent();
        self.next_batch(outcome, sent, now + self.group.publish_cost, shared);
    }

    /// Leaves the open batch without a word to the server.
    fn leave(&mut self, outcome: Outcome, shared: &mut Shared<'_, '_>) {
        let Some(open) = self.open.take() else { return };
        let batch = open.number;
        if outcome == Outcome::Interrupted && shared.at_rest {
            shared.fabric.tell(&Event::AtRest { batch });
        }
        let acknowledged = open.core.acknowledged();
        shared.fabric.tell(&Event::BatchEnded {
            batch,
            outcome,
            code: 0,
            acknowledged,
        });
        shared.fabric.queue.arm(
            Wake::Timer(self.id.0 as usize).index(shared.publishers),
            Time::NEVER,
        );
        let now = shared.fabric.now;
        let sent = open.core.sent();
        self.next_batch(outcome, sent, now + self.group.publish_cost, shared);
    }

    fn next_batch(
        &mut self,
        outcome: Outcome,
        sent: BatchSequence,
        at: Time,
        shared: &mut Shared<'_, '_>,
    ) {
        self.plan.batch_over(outcome, sent);
        self.arm_ready(shared, at);
    }

    fn arm_ready(&self, shared: &mut Shared<'_, '_>, at: Time) {
        shared
            .fabric
            .queue
            .arm(Wake::Ready(self.id.0 as usize).index(shared.publishers), at);
    }
}
