//! SIGINT, SIGTERM and SIGHUP: the first ends a run early, the second the process.
//!
//! A thread of its own hears them, so that a process that ends at once can still take away what it
//! has half written. Leans on `live` for what counts as a hangup, and on `report` for what is half
//! written.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::Failure;
use super::print;
use crate::live::hangup_counts;
use crate::report::discard_unfinished;

/// Between two looks at whether a signal came.
const LOOK: Duration = Duration::from_millis(20);

/// Which signal came, if any.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    heard: Arc<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    answer: AtomicU8,
}

/// What a signal does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first is remembered, so that the command ends early; the second ends the process.
    EndEarly,
    /// Each ends the process.
    EndAtOnce,
    /// Nothing: somebody else listens.
    Elsewhere,
}

impl Interrupt {
    /// Catches signals from here on, which answers them by [`Answer::EndEarly`].
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn catch() -> Result<Self, Failure> {
        Self::default().listen()
    }

    /// The same, with the number of the first signal put into `signal`.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn catch_into(signal: Arc<AtomicUsize>) -> Result<(), Failure> {
        let heard = Heard {
            signal,
            ..Heard::default()
        };
        let interrupt = Self {
            heard: Arc::new(heard),
        };
        interrupt.listen().map(|_| ())
    }

    /// Lets a signal end the process from here on, with its exit code.
    ///
    /// # Errors
    /// If the system refuses.
    pub(super) fn end_at_once() -> Result<(), Failure> {
        let interrupt = Self::default();
        interrupt.answer_by(Answer::EndAtOnce);
        interrupt.listen().map(|_| ())
    }

    /// What the next signal does.
    pub(super) fn answer_by(&self, answer: Answer) {
        self.heard.answer.store(answer as u8, Ordering::SeqCst);
    }

    /// Set once a signal came.
    pub(super) fn flag(&self) -> &Arc<AtomicBool> {
        &self.heard.stop
    }

    /// The number of the signal that came.
    pub(super) fn signal(&self) -> Option<u8> {
        u8::try_from(self.heard.signal.load(Ordering::SeqCst))
            .ok()
            .filter(|signal| *signal != 0)
    }

    /// Whether to go on: nothing was measured yet.
    ///
    /// # Errors
    /// The signal that came.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self.signal() {
            Some(number) => Err(Failure::Signal { number, left: None }),
            None => Ok(()),
        }
    }

    /// Does `work`, which cannot be interrupted, on a thread of its own; leaves it alone there when a
    /// signal comes.
    ///
    /// # Errors
    /// The signal.
    pub(super) fn or_leave<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let (sender, receiver) = channel();
        // Nobody listens any more after a signal.
        let worker = std::thread::spawn(move || drop(sender.send(work())));
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => self.check()?,
                Err(RecvTimeoutError::Disconnected) => match worker.join() {
                    Err(panic) => std::panic::resume_unwind(panic),
                    Ok(()) => unreachable!("a worker that ends has sent what it did"),
                },
            }
        }
    }

    /// Does `work`, which heeds the [flag](Self::flag) in its own time, and says `words` at once when a signal
    /// comes meanwhile.
    pub(super) fn saying<T>(&self, words: &str, work: impl FnOnce() -> T) -> T {
        let (done, over) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(LOOK) {
                    if self.signal().is_some() {
                        print::note(words);
                        return;
                    }
                }
            });
            let worked = work();
            drop(done);
            worked
        })
    }

    fn listen(self) -> Result<Self, Failure> {
        let mut wanted = vec![SIGINT, SIGTERM];
        if hangup_counts() {
            wanted.push(SIGHUP);
        }
        let mut signals = Signals::new(wanted).map_err(|error| refused(&error))?;
        let heard = Arc::clone(&self.heard);
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for signal in signals.forever() {
                    heard.hear(signal);
                }
            })
            .map_err(|error| refused(&error))?;
        Ok(self)
    }
}

impl Heard {
    fn hear(&self, signal: i32) {
        let answer = self.answer.load(Ordering::SeqCst);
        if answer == Answer::Elsewhere as u8 {
            return;
        }
        if answer == Answer::EndEarly as u8 && !self.stop.load(Ordering::SeqCst) {
            let number = usize::try_from(signal).unwrap_or_default();
            self.signal.store(number, Ordering::SeqCst);
            self.stop.store(true, Ordering::SeqCst);
            return;
        }
        // Held until the end, so that nothing new is begun.
        let _held = discard_unfinished();
        std::process::exit(128 + signal);
    }
}

fn refused(error: &io::Error) -> Failure {
    Failure::Surroundings(format!("signals cannot be caught: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_is_remembered_and_work_is_left() {
        let interrupt = Interrupt::default();
        assert_eq!(interrupt.or_leave(|| 7).unwrap(), 7);
        interrupt.answer_by(Answer::Elsewhere);
        interrupt.heard.hear(SIGTERM);
        assert_eq!(interrupt.signal(), None);
        interrupt.answer_by(Answer::EndEarly);
        interrupt.heard.hear(SIGHUP);
        assert_eq!(interrupt.signal(), Some(1));
        assert!(interrupt.flag().load(Ordering::SeqCst));
        // The worker waits for ever: nobody sends.
        let (sender, never) = channel::<()>();
        let left = interrupt.or_leave(move || never.recv().is_ok());
        assert!(matches!(left, Err(Failure::Signal { number: 1, .. })));
        drop(sender);
    }
}
