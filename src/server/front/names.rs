//! Numbers for names: batch ids, and the reply subjects that answers go to.
//!
//! The replies of a fast batch differ in sequence and operation only, so what they have in common is
//! numbered once, and the tag of a message holds that number, sequence and operation: nothing is
//! kept for each message. Every other reply subject is kept until its answer, or until many newer
//! ones have come. Leans on `nats::reply`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::batch::message::{AtomicFact, BatchHandle, Control, Fact, StreamNumber};
use crate::nats::reply::{Parsed, SUFFIX, parse};
use crate::nats::{BatchSequence, GapMode, Operation, subject};

/// Most batch ids that are remembered; of more, those forgotten by the server go.
const BATCH_IDS_MAX: usize = 1 << 20;
/// Most reply prefixes of fast batches; of more, the oldest goes, and answers to it with it.
const PREFIXES_MAX: usize = 1 << 18;
/// Most other reply subjects without an answer yet.
const TARGETS_MAX: usize = 1 << 20;

/// A tag with this bit names a prefix, operation and sequence; one without it, a target.
const PACKED: u64 = 1 << 63;
const PREFIX_SHIFT: u32 = 43;
const PREFIX_MASK: u64 = 0xf_ffff;
const OPERATION_SHIFT: u32 = 40;
const SEQUENCE_MASK: u64 = (1 << OPERATION_SHIFT) - 1;

/// What the reply subjects of one batch on one stream have in common.
#[derive(Clone, Debug)]
pub(super) struct Prefix {
    /// `<prefix>.<id>.<flow>.<gap>.`
    pub(super) text: Box<str>,
    number: StreamNumber,
    pub(super) stream: Arc<str>,
    batch: BatchHandle,
    flow: u16,
    gap: GapMode,
    /// Subjects that begin with it can be published to.
    is_subject: bool,
    /// The subject of its newest message, where the server does not know it.
    asked: Option<Box<str>>,
    /// Who takes all of its subjects, if that is known, and of which state of the subscriptions.
    pub(super) subscriptions: Option<(u64, Option<Arc<[u64]>>)>,
}

/// Where an answer goes, as far as it is remembered.
#[derive(Clone, Debug)]
struct Target {
    reply: Box<str>,
    stream: Option<Arc<str>>,
    batch: Option<BatchHandle>,
    /// The subject that the message was for, where the server does not know it.
    asked: Option<Box<str>>,
    /// One answer comes at most.
    once: bool,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct Destination<'a> {
    /// Reply subject; `None`: nobody can hear it.
    pub(super) subject: Option<&'a str>,
    /// The stream that answers.
    pub(super) stream: Option<&'a Arc<str>>,
    /// The subject that the message was for, where the server does not know it.
    pub(super) asked: Option<&'a str>,
    /// The number of the prefix that the subject begins with.
    pub(super) prefix: Option<u32>,
}

/// All names.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    handles: BTreeMap<Arc<str>, BatchHandle>,
    ids: BTreeMap<BatchHandle, Arc<str>>,
    next_batch: u32,
    /// Fast batches that the server knows.
    open: BTreeSet<BatchHandle>,
    /// Atomic batches that it knows: on how many streams.
    open_atomic: BTreeMap<BatchHandle, u32>,
    prefixes: VecDeque<Prefix>,
    /// Number of the first of `prefixes`.
    first_prefix: u32,
    prefix_numbers: BTreeMap<Box<str>, Vec<u32>>,
    targets: VecDeque<Option<Target>>,
    /// Number of the first of `targets`.
    first_target: u64,
    /// The text of a packed reply subject.
    text: String,
}

