//! A real server as the peer of a case: one connection for the case, one for the API.
//!
//! Leans on `connection`, `frames` and `readback`. Calls are blocking; the runtime behind them has one thread.

mod api;
mod fence;
mod name;

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::runtime::Runtime;

use super::connection::{Address, Connection};
use super::frames::{body_text, count_advisories, direct_get, publish, seen, subscriptions};
use super::inbox::ELECTIONS;
use super::readback;
use super::run::{Opened, Peer, Seen, Stop, Wanted};
use super::vector::{Case, Outgoing, STEP_DOWN, STREAM};
use super::{Interrupt, Pace};
use crate::nats::wire::ClientFrame;
use api::ApiClient;
pub(super) use api::read_answer;
use fence::Fence;
use name::Name;

/// Quiet time of the recordings on one server.
const QUIET_R1: Duration = Duration::from_millis(120);
/// Quiet time of the recordings on three servers.
const QUIET_R3: Duration = Duration::from_millis(250);
/// Enough once everything expected is there, the server has answered a ping, and more publishes
/// follow: a reply that comes later still shows at the next step.
const QUIET_SHORT: Duration = Duration::from_millis(25);
/// How long an expected reply may take on a slow machine.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long an API answer may take.
const API_PATIENCE: Duration = Duration::from_secs(10);

/// Where servers tell that a stream has a new leader.
const LEADER_ELECTED: &str = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED";

/// So often a call is made again, every 100 ms, that fails for a reason which passes.
const ATTEMPTS: u32 = 100;

/// So often the stream of a case is deleted at most; each may take as long as an answer may.
const DELETIONS: u32 = 20;

/// A running server.
pub struct Real {
    runtime: Runtime,
    address: Address,
    api: ApiClient,
    pace: Pace,
    /// Cases opened so far.
    opened: usize,
    /// What the stream of the case is called.
    name: Name,
    interrupt: Interrupt,
    case: Option<OpenCase>,
    /// The last case had elections that it did not ask for, or a server that was out of breath.
    was_disturbed: bool,
}

/// The case under way.
struct OpenCase {
    connection: Connection,
    quiet: Duration,
    /// Sentinels, where a step is fenced.
    fence: Option<Fence>,
    /// The stream was created by us, so it is ours to delete.
    created: bool,
    /// Elections that the steps of the case lead to, that of a new stream included.
    elections: usize,
}

impl Real {
    /// Connects to the server.
    ///
    /// # Errors
    /// Nobody listens there, or it is no NATS server with JetStream.
    pub fn connect(address: &Address, pace: Pace, interrupt: Interrupt) -> Result<Self, Stop> {
        let runtime = runtime()?;
        let api = runtime.block_on(ApiClient::connect(address))?;
        Ok(Self {
            runtime,
            address: address.clone(),
            api,
            pace,
            opened: 0,
            name: Name::of_format(),
            interrupt,
            case: None,
            was_disturbed: false,
        })
    }

    /// The version that the server names.
    pub fn version(&self) -> String {
        let version = self.api.info().get("version").and_then(Value::as_str);
        version.unwrap_or("unknown").to_owned()
    }

    /// Whether the server is our model, served.
    pub fn is_model(&self) -> bool {
        let built = self.api.info().get("go").and_then(Value::as_str);
        built.is_some_and(|built| built.starts_with("tidegate"))
    }

    /// Whether the server is part of a cluster.
    pub fn is_clustered(&self) -> bool {
        self.api.info().get("cluster").is_some()
    }

    /// Lets time pass without a server.
    pub(super) fn pause(span: Duration) -> Result<(), Stop> {
        let runtime = runtime()?;
        runtime.block_on(async { tokio::time::sleep(span).await });
        Ok(())
    }

    /// An API call and its answer.
    fn call(&mut self, subject: &str, body: &[u8]) -> Result<Value, Stop> {
        let (subject, body) = (self.name.subject(subject), self.name.body(body));
        let call = self.api.call(&subject, &body, API_PATIENCE);
        self.runtime.block_on(call)
    }

