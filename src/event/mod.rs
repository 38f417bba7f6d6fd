//! The event catalogue: everything a run does that anybody may want to count, judge or draw.
//!
//! Both worlds tell their story in these events and in nothing else; measures, judges, results and
//! charts read only them. Events are small and `Copy`, so that a run streams them and keeps none.
//! Leans on `machine`, the words of `nats`, and the outcomes, frames and facts of `batch`.

mod encode;
mod server;
mod table;

pub use crate::batch::fast::publisher::Outcome;
pub use encode::{EncodedEvent, TraceHasher};
pub use table::BatchTable;

use crate::batch::fast::publisher::ControlFrame;
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation, StreamSequence};
use crate::raft::RaftEvent;

/// A publisher of the run, numbered from 0 in the order of the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PublisherId(pub u32);

/// A batch of the run, numbered from 0 in the order in which batches open.
///
/// Batch ids on the wire are random names; events never order or hash by them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BatchNumber(pub u32);

/// What a server, its stream or a link did to a frame: the reason of an [`Event::Dropped`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum DropCause {
    /// The ingest queue was full; the sender gets status 429.
    IngestQueue = 0,
    /// A fault of the file took it.
    Fault = 1,
    /// The link was cut.
    Cut = 2,
    /// Nobody listens on the subject; the sender gets status 503.
    NoResponders = 3,
    /// The server that it was routed to leads no more; nobody hears of it.
    NoLeader = 4,
    /// It was in a server that went down, or on its way there; nobody hears of it.
    ServerDown = 5,
    /// The route between two servers was down; nobody hears of it.
    RouteDown = 6,
}

/// The requests whose latency is measured: calls of the API, and a publish that waits for its PubAck.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum ApiOperation {
    /// Stream creation.
    Create = 0,
    /// Stream update.
    Update = 1,
    /// Stream deletion.
    Delete = 2,
    /// Stream purge.
    Purge = 3,
    /// Stream information.
    Info = 4,
    /// Read of one message.
    MessageGet = 5,
    /// Deletion of one message.
    MessageDelete = 6,
    /// Purge of a stream that nobody publishes to.
    PurgeOther = 7,
    /// A plain publish.
    Publish = 8,
}

impl ApiOperation {
    /// The word in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Purge => "purge",
            Self::Info => "info",
            Self::MessageGet => "message-get",
            Self::MessageDelete => "message-delete",
            Self::PurgeOther => "purge-other",
            Self::Publish => "publish",
        }
    }
}

/// One thing that happened. `…Seen` is what a client took in, `…Sent` what the server sent out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(
    missing_docs,
    reason = "what a variant's doc does not say of a field, its name and type do"
)]
pub enum Event {
    // -- client ------------------------------------------------------------------------------
    /// A publisher begins a batch with these settings. A client that is no fast publisher has batches,
    /// too: an atomic one, or just messages that are counted together. `flow` is 0 then where no ack
    /// comes before the last message, and 1 where each message has its own, with so many outstanding.
    BatchStarted {
        publisher: PublisherId,
        batch: BatchNumber,
        flow: u16,
        outstanding_acks: u16,
        gap: GapMode,
    },
    /// A message left the publisher. `intended` is when the load wanted it sent.
    Published {
        batch: BatchNumber,
        operation: Operation,
        bytes: u32,
        sequence: BatchSequence,
        intended: Time,
    },
    /// The gate shut: the publisher waits for an ack.
    Blocked { batch: BatchNumber },
    /// The gate opened again (or the wait ended in another way).
    Unblocked { batch: BatchNumber },
    /// A flow ack reached the publisher. `flow` 0: the client does not tell it.
    AckSeen {
        batch: BatchNumber,
        flow: u16,
        sequence: BatchSequence,
    },
    /// A gap reached the publisher: `expected..received` are missing.
    GapSeen {
        batch: BatchNumber,
        expected: BatchSequence,
        received: BatchSequence,
    },
    /// A flow error reached the publisher, or an error in place of the PubAck of a single message.
    ErrorSeen {
        batch: BatchNumber,
        code: u16,
        sequence: BatchSequence,
    },
    /// A PubAck reached the publisher.
    PubAckSeen {
        batch: BatchNumber,
        duplicate: bool,
        count: BatchSequence,
        sequence: StreamSequence,
    },
    /// An error in place of a PubAck reached the publisher: `code` is its `err_code`, or 503 / 429
    /// for a bare status.
    RefusalSeen { batch: BatchNumber, code: u16 },
    /// The PubAck of a single message reached a publisher that has each of its messages acknowledged
    /// for itself: it covers that message and no other.
    MessageAckSeen {
        batch: BatchNumber,
        duplicate: bool,
        sequence: BatchSequence,
        stream_sequence: StreamSequence,
    },
    /// The batch is over for its publisher; `code` is 0 or the error that ended it, `acknowledged`
    /// the highest sequence it knows to be covered.
    BatchEnded {
        batch: BatchNumber,
        outcome: Outcome,
        code: u16,
        acknowledged: BatchSequence,
    },
    /// Messages that the load wanted and that this publisher never sent: owed when it stopped, or
    /// taken by a batch that ended first. Told once, at its end, unless there are none.
    Withheld {
        publisher: PublisherId,
        messages: u64,
    },
    /// The publisher has no more to do.
    PublisherDone { publisher: PublisherId },

