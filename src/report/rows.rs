//! What is told of a run, by name: the same on a terminal and on a page.
//!
//! Leans on `result` and `text`.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::RunResult;
use super::chart::fault_name;
use super::text::{count, duration, mebibytes, percent, printable, short};
use crate::measure::{Distribution, FaultTimes};
use crate::scenario::Fault;

/// ` (publisher 1, batch 2)`, or what of it is known.
pub(super) fn whose(publisher: Option<u32>, batch: Option<u32>) -> String {
    match (publisher, batch) {
        (None, None) => String::new(),
        (Some(publisher), None) => format!(" (publisher {publisher})"),
        (None, Some(batch)) => format!(" (batch {batch})"),
        (Some(publisher), Some(batch)) => format!(" (publisher {publisher}, batch {batch})"),
    }
}

/// A moment of the run, to the microsecond.
pub(super) fn seconds(nanoseconds: u64) -> String {
    format!("{:.6} s", nanoseconds as f64 / 1e9)
}

/// The totals of a run by name: the same in every telling of it.
pub(super) fn total_rows(result: &RunResult) -> Vec<(&'static str, String)> {
    let totals = &result.totals;
    let known = |value: Option<u64>| value.map_or_else(|| "not looked at".to_owned(), count);
    let mut rows = vec![
        ("offered", count(totals.offered)),
        ("published", count(totals.published)),
        ("acknowledged", count(totals.acknowledged)),
        ("stored", known(totals.stored)),
        ("lost", known(totals.lost)),
        ("unacknowledged", count(totals.unacknowledged)),
        ("gaps", gap_text(result)),
        ("duplicates", count(totals.duplicates)),
        ("errors", error_text(result)),
        ("pings", count(totals.pings)),
        ("stalls", count(totals.stalls)),
        ("batches", batch_text(result)),
    ];
    let unsent = totals.offered.saturating_sub(totals.published);
    if unsent > 0 {
        rows.push(("never sent", count(unsent)));
    }
    if let Some(under_way) = totals.under_way.filter(|messages| *messages > 0) {
        rows.push(("under way", count(under_way)));
    }
    if totals.lost_to_power > 0 {
        rows.push(("power lost", count(totals.lost_to_power)));
    }
    if totals.stored_again > 0 {
        rows.push(("stored again", count(totals.stored_again)));
    }
    if !totals.dropped.is_empty() {
        let causes = totals.dropped.iter();
        let causes =
            causes.map(|(cause, frames)| format!("{} {}", count(*frames), printable(cause)));
        rows.push(("frames lost", causes.collect::<Vec<_>>().join(", ")));
    }
    rows
}

fn gap_text(result: &RunResult) -> String {
    let totals = &result.totals;
    if totals.gaps == 0 {
        return "0".to_owned();
    }
    format!(
        "{} ({} missing, {})",
        count(totals.gaps),
        count(totals.missing),
        percent(result.gap_rate)
    )
}

fn error_text(result: &RunResult) -> String {
    let errors = &result.totals.errors;
    if errors.is_empty() {
        return "0".to_owned();
    }
    let each = errors.iter();
    let each = each.map(|(code, times)| format!("{} x {code}", count(*times)));
    each.collect::<Vec<_>>().join(", ")
}

fn batch_text(result: &RunResult) -> String {
    let batches = &result.totals.batches;
    let mut text = count(batches.started);
    let endings: Vec<String> = batches
        .endings
        .iter()
        .map(|ending| {
            let code = match ending.code {
                0 => String::new(),
                code => format!(" {code}"),
            };
            format!(
                "{} {}{code}",
                count(ending.batches),
                ending.outcome.as_str()
            )
        })
        .collect();
    if !endings.is_empty() {
        let _ = write!(text, " ({})", endings.join(", "));
    }
    text
}

/// What was done to a run and who led it, in the order of the file and then of time: what, and when.
pub(super) fn happenings(result: &RunResult) -> Vec<(String, String)> {
    let numbered = result.config.faults.iter().enumerate();
    let faults = numbered.map(|(number, fault)| {
        let mut fired = result.faults.iter();
        let fired = fired.find(|times| times.fault as usize == number);
        let mut what = format!("fault {number}: {}", fault_name(fault));
        for server in fired.into_iter().flat_map(|times| &times.servers) {
            let _ = write!(what, ", {}", printable(server));
        }
        (what, when(fault, fired))
    });
    let leaders = result.leader_changes.iter().map(|change| {
        let what = match &change.leader {
            Some(leader) => format!("new leader: {}", printable(leader)),
            None => "no leader".to_owned(),
        };
        (what, seconds(change.at_ns))
    });
    faults.chain(leaders).collect()
}

