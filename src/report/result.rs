//! The result of one run: every field of the result file, and how it comes from what was recorded.
//!
//! Leans on `judge`, `measure`, `scenario` and `verdict`.

use std::collections::BTreeMap;

use super::verdict::{self, Cut};
use super::{api, warm_up};
use crate::judge;
use crate::measure::{
    ApiCalls, Distribution, FaultTimes, FlowSeries, Generator, GroupSummary, LeaderChange, Series,
    ServerSeries, StallTime, Summary, Throughput, Totals, Window, rounded,
};
use crate::scenario::{Lane, Settings, Substrate, config_hash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::scenario::ExpectedVerdict as Verdict;

/// Version of the result file.
pub const FORMAT: u32 = 1;

/// Where a run took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// The simulator: equal file, seed and tool version give an equal run.
    Sim,
    /// A live server or cluster.
    Live,
}

impl World {
    /// The word in files, which is the name of the command too.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Live => "live",
        }
    }
}

/// How a world was simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunLane {
    /// Pure machines on an event queue.
    Event,
    /// Real client code over the client protocol, on our own network.
    Wire,
    /// The same on the network of the crate turmoil.
    WireTurmoil,
}

impl From<Lane> for RunLane {
    fn from(lane: Lane) -> Self {
        match lane {
            Lane::Event => Self::Event,
            Lane::Wire(Substrate::Event) => Self::Wire,
            Lane::Wire(Substrate::Turmoil) => Self::WireTurmoil,
        }
    }
}

/// One word for where a run took place: the world, or the lane where it is not the event lane.
pub const fn place(world: World, lane: Option<RunLane>) -> &'static str {
    match lane {
        Some(RunLane::Wire) => "wire",
        Some(RunLane::WireTurmoil) => "wire-turmoil",
        Some(RunLane::Event) | None => world.as_str(),
    }
}

/// What a world hands over when its run is over.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// Where the run took place.
    pub world: World,
    /// How it was simulated; none for a live run.
    pub lane: Option<RunLane>,
    /// The file, as the user named it.
    pub file: String,
    /// The seed.
    pub seed: u64,
    /// The hash over all events; none where a run cannot be repeated.
    pub trace_hash: Option<u64>,
    /// A signal, or a failure of the surroundings, ended the run.
    pub partial: bool,
    /// The time limit came before the publishers were done.
    pub unfinished: bool,
    /// What was measured.
    pub summary: Summary,
    /// What judges objected to.
    pub violations: Vec<Violation>,
    /// Who waited for a reply that would not come.
    pub stalls: Vec<Stall>,
    /// What the run cost this machine.
    pub cost: Cost,
    /// What the generator had left; none for a simulated run.
    pub generator: Option<Generator>,
    /// What servers said of themselves over time; none for a simulated run.
    pub servers: Vec<ServerSeries>,
    /// What the command asked for besides the file, and the run did not do.
    pub objections: Vec<String>,
    /// The file as resolved; the result adds the defaults of the model where there was one.
    pub settings: Settings,
    /// What a reader has to know: what a latency means here, what was left out.
    pub notes: Vec<String>,
    /// The command that repeats the run; see [`replay_command`].
    pub replay: String,
}

