//! What servers of our own are started with: names, ports, folders and configuration; and when they are
//! ready.
//!
//! Leans on `probe` and `links`.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::error::LiveError;
use super::links::Links;
use super::local::Options;
use super::probe::Probe;

/// Longest wait for one step of a probe.
const PROBE_PATIENCE: Duration = Duration::from_secs(2);

/// Names, ports and folders of servers that are to be started.
pub(super) struct Plan {
    root: PathBuf,
    unique: String,
    client_ports: Vec<u16>,
    /// Empty for a server that is alone.
    route_ports: Vec<u16>,
    monitor_ports: Vec<u16>,
    links: Option<Links>,
}

impl Plan {
    /// Plans `count` servers in the folder `root`, and writes their files there; `ports` are client ports
    /// to take.
    ///
    /// # Errors
    /// There are no free ports, or files cannot be written.
    pub(super) fn new(
        count: usize,
        options: &Options,
        ports: &[u16],
        root: &Path,
    ) -> Result<Self, LiveError> {
        let routed = if count > 1 { count } else { 0 };
        let reserved = Reserved::new(2 * count + routed, ports)
            .map_err(|error| LiveError::system("no free port on 127.0.0.1", error))?;
        let (client_ports, rest) = reserved.ports.split_at(count);
        let (monitor_ports, route_ports) = rest.split_at(count);
        let unique = root
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let named = options.links.as_ref();
        let links = named.map(|named| Links::open(client_ports, route_ports, named));
        let plan = Self {
            root: root.to_owned(),
            unique,
            links: links.transpose()?,
            client_ports: client_ports.to_vec(),
            route_ports: route_ports.to_vec(),
            monitor_ports: monitor_ports.to_vec(),
        };
        for index in 0..count {
            plan.write_config(index, &options.extra_config)
                .map_err(|error| LiveError::system("cannot write a server configuration", error))?;
        }
        Ok(plan)
    }

    /// The folder of all of them.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of a server.
    pub(super) fn node(&self, index: usize) -> PathBuf {
        self.root.join(format!("n{index}"))
    }

    /// Nobody else's server has this name, so an answer under it is an answer of ours.
    pub(super) fn name(&self, index: usize) -> String {
        format!("{}-n{index}", self.unique)
    }

    /// Client URLs of the servers.
    pub(super) fn urls(&self) -> Vec<String> {
        let servers = 0..self.client_ports.len();
        servers
            .map(|index| format!("nats://{}", self.address(index)))
            .collect()
    }

    /// URLs of the monitoring ports of the servers.
    pub(super) fn monitors(&self) -> Vec<String> {
        let ports = self.monitor_ports.iter();
        ports
            .map(|port| format!("http://{}", local(*port)))
            .collect()
    }

    /// The doors before the servers, which are on their own from now on.
    pub(super) fn into_links(self) -> Option<Links> {
        self.links
    }

    /// Where we reach a server ourselves.
    fn address(&self, index: usize) -> SocketAddr {
        let door = self.links.as_ref().and_then(|links| links.aside(index));
        door.unwrap_or_else(|| local(self.client_ports[index]))
    }

    fn write_config(&self, index: usize, extra: &str) -> std::io::Result<()> {
        let mut text = format!(
            "server_name: \"{}\"\nlisten: \"{}\"\nhttp: \"{}\"\n",
            self.name(index),
            local(self.client_ports[index]),
            local(self.monitor_ports[index])
        );
        if self.links.is_some() {
            let _ = writeln!(text, "client_advertise: \"{}\"", self.address(index));
        }
        if let Some(port) = self.route_ports.get(index) {
            // Addresses of clients are nobody's business: publishers know all servers already.
            let _ = writeln!(
                text,
                "cluster {{ name: \"{}\", listen: \"{}\", no_advertise: true, {} }}",
                self.unique,
                local(*port),
                self.routes(index)
            );
        }
        text.push_str(extra);
        text.push('\n');
        fs::create_dir(self.node(index))?;
        fs::write(self.node(index).join("server.conf"), text)
    }

    /// Where a server finds the others. Servers tell each other of servers that they have met, and dial those
    /// that they have no route to: with doors, at an address where nobody is.
    fn routes(&self, index: usize) -> String {
        let (routes, told) = match &self.links {
            Some(links) => (links.routes_of(index), links.told_of(index)),
            None => (
                self.route_ports.iter().map(|port| local(*port)).collect(),
                None,
            ),
        };
        let routes = routes.iter().map(|at| format!("\"nats://{at}\""));
        let routes = format!("routes: [{}]", routes.collect::<Vec<_>>().join(", "));
        match told {
            Some(told) => format!("advertise: \"{told}\", {routes}"),
            None => routes,
        }
    }

    /// Asks every server who it is, and the first for a stream that needs all of them.
    ///
    /// # Errors
    /// What is not ready, in words.
    pub(super) fn is_ready(&self) -> Result<(), String> {
        let mut first = None;
        for index in 0..self.client_ports.len() {
            let address = self.address(index);
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

/// Ports for servers, all different, that nobody else is given while this is there: a door on the port that it
/// leads to would dial itself without end.
struct Reserved {
    ports: Vec<u16>,
    _listeners: Vec<TcpListener>,
}

impl Reserved {
    /// So many ports, of which the first are the `preferred` ones, be they free or not.
    fn new(count: usize, preferred: &[u16]) -> std::io::Result<Self> {
        // One that is taken is for the server to complain of.
        let preferred = &preferred[..preferred.len().min(count)];
        let taken = preferred.iter().filter_map(|port| listen(*port).ok());
        let mut listeners: Vec<_> = taken.collect();
        let mut ports = preferred.to_vec();
        while ports.len() < count {
            let listener = listen(0)?;
            ports.push(listener.local_addr()?.port());
            listeners.push(listener);
        }
        Ok(Self {
            ports,
            _listeners: listeners,
        })
    }
}

fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_door_opens_on_a_port_that_is_planned_for_a_server() {
        let preferred = {
            let listener = listen(0).unwrap();
            listener.local_addr().unwrap().port()
        };
        let reserved = Reserved::new(9, &[preferred]).unwrap();
        assert_eq!((reserved.ports.len(), reserved.ports[0]), (9, preferred));
        let is_free = |port: &u16| listen(*port).is_ok();
        assert!(!reserved.ports.iter().any(is_free));
    }
}
