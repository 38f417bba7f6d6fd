//! Which cases go to which server: servers of our own for each set of batch limits, or the one
//! given. Most of a case is quiet time, so several servers of our own run side by side.
//!
//! Leans on `local`, `served` and `real`, and on `model`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use serde_json::{Map, Value};

use super::connection::Address;
use super::local;
use super::model::{self, Model};
use super::real::Real;
use super::run::{Peer, Stop};
use super::served;
use super::vector::Case;
use super::{Against, NamedCase, Options};
use crate::live::Server;
use crate::nats::version::ServerVersion;

/// Servers of our own that run at the same time: single ones, and members of clusters.
const SIDE_BY_SIDE: u64 = 6;

/// Servers of our own, or clusters of so many replicas, that run at the same time: 1 or more.
pub(super) fn side_by_side(replicas: u64) -> usize {
    let room = usize::try_from(SIDE_BY_SIDE / replicas.max(1)).unwrap_or(1);
    room.max(1)
}

/// What to do with a case and its peer, whose version is the last argument.
pub(super) type Work<'a, T> = dyn Fn(&Case, &mut dyn Peer, &str) -> Result<T, Stop> + Sync + 'a;

/// Hears what became of a case: its index, and what the work gave or why it was not done.
pub(super) type Done<'a, T> = dyn FnMut(usize, Result<T, String>) + 'a;

/// Brings each case together with its server. Cases of one server keep their order; `done` hears
/// of cases as they end.
///
/// # Errors
/// What the work gives, or a server that cannot be reached.
pub(super) fn for_each_case<T: Send>(
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    match &options.against {
        Against::Model => on_model(cases, options, work, done),
        Against::Served => on_served_models(cases, options, work, done),
        Against::Local => on_local_servers(cases, options, work, done),
        Against::Server(address) => on_given_server(address, cases, options, work, done),
    }
}

fn on_model<T>(
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    check_modelled(options)?;
    for (index, named) in cases.iter().enumerate() {
        options.interrupt.check()?;
        match modelled_version(named.case, options) {
            Err(why) => done(index, Err(why)),
            Ok(version) => {
                let mut model = Model::new(version);
                let outcome = work(named.case, &mut model, version.text())?;
                done(index, Ok(outcome));
            }
        }
    }
    Ok(())
}

fn on_given_server<T>(
    address: &Address,
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    let mut real = Real::connect(address, options.pace, options.interrupt.clone())?;
    let version = real.version();
    check_version(&version, options)?;
    for (index, named) in cases.iter().enumerate() {
        let case = named.case;
        let why = if case.server_batch_limits.is_some() {
            let own = if real.is_model() { "serve" } else { "local" };
            Some(format!(
                "needs a server with batch limits of its own: use --against {own}"
            ))
        } else if real.is_model()
            && let Err(why) = model::version_for(case)
        {
            Some(why)
        } else if case.replicas > 1 && !real.is_clustered() {
            let instead = if real.is_model() {
                ": use --against serve"
            } else {
                ""
            };
            Some(format!("needs a cluster of {}{instead}", case.replicas))
        } else {
            other_version(case, &version, options)
        };
        match why {
            Some(why) => done(index, Err(why)),
            None => done(index, Ok(work(case, &mut real, &version)?)),
        }
    }
    Ok(())
}

/// What is started for a group of cases.
enum Start {
    /// A nats-server.
    Binary(Server),
    /// The model of this version behind a socket.
    Model(ServerVersion),
}

/// Cases that one server can run: same version, same replicas, same limits.
struct Group {
    start: Start,
    replicas: u64,
    limits: Option<Map<String, Value>>,
    members: Vec<usize>,
}

