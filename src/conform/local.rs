//! Servers of our own on 127.0.0.1, for the time of a run.
//!
//! Leans on the operating system only. The program is the one that `NATS_SERVER` names, else the
//! `nats-server` of the search path.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::run::Stop;

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

/// One server, or a cluster of several; ended when dropped.
pub struct LocalServers {
    children: Vec<Child>,
    ports: Vec<u16>,
    /// Configuration, logs and stores.
    _directory: TempDir,
}

impl LocalServers {
    /// Starts `count` servers with JetStream and these options under
    /// `jetstream { limits { batch { … } } }`; more than one form a cluster.
    ///
    /// # Errors
    /// There is no program, or it does not start.
    pub fn start(count: u64, limits: Option<&Map<String, Value>>) -> Result<Self, Stop> {
        let program = program().ok_or_else(|| {
            Stop::Surroundings(format!(
                "no nats-server found: name one in {PROGRAM_VARIABLE} or put it into the PATH"
            ))
        })?;
        let failed = |what: &dyn std::fmt::Display| {
            Stop::Surroundings(format!("cannot start {}: {what}", program.display()))
        };
        let directory = TempDir::with_prefix("tidegate-conform-").map_err(|e| failed(&e))?;
        let client_ports = free_ports(count).map_err(|e| failed(&e))?;
        let route_ports = free_ports(count).map_err(|e| failed(&e))?;
        let mut servers = Self {
            children: Vec::new(),
            ports: client_ports,
            _directory: directory,
        };
        for index in 0..servers.ports.len() {
            let home = servers._directory.path().join(format!("n{index}"));
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

    /// The URL of each server.
    pub fn urls(&self) -> Vec<String> {
        let url = |port: &u16| format!("nats://127.0.0.1:{port}");
        self.ports.iter().map(url).collect()
    }

    /// Whether all servers still run.
    pub fn are_alive(&mut self) -> bool {
        let mut children = self.children.iter_mut();
        children.all(|child| matches!(child.try_wait(), Ok(None)))
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