/// The result of one run, as its file holds it.
///
/// The measured part repeats the fields of [`Summary`], and is not flattened from it: serde cannot
/// refuse unknown fields of a flattened struct.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Version of the format: 1.
    pub format: u32,
    /// The version of tidegate that ran.
    pub tool_version: String,
    /// Where the run took place.
    pub world: World,
    /// How it was simulated. Null for a live run.
    pub lane: Option<RunLane>,
    /// The file, as the user named it.
    pub file: String,
    /// The seed.
    pub seed: u64,
    /// Sixteen hexadecimal digits over `config`: equal for equal settings.
    pub config_hash: String,
    /// Sixteen hexadecimal digits over all events. Null where a run cannot be repeated.
    pub trace_hash: Option<String>,
    /// What the run came to.
    pub verdict: Verdict,
    /// Whether it did what its file expects.
    pub expected: bool,
    /// The expectations that were not met, in words.
    pub unmet: Vec<String>,
    /// The time limit, a signal or a failure of the surroundings ended the run before its publishers
    /// were done.
    pub partial: bool,
    /// What a reader has to know.
    pub notes: Vec<String>,
    /// The command that repeats the run.
    pub replay: String,
    /// What judges objected to.
    pub violations: Vec<Violation>,
    /// Who waited for a reply that would not come.
    pub stalls: Vec<Stall>,
    /// When the run ended, from its start.
    pub duration_ns: u64,
    /// The part of the run that rates and latencies cover.
    pub window: Window,
    /// Counts over the whole run.
    pub totals: Totals,
    /// Rates over the window.
    pub throughput: Throughput,
    /// From send to the ack that covers the message.
    pub ack_latency_ns: Distribution,
    /// From the intended start to the ack that covers the message.
    pub response_time_ns: Distribution,
    /// Waits at a shut gate within the window.
    pub stall_time_ns: StallTime,
    /// Of the messages of the whole run whose fate became known, the part reported missing: 0 to 1.
    pub gap_rate: f64,
    /// Jain's index over publishers. Null when nothing was acknowledged.
    pub fairness: Option<f64>,
    /// The groups of publishers.
    pub groups: Vec<GroupSummary>,
    /// Flow over time.
    pub flow: FlowSeries,
    /// Other figures over time.
    pub series: Series,
    /// From the intended start of a request to its answer, of the requests of probes that were wanted
    /// within the window and answered with success, by operation.
    pub api_latency_ns: BTreeMap<String, Distribution>,
    /// How all requests of the window fared, by operation.
    #[serde(default)]
    pub api_calls: BTreeMap<String, ApiCalls>,
    /// Who led when.
    pub leader_changes: Vec<LeaderChange>,
    /// When faults of the file fired.
    pub faults: Vec<FaultTimes>,
    /// What the run cost this machine. The only part that differs between equal runs.
    pub cost: Cost,
    /// What the load generator of a live run took and had left. Null for a simulated run.
    #[serde(default)]
    pub generator: Option<Generator>,
    /// What the servers of a live run said of themselves over time. Empty where nobody was asked.
    #[serde(default)]
    pub servers: Vec<ServerSeries>,
    /// The whole file as resolved.
    pub config: Settings,
}

/// A judge objected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Violation {
    /// Which judge.
    pub judge: String,
    /// The clause it guards.
    pub clause: String,
    /// When.
    pub at_ns: u64,
    /// The publisher concerned, from 0.
    pub publisher: Option<u32>,
    /// The batch concerned, from 0.
    pub batch: Option<u32>,
    /// What was wrong.
    pub message: String,
}

/// A publisher waited for a reply that the server would not send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stall {
    /// The publisher, from 0.
    pub publisher: u32,
    /// The batch, from 0.
    pub batch: u32,
    /// When it was found to be stalled.
    pub at_ns: u64,
    /// The event that would have let it go on.
    pub release: String,
}

impl From<judge::Violation> for Violation {
    fn from(found: judge::Violation) -> Self {
        Self {
            judge: found.judge.to_owned(),
            clause: found.clause.to_owned(),
            at_ns: found.at.as_nanos(),
            publisher: found.publisher.map(|publisher| publisher.0),
            batch: found.batch.map(|batch| batch.0),
            message: found.message,
        }
    }
}

impl From<judge::Stall> for Stall {
    fn from(found: judge::Stall) -> Self {
        Self {
            publisher: found.publisher.0,
            batch: found.batch.0,
            at_ns: found.at.as_nanos(),
            release: found.release,
        }
    }
}

/// What a run cost the machine that ran it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Wall time.
    pub wall_ns: u64,
    /// Messages sent per second of wall time.
    pub messages_per_wall_second: f64,
    /// Seconds of the run per second of wall time: above 1 where the simulator is faster than life.
    pub simulated_seconds_per_wall_second: f64,
    /// Most memory that the process held so far. Null where the system does not say.
    pub peak_rss_bytes: Option<u64>,
}

