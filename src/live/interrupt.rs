//! SIGINT, SIGTERM and SIGHUP, as something to wait for.
//!
//! Leans on tokio's signal handling. Once made, the signals no longer end the process by
//! themselves.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::LiveError;

/// SIGINT, SIGTERM and SIGHUP of this process.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

/// Whether SIGHUP is to end a run: not where it was ignored from the start, as `nohup` has it.
pub fn hangup_counts() -> bool {
    // The signals that a process ignores, in hexadecimal; the lowest bit is SIGHUP, which is 1.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_none_or(|mask| mask & 1 == 0)
}

impl Interrupts {
    /// Takes over the signals; to be called within a runtime.
    ///
    /// # Errors
    /// The system does not let us handle them.
    pub fn new() -> Result<Self, LiveError> {
        let take =
            |kind| signal(kind).map_err(|error| LiveError::system("cannot handle signals", error));
        Ok(Self {
            interrupt: take(SignalKind::interrupt())?,
            terminate: take(SignalKind::terminate())?,
            hangup: hangup_counts()
                .then(|| take(SignalKind::hangup()))
                .transpose()?,
        })
    }

    /// Waits for the next of them, and gives its number: 1, 2 or 15.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
            () = hung_up(&mut self.hangup) => 1,
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}
