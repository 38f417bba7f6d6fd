//! The JetStream API as clients ask it: subjects and JSON bodies of calls.
//!
//! Leans on `api`; `api_print` writes the answers.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use super::api_print::{Edge, print};

use super::api::{ApiCall, ApiFailure, ApiRequest, InfoDetails, Page, Purge, Which};
use crate::nats::StreamSequence;
use crate::stream::config::StreamConfig;

/// What the subjects of all calls begin with.
pub const PREFIX: &str = "$JS.API.";

/// How many tokens stand behind the words of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Names {
    /// None.
    None,
    /// A stream.
    Stream,
    /// A stream and a consumer.
    Consumer,
    /// A stream, and perhaps a consumer and a filter.
    Filter,
}

/// The calls with the words of their subjects; of two that fit, the first is meant.
const CALLS: &[(&str, Names, ApiCall)] = &[
    ("INFO", Names::None, ApiCall::Account),
    ("STREAM.NAMES", Names::None, ApiCall::Names),
    ("STREAM.LIST", Names::None, ApiCall::List),
    ("STREAM.CREATE", Names::Stream, ApiCall::Create),
    ("STREAM.UPDATE", Names::Stream, ApiCall::Update),
    ("STREAM.DELETE", Names::Stream, ApiCall::Delete),
    ("STREAM.INFO", Names::Stream, ApiCall::Info),
    ("STREAM.PURGE", Names::Stream, ApiCall::Purge),
    ("STREAM.MSG.GET", Names::Stream, ApiCall::MessageGet),
    ("STREAM.MSG.DELETE", Names::Stream, ApiCall::MessageDelete),
    ("STREAM.LEADER.STEPDOWN", Names::Stream, ApiCall::StepDown),
    ("STREAM.PEER.REMOVE", Names::Stream, ApiCall::PeerRemove),
    ("STREAM.SNAPSHOT", Names::Stream, ApiCall::Snapshot),
    ("STREAM.RESTORE", Names::Stream, ApiCall::Restore),
    (
        "CONSUMER.DURABLE.CREATE",
        Names::Consumer,
        ApiCall::ConsumerCreate,
    ),
    ("CONSUMER.CREATE", Names::Filter, ApiCall::ConsumerCreate),
    ("CONSUMER.DELETE", Names::Consumer, ApiCall::ConsumerDelete),
    ("CONSUMER.INFO", Names::Consumer, ApiCall::ConsumerInfo),
    ("CONSUMER.NAMES", Names::Stream, ApiCall::ConsumerNames),
    ("CONSUMER.LIST", Names::Stream, ApiCall::ConsumerList),
];

/// A call whose body is not what it takes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Misread {
    /// Which call.
    pub call: ApiCall,
    /// The stream that its subject names.
    pub stream: String,
    /// What is wrong.
    pub failure: ApiFailure,
}

impl Misread {
    /// Whether a cluster looks for the stream before it reads the body, and answers that there is none
    /// (`jetstream_api.go`, `jsStreamPurgeRequest`, `jsMsgDeleteRequest`, `jsMsgGetRequest`).
    pub const fn comes_behind_the_stream(&self) -> bool {
        matches!(
            self.call,
            ApiCall::Purge | ApiCall::MessageGet | ApiCall::MessageDelete
        )
    }
}

/// Reads a call from its subject and body. `None`: no call that the model knows.
///
/// # Errors
/// A body that is not what the call takes.
pub fn parse(subject: &str, body: &[u8]) -> Option<Result<ApiRequest, Misread>> {
    let rest = subject.strip_prefix(PREFIX)?;
    let (call, stream) = CALLS.iter().find_map(|(words, names, call)| {
        Some((*call, named(*names, rest.strip_prefix(words)?)?))
    })?;
    Some(read(call, stream, body).map_err(|failure| Misread {
        call,
        stream: stream.to_owned(),
        failure,
    }))
}

