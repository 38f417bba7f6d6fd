//! The JetStream API as text: subjects and JSON bodies of calls, JSON of answers.
//!
//! Leans on `api`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::api::{ApiAnswer, ApiCall, ApiFailure, ApiRequest, Purge, StoredMessage, StreamInfo};
use crate::batch::message::Payload;
use crate::machine::Time;
use crate::nats::StreamSequence;
use crate::nats::header::Headers;
use crate::stream::config::StreamConfig;

/// What the subjects of these calls begin with.
const PREFIX: &str = "$JS.API.STREAM.";

/// The calls with the words between prefix and stream name.
const CALLS: &[(&str, ApiCall)] = &[
    ("CREATE.", ApiCall::Create),
    ("UPDATE.", ApiCall::Update),
    ("DELETE.", ApiCall::Delete),
    ("INFO.", ApiCall::Info),
    ("PURGE.", ApiCall::Purge),
    ("MSG.GET.", ApiCall::MessageGet),
    ("MSG.DELETE.", ApiCall::MessageDelete),
    ("LEADER.STEPDOWN.", ApiCall::StepDown),
];

/// What the text of an answer needs beside the answer.
pub struct Edge<'a> {
    /// Seconds since 1970 at the start of the run: times of the run count from there.
    pub start_unix_seconds: u64,
    /// The bytes of a payload, of which the stream keeps only length and digest.
    pub payload: &'a dyn Fn(Payload) -> Vec<u8>,
}

/// Reads a call from its subject and body. `None`: no call that the model knows.
///
/// # Errors
/// A body that is not what the call takes, with the call that it was meant for.
pub fn parse(subject: &str, body: &[u8]) -> Option<Result<ApiRequest, (ApiCall, ApiFailure)>> {
    let rest = subject.strip_prefix(PREFIX)?;
    let (call, stream) = CALLS
        .iter()
        .find_map(|(words, call)| Some((*call, rest.strip_prefix(words)?)))?;
    if stream.is_empty() || stream.contains('.') {
        return None;
    }
    Some(read(call, stream, body).map_err(|failure| (call, failure)))
}

/// The JSON that answers a call.
pub fn print(call: ApiCall, answer: &Result<ApiAnswer, ApiFailure>, edge: &Edge<'_>) -> String {
    let mut response = Response {
        r#type: kind(call),
        ..Response::default()
    };
    if call == ApiCall::Info {
        (response.total, response.offset, response.limit) = (Some(0), Some(0), Some(0));
    }
    match answer {
        Ok(ApiAnswer::Stream(info)) => {
            response.info = Some(StreamJson::new(info, edge));
            response.did_create = (call == ApiCall::Create).then_some(true);
        }
        Ok(ApiAnswer::Done) => response.success = Some(true),
        Ok(ApiAnswer::Purged(purged)) => {
            response.success = Some(true);
            response.purged = Some(*purged);
        }
        Ok(ApiAnswer::Message(message)) => {
            response.message = Some(MessageJson::new(message, edge));
        }
        Err(failure) => {
            response.error = Some(ErrorJson {
                code: failure.status,
                err_code: failure.number,
                description: &failure.description,
            });
            response.purged = (call == ApiCall::Purge).then_some(0);
        }
    }
    // Strings, numbers and maps with text keys: this does not fail.
    serde_json::to_string(&response).unwrap_or_default()
}

const fn kind(call: ApiCall) -> &'static str {
    match call {
        ApiCall::Create => "io.nats.jetstream.api.v1.stream_create_response",
        ApiCall::Update => "io.nats.jetstream.api.v1.stream_update_response",
        ApiCall::Delete => "io.nats.jetstream.api.v1.stream_delete_response",
        ApiCall::Info => "io.nats.jetstream.api.v1.stream_info_response",
        ApiCall::Purge => "io.nats.jetstream.api.v1.stream_purge_response",
        ApiCall::MessageGet => "io.nats.jetstream.api.v1.stream_msg_get_response",
        ApiCall::MessageDelete => "io.nats.jetstream.api.v1.stream_msg_delete_response",
        ApiCall::StepDown => "io.nats.jetstream.api.v1.stream_leader_stepdown_response",
    }
}

