//! The faults of a file that have their time: cuts and holds of connections, and leaders that step
//! down.
//!
//! Leans on `fault`.

use super::{CutState, Hub};
use crate::event::{Event, PublisherId};
use crate::fault::TimedKind;
use crate::server::api::ApiRequest;
use crate::server::message::ConnectionId;

impl Hub {
    /// Begins and ends the cuts and holds whose time has come.
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
                            self.lose_late(id);
                            self.front.take_output(id);
                            self.ports.close(id);
                        }
                    }
                }
            }
            if self.cuts[index] == CutState::On && cut.until <= self.now {
                self.cuts[index] = CutState::Over;
                self.tell(&Event::Healed { fault: cut.fault });
                let held: Vec<ConnectionId> = self.ports.wakers.keys().copied().collect();
                held.into_iter().for_each(|id| self.ports.wake(id));
            }
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
