//! The world as one publisher sees it, and what all of them share.
//!
//! Events are gathered in a log that `run` empties between steps: software of hosts lives as long as
//! its substrate, longer than those who watch. Leans on `clock`, `load` and `serve`.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::rc::Rc;

use async_nats::Client;
use async_nats::connection::State;
use tokio::sync::Notify;

use super::clock::RunClock;
use super::rest::Ways;
use crate::client::Witness;
use crate::event::{BatchNumber, Event, Observer, Outcome, PublisherId};
use crate::load::{PayloadContent, Timed, World};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::serve::Hub;
use crate::sim::substrate::LinkSettings;

/// Between two looks at the server's work, at least.
const A_LITTLE: Time = Time::from_micros(1);

/// Events that nobody has seen yet, and what they say of frames under way.
#[derive(Clone)]
pub(super) struct Log(Rc<Events>);

#[derive(Default)]
struct Events {
    unseen: RefCell<Vec<(Time, Event)>>,
    last_at: Cell<Time>,
    ways: RefCell<Ways>,
}

impl Log {
    /// An empty log of so many publishers with such a link each.
    pub(super) fn new(publishers: u32, link: LinkSettings) -> Self {
        Self(Rc::new(Events {
            ways: RefCell::new(Ways::new(publishers, link)),
            ..Events::default()
        }))
    }

    /// What is on the way between publishers and the server.
    pub(super) fn ways(&self) -> RefMut<'_, Ways> {
        self.0.ways.borrow_mut()
    }

    /// When the last event was.
    pub(super) fn last_at(&self) -> Time {
        self.0.last_at.get()
    }

    /// Shows everything to `observer`, and forgets it; says how much that was.
    pub(super) fn drain(&self, observer: &mut dyn Observer) -> u64 {
        let mut events = self.0.unseen.borrow_mut();
        for (at, event) in events.iter() {
            observer.see(*at, event);
        }
        let seen = events.len() as u64;
        events.clear();
        seen
    }

    pub(super) fn push(&self, at: Time, event: Event) {
        self.0.last_at.set(at);
        self.ways().see(at, &event);
        self.0.unseen.borrow_mut().push((at, event));
    }
}

impl Observer for Log {
    fn see(&mut self, at: Time, event: &Event) {
        self.push(at, *event);
    }
}

/// Batches by the ids that their clients gave them.
#[derive(Default)]
pub(super) struct Batches {
    opened: u32,
    by_id: BTreeMap<Box<str>, BatchNumber>,
}

impl Batches {
    fn open(&mut self) -> BatchNumber {
        let number = BatchNumber(self.opened);
        self.opened += 1;
        number
    }

    /// The number of the batch with this id; one that no publisher has opened gets a new one.
    pub(super) fn number_of(&mut self, id: &str) -> BatchNumber {
        match self.by_id.get(id) {
            Some(number) => *number,
            None => {
                let number = self.open();
                self.by_id.insert(id.into(), number);
                number
            }
        }
    }
}

/// Messages on their way of clients that are no fast publishers: nothing but their payloads says
/// which they are. By digest; of two with the same one, the first made is taken to arrive first.
#[derive(Default)]
pub(super) struct Made(BTreeSet<(u32, BatchNumber, BatchSequence)>);

impl Made {
    /// Which message was stored with this digest.
    pub(super) fn take(&mut self, digest: u32) -> Option<(BatchNumber, BatchSequence)> {
        let from = (digest, BatchNumber(0), BatchSequence(0));
        let first = *self.0.range(from..).next()?;
        let (found, batch, sequence) = first;
        (found == digest && self.0.remove(&first)).then_some((batch, sequence))
    }
}

/// What everybody in a world shares.
pub(super) struct Shared {
    pub(super) clock: Rc<RunClock>,
    pub(super) log: Log,
    pub(super) batches: Rc<RefCell<Batches>>,
    pub(super) made: Rc<RefCell<Made>>,
    pub(super) hub: Rc<RefCell<Hub>>,
    /// Publishers that have more to do, and who hears when none has.
    pub(super) publishing: Cell<usize>,
    pub(super) published: Notify,
    /// Publishers and probes that are connected, that are done, and that were interrupted.
    pub(super) connected: Cell<usize>,
    pub(super) done: Cell<usize>,
    pub(super) unfinished: Cell<usize>,
    /// Publishers whose link carries nothing now: bytes may be on it.
    pub(super) stopped_links: RefCell<BTreeMap<PublisherId, u32>>,
}

