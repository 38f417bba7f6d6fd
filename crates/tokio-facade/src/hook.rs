//! The seam: what a simulated network answers, and how a thread gets one.
//!
//! A network is installed on a thread, and counts for that thread only; every other thread keeps
//! the operating system's. Simulated code stays on its thread: a current-thread runtime. Hosts are
//! named by their address. Leans on the standard library and, for tasks, on `host`.

use std::cell::RefCell;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::io::ReadBuf;

#[cfg(feature = "rt")]
pub use crate::host::{OnHost, crash, current_host, on_host, polls, take_panics, tasks, within};

/// A connection that is being made.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Arc<dyn Stream>>> + Send>>;

/// What an accept gives: the connection and the address of its far end.
pub type Accepted = (Arc<dyn Stream>, SocketAddr);

/// A network in the place of the operating system's.
///
/// Called on the thread on which it is installed, and there only. Where an address is unspecified
/// (`0.0.0.0`, or none), the network takes that of the current host (`current_host`).
pub trait Network {
    /// Connects to `remote`, from `local` if the caller bound its socket.
    ///
    /// Nothing happens before the first poll. The result may fail as a connect does: refused,
    /// timed out, address in use.
    fn connect(&self, local: Option<SocketAddr>, remote: SocketAddr) -> Connecting;

    /// Listens on `local`; port 0 asks for a free one. At most `backlog` connections wait to be
    /// accepted.
    ///
    /// # Errors
    /// As `bind` and `listen` have them: address in use, address not available.
    fn listen(&self, local: SocketAddr, backlog: u32) -> io::Result<Arc<dyn Listener>>;

    /// The addresses of a name. Called for names only, never for addresses in text form.
    ///
    /// # Errors
    /// If there is no such name.
    fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// A draw from `0..options`; `options` is 1 or more. For the fairness of `select!`.
    fn choose(&self, options: u32) -> u32;
}

/// One end of a simulated connection. Dropping the last reference closes it.
///
/// Methods take `&self`, as those of a socket do: the halves of a stream share it. At most one task
/// waits in each direction; the newest waker counts.
pub trait Stream: Send + Sync + fmt::Debug {
    /// The address of this end.
    ///
    /// # Errors
    /// If the network is gone.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The address of the far end.
    ///
    /// # Errors
    /// If the network is gone.
    fn peer_addr(&self) -> io::Result<SocketAddr>;

    /// Reads into `buffer`; nothing read and ready is the end of the stream.
    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;

    /// Reads without taking; how many bytes were copied.
    fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>>;

    /// Ready when a read would not wait.
    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Writes from the front of `buffers`; how many bytes were taken.
    fn poll_write(
        &self,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>>;

    /// Ready when a write would not wait.
    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ends the direction towards the far end, which reads what is under way and then the end.
    fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Whether closing sends a reset, and drops what is under way, as `SO_LINGER` of zero does.
    ///
    /// # Errors
    /// If the network has no resets.
    fn set_reset_on_close(&self, reset: bool) -> io::Result<()>;
}

/// A simulated listener. Dropping the last reference closes it.
pub trait Listener: Send + Sync + fmt::Debug {
    /// The address that it listens on.
    ///
    /// # Errors
    /// If the network is gone.
    fn local_addr(&self) -> io::Result<SocketAddr>;

    /// The next connection. The newest waker counts.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>>;
}

thread_local! {
    static NETWORK: RefCell<Option<Rc<dyn Network>>> = const { RefCell::new(None) };
}

/// Puts a network on this thread until the guard is dropped; the one before it is then back.
pub fn install(network: Rc<dyn Network>) -> Installed {
    let before = NETWORK.replace(Some(network));
    Installed {
        before,
        thread_bound: PhantomData,
    }
}

/// Keeps a network installed. Guards are dropped in the opposite order of their making.
#[must_use = "dropping it takes the network away again"]
pub struct Installed {
    before: Option<Rc<dyn Network>>,
    thread_bound: PhantomData<Rc<()>>,
}

impl Drop for Installed {
    fn drop(&mut self) {
        // Dropped outside of the cell: a network may drop streams that ask for it.
        let own = NETWORK.try_with(|network| network.replace(self.before.take()));
        drop(own);
    }
}

impl fmt::Debug for Installed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installed").finish_non_exhaustive()
    }
}

/// The network of this thread; none where the operating system's counts.
pub fn network() -> Option<Rc<dyn Network>> {
    NETWORK
        .try_with(|network| network.borrow().clone())
        .ok()
        .flatten()
}

/// A draw by the network of this thread, if it has one.
#[cfg_attr(not(feature = "macros"), expect(dead_code, reason = "for `select!`"))]
pub(crate) fn choose(options: u32) -> Option<u32> {
    network().map(|network| network.choose(options))
}
