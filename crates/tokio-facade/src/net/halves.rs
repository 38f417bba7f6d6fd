//! The halves of a TCP stream, lent or owned: real ones or simulated ones.
//!
//! Lent and owned halves have the same methods; a macro writes them for both. Leans on `simulated`.

use std::error::Error;
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BufMut;
use real::net::tcp as system;

use super::simulated;
use super::stream::{Inner, TcpStream};
use crate::hook::Stream;
use crate::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

/// The reading half of a stream that lends its directions.
#[derive(Debug)]
pub struct ReadHalf<'a>(Half<system::ReadHalf<'a>, &'a Arc<dyn Stream>>);

/// The writing half of a stream that lends its directions.
#[derive(Debug)]
pub struct WriteHalf<'a>(Half<system::WriteHalf<'a>, &'a Arc<dyn Stream>>);

/// The reading half of a stream that was parted.
#[derive(Debug)]
pub struct OwnedReadHalf(Half<system::OwnedReadHalf, Arc<dyn Stream>>);

/// The writing half of a stream that was parted. Dropping it ends its direction.
#[derive(Debug)]
pub struct OwnedWriteHalf(Option<Half<system::OwnedWriteHalf, Arc<dyn Stream>>>);

/// Halves that are not of one stream; both are given back.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

#[derive(Debug)]
enum Half<S, T> {
    System(S),
    Simulated(T),
}

pub(super) fn lend(inner: &mut Inner) -> (ReadHalf<'_>, WriteHalf<'_>) {
    match inner {
        Inner::System(stream) => {
            let (read, write) = stream.split();
            (ReadHalf(Half::System(read)), WriteHalf(Half::System(write)))
        }
        Inner::Simulated(stream) => (
            ReadHalf(Half::Simulated(stream)),
            WriteHalf(Half::Simulated(stream)),
        ),
    }
}

pub(super) fn part(inner: Inner) -> (OwnedReadHalf, OwnedWriteHalf) {
    match inner {
        Inner::System(stream) => {
            let (read, write) = stream.into_split();
            (
                OwnedReadHalf(Half::System(read)),
                OwnedWriteHalf(Some(Half::System(write))),
            )
        }
        Inner::Simulated(stream) => (
            OwnedReadHalf(Half::Simulated(Arc::clone(&stream))),
            OwnedWriteHalf(Some(Half::Simulated(stream))),
        ),
    }
}

/// Methods of both kinds of halves. `$half` gives the [`Half`] of `self`.
macro_rules! common {
    ($self:ident => $half:expr) => {
        /// Waits until one of `interest` would not wait.
        ///
        /// # Errors
        /// As the system has them.
        pub async fn ready(&$self, interest: Interest) -> io::Result<Ready> {
            match $half {
                Half::System(half) => half.ready(interest).await,
                Half::Simulated(stream) => simulated::ready(stream.as_ref(), interest).await,
            }
        }

        /// The address of the far end.
        ///
        /// # Errors
        /// As the system has them.
        pub fn peer_addr(&$self) -> io::Result<SocketAddr> {
            match $half {
                Half::System(half) => half.peer_addr(),
                Half::Simulated(stream) => stream.peer_addr(),
            }
        }

        /// The address of this end.
        ///
        /// # Errors
        /// As the system has them.
        pub fn local_addr(&$self) -> io::Result<SocketAddr> {
            match $half {
                Half::System(half) => half.local_addr(),
                Half::Simulated(stream) => stream.local_addr(),
            }
        }
    };
}

macro_rules! reading {
    ($type:ty) => {
        impl $type {
            common!(self => &self.0);

            /// Reads without taking.
            ///
            /// # Errors
            /// As a read has them.
            pub async fn peek(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                match &mut self.0 {
                    Half::System(half) => half.peek(buffer).await,
                    Half::Simulated(stream) => simulated::peek(stream.as_ref(), buffer).await,
                }
            }

            /// Polls for bytes without taking them.
            pub fn poll_peek(
                &mut self,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                match &mut self.0 {
                    Half::System(half) => half.poll_peek(context, buffer),
                    Half::Simulated(stream) => stream.poll_peek(context, buffer),
                }
            }

            /// Waits until a read would not wait.
            ///
            /// # Errors
            /// As the system has them.
            pub async fn readable(&self) -> io::Result<()> {
                self.ready(Interest::READABLE).await.map(drop)
            }

            /// Reads what is there.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is; else as a read has them.
            pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
                match &self.0 {
                    Half::System(half) => half.try_read(buffer),
                    Half::Simulated(stream) => simulated::try_read(stream.as_ref(), buffer),
                }
            }

            /// Reads what is there into several buffers; a simulated stream fills one.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is; else as a read has them.
            pub fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                match &self.0 {
                    Half::System(half) => half.try_read_vectored(buffers),
                    Half::Simulated(stream) => {
                        simulated::try_read_vectored(stream.as_ref(), buffers)
                    }
                }
            }

            /// Reads what is there and appends it.
            ///
            /// # Errors
            /// `WouldBlock` if nothing is; else as a read has them.
            pub fn try_read_buf<B: BufMut>(&self, buffer: &mut B) -> io::Result<usize> {
                match &self.0 {
                    Half::System(half) => half.try_read_buf(buffer),
                    Half::Simulated(stream) => simulated::try_read_buf(stream.as_ref(), buffer),
                }
            }
        }

        impl AsyncRead for $type {
            #[inline]
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                match &mut self.get_mut().0 {
                    Half::System(half) => Pin::new(half).poll_read(context, buffer),
                    Half::Simulated(stream) => stream.poll_read(context, buffer),
                }
            }
        }
    };
}

