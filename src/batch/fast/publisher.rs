//! The client half of one fast batch: sequences, gate, pings, deadlines, and how the batch ends.
//!
//! Leans on `machine`, `profile`, `window` and the words of `nats`; `port` is what goes in and comes out,
//! `calls` a way to end that one client has.
//! The machine knows no message contents: the driver offers, and publishes what an action names.

mod calls;
mod port;

use std::sync::Arc;

use self::calls::Noted;
pub use self::port::{Action, ControlFrame, End, Input, Outcome};
pub use super::profile::{Profile, Settings};
use super::window::Window;
use crate::machine::{Machine, Sink, Time};
use crate::nats::ack::PubAck;
use crate::nats::{BatchSequence, GapMode, Operation};

/// `err_code` of an unknown batch.
const BATCH_UNKNOWN: u16 = 10_208;

/// The client half of one fast batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Publisher {
    /// Shared by the batches of a group.
    settings: Arc<Settings>,
    window: Window,
    /// Highest batch sequence sent, an EOB not counted.
    sent: BatchSequence,
    /// When anything was sent last, for idle pings.
    last_sent: Time,
    noted: Noted,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Nothing is sent yet.
    Idle,
    /// The start is sent; its first reply decides.
    Opening(Wait),
    /// The gate is open.
    Open,
    /// The gate is shut. `held` is what waits behind a gate that stands before the send.
    Blocked { wait: Wait, held: Option<Operation> },
    /// The commit is sent.
    Committing(Wait),
    /// The server has ended the batch (gap mode fail) and owes the PubAck.
    Failing { wait: Wait, code: u16 },
    /// Over.
    Ended,
}

/// A wait with pings in thirds and a deadline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Wait {
    next_ping: Time,
    deadline: Time,
}

impl Publisher {
    /// A publisher that has sent nothing.
    pub fn new(settings: impl Into<Arc<Settings>>) -> Self {
        let settings = settings.into();
        let window = Window::new(settings.flow, settings.outstanding_acks);
        Self {
            settings,
            window,
            sent: BatchSequence(0),
            last_sent: Time::ZERO,
            noted: Noted::NOTHING,
            state: State::Idle,
        }
    }

    /// Highest batch sequence sent, an EOB not counted.
    pub const fn sent(&self) -> BatchSequence {
        self.sent
    }

    /// Highest batch sequence covered by an ack.
    pub const fn acknowledged(&self) -> BatchSequence {
        self.window.acked()
    }

    /// The flow in force, from the newest ack on, or as asked for.
    pub const fn flow(&self) -> u16 {
        self.window.flow()
    }

