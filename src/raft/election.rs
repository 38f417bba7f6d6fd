//! Elections: the timer, votes, and the changes of role.
//!
//! Leans on `node`.

use super::leader::Leading;
use super::message::{Content, Message, Position};
use super::node::{Ballot, Node, Role};
use super::seam::{Action, Fact};
use super::timer::{Ring, Timer};
use super::{Entry, LogIndex, NodeId, RaftDefect, State, Term};
use crate::machine::{Sink, Time};

/// Bytes of the term file: a term and the id of a peer (`writeTermVote`).
const TERM_FILE_BYTES: u64 = 16;

impl<E: Entry, S: State> Node<E, S> {
    /// The leader was heard, or a vote given (`resetElectionTimeout`).
    pub(super) const fn restart_election(&mut self, now: Time) {
        self.election = Timer::new(now, self.settings.election);
    }

    /// Looks at the election timer (`runAsFollower`, `runAsCandidate`).
    pub(super) fn watch_election(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        match self.election.look(now) {
            Ring::No => {}
            Ring::Draw(range) => out.emit(Action::Draw(range)),
            Ring::Yes if matches!(self.role, Role::Follower) && self.catchup.is_some() => {
                if self.catchup_stalled(now) {
                    self.catchup = None;
                }
                self.restart_election(now);
            }
            Ring::Yes => self.campaign(now, out),
        }
    }

    /// Campaigns without waiting for the timer; who leads already does not (`Campaign`).
    pub(super) fn campaign_now(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        if !matches!(self.role, Role::Leader(_)) {
            self.campaign(now, out);
        }
    }

    /// Asks for votes in the next term (`switchToCandidate`, `requestVote`).
    fn campaign(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        if self.processed < self.commit {
            self.election = Timer::fixed(now, self.settings.campaign_retry);
            return;
        }
        self.term.0 += 1;
        self.vote = None;
        self.save_promise();
        if std::mem::take(&mut self.paused) {
            self.fact(Fact::Resumed, out);
        }
        self.follow(None);
        self.role = Role::Candidate(Ballot::default());
        self.restart_election(now);
        self.vote = Some(self.id);
        self.save_promise();
        let (term, candidate, last) = (self.term, self.id, self.log.last());
        self.fact(Fact::Voted { term, candidate }, out);
        let request = Message::VoteRequest { term, last };
        self.emit(Action::Broadcast(request), out);
        self.count_vote(now, candidate, false, out);
    }

    /// `processVoteRequest`.
    pub(super) fn take_vote_request(
        &mut self,
        now: Time,
        candidate: NodeId,
        term: Term,
        last: Position,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let own = self.log.last();
        let mut empty = own.index == LogIndex(0);
        let mut granted = false;
        if term >= self.term {
            if term > self.term {
                if !matches!(self.role, Role::Follower) {
                    self.step_down(now, None, out);
                }
                self.catchup = None;
                self.adopt(term);
                self.follow(None);
            }
            let free = self.vote.is_none() || self.vote == Some(candidate);
            empty &= !(free && self.is_new);
            if free && last.is_up_to_date_with(own) {
                self.vote = Some(candidate);
                self.save_promise();
                self.restart_election(now);
                self.fact(Fact::Voted { term, candidate }, out);
                granted = true;
            } else if self.vote.is_none() && !matches!(self.role, Role::Candidate(_)) {
                // Its own log is ahead, so it tries soon.
                self.election = Timer::new(now, self.settings.campaign);
            }
        }
        let response = Message::VoteResponse {
            term: self.term,
            granted,
            empty,
        };
        self.send(candidate, response, out);
    }

    /// `runAsCandidate`, `runAsLeader`; followers do not listen.
    pub(super) fn take_vote_response(
        &mut self,
        now: Time,
        from: NodeId,
        term: Term,
        granted: bool,
        empty: bool,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        match self.role {
            Role::Follower => {}
            Role::Candidate(_) if granted && term == self.term => {
                self.hear(now, from);
                self.count_vote(now, from, empty, out);
            }
            Role::Candidate(_) if term > self.term => {
                self.adopt(term);
                self.step_down(now, None, out);
            }
            Role::Leader(_) if term > self.term => self.step_down(now, None, out),
            Role::Candidate(_) | Role::Leader(_) => {}
        }
    }

    fn count_vote(
        &mut self,
        now: Time,
        from: NodeId,
        empty: bool,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        let Role::Candidate(ballot) = &mut self.role else {
            return;
        };
        if empty {
            ballot.empty_votes |= 1 << from.0;
        } else {
            ballot.votes |= 1 << from.0;
        }
        let (votes, empty_votes) = (ballot.votes.count_ones(), ballot.empty_votes.count_ones());
        let everybody = u32::from(self.settings.members);
        if votes >= self.settings.quorum() || votes + empty_votes == everybody {
            self.take_over(now, out);
        }
    }

    /// `switchToLeader`: the first entry of the term goes out at once, and leadership is told only
    /// when that is processed.
    fn take_over(&mut self, now: Time, out: &mut dyn Sink<Action<E, S>>) {
        self.transfer_target = false;
        self.follow(Some(self.id));
        let before = self.log.last_index();
        let tell_at = if self.has(RaftDefect::LeaderBeforeNoop) {
            before
        } else {
            before.next()
        };
        let term = self.term;
        self.role = Role::Leader(Leading::new(
            now,
            &self.settings,
            term,
            self.commit,
            tell_at,
        ));
        self.fact(Fact::Elected { term }, out);
        self.store_and_send(now, Content::NewTerm, 0, out);
        self.tell_leadership(out);
    }

    /// Becomes a follower, of `leader` if known (`switchToFollowerLocked`, `switchState`).
    pub(super) fn step_down(
        &mut self,
        now: Time,
        leader: Option<NodeId>,
        out: &mut dyn Sink<Action<E, S>>,
    ) {
        self.transfer_target = false;
        self.follow(leader);
        self.restart_election(now);
        let role = std::mem::replace(&mut self.role, Role::Follower);
        if let Role::Leader(leading) = role {
            let stepped_down = Action::SteppedDown {
                term: leading.term(),
                drained: leading.drain(),
            };
            self.emit(stepped_down, out);
        }
        self.save_promise();
    }

    /// Notes who leads. Whoever only follows knows nothing of the others (`updateLeader`).
    pub(super) fn follow(&mut self, leader: Option<NodeId>) {
        let led = self.leader == Some(self.id);
        self.leader = leader;
        if led || leader == Some(self.id) {
            return;
        }
        for (number, heard) in self.heard.iter_mut().enumerate() {
            if leader != Some(NodeId(number as u8)) {
                *heard = None;
            }
        }
    }

    /// Goes on in a higher term, in which it has not voted.
    pub(super) fn adopt(&mut self, term: Term) {
        self.term = term;
        self.vote = None;
        self.save_promise();
    }

    /// Writes term and vote, if they are other than on disk (`writeTermVote`).
    pub(super) fn save_promise(&mut self) {
        let promise = (self.term, self.vote);
        if self.promised != promise {
            self.promised = promise;
            self.write.files += 1;
            self.write.file_bytes += TERM_FILE_BYTES;
        }
    }
}
