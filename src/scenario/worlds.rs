//! What only one of the two worlds can do: the simulator's limits, and what no live run takes.
//!
//! Leans on the settings structs.

use super::error::{InputError, Problem};
use super::path::KeyPath;
use super::{ClientKind, Scenario, Settings};

impl Settings {
    /// What the simulator does not model of what is asked for: the key as a dotted path, and what is
    /// allowed.
    ///
    /// [`Scenario::check_simulatable`] says the same with file and line.
    pub fn not_simulated(&self) -> Option<(String, String)> {
        self.beyond_simulation()
            .map(|problem| (problem.path.to_string(), problem.message))
    }

    fn beyond_simulation(&self) -> Option<Problem> {
        if self.stream.replicas > 1 {
            let message = format!(
                "{} replicas are not simulated yet; the simulator allows 1, a live run 1, 3 or 5",
                self.stream.replicas
            );
            return Some(Problem::new(key("stream").key("replicas"), message));
        }
        let mut groups = self.publishers.iter();
        let index = groups.position(|group| group.client != ClientKind::Core)?;
        let message = format!(
            "jetstream-extra runs live only; run this file with `tidegate live`, or simulate our \
             own client with --set publishers.{index}.client=core"
        );
        Some(Problem::new(
            key("publishers").index(index).key("client"),
            message,
        ))
    }
}

impl Scenario {
    /// Whether the simulator models what this scenario asks for.
    ///
    /// # Errors
    /// More than one replica, or a client other than `core`.
    pub fn check_simulatable(&self) -> Result<(), InputError> {
        match self.settings.beyond_simulation() {
            Some(problem) => Err(self.refuse(problem)),
            None => Ok(()),
        }
    }

    /// Whether a live run can do what this scenario asks for; gives notes on what it leaves out.
    ///
    /// Faults and defects are made by the simulator alone, so a live run of them would test nothing
    /// that the file is about. The sections `[server]`, `[disk]` and `[network]` describe
    /// surroundings; the real ones take their place, and a note says so. `strict` refuses them, too.
    ///
    /// # Errors
    /// The file has faults or defects, or, with `strict`, a section that is left out.
    pub fn check_live(&self, strict: bool) -> Result<Vec<String>, InputError> {
        let settings = &self.settings;
        let server = settings.server.as_ref();
        let refused = [
            (key("faults"), !settings.faults.is_empty()),
            (
                key("server").key("defects"),
                server.is_some_and(|server| !server.defects.is_empty()),
            ),
        ];
        let left_out = [
            (key("server"), server.is_some()),
            (key("disk"), settings.disk.is_some()),
            (key("network"), settings.network.is_some()),
        ];
        let strictly = left_out.iter().filter(|_| strict);
        if let Some((path, _)) = refused.iter().chain(strictly).find(|(_, said)| *said) {
            let message = "is for the simulator only; run this file with `tidegate sim`";
            return Err(self.refuse(Problem::new(path.clone(), message)));
        }
        let said = left_out.iter().filter(|(_, said)| *said);
        Ok(said
            .map(|(path, _)| {
                format!("[{path}] describes simulated surroundings; a live run leaves it out")
            })
            .collect())
    }
}

fn key(name: &str) -> KeyPath {
    KeyPath::root().key(name)
}