    // -- server ------------------------------------------------------------------------------
    /// The server opened a batch: `open` fast batches are now registered, the first flow is `flow`.
    BatchOpened {
        batch: BatchNumber,
        open: u32,
        flow: u16,
    },
    /// The server forgot a batch: after its PubAck, or after the idle timeout (`idle`).
    BatchForgotten { batch: BatchNumber, idle: bool },
    /// A message of a batch went into the stream.
    Stored {
        batch: BatchNumber,
        bytes: u32,
        digest: u32,
        sequence: BatchSequence,
        stream_sequence: StreamSequence,
    },
    /// A message of a batch carried a message id that the stream knows: not stored again.
    Deduplicated {
        batch: BatchNumber,
        sequence: BatchSequence,
    },
    /// A message was refused.
    Rejected {
        batch: BatchNumber,
        code: u16,
        sequence: BatchSequence,
    },
    /// A frame was lost: a message, end of batch or ping on its way in, or a reply (no operation).
    Dropped {
        batch: BatchNumber,
        cause: DropCause,
        operation: Option<Operation>,
        sequence: BatchSequence,
    },
    /// An end of batch or a ping reached the server (stored messages tell their arrival).
    ControlReceived {
        batch: BatchNumber,
        operation: Operation,
        sequence: BatchSequence,
    },
    /// A flow ack left the server.
    AckSent {
        batch: BatchNumber,
        flow: u16,
        sequence: BatchSequence,
    },
    /// A gap left the server.
    GapSent {
        batch: BatchNumber,
        expected: BatchSequence,
        received: BatchSequence,
    },
    /// A flow error left the server.
    ErrorSent {
        batch: BatchNumber,
        code: u16,
        sequence: BatchSequence,
    },
    /// The PubAck of a batch left the server.
    PubAckSent {
        batch: BatchNumber,
        duplicate: bool,
        count: BatchSequence,
        sequence: StreamSequence,
    },
    /// An error in place of a PubAck left the server.
    RefusalSent { batch: BatchNumber, code: u16 },

    /// Nothing under way could end the wait of this batch: no message of it on its way in, no
    /// reply on its way out that says more than the publisher knows. Told where a wait ends without
    /// its reply, so that a slow reply is not taken for a stall.
    AtRest { batch: BatchNumber },

    // -- surroundings ------------------------------------------------------------------------
    /// A fault of the file fired; numbered from 0 in the order of the file. `server`: whom it befell,
    /// where it is about one server and there was one.
    Fault { fault: u32, server: Option<u8> },
    /// A fault of the file that lasts is over.
    Healed { fault: u32 },
    /// The stream has another leader, by the number of its server; `None`: it has none.
    LeaderChanged { leader: Option<u8> },
    /// The stream ends here now, and so many messages less are in it: they were lost with the power
    /// of machines that had not synced them.
    StreamRewound { last: StreamSequence, lost: u64 },
    /// Something became true in a replica of the stream, on this server.
    Raft { replica: u8, event: RaftEvent },
    /// A request of this probe was answered, `latency` after its intended start: `code` is 0, or the
    /// `err_code` (or 503, 429) that refused it.
    ApiAnswered {
        probe: u32,
        operation: ApiOperation,
        code: u16,
        latency: Time,
    },
    /// A request left this probe, `late` after its intended start.
    ApiAsked {
        probe: u32,
        operation: ApiOperation,
        late: Time,
    },
    /// A probe gave up a request, `waited` after its intended start.
    ApiUnanswered {
        probe: u32,
        operation: ApiOperation,
        waited: Time,
    },
    /// The queue of API requests on this server was full, and so many of them were dropped.
    ApiDropped { server: u8, requests: u32 },
}

