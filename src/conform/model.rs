//! The server model as the peer of a case, in virtual time and in bytes: it goes through the
//! server's front, as any client does.
//!
//! Leans on `frames` and `inbox`, and on `server`.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use super::Pace;
use super::connection::{connect_options, line};
use super::frames::{body_text, direct_get, publish, seen, subscriptions};
use super::inbox::Inbox;
use super::readback;
use super::real::read_answer;
use super::run::{Opened, Peer, Seen, Stop, Wanted};
use super::vector::{Case, Outgoing, STEP_DOWN, STREAM};
use crate::machine::Time;
use crate::nats::version::ServerVersion;
use crate::nats::wire::{ClientFrame, Publish, Token};
use crate::server::front::{Coupled, FrontAction, Options};
use crate::server::message::ConnectionId;
use crate::server::{Home, Server, ServerModel, Source};
use crate::units::Span;

/// Quiet time of the recordings.
const QUIET: Time = Time::from_millis(120);
/// Enough for everything but timers, on one server and on several.
const REST: Time = Time::from_millis(2);
const REST_REPLICATED: Time = Time::from_millis(20);
/// Until another leader is at work.
const CHANGE_OF_LEADER: Time = Time::from_millis(500);
/// Work on one message and on one byte, rounded up far: time that a write may need before the quiet
/// time starts.
const WORK_PER_MESSAGE: Time = Time::from_micros(10);
const WORK_NS_PER_BYTE: u64 = 10;
/// The client of the case.
const CLIENT: ConnectionId = ConnectionId(0);
/// The client that makes API calls.
const CALLER: ConnectionId = ConnectionId(1);
/// Answers to API calls come there.
const CALLER_INBOX: &str = "_TIDEGATE_CONFORM";

/// The version of the model that a case is for, or why the model cannot run it.
pub(super) fn version_for(case: &Case) -> Result<ServerVersion, String> {
    let recorded = &case.server_version;
    ServerVersion::from_text(recorded)
        .ok_or_else(|| format!("recorded on {recorded}, which is not modelled"))
}

/// A modelled server with two clients: that of the case, and one for the API.
pub struct Model {
    /// What each case gets, but for servers and limits.
    base: ServerModel,
    pace: Pace,
    /// Replicas of the case.
    replicas: u64,
    coupled: Coupled,
    now: Time,
    /// By connection id.
    inboxes: [Inbox; 2],
    calls: u64,
}

impl Model {
    /// A server of this version that nothing has happened to yet.
    pub fn new(version: ServerVersion) -> Self {
        Self::with(ServerModel::of(version), Pace::Quiet)
    }

    /// A server like `base`; [`Pace::Fenced`]: no time passes beyond what a step needs.
    pub fn with(base: ServerModel, pace: Pace) -> Self {
        let server = Server::new(base.clone());
        Self {
            base,
            pace,
            replicas: 1,
            coupled: Coupled::new(server, Options::default(), Source::Ingest),
            now: Time::ZERO,
            inboxes: [Inbox::new(), Inbox::new()],
            calls: 0,
        }
    }

    /// Connects a client that subscribes to this.
    fn connect(
        &mut self,
        id: ConnectionId,
        subscriptions: &[(String, String)],
    ) -> Result<(), Stop> {
        let mut actions = Vec::new();
        self.coupled.connect(self.now, id, &mut actions);
        self.take(actions)?;
        let mut frames = vec![ClientFrame::Connect(line(&connect_options().to_string())?)];
        for (subject, name) in subscriptions {
            let invalid = || Stop::Surroundings(format!("`{subject}` cannot be subscribed to"));
            frames.push(ClientFrame::Subscribe {
                subject: Token::new(subject).ok_or_else(invalid)?,
                queue: None,
                subscription: Token::new(name).ok_or_else(invalid)?,
            });
        }
        self.send(id, &frames)
    }

    /// Sends frames as one write.
    fn send(&mut self, id: ConnectionId, frames: &[ClientFrame]) -> Result<(), Stop> {
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        let mut actions = Vec::new();
        self.coupled.receive(self.now, id, &bytes, &mut actions);
        self.take(actions)
    }

    /// Lets everything happen that is due until `until`, and takes what the clients read.
    fn advance(&mut self, until: Time) -> Result<(), Stop> {
        while self.coupled.due() <= until {
            self.now = self.now.max(self.coupled.due());
            let mut actions = Vec::new();
            self.coupled.wake(self.now, &mut actions);
            self.take(actions)?;
        }
        self.now = self.now.max(until);
        Ok(())
    }

    /// What the server has written reaches its clients.
    fn take(&mut self, actions: Vec<FrontAction>) -> Result<(), Stop> {
        for action in actions {
            let (id, closed) = match action {
                FrontAction::Ready(id) => (id, false),
                FrontAction::Close(id, _) => (id, true),
                FrontAction::Publish(_) | FrontAction::Api { .. } => continue,
            };
            let output = self.coupled.take_output(id);
            if closed {
                self.coupled.front.disconnect(id);
            }
            let Some(inbox) = self.inboxes.get_mut(id.0 as usize) else {
                continue;
            };
            inbox.buffer().extend_from_slice(&output);
            let mut outgoing = BytesMut::new();
            inbox.take_frames(&mut outgoing)?;
            inbox.closed |= closed;
            if !outgoing.is_empty() {
                let mut actions = Vec::new();
                self.coupled.receive(self.now, id, &outgoing, &mut actions);
                self.take(actions)?;
            }
        }
        Ok(())
    }

