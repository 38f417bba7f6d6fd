//! One seed per run, split by label into independent generators.
//!
//! A component draws only from the generator of its own label, so adding a publisher or a fault
//! does not reshuffle what the others draw. Leans on nothing of ours.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The seed of a run. Everything random in a run follows from it and from labels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seed(pub u64);

/// The generator behind every draw: an algorithm fixed by name, so that a seed means the same in
/// every version.
pub type Generator = ChaCha8Rng;

impl Seed {
    /// The child seed of `label` and `index`, independent of every other child.
    pub fn child(self, label: &str, index: u64) -> Self {
        let mut bytes = Vec::with_capacity(label.len() + 8);
        bytes.extend_from_slice(label.as_bytes());
        bytes.extend_from_slice(&index.to_le_bytes());
        Self(xxh3_64_with_seed(&bytes, self.0))
    }

    /// The generator of `label` and `index`.
    pub fn generator(self, label: &str, index: u64) -> Generator {
        ChaCha8Rng::seed_from_u64(self.child(label, index).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::Rng;

    #[test]
    fn labels_and_indexes_are_independent() {
        let draw = |label, index| Seed(7).generator(label, index).next_u64();
        assert_eq!(draw("link", 0), draw("link", 0));
        assert_ne!(draw("link", 0), draw("link", 1));
        assert_ne!(draw("link", 0), draw("disk", 0));
        assert_ne!(draw("link", 0), Seed(8).generator("link", 0).next_u64());
    }
}
