//! What a group tells of its replicas, for judges of RAFT: contents as digests.
//!
//! Leans on `raft` and `stream::proposal`.

use super::Group;
use super::replica::Proposal;
use crate::machine::Sink;
use crate::raft::message::{lengthened, short};
use crate::raft::{self, LogIndex, NodeId, RaftEvent, Restart, Term};
use crate::server::Action;
use crate::server::message::{Control, Fact, Publish};

impl Group {
    /// Something became true in a replica.
    pub(super) fn tell(&self, index: usize, event: RaftEvent, out: &mut dyn Sink<Action>) {
        out.emit(Action::Raft {
            replica: NodeId(index as u8),
            event,
        });
    }

    /// The same for what RAFT itself tells.
    pub(super) fn tell_fact(
        &self,
        index: usize,
        fact: &raft::Fact<Proposal>,
        out: &mut dyn Sink<Action>,
    ) {
        let event = match *fact {
            raft::Fact::Voted { term, candidate } => RaftEvent::Voted { term, candidate },
            raft::Fact::Elected { term } => RaftEvent::Elected { term },
            raft::Fact::Stored { at, ref record } => RaftEvent::Stored {
                index: at.index,
                term: at.term,
                // A proposal does not say in which term it was checked.
                checked_in: Term(0),
                content: short(record.digest),
            },
            raft::Fact::Truncated { last } => RaftEvent::Truncated { last },
            raft::Fact::SnapshotStored { last } => RaftEvent::SnapshotStored { last },
            raft::Fact::Recovered { last } => {
                let member = &self.members[index];
                let lost_power = member.starts == Some(Restart::AfterPowerLoss);
                let may_lose = lost_power && !member.node.settings().sync_always;
                RaftEvent::Recovered { last, may_lose }
            }
            raft::Fact::AskedForCatchup => RaftEvent::AskedForCatchup,
            raft::Fact::Paused => RaftEvent::Paused,
            raft::Fact::Resumed => RaftEvent::Resumed,
            // Followed by what it leads to.
            raft::Fact::Overrun => return,
        };
        self.tell(index, event, out);
    }

    /// A new leader, which has applied all that is committed, has less than was told as stored.
    pub(super) fn tell_rewound(&mut self, leader: usize, out: &mut dyn Sink<Action>) {
        let last = self.members[leader].host.stream.log().last();
        if last < self.told {
            let lost = self.told.0 - last.0;
            self.told = last;
            out.emit(Action::Fact(Fact::Rewound { last, lost }));
        }
    }

    /// A replica has applied an append entry, or everything up to there.
    pub(super) fn tell_applied(&self, at: LogIndex, replica: usize, out: &mut dyn Sink<Action>) {
        let event = RaftEvent::Applied {
            index: at,
            prefix: short(self.members[replica].prefix),
        };
        self.tell(replica, event, out);
    }
}

/// What tells a proposal from others.
pub(super) fn word(proposal: &Proposal) -> u64 {
    match proposal {
        Proposal::Message(message) => word_of(&message.publish),
        Proposal::OfBatch { message, is_last } => {
            lengthened(word_of(&message.publish), u64::from(*is_last))
        }
        Proposal::Purge(purge) => {
            let sequence = purge.sequence.map_or(0, |sequence| sequence.0);
            lengthened(sequence, purge.keep.unwrap_or(0))
        }
        Proposal::Delete(sequence) => sequence.0,
        Proposal::Note(note) => lengthened(
            lengthened(note.sequence.0, u64::from(note.batch.0)),
            u64::from(note.is_over),
        ),
    }
}

fn word_of(publish: &Publish) -> u64 {
    let (batch, sequence) = match publish.control {
        Control::Fast {
            batch, sequence, ..
        } => (batch.0, sequence.0),
        Control::Atomic {
            batch, sequence, ..
        } => (batch.0, u64::from(sequence)),
        Control::Plain | Control::BadPattern | Control::BadBatchId | Control::BadAtomicId => (0, 0),
    };
    let payload = u64::from(publish.payload.digest) << 32 | u64::from(publish.wire_bytes);
    lengthened(lengthened(u64::from(batch), sequence), payload)
}
