//! Many publishers at once on one thread, with a connection each or on some that they share.
//!
//! All publishers are polled by one task, beside the tasks of their connections; a publisher costs
//! no task, and a message no allocation, timer or channel beyond those of its client. Leans on
//! `load`, `connect`, `clock` and `alarm`.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::time::Duration;

use futures_util::stream::{self, FuturesUnordered};
use futures_util::{StreamExt, TryStreamExt};
use tokio::sync::Notify;

use super::alarm::Alarms;
use super::claims::Claims;
use super::clock::{Clock, Meter};
use super::connect::{Connection, Connector};
use super::error::LiveError;
use super::interrupt::Interrupts;
use crate::client::{BatchEnd, Witness};
use crate::event::{BatchNumber, Event, Observer, PublisherId};
use crate::load::{
    ClientCode, MessageMaker, MessagesOfRun, Plan, Runner, Timed, World, publisher_settings,
};
use crate::machine::Time;
use crate::measure::{Generator, LateStarts, LatencyHistogram, Spent, latency_histogram};
use crate::scenario::{Arrival, Settings};
use crate::seed::Seed;

/// So many connections are opened at a time.
const CONNECTING: usize = 32;
/// Longest time for publishers to end their batches after a stop.
const GRACE: Duration = Duration::from_secs(5);
/// A reading of the clock serves so many messages more, unless there is a wait between them: about
/// five microseconds, where reading it for each would take a twentieth of the whole cost.
const READING_USES: u8 = 7;
/// File descriptors beside those of the connections.
const OTHER_DESCRIPTORS: u64 = 256;

/// How the publishing came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Every publisher is done.
    Complete,
    /// The time limit of the file.
    TimeLimit,
    /// A signal, by number.
    Signal(u8),
}

/// What came of the publishing.
pub(super) struct Published {
    pub(super) ended: Ended,
    /// A second signal came: nothing more is to be waited for.
    pub(super) hurried: bool,
    pub(super) failures: Vec<PublisherFailure>,
    /// What the publishing thread took for it.
    pub(super) spent: Spent,
    /// The servers are gone, and that ended it.
    pub(super) lost: Option<LiveError>,
}

impl Published {
    /// Nothing cut it short.
    pub(super) fn is_whole(&self) -> bool {
        self.ended == Ended::Complete && !self.hurried && self.lost.is_none()
    }
}

/// A publisher that a batch has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublisherFailure {
    /// Which.
    pub publisher: PublisherId,
    /// Its group.
    pub group: String,
    /// How its last batch ended.
    pub end: BatchEnd,
}

/// The live world: one clock, and everybody who watches.
pub(super) struct LiveWorld<'o> {
    clock: Clock,
    /// The newest reading of the clock, and how often it may still be used.
    reading: Cell<(Time, u8)>,
    observers: RefCell<&'o mut [&'o mut dyn Observer]>,
    claims: RefCell<Claims>,
    /// Only where the load knows when it wants its messages.
    late_starts: Option<RefCell<LateStarts>>,
    wake_lag: RefCell<LatencyHistogram>,
    batches: Cell<u32>,
    stopped: Cell<Option<Time>>,
    stopping: Notify,
    alarms: Alarms,
    /// Tells the user what is waited for.
    say: fn(&str),
}

