//! The streams under test: made as the file says, used if they are there already, removed if they are
//! ours.
//!
//! Leans on `connect` and on the stream settings of `scenario`.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::connect::{Connection, Connector};
use super::error::{LiveError, clean};
use super::interrupt::Interrupts;
use crate::nats::error_code::ErrorCode;
use crate::scenario::{Discard, Storage, StreamSettings};

/// After a signal: longest wait for the answer that says whether there is one more stream to remove.
const GRACE: Duration = Duration::from_secs(5);

/// In words, for errors.
const CREATING: &str = "creating the stream";
/// A server that is alone keeps one copy (JSStreamReplicasNotSupportedErr).
const NO_REPLICAS: u64 = 10_074;

/// Servers and streams, ready for a run.
pub struct Target {
    connector: Connector,
    connection: Connection,
    streams: Vec<TargetStream>,
}

/// One stream of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetStream {
    /// Its name.
    pub name: String,
    /// Whether this run made it.
    pub created: bool,
    /// Last stream sequence before the run.
    pub last_sequence: u64,
}

impl Target {
    /// Connects to one of `servers` and makes these streams, or takes those that are there like that.
    ///
    /// # Errors
    /// No server answers, it is too old, JetStream is off, a permission is missing, or a stream of
    /// such a name exists and is another one.
    pub async fn prepare(
        servers: &[String],
        streams: &[StreamSettings],
    ) -> Result<Self, LiveError> {
        let connector = Connector::new(servers)?;
        let connection = connector.connect().await?;
        let mut target = Self::without_streams(connector, connection);
        match target.make(streams, &Cell::new(false)).await {
            Ok(()) => Ok(target),
            Err(error) => target.remove().await.and(Err(error)),
        }
    }

    /// As [`Target::prepare`] at the servers of `connector`, until a signal comes, whose number it gives
    /// then. What was being made goes again.
    ///
    /// # Errors
    /// As [`Target::prepare`]; and after a signal when a stream may be there still.
    pub async fn prepare_unless_interrupted(
        connector: Connector,
        streams: &[StreamSettings],
        interrupts: &mut Interrupts,
    ) -> Result<Result<Self, u8>, LiveError> {
        let connection = tokio::select! {
            biased;
            signal = interrupts.next() => return Ok(Err(signal)),
            connection = connector.connect() => connection?,
        };
        let mut target = Self::without_streams(connector, connection);
        let stop = Cell::new(false);
        let (signal, made) = {
            let making = target.make(streams, &stop);
            tokio::pin!(making);
            tokio::select! {
                biased;
                signal = interrupts.next() => {
                    stop.set(true);
                    let making = tokio::time::timeout(GRACE, making);
                    let made = unless_hurried(interrupts, making).await;
                    (Some(signal), made.and_then(Result::ok))
                }
                made = &mut making => (None, Some(made)),
            }
        };
        let Some(signal) = signal else {
            return match made {
                Some(Err(error)) => target.remove().await.and(Err(error)),
                _ => Ok(Ok(target)),
            };
        };
        let unknown = made.is_none_or(|made| matches!(made, Err(LiveError::NoAnswer { .. })));
        // The one that was being made is not removed: it may have been there before.
        let begun = streams.get(target.streams.len()).filter(|_| unknown);
        let made = target.made().map(|stream| stream.name.clone()).collect();
        let mut left = match unless_hurried(interrupts, target.remove()).await {
            Some(Ok(())) => Vec::new(),
            Some(Err(LiveError::Remains { streams, .. })) => streams,
            Some(Err(error)) => return Err(error),
            None => made,
        };
        left.extend(begun.map(|settings| settings.name.clone()));
        if left.is_empty() {
            return Ok(Err(signal));
        }
        Err(LiveError::Remains {
            streams: left,
            reason: "interrupted while streams were being made".to_owned(),
        })
    }

    const fn without_streams(connector: Connector, connection: Connection) -> Self {
        Self {
            connector,
            connection,
            streams: Vec::new(),
        }
    }

    /// Makes streams one after the other, until `stop` is set.
    async fn make(
        &mut self,
        streams: &[StreamSettings],
        stop: &Cell<bool>,
    ) -> Result<(), LiveError> {
        for settings in streams {
            if stop.get() {
                break;
            }
            let stream = self.make_one(settings).await?;
            self.streams.push(stream);
        }
        Ok(())
    }

