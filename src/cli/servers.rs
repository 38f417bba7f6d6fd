//! The servers of a live run: those that the user names, or our own, started as a file needs them.
//!
//! Leans on `live`.

use std::sync::Arc;

use super::Failure;
use super::interrupt::Interrupt;
use super::print;
use crate::live::{LiveError, LocalServers, Options, Surroundings, find_server};
use crate::scenario::Settings;

/// Servers to run against.
pub(super) enum Servers {
    /// Named by the user.
    Given(Vec<String>),
    /// Our own: so many, and those that run now.
    Own {
        /// How many.
        count: u8,
        /// Those that run now.
        running: Option<LocalServers>,
    },
}

impl Servers {
    /// The servers at `urls`, or `local` of our own; without either, one.
    pub(super) fn new(urls: &[String], local: Option<u8>) -> Self {
        if urls.is_empty() {
            Self::Own {
                count: local.unwrap_or(1),
                running: None,
            }
        } else {
            Self::Given(urls.to_vec())
        }
    }

    /// Client URLs of servers that are as `settings` want them; our own are started if need be.
    ///
    /// # Errors
    /// There is no nats-server, it does not start, or a signal came.
    pub(super) fn ready_for(
        &mut self,
        _settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Vec<String>, Failure> {
        let (count, running) = match self {
            Self::Given(urls) => return Ok(urls.clone()),
            Self::Own { count, running } => (*count, running),
        };
        if let Some(servers) = running {
            return Ok(servers.urls().to_vec());
        }
        let found = interrupt.or_leave(|| {
            let surroundings = Surroundings::of_process();
            find_server(None, &surroundings, &mut print::note)
        })??;
        let options = Options {
            stop: Arc::clone(interrupt.flag()),
            ..Options::new(found.path)
        };
        let started = LocalServers::start(usize::from(count), &options);
        if matches!(started, Err(LiveError::Stopped)) {
            interrupt.check()?;
        }
        let servers = running.insert(started?);
        Ok(servers.urls().to_vec())
    }

    /// Stops our own servers.
    ///
    /// # Errors
    /// They do not end.
    pub(super) fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Own {
                running: Some(servers),
                ..
            } => Ok(servers.stop()?),
            Self::Own { running: None, .. } | Self::Given(_) => Ok(()),
        }
    }
}
