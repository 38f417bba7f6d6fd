//! `[[probes]]`: API requests that are timed while publishers are at work.
//!
//! Leans on `units`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Settings, StreamSettings};
use crate::machine::Time;
use crate::units::Span;

/// One kind of request, sent at a steady rate over a connection of its own.
///
/// An open loop: a request leaves at its intended start, whether earlier ones are answered or not, and
/// its latency counts from there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What is asked.
    pub operation: ProbeOperation,
    /// Time between two requests.
    #[serde(default = "every")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub every: Span,
    /// When the first request is sent, before `time_limit`.
    #[serde(default)]
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub start: Span,
    /// No request is sent from then on; absent: when all publishers are done.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub stop: Option<Span>,
    /// A request without an answer after this long is counted as unanswered. The default is that of
    /// most NATS clients for calls of the API, so that answers beyond the 2 s of ADR-50 are timed still.
    #[serde(default = "timeout")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub timeout: Span,
}

const fn every() -> Span {
    Span(Time::from_millis(100))
}

const fn timeout() -> Span {
    Span(Time::from_secs(5))
}

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeOperation {
    /// Information on the stream.
    Info,
    /// One message of the stream, by its sequence: the probe's own first one.
    MessageGet,
    /// Deletes a message of the stream that the probe published before.
    MessageDelete,
    /// Purges the probe's own subject in the stream, where it keeps a message.
    Purge,
    /// Purges another stream, in memory and on one server, made for it: what of a purge's latency is
    /// not the stream's.
    PurgeOther,
    /// Updates the stream: another description.
    Update,
    /// Publishes a message to the stream and waits for its PubAck.
    Publish,
}

impl ProbeOperation {
    /// Whether it needs messages of its own in the stream, or sends them.
    pub const fn publishes(self) -> bool {
        match self {
            Self::MessageGet | Self::MessageDelete | Self::Purge | Self::Publish => true,
            Self::Info | Self::PurgeOther | Self::Update => false,
        }
    }
}

impl Settings {
    /// Where the messages of probes go, in the stream and apart from those of publishers.
    pub(super) fn probe_filter(&self) -> String {
        format!("PROBES.{}.>", self.stream.name)
    }

    /// The subject of one probe, by its number in the file.
    pub fn probe_subject(&self, probe: u32) -> String {
        format!("PROBES.{}.{probe}", self.stream.name)
    }

    /// Whether a message of the stream is one of a probe, by its subject.
    pub fn is_of_probe(&self, subject: &str) -> bool {
        let rest = subject.strip_prefix("PROBES.");
        let rest = rest.and_then(|rest| rest.strip_prefix(self.stream.name.as_str()));
        !self.probes.is_empty() && rest.is_some_and(|rest| rest.starts_with('.'))
    }

    /// The stream that [`ProbeOperation::PurgeOther`] purges, if the file has such a probe.
    pub fn other_stream(&self) -> Option<String> {
        let mut probes = self.probes.iter();
        let needs_it = probes.any(|probe| probe.operation == ProbeOperation::PurgeOther);
        needs_it.then(|| format!("{}_PROBES", self.stream.name))
    }

    /// The stream of a run: that of the file, which takes what probes publish, too.
    pub fn stream_of_run(&self) -> StreamSettings {
        let mut stream = self.stream.numbered(0);
        let mut probes = self.probes.iter();
        if probes.any(|probe| probe.operation.publishes()) {
            stream.subjects.push(self.probe_filter());
        }
        stream
    }

    /// The streams of a run; probes ask the first of them.
    pub fn streams_of_run(&self) -> Vec<StreamSettings> {
        let others = self.stream.each().skip(1);
        std::iter::once(self.stream_of_run())
            .chain(others)
            .collect()
    }
}
