//! The servers of a cluster as clients and faults see them: which are up, and who is connected where.
//!
//! Leans on `disturb`, `place` and `group`.

use super::disturb::Disturbance;
use super::message::ConnectionId;
use super::place::Place;
use super::{Action, ClusterModel, Home, Server};
use crate::machine::{Sink, Time};

/// Which servers are up, and where clients are.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Servers {
    up: Vec<bool>,
    /// Clients fall into as many classes as there are servers. By class: the server that they are
    /// connected to, which changes when theirs goes down.
    homes: Vec<u8>,
}

impl Servers {
    pub(super) fn new(model: &ClusterModel) -> Self {
        let count = model.servers.max(1);
        let home = |class| match model.home {
            Home::First => 0,
            Home::InTurn => class,
        };
        Self {
            up: vec![true; usize::from(count)],
            homes: (0..count).map(home).collect(),
        }
    }

    /// The server of a client.
    pub(super) fn home(&self, connection: ConnectionId) -> u8 {
        self.homes[connection.0 as usize % self.homes.len()]
    }

    /// Notes a server that goes down or comes back; false if that is nothing new.
    fn note(&mut self, server: u8, is_up: bool) -> bool {
        let Some(noted) = self.up.get_mut(usize::from(server)) else {
            return false;
        };
        if std::mem::replace(noted, is_up) == is_up {
            return false;
        }
        for home in 0..self.homes.len() {
            self.homes[home] = self.nearest(self.homes[home]);
        }
        true
    }

    /// The first server that is up, from this one on; this one if none is.
    fn nearest(&self, server: u8) -> u8 {
        let count = self.up.len();
        let mut others = (0..count).map(|step| (usize::from(server) + step) % count);
        others
            .find(|&other| self.up[other])
            .map_or(server, |other| other as u8)
    }
}

impl Server {
    /// The server of the cluster that a client is connected to, by number.
    pub fn home(&self, connection: ConnectionId) -> u8 {
        self.servers.home(connection)
    }

    /// Whether a server of the cluster is up.
    pub fn is_up(&self, server: u8) -> bool {
        self.servers.up.get(usize::from(server)) == Some(&true)
    }

    /// The server that leads the first stream; without replicas, the one that it is on.
    pub fn leader(&self) -> Option<u8> {
        match self.places.iter().flatten().next()? {
            Place::Alone(_) => self.is_up(0).then_some(0),
            Place::Group(group) => group.leading(),
        }
    }

    /// The first server that is up and does not lead the first stream.
    pub fn follower(&self) -> Option<u8> {
        let leader = self.leader();
        let servers = 0..self.servers.up.len() as u8;
        servers
            .filter(|server| Some(*server) != leader)
            .find(|server| self.is_up(*server))
    }

    /// Something befalls a server of the cluster. Its clients are at once those of the next one that
    /// is up; whoever drives decides when they get there. Disks and routes have their troubles whether it
    /// is up or not. False: nothing happens, since there is no such server, or it was down already, or it
    /// is up.
    pub fn befall(
        &mut self,
        now: Time,
        server: u8,
        what: Disturbance,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        let happens = match what {
            Disturbance::Kill | Disturbance::PowerLoss => self.servers.note(server, false),
            Disturbance::Start => self.servers.note(server, true),
            Disturbance::Freeze(_) => self.is_up(server),
            _ => usize::from(server) < self.servers.up.len(),
        };
        if !happens {
            return false;
        }
        for index in 0..self.places.len() {
            match &mut self.places[index] {
                Some(Place::Alone(host)) if server == 0 => {
                    host.befall(what, out);
                }
                Some(Place::Group(_)) => {
                    self.on_group(index as u32, out, |group, around, out| {
                        group.befall(now, usize::from(server), what, around, out);
                        None
                    });
                }
                Some(Place::Alone(_)) | None => {}
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_dead_server_go_on_to_the_next_and_stay_there() {
        let model = ClusterModel {
            servers: 3,
            ..ClusterModel::default()
        };
        let mut servers = Servers::new(&model);
        assert!(servers.note(1, false));
        assert!(!servers.note(1, false), "it is down already");
        assert_eq!(servers.homes, [0, 2, 2]);
        assert!(servers.note(2, false));
        assert_eq!(servers.homes, [0, 0, 0]);
        assert!(servers.note(1, true));
        assert_eq!(servers.homes, [0, 0, 0]);
        assert!(servers.note(0, false));
        assert_eq!(servers.homes, [1, 1, 1]);
    }

    #[test]
    fn clients_wait_for_the_first_server_when_none_is_up() {
        let mut servers = Servers::new(&ClusterModel {
            servers: 3,
            ..ClusterModel::default()
        });
        for server in 0..3 {
            servers.note(server, false);
        }
        servers.note(1, true);
        assert_eq!(servers.homes, [1, 1, 1]);
    }
}
