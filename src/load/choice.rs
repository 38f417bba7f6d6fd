//! Which of its subjects each message of a publisher goes to.
//!
//! Pure: the generator is seeded. Leans on `scenario` for the settings and on `seed`.

use std::sync::Arc;

use rand::RngExt;

use crate::scenario::{Publishers, SubjectChoice};
use crate::seed::Generator;

/// The weight of the likeliest subject.
const FIRST_WEIGHT: u64 = 1 << 40;

/// What the subjects of a group are chosen by.
#[derive(Clone, Debug)]
pub(super) enum ChoiceOfGroup {
    InTurn,
    Random,
    /// The weights up to and with each subject added up.
    Zipf(Arc<[u64]>),
}

impl ChoiceOfGroup {
    pub(super) fn of(group: &Publishers) -> Self {
        match group.subject_choice {
            // the only one needs no choice
            _ if group.subjects <= 1 => Self::InTurn,
            SubjectChoice::InTurn => Self::InTurn,
            SubjectChoice::Random => Self::Random,
            SubjectChoice::Zipf => {
                let mut up_to = 0;
                let weights = (1..=u64::from(group.subjects)).map(|rank| {
                    up_to += FIRST_WEIGHT / rank;
                    up_to
                });
                Self::Zipf(weights.collect())
            }
        }
    }
}

/// The choices of one publisher, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    group: ChoiceOfGroup,
    subjects: u32,
    next: u32,
    generator: Option<Box<Generator>>,
}

impl Choice {
    pub(super) fn new(
        group: ChoiceOfGroup,
        subjects: u32,
        generator: impl FnOnce() -> Generator,
    ) -> Self {
        let generator = match group {
            ChoiceOfGroup::InTurn => None,
            ChoiceOfGroup::Random | ChoiceOfGroup::Zipf(_) => Some(Box::new(generator())),
        };
        Self {
            group,
            subjects: subjects.max(1),
            next: 0,
            generator,
        }
    }

    /// The subject of the next message, counted from 0.
    pub(super) fn next(&mut self) -> u32 {
        match (&self.group, &mut self.generator) {
            (ChoiceOfGroup::Random, Some(generator)) => generator.random_range(0..self.subjects),
            (ChoiceOfGroup::Zipf(weights), Some(generator)) => {
                let drawn = generator.random_range(0..weights.last().copied().unwrap_or(1));
                weights.partition_point(|up_to| *up_to <= drawn) as u32
            }
            (ChoiceOfGroup::InTurn | ChoiceOfGroup::Random | ChoiceOfGroup::Zipf(_), _) => {
                let subject = self.next;
                self.next += 1;
                if self.next == self.subjects {
                    self.next = 0;
                }
                subject
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    fn choose(subject_choice: SubjectChoice, subjects: u32, count: usize) -> Vec<u32> {
        let group = Publishers {
            subject_choice,
            subjects,
            ..Publishers::default()
        };
        let generator = || Seed(1).generator("subject", 0);
        let mut choice = Choice::new(ChoiceOfGroup::of(&group), subjects, generator);
        (0..count).map(|_| choice.next()).collect()
    }

    #[test]
    fn in_turn_they_come_one_after_the_other() {
        assert_eq!(choose(SubjectChoice::InTurn, 3, 5), [0, 1, 2, 0, 1]);
        for word in [SubjectChoice::Random, SubjectChoice::Zipf] {
            assert_eq!(choose(word, 1, 3), [0, 0, 0]);
        }
    }

    #[test]
    fn at_random_all_are_as_likely_and_by_zipf_the_kth_is_k_times_less_so() {
        let harmonic: f64 = (1..=10).map(|rank| 1.0 / f64::from(rank)).sum();
        for word in [SubjectChoice::Random, SubjectChoice::Zipf] {
            let chosen = choose(word, 10, 100_000);
            for subject in 0..10 {
                let count = chosen.iter().filter(|one| **one == subject).count() as f64;
                let expected = match word {
                    SubjectChoice::Zipf => 1e5 / harmonic / f64::from(subject + 1),
                    SubjectChoice::Random | SubjectChoice::InTurn => 1e4,
                };
                let deviation = expected.sqrt();
                assert!(
                    (count - expected).abs() < 5.0 * deviation,
                    "{subject}: {count}"
                );
            }
        }
    }
}
