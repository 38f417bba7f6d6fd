//! Judge: every publisher ends, and one that waits in vain is a stall with its release.
//!
//! Leans on `event`. A *stall* is a wait of at least one ack timeout for a reply that the server,
//! given what it has received, will not send, even if the client then ends with an error.

use super::{Bench, Judge};
use crate::event::{BatchNumber, BatchTable, Event, Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::{BatchSequence, GapMode, Operation};

/// The ack timeout of each publisher, by number.
pub type Patience = Vec<Time>;

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

/// Every batch ends within its publisher's ack timeout; waits for what will not come are stalls.
#[derive(Clone, Debug)]
pub struct EveryPublisherEnds {
    patience: Patience,
    batches: BatchTable<Batch>,
    stalls: Vec<Stall>,
    /// Whether events tell the server's side: they do in the simulator.
    server_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    FirstReply,
    Gate,
    PubAck,
}

#[derive(Clone, Debug)]
struct Batch {
    publisher: PublisherId,
    gap: GapMode,
    wait: Option<(Wait, Time)>,
    /// Nothing of this batch is under way, in either direction or inside the server.
    at_rest: bool,

    // what the client knows
    published: BatchSequence,
    acked: BatchSequence,
    flow: u16,

    // what the server knows
    opened: bool,
    forgotten: bool,
    pub_ack_sent: bool,
    end_received: bool,
    ack_sent: BatchSequence,
    ack_flow: u16,
    /// The lowest sequence that was lost on its way in.
    lost: Option<BatchSequence>,
}

impl Batch {
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
    /// has not sent that far, it waits for an ack that nothing can trigger.
    fn release_as_the_client_sees_it(&self, wait: Wait) -> Option<String> {
        let due = self.acked.0 + u64::from(self.flow);
        let in_vain = wait == Wait::Gate && due > self.published.0;
        in_vain.then(|| {
            format!(
                "message {due} (the last flow ack is for {} at a flow of {})",
                self.acked, self.flow
            )
        })
    }
}

impl EveryPublisherEnds {
    /// A judge of publishers with these ack timeouts.
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            batches: BatchTable::default(),
            stalls: Vec::new(),
            server_told: false,
        }
    }

    /// The stalls, and an objection for each batch that never ended.
    pub fn finish(self, at: Time, bench: &mut Bench) -> Vec<Stall> {
        for (batch, state) in self.batches.iter() {
            let message = "the run is over and the batch has not ended".to_owned();
            bench.object::<Self>(at, Some(state.publisher), batch, message);
        }
        self.stalls
    }

    fn started(&mut self, publisher: PublisherId, batch: BatchNumber, flow: u16, gap: GapMode) {
        let zero = BatchSequence(0);
        let state = Batch {
            publisher,
            gap,
            wait: None,
            at_rest: false,
            published: zero,
            acked: zero,
            flow,
            opened: false,
            forgotten: false,
            pub_ack_sent: false,
            end_received: false,
            ack_sent: zero,
            ack_flow: flow,
            lost: None,
        };
        self.batches.insert(batch, state);
    }

    fn ended(&mut self, at: Time, batch: BatchNumber, outcome: Outcome, bench: &mut Bench) {
        let Some(state) = self.batches.remove(batch) else {
            return;
        };
        let Some((wait, since)) = state.wait else {
            return;
        };
        let patience = self
            .patience
            .get(state.publisher.0 as usize)
            .copied()
            .unwrap_or(Time::NEVER);
        let waited = at - since;
        if waited < patience
            || !matches!(
                outcome,
                Outcome::TimedOut | Outcome::Interrupted | Outcome::ClientError
            )
        {
            return;
        }
        if outcome == Outcome::Interrupted && waited > patience {
            let message =
                format!("the publisher waits since {since}, its ack timeout is {patience}");
            bench.object::<Self>(at, Some(state.publisher), batch, message);
        }
        if let Some(release) = state.release(wait, self.server_told) {
            self.stalls.push(Stall {
                publisher: state.publisher,
                batch,
                at,
                waited,
                release,
            });
        }
    }

    fn with(&mut self, batch: BatchNumber, change: impl FnOnce(&mut Batch)) {
        if let Some(state) = self.batches.get_mut(batch) {
            change(state);
        }
    }

    fn published(
        &mut self,
        at: Time,
        batch: BatchNumber,
        operation: Operation,
        sequence: BatchSequence,
    ) {
        self.with(batch, |state| {
            if operation.stores() {
                state.published = sequence;
            }
            match operation {
                Operation::Start => state.wait = Some((Wait::FirstReply, at)),
                Operation::Commit | Operation::CommitEob => state.wait = Some((Wait::PubAck, at)),
                Operation::Append | Operation::Ping => {}
            }
        });
    }

    /// Trouble in gap mode fail: what the publisher waits for from here on is the PubAck.
    fn trouble(&mut self, at: Time, batch: BatchNumber) {
        self.with(batch, |state| {
            if state.gap == GapMode::Fail {
                state.wait = Some((Wait::PubAck, at));
                state.end_received = true;
            }
        });
    }
}

impl Judge for EveryPublisherEnds {
    const NAME: &'static str = "every-publisher-ends";
    const CLAUSE: &'static str =
        "ADR-50, Flow Control: no unrecoverable stalls; the timeout while waiting for acks";

    fn see(&mut self, at: Time, event: &Event, bench: &mut Bench) {
        match *event {
            Event::Published {
                batch,
                operation,
                sequence,
                ..
            } => self.published(at, batch, operation, sequence),
            Event::AckSeen {
                batch,
                flow,
                sequence,
            } => self.with(batch, |state| {
                if sequence >= state.acked {
                    state.acked = sequence;
                    state.flow = if flow == 0 { state.flow } else { flow };
                }
                if matches!(state.wait, Some((Wait::FirstReply, _))) {
                    state.wait = None;
                }
            }),
            Event::AckSent {
                batch,
                flow,
                sequence,
            } => self.with(batch, |state| {
                state.ack_sent = sequence;
                state.ack_flow = flow;
            }),
            Event::BatchStarted {
                publisher,
                batch,
                flow,
                gap,
                ..
            } => self.started(publisher, batch, flow, gap),
            Event::Blocked { batch } => {
                self.with(batch, |state| state.wait = Some((Wait::Gate, at)))
            }
            // A publisher that ends at its gate is not unblocked before: see the driver.
            Event::Unblocked { batch } => self.with(batch, |state| state.wait = None),
            Event::GapSeen { batch, .. } | Event::ErrorSeen { batch, .. } => {
                self.trouble(at, batch)
            }
            Event::AtRest { batch } => self.with(batch, |state| state.at_rest = true),
            Event::BatchOpened { batch, flow, .. } => {
                self.server_told = true;
                self.with(batch, |state| {
                    state.opened = true;
                    state.ack_flow = flow;
                });
            }
            Event::BatchForgotten { batch, .. } => self.with(batch, |state| state.forgotten = true),
            Event::PubAckSent { batch, .. } => self.with(batch, |state| state.pub_ack_sent = true),
            Event::ControlReceived {
                batch,
                operation: Operation::CommitEob,
                ..
            } => {
                self.with(batch, |state| state.end_received = true);
            }
            Event::Dropped {
                batch,
                reply: false,
                sequence,
                ..
            } => self.with(batch, |state| {
                state.lost = Some(state.lost.map_or(sequence, |lost| lost.min(sequence)));
            }),
            Event::BatchEnded { batch, outcome, .. } => self.ended(at, batch, outcome, bench),
            _ => {}
        }
    }
}
