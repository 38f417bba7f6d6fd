//! The plan of one publisher: which message comes next, when, and where a batch ends.
//!
//! Pure and cheap: a step makes no allocation, so that both worlds can ask for each message. Leans
//! on `arrival` and the settings of `scenario`.

use rand::RngExt;

use super::Arrivals;
use crate::event::{Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::scenario::{Commit, Pause, PayloadSize, Publishers, Settings};
use crate::seed::{Generator, Seed};

/// Poisson arrivals of a backlog that are drawn one by one before their mean rate is taken.
const OWED_DRAWS: u64 = 1 << 20;

/// What a publisher does next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing before this moment; ask again then.
    Wait(Time),
    /// Publish this message.
    Offer(Planned),
    /// End the open batch as [`Plan::commit`] says, without a further message, then call
    /// [`Plan::batch_over`]. Where a message should commit, none is left: an end of batch does.
    End,
    /// Nothing more, ever.
    Done,
}

/// A message that the plan wants published now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// Number of the batch among those of its publisher, from 0.
    pub batch: u32,
    /// Batch sequence, from 1.
    pub sequence: BatchSequence,
    /// Payload size.
    pub bytes: u32,
    /// Index into the subjects of the publisher.
    pub subject: u32,
    /// It commits the batch: call [`Plan::batch_over`] when it is answered.
    pub last: bool,
    /// When the load wanted it sent.
    pub intended: Time,
}

/// Everything that one publisher does, asked for step by step.
#[derive(Clone, Debug)]
pub struct Plan {
    publisher: PublisherId,
    arrivals: Arrivals,
    sizes: Sizes,
    messages: u32,
    batches: u32,
    subjects: u32,
    commit: Commit,
    pauses: Vec<Pause>,
    stop: Time,
    batch: u32,
    sequence: u32,
    next_subject: u32,
    next_pause: usize,
    due: Option<Time>,
    /// A batch ended in a way that its publisher does not go on after.
    over: bool,
    /// Messages handed out, of all batches.
    handed_out: u64,
    /// Of those, the ones not sent when their batch ended.
    unsent: u64,
}

impl Plan {
    /// The plans of all publishers of a file, numbered as events number them, with their groups.
    pub fn all(settings: &Settings, seed: Seed) -> impl Iterator<Item = (Self, &Publishers)> {
        let places = settings
            .publishers
            .iter()
            .flat_map(|group| (0..group.count).map(move |index| (group, index)));
        (0..).zip(places).map(move |(number, (group, index))| {
            (Self::new(group, PublisherId(number), index, seed), group)
        })
    }

    /// The plan of publisher `publisher` of the run, which is number `index` of its group.
    pub fn new(group: &Publishers, publisher: PublisherId, index: u32, seed: Seed) -> Self {
        let number = u64::from(publisher.0);
        let stagger = group.stagger.0.as_nanos().saturating_mul(u64::from(index));
        let start = group.start.0 + Time::from_nanos(stagger);
        let mut pauses = group.pauses.clone();
        pauses.sort_by_key(|pause| pause.after);
        Self {
            publisher,
            arrivals: Arrivals::new(group, start, || seed.generator("arrival", number)),
            sizes: Sizes::new(group.payload, || seed.generator("payload", number)),
            messages: group.messages.max(1),
            batches: group.batches,
            subjects: group.subjects.max(1),
            commit: group.commit,
            pauses,
            stop: group.stop.map_or(Time::NEVER, |stop| stop.0),
            batch: 0,
            sequence: 0,
            next_subject: 0,
            next_pause: 0,
            due: None,
            over: false,
            handed_out: 0,
            unsent: 0,
        }
    }

    /// Whose plan this is.
    pub const fn publisher(&self) -> PublisherId {
        self.publisher
    }

    /// How its batches end.
    pub const fn commit(&self) -> Commit {
        self.commit
    }

    /// What to do at `now`. A message is handed out once: the plan has moved on.
    pub fn step(&mut self, now: Time) -> Step {
        if self.over || self.batches != 0 && self.batch >= self.batches {
            return Step::Done;
        }
        if self.sequence >= self.messages {
            return Step::End;
        }
        let due = *self.due.get_or_insert_with(|| self.arrivals.next(now));
        // also for an open loop that is behind: what it still owes at the stop is withheld
        if due.max(now) >= self.stop {
            return self.step_to_the_end(now, due);
        }
        if due > now {
            return Step::Wait(due);
        }
        self.due = None;
        let last = self.commit == Commit::Message && self.sequence + 1 == self.messages;
        Step::Offer(self.hand_out(due, last))
    }

