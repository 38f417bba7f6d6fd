//! Servers of our own: one nats-server, or a cluster of three, on 127.0.0.1 and in a temporary
//! folder.
//!
//! They never outlive us. Each server runs under a small shell guard that holds one end of a pipe;
//! when our end closes, because we stop, fail, panic or are killed hard, the guard kills the server
//! and removes its files. The guards have process groups of their own, so that a Ctrl-C at the
//! terminal reaches us alone. Leans on `probe`.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;

use super::clock::Clock;
use super::error::LiveError;
use super::probe::Probe;

/// Ports are probed and then used; between the two somebody else may take one.
const PORT_ATTEMPTS: u32 = 5;
/// Longest wait for one step of a probe.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const LOG_TAIL_BYTES: u64 = 2_048;

/// Arguments: binary, node folder, common folder. Its standard input is the pipe.
const GUARD: &str = r#"
exec 3<&0 </dev/null
"$1" -c "$2/server.conf" -js -sd "$2/store" >"$2/server.log" 2>&1 3<&- &
server=$!
echo "$server"
exec >/dev/null 2>&1
( read -r _ <&3; [ -e "$2/exit" ] || kill -KILL "$server" ) &
guard=$!
wait "$server"
echo $? >"$2/exit"
wait "$guard"
rm -rf -- "$2"
rmdir -- "$3"
"#;

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
        self.nodes.iter().map(|node| node.server_pid).collect()
    }

    /// Log files of the servers; they go with the servers.
    pub fn logs(&self) -> Vec<PathBuf> {
        self.nodes.iter().map(Node::log).collect()
    }

    /// The end of every log, for error messages.
    pub fn log_tail(&self) -> String {
        self.nodes.iter().map(Node::log_tail).collect()
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
            directory: Some(directory),
        };
        for index in 0..count {
            let node = Node::spawn(&plan, index, options)?;
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
                node.check_alive()?;
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
        for node in &mut self.nodes {
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

/// One server and its guard.
#[derive(Debug)]
struct Node {
    folder: PathBuf,
    server_pid: u32,
    guard: Child,
    /// Closing it ends the server.
    pipe: Option<ChildStdin>,
}

impl Node {
    fn spawn(plan: &Plan, index: usize, options: &Options) -> Result<Self, LiveError> {
        let folder = plan.node(index);
        let not_started = |reason: String| LiveError::LocalServer {
            reason,
            log: String::new(),
        };
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "tidegate-guard"])
            .arg(&options.binary)
            .arg(&folder)
            .arg(&plan.root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| not_started(format!("sh cannot be run: {error}")))?;
        let pipe = guard.stdin.take();
        let mut node = Self {
            folder,
            server_pid: 0,
            guard,
            pipe,
        };
        let mut line = String::new();
        if let Some(output) = node.guard.stdout.take() {
            // the guard says one number and closes its output
            let _ = BufReader::new(output.take(32)).read_line(&mut line);
        }
        match line.trim().parse() {
            Ok(pid) => node.server_pid = pid,
            Err(_) => return Err(not_started("its guard did not start it".to_owned())),
        }
        Ok(node)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    fn log_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(self.log())?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_default()
    }

    fn check_alive(&self) -> Result<(), StartError> {
        let Ok(code) = fs::read_to_string(self.folder.join("exit")) else {
            return Ok(());
        };
        let log = self.log_tail();
        let taken = log.contains("address already in use");
        let error = LiveError::LocalServer {
            reason: format!("it ended with code {}", code.trim()),
            log,
        };
        Err(if taken {
            StartError::PortTaken(error)
        } else {
            StartError::Other(error)
        })
    }

    fn let_go(&mut self) {
        self.pipe = None;
    }

    fn wait_gone(&mut self) -> Result<(), LiveError> {
        let clock = Clock::start();
        while !clock.is_past(Duration::from_secs(10)) {
            match self.guard.try_wait() {
                Ok(None) => std::thread::park_timeout(Duration::from_millis(2)),
                Ok(Some(_)) => return Ok(()),
                Err(error) => return Err(LiveError::system("cannot wait for a server", error)),
            }
        }
        Err(LiveError::system(
            format!("nats-server {} does not end", self.server_pid),
            "killed 10 s ago",
        ))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.let_go();
        let _ = self.wait_gone();
    }
}
