//! What only one of the two worlds can do: the simulator's limits, and what no live run takes.
//!
//! Leans on the settings structs.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;

use super::error::{InputError, Problem};
use super::path::KeyPath;
use super::{ClientKind, Defect, FaultAction, Scenario, ServerSettings, Settings};

/// Keys of `[server]` and `[disk]` that a nats-server has as settings of its own, too: servers that
/// are started for a run get them.
pub const SETTINGS_OF_REAL_SERVERS: [&str; 7] = [
    "server.atomic_batch_messages",
    "server.batch_idle_timeout",
    "server.batches_per_server",
    "server.batches_per_stream",
    "server.ingest_bytes",
    "server.ingest_messages",
    "disk.sync",
];

/// Most publishers of a file in the wire lane: each has a connection of its own, and the server takes
/// so many.
const PUBLISHERS_ON_WIRE: u32 = 10_000;
/// Most on the substrate turmoil, which looks at each pair of hosts in each of its steps.
const PUBLISHERS_ON_TURMOIL: u32 = 200;

/// What is said of monitoring ports that are not those of the servers of a run.
const OTHERS_UNASKED: &str = "names ports of servers that are not ours, and is passed over: this run starts servers \
                              of its own and asks those; use --servers, or leave the key out";

/// The servers of a live run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveServers {
    /// So many are started for the run.
    Own(u8),
    /// They are there already.
    Given,
}

/// How a world is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Pure machines on an event queue.
    Event,
    /// Real client code over the client protocol, on this substrate.
    Wire(Substrate),
}

/// What carries the bytes of the wire lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Substrate {
    /// Our own network: exact time, bandwidth, windows.
    Event,
    /// The crate turmoil: steps of a millisecond, no bandwidth; a second opinion.
    Turmoil,
}

impl Settings {
    /// The lane of a file that nobody asks for another: the event lane, unless a client has code of
    /// its own.
    pub fn lane(&self) -> Lane {
        if self
            .publishers
            .iter()
            .all(|group| group.client == ClientKind::Core)
        {
            Lane::Event
        } else {
            Lane::Wire(Substrate::Event)
        }
    }

    /// What a lane of the simulator does not do of what is asked for: the key as a dotted path, and
    /// what is allowed.
    ///
    /// [`Scenario::check_simulatable`] says the same with file and line.
    pub fn not_simulated(&self, lane: Lane) -> Option<(String, String)> {
        self.beyond_simulation(lane)
            .map(|problem| (problem.path.to_string(), problem.message))
    }

    fn beyond_simulation(&self, lane: Lane) -> Option<Problem> {
        if self.stream.count > 1 {
            let message = format!(
                "the simulator has one stream, not {}; say it under [only.live.stream], or run this file \
                 with `tidegate live`",
                self.stream.count
            );
            return Some(Problem::new(key("stream").key("count"), message));
        }
        match lane {
            Lane::Event => {}
            Lane::Wire(substrate) => return self.beyond_wire(substrate),
        }
        let mut groups = self.publishers.iter();
        let index = groups.position(|group| group.client != ClientKind::Core)?;
        let message = format!(
            "{} does not run in the event lane; use --lane wire, or simulate our own \
             client with --set publishers.{index}.client=core",
            self.publishers[index].client.word()
        );
        Some(Problem::new(
            key("publishers").index(index).key("client"),
            message,
        ))
    }
}

impl Settings {
    /// A cut resets connections, and turmoil has no resets; nor can it change a link, or limit one.
    fn beyond_wire(&self, substrate: Substrate) -> Option<Problem> {
        let (what, most, instead) = match substrate {
            Substrate::Event => (
                "the wire lane",
                PUBLISHERS_ON_WIRE,
                "the event lane, for clients that are \"core\"",
            ),
            Substrate::Turmoil => ("turmoil", PUBLISHERS_ON_TURMOIL, "--substrate event"),
        };
        let publishers = self.publisher_count();
        if publishers > u64::from(most) {
            let message = format!(
                "{publishers} publishers are too many for {what}; allowed are {most} in all, or more \
                 with {instead}"
            );
            return Some(Problem::new(key("publishers"), message));
        }
        if substrate == Substrate::Event {
            return None;
        }
        let mut faults = self.faults.iter();
        let beyond = |action: FaultAction| action.is_of_links() && action != FaultAction::Hold;
        let index = faults.position(|fault| beyond(fault.action))?;
        let message = match self.faults[index].action {
            FaultAction::Slow => "links of turmoil keep their latency; use --substrate event",
            FaultAction::Limit => "links of turmoil have no bandwidth; use --substrate event",
            _ => "turmoil cannot reset connections; use --substrate event, or a hold",
        };
        Some(Problem::new(
            key("faults").index(index).key("action"),
            message,
        ))
    }
}

