//! The event substrate: a byte network on one paused tokio runtime, exact to the nanosecond.
//!
//! All hosts share a current-thread runtime whose clock stands still. When no task can run, the
//! runtime asks before it parks: then the next event of the network is due. If it lies within the
//! current millisecond, the clock moves to its exact moment, and who waits for it is woken. If it
//! lies further on, a timer of the runtime is set to the last whole millisecond before it, and the
//! runtime itself jumps to that or to an earlier timer of the software. So time is exact for the
//! network, tokio's timers fire at their whole milliseconds, and time without events costs nothing.
//!
//! This leans on how the pinned tokio parks; `tests/substrate_runtime.rs` says what to look at when
//! the pin moves. Leans on `network` and on the facade.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::hook::{self, Connecting, Installed};
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::time::Instant;

use self::endpoint::{Dialling, Listening, Sleep};
use self::network::State;
use super::{Clock, Links, LocalFuture, Progress, Substrate, require_armed};
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::seed::Seed;
use crate::sim::SimError;

mod agenda;
mod connection;
mod dial;
mod endpoint;
mod faults;
mod network;
mod pipe;

/// Events of the network that one step does at most.
const EVENTS_PER_STEP: u32 = 256;
/// As far as the runtime is let jump when nobody says how far: nothing comes later.
const FAR: Time = Time::from_secs(10 * 365 * 24 * 60 * 60);
const MILLISECOND: u64 = 1_000_000;

thread_local! {
    /// The network of this thread's substrate. Its handles are numbers, and the runtime's hooks
    /// must be able to leave the thread, so neither can hold it.
    static NETWORK: RefCell<Option<Rc<Network>>> = const { RefCell::new(None) };
    static LAST_NETWORK: Cell<u64> = const { Cell::new(0) };
}

/// Our own simulated network, exact to the nanosecond.
pub struct EventSubstrate {
    /// Taken when it is dropped: tasks close their connections while the network is still there.
    runtime: Option<LocalRuntime>,
    network: Rc<Network>,
    installed: Option<Installed>,
}

/// The network as the facade, the runtime's hooks and the handles see it.
struct Network {
    number: u64,
    state: RefCell<State>,
    /// The runtime's time at the start of the run.
    started: Cell<Option<Instant>>,
    /// When software last did something before the runtime was let jump, and its polls by then.
    /// The runtime comes to a distant timer in several jumps.
    last_done: Cell<(Time, u64)>,
    /// A timer of the runtime that keeps it from jumping over an event.
    fence: RefCell<Option<Pin<Box<tokio::time::Sleep>>>>,
    step: RefCell<Step>,
}

/// The step that is being done.
#[derive(Debug)]
struct Step {
    until: Time,
    events_left: u32,
    outcome: Option<Progress>,
    /// Ends the step's `block_on`.
    waker: Option<Waker>,
}

impl EventSubstrate {
    /// A world without hosts. Everything that is drawn in it follows from `seed`.
    ///
    /// # Errors
    /// On a thread that does not follow from a seed ([`super::isolated`]), which includes every
    /// thread of a platform without support.
    pub fn new(links: Links, seed: Seed) -> Result<Self, SimError> {
        require_armed()?;
        let number = LAST_NETWORK.get() + 1;
        LAST_NETWORK.set(number);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .on_thread_park(|| with_current(Network::park))
            .on_thread_unpark(|| with_current(Network::unpark))
            .build_local(LocalOptions::default())
            .map_err(|error| SimError::new("lane", &format!("no runtime: {error}")))?;
        let network = Rc::new(Network {
            number,
            state: RefCell::new(State::new(links, seed)),
            started: Cell::new(None),
            last_done: Cell::new((Time::ZERO, hook::polls())),
            fence: RefCell::new(None),
            step: RefCell::new(Step {
                until: Time::ZERO,
                events_left: 0,
                outcome: None,
                waker: None,
            }),
        });
        NETWORK.replace(Some(Rc::clone(&network)));
        let facade: Rc<dyn hook::Network> = Rc::clone(&network) as _;
        let installed = Some(hook::install(facade));
        runtime.block_on(async {
            network.started.set(Some(Instant::now()));
            let fence = tokio::time::sleep_until(Instant::now());
            network.fence.replace(Some(Box::pin(fence)));
        });
        sim_entropy::set_elapsed_ns(0);
        Ok(Self {
            runtime: Some(runtime),
            network,
            installed,
        })
    }
}

impl Substrate for EventSubstrate {
    fn now(&self) -> Time {
        self.network.state.borrow().now
    }

    fn clock(&self) -> Rc<dyn Clock> {
        Rc::clone(&self.network) as _
    }