/// The stream named by what stands behind the words of a call, if the number of tokens is right.
fn named(names: Names, rest: &str) -> Option<&str> {
    if names == Names::None {
        return rest.is_empty().then_some("");
    }
    let rest = rest.strip_prefix('.')?;
    if rest.split('.').any(str::is_empty) {
        return None;
    }
    let (stream, more) = match rest.split_once('.') {
        Some((stream, more)) => (stream, Some(more)),
        None => (rest, None),
    };
    let is_right = match names {
        Names::None => false,
        Names::Stream => more.is_none(),
        Names::Consumer => more.is_some_and(|consumer| !consumer.contains('.')),
        Names::Filter => true,
    };
    is_right.then_some(stream)
}

fn read(call: ApiCall, stream: &str, body: &[u8]) -> Result<ApiRequest, ApiFailure> {
    let named = stream.to_owned();
    Ok(match call {
        ApiCall::Account => ApiRequest::Account,
        ApiCall::Names => ApiRequest::Names(page(body)?),
        ApiCall::List => ApiRequest::List(page(body)?),
        ApiCall::Create => ApiRequest::Create(config(Some(stream), body)?),
        ApiCall::Update => ApiRequest::Update(config(None, body)?),
        ApiCall::Delete => ApiRequest::Delete { stream: named },
        ApiCall::Info => {
            let info: InfoJson = json(body)?;
            ApiRequest::Info {
                stream: named,
                details: InfoDetails {
                    subjects_filter: info.subjects_filter.filter(|filter| !filter.is_empty()),
                    offset: info.offset,
                    deleted: info.deleted_details,
                },
            }
        }
        ApiCall::StepDown => ApiRequest::StepDown { stream: named },
        ApiCall::Purge => {
            let purge = purge(body)?;
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
            which: which(body)?,
        },
        ApiCall::MessageDelete => {
            if is_empty(body) {
                return Err(bad());
            }
            // Without a sequence it is 0, which no message has.
            let wanted: MessageJson = json(body)?;
            ApiRequest::MessageDelete {
                stream: named,
                sequence: StreamSequence(wanted.seq.unwrap_or(0)),
            }
        }
        ApiCall::PeerRemove
        | ApiCall::Snapshot
        | ApiCall::Restore
        | ApiCall::ConsumerCreate
        | ApiCall::ConsumerDelete
        | ApiCall::ConsumerInfo
        | ApiCall::ConsumerNames
        | ApiCall::ConsumerList => ApiRequest::Other {
            stream: named,
            call,
        },
    })
}

/// Reads a body; one that is empty or `null` asks for nothing special.
fn json<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, ApiFailure> {
    if body.is_empty() {
        return Ok(T::default());
    }
    lenient(body).map_err(|error| ApiFailure::new(400, 10025, &format!("invalid JSON: {error}")))
}

/// Reads JSON as Go reads it into a struct: what is `null`, all of it or a field, counts as absent.
///
/// # Errors
/// It is no JSON, or of another shape.
pub(super) fn lenient<T: DeserializeOwned + Default>(body: &[u8]) -> serde_json::Result<T> {
    let mut value: Value = serde_json::from_slice(body)?;
    match &mut value {
        Value::Null => return Ok(T::default()),
        Value::Object(fields) => fields.retain(|_, field| !field.is_null()),
        // A list would do for serde, in the order of the fields.
        _ => return Err(serde::de::Error::custom("it is no object")),
    }
    serde_json::from_value(value)
}

/// What to purge: everything, unless the body is an object or a list (`jetstream_api.go`,
/// `jsStreamPurgeRequest`).
fn purge(body: &[u8]) -> Result<PurgeJson, ApiFailure> {
    if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Ok(PurgeJson::default());
    }
    let purge: PurgeJson = json(body)?;
    let is_given = |number: Option<u64>| number.is_some_and(|number| number > 0);
    if is_given(purge.seq) && is_given(purge.keep) {
        return Err(bad());
    }
    Ok(purge)
}

fn page(body: &[u8]) -> Result<Page, ApiFailure> {
    let page: PageJson = json(body)?;
    Ok(Page {
        subject: page.subject.filter(|subject| !subject.is_empty()),
        offset: page.offset,
    })
}

