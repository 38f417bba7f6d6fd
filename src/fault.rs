//! The faults of a scenario at work: which frame meets which fate.
//!
//! Whoever brings frames from publishers to a server and back asks here: the simulator and the
//! served model. Leans on `scenario` for what is wanted, on `event` for numbers, and on `server` and `net`
//! for what can befall them.

use crate::event::PublisherId;
use crate::machine::Time;
use crate::net::limit::Limit;
use crate::scenario::{Fault, FaultAction, FaultPlace, FrameKind, RouteWay, ServerRole};
use crate::server::Server;
use crate::server::disturb::{Disturbance, Routes};

/// What happens to one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It passes.
    Pass,
    /// It never leaves its sender's process: by which fault.
    LostAtOutput(u32),
    /// It leaves and never arrives: by which fault.
    LostOnRoute(u32),
    /// It arrives so much later, and everything behind it with it.
    Late(u32, Time),
    /// It arrives, and a copy of it so much later.
    Twice(u32, Time),
}

impl Fate {
    /// The number of the fault that has decided it, if one has.
    pub const fn fault(self) -> Option<u32> {
        match self {
            Self::Pass => None,
            Self::LostAtOutput(fault)
            | Self::LostOnRoute(fault)
            | Self::Late(fault, _)
            | Self::Twice(fault, _) => Some(fault),
        }
    }
}

/// A fault that has its time, from `from` until `until`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// Number of the fault.
    pub fault: u32,
    /// Whose link, where it is about links; `None`: every link.
    pub publisher: Option<PublisherId>,
    /// When it begins.
    pub from: Time,
    /// When it ends; [`Time::NEVER`]: not.
    pub until: Time,
    /// What happens.
    pub kind: TimedKind,
}

impl Timed {
    /// Whether it is about the link of `publisher`, if it is about links.
    pub fn hits(&self, publisher: PublisherId) -> bool {
        self.publisher.is_none_or(|whose| whose == publisher)
    }
}

/// What a fault that has its time does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedKind {
    /// Frames of the publisher are lost, both ways.
    Cut,
    /// They wait for the end.
    Hold,
    /// They are so much later.
    Slow(Time),
    /// No more than so many bits in a second pass, each way.
    Limit(u64),
    /// The leader of the stream steps down, at `from`; nothing ends.
    StepDown,
    /// One server after the other is restarted, each down for so long; `until` says nothing.
    Rolling(Time),
    /// Something befalls this server at `from`, and the rest of it at `until`.
    Server(Whom, Disturbance, Option<Disturbance>),
}

impl TimedKind {
    /// Whether it is about the links of publishers.
    pub const fn is_of_links(self) -> bool {
        matches!(
            self,
            Self::Cut | Self::Hold | Self::Slow(_) | Self::Limit(_)
        )
    }

    /// The server that it befalls at this moment, if it is about one and there is one.
    pub fn pick(self, server: &Server) -> Option<u8> {
        match self {
            Self::StepDown => server.leader(),
            Self::Server(whom, ..) => whom.pick(server),
            Self::Cut | Self::Hold | Self::Slow(_) | Self::Limit(_) | Self::Rolling(_) => None,
        }
    }

    fn of(fault: &Fault, until: Time) -> Self {
        let slower = fault.delay.map_or(Time::ZERO, |span| span.0);
        let bits_per_second = fault.bandwidth.map_or(u64::MAX, |rate| rate.0);
        let routes = Routes {
            peer: fault.peer,
            inward: fault.way != RouteWay::Out,
            outward: fault.way != RouteWay::In,
        };
        let (begin, end) = match fault.action {
            FaultAction::Hold => return Self::Hold,
            FaultAction::Slow => return Self::Slow(slower),
            FaultAction::Limit => return Self::Limit(bits_per_second),
            FaultAction::StepDown => return Self::StepDown,
            FaultAction::RollingRestart => {
                let down_for = fault.down_for.map_or(Time::ZERO, |span| span.0);
                return Self::Rolling(down_for);
            }
            FaultAction::Restart => (Disturbance::Shutdown, Some(Disturbance::Start)),
            FaultAction::Kill => (Disturbance::Kill, Some(Disturbance::Start)),
            FaultAction::PowerLoss => (Disturbance::PowerLoss, Some(Disturbance::Start)),
            FaultAction::Freeze => (Disturbance::Freeze(until), None),
            FaultAction::HoldDisk => (Disturbance::HoldDisk(until), None),
            FaultAction::SlowDisk => (
                Disturbance::SlowDisk(slower),
                Some(Disturbance::QuickenDisk(slower)),
            ),
            FaultAction::CutRoutes => (
                Disturbance::CutRoutes(routes),
                Some(Disturbance::MendRoutes(routes)),
            ),
            FaultAction::HoldRoutes => (Disturbance::HoldRoutes(routes, until), None),
            FaultAction::SlowRoutes => (
                Disturbance::SlowRoutes(routes, slower),
                Some(Disturbance::QuickenRoutes(routes, slower)),
            ),
            FaultAction::LimitRoutes => {
                let limit = Disturbance::LimitRoutes(routes, bits_per_second, until);
                (limit, None)
            }
            FaultAction::Cut | FaultAction::Drop | FaultAction::Delay | FaultAction::Duplicate => {
                return Self::Cut;
            }
        };
        let whom = match (fault.server, fault.role) {
            (Some(number), _) => Whom::Number(number),
            (None, Some(ServerRole::Follower)) => Whom::Follower,
            (None, Some(ServerRole::Leader) | None) => Whom::Leader,
        };
        Self::Server(whom, begin, end)
    }
}