    /// Whether the batch is over.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Whether the first reply is still awaited.
    pub const fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening(_))
    }

    /// Whether a further offer is taken now.
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Idle | State::Open)
    }

    fn wait(&self, now: Time, pings: bool) -> Wait {
        if self.settings.profile.waits_for_ever {
            return Wait {
                next_ping: Time::NEVER,
                deadline: Time::NEVER,
            };
        }
        let next_ping = if pings {
            now + self.ping_interval()
        } else {
            Time::NEVER
        };
        Wait {
            next_ping,
            deadline: now + self.settings.ack_timeout,
        }
    }

    /// A third of the ack timeout; clients may have a floor.
    fn ping_interval(&self) -> Time {
        let third = Time::from_nanos(self.settings.ack_timeout.as_nanos() / 3);
        third.max(self.settings.profile.ping_interval_min)
    }

    /// Takes an offer: sends it, or holds it behind a gate that stands before the send.
    fn offer(&mut self, now: Time, operation: Operation, out: &mut dyn Sink<Action>) {
        if self.heeds(now, operation, out) {
            return;
        }
        let profile = self.settings.profile;
        let shut = !self.window.is_open_at(self.sent.next());
        if profile.gate_before_publish && shut && !profile.ignores_gate {
            let wait = self.wait(now, true);
            self.state = State::Blocked {
                wait,
                held: Some(operation),
            };
            out.emit(Action::Blocked);
            return;
        }
        self.publish(now, operation, out);
    }

    fn publish(&mut self, now: Time, operation: Operation, out: &mut dyn Sink<Action>) {
        let sequence = self.sent.next();
        let operation = match operation {
            Operation::Append if sequence == BatchSequence(1) => Operation::Start,
            other => other,
        };
        if operation.stores() {
            self.sent = sequence;
        }
        self.last_sent = now;
        out.emit(Action::Publish {
            operation,
            sequence,
        });
        match operation {
            Operation::Start => {
                self.state =
                    State::Opening(self.wait(now, self.settings.profile.ping_while_opening));
            }
            Operation::Commit | Operation::CommitEob => {
                self.state =
                    State::Committing(self.wait(now, self.settings.profile.ping_while_committing));
                if let Some(pub_ack) = self.noted.pub_ack {
                    self.on_pub_ack(pub_ack, out);
                }
            }
            Operation::Append => self.after_publish(now, out),
            Operation::Ping => {}
        }
    }

    /// The gate after a send: open for the next offer, or a wait.
    fn after_publish(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        if self.is_shut() {
            self.block(now, out);
        } else {
            self.state = State::Open;
            out.emit(Action::Ready);
        }
    }

    /// Whether a gate that stands behind the send is shut.
    fn is_shut(&self) -> bool {
        let profile = self.settings.profile;
        !profile.gate_before_publish && !profile.ignores_gate && !self.window.is_open_at(self.sent)
    }

    fn block(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        self.state = State::Blocked {
            wait: self.wait(now, true),
            held: None,
        };
        out.emit(Action::Blocked);
    }

    fn on_frame(&mut self, now: Time, frame: ControlFrame, out: &mut dyn Sink<Action>) {
        match frame {
            ControlFrame::Ack(ack) => {
                let before = self.window.acked();
                if self.settings.profile.any_ack_sets_flow {
                    self.window.on_any_ack(ack);
                } else {
                    self.window.on_ack(ack);
                }
                if self.window.acked() > before {
                    self.renew_wait(now);
                }
                self.after_window_moved(now, out);
            }
            ControlFrame::Gap(_) => self.on_trouble(now, 0, out),
            ControlFrame::Error { sequence, code } => {
                if self.settings.gap == GapMode::Ok && self.settings.profile.errors_count_as_acks {
                    self.window.cover(sequence);
                    self.after_window_moved(now, out);
                }
                self.on_trouble(now, code, out);
            }
            ControlFrame::PubAck(pub_ack) => self.on_pub_ack(pub_ack, out),
            ControlFrame::Refused(code) if self.settings.profile.ends_in_calls => {
                self.note(Outcome::Refused, code, out);
            }
            ControlFrame::Status(_) if self.settings.profile.ends_in_calls => {
                self.note(Outcome::ClientError, 0, out);
            }
            ControlFrame::Refused(code) => {
                let cause = match self.state {
                    // The unknown batch is a consequence; what ended it came before.
                    State::Failing { code: cause, .. } if code == BATCH_UNKNOWN && cause != 0 => {
                        cause
                    }
                    _ => code,
                };
                self.end(Outcome::Refused, cause, None, out);
            }
            // In the middle of a batch a status is about one lost message: the gap rules follow.
            ControlFrame::Status(503)
                if matches!(self.state, State::Opening(_) | State::Committing(_)) =>
            {
                self.end(Outcome::NoResponders, 503, None, out);
            }
            ControlFrame::Status(_) => {}
        }
    }

    /// An ack that says more starts the wait anew: the ack timeout is the longest wait for the
    /// *next* ack, and a slow link with a large window is no outage. A repeated ack, as a ping
    /// brings, renews nothing. Clients whose gate stands before the send have one deadline for all.
    fn renew_wait(&mut self, now: Time) {
        let pings = match self.state {
            State::Blocked { .. } => true,
            State::Committing(_) => self.settings.profile.ping_while_committing,
            State::Idle
            | State::Opening(_)
            | State::Open
            | State::Failing { .. }
            | State::Ended => return,
        };
        if self.settings.profile.gate_before_publish {
            return;
        }
        let renewed = self.wait(now, pings);
        if let Some(wait) = self.current_wait() {
            *wait = renewed;
        }
    }

    /// An ack may open the batch or the gate; other states only note it.
    fn after_window_moved(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        match self.state {
            State::Opening(_) => self.after_publish(now, out),
            // A smaller flow can shut a gate that was open: a new leader's first ack does.
            State::Open if self.is_shut() => self.block(now, out),
            State::Blocked { held: None, .. } if self.window.is_open_at(self.sent) => {
                out.emit(Action::Unblocked);
                self.state = State::Open;
                out.emit(Action::Ready);
            }
            State::Blocked {
                held: Some(operation),
                ..
            } if self.window.is_open_at(self.sent.next()) => {
                out.emit(Action::Unblocked);
                self.publish(now, operation, out);
            }
            State::Idle
            | State::Open
            | State::Blocked { .. }
            | State::Committing(_)
            | State::Failing { .. }
            | State::Ended => {}
        }
    }

    /// A gap or an error: in gap mode fail the server has ended the batch and owes the PubAck.
    fn on_trouble(&mut self, now: Time, code: u16, out: &mut dyn Sink<Action>) {
        if self.settings.gap == GapMode::Ok {
            return;
        }
        if self.settings.profile.ends_in_calls {
            self.note(Outcome::EndedByServer, code, out);
            return;
        }
        match self.state {
            State::Opening(_) | State::Open | State::Committing(_) => {}
            State::Blocked { .. } => out.emit(Action::Unblocked),
            State::Idle | State::Failing { .. } | State::Ended => return,
        }
        self.state = State::Failing {
            wait: self.wait(now, true),
            code,
        };
    }

    fn on_pub_ack(&mut self, pub_ack: PubAck, out: &mut dyn Sink<Action>) {
        if self.keeps(pub_ack, out) {
            return;
        }
        let (outcome, code) = match self.state {
            State::Committing(_) => (self.end_of_commit(pub_ack), 0),
            State::Failing { code, .. } => {
                (self.noted_end().unwrap_or(Outcome::EndedByServer), code)
            }
            State::Idle
            | State::Opening(_)
            | State::Open
            | State::Blocked { .. }
            | State::Ended => (Outcome::EndedByServer, 0),
        };
        if let Some(count) = pub_ack.count {
            self.window.cover(count);
        }
        self.end(outcome, code, Some(pub_ack), out);
    }

    fn end(
        &mut self,
        outcome: Outcome,
        code: u16,
        pub_ack: Option<PubAck>,
        out: &mut dyn Sink<Action>,
    ) {
        self.state = State::Ended;
        out.emit(Action::Ended(End {
            outcome,
            code,
            acknowledged: self.window.acked(),
            pub_ack,
        }));
    }

    /// A message that never left gives its sequence back, so that it leaves no hole; if others
    /// went out behind it, the hole is there and the batch ends.
    fn on_publish_failed(&mut self, sequence: BatchSequence, out: &mut dyn Sink<Action>) {
        match self.state {
            State::Ended => {}
            State::Open | State::Blocked { held: None, .. }
                if sequence == self.sent && sequence.0 > 1 =>
            {
                self.sent = BatchSequence(sequence.0 - 1);
                if matches!(self.state, State::Blocked { .. }) {
                    out.emit(Action::Unblocked);
                    out.emit(Action::Ready);
                }
                self.state = State::Open;
            }
            State::Idle
            | State::Opening(_)
            | State::Open
            | State::Blocked { .. }
            | State::Committing(_)
            | State::Failing { .. } => self.end(Outcome::ClientError, 0, None, out),
        }
    }

    fn current_wait(&mut self) -> Option<&mut Wait> {
        match &mut self.state {
            State::Opening(wait)
            | State::Blocked { wait, .. }
            | State::Committing(wait)
            | State::Failing { wait, .. } => Some(wait),
            State::Idle | State::Open | State::Ended => None,
        }
    }

    /// The ping of this moment: the highest sequence that was sent and counts. After an EOB that is
    /// the last message, since the EOB's own sequence would look like a gap.
    fn ping(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        if self.cannot_ping(out) {
            return;
        }
        self.last_sent = now;
        out.emit(Action::Publish {
            operation: Operation::Ping,
            sequence: self.sent,
        });
    }
}

