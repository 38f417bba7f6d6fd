//! What is measured for the tables: files, settings and places.

/// A run that fills a cell of a table.
pub(crate) struct Cell {
    pub(crate) table: &'static str,
    pub(crate) row: String,
    pub(crate) column: String,
    pub(crate) file: &'static str,
    pub(crate) servers: u8,
    pub(crate) set: Vec<String>,
}

impl Cell {
    /// What to type.
    pub(crate) fn command(&self) -> String {
        let mut command = format!("tidegate live {} --local {}", self.file, self.servers);
        for set in &self.set {
            command.push_str(&format!(" --set {set}"));
        }
        command
    }
}

pub(crate) const BASELINES: &str = "baselines";
pub(crate) const FLOWS: &str = "flows";
pub(crate) const API: &str = "api";
pub(crate) const FAULTS: &str = "faults";

/// Each of the baselines, and fast ingest with more and more publishers: name, file, settings.
const MODES: [(&str, &str, &[&str]); 8] = [
    (
        "core publish, no stream",
        "workloads/baseline-publish.toml",
        &[
            "publishers.0.subject=elsewhere.{publisher}",
            "publishers.0.outside_stream=true",
        ],
    ),
    ("sync publish", "workloads/baseline-sync.toml", &[]),
    (
        "async publish, 1,024 in flight",
        "workloads/baseline-async.toml",
        &["publishers.0.in_flight=1024"],
    ),
    (
        "atomic, 1,000 a batch",
        "workloads/baseline-atomic.toml",
        &[],
    ),
    ("fast, 1 publisher", "workloads/baseline-fast.toml", &[]),
    (
        "fast, 4 publishers",
        "workloads/baseline-fast.toml",
        &["publishers.0.count=4"],
    ),
    (
        "fast, 16 publishers",
        "workloads/baseline-fast.toml",
        &["publishers.0.count=16"],
    ),
    (
        "fast, 64 publishers",
        "workloads/baseline-fast.toml",
        &["publishers.0.count=64"],
    ),
];
const SIZES: [&str; 2] = ["128B", "16KiB"];
const ASKED_FLOWS: [u32; 4] = [10, 100, 500, 1_000];

/// What of the API is measured beside: column, servers, publishers, payload, flow.
const BESIDE: [(&str, u8, u32, &str, u32); 6] = [
    ("R1, idle", 1, 0, "", 0),
    ("R1, 16 publishers, 128 B, flow 1,000", 1, 16, "128B", 1_000),
    (
        "R1, 64 publishers, 16 KiB, flow 1,000",
        1,
        64,
        "16KiB",
        1_000,
    ),
    ("R3, idle", 3, 0, "", 0),
    ("R3, 16 publishers, 128 B, flow 100", 3, 16, "128B", 100),
    (
        "R3, 16 publishers, 16 KiB, flow 1,000",
        3,
        16,
        "16KiB",
        1_000,
    ),
];

const FAULT_FILES: [(&str, &str, &str); 10] = [
    ("step-down", "ok", "workloads/leader-step-down-gap-ok.toml"),
    (
        "step-down",
        "fail",
        "workloads/leader-step-down-gap-fail.toml",
    ),
    (
        "kill of the leader",
        "ok",
        "workloads/leader-kill-gap-ok.toml",
    ),
    (
        "kill of the leader",
        "fail",
        "workloads/leader-kill-gap-fail.toml",
    ),
    (
        "freeze of the leader",
        "ok",
        "workloads/leader-freeze-gap-ok.toml",
    ),
    (
        "freeze of the leader",
        "fail",
        "workloads/leader-freeze-gap-fail.toml",
    ),
    (
        "freeze of a follower",
        "ok",
        "workloads/follower-freeze-gap-ok.toml",
    ),
    (
        "freeze of a follower",
        "fail",
        "workloads/follower-freeze-gap-fail.toml",
    ),
    (
        "rolling restart",
        "ok",
        "workloads/rolling-restart-gap-ok.toml",
    ),
    (
        "rolling restart",
        "fail",
        "workloads/rolling-restart-gap-fail.toml",
    ),
];

/// All of them, table by table.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (row, file, extra) in MODES {
        for servers in [1, 3] {
            // Without a stream there is nothing to replicate.
            if row.contains("no stream") && servers == 3 {
                continue;
            }
            for size in SIZES {
                let mut set = vec![format!("publishers.0.payload={size}")];
                set.extend(replicas(servers));
                set.extend(extra.iter().map(|set| (*set).to_owned()));
                cells.push(Cell {
                    table: BASELINES,
                    row: row.to_owned(),
                    column: format!("R{servers}, {size}"),
                    file,
                    servers,
                    set,
                });
            }
        }
    }
    for flow in ASKED_FLOWS {
        for servers in [1, 3] {
            let mut set = vec![
                "publishers.0.payload=128B".to_owned(),
                format!("publishers.0.flow={flow}"),
            ];
            set.extend(replicas(servers));
            cells.push(Cell {
                table: FLOWS,
                row: flow.to_string(),
                column: format!("R{servers}"),
                file: "workloads/baseline-fast.toml",
                servers,
                set,
            });
        }
    }
    for (column, servers, publishers, payload, flow) in BESIDE {
        let mut set: Vec<String> = match publishers {
            // One message at the very end keeps the run open.
            0 => vec![
                "publishers.0.count=1".to_owned(),
                "publishers.0.messages=1".to_owned(),
                "publishers.0.batches=1".to_owned(),
                "publishers.0.start=6s".to_owned(),
            ],
            _ => vec![
                format!("publishers.0.count={publishers}"),
                format!("publishers.0.payload={payload}"),
                format!("publishers.0.flow={flow}"),
                "warm_up=2s".to_owned(),
            ],
        };
        set.extend(replicas(servers));
        cells.push(Cell {
            table: API,
            row: String::new(),
            column: column.to_owned(),
            file: "workloads/api-latency.toml",
            servers,
            set,
        });
    }
    for (row, column, file) in FAULT_FILES {
        cells.push(Cell {
            table: FAULTS,
            row: row.to_owned(),
            column: column.to_owned(),
            file,
            servers: 3,
            set: Vec::new(),
        });
    }
    cells
}

fn replicas(servers: u8) -> Option<String> {
    (servers > 1).then(|| format!("stream.replicas={servers}"))
}
