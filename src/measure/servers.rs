//! What the servers of a live run say of themselves over time: columns of a result, one set for each server.
//!
//! Nothing of it comes from events. A value that nobody told is missing, and never a zero. Leans on nothing of
//! ours.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most looks that a result keeps. With more each second one goes, and from then on each second is left out.
const MOST_LOOKS: usize = 1_200;

/// One server over time: entry *i* of each column is what was known at `at_ns[i]`, null where the server did not
/// answer or did not say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSeries {
    /// The server: `server 0` of our own, or what it calls itself.
    pub name: String,
    /// Where it was asked, without credentials.
    pub monitor: String,
    /// When it was asked.
    pub at_ns: Vec<u64>,
    /// CPU time of its process in hundredths of a core, as it measures it, about once a second.
    pub cpu_percent: Vec<Option<f64>>,
    /// Resident memory of its process.
    pub memory_bytes: Vec<Option<u64>>,
    /// Clients and servers that it has dropped so far because they did not read.
    pub slow_consumers: Vec<Option<u64>>,
    /// Connections of clients.
    pub connections: Vec<Option<u64>>,
    /// Bytes that wait to be written to clients, of the 256 for whom most do.
    pub pending_bytes: Vec<Option<u64>>,
    /// Requests of the JetStream API so far.
    pub api_requests: Vec<Option<u64>>,
    /// Requests of the API that wait or are in work.
    pub api_in_flight: Vec<Option<u64>>,
    /// Whether it leads the stream, as it says itself.
    pub leads: Vec<Option<bool>>,
    /// Append entries that its replica of the stream is behind, as the leader says.
    pub raft_lag: Vec<Option<u64>>,
}

/// What a server said at one look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerFigures {
    /// As in [`ServerSeries`].
    pub cpu_percent: Option<f64>,
    /// As in [`ServerSeries`].
    pub memory_bytes: Option<u64>,
    /// As in [`ServerSeries`].
    pub slow_consumers: Option<u64>,
    /// As in [`ServerSeries`].
    pub connections: Option<u64>,
    /// As in [`ServerSeries`].
    pub pending_bytes: Option<u64>,
    /// As in [`ServerSeries`].
    pub api_requests: Option<u64>,
    /// As in [`ServerSeries`].
    pub api_in_flight: Option<u64>,
    /// As in [`ServerSeries`].
    pub leads: Option<bool>,
    /// As in [`ServerSeries`].
    pub raft_lag: Option<u64>,
}

/// Does the same with each column of a series.
macro_rules! each_column {
    ($series:expr, $column:ident => $act:expr) => {{
        let Self {
            name: _,
            monitor: _,
            at_ns: _,
            cpu_percent,
            memory_bytes,
            slow_consumers,
            connections,
            pending_bytes,
            api_requests,
            api_in_flight,
            leads,
            raft_lag,
        } = $series;
        each_column!(@each $column => $act; cpu_percent, memory_bytes, slow_consumers, connections,
            pending_bytes, api_requests, api_in_flight, leads, raft_lag)
    }};
    (@each $column:ident => $act:expr; $($name:ident),*) => {
        [$({ let $column = $name; $act }),*]
    };
}

impl ServerSeries {
    /// A server that nobody has asked yet.
    pub fn new(name: String, monitor: String) -> Self {
        Self {
            name,
            monitor,
            ..Self::default()
        }
    }

    /// Takes in what it said at `at_ns`; nothing, if it did not answer.
    pub fn push(&mut self, at_ns: u64, said: ServerFigures) {
        self.at_ns.push(at_ns);
        self.cpu_percent.push(said.cpu_percent);
        self.memory_bytes.push(said.memory_bytes);
        self.slow_consumers.push(said.slow_consumers);
        self.connections.push(said.connections);
        self.pending_bytes.push(said.pending_bytes);
        self.api_requests.push(said.api_requests);
        self.api_in_flight.push(said.api_in_flight);
        self.leads.push(said.leads);
        self.raft_lag.push(said.raft_lag);
    }

    /// Whether there are as many looks as a result keeps.
    pub fn is_full(&self) -> bool {
        self.at_ns.len() >= MOST_LOOKS
    }

    /// Lets every second look go.
    pub fn thin_out(&mut self) {
        let mut index = 0;
        self.at_ns.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        each_column!(self, column => {
            let mut index = 0;
            column.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        });
    }

    /// Whether it answered at any look.
    pub fn answered(&self) -> bool {
        each_column!(self, column => column.iter().any(Option::is_some)).contains(&true)
    }

    /// Whether every column has an entry for each look.
    pub fn is_whole(&self) -> bool {
        let looks = self.at_ns.len();
        each_column!(self, column => column.len())
            .iter()
            .all(|entries| *entries == looks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_every_second_look_and_columns_stay_whole() {
        let mut series = ServerSeries::new("server 0".to_owned(), String::new());
        for look in 0..MOST_LOOKS as u64 {
            assert!(!series.is_full());
            let said = ServerFigures {
                memory_bytes: (look % 3 != 0).then_some(look),
                ..ServerFigures::default()
            };
            series.push(look * 10, said);
        }
        assert!(series.is_full() && series.is_whole());
        series.thin_out();
        assert!(series.is_whole());
        assert_eq!(series.at_ns[..3], [0, 20, 40]);
        assert_eq!(series.memory_bytes[..3], [None, Some(2), Some(4)]);
        series.leads.pop();
        assert!(!series.is_whole());
    }

    #[test]
    fn who_told_anything_has_answered() {
        let mut series = ServerSeries::new("n".to_owned(), String::new());
        series.push(0, ServerFigures::default());
        assert!(!series.answered());
        let said = ServerFigures {
            connections: Some(0),
            ..ServerFigures::default()
        };
        series.push(1, said);
        assert!(series.answered());
    }
}