/// Finds a server for each version that the cases need, and tells `skip` of cases that have none.
///
/// # Errors
/// There is no server at all, or not the one asked for.
fn groups(
    cases: &[NamedCase<'_>],
    options: &Options,
    skip: &mut dyn FnMut(usize, String),
) -> Result<Vec<Group>, Stop> {
    let find = |version: Option<&str>| {
        local::find(version, options.may_fetch, &mut |text| {
            (options.notice)(text);
        })
    };
    let any = match (&options.server_version, options.recording) {
        (Some(version), _) => Some(find(Some(version)).map_err(Stop::Surroundings)?),
        (None, true) => Some(find(None).map_err(Stop::Surroundings)?),
        (None, false) => None,
    };
    let mut found: BTreeMap<&str, Result<Server, String>> = BTreeMap::new();
    let mut groups: Vec<Group> = Vec::new();
    for (index, NamedCase { case, .. }) in cases.iter().enumerate() {
        let server = match &any {
            Some(server) => Ok(server.clone()),
            None => found
                .entry(&case.server_version)
                .or_insert_with(|| find(Some(&case.server_version)))
                .clone(),
        };
        let server = match server {
            Ok(server) => server,
            Err(why) => {
                let recorded = &case.server_version;
                skip(index, format!("no nats-server {recorded}: {why}"));
                continue;
            }
        };
        if let Some(why) = other_version(case, &server.version, options) {
            skip(index, why);
            continue;
        }
        let fitting = groups.iter_mut().find(|group| {
            matches!(&group.start, Start::Binary(own) if *own == server)
                && group.replicas == case.replicas
                && group.limits == case.server_batch_limits
        });
        match fitting {
            Some(group) => group.members.push(index),
            None => groups.push(Group {
                start: Start::Binary(server),
                replicas: case.replicas,
                limits: case.server_batch_limits.clone(),
                members: vec![index],
            }),
        }
    }
    if groups.is_empty() {
        // Skipping everything is fine if there is a server, though of another version.
        find(None).map_err(Stop::Surroundings)?;
    }
    Ok(groups)
}

/// What threads tell the caller's thread.
type Report<T> = Result<(usize, Result<T, String>), Stop>;

fn on_local_servers<T: Send>(
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    let groups = groups(cases, options, &mut |index, why| done(index, Err(why)))?;
    run_groups(groups, cases, options, work, done)
}

/// The served model is started once for each version, number of replicas and set of limits.
fn on_served_models<T: Send>(
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    check_modelled(options)?;
    let mut groups: Vec<Group> = Vec::new();
    for (index, NamedCase { case, .. }) in cases.iter().enumerate() {
        let version = match modelled_version(case, options) {
            Err(why) => {
                done(index, Err(why));
                continue;
            }
            Ok(version) => version,
        };
        let limits = &case.server_batch_limits;
        let fitting = groups.iter_mut().find(|group| {
            matches!(group.start, Start::Model(own) if own == version)
                && group.replicas == case.replicas
                && group.limits == *limits
        });
        match fitting {
            Some(group) => group.members.push(index),
            None => groups.push(Group {
                start: Start::Model(version),
                replicas: case.replicas,
                limits: limits.clone(),
                members: vec![index],
            }),
        }
    }
    run_groups(groups, cases, options, work, done)
}

/// Runs each group on servers of its own, several side by side.
fn run_groups<T: Send>(
    groups: Vec<Group>,
    cases: &[NamedCase<'_>],
    options: &Options,
    work: &Work<'_, T>,
    done: &mut Done<'_, T>,
) -> Result<(), Stop> {
    let stopped = AtomicBool::new(false);
    for group in groups {
        let shards = side_by_side(group.replicas).min(group.members.len().max(1));
        let next = AtomicUsize::new(0);
        let (sender, receiver) = mpsc::channel::<Report<T>>();
        thread::scope(|scope| {
            for _ in 0..shards.min(group.members.len()) {
                let sender = sender.clone();
                let shard = Shard {
                    group: &group,
                    cases,
                    options,
                    next: &next,
                    stopped: &stopped,
                };
                scope.spawn(move || {
                    if let Err(stop) = shard.run(work, &sender) {
                        shard.stopped.store(true, Ordering::Relaxed);
                        // The caller's thread is gone only if it panics.
                        let _ = sender.send(Err(stop));
                    }
                });
            }
            drop(sender);
            let mut result = Ok(());
            for report in receiver {
                match report {
                    Ok((index, outcome)) => done(index, outcome),
                    Err(stop) => result = result.and(Err(stop)),
                }
            }
            result
        })?;
    }
    Ok(())
}

/// One server, or cluster, that takes cases of a group as it becomes free.
#[derive(Clone, Copy)]
struct Shard<'a> {
    group: &'a Group,
    cases: &'a [NamedCase<'a>],
    options: &'a Options,
    next: &'a AtomicUsize,
    stopped: &'a AtomicBool,
}

impl Shard<'_> {
    fn run<T>(&self, work: &Work<'_, T>, sender: &mpsc::Sender<Report<T>>) -> Result<(), Stop> {
        let Group {
            start,
            replicas,
            limits,
            ..
        } = self.group;
        let limits = limits.as_ref();
        let mut started = match start {
            Start::Binary(server) => local::start(&server.path, *replicas, limits, self.options)?,
            Start::Model(version) => served::start(*version, *replicas, limits, self.options)?,
        };
        let version = started.real.version();
        while !self.stopped.load(Ordering::Relaxed) {
            let position = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(index) = self.group.members.get(position) else {
                break;
            };
            let outcome = work(self.cases[*index].case, &mut started.real, &version)?;
            if sender.send(Ok((*index, Ok(outcome)))).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// The version of the model that a case is run on, or why it is not.
fn modelled_version(case: &Case, options: &Options) -> Result<ServerVersion, String> {
    let version = model::version_for(case)?;
    let wanted = options.server_version.as_deref();
    match wanted.and_then(|wanted| other_version(case, wanted, options)) {
        Some(why) => Err(why),
        None => Ok(version),
    }
}

/// A version that is asked for must be modelled.
fn check_modelled(options: &Options) -> Result<(), Stop> {
    let Some(wanted) = &options.server_version else {
        return Ok(());
    };
    if ServerVersion::from_text(wanted).is_some() {
        return Ok(());
    }
    let known = ServerVersion::ALL.map(ServerVersion::text).join(", ");
    Err(Stop::Surroundings(format!(
        "{wanted} is not modelled; modelled are {known}"
    )))
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
