//! What a modelled server's answers and facts are as events: one translation for all that drive one.
//!
//! Leans on the outcomes of `batch`.

use super::{BatchNumber, DropCause, Event};
use crate::batch::fast::publisher::ControlFrame;
use crate::batch::message::{BatchHandle, Fact, Loss, Publish, Reply};

impl ControlFrame {
    /// A reply as a fast publisher takes it; `None`: such a reply never goes to one.
    pub fn of(reply: &Reply) -> Option<Self> {
        Some(match reply {
            Reply::Empty => return None,
            Reply::Ack(ack) => Self::Ack(*ack),
            Reply::Gap(gap) => Self::Gap(*gap),
            Reply::Error(error) => Self::Error {
                sequence: error.sequence,
                code: error.error.code.number(),
            },
            Reply::PubAck(ack, _) => Self::PubAck(*ack),
            Reply::Refused(error) => Self::Refused(error.code.number()),
            Reply::NoResponders(_) => Self::Status(503),
            Reply::TooManyRequests => Self::Status(429),
        })
    }
}

impl From<Loss> for DropCause {
    fn from(loss: Loss) -> Self {
        match loss {
            Loss::NoLeader => Self::NoLeader,
            Loss::ServerDown => Self::ServerDown,
            Loss::RouteDown => Self::RouteDown,
        }
    }
}

impl Event {
    /// What the server tells when `frame` leaves it on the control channel of `batch`.
    pub fn sent(batch: BatchNumber, frame: ControlFrame) -> Self {
        match frame {
            ControlFrame::Ack(ack) => Self::AckSent {
                batch,
                flow: ack.messages,
                sequence: ack.sequence,
            },
            ControlFrame::Gap(gap) => Self::GapSent {
                batch,
                expected: gap.expected,
                received: gap.received,
            },
            ControlFrame::Error { sequence, code } => Self::ErrorSent {
                batch,
                code,
                sequence,
            },
            ControlFrame::PubAck(ack) => Self::PubAckSent {
                batch,
                duplicate: ack.duplicate,
                count: ack.count.unwrap_or_default(),
                sequence: ack.sequence,
            },
            ControlFrame::Refused(code) | ControlFrame::Status(code) => {
                Self::RefusalSent { batch, code }
            }
        }
    }

    /// What an end of batch or a ping tells when it reaches the server; other messages tell their
    /// arrival by what becomes of them.
    pub fn received(
        publish: &Publish,
        number: impl FnOnce(BatchHandle) -> BatchNumber,
    ) -> Option<Self> {
        let (batch, operation, sequence) = publish.frame()?;
        (!operation.stores()).then(|| Self::ControlReceived {
            batch: number(batch),
            operation,
            sequence,
        })
    }

    /// What a fact of the server tells; nothing, where it is about no fast batch. `number` gives a batch
    /// its number in the run.
    pub fn of_fact(fact: &Fact, number: impl FnOnce(BatchHandle) -> BatchNumber) -> Option<Self> {
        Some(match *fact {
            Fact::BatchOpened { batch, open, flow } => Self::BatchOpened {
                batch: number(batch),
                open,
                flow,
            },
            Fact::BatchForgotten { batch, idle } => Self::BatchForgotten {
                batch: number(batch),
                idle,
            },
            Fact::Stored {
                batch,
                sequence,
                stream_sequence,
                payload,
                ..
            } => Self::Stored {
                batch: number(batch?),
                bytes: payload.bytes,
                digest: payload.digest,
                sequence,
                stream_sequence,
            },
            Fact::Deduplicated {
                batch, sequence, ..
            } => Self::Deduplicated {
                batch: number(batch),
                sequence,
            },
            Fact::Rejected {
                batch,
                sequence,
                code,
                ..
            } => Self::Rejected {
                batch: number(batch),
                code,
                sequence,
            },
            Fact::Overflowed {
                batch,
                operation,
                sequence,
            } => Self::Dropped {
                batch: number(batch),
                cause: DropCause::IngestQueue,
                operation: Some(operation),
                sequence,
            },
            Fact::Unheard {
                batch,
                operation,
                sequence,
            } => Self::Dropped {
                batch: number(batch),
                cause: DropCause::NoResponders,
                operation: Some(operation),
                sequence,
            },
            Fact::LostInside {
                batch,
                operation,
                sequence,
                loss,
            } => Self::Dropped {
                batch: number(batch),
                cause: loss.into(),
                operation: Some(operation),
                sequence,
            },
            Fact::Rewound { last, lost } => Self::StreamRewound { last, lost },
            Fact::Leader(leader) => Self::LeaderChanged { leader },
            Fact::ApiDropped { server, requests } => Self::ApiDropped { server, requests },
            Fact::Abandoned { .. } | Fact::Atomic(_) => return None,
        })
    }
}
