//! Which simulated host a task belongs to, so that a crash ends the hidden tasks of client crates.
//!
//! A task that is spawned belongs to the host of the task that spawns it. Tasks without a host,
//! all those of a live run, are not counted anywhere. Leans on the real crate's tasks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use real::task::AbortHandle;

thread_local! {
    static CURRENT: Cell<Option<IpAddr>> = const { Cell::new(None) };
    static POLLS: Cell<u64> = const { Cell::new(0) };
    static TASKS: RefCell<Tasks> = const { RefCell::new(Tasks::new()) };
}

/// The living tasks of all hosts of a thread, and the hosts of those that panicked.
struct Tasks {
    living: BTreeMap<(IpAddr, u64), AbortHandle>,
    next: u64,
    panicked: Vec<IpAddr>,
}

impl Tasks {
    const fn new() -> Self {
        Self {
            living: BTreeMap::new(),
            next: 0,
            panicked: Vec::new(),
        }
    }
}

/// The host of the code that is running; none outside of hosts.
#[inline]
pub fn current_host() -> Option<IpAddr> {
    CURRENT.try_with(Cell::get).ok().flatten()
}

/// Runs `action` as code of `host`: tasks that it spawns belong to that host.
pub fn within<T>(host: IpAddr, action: impl FnOnce() -> T) -> T {
    let _entered = Entered::enter(host);
    action()
}

/// Runs a future as code of `host`.
pub fn on_host<F: Future>(host: IpAddr, future: F) -> OnHost<F> {
    OnHost {
        host,
        inner: future,
    }
}

/// Ends every task of `host`, and says how many there were.
///
/// They end as aborted tasks do, when the runtime comes round to them; their connections close
/// then. Called from outside of tasks.
pub fn crash(host: IpAddr) -> usize {
    let of_host = |tasks: &RefCell<Tasks>| -> Vec<AbortHandle> {
        let tasks = tasks.borrow();
        let living = tasks.living.range((host, 0)..=(host, u64::MAX));
        living.map(|(_, task)| task.clone()).collect()
    };
    let tasks = TASKS.try_with(of_host).unwrap_or_default();
    for task in &tasks {
        task.abort();
    }
    tasks.len()
}

/// How many tasks of `host` have not ended.
pub fn tasks(host: IpAddr) -> usize {
    let count = |tasks: &RefCell<Tasks>| {
        let tasks = tasks.borrow();
        tasks.living.range((host, 0)..=(host, u64::MAX)).count()
    };
    TASKS.try_with(count).unwrap_or_default()
}

/// How often tasks of hosts were polled on this thread: when this stands still, nothing happens.
pub fn polls() -> u64 {
    POLLS.try_with(Cell::get).unwrap_or_default()
}

/// The hosts of tasks that panicked since the last call, in order. The runtime keeps such panics to
/// itself, and nobody may be waiting for the task.
pub fn take_panics() -> Vec<IpAddr> {
    let take = |tasks: &RefCell<Tasks>| std::mem::take(&mut tasks.borrow_mut().panicked);
    TASKS.try_with(take).unwrap_or_default()
}

/// Sets the current host, and what was before when dropped.
struct Entered {
    host: IpAddr,
    before: Option<IpAddr>,
}

impl Entered {
    fn enter(host: IpAddr) -> Self {
        let before = CURRENT.try_with(|current| current.replace(Some(host)));
        Self {
            host,
            before: before.ok().flatten(),
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // An error is the end of the thread: then nobody asks any more.
        let _ = CURRENT.try_with(|current| current.set(self.before));
        if std::thread::panicking() {
            let _ = TASKS.try_with(|tasks| tasks.borrow_mut().panicked.push(self.host));
        }
    }
}

pin_project! {
    /// A future that runs as code of a host.
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct OnHost<F> {
        host: IpAddr,
        #[pin]
        inner: F,
    }
}

impl<F: Future> Future for OnHost<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = Entered::enter(*this.host);
        this.inner.poll(context)
    }
}

/// A task's place in the register; leaves it when the task ends.
#[derive(Debug)]
struct Place {
    host: IpAddr,
    number: u64,
}

impl Place {
    fn take(host: IpAddr) -> Self {
        let number = TASKS.try_with(|tasks| {
            let next = &mut tasks.borrow_mut().next;
            *next += 1;
            *next
        });
        Self {
            host,
            number: number.unwrap_or_default(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let leave = |tasks: &RefCell<Tasks>| {
            let key = (self.host, self.number);
            tasks.borrow_mut().living.remove(&key)
        };
        // The handle is dropped outside of the register.
        let _ = TASKS.try_with(leave);
    }
}

pin_project! {
    /// What a spawned task runs: the future, and its host if the spawner has one.
    ///
    /// One type with and without host, so that each task is compiled once and never boxed.
    #[derive(Debug)]
    pub(crate) struct Hosted<F> {
        #[pin]
        inner: F,
        place: Option<Place>,
    }
}

impl<F> Hosted<F> {
    /// `future` for the current host. The task is to be entered with [`register`].
    #[inline]
    pub(crate) fn new(inner: F) -> Self {
        let place = current_host().map(Place::take);
        Self { inner, place }
    }

    /// Where the task stands in the register: what [`register`] wants.
    #[inline]
    pub(crate) fn key(&self) -> Option<(IpAddr, u64)> {
        let place = self.place.as_ref();
        place.map(|place| (place.host, place.number))
    }
}

/// Enters a task that was just spawned, and has not run yet, into the register.
pub(crate) fn register(key: (IpAddr, u64), task: AbortHandle) {
    let enter = |tasks: &RefCell<Tasks>| tasks.borrow_mut().living.insert(key, task);
    let _ = TASKS.try_with(enter);
}

impl<F: Future> Future for Hosted<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        match this.place {
            None => this.inner.poll(context),
            Some(place) => {
                let _entered = Entered::enter(place.host);
                let _ = POLLS.try_with(|polls| polls.set(polls.get() + 1));
                this.inner.poll(context)
            }
        }
    }
}
