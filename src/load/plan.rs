//! The plan of one publisher: which message comes next, when, and where a batch ends.
//!
//! Pure and cheap: a step makes no allocation but where the publisher leaves for a while, so that both
//! worlds can ask for each message. Leans on `arrival`, `sizes`, `choice` and the settings of `scenario`.

use std::sync::Arc;

use super::Arrivals;
use super::backlog::Backlog;
use super::choice::{Choice, ChoiceOfGroup};
use super::rates::Rates;
use super::sizes::{Sizes, SizesOfGroup};
use crate::event::{Outcome, PublisherId};
use crate::machine::Time;
use crate::nats::BatchSequence;
use crate::scenario::{Commit, Pause, Publishers, Settings};
use crate::seed::Seed;
use crate::units::Span;

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

/// What the publishers of a group have in common, made once for all of them.
#[derive(Clone, Debug)]
struct Shared {
    rates: Option<Arc<Rates>>,
    sizes: SizesOfGroup,
    choice: ChoiceOfGroup,
}

impl Shared {
    fn of(group: &Publishers) -> Self {
        Self {
            rates: Rates::of(group).map(Arc::new),
            sizes: SizesOfGroup::of(group),
            choice: ChoiceOfGroup::of(group),
        }
    }
}

/// Everything that one publisher does, asked for step by step.
#[derive(Clone, Debug)]
pub struct Plan {
    publisher: PublisherId,
    arrivals: Arrivals,
    sizes: Sizes,
    choice: Choice,
    messages: u32,
    batches: u32,
    commit: Commit,
    pauses: Vec<Pause>,
    stop: Time,
    absences: Option<Absences>,
    batch: u32,
    sequence: u32,
    next_pause: usize,
    due: Option<Time>,
    /// A batch ended in a way that its publisher does not go on after.
    over: bool,
    /// Messages of the file that are neither handed out nor withheld when the publisher left: a batch cut
    /// short does not make them fewer. Without an end where the file has none.
    left: u64,
    /// Messages handed out and not sent when their batch ended, and those withheld when the publisher left.
    unsent: u64,
}

/// A publisher that leaves and comes again, in turn.
#[derive(Clone, Copy, Debug)]
struct Absences {
    /// When it leaves next.
    leaves: Time,
    /// How long it is there each time, and away.
    on: Time,
    off: Time,
}

impl Absences {
    fn of(group: &Publishers, start: Time) -> Option<Self> {
        let (on, off) = (group.on_for?.0, group.off_for?.0);
        Some(Self {
            leaves: start + on,
            on,
            off,
        })
    }

    /// It is away, and will be there again.
    fn next(&mut self) {
        self.leaves += self.off + self.on;
    }
}

impl Plan {
    /// The plans of all publishers of a file, numbered as events number them, with their groups.
    pub fn all(settings: &Settings, seed: Seed) -> impl Iterator<Item = (Self, &Publishers)> {
        let places = settings.publishers.iter().flat_map(|group| {
            let shared = Shared::of(group);
            (0..group.count).map(move |index| (group, shared.clone(), index))
        });
        (0..)
            .zip(places)
            .map(move |(number, (group, shared, index))| {
                (
                    Self::new(group, shared, PublisherId(number), index, seed),
                    group,
                )
            })
    }

