//! What falls into a part of the run: counts by when messages were sent, and what of waits and open batches
//! lies within it.
//!
//! Leans on `parts` and `groups`.

use super::LatencyHistogram;
use super::groups::GroupRecord;
use super::parts::{Part, Parts, Places, Spans};

/// Counts of one part.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Messages sent.
    pub(super) published: u64,
    /// Of those, the ones acknowledged, and their bytes.
    pub(super) acknowledged: u64,
    pub(super) bytes: u64,
    /// The same for each publisher.
    shares: Vec<u64>,
    /// Waits at a shut gate that began within, and what of earlier ones was left at its start.
    begun: Spans,
    rest: Spans,
    /// What of all waits, and of the time of open batches, lies within.
    pub(super) waited: u64,
    pub(super) open_time: u64,
}

impl Part for Measured {
    fn absorb(&mut self, next: Self) {
        self.published += next.published;
        self.acknowledged += next.acknowledged;
        self.bytes += next.bytes;
        if self.shares.len() < next.shares.len() {
            self.shares.resize(next.shares.len(), 0);
        }
        for (mine, theirs) in self.shares.iter_mut().zip(next.shares) {
            *mine += theirs;
        }
        self.begun.absorb(next.begun);
        // what was left at the start of the second lies within the first, or was left at its start
        self.waited += next.waited;
        self.open_time += next.open_time;
    }
}

impl Measured {
    /// Messages acknowledged to each of so many publishers.
    pub(super) fn shares(&mut self, publishers: usize) -> Vec<u64> {
        let mut shares = std::mem::take(&mut self.shares);
        shares.resize(publishers, 0);
        shares
    }

    /// All waits, each by what of it lies within this part and later ones.
    pub(super) fn waits(&self) -> LatencyHistogram {
        let mut waits = self.begun.clone();
        waits.absorb(self.rest.clone());
        waits.histogram()
    }
}

/// A publisher waited at a shut gate.
pub(super) fn wait(parts: &mut Parts<Measured>, places: &Places, since: u64, until: u64) {
    if let Some(place) = places.of(since) {
        parts.at(place).begun.record(until.saturating_sub(since), 1);
    }
    for place in places.begun_within(since, until) {
        let rest = until - places.start(place);
        parts.at(place).rest.record(rest, 1);
    }
    spread(parts, places, (since, until), |part, span| {
        part.waited += span;
    });
}

/// A batch was open.
pub(super) fn open(parts: &mut Parts<Measured>, places: &Places, since: u64, until: u64) {
    spread(parts, places, (since, until), |part, span| {
        part.open_time += span;
    });
}

/// Adds to each part what of a span of time lies within it.
fn spread(
    parts: &mut Parts<Measured>,
    places: &Places,
    (since, until): (u64, u64),
    add: impl Fn(&mut Measured, u64),
) {
    let mut at = since.max(places.start(0));
    while let Some(place) = places.of(at).filter(|_| at < until) {
        let end = places.start(place + 1).min(until);
        add(parts.at(place), end - at);
        at = end;
    }
}

/// What one ack covers of messages sent in the same part.
#[derive(Default)]
pub(super) struct Credit {
    /// Of no part in a warm-up that is known.
    pub(super) place: Option<usize>,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Credit {
    /// Counts it for the run, its publisher and its group.
    #[inline]
    pub(super) fn book(
        &self,
        parts: &mut Parts<Measured>,
        group: &mut GroupRecord,
        publisher: u32,
    ) {
        let Some(place) = self.place.filter(|_| self.messages > 0) else {
            return;
        };
        let part = parts.at(place);
        part.acknowledged += self.messages;
        part.bytes += self.bytes;
        let publisher = publisher as usize;
        if part.shares.len() <= publisher {
            part.shares.resize(publisher + 1, 0);
        }
        part.shares[publisher] += self.messages;
        group.parts.at(place).acknowledged += self.messages;
    }
}