impl Cost {
    /// The cost of a run of `duration_ns` with `published` messages that took `wall_ns`.
    pub fn new(
        wall_ns: u64,
        published: u64,
        duration_ns: u64,
        peak_rss_bytes: Option<u64>,
    ) -> Self {
        let per_second = |amount: f64| {
            if wall_ns == 0 {
                0.0
            } else {
                rounded(amount / (wall_ns as f64 / 1e9), 3)
            }
        };
        Self {
            wall_ns,
            messages_per_wall_second: per_second(published as f64),
            simulated_seconds_per_wall_second: per_second(duration_ns as f64 / 1e9),
            peak_rss_bytes,
        }
    }
}

impl RunResult {
    /// The run without its figures over time, which make up most of its size.
    pub fn without_series(self) -> Self {
        Self {
            flow: FlowSeries::default(),
            series: Series::default(),
            servers: Vec::new(),
            ..self
        }
    }

    /// The result of a recorded run: judged by what its file expects, and told in full.
    pub fn new(record: RunRecord) -> Self {
        let RunRecord {
            settings, summary, ..
        } = record;
        let settings = resolved(record.world, settings);
        let mut notes = record.notes;
        notes.extend(warm_up::note(&summary.window));
        let mut totals = summary.totals;
        totals.stalls = stalled_publishers(&record.stalls);
        let mut judgement = verdict::judge(
            &settings.expect,
            &totals,
            &record.violations,
            &record.stalls,
            match (record.partial, record.unfinished) {
                (true, _) => Some(Cut::Interrupted),
                (false, true) => Some(Cut::TimeLimit),
                (false, false) => None,
            },
        );
        judgement.unmet.extend(record.objections);
        if !record.partial {
            let late = api::unmet(
                &settings.expect,
                &summary.api_latency_ns,
                &summary.api_calls,
            );
            judgement.unmet.extend(late);
        }
        Self {
            format: FORMAT,
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            world: record.world,
            lane: record.lane,
            file: record.file,
            seed: record.seed,
            config_hash: format!("{:016x}", config_hash(&settings)),
            trace_hash: record.trace_hash.map(|hash| format!("{hash:016x}")),
            verdict: judgement.verdict,
            expected: judgement.unmet.is_empty(),
            unmet: judgement.unmet,
            partial: record.partial || record.unfinished,
            notes,
            replay: record.replay,
            violations: record.violations,
            stalls: record.stalls,
            duration_ns: summary.duration_ns,
            window: summary.window,
            totals,
            throughput: summary.throughput,
            ack_latency_ns: summary.ack_latency_ns,
            response_time_ns: summary.response_time_ns,
            stall_time_ns: summary.stall_time_ns,
            gap_rate: summary.gap_rate,
            fairness: summary.fairness,
            groups: summary.groups,
            flow: summary.flow,
            series: summary.series,
            api_latency_ns: summary.api_latency_ns,
            api_calls: summary.api_calls,
            leader_changes: summary.leader_changes,
            faults: summary.faults,
            cost: record.cost,
            generator: record.generator,
            servers: record.servers,
            config: settings,
        }
    }
}

/// The settings as a result shows them, and hashes them: the model is part of what a simulated one
/// comes from.
pub fn resolved(world: World, settings: Settings) -> Settings {
    let settings = settings.with_digests();
    match world {
        World::Sim => settings.with_modelled_defaults(),
        World::Live => settings,
    }
}

/// Publishers that stalled at least once.
fn stalled_publishers(stalls: &[Stall]) -> u64 {
    let publishers: std::collections::BTreeSet<u32> =
        stalls.iter().map(|stall| stall.publisher).collect();
    publishers.len() as u64
}

/// The command that repeats a run, fit for a shell: `sets` are the `key=value` of `--set`.
pub fn replay_command(world: World, file: &str, seed: u64, sets: &[String]) -> String {
    // A name that begins like an option must not be taken for one.
    let here = if file.starts_with('-') { "./" } else { "" };
    let mut command = format!(
        "tidegate {} {} --seed {seed}",
        world.as_str(),
        shell_word(&format!("{here}{file}"))
    );
    for set in sets {
        command.push_str(" --set ");
        command.push_str(&shell_word(set));
    }
    command
}

