//! Trouble for a client whose batch ends by the error of a call: [`Profile::ends_in_calls`].
//!
//! More methods of the publisher. Leans on `publisher`.

use super::{Action, BatchSequence, Operation, Outcome, PubAck, Publisher, State};
use crate::machine::{Sink, Time};

/// What waits for the next offer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Noted {
    /// How the batch ends, and by which error.
    pub(super) trouble: Option<(Outcome, u16)>,
    /// A PubAck that came before the commit was sent.
    pub(super) pub_ack: Option<PubAck>,
}

impl Noted {
    pub(super) const NOTHING: Self = Self {
        trouble: None,
        pub_ack: None,
    };
}

impl Publisher {
    /// A wait is a call, and ends at once; between two calls the newest trouble counts. A frame
    /// that cannot be read ends the reading, so nothing behind it counts.
    pub(super) fn note(&mut self, outcome: Outcome, code: u16, out: &mut dyn Sink<Action>) {
        match (self.state, self.noted.trouble) {
            (State::Ended, _) | (State::Idle | State::Open, Some((Outcome::ClientError, _))) => {}
            (State::Idle | State::Open, _) => self.noted.trouble = Some((outcome, code)),
            (State::Failing { code, .. }, Some((outcome, _))) => self.end(outcome, code, None, out),
            (
                State::Opening(_)
                | State::Blocked { .. }
                | State::Committing(_)
                | State::Failing { .. },
                _,
            ) => self.end(outcome, code, None, out),
        }
    }

    /// The next call after trouble: its message is not sent. A commit still waits for the PubAck,
    /// unless it is there. Says whether there was trouble.
    pub(super) fn heeds(
        &mut self,
        now: Time,
        operation: Operation,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        let Some((outcome, code)) = self.noted.trouble else {
            return false;
        };
        let waits = matches!(operation, Operation::Commit | Operation::CommitEob)
            && outcome != Outcome::ClientError
            && self.noted.pub_ack.is_none();
        if waits {
            let wait = self.wait(now, false);
            self.state = State::Failing { wait, code };
        } else {
            self.end(outcome, code, None, out);
        }
        true
    }

    /// A PubAck before the commit is sent is kept, and opens the batch if it is the first reply; the
    /// commit then takes it for its answer. Says whether it is kept.
    pub(super) fn keeps(&mut self, pub_ack: PubAck, out: &mut dyn Sink<Action>) -> bool {
        if !self.settings.profile.ends_in_calls {
            return false;
        }
        match self.state {
            State::Opening(_) => {
                self.state = State::Open;
                out.emit(Action::Ready);
            }
            State::Idle | State::Open | State::Blocked { .. } => {}
            State::Committing(_) | State::Failing { .. } | State::Ended => return false,
        }
        self.noted.pub_ack = Some(pub_ack);
        true
    }

    /// How a commit ends that this PubAck answers: one that counts less than was sent says that the
    /// server had ended the batch before.
    pub(super) fn end_of_commit(&self, pub_ack: PubAck) -> Outcome {
        let is_short = pub_ack.count.is_some_and(|count| count < self.sent);
        if self.settings.profile.ends_in_calls && is_short {
            Outcome::EndedByServer
        } else {
            Outcome::Committed
        }
    }

    /// How the batch ends by the trouble that was noted, if any was.
    pub(super) fn noted_end(&self) -> Option<Outcome> {
        self.noted.trouble.map(|(outcome, _)| outcome)
    }

    /// Behind a gate before the first send there is no batch to ping; a client may take that for an
    /// error.
    pub(super) fn cannot_ping(&mut self, out: &mut dyn Sink<Action>) -> bool {
        let is_nothing_sent = self.sent == BatchSequence(0);
        if is_nothing_sent && self.settings.profile.ends_in_calls {
            self.end(Outcome::ClientError, 0, None, out);
        }
        is_nothing_sent
    }
}