fn read(call: ApiCall, stream: &str, body: &[u8]) -> Result<ApiRequest, ApiFailure> {
    let named = stream.to_owned();
    Ok(match call {
        ApiCall::Create => ApiRequest::Create(config(stream, body)?),
        ApiCall::Update => ApiRequest::Update(config(stream, body)?),
        ApiCall::Delete => ApiRequest::Delete { stream: named },
        ApiCall::Info => ApiRequest::Info { stream: named },
        ApiCall::StepDown => ApiRequest::StepDown { stream: named },
        ApiCall::Purge => {
            let purge: PurgeJson = if body.is_empty() {
                PurgeJson::default()
            } else {
                json(body)?
            };
            ApiRequest::Purge {
                stream: named,
                purge: Purge {
                    filter: purge.filter,
                    sequence: purge.seq.map(StreamSequence),
                    keep: purge.keep,
                },
            }
        }
        ApiCall::MessageGet => ApiRequest::MessageGet {
            stream: named,
            sequence: sequence(body)?,
        },
        ApiCall::MessageDelete => ApiRequest::MessageDelete {
            stream: named,
            sequence: sequence(body)?,
        },
    })
}

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiFailure> {
    serde_json::from_slice(body)
        .map_err(|error| ApiFailure::new(400, 10025, &format!("invalid JSON: {error}")))
}

fn config(stream: &str, body: &[u8]) -> Result<StreamConfig, ApiFailure> {
    let config: StreamConfig = json(body)?;
    if config.name != stream {
        return Err(ApiFailure::new(
            400,
            10056,
            "stream name in subject does not match request",
        ));
    }
    Ok(config)
}

fn sequence(body: &[u8]) -> Result<StreamSequence, ApiFailure> {
    let wanted: SequenceJson = json(body)?;
    match wanted.seq {
        Some(sequence) if sequence > 0 => Ok(StreamSequence(sequence)),
        _ => Err(ApiFailure::new(400, 10003, "bad request")),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PurgeJson {
    filter: Option<String>,
    seq: Option<u64>,
    keep: Option<u64>,
}

#[derive(Deserialize)]
struct SequenceJson {
    seq: Option<u64>,
}

#[derive(Serialize, Default)]
struct Response<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(flatten)]
    info: Option<StreamJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    did_create: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<MessageJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    success: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purged: Option<u64>,
}

#[derive(Serialize)]
struct ErrorJson<'a> {
    code: u16,
    err_code: u16,
    description: &'a str,
}

#[derive(Serialize)]
struct StreamJson<'a> {
    config: &'a StreamConfig,
    created: String,
    state: StateJson,
    ts: String,
}

#[derive(Serialize)]
struct StateJson {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    first_ts: String,
    last_seq: u64,
    last_ts: String,
    #[serde(skip_serializing_if = "is_zero")]
    num_subjects: u64,
    #[serde(skip_serializing_if = "is_zero")]
    num_deleted: u64,
    consumer_count: u64,
}

// serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl<'a> StreamJson<'a> {
    fn new(info: &'a StreamInfo, edge: &Edge<'_>) -> Self {
        Self {
            config: &info.config,
            created: stamp(edge, Some(info.created)),
            state: StateJson {
                messages: info.messages,
                bytes: info.bytes,
                first_seq: info.first.0,
                first_ts: stamp(edge, info.first_at),
                last_seq: info.last.0,
                last_ts: stamp(edge, info.last_at),
                num_subjects: info.subjects,
                num_deleted: info.deleted,
                consumer_count: 0,
            },
            ts: stamp(edge, Some(info.at)),
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
    fn new(message: &'a StoredMessage, edge: &Edge<'_>) -> Self {
        let data = (message.payload.bytes > 0).then(|| (edge.payload)(message.payload));
        Self {
            subject: &message.subject,
            seq: message.sequence.0,
            hdrs: message
                .headers
                .as_deref()
                .map(|headers| STANDARD.encode(block(headers))),
            data: data.map(|data| STANDARD.encode(data)),
            time: stamp(edge, Some(message.at)),
        }
    }
}

fn block(headers: &Headers) -> String {
    let mut text = String::from("NATS/1.0\r\n");
    for (name, value) in headers.lines() {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    text
}

/// A moment of the run in RFC 3339; year 1 for none.
fn stamp(edge: &Edge<'_>, at: Option<Time>) -> String {
    let Some(at) = at else {
        return "0001-01-01T00:00:00Z".to_owned();
    };
    let nanos = at.as_nanos() % 1_000_000_000;
    let seconds = edge
        .start_unix_seconds
        .saturating_add(at.as_nanos() / 1_000_000_000);
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos > 0 {
        let fraction = format!(".{nanos:09}");
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Year, month and day of a day counted from 1970-01-01, by the Gregorian calendar.
///
/// Years are taken to begin in March, so that the leap day is the last of its year.
const fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats::error_code::ErrorCode;
    use crate::server::{Server, ServerModel};
    use serde_json::{Value, json};

    const EDGE: Edge<'_> = Edge {
        start_unix_seconds: 1_800_000_000,
        payload: &|payload| vec![b'x'; payload.bytes as usize],
    };

    fn ask(server: &mut Server, subject: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let (call, answer) = match parse(subject, &body).unwrap() {
            Ok(request) => {
                let answer = server.call(Time::from_millis(1_500), &request, &mut Vec::new());
                (request.call(), answer)
            }
            Err((call, failure)) => (call, Err(failure)),
        };
        serde_json::from_str(&print(call, &answer, &EDGE)).unwrap()
    }

    #[test]
    fn a_stream_is_created_told_of_and_deleted() {
        let mut server = Server::new(ServerModel::default());
        let wanted = json!({"name": "S", "subjects": ["t.>"], "allow_batched": true,
            "max_msgs": 0, "template_owner": "me"});
        let made = ask(&mut server, "$JS.API.STREAM.CREATE.S", &wanted);
        assert_eq!(made["did_create"], true);
        assert_eq!(made["config"]["max_msgs"], -1);
        assert_eq!(made["config"]["template_owner"], "me");
        assert_eq!(made["config"]["duplicate_window"], 120_000_000_000_i64);
        assert_eq!(made["config"]["metadata"]["_nats.req.level"], "4");
        assert_eq!(made["created"], "2027-01-15T08:00:01.5Z");
        let told = ask(&mut server, "$JS.API.STREAM.INFO.S", &Value::Null);
        assert_eq!(told["config"], made["config"]);
        assert_eq!(told["state"]["last_ts"], "0001-01-01T00:00:00Z");
        let gone = ask(&mut server, "$JS.API.STREAM.DELETE.S", &Value::Null);
        assert_eq!(gone["success"], true);
        let told = ask(&mut server, "$JS.API.STREAM.INFO.S", &Value::Null);
        assert_eq!(told["error"]["err_code"], 10059);
    }

    #[test]
    fn what_was_told_can_be_sent_back_as_an_update() {
        let mut server = Server::new(ServerModel::default());
        let made = ask(
            &mut server,
            "$JS.API.STREAM.CREATE.S",
            &json!({"name": "S"}),
        );
        let mut config = made["config"].clone();
        config["allow_batched"] = json!(true);
        let updated = ask(&mut server, "$JS.API.STREAM.UPDATE.S", &config);
        assert_eq!(updated["config"]["allow_batched"], true);
        assert_eq!(updated["config"]["metadata"]["_nats.req.level"], "4");
    }

    #[test]
    fn bad_calls_are_answered_not_dropped() {
        let mut server = Server::new(ServerModel::default());
        let mut code = |subject: &str, body: Value| {
            ask(&mut server, subject, &body)["error"]["err_code"].clone()
        };
        assert_eq!(code("$JS.API.STREAM.CREATE.S", json!({"name": "Q"})), 10056);
        assert_eq!(code("$JS.API.STREAM.CREATE.S", json!([1])), 10025);
        assert_eq!(code("$JS.API.STREAM.MSG.GET.S", json!({})), 10003);
        assert_eq!(code("$JS.API.STREAM.PURGE.S", Value::Null), 10059);
        assert_eq!(code("$JS.API.STREAM.LEADER.STEPDOWN.S", Value::Null), 10010);
        assert_eq!(
            ErrorCode::ClusterRequired.number(),
            10010,
            "the step-down's code is the one of the list"
        );
    }

    #[test]
    fn other_subjects_are_no_calls() {
        for subject in [
            "t.a",
            "$JS.API.INFO",
            "$JS.API.STREAM.CREATE.",
            "$JS.API.STREAM.CREATE.a.b",
            "$JS.API.STREAM.LIST",
        ] {
            assert!(parse(subject, b"").is_none(), "{subject}");
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(59), (1970, 3, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_787), (2026, 11, 30));
    }
}
