//! A stream on its server: ingest queue, internal loop and out-queue around it.
//!
//! The loop takes the whole queue at once, is busy with that slice for what it costs, and only then
//! looks at its answers: acks of a burst leave after the burst. Leans on `stream` and `net::disk`.

mod troubled;

use std::collections::VecDeque;

use super::disturb::Trouble;
use super::message::{AtomicCommit, AtomicFact, Control, Fact, Loss, Publish, Reply, ReplyTo};
use super::place::Coming;
use super::{Action, ServerModel, Source, lost};
use crate::machine::{Sink, Time};
use crate::nats::BatchSequence;
use crate::stream::{Effect, Stream, Surroundings};

const KIBIBYTE: u64 = 1_024;

/// Messages with the sums that limits and costs need.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Slice {
    messages: Vec<Publish>,
    bytes: u64,
    /// Those that will be stored if nothing speaks against them.
    writes: u64,
    write_bytes: u64,
}

impl Slice {
    fn push(&mut self, publish: Publish) {
        let bytes = u64::from(publish.wire_bytes);
        self.bytes += bytes;
        let writes = writes(&publish);
        self.writes += writes;
        self.write_bytes += writes * bytes;
        self.messages.push(publish);
    }

    fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
        self.writes = 0;
        self.write_bytes = 0;
    }
}

/// How often a message is written if nothing speaks against it. One of an atomic batch is written as
/// it is staged and once more at the commit; both are charged as it arrives.
const fn writes(publish: &Publish) -> u64 {
    match publish.control {
        Control::Plain => 1,
        Control::BadPattern | Control::BadBatchId | Control::BadAtomicId => 0,
        Control::Fast { operation, .. } => operation.stores() as u64,
        Control::Atomic { commit, .. } => match commit {
            AtomicCommit::No | AtomicCommit::Store => 2,
            AtomicCommit::Eob | AtomicCommit::Unknown => 0,
        },
    }
}

/// A stream and its loop.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Host {
    pub(super) stream: Stream,
    ingest: Slice,
    /// What the loop is busy with.
    turn: Slice,
    /// When it is done with it; `NEVER` between turns.
    turn_end: Time,
    /// When it began with it.
    turn_begin: Time,
    /// Both queues are ready and the driver has not answered yet.
    choosing: bool,
    out: VecDeque<(ReplyTo, Reply)>,
    /// What is wrong with the server, if anything ever was.
    trouble: Option<Box<Trouble>>,
}

/// Answers go to the out-queue, facts straight out.
struct Effects<'a> {
    queue: &'a mut VecDeque<(ReplyTo, Reply)>,
    out: &'a mut dyn Sink<Action>,
}

impl Sink<Effect> for Effects<'_> {
    fn emit(&mut self, effect: Effect) {
        match effect {
            Effect::Answer(to, reply) => self.queue.push_back((to, reply)),
            Effect::Fact(fact) => self.out.emit(Action::Fact(fact)),
        }
    }
}

impl Host {
    pub(super) fn new(stream: Stream) -> Self {
        Self {
            stream,
            ingest: Slice::default(),
            turn: Slice::default(),
            turn_end: Time::NEVER,
            turn_begin: Time::ZERO,
            choosing: false,
            out: VecDeque::new(),
            trouble: None,
        }
    }

    /// Batches registered: fast ones, and atomic ones.
    pub(super) fn open_batches(&self) -> (u32, u32) {
        let stream = &self.stream;
        (stream.open_batches(), stream.open_atomic_batches())
    }

    pub(super) const fn turn_end(&self) -> Time {
        self.turn_end
    }

    pub(super) fn messages_inside(&self) -> impl Iterator<Item = &Publish> {
        let unread = self.trouble.iter().flat_map(|trouble| &trouble.unread);
        let taken = self.ingest.messages.iter().chain(&self.turn.messages);
        taken.chain(unread)
    }

    pub(super) fn answers_inside(&self) -> impl Iterator<Item = (&ReplyTo, &Reply)> {
        self.out.iter().map(|(to, reply)| (to, reply))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.turn_end != Time::NEVER || !self.ingest.messages.is_empty() || !self.out.is_empty()
    }