/// `text` as one word of a shell.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A small file.
    pub(in crate::report) fn settings() -> Settings {
        serde_json::from_value(serde_json::json!({
            "format": 1,
            "about": "Two publishers at full speed.",
            "publishers": [{ "name": "steady", "count": 2 }],
            "stream": {},
            "expect": {},
        }))
        .unwrap()
    }

    /// The record of a run in which nothing happened.
    pub(crate) fn record() -> RunRecord {
        RunRecord {
            world: World::Sim,
            lane: Some(RunLane::Event),
            file: "sims/nats/steady.toml".to_owned(),
            seed: 7,
            trace_hash: Some(0xab),
            partial: false,
            unfinished: false,
            summary: Summary::default(),
            violations: Vec::new(),
            stalls: Vec::new(),
            cost: Cost::new(2_000_000_000, 10, 4_000_000_000, None),
            generator: None,
            servers: Vec::new(),
            objections: Vec::new(),
            settings: settings(),
            notes: Vec::new(),
            replay: replay_command(World::Sim, "sims/nats/steady.toml", 7, &[]),
        }
    }

    #[test]
    fn cost_is_per_wall_second() {
        let cost = record().cost;
        assert_eq!(cost.messages_per_wall_second, 5.0);
        assert_eq!(cost.simulated_seconds_per_wall_second, 2.0);
        assert_eq!(Cost::new(0, 10, 10, None).messages_per_wall_second, 0.0);
    }

    #[test]
    fn hashes_are_sixteen_digits_and_follow_the_settings() {
        let first = RunResult::new(record());
        assert_eq!(first.trace_hash.as_deref(), Some("00000000000000ab"));
        let mut other = record();
        other.settings.publishers[0].flow += 1;
        let other = RunResult::new(other);
        assert_eq!(first.config_hash.len(), 16);
        assert_ne!(first.config_hash, other.config_hash);
    }

    #[test]
    fn a_simulated_result_shows_its_model_and_a_live_one_does_not() {
        let simulated = RunResult::new(record());
        assert!(simulated.config.server.is_some());
        assert!(simulated.config.disk.is_some() && simulated.config.network.is_some());
        let mut written = record();
        written.settings = written.settings.with_modelled_defaults();
        assert_eq!(RunResult::new(written).config_hash, simulated.config_hash);
        let live = RunResult::new(RunRecord {
            world: World::Live,
            lane: None,
            ..record()
        });
        assert_eq!(live.config, settings());
    }

    #[test]
    fn a_publisher_that_stalls_twice_is_one_publisher() {
        let mut twice = record();
        for batch in [1, 2] {
            twice.stalls.push(Stall {
                publisher: 1,
                batch,
                at_ns: 5,
                release: "flow ack 10".to_owned(),
            });
        }
        let result = RunResult::new(twice);
        assert_eq!(result.totals.stalls, 1);
        assert_eq!(result.verdict, Verdict::Stall);
        assert!(!result.expected);
    }

    #[test]
    fn a_run_that_was_cut_off_is_partial_and_no_clean_pass() {
        let mut cut_off = record();
        cut_off.unfinished = true;
        let result = RunResult::new(cut_off);
        assert!(result.partial && !result.expected);
        assert_eq!(result.verdict, Verdict::Pass);
        let by_signal = RunResult::new(RunRecord {
            partial: true,
            ..record()
        });
        assert!(by_signal.partial && !by_signal.expected);
        assert_eq!(
            by_signal.unmet,
            ["the run was broken off before it was over"]
        );
    }

    #[test]
    fn what_the_command_objects_to_is_not_as_expected() {
        let result = RunResult::new(RunRecord {
            objections: vec!["client-bound".to_owned()],
            ..record()
        });
        assert_eq!((result.verdict, result.expected), (Verdict::Pass, false));
        assert_eq!(result.unmet, ["client-bound"]);
    }

    #[test]
    fn the_replay_command_is_safe_in_a_shell() {
        let sets = ["publishers.0.flow=10".to_owned(), "about=it's".to_owned()];
        assert_eq!(
            replay_command(World::Live, "my file.toml", 3, &sets),
            r"tidegate live 'my file.toml' --seed 3 --set publishers.0.flow=10 --set 'about=it'\''s'"
        );
        assert_eq!(
            replay_command(World::Sim, "-x.toml", 3, &[]),
            "tidegate sim ./-x.toml --seed 3"
        );
    }
}
