//! What is late between clients and the server: frames that a fault delays, and those behind them.
//!
//! Leans on `kinds` and `machine`.

use std::collections::BTreeMap;

use super::kinds::about;
use crate::batch::fast::publisher::ControlFrame;
use crate::machine::Time;
use crate::nats::{BatchSequence, Operation};
use crate::server::Input;
use crate::server::api::{ApiAnswer, ApiCall, ApiFailure};
use crate::server::message::{BatchHandle, ConnectionId, Reply, ReplyTo};

/// Something on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Late {
    /// From a client to the server.
    Up(ConnectionId, Input),
    /// From the server to a client.
    Down(ReplyTo, Reply),
    /// An API answer on its way to a client.
    Answer(ReplyTo, ApiCall, Box<Result<ApiAnswer, ApiFailure>>),
}

/// A direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    /// To the server.
    Up,
    /// To the client.
    Down,
}

/// What is late, in the order in which it arrives.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    late: BTreeMap<(Time, u64), (bool, Late)>,
    next: u64,
    /// When the last frame of a lane arrives, and how many are under way on it.
    lanes: BTreeMap<(ConnectionId, Way), (Time, u64)>,
}

impl Links {
    /// Whether nothing is late.
    pub(super) fn is_empty(&self) -> bool {
        self.late.is_empty()
    }

    /// Whether a frame on this lane would have to wait behind others.
    pub(super) fn is_busy(&self, id: ConnectionId, way: Way) -> bool {
        self.lanes.contains_key(&(id, way))
    }

    /// Sends something that arrives at `at`, or behind what is under way on its lane.
    pub(super) fn push(&mut self, at: Time, late: Late) {
        let lane = self.lanes.entry(late.lane()).or_insert((at, 0));
        lane.0 = lane.0.max(at);
        lane.1 += 1;
        self.late.insert((lane.0, self.next), (true, late));
        self.next += 1;
    }

    /// Sends a copy, which holds up nothing and is held up by nothing.
    pub(super) fn push_aside(&mut self, at: Time, late: Late) {
        self.late.insert((at, self.next), (false, late));
        self.next += 1;
    }

    /// The connections of everything under way, one by one.
    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.late.values().map(|(_, late)| late.lane().0)
    }

    /// When the next thing arrives.
    pub(super) fn due(&self) -> Time {
        let first = self.late.first_key_value();
        first.map_or(Time::NEVER, |((at, _), _)| *at)
    }

    /// What arrives by `now`, one after the other.
    pub(super) fn pop(&mut self, now: Time) -> Option<Late> {
        let first = self
            .late
            .first_entry()
            .filter(|entry| entry.key().0 <= now)?;
        let (in_lane, late) = first.remove();
        if in_lane {
            self.leave(late.lane());
        }
        Some(late)
    }

    /// Takes out everything of a connection.
    pub(super) fn clear(&mut self, id: ConnectionId) -> Vec<Late> {
        let own = |(_, (_, late)): &(&(Time, u64), &(bool, Late))| late.lane().0 == id;
        let keys: Vec<(Time, u64)> = self.late.iter().filter(own).map(|(key, _)| *key).collect();
        self.lanes.remove(&(id, Way::Up));
        self.lanes.remove(&(id, Way::Down));
        let gone = keys.iter().filter_map(|key| self.late.remove(key));
        gone.map(|(_, late)| late).collect()
    }

    /// Forgets what is on its way to a client that is gone.
    pub(super) fn forget_replies(&mut self, id: ConnectionId) {
        let lane = (id, Way::Down);
        self.late.retain(|_, (_, late)| late.lane() != lane);
        self.lanes.remove(&lane);
    }

    fn leave(&mut self, lane: (ConnectionId, Way)) {
        if let Some((_, count)) = self.lanes.get_mut(&lane) {
            *count -= 1;
            if *count == 0 {
                self.lanes.remove(&lane);
            }
        }
    }
}

impl Late {
    /// The batch, the operation (of a publisher's frame) and the batch sequence that it is about, if
    /// it is a frame of a batch; `batch_of` knows the batch of a reply.
    pub(super) fn frame(
        &self,
        batch_of: impl FnOnce(ReplyTo) -> Option<BatchHandle>,
    ) -> Option<(BatchHandle, Option<Operation>, BatchSequence)> {
        match self {
            Self::Up(_, Input::Publish(publish)) => {
                let (batch, operation, sequence) = publish.frame()?;
                Some((batch, Some(operation), sequence))
            }
            Self::Down(to, reply) => Some((batch_of(*to)?, None, about(ControlFrame::of(reply)?))),
            Self::Up(..) | Self::Answer(..) => None,
        }
    }

    const fn lane(&self) -> (ConnectionId, Way) {
        match self {
            Self::Up(id, _) => (*id, Way::Up),
            Self::Down(to, _) | Self::Answer(to, ..) => (to.connection, Way::Down),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::message::SubjectId;

    fn down(id: u32, tag: u64) -> Late {
        let to = ReplyTo {
            connection: ConnectionId(id),
            tag,
        };
        Late::Down(to, Reply::NoResponders(SubjectId(0)))
    }

    #[test]
    fn a_lane_keeps_its_order_and_copies_do_not_wait() {
        let mut links = Links::default();
        let at = Time::from_millis;
        links.push(at(10), down(0, 1));
        assert!(links.is_busy(ConnectionId(0), Way::Down));
        assert!(!links.is_busy(ConnectionId(0), Way::Up));
        links.push(at(5), down(0, 2));
        links.push(at(6), down(1, 3));
        links.push_aside(at(7), down(0, 4));
        let mut order = Vec::new();
        while let Some(Late::Down(to, _)) = links.pop(at(20)) {
            order.push(to.tag);
        }
        assert_eq!(order, [3, 4, 1, 2]);
        assert!(links.is_empty() && links.lanes.is_empty());
        assert_eq!(links.due(), Time::NEVER);
    }

    #[test]
    fn what_is_not_due_stays_and_a_connection_takes_its_own_along() {
        let mut links = Links::default();
        links.push(Time::from_millis(10), down(0, 1));
        links.push(Time::from_millis(10), down(1, 2));
        assert_eq!(links.pop(Time::from_millis(9)), None);
        assert_eq!(links.clear(ConnectionId(0)), [down(0, 1)]);
        assert_eq!(links.pop(Time::from_millis(10)), Some(down(1, 2)));
        assert!(links.is_empty() && links.lanes.is_empty());
    }
}