    /// Calls `$JS.API.<subject>` and waits for the answer.
    fn call(&mut self, subject: &str, body: &[u8]) -> Result<Value, Stop> {
        let broken = |what: &str| Stop::Surroundings(format!("$JS.API.{subject}: {what}"));
        self.calls += 1;
        let inbox = format!("{CALLER_INBOX}.{}", self.calls);
        let subject = Token::new(&format!("$JS.API.{subject}"));
        let request = Publish {
            subject: subject.ok_or_else(|| broken("not a subject"))?,
            reply: Token::new(&inbox),
            header: None,
            payload: Bytes::copy_from_slice(body),
        };
        self.inboxes[1].messages.clear();
        self.send(CALLER, &[ClientFrame::Publish(request)])?;
        let patience = self.now + Time::from_secs(10);
        while self.inboxes[1].messages.is_empty() && self.coupled.due() <= patience {
            self.advance(self.coupled.due())?;
        }
        let answer = self.inboxes[1].messages.first();
        let answer = answer.ok_or_else(|| broken("no answer"))?;
        read_answer(&answer.payload).map_err(|error| broken(&error))
    }
}

impl Peer for Model {
    fn open(&mut self, case: &Case) -> Result<Opened, Stop> {
        let limits = case.server_batch_limits.as_ref();
        let model = server_model(self.base.clone(), case.replicas, limits)?;
        *self = Self {
            base: self.base.clone(),
            replicas: case.replicas,
            ..Self::with(model, self.pace)
        };
        self.connect(CALLER, &[(format!("{CALLER_INBOX}.>"), "1".to_owned())])?;
        self.connect(CLIENT, &subscriptions(case))?;
        let config = Value::Object(case.initial_config.clone()).to_string();
        let answer = self.call(&format!("STREAM.CREATE.{STREAM}"), config.as_bytes())?;
        Ok(match answer.get("error") {
            Some(error) => Opened::Refused(error.clone()),
            None => Opened::Created {
                required_api_level: answer.pointer("/config/metadata/_nats.req.level").cloned(),
            },
        })
    }

    fn write(&mut self, messages: &[Outgoing]) -> Result<(), Stop> {
        let frames: Vec<ClientFrame> = messages
            .iter()
            .map(|message| ClientFrame::Publish(publish(message)))
            .collect();
        let mut bytes = BytesMut::new();
        frames.iter().for_each(|frame| frame.encode(&mut bytes));
        let work = Time::from_nanos(WORK_NS_PER_BYTE.saturating_mul(bytes.len() as u64));
        let each = WORK_PER_MESSAGE
            .as_nanos()
            .saturating_mul(messages.len() as u64);
        self.send(CLIENT, &frames)?;
        self.advance(self.now + work + Time::from_nanos(each))
    }

    fn direct_get(&mut self, subject: &str, body: &[u8]) -> Result<(), Stop> {
        let request = direct_get(subject, body)?;
        self.send(CLIENT, &[ClientFrame::Publish(request)])
    }

    fn settle(&mut self, _wanted: Wanted) -> Result<Seen, Stop> {
        let span = match (self.pace, self.replicas) {
            (Pace::Quiet, _) => QUIET,
            (Pace::Fenced, 0..=1) => REST,
            (Pace::Fenced, _) => REST_REPLICATED,
        };
        self.advance(self.now + span)?;
        Ok(seen(&mut self.inboxes[0]))
    }

    fn wait(&mut self, milliseconds: u64) -> Result<(), Stop> {
        self.advance(self.now + Time::from_millis(milliseconds))
    }

    fn update(&mut self, config: &Map<String, Value>) -> Result<Option<Value>, Stop> {
        let body = Value::Object(config.clone());
        self.api(&format!("STREAM.UPDATE.{STREAM}"), &body)
    }

    fn api(&mut self, subject: &str, body: &Value) -> Result<Option<Value>, Stop> {
        let answer = self.call(subject, body_text(body).as_bytes())?;
        if self.pace == Pace::Fenced && subject.starts_with(STEP_DOWN) {
            self.advance(self.now + CHANGE_OF_LEADER)?;
        }
        Ok(answer.get("error").cloned())
    }

    fn stored(&mut self) -> Result<Value, Stop> {
        readback::stored(&mut |subject, body| self.call(subject, body))
    }

    fn close(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

/// The model with as many servers as there are replicas, whose clients are all on the first, and with
/// these batch limits.
pub(super) fn server_model(
    mut model: ServerModel,
    replicas: u64,
    limits: Option<&Map<String, Value>>,
) -> Result<ServerModel, Stop> {
    model.cluster.servers = u8::try_from(replicas).unwrap_or(u8::MAX);
    model.cluster.home = Home::First;
    let Some(limits) = limits else {
        return Ok(model);
    };
    let number = |key: &str| {
        let number = limits.get(key).and_then(Value::as_u64);
        number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
    };
    if let Some(most) = number("max_inflight_per_stream") {
        model.batches_per_stream = most;
        model.atomic_batches_per_stream = most;
    }
    if let Some(most) = number("max_inflight_total") {
        model.batches_per_server = most;
        model.atomic_batches_per_server = most;
    }
    if let Some(most) = number("max_msgs") {
        model.atomic_batch_messages = most;
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
