//! The wire lane: real client code over the client protocol, in simulated time.
//!
//! The modelled server stands behind its front on one host, each publisher with its connection on a
//! host of its own, and a substrate carries the bytes between them. `clock` starts the run once
//! everybody is connected, `seat` is the world as a publisher sees it, `rest` says what is on the way, `crew` is what publishers and
//! server do, `run` drives it all and makes the faults of links. Leans on `substrate`, `serve`,
//! `load` and `client`.

mod clock;
mod crew;
mod rest;
mod run;
mod seat;

pub(super) use run::run;

use std::net::{IpAddr, Ipv4Addr};

use crate::event::PublisherId;

/// Host of the server, and its port.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PORT: u16 = 4_222;

/// The host of a publisher.
const fn host_of(publisher: PublisherId) -> IpAddr {
    let [_, high, middle, low] = publisher.0.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, high + 1, middle, low))
}

/// The publisher on a host.
fn publisher_on(host: &str) -> Option<PublisherId> {
    let IpAddr::V4(host) = host.parse().ok()? else {
        return None;
    };
    let [_, high, middle, low] = host.octets();
    let number = u32::from_be_bytes([0, high.checked_sub(1)?, middle, low]);
    Some(PublisherId(number))
}
