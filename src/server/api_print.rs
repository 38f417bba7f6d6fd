//! The JetStream API as the server answers it: JSON.
//!
//! Leans on `api` and `stamp`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use super::api::{AccountInfo, ApiAnswer, ApiCall, ApiFailure, Listed, StoredMessage, StreamInfo};
use super::stamp;
use crate::nats::header::Headers;
use crate::stream::config::StreamConfig;

/// What the text of an answer needs beside the answer.
pub struct Edge<'a> {
    /// Nanoseconds since 1970 at the start of the run: times of the run count from there.
    pub start_unix_nanos: u64,
    /// Calls answered until now, and those that failed.
    pub calls: (u64, u64),
    /// The bytes of a message, of which the stream keeps only length and digest; `None` if they
    /// are not kept any more.
    pub payload: &'a dyn Fn(&StoredMessage) -> Option<Bytes>,
}

/// The JSON that answers a call.
pub fn print(call: ApiCall, answer: &Result<ApiAnswer, ApiFailure>, edge: &Edge<'_>) -> String {
    let mut response = Response {
        r#type: kind(call),
        ..Response::default()
    };
    if let Err(failure) = answer {
        response.fail(call, failure);
        return text(&response);
    }
    if call == ApiCall::Info {
        response.list(Listed::default());
    }
    match answer {
        Ok(ApiAnswer::Stream(info)) => {
            if let Some((_, listed)) = &info.subject_counts {
                response.list(*listed);
            }
            response.info = Some(StreamJson::new(info, edge));
            response.did_create = (call == ApiCall::Create).then_some(true);
        }
        Ok(ApiAnswer::Existing(info)) => response.info = Some(StreamJson::new(info, edge)),
        Ok(ApiAnswer::Done) => response.success = Some(true),
        Ok(ApiAnswer::Purged(purged)) => {
            response.success = Some(true);
            response.purged = Some(*purged);
        }
        Ok(ApiAnswer::Message(message)) => match MessageJson::new(message, edge) {
            Some(json) => response.message = Some(json),
            None => response.fail(call, &gone()),
        },
        Ok(ApiAnswer::Account(info)) => {
            response.account = Some(AccountJson::new(info, edge.calls));
        }
        Ok(ApiAnswer::Names(names, listed)) => {
            response.list(*listed);
            // An empty list of names is null: so the server writes it.
            response.streams = Some(if names.is_empty() {
                Value::Null
            } else {
                names.iter().map(|name| Value::from(&**name)).collect()
            });
        }
        Ok(ApiAnswer::List(streams, listed)) => {
            response.list(*listed);
            let streams = streams
                .iter()
                .map(|info| serde_json::to_value(StreamJson::new(info, edge)).unwrap_or_default());
            response.streams = Some(streams.collect());
        }
        Ok(ApiAnswer::NoConsumers) => {
            response.list(Listed {
                limit: if call == ApiCall::ConsumerNames {
                    1_024
                } else {
                    256
                },
                ..Listed::default()
            });
            response.consumers = Some([]);
        }
        Err(_) => {}
    }
    text(&response)
}

/// Strings, numbers and maps with text keys: this does not fail.
fn text(response: &Response<'_>) -> String {
    serde_json::to_string(response).unwrap_or_default()
}

/// What a read meets whose content the model has let go.
fn gone() -> ApiFailure {
    ApiFailure::new(
        500,
        10051,
        "the content of the message is not kept any more",
    )
}

const fn kind(call: ApiCall) -> &'static str {
    match call {
        ApiCall::Account => "io.nats.jetstream.api.v1.account_info_response",
        ApiCall::Names => "io.nats.jetstream.api.v1.stream_names_response",
        ApiCall::List => "io.nats.jetstream.api.v1.stream_list_response",
        ApiCall::Create => "io.nats.jetstream.api.v1.stream_create_response",
        ApiCall::Update => "io.nats.jetstream.api.v1.stream_update_response",
        ApiCall::Delete => "io.nats.jetstream.api.v1.stream_delete_response",
        ApiCall::Info => "io.nats.jetstream.api.v1.stream_info_response",
        ApiCall::Purge => "io.nats.jetstream.api.v1.stream_purge_response",
        ApiCall::MessageGet => "io.nats.jetstream.api.v1.stream_msg_get_response",
        ApiCall::MessageDelete => "io.nats.jetstream.api.v1.stream_msg_delete_response",
        ApiCall::StepDown => "io.nats.jetstream.api.v1.stream_leader_stepdown_response",
        ApiCall::PeerRemove => "io.nats.jetstream.api.v1.stream_remove_peer_response",
        ApiCall::Snapshot => "io.nats.jetstream.api.v1.stream_snapshot_response",
        ApiCall::Restore => "io.nats.jetstream.api.v1.stream_restore_response",
        ApiCall::ConsumerCreate => "io.nats.jetstream.api.v1.consumer_create_response",
        ApiCall::ConsumerDelete => "io.nats.jetstream.api.v1.consumer_delete_response",
        ApiCall::ConsumerInfo => "io.nats.jetstream.api.v1.consumer_info_response",
        ApiCall::ConsumerNames => "io.nats.jetstream.api.v1.consumer_names_response",
        ApiCall::ConsumerList => "io.nats.jetstream.api.v1.consumer_list_response",
    }
}

