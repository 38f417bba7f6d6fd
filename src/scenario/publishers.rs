//! `[[publishers]]`: who publishes, how much, how fast and with which settings.
//!
//! Leans on `arrival`, `payload` and `moments` for the keys that say when, and how large.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arrival::{Arrival, RateChange, Timestamps};
use super::moments::Moments;
use super::payload::PayloadSize;
use super::stream::STREAM;
use crate::machine::Time;
use crate::units::{Bytes, Span};

/// A group of publishers with the same settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Publishers {
    /// Name of the group, shown in results.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// How many publishers, 1..=100000. Each has a connection of its own.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u32,
    /// Which client code publishes.
    pub client: ClientKind,
    /// Initial and highest flow: an ack every this many messages, 1..=65535.
    #[schemars(range(min = 1, max = 65_535))]
    pub flow: u16,
    /// Flow acks that may be outstanding before the gate shuts, 1..=3 (ADR-50, "Flow Control").
    #[schemars(range(min = 1, max = 3))]
    pub outstanding_acks: u8,
    /// Messages without a PubAck that client `"jetstream-async"` has under way at most, 1..=4096;
    /// that client only. Absent: 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_096))]
    pub in_flight: Option<u16>,
    /// What a gap does: `"fail"` ends the batch, `"ok"` goes on.
    pub gap: GapWord,
    /// Longest wait for an ack; a ping goes out every third of it. 1ms..=1h.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub ack_timeout: Span,
    /// Where the gate is tested. ADR-50 publishes first; `"before-publish"` is the gate of the
    /// Rust client 0.3.0. Core client only.
    pub gate: Gate,
    /// Whose behaviour the core client has: that of ADR-50, or that of another client, with its gate.
    /// Core client only.
    pub profile: ProfileWord,
    /// Ping when nothing was sent for this long, so that the server keeps an idle batch; absent:
    /// no such pings. Core client only.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "1h"))]
    pub idle_ping: Option<Span>,
    /// Count a refused message (gap mode ok) as acked, so that a window of refused messages does
    /// not shut the gate for good. ADR-50 does not say so. Core client only.
    pub errors_count_as_acks: bool,
    /// The client's own time for each message; simulator only.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1s"))]
    pub publish_cost: Span,
    /// Messages per batch, 1..=4294967295; a commit that stores a message counts.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub messages: u32,
    /// Batches that each publisher sends, one after the other, 1..=1000000; 0: until `stop`.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub batches: u32,
    /// How a batch ends.
    pub commit: Commit,
    /// Payload: a size, or how sizes are drawn. 0B..=1MiB.
    #[schemars(extend("x-minimum" = "0B", "x-maximum" = "1MiB"))]
    pub payload: PayloadSize,
    /// Subject; `{publisher}` becomes the publisher's number, `{stream}` its stream's. Must match the stream's subjects.
    #[schemars(length(min = 1, max = 255))]
    pub subject: String,
    /// Spread over this many subjects: `.0`, `.1`, … is appended. 1..=1000000.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub subjects: u32,
    /// Which of them a message goes to.
    #[serde(skip_serializing_if = "SubjectChoice::is_in_turn")]
    pub subject_choice: SubjectChoice,
    /// The stream takes none of these subjects, and nobody else listens there: each publish is
    /// answered with status 503. Otherwise it must take all of them.
    pub outside_stream: bool,
    /// When messages are offered.
    pub arrival: Arrival,
    /// Messages per second of each publisher, for `constant` and `poisson` arrivals only. Above 0,
    /// at most 10000000.
    #[schemars(range(max = 10_000_000), extend("exclusiveMinimum" = 0))]
    pub rate_per_second: Option<f64>,
    /// A rate that changes over time, in place of `rate_per_second`. Before the first change: 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 0, max = 1000))]
    pub rates: Vec<RateChange>,
    /// Messages that arrive together; the rate stays what it is. For `constant` and `poisson` arrivals.
    #[serde(skip_serializing_if = "is_one")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub burst: u32,
    /// Messages per second within a burst, above the rate; absent: all at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10_000_000), extend("exclusiveMinimum" = 0))]
    pub burst_rate_per_second: Option<f64>,
    /// The moments of `replay` arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamps: Option<Timestamps>,
    /// What that file holds, where it was read.
    #[serde(skip)]
    pub moments: Option<Moments>,
    /// When the first publisher of the group starts, before `time_limit`.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "24h"))]
    pub start: Span,
    /// Time between the starts of two publishers of the group.
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub stagger: Span,
    /// When the group stops offering messages and ends its batches as `commit` says; absent: when
    /// all its batches are sent.
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub stop: Option<Span>,
    /// Time between the stops of two publishers of the group.
    #[serde(skip_serializing_if = "is_nothing")]
    #[schemars(extend("x-minimum" = "0s", "x-maximum" = "1h"))]
    pub stop_stagger: Span,
    /// Each publisher is there for so long, since its start, and then away for `off_for`, and so on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub on_for: Option<Span>,
    /// How long it is away each time: its batch is over, and nothing arrives.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-minimum" = "1ms", "x-maximum" = "24h"))]
    pub off_for: Option<Span>,
    /// Idle times of the application in each batch, in the order of messages.
    #[schemars(length(min = 0, max = 1000))]
    pub pauses: Vec<Pause>,
    /// Give each message a `Nats-Msg-Id`.
    pub message_ids: bool,
    /// Extra headers on some messages.
    #[schemars(length(min = 0, max = 1000))]
    pub headers: Vec<HeaderRule>,
}

