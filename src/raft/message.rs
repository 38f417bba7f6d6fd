//! What replicas of a group say to each other, and the append entry that they talk about.
//!
//! Leans on nothing but the words of `raft`.

use std::sync::Arc;

use super::{Entry, LogIndex, NodeId, State, Term};

/// Encoded size of an append entry without entries (`appendEntryBaseLen`).
const APPEND_BYTES: u64 = 42;
/// What each entry adds to its own size: its length and its kind (`appendEntry.encode`).
const ENTRY_BYTES: u64 = 5;
/// Encoded size of a response to an append entry (`appendEntryResponseLen`).
const RESPONSE_BYTES: u64 = 25;
/// Encoded size of a request for a vote (`voteRequestLen`).
const VOTE_REQUEST_BYTES: u64 = 32;
/// Encoded size of the answer (`voteResponseLen`).
const VOTE_RESPONSE_BYTES: u64 = 17;

/// An append entry by index and term: two logs that agree on one agree on all before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Position {
    /// Index.
    pub index: LogIndex,
    /// Term in which it was made.
    pub term: Term,
}

impl Position {
    /// Whether a log that ends here is at least as up to date as one that ends at `other`
    /// (`processVoteRequest`).
    pub fn is_up_to_date_with(self, other: Self) -> bool {
        (self.term, self.index) >= (other.term, other.index)
    }
}

/// What one append entry holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Content<E> {
    /// Proposals.
    Proposed(Box<[E]>),
    /// The first entry of a term. In nats-server it is the state of the peers (`switchToLeader`).
    NewTerm,
    /// Leadership goes to this replica (`StepDown`).
    Transfer(NodeId),
}

impl<E> Content<E> {
    /// Entries of the layer above.
    pub fn proposed(&self) -> &[E] {
        match self {
            Self::Proposed(entries) => entries,
            Self::NewTerm | Self::Transfer(_) => &[],
        }
    }

    /// Encoded size of an append entry that holds this, when the proposals in it have
    /// `proposed_bytes` in all.
    fn encoded_bytes(&self, proposed_bytes: u64) -> u64 {
        let entries = match self {
            Self::Proposed(entries) => entries.len() as u64 * ENTRY_BYTES + proposed_bytes,
            // Ids of peers have eight bytes; a state of three peers is about as long as this.
            Self::NewTerm => ENTRY_BYTES + 34,
            Self::Transfer(_) => ENTRY_BYTES + 8,
        };
        APPEND_BYTES + entries
    }
}

impl<E: Entry> Content<E> {
    fn digest(&self) -> u64 {
        match self {
            Self::Proposed(entries) => entries
                .iter()
                .fold(1, |digest, entry| lengthened(digest, entry.digest())),
            Self::NewTerm => 2,
            Self::Transfer(to) => lengthened(3, u64::from(to.0)),
        }
    }
}

/// A digest of all that `digest` is of, and `word` behind it.
pub const fn lengthened(digest: u64, word: u64) -> u64 {
    (digest ^ word)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
}

/// A digest as events carry it.
pub const fn short(digest: u64) -> u32 {
    (digest ^ digest >> 32) as u32
}

/// An append entry on disk: kept as it was sent. Replicas share it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Record<E> {
    /// Term in which it was made.
    pub term: Term,
    /// How far its leader had committed when it was made.
    pub commit: LogIndex,
    /// What it holds.
    pub content: Content<E>,
    /// Encoded size.
    pub bytes: u64,
    /// Of what it holds: made once, for all replicas that store and apply it.
    pub digest: u64,
}

impl<E: Entry> Record<E> {
    /// An append entry, whose proposals have `proposed_bytes` in all.
    pub fn new(term: Term, commit: LogIndex, content: Content<E>, proposed_bytes: u64) -> Self {
        Self {
            term,
            commit,
            bytes: content.encoded_bytes(proposed_bytes),
            digest: content.digest(),
            content,
        }
    }
}

/// Names one catch-up of one follower, as the inbox does in nats-server (`createCatchup`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CatchupId(pub u64);

/// How an append entry reaches a follower.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Channel {
    /// To all followers, as it is made: the only one that is answered.
    New,
    /// To one follower that asked for it.
    Catchup(CatchupId),
}

/// An append entry on its way, or none: a heartbeat.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Append<E> {
    /// Term of its sender, which may be above that of the record.
    pub leader_term: Term,
    /// What comes before it in the log.
    pub previous: Position,
    /// How far its leader has committed.
    pub commit: LogIndex,
    /// The append entry; `None` tells the commit index and that the leader lives.
    pub record: Option<Arc<Record<E>>>,
    /// How it comes.
    pub channel: Channel,
}

/// A snapshot on its way: it begins a catch-up from before the leader's log (`sendSnapshotToFollower`).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SnapshotSent<S> {
    /// Term of its sender.
    pub leader_term: Term,
    /// It stands for everything up to here.
    pub last: Position,
    /// What the layer above put into it.
    pub state: S,
    /// Which catch-up it begins.
    pub catchup: CatchupId,
}

/// A response to an append entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Response {
    /// It and all before it are in the log, which ends there. An ack for exactly that index.
    Success(Position),
    /// The log ends here and the append entry does not follow: a catch-up from here is wanted.
    Behind(Position, CatchupId),
    /// The sender is no leader of this term.
    Refused(Term),
}

/// What one replica says to another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message<E, S> {
    /// An append entry or a heartbeat.
    Append(Append<E>),
    /// The first message of a catch-up that the leader's log no longer reaches.
    Snapshot(Box<SnapshotSent<S>>),
    /// The answer to an append entry.
    Response(Response),
    /// A candidate asks for a vote.
    VoteRequest {
        /// Its term.
        term: Term,
        /// Where its log ends.
        last: Position,
    },
    /// The answer.
    VoteResponse {
        /// Term of the voter.
        term: Term,
        /// Whether the candidate has its vote.
        granted: bool,
        /// The voter's log is empty: such votes count only if everybody votes (`runAsCandidate`).
        empty: bool,
    },
}

impl<E: Entry, S: State> Message<E, S> {
    /// Encoded size, for links.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Append(append) => match &append.record {
                Some(record) => record.bytes,
                None => APPEND_BYTES,
            },
            Self::Snapshot(snapshot) => APPEND_BYTES + 2 * ENTRY_BYTES + snapshot.state.bytes(),
            Self::Response(_) => RESPONSE_BYTES,
            Self::VoteRequest { .. } => VOTE_REQUEST_BYTES,
            Self::VoteResponse { .. } => VOTE_RESPONSE_BYTES,
        }
    }
}