impl Machine for Publisher {
    type Input = Input;
    type Action = Action;

    fn step(&mut self, now: Time, input: Input, out: &mut dyn Sink<Action>) {
        match input {
            Input::Offer if self.is_ready() => self.offer(now, Operation::Append, out),
            Input::Commit if self.is_ready() => self.offer(now, Operation::Commit, out),
            Input::CommitEob if self.is_ready() => self.offer(now, Operation::CommitEob, out),
            Input::Offer | Input::Commit | Input::CommitEob => {
                debug_assert!(self.is_over(), "offered without room");
            }
            Input::Reply(_) if self.is_over() => {}
            Input::Reply(frame) => self.on_frame(now, frame, out),
            Input::PublishFailed(sequence) => self.on_publish_failed(sequence, out),
        }
    }

    fn due(&self) -> Time {
        match &self.state {
            State::Opening(wait)
            | State::Blocked { wait, .. }
            | State::Committing(wait)
            | State::Failing { wait, .. } => wait.next_ping.min(wait.deadline),
            State::Open => self
                .settings
                .profile
                .idle_ping
                .map_or(Time::NEVER, |span| self.last_sent + span),
            State::Idle | State::Ended => Time::NEVER,
        }
    }

    fn wake(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        let interval = self.ping_interval();
        let noted = self.noted_end();
        if let Some(wait) = self.current_wait() {
            if now >= wait.deadline {
                let (outcome, code) = match self.state {
                    State::Failing { code, .. } => (noted.unwrap_or(Outcome::TimedOut), code),
                    _ => (Outcome::TimedOut, 0),
                };
                self.end(outcome, code, None, out);
            } else if now >= wait.next_ping {
                // The last third ends in the deadline, not in a ping: thirds are rounded down.
                let next = wait.next_ping + interval.max(Time::from_nanos(1));
                wait.next_ping = if next + Time::from_nanos(2) >= wait.deadline {
                    Time::NEVER
                } else {
                    next
                };
                self.ping(now, out);
            }
        } else if self.state == State::Open
            && let Some(span) = self.settings.profile.idle_ping
            && now >= self.last_sent + span
        {
            self.ping(now, out);
        }
    }
}

#[cfg(test)]
mod tests;
