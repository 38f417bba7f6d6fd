//! The stream read back, and held to what the publishers say.
//!
//! Payloads of 16 bytes and more name their message, so that loss, duplicates and order are told
//! exactly; shorter ones are counted by subject. Memory follows the batches and their holes, not
//! the messages. Leans on `claims` and the payloads of `load`.

use std::collections::BTreeMap;

use super::claims::{Claim, Claims};
use super::sequences::{Came, Sequences};
use crate::event::{BatchNumber, Outcome, PublisherId};
use crate::load::Identity;
use crate::nats::{BatchSequence, GapMode};

/// At most so many findings are kept; the rest are counted.
const KEPT: usize = 100;

/// What was found in the stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReadBack {
    /// Messages of this run, each counted once.
    pub stored: u64,
    /// Published and not stored.
    pub lost: u64,
    /// Stored again: copies beyond the first.
    pub duplicates: u64,
    /// Stored behind a later message of the same batch.
    pub out_of_order: u64,
    /// Messages of nobody in this run, or with a changed payload.
    pub foreign: u64,
    /// Messages that the stream dropped at a limit before they were read.
    pub evicted: u64,
    /// Messages too short to name themselves: `stored` and `lost` count them by subject alone.
    pub only_counted: u64,
    /// Everything between the start of the run and the end of the stream was read.
    pub complete: bool,
    /// Where the stream breaks what publishers were promised.
    pub findings: Vec<Finding>,
    /// Batches that were told of missing messages which are there, by a leader that stood still
    /// (`deposed-leader-speaks`).
    pub false_gaps: u64,
    /// Findings beyond those kept.
    pub more_findings: u64,
}

/// A promise that the stream does not keep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Whose message.
    pub publisher: PublisherId,
    /// Of which batch.
    pub batch: BatchNumber,
    /// The first message concerned.
    pub sequence: BatchSequence,
    /// What was promised, and what is there.
    pub what: String,
}

/// What may lawfully be missing from the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Allowances {
    /// The stream drops old messages at a limit, or on request of a header.
    pub evicts: bool,
    /// Message ids of the file's own making may repeat.
    pub deduplicates: bool,
}

/// Takes the messages of the stream in their order, then compares.
#[derive(Debug, Default)]
pub(super) struct Reader {
    batches: BTreeMap<BatchNumber, Seen>,
    foreign: u64,
    read: u64,
    probes: u64,
    short: BTreeMap<u32, u64>,
}

/// What is there of one batch.
#[derive(Debug, Default)]
struct Seen {
    came: Sequences,
    distinct: u64,
    duplicates: u64,
    first_duplicate: u64,
    out_of_order: u64,
    first_out_of_order: u64,
}

impl Reader {
    /// A message that names itself; gives the number of its batch, if the run has it.
    pub(super) fn identified(
        &mut self,
        identity: Identity,
        claims: &Claims,
    ) -> Option<BatchNumber> {
        self.read += 1;
        let Some(batch) = claims.find(identity.publisher, identity.batch) else {
            self.foreign += 1;
            return None;
        };
        let seen = self.batches.entry(batch).or_default();
        seen.take(u64::from(identity.sequence));
        Some(batch)
    }

    /// A message that is too short to name itself, in bucket `bucket` of subjects.
    pub(super) fn short(&mut self, bucket: u32) {
        self.read += 1;
        *self.short.entry(bucket).or_default() += 1;
    }

    /// A message of a probe.
    pub(super) const fn of_probe(&mut self) {
        self.read += 1;
        self.probes += 1;
    }

    /// Messages of probes so far.
    pub(super) const fn probes(&self) -> u64 {
        self.probes
    }

    /// A message of nobody in this run.
    pub(super) fn foreign(&mut self) {
        self.read += 1;
        self.foreign += 1;
    }

