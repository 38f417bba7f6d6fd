//! The bytes of stored messages, beside the model, which knows only their length and digest.
//!
//! A content waits from its arrival until a fact says where it was stored, and is kept there as long
//! as the stream keeps the message. All of it together is bounded: the oldest content goes first,
//! and its message can then no longer be read back. Leans on the facts of `server`.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::batch::message::{
    AtomicCommit, AtomicFact, BatchHandle, Control, Fact, Payload, StreamNumber,
};
use crate::nats::StreamSequence;
use crate::server::Server;
use crate::stream::Stream;

/// Bytes that a content takes beside its own.
const ENTRY_BYTES: u64 = 96;
/// A stream is looked through for messages that are gone after so many were stored.
const LOOK_EVERY: u32 = 1_024;

/// What a message on its way is part of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PartOf {
    Nothing,
    FastBatch(BatchHandle),
    AtomicBatch(BatchHandle),
}

/// A message on its way: batch, batch sequence, digest, and a number that tells equal ones apart.
type Key = (PartOf, u64, u32, u64);

/// Contents on their way and in streams.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    pending: BTreeMap<Key, Bytes>,
    /// The keys of `pending`, oldest first; some are gone already.
    order: VecDeque<Key>,
    next: u64,
    streams: BTreeMap<StreamNumber, Kept>,
    bytes: u64,
    bytes_max: u64,
}

/// The contents of one stream.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// Sequence of the first entry.
    base: u64,
    entries: VecDeque<Option<Bytes>>,
    count: u64,
    since_look: u32,
    /// Contents below this sequence share no memory with others.
    apart_below: u64,
}