impl Event {
    /// What a publisher tells when `frame` reaches it on the control channel of `batch`.
    pub fn seen(batch: BatchNumber, frame: ControlFrame) -> Self {
        match frame {
            ControlFrame::Ack(ack) => Self::AckSeen {
                batch,
                flow: ack.messages,
                sequence: ack.sequence,
            },
            ControlFrame::Gap(gap) => Self::GapSeen {
                batch,
                expected: gap.expected,
                received: gap.received,
            },
            ControlFrame::Error { sequence, code } => Self::ErrorSeen {
                batch,
                code,
                sequence,
            },
            ControlFrame::PubAck(ack) => Self::PubAckSeen {
                batch,
                duplicate: ack.duplicate,
                count: ack.count.unwrap_or_default(),
                sequence: ack.sequence,
            },
            ControlFrame::Refused(code) | ControlFrame::Status(code) => {
                Self::RefusalSeen { batch, code }
            }
        }
    }

    /// The batch that the event is about, if it is about one.
    #[inline]
    pub const fn batch(&self) -> Option<BatchNumber> {
        match *self {
            Self::BatchStarted { batch, .. }
            | Self::Published { batch, .. }
            | Self::Blocked { batch }
            | Self::Unblocked { batch }
            | Self::AckSeen { batch, .. }
            | Self::GapSeen { batch, .. }
            | Self::ErrorSeen { batch, .. }
            | Self::PubAckSeen { batch, .. }
            | Self::RefusalSeen { batch, .. }
            | Self::MessageAckSeen { batch, .. }
            | Self::BatchEnded { batch, .. }
            | Self::BatchOpened { batch, .. }
            | Self::BatchForgotten { batch, .. }
            | Self::Stored { batch, .. }
            | Self::Deduplicated { batch, .. }
            | Self::Rejected { batch, .. }
            | Self::Dropped { batch, .. }
            | Self::ControlReceived { batch, .. }
            | Self::AckSent { batch, .. }
            | Self::GapSent { batch, .. }
            | Self::ErrorSent { batch, .. }
            | Self::PubAckSent { batch, .. }
            | Self::RefusalSent { batch, .. }
            | Self::AtRest { batch } => Some(batch),
            Self::Withheld { .. }
            | Self::PublisherDone { .. }
            | Self::Fault { .. }
            | Self::Healed { .. }
            | Self::LeaderChanged { .. }
            | Self::StreamRewound { .. }
            | Self::Raft { .. }
            | Self::ApiAnswered { .. }
            | Self::ApiAsked { .. }
            | Self::ApiUnanswered { .. }
            | Self::ApiDropped { .. } => None,
        }
    }
}

/// Reads events as they happen. It cannot answer, so no run depends on who watches it.
pub trait Observer {
    /// Takes one event of the moment `at`; moments never go back.
    fn see(&mut self, at: Time, event: &Event);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::ack::{FlowAck, Gap};

    #[test]
    fn a_frame_is_told_with_its_own_figures() {
        let batch = BatchNumber(3);
        let ack = FlowAck {
            sequence: BatchSequence(20),
            messages: 10,
        };
        assert_eq!(
            Event::seen(batch, ControlFrame::Ack(ack)),
            Event::AckSeen {
                batch,
                flow: 10,
                sequence: BatchSequence(20),
            }
        );
        let gap = Gap {
            expected: BatchSequence(4),
            received: BatchSequence(7),
        };
        assert_eq!(
            Event::seen(batch, ControlFrame::Gap(gap)),
            Event::GapSeen {
                batch,
                expected: BatchSequence(4),
                received: BatchSequence(7),
            }
        );
        let refusal = |code| Event::RefusalSeen { batch, code };
        assert_eq!(Event::seen(batch, ControlFrame::Status(429)), refusal(429));
        assert_eq!(
            Event::seen(batch, ControlFrame::Refused(10_208)),
            refusal(10_208)
        );
    }
}
