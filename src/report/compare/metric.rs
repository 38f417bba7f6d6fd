//! What two sides are compared by: where a figure stands in a result, and which way is better.
//!
//! Leans on `result` and `text`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::RunResult;
use crate::report::text::{duration, percent, short};

/// A figure of a run.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Messages acknowledged in a second.
    Throughput,
    /// Half of the messages were acked within, from their send.
    AckP50,
    /// 90 % were.
    AckP90,
    /// 99 % were.
    AckP99,
    /// 99.9 % were.
    AckP999,
    /// Half of the messages were acked within, from their intended start.
    ResponseP50,
    /// 99 % were.
    ResponseP99,
    /// 99.9 % were.
    ResponseP999,
    /// Part of the time of open batches behind a shut gate.
    StallShare,
    /// Part of the messages of known fate that gaps reported missing.
    GapRate,
}

/// How a change of a figure is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scale {
    /// As a part of the baseline: the figure is above zero.
    Ratio,
    /// As a difference: the figure is a part itself.
    Difference,
}

impl Metric {
    /// All, in the order of a table.
    pub const ALL: [Self; 10] = [
        Self::Throughput,
        Self::AckP50,
        Self::AckP90,
        Self::AckP99,
        Self::AckP999,
        Self::ResponseP50,
        Self::ResponseP99,
        Self::ResponseP999,
        Self::StallShare,
        Self::GapRate,
    ];

    /// What a comparison is judged by unless it is told otherwise.
    pub const JUDGED: [Self; 3] = [Self::Throughput, Self::AckP50, Self::AckP99];

    /// Its word on the command line and in files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::AckP50 => "ack-p50",
            Self::AckP90 => "ack-p90",
            Self::AckP99 => "ack-p99",
            Self::AckP999 => "ack-p999",
            Self::ResponseP50 => "response-p50",
            Self::ResponseP99 => "response-p99",
            Self::ResponseP999 => "response-p999",
            Self::StallShare => "stall-share",
            Self::GapRate => "gap-rate",
        }
    }

    /// What people read.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::AckP50 => "ack latency p50",
            Self::AckP90 => "ack latency p90",
            Self::AckP99 => "ack latency p99",
            Self::AckP999 => "ack latency p99.9",
            Self::ResponseP50 => "response time p50",
            Self::ResponseP99 => "response time p99",
            Self::ResponseP999 => "response time p99.9",
            Self::StallShare => "time at shut gates",
            Self::GapRate => "gap rate",
        }
    }

    /// The figure of a run; none where it was not measured.
    pub(super) fn of(self, run: &RunResult) -> Option<f64> {
        let (ack, response) = (&run.ack_latency_ns, &run.response_time_ns);
        let span = |count: u64, ns: u64| (count > 0 && ns > 0).then_some(ns as f64);
        match self {
            Self::Throughput => {
                let rate = run.throughput.messages_per_second;
                (rate > 0.0).then_some(rate)
            }
            Self::AckP50 => span(ack.count, ack.p50),
            Self::AckP90 => span(ack.count, ack.p90),
            Self::AckP99 => span(ack.count, ack.p99),
            Self::AckP999 => span(ack.count, ack.p999),
            Self::ResponseP50 => span(response.count, response.p50),
            Self::ResponseP99 => span(response.count, response.p99),
            Self::ResponseP999 => span(response.count, response.p999),
            Self::StallShare => (run.totals.published > 0).then_some(run.stall_time_ns.share),
            Self::GapRate => (run.totals.published > 0).then_some(run.gap_rate),
        }
    }

    /// The quantile of the ack latency that this is; none for other figures.
    pub(super) const fn ack_quantile(self) -> Option<f64> {
        match self {
            Self::AckP50 => Some(0.5),
            Self::AckP90 => Some(0.9),
            Self::AckP99 => Some(0.99),
            Self::AckP999 => Some(0.999),
            Self::Throughput
            | Self::ResponseP50
            | Self::ResponseP99
            | Self::ResponseP999
            | Self::StallShare
            | Self::GapRate => None,
        }
    }

    /// Whether more of it is better.
    pub(super) const fn more_is_better(self) -> bool {
        matches!(self, Self::Throughput)
    }

    /// The tolerance for its changes: a lost message is never within one.
    pub(super) const fn tolerated(self, tolerance: f64) -> f64 {
        match self {
            Self::GapRate => 0.0,
            _ => tolerance,
        }
    }

    pub(super) const fn scale(self) -> Scale {
        match self {
            Self::StallShare | Self::GapRate => Scale::Difference,
            Self::Throughput
            | Self::AckP50
            | Self::AckP90
            | Self::AckP99
            | Self::AckP999
            | Self::ResponseP50
            | Self::ResponseP99
            | Self::ResponseP999 => Scale::Ratio,
        }
    }

    /// A figure for people, with its unit.
    pub(in crate::report) fn told(self, value: f64) -> String {
        match self {
            Self::Throughput => format!("{} msg/s", short(value)),
            Self::StallShare | Self::GapRate => percent(value),
            Self::AckP50
            | Self::AckP90
            | Self::AckP99
            | Self::AckP999
            | Self::ResponseP50
            | Self::ResponseP99
            | Self::ResponseP999 => duration(value as u64),
        }
    }

    /// A change of it for people: of the baseline in percent, or in percentage points.
    pub(in crate::report) fn told_change(self, change: f64) -> String {
        if self.scale() == Scale::Ratio && change > 9.0 {
            return format!("x {}", short(change + 1.0));
        }
        let sign = if change > 0.0 { "+" } else { "" };
        let points = match self.scale() {
            Scale::Ratio => "%",
            Scale::Difference => "points",
        };
        let percent = change * 100.0;
        let digits = match percent.abs() {
            small if small < 1.0 => 2,
            middling if middling < 10.0 => 1,
            _ => 0,
        };
        format!("{sign}{percent:.digits$} {points}")
    }
}