impl Contents {
    pub(super) const fn new(bytes_max: u64) -> Self {
        Self {
            pending: BTreeMap::new(),
            order: VecDeque::new(),
            next: 0,
            streams: BTreeMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Nobody reads back what a limit of zero lets go at once.
    const fn keeps_nothing(&self) -> bool {
        self.bytes_max == 0
    }

    /// Takes the content of a message on its way into the server.
    pub(super) fn hold(&mut self, control: Control, payload: Payload, content: &Bytes) {
        let (batch, sequence) = match control {
            Control::Plain => (PartOf::Nothing, 0),
            Control::Fast {
                batch,
                sequence,
                operation,
                ..
            } if operation.stores() => (PartOf::FastBatch(batch), sequence.0),
            Control::Atomic {
                batch,
                sequence,
                commit,
                ..
            } if commit != AtomicCommit::Eob => (PartOf::AtomicBatch(batch), u64::from(sequence)),
            // They are never stored.
            Control::BadPattern
            | Control::BadBatchId
            | Control::BadAtomicId
            | Control::Atomic { .. }
            | Control::Fast { .. } => return,
        };
        if content.is_empty() || self.keeps_nothing() {
            return;
        }
        let key = (batch, sequence, payload.digest, self.next);
        self.next += 1;
        self.bytes += cost(content);
        self.pending.insert(key, content.clone());
        self.order.push_back(key);
        if self.order.len() > 2 * self.pending.len() + LOOK_EVERY as usize {
            self.order.retain(|key| self.pending.contains_key(key));
        }
        self.keep_within();
    }

    /// Puts a stored message's content in its place, and lets that of a refused one go.
    pub(super) fn note(&mut self, server: &Server, fact: &Fact) {
        if self.keeps_nothing() {
            return;
        }
        match fact {
            Fact::Stored {
                batch,
                sequence,
                stream,
                stream_sequence,
                payload,
            } => {
                let part_of = batch.map_or(PartOf::Nothing, PartOf::FastBatch);
                let content = self.take((part_of, sequence.0, payload.digest), payload.bytes);
                let content = content
                    .or_else(|| self.stored_before(server, *stream, *stream_sequence, *payload));
                self.store(server, *stream, *stream_sequence, content);
            }
            Fact::Deduplicated {
                batch,
                sequence,
                payload,
            } => self.drop_message(*batch, sequence.0, *payload),
            Fact::Rejected {
                batch,
                operation,
                sequence,
                payload,
                ..
            } if operation.stores() => self.drop_message(*batch, sequence.0, *payload),
            Fact::Overflowed {
                batch, sequence, ..
            }
            | Fact::LostInside {
                batch, sequence, ..
            } => self.drop_one(PartOf::FastBatch(*batch), sequence.0),
            Fact::Atomic(AtomicFact::Stored {
                batch,
                sequence,
                stream,
                stream_sequence,
                payload,
            }) => {
                let key = (PartOf::AtomicBatch(*batch), sequence.0, payload.digest);
                let content = self.take(key, payload.bytes);
                self.store(server, *stream, *stream_sequence, content);
            }
            Fact::Atomic(AtomicFact::Dropped {
                batch,
                sequence,
                payload,
            }) => {
                let key = (PartOf::AtomicBatch(*batch), sequence.0, payload.digest);
                self.take(key, payload.bytes);
            }
            Fact::BatchOpened { .. }
            | Fact::BatchForgotten { .. }
            // Of a frame that has no content: a message of the same sequence may be on its way.
            | Fact::Rejected { .. }
            | Fact::Unheard { .. }
            | Fact::Leader(_)
            | Fact::Rewound { .. }
            | Fact::ApiDropped { .. }
            | Fact::Abandoned { .. }
            | Fact::Atomic(AtomicFact::Opened { .. } | AtomicFact::Forgotten { .. }) => {}
        }
    }

    /// The content of a stored message.
    pub(super) fn get(&self, stream: StreamNumber, at: StreamSequence) -> Option<Bytes> {
        let kept = self.streams.get(&stream)?;
        let place = usize::try_from(at.0.checked_sub(kept.base)?).ok()?;
        kept.entries.get(place)?.clone()
    }

    /// Contents on their way.
    #[cfg(test)]
    pub(super) fn pending_count(&self) -> usize {
        self.pending.len()
    }

    /// Nothing is on its way any more; messages may be staged in atomic batches, if there are some.
    pub(super) fn forget_pending(&mut self, has_staged: bool) {
        let mut freed = 0;
        self.pending.retain(|(part_of, ..), content| {
            let stays = has_staged && matches!(part_of, PartOf::AtomicBatch(_));
            freed += if stays { 0 } else { cost(content) };
            stays
        });
        self.bytes -= freed;
        let pending = &self.pending;
        self.order.retain(|key| pending.contains_key(key));
    }

    /// Lets go of the contents of messages and streams that are gone.
    pub(super) fn follow(&mut self, server: &Server) {
        let mut freed = 0;
        self.streams.retain(|number, kept| {
            let stream = server.stream_numbered(*number);
            match stream {
                Some(stream) => freed += kept.follow(stream, true),
                None => freed += kept.entries.iter().flatten().map(cost).sum::<u64>(),
            }
            stream.is_some()
        });
        self.bytes -= freed;
    }

    /// The first message on its way with this key.
    fn take(
        &mut self,
        (part_of, sequence, digest): (PartOf, u64, u32),
        bytes: u32,
    ) -> Option<Bytes> {
        if bytes == 0 {
            return None;
        }
        let from = (part_of, sequence, digest, 0);
        let to = (part_of, sequence, digest, u64::MAX);
        let mut found = self.pending.range(from..=to);
        let (key, _) = found.find(|(_, content)| content.len() == bytes as usize)?;
        let key = *key;
        let content = self.pending.remove(&key)?;
        self.bytes -= cost(&content);
        if self.order.front() == Some(&key) {
            self.order.pop_front();
        }
        Some(content)
    }

    /// What the message before has, if it has this payload: a server with the defect of storing
    /// twice stores a message that came once.
    fn stored_before(
        &self,
        server: &Server,
        stream: StreamNumber,
        at: StreamSequence,
        payload: Payload,
    ) -> Option<Bytes> {
        let before = StreamSequence(at.0.checked_sub(1)?);
        let record = server.stream_numbered(stream)?.log().get(before)?;
        (record.payload == payload)
            .then(|| self.get(stream, before))
            .flatten()
    }

    fn drop_message(&mut self, batch: BatchHandle, sequence: u64, payload: Payload) {
        let key = (PartOf::FastBatch(batch), sequence, payload.digest);
        self.take(key, payload.bytes);
    }

    fn drop_one(&mut self, part_of: PartOf, sequence: u64) {
        let from = (part_of, sequence, 0, 0);
        let to = (part_of, sequence, u32::MAX, u64::MAX);
        if let Some(key) = self.pending.range(from..=to).next().map(|(key, _)| *key)
            && let Some(content) = self.pending.remove(&key)
        {
            self.bytes -= cost(&content);
        }
    }

    fn store(
        &mut self,
        server: &Server,
        number: StreamNumber,
        at: StreamSequence,
        content: Option<Bytes>,
    ) {
        let kept = self.streams.entry(number).or_default();
        self.bytes += content.as_ref().map_or(0, cost);
        self.bytes -= kept.store(at.0, content);
        kept.since_look += 1;
        if kept.since_look >= LOOK_EVERY {
            kept.since_look = 0;
            match server.stream_numbered(number) {
                Some(stream) => self.bytes -= kept.follow(stream, false),
                None => self.follow(server),
            }
        }
        self.keep_within();
    }

    /// Lets the oldest content go while there is too much: of the stream with most of it, then of
    /// what is on its way.
    fn keep_within(&mut self) {
        while self.bytes > self.bytes_max {
            let fullest = self.streams.values_mut().max_by_key(|kept| kept.count);
            if let Some(freed) = fullest.and_then(Kept::drop_oldest) {
                self.bytes -= freed;
            } else if let Some(key) = self.order.pop_front() {
                if let Some(content) = self.pending.remove(&key) {
                    self.bytes -= cost(&content);
                }
            } else {
                return;
            }
        }
    }
}

impl Kept {
    /// Puts a content at a sequence; gives the bytes that were freed for it.
    fn store(&mut self, at: u64, content: Option<Bytes>) -> u64 {
        let next = self.base + self.entries.len() as u64;
        let mut freed = 0;
        // A jump in the sequence: all before it was purged.
        if self.entries.is_empty() || at > next + u64::from(LOOK_EVERY) {
            freed = self.entries.drain(..).flatten().map(|own| cost(&own)).sum();
            self.count = 0;
            self.base = at;
        }
        let Some(place) = at.checked_sub(self.base) else {
            return freed + content.as_ref().map_or(0, cost);
        };
        let place = place as usize;
        while self.entries.len() <= place {
            self.entries.push_back(None);
        }
        self.count += u64::from(content.is_some());
        if let Some(old) = std::mem::replace(&mut self.entries[place], content) {
            self.count -= 1;
            freed += cost(&old);
        }
        freed
    }

    /// Lets go of what is before the stream's first message and, if many messages in between are
    /// gone (or `all` is wanted), of theirs; gives the bytes that were freed.
    fn follow(&mut self, stream: &Stream, all: bool) -> u64 {
        let log = stream.log();
        let mut freed = 0;
        while self.base < log.first().0.max(1) {
            let Some(entry) = self.entries.pop_front() else {
                break;
            };
            self.base += 1;
            self.count -= u64::from(entry.is_some());
            freed += entry.as_ref().map_or(0, cost);
        }
        if !all && self.count <= 2 * log.messages() + u64::from(LOOK_EVERY) {
            return freed;
        }
        for (at, entry) in (self.base..).zip(&mut self.entries) {
            let is_there = log.get(StreamSequence(at)).is_some();
            match entry {
                Some(_) if is_there && at < self.apart_below => {}
                // What stays behind of a large read should not keep all of that.
                Some(content) if is_there => *content = Bytes::copy_from_slice(content),
                Some(content) => {
                    freed += cost(content);
                    self.count -= 1;
                    *entry = None;
                }
                None => {}
            }
        }
        self.apart_below = self.base + self.entries.len() as u64;
        freed
    }

    fn drop_oldest(&mut self) -> Option<u64> {
        while let Some(entry) = self.entries.pop_front() {
            self.base += 1;
            if let Some(content) = entry {
                self.count -= 1;
                return Some(cost(&content));
            }
        }
        None
    }
}

fn cost(content: &Bytes) -> u64 {
    content.len() as u64 + ENTRY_BYTES
}
