//! How often a batch is acknowledged: the flow it opens with, and the next flow at each ack.
//!
//! Leans on nothing of ours.

/// What a policy may look at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pressure {
    /// Fast batches registered on the stream, this one included.
    pub open: u32,
    /// How full the ingest queue was when this slice of it was taken, in thousandths.
    pub ingest_permille: u16,
    /// Messages that a leader has proposed and not applied, in thousandths of [`BACKLOG_FULL`].
    pub backlog_permille: u16,
}

/// Messages proposed and not applied at which a replicated stream counts as behind: nats-server warns
/// from there on (`streamLagWarnThreshold`).
pub const BACKLOG_FULL: u64 = 10_000;

/// A rule for the flow of a batch.
pub trait FlowPolicy {
    /// The flow when a batch opens, 1..=`most`; `most` is what the client asked for.
    fn initial(&self, most: u16, pressure: Pressure) -> u16;

    /// The flow after an ack that was reached with `flow`, 1..=`most`.
    fn next(&self, flow: u16, most: u16, pressure: Pressure) -> u16;
}

/// The rule of nats-server: the stream's batches share `total` evenly; a lone batch opens with all
/// of it, any other with 1; each ack doubles or halves towards the share.
///
/// Neither sizes nor queues enter into it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct EvenShare {
    /// Messages shared by all batches of a stream.
    pub total: u16,
}

impl FlowPolicy for EvenShare {
    fn initial(&self, most: u16, pressure: Pressure) -> u16 {
        let flow = if pressure.open <= 1 { self.total } else { 1 };
        flow.min(most).max(1)
    }

    fn next(&self, flow: u16, most: u16, pressure: Pressure) -> u16 {
        let share = u32::from(self.total) / pressure.open.max(1);
        // At most `total`, so it fits.
        step(flow, share.max(1) as u16, most)
    }
}

/// One step from `flow` towards `target`: twice as much, or half, and never beyond it.
fn step(flow: u16, target: u16, most: u16) -> u16 {
    let target = target.min(most).max(1);
    if flow < target {
        flow.saturating_mul(2).min(target)
    } else {
        (flow / 2).max(target)
    }
}

/// An experiment: the even share, of which only what there is room for is granted. With no room left
/// it comes down to 1, by halves; a batch opens as under [`EvenShare`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ShareOfRoom {
    /// What is shared.
    pub share: EvenShare,
    /// What counts as room.
    pub room: Room,
}

/// What a flow has to leave room in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Room {
    /// The ingest queue.
    IngestQueue,
    /// What RAFT has to replicate and apply.
    RaftBacklog,
    /// Whichever of the two is fuller.
    Both,
}

impl Room {
    /// How much is left, in thousandths.
    fn left(self, pressure: Pressure) -> u16 {
        let taken = match self {
            Self::IngestQueue => pressure.ingest_permille,
            Self::RaftBacklog => pressure.backlog_permille,
            Self::Both => pressure.ingest_permille.max(pressure.backlog_permille),
        };
        1_000_u16.saturating_sub(taken)
    }
}

impl FlowPolicy for ShareOfRoom {
    fn initial(&self, most: u16, pressure: Pressure) -> u16 {
        self.share.initial(most, pressure)
    }

    fn next(&self, flow: u16, most: u16, pressure: Pressure) -> u16 {
        let share = u32::from(self.share.total) / pressure.open.max(1);
        // Never more than the share, so it fits.
        let granted = share * u32::from(self.room.left(pressure)) / 1_000;
        step(flow, granted as u16, most)
    }
}

/// The policies to choose from, as a value, so that machines stay `Clone + Eq + Hash`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// What nats-server does.
    EvenShare(EvenShare),
    /// An experiment.
    ShareOfRoom(ShareOfRoom),
}

impl FlowPolicy for Policy {
    fn initial(&self, most: u16, pressure: Pressure) -> u16 {
        match self {
            Self::EvenShare(rule) => rule.initial(most, pressure),
            Self::ShareOfRoom(rule) => rule.initial(most, pressure),
        }
    }

    fn next(&self, flow: u16, most: u16, pressure: Pressure) -> u16 {
        match self {
            Self::EvenShare(rule) => rule.next(flow, most, pressure),
            Self::ShareOfRoom(rule) => rule.next(flow, most, pressure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: EvenShare = EvenShare { total: 500 };

    const fn open(open: u32) -> Pressure {
        Pressure {
            open,
            ingest_permille: 0,
            backlog_permille: 0,
        }
    }

    #[test]
    fn without_pressure_an_experiment_is_the_even_share() {
        for room in [Room::IngestQueue, Room::RaftBacklog, Room::Both] {
            let rule = ShareOfRoom { share: RULE, room };
            for (flow, batches) in [(1, 1), (1, 2), (500, 3), (166, 3), (1, 1_000)] {
                let pressure = open(batches);
                let usual = RULE.next(flow, 65_535, pressure);
                assert_eq!(rule.next(flow, 65_535, pressure), usual);
                assert_eq!(rule.initial(200, pressure), RULE.initial(200, pressure));
            }
        }
    }

    #[test]
    fn what_has_no_room_is_not_granted() {
        let pressure = Pressure {
            open: 1,
            ingest_permille: 600,
            backlog_permille: 900,
        };
        let next = |room, flow| ShareOfRoom { share: RULE, room }.next(flow, 65_535, pressure);
        assert_eq!(next(Room::IngestQueue, 500), 250);
        assert_eq!(next(Room::IngestQueue, 250), 200);
        assert_eq!(next(Room::RaftBacklog, 100), 50);
        assert_eq!(next(Room::RaftBacklog, 50), 50);
        assert_eq!(next(Room::Both, 50), 50);
        let full = Pressure {
            open: 1,
            ingest_permille: 1_000,
            backlog_permille: 0,
        };
        let rule = ShareOfRoom {
            share: RULE,
            room: Room::Both,
        };
        assert_eq!(rule.next(2, 65_535, full), 1);
        assert_eq!(rule.next(1, 65_535, full), 1);
    }

    #[test]
    fn only_a_lone_batch_opens_with_everything() {
        assert_eq!(RULE.initial(65_535, open(1)), 500);
        assert_eq!(RULE.initial(100, open(1)), 100);
        assert_eq!(RULE.initial(65_535, open(2)), 1);
    }

    #[test]
    fn an_ack_moves_one_step_towards_the_share() {
        assert_eq!(RULE.next(1, 65_535, open(2)), 2);
        assert_eq!(RULE.next(128, 65_535, open(2)), 250);
        assert_eq!(RULE.next(500, 65_535, open(3)), 250);
        assert_eq!(RULE.next(250, 65_535, open(3)), 166);
        assert_eq!(RULE.next(166, 65_535, open(3)), 166);
        assert_eq!(RULE.next(2, 65_535, open(1_000)), 1);
        assert_eq!(RULE.next(1, 65_535, open(1_000)), 1);
    }

    #[test]
    fn what_the_client_asked_for_caps_the_share() {
        assert_eq!(RULE.next(10, 10, open(1)), 10);
        assert_eq!(RULE.next(8, 10, open(1)), 10);
    }

    #[test]
    fn a_single_step_down_of_one_stays_at_the_share() {
        // floor(3 / 2) would be below the share of 2.
        assert_eq!(RULE.next(3, 65_535, open(250)), 2);
    }
}
