//! Telling what a run did: result files, terminal table, charts, and one page that holds it all.
//!
//! Everything here reads a [`RunResult`] and nothing of the worlds, so a result says the same years
//! later. Leans on `measure` and `scenario`.

mod api;
mod atomic;
pub mod chart;
mod compare;
mod export;
mod file;
mod html;
mod paint;
mod plausible;
mod result;
mod rows;
mod set;
#[cfg(test)]
mod synthetic;
mod table;
mod text;
mod verdict;
mod warm_up;

pub use atomic::{AtomicFile, Unfinished, discard_unfinished, write_atomically};
pub use compare::{
    Basis, Candidate, Comparison, Finding, Metric, Row, Rules, Side, SideSummary, compare,
    comparison_page, comparison_table,
};
pub use export::{latency_log, series_csv, series_parquet};
pub use file::ResultFile;
pub use html::page;
pub use result::{
    Cost, FORMAT, RunLane, RunRecord, RunResult, Stall, Verdict, Violation, World, place,
    replay_command, resolved, shell_word,
};
pub use set::{RunSet, SetSummary, SetWriter};
pub use table::{SetTable, set_table, table};
pub use text::{duration, escape_html, printable};
pub use verdict::{Cut, Judgement, judge};

#[cfg(test)]
pub(crate) use result::tests::record as empty_record;
