//! A front and its server with nothing in between: bytes in, bytes out, in any notion of time.
//!
//! For recorded exchanges, fuzzing and tests; drivers with faults put them between the two
//! themselves. Leans on `front` and `server`.

use bytes::Bytes;

use super::{Front, FrontAction, Options};
use crate::batch::message::ConnectionId;
use crate::machine::{Machine as _, Sink, Time};
use crate::server::{Action, Input, Server, Source};

/// Spans are drawn in these parts of their range, far from one another.
const DRAW_PARTS: u64 = 100;
const DRAW_STEP: u64 = 37;

/// A server and its front.
#[derive(Clone, Debug)]
pub struct Coupled {
    /// The server.
    pub server: Server,
    /// Its front.
    pub front: Front,
    /// What the server's loops turn to where both queues are ready.
    source: Source,
    /// Spans drawn so far: each next one is another part of its range.
    draws: u64,
    asked: Vec<FrontAction>,
    answered: Vec<Action>,
}

impl Coupled {
    /// Couples a server and a front with these options.
    pub fn new(server: Server, options: Options, source: Source) -> Self {
        Self {
            front: Front::new(&server, options),
            server,
            source,
            draws: 0,
            asked: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// A client connects.
    pub fn connect(&mut self, now: Time, id: ConnectionId, out: &mut dyn Sink<FrontAction>) {
        self.front.connect(now, id, "127.0.0.1", out);
    }

    /// Takes bytes of a client. Only [`FrontAction::Ready`] and [`FrontAction::Close`] come out.
    pub fn receive(
        &mut self,
        now: Time,
        id: ConnectionId,
        bytes: &[u8],
        out: &mut dyn Sink<FrontAction>,
    ) {
        if let Some(buffer) = self.front.buffer(id) {
            buffer.extend_from_slice(bytes);
        }
        let mut asked = std::mem::take(&mut self.asked);
        let mut more = true;
        while more {
            more = self.front.received(now, &mut self.server, id, &mut asked);
            for action in asked.drain(..) {
                let input = match action {
                    FrontAction::Publish(publish) => Input::Publish(publish),
                    FrontAction::Api { to, request } => Input::Api { to, request },
                    FrontAction::Ready(_) | FrontAction::Close(..) => {
                        out.emit(action);
                        continue;
                    }
                };
                self.server.step(now, input, &mut self.answered);
                self.answer(now, out);
            }
        }
        self.asked = asked;
    }

    /// The bytes for a client that have gathered.
    pub fn take_output(&mut self, id: ConnectionId) -> Bytes {
        let output = self.front.take_output(id);
        self.front.written(id, output.len());
        output
    }

    /// When [`Coupled::wake`] is wanted.
    pub fn due(&self) -> Time {
        self.server.due().min(self.front.due())
    }

    /// Lets happen what is due.
    pub fn wake(&mut self, now: Time, out: &mut dyn Sink<FrontAction>) {
        self.server.wake(now, &mut self.answered);
        self.answer(now, out);
        self.front.wake(now, out);
    }

    fn answer(&mut self, now: Time, out: &mut dyn Sink<FrontAction>) {
        while !self.answered.is_empty() {
            for action in std::mem::take(&mut self.answered) {
                match action {
                    Action::Send { to, reply } => self.front.send(&self.server, to, &reply, out),
                    Action::ApiReply { to, call, answer } => {
                        self.front.api_reply(&self.server, to, call, &answer, out);
                    }
                    Action::Fact(fact) => self.front.fact(now, &self.server, &fact, out),
                    Action::Raft { .. } | Action::Lost { .. } => {}
                    Action::Choose => {
                        let input = Input::Chosen(self.source);
                        self.server.step(now, input, &mut self.answered);
                    }
                    Action::Draw(range) => {
                        self.draws += 1;
                        let span =
                            range.part(self.draws.wrapping_mul(DRAW_STEP) % DRAW_PARTS, DRAW_PARTS);
                        let input = Input::Drawn(span);
                        self.server.step(now, input, &mut self.answered);
                    }
                }
            }
        }
    }
}