    fn name(&mut self, name: &str, host: IpAddr) {
        let mut state = self.network.state.borrow_mut();
        state.names.insert(name.to_owned(), host);
    }

    fn host(&mut self, host: IpAddr, software: LocalFuture) {
        if let Some(runtime) = &self.runtime {
            runtime.block_on(async {
                hook::within(host, || drop(tokio::task::spawn_local(software)));
            });
        }
    }

    fn step(&mut self, until: Time) -> Progress {
        let Some(runtime) = &self.runtime else {
            return Progress::Idle;
        };
        *self.network.step.borrow_mut() = Step {
            until,
            events_left: EVENTS_PER_STEP,
            outcome: None,
            waker: None,
        };
        let network = &self.network;
        let outcome = runtime.block_on(std::future::poll_fn(|context| network.poll_step(context)));
        match hook::take_panics().first() {
            Some(host) => Progress::Panicked(*host),
            None => outcome,
        }
    }

    fn crash(&mut self, host: IpAddr) {
        with_network(self.network.number, |state| state.crash(host));
        hook::crash(host);
    }

    fn cut(&mut self, from: IpAddr, to: IpAddr) {
        with_network(self.network.number, |state| state.cut(from, to));
    }

    fn heal(&mut self, from: IpAddr, to: IpAddr) {
        with_network(self.network.number, |state| state.heal(from, to));
    }

    fn hold(&mut self, from: IpAddr, to: IpAddr) {
        with_network(self.network.number, |state| state.hold(from, to));
    }

    fn release(&mut self, from: IpAddr, to: IpAddr) {
        with_network(self.network.number, |state| state.release(from, to));
    }

    fn set_latency(&mut self, from: IpAddr, to: IpAddr, latency: Time) -> Result<(), SimError> {
        with_network(self.network.number, |state| {
            state.set_latency(from, to, latency);
        });
        Ok(())
    }

    fn limit(&mut self, from: IpAddr, to: IpAddr, limit: Limit) -> Result<(), SimError> {
        with_network(self.network.number, |state| state.limit(from, to, limit));
        Ok(())
    }

    fn reset(&mut self, one: IpAddr, other: IpAddr) -> Result<(), SimError> {
        with_network(self.network.number, |state| state.reset(one, other));
        Ok(())
    }
}

impl Drop for EventSubstrate {
    fn drop(&mut self) {
        drop(self.network.fence.take());
        drop(self.runtime.take());
        drop(self.installed.take());
        // A newer substrate of this thread stays.
        let is_own = |network: &mut Option<Rc<Network>>| {
            let number = network.as_ref().map(|network| network.number);
            (number == Some(self.network.number)).then(|| network.take())
        };
        let own = NETWORK.with_borrow_mut(is_own);
        drop(own);
    }
}