    /// The plan of publisher `publisher` of the run, which is number `index` of its group.
    fn new(
        group: &Publishers,
        shared: Shared,
        publisher: PublisherId,
        index: u32,
        seed: Seed,
    ) -> Self {
        let number = u64::from(publisher.0);
        let later =
            |stagger: Span| Time::from_nanos(stagger.0.as_nanos().saturating_mul(u64::from(index)));
        let start = group.start.0 + later(group.stagger);
        let stop = group.stop.map(|stop| stop.0 + later(group.stop_stagger));
        let messages = group.messages.max(1);
        let mut pauses = group.pauses.clone();
        pauses.sort_by_key(|pause| pause.after);
        Self {
            publisher,
            arrivals: Arrivals::new(group, shared.rates.as_ref(), index, start, || {
                seed.generator("arrival", number)
            }),
            sizes: Sizes::new(shared.sizes, || seed.generator("payload", number)),
            choice: Choice::new(shared.choice, group.subjects, || {
                seed.generator("subject", number)
            }),
            messages,
            batches: group.batches,
            commit: group.commit,
            pauses,
            stop: stop.unwrap_or(Time::NEVER),
            absences: Absences::of(group, start),
            batch: 0,
            sequence: 0,
            next_pause: 0,
            due: None,
            over: false,
            left: match group.batches {
                0 => u64::MAX,
                batches => u64::from(batches) * u64::from(messages),
            },
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
        loop {
            if self.over || self.batches != 0 && self.batch >= self.batches {
                return Step::Done;
            }
            if self.sequence >= self.messages {
                return Step::End;
            }
            if self.left == 0 {
                return self.nothing_more();
            }
            let due = *self.due.get_or_insert_with(|| self.arrivals.next(now));
            if due == Time::NEVER {
                return self.nothing_more();
            }
            let end = self.end();
            // also for an open loop that is behind: what it still owes at the end is withheld
            if due.max(now) < end {
                if due > now {
                    return Step::Wait(due);
                }
                self.due = None;
                let is_last = self.sequence + 1 == self.messages
                    || self.left == 1
                    || self.arrivals.are_over();
                let last = self.commit == Commit::Message && is_last;
                return Step::Offer(self.hand_out(due, last));
            }
            if let Some(step) = self.step_to_the_end(now, due, end) {
                return step;
            }
            self.leave();
        }
    }

    /// No message is left, wherever in a batch that is.
    const fn nothing_more(&self) -> Step {
        if self.sequence == 0 {
            Step::Done
        } else {
            Step::End
        }
    }

    /// When the publisher stops, or leaves for a while if that is sooner.
    fn end(&self) -> Time {
        let leaves = self
            .absences
            .map_or(Time::NEVER, |absences| absences.leaves);
        self.stop.min(leaves)
    }

    /// The publisher is away from the moment on at which it leaves. Messages that it owes by then are not
    /// sent later: they are withheld, as at a stop, and the file has so many fewer to come.
    fn leave(&mut self) {
        let Some(mut absences) = self.absences else {
            return;
        };
        let mut backlog = self.backlog();
        let owed = match self.arrivals.is_open_loop() {
            true => backlog.pass(absences.leaves, u64::MAX).min(self.left),
            false => 0,
        };
        backlog.leave(absences.leaves, absences.off);
        let (arrivals, due) = (backlog.arrivals, backlog.due);
        // a closed loop asks again when it is back
        self.due = due.filter(|_| arrivals.is_open_loop());
        self.arrivals = arrivals;
        self.unsent += owed;
        self.left -= owed;
        absences.next();
        self.absences = Some(absences);
    }

    fn backlog(&self) -> Backlog<'_> {
        Backlog::new(
            (self.arrivals.clone(), self.due),
            (&self.pauses, self.messages),
            (self.sequence, self.next_pause),
        )
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
        let left = self.left;
        let mut backlog = self.backlog();
        let mut absences = self.absences;
        let mut owed = 0;
        while let Some(absences) = &mut absences
            && absences.leaves < until
            && owed < left
        {
            owed += backlog.pass(absences.leaves, left - owed);
            backlog.leave(absences.leaves, absences.off);
            absences.next();
        }
        owed + backlog.pass(until, left - owed)
    }

    /// Offers nothing from `now` on: an open batch ends, no other opens.
    pub fn stop_at(&mut self, now: Time) {
        self.stop = self.stop.min(now);
    }

    /// The last steps before `end`: a batch whose commit stores a message takes the oldest message that is
    /// owed for it; a message that the load never wanted is not made up. None when the publisher leaves for a
    /// while and has no batch any more.
    fn step_to_the_end(&mut self, now: Time, due: Time, end: Time) -> Option<Step> {
        if end > now {
            return Some(Step::Wait(end));
        }
        if self.sequence == 0 {
            return (end == self.stop).then_some(Step::Done);
        }
        if self.commit == Commit::Message && due < end {
            self.due = None;
            return Some(Step::Offer(self.hand_out(due, true)));
        }
        Some(Step::End)
    }

    fn hand_out(&mut self, intended: Time, last: bool) -> Planned {
        self.sequence += 1;
        self.left -= 1;
        let subject = self.choice.next();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Arrival, RateChange};

