//! What the wire lane stands on: hosts, byte connections, a clock and faults, behind one seam.
//!
//! Software on a host is ordinary async code over `tokio::net`: the server's program, or client
//! crates that nobody changed. A substrate runs it in simulated time, on one thread:
//!
//! - [`EventSubstrate`] is our own: exact to the nanosecond, with bandwidth and windows, and it jumps
//!   over time in which nothing happens;
//! - [`TurmoilSubstrate`] is the crate turmoil, an independent opinion: ticks of a millisecond, no
//!   bandwidth.
//!
//! Both want a thread whose randomness follows from the seed: [`isolated`] gives one. What does not
//! follow from it, and so must not be looked at: names that a client crate counts for the whole
//! process (inboxes and batch ids of nuid; their lengths are constant); which of several tasks that
//! wait on one `tokio::sync::watch` is woken first; threads that software starts by itself. Leans on
//! `net`, `seed`, and on the crates beside the library: the facade of tokio and `sim-entropy`.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;

use super::SimError;
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::seed::Seed;

mod event;
mod turmoil;

pub use event::EventSubstrate;
pub use turmoil::TurmoilSubstrate;

/// A future of a thread: software of a host, or a sleep.
pub type LocalFuture<T = ()> = Pin<Box<dyn Future<Output = T>>>;

/// Each direction of each connection between two hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkSettings {
    /// One-way latency.
    pub latency: Time,
    /// Largest extra latency, drawn evenly for each segment; order is kept.
    pub jitter: Time,
    /// Bandwidth of each connection, 1 or more; substrates without bandwidth leave it out.
    pub bits_per_second: u64,
    /// Most bytes that were written and of which the writer does not know that they were read.
    pub window_bytes: u64,
}

/// The links of a world: one kind for all, with exceptions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Links {
    /// Between any two hosts.
    pub default: LinkSettings,
    /// From one host to another, where it is different. Within a host nothing takes time.
    pub between: BTreeMap<(IpAddr, IpAddr), LinkSettings>,
}

/// How far a step has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// There is more to do before the limit.
    Going,
    /// The limit is reached: everything up to it and at it has happened.
    Reached(Time),
    /// Nothing will ever happen again; told only where the limit is [`Time::NEVER`], and never by
    /// turmoil, which does not know.
    Idle,
    /// A task of this host panicked: a defect of the software. Its other tasks go on.
    Panicked(IpAddr),
}

/// Simulated time as software sees it.
pub trait Clock {
    /// The time since the start of the run.
    fn now(&self) -> Time;

    /// Waits until `at`: exactly on the event substrate, to the next whole millisecond on turmoil.
    fn sleep_until(&self, at: Time) -> LocalFuture;

    /// Ends the step that is being done, at this moment: for software whose news the caller waits
    /// for. The step's progress is then [`Progress::Going`].
    fn interrupt(&self);
}

/// A simulated world of hosts.
///
/// The caller's loop is `loop { substrate.step(limit); … }` until the progress is not
/// [`Progress::Going`]; software shares what it has to say with the caller through an `Rc`. Faults
/// are called between steps. Paths lead one way: a fault of both ways is two calls.
///
/// What is lost is lost as TCP loses it: bytes of a living connection are late, never missing.
pub trait Substrate {
    /// The time since the start of the run.
    fn now(&self) -> Time;

    /// The clock for software of this world.
    fn clock(&self) -> Rc<dyn Clock>;

    /// Lets software find `host` by `name`.
    fn name(&mut self, name: &str, host: IpAddr);

    /// Starts software on a host. A host has several pieces of software if this is called several
    /// times, and is alive again after a crash. What they spawn belongs to the host.
    fn host(&mut self, host: IpAddr, software: LocalFuture);

    /// Does a bounded piece of work, at most up to `until`.
    fn step(&mut self, until: Time) -> Progress;

    /// Ends all software of a host at once, hidden tasks included. The system under it lives on and
    /// resets its connections; for a host without power, cut its paths first.
    fn crash(&mut self, host: IpAddr);

    /// Loses what is under way from one host to another, and what is sent until [`Substrate::heal`].
    ///
    /// On the event substrate connections send again afterwards, at the times at which TCP tries
    /// to, and give up as TCP does (after fifteen tries, about a quarter of an hour). On turmoil
    /// nothing is sent again: a connection that lost something is dead and silent.
    fn cut(&mut self, from: IpAddr, to: IpAddr);

    /// Ends a cut.
    fn heal(&mut self, from: IpAddr, to: IpAddr);

    /// Keeps back what is under way and what is sent until [`Substrate::release`]; nothing is lost.
    /// On turmoil this is of both ways at once.
    fn hold(&mut self, from: IpAddr, to: IpAddr);

    /// Ends a hold: what was kept back arrives at once, in order.
    fn release(&mut self, from: IpAddr, to: IpAddr);

    /// From now on what is sent from one host to another has this latency, and overtakes nothing.
    ///
    /// # Errors
    /// On a substrate whose links stay as they are.
    fn set_latency(&mut self, from: IpAddr, to: IpAddr, latency: Time) -> Result<(), SimError>;

    /// A limit of what each connection carries from one host to another, from now on or later; of several the
    /// smallest rate holds. What is under way and has not left is later accordingly, in order.
    ///
    /// # Errors
    /// On a substrate without bandwidth.
    fn limit(&mut self, from: IpAddr, to: IpAddr, limit: Limit) -> Result<(), SimError>;

    /// Resets every connection between two hosts; both ends see it at once.
    ///
    /// # Errors
    /// On a substrate that has no resets.
    fn reset(&mut self, one: IpAddr, other: IpAddr) -> Result<(), SimError>;
}

impl LinkSettings {
    /// Within a host: no time, and room for everything.
    pub(super) const LOOPBACK: Self = Self {
        latency: Time::ZERO,
        jitter: Time::ZERO,
        bits_per_second: u64::MAX,
        window_bytes: 4 << 20,
    };
}

impl Links {
    /// The same link between any two hosts.
    pub fn all(default: LinkSettings) -> Self {
        Self {
            default,
            between: BTreeMap::new(),
        }
    }

    /// The link from one host to another.
    pub fn from_to(&self, from: IpAddr, to: IpAddr) -> LinkSettings {
        if from == to {
            return LinkSettings::LOOPBACK;
        }
        let exception = self.between.get(&(from, to));
        *exception.unwrap_or(&self.default)
    }
}

/// Runs a world on a thread of its own, on which the randomness of all code follows from `seed`.
///
/// # Errors
/// If this platform does not support that.
pub fn isolated<T: Send>(seed: Seed, world: impl FnOnce() -> T + Send) -> Result<T, SimError> {
    let seed = seed.child("entropy", 0).0;
    sim_entropy::isolated(seed, world)
        .map_err(|refused| SimError::new("lane", &refused.to_string()))
}

/// The address of a host by its name.
fn resolve(names: &BTreeMap<String, IpAddr>, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let host = names.get(name).ok_or_else(|| {
        let message = format!("there is no host `{name}` in the simulated network");
        io::Error::new(io::ErrorKind::NotFound, message)
    })?;
    Ok(vec![SocketAddr::new(*host, port)])
}

/// Refuses to build a world on a thread that is not armed: it would not follow from its seed.
fn require_armed() -> Result<(), SimError> {
    if sim_entropy::is_armed() {
        return Ok(());
    }
    let refused = match sim_entropy::is_supported() {
        true => "the wire lane runs on a thread that `isolated` has made".to_owned(),
        false => sim_entropy::Refused::Unsupported.to_string(),
    };
    Err(SimError::new("lane", &refused))
}
