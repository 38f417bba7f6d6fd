//! The client half of one atomic batch: sequences, the acks that it asks for, deadlines, and how it
//! ends.
//!
//! The driver offers messages and publishes what an action names, with the headers of the batch; it
//! knows by the reply subject which message a reply answers. There are no pings: a batch that waits
//! longer than the server's idle timeout is gone. Leans on `machine`, on the endings of
//! `fast::publisher` and on the words of `nats`. ADR-50 [atomic.start, atomic.append].

use crate::batch::fast::publisher::{End, Outcome};
use crate::batch::message::AtomicCommit;
use crate::machine::{Machine, Sink, Time};
use crate::nats::BatchSequence;
use crate::nats::ack::PubAck;

/// Status of a message whose subject nobody listens on.
const NO_RESPONDERS: u16 = 503;

/// How a publisher works.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Settings {
    /// The first message asks for an ack and is waited for: a server without the feature is noticed
    /// at once.
    pub ack_first: bool,
    /// Every so manieth message asks for an ack and is waited for; 0: none does.
    pub ack_every: u64,
    /// Longest wait for one ack, or for the PubAck.
    pub ack_timeout: Time,
    /// Most messages of the batch, as the server has it; 1 or more.
    pub messages_max: u64,
}

/// What can happen to a publisher.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// One more message, only after [`Action::Ready`] (or as the very first input).
    Offer,
    /// The last message: it is stored and commits. Same condition as `Offer`.
    Commit,
    /// The end of the batch, without a message. After `Ready` or [`Action::Full`], with a message
    /// before it.
    CommitEob,
    /// A reply to the message with this sequence arrived.
    Reply(BatchSequence, AtomicReply),
    /// The connection did not take a message.
    PublishFailed,
}

/// A reply, as far as a publisher cares.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicReply {
    /// No bytes: the message is staged.
    Empty,
    /// The batch is stored.
    PubAck(PubAck),
    /// An error in place of either, by `err_code`.
    Refused(u16),
    /// A status without a body: 503 or 429.
    Status(u16),
}

/// What a publisher wants done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Send a message, or the end of the batch.
    Publish {
        /// What its commit header says.
        commit: AtomicCommit,
        /// Its sequence.
        sequence: BatchSequence,
        /// It has a reply subject.
        wants_reply: bool,
    },
    /// There is room for one more offer.
    Ready,
    /// The batch has as many messages as it may have: only its end is taken.
    Full,
    /// An ack is waited for.
    Blocked,
    /// That wait is over: the ack came, or the batch ended.
    Unblocked,
    /// The batch is over; nothing follows.
    Ended(End),
}

/// The client half of one atomic batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Publisher {
    settings: Settings,
    /// Highest batch sequence sent, an EOB not counted.
    sent: BatchSequence,
    /// Highest batch sequence that is known to be staged.
    acknowledged: BatchSequence,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum State {
    /// Takes offers.
    Open,
    /// The ack of the newest message is waited for.
    Blocked {
        deadline: Time,
    },
    /// The commit is sent, with this sequence.
    Committing {
        deadline: Time,
        sequence: BatchSequence,
    },
    Ended,
}

impl Publisher {
    /// A publisher that has sent nothing.
    pub const fn new(settings: Settings) -> Self {
        Self {
            settings,
            sent: BatchSequence(0),
            acknowledged: BatchSequence(0),
            state: State::Open,
        }
    }

    /// Highest batch sequence sent, an EOB not counted.
    pub const fn sent(&self) -> BatchSequence {
        self.sent
    }

    /// Whether a further message is taken now.
    pub const fn is_ready(&self) -> bool {
        matches!(self.state, State::Open) && !self.is_full()
    }

