//! One publisher at work: takes the plan step by step and hands each message to a client.
//!
//! The same loop serves every world that runs real clients. Leans on `plan`, `message`, `settings`
//! and `client`.

use std::future::Future;

use async_nats::jetstream::Context;

use super::{MessageMaker, Plan, Planned, Step, publisher_settings};
use crate::client::{
    BatchClient, BatchEnd, BatchSettings, CoreClient, ExtraClient, Next, Source, Witness,
};
use crate::event::{BatchNumber, Event, Outcome};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::scenario::{ClientKind, Commit, Publishers};

/// What a runner needs from its world, besides a [`Witness`].
pub trait World: Witness {
    /// The number of a batch that opens now.
    fn open_batch(&self) -> BatchNumber;

    /// When the world stopped taking messages, if it has: publishers then end their batches.
    fn stopped(&self) -> Option<Time>;

    /// Ends at `at`, or when the world stops.
    fn until(&self, at: Time) -> impl Future<Output = ()>;
}

/// One publisher of the run.
pub struct Runner<'w, W> {
    world: &'w W,
    jetstream: Context,
    plan: Plan,
    maker: MessageMaker,
    client: ClientKind,
    settings: BatchSettings,
    /// The batch under way and what is known to be covered of it.
    open: Option<(BatchNumber, BatchSequence)>,
    failure: Option<BatchEnd>,
    done: bool,
    /// Handed out by the plan before its batch was open.
    first: Option<Planned>,
}

impl<'w, W: World> Runner<'w, W> {
    /// A publisher of `group` that follows `plan` over the connection of `jetstream`.
    /// `ping_while_opening`: not against 2.14, where such a ping opens a batch.
    pub fn new(
        world: &'w W,
        jetstream: Context,
        group: &Publishers,
        plan: Plan,
        maker: MessageMaker,
        ping_while_opening: bool,
    ) -> Self {
        let mut publisher = publisher_settings(group);
        publisher.profile.ping_while_opening = ping_while_opening;
        Self {
            world,
            jetstream,
            plan,
            maker,
            client: group.client,
            settings: BatchSettings {
                batch: BatchNumber(0),
                publisher,
            },
            open: None,
            failure: None,
            done: false,
            first: None,
        }
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
                    self.plan.batch_over(end.outcome);
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
        }
        self.finish();
    }

    /// The last batch that failed, if one did.
    pub fn failure(&self) -> Option<&BatchEnd> {
        self.failure.as_ref()
    }

    fn finish(&mut self) {
        self.done = true;
        let publisher = self.plan.publisher();
        self.world
            .tell(self.world.now(), Event::PublisherDone { publisher });
    }

    async fn run_batch(&mut self, first: Planned) -> BatchEnd {
        let batch = self.world.open_batch();
        self.first = Some(first);
        self.settings.batch = batch;
        self.open = Some((batch, BatchSequence(0)));
        let publisher = &self.settings.publisher;
        let event = Event::BatchStarted {
            publisher: self.plan.publisher(),
            batch,
            flow: publisher.flow,
            outstanding_acks: u16::from(publisher.outstanding_acks),
            gap: publisher.gap,
        };
        self.world.tell(self.world.now(), event);
        let world = self.world;
        match self.client {
            ClientKind::JetstreamExtra => {
                match ExtraClient::open(&self.jetstream, &self.settings, world) {
                    Ok(client) => client.publish(self).await,
                    Err(end) => end,
                }
            }
            ClientKind::Core => {
                let connection = self.jetstream.client();
                match CoreClient::open(&connection, &self.settings, world).await {
                    Ok(client) => client.publish(self).await,
                    Err(end) => end,
                }
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
        let message = self.maker.make(&planned);
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