    fn plan(group: &Publishers) -> Plan {
        Plan::new(group, Shared::of(group), PublisherId(0), 0, Seed(1))
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
    fn when_nothing_arrives_any_more_the_batch_ends_and_its_last_message_commits() {
        let change = |seconds, per_second| RateChange {
            at: Span(Time::from_secs(seconds)),
            per_second,
            ramp: false,
        };
        let group = |commit| Publishers {
            arrival: Arrival::Constant,
            rates: vec![change(0, 1.0), change(3, 0.0)],
            batches: 0,
            commit,
            ..Publishers::default()
        };
        let log = play(&mut plan(&group(Commit::Eob)));
        assert_eq!(log[2..], ["0/3 @2.000000000s .0", "end"]);
        let log = play(&mut plan(&group(Commit::Message)));
        assert_eq!(log[2..], ["0/3 @2.000000000s .0 last"]);
        assert_eq!(plan(&group(Commit::Eob)).withheld(Time::NEVER), 3);
    }

    fn coming_and_going(arrival: Arrival) -> Publishers {
        Publishers {
            arrival,
            rate_per_second: (arrival != Arrival::Closed).then_some(2.0),
            batches: 0,
            start: Span(Time::from_secs(1)),
            on_for: Some(Span(Time::from_secs(2))),
            off_for: Some(Span(Time::from_secs(10))),
            stop: Some(Span(Time::from_secs(14))),
            ..Publishers::default()
        }
    }

    #[test]
    fn a_publisher_that_leaves_ends_its_batch_and_comes_again_with_the_next() {
        let expected = [
            "0/1 @1.000000000s .0",
            "0/2 @1.500000000s .0",
            "0/3 @2.000000000s .0",
            "0/4 @2.500000000s .0",
            "end",
            "1/1 @13.000000000s .0",
            "1/2 @13.500000000s .0",
            "end",
        ];
        assert_eq!(
            play(&mut plan(&coming_and_going(Arrival::Constant))),
            expected
        );
    }

    #[test]
    fn a_closed_loop_leaves_and_comes_again() {
        let mut plan = plan(&coming_and_going(Arrival::Closed));
        let second = Time::from_secs;
        assert_eq!(plan.step(Time::ZERO), Step::Wait(second(1)));
        assert!(matches!(plan.step(second(1)), Step::Offer(_)));
        assert!(matches!(plan.step(second(2)), Step::Offer(_)));
        assert_eq!(plan.step(second(3)), Step::End);
        plan.batch_over(Outcome::Committed, BatchSequence(2));
        assert_eq!(plan.step(second(3)), Step::Wait(second(13)));
        assert!(matches!(plan.step(second(13)), Step::Offer(_)));
        assert_eq!(plan.step(second(14)), Step::End);
        plan.batch_over(Outcome::Committed, BatchSequence(1));
        assert_eq!(plan.step(second(14)), Step::Done);
        assert_eq!(plan.withheld(Time::NEVER), 0);
    }

    /// A pause of a closed loop runs on while the publisher is away; the clock of an open loop stands still.
    #[test]
    fn a_pause_longer_than_an_absence_is_not_cut_short_by_it() {
        for (arrival, next) in [(Arrival::Closed, 36), (Arrival::Constant, 46)] {
            let group = Publishers {
                pauses: vec![Pause {
                    after: 1,
                    span: Span(Time::from_secs(35)),
                }],
                rate_per_second: (arrival != Arrival::Closed).then_some(1e6),
                on_for: Some(Span(Time::from_secs(20))),
                stop: None,
                ..coming_and_going(arrival)
            };
            let mut plan = plan(&group);
            let mut now = Time::from_secs(1);
            assert!(matches!(plan.step(now), Step::Offer(_)));
            assert_eq!(plan.step(now), Step::Wait(Time::from_secs(21)));
            now = Time::from_secs(21);
            assert_eq!(plan.step(now), Step::End);
            plan.batch_over(Outcome::Committed, BatchSequence(1));
            let Step::Wait(until) = plan.step(now) else {
                panic!("{arrival:?} rests");
            };
            let until = until.as_secs_f64();
            assert!((until - f64::from(next)).abs() < 0.001, "{until}");
        }
    }

    /// What a slow publisher did not send when it left is withheld, and nothing of it comes later.
    #[test]
    fn what_is_owed_at_leaving_is_withheld() {
        for arrival in [Arrival::Constant, Arrival::Poisson] {
            let group = coming_and_going(arrival);
            let wanted = plan(&group).withheld(Time::NEVER);
            let played = play(&mut plan(&group));
            let sent = played.iter().filter(|line| *line != "end").count() as u64;
            assert_eq!(wanted, sent, "{arrival:?}");
            let mut slow = plan(&group);
            let Step::Wait(first) = slow.step(Time::ZERO) else {
                panic!("{arrival:?} begins later");
            };
            assert!(matches!(slow.step(first), Step::Offer(_)));
            assert_eq!(slow.step(Time::from_secs(3)), Step::End);
            slow.batch_over(Outcome::Committed, BatchSequence(1));
            let Step::Wait(back) = slow.step(Time::from_secs(3)) else {
                panic!("{arrival:?} is away");
            };
            assert!(back >= Time::from_secs(13));
            assert_eq!(slow.withheld(Time::NEVER), wanted - 1, "{arrival:?}");
        }
    }

    /// Also where more arrived than the file has messages.
    #[test]
    fn nothing_that_arrived_before_a_leaving_comes_after_it() {
        let group = Publishers {
            messages: 2,
            batches: 1,
            on_for: Some(Span(Time::from_secs(9))),
            ..coming_and_going(Arrival::Constant)
        };
        let mut plan = plan(&group);
        assert_eq!(plan.step(Time::from_secs(10)), Step::Done);
        assert_eq!(plan.withheld(Time::NEVER), 2);
    }

    /// Plays the plan with a publisher that takes a message each second; says how many it sent.
    fn play_slowly(plan: &mut Plan) -> u64 {
        let (mut now, mut sent) = (Time::ZERO, 0);
        loop {
            let last = match plan.step(now) {
                Step::Wait(until) => {
                    now = until;
                    continue;
                }
                Step::Offer(planned) => {
                    sent += 1;
                    now += Time::from_secs(1);
                    planned.last
                }
                Step::End => true,
                Step::Done => return sent,
            };
            if last {
                plan.batch_over(Outcome::Committed, BatchSequence(u64::MAX));
            }
        }
    }

    /// However often a publisher leaves, what it sent and what was withheld are the messages of the file.
    #[test]
    fn messages_withheld_at_leavings_are_messages_of_the_file() {
        for (messages, batches) in [(4, 1), (4, 3), (5, 2), (1, 9), (2, 8)] {
            for commit in [Commit::Eob, Commit::Message, Commit::None] {
                let group = Publishers {
                    messages,
                    batches,
                    commit,
                    off_for: Some(Span(Time::from_secs(3))),
                    stop: Some(Span(Time::from_secs(3_600))),
                    ..coming_and_going(Arrival::Constant)
                };
                let mut plan = plan(&group);
                let sent = play_slowly(&mut plan);
                let of_the_file = u64::from(messages * batches);
                assert!(sent < of_the_file, "{group:?}");
                assert_eq!(sent + plan.withheld(Time::NEVER), of_the_file, "{group:?}");
            }
        }
    }

    /// Where withheld messages leave less than a whole batch, the last one of the file commits.
    #[test]
    fn the_last_message_of_the_file_commits_a_batch_that_is_not_full() {
        let group = Publishers {
            messages: 5,
            batches: 2,
            commit: Commit::Message,
            on_for: Some(Span(Time::from_secs(4))),
            stop: None,
            ..coming_and_going(Arrival::Constant)
        };
        let mut plan = plan(&group);
        assert!(matches!(plan.step(Time::from_secs(1)), Step::Offer(_)));
        plan.batch_over(Outcome::Abandoned, BatchSequence(1));
        // seven of the other nine have arrived
        assert_eq!(
            plan.step(Time::from_secs(5)),
            Step::Wait(Time::from_secs(15))
        );
        let lasts = [16, 16].map(|second| match plan.step(Time::from_secs(second)) {
            Step::Offer(planned) => planned.last,
            step => panic!("{step:?}"),
        });
        assert_eq!(lasts, [false, true]);
        plan.batch_over(Outcome::Committed, BatchSequence(2));
        assert_eq!(plan.step(Time::from_secs(16)), Step::Done);
        assert_eq!(plan.withheld(Time::NEVER), 7);
    }

    #[test]
    fn publishers_of_a_group_may_stop_one_after_the_other() {
        let group = Publishers {
            count: 3,
            stop: Some(Span(Time::from_secs(5))),
            stop_stagger: Span(Time::from_secs(2)),
            ..Publishers::default()
        };
        for index in 0..3 {
            let shared = Shared::of(&group);
            let mut plan = Plan::new(&group, shared, PublisherId(index), index, Seed(1));
            let stop = Time::from_secs(5 + 2 * u64::from(index));
            assert!(matches!(
                plan.step(Time::from_nanos(stop.as_nanos() - 1)),
                Step::Offer(_)
            ));
            assert_eq!(plan.step(stop), Step::End);
        }
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
