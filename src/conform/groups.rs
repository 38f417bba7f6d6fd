//! Which cases go to which server: a new one for each set of batch limits, or the one given.
//!
//! Leans on `local` and `real`, and on `model`.

use std::time::Duration;

use serde_json::{Map, Value};

use super::connection::Address;
use super::local::LocalServers;
use super::model::{self, Model};
use super::real::Real;
use super::run::{Peer, Stop};
use super::vector::Case;
use super::{Against, NamedCase, Options};

/// How long a server of our own may take to come up.
const START_PATIENCE_MS: u64 = 20_000;
/// Time between two attempts to reach it.
const START_RETRY_MS: u64 = 50;
/// Time that one question whether it is ready may take.
const READY_CHECK_MS: u64 = 500;

/// One case and the server for it.
pub(super) struct Visit<'a> {
    /// Index of the case.
    pub(super) index: usize,
    /// The server, or why the case cannot be run on it.
    pub(super) peer: Result<&'a mut dyn Peer, String>,
    /// What the server calls itself.
    pub(super) server_version: &'a str,
}

type Visitor<'a> = dyn FnMut(Visit<'_>) -> Result<(), Stop> + 'a;

/// Brings each case together with its server. Servers of our own run one after the other.
///
/// # Errors
/// What the visitor gives, or a server that cannot be reached.
pub(super) fn for_each_case(
    cases: &[NamedCase<'_>],
    options: &Options,
    visitor: &mut Visitor<'_>,
) -> Result<(), Stop> {
    match &options.against {
        Against::Model => on_model(cases, options, visitor),
        Against::Local => groups(cases)
            .iter()
            .try_for_each(|group| on_local_servers(group, cases, options, visitor)),
        Against::Server(address) => on_given_server(address, cases, options, visitor),
    }
}

/// Cases that one server can run: same replicas, same limits.
struct Group {
    replicas: u64,
    limits: Option<Map<String, Value>>,
    members: Vec<usize>,
}

fn groups(cases: &[NamedCase<'_>]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, named) in cases.iter().enumerate() {
        let case = named.case;
        let limits = &case.server_batch_limits;
        let fitting = groups
            .iter_mut()
            .find(|group| group.replicas == case.replicas && group.limits == *limits);
        match fitting {
            Some(group) => group.members.push(index),
            None => groups.push(Group {
                replicas: case.replicas,
                limits: limits.clone(),
                members: vec![index],
            }),
        }
    }
    groups
}

fn on_model(
    cases: &[NamedCase<'_>],
    options: &Options,
    visitor: &mut Visitor<'_>,
) -> Result<(), Stop> {
    check_version(model::VERSION, options)?;
    let mut model = Model::new();
    for (index, named) in cases.iter().enumerate() {
        options.interrupt.check()?;
        let why = model::refuses(named.case);
        visit(visitor, index, why, model::VERSION, &mut model)?;
    }
    Ok(())
}

fn on_local_servers(
    group: &Group,
    cases: &[NamedCase<'_>],
    options: &Options,
    visitor: &mut Visitor<'_>,
) -> Result<(), Stop> {
    let mut servers = LocalServers::start(group.replicas, group.limits.as_ref())?;
    let mut real = connect(&mut servers, options)?;
    let version = real.version();
    check_version(&version, options)?;
    for index in &group.members {
        let why = other_version(cases[*index].case, &version, options);
        visit(visitor, *index, why, &version, &mut real)?;
    }
    Ok(())
}

fn on_given_server(
    address: &Address,
    cases: &[NamedCase<'_>],
    options: &Options,
    visitor: &mut Visitor<'_>,
) -> Result<(), Stop> {
    let mut real = Real::connect(address, options.interrupt.clone())?;
    let version = real.version();
    check_version(&version, options)?;
    for (index, named) in cases.iter().enumerate() {
        let case = named.case;
        let why = if case.server_batch_limits.is_some() {
            Some("needs a server with batch limits of its own: use --against local".to_owned())
        } else if case.replicas > 1 && !real.is_clustered() {
            Some(format!("needs a cluster of {}", case.replicas))
        } else {
            other_version(case, &version, options)
        };
        visit(visitor, index, why, &version, &mut real)?;
    }
    Ok(())
}

fn visit(
    visitor: &mut Visitor<'_>,
    index: usize,
    why: Option<String>,
    server_version: &str,
    peer: &mut dyn Peer,
) -> Result<(), Stop> {
    visitor(Visit {
        index,
        peer: match why {
            Some(why) => Err(why),
            None => Ok(peer),
        },
        server_version,
    })
}

/// A server other than the one asked for is no server to measure with.
fn check_version(version: &str, options: &Options) -> Result<(), Stop> {
    match &options.server_version {
        Some(wanted) if wanted != version => Err(Stop::Surroundings(format!(
            "the server is {version}, not {wanted}"
        ))),
        _ => Ok(()),
    }
}

/// Replies of one version are no measure for another.
fn other_version(case: &Case, version: &str, options: &Options) -> Option<String> {
    (!options.recording && case.server_version != version).then(|| {
        let recorded = &case.server_version;
        format!("recorded on {recorded}, the server is {version}")
    })
}

/// Waits for the first server to come up.
fn connect(servers: &mut LocalServers, options: &Options) -> Result<Real, Stop> {
    let gone = || Stop::Surroundings("the server that was started has ended".to_owned());
    let url = servers.urls().into_iter().next().ok_or_else(gone)?;
    let address = Address::parse(&url).map_err(Stop::Surroundings)?;
    let mut waited_ms = 0;
    loop {
        options.interrupt.check()?;
        let attempt = Real::connect(&address, options.interrupt.clone());
        match attempt {
            Ok(mut real) => {
                waited_ms += READY_CHECK_MS;
                if real.is_ready() {
                    return Ok(real);
                }
            }
            Err(_) if !servers.are_alive() => return Err(gone()),
            Err(_) => {}
        }
        if waited_ms >= START_PATIENCE_MS {
            let why = "the servers that were started do not become ready";
            return Err(Stop::Surroundings(why.to_owned()));
        }
        waited_ms += START_RETRY_MS;
        Real::pause(Duration::from_millis(START_RETRY_MS))?;
    }
}