    /// Whether the batch is over.
    pub const fn is_over(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    const fn is_full(&self) -> bool {
        self.sent.0 >= self.settings.messages_max
    }

    fn offer(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        if !self.is_ready() {
            return;
        }
        let sequence = self.sent.next();
        self.sent = sequence;
        let every = self.settings.ack_every;
        let wants_reply = (self.settings.ack_first && sequence == BatchSequence(1))
            || (every > 0 && sequence.0.is_multiple_of(every));
        out.emit(Action::Publish {
            commit: AtomicCommit::No,
            sequence,
            wants_reply,
        });
        if wants_reply {
            let deadline = now + self.settings.ack_timeout;
            self.state = State::Blocked { deadline };
            out.emit(Action::Blocked);
        } else {
            self.tell_room(out);
        }
    }

    fn commit(&mut self, now: Time, commit: AtomicCommit, out: &mut dyn Sink<Action>) {
        let is_eob = commit == AtomicCommit::Eob;
        let is_lawful = if is_eob {
            // An end alone is no batch.
            self.state == State::Open && self.sent > BatchSequence(0)
        } else {
            self.is_ready()
        };
        if !is_lawful {
            return;
        }
        let sequence = self.sent.next();
        if !is_eob {
            self.sent = sequence;
        }
        out.emit(Action::Publish {
            commit,
            sequence,
            wants_reply: true,
        });
        self.state = State::Committing {
            deadline: now + self.settings.ack_timeout,
            sequence,
        };
    }

    fn on_reply(&mut self, to: BatchSequence, reply: AtomicReply, out: &mut dyn Sink<Action>) {
        if self.is_over() {
            return;
        }
        match reply {
            AtomicReply::Empty => self.on_empty(to, out),
            AtomicReply::PubAck(ack) => self.on_pub_ack(to, ack, out),
            AtomicReply::Refused(code) => self.end(Outcome::Refused, code, None, out),
            AtomicReply::Status(NO_RESPONDERS) => {
                self.end(Outcome::NoResponders, NO_RESPONDERS, None, out);
            }
            // A message is lost, and the batch with it.
            AtomicReply::Status(code) => self.end(Outcome::Refused, code, None, out),
        }
    }

    fn on_empty(&mut self, to: BatchSequence, out: &mut dyn Sink<Action>) {
        if let State::Committing { sequence, .. } = self.state
            && sequence == to
        {
            // Somebody answers who is no stream.
            return self.end(Outcome::ClientError, 0, None, out);
        }
        // One that is staged has all before it staged, too.
        self.acknowledged = self.acknowledged.max(to.min(self.sent));
        if matches!(self.state, State::Blocked { .. }) && self.acknowledged >= self.sent {
            self.state = State::Open;
            out.emit(Action::Unblocked);
            self.tell_room(out);
        }
    }

    /// Only that of the commit is one of the batch: where the stream takes no notice of the headers,
    /// each message is stored and acknowledged for itself.
    fn on_pub_ack(&mut self, to: BatchSequence, ack: PubAck, out: &mut dyn Sink<Action>) {
        let is_of_batch = match self.state {
            State::Committing { sequence, .. } => {
                sequence == to && ack.count == Some(self.sent) && !ack.duplicate
            }
            State::Open | State::Blocked { .. } | State::Ended => false,
        };
        if is_of_batch {
            self.acknowledged = self.sent;
            self.end(Outcome::Committed, 0, Some(ack), out);
        } else {
            self.end(Outcome::ClientError, 0, Some(ack), out);
        }
    }

    fn tell_room(&self, out: &mut dyn Sink<Action>) {
        out.emit(if self.is_full() {
            Action::Full
        } else {
            Action::Ready
        });
    }

    fn end(
        &mut self,
        outcome: Outcome,
        code: u16,
        pub_ack: Option<PubAck>,
        out: &mut dyn Sink<Action>,
    ) {
        if matches!(self.state, State::Blocked { .. }) {
            out.emit(Action::Unblocked);
        }
        self.state = State::Ended;
        out.emit(Action::Ended(End {
            outcome,
            code,
            acknowledged: self.acknowledged,
            pub_ack,
        }));
    }
}

impl Machine for Publisher {
    type Input = Input;
    type Action = Action;

    fn step(&mut self, now: Time, input: Input, out: &mut dyn Sink<Action>) {
        match input {
            Input::Offer => self.offer(now, out),
            Input::Commit => self.commit(now, AtomicCommit::Store, out),
            Input::CommitEob => self.commit(now, AtomicCommit::Eob, out),
            Input::Reply(to, reply) => self.on_reply(to, reply, out),
            Input::PublishFailed if self.is_over() => {}
            Input::PublishFailed => self.end(Outcome::ClientError, 0, None, out),
        }
    }

    fn due(&self) -> Time {
        match self.state {
            State::Blocked { deadline } | State::Committing { deadline, .. } => deadline,
            State::Open | State::Ended => Time::NEVER,
        }
    }

