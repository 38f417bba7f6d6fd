//! What the generator of a live run had left: its CPU time, how late it woke, and whether it or the
//! server was the limit.
//!
//! Leans on `event` and its siblings in `measure`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::batches::Batches;
use super::{Distribution, LatencyHistogram, rounded};
use crate::event::{Event, Observer};
use crate::machine::Time;
use crate::nats::Operation;

/// A message that is sent so long after it could have been is late.
const LATE: Time = Time::from_millis(1);
/// Above this part of a core, or of its ceiling, the generator itself is the limit.
const BOUND_FROM: f64 = 0.85;
/// Below this part of a core it is not, whatever its ceiling.
const BUSY_FROM: f64 = 0.5;
/// A share of a shorter time says nothing.
const JUDGED_FROM_NS: u64 = 200_000_000;

/// The load generator of a live run: the one thread that publishes for all publishers, reads their
/// acks and measures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Generator {
    /// How long publishing took, from the start of the first publisher to the end of the last.
    pub publishing_ns: u64,
    /// CPU time of the thread meanwhile, user and system.
    pub cpu_ns: u64,
    /// `cpu_ns` of `publishing_ns`: 1 is a whole core.
    pub core_share: f64,
    /// How long the thread could have run and had no core. Null where the system does not say.
    pub waited_for_core_ns: Option<u64>,
    /// Messages sent per second of CPU time.
    pub messages_per_cpu_second: f64,
    /// How late the thread woke for intended starts that it had waited for.
    pub wake_lag_ns: Distribution,
    /// Messages sent more than a millisecond after they could have been: after their intended start,
    /// and after the gate last opened. Null without an open loop.
    pub late_starts: Option<u64>,
    /// What it can do at the most. Null where that was not measured.
    pub ceiling: Option<Ceiling>,
    /// The generator was the limit, not the server: it took more than 85 % of a core or of its ceiling.
    /// Null where publishing was too short to tell, below 200 ms.
    pub client_bound: Option<bool>,
}

/// What a generator does at the most: publishing the same messages to a server in its own process that
/// throws them away and acks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ceiling {
    /// Messages sent per second of CPU time: what one core can do.
    pub messages_per_cpu_second: f64,
    /// The rate of the run, of that.
    pub share: f64,
}

/// What a thread took while it published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Time that passed.
    pub publishing_ns: u64,
    /// CPU time.
    pub cpu_ns: u64,
    /// Time in which it could have run and had no core, where the system says.
    pub waited_for_core_ns: Option<u64>,
}

impl Spent {
    /// `messages` per second of CPU time.
    pub fn messages_per_cpu_second(&self, messages: u64) -> f64 {
        rounded(per_second(messages, self.cpu_ns), 3)
    }
}

impl Generator {
    /// The figures of a generator that sent `messages`; its ceiling is not measured yet.
    pub fn new(
        spent: Spent,
        messages: u64,
        wake_lag: &LatencyHistogram,
        late_starts: Option<u64>,
    ) -> Self {
        let Spent {
            publishing_ns,
            cpu_ns,
            waited_for_core_ns,
        } = spent;
        let core_share = match publishing_ns {
            0 => 0.0,
            span => rounded(cpu_ns as f64 / span as f64, 6),
        };
        Self {
            publishing_ns,
            cpu_ns,
            core_share,
            waited_for_core_ns,
            messages_per_cpu_second: spent.messages_per_cpu_second(messages),
            wake_lag_ns: Distribution::of(wake_lag),
            late_starts,
            ceiling: None,
            client_bound: (publishing_ns >= JUDGED_FROM_NS).then_some(core_share > BOUND_FROM),
        }
    }

    /// Whether it may have been the limit, so that its ceiling is worth knowing.
    pub fn is_busy(&self) -> bool {
        self.client_bound.is_some() && self.core_share > BUSY_FROM
    }

