//! The messages of a stream, kept as what a judge or a reader may ask for: 16 bytes each.
//!
//! Payloads are a length and a digest; headers lie aside, for those messages that have some.
//! Entries stand in chunks that forks of a world share, and replicas too. Leans on `batch::message`.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::config::Storage;
use crate::batch::message::{BatchHandle, Payload, SubjectId};
use crate::machine::Time;
use crate::nats::header::Headers;
use crate::nats::{BatchSequence, StreamSequence};

const CHUNK: usize = 4_096;
/// The origin of an entry whose message is gone.
const GONE: u32 = u32::MAX;
/// So many moments are kept to the millisecond; later ones only every so many messages.
const EXACT_MOMENTS: usize = 65_536;
const COARSE_MESSAGES: u64 = 64;

/// Where messages came from: a batch (or none) and a subject.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The batch, if it was one.
    pub batch: Option<BatchHandle>,
    /// The subject.
    pub subject: SubjectId,
    /// Bytes of the subject's text.
    pub subject_bytes: u32,
}

/// Names an [`Origin`] in a log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OriginId(u32);

/// One message as it is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Record {
    /// Its batch, if it has one.
    pub batch: Option<BatchHandle>,
    /// Its subject.
    pub subject: SubjectId,
    /// Batch sequence; 0 without a batch. Stops at 4 294 967 295, which only a jump over a gap can
    /// reach.
    pub sequence: BatchSequence,
    /// Payload.
    pub payload: Payload,
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Entry {
    origin: u32,
    sequence: u32,
    payload: Payload,
}

#[derive(Clone, Debug)]
struct Chunk {
    entries: Arc<Vec<Entry>>,
    live: u32,
}

/// The messages of a stream by sequence.
///
/// Equality and hash are those of a running digest over everything ever done to the log, so they
/// cost nothing; two logs that came to the same content by different ways count as different.
#[derive(Clone, Debug)]
pub struct Log {
    storage: Storage,
    /// Full chunks; the first entry of the first one has sequence `base`.
    chunks: VecDeque<Chunk>,
    tail: Vec<Entry>,
    tail_live: u32,
    base: u64,
    /// Chunks that begin before this sequence were compared with those of other replicas.
    compared: u64,
    first: u64,
    last: u64,
    messages: u64,
    bytes: u64,
    digest: u64,
    origins: Vec<Origin>,
    headers: BTreeMap<u64, Arc<Headers>>,
    moments: Vec<(u64, Time)>,
    last_at: Option<Time>,
}

impl Log {
    /// An empty log.
    pub const fn new(storage: Storage) -> Self {
        Self {
            storage,
            chunks: VecDeque::new(),
            tail: Vec::new(),
            tail_live: 0,
            base: 1,
            compared: 1,
            first: 0,
            last: 0,
            messages: 0,
            bytes: 0,
            digest: 0,
            origins: Vec::new(),
            headers: BTreeMap::new(),
            moments: Vec::new(),
            last_at: None,
        }
    }

    /// First sequence: 0 if nothing was ever stored or cleared, last + 1 if nothing is left.
    pub const fn first(&self) -> StreamSequence {
        StreamSequence(self.first)
    }

    /// Last sequence given out; 0 at the start.
    pub const fn last(&self) -> StreamSequence {
        StreamSequence(self.last)
    }

    /// Messages kept.
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// Bytes of the records kept.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Sequences missing between first and last.
    pub const fn deleted(&self) -> u64 {
        if self.last < self.first || self.last == 0 {
            0
        } else {
            self.last - self.first + 1 - self.messages
        }
    }

    /// When the newest message came; `None` if none ever did.
    pub const fn last_at(&self) -> Option<Time> {
        self.last_at
    }

    /// Names an origin. Each call makes a new name: callers keep it.
    pub fn origin(&mut self, origin: Origin) -> OriginId {
        let batch = origin.batch.map_or(GONE, |batch| batch.0);
        self.mix(u64::from(batch) << 32 | u64::from(origin.subject.0));
        self.origins.push(origin);
        OriginId(self.origins.len() as u32 - 1)
    }

    /// Bytes of the record of such a message.
    pub const fn record_bytes(&self, subject: u32, header: u32, payload: u32) -> u64 {
        let body = subject as u64 + header as u64 + payload as u64;
        match self.storage {
            Storage::File if header > 0 => body + 34,
            Storage::File => body + 30,
            Storage::Memory => body + 16,
        }
    }

