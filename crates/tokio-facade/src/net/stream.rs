//! A TCP stream: the real one or a simulated one. Leans on `hook`, `address` and `simulated`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BufMut;

use super::ToSocketAddrs;
use super::halves::{self, OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::simulated::{self, network_is_gone, no_address, unsupported};
use crate::hook::{self, Stream};
use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

/// A TCP connection.
#[derive(Debug)]
pub struct TcpStream(Inner);

#[derive(Debug)]
pub(super) enum Inner {
    System(real::net::TcpStream),
    Simulated(Arc<dyn Stream>),
}

impl TcpStream {
    /// Connects to the first of `address` that answers.
    ///
    /// # Errors
    /// If none does, or none is known.
    pub async fn connect<A: ToSocketAddrs>(address: A) -> io::Result<Self> {
        let addresses = address.resolve().await?;
        if hook::network().is_none() {
            let stream = real::net::TcpStream::connect(addresses.as_slice()).await?;
            return Ok(Self::system(stream));
        }
        let mut failure = None;
        for address in addresses {
            match Self::connect_simulated(None, address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(no_address))
    }

    pub(super) async fn connect_simulated(
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> io::Result<Self> {
        let connecting = {
            let network = hook::network().ok_or_else(network_is_gone)?;
            network.connect(local, remote)
        };
        connecting.await.map(Self::simulated)
    }

    #[inline]
    pub(super) fn system(stream: real::net::TcpStream) -> Self {
        Self(Inner::System(stream))
    }

    pub(super) fn simulated(stream: Arc<dyn Stream>) -> Self {
        Self(Inner::Simulated(stream))
    }

    /// Takes over a stream of the standard library: always the system's.
    ///
    /// # Errors
    /// If the runtime cannot watch it.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        real::net::TcpStream::from_std(stream).map(Self::system)
    }

    /// Gives it to the standard library.
    ///
    /// # Errors
    /// If it is simulated.
    pub fn into_std(self) -> io::Result<std::net::TcpStream> {
        match self.0 {
            Inner::System(stream) => stream.into_std(),
            Inner::Simulated(_) => Err(unsupported("into_std")),
        }
    }

    /// The address of this end.
    ///
    /// # Errors
    /// As the system has them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Inner::System(stream) => stream.local_addr(),
            Inner::Simulated(stream) => stream.local_addr(),
        }
    }

    /// The address of the far end.
    ///
    /// # Errors
    /// As the system has them.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.0 {
            Inner::System(stream) => stream.peer_addr(),
            Inner::Simulated(stream) => stream.peer_addr(),
        }
    }

    /// Takes the error that the socket has come to, if any. A simulated one tells its errors by its
    /// reads and writes.
    ///
    /// # Errors
    /// As the system has them.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        match &self.0 {
            Inner::System(stream) => stream.take_error(),
            Inner::Simulated(_) => Ok(None),
        }
    }

    /// Reads without taking.
    ///
    /// # Errors
    /// As a read has them.
    pub async fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.peek(buffer).await,
            Inner::Simulated(stream) => simulated::peek(stream.as_ref(), buffer).await,
        }
    }

    /// Polls for bytes without taking them.
    pub fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        match &self.0 {
            Inner::System(stream) => stream.poll_peek(context, buffer),
            Inner::Simulated(stream) => stream.poll_peek(context, buffer),
        }
    }

    /// Waits until one of `interest` would not wait.
    ///
    /// # Errors
    /// As the system has them.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match &self.0 {
            Inner::System(stream) => stream.ready(interest).await,
            Inner::Simulated(stream) => simulated::ready(stream.as_ref(), interest).await,
        }
    }

    /// Waits until a read would not wait.
    ///
    /// # Errors
    /// As the system has them.
    pub async fn readable(&self) -> io::Result<()> {
        self.ready(Interest::READABLE).await.map(drop)
    }

    /// Waits until a write would not wait.
    ///
    /// # Errors
    /// As the system has them.
    pub async fn writable(&self) -> io::Result<()> {
        self.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Ready when a read would not wait.
    pub fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Inner::System(stream) => stream.poll_read_ready(context),
            Inner::Simulated(stream) => stream.poll_read_ready(context),
        }
    }

    /// Ready when a write would not wait.
    pub fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Inner::System(stream) => stream.poll_write_ready(context),
            Inner::Simulated(stream) => stream.poll_write_ready(context),
        }
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is; else as a read has them.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.try_read(buffer),
            Inner::Simulated(stream) => simulated::try_read(stream.as_ref(), buffer),
        }
    }

    /// Reads what is there into the first of `buffers` that has room; a system's stream fills all.
    ///
    /// # Errors
    /// As [`TcpStream::try_read`].
    pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.try_read_vectored(buffers),
            Inner::Simulated(stream) => simulated::try_read_vectored(stream.as_ref(), buffers),
        }
    }

    /// Reads what is there and appends it.
    ///
    /// # Errors
    /// As [`TcpStream::try_read`].
    pub fn try_read_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.try_read_buf(buffer),
            Inner::Simulated(stream) => simulated::try_read_buf(stream.as_ref(), buffer),
        }
    }

    /// Writes what there is room for.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; else as a write has them.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.try_write(bytes),
            Inner::Simulated(_) => self.try_write_vectored(&[IoSlice::new(bytes)]),
        }
    }

    /// Writes what there is room for, from several buffers.
    ///
    /// # Errors
    /// As [`TcpStream::try_write`].
    pub fn try_write_vectored(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.0 {
            Inner::System(stream) => stream.try_write_vectored(buffers),
            Inner::Simulated(stream) => simulated::try_write_vectored(stream.as_ref(), buffers),
        }
    }

    /// The `TCP_NODELAY` option; simulated streams never delay.
    ///
    /// # Errors
    /// As the system has them.
    pub fn nodelay(&self) -> io::Result<bool> {
        match &self.0 {
            Inner::System(stream) => stream.nodelay(),
            Inner::Simulated(_) => Ok(true),
        }
    }

    /// Sets the `TCP_NODELAY` option; without effect where it is simulated.
    ///
    /// # Errors
    /// As the system has them.
    pub fn set_nodelay(&self, no_delay: bool) -> io::Result<()> {
        match &self.0 {
            Inner::System(stream) => stream.set_nodelay(no_delay),
            Inner::Simulated(_) => Ok(()),
        }
    }

    /// What `SO_LINGER` is set to; simulated streams do not wait when they close.
    ///
    /// # Errors
    /// As the system has them.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        match &self.0 {
            Inner::System(stream) => stream.linger(),
            Inner::Simulated(_) => Ok(None),
        }
    }

    /// Sets `SO_LINGER` to close at once, with a reset.
    ///
    /// # Errors
    /// As the system has them.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        match &self.0 {
            Inner::System(stream) => stream.set_zero_linger(),
            Inner::Simulated(stream) => stream.set_reset_on_close(true),
        }
    }

    /// The `IP_TTL` option; 64 where it is simulated.
    ///
    /// # Errors
    /// As the system has them.
    pub fn ttl(&self) -> io::Result<u32> {
        match &self.0 {
            Inner::System(stream) => stream.ttl(),
            Inner::Simulated(_) => Ok(simulated::TIME_TO_LIVE),
        }
    }

    /// Sets the `IP_TTL` option; without effect where it is simulated.
    ///
    /// # Errors
    /// As the system has them.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        match &self.0 {
            Inner::System(stream) => stream.set_ttl(ttl),
            Inner::Simulated(_) => Ok(()),
        }
    }

    /// Lends the two directions.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        halves::lend(&mut self.0)
    }

    /// Parts the two directions, each with an owner.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        halves::part(self.0)
    }
}

