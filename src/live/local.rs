//! Servers of our own: one nats-server, or a cluster of three, on 127.0.0.1 and in a temporary
//! folder.
//!
//! They never outlive us: each runs under a guard, see `node`. Leans on `plan`, `node` and `links`.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::clock::Clock;
use super::connect::Connector;
use super::error::LiveError;
use super::links::Links;
use super::monitor::Monitored;
use super::node::Node;
use super::plan::Plan;

/// Ports are probed and then used; between the two somebody else may take one.
const PORT_ATTEMPTS: u32 = 5;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Between two looks at whether servers still live, while they are used.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What local servers are started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The nats-server to run.
    pub binary: PathBuf,
    /// Added to the configuration of each server, such as
    /// `jetstream { limits { batch { timeout: "700ms" } } }`. The store folder, the ports and the
    /// cluster are set already; users are not.
    pub extra_config: String,
    /// Longest wait until the servers are ready.
    pub patience: Duration,
    /// Client ports to try first, one for each server; empty: any free ones.
    pub ports: Vec<u16>,
    /// Doors before the servers, so that links and routes can be disturbed; with doors of their own
    /// for the publishers of these numbers. `None`: no doors.
    pub links: Option<BTreeSet<u32>>,
    /// Set from outside, at any time: give up starting.
    pub stop: Arc<AtomicBool>,
}

impl Options {
    /// Free ports, no extra configuration, ready within 30 s.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        Self {
            binary: binary.into(),
            extra_config: String::new(),
            patience: Duration::from_secs(30),
            ports: Vec::new(),
            links: None,
            stop: Arc::default(),
        }
    }
}

/// Running servers. Dropping them stops them and removes their files.
#[derive(Debug)]
pub struct LocalServers {
    nodes: Vec<Node>,
    urls: Vec<String>,
    names: Vec<String>,
    monitors: Vec<String>,
    links: Option<Box<Links>>,
    directory: Option<TempDir>,
}

impl LocalServers {
    /// Starts `count` servers, 1 or more, and waits until JetStream takes a stream with a replica
    /// on each.
    ///
    /// # Errors
    /// The binary cannot be run, a server ends or is not ready in time: the end of its log is in the
    /// error. Or `options.stop` was set. Nothing is left running then.
    pub fn start(count: usize, options: &Options) -> Result<Self, LiveError> {
        let mut attempt = 1;
        loop {
            let preferred: &[u16] = if attempt == 1 { &options.ports } else { &[] };
            match Self::try_start(count.max(1), options, preferred) {
                Err(StartError::PortTaken(error)) if attempt == PORT_ATTEMPTS => return Err(error),
                Err(StartError::PortTaken(_)) => attempt += 1,
                Err(StartError::Other(error)) => return Err(error),
                Ok(servers) => return Ok(servers),
            }
        }
    }

    /// Client URLs, one for each server; with doors those that no fault of links is about.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Leads publishers by the doors before the servers, if there are any.
    ///
    /// # Errors
    /// None that servers of ours can give.
    pub fn lead(&self, connector: Connector) -> Result<Connector, LiveError> {
        connector.by(self.links())
    }

