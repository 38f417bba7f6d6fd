//! A probe: when it asks what, and how long that took. The same machine in every world.
//!
//! An open loop: a request leaves at its intended start whatever became of earlier ones, and its
//! latency counts from there. A probe that deletes or reads messages publishes them itself, ahead of
//! their time, so that no message of a publisher is ever touched. A pure machine. Leans on `scenario`
//! and `event`.

use std::collections::{BTreeMap, VecDeque};

use crate::event::{ApiOperation, Event};
use crate::machine::{Machine, Sink, Time};
use crate::nats::StreamSequence;
use crate::scenario::{Probe as Settings, ProbeOperation};

/// Most messages that a probe keeps in the stream for requests to come.
const STOCK_MOST: u64 = 1_000;

/// Bytes of the messages that probes publish.
pub const PROBE_PAYLOAD_BYTES: u32 = 64;

/// What a probe sends; each is answered with its number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ask {
    /// Information on the stream.
    Info,
    /// This message.
    MessageGet(StreamSequence),
    /// That this message be deleted.
    MessageDelete(StreamSequence),
    /// That the probe's subject be purged.
    Purge,
    /// That the other stream be purged.
    PurgeOther,
    /// An update of the stream, whose description names this number.
    Update(u32),
    /// A message to the probe's subject.
    Publish,
}

impl Ask {
    /// The description of a stream after an update: what it says is of no consequence.
    pub fn description(number: u32) -> String {
        format!("tidegate probe {}", number % 2)
    }
}

/// What happens to a probe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProbeInput {
    /// Its request with this number is answered: `code` 0, or the error that refused it; a PubAck says
    /// where the message is.
    Answered {
        /// The number of the request.
        number: u32,
        /// 0, or the `err_code` (or 503, 429).
        code: u16,
        /// Of a PubAck.
        sequence: Option<StreamSequence>,
    },
    /// The publishers are done: no more requests.
    Stop,
}

/// What a probe wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ProbeAction {
    /// Send this under this number.
    Send(u32, Ask),
    /// Tell this event.
    Tell(Event),
}

/// One probe of a run.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Probe {
    id: u32,
    operation: ProbeOperation,
    every: Time,
    timeout: Time,
    stop: Time,
    /// Intended start of the next request.
    next: Time,
    /// Intended starts of requests that wait for a message.
    late: VecDeque<Time>,
    /// Messages of its own that no request has used up.
    stock: VecDeque<StreamSequence>,
    /// So many it wants to have, in stock and on their way.
    stock_wanted: usize,
    /// Sent and not answered, by number.
    open: BTreeMap<u32, Open>,
    sent: u32,
    stopped: bool,
}

/// Something sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Open {
    /// Of a request that is measured; none: a message for its stock.
    intended: Option<Time>,
    deadline: Time,
}

impl Probe {
    /// Probe number `id` of the file.
    pub fn new(id: u32, settings: &Settings) -> Self {
        let (every, timeout) = (settings.every.0, settings.timeout.0);
        let within_timeout = timeout.as_nanos() / every.as_nanos().max(1) + 1;
        Self {
            id,
            operation: settings.operation,
            every,
            timeout,
            stop: settings.stop.map_or(Time::NEVER, |stop| stop.0),
            next: settings.start.0,
            late: VecDeque::new(),
            stock: VecDeque::new(),
            // Whatever the stream is given is there before it is wanted, unless that takes longer
            // than a request may.
            stock_wanted: match settings.operation {
                ProbeOperation::MessageDelete => within_timeout.min(STOCK_MOST) as usize,
                ProbeOperation::MessageGet => 1,
                ProbeOperation::Purge
                | ProbeOperation::Info
                | ProbeOperation::PurgeOther
                | ProbeOperation::Update
                | ProbeOperation::Publish => 0,
            },
            open: BTreeMap::new(),
            sent: 0,
            stopped: false,
        }
    }

    /// Its number in the file.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Whether it sends nothing more and waits for nothing.
    pub fn is_done(&self) -> bool {
        self.has_stopped() && self.late.is_empty() && self.open.is_empty()
    }

    const fn has_stopped(&self) -> bool {
        self.stopped || self.next.as_nanos() >= self.stop.as_nanos()
    }

    const fn measured_as(&self) -> ApiOperation {
        match self.operation {
            ProbeOperation::Info => ApiOperation::Info,
            ProbeOperation::MessageGet => ApiOperation::MessageGet,
            ProbeOperation::MessageDelete => ApiOperation::MessageDelete,
            ProbeOperation::Purge => ApiOperation::Purge,
            ProbeOperation::PurgeOther => ApiOperation::PurgeOther,
            ProbeOperation::Update => ApiOperation::Update,
            ProbeOperation::Publish => ApiOperation::Publish,
        }
    }

