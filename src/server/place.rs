//! Where a stream lives: on one server, or on several as a group of replicas.
//!
//! Leans on `host` and `group`.

use super::group::Group;
use super::host::Host;
use super::message::{Publish, Reply, ReplyTo};
use crate::machine::Time;
use crate::stream::Stream;

/// A stream with its server or servers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Place {
    Alone(Box<Host>),
    Group(Box<Group>),
}

impl Place {
    /// The stream, as its leader has it.
    pub(super) fn stream(&self) -> &Stream {
        match self {
            Self::Alone(host) => &host.stream,
            Self::Group(group) => group.stream(),
        }
    }

    /// Batches registered: fast ones, and atomic ones.
    pub(super) fn open_batches(&self) -> (u32, u32) {
        match self {
            Self::Alone(host) => host.open_batches(),
            Self::Group(group) => group.open_batches(),
        }
    }

    /// Messages that are not yet dealt with.
    pub(super) fn messages_inside(&self) -> Box<dyn Iterator<Item = &Publish> + '_> {
        match self {
            Self::Alone(host) => Box::new(host.messages_inside()),
            Self::Group(group) => Box::new(group.messages_inside()),
        }
    }

    /// Answers that are not yet sent.
    pub(super) fn answers_inside(&self) -> Box<dyn Iterator<Item = (&ReplyTo, &Reply)> + '_> {
        match self {
            Self::Alone(host) => Box::new(host.answers_inside()),
            Self::Group(group) => Box::new(group.answers_inside()),
        }
    }

    /// Whether there is work inside: nothing but timers is left otherwise.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Self::Alone(host) => host.is_busy(),
            Self::Group(group) => group.is_busy(),
        }
    }

    /// The hosts of all replicas, in their order.
    pub(super) fn hosts(&mut self) -> Box<dyn Iterator<Item = &mut Host> + '_> {
        match self {
            Self::Alone(host) => Box::new(std::iter::once(&mut **host)),
            Self::Group(group) => Box::new(group.each_host()),
        }
    }

    /// To be called when hosts were changed through [`Place::hosts`].
    pub(super) fn look_ahead(&mut self) {
        if let Self::Group(group) = self {
            group.look_ahead();
        }
    }

    /// When something comes up, and what.
    pub(super) fn next(&self) -> (Time, Coming) {
        match self {
            Self::Alone(host) => host.next(),
            Self::Group(group) => (group.due(), Coming::Group),
        }
    }
}

/// What comes up in a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coming {
    /// Idle timers of a stream's batches.
    Timers,
    /// The end of a turn of a stream's loop.
    Turn,
    /// A stream's server goes on, and reads what was sent to it while it stood still.
    Thaw,
    /// Something in a group.
    Group,
}