    /// How full the ingest queue is, or was when the slice in work was taken, in thousandths.
    pub(super) fn ingest_permille(&self, model: &ServerModel) -> u16 {
        let share = |part: u64, whole: u64| part.saturating_mul(1_000) / whole.max(1);
        let fill = |slice: &Slice| {
            let messages = share(
                slice.messages.len() as u64,
                u64::from(model.ingest_messages),
            );
            messages.max(share(slice.bytes, model.ingest_bytes))
        };
        fill(&self.turn).max(fill(&self.ingest)).min(1_000) as u16
    }

    /// Takes a message from a connection, as far as its server is able to.
    pub(super) fn receive(
        &mut self,
        now: Time,
        publish: Publish,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) {
        if self.trouble.is_some() {
            return self.receive_in_trouble(now, publish, model, out);
        }
        self.push(now, publish, model, out);
    }

    fn receive_in_trouble(
        &mut self,
        now: Time,
        publish: Publish,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) {
        if let Some(publish) = self.let_in(now, publish, out) {
            self.push(now, publish, model, out);
        }
    }

    /// Gives a message back if its server is up and reads it; one that stands still will do so later.
    pub(super) fn let_in(
        &mut self,
        now: Time,
        publish: Publish,
        out: &mut dyn Sink<Action>,
    ) -> Option<Publish> {
        let Some(trouble) = &mut self.trouble else {
            return Some(publish);
        };
        if trouble.down.is_some() {
            lost(publish.frame(), Loss::ServerDown, out);
            return None;
        }
        if now < trouble.frozen_until || !trouble.unread.is_empty() {
            trouble.unread.push_back(publish);
            return None;
        }
        Some(publish)
    }

    /// Takes a message into the queue, or refuses it if that is full.
    pub(super) fn push(
        &mut self,
        now: Time,
        publish: Publish,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) {
        let bytes = u64::from(publish.wire_bytes);
        let full = self.ingest.messages.len() >= model.ingest_messages as usize
            || self.ingest.bytes.saturating_add(bytes) > model.ingest_bytes;
        if full {
            overflow(&publish, out);
            return;
        }
        self.ingest.push(publish);
        if self.turn_end == Time::NEVER && !self.choosing {
            self.begin_turn(now, model);
        }
    }

    /// Serves one of the two queues; true if the driver has to choose again.
    pub(super) fn serve(
        &mut self,
        now: Time,
        source: Source,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        self.choosing = false;
        match source {
            Source::Ingest if !self.ingest.messages.is_empty() => {
                self.begin_turn(now, model);
                false
            }
            Source::Ingest => self.go_on(now, model, out),
            Source::Out => {
                self.send_all(out);
                self.go_on(now, model, out)
            }
        }
    }

    /// Puts the slice through the stream; true if the driver has to choose what comes next.
    pub(super) fn end_turn(
        &mut self,
        now: Time,
        around: &Surroundings<'_>,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        self.turn_end = Time::NEVER;
        let mut effects = Effects {
            queue: &mut self.out,
            out: &mut *out,
        };
        for publish in &self.turn.messages {
            self.stream.take(publish, around, &mut effects);
        }
        self.turn.clear();
        self.go_on(now, model, out)
    }

    /// Forgets idle batches.
    pub(super) fn expire(&mut self, now: Time, idle_advisory: bool, out: &mut dyn Sink<Action>) {
        let mut effects = Effects {
            queue: &mut self.out,
            out,
        };
        self.stream.expire(now, idle_advisory, &mut effects);
    }

    /// Does something to the stream that has facts for effects.
    pub(super) fn with_facts<R>(
        &mut self,
        out: &mut dyn Sink<Action>,
        work: impl FnOnce(&mut Stream, &mut dyn Sink<Effect>) -> R,
    ) -> R {
        let mut effects = Effects {
            queue: &mut self.out,
            out,
        };
        work(&mut self.stream, &mut effects)
    }

    /// Ends the turn of a stream that takes nothing any more: what was in it.
    pub(super) fn drop_turn(&mut self) -> Vec<Publish> {
        self.turn_end = Time::NEVER;
        std::mem::take(&mut self.turn).messages
    }

    /// After something other than its own turn gave the loop answers to send; true if the driver has
    /// to choose.
    pub(super) fn look(
        &mut self,
        now: Time,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        self.turn_end == Time::NEVER && !self.choosing && self.go_on(now, model, out)
    }