    /// Appends a message and returns its sequence.
    pub fn append(
        &mut self,
        now: Time,
        origin: OriginId,
        sequence: BatchSequence,
        payload: Payload,
        headers: Option<Arc<Headers>>,
    ) -> StreamSequence {
        self.last += 1;
        if self.messages == 0 {
            self.first = self.last;
        }
        self.note_moment(now);
        let mut header_bytes = 0;
        if let Some(headers) = headers {
            header_bytes = headers.wire_bytes() as u32;
            for (name, value) in headers.lines() {
                self.mix(xxh3_64(name.as_bytes()));
                self.mix(xxh3_64(value.as_bytes()));
            }
            self.headers.insert(self.last, headers);
        }
        let subject_bytes = self.origins[origin.0 as usize].subject_bytes;
        self.bytes += self.record_bytes(subject_bytes, header_bytes, payload.bytes);
        self.messages += 1;
        let entry = Entry {
            origin: origin.0,
            sequence: u32::try_from(sequence.0).unwrap_or(u32::MAX),
            payload,
        };
        self.mix(u64::from(entry.origin) << 32 | u64::from(entry.sequence));
        self.mix(u64::from(payload.bytes) << 32 | u64::from(payload.digest));
        self.push(entry);
        StreamSequence(self.last)
    }

    /// The message with this sequence, if it is there.
    pub fn get(&self, sequence: StreamSequence) -> Option<Record> {
        let entry = self.entry(sequence.0)?;
        let origin = self.origins.get(entry.origin as usize)?;
        Some(Record {
            batch: origin.batch,
            subject: origin.subject,
            sequence: BatchSequence(u64::from(entry.sequence)),
            payload: entry.payload,
        })
    }

    /// The headers of the message with this sequence.
    pub fn headers(&self, sequence: StreamSequence) -> Option<&Arc<Headers>> {
        self.headers.get(&sequence.0)
    }

    /// When the message with this sequence was stored: to the millisecond for the first tens of
    /// thousands of moments, later to the next 64 messages.
    pub fn stored_at(&self, sequence: StreamSequence) -> Option<Time> {
        let after = self
            .moments
            .partition_point(|(from, _)| *from <= sequence.0);
        self.moments.get(after.checked_sub(1)?).map(|(_, at)| *at)
    }