impl Shared {
    /// Ends when every publisher is done.
    pub(super) async fn all_published(&self) {
        while self.publishing.get() > 0 {
            self.published.notified().await;
        }
    }
}

/// A publisher's place in the world.
pub(super) struct Seat {
    pub(super) shared: Rc<Shared>,
    pub(super) publisher: PublisherId,
    /// Its connection, while it has one.
    connection: RefCell<Option<Client>>,
    notes_messages: bool,
}

impl Seat {
    pub(super) const fn new(shared: Rc<Shared>, publisher: PublisherId) -> Self {
        Self {
            shared,
            publisher,
            connection: RefCell::new(None),
            notes_messages: false,
        }
    }

    /// Whether the server's side of its messages is known by their payloads.
    pub(super) const fn noting_messages(mut self, notes: bool) -> Self {
        self.notes_messages = notes;
        self
    }

    /// This is the connection of the publisher; `None`: it has none any more.
    pub(super) fn connect(&self, connection: Option<Client>) {
        self.connection.replace(connection);
    }

    /// Ends when the server has dealt with all that this publisher has handed to its connection, or
    /// at the time limit.
    pub(super) async fn all_dealt_with(&self, time_limit: Time) {
        self.shared.log.ways().released(self.now(), self.publisher);
        while let Some(at) = self.busy_until().filter(|_| self.now() < time_limit) {
            self.shared.clock.until(at.min(time_limit)).await;
        }
    }

    /// When to look again whether something of this publisher is on its link or in the server.
    fn busy_until(&self) -> Option<Time> {
        let (now, hub) = (self.now(), self.shared.hub.borrow());
        let there = self.shared.log.ways().there_at(self.publisher);
        if now <= there {
            return Some(there + A_LITTLE);
        }
        let is_busy = hub.has_work_of(self.publisher);
        is_busy.then(|| hub.due().max(now + A_LITTLE))
    }

    /// Nothing under way could end the wait of this publisher: neither on its link nor in the
    /// server.
    fn is_at_rest(&self) -> bool {
        let links = self.shared.stopped_links.borrow();
        let held = links.get(&self.publisher).is_some_and(|faults| *faults > 0);
        // while there is no connection, the client keeps what it has to send
        let connection = self.connection.borrow();
        let connected = connection
            .as_ref()
            .is_some_and(|client| client.connection_state() == State::Connected);
        let on_link = !self
            .shared
            .log
            .ways()
            .is_nothing(self.now(), self.publisher);
        connected && !held && !on_link && !self.shared.hub.borrow().has_work_of(self.publisher)
    }
}

impl Witness for Seat {
    fn now(&self) -> Time {
        self.shared.clock.now()
    }

    fn now_roughly(&self) -> Time {
        self.now()
    }

    fn tell(&self, at: Time, event: Event) {
        if let Event::BatchEnded { batch, outcome, .. } = event
            && matches!(outcome, Outcome::TimedOut | Outcome::Interrupted)
            && self.is_at_rest()
        {
            self.shared.log.push(at, Event::AtRest { batch });
        }
        self.shared.log.push(at, event);
    }

    fn named(&self, batch: BatchNumber, id: &str) {
        let mut batches = self.shared.batches.borrow_mut();
        batches.by_id.insert(id.into(), batch);
    }
}

impl World for Seat {
    fn open_batch(&self) -> BatchNumber {
        self.shared.batches.borrow_mut().open()
    }

    fn made(&self, batch: BatchNumber, sequence: BatchSequence, payload: &[u8]) {
        if self.notes_messages {
            let digest = PayloadContent::carried_digest(payload);
            let mut made = self.shared.made.borrow_mut();
            made.0.insert((digest, batch, sequence));
        }
    }

    fn stopped(&self) -> Option<Time> {
        None
    }
}

impl Timed for Seat {
    fn until(&self, at: Time) -> impl Future<Output = ()> {
        self.shared.clock.until(at)
    }
}