impl Names {
    /// What a reply subject asks for, and the tag that leads back to it. `hint` is the number of
    /// the prefix seen last, and becomes that of this one.
    pub(super) fn read(
        &mut self,
        reply: &str,
        number: StreamNumber,
        stream: &Arc<str>,
        hint: &mut u32,
    ) -> (Control, u64) {
        if let Some(prefix) = self.prefix(*hint)
            && prefix.number == number
            && let Some(rest) = reply.as_bytes().strip_prefix(prefix.text.as_bytes())
            && let Some((sequence, operation)) = numbers(rest)
        {
            return (
                prefix.control(sequence, operation),
                pack(*hint, sequence, operation),
            );
        }
        let (control, once) = match parse(reply) {
            Parsed::NotFast => (Control::Plain, true),
            Parsed::BadPattern(_) => (Control::BadPattern, true),
            Parsed::BadBatchId => (Control::BadBatchId, true),
            Parsed::Fast(fast) => {
                let batch = self.handle(fast.batch_id);
                if let Some((text, sequence, operation)) = split(reply) {
                    let found = self.prefix_number(text, number);
                    *hint = found.unwrap_or_else(|| {
                        self.add_prefix(Prefix {
                            text: text.into(),
                            number,
                            stream: Arc::clone(stream),
                            batch,
                            flow: fast.flow,
                            gap: fast.gap,
                            is_subject: subject::check_publish(reply).is_ok(),
                            asked: None,
                            subscriptions: None,
                        })
                    });
                    let control = Control::Fast {
                        batch,
                        flow: fast.flow,
                        gap: fast.gap,
                        sequence,
                        operation,
                    };
                    return (control, pack(*hint, sequence, operation));
                }
                let control = Control::Fast {
                    batch,
                    flow: fast.flow,
                    gap: fast.gap,
                    sequence: fast.sequence,
                    operation: fast.operation,
                };
                (control, false)
            }
        };
        let batch = match control {
            Control::Fast { batch, .. } => Some(batch),
            Control::Plain
            | Control::BadPattern
            | Control::BadBatchId
            | Control::BadAtomicId
            | Control::Atomic { .. } => None,
        };
        let tag = self.add_target(Target {
            reply: reply.into(),
            stream: Some(Arc::clone(stream)),
            batch,
            asked: None,
            once,
        });
        (control, tag)
    }

    /// As [`Names::read`] for a message to `subject`, which no stream takes; `None`: it is no frame
    /// of a batch.
    pub(super) fn read_unheard(
        &mut self,
        reply: &str,
        subject: &str,
        hint: &mut u32,
    ) -> Option<(Control, u64)> {
        if !matches!(parse(reply), Parsed::Fast(_)) {
            return None;
        }
        let (control, tag) = self.read(reply, StreamNumber::NONE, &"".into(), hint);
        let asked = if tag & PACKED != 0 {
            let number = self.unpack(tag);
            self.prefix_mut(number).map(|prefix| &mut prefix.asked)
        } else {
            let place = tag.checked_sub(self.first_target);
            let place = place.and_then(|place| usize::try_from(place).ok());
            let target = place.and_then(|place| self.targets.get_mut(place)?.as_mut());
            target.map(|target| &mut target.asked)
        };
        if let Some(asked) = asked.filter(|asked| asked.as_deref() != Some(subject)) {
            *asked = Some(subject.into());
        }
        Some((control, tag))
    }

    /// The tag for a reply subject of an API call.
    pub(super) fn call(&mut self, reply: Option<&str>) -> u64 {
        self.add_target(Target {
            reply: reply.unwrap_or_default().into(),
            stream: None,
            batch: None,
            asked: None,
            once: true,
        })
    }

