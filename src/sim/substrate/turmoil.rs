//! The crate turmoil as a substrate: an independent opinion on what the event substrate says.
//!
//! Time moves in ticks of a millisecond. Every write is one segment of any size; there is no
//! bandwidth, and the window counts writes and not bytes. What a cut loses is never sent again: the
//! connection stays silent. Few hosts are fast enough. Leans on turmoil and on the facade.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::{Future, pending};
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use rand::RngExt;
use tokio::hook::{self, Accepted, Connecting, Installed};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use turmoil::net::{TcpListener, TcpStream};

use super::{Clock, Links, LocalFuture, Progress, Substrate, require_armed};
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::seed::{Generator, Seed};
use crate::sim::SimError;

/// One tick. Shorter ones are not kept by the timers of tokio.
const TICK: Time = Time::from_millis(1);
/// Writes that may be under way, and connections that may wait to be accepted.
const CAPACITY: usize = 1_024;
/// Turmoil ends a run by itself after this.
const LONGEST_RUN: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The network of the crate turmoil.
///
/// Holds are of both ways at once, and a pair of hosts is either cut or on hold, not both; links
/// have one latency for both ways, the longer one, and the jitter of all others.
pub struct TurmoilSubstrate {
    world: turmoil::Sim<'static>,
    links: Links,
    network: Rc<Network>,
    hosts: BTreeMap<IpAddr, Host>,
    cuts: BTreeSet<(IpAddr, IpAddr)>,
    holds: BTreeSet<(IpAddr, IpAddr)>,
    _installed: Installed,
}

struct Host {
    software: Rc<Software>,
}

/// Where a host finds what it is to run.
#[derive(Default)]
struct Software {
    waiting: RefCell<Vec<LocalFuture>>,
    more: Notify,
}

struct Network {
    names: RefCell<BTreeMap<String, IpAddr>>,
    choices: RefCell<Generator>,
    /// The time between ticks; within one, turmoil knows it.
    elapsed: Cell<Time>,
}

impl TurmoilSubstrate {
    /// A world without hosts. Everything that is drawn in it follows from `seed`.
    ///
    /// # Errors
    /// On a thread that does not follow from a seed ([`super::isolated`]), which includes every
    /// thread of a platform without support.
    pub fn new(links: Links, seed: Seed) -> Result<Self, SimError> {
        require_armed()?;
        let default = links.default;
        let world = turmoil::Builder::new()
            .tick_duration(duration(TICK))
            .simulation_duration(LONGEST_RUN)
            .min_message_latency(duration(default.latency))
            .max_message_latency(duration(default.latency + default.jitter))
            .tcp_capacity(CAPACITY)
            .rng_seed(seed.child("turmoil", 0).0)
            .build();
        let network = Rc::new(Network {
            names: RefCell::default(),
            choices: RefCell::new(seed.generator("choices", 0)),
            elapsed: Cell::new(Time::ZERO),
        });
        let installed = hook::install(Rc::clone(&network) as _);
        Ok(Self {
            world,
            links,
            network,
            hosts: BTreeMap::new(),
            cuts: BTreeSet::new(),
            holds: BTreeSet::new(),
            _installed: installed,
        })
    }

    /// Makes the link between two hosts what it should be: its latency, cuts and holds.
    fn set_link(&self, one: IpAddr, other: IpAddr) {
        let known = |host| self.hosts.contains_key(&host);
        if one == other || !known(one) || !known(other) {
            return;
        }
        let there = self.links.from_to(one, other);
        let back = self.links.from_to(other, one);
        if there != self.links.default || back != self.links.default {
            let latency = there.latency.max(back.latency);
            self.world.set_link_latency(one, other, duration(latency));
        }
        let ways = [(one, other), (other, one)];
        if ways.iter().any(|way| self.holds.contains(way)) {
            self.world.hold(one, other);
            return;
        }
        self.world.release(one, other);
        for (from, to) in ways {
            if self.cuts.contains(&(from, to)) {
                self.world.partition_oneway(from, to);
            }
        }
    }
}

