//! The one canonical encoding of events, and the trace hash over it.
//!
//! Five little-endian words per event: tag and small fields, moment, then up to three fields.
//! Leans on `event`. Changing anything here changes every trace hash.

use super::{Event, Observer};
use crate::machine::Time;
use crate::raft::message::Position;
use crate::raft::{RaftEvent, Term};
use xxhash_rust::xxh3::Xxh3;

/// An event in its canonical form.
pub type EncodedEvent = [u64; 5];

/// Packs a tag and three small fields into the first word.
const fn head(tag: u64, small: u64, middle: u64, number: u32) -> u64 {
    tag | small << 8 | middle << 16 | (number as u64) << 32
}

impl Event {
    /// The canonical encoding of this event at `at`.
    pub fn encode(&self, at: Time) -> EncodedEvent {
        let at = at.as_nanos();
        match *self {
            Self::BatchStarted {
                publisher,
                batch,
                flow,
                outstanding_acks,
                gap,
            } => [
                head(1, gap as u64, u64::from(flow), publisher.0),
                at,
                u64::from(batch.0),
                u64::from(outstanding_acks),
                0,
            ],
            Self::Published {
                batch,
                operation,
                bytes,
                sequence,
                intended,
            } => [
                head(2, operation as u64, 0, batch.0),
                at,
                sequence.0,
                intended.as_nanos(),
                u64::from(bytes),
            ],
            Self::Blocked { batch } => [head(3, 0, 0, batch.0), at, 0, 0, 0],
            Self::Unblocked { batch } => [head(4, 0, 0, batch.0), at, 0, 0, 0],
            Self::AckSeen {
                batch,
                flow,
                sequence,
            } => [head(5, 0, u64::from(flow), batch.0), at, sequence.0, 0, 0],
            Self::GapSeen {
                batch,
                expected,
                received,
            } => [head(6, 0, 0, batch.0), at, expected.0, received.0, 0],
            Self::ErrorSeen {
                batch,
                code,
                sequence,
            } => [head(7, 0, u64::from(code), batch.0), at, sequence.0, 0, 0],
            Self::PubAckSeen {
                batch,
                duplicate,
                count,
                sequence,
            } => [
                head(8, u64::from(duplicate), 0, batch.0),
                at,
                count.0,
                sequence.0,
                0,
            ],
            Self::RefusalSeen { batch, code } => {
                [head(9, 0, u64::from(code), batch.0), at, 0, 0, 0]
            }
            Self::MessageAckSeen {
                batch,
                duplicate,
                sequence,
                stream_sequence,
            } => [
                head(35, u64::from(duplicate), 0, batch.0),
                at,
                sequence.0,
                stream_sequence.0,
                0,
            ],
            Self::BatchEnded {
                batch,
                outcome,
                code,
                acknowledged,
            } => [
                head(10, outcome as u64, u64::from(code), batch.0),
                at,
                acknowledged.0,
                0,
                0,
            ],
            Self::Withheld {
                publisher,
                messages,
            } => [head(27, 0, 0, publisher.0), at, messages, 0, 0],
            Self::PublisherDone { publisher } => [head(11, 0, 0, publisher.0), at, 0, 0, 0],
            Self::BatchOpened { batch, open, flow } => [
                head(12, 0, u64::from(flow), batch.0),
                at,
                u64::from(open),
                0,
                0,
            ],
            Self::BatchForgotten { batch, idle } => {
                [head(13, u64::from(idle), 0, batch.0), at, 0, 0, 0]
            }
            Self::Stored {
                batch,
                bytes,
                digest,
                sequence,
                stream_sequence,
            } => {
                let body = u64::from(bytes) << 32 | u64::from(digest);
                [
                    head(14, 0, 0, batch.0),
                    at,
                    sequence.0,
                    stream_sequence.0,
                    body,
                ]
            }
            Self::Deduplicated { batch, sequence } => {
                [head(15, 0, 0, batch.0), at, sequence.0, 0, 0]
            }
            Self::Rejected {
                batch,
                code,
                sequence,
            } => [head(16, 0, u64::from(code), batch.0), at, sequence.0, 0, 0],
            Self::Dropped {
                batch,
                cause,
                operation,
                sequence,
            } => [
                head(
                    17,
                    cause as u64,
                    operation.map_or(0xff, |operation| operation as u64),
                    batch.0,
                ),
                at,
                sequence.0,
                0,
                0,
            ],
            Self::ControlReceived {
                batch,
                operation,
                sequence,
            } => [head(25, operation as u64, 0, batch.0), at, sequence.0, 0, 0],
            Self::Healed { fault } => [head(28, 0, 0, fault), at, 0, 0, 0],
            Self::AtRest { batch } => [head(26, 0, 0, batch.0), at, 0, 0, 0],
            Self::AckSent {
                batch,
                flow,
                sequence,
            } => [head(18, 0, u64::from(flow), batch.0), at, sequence.0, 0, 0],
            Self::GapSent {
                batch,
                expected,
                received,
            } => [head(19, 0, 0, batch.0), at, expected.0, received.0, 0],
            Self::ErrorSent {
                batch,
                code,
                sequence,
            } => [head(20, 0, u64::from(code), batch.0), at, sequence.0, 0, 0],
            Self::PubAckSent {
                batch,
                duplicate,
                count,
                sequence,
            } => [
                head(21, u64::from(duplicate), 0, batch.0),
                at,
                count.0,
                sequence.0,
                0,
            ],
            Self::RefusalSent { batch, code } => {
                [head(22, 0, u64::from(code), batch.0), at, 0, 0, 0]
            }
            Self::Fault { fault, server } => {
                let server = server.map_or(0, |server| u64::from(server) + 1);
                [head(23, 0, 0, fault), at, server, 0, 0]
            }
            Self::LeaderChanged { leader } => {
                let leader = leader.map_or(0, |server| u64::from(server) + 1);
                [head(29, 0, 0, 0), at, leader, 0, 0]
            }
            Self::ApiAnswered {
                probe,
                operation,
                code,
                latency,
            } => [
                head(24, operation as u64, u64::from(code), probe),
                at,
                latency.as_nanos(),
                0,
                0,
            ],
            Self::ApiAsked {
                probe,
                operation,
                late,
            } => [
                head(32, operation as u64, 0, probe),
                at,
                late.as_nanos(),
                0,
                0,
            ],
            Self::ApiUnanswered {
                probe,
                operation,
                waited,
            } => [
                head(33, operation as u64, 0, probe),
                at,
                waited.as_nanos(),
                0,
                0,
            ],
            Self::ApiDropped { server, requests } => {
                [head(34, u64::from(server), 0, requests), at, 0, 0, 0]
            }
            Self::StreamRewound { last, lost } => [head(31, 0, 0, 0), at, last.0, lost, 0],
            Self::Raft { replica, event } => {
                let ([small, number], [first, second, third]) = raft_fields(event);
                let head = head(30, small, u64::from(replica), number as u32);
                [head, at, first, second, third]
            }
        }
    }
}

