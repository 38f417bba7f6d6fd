//! What readers ask of a stream: messages by subject, by order and by time.
//!
//! Leans on `log` and `subjects`. A filter that no subject can match finds nothing.

use std::collections::BTreeMap;

use super::Stream;
use super::subjects::{self, Subjects};
use crate::batch::message::SubjectId;
use crate::machine::Time;
use crate::nats::{StreamSequence, subject};

/// Which subjects some filters take, looked up once.
enum Wanted {
    All,
    One(Option<SubjectId>),
    Set(Vec<bool>),
}

impl Wanted {
    fn new(subjects: &Subjects, filters: &[&str]) -> Self {
        match filters {
            [] | [">"] => Self::All,
            [one] if subject::is_literal(one) => Self::One(subjects.find(one)),
            filters => Self::Set(
                (0..subjects.len() as u32)
                    .map(|id| {
                        let text = subjects.text(SubjectId(id));
                        filters.iter().any(|filter| subjects::matches(filter, text))
                    })
                    .collect(),
            ),
        }
    }

    fn takes(&self, subject: SubjectId) -> bool {
        match self {
            Self::All => true,
            Self::One(id) => *id == Some(subject),
            Self::Set(set) => set.get(subject.0 as usize).copied().unwrap_or(false),
        }
    }
}

impl Stream {
    /// The first message at or after `from` whose subject matches `filter`; `None`: any subject.
    pub fn next_matching(
        &self,
        subjects: &Subjects,
        filter: Option<&str>,
        from: StreamSequence,
    ) -> Option<StreamSequence> {
        let mut found = self.matching(subjects, filter, from);
        found.next()
    }

    /// All messages at or after `from` whose subject matches `filter`, in order.
    pub fn matching(
        &self,
        subjects: &Subjects,
        filter: Option<&str>,
        from: StreamSequence,
    ) -> impl Iterator<Item = StreamSequence> + use<'_> {
        let wanted = Wanted::new(subjects, filter.as_slice());
        let found = self.log.from(from);
        found
            .filter(move |(_, record)| wanted.takes(record.subject))
            .map(|(at, _)| at)
    }

    /// The last message whose subject matches `filter`.
    pub fn last_matching(&self, subjects: &Subjects, filter: &str) -> Option<StreamSequence> {
        let wanted = Wanted::new(subjects, &[filter]);
        let last = self
            .subject_states()
            .filter(|(id, _)| wanted.takes(*id))
            .map(|(_, last)| last)
            .max();
        last.filter(|last| last.0 > 0)
    }

    /// The last message of each subject that one of `filters` takes, none above `up_to`, in the
    /// order of the stream.
    pub fn last_of_each(
        &self,
        subjects: &Subjects,
        filters: &[&str],
        up_to: StreamSequence,
    ) -> Vec<StreamSequence> {
        let wanted = Wanted::new(subjects, filters);
        let mut last: Vec<StreamSequence> = if up_to >= self.log.last() {
            self.subject_states()
                .filter(|(id, last)| last.0 > 0 && wanted.takes(*id))
                .map(|(_, last)| last)
                .collect()
        } else {
            let mut last = BTreeMap::new();
            let before = self.log.from(self.log.first());
            for (at, record) in before.take_while(|(at, _)| *at <= up_to) {
                if wanted.takes(record.subject) {
                    last.insert(record.subject, at);
                }
            }
            last.into_values().collect()
        };
        last.sort_unstable();
        last
    }

    /// Messages of each subject that `filter` takes, by text.
    pub fn counts_of_each<'a>(
        &self,
        subjects: &'a Subjects,
        filter: &str,
    ) -> BTreeMap<&'a str, u64> {
        let wanted = Wanted::new(subjects, &[filter]);
        let states = (0..).zip(&self.subjects);
        states
            .filter(|(id, state)| state.count > 0 && wanted.takes(SubjectId(*id)))
            .map(|(id, state)| (subjects.text(SubjectId(id)), state.count))
            .collect()
    }

    /// The first sequence that was stored at `at` or later, as far as the log knows moments; one
    /// above the last if there is none.
    pub fn first_since(&self, at: Time) -> StreamSequence {
        let (mut low, mut high) = (self.log.first().0.max(1), self.log.last().0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            let stored = self.log.stored_at(StreamSequence(middle));
            if stored.unwrap_or(Time::ZERO) < at {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        StreamSequence(low)
    }

    /// Each subject and its last sequence, 0 without messages.
    fn subject_states(&self) -> impl Iterator<Item = (SubjectId, StreamSequence)> + '_ {
        let states = (0..).zip(&self.subjects);
        states.map(|(id, state)| (SubjectId(id), StreamSequence(state.last)))
    }
}
