//! Addresses and their resolution.
//!
//! The real trait keeps its work to itself, so a name could not be got out of it: this is one of
//! our own, for the same types. Leans on `hook`.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::hook;

/// What can be turned into addresses, with a look-up of names where that is needed.
pub trait ToSocketAddrs: private::Resolve {}

impl<T: private::Resolve + ?Sized> ToSocketAddrs for T {}

/// The addresses of `host`.
///
/// # Errors
/// If the name is not known, or the text is no name and port.
pub async fn lookup_host<T: ToSocketAddrs>(
    host: T,
) -> io::Result<impl Iterator<Item = SocketAddr>> {
    host.resolve().await.map(Vec::into_iter)
}

/// Where name resolution ends.
async fn resolve_name(name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    // The network stays on its thread: it is not held while the system looks a name up.
    let simulated = hook::network().map(|network| network.resolve(name, port));
    match simulated {
        Some(addresses) => addresses,
        None => Ok(real::net::lookup_host((name, port)).await?.collect()),
    }
}

async fn resolve_text(text: &str) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    let invalid = |message| io::Error::new(io::ErrorKind::InvalidInput, message);
    let (name, port) = text
        .rsplit_once(':')
        .ok_or_else(|| invalid("invalid socket address"))?;
    let port = port.parse().map_err(|_| invalid("invalid port value"))?;
    resolve_name(name, port).await
}

pub(super) mod private {
    use super::{Future, SocketAddr, io};

    /// The work behind the public trait.
    pub trait Resolve {
        fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
    }
}

/// Types that are addresses already.
macro_rules! known {
    ($($type:ty),+) => {$(
        impl private::Resolve for $type {
            fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
                std::future::ready(Ok(vec![SocketAddr::from(*self)]))
            }
        }
    )+};
}

known!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl private::Resolve for &[SocketAddr] {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        std::future::ready(Ok(self.to_vec()))
    }
}

impl private::Resolve for str {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        let text = self.to_owned();
        async move { resolve_text(&text).await }
    }
}

impl private::Resolve for String {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        self.as_str().resolve()
    }
}

impl private::Resolve for (&str, u16) {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        let (name, port) = (self.0.to_owned(), self.1);
        async move { resolve_name(&name, port).await }
    }
}

impl private::Resolve for (String, u16) {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        let (name, port) = (self.0.clone(), self.1);
        async move { resolve_name(&name, port).await }
    }
}

impl<T: private::Resolve + ?Sized> private::Resolve for &T {
    fn resolve(&self) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send {
        (**self).resolve()
    }
}
