//! The live clock: time since the start of the run, and what the thread took of it.
//!
//! The only place of a live run that reads a clock. Leans on `machine` and `measure`.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::machine::Time;
use crate::measure::Spent;

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

/// Measures what this thread takes from now on.
pub(super) struct Meter {
    clock: Clock,
    cpu_ns: u64,
    waited_for_core_ns: Option<u64>,
}

impl Meter {
    /// Starts now.
    pub(super) fn start() -> Self {
        Self {
            clock: Clock::start(),
            cpu_ns: thread_cpu_ns(),
            waited_for_core_ns: waited_for_core_ns(),
        }
    }

    /// What the thread took since, of which it had nothing to do in the first `idle`.
    pub(super) fn stop(&self, idle: Time) -> Spent {
        let waited = waited_for_core_ns().zip(self.waited_for_core_ns);
        Spent {
            publishing_ns: self.clock.now().since(idle).as_nanos(),
            cpu_ns: thread_cpu_ns().saturating_sub(self.cpu_ns),
            waited_for_core_ns: waited.map(|(now, before)| now.saturating_sub(before)),
        }
    }
}

/// CPU time of this thread so far, user and system.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let whole = u64::try_from(time.tv_sec).unwrap_or(0);
    whole * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// How long this thread was ready to run and had no core so far: the second number of `schedstat`,
/// where the kernel counts it.
fn waited_for_core_ns() -> Option<u64> {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_cpu_time_and_waiting_does_not() {
        let meter = Meter::start();
        while meter.stop(Time::ZERO).cpu_ns < 5_000_000 {}
        let worked = meter.stop(Time::ZERO);
        assert!(
            worked.cpu_ns <= worked.publishing_ns + 1_000_000,
            "{worked:?}"
        );
        let meter = Meter::start();
        std::thread::park_timeout(Duration::from_millis(50));
        let waited = meter.stop(Time::ZERO);
        assert!(
            waited.publishing_ns >= 40_000_000 && waited.cpu_ns < 20_000_000,
            "{waited:?}"
        );
        assert_eq!(meter.stop(Time::from_secs(9)).publishing_ns, 0);
    }
}
