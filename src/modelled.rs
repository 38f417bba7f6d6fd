//! From the settings of a file to its modelled server, with the stream in it.
//!
//! The simulator and the served model start from the same one. Leans on `scenario` and `server`.

use rand::RngExt;

use crate::batch::fast::flow::Room;
use crate::machine::Time;
use crate::net::disk::Disk;
use crate::raft::{self, RaftDefect, RaftDefects, Range};
use crate::scenario::{
    BugOf, Defect, Discard, DiskSettings, FlowPolicy, ServerSettings, Settings, Storage,
    StreamSettings, SyncPolicy,
};
use crate::seed::Generator;
use crate::server::api::ApiRequest;
use crate::server::{Action, ClusterModel, Server, ServerDefect, ServerModel};
use crate::stream::config;

/// A file that the model cannot do: which key, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct NotModelled {
    /// The key, as a dotted path.
    pub key: String,
    /// What is wrong and what is allowed.
    pub message: String,
}

/// A modelled server at the beginning of a run.
#[derive(Clone, Debug)]
pub struct Modelled {
    /// The server, with its stream.
    pub server: Server,
    /// What became true while that was set up.
    pub beginning: Vec<Action>,
}

impl From<Server> for Modelled {
    fn from(server: Server) -> Self {
        Self {
            server,
            beginning: Vec::new(),
        }
    }
}

/// The server of a file, with its stream.
///
/// # Errors
/// If the model has no such server or refuses the stream.
pub fn server(settings: &Settings) -> Result<Modelled, NotModelled> {
    let wanted = settings.server.clone().unwrap_or_default();
    let disk = settings.disk.clone().unwrap_or_default();
    let mut model = server_model(&wanted, &disk);
    model.cluster = cluster(settings);
    let mut server = Server::new(model);
    let mut beginning: Vec<Action> = Vec::new();
    let own = stream_config(&settings.stream_of_run());
    let other = settings.other_stream().map(|name| config::StreamConfig {
        name,
        storage: config::Storage::Memory,
        ..config::StreamConfig::default()
    });
    for (key, wanted) in [("stream", Some(own)), ("probes", other)] {
        let Some(wanted) = wanted else { continue };
        let request = ApiRequest::Create(wanted);
        let created = server.call(Time::ZERO, &request, &mut beginning);
        created.map_err(|error| NotModelled {
            key: key.to_owned(),
            message: format!("the server refuses the stream: {}", error.description),
        })?;
    }
    Ok(Modelled { server, beginning })
}

/// The constants of RAFT for the replicas of a file's stream; `None` if it has but one.
pub fn raft(settings: &Settings) -> Option<raft::Settings> {
    let members = settings.stream.replicas;
    let disk = settings.disk.clone().unwrap_or_default();
    (members > 1).then(|| raft::Settings {
        members,
        sync_always: disk.sync == SyncPolicy::Always,
        ..cluster(settings).raft
    })
}

/// As many servers as the stream has replicas.
fn cluster(settings: &Settings) -> ClusterModel {
    let network = settings.network.clone().unwrap_or_default();
    let wanted = settings.raft.clone().unwrap_or_default();
    let usual = ClusterModel::default();
    ClusterModel {
        servers: settings.stream.replicas,
        latency: network.route_latency.0,
        bits_per_second: network.route_bandwidth.0,
        propose_cost: wanted.propose_cost.0,
        propose_kibibyte_cost: wanted.propose_kibibyte_cost.0,
        apply_cost: wanted.apply_cost.0,
        snapshot_entries: wanted.snapshot_entries,
        raft: raft::Settings {
            election: Range {
                least: wanted.election_timeout_min.0,
                most: wanted.election_timeout_max.0,
            },
            campaign: Range {
                least: wanted.campaign_timeout_min.0,
                most: wanted.campaign_timeout_max.0,
            },
            transfer_delay: wanted.transfer_delay.0,
            heartbeat: wanted.heartbeat.0,
            lost_quorum: wanted.lost_quorum.0,
            batch_bytes: wanted.batch_bytes.0,
            batch_entries: wanted.batch_entries,
            overrun: wanted.overrun,
            resume: wanted.overrun_resume,
            catchup_bytes: wanted.catchup_bytes.0,
            catchup_stall: wanted.catchup_stall.0,
            defects: raft_defects(settings),
            ..usual.raft
        },
        ..usual
    }
}

