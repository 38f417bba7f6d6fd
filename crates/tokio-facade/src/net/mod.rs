//! `tokio::net`, with TCP and name resolution that a [`hook::Network`](crate::hook::Network) can
//! take over.
//!
//! Other sockets, UDP and Unix, are the real crate's. Raw descriptors (`AsFd` and the like) are left
//! out of the TCP types, since a simulated one has none. Leans on `hook`.

pub use real::net::*;

mod address;
mod halves;
mod listener;
mod simulated;
mod socket;
mod stream;

pub use address::{ToSocketAddrs, lookup_host};
pub use listener::TcpListener;
pub use socket::TcpSocket;
pub use stream::TcpStream;

pub mod tcp {
    //! The halves of a TCP stream. Leans on `halves`.

    pub use super::halves::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
}
