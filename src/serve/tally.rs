//! What a served model saw, in numbers.
//!
//! Leans on `event`, and on the facts of `server`.

use serde::Serialize;

use crate::event::{DropCause, Event, Observer};
use crate::machine::Time;
use crate::server::message::{AtomicFact, Fact};

/// Counts of one run. Messages are those of fast batches unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Tally {
    /// Clients that connected.
    pub connections: u64,
    /// Clients that were not let in: by a cut, or since there are too many.
    pub turned_away: u64,
    /// Connections that published to a batch: the publishers that faults count.
    pub publishers: u64,
    /// Connections that the server ended, for whatever reason.
    pub cut_off: u64,
    /// API calls answered.
    pub api_calls: u64,
    /// Plain messages stored.
    pub plain_stored: u64,
    /// Messages stored with atomic batches.
    pub atomic_stored: u64,
    /// Atomic batches committed.
    pub atomic_committed: u64,
    /// Atomic batches that ended without a commit: refused, abandoned, or dropped with their stream.
    pub atomic_failed: u64,
    /// Batches opened.
    pub batches: u64,
    /// Batches forgotten because nothing came.
    pub batches_idle: u64,
    /// Messages stored.
    pub stored: u64,
    /// Messages known by their id already.
    pub duplicates: u64,
    /// Messages refused.
    pub rejected: u64,
    /// Messages, ends of batches and pings that met a full ingest queue.
    pub overflowed: u64,
    /// Messages, ends of batches and pings on subjects that no stream takes.
    pub unheard: u64,
    /// Frames that a fault took, or that a cut took with it.
    pub lost: u64,
    /// Ends of batches received.
    pub ends: u64,
    /// Pings received.
    pub pings: u64,
    /// What was sent.
    pub sent: Frames,
    /// Times that a fault of the file fired.
    pub faults: u64,
}

/// Frames sent on control channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Frames {
    /// Flow acks.
    pub flow_acks: u64,
    /// Gaps.
    pub gaps: u64,
    /// Flow errors.
    pub flow_errors: u64,
    /// PubAcks.
    pub pub_acks: u64,
    /// Errors in place of a PubAck.
    pub refusals: u64,
}

impl Tally {
    /// Counts what no event tells.
    pub(super) const fn note(&mut self, fact: &Fact) {
        let count = match fact {
            Fact::Stored { batch: None, .. } => &mut self.plain_stored,
            Fact::Atomic(AtomicFact::Stored { .. }) => &mut self.atomic_stored,
            Fact::Atomic(AtomicFact::Forgotten { committed, .. }) => {
                if *committed {
                    &mut self.atomic_committed
                } else {
                    &mut self.atomic_failed
                }
            }
            _ => return,
        };
        *count += 1;
    }
}

impl Observer for Tally {
    fn see(&mut self, _at: Time, event: &Event) {
        let count = match event {
            Event::BatchOpened { .. } => &mut self.batches,
            Event::BatchForgotten { idle: true, .. } => &mut self.batches_idle,
            Event::Stored { .. } => &mut self.stored,
            Event::Deduplicated { .. } => &mut self.duplicates,
            Event::Rejected { .. } => &mut self.rejected,
            Event::Dropped { cause, .. } => match cause {
                DropCause::IngestQueue => &mut self.overflowed,
                DropCause::NoResponders => &mut self.unheard,
                DropCause::Fault
                | DropCause::Cut
                | DropCause::NoLeader
                | DropCause::ServerDown
                | DropCause::RouteDown => &mut self.lost,
            },
            Event::ControlReceived { operation, .. } => {
                if *operation == crate::nats::Operation::Ping {
                    &mut self.pings
                } else {
                    &mut self.ends
                }
            }
            Event::AckSent { .. } => &mut self.sent.flow_acks,
            Event::GapSent { .. } => &mut self.sent.gaps,
            Event::ErrorSent { .. } => &mut self.sent.flow_errors,
            Event::PubAckSent { .. } => &mut self.sent.pub_acks,
            Event::RefusalSent { .. } => &mut self.sent.refusals,
            Event::Fault { .. } => &mut self.faults,
            // A client's side, which a server does not see, and what is counted elsewhere.
            _ => return,
        };
        *count += 1;
    }
}
