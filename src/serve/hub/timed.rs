//! The faults of a file that have their time: cuts and holds of connections, leaders that step down,
//! and what befalls servers.
//!
//! Leans on `fault`.

use super::{CutState, Hub};
use crate::event::{Event, PublisherId};
use crate::fault::TimedKind;
use crate::server::api::ApiRequest;
use crate::server::disturb::Disturbance;
use crate::server::message::ConnectionId;

impl Hub {
    /// Begins and ends the faults whose time has come.
    pub(super) fn cut(&mut self) {
        for index in 0..self.cuts.len() {
            let cut = self.faults.timed()[index];
            if self.cuts[index] == CutState::Ahead && cut.from <= self.now {
                self.cuts[index] = CutState::On;
                self.tell(&Event::Fault { fault: cut.fault });
                if cut.kind == TimedKind::StepDown {
                    self.cuts[index] = CutState::Over;
                    self.step_down();
                    continue;
                }
                if cut.kind == TimedKind::Cut {
                    for id in self.front.connection_ids() {
                        if self.is_meant(cut.publisher, id) {
                            self.reset(id);
                        }
                    }
                }
                if let TimedKind::Server(whom, what, _) = cut.kind {
                    self.victims[index] = whom.pick(&self.server);
                    self.befall(index, what);
                }
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

    /// The connection of a client breaks.
    fn reset(&mut self, id: ConnectionId) {
        self.lose_late(id);
        self.front.take_output(id);
        self.ports.close(id);
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

    /// Whether a cut of this publisher, or of all, is about a connection.
    pub(super) fn is_meant(&self, publisher: Option<PublisherId>, id: ConnectionId) -> bool {
        publisher.is_none_or(|wanted| self.publishers.get(&id) == Some(&wanted))
    }
}