impl<'o> LiveWorld<'o> {
    /// A world for a run of this file, whose clock starts now.
    pub(super) fn new(settings: &Settings, observers: &'o mut [&'o mut dyn Observer]) -> Self {
        let is_open_loop = settings
            .publishers
            .iter()
            .any(|group| group.arrival != Arrival::Closed);
        Self {
            clock: Clock::start(),
            reading: Cell::new((Time::ZERO, 0)),
            observers: RefCell::new(observers),
            claims: RefCell::default(),
            late_starts: is_open_loop.then(RefCell::default),
            wake_lag: RefCell::new(latency_histogram()),
            batches: Cell::new(0),
            stopped: Cell::new(None),
            stopping: Notify::new(),
            alarms: Alarms::default(),
            say: |_| {},
        }
    }

    /// Tells the user by `say` what is waited for.
    #[must_use]
    pub(super) fn saying(self, say: fn(&str)) -> Self {
        Self { say, ..self }
    }

    /// Tells the user what is waited for.
    pub(super) fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// Its clock.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// What the publishers have said so far.
    pub(super) fn claims(&self) -> std::cell::Ref<'_, Claims> {
        self.claims.borrow()
    }

    /// A leader stands still from now on.
    pub(super) fn leader_stands_still(&self) {
        self.claims.borrow_mut().leader_stands_still();
    }

    /// Messages sent so far.
    pub(super) fn published(&self) -> u64 {
        let claims = self.claims.borrow();
        claims.batches().iter().map(|batch| batch.published.0).sum()
    }

    /// The figures of the generator, for what the publishing took.
    pub(super) fn generator(&self, spent: Spent) -> Generator {
        let late = self.late_starts.as_ref();
        let late = late.map(|late| late.borrow().count());
        Generator::new(spent, self.published(), &self.wake_lag.borrow(), late)
    }

    /// Ends at `at`, whoever has stopped.
    pub(super) async fn sleep_until(&self, at: Time) {
        if at == Time::NEVER {
            return std::future::pending().await;
        }
        self.alarms.until(&self.clock, at).await;
    }

    fn stop(&self) {
        if self.stopped.get().is_none() {
            self.stopped.set(Some(self.clock.now()));
            self.stopping.notify_waiters();
        }
    }
}

impl Witness for LiveWorld<'_> {
    fn now(&self) -> Time {
        let now = self.clock.now();
        self.reading.set((now, READING_USES));
        now
    }

    fn now_roughly(&self) -> Time {
        match self.reading.get() {
            (_, 0) => self.now(),
            (reading, left) => {
                self.reading.set((reading, left - 1));
                reading
            }
        }
    }

    fn tell(&self, at: Time, event: Event) {
        self.claims.borrow_mut().see(at, &event);
        if let Some(late) = &self.late_starts {
            late.borrow_mut().see(at, &event);
        }
        for observer in self.observers.borrow_mut().iter_mut() {
            observer.see(at, &event);
        }
    }
}

impl World for LiveWorld<'_> {
    fn open_batch(&self) -> BatchNumber {
        let number = self.batches.get();
        self.batches.set(number + 1);
        BatchNumber(number)
    }

    fn stopped(&self) -> Option<Time> {
        self.stopped.get()
    }
}

impl Timed for LiveWorld<'_> {
    async fn until(&self, at: Time) {
        if self.stopped.get().is_some() {
            return;
        }
        tokio::select! {
            biased;
            () = self.stopping.notified() => {}
            () = self.alarms.until(&self.clock, at) => {
                let lag = self.clock.now().since(at).as_nanos();
                self.wake_lag.borrow_mut().saturating_record(lag);
            }
        }
    }
}

/// Publishers with their connections, ready to run.
pub(super) struct Fleet {
    members: Vec<Member>,
    time_limit: Time,
}

struct Member {
    connection: Connection,
    plan: Plan,
    maker: MessageMaker,
    group: usize,
}

impl Fleet {
    /// Opens the connections of the publishers of the file; `run` names the run in payloads.
    ///
    /// # Errors
    /// A connection cannot be opened, or the file asks for a header that cannot be sent.
    pub(super) async fn connect(
        settings: &Settings,
        file: &str,
        seed: Seed,
        run: u64,
        connector: &Connector,
    ) -> Result<Self, LiveError> {
        let connections = settings.connections();
        make_room_for_connections(connections, connector.descriptors())?;
        let groups = (0..).zip(&settings.publishers);
        let group_of = groups.flat_map(|(index, group)| (0..group.count).map(move |_| index));
        let messages = MessagesOfRun::new(settings, run);
        let connections: Vec<_> = stream::iter(0..connections as u32)
            .map(|number| connector.connect_publisher(number))
            .buffered(CONNECTING)
            .try_collect()
            .await?;
        let members = Plan::all(settings, seed)
            .zip(group_of)
            .zip(connections.iter().cycle());
        let members = members.map(|(((plan, group), index), connection)| {
            let publisher = plan.publisher().0;
            let maker =
                MessageMaker::new(group, publisher, messages.clone()).map_err(|message| {
                    LiveError::Scenario {
                        file: file.to_owned(),
                        message,
                    }
                })?;
            Ok(Member {
                connection: connection.shared(),
                plan,
                maker,
                group: index,
            })
        });
        Ok(Self {
            members: members.collect::<Result<_, LiveError>>()?,
            time_limit: settings.time_limit.0,
        })
    }

