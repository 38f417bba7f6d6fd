//! Random bytes used as choices: what turns them into input that nearly is right.
//!
//! Leans on nothing.

/// Hands out the bytes of an input as choices; 0 for ever when they are used up.
pub(crate) struct Dice<'a> {
    bytes: &'a [u8],
}

impl<'a> Dice<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else {
            return 0;
        };
        self.bytes = rest;
        *first
    }

    /// A number of 0 to `limit` - 1; `limit` is 1 or more.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % limit
    }

    /// One of `choices`, which is not empty.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(crate) fn flip(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// A number of any size, small ones and the largest more often.
    pub(crate) fn number(&mut self) -> u64 {
        let word = (0..8).fold(0, |word, _| word << 8 | u64::from(self.byte()));
        match self.byte() % 4 {
            0 => word,
            1 => word % 16,
            2 => u64::MAX - word % 4,
            _ => word >> (word % 64),
        }
    }

    /// A text of at most `pieces` pieces out of `choices`.
    pub(crate) fn text(&mut self, pieces: usize, choices: &[&str]) -> String {
        (0..self.below(pieces + 1))
            .map(|_| self.pick(choices))
            .collect()
    }

    /// `sample` with up to four changes: a piece put in or over it, a range cut out or doubled.
    pub(crate) fn spoiled(&mut self, sample: &[u8], pieces: &[&str]) -> Vec<u8> {
        let mut bytes = sample.to_vec();
        for _ in 0..self.below(5) {
            let from = self.below(bytes.len() + 1);
            let to = (from + self.below(8)).min(bytes.len());
            match self.byte() % 4 {
                0 => drop(bytes.splice(from..to, self.pick(pieces).bytes())),
                1 => drop(bytes.splice(from..from, self.pick(pieces).bytes())),
                2 => drop(bytes.drain(from..to)),
                _ => {
                    let doubled = bytes[from..to].to_vec();
                    drop(bytes.splice(from..from, doubled));
                }
            }
        }
        bytes
    }
}
