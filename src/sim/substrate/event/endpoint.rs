//! What software holds of the event substrate's network: ends of connections, listeners, attempts,
//! sleeps.
//!
//! Each is a number, so that it can go where client code needs it to go, other threads included;
//! it works on the thread of its network only. Leans on the top of `event`.

use std::future::Future;
use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::hook::{Accepted, Listener, Stream};
use tokio::io::ReadBuf;

use super::with_network;
use crate::machine::Time;

/// One end of a connection; the network knows the rest.
#[derive(Debug)]
pub(super) struct Endpoint {
    network: u64,
    connection: usize,
    end: usize,
    local: SocketAddr,
    peer: SocketAddr,
}

/// A listener.
#[derive(Debug)]
pub(super) struct Listening {
    network: u64,
    listener: u64,
    local: SocketAddr,
}

/// An attempt to connect.
#[derive(Debug)]
pub(super) struct Dialling {
    pub(super) network: u64,
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    pub(super) attempt: Option<u64>,
}

/// A sleep until an exact moment.
#[derive(Debug)]
pub(super) struct Sleep {
    pub(super) network: u64,
    pub(super) at: Time,
    pub(super) timer: Option<u64>,
}

fn gone() -> io::Error {
    ErrorKind::NetworkUnreachable.into()
}

impl Endpoint {
    /// The end of a connection that is there.
    fn of(network: u64, connection: usize, end: usize) -> io::Result<Self> {
        let addresses = with_network(network, |state| {
            let found = state.connection(connection)?;
            Some((found.ends[end].address, found.ends[1 - end].address))
        });
        let (local, peer) = addresses.flatten().ok_or_else(gone)?;
        Ok(Self {
            network,
            connection,
            end,
            local,
            peer,
        })
    }
}

impl Stream for Endpoint {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    fn poll_read(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = with_network(self.network, |state| {
            state.poll_read(self.connection, self.end, context.waker(), buffer)
        });
        poll.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    fn poll_peek(
        &self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        let poll = with_network(self.network, |state| {
            state.poll_peek(self.connection, self.end, context.waker(), buffer)
        });
        poll.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = with_network(self.network, |state| {
            state.poll_read_ready(self.connection, self.end, context.waker())
        });
        poll.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    fn poll_write(
        &self,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = with_network(self.network, |state| {
            state.poll_write(self.connection, self.end, context.waker(), buffers)
        });
        poll.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = with_network(self.network, |state| {
            state.poll_write_ready(self.connection, self.end, context.waker())
        });
        poll.unwrap_or_else(|| Poll::Ready(Err(gone())))
    }

    fn poll_shutdown(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = with_network(self.network, |state| state.shut(self.connection, self.end));
        Poll::Ready(shut.unwrap_or_else(|| Err(gone())))
    }

    fn set_reset_on_close(&self, reset: bool) -> io::Result<()> {
        let set = with_network(self.network, |state| {
            let connection = state.connection(self.connection)?;
            connection.ends[self.end].reset_on_close = reset;
            Some(())
        });
        set.flatten().ok_or_else(gone)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        with_network(self.network, |state| state.close(self.connection, self.end));
    }
}

impl Listening {
    pub(super) fn new(network: u64, listener: u64, local: SocketAddr) -> Self {
        Self {
            network,
            listener,
            local,
        }
    }
}

impl Listener for Listening {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        let poll = with_network(self.network, |state| {
            state.poll_accept(self.listener, context.waker())
        });
        let connection = ready!(poll.unwrap_or_else(|| Poll::Ready(Err(gone()))))?;
        let endpoint = Endpoint::of(self.network, connection, super::connection::SERVER)?;
        let from = endpoint.peer;
        Poll::Ready(Ok((Arc::new(endpoint), from)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        with_network(self.network, |state| state.stop_listening(self.listener));
    }
}

impl Future for Dialling {
    type Output = io::Result<Arc<dyn Stream>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let waker = context.waker();
        let poll = with_network(this.network, |state| {
            let attempt = match this.attempt {
                Some(attempt) => attempt,
                None => match state.dial(this.from, this.to, waker) {
                    Ok(attempt) => *this.attempt.insert(attempt),
                    Err(error) => return Poll::Ready(Err(error)),
                },
            };
            state.poll_dial(attempt, waker)
        });
        let connection = ready!(poll.unwrap_or_else(|| Poll::Ready(Err(gone()))))?;
        this.attempt = None;
        let endpoint = Endpoint::of(this.network, connection, super::connection::CLIENT)?;
        Poll::Ready(Ok(Arc::new(endpoint)))
    }
}

impl Drop for Dialling {
    fn drop(&mut self) {
        if let Some(attempt) = self.attempt {
            with_network(self.network, |state| state.hang_up(attempt));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let waker = context.waker();
        let poll = with_network(this.network, |state| match this.timer {
            None if this.at <= state.now => Poll::Ready(()),
            None => {
                this.timer = Some(state.add_timer(this.at, waker));
                Poll::Pending
            }
            Some(timer) => state.poll_timer(timer, waker),
        });
        // Without its network there is no time either.
        poll.unwrap_or(Poll::Pending)
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            with_network(self.network, |state| state.remove_timer(timer));
        }
    }
}