    /// Between turns: what is ready is served; true if both are and the driver has to choose.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        model: &ServerModel,
        out: &mut dyn Sink<Action>,
    ) -> bool {
        match (self.ingest.messages.is_empty(), self.out.is_empty()) {
            (true, true) => false,
            (true, false) => {
                self.send_all(out);
                false
            }
            (false, true) => {
                self.begin_turn(now, model);
                false
            }
            (false, false) => {
                self.choosing = true;
                out.emit(Action::Choose);
                true
            }
        }
    }

    /// Takes the whole queue, which makes room in it at once.
    fn begin_turn(&mut self, now: Time, model: &ServerModel) {
        std::mem::swap(&mut self.ingest, &mut self.turn);
        self.turn_begin = now;
        let mut cost = self.loop_cost(self.turn.messages.len() as u64, self.turn.bytes, model);
        if self.stream.writes_files() && !self.stream.is_replicated() {
            cost += model.disk.span(self.turn.writes, self.turn.write_bytes);
            self.turn_end = self.write_end(now + cost, self.turn.writes);
        } else {
            self.turn_end = now + cost;
        }
    }

    /// What so many messages with so many bytes in all cost the loop, without a disk.
    fn loop_cost(&self, messages: u64, bytes: u64, model: &ServerModel) -> Time {
        let (mut message, mut kibibyte) = (model.message_cost, model.kibibyte_cost);
        if self.stream.is_replicated() {
            message += model.cluster.propose_cost;
            kibibyte += model.cluster.propose_kibibyte_cost;
        }
        let each = message.as_nanos().saturating_mul(messages);
        let bytes = kibibyte.as_nanos().saturating_mul(bytes) / KIBIBYTE;
        Time::from_nanos(each) + Time::from_nanos(bytes)
    }

    /// When others get at the stream: between two messages of the turn, which share its time evenly.
    pub(super) fn unlocked(&self, now: Time) -> Time {
        if self.turn_end == Time::NEVER {
            return now;
        }
        let left = self.turn_end.since(now).as_nanos();
        let turn = self.turn_end.since(self.turn_begin).as_nanos();
        let each = turn / (self.turn.messages.len() as u64).max(1);
        let boundary = now + Time::from_nanos(left % each.max(1));
        // A write that is stuck keeps the lock.
        self.write_end(boundary, 0).min(self.turn_end)
    }

    // -- trouble ---------------------------------------------------------------------------------

    /// What comes up next on a server of its own, and when: a timer first, then a turn.
    ///
    /// Asked several times for each message.
    pub(super) fn next(&self) -> (Time, Coming) {
        let timers = self.stream.due();
        let next = if timers <= self.turn_end {
            (timers, Coming::Timers)
        } else {
            (self.turn_end, Coming::Turn)
        };
        let Some(trouble) = &self.trouble else {
            return next;
        };
        let thaw = trouble.thaw();
        if thaw < next.0 {
            return (thaw, Coming::Thaw);
        }
        (trouble.awake(next.0), next.1)
    }

    fn send_all(&mut self, out: &mut dyn Sink<Action>) {
        for (to, reply) in self.out.drain(..) {
            out.emit(Action::Send { to, reply });
        }
    }
}

/// The queue is full: the message is lost, and its sender hears so at once, past the out-queue.
fn overflow(publish: &Publish, out: &mut dyn Sink<Action>) {
    match publish.control {
        Control::Fast {
            batch,
            operation,
            sequence,
            ..
        } => out.emit(Action::Fact(Fact::Overflowed {
            batch,
            operation,
            sequence,
        })),
        Control::Atomic {
            batch,
            sequence,
            commit: AtomicCommit::No | AtomicCommit::Store | AtomicCommit::Unknown,
            ..
        } => out.emit(Action::Fact(Fact::Atomic(AtomicFact::Dropped {
            batch,
            sequence: BatchSequence(u64::from(sequence)),
            payload: publish.payload,
        }))),
        Control::Plain
        | Control::BadPattern
        | Control::BadBatchId
        | Control::BadAtomicId
        | Control::Atomic { .. } => {}
    }
    if let Some(to) = publish.reply {
        let reply = Reply::TooManyRequests;
        out.emit(Action::Send { to, reply });
    }
}
