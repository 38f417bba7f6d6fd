//! The servers of a live run: those that the user names, or our own, started as a file needs them.
//!
//! Leans on `live`.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Failure;
use super::interrupt::Interrupt;
use super::print;
use crate::live::{LiveError, LocalServers, Options, Surroundings, configuration, find_server};
use crate::scenario::{LiveServers, Settings};

/// What a signal is answered with while servers start.
const STARTING: &str =
    "a signal came while servers were starting; they are stopped first, which takes some seconds";

/// Servers to run against.
pub(super) enum Servers {
    /// Named by the user.
    Given(Vec<String>),
    /// Our own: so many, and those that run now.
    Own {
        /// How many.
        count: u8,
        /// Those that run now, and what they were started with.
        running: Option<(Needs, LocalServers)>,
    },
}

/// What a file wants of servers of our own.
#[derive(PartialEq, Eq)]
pub(super) struct Needs {
    config: String,
    /// Doors before them, with some for these publishers.
    links: Option<BTreeSet<u32>>,
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

    /// Whose they are.
    pub(super) const fn kind(&self) -> LiveServers {
        match self {
            Self::Given(_) => LiveServers::Given,
            Self::Own { count, .. } => LiveServers::Own(*count),
        }
    }

    /// Our own that run now.
    pub(super) fn own(&self) -> Option<&LocalServers> {
        match self {
            Self::Own {
                running: Some((_, servers)),
                ..
            } => Some(servers),
            Self::Own { running: None, .. } | Self::Given(_) => None,
        }
    }

    /// Client URLs of servers for a run of `settings`; our own are started as it wants them, unless
    /// those run already.
    ///
    /// # Errors
    /// There is no nats-server, it does not start, or a signal came.
    pub(super) fn ready_for(
        &mut self,
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Vec<String>, Failure> {
        let (count, running) = match self {
            Self::Given(urls) => return Ok(urls.clone()),
            Self::Own { count, running } => (*count, running),
        };
        let needs = Needs {
            config: configuration(settings),
            links: settings.disturbed_links(),
        };
        match running.take() {
            Some((given, servers)) if given == needs => {
                let (_, servers) = running.insert((given, servers));
                return Ok(servers.urls().to_vec());
            }
            Some((_, others)) => others.stop()?,
            None => {}
        }
        let found = interrupt.or_leave(|| {
            let surroundings = Surroundings::of_process();
            find_server(None, &surroundings, &mut print::note)
        })??;
        let options = Options {
            stop: Arc::clone(interrupt.flag()),
            extra_config: needs.config.clone(),
            links: needs.links.clone(),
            ..Options::new(found.path)
        };
        let started = interrupt.saying(STARTING, || {
            LocalServers::start(usize::from(count), &options)
        });
        if matches!(started, Err(LiveError::Stopped)) {
            interrupt.check()?;
        }
        let (_, servers) = running.insert((needs, started?));
        Ok(servers.urls().to_vec())
    }

    /// Stops our own servers.
    ///
    /// # Errors
    /// They do not end.
    pub(super) fn stop(self) -> Result<(), Failure> {
        match self {
            Self::Own {
                running: Some((_, servers)),
                ..
            } => Ok(servers.stop()?),
            Self::Own { running: None, .. } | Self::Given(_) => Ok(()),
        }
    }
}
