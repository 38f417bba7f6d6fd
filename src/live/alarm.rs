//! Waiting to the microsecond: the timers of the runtime are good to a millisecond only, which
//! would show as response time in an open loop.
//!
//! Leans on `clock` and the timer descriptors of Linux.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

use super::Clock;
use crate::machine::Time;

/// What is left of a wait when the coarse timer hands over.
const FINE_PART: Duration = Duration::from_millis(3);

/// Timers for any number of waits, used again and again.
#[derive(Default)]
pub(super) struct Alarms {
    idle: RefCell<Vec<AsyncFd<OwnedFd>>>,
}

impl Alarms {
    /// Ends at `at`, soon after it at the latest; falls back to the timer of the runtime where no
    /// descriptor is to be had.
    pub(super) async fn until(&self, clock: &Clock, at: Time) {
        let left = |at: Time| Duration::from_nanos(at.since(clock.now()).as_nanos());
        let coarse = left(at).saturating_sub(FINE_PART);
        if coarse >= FINE_PART {
            tokio::time::sleep(coarse).await;
        }
        let rest = left(at);
        if rest.is_zero() {
            return tokio::task::yield_now().await;
        }
        let idle = self.idle.borrow_mut().pop();
        let Ok(timer) = idle.map_or_else(new_timer, Ok) else {
            return tokio::time::sleep(rest).await;
        };
        let done = match ring(&timer, rest) {
            Ok(()) => rung(&timer).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => self.idle.borrow_mut().push(timer),
            Err(_) => tokio::time::sleep(rest).await,
        }
    }
}

#[expect(
    deprecated,
    reason = "unsound only for types whose descriptor may change, which an owned one does not"
)]
fn new_timer() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)
}

fn ring(timer: &AsyncFd<OwnedFd>, span: Duration) -> io::Result<()> {
    let once = Itimerspec {
        it_interval: Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        it_value: Timespec {
            tv_sec: 0,
            tv_nsec: span.subsec_nanos().into(),
        },
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(())
}

async fn rung(timer: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut ready = timer.readable().await?;
        let read = ready.try_io(|timer| {
            let mut count = [0; 8];
            rustix::io::read(timer, &mut count).map_err(io::Error::from)
        });
        match read {
            Ok(read) => return read.map(drop),
            Err(_would_block) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_wait_ends_early_and_timers_are_used_again() {
        let alarms = Alarms::default();
        let clock = Clock::start();
        for micros in [0, 1, 200, 900, 4_000, 7_000] {
            let at = clock.now() + Time::from_micros(micros);
            alarms.until(&clock, at).await;
            assert!(clock.now() >= at, "{micros} us");
        }
        assert_eq!(alarms.idle.borrow().len(), 1);
    }
}