    /// All messages kept, oldest first, from `sequence` on.
    pub fn from(
        &self,
        sequence: StreamSequence,
    ) -> impl DoubleEndedIterator<Item = (StreamSequence, Record)> + '_ {
        (sequence.0.max(self.first).max(1)..=self.last)
            .filter_map(|at| Some((StreamSequence(at), self.get(StreamSequence(at))?)))
    }

    /// Removes a message and returns what it was.
    pub fn remove(&mut self, sequence: StreamSequence) -> Option<Record> {
        let record = self.get(sequence)?;
        let origin = self.entry(sequence.0)?.origin;
        let headers = self.headers.remove(&sequence.0);
        let header_bytes = headers.map_or(0, |headers| headers.wire_bytes() as u32);
        let subject_bytes = self.origins[origin as usize].subject_bytes;
        self.bytes -= self.record_bytes(subject_bytes, header_bytes, record.payload.bytes);
        self.messages -= 1;
        self.mix(sequence.0);
        self.bury(sequence.0);
        if self.messages == 0 {
            self.forget_all();
        } else if sequence.0 == self.first {
            self.advance_first();
        }
        Some(record)
    }

    /// Removes everything: the next message gets the sequence that it would have got anyway.
    pub fn clear(&mut self) {
        if self.messages > 0 || self.first == 0 {
            self.mix(self.last);
            self.forget_all();
        }
    }

    /// Gives the next message at least this sequence. Only on an empty log: nothing else happens
    /// to one that is not.
    pub fn skip_to(&mut self, next: StreamSequence) {
        if self.messages == 0 && next.0 > self.last + 1 {
            self.last = next.0 - 1;
            self.mix(self.last);
            self.forget_all();
        }
    }

    /// Whether chunks were filled since the last [`Log::share`].
    pub fn has_new_chunks(&self) -> bool {
        self.chunk_start(self.chunks.len()) > self.compared
    }

    /// Has the chunks that were filled since the last time, and that another replica's log has alike,
    /// lie in memory once.
    pub fn share<'a>(&mut self, others: &(impl Iterator<Item = &'a Self> + Clone)) {
        let first = self.compared.saturating_sub(self.base) as usize / CHUNK;
        for index in first..self.chunks.len() {
            let start = self.chunk_start(index);
            let own = &mut self.chunks[index].entries;
            let alike = |other: &'a Self| {
                let index = start.checked_sub(other.base)? as usize / CHUNK;
                let theirs = &other.chunks.get(index)?.entries;
                (theirs == own).then_some(theirs)
            };
            if let Some(theirs) = others.clone().find_map(alike) {
                *own = Arc::clone(theirs);
            }
        }
        self.compared = self.chunk_start(self.chunks.len());
    }

    /// The sequence of the first entry of a chunk, be it the next one to be filled.
    const fn chunk_start(&self, index: usize) -> u64 {
        self.base + (index * CHUNK) as u64
    }

    fn push(&mut self, entry: Entry) {
        if self.tail.len() == CHUNK {
            let entries = Arc::new(std::mem::replace(&mut self.tail, Vec::with_capacity(CHUNK)));
            self.chunks.push_back(Chunk {
                entries,
                live: self.tail_live,
            });
            self.tail_live = 0;
        }
        self.tail.push(entry);
        self.tail_live += 1;
    }

    fn entry(&self, sequence: u64) -> Option<Entry> {
        let index = sequence.checked_sub(self.base)? as usize;
        let (chunk, place) = (index / CHUNK, index % CHUNK);
        let entry = match self.chunks.get(chunk) {
            Some(chunk) => chunk.entries.get(place),
            None if chunk == self.chunks.len() => self.tail.get(place),
            None => None,
        }?;
        (entry.origin != GONE).then_some(*entry)
    }

    fn bury(&mut self, sequence: u64) {
        let Some(index) = sequence.checked_sub(self.base) else {
            return;
        };
        let (chunk, place) = (index as usize / CHUNK, index as usize % CHUNK);
        let entry = match self.chunks.get_mut(chunk) {
            Some(chunk) => {
                chunk.live -= 1;
                Arc::make_mut(&mut chunk.entries).get_mut(place)
            }
            None => {
                self.tail_live -= 1;
                self.tail.get_mut(place)
            }
        };
        if let Some(entry) = entry {
            entry.origin = GONE;
        }
    }

    /// Moves the first sequence on to the next message that is there, and lets go of chunks before.
    fn advance_first(&mut self) {
        while self.first <= self.last && self.entry(self.first).is_none() {
            while self.chunks.front().is_some_and(|chunk| chunk.live == 0) {
                self.chunks.pop_front();
                self.base += CHUNK as u64;
            }
            self.first = (self.first + 1).max(self.base);
        }
    }

    fn forget_all(&mut self) {
        self.chunks.clear();
        self.tail.clear();
        self.tail_live = 0;
        self.headers.clear();
        self.moments.clear();
        self.messages = 0;
        self.bytes = 0;
        self.base = self.last + 1;
        self.first = self.last + 1;
    }

    fn note_moment(&mut self, now: Time) {
        self.last_at = Some(now);
        let wanted = match self.moments.last() {
            None => true,
            Some((from, at)) => {
                let exact = self.moments.len() < EXACT_MOMENTS;
                now.since(*at) >= Time::from_millis(1)
                    && (exact || self.last - from >= COARSE_MESSAGES)
            }
        };
        if wanted {
            self.mix(now.as_nanos());
            self.moments.push((self.last, now));
        }
    }

    const fn mix(&mut self, word: u64) {
        self.digest = (self.digest.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl PartialEq for Log {
    fn eq(&self, other: &Self) -> bool {
        self.storage == other.storage
            && self.first == other.first
            && self.last == other.last
            && self.messages == other.messages
            && self.bytes == other.bytes
            && self.digest == other.digest
            && self.last_at == other.last_at
    }
}

impl Eq for Log {}

impl Hash for Log {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.first.hash(state);
        self.last.hash(state);
        self.messages.hash(state);
        self.digest.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: SubjectId = SubjectId(0);

    fn log(storage: Storage, messages: u64) -> (Log, OriginId) {
        let mut log = Log::new(storage);
        let origin = log.origin(Origin {
            batch: Some(BatchHandle(5)),
            subject: SUBJECT,
            subject_bytes: 3,
        });
        for message in 1..=messages {
            append(&mut log, origin, message, None);
        }
        (log, origin)
    }

    fn append(log: &mut Log, origin: OriginId, message: u64, headers: Option<Arc<Headers>>) {
        let payload = Payload {
            bytes: 10,
            digest: message as u32,
        };
        let now = Time::from_millis(message);
        log.append(now, origin, BatchSequence(message), payload, headers);
    }

    fn sequences(log: &Log) -> Vec<u64> {
        log.from(log.first()).map(|(at, _)| at.0).collect()
    }

    #[test]
    fn a_message_takes_sixteen_bytes() {
        assert_eq!(size_of::<Entry>(), 16);
    }

    #[test]
    fn what_is_stored_is_read_across_chunks() {
        let (log, _) = log(Storage::File, 10_000);
        for sequence in [1, 4_096, 4_097, 8_192, 10_000] {
            let record = log.get(StreamSequence(sequence)).unwrap();
            assert_eq!(record.payload.digest, sequence as u32);
            assert_eq!(record.sequence, BatchSequence(sequence));
            assert_eq!(record.batch, Some(BatchHandle(5)));
        }
        assert_eq!(log.get(StreamSequence(0)), None);
        assert_eq!(log.get(StreamSequence(10_001)), None);
    }

    #[test]
    fn records_have_the_sizes_of_their_store() {
        let headers = Arc::new(Headers::new(vec![("K".to_owned(), "v".to_owned())]));
        let (mut file, origin) = log(Storage::File, 1);
        assert_eq!(file.bytes(), 3 + 10 + 30);
        append(&mut file, origin, 2, Some(Arc::clone(&headers)));
        assert_eq!(file.bytes(), 43 + 3 + 10 + 18 + 34);
        file.remove(StreamSequence(2));
        assert_eq!(file.bytes(), 43);
        assert_eq!(file.headers(StreamSequence(2)), None);
        let (memory, _) = log(Storage::Memory, 1);
        assert_eq!(memory.bytes(), 3 + 10 + 16);
    }

    #[test]
    fn the_first_sequence_moves_over_holes() {
        let (mut log, _) = log(Storage::File, 9_000);
        assert_eq!(log.first(), StreamSequence(1));
        for sequence in 2..=8_500 {
            log.remove(StreamSequence(sequence));
        }
        assert_eq!(log.deleted(), 8_499);
        assert!(log.remove(StreamSequence(1)).is_some());
        assert!(log.remove(StreamSequence(1)).is_none());
        assert_eq!(log.first(), StreamSequence(8_501));
        assert_eq!(log.deleted(), 0);
        assert_eq!(log.chunks.len(), 0);
        assert_eq!(
            log.get(StreamSequence(8_501)).unwrap().payload.digest,
            8_501
        );
    }

    #[test]
    fn an_empty_log_begins_after_its_last_message() {
        let (mut log, origin) = log(Storage::File, 3);
        log.clear();
        assert_eq!((log.first().0, log.last().0), (4, 3));
        assert_eq!((log.messages(), log.bytes(), log.deleted()), (0, 0, 0));
        append(&mut log, origin, 4, None);
        assert_eq!(sequences(&log), [4]);
        log.remove(StreamSequence(4));
        log.skip_to(StreamSequence(80));
        append(&mut log, origin, 5, None);
        assert_eq!(sequences(&log), [80]);
    }

    #[test]
    fn a_fork_keeps_what_its_origin_removes() {
        let (mut log, _) = log(Storage::File, 5_000);
        let fork = log.clone();
        assert_eq!(log, fork);
        log.remove(StreamSequence(7));
        assert_ne!(log, fork);
        assert!(fork.get(StreamSequence(7)).is_some());
    }

    #[test]
    fn equal_chunks_of_replicas_lie_in_memory_once() {
        let (mut log, origin) = log(Storage::File, 9_000);
        let (other, _) = self::log(Storage::File, 9_000);
        log.remove(StreamSequence(5_000));
        assert!(log.has_new_chunks());
        log.share(&std::iter::once(&other));
        let shared = |index: usize| {
            let (own, theirs) = (&log.chunks[index], &other.chunks[index]);
            Arc::ptr_eq(&own.entries, &theirs.entries)
        };
        assert!(shared(0) && !shared(1));
        assert!(!log.has_new_chunks());
        assert_eq!(log.get(StreamSequence(5_000)), None);
        assert!(other.get(StreamSequence(5_000)).is_some());
        for message in 9_001..=13_000 {
            append(&mut log, origin, message, None);
        }
        assert!(log.has_new_chunks());
    }

    #[test]
    fn equality_sees_headers_and_payloads() {
        let with = |value: &str| {
            let (mut log, origin) = log(Storage::File, 1);
            let headers = Headers::new(vec![("K".to_owned(), value.to_owned())]);
            append(&mut log, origin, 2, Some(Arc::new(headers)));
            log
        };
        assert_eq!(with("a"), with("a"));
        assert_ne!(with("a"), with("b"));
        assert_ne!(log(Storage::File, 2).0, log(Storage::File, 3).0);
    }

    #[test]
    fn moments_are_found_by_sequence() {
        let (log, _) = log(Storage::File, 5);
        assert_eq!(log.stored_at(StreamSequence(3)), Some(Time::from_millis(3)));
        assert_eq!(log.last_at(), Some(Time::from_millis(5)));
    }
}
