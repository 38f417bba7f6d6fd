//! The links and routes of servers of our own, where a run disturbs them: doors before every server, kept by a
//! thread of their own.
//!
//! Clients know the doors alone, and so do the other servers: each has a door of its own to each other one, so
//! that a single route can be disturbed, and one way. What servers tell each other of further addresses leads
//! nowhere, so that no connection passes a door by. Leans on `door`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;

use tokio::net::TcpSocket;
use tokio::sync::oneshot;

use super::clock::Clock;
use super::door::{Course, Door, Keeper, Trouble};
use super::error::LiveError;
use super::wire::{Wire, Wires};
use crate::event::PublisherId;
use crate::server::disturb::Routes;

/// What a trouble is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// The link of this publisher, or of each.
    Publisher(Option<PublisherId>),
    /// Routes of a server, by number.
    Routes(u8, Routes),
}

/// Doors before servers.
#[derive(Debug)]
pub(super) struct Links {
    clients: Vec<ClientDoors>,
    /// Whose door to whom, by number.
    routes: BTreeMap<(usize, usize), Door>,
    /// An address of each server that is told and where nobody listens.
    nowhere: Vec<(TcpSocket, SocketAddr)>,
    /// Ends the thread by going away.
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The doors of one server for its clients.
#[derive(Debug)]
struct ClientDoors {
    /// For whoever is no publisher: no fault of links is about it.
    aside: Door,
    publishers: Door,
    /// Of publishers that a fault names.
    named: BTreeMap<u32, Door>,
}

impl Links {
    /// Opens doors before servers with these ports for clients and routes, with doors of their own for the
    /// publishers of these numbers.
    ///
    /// # Errors
    /// There are no free ports, or no thread.
    pub(super) fn open(
        client_ports: &[u16],
        route_ports: &[u16],
        named: &BTreeSet<u32>,
    ) -> Result<Self, LiveError> {
        let refused = |error| LiveError::system("cannot open a port on 127.0.0.1", error);
        let mut keepers = Vec::new();
        let mut open = |port: u16, wires: Wires| {
            let (door, keeper) = Door::before(port, wires).map_err(refused)?;
            keepers.push(keeper);
            Ok::<_, LiveError>(door)
        };
        let mut clients = Vec::with_capacity(client_ports.len());
        for port in client_ports {
            let named = named
                .iter()
                .map(|number| Ok((*number, open(*port, Wires::Own)?)));
            clients.push(ClientDoors {
                named: named.collect::<Result<_, LiveError>>()?,
                aside: open(*port, Wires::Own)?,
                publishers: open(*port, Wires::Own)?,
            });
        }
        let mut routes = BTreeMap::new();
        // Both doors between two servers lead to the same wires, however many connections the route has.
        let ends = Routes::between(route_ports.len());
        let between: BTreeMap<_, _> = ends.map(|ends| (ends, Wire::default())).collect();
        for ((from, to), wire) in &between {
            let wires = Wires::Shared {
                inward: wire.clone(),
                outward: between.get(&(*to, *from)).cloned().unwrap_or_default(),
            };
            routes.insert((*from, *to), open(route_ports[*to], wires)?);
        }
        let nowhere = route_ports.iter().map(|_| nowhere().map_err(refused));
        let nowhere = nowhere.collect::<Result<_, _>>()?;
        let (end, ended) = oneshot::channel();
        Ok(Self {
            clients,
            routes,
            nowhere,
            end: Some(end),
            thread: Some(keep(keepers, ended)?),
        })
    }

    /// Where a server is for whoever is no publisher.
    pub(super) fn aside(&self, server: usize) -> Option<SocketAddr> {
        Some(self.clients.get(server)?.aside.address())
    }

    /// Where the servers are for the publisher of this number, or for those that no fault names, in their order.
    pub(super) fn for_publisher(&self, number: Option<u32>) -> Vec<SocketAddr> {
        let doors = self.clients.iter().map(|doors| doors.of(number));
        doors.map(Door::address).collect()
    }

    /// The publishers with doors of their own, by number.
    pub(super) fn named(&self) -> impl Iterator<Item = u32> + '_ {
        let first = self.clients.first().into_iter();
        first.flat_map(|doors| doors.named.keys().copied())
    }

    /// Where the others are for a server.
    pub(super) fn routes_of(&self, server: usize) -> Vec<SocketAddr> {
        let own = self.routes.iter().filter(|((from, _), _)| *from == server);
        own.map(|(_, door)| door.address()).collect()
    }

    /// What a server is to tell the others of its address.
    pub(super) fn told_of(&self, server: usize) -> Option<SocketAddr> {
        Some(self.nowhere.get(server)?.1)
    }

    /// A trouble begins.
    pub(super) fn begin(&self, whose: Whose, trouble: Trouble) {
        for (door, course) in self.meant(whose) {
            door.begin(course, trouble);
        }
    }

    /// A trouble is over.
    pub(super) fn end(&self, whose: Whose, trouble: Trouble) {
        for (door, course) in self.meant(whose) {
            door.end(course, trouble);
        }
    }

    /// Every trouble is over.
    pub(super) fn free(&self) {
        let clients = self.clients.iter().flat_map(ClientDoors::of_publishers);
        clients.chain(self.routes.values()).for_each(Door::free);
    }

    /// Whether nothing is under way between publishers and servers.
    pub(super) fn are_empty(&self) -> bool {
        let mut clients = self.clients.iter().flat_map(ClientDoors::of_publishers);
        clients.all(Door::is_empty)
    }

    fn meant(&self, whose: Whose) -> Vec<(&Door, Course)> {
        match whose {
            Whose::Publisher(publisher) => {
                let doors = self.clients.iter().flat_map(|doors| match publisher {
                    Some(publisher) => vec![doors.of(Some(publisher.0))],
                    None => doors.of_publishers().collect(),
                });
                doors
                    .flat_map(|door| [(door, Course::In), (door, Course::Out)])
                    .collect()
            }
            // Either end may have dialled: there is a door for each.
            Whose::Routes(server, routes) => routes
                .ends(server.into(), self.clients.len())
                .flat_map(|(from, to)| {
                    let there = self.routes.get(&(from, to)).map(|door| (door, Course::In));
                    let back = self.routes.get(&(to, from)).map(|door| (door, Course::Out));
                    there.into_iter().chain(back)
                })
                .collect(),
        }
    }
}

impl ClientDoors {
    fn of(&self, publisher: Option<u32>) -> &Door {
        let own = publisher.and_then(|number| self.named.get(&number));
        own.unwrap_or(&self.publishers)
    }

    fn of_publishers(&self) -> impl Iterator<Item = &Door> {
        self.named.values().chain([&self.publishers])
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say.
            let _ = thread.join();
        }
    }
}

/// A port that is taken, and at which nobody listens: whoever dials it is refused.
fn nowhere() -> std::io::Result<(TcpSocket, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

/// Keeps doors on a thread until `ended`.
fn keep(keepers: Vec<Keeper>, ended: oneshot::Receiver<()>) -> Result<JoinHandle<()>, LiveError> {
    let no_thread = |error: std::io::Error| LiveError::system("no thread for links", error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(no_thread)?;
    let work = move || {
        runtime.block_on(async move {
            let clock = Clock::start();
            for keeper in keepers {
                tokio::spawn(keeper.keep(clock));
            }
            // Nothing is ever sent: what counts is that its sender goes.
            let _ = ended.await;
        });
    };
    let thread = std::thread::Builder::new().name("links".to_owned());
    thread.spawn(work).map_err(no_thread)
}
