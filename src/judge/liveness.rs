//! Judge: every publisher ends, and one that waits in vain is a stall with its release.
//!
//! Leans on `event`. A *stall* is a wait of at least one ack timeout for a reply that the server,
//! given what it has received, will not send, even if the client then ends with an error.

use super::{Bench, Judge, Start};
use crate::event::{BatchNumber, Event, Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation};

/// A publisher that waited for what would not come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Who waited.
    pub publisher: PublisherId,
    /// In which batch.
    pub batch: BatchNumber,
    /// When the wait ended, or the run.
    pub at: Time,
    /// How long it waited.
    pub waited: Time,
    /// The event that would have released it.
    pub release: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    FirstReply,
    Gate,
    PubAck,
}

/// Every batch ends within its publisher's ack timeout; waits for what will not come are stalls.
#[derive(Clone, Debug)]
pub struct EveryPublisherEnds {
    ack_timeout: Time,
    gap: GapMode,
    wait: Option<(Wait, Time)>,
    /// Nothing of this batch is under way, in either direction or inside the server.
    at_rest: bool,

    // what the client knows
    published: BatchSequence,
    acked: BatchSequence,
    flow: u16,
    /// Messages refused from the one on at which the next flow ack is due.
    refused_when_due: u64,
    /// Messages refused since the last ack, of which the client does not tell which they are.
    refused_untold: u64,
    /// So many of them were told at this moment: an ack of the same moment may have come before them.
    refused_at: (Time, u64),

    // what the server knows
    opened: bool,
    forgotten: bool,
    pub_ack_sent: bool,
    end_received: bool,
    commit: Option<BatchSequence>,
    ack_sent: BatchSequence,
    ack_flow: u16,
    /// The lowest sequence that was lost on its way in.
    lost: Option<BatchSequence>,
}

impl EveryPublisherEnds {
    /// The event that would release this wait, or `None` if a reply may still come by itself.
    fn release(&self, wait: Wait, server_told: bool) -> Option<String> {
        if !server_told {
            return self.release_as_the_client_sees_it(wait);
        }
        if !self.at_rest {
            return None;
        }
        let due = self.ack_sent.0 + u64::from(self.ack_flow.max(1));
        Some(match wait {
            _ if self.pub_ack_sent => "none: the PubAck was sent once, and is lost".to_owned(),
            _ if self.forgotten => "none: the server has forgotten the batch".to_owned(),
            _ if !self.opened => "the start of the batch arriving at the server".to_owned(),
            Wait::FirstReply => "a ping: the first flow ack is lost or was never sent".to_owned(),
            Wait::PubAck if !self.end_received => "the commit arriving at the server".to_owned(),
            Wait::PubAck => {
                "none: the server holds a message as pending that it did not store".to_owned()
            }
            Wait::Gate if self.ack_sent > self.acked => {
                format!("a ping: the flow ack for {} is lost", self.ack_sent)
            }
            Wait::Gate => {
                let due = match self.lost {
                    Some(lost) => format!(
                        "message {lost}, which is lost, or a later message or ping that shows the gap"
                    ),
                    None if due <= self.published.0 => {
                        format!(
                            "one more message that the server accepts: refused ones up to {} moved no ack",
                            self.published
                        )
                    }
                    None => format!("message {due}"),
                };
                format!(
                    "{due} (the last flow ack is for {} at a flow of {})",
                    self.ack_sent, self.ack_flow
                )
            }
        })
    }

    /// Without the server's side: at the gate the next ack is due at acked + flow; if the client
    /// has not sent that far, or everything from there on was refused, it waits for an ack that
    /// nothing can trigger.
    fn release_as_the_client_sees_it(&self, wait: Wait) -> Option<String> {
        let due = self.due();
        let sent_when_due = (self.published.0 + 1).saturating_sub(due);
        let refused_all = self.refused_untold >= self.published.0.saturating_sub(self.acked.0);
        if wait != Wait::Gate || (sent_when_due > self.refused_when_due && !refused_all) {
            return None;
        }
        let release = match sent_when_due {
            0 => format!("message {due}"),
            _ => format!(
                "one more message that the server accepts: refused ones up to {} moved no ack",
                self.published
            ),
        };
        Some(format!(
            "{release} (the last flow ack is for {} at a flow of {})",
            self.acked, self.flow
        ))
    }

    /// The message at which the client may expect the next flow ack.
    fn due(&self) -> u64 {
        self.acked.0 + u64::from(self.flow)
    }
}

