//! A TCP listener: the real one or a simulated one. Leans on `hook` and `address`.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::simulated::{self, no_address, unsupported};
use super::{TcpStream, ToSocketAddrs};
use crate::hook::{self, Listener};

/// Connections that wait to be accepted, where nobody said how many.
const BACKLOG: u32 = 1_024;

/// Accepts TCP connections.
#[derive(Debug)]
pub struct TcpListener(Inner);

#[derive(Debug)]
enum Inner {
    System(real::net::TcpListener),
    Simulated(Arc<dyn Listener>),
}

impl TcpListener {
    /// Listens on the first of `address` that is free.
    ///
    /// # Errors
    /// If none is, or none is known.
    pub async fn bind<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        let addresses = address.resolve().await?;
        let Some(network) = hook::network() else {
            let listener = real::net::TcpListener::bind(addresses.as_slice()).await?;
            return Ok(Self(Inner::System(listener)));
        };
        let mut failure = None;
        for address in addresses {
            match network.listen(address, BACKLOG) {
                Ok(listener) => return Ok(Self::simulated(listener)),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(no_address))
    }

    pub(super) fn simulated(listener: Arc<dyn Listener>) -> Self {
        Self(Inner::Simulated(listener))
    }

    pub(super) fn system(listener: real::net::TcpListener) -> Self {
        Self(Inner::System(listener))
    }

    /// Waits for the next connection: it, and the address of its far end.
    ///
    /// # Errors
    /// As `accept` of the system has them.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.0 {
            Inner::System(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((TcpStream::system(stream), from))
            }
            Inner::Simulated(_) => poll_fn(|context| self.poll_accept(context)).await,
        }
    }

    /// Polls for the next connection.
    pub fn poll_accept(
        &self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        Poll::Ready(Ok(match &self.0 {
            Inner::System(listener) => {
                let (stream, from) = ready!(listener.poll_accept(context))?;
                (TcpStream::system(stream), from)
            }
            Inner::Simulated(listener) => {
                let (stream, from) = ready!(listener.poll_accept(context))?;
                (TcpStream::simulated(stream), from)
            }
        }))
    }

    /// Takes over a listener of the standard library: always the system's.
    ///
    /// # Errors
    /// If the runtime cannot watch it.
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        real::net::TcpListener::from_std(listener).map(Self::system)
    }

    /// Gives it to the standard library.
    ///
    /// # Errors
    /// If it is simulated.
    pub fn into_std(self) -> io::Result<std::net::TcpListener> {
        match self.0 {
            Inner::System(listener) => listener.into_std(),
            Inner::Simulated(_) => Err(unsupported("into_std")),
        }
    }

    /// The address that it listens on.
    ///
    /// # Errors
    /// As the system has them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Inner::System(listener) => listener.local_addr(),
            Inner::Simulated(listener) => listener.local_addr(),
        }
    }

    /// The `IP_TTL` option; 64 where it is simulated.
    ///
    /// # Errors
    /// As the system has them.
    pub fn ttl(&self) -> io::Result<u32> {
        match &self.0 {
            Inner::System(listener) => listener.ttl(),
            Inner::Simulated(_) => Ok(simulated::TIME_TO_LIVE),
        }
    }

    /// Sets the `IP_TTL` option; without effect where it is simulated.
    ///
    /// # Errors
    /// As the system has them.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        match &self.0 {
            Inner::System(listener) => listener.set_ttl(ttl),
            Inner::Simulated(_) => Ok(()),
        }
    }
}

impl TryFrom<std::net::TcpListener> for TcpListener {
    type Error = io::Error;

    fn try_from(listener: std::net::TcpListener) -> io::Result<Self> {
        Self::from_std(listener)
    }
}