    /// The streams that this run made.
    fn made(&self) -> impl Iterator<Item = &TargetStream> {
        self.streams.iter().filter(|stream| stream.created)
    }

    async fn make_one(&self, settings: &StreamSettings) -> Result<TargetStream, LiveError> {
        let connection = &self.connection;
        let name = settings.name.as_str();
        let config = stream_config(settings);
        let info = format!("STREAM.INFO.{name}");
        let (created, answer) = match connection
            .call("reading the stream", &info, &json!({}))
            .await
        {
            Ok(answer) => (false, answer),
            Err(LiveError::Api { code, .. }) if is_not_found(code) => {
                let create = format!("STREAM.CREATE.{name}");
                let mut wanted = config.clone();
                // For reading back where there are no consumers; a stream that is there already
                // may do without.
                wanted["allow_direct"] = Value::Bool(true);
                // Whoever finds it knows whose it is.
                wanted["metadata"] = json!({ "tidegate": env!("CARGO_PKG_VERSION") });
                let answer = connection.call(CREATING, &create, &wanted).await;
                match answer {
                    Ok(answer) => (true, answer),
                    Err(error) => return Err(explain(connection, settings, error).await),
                }
            }
            Err(error) => return Err(error),
        };
        let stream = TargetStream {
            name: name.to_owned(),
            created,
            last_sequence: answer["state"]["last_seq"].as_u64().unwrap_or(0),
        };
        if let Err(error) = compare(name, &config, &answer["config"]) {
            // a server that leaves a setting out has made a stream that is of no use
            if stream.created {
                let removed = self.remove_one(&stream).await;
                remains(vec![stream.name], removed.err())?;
            }
            return Err(error);
        }
        Ok(stream)
    }

    /// Opens further connections to the same servers.
    pub const fn connector(&self) -> &Connector {
        &self.connector
    }

    /// The connection of the target itself.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The streams, one at least; publishers are spread over them in turn.
    pub fn streams(&self) -> &[TargetStream] {
        &self.streams
    }

    /// The first stream, which faults and probes are about.
    pub fn first_stream(&self) -> &str {
        self.streams.first().map_or("", |stream| &stream.name)
    }

    /// Whether this run made all of the streams.
    pub fn created(&self) -> bool {
        self.streams.iter().all(|stream| stream.created)
    }

    /// Removes the streams that this run made.
    ///
    /// # Errors
    /// [`LiveError::Remains`]: the server does not remove them all.
    pub async fn remove(self) -> Result<(), LiveError> {
        let mut streams = Vec::new();
        let mut first = None;
        for stream in self.made() {
            // Who does not answer is not asked for each.
            if !matches!(first, Some(LiveError::NoAnswer { .. })) {
                let Err(error) = self.remove_one(stream).await else {
                    continue;
                };
                first.get_or_insert(error);
            }
            streams.push(stream.name.clone());
        }
        remains(streams, first)
    }

    async fn remove_one(&self, stream: &TargetStream) -> Result<(), LiveError> {
        let delete = format!("STREAM.DELETE.{}", stream.name);
        self.connection
            .call("removing the stream", &delete, &json!({}))
            .await
            .map(drop)
    }
}

/// What comes of `work`, unless one more signal comes first.
async fn unless_hurried<T>(
    interrupts: &mut Interrupts,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        _ = interrupts.next() => None,
        done = work => Some(done),
    }
}

fn remains(streams: Vec<String>, reason: Option<LiveError>) -> Result<(), LiveError> {
    reason.map_or(Ok(()), |reason| {
        let reason = reason.to_string();
        Err(LiveError::Remains { streams, reason })
    })
}

fn is_not_found(code: u64) -> bool {
    code == u64::from(ErrorCode::StreamNotFound.number())
}

/// Why the server does not make the stream, where that is for the file to change; else the error as
/// it is.
async fn explain(
    connection: &Connection,
    settings: &StreamSettings,
    error: LiveError,
) -> LiveError {
    const OVERLAP: u64 = ErrorCode::SubjectsOverlap.number() as u64;
    const INVALID: u64 = ErrorCode::InvalidConfiguration.number() as u64;
    let LiveError::Api {
        code, description, ..
    } = &error
    else {
        return error;
    };
    let reason = match *code {
        OVERLAP => {
            let whose = taken_by(connection, &settings.subjects).await;
            format!(
                "its subjects overlap those of {whose}; choose others with stream.subjects and \
                 publishers.0.subject, or remove that stream"
            )
        }
        NO_REPLICAS => {
            format!("{description}; set stream.replicas to 1, or name a cluster with --servers")
        }
        INVALID => description.clone(),
        _ => return error,
    };
    LiveError::RefusedStream {
        stream: settings.name.clone(),
        reason,
    }
}