    fn wake(&mut self, now: Time, out: &mut dyn Sink<Action>) {
        if self.due() <= now {
            self.end(Outcome::TimedOut, 0, None, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::StreamSequence;

    const SETTINGS: Settings = Settings {
        ack_first: true,
        ack_every: 3,
        ack_timeout: Time::from_secs(5),
        messages_max: 1_000,
    };

    struct Scene {
        publisher: Publisher,
        now: Time,
    }

    impl Scene {
        const fn new(settings: Settings) -> Self {
            Self {
                publisher: Publisher::new(settings),
                now: Time::from_secs(1),
            }
        }

        /// Past the first ack, or without one: so many messages are sent and staged.
        fn with(settings: Settings, messages: u64) -> Self {
            let mut scene = Self::new(settings);
            for sequence in 1..=messages {
                scene.step(Input::Offer);
                scene.reply(sequence, AtomicReply::Empty);
            }
            scene
        }

        fn step(&mut self, input: Input) -> Vec<Action> {
            let mut out = Vec::new();
            self.publisher.step(self.now, input, &mut out);
            out
        }

        fn reply(&mut self, sequence: u64, reply: AtomicReply) -> Vec<Action> {
            self.step(Input::Reply(BatchSequence(sequence), reply))
        }
    }

    const fn publish(commit: AtomicCommit, sequence: u64, wants_reply: bool) -> Action {
        Action::Publish {
            commit,
            sequence: BatchSequence(sequence),
            wants_reply,
        }
    }

    const fn ended(outcome: Outcome, code: u16, acknowledged: u64) -> Action {
        Action::Ended(End {
            outcome,
            code,
            acknowledged: BatchSequence(acknowledged),
            pub_ack: None,
        })
    }

    const fn pub_ack(count: u64) -> PubAck {
        PubAck {
            sequence: StreamSequence(70),
            count: Some(BatchSequence(count)),
            duplicate: false,
        }
    }

    #[test]
    fn the_first_message_waits_for_its_ack_and_then_every_third_does() {
        let mut scene = Scene::new(SETTINGS);
        let no = AtomicCommit::No;
        let sent = scene.step(Input::Offer);
        assert_eq!(sent, [publish(no, 1, true), Action::Blocked]);
        assert!(!scene.publisher.is_ready());
        assert_eq!(scene.step(Input::Offer), [], "nothing is taken meanwhile");
        let acked = scene.reply(1, AtomicReply::Empty);
        assert_eq!(acked, [Action::Unblocked, Action::Ready]);
        let sent = scene.step(Input::Offer);
        assert_eq!(sent, [publish(no, 2, false), Action::Ready]);
        let sent = scene.step(Input::Offer);
        assert_eq!(sent, [publish(no, 3, true), Action::Blocked]);
        // The ack of an earlier message does not end this wait.
        assert_eq!(scene.reply(1, AtomicReply::Empty), []);
        let acked = scene.reply(3, AtomicReply::Empty);
        assert_eq!(acked, [Action::Unblocked, Action::Ready]);
    }

    #[test]
    fn without_acks_only_the_commit_has_a_reply() {
        let mut scene = Scene::new(Settings {
            ack_first: false,
            ack_every: 0,
            ..SETTINGS
        });
        for sequence in 1..=5 {
            let sent = scene.step(Input::Offer);
            let message = publish(AtomicCommit::No, sequence, false);
            assert_eq!(sent, [message, Action::Ready]);
        }
        assert_eq!(scene.publisher.due(), Time::NEVER);
        let sent = scene.step(Input::Commit);
        assert_eq!(sent, [publish(AtomicCommit::Store, 6, true)]);
    }

    #[test]
    fn a_pub_ack_with_the_right_count_commits() {
        for (input, commit, count) in [
            (Input::Commit, AtomicCommit::Store, 3),
            (Input::CommitEob, AtomicCommit::Eob, 2),
        ] {
            let mut scene = Scene::with(SETTINGS, 2);
            assert_eq!(scene.step(input), [publish(commit, 3, true)]);
            let over = scene.reply(3, AtomicReply::PubAck(pub_ack(count)));
            let end = End {
                outcome: Outcome::Committed,
                code: 0,
                acknowledged: BatchSequence(count),
                pub_ack: Some(pub_ack(count)),
            };
            assert_eq!(over, [Action::Ended(end)]);
            assert!(scene.publisher.is_over());
            assert_eq!(scene.reply(3, AtomicReply::PubAck(pub_ack(count))), []);
        }
    }

    #[test]
    fn a_pub_ack_that_is_not_of_the_whole_batch_is_no_commit() {
        let outcome = |scene: &mut Scene, sequence, ack| {
            let over = scene.reply(sequence, AtomicReply::PubAck(ack));
            match over.last() {
                Some(Action::Ended(end)) => end.outcome,
                other => panic!("{other:?}"),
            }
        };
        // The stream stores single messages and knows nothing of batches.
        let plain = PubAck {
            count: None,
            ..pub_ack(1)
        };
        let mut scene = Scene::new(SETTINGS);
        scene.step(Input::Offer);
        assert_eq!(outcome(&mut scene, 1, plain), Outcome::ClientError);
        for ack in [plain, pub_ack(2), pub_ack(4)] {
            let mut scene = Scene::with(SETTINGS, 2);
            scene.step(Input::Commit);
            assert_eq!(outcome(&mut scene, 3, ack), Outcome::ClientError);
        }
        let mut scene = Scene::with(SETTINGS, 2);
        scene.step(Input::Commit);
        let over = scene.reply(3, AtomicReply::Empty);
        assert_eq!(over, [ended(Outcome::ClientError, 0, 2)]);
    }

    #[test]
    fn an_error_ends_the_batch_whatever_it_answers() {
        for (reply, outcome, code) in [
            (AtomicReply::Refused(10_174), Outcome::Refused, 10_174),
            (AtomicReply::Status(503), Outcome::NoResponders, 503),
            (AtomicReply::Status(429), Outcome::Refused, 429),
        ] {
            let mut scene = Scene::new(SETTINGS);
            scene.step(Input::Offer);
            let over = scene.reply(1, reply);
            assert_eq!(over, [Action::Unblocked, ended(outcome, code, 0)]);

            let mut scene = Scene::with(SETTINGS, 2);
            scene.step(Input::CommitEob);
            assert_eq!(scene.reply(3, reply), [ended(outcome, code, 2)]);
        }
    }

    #[test]
    fn a_wait_has_a_deadline() {
        let mut scene = Scene::new(SETTINGS);
        scene.step(Input::Offer);
        assert_eq!(scene.publisher.due(), Time::from_secs(6));
        let mut out = Vec::new();
        scene.publisher.wake(Time::from_secs(5), &mut out);
        assert_eq!(out, []);
        scene.publisher.wake(Time::from_secs(6), &mut out);
        assert_eq!(out, [Action::Unblocked, ended(Outcome::TimedOut, 0, 0)]);
        assert_eq!(scene.publisher.due(), Time::NEVER);

        let mut scene = Scene::with(SETTINGS, 2);
        scene.step(Input::Commit);
        let mut out = Vec::new();
        scene.publisher.wake(Time::from_secs(6), &mut out);
        assert_eq!(out, [ended(Outcome::TimedOut, 0, 2)]);
    }

    #[test]
    fn a_full_batch_takes_nothing_but_its_end() {
        let settings = Settings {
            messages_max: 2,
            ..SETTINGS
        };
        let mut scene = Scene::with(settings, 1);
        let sent = scene.step(Input::Offer);
        assert_eq!(sent, [publish(AtomicCommit::No, 2, false), Action::Full]);
        assert_eq!(scene.step(Input::Offer), []);
        assert_eq!(scene.step(Input::Commit), []);
        let sent = scene.step(Input::CommitEob);
        assert_eq!(sent, [publish(AtomicCommit::Eob, 3, true)]);
    }

    #[test]
    fn an_end_alone_is_not_sent() {
        let mut scene = Scene::new(SETTINGS);
        assert_eq!(scene.step(Input::CommitEob), []);
        let sent = scene.step(Input::Commit);
        assert_eq!(sent, [publish(AtomicCommit::Store, 1, true)]);
    }

    #[test]
    fn a_message_that_the_connection_did_not_take_ends_the_batch() {
        let mut scene = Scene::with(SETTINGS, 1);
        scene.step(Input::Offer);
        let over = scene.step(Input::PublishFailed);
        assert_eq!(over, [ended(Outcome::ClientError, 0, 1)]);
        assert_eq!(scene.step(Input::PublishFailed), []);
    }
}