impl Default for Publishers {
    fn default() -> Self {
        Self {
            name: "publishers".to_owned(),
            count: 1,
            client: ClientKind::Core,
            flow: 100,
            outstanding_acks: 2,
            in_flight: None,
            gap: GapWord::Fail,
            ack_timeout: Span(crate::machine::Time::from_secs(5)),
            gate: Gate::AfterPublish,
            profile: ProfileWord::Adr,
            idle_ping: None,
            errors_count_as_acks: false,
            publish_cost: Span(crate::machine::Time::from_nanos(600)),
            messages: 10_000,
            batches: 1,
            commit: Commit::Eob,
            payload: PayloadSize::Fixed(Bytes(1_024)),
            subject: "tidegate.{publisher}".to_owned(),
            subjects: 1,
            subject_choice: SubjectChoice::InTurn,
            outside_stream: false,
            arrival: Arrival::Closed,
            rate_per_second: None,
            rates: Vec::new(),
            burst: 1,
            burst_rate_per_second: None,
            timestamps: None,
            moments: None,
            start: Span::default(),
            stagger: Span::default(),
            stop: None,
            stop_stagger: Span::default(),
            on_for: None,
            off_for: None,
            pauses: Vec::new(),
            message_ids: false,
            headers: Vec::new(),
        }
    }
}

/// The code that publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientKind {
    /// tidegate's own publisher, by the rule of ADR-50.
    Core,
    /// The unmodified `FastPublisher` of the crate `jetstream-extra`.
    JetstreamExtra,
    /// Core NATS of the crate async-nats: no message is answered.
    Publish,
    /// `JetStream` of the crate async-nats: each message waits for the PubAck of the one before.
    JetstreamSync,
    /// `JetStream` of the crate async-nats, with up to `in_flight` messages without their PubAcks.
    JetstreamAsync,
    /// tidegate's own publisher of atomic batches, by the rule of ADR-50.
    Atomic,
    /// The unmodified `BatchPublish` of the crate `jetstream-extra`: atomic batches.
    JetstreamExtraAtomic,
}

impl ClientKind {
    /// The word in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::JetstreamExtra => "jetstream-extra",
            Self::Publish => "publish",
            Self::JetstreamSync => "jetstream-sync",
            Self::JetstreamAsync => "jetstream-async",
            Self::Atomic => "atomic",
            Self::JetstreamExtraAtomic => "jetstream-extra-atomic",
        }
    }

    /// Whether it publishes by fast ingest, with all that belongs to it: flow, gaps, a gate.
    pub const fn is_fast_ingest(self) -> bool {
        match self {
            Self::Core | Self::JetstreamExtra => true,
            Self::Publish | Self::JetstreamSync | Self::JetstreamAsync => false,
            Self::Atomic | Self::JetstreamExtraAtomic => false,
        }
    }

    /// Whether its batches are batches on the wire, too, which end as the file says.
    pub const fn commits(self) -> bool {
        self.is_fast_ingest() || self.is_atomic()
    }

    /// Whether it publishes atomic batches.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::JetstreamExtraAtomic)
    }
}

/// Gap mode as files write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GapWord {
    /// A gap is reported and the batch goes on.
    Ok,
    /// A gap ends the batch.
    Fail,
}

/// Where the window is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gate {
    /// Publish, then wait while `acked + flow x outstanding <= sent` (ADR-50).
    AfterPublish,
    /// Wait while `acked + flow x outstanding <= next`, then publish; commits wait too.
    BeforePublish,
}

/// Whose behaviour the core client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileWord {
    /// That of ADR-50.
    #[serde(rename = "adr-50")]
    Adr,
    /// That of `jetstream-extra` 0.3.0, frame for frame.
    JetstreamExtra,
}