/// The bugs of RAFT in a file: those of its version, and any others.
fn raft_defects(settings: &Settings) -> RaftDefects {
    let server = settings.server.clone().unwrap_or_default();
    let version = server.version.into();
    let own = RaftDefect::ALL.into_iter();
    let own = own.filter(|defect| defect.is_in(version));
    own.chain(of_raft(&server.defects))
        .filter(|defect| !of_raft(&server.repaired).any(|repaired| repaired == *defect))
        .fold(RaftDefects::default(), RaftDefects::with)
}

fn of_raft(words: &[Defect]) -> impl Iterator<Item = RaftDefect> {
    words.iter().filter_map(|word| match word.bug_of() {
        BugOf::Raft(defect) => Some(defect),
        BugOf::Server(_) | BugOf::Publisher | BugOf::Simulator => None,
    })
}

fn of_server(words: &[Defect]) -> impl Iterator<Item = ServerDefect> {
    words.iter().filter_map(|word| match word.bug_of() {
        BugOf::Server(defect) => Some(defect),
        BugOf::Raft(_) | BugOf::Publisher | BugOf::Simulator => None,
    })
}

/// A span that a replica waits for, drawn evenly.
pub fn draw(range: Range, generator: &mut Generator) -> Time {
    let (least, most) = (range.least.as_nanos(), range.most.as_nanos());
    Time::from_nanos(if most > least {
        generator.random_range(least..most)
    } else {
        least
    })
}

fn server_model(wanted: &ServerSettings, disk: &DiskSettings) -> ServerModel {
    let sync = match disk.sync {
        SyncPolicy::Never => None,
        SyncPolicy::Always => Some(disk.sync_latency.0),
    };
    let usual = ServerSettings::default();
    let model = ServerModel::of(wanted.version.into());
    let mut defects = model.defects;
    defects.extend(of_server(&wanted.defects));
    for repaired in of_server(&wanted.repaired) {
        defects.remove(&repaired);
    }
    ServerModel {
        version: model.version,
        flow_total: wanted.flow_total,
        flow_room: match wanted.flow_policy {
            FlowPolicy::EvenShare => None,
            FlowPolicy::IngestQueue => Some(Room::IngestQueue),
            FlowPolicy::RaftBacklog => Some(Room::RaftBacklog),
            FlowPolicy::Both => Some(Room::Both),
        },
        batch_idle_timeout: wanted.batch_idle_timeout.0,
        batches_per_stream: wanted.batches_per_stream,
        batches_per_server: wanted.batches_per_server,
        // One option of nats-server stands for both kinds of batches, with a default for each.
        atomic_batches_per_stream: if wanted.batches_per_stream == usual.batches_per_stream {
            model.atomic_batches_per_stream
        } else {
            wanted.batches_per_stream
        },
        atomic_batches_per_server: if wanted.batches_per_server == usual.batches_per_server {
            model.atomic_batches_per_server
        } else {
            wanted.batches_per_server
        },
        atomic_batch_messages: wanted.atomic_batch_messages,
        ingest_messages: wanted.ingest_messages,
        ingest_bytes: wanted.ingest_bytes.0,
        message_cost: wanted.message_cost.0,
        kibibyte_cost: wanted.kibibyte_cost.0,
        api_cost: wanted.api_cost.0,
        api_workers: wanted.api_workers,
        api_queue: wanted.api_queue,
        disk: Disk::new(disk.write_latency.0, disk.bytes_per_second.0, sync)
            .with_file_latency(disk.file_latency.0),
        cluster: model.cluster,
        defects,
    }
}

fn stream_config(stream: &StreamSettings) -> config::StreamConfig {
    let limit =
        |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    config::StreamConfig {
        name: stream.name.clone(),
        subjects: stream.subjects.clone(),
        storage: match stream.storage {
            Storage::File => config::Storage::File,
            Storage::Memory => config::Storage::Memory,
        },
        discard: match stream.discard {
            Discard::Old => config::Discard::Old,
            Discard::New => config::Discard::New,
        },
        max_msgs: limit(stream.max_messages),
        max_bytes: limit(stream.max_bytes.map(|bytes| bytes.0)),
        max_msg_size: limit(stream.max_message_size.map(|bytes| bytes.0)),
        max_msgs_per_subject: limit(stream.max_messages_per_subject),
        discard_new_per_subject: stream.discard_new_per_subject,
        duplicate_window: i64::try_from(stream.duplicate_window.0.as_nanos()).unwrap_or(i64::MAX),
        num_replicas: u32::from(stream.replicas),
        allow_batched: stream.allow_batched,
        allow_atomic: stream.allow_atomic,
        no_ack: stream.no_ack,
        ..config::StreamConfig::default()
    }
}
