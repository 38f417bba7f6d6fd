//! What is left of a run when its events are gone: totals, rates, distributions, series.
//!
//! Leans on `distribution`, `series` and the outcomes of `event`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApiCalls, Distribution, FlowSeries, Series};
use crate::event::Outcome;

/// Everything that a run measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// When the run ended, from its start.
    pub duration_ns: u64,
    /// The part of the run that rates and latencies cover.
    pub window: Window,
    /// Counts over the whole run.
    pub totals: Totals,
    /// Rates over the window.
    pub throughput: Throughput,
    /// From send to the ack that covers the message.
    pub ack_latency_ns: Distribution,
    /// From the intended start to the ack that covers the message.
    pub response_time_ns: Distribution,
    /// Waits at a shut gate.
    pub stall_time_ns: StallTime,
    /// Of the messages of the whole run whose fate became known, the part reported missing: 0 to 1.
    pub gap_rate: f64,
    /// Jain's index over the messages acknowledged to each publisher within the window: 1 is even,
    /// 1/n is all to one of n. Null when nothing was acknowledged.
    pub fairness: Option<f64>,
    /// The same for each group of publishers.
    pub groups: Vec<GroupSummary>,
    /// Flow over time.
    pub flow: FlowSeries,
    /// Other figures over time.
    pub series: Series,
    /// From the intended start of a request to its answer, of the requests of probes that were wanted
    /// within the window and answered with success, by operation.
    pub api_latency_ns: BTreeMap<String, Distribution>,
    /// How all requests of the window fared, by operation.
    pub api_calls: BTreeMap<String, ApiCalls>,
    /// When faults of the file fired.
    pub faults: Vec<FaultTimes>,
    /// When the stream got another leader, or lost its own; the first 64 times.
    pub leader_changes: Vec<LeaderChange>,
}

/// The stream got another leader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeaderChange {
    /// When.
    pub at_ns: u64,
    /// The new leader; null while there is none.
    pub leader: Option<String>,
}

/// The part of the run that rates and latencies cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The later of the end of the warm-up and the first batch.
    pub from_ns: u64,
    /// When the last batch ended, or the run while one was open.
    pub until_ns: u64,
    /// How the end of the warm-up was found, where the file leaves it to be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up: Option<FoundWarmUp>,
}

/// How the end of a warm-up was found: by MSER-5, over messages acknowledged and messages in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FoundWarmUp {
    /// Whether the run became steady in its first half. If not, the window is the whole run.
    pub steady: bool,
    /// Until when the file itself changes the rates of publishers, if it does: the run is not steady before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_changes_until_ns: Option<u64>,
    /// The end of the warm-up; 0 where nothing was left out.
    pub until_ns: u64,
    /// Length of the slices that were compared: five buckets of `series`.
    pub slice_ns: u64,
    /// How many those were.
    pub slices: u64,
}

impl Window {
    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.until_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Counts over the whole run, warm-up included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Messages that the load wanted sent: those published, and those that an open loop still owed
    /// when it stopped or that a batch took and did not send.
    pub offered: u64,
    /// Messages sent: operations start, append and commit.
    pub published: u64,
    /// Their bytes.
    pub published_bytes: u64,
    /// Messages covered by an ack that reached their publisher, but for those reported missing or
    /// refused.
    pub acknowledged: u64,
    /// Their bytes.
    pub acknowledged_bytes: u64,
    /// Messages whose batch or run ended before an ack covered them.
    pub unacknowledged: u64,
    /// Messages stored, each counted once. Null when nobody looked.
    pub stored: Option<u64>,
    /// Messages sent that will never be stored: lost on the way, refused, or come too late.
    /// Duplicates of stored messages are not among them. Null when nobody looked.
    pub lost: Option<u64>,
    /// Those among them that were stored, and that servers lost with their power before they had
    /// synced them.
    #[serde(default)]
    pub lost_to_power: u64,
    /// Messages whose fate was open when the run ended: sent, and then still on a link or in a queue
    /// of the server. Above 0 only where a run was cut off. Null when nobody watched the server.
    pub under_way: Option<u64>,
    /// Messages stored again under the sequence of a stored one.
    pub stored_again: u64,
    /// Gaps that publishers saw.
    pub gaps: u64,
    /// Messages in flight that those gaps reported missing.
    pub missing: u64,
    /// Messages in flight that flow errors reported refused.
    pub refused: u64,
    /// Messages known to the stream by their id, as the server tells; PubAcks that say
    /// `duplicate`, where the server is not watched.
    pub duplicates: u64,
    /// Errors that publishers saw, by code.
    pub errors: BTreeMap<u16, u64>,
    /// Pings sent; those that arrived, of a client that does not tell when it pings.
    pub pings: u64,
    /// Publishers that stalled.
    pub stalls: u64,
    /// Flow acks that publishers saw.
    pub flow_acks: u64,
    /// PubAcks that publishers saw.
    pub pub_acks: u64,
    /// Frames lost, by cause.
    pub dropped: BTreeMap<String, u64>,
    /// Batches.
    pub batches: BatchTotals,
}

/// Batches of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BatchTotals {
    /// Begun by publishers.
    pub started: u64,
    /// How they ended.
    pub endings: Vec<Ending>,
}