/// When a fault fired: the first moments, or when it was to.
fn when(fault: &Fault, fired: Option<&FaultTimes>) -> String {
    const SHOWN: usize = 5;
    match (fired, fault.from, fault.until) {
        (Some(times), ..) if times.count > 0 => {
            let first = times.at_ns.iter().take(SHOWN).map(|at| seconds(*at));
            let first: Vec<String> = first.collect();
            let rest = match times.count.saturating_sub(first.len() as u64) {
                0 => String::new(),
                rest => format!(" and {} more times", count(rest)),
            };
            format!("{}{rest}", first.join(", "))
        }
        (_, Some(from), Some(until)) => format!("not fired; from {from} until {until}"),
        (_, Some(from), None) => format!("not fired; from {from} on"),
        _ => "never".to_owned(),
    }
}

/// What the servers of a live run took, by name.
pub(super) fn server_rows(result: &RunResult) -> Vec<(String, String)> {
    let rows = result.servers.iter().map(|series| {
        let cpu: Vec<f64> = series.cpu_percent.iter().copied().flatten().collect();
        let memory = series.memory_bytes.iter().flatten().max();
        let mut said = match cpu.len() {
            0 if !series.at_ns.is_empty() && !series.answered() => "never answered".to_owned(),
            0 => "CPU not told".to_owned(),
            looks => format!(
                "{:.0} % of a core on the mean, {:.0} % at the most",
                cpu.iter().sum::<f64>() / looks as f64,
                cpu.iter().copied().fold(0.0, f64::max)
            ),
        };
        if let Some(bytes) = memory {
            let _ = write!(said, "; up to {}", mebibytes(*bytes));
        }
        let dropped = series.slow_consumers.iter().flatten();
        if let Some(dropped) = dropped.max().filter(|dropped| **dropped > 0) {
            let _ = write!(said, "; {} slow consumers", count(*dropped));
        }
        let behind = series.raft_lag.iter().flatten();
        if let Some(entries) = behind.max().filter(|entries| **entries > 0) {
            let _ = write!(
                said,
                "; its replica up to {} append entries behind",
                count(*entries)
            );
        }
        (printable(&series.name).into_owned(), said)
    });
    rows.collect()
}

/// The generator of a live run, by name: what it took, how late it was, and what it could have done.
pub(super) fn generator_rows(result: &RunResult) -> Vec<(&'static str, String)> {
    let Some(generator) = &result.generator else {
        return Vec::new();
    };
    let waited = match generator.waited_for_core_ns {
        Some(waited) if waited > 0 => format!(", waited {} for one", duration(waited)),
        _ => String::new(),
    };
    let mut rows = vec![(
        "generator",
        format!(
            "{} of a core{waited}; {} msg/s of CPU time",
            percent(generator.core_share),
            short(generator.messages_per_cpu_second)
        ),
    )];
    if let Some(ceiling) = generator.ceiling {
        rows.push((
            "its ceiling",
            format!(
                "{} msg/s, of which the run took {}{}",
                short(ceiling.messages_per_cpu_second),
                percent(ceiling.share),
                match generator.client_bound {
                    Some(true) => ": client-bound",
                    Some(false) | None => "",
                }
            ),
        ));
    }
    if let Some(late) = generator.late_starts {
        let lag = &generator.wake_lag_ns;
        rows.push((
            "its lateness",
            format!(
                "woke late by p50 {}, p99 {}, max {}; {} late starts",
                duration(lag.p50),
                duration(lag.p99),
                duration(lag.max),
                count(late)
            ),
        ));
    }
    rows
}

/// What a reader has to know, of the run and of its groups; foreign text as it came.
pub(super) fn notes(result: &RunResult) -> impl Iterator<Item = Cow<'_, str>> {
    let groups = result.groups.iter().filter_map(|group| {
        let note = group.note.as_ref()?;
        Some(Cow::Owned(format!("{}: {note}", group.name)))
    });
    let run = result.notes.iter();
    run.map(|note| Cow::Borrowed(note.as_str())).chain(groups)
}

/// What is told of every distribution, in this order; see [`quantiles`].
pub(super) const QUANTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// The values of [`QUANTILES`].
pub(super) const fn quantiles(distribution: &Distribution) -> [u64; 5] {
    [
        distribution.p50,
        distribution.p90,
        distribution.p99,
        distribution.p999,
        distribution.max,
    ]
}
