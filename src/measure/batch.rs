//! What is known of one batch while it lives.
//!
//! Leans on `in_flight`.

use std::collections::BTreeSet;

use super::in_flight::InFlight;

/// What is known of a live batch.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) in_flight: InFlight,
    pub(super) publisher: u32,
    pub(super) group: usize,
    pub(super) flow: u16,
    pub(super) started: u64,
    pub(super) blocked_since: Option<u64>,
    pub(super) last_stored: u64,
    /// Where the server is with it.
    pub(super) at_server: AtServer,
    /// Highest sequence sent.
    pub(super) newest: u64,
    /// Highest sequence whose fate the server has told.
    pub(super) decided: u64,
    /// Sequences above `decided` that were lost on the way.
    pub(super) dropped: BTreeSet<u64>,
    /// Pings that are counted, and those that the server received.
    pub(super) pings_counted: u32,
    pub(super) pings_received: u32,
    /// Over for its publisher.
    pub(super) ended: bool,
}

/// A batch as its server knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AtServer {
    /// Not heard of yet.
    #[default]
    Coming,
    /// Open: its events still come.
    Open,
    /// Refused, over, or never to arrive: nothing of it will be stored any more.
    Over,
}

impl Batch {
    /// The server told the fate of a message, and with it that of all before: links keep the order.
    #[inline]
    pub(super) fn decide(&mut self, sequence: u64) {
        self.decided = self.decided.max(sequence);
        if self.dropped.is_empty() {
            return;
        }
        while self
            .dropped
            .first()
            .is_some_and(|first| *first <= self.decided)
        {
            self.dropped.pop_first();
        }
    }

    /// A message was lost on the way in. Without its first message a batch never opens.
    pub(super) fn lose(&mut self, sequence: u64) {
        match self.at_server {
            AtServer::Coming if sequence == 1 => self.at_server = AtServer::Over,
            AtServer::Coming | AtServer::Open if sequence > self.decided => {
                self.dropped.insert(sequence);
            }
            AtServer::Coming | AtServer::Open | AtServer::Over => {}
        }
    }

    /// Messages that are on a link or in a queue: sent, and neither stored nor lost yet.
    pub(super) fn under_way(&self) -> u64 {
        if self.at_server == AtServer::Over {
            return 0;
        }
        let lost = self.dropped.range(..=self.newest).count() as u64;
        self.newest
            .saturating_sub(self.decided)
            .saturating_sub(lost)
    }
}