    /// Runs a future with the open case, on our thread.
    fn with_case<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut OpenCase) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.interrupt.check()?;
        let case = self.case.as_mut().ok_or_else(no_case)?;
        self.runtime.block_on(work(case))
    }

    /// A stream that is there already is somebody's: it must not be deleted after the case, nor
    /// meet its messages.
    fn check_untouched(&mut self) -> Result<(), Stop> {
        for _ in 0..ATTEMPTS {
            match self.is_untouched()? {
                Some(true) => return Ok(()),
                Some(false) => {
                    return Err(Stop::Surroundings(format!(
                        "the server has a stream `{STREAM}` or subjects `t.>` already; conform leaves \
                         alone what it did not create"
                    )));
                }
                None => self.wait(100)?,
            }
        }
        let why = "the server cannot say which streams it has: it has no leader, or too much to do";
        Err(Stop::Surroundings(why.to_owned()))
    }

    /// Neither the name nor the subjects of the stream of a case are taken; `None`: the server cannot
    /// say for now.
    fn is_untouched(&mut self) -> Result<Option<bool>, Stop> {
        let info = self.call(&format!("STREAM.INFO.{STREAM}"), b"")?;
        let names = self.call("STREAM.NAMES", br#"{"subject":"t.>"}"#)?;
        let errors = [info.get("error"), names.get("error")];
        if errors.into_iter().flatten().any(is_passing) {
            return Ok(None);
        }
        let taken = names.get("streams").and_then(Value::as_array);
        Ok(Some(
            info.get("error").is_some() && taken.is_none_or(Vec::is_empty),
        ))
    }

    /// Deletes the stream. A cluster that is busy may give no answer in time, and has done it or not: it
    /// is asked again, until the stream is gone.
    fn delete(&mut self) -> Result<(), Stop> {
        for _ in 0..DELETIONS {
            // No answer is no end: the deletion may be done all the same.
            let _ = self.call(&format!("STREAM.DELETE.{STREAM}"), b"");
            if matches!(self.is_untouched(), Ok(Some(true))) {
                return Ok(());
            }
            self.wait(100)?;
        }
        Err(Stop::Surroundings(format!(
            "the server does not remove stream `{STREAM}` of a case"
        )))
    }

    /// Creates the stream; a cluster that just started may need a few attempts.
    fn create(&mut self, case: &Case) -> Result<Opened, Stop> {
        let config = Value::Object(case.initial_config.clone()).to_string();
        let mut attempts = 0;
        loop {
            let answer = self.call(&format!("STREAM.CREATE.{STREAM}"), config.as_bytes())?;
            let Some(error) = answer.get("error") else {
                let level = answer.pointer("/config/metadata/_nats.req.level");
                return Ok(Opened::Created {
                    required_api_level: level.cloned(),
                });
            };
            attempts += 1;
            if !is_passing(error)
                || attempts > ATTEMPTS
                || case.create_error.as_ref() == Some(error)
            {
                return Ok(Opened::Refused(error.clone()));
            }
            self.wait(100)?;
        }
    }
}

fn no_case() -> Stop {
    Stop::Surroundings("no case is open".to_owned())
}

/// Errors that pass: no answer, no peers or no leader yet, or the folder of a stream of the same
/// name that was deleted a moment ago.
fn is_passing(error: &Value) -> bool {
    matches!(
        error.get("err_code").and_then(Value::as_u64),
        None | Some(10005 | 10008 | 10009 | 10049)
    )
}

fn runtime() -> Result<Runtime, Stop> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Stop::Surroundings(format!("no runtime: {error}")))
}

impl Peer for Real {
    fn open(&mut self, case: &Case) -> Result<Opened, Stop> {
        if self.pace == Pace::Fenced {
            self.name = Name::in_turn(self.opened);
            self.opened += 1;
        }
        self.check_untouched()?;
        let mut connection = self.runtime.block_on(Connection::open(&self.address))?;
        for (subject, id) in subscriptions(case) {
            connection.subscribe(&subject, &id)?;
        }
        if case.replicas > 1 {
            let elected = format!("{LEADER_ELECTED}.{STREAM}");
            connection.subscribe(&self.name.subject(&elected), ELECTIONS)?;
        }
        let fence = match self.pace {
            Pace::Quiet => None,
            Pace::Fenced => Some(Fence::behind(&mut connection, case, &self.name)?),
        };
        self.runtime.block_on(connection.fence())?;
        self.case = Some(OpenCase {
            connection,
            quiet: if case.replicas > 1 {
                QUIET_R3
            } else {
                QUIET_R1
            },
            fence,
            created: false,
            elections: usize::from(case.replicas > 1),
        });
        let opened = self.create(case)?;
        if matches!(opened, Opened::Created { .. }) {
            self.case.as_mut().ok_or_else(no_case)?.created = true;
            // On several servers the leader's interest in the subjects travels to the others.
            match self.pace {
                Pace::Fenced => self.with_case(OpenCase::reach_stream)?,
                Pace::Quiet if case.replicas > 1 => Self::pause(QUIET_R3)?,
                Pace::Quiet => {}
            }
        }
        Ok(opened)
    }

