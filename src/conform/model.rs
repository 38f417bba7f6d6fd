//! The server model as the peer of a case, in virtual time.
//!
//! Leans on `edge`, `observe` and `server`.

use serde_json::{Map, Value, json};

use super::edge::Edge;
use super::observe;
use super::run::{Opened, Peer, Seen, Stop, Wanted};
use super::vector::{Case, Kind, Outgoing, STREAM};
use crate::machine::{Machine, Time};
use crate::nats::StreamSequence;
use crate::nats::header::BATCH_ID;
use crate::nats::reply::{Parsed, parse};
use crate::nats::wire::Token;
use crate::server::api::{ApiAnswer, ApiFailure, ApiRequest, Purge, StoredMessage, StreamInfo};
use crate::server::{Action, Input, Server, ServerModel, Source};
use crate::stream::config::StreamConfig;
use crate::units::Span;

/// The server that the model is modelled on.
pub(super) const VERSION: &str = "2.15.1";
/// Quiet time of the recordings.
const QUIET: Time = Time::from_millis(120);
/// Work on one message and on one byte, rounded up far: time that a write may need before the quiet
/// time starts.
const WORK_PER_MESSAGE: Time = Time::from_micros(10);
const WORK_NS_PER_BYTE: u64 = 10;
/// Most bytes of header block and payload that a connection takes.
const MAX_PAYLOAD_BYTES: usize = 1 << 20;

/// Why the model cannot run a case, if it cannot.
pub(super) fn refuses(case: &Case) -> Option<String> {
    if case.server_version != VERSION {
        let recorded = &case.server_version;
        return Some(format!("recorded on {recorded}, the model is of {VERSION}"));
    }
    if case.replicas != 1 {
        return Some("replicated streams are not modelled yet".to_owned());
    }
    match case.kind() {
        Kind::AtomicBatch => Some("atomic batches are not modelled yet".to_owned()),
        Kind::DirectGet => Some("direct get is not modelled yet".to_owned()),
        Kind::FastIngest | Kind::Other => None,
    }
}

/// A modelled server with its client.
pub struct Model {
    server: Server,
    edge: Edge,
    now: Time,
    replies: Vec<Value>,
    /// The server closed the connection: nothing comes any more.
    closed: bool,
}

impl Model {
    /// A server that nothing has happened to yet.
    pub fn new() -> Self {
        Self::with(ServerModel::default())
    }

    fn with(model: ServerModel) -> Self {
        Self {
            server: Server::new(model),
            edge: Edge::default(),
            now: Time::ZERO,
            replies: Vec::new(),
            closed: false,
        }
    }

    /// Lets everything happen that is due until `until`, and takes what the client reads.
    fn advance(&mut self, until: Time) {
        let mut actions = Vec::new();
        while self.server.due() <= until {
            self.now = self.now.max(self.server.due());
            self.server.wake(self.now, &mut actions);
            self.take(&mut actions);
        }
        self.now = self.now.max(until);
    }

    fn take(&mut self, actions: &mut Vec<Action>) {
        while !actions.is_empty() {
            for action in std::mem::take(actions) {
                match action {
                    Action::Send { to, reply } => {
                        let answer = self.edge.answer(&self.server, to, &reply);
                        if let Some(answer) = answer.filter(|_| !self.closed) {
                            let header = answer.header.as_deref();
                            let subject = answer.subject.as_str();
                            let reply = observe::reply(subject, header, &answer.payload);
                            self.replies.push(reply);
                        }
                    }
                    Action::Choose => {
                        let input = Input::Chosen(Source::Ingest);
                        self.server.step(self.now, input, actions);
                    }
                    Action::ApiReply { .. } | Action::Fact(_) => {}
                }
            }
        }
    }

    /// Makes an API call between two writes, when everything is at rest.
    fn call(&mut self, request: &ApiRequest) -> Result<ApiAnswer, ApiFailure> {
        let mut actions = Vec::new();
        let answer = self.server.call(self.now, request, &mut actions);
        self.take(&mut actions);
        answer
    }