/// What tells an event of RAFT from others: its kind and a number of 32 bits, then three more.
fn raft_fields(event: RaftEvent) -> ([u64; 2], [u64; 3]) {
    let number = |term: Term| u64::from(term.0);
    let place = |last: Position| [last.index.0, u64::from(last.term.0), 0];
    match event {
        RaftEvent::Voted { term, candidate } => ([1, number(term)], [u64::from(candidate.0), 0, 0]),
        RaftEvent::Elected { term } => ([2, number(term)], [0; 3]),
        RaftEvent::Led { term } => ([3, number(term)], [0; 3]),
        RaftEvent::Stored {
            index,
            term,
            checked_in,
            content,
        } => (
            [4, number(term)],
            [index.0, number(checked_in), u64::from(content)],
        ),
        RaftEvent::Truncated { last } => ([5, 0], place(last)),
        RaftEvent::SnapshotStored { last } => ([6, 0], place(last)),
        RaftEvent::Recovered { last, may_lose } => ([7, u64::from(may_lose)], place(last)),
        RaftEvent::Committed { index } => ([8, 0], [index.0, 0, 0]),
        RaftEvent::Applied { index, prefix } => ([9, u64::from(prefix)], [index.0, 0, 0]),
        RaftEvent::AskedForCatchup => ([10, 0], [0; 3]),
        RaftEvent::Paused => ([11, 0], [0; 3]),
        RaftEvent::Resumed => ([12, 0], [0; 3]),
    }
}

/// Hashes a run: equal hashes mean equal runs, event for event.
///
/// Events are gathered and hashed in bulk with XXH3, which costs a fraction of feeding them one by
/// one.
pub struct TraceHasher {
    hasher: Xxh3,
    gathered: Box<[[u8; EVENT_BYTES]; BULK]>,
    /// So many of them wait to be hashed.
    waiting: usize,
}

/// Bytes of an encoded event.
const EVENT_BYTES: usize = size_of::<EncodedEvent>();
/// Events that are hashed at once.
const BULK: usize = 204;

impl Default for TraceHasher {
    fn default() -> Self {
        Self {
            hasher: Xxh3::new(),
            gathered: Box::new([[0; EVENT_BYTES]; BULK]),
            waiting: 0,
        }
    }
}

impl TraceHasher {
    /// The hash of all events seen.
    pub fn finish(mut self) -> u64 {
        self.flush();
        self.hasher.digest()
    }

    fn flush(&mut self) {
        self.hasher
            .update(self.gathered[..self.waiting].as_flattened());
        self.waiting = 0;
    }
}

impl Observer for TraceHasher {
    #[inline]
    fn see(&mut self, at: Time, event: &Event) {
        let place = &mut self.gathered[self.waiting];
        for (bytes, word) in place.as_chunks_mut().0.iter_mut().zip(event.encode(at)) {
            *bytes = word.to_le_bytes();
        }
        self.waiting += 1;
        if self.waiting == BULK {
            self.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::BatchNumber;
    use crate::nats::BatchSequence;

    fn hash(events: &[(u64, Event)]) -> u64 {
        let mut hasher = TraceHasher::default();
        for (at, event) in events {
            hasher.see(Time::from_nanos(*at), event);
        }
        hasher.finish()
    }

    #[test]
    fn moment_order_and_fields_all_count() {
        let ack = |batch, flow, sequence| Event::AckSeen {
            batch: BatchNumber(batch),
            flow,
            sequence: BatchSequence(sequence),
        };
        let base = hash(&[(1, ack(0, 10, 10)), (2, ack(1, 10, 10))]);
        assert_eq!(base, hash(&[(1, ack(0, 10, 10)), (2, ack(1, 10, 10))]));
        assert_ne!(base, hash(&[(1, ack(1, 10, 10)), (2, ack(0, 10, 10))]));
        assert_ne!(base, hash(&[(1, ack(0, 10, 10)), (3, ack(1, 10, 10))]));
        assert_ne!(base, hash(&[(1, ack(0, 11, 10)), (2, ack(1, 10, 10))]));
        assert_ne!(base, hash(&[(1, ack(0, 10, 11)), (2, ack(1, 10, 10))]));
    }

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 32, "{}", size_of::<Event>());
    }
}
