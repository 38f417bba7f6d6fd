//! A random case before anybody has answered it: a configuration and acts, which become a case of the
//! vector format.
//!
//! Leans on `parse`, so that a random case is read as a file of the user's is.

use serde_json::{Map, Value, json};

use super::super::parse::{FORMAT, parse};
use super::super::run::Stop;
use super::super::vector::Case;

/// A case that nobody has answered yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Play {
    /// Its name, with which it is found again.
    pub(super) name: String,
    /// The server version that it is for.
    pub(super) version: String,
    /// Replicas of the stream.
    pub(super) replicas: u64,
    /// Batch limits of the server.
    pub(super) limits: Option<Map<String, Value>>,
    /// What the stream is created with.
    pub(super) config: Map<String, Value>,
    /// What is done, in order.
    pub(super) acts: Vec<Act>,
}

/// What is done between two looks at what came.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Messages in one go, each as a `publish` step.
    Write(Vec<Map<String, Value>>),
    /// A direct get: subject and body.
    Get(String, Value),
    /// An API call: subject behind `$JS.API.`, and body.
    Call(String, Value),
    /// A look at what the stream holds.
    Stored,
}

impl Act {
    /// Messages and requests.
    pub(super) const fn operations(&self) -> usize {
        match self {
            Self::Write(messages) => messages.len(),
            Self::Get(..) | Self::Call(..) => 1,
            Self::Stored => 0,
        }
    }

    /// As steps of a case, with placeholders for the answers.
    fn steps(&self) -> Vec<Value> {
        let expect = json!({ "expect": [] });
        match self {
            Self::Write(messages) => {
                let messages = messages.iter().cloned().map(Value::Object);
                messages.chain([expect]).collect()
            }
            Self::Get(subject, body) => {
                vec![json!({ "direct_get": subject, "body": body }), expect]
            }
            // Three servers may have something to say after a call, such as acks of a new leader.
            Self::Call(subject, body) => {
                vec![
                    json!({ "api": subject, "body": body, "reply": "ok" }),
                    expect,
                ]
            }
            Self::Stored => vec![json!({ "stored": {} })],
        }
    }
}

impl Play {
    /// Messages and requests.
    pub(super) fn operations(&self) -> usize {
        self.acts.iter().map(Act::operations).sum()
    }

    /// The act that a step of the case belongs to.
    pub(super) fn act_of(&self, step: usize) -> usize {
        let mut steps = 0;
        let position = self.acts.iter().position(|act| {
            steps += act.steps().len();
            steps > step
        });
        position.unwrap_or(self.acts.len())
    }

    /// As a case, with placeholders for the answers.
    pub(super) fn case(&self) -> Result<Case, Stop> {
        let steps: Vec<Value> = self.acts.iter().flat_map(Act::steps).collect();
        read(&json!({
            "name": self.name,
            "server_version": self.version,
            "replicas": self.replicas,
            "server_batch_limits": self.limits,
            "stream_config": self.config,
            "steps": steps,
        }))
    }
}

/// A file of recordings with these cases.
pub(super) fn file_of(cases: &[Value]) -> Value {
    let first = cases.first().unwrap_or(&Value::Null);
    json!({
        "format": FORMAT,
        "server_version": first["server_version"],
        "replicas": first["replicas"],
        "cases": cases,
    })
}

/// The only case of a file.
pub(super) fn read(case: &Value) -> Result<Case, Stop> {
    let wrong =
        |what: String| Stop::Surroundings(format!("a random case is not well formed: {what}"));
    let text = file_of(std::slice::from_ref(case)).to_string();
    let file = parse("random", &text).map_err(|error| wrong(error.to_string()))?;
    let case = file.cases.into_iter().next();
    case.ok_or_else(|| wrong("no case".to_owned()))
}
