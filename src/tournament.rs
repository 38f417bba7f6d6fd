//! The earliest of many moments, found at once: eight in a match, the winners in the next row.
//!
//! Moving a moment costs a walk of one row for each factor of eight. Leans on `machine`.

use crate::machine::Time;

/// A tournament over the times of leaves: the earliest wins, the lowest leaf among equals. Leaves are
/// numbered from 0, and at the start none of them ever comes.
///
/// Time and leaf share a word, the leaf in the low bits, so that one comparison settles both and a
/// match is one cache line. What the leaves leave of 64 bits counts nanoseconds: 52 days with a
/// thousand publishers, nine hours with a hundred thousand. A moment beyond that is taken as
/// never; [`Tournament::horizon`] tells where it lies.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tournament {
    /// Rows of matches one behind the other, the final first. The winners of eight neighbouring
    /// matches of a row meet in one match of the row before it; the leaves are the sides of the
    /// last row.
    matches: Vec<[u64; SIDES]>,
    /// Where the last row begins.
    last_row: usize,
    /// Bits that name a leaf.
    leaf_bits: u32,
}

const SIDES: usize = 8;

impl Tournament {
    /// A tournament of so many leaves.
    pub fn new(leaves: usize) -> Self {
        let rows = leaves
            .max(1)
            .next_power_of_two()
            .ilog2()
            .div_ceil(SIDES.ilog2())
            .max(1);
        let last_row = (0..rows - 1).map(|row| SIDES.pow(row)).sum();
        let games = last_row + SIDES.pow(rows - 1);
        // Whoever never comes loses to everyone who does; among such it is all the same who wins.
        Self {
            matches: vec![[u64::MAX; SIDES]; games],
            last_row,
            leaf_bits: leaves.max(2).next_power_of_two().ilog2(),
        }
    }

    /// The first moment that is taken as never.
    pub const fn horizon(&self) -> Time {
        Time::from_nanos(u64::MAX >> self.leaf_bits)
    }

    fn entry(&self, leaf: usize, at: Time) -> u64 {
        if at >= self.horizon() {
            return u64::MAX;
        }
        at.as_nanos() << self.leaf_bits | leaf as u64
    }

    const fn time_of(&self, entry: u64) -> Time {
        if entry == u64::MAX {
            Time::NEVER
        } else {
            Time::from_nanos(entry >> self.leaf_bits)
        }
    }

    /// When a leaf comes; [`Time::NEVER`] if it does not.
    ///
    /// # Panics
    /// If there is no such leaf, here as in [`Tournament::set`].
    pub fn time(&self, leaf: usize) -> Time {
        self.time_of(self.matches[self.last_row + leaf / SIDES][leaf % SIDES])
    }

    /// The leaf that comes first, and when; [`Time::NEVER`] if none comes, whichever leaf it names.
    pub fn winner(&self) -> (Time, usize) {
        let winner = decide(&self.matches[0]);
        (
            self.time_of(winner),
            (winner & ((1 << self.leaf_bits) - 1)) as usize,
        )
    }

    /// Moves a leaf to another time.
    ///
    /// Walks up from it and stops where the winner stays the same. A match is played again only if its
    /// winner got later: who beats the winner wins, and who lost and still does not beat it changes
    /// nothing.
    pub fn set(&mut self, leaf: usize, at: Time) {
        let mut entry = self.entry(leaf, at);
        let (mut game, mut side) = (self.last_row + leaf / SIDES, leaf % SIDES);
        loop {
            let sides = &mut self.matches[game];
            let before = std::mem::replace(&mut sides[side], entry);
            if before == entry || game == 0 {
                return;
            }
            // The winner of match 0 meets nobody; those of 1..=8 meet in 0, of 9..=16 in 1.
            let next = ((game - 1) / SIDES, (game - 1) % SIDES);
            let winner = self.matches[next.0][next.1];
            if entry > winner {
                if before != winner {
                    return;
                }
                entry = decide(&self.matches[game]);
            }
            (game, side) = next;
        }
    }
}

fn decide(sides: &[u64; SIDES]) -> u64 {
    let [a, b, c, d, e, f, g, h] = *sides;
    a.min(b).min(c.min(d)).min(e.min(f).min(g.min(h)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_leaf_wins_and_the_lowest_among_equals() {
        let at = Time::from_nanos;
        let mut tournament = Tournament::new(70);
        assert_eq!(tournament.winner().0, Time::NEVER);
        tournament.set(69, at(7));
        tournament.set(8, at(7));
        assert_eq!(tournament.winner(), (at(7), 8));
        tournament.set(8, at(9));
        assert_eq!(tournament.winner(), (at(7), 69));
        tournament.set(69, Time::NEVER);
        assert_eq!(tournament.winner(), (at(9), 8));
        assert_eq!(
            (tournament.time(8), tournament.time(3)),
            (at(9), Time::NEVER)
        );
        tournament.set(8, tournament.horizon());
        assert_eq!(tournament.winner().0, Time::NEVER);
    }
}