    /// Gives up what has waited too long: it was asked in vain.
    fn give_up(&mut self, now: Time, out: &mut dyn Sink<ProbeAction>) {
        while let Some(first) = self.open.first_entry()
            && first.get().deadline <= now
        {
            if let Some(intended) = first.remove().intended {
                out.emit(ProbeAction::Tell(Event::ApiUnanswered {
                    probe: self.id,
                    operation: self.measured_as(),
                    waited: now.since(intended),
                }));
            }
        }
        while let Some(intended) = self.late.front().copied()
            && intended + self.timeout <= now
        {
            self.late.pop_front();
            out.emit(ProbeAction::Tell(Event::ApiUnanswered {
                probe: self.id,
                operation: self.measured_as(),
                waited: now.since(intended),
            }));
        }
    }

    /// Sends the requests that are due.
    fn ask(&mut self, now: Time, out: &mut dyn Sink<ProbeAction>) {
        while !self.has_stopped() && self.next <= now {
            self.late.push_back(self.next);
            self.next += self.every;
        }
        while let Some(intended) = self.late.front().copied()
            && let Some(ask) = self.next_request()
        {
            self.late.pop_front();
            out.emit(ProbeAction::Tell(Event::ApiAsked {
                probe: self.id,
                operation: self.measured_as(),
                late: now.since(intended),
            }));
            self.send(now, Some(intended), ask, out);
            if ask == Ask::Purge {
                // For the next one.
                self.send(now, None, Ask::Publish, out);
            }
        }
        let supplies = self.open.values().filter(|open| open.intended.is_none());
        let coming = supplies.count() + self.stock.len();
        if !self.has_stopped() || !self.late.is_empty() {
            for _ in coming..self.stock_wanted {
                self.send(now, None, Ask::Publish, out);
            }
        }
    }

    /// The next request; none while it waits for a message.
    fn next_request(&mut self) -> Option<Ask> {
        Some(match self.operation {
            ProbeOperation::Info => Ask::Info,
            ProbeOperation::MessageGet => Ask::MessageGet(*self.stock.front()?),
            ProbeOperation::MessageDelete => Ask::MessageDelete(self.stock.pop_front()?),
            ProbeOperation::Purge => Ask::Purge,
            ProbeOperation::PurgeOther => Ask::PurgeOther,
            ProbeOperation::Update => Ask::Update(self.sent),
            ProbeOperation::Publish => Ask::Publish,
        })
    }

    fn send(
        &mut self,
        now: Time,
        intended: Option<Time>,
        ask: Ask,
        out: &mut dyn Sink<ProbeAction>,
    ) {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let deadline = now + self.timeout;
        self.open.insert(number, Open { intended, deadline });
        out.emit(ProbeAction::Send(number, ask));
    }

    fn answered(
        &mut self,
        now: Time,
        (number, code): (u32, u16),
        sequence: Option<StreamSequence>,
        out: &mut dyn Sink<ProbeAction>,
    ) {
        // One that was given up is answered too late.
        let Some(open) = self.open.remove(&number) else {
            return;
        };
        match (open.intended, sequence) {
            (Some(intended), _) => out.emit(ProbeAction::Tell(Event::ApiAnswered {
                probe: self.id,
                operation: self.measured_as(),
                code,
                latency: now.since(intended),
            })),
            (None, Some(sequence)) if self.stock_wanted > 0 => self.stock.push_back(sequence),
            (None, _) => {}
        }
    }
}

impl Machine for Probe {
    type Input = ProbeInput;
    type Action = ProbeAction;

    fn step(&mut self, now: Time, input: ProbeInput, out: &mut dyn Sink<ProbeAction>) {
        match input {
            ProbeInput::Answered {
                number,
                code,
                sequence,
            } => self.answered(now, (number, code), sequence, out),
            ProbeInput::Stop => self.stopped = true,
        }
        self.wake(now, out);
    }

    fn due(&self) -> Time {
        if self.is_done() {
            return Time::NEVER;
        }
        let given_up = self.open.values().next();
        let given_up = given_up.map_or(Time::NEVER, |open| open.deadline);
        let late = self.late.front();
        let late = late.map_or(Time::NEVER, |intended| *intended + self.timeout);
        let next = if self.has_stopped() {
            Time::NEVER
        } else if self.sent == 0 && self.stock_wanted > 0 {
            // Its messages come first.
            self.next.since(self.timeout)
        } else {
            self.next
        };
        next.min(given_up).min(late)
    }

