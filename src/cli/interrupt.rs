//! Ctrl-C and SIGTERM: the first ends a run early, the second the process.
//!
//! Leans on nothing of ours.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::Failure;

/// Which signal came, if any.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Catches SIGINT and SIGTERM from here on.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub(super) fn catch() -> Result<Self, Failure> {
        let interrupt = Self::default();
        interrupt.register().map_err(refused)?;
        Ok(interrupt)
    }

    fn register(&self) -> io::Result<()> {
        for signal in [SIGINT, SIGTERM] {
            // Order matters: a second signal finds the flag set, and ends the process.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.stop))?;
            flag::register_usize(signal, Arc::clone(&self.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&self.stop))?;
        }
        Ok(())
    }

    /// Set once a signal came.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.stop
    }

    /// The number of the signal that came.
    pub(super) fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed))
            .ok()
            .filter(|signal| *signal != 0)
    }
}

/// Lets a signal end the process at once, with its exit code, except while somebody else listens.
#[derive(Clone, Debug)]
pub(super) struct EndAtOnce(Arc<AtomicBool>);

impl EndAtOnce {
    /// From here on.
    ///
    /// # Errors
    /// If the system refuses the handlers.
    pub(super) fn catch() -> Result<Self, Failure> {
        let on = Arc::new(AtomicBool::new(true));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&on))
                .map_err(refused)?;
        }
        Ok(Self(on))
    }

    /// Switches it on or off.
    pub(super) fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

#[expect(clippy::needless_pass_by_value, reason = "fits map_err")]
fn refused(error: io::Error) -> Failure {
    Failure::Surroundings(format!("signals cannot be caught: {error}"))
}
