//! Runs the steps of one case against a peer, and compares or records what comes.
//!
//! Leans on `vector`, `compare` and the peer's interface only: the modelled and the real server
//! meet the same code.

use serde_json::{Map, Value, json};

use super::compare;
use super::vector::{Answer, Case, Outgoing, Step, StepKind};

/// A server, modelled or real, that a case is run against. Calls come in the order of this trait.
pub trait Peer {
    /// Creates the stream of the case and connects its client.
    fn open(&mut self, case: &Case) -> Result<Opened, Stop>;
    /// Publishes these messages in one go.
    fn write(&mut self, messages: &[Outgoing]) -> Result<(), Stop>;
    /// Sends a direct get, to be answered on the inbox.
    fn direct_get(&mut self, subject: &str, body: &[u8]) -> Result<(), Stop>;
    /// Lets the quiet time pass and gives what came since the last call.
    fn settle(&mut self, wanted: Wanted) -> Result<Seen, Stop>;
    /// Lets time pass.
    fn wait(&mut self, milliseconds: u64) -> Result<(), Stop>;
    /// Sends a whole configuration; gives the error object, if any.
    fn update(&mut self, config: &Map<String, Value>) -> Result<Option<Value>, Stop>;
    /// Makes an API call; gives the error object, if any.
    fn api(&mut self, subject: &str, body: &Value) -> Result<Option<Value>, Stop>;
    /// Reads back what the stream holds, as a `stored` step lists it.
    fn stored(&mut self) -> Result<Value, Stop>;
    /// Deletes the stream and leaves.
    fn close(&mut self) -> Result<(), Stop>;
    /// Whether, in the last case, the stream changed its leader without a step that asks for it, or a
    /// sentinel was not answered in time: what is lost or late then is no difference.
    fn was_disturbed(&self) -> bool {
        false
    }
}

/// How the creation of a stream went.
#[derive(Clone, Debug, PartialEq)]
pub enum Opened {
    /// It exists; `_nats.req.level` of its metadata.
    Created {
        /// Absent if the server names none.
        required_api_level: Option<Value>,
    },
    /// The server refused it with this error object.
    Refused(Value),
}

/// What a step expects, so that a peer need not wait longer than needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Replies that must come.
    pub replies: usize,
    /// Advisories that must come.
    pub advisories: usize,
    /// The whole quiet time must pass, since something else than publishes follows.
    pub whole_quiet_time: bool,
}

impl Wanted {
    /// Whatever comes in the whole quiet time.
    pub const ANYTHING: Self = Self {
        replies: 0,
        advisories: 0,
        whole_quiet_time: true,
    };
}

/// What came.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Seen {
    /// In order.
    pub replies: Vec<Value>,
    /// In any order.
    pub advisories: Vec<Value>,
}

/// Why a case could not be run to its end.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Stop {
    /// The peer cannot do this; the case is skipped.
    #[error("{0}")]
    Unsupported(String),
    /// The surroundings fail: no server, or a broken one.
    #[error("{0}")]
    Surroundings(String),
    /// A signal ended the run.
    #[error("interrupted by signal {0}")]
    Signal(u8),
}

/// How a case went.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// As recorded.
    Passed,
    /// Not as recorded.
    Failed(Difference),
    /// Not run.
    Skipped(String),
}

/// The first difference of a case; what follows it would only be its consequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Index of the step, from 0; `None`: the creation of the stream.
    pub step: Option<usize>,
    /// What was recorded.
    pub expected: Value,
    /// What came.
    pub got: Value,
}

/// Runs a case and compares. The stream is deleted whatever happens.
///
/// # Errors
/// [`Stop::Surroundings`] and [`Stop::Signal`]; what a peer does not support makes the case skipped.
pub fn replay(case: &Case, peer: &mut dyn Peer) -> Result<Outcome, Stop> {
    let result = Run::new(case, peer).and_then(|mut run| run.replay());
    finish(peer, result)
}

/// Runs a case and gives it back as this peer answers it, as JSON of a vector file.
///
/// # Errors
/// Whatever stops the run, [`Stop::Unsupported`] included.
pub fn record(case: &Case, peer: &mut dyn Peer, server_version: &str) -> Result<Value, Stop> {
    let result = Run::new(case, peer).and_then(|mut run| run.record(server_version));
    match result {
        Ok(recorded) => peer.close().map(|()| recorded),
        Err(stop) => {
            let _ = peer.close();
            Err(stop)
        }
    }
}