    fn wake(&mut self, now: Time, out: &mut dyn Sink<ProbeAction>) {
        self.give_up(now, out);
        self.ask(now, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Span;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn probe(operation: ProbeOperation) -> Probe {
        Probe::new(
            3,
            &Settings {
                operation,
                every: Span(MS(10)),
                start: Span(MS(100)),
                stop: None,
                timeout: Span(MS(25)),
            },
        )
    }

    /// Lets everything happen that is due by `until`.
    fn pass(probe: &mut Probe, until: Time) -> Vec<(u64, ProbeAction)> {
        let mut all = Vec::new();
        while probe.due() <= until {
            let at = probe.due();
            let mut actions = Vec::new();
            probe.wake(at, &mut actions);
            all.extend(
                actions
                    .into_iter()
                    .map(|one| (at.as_nanos() / 1_000_000, one)),
            );
        }
        all
    }

    fn answer(probe: &mut Probe, at: Time, number: u32, sequence: u64) -> Vec<ProbeAction> {
        let mut actions = Vec::new();
        let input = ProbeInput::Answered {
            number,
            code: 0,
            sequence: (sequence > 0).then_some(StreamSequence(sequence)),
        };
        probe.step(at, input, &mut actions);
        actions
    }

    fn sends(actions: &[(u64, ProbeAction)]) -> Vec<(u64, u32, Ask)> {
        let sends = actions.iter().filter_map(|(at, action)| match action {
            ProbeAction::Send(number, ask) => Some((*at, *number, *ask)),
            ProbeAction::Tell(_) => None,
        });
        sends.collect()
    }

    #[test]
    fn requests_leave_at_their_intended_starts_whether_answered_or_not() {
        let mut probe = probe(ProbeOperation::Info);
        let actions = pass(&mut probe, MS(130));
        let expected = [0, 1, 2, 3].map(|n| (100 + 10 * u64::from(n), n, Ask::Info));
        assert_eq!(sends(&actions), expected);
        let unanswered = Event::ApiUnanswered {
            probe: 3,
            operation: ApiOperation::Info,
            waited: MS(25),
        };
        assert!(actions.contains(&(125, ProbeAction::Tell(unanswered))));
        assert!(answer(&mut probe, MS(131), 0, 0).is_empty(), "too late");
        let answered = Event::ApiAnswered {
            probe: 3,
            operation: ApiOperation::Info,
            code: 0,
            latency: MS(12),
        };
        let told = answer(&mut probe, MS(132), 2, 0);
        assert_eq!(told, [ProbeAction::Tell(answered)]);
    }

    #[test]
    fn a_message_to_delete_is_published_ahead_and_a_wait_for_one_counts() {
        let mut probe = probe(ProbeOperation::MessageDelete);
        let actions = pass(&mut probe, MS(80));
        let stock = [0, 1, 2].map(|number| (75, number, Ask::Publish));
        assert_eq!(sends(&actions), stock);
        assert!(answer(&mut probe, MS(90), 0, 41).is_empty());
        let actions = pass(&mut probe, MS(112));
        let delete = Ask::MessageDelete(StreamSequence(41));
        // Those that were not acknowledged within the timeout are published again.
        assert!(sends(&actions).contains(&(100, 3, delete)));
        let publishes = sends(&actions);
        assert_eq!(
            publishes.iter().filter(|one| one.2 == Ask::Publish).count(),
            3
        );
        let told = answer(&mut probe, MS(114), 4, 50);
        let asked = Event::ApiAsked {
            probe: 3,
            operation: ApiOperation::MessageDelete,
            late: MS(4),
        };
        assert_eq!(told[0], ProbeAction::Tell(asked));
    }

    #[test]
    fn a_probe_that_is_stopped_waits_for_its_answers_only() {
        let mut probe = probe(ProbeOperation::Purge);
        let actions = pass(&mut probe, MS(100));
        assert_eq!(
            sends(&actions),
            [(100, 0, Ask::Purge), (100, 1, Ask::Publish)]
        );
        probe.step(MS(101), ProbeInput::Stop, &mut Vec::new());
        assert!(!probe.is_done());
        answer(&mut probe, MS(102), 0, 0);
        assert!(!probe.is_done());
        answer(&mut probe, MS(103), 1, 7);
        assert!(probe.is_done());
        assert_eq!(probe.due(), Time::NEVER);
    }
}
