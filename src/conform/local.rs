//! Servers of our own on 127.0.0.1, for the time of a run.
//!
//! Leans on `live` for finding, fetching, starting and ending them, and on `real` for reaching them.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value};

use super::Options;
use super::connection::Address;
use super::real::Real;
use super::run::Stop;
use super::served::ServedModel;
use crate::live::{
    DEFAULT_VERSION, LocalServers, Options as StartOptions, Server, Surroundings, find_server,
};

/// The nats-server of this version; without one, any that the user has, else the default version.
/// With `may_fetch` one that is not here is fetched; `progress` is told what takes time.
///
/// # Errors
/// There is none, with the reason.
pub fn find(
    version: Option<&str>,
    may_fetch: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<Server, String> {
    let mut surroundings = Surroundings::of_process();
    let is_kept = surroundings.cache.as_ref().is_some_and(|cache| {
        let version = version.unwrap_or(DEFAULT_VERSION);
        let kept = cache.join("nats-server").join(version);
        kept.join("nats-server").is_file()
    });
    if !may_fetch && !is_kept {
        surroundings.cache = None;
    }
    find_server(version, &surroundings, progress).map_err(|error| error.to_string())
}

/// One server, or a cluster of several, and a connection to the first; ended when dropped.
pub(super) struct Started {
    /// The connection.
    pub(super) real: Real,
    // Behind the connection, so that they go after it.
    _servers: Servers,
}

/// What runs for a [`Started`], and ends with it.
pub(super) enum Servers {
    /// Processes.
    Processes(#[expect(dead_code, reason = "ended when dropped")] LocalServers),
    /// The model, on a thread.
    Model(#[expect(dead_code, reason = "ended when dropped")] ServedModel),
}

impl Started {
    /// A connection to the server at `url`, which `servers` run.
    pub(super) fn connect(url: &str, servers: Servers, options: &Options) -> Result<Self, Stop> {
        let address = Address::parse(url).map_err(Stop::Surroundings)?;
        Ok(Self {
            real: Real::connect(&address, options.pace, options.interrupt.clone())?,
            _servers: servers,
        })
    }
}

/// Starts servers with these options under `jetstream { limits { batch { … } } }`.
///
/// # Errors
/// They do not come up.
pub(super) fn start(
    binary: &Path,
    count: u64,
    limits: Option<&Map<String, Value>>,
    options: &Options,
) -> Result<Started, Stop> {
    let broken = |what: String| Stop::Surroundings(what);
    let mut start_options = StartOptions::new(binary);
    start_options.extra_config = limits.map(configuration).unwrap_or_default();
    let count = usize::try_from(count).map_err(|error| broken(error.to_string()))?;
    let servers = LocalServers::start(count, &start_options)
        .map_err(|error| broken(format!("cannot start {}: {error}", binary.display())))?;
    let url = servers.urls().first().cloned().unwrap_or_default();
    Started::connect(&url, Servers::Processes(servers), options)
}

/// Batch limits as a configuration file writes them.
fn configuration(limits: &Map<String, Value>) -> String {
    let mut text = "jetstream { limits { batch {\n".to_owned();
    for (option, value) in limits {
        // A text holds its quotation marks already.
        let value = match value {
            Value::String(text) if text.starts_with('"') => text.clone(),
            value => value.to_string(),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {option}: {value}");
    }
    text.push_str("} } }\n");
    text
}