#[derive(Serialize, Default)]
struct Response<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(flatten)]
    account: Option<AccountJson>,
    #[serde(flatten)]
    info: Option<StreamJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    did_create: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumers: Option<[(); 0]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<u64>,
}

impl Response<'_> {
    const fn list(&mut self, listed: Listed) {
        self.total = Some(listed.total);
        self.offset = Some(listed.offset);
        self.limit = Some(listed.limit);
    }

    /// An error, with what stands beside one in the answer to this call.
    fn fail(&mut self, call: ApiCall, failure: &ApiFailure) {
        self.error = Some(ErrorJson {
            code: failure.status,
            err_code: failure.number,
            description: failure.description.to_string(),
        });
        match call {
            ApiCall::Info => self.list(Listed::default()),
            ApiCall::Names | ApiCall::List => {
                self.list(Listed::default());
                self.streams = Some(Value::Null);
            }
            ApiCall::ConsumerNames | ApiCall::ConsumerList => {
                self.list(Listed::default());
                self.consumers = Some([]);
            }
            ApiCall::Purge => self.purged = Some(0),
            _ => {}
        }
    }
}

#[derive(Serialize)]
struct ErrorJson {
    code: u16,
    err_code: u16,
    description: String,
}

#[derive(Serialize)]
struct AccountJson {
    memory: u64,
    storage: u64,
    reserved_memory: u64,
    reserved_storage: u64,
    streams: u64,
    consumers: u64,
    limits: LimitsJson,
    api: ApiJson,
}

#[derive(Serialize)]
struct LimitsJson {
    max_memory: i64,
    max_storage: i64,
    max_streams: i64,
    max_consumers: i64,
    max_ack_pending: i64,
    memory_max_stream_bytes: i64,
    storage_max_stream_bytes: i64,
    max_bytes_required: bool,
}

#[derive(Serialize)]
struct ApiJson {
    level: u32,
    total: u64,
    errors: u64,
}

impl AccountJson {
    const fn new(info: &AccountInfo, (total, errors): (u64, u64)) -> Self {
        Self {
            memory: info.memory_bytes,
            storage: info.storage_bytes,
            reserved_memory: 0,
            reserved_storage: 0,
            streams: info.streams,
            consumers: 0,
            limits: LimitsJson {
                max_memory: -1,
                max_storage: -1,
                max_streams: -1,
                max_consumers: -1,
                max_ack_pending: -1,
                memory_max_stream_bytes: -1,
                storage_max_stream_bytes: -1,
                max_bytes_required: false,
            },
            api: ApiJson {
                level: info.api_level,
                total,
                errors,
            },
        }
    }
}

#[derive(Serialize)]
struct StreamJson<'a> {
    config: &'a StreamConfig,
    created: String,
    state: StateJson<'a>,
    ts: String,
}

#[derive(Serialize)]
struct StateJson<'a> {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    first_ts: String,
    last_seq: u64,
    last_ts: String,
    #[serde(skip_serializing_if = "is_zero")]
    num_subjects: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    subjects: Option<&'a BTreeMap<String, u64>>,
    #[serde(skip_serializing_if = "is_zero")]
    num_deleted: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    deleted: Vec<u64>,
    consumer_count: u64,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl<'a> StreamJson<'a> {
    fn new(info: &'a StreamInfo, edge: &Edge<'_>) -> Self {
        let stamp = |at| stamp::print(edge.start_unix_nanos, at);
        Self {
            config: &info.config,
            created: stamp(Some(info.created)),
            state: StateJson {
                messages: info.messages,
                bytes: info.bytes,
                first_seq: info.first.0,
                first_ts: stamp(info.first_at),
                last_seq: info.last.0,
                last_ts: stamp(info.last_at),
                num_subjects: info.subjects,
                subjects: info.subject_counts.as_ref().map(|(counts, _)| counts),
                num_deleted: info.deleted,
                deleted: info.deleted_sequences.iter().map(|at| at.0).collect(),
                consumer_count: 0,
            },
            ts: stamp(Some(info.at)),
        }
    }
}

#[derive(Serialize)]
struct MessageJson<'a> {
    subject: &'a str,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    hdrs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    time: String,
}

impl<'a> MessageJson<'a> {
    /// `None`: its content is not kept any more.
    fn new(message: &'a StoredMessage, edge: &Edge<'_>) -> Option<Self> {
        let data = match message.payload.bytes {
            0 => None,
            _ => Some(STANDARD.encode((edge.payload)(message)?)),
        };
        Some(Self {
            subject: &message.subject,
            seq: message.sequence.0,
            hdrs: message
                .headers
                .as_deref()
                .map(|headers| STANDARD.encode(block(headers))),
            data,
            time: stamp::print(edge.start_unix_nanos, Some(message.at)),
        })
    }
}

fn block(headers: &Headers) -> Vec<u8> {
    let mut block = Vec::with_capacity(headers.wire_bytes());
    headers.write_to(&mut block);
    block
}
