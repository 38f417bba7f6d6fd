//! The faults of a file that have their time: cuts, holds and limits of connections, leaders that step down,
//! and what befalls servers.
//!
//! Leans on `fault`.

use super::{CutState, Hub};
use crate::event::{DropCause, Event, PublisherId};
use crate::fault::{Timed, TimedKind, Turn};
use crate::machine::Time;
use crate::server::api::ApiRequest;
use crate::server::disturb::Disturbance;
use crate::server::message::ConnectionId;

impl Hub {
    /// The link of a publisher is cut from outside: what is late on it is lost.
    pub fn lose(&mut self, now: Time, publisher: PublisherId) {
        self.pass(now);
        let owned = self.publishers.iter().filter(|(_, own)| **own == publisher);
        for id in owned.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.lose_late(id);
        }
    }

    fn lose_late(&mut self, id: ConnectionId) {
        for late in self.links.clear(id) {
            self.tell_lost(&late, DropCause::Cut);
        }
    }

    /// Begins and ends the faults whose time has come.
    pub(super) fn cut(&mut self) {
        for index in 0..self.cuts.len() {
            let cut = self.faults.timed()[index];
            if self.cuts[index] == CutState::Ahead && cut.from <= self.now {
                self.cuts[index] = CutState::On;
                self.begin(index, cut);
            }
            if let TimedKind::Rolling(down_for) = cut.kind {
                if self.cuts[index] == CutState::On && self.rolling[index].1 <= self.now {
                    self.roll(index, down_for);
                }
                continue;
            }
            if self.cuts[index] == CutState::On && cut.until <= self.now {
                self.cuts[index] = CutState::Over;
                self.tell(&Event::Healed { fault: cut.fault });
                if let TimedKind::Server(_, _, Some(end)) = cut.kind {
                    self.befall(index, end);
                }
                let held: Vec<ConnectionId> = self.ports.wakers.keys().copied().collect();
                held.into_iter().for_each(|id| self.ports.wake(id));
            }
        }
    }

    fn begin(&mut self, index: usize, cut: Timed) {
        if let TimedKind::Rolling(_) = cut.kind {
            self.rolling[index].1 = self.now;
            return;
        }
        let server = cut.kind.pick(&self.server);
        let fault = cut.fault;
        self.tell(&Event::Fault { fault, server });
        match cut.kind {
            TimedKind::StepDown => {
                self.cuts[index] = CutState::Over;
                self.step_down();
            }
            TimedKind::Cut => {
                for id in self.front.connection_ids() {
                    if self.is_meant(cut.publisher, id) {
                        self.reset(id);
                    }
                }
            }
            TimedKind::Server(_, what, _) => {
                self.victims[index] = server;
                self.befall(index, what);
            }
            TimedKind::Hold | TimedKind::Slow(_) | TimedKind::Limit(_) | TimedKind::Rolling(_) => {}
        }
    }

    /// The next step of a rolling restart.
    fn roll(&mut self, index: usize, down_for: Time) {
        let fault = self.faults.timed()[index].fault;
        let (servers, healthy) = (self.server.server_count(), self.server.is_healthy());
        let wait = match self.rolling[index].0.next(servers, down_for, healthy) {
            Turn::Befall(server, what, wait) => {
                self.victims[index] = Some(server);
                if what == Disturbance::Shutdown {
                    let server = Some(server);
                    self.tell(&Event::Fault { fault, server });
                }
                self.befall(index, what);
                wait
            }
            Turn::Wait(wait) => wait,
            Turn::Over => {
                self.cuts[index] = CutState::Over;
                self.tell(&Event::Healed { fault });
                Time::NEVER
            }
        };
        self.rolling[index].1 = self.now + wait;
    }

    /// The connection of a client breaks.
    fn reset(&mut self, id: ConnectionId) {
        self.lose_late(id);
        self.front.take_output(id);
        self.ports.break_off(id);
    }

    /// Something befalls the server that a fault chose; if it goes down, so do its connections.
    fn befall(&mut self, index: usize, what: Disturbance) {
        let Some(victim) = self.victims[index] else {
            return;
        };
        let was_up = self.server.is_up(victim);
        let mut clients = self.front.connection_ids();
        clients.retain(|id| self.server.home(*id) == victim);
        let happens = self
            .server
            .befall(self.now, victim, what, &mut self.answered);
        if !happens {
            self.victims[index] = None;
        }
        self.answer();
        if was_up && !self.server.is_up(victim) {
            clients.into_iter().for_each(|id| self.reset(id));
        }
    }

    /// The leaders of all streams step down.
    fn step_down(&mut self) {
        let names: Vec<String> = self
            .server
            .streams()
            .map(|stream| stream.name().to_string())
            .collect();
        for stream in names {
            let request = ApiRequest::StepDown { stream };
            // Without a leader there is nothing to do.
            let _ = self.server.call(self.now, &request, &mut self.answered);
            self.answer();
        }
    }

    /// How much later what passes the link of a connection is now.
    pub(super) fn slower(&self, id: ConnectionId) -> Time {
        let mut slower = Time::ZERO;
        for (cut, state) in self.faults.timed().iter().zip(&self.cuts) {
            if let TimedKind::Slow(by) = cut.kind
                && *state == CutState::On
                && self.is_meant(cut.publisher, id)
            {
                slower += by;
            }
        }
        slower
    }

    /// Most bits in a second that faults let the link of a connection carry now, each way; `None`: any number.
    pub fn limit(&self, id: ConnectionId) -> Option<u64> {
        let states = self.faults.timed().iter().zip(&self.cuts);
        let limits = states.filter_map(|(cut, state)| match cut.kind {
            TimedKind::Limit(rate) if *state == CutState::On => {
                self.is_meant(cut.publisher, id).then_some(rate)
            }
            _ => None,
        });
        limits.min()
    }

    /// Whether a cut of this publisher, or of all, is about a connection.
    pub(super) fn is_meant(&self, publisher: Option<PublisherId>, id: ConnectionId) -> bool {
        publisher.is_none_or(|wanted| self.publishers.get(&id) == Some(&wanted))
    }
}