    /// Compares. `short_expected` says for each bucket of short messages how many were published,
    /// `between` how many sequences lie between the start of the run and the end of the stream.
    pub(super) fn finish(
        self,
        claims: &Claims,
        short_expected: &BTreeMap<u32, u64>,
        is_short: impl Fn(PublisherId) -> bool,
        allowances: Allowances,
        between: u64,
    ) -> ReadBack {
        let mut result = ReadBack {
            foreign: self.foreign,
            evicted: between.saturating_sub(self.read),
            complete: true,
            ..ReadBack::default()
        };
        let nothing = Seen::default();
        for (number, claim) in (0..).map(BatchNumber).zip(claims.batches()) {
            if is_short(claim.publisher) {
                continue;
            }
            let seen = self.batches.get(&number).unwrap_or(&nothing);
            result.stored += seen.distinct;
            result.duplicates += seen.duplicates;
            result.out_of_order += seen.out_of_order;
            result.lost += claim.published.0.saturating_sub(seen.distinct);
            seen.compare(number, claim, allowances, &mut result);
        }
        for (bucket, expected) in short_expected {
            let found = self.short.get(bucket).copied().unwrap_or(0);
            result.only_counted += found;
            result.stored += found.min(*expected);
            result.lost += expected.saturating_sub(found);
            result.duplicates += found.saturating_sub(*expected);
        }
        if allowances.evicts {
            result.lost = result.lost.saturating_sub(result.evicted);
        }
        result
    }
}

impl Seen {
    fn take(&mut self, sequence: u64) {
        match self.came.take(sequence) {
            Came::First => self.distinct += 1,
            Came::Late => {
                if self.out_of_order == 0 {
                    self.first_out_of_order = sequence;
                }
                self.out_of_order += 1;
                self.distinct += 1;
            }
            Came::Again => {
                if self.duplicates == 0 {
                    self.first_duplicate = sequence;
                }
                self.duplicates += 1;
            }
        }
    }

    fn compare(
        &self,
        batch: BatchNumber,
        claim: &Claim,
        allowances: Allowances,
        result: &mut ReadBack,
    ) {
        let (of_leaders, of_deposed) = claim.told_missing();
        let told_missing = self.came.first_within(of_leaders);
        let told_by_deposed = self.came.first_within(of_deposed);
        result.false_gaps += u64::from(told_by_deposed.is_some());
        let mut find = |sequence: u64, what: String| {
            if result.findings.len() == KEPT {
                result.more_findings += 1;
                return;
            }
            result.findings.push(Finding {
                publisher: claim.publisher,
                batch,
                sequence: BatchSequence(sequence),
                what,
            });
        };
        let covered = claim.acknowledged.0;
        if !allowances.evicts && !allowances.deduplicates {
            for (first, last) in self.came.missing(covered.min(claim.published.0)) {
                if let Some(acked) = &claim.acked_singly {
                    let range = std::iter::once((first, last + 1));
                    if let Some(lost) = acked.first_within(range) {
                        find(
                            lost,
                            "acknowledged by a PubAck of its own, and not in the stream".to_owned(),
                        );
                    }
                } else if !claim.accounts_for(first, last) {
                    let mode = claim.gap.as_str();
                    find(
                        first,
                        format!(
                            "an ack for {covered} covers message {first} to {last} in gap mode {mode}, which the stream does not have"
                        ),
                    );
                }
            }
        }
        if !allowances.deduplicates
            && let Some(first) = told_missing
        {
            let gaps = claim.gaps.len();
            find(
                first,
                format!("reported missing in one of {gaps} gaps, and stored"),
            );
        }
        if covered > claim.published.0 {
            let published = claim.published;
            find(
                covered,
                format!("an ack covers message {covered}, and only {published} were published"),
            );
        }
        // a commit that was given up on may have been sent, or not
        let uncertain = u64::from(claim.outcome != Some(Outcome::Committed));
        if self.came.highest() > claim.published.0 + uncertain {
            let published = claim.published;
            find(
                self.came.highest(),
                format!("the stream has this message, and only {published} were published"),
            );
        }
        if self.duplicates > 0 {
            let (count, first) = (self.duplicates, self.first_duplicate);
            find(first, format!("stored twice, the first of {count}"));
        }
        if self.out_of_order > 0 {
            let (count, first) = (self.out_of_order, self.first_out_of_order);
            find(
                first,
                format!("stored behind a later message, the first of {count}"),
            );
        }
    }
}

type Range = (u64, u64);

impl Claim {
    /// The messages that the publisher was told to be missing, first and first beyond of each range: by a leader,
    /// and by one that may have stood still and be deposed.
    fn told_missing(&self) -> (impl Iterator<Item = Range>, impl Iterator<Item = Range>) {
        let (of_leaders, others) = self.gaps.split_at(self.gaps_of_leaders);
        let range =
            |(expected, received): &(BatchSequence, BatchSequence)| (expected.0, received.0);
        (of_leaders.iter().map(range), others.iter().map(range))
    }