    /// Where a tag leads; `None`: it is not remembered any more.
    pub(super) fn destination(&mut self, tag: u64) -> Option<Destination<'_>> {
        if tag & PACKED == 0 {
            let place = tag.checked_sub(self.first_target)?;
            let target = self.targets.get(usize::try_from(place).ok()?)?.as_ref()?;
            let is_subject = subject::check_publish(&target.reply).is_ok();
            return Some(Destination {
                subject: is_subject.then_some(&*target.reply),
                stream: target.stream.as_ref(),
                asked: target.asked.as_deref(),
                prefix: None,
            });
        }
        let number = self.unpack(tag);
        let place = number.checked_sub(self.first_prefix)?;
        let prefix = self.prefixes.get(place as usize)?;
        self.text.clear();
        self.text.push_str(&prefix.text);
        push_number(tag & SEQUENCE_MASK, &mut self.text);
        self.text.push('.');
        push_number(tag >> OPERATION_SHIFT & 7, &mut self.text);
        self.text.push_str(SUFFIX);
        Some(Destination {
            subject: prefix.is_subject.then_some(self.text.as_str()),
            stream: Some(&prefix.stream),
            asked: prefix.asked.as_deref(),
            prefix: Some(number),
        })
    }

    /// An answer to a tag has gone out: what only one answer goes to is forgotten.
    pub(super) fn answered(&mut self, tag: u64) {
        if tag & PACKED != 0 {
            return;
        }
        let place = tag.checked_sub(self.first_target);
        let place = place.and_then(|place| usize::try_from(place).ok());
        if let Some(target) = place.and_then(|place| self.targets.get_mut(place))
            && target.as_ref().is_some_and(|target| target.once)
        {
            *target = None;
        }
        while let Some(None) = self.targets.front() {
            self.targets.pop_front();
            self.first_target += 1;
        }
    }

    /// The prefix with this number.
    pub(super) fn prefix_mut(&mut self, number: u32) -> Option<&mut Prefix> {
        let place = number.checked_sub(self.first_prefix)?;
        self.prefixes.get_mut(place as usize)
    }

    /// The batch that a tag is about.
    pub(super) fn batch_of(&self, tag: u64) -> Option<BatchHandle> {
        if tag & PACKED != 0 {
            return Some(self.prefix(self.unpack(tag))?.batch);
        }
        let place = tag.checked_sub(self.first_target)?;
        let target = self.targets.get(usize::try_from(place).ok()?)?;
        target.as_ref()?.batch
    }

    /// Whether the server has an atomic batch, whose messages may be staged.
    pub(super) fn has_open_atomic(&self) -> bool {
        !self.open_atomic.is_empty()
    }

    /// The text of a batch id.
    pub(super) fn batch_id(&self, batch: BatchHandle) -> Option<&str> {
        self.ids.get(&batch).map(|id| &**id)
    }

    /// Learns which batches the server knows.
    pub(super) fn note(&mut self, fact: &Fact) {
        match fact {
            Fact::BatchOpened { batch, .. } => {
                self.open.insert(*batch);
            }
            Fact::BatchForgotten { batch, .. } => {
                self.open.remove(batch);
            }
            Fact::Atomic(AtomicFact::Opened { batch }) => {
                *self.open_atomic.entry(*batch).or_default() += 1;
            }
            Fact::Atomic(AtomicFact::Forgotten { batch, .. }) => {
                if let Some(streams) = self.open_atomic.get_mut(batch) {
                    *streams -= 1;
                    if *streams == 0 {
                        self.open_atomic.remove(batch);
                    }
                }
            }
            Fact::Stored { .. }
            | Fact::Deduplicated { .. }
            | Fact::Rejected { .. }
            | Fact::Overflowed { .. }
            | Fact::Unheard { .. }
            | Fact::Leader(_)
            | Fact::Rewound { .. }
            | Fact::LostInside { .. }
            | Fact::ApiDropped { .. }
            | Fact::Abandoned { .. }
            | Fact::Atomic(AtomicFact::Stored { .. } | AtomicFact::Dropped { .. }) => {}
        }
    }

    fn prefix(&self, number: u32) -> Option<&Prefix> {
        let place = number.checked_sub(self.first_prefix)?;
        self.prefixes.get(place as usize)
    }

    /// The number that a packed tag holds the lower bits of: far fewer prefixes than that are kept.
    fn unpack(&self, tag: u64) -> u32 {
        let low = (tag >> PREFIX_SHIFT & PREFIX_MASK) as u32;
        let behind = low.wrapping_sub(self.first_prefix) & PREFIX_MASK as u32;
        self.first_prefix.wrapping_add(behind)
    }

    fn prefix_number(&self, text: &str, number: StreamNumber) -> Option<u32> {
        let numbers = self.prefix_numbers.get(text)?;
        let is_it = |own: &u32| self.prefix(*own).is_some_and(|p| p.number == number);
        numbers.iter().copied().find(is_it)
    }

    fn add_prefix(&mut self, prefix: Prefix) -> u32 {
        if self.prefixes.len() >= PREFIXES_MAX
            && let Some(oldest) = self.prefixes.pop_front()
        {
            let number = self.first_prefix;
            self.first_prefix = self.first_prefix.wrapping_add(1);
            if let Some(numbers) = self.prefix_numbers.get_mut(&oldest.text) {
                numbers.retain(|own| *own != number);
                if numbers.is_empty() {
                    self.prefix_numbers.remove(&oldest.text);
                }
            }
        }
        let number = self.first_prefix.wrapping_add(self.prefixes.len() as u32);
        let numbers = self.prefix_numbers.entry(prefix.text.clone()).or_default();
        numbers.push(number);
        self.prefixes.push_back(prefix);
        number
    }

    fn add_target(&mut self, target: Target) -> u64 {
        if self.targets.len() >= TARGETS_MAX {
            self.targets.pop_front();
            self.first_target += 1;
        }
        self.targets.push_back(Some(target));
        self.first_target + self.targets.len() as u64 - 1
    }

    /// The handle of a batch id, of either kind of batch.
    pub(super) fn handle(&mut self, batch_id: &str) -> BatchHandle {
        if let Some(handle) = self.handles.get(batch_id) {
            return *handle;
        }
        if self.ids.len() >= BATCH_IDS_MAX {
            self.forget_batch_ids();
        }
        let handle = BatchHandle(self.next_batch);
        self.next_batch = self.next_batch.wrapping_add(1);
        let batch_id: Arc<str> = batch_id.into();
        self.ids.insert(handle, Arc::clone(&batch_id));
        self.handles.insert(batch_id, handle);
        handle
    }

    /// Forgets the older half of the ids, but not those of batches that the server knows.
    fn forget_batch_ids(&mut self) {
        let old: Vec<BatchHandle> = self
            .ids
            .keys()
            .filter(|handle| !self.open.contains(handle) && !self.open_atomic.contains_key(handle))
            .take(BATCH_IDS_MAX / 2)
            .copied()
            .collect();
        for handle in old {
            if let Some(id) = self.ids.remove(&handle) {
                self.handles.remove(&id);
            }
        }
    }
}

