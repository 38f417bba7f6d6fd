//! From the settings of a file to the machines of a world.
//!
//! Leans on `modelled` for the server, on `scenario`, and on `load` for publishers.

use super::SimError;
use super::host::Group;
use crate::batch::fast::publisher;
use crate::load::publisher_settings;
use crate::modelled::{self, Modelled};
use crate::scenario::{Defect, Lane, ModelledVersion, Publishers, Settings};

/// The server of a file, with its stream.
///
/// # Errors
/// If the lane cannot run the file, or the model has no such server or refuses the stream.
pub(super) fn server(settings: &Settings, lane: Lane) -> Result<Modelled, SimError> {
    if let Some((key, message)) = settings.not_simulated(lane) {
        return Err(SimError::new(&key, &message));
    }
    modelled::server(settings).map_err(|refused| SimError::new(&refused.key, &refused.message))
}

/// What the hosts of a group share.
pub(super) fn group(group: &Publishers, settings: &Settings) -> Group {
    Group {
        settings: PublisherDefects::of(settings).settings(group).into(),
        publish_cost: group.publish_cost.0,
        message_ids: group.message_ids,
        headers: group.headers.clone(),
    }
}

/// What a file changes in publishers of our own: bugs, and what its server does not bear.
#[derive(Clone, Copy)]
pub(super) struct PublisherDefects {
    /// To a 2.14 a ping before the first reply is a batch of its own: a client does without there, as
    /// it does in a live run.
    early_pings: bool,
    ignores_gate: bool,
    waits_for_ever: bool,
}

impl PublisherDefects {
    /// Those of a file.
    pub(super) fn of(settings: &Settings) -> Self {
        let server = settings.server.as_ref();
        let defects = server.map_or(&[][..], |server| &server.defects);
        let version = server.map_or_else(ModelledVersion::default, |server| server.version);
        Self {
            early_pings: match version {
                ModelledVersion::V2_14_0 | ModelledVersion::V2_14_6 => false,
                ModelledVersion::V2_15_1 => true,
            },
            ignores_gate: defects.contains(&Defect::PublisherIgnoresGate),
            waits_for_ever: defects.contains(&Defect::PublisherWaitsForEver),
        }
    }

    /// What a publisher of `group` runs with.
    pub(super) fn settings(self, group: &Publishers) -> publisher::Settings {
        let mut settings = publisher_settings(group);
        settings.profile.ping_while_opening &= self.early_pings;
        settings.profile.ignores_gate = self.ignores_gate;
        settings.profile.waits_for_ever = self.waits_for_ever;
        settings
    }
}
