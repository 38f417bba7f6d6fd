//! From the settings of a file to the machines of a world.
//!
//! Leans on `modelled` for the server, on `scenario`, and on `load` for publishers.

use super::SimError;
use super::host::Group;
use crate::load::publisher_settings;
use crate::modelled;
use crate::scenario::{Defect, Publishers, Settings};
use crate::server::Server;

/// The server of a file, with its stream.
///
/// # Errors
/// If the model has no such server or refuses the stream.
pub(super) fn server(settings: &Settings) -> Result<Server, SimError> {
    if let Some((key, message)) = settings.not_simulated() {
        return Err(SimError::new(&key, &message));
    }
    modelled::server(settings).map_err(|refused| SimError::new(&refused.key, &refused.message))
}

/// What the hosts of a group share.
pub(super) fn group(group: &Publishers, settings: &Settings) -> Group {
    let defects = settings
        .server
        .as_ref()
        .map_or(&[][..], |server| &server.defects);
    let mut publisher = publisher_settings(group);
    let profile = &mut publisher.profile;
    profile.ignores_gate = defects.contains(&Defect::PublisherIgnoresGate);
    profile.waits_for_ever = defects.contains(&Defect::PublisherWaitsForEver);
    Group {
        settings: publisher,
        publish_cost: group.publish_cost.0,
        message_ids: group.message_ids,
        headers: group.headers.clone(),
    }
}
