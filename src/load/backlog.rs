//! The arrivals of a publisher ahead of it: how many of them there are up to a moment, without a publisher
//! that takes them.
//!
//! Leans on `arrival` and the pauses of `scenario`.

use super::Arrivals;
use crate::machine::Time;
use crate::scenario::Pause;

/// Poisson arrivals of a backlog that are drawn one by one before their mean rate is taken.
const OWED_DRAWS: u64 = 1 << 20;

/// Arrivals from a message of a batch on, as a publisher in time would take them.
#[derive(Clone, Debug)]
pub(super) struct Backlog<'p> {
    pub(super) arrivals: Arrivals,
    /// An arrival that is taken from `arrivals` and not yet handed out.
    pub(super) due: Option<Time>,
    pauses: &'p [Pause],
    messages: u32,
    /// Place in the batch, and the next of its pauses.
    sequence: u32,
    next_pause: usize,
}

impl<'p> Backlog<'p> {
    /// Arrivals from message `sequence` of a batch of `messages` on, before pause `next_pause`.
    pub(super) fn new(
        (arrivals, due): (Arrivals, Option<Time>),
        (pauses, messages): (&'p [Pause], u32),
        (sequence, next_pause): (u32, usize),
    ) -> Self {
        Self {
            arrivals,
            due,
            pauses,
            messages,
            sequence,
            next_pause,
        }
    }

    /// Passes over the arrivals before `until`, `most` at the most, and says how many they were.
    pub(super) fn pass(&mut self, until: Time, most: u64) -> u64 {
        let mut draws = OWED_DRAWS;
        let mut owed = 0;
        while owed < most {
            if self.sequence == self.messages {
                (self.sequence, self.next_pause) = (0, 0);
            }
            // only pauses part the messages: without any, batches make no difference
            let stretch = match self.pauses.get(self.next_pause) {
                _ if self.pauses.is_empty() => most - owed,
                Some(pause) => u64::from(pause.after.min(self.messages) - self.sequence),
                None => u64::from(self.messages - self.sequence),
            };
            let stretch = stretch.min(most - owed);
            let mut passed = 0;
            if let Some(due) = self.due {
                if due >= until {
                    break;
                }
                self.due = None;
                passed = 1;
            }
            passed += self.arrivals.pass(until, stretch - passed, &mut draws);
            owed += passed;
            let more = u32::try_from(passed).unwrap_or(u32::MAX);
            self.sequence = self.sequence.saturating_add(more);
            if passed < stretch {
                break;
            }
            while let Some(pause) = self.pauses.get(self.next_pause)
                && pause.after <= self.sequence
            {
                self.arrivals.pause(until, pause.span.0);
                self.next_pause += 1;
            }
        }
        owed
    }

    /// The publisher leaves at `at` for so long: its batch is over, and what would arrive then arrives later
    /// by as much.
    pub(super) fn leave(&mut self, at: Time, span: Time) {
        (self.sequence, self.next_pause) = (0, 0);
        self.arrivals.pause(at, span);
        self.due = self
            .due
            .map(|due| if due == Time::NEVER { due } else { due + span });
    }
}