impl AsyncRead for TcpStream {
    #[inline]
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::System(stream) => Pin::new(stream).poll_read(context, buffer),
            Inner::Simulated(stream) => stream.poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for TcpStream {
    #[inline]
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Inner::System(stream) => Pin::new(stream).poll_write(context, bytes),
            Inner::Simulated(stream) => stream.poll_write(context, &[IoSlice::new(bytes)]),
        }
    }

    #[inline]
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().0 {
            Inner::System(stream) => Pin::new(stream).poll_write_vectored(context, buffers),
            Inner::Simulated(stream) => stream.poll_write(context, buffers),
        }
    }

    #[inline]
    fn is_write_vectored(&self) -> bool {
        match &self.0 {
            Inner::System(stream) => stream.is_write_vectored(),
            Inner::Simulated(_) => true,
        }
    }

    #[inline]
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::System(stream) => Pin::new(stream).poll_flush(context),
            Inner::Simulated(_) => Poll::Ready(Ok(())),
        }
    }

    #[inline]
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().0 {
            Inner::System(stream) => Pin::new(stream).poll_shutdown(context),
            Inner::Simulated(stream) => stream.poll_shutdown(context),
        }
    }
}

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        Self::from_std(stream)
    }
}

impl AsRef<Self> for TcpStream {
    fn as_ref(&self) -> &Self {
        self
    }
}
