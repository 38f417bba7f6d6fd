//! How often a batch is acknowledged: the flow it opens with, and the next flow at each ack.
//!
//! Leans on nothing of ours.

/// What a policy may look at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pressure {
    /// Fast batches registered on the stream, this one included.
    pub open: u32,
    /// How full the ingest queue was when this slice of it was taken, in thousandths.
    pub ingest_permille: u16,
}

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
        let target = (share.max(1) as u16).min(most).max(1);
        if flow < target {
            flow.saturating_mul(2).min(target)
        } else {
            (flow / 2).max(target)
        }
    }
}

/// The policies to choose from, as a value, so that machines stay `Clone + Eq + Hash`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Policy {
    /// What nats-server does.
    EvenShare(EvenShare),
}

impl FlowPolicy for Policy {
    fn initial(&self, most: u16, pressure: Pressure) -> u16 {
        match self {
            Self::EvenShare(rule) => rule.initial(most, pressure),
        }
    }

    fn next(&self, flow: u16, most: u16, pressure: Pressure) -> u16 {
        match self {
            Self::EvenShare(rule) => rule.next(flow, most, pressure),
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
        }
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
