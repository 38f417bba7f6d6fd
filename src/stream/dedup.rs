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
    /// In the order that they came, each with its time, if that was taken down.
    ages: VecDeque<(Option<Time>, u128)>,
    /// When those past the window are next looked for; never without ids.
    look: Option<Time>,
}

impl DedupWindow {
    /// Remembers ids for `window`.
    pub const fn new(window: Time) -> Self {
        Self {
            window,
            sequences: BTreeMap::new(),
            ages: VecDeque::new(),
            look: None,
        }
    }

    /// Changes the window, for ids already known too, which are gone through at once.
    pub const fn set_window(&mut self, window: Time) {
        if self.look.is_some() && self.window.as_nanos() != window.as_nanos() {
            self.look = Some(Time::ZERO);
        }
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
        self.push(now, Some(now), key, sequence);
    }

    /// The same for an id whose time is not taken down: it is forgotten when the ids before it are,
    /// or as the first one when the ids are next gone through, however young it is.
    pub fn insert_undated(&mut self, now: Time, id: &str, sequence: StreamSequence) {
        self.push(now, None, digest(id), sequence);
    }

    /// Ids remembered, at the time of the last look.
    pub fn len(&self) -> usize {
        self.sequences.len()
    }

    /// Whether no id is remembered.
    pub fn is_empty(&self) -> bool {
        self.sequences.is_empty()
    }

    fn push(&mut self, now: Time, dated: Option<Time>, key: u128, sequence: StreamSequence) {
        self.sequences.insert(key, sequence);
        self.ages.push_back((dated, key));
        self.look.get_or_insert(now + self.window);
    }

    /// Goes through the ids as often as was due by now: when the window of the first one ends, and then
    /// of the oldest one left (`stream.go`, `purgeMsgIds`).
    fn expire(&mut self, now: Time) {
        while let Some(at) = self.look.filter(|at| *at <= now) {
            self.look = self.forget(at);
        }
    }

    /// Forgets what is past the window at this time, up to the first id that is not; tells when that
    /// one will be.
    fn forget(&mut self, at: Time) -> Option<Time> {
        while let Some((dated, key)) = self.ages.front() {
            let end = dated.map(|stored| stored + self.window);
            if end.is_some_and(|end| end > at) {
                return end;
            }
            self.sequences.remove(key);
            self.ages.pop_front();
        }
        None
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

    #[test]
    fn an_id_without_a_time_goes_with_those_before_it() {
        let second = Time::from_secs;
        let mut window = DedupWindow::new(second(10));
        window.insert_undated(second(1), "a", StreamSequence(1));
        window.insert_undated(second(9), "b", StreamSequence(2));
        assert!(window.find(Time::from_millis(10_999), "b").is_some());
        assert_eq!(window.find(second(11), "b"), None);
        window.insert(second(12), "c", StreamSequence(3));
        window.insert_undated(second(20), "d", StreamSequence(4));
        window.insert(second(21), "e", StreamSequence(5));
        assert!(window.find(Time::from_millis(21_999), "d").is_some());
        assert_eq!(window.find(second(22), "d"), None);
        assert!(window.find(Time::from_millis(30_999), "e").is_some());
        assert_eq!(window.find(second(31), "e"), None);
        assert!(window.is_empty());
    }

    #[test]
    fn another_window_forgets_ids_without_a_time_at_once() {
        let remembers = |other: u64| {
            let mut window = DedupWindow::new(Time::from_secs(10));
            window.insert_undated(Time::from_secs(1), "a", StreamSequence(1));
            window.set_window(Time::from_secs(other));
            window.find(Time::from_secs(2), "a").is_some()
        };
        assert!(remembers(10));
        assert!(!remembers(5));
        assert!(!remembers(3_600));
    }
}
