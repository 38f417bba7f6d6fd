//! Ctrl-C and SIGTERM: the first ends a run early, the second the process.
//!
//! Leans on nothing of ours.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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
    pub(super) fn catch() -> io::Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // Order matters: a second signal finds the flag set, and ends the process.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.stop))?;
            flag::register_usize(signal, Arc::clone(&interrupt.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&interrupt.stop))?;
        }
        Ok(interrupt)
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