    /// Publishes until all are done, the time is over, or a signal comes; a second signal does not
    /// wait for batches to end. Ends as well when `lost` does: there is no server any more.
    pub(super) async fn run(
        self,
        settings: &Settings,
        world: &LiveWorld<'_>,
        lost: impl Future<Output = LiveError>,
        interrupts: &mut Interrupts,
    ) -> Published {
        let mut crew: Vec<_> = self
            .members
            .into_iter()
            .map(|member| {
                let group = &settings.publishers[member.group];
                let early_pings = member.connection.takes_early_pings();
                let jetstream = member.connection.jetstream;
                let publisher = member.plan.publisher();
                let mut settings = publisher_settings(group);
                settings.profile.ping_while_opening = early_pings;
                let (client, plan, maker) = (ClientCode::of(group), member.plan, member.maker);
                let runner = Runner::new(world, jetstream, client, settings, plan, maker);
                (publisher, &group.name, runner)
            })
            .collect();
        let publishers: FuturesUnordered<_> =
            crew.iter_mut().map(|(_, _, runner)| runner.run()).collect();
        let limit = world.alarms.until(&world.clock, self.time_limit);
        // the runners yield by themselves: the budget of the runtime would make a full turn look
        // like a wait
        let publishing = tokio::task::unconstrained(publishers.for_each(|()| async {}));
        // boxed, so that the publishers let go of the crew below
        let mut publishing = Box::pin(publishing);
        let publishing = std::future::poll_fn(move |context| {
            // time may have passed since the last turn
            world.reading.set((Time::ZERO, 0));
            publishing.as_mut().poll(context)
        });
        let idle = settings.publishers.iter().map(|group| group.start.0).min();
        let meter = Meter::start();
        let supervised = supervise(world, publishing, limit, interrupts);
        // None of them could end a batch any more.
        let ((ended, hurried), lost) = tokio::select! {
            biased;
            supervised = supervised => (supervised, None),
            lost = lost => ((Ended::Complete, true), Some(lost)),
        };
        let spent = meter.stop(idle.unwrap_or(Time::ZERO));
        if lost.is_some() {
            world.stop();
        }
        let failures = crew
            .iter_mut()
            .filter_map(|(publisher, group, runner)| {
                runner.interrupt();
                Some(PublisherFailure {
                    publisher: *publisher,
                    group: (*group).clone(),
                    end: runner.failure()?.clone(),
                })
            })
            .collect();
        Published {
            ended,
            hurried,
            failures,
            spent,
            lost,
        }
    }
}

/// Lets the publishers work to their end; at the time limit or a signal they get a short time to
/// end their batches, and are then dropped. Says whether a second signal came.
async fn supervise(
    world: &LiveWorld<'_>,
    mut publishing: impl Future<Output = ()> + Unpin,
    limit: impl Future<Output = ()>,
    interrupts: &mut Interrupts,
) -> (Ended, bool) {
    let ended = tokio::select! {
        biased;
        signal = interrupts.next() => Ended::Signal(signal),
        () = limit => Ended::TimeLimit,
        () = &mut publishing => return (Ended::Complete, false),
    };
    world.stop();
    if matches!(ended, Ended::Signal(_)) {
        let seconds = GRACE.as_secs();
        world.say(&format!(
            "waiting up to {seconds} s for publishers to end their batches; another signal ends the run at once"
        ));
    }
    tokio::select! {
        biased;
        signal = interrupts.next() => (Ended::Signal(signal), true),
        () = &mut publishing => (ended, false),
        () = tokio::time::sleep(GRACE) => (ended, false),
    }
}

/// Each connection takes so many file descriptors; the soft limit may be raised to the hard one.
fn make_room_for_connections(count: u64, descriptors: u64) -> Result<(), LiveError> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let wanted = count * descriptors + OTHER_DESCRIPTORS;
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    limit.current = limit
        .maximum
        .map_or(Some(wanted), |most| Some(most.min(wanted)));
    let raised = setrlimit(Resource::Nofile, limit);
    if raised.is_ok() && limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    Err(LiveError::system(
        format!("the publishers need {count} connections"),
        format!(
            "this process may open {} files; raise the limit (ulimit -n), or let publishers share \
             connections (live.connections)",
            limit.current.unwrap_or(0)
        ),
    ))
}