impl Judge for EveryPublisherEnds {
    const NAME: &'static str = "every-publisher-ends";
    const CLAUSE: &'static str =
        "fast.flow.no-stall, fast.flow.timeout, fast.ack.final: no wait lasts for ever";

    fn new(start: &Start) -> Self {
        let zero = BatchSequence(0);
        Self {
            ack_timeout: start.manner.ack_timeout,
            gap: start.gap,
            wait: None,
            at_rest: false,
            published: zero,
            acked: zero,
            flow: start.flow,
            refused_when_due: 0,
            refused_untold: 0,
            refused_at: (Time::ZERO, 0),
            opened: false,
            forgotten: false,
            pub_ack_sent: false,
            end_received: false,
            commit: None,
            ack_sent: zero,
            ack_flow: start.flow,
            lost: None,
        }
    }

    #[inline]
    fn see(&mut self, event: &Event, bench: &mut Bench<'_>) {
        let at = bench.at();
        match *event {
            Event::Published {
                operation,
                sequence,
                ..
            } => self.published(at, operation, sequence),
            Event::AckSeen { flow, sequence, .. } => self.ack_seen(at, flow, sequence),
            Event::AckSent { flow, sequence, .. } => {
                self.ack_sent = sequence;
                self.ack_flow = flow;
                self.found(sequence.next());
            }
            // What is missing is known from here on: the lost message holds nothing up any more.
            Event::GapSent { received, .. } => self.found(received),
            Event::Stored { sequence, .. }
            | Event::Deduplicated { sequence, .. }
            | Event::Rejected { sequence, .. } => {
                self.end_received |= self.commit == Some(sequence);
            }
            Event::Blocked { .. } => self.wait = Some((Wait::Gate, at)),
            // A publisher that ends at its gate is not unblocked before.
            Event::Unblocked { .. } if matches!(self.wait, Some((Wait::Gate, _))) => {
                self.wait = None;
            }
            Event::GapSeen { .. } => self.trouble(at),
            Event::ErrorSeen { sequence, .. } => {
                self.refused_when_due += u64::from(sequence.0 >= self.due());
                if sequence == BatchSequence(0) {
                    self.refused_untold(at);
                }
                self.trouble(at);
            }
            Event::AtRest { .. } => self.at_rest = true,
            Event::BatchOpened { flow, .. } => {
                self.opened = true;
                self.ack_flow = flow;
            }
            Event::BatchForgotten { .. } => self.forgotten = true,
            Event::PubAckSent { .. } => self.pub_ack_sent = true,
            Event::ControlReceived {
                operation: Operation::CommitEob,
                ..
            } => self.end_received = true,
            Event::Dropped {
                operation: Some(operation),
                sequence,
                ..
            } if operation.stores() => {
                self.lost = Some(self.lost.map_or(sequence, |lost| lost.min(sequence)));
            }
            Event::BatchEnded { outcome, .. } => self.ended(outcome, bench),
            _ => {}
        }
    }
}

impl EveryPublisherEnds {
    fn published(&mut self, at: Time, operation: Operation, sequence: BatchSequence) {
        if operation.stores() {
            self.published = sequence;
        }
        if operation == Operation::Commit {
            self.commit = Some(sequence);
        }
        match operation {
            Operation::Start => self.wait = Some((Wait::FirstReply, at)),
            Operation::Commit | Operation::CommitEob => self.wait = Some((Wait::PubAck, at)),
            Operation::Append | Operation::Ping => {}
        }
    }

    fn refused_untold(&mut self, at: Time) {
        self.refused_untold += 1;
        if self.refused_at.0 != at {
            self.refused_at = (at, 0);
        }
        self.refused_at.1 += 1;
    }

    /// An ack that says more starts the wait anew: the publisher has come further.
    fn ack_seen(&mut self, at: Time, flow: u16, sequence: BatchSequence) {
        if sequence > self.acked
            && let Some((_, since)) = &mut self.wait
        {
            *since = at;
        }
        if sequence > self.acked {
            // Answers come in the order of messages: what is refused from here on is told later.
            self.refused_when_due = 0;
            let (last, together) = self.refused_at;
            self.refused_untold = if last == at { together } else { 0 };
        }
        if sequence >= self.acked {
            self.acked = sequence;
            self.flow = if flow == 0 { self.flow } else { flow };
        }
        if matches!(self.wait, Some((Wait::FirstReply, _))) {
            self.wait = None;
        }
    }

