//! Where the driver takes its time from.
//!
//! Leans on `machine`, and on tokio's timers for the real clock.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use crate::machine::Time;

/// A clock: real or simulated.
pub trait Clock {
    /// The time since the start of the run; it never goes back.
    fn now(&self) -> Time;

    /// What is due within so much of now is done at once instead of being waited for.
    ///
    /// Zero for a clock whose sleep is exact.
    fn slack(&self) -> Time;

    /// Ends at `at` or a little later; never for [`Time::NEVER`].
    fn sleep_until(&self, at: Time) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// The clock of the machine, perhaps faster or slower: time of the model is `speed` times its own.
///
/// Timers of the machine go in steps of one millisecond, the model's steps are far shorter. So what
/// is due within the next millisecond counts as due now: nothing leaves the model more than that too
/// early, and nothing waits for the step.
#[derive(Clone, Copy, Debug)]
pub struct RealClock {
    start: Instant,
    /// Thousandths.
    speed_permille: u64,
}

/// The step of the machine's timers.
const STEP: Time = Time::from_millis(1);

impl RealClock {
    /// A clock whose zero is now; `speed_permille` thousandths of the machine's pace, at least 1.
    #[expect(
        clippy::disallowed_methods,
        reason = "a served model runs by the clock of the machine"
    )]
    pub fn start(speed_permille: u64) -> Self {
        Self {
            start: Instant::now(),
            speed_permille: speed_permille.max(1),
        }
    }

    /// A span of the machine as one of the model.
    fn scaled(&self, nanos: u128) -> Time {
        let scaled = nanos * u128::from(self.speed_permille) / 1_000;
        Time::from_nanos(u64::try_from(scaled).unwrap_or(u64::MAX))
    }
}

impl Clock for RealClock {
    fn now(&self) -> Time {
        self.scaled(self.start.elapsed().as_nanos())
    }

    fn slack(&self) -> Time {
        self.scaled(u128::from(STEP.as_nanos()))
    }

    fn sleep_until(&self, at: Time) -> Pin<Box<dyn Future<Output = ()>>> {
        if at == Time::NEVER {
            return Box::pin(std::future::pending());
        }
        let span = at.since(self.now()).as_nanos();
        let nanos = u128::from(span) * 1_000 / u128::from(self.speed_permille);
        // Longer than anybody waits, and short enough for every timer.
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX).min(1 << 55);
        Box::pin(tokio::time::sleep(Duration::from_nanos(nanos)))
    }
}
