//! The faults of a file that have their time, as the world makes them.
//!
//! Leans on `fault`.

use super::World;
use crate::event::{Event, PublisherId};
use crate::fault::{Timed, TimedKind, Turn};
use crate::machine::Time;
use crate::server::api::ApiRequest;
use crate::server::disturb::Disturbance;
use crate::server::message::ConnectionId;
use crate::sim::fabric::Wake;

impl World<'_> {
    /// A fault begins or ends; or the next step of one is due.
    pub(super) fn cut(&mut self, index: usize, begins: bool) {
        let cut = self.fabric.faults.timed()[index];
        let fault = cut.fault;
        if let TimedKind::Rolling(down_for) = cut.kind {
            return self.roll(index, down_for);
        }
        if !begins {
            self.fabric.tell(&Event::Healed { fault });
            return self.recover(index, cut);
        }
        let server = cut.kind.pick(&self.server);
        self.fabric.tell(&Event::Fault { fault, server });
        if cut.kind == TimedKind::StepDown {
            return self.step_down();
        }
        let end = Wake::Cut(index, false).index(self.clients);
        self.fabric.queue.arm(end, cut.until);
        if let TimedKind::Server(_, what, _) = cut.kind {
            self.victims[index] = server;
            if what.ends_process() {
                self.back[index] = cut.until;
            }
            return self.befall(index, what);
        }
        for host in self.hosts_of(cut) {
            match cut.kind {
                TimedKind::Hold => {
                    for lane in self.fabric.lanes_of(host) {
                        self.fabric.queue.hold(lane, cut.until);
                    }
                }
                TimedKind::Slow(by) => self.fabric.each_way(host, |link| link.slow(by)),
                // Its links know it since the start.
                TimedKind::Limit(_) => {}
                TimedKind::Cut
                | TimedKind::StepDown
                | TimedKind::Rolling(_)
                | TimedKind::Server(..) => self.fabric.lose(host),
            }
        }
    }

    /// The publishers whose links a fault is about.
    fn hosts_of(&self, cut: Timed) -> impl Iterator<Item = usize> + use<> {
        (0..self.hosts.len()).filter(move |&host| cut.hits(PublisherId(host as u32)))
    }

    /// The leader of the stream steps down.
    fn step_down(&mut self) {
        let request = ApiRequest::StepDown {
            stream: self.stream.clone(),
        };
        self.serve(|server, now, sink| {
            // Without a leader there is nothing to do.
            let _ = server.call(now, &request, sink);
        });
    }

    /// Something befalls a server; if it goes down, its clients look for another one.
    fn befall(&mut self, index: usize, what: Disturbance) {
        let Some(victim) = self.victims[index] else {
            return;
        };
        let was_up = self.server.is_up(victim);
        let clients: Vec<usize> = (0..self.clients)
            .filter(|host| self.server.home(ConnectionId(*host as u32)) == victim)
            .collect();
        let mut happens = false;
        self.serve(|server, now, sink| happens = server.befall(now, victim, what, sink));
        if !happens {
            self.victims[index] = None;
        }
        if was_up && !self.server.is_up(victim) {
            let is_alone = self.server.home(ConnectionId(0)) == victim;
            let free = if is_alone {
                self.next_start()
            } else {
                self.fabric.now
            };
            for host in clients {
                self.fabric.lose_server(host, free + self.reconnect);
            }
        }
    }

    /// When the first of the servers that are down starts again.
    fn next_start(&self) -> Time {
        let starts = self.back.iter().zip(&self.victims);
        let down = starts.filter(|(start, victim)| {
            **start > self.fabric.now && victim.is_some_and(|one| !self.server.is_up(one))
        });
        let starts = down.map(|(start, _)| *start);
        starts.min().unwrap_or(Time::NEVER)
    }

    /// What befell a server is over.
    fn recover(&mut self, index: usize, cut: Timed) {
        if let TimedKind::Slow(by) = cut.kind {
            for host in self.hosts_of(cut) {
                self.fabric.each_way(host, |link| link.quicken(by));
            }
        }
        if let (Some(victim), TimedKind::Server(_, _, Some(end))) = (self.victims[index], cut.kind)
        {
            self.serve(|server, now, sink| {
                server.befall(now, victim, end, sink);
            });
        }
    }

    /// The next step of a rolling restart.
    fn roll(&mut self, index: usize, down_for: Time) {
        let fault = self.fabric.faults.timed()[index].fault;
        let (servers, healthy) = (self.server.server_count(), self.server.is_healthy());
        let wait = match self.rolling[index].next(servers, down_for, healthy) {
            Turn::Befall(server, what, wait) => {
                self.victims[index] = Some(server);
                if what == Disturbance::Shutdown {
                    self.back[index] = self.fabric.now + wait;
                    let server = Some(server);
                    self.fabric.tell(&Event::Fault { fault, server });
                }
                self.befall(index, what);
                wait
            }
            Turn::Wait(wait) => wait,
            Turn::Over => return self.fabric.tell(&Event::Healed { fault }),
        };
        let next = Wake::Cut(index, true).index(self.clients);
        self.fabric.queue.arm(next, self.fabric.now + wait);
    }
}