/// The stream that has one of these subjects, in words.
async fn taken_by(connection: &Connection, subjects: &[String]) -> String {
    for subject in subjects {
        let named = json!({ "subject": subject });
        let answer = connection.call(CREATING, "STREAM.NAMES", &named).await;
        if let Some(name) = answer
            .ok()
            .as_ref()
            .and_then(|it| it["streams"][0].as_str())
        {
            return format!("stream {}", clean(name));
        }
    }
    "another stream".to_owned()
}

/// The creation request: every setting of the file, and the server's defaults for the rest.
///
/// Atomic batches are named only where the file wants them: a stream that takes them as well does no
/// run any harm.
fn stream_config(settings: &StreamSettings) -> Value {
    let limit =
        |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let mut config = json!({
        "name": settings.name,
        "subjects": settings.subjects,
        "retention": "limits",
        "storage": match settings.storage {
            Storage::File => "file",
            Storage::Memory => "memory",
        },
        "num_replicas": settings.replicas,
        "discard": match settings.discard {
            Discard::Old => "old",
            Discard::New => "new",
        },
        "max_msgs": limit(settings.max_messages),
        "max_bytes": limit(settings.max_bytes.map(|bytes| bytes.0)),
        "max_msg_size": limit(settings.max_message_size.map(|bytes| bytes.0)),
        "max_msgs_per_subject": limit(settings.max_messages_per_subject),
        "discard_new_per_subject": settings.discard_new_per_subject,
        "duplicate_window": settings.duplicate_window.0.as_nanos(),
        "allow_batched": settings.allow_batched,
        "no_ack": settings.no_ack,
    });
    if settings.allow_atomic {
        config["allow_atomic"] = Value::Bool(true);
    }
    config
}

/// Holds the stream that is there to the one that the file wants.
fn compare(name: &str, wanted: &Value, found: &Value) -> Result<(), LiveError> {
    // what a server leaves out is the zero of its kind
    let found_value = |key: &str, like: &Value| match (&found[key], like) {
        (Value::Null, Value::Bool(_)) => Value::Bool(false),
        (value, _) => value.clone(),
    };
    if wanted["allow_batched"] == Value::Bool(true) && found["allow_batched"] != Value::Bool(true) {
        return Err(LiveError::NoBatches {
            stream: name.to_owned(),
        });
    }
    for (key, value) in wanted.as_object().into_iter().flatten() {
        let found = found_value(key, value);
        let equal = match (value, &found) {
            (Value::Array(_), Value::Array(_)) => words(value) == words(&found),
            _ => *value == found,
        };
        if !equal {
            return Err(LiveError::OtherStream {
                stream: name.to_owned(),
                difference: format!("{key} is {}, not {value}", clean(&found.to_string())),
            });
        }
    }
    Ok(())
}

fn words(list: &Value) -> BTreeSet<&str> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(change: impl FnOnce(&mut Value)) -> Option<LiveError> {
        let wanted = stream_config(&StreamSettings {
            subjects: vec!["a".to_owned(), "b".to_owned()],
            ..StreamSettings::default()
        });
        let mut found = wanted.clone();
        change(&mut found);
        compare("S", &wanted, &found).err()
    }

    #[test]
    fn an_equal_stream_is_taken_whatever_the_order_and_what_is_left_out() {
        let found = difference(|found| {
            found["subjects"] = json!(["b", "a"]);
            found["no_ack"] = Value::Null;
            found["metadata"] = json!({ "x": "y" });
            found["allow_atomic"] = json!(true);
        });
        assert_eq!(found, None);
    }

    #[test]
    fn the_first_difference_is_named() {
        let error = difference(|found| found["num_replicas"] = json!(3));
        assert!(
            error
                .unwrap()
                .to_string()
                .contains("num_replicas is 3, not 1")
        );
        let error = difference(|found| found["subjects"] = json!(["a"]));
        assert!(matches!(error, Some(LiveError::OtherStream { .. })));
        let error = difference(|found| found["allow_batched"] = Value::Null);
        assert!(matches!(error, Some(LiveError::NoBatches { .. })));
    }
}
