//! `[live]`: how a live run is done, what it may do to servers that it did not start, and what it asks
//! servers meanwhile.
//!
//! Leans on `units` and `check`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Settings;
use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::shown::shown;
use crate::machine::Time;
use crate::units::Span;

/// How a live run is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LiveSettings {
    /// The faults of the file may make the stream change its leader on servers that are not ours.
    pub allow_leader_changes: bool,
    /// Connections that the publishers share in turn; absent: each has its own.
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: Option<u32>,
    /// Monitoring ports of servers that are not ours, as `http://HOST:PORT`; up to 64. Servers of our own
    /// have theirs.
    #[schemars(length(max = 64), inner(length(min = 1, max = 255)))]
    pub monitor: Vec<String>,
    /// Time between two looks at what servers say of themselves.
    #[schemars(extend("x-minimum" = "50ms", "x-maximum" = "1h"))]
    pub monitor_every: Span,
}

impl Default for LiveSettings {
    fn default() -> Self {
        Self {
            allow_leader_changes: false,
            connections: None,
            monitor: Vec::new(),
            monitor_every: Span(Time::from_millis(500)),
        }
    }
}

impl LiveSettings {
    /// Each monitoring port is one.
    pub(super) fn check(&self) -> Checked {
        for (index, url) in self.monitor.iter().enumerate() {
            if !is_monitor(url) {
                let path = KeyPath::root().key("live").key("monitor").index(index);
                // It may hold a password.
                let what = match url.contains('@') {
                    true => "an address with credentials".to_owned(),
                    false => format!("{:?}", shown(url)),
                };
                let message = format!(
                    "{what} is not allowed; allowed is http://HOST:PORT, and a path behind it; monitoring \
                     ports know no credentials"
                );
                return refuse(path, message);
            }
        }
        Ok(())
    }
}

impl Settings {
    /// Connections that the publishers of a live run have in all: those of the file, but never more than
    /// there are publishers.
    pub fn connections(&self) -> u64 {
        let publishers = self.publisher_count();
        let shared = self.live.as_ref().and_then(|live| live.connections);
        shared.map_or(publishers, |shared| u64::from(shared).min(publishers))
    }
}

fn is_monitor(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://") else {
        return false;
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '@' | '?' | '#');
    let named = authority
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty());
    let port = named.and_then(|(_, port)| port.parse().ok());
    rest.chars().all(is_plain) && port.is_some_and(|port: u16| port > 0)
}
