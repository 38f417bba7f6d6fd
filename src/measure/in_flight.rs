//! The messages of one batch that no ack has covered yet, in the order of their sequences.
//!
//! Leans on nothing of ours.

use std::collections::VecDeque;

/// Places that a finished batch may leave to the next.
const SPARE_PLACES: usize = 1_024;

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

/// Neighbours that are alike in all but their sequences: a burst costs one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// When they were sent.
    pub(super) sent: u64,
    /// When the load wanted them sent.
    pub(super) intended: u64,
    first: u32,
    /// How many messages they are.
    pub(super) messages: u32,
    /// The size of each.
    pub(super) bytes: u32,
    /// Reported missing or refused: they keep their place, and get no credit.
    dead: bool,
}

impl Stretch {
    const fn of(message: Message) -> Self {
        Self {
            sent: message.sent,
            intended: message.intended,
            first: message.sequence,
            messages: 1,
            bytes: message.bytes,
            dead: false,
        }
    }

    /// The sequence behind its last.
    const fn end(&self) -> u64 {
        self.first as u64 + self.messages as u64
    }

    fn goes_on_with(&self, message: Message) -> bool {
        self.end() == u64::from(message.sequence)
            && self.sent == message.sent
            && self.intended == message.intended
            && self.bytes == message.bytes
            && !self.dead
    }

    /// Takes off everything below `sequence`, which lies within.
    fn split_before(&mut self, sequence: u64) -> Self {
        let mut before = *self;
        before.messages = (sequence - u64::from(self.first)) as u32;
        self.first += before.messages;
        self.messages -= before.messages;
        before
    }
}

/// A ring of messages under way.
#[derive(Default)]
pub(super) struct InFlight {
    ring: VecDeque<Stretch>,
}

impl InFlight {
    /// Takes a message whose sequence is above all before; says whether it did.
    #[inline]
    pub(super) fn push(&mut self, message: Message) -> bool {
        match self.ring.back_mut() {
            Some(last) if u64::from(message.sequence) < last.end() => return false,
            Some(last) if last.goes_on_with(message) => last.messages += 1,
            _ => self.ring.push_back(Stretch::of(message)),
        }
        true
    }

    /// Takes out the first messages that are alike and not above `sequence`, if there are any.
    #[inline]
    pub(super) fn next_covered(&mut self, sequence: u64) -> Option<Stretch> {
        loop {
            let first = self.ring.front_mut()?;
            if u64::from(first.first) > sequence {
                return None;
            }
            let covered = if first.end() <= sequence.saturating_add(1) {
                self.ring.pop_front()?
            } else {
                first.split_before(sequence + 1)
            };
            if !covered.dead {
                return Some(covered);
            }
        }
    }

    /// Takes out one message, wherever it stands; `None` if it is not there or struck.
    pub(super) fn take(&mut self, sequence: u64) -> Option<Stretch> {
        let mut index = self
            .ring
            .partition_point(|stretch| stretch.end() <= sequence);
        let stretch = self.ring.get_mut(index)?;
        if u64::from(stretch.first) > sequence || stretch.dead {
            return None;
        }
        if u64::from(stretch.first) < sequence {
            let before = stretch.split_before(sequence);
            self.ring.insert(index, before);
            index += 1;
        }
        if self.ring[index].messages == 1 {
            return self.ring.remove(index);
        }
        Some(self.ring[index].split_before(sequence + 1))
    }

    /// Strikes the messages `from..until`, so that no ack covers them; says how many those were.
    pub(super) fn strike(&mut self, from: u64, until: u64) -> u64 {
        let mut index = self.ring.partition_point(|stretch| stretch.end() <= from);
        let mut struck = 0;
        while let Some(stretch) = self.ring.get_mut(index) {
            let first = u64::from(stretch.first);
            if first >= until {
                break;
            }
            // parts outside of the range stay as they are, in places of their own
            if first < from {
                let before = stretch.split_before(from);
                self.ring.insert(index, before);
            } else if stretch.end() > until {
                let mut inside = stretch.split_before(until);
                struck += inside.kill();
                self.ring.insert(index, inside);
            } else {
                struck += stretch.kill();
            }
            index += 1;
        }
        struck
    }

    /// Empties the ring and frees what is large; says how many messages were under way.
    pub(super) fn clear(&mut self) -> u64 {
        let left = self.ring.iter().filter(|stretch| !stretch.dead);
        let left = left.map(|stretch| u64::from(stretch.messages)).sum();
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

impl Stretch {
    /// Says how many that were alive.
    fn kill(&mut self) -> u64 {
        let was_dead = std::mem::replace(&mut self.dead, true);
        if was_dead {
            0
        } else {
            u64::from(self.messages)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use rand::RngExt;
    use std::collections::BTreeMap;

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
        assert_eq!(flight.next_covered(3), Some(Stretch::of(message(1))));
        assert_eq!(flight.next_covered(3), None);
        assert!(flight.push(message(7)));
        assert_eq!(flight.clear(), 1);
        assert_eq!(flight.next_covered(u64::MAX), None);
    }

    #[test]
    fn a_burst_takes_one_place() {
        let mut flight = InFlight::default();
        for sequence in 1..=10_000 {
            assert!(flight.push(message(sequence)));
        }
        assert!(flight.capacity() < 10);
        let covered = flight.next_covered(4_000).map(|stretch| stretch.messages);
        assert_eq!(covered, Some(4_000));
        assert_eq!(flight.clear(), 6_000);
    }

    /// Stretches against a map with an entry for each message.
    #[test]
    fn agrees_with_one_entry_for_each_message() {
        let mut draw = Seed(7).generator("in flight", 0);
        for _ in 0..200 {
            let mut flight = InFlight::default();
            let mut plain = BTreeMap::new();
            let mut next = 1_u32;
            for _ in 0..200 {
                match draw.random_range(0..7) {
                    0..4 => {
                        next += u32::from(draw.random_range(0..10) == 0);
                        let sent = u64::from(next / 5);
                        let new = Message {
                            sent,
                            ..message(next)
                        };
                        assert!(flight.push(new));
                        plain.insert(u64::from(next), sent);
                        next += 1;
                    }
                    4 => {
                        let until = u64::from(next.saturating_sub(draw.random_range(0..12)));
                        while let Some(covered) = flight.next_covered(until) {
                            let first = u64::from(covered.first);
                            for sequence in first..covered.end() {
                                assert!(sequence <= until);
                                assert_eq!(plain.remove(&sequence), Some(covered.sent));
                            }
                        }
                        assert!(plain.keys().all(|sequence| *sequence > until));
                    }
                    5 => {
                        let one = u64::from(next.saturating_sub(draw.random_range(0..12)));
                        let taken = flight.take(one);
                        assert!(taken.is_none_or(|taken| taken.messages == 1));
                        assert_eq!(taken.map(|taken| taken.sent), plain.remove(&one));
                    }
                    _ => {
                        let from = u64::from(next.saturating_sub(draw.random_range(0..12)));
                        let until = from + draw.random_range(0..6);
                        let before = plain.len();
                        plain.retain(|sequence, _| !(from..until).contains(sequence));
                        let struck = (before - plain.len()) as u64;
                        assert_eq!(flight.strike(from, until), struck);
                    }
                }
            }
            assert_eq!(flight.clear(), plain.len() as u64);
        }
    }

    #[test]
    fn a_large_ring_is_given_back() {
        let mut flight = InFlight::default();
        for sequence in 1..=5_000 {
            flight.push(Message {
                sent: sequence.into(),
                ..message(sequence)
            });
        }
        flight.clear();
        assert_eq!(flight.capacity(), 0);
    }
}
