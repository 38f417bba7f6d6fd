//! SIGINT and SIGTERM, as something to wait for.
//!
//! Leans on tokio's signal handling. Once made, the signals no longer end the process by
//! themselves.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::error::LiveError;

/// SIGINT and SIGTERM of this process.
pub struct Interrupts {
    interrupt: Signal,
    terminate: Signal,
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
        })
    }

    /// Waits for the next of them, and gives its number: 2 or 15.
    pub async fn next(&mut self) -> u8 {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}