/// How a batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// An end-of-batch message that is not stored (operation 3).
    Eob,
    /// The last message commits and is stored (operation 2).
    Message,
    /// Never: the publisher leaves, and the server forgets the batch after its idle timeout.
    None,
}

/// A pause of the application, in each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// After this many messages of the batch, 1 or more.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub after: u32,
    /// For this long.
    #[serde(rename = "for")]
    #[schemars(extend("x-minimum" = "1us", "x-maximum" = "24h"))]
    pub span: Span,
}

/// A header on the messages `from..=to` of each batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HeaderRule {
    /// First batch sequence, 1 or more.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub from: u32,
    /// Last batch sequence, at least `from`.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub to: u32,
    /// Header name.
    #[schemars(length(min = 1, max = 100))]
    pub name: String,
    /// Header value.
    #[schemars(length(min = 0, max = 4096))]
    pub value: String,
}

/// Which of its subjects a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectChoice {
    /// One after the other.
    InTurn,
    /// Each as likely as any other.
    Random,
    /// The k-th is k times less likely than the first.
    Zipf,
}

impl SubjectChoice {
    const fn is_in_turn(&self) -> bool {
        matches!(self, Self::InTurn)
    }
}

const fn is_one(count: &u32) -> bool {
    *count == 1
}

fn is_nothing(span: &Span) -> bool {
    *span == Span::default()
}

/// The subjects of one publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects {
    /// In the order in which they are used.
    pub names: Vec<String>,
}

impl Publishers {
    /// When the rates of the group begin to change, and have changed for all of it, in order; the rate that each
    /// publisher starts with is no change.
    pub fn rate_changes(&self) -> Vec<(Time, Time)> {
        let others = u64::from(self.count.saturating_sub(1));
        let last_of = |first: Span, apart: Span| {
            let apart = apart.0.as_nanos().saturating_mul(others);
            first.0.as_nanos().saturating_add(apart)
        };
        let (first, last) = (self.start.0.as_nanos(), last_of(self.start, self.stagger));
        let stop = self
            .stop
            .map_or(u64::MAX, |stop| last_of(stop, self.stop_stagger));
        let mut changes = Vec::new();
        let (mut at, mut rate) = (0, 0.0);
        for change in &self.rates {
            let before = std::mem::replace(&mut at, change.at.0.as_nanos());
            let changed = std::mem::replace(&mut rate, change.per_second) != rate;
            let from = first.saturating_add(if change.ramp { before } else { at });
            if changed && at > 0 && from < stop {
                let until = last.saturating_add(at).min(stop);
                changes.push((Time::from_nanos(from), Time::from_nanos(until)));
            }
        }
        changes
    }

    /// The subjects that publisher number `publisher` of a run with so many streams uses.
    pub fn subjects_of(&self, publisher: u32, streams: u32) -> Subjects {
        let base = self.subject.replace("{publisher}", &publisher.to_string());
        let base = base.replace(STREAM, &(publisher % streams).to_string());
        let names = match self.subjects {
            1 => vec![base],
            count => (0..count).map(|index| format!("{base}.{index}")).collect(),
        };
        Subjects { names }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_ramps_change_the_load_until_the_last_publisher_has_them() {
        let group = |more: &str| -> Publishers { toml::from_str(more).unwrap() };
        let milliseconds = |group: &Publishers| -> Vec<(u64, u64)> {
            let changes = group.rate_changes().into_iter();
            let whole = |time: Time| time.as_nanos() / 1_000_000;
            changes
                .map(|(from, until)| (whole(from), whole(until)))
                .collect()
        };
        let rates = "rates = [{ at = \"0s\", per_second = 5 }, { at = \"1s\", per_second = 5 }, \
                     { at = \"2s\", per_second = 9 }, { at = \"4s\", per_second = 1, ramp = true }]\n";
        assert_eq!(
            milliseconds(&group(rates)),
            [(2_000, 2_000), (2_000, 4_000)]
        );
        let later = format!("{rates}start = \"1s\"\ncount = 3\nstagger = \"100ms\"\n");
        assert_eq!(
            milliseconds(&group(&later)),
            [(3_000, 3_200), (3_000, 5_200)]
        );
        let stopped = format!("{later}stop = \"3500ms\"\n");
        assert_eq!(
            milliseconds(&group(&stopped)),
            [(3_000, 3_200), (3_000, 3_500)]
        );
        assert!(group("rate_per_second = 5").rate_changes().is_empty());
    }
}