impl Prefix {
    const fn control(&self, sequence: BatchSequence, operation: Operation) -> Control {
        Control::Fast {
            batch: self.batch,
            flow: self.flow,
            gap: self.gap,
            sequence,
            operation,
        }
    }
}

fn pack(prefix: u32, sequence: BatchSequence, operation: Operation) -> u64 {
    PACKED
        | (u64::from(prefix) & PREFIX_MASK) << PREFIX_SHIFT
        | u64::from(operation as u8) << OPERATION_SHIFT
        | sequence.0
}

/// A reply subject as its prefix, and the numbers that give its text back.
fn split(reply: &str) -> Option<(&str, BatchSequence, Operation)> {
    let body = reply.strip_suffix(SUFFIX)?;
    let (body, _) = body.rsplit_once('.')?;
    let end = body.rfind('.')? + 1;
    let (sequence, operation) = numbers(&reply.as_bytes()[end..])?;
    Some((&reply[..end], sequence, operation))
}

/// Reads `<sequence>.<operation>.$FI` where the numbers are written in the one way in which they
/// print, fit into a tag, and go together.
fn numbers(text: &[u8]) -> Option<(BatchSequence, Operation)> {
    let body = text.strip_suffix(SUFFIX.as_bytes())?;
    let (digits, operation) = match body {
        [digits @ .., b'.', operation @ b'0'..=b'4'] => (digits, operation - b'0'),
        _ => return None,
    };
    if digits.first() == Some(&b'0') || digits.len() > 12 || digits.is_empty() {
        return None;
    }
    let mut sequence = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        sequence = sequence * 10 + u64::from(digit - b'0');
    }
    let operation = Operation::from_number(u64::from(operation))?;
    let goes_together = match operation {
        Operation::Start => sequence == 1,
        Operation::Append | Operation::CommitEob => sequence >= 2,
        Operation::Commit | Operation::Ping => true,
    };
    (sequence <= SEQUENCE_MASK && goes_together).then_some((BatchSequence(sequence), operation))
}