    /// Process ids of the servers.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Node::server_pid).collect()
    }

    /// Log files of the servers; they go with the servers.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(Node::log).collect()
    }

    /// The end of every log, for error messages.
    pub fn log_tail(&self) -> String {
        self.nodes.iter().map(Node::log_tail).collect()
    }

    /// Servers that have ended by themselves, each in one sentence.
    pub fn losses(&self) -> Vec<String> {
        let count = self.nodes.len();
        let of_themselves = |(_, node): &(u32, &Node)| !node.is_ended_by_fault();
        let numbered = (1..).zip(&self.nodes).filter(of_themselves);
        numbered
            .filter_map(|(number, node)| {
                Some(format!(
                    "nats-server {number} of {count}: {}",
                    node.ended()?
                ))
            })
            .collect()
    }

    /// What the servers call themselves, by number from 0.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The servers with their monitoring ports.
    pub(super) fn monitored(&self) -> impl Iterator<Item = Monitored> + '_ {
        let numbered = self.monitors.iter().enumerate();
        numbered.map(|(number, url)| Monitored {
            name: Some(format!("server {number}")),
            url: url.clone(),
        })
    }

    /// The doors before them, if there are any.
    pub(super) fn links(&self) -> Option<&Links> {
        self.links.as_deref()
    }

    /// How many servers there are.
    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// A server, by number from 0.
    pub(super) fn node(&self, index: u8) -> Option<&Node> {
        self.nodes.get(usize::from(index))
    }

    /// That none of the servers lives any more, if so; one that a fault ended may come back.
    pub fn death(&self) -> Option<LiveError> {
        if self.nodes.iter().any(Node::is_ended_by_fault) {
            return None;
        }
        let ends: Vec<String> = self.nodes.iter().map(Node::ended).collect::<Option<_>>()?;
        Some(LiveError::ServerDied {
            how: ends.join("; "),
            log: self.log_tail(),
        })
    }

    /// Ends when none of the servers lives any more.
    pub async fn gone(&self) -> LiveError {
        loop {
            if let Some(death) = self.death() {
                return death;
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops the servers and removes their files.
    ///
    /// # Errors
    /// A server or its files are still there after 10 s.
    pub fn stop(mut self) -> Result<(), LiveError> {
        self.shut_down()
    }

    fn try_start(count: usize, options: &Options, ports: &[u16]) -> Result<Self, StartError> {
        let directory = tempfile::Builder::new()
            .prefix("tidegate-")
            .tempdir()
            .map_err(|error| LiveError::system("cannot make a temporary folder", error))?;
        let plan = Plan::new(count, options, ports, directory.path())?;
        let mut servers = Self {
            nodes: Vec::with_capacity(count),
            urls: plan.urls(),
            names: (0..count).map(|index| plan.name(index)).collect(),
            monitors: plan.monitors(),
            links: None,
            directory: Some(directory),
        };
        for index in 0..count {
            let node = Node::spawn(&options.binary, plan.node(index), plan.root())?;
            servers.nodes.push(node);
        }
        servers.wait_ready(&plan, options)?;
        servers.links = plan.into_links().map(Box::new);
        Ok(servers)
    }

    fn wait_ready(&self, plan: &Plan, options: &Options) -> Result<(), StartError> {
        let clock = Clock::start();
        let patience = options.patience;
        loop {
            if options.stop.load(Ordering::Relaxed) {
                return Err(StartError::Other(LiveError::Stopped));
            }
            for node in &self.nodes {
                check_alive(node)?;
            }
            let Err(last) = plan.is_ready() else {
                return Ok(());
            };
            if clock.is_past(patience) {
                return Err(StartError::Other(LiveError::LocalServer {
                    reason: format!("not ready within {} s: {last}", patience.as_secs()),
                    log: self.log_tail(),
                }));
            }
            std::thread::park_timeout(POLL_INTERVAL);
        }
    }

    fn shut_down(&mut self) -> Result<(), LiveError> {
        let Some(directory) = self.directory.take() else {
            return Ok(());
        };
        for node in &self.nodes {
            node.let_go();
        }
        for node in &mut self.nodes {
            node.wait_gone()?;
        }
        let path = directory.keep();
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(LiveError::system(
                format!("cannot remove {}", path.display()),
                error,
            )),
            _ => Ok(()),
        }
    }
}

impl Drop for LocalServers {
    fn drop(&mut self) {
        // nobody is left to tell; whatever is still there, its guard removes
        let _ = self.shut_down();
    }
}

/// A server that has ended before it was ready, such as on a port that somebody else has taken.
fn check_alive(node: &Node) -> Result<(), StartError> {
    let Some(reason) = node.ended() else {
        return Ok(());
    };
    let log = node.log_tail();
    let taken = log.contains("address already in use");
    let error = LiveError::LocalServer { reason, log };
    Err(if taken {
        StartError::PortTaken(error)
    } else {
        StartError::Other(error)
    })
}

enum StartError {
    PortTaken(LiveError),
    Other(LiveError),
}

impl From<LiveError> for StartError {
    fn from(error: LiveError) -> Self {
        Self::Other(error)
    }
}