impl Substrate for TurmoilSubstrate {
    fn now(&self) -> Time {
        self.network.elapsed.get()
    }

    fn clock(&self) -> Rc<dyn Clock> {
        Rc::clone(&self.network) as _
    }

    fn name(&mut self, name: &str, host: IpAddr) {
        let mut names = self.network.names.borrow_mut();
        names.insert(name.to_owned(), host);
    }

    fn host(&mut self, host: IpAddr, software: LocalFuture) {
        if let Some(known) = self.hosts.get_mut(&host) {
            known.software.waiting.borrow_mut().push(software);
            known.software.more.notify_one();
            return;
        }
        let own = Rc::new(Software::default());
        own.waiting.borrow_mut().push(software);
        let running = Rc::clone(&own);
        self.hosts.insert(host, Host { software: own });
        self.world
            .host(host, move || run_all(host, Rc::clone(&running)));
        for other in self.hosts.keys() {
            self.set_link(host, *other);
        }
    }

    fn step(&mut self, until: Time) -> Progress {
        if self.now() >= until {
            return Progress::Reached(until);
        }
        // Software runs in tasks of its own, so a host as such never fails.
        if self.world.step().is_err() {
            return Progress::Idle;
        }
        let elapsed = self.now() + TICK;
        self.network.elapsed.set(elapsed);
        sim_entropy::set_elapsed_ns(elapsed.as_nanos());
        if let Some(host) = hook::take_panics().first() {
            return Progress::Panicked(*host);
        }
        match elapsed >= until {
            true => Progress::Reached(until),
            false => Progress::Going,
        }
    }

    fn crash(&mut self, host: IpAddr) {
        // Turmoil's own crash drops tasks outside of their runtime, where code of others that
        // spawns as it is dropped panics. Aborted tasks end with the next tick.
        if let Some(known) = self.hosts.get(&host) {
            known.software.waiting.take();
            hook::crash(host);
        }
    }

    fn cut(&mut self, from: IpAddr, to: IpAddr) {
        self.cuts.insert((from, to));
        self.set_link(from, to);
    }

    fn heal(&mut self, from: IpAddr, to: IpAddr) {
        self.cuts.remove(&(from, to));
        self.set_link(from, to);
    }

    fn hold(&mut self, from: IpAddr, to: IpAddr) {
        self.holds.insert((from, to));
        self.set_link(from, to);
    }

    fn release(&mut self, from: IpAddr, to: IpAddr) {
        self.holds.remove(&(from, to));
        self.set_link(from, to);
    }

    fn set_latency(&mut self, _: IpAddr, _: IpAddr, _: Time) -> Result<(), SimError> {
        let message = "links of turmoil keep their latency: use the event substrate";
        Err(SimError::new("substrate", message))
    }

    fn limit(&mut self, _: IpAddr, _: IpAddr, _: Limit) -> Result<(), SimError> {
        let message = "links of turmoil have no bandwidth: use the event substrate";
        Err(SimError::new("substrate", message))
    }

    fn reset(&mut self, _: IpAddr, _: IpAddr) -> Result<(), SimError> {
        let message = "turmoil has no resets: use the event substrate";
        Err(SimError::new("substrate", message))
    }
}

impl Drop for TurmoilSubstrate {
    /// Lets all software end within its runtime.
    fn drop(&mut self) {
        for host in self.hosts.keys() {
            hook::crash(*host);
        }
        // An error says that there is no more time, and nothing else.
        let _ = self.world.step();
    }
}

/// What turmoil runs on a host: every piece of software in a task, so that each belongs to the
/// host and its panic is told.
async fn run_all(host: IpAddr, software: Rc<Software>) -> turmoil::Result {
    loop {
        for one in software.waiting.take() {
            hook::within(host, || drop(tokio::task::spawn_local(one)));
        }
        software.more.notified().await;
    }
}

