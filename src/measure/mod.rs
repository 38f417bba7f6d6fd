//! What a run measured: latencies, throughput, flow, gaps, fairness, from the stream of events.
//!
//! [`Recorder`] watches a run in constant memory and ends in a [`Summary`], the part of a result
//! that comes from events. Leans on `event`, `machine` and the words of `nats`.

mod api;
mod batch;
mod batches;
mod columns;
mod distribution;
mod finish;
mod generator;
mod groups;
mod in_flight;
mod measured;
mod observe;
mod parts;
mod recorder;
mod series;
mod servers;
mod steady;
mod summary;

pub use api::ApiCalls;
pub use columns::{FlowSeries, LatencySeries, Series};
pub use distribution::{Distribution, DistributionError, LatencyHistogram, latency_histogram};
pub use generator::{Ceiling, Generator, LateStarts, Spent};
pub use groups::Group;
pub use recorder::{Options, Recorder};
pub use servers::{ServerFigures, ServerSeries};
pub use summary::{
    BatchOutcome, BatchTotals, Ending, FaultTimes, FoundWarmUp, GroupSummary, LeaderChange,
    StallTime, Summary, Throughput, Totals, Window, jain, rounded,
};
