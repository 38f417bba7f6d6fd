//! The live clock: time since the start of the run.
//!
//! The only place of a live run that reads a clock. Leans on `machine`.

use std::time::{Duration, Instant};

use crate::machine::Time;

/// A clock that stands at zero when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose zero is now.
    #[expect(
        clippy::disallowed_methods,
        reason = "a live run is measured by the clock of the machine"
    )]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The time since the start; it never goes back.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Whether `span` has passed since the start.
    pub fn is_past(&self, span: Duration) -> bool {
        self.start.elapsed() >= span
    }

    /// The moment on the clock of the machine, for timers; `None` where there is none so late.
    pub fn instant(&self, at: Time) -> Option<Instant> {
        self.start.checked_add(Duration::from_nanos(at.as_nanos()))
    }
}