    /// Held to a ceiling of so many messages per second of CPU time.
    #[must_use]
    pub fn below(mut self, messages_per_cpu_second: f64) -> Self {
        if messages_per_cpu_second <= 0.0 {
            return self;
        }
        // Messages per second is messages per CPU second by the share of a core.
        let rate = self.messages_per_cpu_second * self.core_share;
        let share = rounded(rate / messages_per_cpu_second, 6);
        self.ceiling = Some(Ceiling {
            messages_per_cpu_second,
            share,
        });
        self.client_bound = self.client_bound.map(|bound| bound || share > BOUND_FROM);
        self
    }

    /// Why the figures of the run say more about the client than about the server, if they do.
    pub fn objection(&self) -> Option<String> {
        if self.client_bound != Some(true) {
            return None;
        }
        let of_ceiling = self.ceiling.map_or_else(String::new, |ceiling| {
            format!(" and ran at {:.0} % of its ceiling", ceiling.share * 100.0)
        });
        Some(format!(
            "client-bound: the generator took {:.0} % of a core{of_ceiling}; above {:.0} % the figures \
             are those of the client",
            self.core_share * 100.0,
            BOUND_FROM * 100.0
        ))
    }
}

fn per_second(messages: u64, nanoseconds: u64) -> f64 {
    match nanoseconds {
        0 => 0.0,
        span => messages as f64 / (span as f64 / 1e9),
    }
}

/// Counts messages that the generator sent late by its own fault.
///
/// A message could have been sent from its intended start on, once the gate of its batch had opened,
/// the batch before was over, and, for what follows a start, once that was answered.
pub struct LateStarts {
    batches: Batches<Gate>,
    /// When the last batch of each publisher ended.
    ended: Vec<Time>,
    count: u64,
}

/// One batch, as far as it kept messages from being sent.
#[derive(Clone, Copy, Default)]
struct Gate {
    publisher: usize,
    open_since: Time,
    /// The start is sent, and nothing behind it.
    opening: bool,
}

impl Default for LateStarts {
    fn default() -> Self {
        Self {
            batches: Batches::new(),
            ended: Vec::new(),
            count: 0,
        }
    }
}

impl LateStarts {
    /// So many messages were late.
    pub const fn count(&self) -> u64 {
        self.count
    }

    fn published(gate: &mut Gate, at: Time, operation: Operation, intended: Time) -> bool {
        // What follows a start waits for the answer to it.
        if std::mem::replace(&mut gate.opening, operation == Operation::Start) {
            gate.open_since = at;
        }
        operation.stores() && at.since(intended.max(gate.open_since)) > LATE
    }
}

