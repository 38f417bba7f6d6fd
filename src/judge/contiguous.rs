//! How far a batch is dealt with at the server without a hole.
//!
//! With replicas a duplicate is known as it is checked, before what comes before it is stored.

use std::collections::BTreeSet;

use crate::nats::BatchSequence;

/// The highest batch sequence up to which everything is stored or a duplicate.
#[derive(Clone, Debug, Default)]
pub(super) struct Contiguous {
    up_to: u64,
    /// Duplicates above that.
    ahead: BTreeSet<u64>,
}

impl Contiguous {
    /// Up to here there is no hole; 0 before the first message.
    pub(super) const fn up_to(&self) -> BatchSequence {
        BatchSequence(self.up_to)
    }

    /// A message was stored.
    pub(super) fn stored(&mut self, sequence: BatchSequence) {
        if sequence.0 == self.up_to + 1 {
            self.up_to = sequence.0;
            while !self.ahead.is_empty() && self.ahead.remove(&(self.up_to + 1)) {
                self.up_to += 1;
            }
        }
    }

    /// A message is the duplicate of a stored one.
    pub(super) fn duplicate(&mut self, sequence: BatchSequence) {
        if sequence.0 > self.up_to + 1 {
            self.ahead.insert(sequence.0);
        } else {
            self.stored(sequence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duplicate_counts_once_what_is_before_it_is_stored() {
        let mut reached = Contiguous::default();
        reached.stored(BatchSequence(1));
        reached.duplicate(BatchSequence(3));
        reached.duplicate(BatchSequence(4));
        reached.duplicate(BatchSequence(6));
        assert_eq!(reached.up_to(), BatchSequence(1));
        reached.stored(BatchSequence(2));
        assert_eq!(reached.up_to(), BatchSequence(4));
        reached.duplicate(BatchSequence(5));
        assert_eq!(reached.up_to(), BatchSequence(6));
        reached.stored(BatchSequence(8));
        assert_eq!(reached.up_to(), BatchSequence(6), "a hole");
    }
}
