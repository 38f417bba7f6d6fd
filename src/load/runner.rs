//! One publisher at work: takes the plan step by step and hands each message to a client.
//!
//! The same loop serves every world that runs real clients. Leans on `plan`, `message`, `settings`
//! and `client`.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use async_nats::jetstream::Context;

use super::{ClientCode, MessageMaker, Plan, Planned, Step};
use crate::batch::fast::publisher::Settings;
use crate::client::{
    AtomicClient, BatchClient, BatchEnd, BatchSettings, CoreClient, ExtraAtomicClient, ExtraClient,
    JetStreamClient, Next, PublishClient, Source, Witness,
};
use crate::event::{BatchNumber, Event, Outcome};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::scenario::Commit;

/// A client's time is spent once so much of it has come together.
const PORTION: Time = Time::from_micros(10);

/// A world in which time can be waited for.
pub trait Timed: Witness {
    /// Ends at `at`, or when the world stops.
    fn until(&self, at: Time) -> impl Future<Output = ()>;
}

/// What a runner needs from its world besides.
pub trait World: Timed {
    /// The number of a batch that opens now.
    fn open_batch(&self) -> BatchNumber;

    /// A message is made that goes out next: its batch, its place there, and its payload.
    fn made(&self, _batch: BatchNumber, _sequence: BatchSequence, _payload: &[u8]) {}

    /// When the world stopped taking messages, if it has: publishers then end their batches.
    fn stopped(&self) -> Option<Time>;
}

/// One publisher of the run.
pub struct Runner<'w, W> {
    world: &'w W,
    jetstream: Context,
    plan: Plan,
    maker: MessageMaker,
    client: ClientCode,
    settings: BatchSettings,
    /// The batch under way and what is known to be covered of it.
    open: Option<(BatchNumber, BatchSequence)>,
    /// Highest sequence of it that was sent.
    sent: Rc<Cell<BatchSequence>>,
    failure: Option<BatchEnd>,
    done: bool,
    /// Simulated time of the client for each message, and until when that of the last keeps it busy.
    cost: Time,
    busy_until: Time,
    /// Handed out by the plan before its batch was open.
    first: Option<Planned>,
}

impl<'w, W: World> Runner<'w, W> {
    /// A publisher whose code is `client`, and that follows `plan` over the connection of
    /// `jetstream`.
    pub fn new(
        world: &'w W,
        jetstream: Context,
        client: ClientCode,
        publisher: Settings,
        plan: Plan,
        maker: MessageMaker,
    ) -> Self {
        Self {
            world,
            jetstream,
            plan,
            maker,
            client,
            settings: BatchSettings {
                batch: BatchNumber(0),
                publisher,
            },
            cost: Time::ZERO,
            busy_until: Time::ZERO,
            open: None,
            sent: Rc::default(),
            failure: None,
            done: false,
            first: None,
        }
    }

    /// Each message takes its client so much time: for worlds in which code takes none.
    ///
    /// The time is spent in portions, as a thread spends it, rather than message by message.
    #[must_use]
    pub const fn at_cost(mut self, cost: Time) -> Self {
        self.cost = cost;
        self
    }

    /// Publishes until the plan is done; [`Plan::batch_over`] says when that is sooner than the
    /// file does.
    pub async fn run(&mut self) {
        let mut now = self.world.now();
        loop {
            self.heed_stop();
            match self.plan.step(now) {
                Step::Wait(until) => {
                    self.world.until(until).await;
                    now = self.world.now();
                }
                Step::Offer(first) => {
                    let end = self.run_batch(first).await;
                    self.open = None;
                    self.plan.batch_over(end.outcome, self.sent.get());
                    if is_failure(end.outcome) {
                        self.failure = Some(end);
                    }
                    now = self.world.now();
                }
                Step::End | Step::Done => break,
            }
        }
        self.finish();
    }

    /// Ends a publisher whose [`Runner::run`] was dropped half-way; harmless after its end.
    pub fn interrupt(&mut self) {
        if self.done {
            return;
        }
        if let Some((batch, acknowledged)) = self.open.take() {
            let event = Event::BatchEnded {
                batch,
                outcome: Outcome::Interrupted,
                code: 0,
                acknowledged,
            };
            self.world.tell(self.world.now(), event);
            self.plan.batch_over(Outcome::Interrupted, self.sent.get());
        }
        self.finish();
    }

    /// The last batch that failed, if one did.
    pub fn failure(&self) -> Option<&BatchEnd> {
        self.failure.as_ref()
    }

    fn finish(&mut self) {
        self.done = true;
        self.heed_stop();
        let publisher = self.plan.publisher();
        let now = self.world.now();
        let messages = self.plan.withheld(now);
        if messages > 0 {
            let event = Event::Withheld {
                publisher,
                messages,
            };
            self.world.tell(now, event);
        }
        self.world.tell(now, Event::PublisherDone { publisher });
    }