fn finish(peer: &mut dyn Peer, result: Result<Outcome, Stop>) -> Result<Outcome, Stop> {
    let closed = peer.close();
    match result {
        Err(Stop::Unsupported(why)) => closed.map(|()| Outcome::Skipped(why)),
        Err(stop) => Err(stop),
        Ok(outcome) => closed.map(|()| outcome),
    }
}

/// A case under way.
struct Run<'a> {
    case: &'a Case,
    peer: &'a mut dyn Peer,
    opened: Opened,
    /// The configuration in force.
    config: Map<String, Value>,
    /// What the file expects is not looked at.
    recording: bool,
}

/// What a step gives: what was recorded for it, what came, and whether both agree.
struct Comparison {
    expected: Value,
    got: Value,
    agree: bool,
}

impl<'a> Run<'a> {
    fn new(case: &'a Case, peer: &'a mut dyn Peer) -> Result<Self, Stop> {
        let opened = peer.open(case)?;
        Ok(Self {
            case,
            peer,
            opened,
            config: case.initial_config.clone(),
            recording: false,
        })
    }

    fn replay(&mut self) -> Result<Outcome, Stop> {
        let opening = self.compare_opening();
        if !opening.agree {
            return Ok(failed(None, opening));
        }
        for (index, step) in self.case.steps.iter().enumerate() {
            if let Some(comparison) = self.step(index, step)?
                && !comparison.agree
            {
                return Ok(failed(Some(index), comparison));
            }
        }
        Ok(Outcome::Passed)
    }

    fn record(&mut self, server_version: &str) -> Result<Value, Stop> {
        self.recording = true;
        let mut recorded = self.case.raw.clone();
        recorded.insert("server_version".into(), json!(server_version));
        recorded.insert("replicas".into(), json!(self.case.replicas));
        recorded.remove("required_api_level");
        recorded.remove("create_error");
        match &self.opened {
            Opened::Refused(error) => recorded.insert("create_error".into(), error.clone()),
            Opened::Created { required_api_level } => required_api_level
                .clone()
                .and_then(|level| recorded.insert("required_api_level".into(), level)),
        };
        let mut steps = Vec::new();
        for (index, step) in self.case.steps.iter().enumerate() {
            let mut raw = step.raw.clone();
            if let Some(comparison) = self.step(index, step)? {
                put_observed(&step.kind, &mut raw, comparison.got);
            }
            steps.push(Value::Object(raw));
        }
        recorded.insert("steps".into(), Value::Array(steps));
        Ok(Value::Object(recorded))
    }

    fn compare_opening(&self) -> Comparison {
        let expected = match (&self.case.create_error, &self.case.required_api_level) {
            (Some(error), _) => json!({ "create_error": error }),
            (None, Some(level)) => json!({ "required_api_level": level }),
            (None, None) => json!({}),
        };
        let got = match &self.opened {
            Opened::Refused(error) => json!({ "create_error": error }),
            Opened::Created { .. } if self.case.required_api_level.is_none() => json!({}),
            Opened::Created { required_api_level } => {
                json!({ "required_api_level": required_api_level })
            }
        };
        comparison(expected, got)
    }

    /// Does a step; `None` if there is nothing to compare.
    fn step(&mut self, index: usize, step: &Step) -> Result<Option<Comparison>, Stop> {
        match &step.kind {
            StepKind::Publish(_) => self.publish(index).map(|()| None),
            StepKind::Wait(milliseconds) => self.peer.wait(*milliseconds).map(|()| None),
            StepKind::DirectGet { subject, body } => {
                self.peer.direct_get(subject.as_str(), body)?;
                Ok(None)
            }
            StepKind::Expect {
                replies,
                advisories,
            } => self.expect(index, replies, advisories).map(Some),
            StepKind::Update { keys, reply } => {
                let mut config = self.config.clone();
                config.extend(keys.clone());
                let error = self.peer.update(&config)?;
                if error.is_none() {
                    self.config = config;
                }
                Ok(Some(compare_answer(reply, error)))
            }
            StepKind::Api {
                subject,
                body,
                reply,
            } => {
                let is_create = subject.starts_with("STREAM.CREATE.");
                let body = match body {
                    Value::Null if is_create => &Value::Object(self.config.clone()),
                    body => body,
                };
                let error = self.peer.api(subject, body)?;
                Ok(reply.as_ref().map(|reply| compare_answer(reply, error)))
            }
            StepKind::Stored(expected) => {
                let got = self.peer.stored()?;
                Ok(Some(comparison(expected.clone(), got)))
            }
        }
    }