    fn write(&mut self, messages: &[Outgoing]) -> Result<(), Stop> {
        let name = self.name.clone();
        self.with_case(async |case| {
            for message in messages {
                let message = publish(&name.message(message));
                case.connection.send(&ClientFrame::Publish(message));
            }
            case.sent().await
        })
    }

    fn direct_get(&mut self, subject: &str, body: &[u8]) -> Result<(), Stop> {
        let request = direct_get(&self.name.subject(subject), body)?;
        self.with_case(async |case| {
            case.connection.send(&ClientFrame::Publish(request));
            case.sent().await
        })
    }

    fn settle(&mut self, wanted: Wanted) -> Result<Seen, Stop> {
        let interrupt = self.interrupt.clone();
        let name = self.name.clone();
        self.with_case(async |case| {
            if case.fence.is_some() {
                let seen = case.settle_fenced(wanted).await?;
                let told = |values: Vec<Value>| values.into_iter().map(|v| name.told(v)).collect();
                return Ok(Seen {
                    replies: told(seen.replies),
                    advisories: told(seen.advisories),
                });
            }
            let connection = &mut case.connection;
            let is_quick = case.quiet == QUIET_R1 && !wanted.whole_quiet_time;
            let mut quiet = if is_quick { QUIET_SHORT } else { case.quiet };
            let mut waited = Duration::ZERO;
            loop {
                interrupt.check()?;
                let before = connection.inbox.messages.len();
                connection.read_until_quiet(quiet).await?;
                let inbox = &mut connection.inbox;
                let is_moving = inbox.messages.len() > before;
                waited = if is_moving { quiet } else { waited + quiet };
                let advisories = count_advisories(&inbox.messages);
                let replies = inbox.messages.len() - advisories;
                let is_missing = replies + usize::from(inbox.closed) < wanted.replies
                    || advisories < wanted.advisories;
                if inbox.closed || !is_missing || waited >= PATIENCE {
                    return Ok(seen(inbox));
                }
                quiet = case.quiet;
            }
        })
    }

    fn wait(&mut self, milliseconds: u64) -> Result<(), Stop> {
        let interrupt = self.interrupt.clone();
        let interrupted = async {
            loop {
                tokio::time::sleep(QUIET_R1).await;
                interrupt.check()?;
            }
        };
        let span = Duration::from_millis(milliseconds);
        self.runtime
            .block_on(async { tokio::time::timeout(span, interrupted).await })
            .unwrap_or(Ok(()))
    }

    fn update(&mut self, config: &Map<String, Value>) -> Result<Option<Value>, Stop> {
        let body = Value::Object(config.clone());
        self.api(&format!("STREAM.UPDATE.{STREAM}"), &body)
    }

    fn api(&mut self, subject: &str, body: &Value) -> Result<Option<Value>, Stop> {
        let answer = self.call(subject, body_text(body).as_bytes())?;
        let error = answer.get("error").cloned();
        if error.is_none() && subject.starts_with(STEP_DOWN) {
            self.case.as_mut().ok_or_else(no_case)?.elections += 1;
        }
        if error.is_none() && self.pace == Pace::Fenced && subject.starts_with(STEP_DOWN) {
            self.with_case(OpenCase::reach_stream)?;
            // The new leader tells batches of itself while it already takes messages.
            Self::pause(QUIET_R3)?;
        }
        if error.is_none() && subject == format!("STREAM.CREATE.{STREAM}") {
            let case = self.case.as_mut().ok_or_else(no_case)?;
            case.created = true;
            case.elections += 1;
        }
        Ok(error)
    }

    fn stored(&mut self) -> Result<Value, Stop> {
        let stored = readback::stored(&mut |subject, body| self.call(subject, body))?;
        Ok(self.name.told(stored))
    }

    fn close(&mut self) -> Result<(), Stop> {
        let Some(case) = self.case.take() else {
            return Ok(());
        };
        let has_holes = case.fence.is_some_and(|fence| fence.has_holes);
        self.was_disturbed = has_holes || case.connection.inbox.elections > case.elections;
        drop(case.connection);
        match case.created {
            true => self.delete(),
            false => Ok(()),
        }
    }

    fn was_disturbed(&self) -> bool {
        self.was_disturbed
    }
}
