//! What comes up in a group of replicas, and when.
//!
//! It is asked for at every turn, so each server has what comes up first there at hand, and looks again
//! only after something of it was changed. Leans on `route` and `replica`.

use std::ops::{Index, IndexMut};

use super::Group;
use crate::machine::{Machine as _, Time};
use crate::server::disturb::NEXT;

/// What comes up in a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Due {
    /// The first of a route is there.
    Arrival(usize),
    /// A replica's disk is done.
    Written(usize),
    /// A replica has applied what it is at.
    Applied(usize),
    /// A replica's RAFT looks at its timers.
    Raft(usize),
    /// Idle timers of a replica's batches.
    Timers(usize),
    /// A replica's loop is done with its slice.
    Turn(usize),
    /// A server that stood still reads what its clients sent meanwhile.
    Thaw(usize),
}

/// Kinds of [`Due`] that each replica has.
const KINDS: usize = 6;

impl Due {
    /// What has this place in the order of a group of so many: arrivals by route, then replicas by
    /// number, each in the order of [`Due`].
    const fn at(place: usize, servers: usize) -> Self {
        let Some(place) = place.checked_sub(servers * servers) else {
            return Self::Arrival(place);
        };
        let replica = place / KINDS;
        match place % KINDS {
            0 => Self::Written(replica),
            1 => Self::Applied(replica),
            2 => Self::Raft(replica),
            3 => Self::Timers(replica),
            4 => Self::Turn(replica),
            _ => Self::Thaw(replica),
        }
    }
}

/// What comes up first at a server. Of several at one moment the one goes first that was due first: a
/// server that stood still gets to many things at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Coming {
    /// When its server gets to it.
    at: Time,
    /// When it was due, and behind that its place, in one word.
    rank: u64,
}

/// Bits of a rank that name a place: five servers have 55. What the rest counts lasts nine years, and
/// a moment beyond that is taken as never.
const PLACE_BITS: u32 = 6;

impl Coming {
    pub(super) const NOTHING: Self = Self {
        at: Time::NEVER,
        rank: u64::MAX,
    };

    fn rank(at: Time, place: usize) -> u64 {
        let nanos = at.as_nanos();
        if nanos >> (u64::BITS - PLACE_BITS) == 0 {
            nanos << PLACE_BITS | place as u64
        } else {
            u64::MAX
        }
    }
}

impl Group {
    /// How many servers there are.
    pub(super) fn servers(&self) -> usize {
        self.members.all().len()
    }

    /// When [`Group::wake`] is wanted.
    pub(in crate::server) fn due(&self) -> Time {
        self.next.at
    }

    /// What comes up next, and when.
    pub(super) fn next(&self) -> Option<(Time, Due)> {
        let Coming { at, rank } = self.next;
        let place = rank as usize % (1 << PLACE_BITS);
        (at != Time::NEVER).then(|| (at, Due::at(place, self.servers())))
    }

    /// Notes what comes up next: to be called after everything else that changes the group.
    pub(in crate::server) fn look_ahead(&mut self) {
        let members = self.members.take_touched();
        let routes = self.routes.take_touched();
        let servers = self.servers();
        let mut next = Coming::NOTHING;
        for server in 0..servers {
            if members >> server & 1 != 0 || routes >> server & self.inward != 0 {
                self.coming[server] = self.first_at(server);
            }
            next = next.min(self.coming[server]);
        }
        self.next = next;
    }

    fn first_at(&self, server: usize) -> Coming {
        let member = &self.members[server];
        let host = &member.host;
        let servers = self.servers();
        // A server that stood still gets to its clients first, and to its replica afterwards: to the
        // timers of that before anything from others, which has to pass through sockets.
        let (replica, others) = match host.behind_until() {
            Time::ZERO => (Time::ZERO, Time::ZERO),
            behind => (behind + NEXT, behind + NEXT + NEXT),
        };
        let own = [
            member.write_end,
            member.apply_end,
            member.node.due().max(replica),
            host.stream.due(),
            host.turn_end(),
            host.thaw(),
        ];
        let mut first = u64::MAX;
        for (place, at) in (servers * servers + server * KINDS..).zip(own) {
            first = first.min(Coming::rank(at, place));
        }
        for from in 0..servers {
            let route = from * servers + server;
            let arrival = self.routes[route].first_arrival().max(others);
            first = first.min(Coming::rank(arrival, route));
        }
        if first == u64::MAX {
            return Coming::NOTHING;
        }
        // What is due first is also what a server gets to first.
        Coming {
            at: host.awake(Time::from_nanos(first >> PLACE_BITS)),
            rank: first,
        }
    }
}

/// Routes that lead to the first of so many servers, one bit for each; shifted by a number, those that
/// lead to the server of that number.
pub(super) fn inward(servers: usize) -> u64 {
    (0..servers).fold(0, |routes, from| routes | 1 << (from * servers))
}

/// Up to 64 things in a row, and which of them may have changed since that was last asked: whoever is
/// lent one to change it may have.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Watched<T> {
    all: Vec<T>,
    /// One bit for each.
    touched: u64,
}

impl<T> Watched<T> {
    /// All of them, as good as changed.
    pub(super) fn new(all: Vec<T>) -> Self {
        debug_assert!(all.len() <= 64);
        Self {
            all,
            touched: u64::MAX,
        }
    }

    pub(super) fn all(&self) -> &[T] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [T] {
        self.touched = u64::MAX;
        &mut self.all
    }

    /// Those that may have changed, one bit for each, and bits of none.
    fn take_touched(&mut self) -> u64 {
        std::mem::take(&mut self.touched)
    }
}

impl<T> Index<usize> for Watched<T> {
    type Output = T;

    fn index(&self, index: usize) -> &T {
        &self.all[index]
    }
}

impl<T> IndexMut<usize> for Watched<T> {
    fn index_mut(&mut self, index: usize) -> &mut T {
        self.touched |= 1 << index;
        &mut self.all[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_due_first_goes_first_and_then_the_place_counts() {
        let coming = |at: u64, due: u64, place| Coming {
            at: Time::from_nanos(at),
            rank: Coming::rank(Time::from_nanos(due), place),
        };
        let order = [
            coming(5, 3, 30),
            coming(5, 5, 2),
            coming(5, 5, 7),
            coming(6, 6, 0),
            Coming::NOTHING,
        ];
        assert!(order.is_sorted());
        assert_eq!(Coming::rank(Time::NEVER, 1), u64::MAX);
    }

    #[test]
    fn each_place_is_something_else() {
        let of_five: Vec<Due> = (0..25 + 5 * KINDS).map(|place| Due::at(place, 5)).collect();
        assert_eq!(of_five[24], Due::Arrival(24));
        assert_eq!(of_five[25], Due::Written(0));
        assert_eq!(of_five.last(), Some(&Due::Thaw(4)));
        let again = |(place, due): (usize, &Due)| of_five[..place].contains(due);
        assert!(!of_five.iter().enumerate().any(again));
        assert!(of_five.len() <= 1 << PLACE_BITS);
    }

    #[test]
    fn who_is_lent_to_be_changed_is_named() {
        let mut watched = Watched::new(vec![0; 9]);
        assert_eq!(watched.take_touched(), u64::MAX);
        assert_eq!(watched[3] + watched.all()[4], 0);
        assert_eq!(watched.take_touched(), 0);
        watched[8] += 1;
        watched[3] += 1;
        assert_eq!(watched.take_touched(), 0b1_0000_1000);
        watched.all_mut()[0] = 1;
        assert_eq!(watched.take_touched(), u64::MAX);
        assert_eq!(inward(3), 0b100_1001);
    }
}
