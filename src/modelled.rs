//! From the settings of a file to its modelled server, with the stream in it.
//!
//! The simulator and the served model start from the same one. Leans on `scenario` and `server`.

use crate::machine::Time;
use crate::net::disk::Disk;
use crate::scenario::{
    Defect, Discard, DiskSettings, ServerSettings, Settings, Storage, StreamSettings, SyncPolicy,
};
use crate::server::api::ApiRequest;
use crate::server::{Action, Server, ServerDefect, ServerModel};
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

/// The server of a file, with its stream.
///
/// # Errors
/// If the model has no such server or refuses the stream.
pub fn server(settings: &Settings) -> Result<Server, NotModelled> {
    let wanted = settings.server.clone().unwrap_or_default();
    let disk = settings.disk.clone().unwrap_or_default();
    let mut server = Server::new(server_model(&wanted, &disk));
    let mut facts: Vec<Action> = Vec::new();
    let request = ApiRequest::Create(stream_config(&settings.stream));
    match server.call(Time::ZERO, &request, &mut facts) {
        Ok(_) => Ok(server),
        Err(error) => Err(NotModelled {
            key: "stream".to_owned(),
            message: format!("the server refuses it: {}", error.description),
        }),
    }
}

fn server_model(wanted: &ServerSettings, disk: &DiskSettings) -> ServerModel {
    let sync = match disk.sync {
        SyncPolicy::Never => Time::ZERO,
        SyncPolicy::Always => disk.sync_latency.0,
    };
    let defect = |defect: &Defect| match defect {
        Defect::AckBeforeStore => Some(ServerDefect::AckBeforeStore),
        Defect::PubAckCountsOneMore => Some(ServerDefect::PubAckCountsOneMore),
        Defect::StoreTwice => Some(ServerDefect::StoreTwice),
        Defect::AckHalfAsOften => Some(ServerDefect::AckHalfAsOften),
        Defect::PublisherIgnoresGate
        | Defect::PublisherWaitsForEver
        | Defect::UnseededDraw
        | Defect::HashOrder => None,
    };
    ServerModel {
        api_level: 5,
        flow_total: wanted.flow_total,
        batch_idle_timeout: wanted.batch_idle_timeout.0,
        batches_per_stream: wanted.batches_per_stream,
        batches_per_server: wanted.batches_per_server,
        ingest_messages: wanted.ingest_messages,
        ingest_bytes: wanted.ingest_bytes.0,
        message_cost: wanted.message_cost.0,
        kibibyte_cost: wanted.kibibyte_cost.0,
        api_cost: wanted.api_cost.0,
        disk: Disk::new(disk.write_latency.0, disk.bytes_per_second.0, sync),
        defects: wanted.defects.iter().filter_map(defect).collect(),
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
        allow_batched: stream.allow_batched,
        no_ack: stream.no_ack,
        ..config::StreamConfig::default()
    }
}