    /// The open batch is over, its messages sent up to `sent`; the next step belongs to the next
    /// batch, if there is to be one.
    ///
    /// Load goes on after a batch that the server refused or ended, or that ran into its timeout:
    /// that is when it is wanted most. It ends where a next batch could not fare better: the
    /// client failed, the run is over, or nobody listened to the first message.
    pub fn batch_over(&mut self, outcome: Outcome, sent: BatchSequence) {
        self.unsent += u64::from(self.sequence).saturating_sub(sent.0);
        self.over |= match outcome {
            Outcome::Committed
            | Outcome::EndedByServer
            | Outcome::Refused
            | Outcome::TimedOut
            | Outcome::Abandoned => false,
            Outcome::NoResponders => self.sequence <= 1,
            Outcome::Interrupted | Outcome::ClientError => true,
        };
        self.batch = self.batch.saturating_add(1);
        self.sequence = 0;
        self.next_pause = 0;
    }

    /// Messages that the load wanted before `until`, or its stop if that is sooner, and that were
    /// not sent: those that an open loop still owes, and those that a batch took and did not send.
    /// To be asked when no batch is open. A closed loop owes nothing.
    pub fn withheld(&self, until: Time) -> u64 {
        self.unsent + self.owed(until.min(self.stop))
    }

    fn owed(&self, until: Time) -> u64 {
        if !self.arrivals.is_open_loop() {
            return 0;
        }
        let left = self.messages_left();
        let mut arrivals = self.arrivals.clone();
        let mut draws = OWED_DRAWS;
        let mut pending = self.due;
        let (mut sequence, mut next_pause) = (self.sequence, self.next_pause);
        let mut owed = 0;
        while owed < left {
            if sequence == self.messages {
                (sequence, next_pause) = (0, 0);
            }
            // only pauses part the messages: without any, batches make no difference
            let stretch = match self.pauses.get(next_pause) {
                _ if self.pauses.is_empty() => left - owed,
                Some(pause) => u64::from(pause.after.min(self.messages) - sequence),
                None => u64::from(self.messages - sequence),
            };
            let stretch = stretch.min(left - owed);
            let mut passed = 0;
            if let Some(due) = pending.take() {
                if due >= until {
                    break;
                }
                passed = 1;
            }
            passed += arrivals.pass(until, stretch - passed, &mut draws);
            owed += passed;
            if passed < stretch {
                break;
            }
            sequence = sequence.saturating_add(u32::try_from(stretch).unwrap_or(u32::MAX));
            while let Some(pause) = self.pauses.get(next_pause)
                && pause.after <= sequence
            {
                arrivals.pause(until, pause.span.0);
                next_pause += 1;
            }
        }
        owed
    }

    /// Messages of the file that are not handed out: a batch cut short does not make them fewer.
    fn messages_left(&self) -> u64 {
        if self.batches == 0 {
            return u64::MAX;
        }
        (u64::from(self.batches) * u64::from(self.messages)).saturating_sub(self.handed_out)
    }

    /// Offers nothing from `now` on: an open batch ends, no other opens.
    pub fn stop_at(&mut self, now: Time) {
        self.stop = self.stop.min(now);
    }

    /// The last steps: a batch whose commit stores a message takes the oldest message that is owed
    /// for it; a message that the load never wanted is not made up.
    fn step_to_the_end(&mut self, now: Time, due: Time) -> Step {
        if self.stop > now {
            return Step::Wait(self.stop);
        }
        if self.sequence == 0 {
            return Step::Done;
        }
        if self.commit == Commit::Message && due < self.stop {
            self.due = None;
            return Step::Offer(self.hand_out(due, true));
        }
        Step::End
    }

    fn hand_out(&mut self, intended: Time, last: bool) -> Planned {
        self.sequence += 1;
        self.handed_out += 1;
        let subject = self.next_subject;
        self.next_subject += 1;
        if self.next_subject == self.subjects {
            self.next_subject = 0;
        }
        while let Some(pause) = self.pauses.get(self.next_pause)
            && pause.after <= self.sequence
        {
            self.arrivals.pause(intended, pause.span.0);
            self.next_pause += 1;
        }
        Planned {
            batch: self.batch,
            sequence: BatchSequence(u64::from(self.sequence)),
            bytes: self.sizes.next(),
            subject,
            last,
            intended,
        }
    }
}

/// The sizes of payloads. Only drawn ones have a generator: thousands of publishers have none.
#[derive(Clone, Debug)]
enum Sizes {
    Fixed(u32),
    Drawn {
        least: u32,
        most: u32,
        generator: Box<Generator>,
    },
}

impl Sizes {
    fn new(payload: PayloadSize, generator: impl FnOnce() -> Generator) -> Self {
        let clamp = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        match payload {
            PayloadSize::Fixed(bytes) => Self::Fixed(clamp(bytes.0)),
            PayloadSize::Range(range) => Self::Drawn {
                least: clamp(range.min.0),
                most: clamp(range.max.0.max(range.min.0)),
                generator: Box::new(generator()),
            },
        }
    }

