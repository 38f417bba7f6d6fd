//! What only one of the two worlds can do: the simulator's limits, and sections no live run takes.
//!
//! Leans on the settings structs.

use super::error::{InputError, Problem};
use super::path::KeyPath;
use super::schema::SIMULATOR_SECTIONS;
use super::{ClientKind, Publishers, Scenario};

impl Scenario {
    /// Whether the simulator models what this scenario asks for.
    ///
    /// # Errors
    /// More than one replica, or a client other than `core`.
    pub fn check_simulatable(&self) -> Result<(), InputError> {
        let settings = &self.settings;
        let problem = if settings.stream.replicas > 1 {
            let message = format!(
                "{} replicas are not simulated yet; the simulator allows 1, a live run 1, 3 or 5",
                settings.stream.replicas
            );
            Some(Problem::new(
                KeyPath::root().key("stream").key("replicas"),
                message,
            ))
        } else {
            let third_party = |group: &Publishers| group.client != ClientKind::Core;
            settings
                .publishers
                .iter()
                .position(third_party)
                .map(|index| {
                    Problem::new(
                        KeyPath::root().key("publishers").index(index).key("client"),
                        format!(
                            "jetstream-extra runs live only; run this file with `tidegate live`, \
                             or simulate our own client with --set publishers.{index}.client=core"
                        ),
                    )
                })
        };
        problem.map_or(Ok(()), |problem| Err(self.refuse(problem)))
    }

    /// Whether a live run can do what this scenario asks for.
    ///
    /// # Errors
    /// The file has a section that only the simulator understands.
    pub fn check_live(&self) -> Result<(), InputError> {
        let settings = &self.settings;
        let written = [
            settings.server.is_some(),
            settings.disk.is_some(),
            settings.network.is_some(),
            !settings.faults.is_empty(),
        ];
        match SIMULATOR_SECTIONS
            .iter()
            .zip(written)
            .find(|(_, written)| *written)
        {
            Some((section, _)) => Err(self.refuse(Problem::new(
                KeyPath::root().key(section),
                "is for the simulator only; a live run takes the server, disk and network it finds",
            ))),
            None => Ok(()),
        }
    }
}