/// Which server a fault befalls, as it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whom {
    /// The leader of the stream.
    Leader,
    /// The first that does not lead it.
    Follower,
    /// This one.
    Number(u8),
}

impl Whom {
    /// The number of that server at this moment, if there is one.
    pub fn pick(self, server: &Server) -> Option<u8> {
        match self {
            Self::Leader => server.leader(),
            Self::Follower => server.follower(),
            Self::Number(number) => Some(number),
        }
    }
}

/// A rolling restart on its way: one server after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rolling {
    /// The server whose turn it is.
    turn: u8,
    stage: Stage,
}

/// How far one server of a rolling restart has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// It is to be asked to end, or is the server after the last.
    #[default]
    Next,
    /// It is down.
    Down,
    /// It has started, and is waited for.
    Starting,
}

/// What a rolling restart wants now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// This befalls this server; look again after so long.
    Befall(u8, Disturbance, Time),
    /// Look again after so long.
    Wait(Time),
    /// All servers have been restarted.
    Over,
}

impl Rolling {
    /// Between two looks at whether servers have caught up.
    const LOOK: Time = Time::from_millis(100);

    /// The next step, of a restart of all of `servers` that are down for `down_for` each; `healthy`:
    /// all are up, and have caught up.
    pub fn next(&mut self, servers: u8, down_for: Time, healthy: bool) -> Turn {
        match self.stage {
            Stage::Next if self.turn >= servers => Turn::Over,
            Stage::Next => {
                self.stage = Stage::Down;
                Turn::Befall(self.turn, Disturbance::Shutdown, down_for)
            }
            Stage::Down => {
                self.stage = Stage::Starting;
                Turn::Befall(self.turn, Disturbance::Start, Self::LOOK)
            }
            Stage::Starting if healthy => {
                (self.turn, self.stage) = (self.turn + 1, Stage::Next);
                self.next(servers, down_for, healthy)
            }
            Stage::Starting => Turn::Wait(Self::LOOK),
        }
    }
}

/// All faults of a run.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    frames: Vec<FrameFault>,
    timed: Vec<Timed>,
}

/// A fault on counted frames.
#[derive(Clone, Debug)]
struct FrameFault {
    fault: u32,
    action: FaultAction,
    place: FaultPlace,
    frame: FrameKind,
    publisher: Option<u32>,
    first: u64,
    last: u64,
    delay: Time,
    /// Frames of this kind seen so far, by publisher.
    seen: Vec<u64>,
}

impl Faults {
    /// The faults of a file, for so many publishers; more may come.
    pub fn new(faults: &[Fault], publishers: u32) -> Self {
        let mut built = Self::default();
        for (number, fault) in (0..).zip(faults) {
            match fault.action {
                FaultAction::Drop | FaultAction::Delay | FaultAction::Duplicate => {
                    let first = fault.nth.unwrap_or(1).max(1);
                    built.frames.push(FrameFault {
                        fault: number,
                        action: fault.action,
                        place: fault.place,
                        frame: fault.frame.unwrap_or(FrameKind::Message),
                        publisher: fault.publisher,
                        first,
                        last: first.saturating_add(fault.count.saturating_sub(1)),
                        delay: fault.delay.map_or(Time::ZERO, |span| span.0),
                        seen: vec![0; publishers as usize],
                    });
                }
                _ => {
                    let until = fault.until.map_or(Time::NEVER, |span| span.0);
                    built.timed.push(Timed {
                        fault: number,
                        publisher: fault.publisher.map(PublisherId),
                        from: fault.from.map_or(Time::ZERO, |span| span.0),
                        until,
                        kind: TimedKind::of(fault, until),
                    });
                }
            }
        }
        built
    }

    /// Those that do not befall the links of publishers, with their numbers; none comes before `start`.
    #[must_use]
    pub fn without_links(mut self, start: Time) -> Self {
        self.timed.retain(|fault| !fault.kind.is_of_links());
        for fault in &mut self.timed {
            fault.from = fault.from.max(start);
        }
        self
    }

    /// The faults that have their time, in the order of the file.
    pub fn timed(&self) -> &[Timed] {
        &self.timed
    }