fn push_number(mut number: u64, text: &mut String) {
    let mut digits = [0_u8; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[start..].iter().copied().map(char::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: StreamNumber = StreamNumber(0);

    fn read(names: &mut Names, reply: &str, hint: &mut u32) -> (Control, u64) {
        names.read(reply, S, &"S".into(), hint)
    }

    /// Whatever the way, a reply is read as `nats::reply` reads it, and its text comes back.
    #[test]
    fn tags_lead_back_to_the_text() {
        let mut names = Names::default();
        let mut hint = u32::MAX;
        for reply in [
            "_INBOX.x.id.10.ok.1.0.$FI",
            "_INBOX.x.id.10.ok.2.1.$FI",
            "_INBOX.x.id.10.ok.1099511627775.1.$FI",
            "_INBOX.x.id.10.ok.1099511627776.1.$FI",
            "_INBOX.x.id.10.ok.18446744073709551614.1.$FI",
            "_INBOX.x.id.10.ok.002.1.$FI",
            "_INBOX.x.id.10.ok.2.01.$FI",
            "_INBOX.x.id.10.ok.1.1.$FI",
            "_INBOX.x.id.10.ok.0.1.$FI",
            "_INBOX.x.id.10.ok.3.4.$FI",
            "_INBOX.x.id.10.fail.3.3.$FI",
            "_INBOX.x.other.10.ok.2.1.$FI",
            "_INBOX.x.other.007.ok.2.1.$FI",
            "_INBOX.x.id.10.ok.2.5.$FI",
            "r",
            "a.b",
        ] {
            let (control, tag) = read(&mut names, reply, &mut hint);
            let (again, second) = read(&mut names, reply, &mut hint);
            assert_eq!(control, again, "{reply}");
            let expected = match parse(reply) {
                Parsed::NotFast => Control::Plain,
                Parsed::BadPattern(_) => Control::BadPattern,
                Parsed::BadBatchId => Control::BadBatchId,
                Parsed::Fast(fast) => Control::Fast {
                    batch: names.handles[fast.batch_id],
                    flow: fast.flow,
                    gap: fast.gap,
                    sequence: fast.sequence,
                    operation: fast.operation,
                },
            };
            assert_eq!(control, expected, "{reply}");
            for tag in [tag, second] {
                let destination = names.destination(tag).unwrap();
                assert_eq!(destination.subject, Some(reply));
            }
        }
        assert_eq!(names.ids.len(), 2);
    }

    #[test]
    fn a_reply_with_an_empty_token_is_heard_by_nobody() {
        let mut names = Names::default();
        for reply in ["_INBOX.x..10.ok.1.0.$FI", ".id.10.ok.1.0.$FI", "a..b"] {
            let (_, tag) = read(&mut names, reply, &mut u32::MAX.clone());
            assert_eq!(names.destination(tag).unwrap().subject, None, "{reply}");
        }
    }

    #[test]
    fn answered_targets_and_old_prefixes_go() {
        let mut names = Names::default();
        let mut hint = u32::MAX;
        for round in 0..1_000 {
            let (_, tag) = read(&mut names, &format!("r.{round}"), &mut hint);
            names.answered(tag);
            assert!(names.destination(tag).is_none());
        }
        assert!(names.targets.is_empty());
        let (_, first) = read(&mut names, "_INBOX.x.id.10.ok.1.0.$FI", &mut hint);
        for prefix in 0..PREFIXES_MAX {
            read(
                &mut names,
                &format!("p{prefix}.id.10.ok.1.0.$FI"),
                &mut hint,
            );
        }
        assert!(names.destination(first).is_none(), "the oldest went");
        assert_eq!(names.prefixes.len(), PREFIXES_MAX);
        assert_eq!(names.prefix_numbers.len(), PREFIXES_MAX);
    }

    #[test]
    fn batches_that_the_server_knows_keep_their_number() {
        let mut names = Names::default();
        let known = names.handle("known");
        names.note(&Fact::BatchOpened {
            batch: known,
            open: 1,
            flow: 1,
        });
        let other = names.handle("other");
        for id in 0..BATCH_IDS_MAX {
            names.handle(&id.to_string());
        }
        assert_eq!(names.handle("known"), known);
        assert_ne!(names.handle("other"), other);
        assert!(names.ids.len() <= BATCH_IDS_MAX);
    }
}