impl Clock for Network {
    fn now(&self) -> Time {
        let within = turmoil::in_simulation()
            .then(turmoil::sim_elapsed)
            .flatten();
        within.map_or_else(|| self.elapsed.get(), time)
    }

    fn sleep_until(&self, at: Time) -> LocalFuture {
        Box::pin(async move {
            // Counted from the host's own time, which only it knows.
            let now = turmoil::sim_elapsed().map_or(Time::ZERO, time);
            match at {
                Time::NEVER => pending().await,
                at => tokio::time::sleep(duration(at.since(now))).await,
            }
        })
    }

    fn interrupt(&self) {
        // A step is a tick, and ends with it.
    }
}

impl hook::Network for Network {
    fn connect(&self, _: Option<SocketAddr>, remote: SocketAddr) -> Connecting {
        // Turmoil connects from the host whose runtime is running.
        Box::pin(async move {
            let stream = TcpStream::connect(remote).await?;
            Ok(Arc::new(Stream(Mutex::new(stream))) as Arc<dyn hook::Stream>)
        })
    }

    fn listen(&self, local: SocketAddr, _: u32) -> io::Result<Arc<dyn hook::Listener>> {
        // A host of turmoil has one address, which it does not take for a bind.
        let everywhere = match local {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let binding = pin!(TcpListener::bind((everywhere, local.port())));
        let Poll::Ready(listener) = binding.poll(&mut Context::from_waker(Waker::noop())) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        Ok(Arc::new(Listening {
            listener: Arc::new(listener?),
            accepting: Mutex::new(None),
        }))
    }

    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        super::resolve(&self.names.borrow(), name, port)
    }

    fn choose(&self, options: u32) -> u32 {
        let mut choices = self.choices.borrow_mut();
        choices.random_range(0..options.max(1))
    }
}

/// One end of a connection.
struct Stream(Mutex<TcpStream>);

impl Stream {
    fn lock(&self) -> MutexGuard<'_, TcpStream> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stream").field(&self.lock()).finish()
    }
}

impl hook::Stream for Stream {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.lock().local_addr()
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.lock().peer_addr()
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_read(context, buffer)
    }

    fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.lock().poll_peek(context, buffer)
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        // An error is for the read to tell.
        self.poll_peek(context, &mut buffer).map(|_| Ok(()))
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // Each write is a segment of its own here: several buffers are written as one.
        let mut stream = self.lock();
        match buffers {
            [buffer] => Pin::new(&mut *stream).poll_write(context, buffer),
            buffers => {
                let bytes: Vec<u8> = buffers
                    .iter()
                    .flat_map(|buffer| buffer.iter())
                    .copied()
                    .collect();
                Pin::new(&mut *stream).poll_write(context, &bytes)
            }
        }
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.lock();
        pin!(stream.writable()).poll(context)
    }

    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.lock()).poll_shutdown(context)
    }

    fn set_reset_on_close(&self, reset: bool) -> io::Result<()> {
        match reset {
            true => Err(io::ErrorKind::Unsupported.into()),
            false => Ok(()),
        }
    }
}

type Accepting = Pin<Box<dyn Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send>>;

/// A listener, and the accept that it is at.
struct Listening {
    listener: Arc<TcpListener>,
    accepting: Mutex<Option<Accepting>>,
}

impl fmt::Debug for Listening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listening").finish_non_exhaustive()
    }
}

impl hook::Listener for Listening {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let mut accepting = self
            .accepting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let accept = accepting.get_or_insert_with(|| {
            let listener = Arc::clone(&self.listener);
            Box::pin(async move { listener.accept().await })
        });
        let accepted = ready!(accept.as_mut().poll(context));
        *accepting = None;
        let (stream, from) = accepted?;
        Poll::Ready(Ok((Arc::new(Stream(Mutex::new(stream))), from)))
    }
}

fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.as_nanos())
}

fn time(duration: Duration) -> Time {
    Time::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