    /// Everything below `sequence` has arrived, or is known to be missing.
    fn found(&mut self, sequence: BatchSequence) {
        self.lost = self.lost.filter(|lost| *lost >= sequence);
    }

    /// Trouble in gap mode fail: what the publisher waits for from here on is the PubAck.
    fn trouble(&mut self, at: Time) {
        if self.gap == GapMode::Fail {
            self.wait = Some((Wait::PubAck, at));
            self.end_received = true;
        }
    }

    fn ended(&self, outcome: Outcome, bench: &mut Bench<'_>) {
        let Some((wait, since)) = self.wait else {
            return;
        };
        let waited = bench.at() - since;
        let gave_up = matches!(
            outcome,
            Outcome::TimedOut | Outcome::Interrupted | Outcome::ClientError
        );
        if waited < self.ack_timeout || !gave_up {
            return;
        }
        if outcome == Outcome::Interrupted && waited > self.ack_timeout {
            let timeout = self.ack_timeout;
            bench.object::<Self>(format!(
                "the publisher waits since {since}, its ack timeout is {timeout}"
            ));
        }
        if let Some(release) = self.release(wait, bench.server_told()) {
            bench.stall(waited, release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Observer;
    use crate::judge::{Findings, Judges, Manner};

    const BATCH: BatchNumber = BatchNumber(0);

    /// A batch as its client alone tells it: flow 5, an ack for 5, 14 messages sent, `refused` of
    /// them without saying which, and then nothing until the timeout.
    fn findings(refused: u64) -> Findings {
        let manner = Manner {
            ack_timeout: Time::from_secs(3),
            errors_count_as_acks: false,
            fast_ingest: true,
        };
        let mut judges = Judges::new(vec![manner], false);
        let mut see = |at, event| judges.see(Time::from_secs(at), &event);
        see(
            0,
            Event::BatchStarted {
                publisher: PublisherId(0),
                batch: BATCH,
                flow: 5,
                outstanding_acks: 2,
                gap: GapMode::Ok,
            },
        );
        for sequence in (1..=14).map(BatchSequence) {
            let operation = match sequence {
                BatchSequence(1) => Operation::Start,
                _ => Operation::Append,
            };
            see(
                0,
                Event::Published {
                    batch: BATCH,
                    operation,
                    bytes: 1,
                    sequence,
                    intended: Time::ZERO,
                },
            );
            if sequence == BatchSequence(9) {
                let (batch, flow, sequence) = (BATCH, 5, BatchSequence(5));
                see(
                    0,
                    Event::AckSeen {
                        batch,
                        flow,
                        sequence,
                    },
                );
            }
        }
        see(0, Event::Blocked { batch: BATCH });
        for _ in 0..refused {
            let (batch, code, sequence) = (BATCH, 0, BatchSequence(0));
            see(
                0,
                Event::ErrorSeen {
                    batch,
                    code,
                    sequence,
                },
            );
        }
        see(
            3,
            Event::BatchEnded {
                batch: BATCH,
                outcome: Outcome::TimedOut,
                code: 0,
                acknowledged: BatchSequence(5),
            },
        );
        judges.finish(Time::from_secs(3))
    }

    /// As a client tells it that reads its inbox only inside calls: two errors, and then the ack
    /// that had come before them, at one moment.
    #[test]
    fn an_ack_that_is_told_together_with_errors_may_be_older_than_they_are() {
        let start = Start {
            flow: 5,
            outstanding_acks: 2,
            gap: GapMode::Ok,
            manner: Manner {
                ack_timeout: Time::from_secs(3),
                errors_count_as_acks: false,
                fast_ingest: true,
            },
        };
        let mut judge = EveryPublisherEnds::new(&start);
        for at in [1, 2, 2] {
            judge.refused_untold(Time::from_secs(at));
        }
        judge.ack_seen(Time::from_secs(2), 5, BatchSequence(5));
        assert_eq!(judge.refused_untold, 2);
        judge.ack_seen(Time::from_secs(3), 5, BatchSequence(10));
        assert_eq!(judge.refused_untold, 0);
    }

    #[test]
    fn a_client_need_not_tell_which_messages_were_refused() {
        let stalls = findings(9).stalls;
        let release =
            "one more message that the server accepts: refused ones up to 14 moved no ack";
        assert!(stalls[0].release.starts_with(release), "{stalls:?}");
        // one of them may have been accepted, and its ack be on the way
        assert_eq!(findings(8).stalls, []);
    }
}
