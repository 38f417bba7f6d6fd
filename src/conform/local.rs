//! Servers of our own on 127.0.0.1, for the time of a run.
//!
//! Leans on `real` for reaching them. The program is the one that `NATS_SERVER` names, else the
//! `nats-server` of the search path.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::Options;
use super::connection::Address;
use super::real::Real;
use super::run::Stop;

/// Tries to find free ports and start on them.
const START_ATTEMPTS: u32 = 3;
/// How long servers may take to come up.
const START_PATIENCE_MS: u64 = 20_000;
/// Time between two attempts to reach them.
const START_RETRY_MS: u64 = 50;
/// Time that one question whether they are ready may take.
const READY_CHECK_MS: u64 = 500;

/// The variable that names the program.
pub const PROGRAM_VARIABLE: &str = "NATS_SERVER";

/// The nats-server program of this machine, if there is one.
pub fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(PROGRAM_VARIABLE) {
        return Some(PathBuf::from(named));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join("nats-server"))
        .find(|program| program.is_file())
}

/// What the program calls itself, such as `2.15.1`.
///
/// # Errors
/// There is no program, or it does not say.
pub fn version() -> Result<String, Stop> {
    let program = program().ok_or_else(none_found)?;
    let output = Command::new(&program)
        .arg("--version")
        .stdin(Stdio::null())
        .output();
    let silent = || Stop::Surroundings(format!("{} is no nats-server", program.display()));
    let output = output.map_err(|_| silent())?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split_whitespace().last().ok_or_else(silent)?;
    Ok(version.trim_start_matches('v').to_owned())
}

fn none_found() -> Stop {
    Stop::Surroundings(format!(
        "no nats-server found: name one in {PROGRAM_VARIABLE} or put it into the PATH"
    ))
}

/// One server, or a cluster of several; ended when dropped.
pub struct LocalServers {
    children: Vec<Child>,
    ports: Vec<u16>,
    /// Configuration, logs and stores.
    directory: TempDir,
}

impl LocalServers {
    /// Starts `count` servers with JetStream and these options under
    /// `jetstream { limits { batch { … } } }`, and connects to the first; more than one form a
    /// cluster.
    ///
    /// # Errors
    /// There is no program, or it does not come up.
    pub fn start_and_connect(
        count: u64,
        limits: Option<&Map<String, Value>>,
        options: &Options,
    ) -> Result<(Self, Real), Stop> {
        let mut attempt = 1;
        loop {
            let mut servers = Self::start(count, limits)?;
            match servers.connect(options)? {
                Some(real) => return Ok((servers, real)),
                // Somebody else may have taken a port in between.
                None if attempt < START_ATTEMPTS => attempt += 1,
                None => {
                    let why = format!(
                        "the nats-server that was started has ended: {}",
                        servers.log()
                    );
                    return Err(Stop::Surroundings(why));
                }
            }
        }
    }

    /// Waits for the first server to be ready; `None`: it ended.
    fn connect(&mut self, options: &Options) -> Result<Option<Real>, Stop> {
        let address = Address {
            host: format!("127.0.0.1:{}", self.ports[0]),
            user: None,
            password: None,
        };
        let mut waited_ms = 0;
        loop {
            options.interrupt.check()?;
            if let Ok(mut real) = Real::connect(&address, options.interrupt.clone()) {
                waited_ms += READY_CHECK_MS;
                if real.is_ready() {
                    return Ok(Some(real));
                }
            }
            let mut children = self.children.iter_mut();
            if !children.all(|child| matches!(child.try_wait(), Ok(None))) {
                return Ok(None);
            }
            if waited_ms >= START_PATIENCE_MS {
                let why = "the servers that were started do not become ready";
                return Err(Stop::Surroundings(why.to_owned()));
            }
            waited_ms += START_RETRY_MS;
            Real::pause(Duration::from_millis(START_RETRY_MS))?;
        }
    }

    /// The end of the first server's log.
    fn log(&self) -> String {
        let path = self.directory.path().join("n0").join("log");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(3).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    fn start(count: u64, limits: Option<&Map<String, Value>>) -> Result<Self, Stop> {
        let program = program().ok_or_else(none_found)?;
        let failed = |what: &dyn std::fmt::Display| {
            Stop::Surroundings(format!("cannot start {}: {what}", program.display()))
        };
        let directory = TempDir::with_prefix("tidegate-conform-").map_err(|e| failed(&e))?;
        let mut client_ports = free_ports(count * 2).map_err(|e| failed(&e))?;
        let route_ports = client_ports.split_off(client_ports.len() / 2);
        let mut servers = Self {
            children: Vec::new(),
            ports: client_ports,
            directory,
        };
        for index in 0..servers.ports.len() {
            let home = servers.directory.path().join(format!("n{index}"));
            std::fs::create_dir(&home).map_err(|e| failed(&e))?;
            let text = configuration(index, &servers.ports, &route_ports, &home, limits);
            let file = home.join("server.conf");
            std::fs::write(&file, text).map_err(|e| failed(&e))?;
            let log = std::fs::File::create(home.join("log")).map_err(|e| failed(&e))?;
            let child = Command::new(&program)
                .arg("-c")
                .arg(&file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .map_err(|e| failed(&e))?;
            servers.children.push(child);
        }
        Ok(servers)
    }
}

impl Drop for LocalServers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Gone already is fine; nothing else can be done about a failure here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ports that were free a moment ago.
fn free_ports(count: u64) -> std::io::Result<Vec<u16>> {
    let listeners = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0"))
        .collect::<Result<Vec<_>, _>>()?;
    listeners
        .iter()
        .map(|listener| listener.local_addr().map(|address| address.port()))
        .collect()
}

fn configuration(
    index: usize,
    client_ports: &[u16],
    route_ports: &[u16],
    home: &Path,
    limits: Option<&Map<String, Value>>,
) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "listen: \"127.0.0.1:{}\"", client_ports[index]);
    let _ = writeln!(text, "server_name: n{index}");
    let _ = writeln!(text, "jetstream {{\n  store_dir: {:?}", home.join("store"));
    if let Some(limits) = limits.filter(|limits| !limits.is_empty()) {
        let _ = writeln!(text, "  limits {{ batch {{");
        for (option, value) in limits {
            // A text holds its quotes already.
            let value = match value {
                Value::String(text) if text.starts_with('"') => text.clone(),
                value => value.to_string(),
            };
            let _ = writeln!(text, "    {option}: {value}");
        }
        let _ = writeln!(text, "  }} }}");
    }
    let _ = writeln!(text, "}}");
    if client_ports.len() > 1 {
        let routes: Vec<String> = route_ports
            .iter()
            .map(|port| format!("\"nats://127.0.0.1:{port}\""))
            .collect();
        let _ = writeln!(
            text,
            "cluster {{\n  name: conform\n  listen: \"127.0.0.1:{}\"\n  routes: [{}]\n}}",
            route_ports[index],
            routes.join(", ")
        );
    }
    text
}
