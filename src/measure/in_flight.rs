//! The messages of one batch that no ack has covered yet, in the order of their sequences.
//!
//! Leans on nothing of ours.

use std::collections::VecDeque;

/// Places that a finished batch may leave to the next.
const SPARE_PLACES: usize = 1_024;

/// `sent` of a message that was reported missing or refused: it keeps its place, and no credit.
const DEAD: u64 = u64::MAX;

/// A message under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// When it was sent.
    pub(super) sent: u64,
    /// When the load wanted it sent.
    pub(super) intended: u64,
    /// Its batch sequence.
    pub(super) sequence: u32,
    /// Its size.
    pub(super) bytes: u32,
}

/// A ring of messages under way.
#[derive(Default)]
pub(super) struct InFlight {
    ring: VecDeque<Message>,
}

impl InFlight {
    /// Takes a message whose sequence is above all before; says whether it did.
    #[inline]
    pub(super) fn push(&mut self, message: Message) -> bool {
        let newest = self.ring.back().map_or(0, |last| last.sequence);
        let rises = message.sequence > newest;
        if rises {
            self.ring.push_back(message);
        }
        rises
    }

    /// Takes out every message up to `sequence`; those struck before are dropped.
    #[inline]
    pub(super) fn covered(&mut self, sequence: u64) -> impl Iterator<Item = Message> {
        let covered = |message: &&Message| u64::from(message.sequence) <= sequence;
        let places = self.ring.iter().take_while(covered).count();
        let drained = self.ring.drain(..places);
        drained.filter(|message| message.sent != DEAD)
    }

    /// Strikes the messages `from..until`, so that no ack covers them; says how many those were.
    pub(super) fn strike(&mut self, from: u64, until: u64) -> u64 {
        let before = |message: &Message| u64::from(message.sequence) < from;
        let start = self.ring.partition_point(before);
        let mut struck = 0;
        for message in self.ring.range_mut(start..) {
            if u64::from(message.sequence) >= until {
                break;
            }
            struck += u64::from(message.sent != DEAD);
            message.sent = DEAD;
        }
        struck
    }

    /// Empties the ring and frees what is large; says how many messages were under way.
    pub(super) fn clear(&mut self) -> u64 {
        let left = self.ring.iter().filter(|message| message.sent != DEAD);
        let left = left.count() as u64;
        self.ring.clear();
        if self.ring.capacity() > SPARE_PLACES {
            self.ring = VecDeque::new();
        }
        left
    }

    /// Places that the ring holds memory for.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u32) -> Message {
        Message {
            sent: 1,
            intended: 1,
            sequence,
            bytes: 1,
        }
    }

    #[test]
    fn struck_messages_are_counted_once_and_never_covered() {
        let mut flight = InFlight::default();
        for sequence in [1, 2, 3, 5, 6] {
            assert!(flight.push(message(sequence)));
        }
        assert!(!flight.push(message(6)), "not above all before");
        assert_eq!(flight.strike(2, 6), 3);
        assert_eq!(flight.strike(2, 7), 1);
        assert_eq!(flight.strike(9, u64::MAX), 0);
        assert_eq!(flight.strike(5, 2), 0);
        let covered: Vec<_> = flight.covered(3).map(|message| message.sequence).collect();
        assert_eq!(covered, [1]);
        assert!(flight.push(message(7)));
        assert_eq!(flight.clear(), 1);
        assert_eq!(flight.covered(u64::MAX).count(), 0);
    }

    #[test]
    fn a_large_ring_is_given_back() {
        let mut flight = InFlight::default();
        for sequence in 1..=5_000 {
            flight.push(message(sequence));
        }
        flight.clear();
        assert_eq!(flight.capacity(), 0);
    }
}