impl Scenario {
    /// Whether a lane of the simulator does what this scenario asks for.
    ///
    /// # Errors
    /// Several streams; in the event lane, a client other than `core`; in the wire lane, more
    /// publishers than it takes; on turmoil, a cut, or a link that is slow or limited.
    pub fn check_simulatable(&self, lane: Lane) -> Result<(), InputError> {
        match self.settings.beyond_simulation(lane) {
            Some(problem) => Err(self.refuse(problem)),
            None => Ok(()),
        }
    }

    /// Whether a live run can do what this scenario asks for; gives notes on what it leaves out.
    ///
    /// Bugs switched on or off, and faults of frames, disks and power, are made by the simulator alone, so a
    /// live run of them would test nothing that the file is about. The sections `[server]`, `[disk]` and `[network]` describe
    /// surroundings. Servers of our own get what is a setting of theirs
    /// ([`SETTINGS_OF_REAL_SERVERS`]); of the rest the real surroundings take the place, and a note
    /// says so. `strict` refuses it, too.
    ///
    /// # Errors
    /// The file has bugs switched on or off, or faults that are not made on such servers, or more replicas than there will be servers; or, with
    /// `strict`, something that is left out.
    pub fn check_live(
        &self,
        servers: LiveServers,
        strict: bool,
    ) -> Result<Vec<String>, InputError> {
        let settings = &self.settings;
        let server = settings.server.as_ref();
        let has = |words: fn(&ServerSettings) -> &Vec<Defect>| {
            server.is_some_and(|server| !words(server).is_empty())
        };
        let simulated = [
            ("defects", has(|server| &server.defects)),
            ("repaired", has(|server| &server.repaired)),
        ];
        if let Some((word, _)) = simulated.into_iter().find(|(_, said)| *said) {
            let message = "is for the simulator only; say it under [only.sim.server], or run this file with `tidegate sim`";
            let path = key("server").key(word);
            return Err(self.refuse(Problem::new(path, message)));
        }
        self.check_live_faults(servers)?;
        self.check_replicas(servers)?;
        let unasked = settings.names_others(servers);
        if unasked && strict {
            let path = key("live").key("monitor");
            return Err(self.refuse(Problem::new(path, OTHERS_UNASKED)));
        }
        let left_out = settings.left_out(servers);
        if let Some((path, keys)) = left_out.first().filter(|_| strict) {
            let message =
                format!("is for the simulator only{keys}; run this file with `tidegate sim`");
            return Err(self.refuse(Problem::new(path.clone(), message)));
        }
        let note = |(path, keys): &(KeyPath, String)| {
            format!("[{path}] describes simulated surroundings{keys}; a live run leaves it out")
        };
        let unasked = unasked.then(|| format!("live.monitor {OTHERS_UNASKED}"));
        Ok(left_out.iter().map(note).chain(unasked).collect())
    }