impl Network {
    /// Polled as the main future of the runtime: is the step done?
    fn poll_step(&self, context: &mut Context<'_>) -> Poll<Progress> {
        let mut step = self.step.borrow_mut();
        match step.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                step.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Called when no task can run: goes on to the next event that lets one run, or lets the runtime
    /// jump.
    fn park(&self) {
        loop {
            let (now, next) = {
                let state = self.state.borrow();
                (state.now, state.agenda.next_at())
            };
            let target = next.min(self.step.borrow().until.min(FAR));
            let millisecond = now.as_nanos() / MILLISECOND;
            let boundary = Time::from_nanos((millisecond + 1) * MILLISECOND);
            if target < boundary {
                self.advance(now, target);
                if self.arrive(target.max(now), next) {
                    return;
                }
            } else if now.as_nanos() % MILLISECOND != 0 {
                // Timers fire at whole milliseconds, and the runtime jumps by whole ones.
                return self.advance(now, boundary);
            } else {
                let whole = Time::from_nanos(target.as_nanos() / MILLISECOND * MILLISECOND);
                if hook::polls() != self.last_done.get().1 {
                    self.last_done.set((now, hook::polls()));
                }
                return self.set_fence(whole);
            }
        }
    }

    /// Called when the runtime has perhaps moved its clock itself.
    fn unpark(&self) {
        let Some(started) = self.started.get() else {
            return;
        };
        let elapsed = Instant::now().duration_since(started);
        let now = Time::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX));
        self.set_now(now);
    }

    /// Does what is due at `now`, or ends the step. Whether something can run then.
    fn arrive(&self, now: Time, next: Time) -> bool {
        if next > now {
            let until = self.step.borrow().until;
            if until > FAR {
                self.go_back(now);
                self.end_step(Progress::Idle);
            } else {
                self.end_step(Progress::Reached(until));
            }
            return true;
        }
        let mut done = 0;
        let woken = with_network(self.number, |state| {
            while state.do_next() {
                done += 1;
            }
            !state.woken.is_empty()
        });
        let events_left = {
            let mut step = self.step.borrow_mut();
            step.events_left = step.events_left.saturating_sub(done);
            step.events_left
        };
        if events_left == 0 {
            self.end_step(Progress::Going);
        }
        events_left == 0 || woken == Some(true)
    }

    /// Nothing would ever happen: the run stands where software last did something.
    fn go_back(&self, now: Time) {
        let (since, _) = self.last_done.get();
        let skipped = Duration::from_nanos(now.since(since).as_nanos());
        self.started.set(self.started.get().map(|at| at + skipped));
        self.set_now(since);
    }

    fn end_step(&self, outcome: Progress) {
        let waker = {
            let mut step = self.step.borrow_mut();
            step.outcome = Some(outcome);
            step.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Moves the runtime's clock to an exact moment, and keeps the runtime from jumping.
    fn advance(&self, from: Time, to: Time) {
        let to = to.max(from);
        let step = Duration::from_nanos(to.since(from).as_nanos());
        // The first poll moves the clock and asks to be polled again, so that the runtime comes
        // round once more instead of parking: whoever is woken now may be gone.
        let advance = pin!(tokio::time::advance(step));
        let _ = advance.poll(&mut Context::from_waker(Waker::noop()));
        self.set_now(to);
    }

    fn set_now(&self, now: Time) {
        self.state.borrow_mut().now = now;
        sim_entropy::set_elapsed_ns(now.as_nanos());
    }

    fn set_fence(&self, at: Time) {
        let started = self.started.get();
        let mut fence = self.fence.borrow_mut();
        if let (Some(started), Some(fence)) = (started, fence.as_mut()) {
            let at = started + Duration::from_nanos(at.as_nanos());
            fence.as_mut().reset(at);
        }
    }

    /// The address that an unspecified one stands for: that of the host whose code is running.
    fn of_host(address: SocketAddr) -> io::Result<SocketAddr> {
        if !address.ip().is_unspecified() {
            return Ok(address);
        }
        let host = hook::current_host().ok_or(ErrorKind::AddrNotAvailable)?;
        Ok(SocketAddr::new(host, address.port()))
    }
}

impl hook::Network for Network {
    fn connect(&self, local: Option<SocketAddr>, remote: SocketAddr) -> Connecting {
        let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
        match Self::of_host(local.unwrap_or(unspecified)) {
            Ok(from) => Box::pin(Dialling {
                network: self.number,
                from,
                to: remote,
                attempt: None,
            }),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn listen(&self, local: SocketAddr, backlog: u32) -> io::Result<Arc<dyn hook::Listener>> {
        let local = Self::of_host(local)?;
        let mut state = self.state.borrow_mut();
        let listener = state.listen(local, backlog)?;
        let listening = state.listeners.get(&listener);
        let local = listening.map_or(local, |listening| listening.address);
        Ok(Arc::new(Listening::new(self.number, listener, local)))
    }

    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        super::resolve(&self.state.borrow().names, name, port)
    }

    fn choose(&self, options: u32) -> u32 {
        self.state.borrow_mut().choose(options)
    }
}

impl Clock for Network {
    fn now(&self) -> Time {
        self.state.borrow().now
    }

    fn sleep_until(&self, at: Time) -> LocalFuture {
        Box::pin(Sleep {
            network: self.number,
            at,
            timer: None,
        })
    }

    fn interrupt(&self) {
        self.end_step(Progress::Going);
    }
}

/// Runs `action` on the network of this thread, if there is one.
fn with_current(action: impl FnOnce(&Network)) {
    let network = NETWORK.with_borrow(Option::clone);
    if let Some(network) = network {
        action(&network);
    }
}

/// Runs `action` on the state of the network of this number, and then wakes whom it woke; none if
/// that network is gone, or another thread's.
fn with_network<T>(number: u64, action: impl FnOnce(&mut State) -> T) -> Option<T> {
    let run = |network: &RefCell<Option<Rc<Network>>>| {
        let network = network.borrow();
        let network = network
            .as_ref()
            .filter(|network| network.number == number)?;
        let mut state = network.state.borrow_mut();
        let result = action(&mut state);
        if state.woken.is_empty() {
            return Some(result);
        }
        let mut woken = std::mem::take(&mut state.woken);
        drop(state);
        for waker in woken.drain(..) {
            waker.wake();
        }
        // Kept for its room, unless somebody was woken meanwhile.
        let mut state = network.state.borrow_mut();
        if state.woken.is_empty() {
            state.woken = woken;
        }
        Some(result)
    };
    NETWORK.try_with(run).ok().flatten()
}
