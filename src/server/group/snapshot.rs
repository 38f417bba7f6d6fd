//! Snapshots of a stream: when a replica takes one, and how it takes one over.
//!
//! Leans on `raft` for what they are in a log.

use std::sync::Arc;

use super::replica::{APPLIED_WHOLLY, Input};
use super::{Around, Group};
use crate::machine::{Sink, Time};
use crate::raft::{LogIndex, State};
use crate::server::Action;
use crate::stream::Stream;

/// A stream as it was when a snapshot was taken.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Snapshot {
    stream: Arc<Stream>,
    /// Digest of all that it stands for.
    prefix: u64,
}

impl Snapshot {
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) const fn prefix(&self) -> u64 {
        self.prefix
    }
}

impl State for Snapshot {
    fn bytes(&self) -> u64 {
        self.stream.log().bytes()
    }
}

impl Group {
    pub(super) fn snapshot(
        &mut self,
        now: Time,
        index: usize,
        around: &Around<'_>,
        out: &mut dyn Sink<Action>,
    ) {
        let member = &self.members[index];
        let since = member.applied.since(member.node.log().snapshot_index());
        // After a restart the store is ahead of what is handed over again.
        let is_ahead = (member.applied, APPLIED_WHOLLY) < member.stable;
        if since < self.model.snapshot_entries || is_ahead || member.host.stream.is_gathering() {
            return;
        }
        let input = Input::SnapshotTaken {
            index: member.applied,
            state: Snapshot {
                stream: Arc::new(member.host.stream.clone()),
                prefix: member.prefix,
            },
            force: false,
        };
        self.raft(now, index, input, around, out);
    }

    /// Takes a snapshot over; one that its own disk had has nothing new for a store that was not lost.
    pub(super) fn restore(
        &mut self,
        index: usize,
        at: LogIndex,
        state: &Snapshot,
        around: &Around<'_>,
    ) {
        let member = &self.members[index];
        if member.starts.is_none() || member.stable.0 < at {
            self.set_stream(index, Some((at, state)), around);
        }
        let member = &mut self.members[index];
        member.prefix = state.prefix;
        member.committed.clear();
        member.apply_end = Time::NEVER;
        member.applying = 0;
        member.handed_over = at;
        member.processed = at;
        member.applied = at;
    }
}