    fn next(&mut self) -> u32 {
        match self {
            Self::Fixed(bytes) => *bytes,
            Self::Drawn {
                least,
                most,
                generator,
            } => generator.random_range(*least..=*most),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Arrival, SizeRange};
    use crate::units::{Bytes, Span};

    fn plan(group: &Publishers) -> Plan {
        Plan::new(group, PublisherId(0), 0, Seed(1))
    }

    /// Plays the plan with a publisher that takes each message at once.
    fn play(plan: &mut Plan) -> Vec<String> {
        let mut now = Time::ZERO;
        let mut log = Vec::new();
        loop {
            match plan.step(now) {
                Step::Wait(until) => now = until,
                Step::Offer(planned) => {
                    let last = if planned.last { " last" } else { "" };
                    log.push(format!(
                        "{}/{} @{} .{}{last}",
                        planned.batch, planned.sequence, planned.intended, planned.subject
                    ));
                    if planned.last {
                        plan.batch_over(Outcome::Committed, BatchSequence(u64::MAX));
                    }
                }
                Step::End => {
                    log.push("end".to_owned());
                    plan.batch_over(Outcome::Committed, BatchSequence(u64::MAX));
                }
                Step::Done => return log,
            }
        }
    }

    #[test]
    fn batches_follow_each_other_and_subjects_take_turns() {
        let group = Publishers {
            messages: 2,
            batches: 2,
            subjects: 3,
            start: Span(Time::from_secs(1)),
            ..Publishers::default()
        };
        let expected = [
            "0/1 @1.000000000s .0",
            "0/2 @1.000000000s .1",
            "end",
            "1/1 @1.000000000s .2",
            "1/2 @1.000000000s .0",
            "end",
        ];
        assert_eq!(play(&mut plan(&group)), expected);
    }

    #[test]
    fn a_stop_ends_the_batch_at_that_moment_and_opens_no_other() {
        let group = Publishers {
            arrival: Arrival::Constant,
            rate_per_second: Some(1.0),
            messages: 2,
            batches: 0,
            stop: Some(Span(Time::from_millis(2_500))),
            commit: Commit::Message,
            ..Publishers::default()
        };
        let expected = [
            "0/1 @0.000000000s .0",
            "0/2 @1.000000000s .0 last",
            "1/1 @2.000000000s .0",
            "end",
        ];
        assert_eq!(play(&mut plan(&group)), expected);
    }

    #[test]
    fn at_a_stop_a_message_that_is_owed_commits() {
        let group = Publishers {
            arrival: Arrival::Constant,
            rate_per_second: Some(1.0),
            stop: Some(Span(Time::from_millis(2_500))),
            commit: Commit::Message,
            ..Publishers::default()
        };
        let mut plan = plan(&group);
        assert!(matches!(plan.step(Time::ZERO), Step::Offer(_)));
        let Step::Offer(planned) = plan.step(Time::from_secs(3)) else {
            panic!("the message of the first second is owed");
        };
        assert_eq!(planned.intended, Time::from_secs(1));
        assert!(planned.last);
    }

    #[test]
    fn pauses_come_in_each_batch_after_their_message() {
        let group = Publishers {
            messages: 3,
            batches: 2,
            pauses: vec![Pause {
                after: 2,
                span: Span(Time::from_secs(5)),
            }],
            ..Publishers::default()
        };
        let log = play(&mut plan(&group));
        assert_eq!(log[1], "0/2 @0.000000000s .0");
        assert_eq!(log[2], "0/3 @5.000000000s .0");
        assert_eq!(log[6], "1/3 @10.000000000s .0");
    }

    #[test]
    fn stopping_early_cuts_a_closed_loop_short() {
        let mut plan = plan(&Publishers::default());
        assert!(matches!(plan.step(Time::ZERO), Step::Offer(_)));
        plan.stop_at(Time::from_secs(1));
        assert_eq!(plan.step(Time::from_secs(1)), Step::End);
        plan.batch_over(Outcome::Committed, BatchSequence(u64::MAX));
        assert_eq!(plan.step(Time::from_secs(1)), Step::Done);
    }

    #[test]
    fn load_goes_on_unless_the_next_batch_could_not_fare_better() {
        let group = Publishers {
            batches: 2,
            ..Publishers::default()
        };
        let goes_on = |messages: u32, outcome| {
            let mut plan = plan(&group);
            for _ in 0..messages {
                assert!(matches!(plan.step(Time::ZERO), Step::Offer(_)));
            }
            plan.batch_over(outcome, BatchSequence(u64::from(messages)));
            match plan.step(Time::ZERO) {
                Step::Offer(planned) => {
                    assert_eq!((planned.batch, planned.sequence.0), (1, 1));
                    true
                }
                step => {
                    assert_eq!(step, Step::Done);
                    false
                }
            }
        };
        for outcome in [
            Outcome::Committed,
            Outcome::EndedByServer,
            Outcome::Refused,
            Outcome::TimedOut,
            Outcome::Abandoned,
        ] {
            assert!(goes_on(1, outcome) && goes_on(2, outcome), "{outcome:?}");
        }
        for outcome in [Outcome::ClientError, Outcome::Interrupted] {
            assert!(!goes_on(1, outcome) && !goes_on(2, outcome), "{outcome:?}");
        }
        assert!(!goes_on(1, Outcome::NoResponders));
        assert!(goes_on(2, Outcome::NoResponders));
    }

    #[test]
    fn a_stop_withholds_the_backlog_of_an_open_loop() {
        let group = Publishers {
            arrival: Arrival::Constant,
            rate_per_second: Some(1_000.0),
            stop: Some(Span(Time::from_secs(1))),
            ..Publishers::default()
        };
        let mut plan = plan(&group);
        assert!(matches!(plan.step(Time::from_millis(900)), Step::Offer(_)));
        assert_eq!(plan.step(Time::from_millis(1_000)), Step::End);
        plan.batch_over(Outcome::Committed, BatchSequence(1));
        assert_eq!(plan.step(Time::from_millis(1_000)), Step::Done);
        assert_eq!(plan.withheld(Time::from_millis(500)), 499);
        assert_eq!(plan.withheld(Time::from_secs(9)), 999);
    }

    /// Whatever a plan has handed out before, what it withholds is what it would hand out at once.
    #[test]
    fn what_is_withheld_is_what_a_publisher_in_time_would_have_sent() {
        let pause = |after, milliseconds| Pause {
            after,
            span: Span(Time::from_millis(milliseconds)),
        };
        for (arrival, batches, pauses) in [
            (Arrival::Constant, 3, vec![]),
            (
                Arrival::Constant,
                0,
                vec![pause(2, 3), pause(5, 7), pause(5, 1)],
            ),
            (Arrival::Constant, 40, vec![pause(7, 11)]),
            (Arrival::Poisson, 0, vec![]),
            (Arrival::Poisson, 0, vec![pause(1, 3), pause(6, 2)]),
        ] {
            let group = Publishers {
                arrival,
                rate_per_second: Some(1_000.0),
                messages: 7,
                batches,
                stop: Some(Span(Time::from_millis(200))),
                commit: Commit::None,
                pauses,
                ..Publishers::default()
            };
            let mut plan = plan(&group);
            let handed_out = |log: Vec<String>| log.iter().filter(|line| *line != "end").count();
            let wanted = handed_out(play(&mut plan.clone())) as u64;
            assert_eq!(plan.withheld(Time::NEVER), wanted);
            for left in (wanted.saturating_sub(15)..wanted).rev() {
                let mut now = Time::ZERO;
                loop {
                    match plan.step(now) {
                        Step::Wait(until) => now = until,
                        Step::End => plan.batch_over(Outcome::Abandoned, BatchSequence(7)),
                        Step::Offer(_) => break,
                        Step::Done => panic!("{left} are left"),
                    }
                }
                assert_eq!(plan.withheld(Time::NEVER), left, "{group:?}");
            }
        }
    }

    #[test]
    fn a_closed_loop_withholds_only_what_a_batch_took_and_did_not_send() {
        let mut plan = plan(&Publishers::default());
        assert!(matches!(plan.step(Time::ZERO), Step::Offer(_)));
        assert!(matches!(plan.step(Time::ZERO), Step::Offer(_)));
        plan.batch_over(Outcome::TimedOut, BatchSequence(1));
        assert_eq!(plan.withheld(Time::from_secs(1)), 1);
    }

    #[test]
    fn sizes_come_from_the_whole_range_and_from_the_seed() {
        let group = Publishers {
            payload: PayloadSize::Range(SizeRange {
                min: Bytes(1),
                max: Bytes(4),
            }),
            ..Publishers::default()
        };
        let draw = |seed| {
            let mut plan = Plan::new(&group, PublisherId(0), 0, Seed(seed));
            (0..100).map(|_| plan.sizes.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut seen = draw(1);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [1, 2, 3, 4]);
    }

    #[test]
    fn publishers_are_numbered_through_all_groups() {
        let text =
            "format = 1\nabout = \"x\"\n[[publishers]]\ncount = 2\n[[publishers]]\nname = \"b\"\n";
        let settings: Settings = toml::from_str(text).unwrap();
        let found: Vec<_> = Plan::all(&settings, Seed(1))
            .map(|(plan, group)| (plan.publisher().0, group.name.as_str()))
            .collect();
        assert_eq!(found, [(0, "publishers"), (1, "publishers"), (2, "b")]);
    }
}
