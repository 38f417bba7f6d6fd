//! How a world is, and what goes wrong in it: by hand, or drawn from a seed.
//!
//! Leans on the settings of `raft`.

use rand_chacha::rand_core::Rng;
use tidegate::machine::Time;
use tidegate::raft::{Range, Settings};
use tidegate::seed::{Generator, Seed};

/// How the world is, and what goes wrong in it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) settings: Settings,
    /// One way, each message.
    pub(crate) delay: Range,
    /// The same for what a catch-up sends, which runs beside the rest.
    pub(crate) catchup_delay: Range,
    /// Messages lost, of a thousand.
    pub(crate) loss_permille: u64,
    pub(crate) write: Range,
    pub(crate) sync: Time,
    /// How often the disk syncs what was written.
    pub(crate) sync_every: Time,
    /// How often each layer that leads proposes, how many messages at most, and how large.
    pub(crate) propose_every: Time,
    pub(crate) proposals: u64,
    pub(crate) message_bytes: u64,
    /// How long the layer above takes for an append entry.
    pub(crate) apply: Time,
    /// Append entries after which it makes a snapshot; 0 for never.
    pub(crate) snapshot_every: u64,
    /// How long it takes to hear that its replica leads or has stepped down.
    pub(crate) notice: Range,
    /// How far faults are apart; `None` for a world without.
    pub(crate) fault_every: Option<Range>,
    pub(crate) faults: Vec<Fault>,
}

/// What can go wrong. Replicas and spans are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// One replica no longer hears another.
    CutOneWay,
    /// One replica is cut off from all others.
    Isolate,
    Kill,
    PowerLoss,
    /// All machines lose power at once.
    Blackout,
    StepDown,
    SlowDisk,
    SlowApply,
    /// One replica hears another late.
    SlowLink,
}

/// Everything a run can do wrong but lose power.
pub(crate) const FAULTS: [Fault; 7] = [
    Fault::CutOneWay,
    Fault::Isolate,
    Fault::Kill,
    Fault::StepDown,
    Fault::SlowDisk,
    Fault::SlowApply,
    Fault::SlowLink,
];

pub(crate) const fn millis(least: u64, most: u64) -> Range {
    Range {
        least: Time::from_millis(least),
        most: Time::from_millis(most),
    }
}

pub(crate) const fn micros(least: u64, most: u64) -> Range {
    Range {
        least: Time::from_micros(least),
        most: Time::from_micros(most),
    }
}

impl Plan {
    /// Three replicas on a quick network with a quick disk, a message every 10 ms, no faults.
    pub(crate) fn calm() -> Self {
        Self {
            settings: Settings::default(),
            delay: micros(100, 200),
            catchup_delay: micros(100, 200),
            loss_permille: 0,
            write: micros(5, 10),
            sync: Time::from_micros(200),
            sync_every: Time::from_secs(20),
            propose_every: Time::from_millis(10),
            proposals: 1,
            message_bytes: 200,
            apply: Time::from_micros(2),
            snapshot_every: 0,
            notice: micros(0, 0),
            fault_every: None,
            faults: Vec::new(),
        }
    }

    /// Any world that this seed names: small limits, so that they are reached.
    pub(crate) fn drawn(seed: Seed) -> Self {
        let mut dice = Dice(seed.generator("plan", 0));
        let power = dice.below(3);
        let mut faults = FAULTS.to_vec();
        if power > 0 {
            faults.extend([Fault::PowerLoss, Fault::Blackout]);
        }
        let settings = Settings {
            members: [1, 3, 3, 3, 5][dice.below(5) as usize],
            batch_bytes: 1 << (9 + dice.below(6)),
            batch_entries: 1 << dice.below(7),
            overrun: 100 + dice.below(100),
            resume: 2 + dice.below(8),
            catchup_bytes: 1 << (14 + dice.below(6)),
            sync_always: power == 1,
            ..Settings::default()
        };
        Self {
            settings,
            delay: micros(100, 200 << dice.below(9)),
            catchup_delay: micros(100, 200 << dice.below(12)),
            loss_permille: [0, 0, 2, 20][dice.below(4) as usize],
            write: micros(5, 10 << dice.below(10)),
            sync: Time::from_micros(200),
            sync_every: Time::from_secs(20),
            propose_every: Time::from_millis(50 + dice.below(400)),
            proposals: 1 << dice.below(6),
            message_bytes: 1 << dice.below(10),
            apply: Time::from_micros(1 << dice.below(14)),
            snapshot_every: [0, 10, 50][dice.below(3) as usize],
            notice: micros(0, 1 << dice.below(20)),
            fault_every: Some(millis(300, 6_000)),
            faults,
        }
    }
}

/// Draws.
pub(crate) struct Dice(pub(crate) Generator);

impl Dice {
    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    pub(crate) fn span(&mut self, range: Range) -> Time {
        let width = (range.most - range.least).as_nanos();
        range.least + Time::from_nanos(self.below(width))
    }
}
