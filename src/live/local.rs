//! Servers of our own: one nats-server, or a cluster of three, on 127.0.0.1 and in a temporary
//! folder.
//!
//! They never outlive us: each runs under a guard, see `node`. Leans on `node` and `probe`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::clock::Clock;
use super::error::LiveError;
use super::node::Node;
use super::probe::Probe;

/// Ports are probed and then used; between the two somebody else may take one.
const PORT_ATTEMPTS: u32 = 5;
/// Longest wait for one step of a probe.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
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

    /// Client URLs, one for each server.
    pub fn urls(&self) -> &[String] {
        &self.urls
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
            directory: Some(directory),
        };
        for index in 0..count {
            let node = Node::spawn(&options.binary, plan.node(index), &plan.root)?;
            servers.nodes.push(node);
        }
        servers.wait_ready(&plan, options)?;
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

/// Names, ports and folders of servers that are to be started.
struct Plan {
    root: PathBuf,
    unique: String,
    client_ports: Vec<u16>,
    route_ports: Vec<u16>,
}

impl Plan {
    fn new(count: usize, options: &Options, ports: &[u16], root: &Path) -> Result<Self, LiveError> {
        let free = free_ports(2 * count)
            .map_err(|error| LiveError::system("no free port on 127.0.0.1", error))?;
        let (client_ports, route_ports) = free.split_at(count);
        let mut client_ports = client_ports.to_vec();
        for (port, preferred) in client_ports.iter_mut().zip(ports) {
            *port = *preferred;
        }
        let unique = root
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let plan = Self {
            root: root.to_owned(),
            unique,
            client_ports,
            route_ports: route_ports.to_vec(),
        };
        for index in 0..count {
            plan.write_config(index, &options.extra_config)
                .map_err(|error| LiveError::system("cannot write a server configuration", error))?;
        }
        Ok(plan)
    }

    fn node(&self, index: usize) -> PathBuf {
        self.root.join(format!("n{index}"))
    }

    /// Nobody else's server has this name, so an answer under it is an answer of ours.
    fn name(&self, index: usize) -> String {
        format!("{}-n{index}", self.unique)
    }

    fn urls(&self) -> Vec<String> {
        let ports = self.client_ports.iter();
        ports
            .map(|port| format!("nats://127.0.0.1:{port}"))
            .collect()
    }

    fn write_config(&self, index: usize, extra: &str) -> std::io::Result<()> {
        let mut text = format!(
            "server_name: \"{}\"\nlisten: \"127.0.0.1:{}\"\n",
            self.name(index),
            self.client_ports[index]
        );
        if self.client_ports.len() > 1 {
            let routes: Vec<_> = self
                .route_ports
                .iter()
                .map(|port| format!("\"nats://127.0.0.1:{port}\""))
                .collect();
            let routes = routes.join(", ");
            let _ = writeln!(
                text,
                "cluster {{ name: \"{}\", listen: \"127.0.0.1:{}\", no_advertise: true, routes: [{routes}] }}",
                self.unique, self.route_ports[index]
            );
        }
        text.push_str(extra);
        text.push('\n');
        fs::create_dir(self.node(index))?;
        fs::write(self.node(index).join("server.conf"), text)
    }

    /// Asks every server who it is, and the first for a stream that needs all of them.
    fn is_ready(&self) -> Result<(), String> {
        let mut first = None;
        for (index, port) in self.client_ports.iter().enumerate() {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *port));
            let probe = Probe::connect(address, PROBE_PATIENCE)?;
            if probe.server_name() != self.name(index) {
                return Err(format!("somebody else answers at {address}"));
            }
            first.get_or_insert(probe);
        }
        let Some(mut probe) = first else {
            return Ok(());
        };
        if self.client_ports.len() == 1 {
            return accepted(&probe.request("$JS.API.INFO", &json!({}))?);
        }
        const NAME: &str = "TIDEGATE_READY";
        let config = json!({
            "name": NAME, "subjects": [NAME], "storage": "memory",
            "num_replicas": self.client_ports.len(),
        });
        accepted(&probe.request(&format!("$JS.API.STREAM.CREATE.{NAME}"), &config)?)?;
        accepted(&probe.request(&format!("$JS.API.STREAM.DELETE.{NAME}"), &json!({}))?)
    }
}

fn accepted(answer: &serde_json::Value) -> Result<(), String> {
    match answer["error"]["description"].as_str() {
        Some(description) => Err(super::error::clean(description)),
        None => Ok(()),
    }
}

/// Ports that were free a moment ago, all different.
fn free_ports(count: usize) -> std::io::Result<Vec<u16>> {
    let listeners = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<std::io::Result<Vec<_>>>()?;
    listeners
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}