macro_rules! writing {
    ($type:ty, $self:ident => $half:expr, $half_mut:expr) => {
        impl $type {
            common!($self => $half);

            /// Waits until a write would not wait.
            ///
            /// # Errors
            /// As the system has them.
            pub async fn writable(&self) -> io::Result<()> {
                self.ready(Interest::WRITABLE).await.map(drop)
            }

            /// Writes what there is room for.
            ///
            /// # Errors
            /// `WouldBlock` if there is none; else as a write has them.
            pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
                self.try_write_vectored(&[IoSlice::new(bytes)])
            }

            /// Writes what there is room for, from several buffers.
            ///
            /// # Errors
            /// `WouldBlock` if there is none; else as a write has them.
            pub fn try_write_vectored(&$self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
                match $half {
                    Half::System(half) => half.try_write_vectored(buffers),
                    Half::Simulated(stream) => {
                        simulated::try_write_vectored(stream.as_ref(), buffers)
                    }
                }
            }
        }

        impl AsyncWrite for $type {
            #[inline]
            fn poll_write(
                $self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                match $half_mut {
                    Half::System(half) => Pin::new(half).poll_write(context, bytes),
                    Half::Simulated(stream) => stream.poll_write(context, &[IoSlice::new(bytes)]),
                }
            }

            #[inline]
            fn poll_write_vectored(
                $self: Pin<&mut Self>,
                context: &mut Context<'_>,
                buffers: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                match $half_mut {
                    Half::System(half) => Pin::new(half).poll_write_vectored(context, buffers),
                    Half::Simulated(stream) => stream.poll_write(context, buffers),
                }
            }

            #[inline]
            fn is_write_vectored(&$self) -> bool {
                match $half {
                    Half::System(half) => half.is_write_vectored(),
                    Half::Simulated(_) => true,
                }
            }

            #[inline]
            fn poll_flush(
                $self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match $half_mut {
                    Half::System(half) => Pin::new(half).poll_flush(context),
                    Half::Simulated(_) => Poll::Ready(Ok(())),
                }
            }

            #[inline]
            fn poll_shutdown(
                $self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<io::Result<()>> {
                match $half_mut {
                    Half::System(half) => Pin::new(half).poll_shutdown(context),
                    Half::Simulated(stream) => stream.poll_shutdown(context),
                }
            }
        }
    };
}

reading!(ReadHalf<'_>);
reading!(OwnedReadHalf);
writing!(WriteHalf<'_>, self => &self.0, &mut self.get_mut().0);
writing!(OwnedWriteHalf, self => self.half(), self.get_mut().half_mut());

impl OwnedReadHalf {
    /// Puts the halves of one stream together again.
    ///
    /// # Errors
    /// If they are not of one stream.
    pub fn reunite(self, other: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        let mut other = other;
        match (self.0, other.0.take()) {
            (Half::System(read), Some(Half::System(write))) => {
                read.reunite(write).map(TcpStream::system).map_err(|error| {
                    let (read, write) = (Half::System(error.0), Half::System(error.1));
                    ReuniteError(Self(read), OwnedWriteHalf(Some(write)))
                })
            }
            (Half::Simulated(read), Some(Half::Simulated(write))) if Arc::ptr_eq(&read, &write) => {
                Ok(TcpStream::simulated(read))
            }
            (read, write) => Err(ReuniteError(Self(read), OwnedWriteHalf(write))),
        }
    }
}

impl OwnedWriteHalf {
    /// Puts the halves of one stream together again.
    ///
    /// # Errors
    /// If they are not of one stream.
    pub fn reunite(self, other: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        other.reunite(self)
    }

    /// Drops it without ending its direction.
    pub fn forget(mut self) {
        if let Some(Half::System(half)) = self.0.take() {
            half.forget();
        }
    }

    fn half(&self) -> &Half<system::OwnedWriteHalf, Arc<dyn Stream>> {
        self.0.as_ref().expect("only what consumes takes the half")
    }

    fn half_mut(&mut self) -> &mut Half<system::OwnedWriteHalf, Arc<dyn Stream>> {
        self.0.as_mut().expect("only what consumes takes the half")
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if let Some(Half::Simulated(stream)) = &self.0 {
            // A connection that has ended already has no direction to end.
            let _ = stream.poll_shutdown(&mut Context::from_waker(Waker::noop()));
        }
    }
}

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tried to reunite halves that are not from the same socket")
    }
}

impl Error for ReuniteError {}
