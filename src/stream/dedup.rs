//! The message ids that a stream remembers for its dedup window.
//!
//! Leans on `machine`.

use std::collections::{BTreeMap, VecDeque};

use xxhash_rust::xxh3::xxh3_128;

use crate::machine::Time;
use crate::nats::StreamSequence;

/// What stands for a message id.
pub(super) fn digest(id: &str) -> u128 {
    xxh3_128(id.as_bytes())
}

/// Message ids by digest, each with the sequence that it was stored at.
///
/// An id is kept as 128 bits of its hash: a million million ids meet by chance once in 10^14 runs.
/// Its size is bounded by what is published within the window, as in nats-server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct DedupWindow {
    window: Time,
    sequences: BTreeMap<u128, StreamSequence>,
    /// Oldest first.
    ages: VecDeque<(Time, u128)>,
}

impl DedupWindow {
    /// Remembers ids for `window`.
    pub const fn new(window: Time) -> Self {
        Self {
            window,
            sequences: BTreeMap::new(),
            ages: VecDeque::new(),
        }
    }

    /// Changes the window, for ids already known too.
    pub const fn set_window(&mut self, window: Time) {
        self.window = window;
    }

    /// The sequence of the message with this id, if it is inside the window.
    pub fn find(&mut self, now: Time, id: &str) -> Option<StreamSequence> {
        self.expire(now);
        if self.sequences.is_empty() {
            return None;
        }
        self.sequences.get(&digest(id)).copied()
    }

    /// Remembers an id that [`DedupWindow::find`] did not know.
    pub fn insert(&mut self, now: Time, id: &str, sequence: StreamSequence) {
        self.insert_digest(now, digest(id), sequence);
    }

    /// The same for an id of which only the digest is at hand.
    pub(super) fn insert_digest(&mut self, now: Time, key: u128, sequence: StreamSequence) {
        self.sequences.insert(key, sequence);
        self.ages.push_back((now, key));
    }

    /// Ids remembered, at the time of the last look.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    fn expire(&mut self, now: Time) {
        while let Some((at, key)) = self.ages.front() {
            if *at + self.window > now {
                return;
            }
            self.sequences.remove(key);
            self.ages.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_known_until_the_window_ends() {
        let mut window = DedupWindow::new(Time::from_secs(2));
        window.insert(Time::from_secs(1), "a", StreamSequence(7));
        assert_eq!(
            window.find(Time::from_millis(2_999), "a"),
            Some(StreamSequence(7))
        );
        assert_eq!(window.find(Time::from_millis(2_999), "b"), None);
        assert_eq!(window.find(Time::from_secs(3), "a"), None);
        assert!(window.is_empty());
    }

    #[test]
    fn a_shorter_window_forgets_what_is_older() {
        let mut window = DedupWindow::new(Time::from_secs(120));
        window.insert(Time::ZERO, "a", StreamSequence(1));
        window.set_window(Time::from_secs(1));
        assert_eq!(window.find(Time::from_secs(1), "a"), None);
    }
}