impl Observer for LateStarts {
    fn see(&mut self, at: Time, event: &Event) {
        match *event {
            Event::BatchStarted {
                publisher, batch, ..
            } => {
                let publisher = publisher.0 as usize;
                if self.ended.len() <= publisher {
                    self.ended.resize(publisher + 1, Time::ZERO);
                }
                let gate = Gate {
                    publisher,
                    open_since: self.ended[publisher],
                    opening: false,
                };
                self.batches.insert(batch, gate);
            }
            Event::Published {
                batch,
                operation,
                intended,
                ..
            } => {
                if let Some(gate) = self.batches.get_mut(batch) {
                    let late = Self::published(gate, at, operation, intended);
                    self.count += u64::from(late);
                }
            }
            Event::Unblocked { batch } => {
                if let Some(gate) = self.batches.get_mut(batch) {
                    gate.open_since = at;
                }
            }
            Event::BatchEnded { batch, .. } => {
                if let Some(gate) = self.batches.get_mut(batch) {
                    self.ended[gate.publisher] = at;
                }
                self.batches.remove(batch, |_| ());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{BatchNumber, Outcome, PublisherId};
    use crate::measure::latency_histogram;
    use crate::nats::{BatchSequence, GapMode};

    const BATCH: BatchNumber = BatchNumber(0);

    fn start(batch: BatchNumber) -> Event {
        Event::BatchStarted {
            publisher: PublisherId(0),
            batch,
            flow: 10,
            outstanding_acks: 2,
            gap: GapMode::Fail,
        }
    }

    fn publish(batch: BatchNumber, operation: Operation, intended_ms: u64) -> Event {
        Event::Published {
            batch,
            operation,
            bytes: 1,
            sequence: BatchSequence(1),
            intended: Time::from_millis(intended_ms),
        }
    }

    fn late(story: &[(u64, Event)]) -> u64 {
        let mut late = LateStarts::default();
        for (at_ms, event) in story {
            late.see(Time::from_millis(*at_ms), event);
        }
        late.count()
    }

    #[test]
    fn what_an_open_gate_did_not_hold_back_is_late() {
        use Operation::{Append, Ping, Start};
        let story = |rest: &[(u64, Event)]| {
            let opened = [
                (0, start(BATCH)),
                (0, publish(BATCH, Start, 0)),
                (9, publish(BATCH, Append, 5)),
            ];
            late(&[&opened[..], rest].concat())
        };
        assert_eq!(story(&[]), 0, "it waited for the answer to the start");
        assert_eq!(story(&[(20, publish(BATCH, Append, 19))]), 0);
        assert_eq!(story(&[(21, publish(BATCH, Append, 19))]), 1);
        assert_eq!(story(&[(21, publish(BATCH, Ping, 19))]), 0);
        let shut = (15, Event::Blocked { batch: BATCH });
        let open = (40, Event::Unblocked { batch: BATCH });
        let after = |at| [shut, open, (at, publish(BATCH, Append, 19))];
        assert_eq!(story(&after(41)), 0, "the gate held it");
        assert_eq!(story(&after(42)), 1);
    }

    #[test]
    fn a_first_message_waits_for_the_batch_before() {
        let next = BatchNumber(1);
        let ended = Event::BatchEnded {
            batch: BATCH,
            outcome: Outcome::Committed,
            code: 0,
            acknowledged: BatchSequence(1),
        };
        let story = |at| {
            late(&[
                (0, start(BATCH)),
                (0, publish(BATCH, Operation::Commit, 0)),
                (30, ended),
                (30, start(next)),
                (at, publish(next, Operation::Start, 10)),
            ])
        };
        assert_eq!((story(31), story(32)), (0, 1));
    }

    fn figures(cpu_ms: u64, publishing_ms: u64) -> Generator {
        let spent = Spent {
            publishing_ns: publishing_ms * 1_000_000,
            cpu_ns: cpu_ms * 1_000_000,
            waited_for_core_ns: None,
        };
        Generator::new(spent, 100_000, &latency_histogram(), None)
    }

    #[test]
    fn it_is_the_limit_above_85_percent_of_a_core_or_of_its_ceiling() {
        let half = figures(500, 1_000);
        assert_eq!(half.core_share, 0.5);
        assert_eq!(half.messages_per_cpu_second, 200_000.0);
        assert_eq!((half.client_bound, half.is_busy()), (Some(false), false));
        let near = half.clone().below(110_000.0);
        assert_eq!(near.ceiling.unwrap().share, 0.909_091);
        assert_eq!(near.client_bound, Some(true));
        let objection = near.objection().unwrap();
        assert!(
            objection.contains("50 % of a core and ran at 91 %"),
            "{objection}"
        );
        let far = half.below(200_000.0);
        assert_eq!((far.client_bound, far.objection()), (Some(false), None));
        let full = figures(860, 1_000);
        assert_eq!((full.client_bound, full.is_busy()), (Some(true), true));
        assert!(full.objection().unwrap().contains("86 % of a core;"));
        assert_eq!(full.below(1e9).client_bound, Some(true));
    }

    #[test]
    fn a_short_time_is_not_judged() {
        let short = figures(199, 199);
        assert_eq!((short.client_bound, short.is_busy()), (None, false));
        assert_eq!(short.below(1.0).client_bound, None);
        assert_eq!(figures(0, 0).core_share, 0.0);
    }
}