/// How some batches ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ending {
    /// How they ended.
    pub outcome: BatchOutcome,
    /// The error that ended them, or 0.
    pub code: u16,
    /// How many.
    pub batches: u64,
}

/// How a batch ended, as results say it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum BatchOutcome {
    /// Its PubAck came after its commit.
    Committed,
    /// The server ended it before its commit.
    EndedByServer,
    /// The server refused it.
    Refused,
    /// No ack came within the ack timeout.
    TimedOut,
    /// Nobody listens on its subject.
    NoResponders,
    /// Its publisher left it open, as its file says.
    Abandoned,
    /// The run ended first.
    Interrupted,
    /// The client failed.
    ClientError,
}

impl BatchOutcome {
    /// The word in results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::EndedByServer => "ended-by-server",
            Self::Refused => "refused",
            Self::TimedOut => "timed-out",
            Self::NoResponders => "no-responders",
            Self::Abandoned => "abandoned",
            Self::Interrupted => "interrupted",
            Self::ClientError => "client-error",
        }
    }
}

impl From<Outcome> for BatchOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Committed => Self::Committed,
            Outcome::EndedByServer => Self::EndedByServer,
            Outcome::Refused => Self::Refused,
            Outcome::TimedOut => Self::TimedOut,
            Outcome::NoResponders => Self::NoResponders,
            Outcome::Abandoned => Self::Abandoned,
            Outcome::Interrupted => Self::Interrupted,
            Outcome::ClientError => Self::ClientError,
        }
    }
}

/// Rates over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throughput {
    /// Acknowledged messages.
    pub messages_per_second: f64,
    /// Their bytes.
    pub bytes_per_second: f64,
    /// Sent messages.
    pub published_per_second: f64,
}

/// Waits at a shut gate within the window; of a wait that began before it counts the rest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StallTime {
    /// All waits added up.
    pub total: u64,
    /// The part of the time of open batches within the window that was spent waiting: 0 to 1.
    pub share: f64,
    /// Each wait, by what of it lies within the window.
    pub waits: Distribution,
}

/// One group of publishers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupSummary {
    /// Name in the file.
    pub name: String,
    /// How many publishers.
    pub publishers: u64,
    /// Messages sent in the whole run.
    pub published: u64,
    /// Messages acknowledged in the whole run.
    pub acknowledged: u64,
    /// Acknowledged messages over the window.
    pub messages_per_second: f64,
    /// As for the run.
    pub ack_latency_ns: Distribution,
    /// As for the run.
    pub response_time_ns: Distribution,
    /// As for the run.
    pub fairness: Option<f64>,
    /// What its latencies mean, where that is not the moment when the ack arrived.
    pub note: Option<String>,
}

/// When a fault of the file fired.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FaultTimes {
    /// Number of the fault, from 0 in the order of the file.
    pub fault: u32,
    /// How often it fired.
    pub count: u64,
    /// The first 64 moments.
    pub at_ns: Vec<u64>,
    /// The server that was hit, at each moment at which one was; empty for other faults.
    pub servers: Vec<String>,
    /// The last moment.
    pub last_ns: u64,
}

/// `value` with at most this many decimals: what a reader can use, and what every JSON reader gives
/// back to the last bit.
pub fn rounded(value: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    let scaled = (value * scale).round();
    // Beyond 2^53 there are no decimals to cut.
    if scaled.abs() < 9e15 {
        scaled / scale
    } else {
        value.round()
    }
}

/// Jain's fairness index of `shares`; `None` when nobody got anything.
pub fn jain(shares: &[u64]) -> Option<f64> {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    (squares > 0.0).then(|| rounded(sum * sum / (shares.len() as f64 * squares), 6).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_when_even_and_one_nth_when_all_goes_to_one() {
        assert_eq!(jain(&[5, 5, 5, 5]), Some(1.0));
        assert_eq!(jain(&[8, 0, 0, 0]), Some(0.25));
        // (1 + 2 + 3)^2 / (3 * (1 + 4 + 9)) = 36 / 42
        assert_eq!(jain(&[1, 2, 3]), Some(0.857_143));
        assert_eq!(jain(&[]), None);
        assert_eq!(jain(&[0, 0]), None);
        assert_eq!(jain(&[u64::MAX, u64::MAX]), Some(1.0));
    }

    #[test]
    fn outcomes_are_written_as_their_words() {
        for outcome in [
            Outcome::Committed,
            Outcome::EndedByServer,
            Outcome::Refused,
            Outcome::TimedOut,
            Outcome::NoResponders,
            Outcome::Abandoned,
            Outcome::Interrupted,
            Outcome::ClientError,
        ] {
            let outcome = BatchOutcome::from(outcome);
            let word = serde_json::to_value(outcome).unwrap();
            assert_eq!(word, outcome.as_str());
            assert_eq!(
                serde_json::from_value::<BatchOutcome>(word).unwrap(),
                outcome
            );
        }
    }

    #[test]
    fn rounding_leaves_large_numbers_alone() {
        assert_eq!(rounded(1.0 / 3.0, 3), 0.333);
        assert_eq!(rounded(1e300, 9), 1e300);
        assert_eq!(rounded(0.0, 3), 0.0);
    }
}
