//! A TCP socket before it connects or listens. Leans on `hook`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::simulated::network_is_gone;
use super::{TcpListener, TcpStream};
use crate::hook;

/// A socket that is neither connected nor listening.
pub struct TcpSocket(Inner);

enum Inner {
    System(real::net::TcpSocket),
    Simulated(Simulated),
}

/// A simulated socket remembers where it is bound and what was asked for.
struct Simulated {
    unspecified: IpAddr,
    options: Mutex<Options>,
}

#[derive(Clone, Copy, Default)]
struct Options {
    local: Option<SocketAddr>,
    keepalive: bool,
    reuse_address: bool,
    reuse_port: bool,
    no_delay: bool,
    send_buffer_bytes: u32,
    receive_buffer_bytes: u32,
    linger: Option<Duration>,
}

/// Options that change nothing in a simulated network: they are kept and given back.
macro_rules! options {
    ($($(#[$docs:meta])* $set:ident, $get:ident: $type:ty = $field:ident;)+) => {$(
        $(#[$docs])*
        ///
        /// # Errors
        /// As the system has them.
        pub fn $set(&self, value: $type) -> io::Result<()> {
            match &self.0 {
                Inner::System(socket) => socket.$set(value),
                Inner::Simulated(socket) => {
                    socket.options().$field = value;
                    Ok(())
                }
            }
        }

        /// What the option of this name is set to.
        ///
        /// # Errors
        /// As the system has them.
        pub fn $get(&self) -> io::Result<$type> {
            match &self.0 {
                Inner::System(socket) => socket.$get(),
                Inner::Simulated(socket) => Ok(socket.options().$field),
            }
        }
    )+};
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    /// As the system has them.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Ipv4Addr::UNSPECIFIED.into(), real::net::TcpSocket::new_v4)
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    /// As the system has them.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Ipv6Addr::UNSPECIFIED.into(), real::net::TcpSocket::new_v6)
    }

    fn new(
        unspecified: IpAddr,
        system: impl FnOnce() -> io::Result<real::net::TcpSocket>,
    ) -> io::Result<Self> {
        if hook::network().is_none() {
            return Ok(Self(Inner::System(system()?)));
        }
        Ok(Self(Inner::Simulated(Simulated {
            unspecified,
            options: Mutex::default(),
        })))
    }

    options! {
        /// Sets `SO_KEEPALIVE`.
        set_keepalive, keepalive: bool = keepalive;
        /// Sets `SO_REUSEADDR`.
        set_reuseaddr, reuseaddr: bool = reuse_address;
        /// Sets `TCP_NODELAY`.
        set_nodelay, nodelay: bool = no_delay;
        /// Sets `SO_SNDBUF`.
        set_send_buffer_size, send_buffer_size: u32 = send_buffer_bytes;
        /// Sets `SO_RCVBUF`.
        set_recv_buffer_size, recv_buffer_size: u32 = receive_buffer_bytes;
    }

    #[cfg(unix)]
    options! {
        /// Sets `SO_REUSEPORT`.
        set_reuseport, reuseport: bool = reuse_port;
    }

    /// Sets `SO_LINGER` to close at once, with a reset.
    ///
    /// # Errors
    /// As the system has them.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        match &self.0 {
            Inner::System(socket) => socket.set_zero_linger(),
            Inner::Simulated(socket) => {
                socket.options().linger = Some(Duration::ZERO);
                Ok(())
            }
        }
    }

    /// What `SO_LINGER` is set to.
    ///
    /// # Errors
    /// As the system has them.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        match &self.0 {
            Inner::System(socket) => socket.linger(),
            Inner::Simulated(socket) => Ok(socket.options().linger),
        }
    }

    /// The address that it is bound to.
    ///
    /// # Errors
    /// As the system has them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Inner::System(socket) => socket.local_addr(),
            Inner::Simulated(socket) => Ok(socket.local()),
        }
    }

    /// Takes the error that the socket has come to, if any.
    ///
    /// # Errors
    /// As the system has them.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match &self.0 {
            Inner::System(socket) => socket.take_error(),
            Inner::Simulated(_) => Ok(None),
        }
    }

    /// Binds it. In a simulated network the address says which host connects.
    ///
    /// # Errors
    /// As the system has them; in a simulated network the connect or listen tells.
    pub fn bind(&self, address: SocketAddr) -> io::Result<()> {
        match &self.0 {
            Inner::System(socket) => socket.bind(address),
            Inner::Simulated(socket) => {
                socket.options().local = Some(address);
                Ok(())
            }
        }
    }

    /// Connects it.
    ///
    /// # Errors
    /// As a connect has them.
    pub async fn connect(self, address: SocketAddr) -> io::Result<TcpStream> {
        match self.0 {
            Inner::System(socket) => Ok(TcpStream::system(socket.connect(address).await?)),
            Inner::Simulated(socket) => {
                let options = *socket.options();
                let stream = TcpStream::connect_simulated(options.local, address).await?;
                if options.linger == Some(Duration::ZERO) {
                    stream.set_zero_linger()?;
                }
                Ok(stream)
            }
        }
    }

    /// Turns it into a listener with a queue of `backlog` connections.
    ///
    /// # Errors
    /// As the system has them.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        match self.0 {
            Inner::System(socket) => Ok(TcpListener::system(socket.listen(backlog)?)),
            Inner::Simulated(socket) => {
                let network = hook::network().ok_or_else(network_is_gone)?;
                let listener = network.listen(socket.local(), backlog)?;
                Ok(TcpListener::simulated(listener))
            }
        }
    }

    /// Takes over a stream of the standard library that is not connected: always the system's.
    pub fn from_std_stream(stream: std::net::TcpStream) -> Self {
        Self(Inner::System(real::net::TcpSocket::from_std_stream(stream)))
    }
}

impl Simulated {
    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn local(&self) -> SocketAddr {
        let local = self.options().local;
        local.unwrap_or_else(|| SocketAddr::new(self.unspecified, 0))
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::System(socket) => socket.fmt(f),
            Inner::Simulated(socket) => f.debug_tuple("TcpSocket").field(&socket.local()).finish(),
        }
    }
}