    /// Counts a frame and decides its fate; the first fault that wants it gets it.
    pub fn fate(&mut self, publisher: PublisherId, kind: FrameKind) -> Fate {
        let mut fate = Fate::Pass;
        for fault in &mut self.frames {
            let meant =
                fault.frame == kind && fault.publisher.is_none_or(|number| number == publisher.0);
            if !meant {
                continue;
            }
            let place = publisher.0 as usize;
            if fault.seen.len() <= place {
                fault.seen.resize(place + 1, 0);
            }
            let seen = &mut fault.seen[place];
            *seen += 1;
            if fate != Fate::Pass || *seen < fault.first || *seen > fault.last {
                continue;
            }
            fate = match (fault.action, fault.place) {
                (FaultAction::Delay, _) => Fate::Late(fault.fault, fault.delay),
                (FaultAction::Duplicate, _) => Fate::Twice(fault.fault, fault.delay),
                (_, FaultPlace::Output) => Fate::LostAtOutput(fault.fault),
                (_, FaultPlace::Route) => Fate::LostOnRoute(fault.fault),
            };
        }
        fate
    }

    /// Whether any frame can meet a fault: lets the hot path skip the counting.
    pub fn touch_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Whether the link of `publisher` is cut at `now`; a hold cuts nothing.
    pub fn is_cut(&self, publisher: PublisherId, now: Time) -> bool {
        let hits = |cut: &Timed| cut.hits(publisher) && cut.from <= now && now < cut.until;
        self.timed
            .iter()
            .any(|cut| cut.kind == TimedKind::Cut && hits(cut))
    }

    /// The limits of the link of `publisher`.
    pub fn limits(&self, publisher: PublisherId) -> impl Iterator<Item = Limit> {
        let timed = self.timed.iter();
        timed.filter_map(move |fault| match fault.kind {
            TimedKind::Limit(bits_per_second) if fault.hits(publisher) => Some(Limit {
                from: fault.from,
                until: fault.until,
                bits_per_second,
            }),
            _ => None,
        })
    }

    /// Whether a frame may arrive twice: copies need lanes of their own.
    pub fn make_copies(&self) -> bool {
        self.frames
            .iter()
            .any(|fault| fault.action == FaultAction::Duplicate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<Fault> {
        #[derive(serde::Deserialize)]
        struct File {
            faults: Vec<Fault>,
        }
        toml::from_str::<File>(text).unwrap().faults
    }

    #[test]
    fn the_nth_frame_of_a_kind_is_counted_for_each_publisher() {
        let file = "[[faults]]\naction = \"drop\"\nframe = \"flow-ack\"\nnth = 2\ncount = 2\n";
        let mut faults = Faults::new(&parse(file), 2);
        let fates = |faults: &mut Faults, publisher| {
            (0..4)
                .map(|_| faults.fate(PublisherId(publisher), FrameKind::FlowAck))
                .collect::<Vec<_>>()
        };
        let lost = Fate::LostAtOutput(0);
        assert_eq!(fates(&mut faults, 1), [Fate::Pass, lost, lost, Fate::Pass]);
        assert_eq!(faults.fate(PublisherId(0), FrameKind::Gap), Fate::Pass);
        assert_eq!(fates(&mut faults, 0), [Fate::Pass, lost, lost, Fate::Pass]);
    }

    #[test]
    fn a_cut_has_two_ends() {
        let file = "[[faults]]\naction = \"cut\"\npublisher = 1\nfrom = \"1s\"\nuntil = \"2s\"\n";
        let faults = Faults::new(&parse(file), 2);
        let hit = |publisher, ms| faults.is_cut(PublisherId(publisher), Time::from_millis(ms));
        assert_eq!(
            [
                hit(1, 999),
                hit(1, 1_000),
                hit(1, 1_999),
                hit(1, 2_000),
                hit(0, 1_500)
            ],
            [false, true, true, false, false]
        );
    }

    #[test]
    fn a_link_has_the_limits_that_are_about_it() {
        let file = "[[faults]]\naction = \"limit\"\nbandwidth = \"1Mbit/s\"\nfrom = \"1s\"\nuntil = \"2s\"\n\
                    [[faults]]\naction = \"hold\"\nfrom = \"1s\"\nuntil = \"2s\"\n\
                    [[faults]]\naction = \"limit\"\npublisher = 1\nbandwidth = \"2kbit/s\"\nfrom = \"3s\"\n";
        let faults = Faults::new(&parse(file), 2);
        let rates = |publisher| {
            let limits = faults.limits(PublisherId(publisher));
            let limits = limits.map(|limit| (limit.bits_per_second, limit.until));
            limits.collect::<Vec<_>>()
        };
        let of_all = (1_000_000, Time::from_secs(2));
        assert_eq!(rates(0), [of_all]);
        assert_eq!(rates(1), [of_all, (2_000, Time::NEVER)]);
        assert!(faults.without_links(Time::ZERO).timed().is_empty());
    }
}