    /// Each fault is one that can be made on these servers.
    fn check_live_faults(&self, servers: LiveServers) -> Result<(), InputError> {
        let allowed = self.settings.live.as_ref();
        let allowed = allowed.is_some_and(|live| live.allow_leader_changes);
        let shares = self.settings.connections() < self.settings.publisher_count();
        for (index, fault) in self.settings.faults.iter().enumerate() {
            if shares && fault.publisher.is_some() {
                let message = "names the link of one publisher, and live.connections lets publishers share links";
                let path = key("faults").index(index).key("publisher");
                return Err(self.refuse(Problem::new(path, message)));
            }
            let word = fault.action.word();
            let made = fault.action.is_made_live();
            let message = match (fault.action, servers) {
                (FaultAction::StepDown, LiveServers::Given) if !allowed => format!(
                    "\"{word}\" makes servers that are not ours change leaders; say \
                     allow_leader_changes = true under [live] if it may, or use --local 3"
                ),
                (FaultAction::StepDown, _) => continue,
                (_, LiveServers::Own(_)) if made => continue,
                (_, LiveServers::Given) if made => {
                    format!("\"{word}\" needs servers of our own; use --local")
                }
                _ => format!(
                    "\"{word}\" is for the simulator only; say it under [[only.sim.faults]], or run \
                     this file with `tidegate sim`"
                ),
            };
            let path = key("faults").index(index).key("action");
            return Err(self.refuse(Problem::new(path, message)));
        }
        Ok(())
    }

    fn check_replicas(&self, servers: LiveServers) -> Result<(), InputError> {
        let replicas = self.settings.stream.replicas;
        let LiveServers::Own(count) = servers else {
            return Ok(());
        };
        if replicas <= count {
            return Ok(());
        }
        let instead = match replicas {
            3 => "start three with --local 3, or name a cluster with --servers",
            _ => "name a cluster with --servers; --local starts 3 at most",
        };
        let message = format!("{replicas} replicas need as many servers, not {count}; {instead}");
        let path = key("stream").key("replicas");
        Err(self.refuse(Problem::new(path, message)))
    }
}

impl Settings {
    /// Whether the file names monitoring ports of other servers than those of the run.
    fn names_others(&self, servers: LiveServers) -> bool {
        let named = self
            .live
            .as_ref()
            .is_some_and(|live| !live.monitor.is_empty());
        named && matches!(servers, LiveServers::Own(_))
    }

    /// Whether the faults of the file are about links or routes, which a live run then leads through ports of
    /// ours; and which publishers they name.
    pub fn disturbed_links(&self) -> Option<BTreeSet<u32>> {
        let faults = self.faults.iter();
        let about: Vec<_> = faults
            .filter(|fault| fault.action.is_of_links() || fault.action.is_of_routes())
            .collect();
        let named = about.iter().filter_map(|fault| fault.publisher);
        (!about.is_empty()).then(|| named.collect())
    }

    /// The sections that a live run does without, each with the keys concerned, in brackets.
    fn left_out(&self, servers: LiveServers) -> Vec<(KeyPath, String)> {
        let Self {
            server,
            disk,
            network,
            raft,
            ..
        } = self;
        let sections = [
            ("server", server.as_ref().map(other_keys)),
            ("disk", disk.as_ref().map(other_keys)),
            ("network", network.as_ref().map(other_keys)),
            ("raft", raft.as_ref().map(other_keys)),
        ];
        let mut left_out = Vec::new();
        for (section, keys) in sections {
            let Some(mut keys) = keys else { continue };
            if servers != LiveServers::Given {
                let taken = |name: &String| {
                    let path = format!("{section}.{name}");
                    SETTINGS_OF_REAL_SERVERS.contains(&path.as_str())
                };
                if !keys.is_empty() && keys.iter().all(taken) {
                    continue;
                }
                keys.retain(|name| !taken(name));
            }
            let keys = match keys.join(", ") {
                none if none.is_empty() => none,
                keys => format!(" ({keys})"),
            };
            left_out.push((key(section), keys));
        }
        left_out
    }
}

/// The keys of a section that are not as by default.
fn other_keys<T: Default + Serialize>(section: &T) -> Vec<String> {
    let value = |section: &T| serde_json::to_value(section).unwrap_or_default();
    let (Value::Object(said), default) = (value(section), value(&T::default())) else {
        return Vec::new();
    };
    let other = said
        .into_iter()
        .filter(|(name, value)| default[name] != *value);
    other.map(|(name, _)| name).collect()
}

fn key(name: &str) -> KeyPath {
    KeyPath::root().key(name)
}