    /// The first step of a write sends all of it. Where no `expect` follows, the replies are let
    /// come and dropped.
    fn publish(&mut self, index: usize) -> Result<(), Stop> {
        if index > 0 && self.messages(index - 1).is_some() {
            return Ok(());
        }
        let mut messages = Vec::new();
        let mut next = index;
        while let Some(more) = self.messages(next) {
            messages.extend_from_slice(more);
            next += 1;
        }
        self.peer.write(&messages)?;
        let is_expected = matches!(self.kind(next), Some(StepKind::Expect { .. }));
        if !is_expected {
            self.peer.settle(Wanted::ANYTHING)?;
        }
        Ok(())
    }

    fn expect(
        &mut self,
        index: usize,
        replies: &[Value],
        advisories: &[Value],
    ) -> Result<Comparison, Stop> {
        let is_publish = self.messages(index + 1).is_some();
        let wanted = Wanted {
            replies: replies.len(),
            advisories: advisories.len(),
            whole_quiet_time: !is_publish || self.case.depends_on_time(),
        };
        let seen = self.peer.settle(if self.recording {
            Wanted::ANYTHING
        } else {
            wanted
        })?;
        let agree = compare::advisories_match(advisories, &seen.advisories)
            && (compare::replies_match(replies, &seen.replies)
                || (self.is_replicated_write(index)
                    && compare::replies_match_by_type(replies, &seen.replies)));
        Ok(Comparison {
            expected: as_expect(replies.to_vec(), advisories.to_vec()),
            got: as_expect(seen.replies, seen.advisories),
            agree,
        })
    }

    /// Whether the step before is part of a write of several messages to a replicated stream.
    fn is_replicated_write(&self, index: usize) -> bool {
        let before = (0..index).rev().map_while(|step| self.messages(step));
        self.case.replicas > 1 && before.map(<[Outgoing]>::len).sum::<usize>() > 1
    }

    fn kind(&self, index: usize) -> Option<&'a StepKind> {
        self.case.steps.get(index).map(|step| &step.kind)
    }

    fn messages(&self, index: usize) -> Option<&'a [Outgoing]> {
        match self.kind(index) {
            Some(StepKind::Publish(messages)) => Some(messages),
            _ => None,
        }
    }
}

fn comparison(expected: Value, got: Value) -> Comparison {
    Comparison {
        agree: compare::matches(&expected, &got),
        expected,
        got,
    }
}

fn compare_answer(expected: &Answer, error: Option<Value>) -> Comparison {
    let expected = match expected {
        Answer::Ok => json!("ok"),
        Answer::Error(error) => json!({ "error": error }),
    };
    let got = match error {
        None => json!("ok"),
        Some(error) => json!({ "error": error }),
    };
    comparison(expected, got)
}

/// The step as a file writes it: without advisories where none came.
fn as_expect(replies: Vec<Value>, advisories: Vec<Value>) -> Value {
    let mut step = Map::new();
    step.insert("expect".into(), Value::Array(replies));
    if !advisories.is_empty() {
        step.insert("advisories".into(), Value::Array(advisories));
    }
    Value::Object(step)
}

/// Puts what was observed into a step to be recorded.
fn put_observed(kind: &StepKind, raw: &mut Map<String, Value>, got: Value) {
    match kind {
        StepKind::Expect { .. } => {
            raw.remove("advisories");
            if let Value::Object(observed) = got {
                raw.extend(observed);
            }
        }
        StepKind::Update { .. } | StepKind::Api { .. } => {
            raw.insert("reply".into(), got);
        }
        StepKind::Stored(_) => {
            raw.insert("stored".into(), got);
        }
        StepKind::Publish(_) | StepKind::Wait(_) | StepKind::DirectGet { .. } => {}
    }
}

fn failed(step: Option<usize>, comparison: Comparison) -> Outcome {
    Outcome::Failed(Difference {
        step,
        expected: comparison.expected,
        got: comparison.got,
    })
}
