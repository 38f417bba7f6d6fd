//! A timer whose span is drawn by the driver, and only when it matters.
//!
//! nats-server draws a new election timeout with each append entry that it hears. Here a restart
//! only notes the time: the span is drawn once the shortest one is over, from the same range.
//! Leans on `machine`.

use super::Range;
use crate::machine::Time;

/// The election timer of a replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Timer {
    from: Time,
    range: Range,
    span: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Span {
    /// Nobody has to know it yet.
    Open,
    /// The driver has been asked.
    Asked,
    Known(Time),
}

/// What to do when the timer is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ring {
    /// It is not time.
    No,
    /// The driver has to draw a span from this range.
    Draw(Range),
    /// It rings.
    Yes,
}

impl Timer {
    /// A timer that rings a span of `range` after `now`.
    pub(super) const fn new(now: Time, range: Range) -> Self {
        Self {
            from: now,
            range,
            span: Span::Open,
        }
    }

    /// A timer that rings `span` after `now`.
    pub(super) const fn fixed(now: Time, span: Time) -> Self {
        Self {
            from: now,
            range: Range {
                least: span,
                most: span,
            },
            span: Span::Known(span),
        }
    }

    /// When to look at it.
    pub(super) fn due(&self) -> Time {
        match self.span {
            Span::Open => self.from + self.range.least,
            Span::Asked => Time::NEVER,
            Span::Known(span) => self.from + span,
        }
    }

    /// Looks at it.
    pub(super) fn look(&mut self, now: Time) -> Ring {
        match self.span {
            _ if self.due() > now => Ring::No,
            Span::Open => {
                self.span = Span::Asked;
                Ring::Draw(self.range)
            }
            Span::Asked => Ring::No,
            Span::Known(_) => Ring::Yes,
        }
    }

    /// The driver's answer. One that nobody waits for any more is dropped: the timer was restarted.
    pub(super) fn drawn(&mut self, span: Time) {
        if self.span == Span::Asked {
            self.span = Span::Known(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_drawn_only_after_the_shortest_one() {
        let range = Range {
            least: Time::from_secs(4),
            most: Time::from_secs(9),
        };
        let mut timer = Timer::new(Time::from_secs(1), range);
        assert_eq!(timer.due(), Time::from_secs(5));
        assert_eq!(timer.look(Time::from_secs(4)), Ring::No);
        assert_eq!(timer.look(Time::from_secs(5)), Ring::Draw(range));
        assert_eq!(timer.due(), Time::NEVER);
        timer.drawn(Time::from_secs(6));
        assert_eq!(timer.due(), Time::from_secs(7));
        assert_eq!(timer.look(Time::from_secs(7)), Ring::Yes);
    }

    #[test]
    fn an_answer_that_comes_after_a_restart_is_dropped() {
        let mut timer = Timer::fixed(Time::ZERO, Time::from_secs(1));
        timer.drawn(Time::from_secs(9));
        assert_eq!(timer.due(), Time::from_secs(1));
    }
}
