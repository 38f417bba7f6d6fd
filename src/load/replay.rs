//! Arrivals at the moments of a file, once or again and again.
//!
//! Leans on `scenario` for the file.

use std::sync::Arc;

use crate::scenario::{MomentShare, Publishers};

/// The moments of one publisher, in nanoseconds since its start.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    moments: Arc<[u64]>,
    /// Its own ones: the first, and then each so many further on.
    first: usize,
    stride: usize,
    /// How many those are.
    own: u64,
    /// They begin anew after so long.
    every: Option<u64>,
    /// Arrivals that are over.
    taken: u64,
}

impl Replay {
    /// The arrivals of publisher number `index` of its group. A group whose file was not read has none.
    pub(super) fn new(group: &Publishers, index: u32) -> Self {
        let moments = group.moments.as_ref();
        let moments: Arc<[u64]> =
            moments.map_or_else(|| Arc::from([]), |read| Arc::clone(&read.ns));
        let how = group
            .timestamps
            .as_ref()
            .map(crate::scenario::Timestamps::read);
        let (first, stride) = match how.as_ref().map(|how| how.share) {
            Some(MomentShare::Deal) => (index as usize, group.count.max(1) as usize),
            Some(MomentShare::Copy) | None => (0, 1),
        };
        let own = moments.len().saturating_sub(first).div_ceil(stride);
        Self {
            moments,
            first,
            stride,
            own: own as u64,
            every: how
                .and_then(|how| how.repeat_every)
                .map(|every| every.0.as_nanos()),
            taken: 0,
        }
    }

    /// When the next message arrives; none: never.
    pub(super) fn upcoming(&self) -> Option<u64> {
        let round = self.taken.checked_div(self.own)?;
        let begins = match self.every {
            None if round > 0 => return None,
            None => 0,
            Some(every) => every.checked_mul(round)?,
        };
        let place = (self.taken % self.own) as usize;
        begins.checked_add(self.moments[self.first + place * self.stride])
    }

    /// Goes on to the message after the next.
    pub(super) const fn advance(&mut self) {
        self.taken += 1;
    }

    /// Passes over the arrivals before `until`, `most` at the most, and says how many they were.
    pub(super) fn pass(&mut self, until: u64, most: u64) -> u64 {
        let passed = self.before(until).saturating_sub(self.taken).min(most);
        self.taken += passed;
        passed
    }

    /// How many arrivals there are before `until`, from the start on.
    fn before(&self, until: u64) -> u64 {
        let (rounds, rest) = match self.every {
            None => (0, until),
            Some(every) => (until / every.max(1), until % every.max(1)),
        };
        let all = self.moments.partition_point(|at| *at < rest);
        let own = all.saturating_sub(self.first).div_ceil(self.stride);
        self.own.saturating_mul(rounds).saturating_add(own as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::scenario::{Moments, Timestamps, TimestampsFile};
    use crate::units::Span;

    fn replay(index: u32, share: MomentShare, every: Option<u64>) -> Replay {
        let how = TimestampsFile {
            share,
            repeat_every: every.map(|every| Span(Time::from_nanos(every))),
            ..Timestamps::File("x".to_owned()).read()
        };
        let moments = Moments::parse(b"0ns\n5ns\n5ns\n9ns\n20ns\n", &how).unwrap();
        let group = Publishers {
            count: 2,
            timestamps: Some(Timestamps::Read(how)),
            moments: Some(moments),
            ..Publishers::default()
        };
        Replay::new(&group, index)
    }

    fn all(mut replay: Replay, until: u64) -> Vec<u64> {
        let mut moments = Vec::new();
        while let Some(at) = replay.upcoming().filter(|at| *at < until) {
            moments.push(at);
            replay.advance();
        }
        moments
    }

    #[test]
    fn each_has_a_copy_or_they_share() {
        assert_eq!(
            all(replay(1, MomentShare::Copy, None), 99),
            [0, 5, 5, 9, 20]
        );
        assert_eq!(all(replay(0, MomentShare::Deal, None), 99), [0, 5, 20]);
        assert_eq!(all(replay(1, MomentShare::Deal, None), 99), [5, 9]);
        assert!(all(replay(7, MomentShare::Deal, None), 99).is_empty());
        assert!(all(Replay::new(&Publishers::default(), 0), 99).is_empty());
    }

    #[test]
    fn a_file_begins_anew_every_so_often() {
        let moments = all(replay(1, MomentShare::Deal, Some(30)), 99);
        assert_eq!(moments, [5, 9, 35, 39, 65, 69, 95]);
    }

    #[test]
    fn passing_over_arrivals_is_as_asking_for_them() {
        for every in [None, Some(21), Some(30)] {
            for share in [MomentShare::Copy, MomentShare::Deal] {
                for until in 0..100 {
                    let expected = all(replay(1, share, every), until).len() as u64;
                    let mut passed = replay(1, share, every);
                    let first = passed.pass(until, 1);
                    assert_eq!(first, expected.min(1));
                    assert_eq!(passed.pass(until, u64::MAX), expected - first);
                    assert!(passed.upcoming().is_none_or(|at| at >= until));
                }
            }
        }
    }
}