    async fn run_batch(&mut self, first: Planned) -> BatchEnd {
        let batch = self.world.open_batch();
        self.first = Some(first);
        self.settings.batch = batch;
        self.open = Some((batch, BatchSequence(0)));
        let (flow, outstanding_acks, gap) = self.client.terms(&self.settings.publisher);
        let event = Event::BatchStarted {
            publisher: self.plan.publisher(),
            batch,
            flow,
            outstanding_acks,
            gap,
        };
        self.world.tell(self.world.now(), event);
        self.sent.set(BatchSequence(0));
        let ear = Ear {
            world: self.world,
            sent: Rc::clone(&self.sent),
        };
        let (jetstream, connection) = (&self.jetstream, self.jetstream.client());
        match self.client {
            ClientCode::JetstreamExtra => {
                match ExtraClient::open(jetstream, &self.settings, &ear) {
                    Ok(client) => client.publish(self).await,
                    Err(end) => end,
                }
            }
            ClientCode::Core => match CoreClient::open(&connection, &self.settings, &ear).await {
                Ok(client) => client.publish(self).await,
                Err(end) => end,
            },
            ClientCode::Atomic => {
                match AtomicClient::open(&connection, &self.settings, &ear).await {
                    Ok(client) => client.publish(self).await,
                    Err(end) => end,
                }
            }
            ClientCode::ExtraAtomic => {
                let client = ExtraAtomicClient::new(jetstream, &self.settings, &ear);
                client.publish(self).await
            }
            ClientCode::Publish => {
                let client = PublishClient::new(&connection, &self.settings, &ear);
                client.publish(self).await
            }
            ClientCode::JetStream { in_flight } => {
                let client = JetStreamClient::new(jetstream, &self.settings, in_flight, &ear);
                client.publish(self).await
            }
        }
    }

    fn heed_stop(&mut self) {
        if let Some(at) = self.world.stopped() {
            self.plan.stop_at(at);
        }
    }
}

impl<W: World> Source for Runner<'_, W> {
    fn next(&mut self, now: Time, acknowledged: BatchSequence) -> Next {
        if let Some((_, known)) = &mut self.open {
            *known = acknowledged;
        }
        if self.busy_until > now + PORTION {
            return Next::Wait(self.busy_until);
        }
        let step = match self.first {
            None => {
                self.heed_stop();
                self.plan.step(now)
            }
            Some(first) => {
                self.first = None;
                Step::Offer(first)
            }
        };
        let planned = match step {
            Step::Offer(planned) => planned,
            Step::Wait(until) => return Next::Wait(until),
            Step::End | Step::Done => return self.end(),
        };
        if self.cost > Time::ZERO {
            self.busy_until = self.busy_until.max(now) + self.cost;
        }
        let message = self.maker.make(&planned);
        if let Some((batch, _)) = self.open {
            self.world.made(batch, planned.sequence, &message.payload);
        }
        if planned.last {
            Next::Commit(message, planned.intended)
        } else {
            Next::Offer(message, planned.intended)
        }
    }

    fn until(&self, at: Time) -> impl Future<Output = ()> {
        self.world.until(at)
    }
}

impl<W: World> Runner<'_, W> {
    fn end(&self) -> Next {
        match self.plan.commit() {
            // no message is left that could commit
            Commit::Eob | Commit::Message => Next::CommitEob,
            Commit::None => Next::Abandon,
        }
    }
}

/// Passes on what a client tells, and keeps what the plan asks for when a batch is over: a client
/// that is dropped half-way cannot say.
struct Ear<'w, W> {
    world: &'w W,
    sent: Rc<Cell<BatchSequence>>,
}

impl<W: Witness> Witness for Ear<'_, W> {
    fn now(&self) -> Time {
        self.world.now()
    }

    fn now_roughly(&self) -> Time {
        self.world.now_roughly()
    }

    fn named(&self, batch: BatchNumber, id: &str) {
        self.world.named(batch, id);
    }

    fn tell(&self, at: Time, event: Event) {
        if let Event::Published {
            operation,
            sequence,
            ..
        } = event
            && operation.stores()
        {
            self.sent.set(sequence);
        }
        self.world.tell(at, event);
    }
}

/// Whether a batch ended with an error that people want to read. One that the server ended early
/// was answered in full.
const fn is_failure(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Committed | Outcome::EndedByServer | Outcome::Abandoned => false,
        Outcome::Refused
        | Outcome::TimedOut
        | Outcome::NoResponders
        | Outcome::Interrupted
        | Outcome::ClientError => true,
    }
}