    fn info(&mut self) -> Result<Box<StreamInfo>, ApiFailure> {
        let stream = STREAM.to_owned();
        match self.call(&ApiRequest::Info { stream })? {
            ApiAnswer::Stream(info) => Ok(info),
            other => unexpected(&other),
        }
    }

    fn message(&mut self, sequence: StreamSequence) -> Result<Box<StoredMessage>, ApiFailure> {
        let stream = STREAM.to_owned();
        match self.call(&ApiRequest::MessageGet { stream, sequence })? {
            ApiAnswer::Message(message) => Ok(message),
            other => unexpected(&other),
        }
    }

    fn read_back(&mut self) -> Result<Value, ApiFailure> {
        let info = self.info()?;
        let mut messages = Vec::new();
        for sequence in info.first.0.max(1)..=info.last.0 {
            let Ok(message) = self.message(StreamSequence(sequence)) else {
                continue;
            };
            let mut block = Vec::new();
            if let Some(headers) = &message.headers {
                headers.write_to(&mut block);
            }
            messages.push(observe::stored_message(
                sequence,
                &message.subject,
                &block,
                message.payload.bytes as usize,
            ));
        }
        Ok(json!({
            "messages": info.messages,
            "first_seq": info.first.0,
            "last_seq": info.last.0,
            "num_deleted": (info.deleted > 0).then_some(info.deleted),
            "msgs": messages,
        }))
    }
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Peer for Model {
    fn open(&mut self, case: &Case) -> Result<Opened, Stop> {
        *self = Self::with(server_model(case)?);
        let config = stream_config(&case.initial_config)?;
        Ok(match self.call(&ApiRequest::Create(config)) {
            Err(failure) => Opened::Refused(error_object(&failure)),
            Ok(ApiAnswer::Stream(info)) => Opened::Created {
                required_api_level: info
                    .config
                    .metadata
                    .get("_nats.req.level")
                    .map(|level| json!(level)),
            },
            Ok(_) => Opened::Created {
                required_api_level: None,
            },
        })
    }

    fn write(&mut self, messages: &[Outgoing]) -> Result<(), Stop> {
        let mut actions = Vec::new();
        let mut work = Time::ZERO;
        for message in messages {
            if self.closed {
                break;
            }
            check_modelled(message)?;
            let publish = self.edge.publish(&mut self.server, message);
            let header_bytes = publish.headers.as_ref().map_or(0, |h| h.wire_bytes());
            if header_bytes + message.payload_bytes > MAX_PAYLOAD_BYTES {
                let line = "-ERR 'Maximum Payload Violation'".to_owned();
                self.advance(self.now + work);
                self.replies.push(observe::protocol_error(&[line], true));
                self.closed = true;
                break;
            }
            let bytes = u64::from(publish.wire_bytes);
            work += WORK_PER_MESSAGE;
            work += Time::from_nanos(bytes.saturating_mul(WORK_NS_PER_BYTE));
            self.server
                .step(self.now, Input::Publish(publish), &mut actions);
            self.take(&mut actions);
        }
        self.advance(self.now + work);
        Ok(())
    }

    fn direct_get(&mut self, _subject: &str, _body: &[u8]) -> Result<(), Stop> {
        Err(Stop::Unsupported(
            "direct get is not modelled yet".to_owned(),
        ))
    }

    fn settle(&mut self, _wanted: Wanted) -> Result<Seen, Stop> {
        self.advance(self.now + QUIET);
        Ok(Seen {
            replies: std::mem::take(&mut self.replies),
            advisories: Vec::new(),
        })
    }

    fn wait(&mut self, milliseconds: u64) -> Result<(), Stop> {
        self.advance(self.now + Time::from_millis(milliseconds));
        Ok(())
    }

    fn update(&mut self, config: &Map<String, Value>) -> Result<Option<Value>, Stop> {
        let config = stream_config(config)?;
        let answer = self.call(&ApiRequest::Update(config));
        Ok(answer.err().map(|failure| error_object(&failure)))
    }

    fn api(&mut self, subject: &str, body: &Value) -> Result<Option<Value>, Stop> {
        let request = api_request(subject, body)?;
        let answer = self.call(&request);
        Ok(answer.err().map(|failure| error_object(&failure)))
    }

    fn stored(&mut self) -> Result<Value, Stop> {
        Ok(self
            .read_back()
            .unwrap_or_else(|failure| json!({ "error": error_object(&failure) })))
    }

    fn close(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

/// The model with the batch limits of the case.
fn server_model(case: &Case) -> Result<ServerModel, Stop> {
    let mut model = ServerModel::default();
    let Some(limits) = &case.server_batch_limits else {
        return Ok(model);
    };
    let number = |key: &str| {
        let number = limits.get(key).and_then(Value::as_u64);
        number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    };
    if let Some(most) = number("max_inflight_per_stream") {
        model.batches_per_stream = most;
    }
    if let Some(most) = number("max_inflight_total") {
        model.batches_per_server = most;
    }
    if let Some(timeout) = limits.get("timeout").and_then(Value::as_str) {
        let span: Span = timeout
            .trim_matches('"')
            .parse()
            .map_err(|error| Stop::Unsupported(format!("batch timeout: {error}")))?;
        model.batch_idle_timeout = span.0;
    }
    Ok(model)
}

fn stream_config(config: &Map<String, Value>) -> Result<StreamConfig, Stop> {
    serde_json::from_value(Value::Object(config.clone()))
        .map_err(|error| Stop::Unsupported(format!("the model does not know this stream: {error}")))
}

/// Atomic batches look like plain publishes to the model: better none than a wrong answer.
fn check_modelled(message: &Outgoing) -> Result<(), Stop> {
    let reply = message.reply.as_ref().map_or("", Token::as_str);
    let headers = message.headers.iter().flatten();
    let mut ids = headers.filter(|(name, value)| name == BATCH_ID && !value.is_empty());
    if ids.next().is_some() && parse(reply) == Parsed::NotFast {
        return Err(Stop::Unsupported(
            "atomic batches are not modelled yet".to_owned(),
        ));
    }
    Ok(())
}

/// The API calls that a case can make of the model.
fn api_request(subject: &str, body: &Value) -> Result<ApiRequest, Stop> {
    let unsupported = || Stop::Unsupported(format!("the model does not know $JS.API.{subject}"));
    let (call, stream) = subject.rsplit_once('.').ok_or_else(unsupported)?;
    let stream = stream.to_owned();
    let number = |key: &str| body.get(key).and_then(Value::as_u64);
    let config = || match body {
        Value::Object(config) => stream_config(config),
        _ => Err(unsupported()),
    };
    Ok(match call {
        "STREAM.CREATE" => ApiRequest::Create(config()?),
        "STREAM.UPDATE" => ApiRequest::Update(config()?),
        "STREAM.DELETE" => ApiRequest::Delete { stream },
        "STREAM.INFO" => ApiRequest::Info { stream },
        "STREAM.LEADER.STEPDOWN" => ApiRequest::StepDown { stream },
        "STREAM.PURGE" => ApiRequest::Purge {
            stream,
            purge: Purge {
                filter: body
                    .get("filter")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
                sequence: number("seq").map(StreamSequence),
                keep: number("keep"),
            },
        },
        "STREAM.MSG.DELETE" => ApiRequest::MessageDelete {
            stream,
            sequence: StreamSequence(number("seq").ok_or_else(unsupported)?),
        },
        "STREAM.MSG.GET" => ApiRequest::MessageGet {
            stream,
            sequence: StreamSequence(number("seq").ok_or_else(unsupported)?),
        },
        _ => return Err(unsupported()),
    })
}

fn error_object(failure: &ApiFailure) -> Value {
    json!({
        "code": failure.status,
        "err_code": failure.number,
        "description": &*failure.description,
    })
}

/// The model answered another call than the one made: a fault of ours, told rather than hidden.
fn unexpected<T>(answer: &ApiAnswer) -> Result<T, ApiFailure> {
    Err(ApiFailure {
        status: 500,
        number: 0,
        description: format!("unexpected answer {answer:?}").into(),
    })
}
