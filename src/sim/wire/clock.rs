//! The clock of a run: a substrate's, from the moment at which every publisher is connected.
//!
//! Before that moment it shows zero. Leans on `substrate` and `serve`.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::machine::Time;
use crate::serve;
use crate::sim::substrate;

/// A clock that starts when it is told to.
pub(super) struct RunClock {
    inner: Rc<dyn substrate::Clock>,
    /// The substrate's time at the start of the run.
    zero: Cell<Option<Time>>,
    started: Notify,
    slack: Time,
}

impl RunClock {
    /// A clock that has not started. `slack`: the step of the substrate's timers; zero if they are
    /// exact.
    pub(super) fn new(inner: Rc<dyn substrate::Clock>, slack: Time) -> Self {
        Self {
            inner,
            zero: Cell::new(None),
            started: Notify::new(),
            slack,
        }
    }

    /// The step of the substrate's timers; zero if they are exact.
    pub(super) const fn slack(&self) -> Time {
        self.slack
    }

    /// The run starts now.
    pub(super) fn start(&self) {
        self.zero.set(Some(self.inner.now()));
        self.started.notify_waiters();
        self.inner.interrupt();
    }

    /// Whoever drives the run is to look at it now.
    pub(super) fn pause(&self) {
        self.inner.interrupt();
    }

    /// Ends when the run starts, and says when that was in the substrate's time.
    pub(super) async fn started(&self) -> Time {
        loop {
            if let Some(zero) = self.zero.get() {
                return zero;
            }
            self.started.notified().await;
        }
    }

    /// A moment of the run in the substrate's time; `NEVER` before the start.
    pub(super) fn outside(&self, at: Time) -> Time {
        match self.zero.get() {
            Some(zero) if at < Time::NEVER => zero + at,
            _ => Time::NEVER,
        }
    }

    /// The time since the start of the run.
    pub(super) fn now(&self) -> Time {
        let zero = self.zero.get().unwrap_or(Time::NEVER);
        self.inner.now().since(zero)
    }

    /// Ends at a moment of the run.
    pub(super) async fn until(&self, at: Time) {
        let zero = self.started().await;
        if at < Time::NEVER {
            self.inner.sleep_until(zero + at).await;
        } else {
            std::future::pending::<()>().await;
        }
    }
}

/// The same clock for the server.
pub(super) struct ServerClock(pub(super) Rc<RunClock>);

impl serve::Clock for ServerClock {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn slack(&self) -> Time {
        self.0.slack()
    }

    fn sleep_until(&self, at: Time) -> Pin<Box<dyn Future<Output = ()>>> {
        let clock = Rc::clone(&self.0);
        Box::pin(async move { clock.until(at).await })
    }
}
