//! From the settings of a file to those of a publisher: the one place where both worlds get them.
//!
//! Leans on `scenario` and the publisher core of `batch`.

use crate::batch::fast::publisher::{Profile, Settings};
use crate::nats::GapMode;
use crate::scenario::{ClientKind, GapWord, Gate, ProfileWord, Publishers};

/// Messages without a PubAck where a file says nothing else.
const IN_FLIGHT: u16 = 256;

/// The code of a publisher, with what it alone has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientCode {
    /// Our own publisher of fast batches.
    Core,
    /// That of the crate jetstream-extra.
    JetstreamExtra,
    /// Messages without an answer.
    Publish,
    /// Messages with a PubAck each, so many of them without it at most.
    JetStream {
        /// 1 or more.
        in_flight: u16,
    },
    /// Our own publisher of atomic batches.
    Atomic,
    /// That of the crate jetstream-extra.
    ExtraAtomic,
}

impl ClientCode {
    /// The code of the publishers of `group`.
    pub const fn of(group: &Publishers) -> Self {
        match group.client {
            ClientKind::Core => Self::Core,
            ClientKind::JetstreamExtra => Self::JetstreamExtra,
            ClientKind::Publish => Self::Publish,
            ClientKind::JetstreamSync => Self::JetStream { in_flight: 1 },
            ClientKind::JetstreamAsync => Self::JetStream {
                in_flight: match group.in_flight {
                    Some(in_flight) => in_flight,
                    None => IN_FLIGHT,
                },
            },
            ClientKind::Atomic => Self::Atomic,
            ClientKind::JetstreamExtraAtomic => Self::ExtraAtomic,
        }
    }

    /// With what its batches begin: flow, acks outstanding and gap mode, as [`Event::BatchStarted`]
    /// has them.
    ///
    /// [`Event::BatchStarted`]: crate::event::Event::BatchStarted
    pub fn terms(self, publisher: &Settings) -> (u16, u16, GapMode) {
        match self {
            Self::Core | Self::JetstreamExtra => {
                let outstanding_acks = u16::from(publisher.outstanding_acks);
                (publisher.flow, outstanding_acks, publisher.gap)
            }
            Self::Publish => (0, 0, GapMode::Ok),
            Self::JetStream { in_flight } => (1, in_flight, GapMode::Ok),
            Self::Atomic | Self::ExtraAtomic => (0, 0, GapMode::Fail),
        }
    }
}

/// What a publisher of `group` runs with. A world adds what it alone knows: bug switches, or the
/// version of a server.
pub fn publisher_settings(group: &Publishers) -> Settings {
    let profile = match group.profile {
        ProfileWord::Adr => Profile::ADR,
        ProfileWord::JetstreamExtra => Profile::JETSTREAM_EXTRA,
    };
    Settings {
        flow: group.flow,
        outstanding_acks: group.outstanding_acks,
        gap: match group.gap {
            GapWord::Ok => GapMode::Ok,
            GapWord::Fail => GapMode::Fail,
        },
        ack_timeout: group.ack_timeout.0,
        profile: Profile {
            gate_before_publish: profile.gate_before_publish || group.gate == Gate::BeforePublish,
            idle_ping: group.idle_ping.map(|span| span.0),
            errors_count_as_acks: group.errors_count_as_acks,
            ..profile
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::units::Span;

    #[test]
    fn every_key_that_concerns_a_publisher_reaches_it() {
        let group = Publishers {
            flow: 7,
            outstanding_acks: 3,
            gap: GapWord::Ok,
            ack_timeout: Span(Time::from_secs(9)),
            gate: Gate::BeforePublish,
            idle_ping: Some(Span(Time::from_secs(2))),
            errors_count_as_acks: true,
            ..Publishers::default()
        };
        let expected = Settings {
            flow: 7,
            outstanding_acks: 3,
            gap: GapMode::Ok,
            ack_timeout: Time::from_secs(9),
            profile: Profile {
                gate_before_publish: true,
                idle_ping: Some(Time::from_secs(2)),
                errors_count_as_acks: true,
                ..Profile::ADR
            },
        };
        assert_eq!(publisher_settings(&group), expected);
        assert_eq!(
            publisher_settings(&Publishers::default()).profile,
            Profile::ADR
        );
        let group = Publishers {
            profile: ProfileWord::JetstreamExtra,
            ..Publishers::default()
        };
        assert_eq!(publisher_settings(&group).profile, Profile::JETSTREAM_EXTRA);
    }
}
