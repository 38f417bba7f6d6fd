//! Clients that publish a batch: one trait, and an adapter for each client code.
//!
//! To those that are no publishers of batches a batch is so many messages that are counted together.
//!
//! An adapter drives one batch over a NATS connection and tells what its publisher sees in events.
//! It has no task and no channel of its own. Leans on `event`, the publishers of `batch`, the words
//! of `nats` and async-nats.

mod atomic;
mod core;
mod extra;
mod extra_atomic;
mod jetstream;
mod publish;

pub use self::core::CoreClient;
pub use async_nats::jetstream::message::OutboundMessage as Message;
pub use atomic::AtomicClient;
pub use extra::ExtraClient;
pub use extra_atomic::ExtraAtomicClient;
pub use jetstream::JetStreamClient;
pub use publish::PublishClient;

use std::future::Future;

use async_nats::ConnectOptions;

use crate::batch::fast::publisher::Settings;
use crate::event::{BatchNumber, Event, Outcome};
use crate::machine::Time;
use crate::nats::{BatchSequence, Operation};

/// The time, and an ear for events: what an adapter needs from the world that it runs in.
pub trait Witness {
    /// The moment, since the start of the run.
    fn now(&self) -> Time;

    /// As [`Witness::now`], at less cost: the reading may be a few messages old, within one stretch
    /// of work without a wait.
    fn now_roughly(&self) -> Time;

    /// Takes an event of the moment `at`, which was read from this clock; moments never go back.
    fn tell(&self, at: Time, event: Event);

    /// A batch goes by the id `id` on the wire. Told before anything of it is sent.
    fn named(&self, _batch: BatchNumber, _id: &str) {}
}

/// Commands and messages that a connection may hold: more than the widest window, so that waiting
/// for the connection is never mistaken for waiting for an ack.
const CONNECTION_CAPACITY: usize = 8_192;

/// What the connection of a publisher is opened with in every world, on top of `options`.
pub fn connection_of_a_publisher(options: ConnectOptions) -> ConnectOptions {
    options
        .name("tidegate")
        .client_capacity(CONNECTION_CAPACITY)
        .subscription_capacity(CONNECTION_CAPACITY)
}

/// What one batch is published with.
#[derive(Clone, Debug)]
pub struct BatchSettings {
    /// Number of the batch in the run.
    pub batch: BatchNumber,
    /// Flow, gap mode, timeout and profile. A client that has rules of its own takes no notice of
    /// the profile.
    pub publisher: Settings,
}

/// Where a batch gets its messages from.
pub trait Source {
    /// What to do next, asked by a client that is free at `now` and knows `acknowledged` to be
    /// covered.
    fn next(&mut self, now: Time, acknowledged: BatchSequence) -> Next;

    /// Ends at `at`, or when the source has other plans: ask again then.
    fn until(&self, at: Time) -> impl Future<Output = ()>;
}

/// What a client does next.
pub enum Next {
    /// Publish this message, which the load wanted at the given moment.
    Offer(Message, Time),
    /// Commit with this message, which is stored.
    Commit(Message, Time),
    /// End the batch without a further message.
    CommitEob,
    /// Leave without a commit: the server forgets the batch after its idle timeout.
    Abandon,
    /// Nothing before this moment.
    Wait(Time),
}

/// The end of a batch for its publisher.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchEnd {
    /// How it ended.
    pub outcome: Outcome,
    /// The `err_code` (or 503, 429) that ended it; 0 without one.
    pub code: u16,
    /// Highest sequence known to be covered.
    pub acknowledged: BatchSequence,
    /// What the client said, for people; empty when there is nothing to say.
    pub detail: String,
}

/// One batch under way.
///
/// The client asks its source for messages, publishes them, and waits where its own rules make it
/// wait. The loop is the client's, so that a message passes through no layer of futures but those
/// of its client.
#[expect(
    async_fn_in_trait,
    reason = "every world drives its clients on one thread, so no bound is wanted"
)]
pub trait BatchClient: Sized {
    /// Publishes what `source` gives until the batch is over, and tells it all.
    async fn publish(self, source: &mut impl Source) -> BatchEnd;
}

/// Lets others run after so many messages without a wait: the connection needs the thread too.
struct Turn {
    left: u32,
}

impl Turn {
    /// Twice what the runtime's own budget comes to: fewer and larger writes.
    const MESSAGES: u32 = 256;

    const fn new() -> Self {
        Self {
            left: Self::MESSAGES,
        }
    }

    /// Counts a message; says whether to yield.
    const fn is_over(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = Self::MESSAGES;
        true
    }
}

/// Tells the events that every adapter tells in the same way.
struct Teller<'w, W> {
    world: &'w W,
    batch: BatchNumber,
    acknowledged: BatchSequence,
}

impl<'w, W: Witness> Teller<'w, W> {
    const fn new(world: &'w W, batch: BatchNumber) -> Self {
        Self {
            world,
            batch,
            acknowledged: BatchSequence(0),
        }
    }

    fn now(&self) -> Time {
        self.world.now()
    }

    fn now_roughly(&self) -> Time {
        self.world.now_roughly()
    }

    fn tell(&self, at: Time, event: Event) {
        self.world.tell(at, event);
    }

    fn blocked(&self, at: Time) {
        self.tell(at, Event::Blocked { batch: self.batch });
    }

    fn unblocked(&self, at: Time) {
        self.tell(at, Event::Unblocked { batch: self.batch });
    }

    /// A flow ack came in; the highest one counts.
    fn acked(&mut self, at: Time, flow: u16, sequence: BatchSequence) {
        self.acknowledged = self.acknowledged.max(sequence);
        let batch = self.batch;
        self.tell(
            at,
            Event::AckSeen {
                batch,
                flow,
                sequence,
            },
        );
    }

    fn published(
        &self,
        at: Time,
        operation: Operation,
        sequence: BatchSequence,
        bytes: usize,
        intended: Time,
    ) {
        let event = Event::Published {
            batch: self.batch,
            operation,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            sequence,
            intended,
        };
        self.tell(at, event);
    }

    fn ended(&self, at: Time, outcome: Outcome, code: u16, detail: String) -> BatchEnd {
        let event = Event::BatchEnded {
            batch: self.batch,
            outcome,
            code,
            acknowledged: self.acknowledged,
        };
        self.tell(at, event);
        BatchEnd {
            outcome,
            code,
            acknowledged: self.acknowledged,
            detail,
        }
    }
}