    /// Whether the publisher was told that these messages are missing or refused.
    fn accounts_for(&self, first: u64, last: u64) -> bool {
        match self.gap {
            // a publisher that cannot say what it was told is not held to it
            GapMode::Ok if self.vague => true,
            GapMode::Ok => (first..=last).all(|sequence| {
                let sequence = BatchSequence(sequence);
                self.refused.contains(&sequence)
                    || self
                        .gaps
                        .iter()
                        .any(|(expected, received)| (*expected..*received).contains(&sequence))
            }),
            GapMode::Fail => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, Observer};
    use crate::machine::Time;
    use crate::nats::{Operation, StreamSequence};

    /// One batch of publisher 0 that sent 10 messages and saw an ack for `acked`.
    fn claims(gap: GapMode, acked: u64, more: &[Event]) -> Claims {
        let batch = BatchNumber(0);
        let mut claims = Claims::default();
        let mut see = |event| claims.see(Time::ZERO, &event);
        see(Event::BatchStarted {
            publisher: PublisherId(0),
            batch,
            flow: 10,
            outstanding_acks: 2,
            gap,
        });
        for sequence in 1..=10 {
            see(Event::Published {
                batch,
                operation: Operation::Append,
                bytes: 16,
                sequence: BatchSequence(sequence),
                intended: Time::ZERO,
            });
        }
        see(Event::AckSeen {
            batch,
            flow: 10,
            sequence: BatchSequence(acked),
        });
        more.iter().for_each(|event| see(*event));
        claims
    }

    fn read(claims: &Claims, sequences: impl IntoIterator<Item = u32>) -> ReadBack {
        let mut reader = Reader::default();
        let mut count = 0;
        for sequence in sequences {
            count += 1;
            let identity = Identity {
                publisher: 0,
                batch: 0,
                sequence,
            };
            reader.identified(identity, claims);
        }
        let short = BTreeMap::new();
        reader.finish(claims, &short, |_| false, Allowances::default(), count)
    }

    fn whats(result: &ReadBack) -> Vec<(u64, &str)> {
        let findings = result.findings.iter();
        findings
            .map(|finding| (finding.sequence.0, finding.what.as_str()))
            .collect()
    }

    #[test]
    fn a_whole_batch_gives_no_findings() {
        let result = read(&claims(GapMode::Fail, 10, &[]), 1..=10);
        assert_eq!((result.stored, result.lost), (10, 0));
        assert!(result.findings.is_empty());
    }

    #[test]
    fn loss_above_the_ack_is_counted_and_below_it_found() {
        let result = read(&claims(GapMode::Fail, 7, &[]), 1..=7);
        assert_eq!((result.stored, result.lost), (7, 3));
        assert!(result.findings.is_empty());
        let result = read(&claims(GapMode::Fail, 8, &[]), (1..=4).chain(6..=7));
        assert_eq!((result.stored, result.lost), (6, 4));
        let found: Vec<_> = whats(&result).iter().map(|(at, _)| *at).collect();
        assert_eq!(found, [5, 8]);
    }

    /// Messages 1 to 7 and 9 have a PubAck each; the last of them is not told before message 9's.
    #[test]
    fn each_message_with_its_own_ack_is_looked_for() {
        let acked = |sequence| Event::MessageAckSeen {
            batch: BatchNumber(0),
            duplicate: false,
            sequence: BatchSequence(sequence),
            stream_sequence: StreamSequence(sequence),
        };
        let told: Vec<_> = [1, 2, 3, 4, 5, 6, 9, 7].map(acked).into();
        let found = |stored: &[u32]| {
            let claims = claims(GapMode::Ok, 0, &told);
            let result = read(&claims, stored.iter().copied());
            whats(&result).iter().map(|(at, _)| *at).collect::<Vec<_>>()
        };
        assert_eq!(found(&[1, 2, 3, 4, 5, 6, 7, 9]), [0; 0]);
        assert_eq!(found(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), [0; 0]);
        assert_eq!(found(&[1, 2, 3, 5, 6, 7, 10]), [4, 9]);
        assert_eq!(found(&[1, 2, 3, 4, 5, 6]), [7]);
    }

    #[test]
    fn gap_mode_ok_wants_each_hole_reported() {
        let gap = Event::GapSeen {
            batch: BatchNumber(0),
            expected: BatchSequence(4),
            received: BatchSequence(6),
        };
        let there = || (1..=3).chain(6..=10);
        let reported = read(&claims(GapMode::Ok, 10, &[gap]), there());
        assert_eq!((reported.lost, reported.findings.len()), (2, 0));
        let unreported = read(&claims(GapMode::Ok, 10, &[]), there());
        assert_eq!(whats(&unreported)[0].0, 4);
    }

    #[test]
    fn what_is_reported_missing_is_missing() {
        let gap = |expected, received| Event::GapSeen {
            batch: BatchNumber(0),
            expected: BatchSequence(expected),
            received: BatchSequence(received),
        };
        let told = [gap(2, 3), gap(4, 8)];
        let found = |stored: &[u32]| {
            let claims = claims(GapMode::Ok, 0, &told);
            let result = read(&claims, stored.iter().copied());
            let findings = result.findings.iter();
            findings.map(|found| found.sequence.0).collect::<Vec<_>>()
        };
        assert_eq!(found(&[1, 3, 8, 9]), [0; 0]);
        assert_eq!(found(&[1, 3]), [0; 0]);
        assert_eq!(found(&[1, 2, 3]), [2]);
        assert_eq!(found(&[1, 3, 6, 8]), [6]);
        assert_eq!(found(&[1, 3, 4, 8]), [4]);
    }

    /// As on a cluster whose leader stood still: told and counted, and no broken promise. What was told before is.
    #[test]
    fn a_deposed_leader_may_tell_gaps_that_are_none() {
        let gap = |expected, received| Event::GapSeen {
            batch: BatchNumber(0),
            expected: BatchSequence(expected),
            received: BatchSequence(received),
        };
        let told = |before: &[Event], after: Event| {
            let mut claims = claims(GapMode::Ok, 10, before);
            claims.leader_stands_still();
            claims.see(Time::ZERO, &after);
            let result = read(&claims, 1..=10);
            let found: Vec<_> = whats(&result).iter().map(|(at, _)| *at).collect();
            (result.false_gaps, found)
        };
        assert_eq!(told(&[], gap(4, 6)), (1, vec![]));
        assert_eq!(told(&[gap(4, 6)], gap(11, 12)), (0, vec![4]));
        assert_eq!(told(&[gap(2, 3)], gap(4, 6)), (1, vec![2]));
    }

    #[test]
    fn duplicates_and_order_are_told_apart() {
        let late = read(&claims(GapMode::Fail, 0, &[]), [1, 2, 5, 3, 4, 6]);
        assert_eq!((late.out_of_order, late.duplicates, late.stored), (2, 0, 6));
        let twice = read(&claims(GapMode::Fail, 0, &[]), [1, 2, 3, 2, 2]);
        assert_eq!(
            (twice.out_of_order, twice.duplicates, twice.stored),
            (0, 2, 3)
        );
        assert_eq!(whats(&twice), [(2, "stored twice, the first of 2")]);
    }

    #[test]
    fn what_was_never_published_is_found() {
        let result = read(&claims(GapMode::Fail, 0, &[]), 1..=12);
        assert_eq!(whats(&result)[0].0, 12);
        let result = read(&claims(GapMode::Fail, 12, &[]), 1..=10);
        assert_eq!(whats(&result)[0].0, 12);
    }

    #[test]
    fn strangers_are_foreign_and_short_messages_are_counted() {
        let claims = claims(GapMode::Fail, 0, &[]);
        let mut reader = Reader::default();
        let stranger = Identity {
            publisher: 0,
            batch: 1,
            sequence: 1,
        };
        assert_eq!(reader.identified(stranger, &claims), None);
        for bucket in [0, 0, 0, 1] {
            reader.short(bucket);
        }
        let expected = BTreeMap::from([(0, 2), (1, 4)]);
        let result = reader.finish(&claims, &expected, |_| true, Allowances::default(), 5);
        assert_eq!((result.foreign, result.stored, result.lost), (1, 3, 3));
        assert_eq!((result.duplicates, result.only_counted), (1, 4));
    }
}