/// A configuration; `stream`: the name that it must have.
fn config(stream: Option<&str>, body: &[u8]) -> Result<StreamConfig, ApiFailure> {
    let config: StreamConfig = json(body)?;
    if stream.is_some_and(|stream| config.name != stream) {
        return Err(ApiFailure::new(
            400,
            10056,
            "stream name in subject does not match request",
        ));
    }
    Ok(config)
}

fn which(body: &[u8]) -> Result<Which, ApiFailure> {
    let wanted: MessageJson = json(body)?;
    let text = |text: Option<String>| text.filter(|text| !text.is_empty());
    let sequence = wanted.seq.filter(|sequence| *sequence > 0);
    match (
        sequence,
        text(wanted.last_by_subj),
        text(wanted.next_by_subj),
    ) {
        (Some(sequence), None, None) => Ok(Which::At(StreamSequence(sequence))),
        (None, Some(last), None) => Ok(Which::Last(last)),
        (from, None, Some(next)) => Ok(Which::Next(StreamSequence(from.unwrap_or(0)), next)),
        (None, None, None) | (_, Some(_), _) => Err(bad()),
    }
}

/// Nothing, or an object without fields (`jetstream_api.go`, `isEmptyRequest`).
fn is_empty(body: &[u8]) -> bool {
    let fields = serde_json::from_slice::<serde_json::Map<String, Value>>(body);
    body.is_empty() || fields.is_ok_and(|fields| fields.is_empty())
}

fn bad() -> ApiFailure {
    ApiFailure::new(400, 10003, "bad request")
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PageJson {
    subject: Option<String>,
    offset: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct InfoJson {
    subjects_filter: Option<String>,
    offset: u64,
    deleted_details: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PurgeJson {
    filter: Option<String>,
    seq: Option<u64>,
    keep: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct MessageJson {
    seq: Option<u64>,
    last_by_subj: Option<String>,
    next_by_subj: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Time;
    use crate::nats::error_code::ErrorCode;
    use crate::server::{Server, ServerModel};
    use serde_json::json;

    const EDGE: Edge<'_> = Edge {
        start_unix_nanos: 1_800_000_000_000_000_000,
        calls: (0, 0),
        payload: &|message| Some(vec![b'x'; message.payload.bytes as usize].into()),
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
            Err(misread) => (misread.call, Err(misread.failure)),
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
    fn the_servers_own_subjects_are_for_streams_without_acks() {
        let mut server = Server::new(ServerModel::default());
        for filter in [">", "$JS.API.>", "*.*", "$SYS.REQ.x"] {
            let mut config = json!({"name": "S", "subjects": ["t.>", filter]});
            let refused = ask(&mut server, "$JS.API.STREAM.CREATE.S", &config);
            let error = &refused["error"];
            assert_eq!(error["err_code"], 10052, "{filter}: {refused}");
            let text = error["description"].as_str().unwrap();
            assert!(
                text.ends_with("require no-ack to be true")
                    || text.ends_with("requires no-ack to be true")
            );
            config["no_ack"] = json!(true);
            config["subjects"] = json!([filter]);
            let made = ask(&mut server, "$JS.API.STREAM.CREATE.S", &config);
            assert_eq!(made["did_create"], true, "{filter}: {made}");
            ask(&mut server, "$JS.API.STREAM.DELETE.S", &Value::Null);
        }
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
        // What is wrong with a body comes before the stream that it is about.
        let both = json!({"seq": 4, "keep": 1});
        assert_eq!(code("$JS.API.STREAM.PURGE.S", both), 10003);
        assert_eq!(code("$JS.API.STREAM.PURGE.S", json!("all")), 10059);
        assert_eq!(code("$JS.API.STREAM.MSG.DELETE.S", json!({})), 10003);
        assert_eq!(
            code("$JS.API.STREAM.MSG.DELETE.S", json!({"seq": 0})),
            10059
        );
        let window = json!({"name": "S", "duplicate_window": 1});
        assert_eq!(code("$JS.API.STREAM.UPDATE.S", window), 10052);
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
            "$JS.API.INFO.x",
            "$JS.API.STREAM.CREATE.",
            "$JS.API.STREAM.CREATE.a.b",
            "$JS.API.STREAM.LISTS",
        ] {
            assert!(parse(subject, b"").is_none(), "{subject}");
        }
    }
}
