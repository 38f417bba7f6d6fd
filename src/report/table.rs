//! The summary on a terminal: the verdict first, then what was counted, then how fast it was.
//!
//! Leans on `result`, `set` and `rows`. Colour is the caller's choice: only where a person looks.

use std::fmt::Write as _;

use super::api;
use super::paint::Painter;
use super::rows::{
    QUANTILES, generator_rows, happenings, notes, quantiles, seconds, server_rows, total_rows,
    whose,
};
use super::text::{byte_rate, count, duration, mebibytes, percent, printable, short, shortened};
use super::verdict::{is_open, word};
use super::{RunResult, RunSet, SetSummary, Verdict, place};
use crate::measure::Distribution;

/// Violations and stalls told in full; the rest is counted.
const TOLD: usize = 5;
/// Faults and leader changes told in full.
const HAPPENINGS: usize = 20;
/// Runs of a set that went as expected and are told one by one; the rest is counted.
const RUNS: usize = 20;
/// The same for runs that did not.
const WRONG_RUNS: usize = 200;

/// The summary of one run.
pub fn table(result: &RunResult, colour: bool) -> String {
    let mut text = String::new();
    let paint = Painter { colour };
    let lines = [head(result, paint), counts(result), speed(result)];
    for part in lines.into_iter().flatten() {
        text.push_str(&part);
        text.push('\n');
    }
    text
}

/// The summary of several runs.
pub fn set_table(set: &RunSet, colour: bool) -> String {
    let mut table = SetTable::new(colour);
    set.runs.iter().for_each(|run| table.add(run));
    table.finish(&set.summary)
}

/// The summary of several runs, told one after the other.
pub struct SetTable {
    paint: Painter,
    rows: String,
    as_expected: usize,
    not: usize,
}

impl SetTable {
    /// No run yet.
    pub const fn new(colour: bool) -> Self {
        Self {
            paint: Painter { colour },
            rows: String::new(),
            as_expected: 0,
            not: 0,
        }
    }

    /// The next run. The first ones get a row each, and more of those that went wrong.
    pub fn add(&mut self, run: &RunResult) {
        let (seen, most) = if run.expected {
            (&mut self.as_expected, RUNS)
        } else {
            (&mut self.not, WRONG_RUNS)
        };
        *seen += 1;
        if *seen > most {
            return;
        }
        let latency = &run.ack_latency_ns;
        // Writing to memory does not fail.
        let _ = writeln!(
            self.rows,
            "{}  {} seed {}{}  {} msg/s  p50 {}  p99 {}",
            badge(run, self.paint),
            printable(&run.file),
            run.seed,
            partial(run, self.paint),
            short(run.throughput.messages_per_second),
            duration(latency.p50),
            duration(latency.p99),
        );
    }

    /// The whole table.
    pub fn finish(self, summary: &SetSummary) -> String {
        let mut text = self.rows;
        for (seen, most, what) in [
            (self.as_expected, RUNS, "as expected"),
            (self.not, WRONG_RUNS, "not as expected"),
        ] {
            if seen > most {
                let _ = writeln!(text, "… and {} more {what}", count((seen - most) as u64));
            }
        }
        let wanted = if summary.wanted > summary.runs {
            format!(" of {}", count(summary.wanted))
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{}{wanted} runs{}: {} as expected, {} not; pass {}, violation {}, stall {}, failed {}",
            count(summary.runs),
            if summary.partial {
                self.paint.notable(" (partial: ended early)")
            } else {
                String::new()
            },
            count(summary.expected),
            count(summary.unexpected),
            count(summary.pass),
            count(summary.violation),
            count(summary.stall),
            count(summary.failed),
        );
        for line in latency_lines(&summary.ack_latency_ns, &summary.response_time_ns) {
            let _ = writeln!(text, "{line}");
        }
        for replay in summary.replay.iter().take(WRONG_RUNS) {
            let _ = writeln!(text, "replay  {}", printable(replay));
        }
        if summary.replay.len() > WRONG_RUNS {
            let _ = writeln!(text, "… and more in the result file");
        }
        text
    }
}

/// The verdict, and whether it was expected. A run that ended early without trouble has not passed.
fn badge(result: &RunResult, paint: Painter) -> String {
    if is_open(result) {
        return paint.bad("PARTIAL");
    }
    let verdict = word(result.verdict).to_uppercase();
    match (result.expected, result.verdict) {
        (true, Verdict::Pass) => paint.good(&verdict),
        (true, Verdict::Violation | Verdict::Stall | Verdict::Failed) => {
            paint.notable(&format!("{verdict} (as expected)"))
        }
        (false, Verdict::Pass) => paint.bad("PASS (not as expected)"),
        (false, Verdict::Violation | Verdict::Stall | Verdict::Failed) => paint.bad(&verdict),
    }
}

fn partial(result: &RunResult, paint: Painter) -> String {
    if is_open(result) {
        paint.notable("  ended early, nothing wrong until then")
    } else if result.partial {
        paint.notable("  partial: ended early")
    } else {
        String::new()
    }
}

fn head(result: &RunResult, paint: Painter) -> Vec<String> {
    let partial = partial(result, paint);
    let mut lines = vec![format!(
        "{}  {} {} seed {}{partial}",
        badge(result, paint),
        place(result.world, result.lane),
        printable(&result.file),
        result.seed,
    )];
    let about = printable(&result.config.about);
    if !about.is_empty() {
        lines.push(paint.dim(&about));
    }
    lines.extend(
        result
            .unmet
            .iter()
            .map(|unmet| format!("{}  {}", paint.bad("expected"), printable(unmet))),
    );
    for violation in result.violations.iter().take(TOLD) {
        lines.push(format!(
            "violation  {} [{}] at {}{}: {}",
            printable(&violation.judge),
            printable(&violation.clause),
            seconds(violation.at_ns),
            whose(violation.publisher, violation.batch),
            printable(&violation.message),
        ));
    }
    lines.extend(more(result.violations.len(), "violations"));
    for stall in result.stalls.iter().take(TOLD) {
        lines.push(format!(
            "stall  publisher {} in batch {} at {}: would be released by {}",
            stall.publisher,
            stall.batch,
            seconds(stall.at_ns),
            printable(&stall.release),
        ));
    }
    lines.extend(more(result.stalls.len(), "stalls"));
    if !result.expected || result.verdict != Verdict::Pass {
        lines.push(format!("replay  {}", printable(&result.replay)));
    }
    let happenings = happenings(result);
    let told = happenings.iter().take(HAPPENINGS);
    lines.extend(told.map(|(what, when)| format!("{what}, {when}")));
    if happenings.len() > HAPPENINGS {
        lines.push(format!("… and {} more", happenings.len() - HAPPENINGS));
    }
    lines.push(String::new());
    lines
}

fn more(all: usize, what: &str) -> Option<String> {
    (all > TOLD).then(|| format!("… and {} more {what}", all - TOLD))
}

/// Two columns of totals.
fn counts(result: &RunResult) -> Vec<String> {
    let rows = total_rows(result);
    let half = rows.len().div_ceil(2);
    let (left, right) = rows.split_at(half);
    let widest = left.iter().map(|(_, value)| value.chars().count()).max();
    let widest = widest.unwrap_or(0).max(12);
    let mut lines = Vec::with_capacity(half + 1);
    for (index, (name, value)) in left.iter().enumerate() {
        let mut line = format!("{name:<15}{value:>widest$}");
        if let Some((name, value)) = right.get(index) {
            let _ = write!(line, "     {name:<13}{value}");
        }
        lines.push(line);
    }
    lines.push(String::new());
    lines
}

fn speed(result: &RunResult) -> Vec<String> {
    let throughput = &result.throughput;
    let mut lines = vec![format!(
        "throughput     {} msg/s, {} over {}",
        short(throughput.messages_per_second),
        byte_rate(throughput.bytes_per_second),
        duration(result.window.until_ns.saturating_sub(result.window.from_ns)),
    )];
    lines.extend(latency_lines(
        &result.ack_latency_ns,
        &result.response_time_ns,
    ));
    let calls = api::rows(result);
    if !calls.is_empty() {
        lines.push("API latency, from the intended start:".to_owned());
        lines.extend(calls);
    }
    let waits = &result.stall_time_ns;
    if waits.total > 0 {
        lines.push(format!(
            "waits at gate  {} of the time, longest {}",
            percent(waits.share),
            duration(waits.waits.max)
        ));
    }
    if let Some(fairness) = result.fairness {
        lines.push(format!("fairness       {fairness:.4} (Jain)"));
    }
    lines.push(format!(
        "cost           {} wall time, {} msg/s, {}x real time{}",
        duration(result.cost.wall_ns),
        short(result.cost.messages_per_wall_second),
        short(result.cost.simulated_seconds_per_wall_second),
        result
            .cost
            .peak_rss_bytes
            .map_or_else(String::new, |bytes| format!(", {}", mebibytes(bytes))),
    ));
    let generator = generator_rows(result).into_iter();
    lines.extend(generator.map(|(name, value)| format!("{name:<15}{value}")));
    let servers = server_rows(result).into_iter();
    lines.extend(servers.map(|(name, value)| {
        // A server that was given no name has an id of 56 characters.
        format!("{:<15}{value}", shortened(&name, 14))
    }));
    if let Some(hash) = &result.trace_hash {
        lines.push(format!("trace          {}", printable(hash)));
    }
    let notes = notes(result);
    lines.extend(notes.map(|note| format!("note           {}", printable(&note))));
    lines
}

fn latency_lines(latency: &Distribution, response: &Distribution) -> Vec<String> {
    if latency.count == 0 {
        return vec!["ack latency    nothing measured".to_owned()];
    }
    let row = |name: &str, distribution: &Distribution| {
        let cells: String = quantiles(distribution)
            .iter()
            .map(|value| format!("{:>10}", duration(*value)))
            .collect();
        format!("{name:<15}{cells}")
    };
    let head: String = QUANTILES.iter().map(|name| format!("{name:>10}")).collect();
    vec![
        format!("{:<15}{head}", ""),
        row("ack latency", latency),
        row("response time", response),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::FaultTimes;
    use crate::report::synthetic;

    fn trouble() -> RunResult {
        let shapes = synthetic::shapes();
        let (_, shape) = shapes.iter().find(|(name, _)| *name == "trouble").unwrap();
        RunResult::new(synthetic::record(shape))
    }

    #[test]
    fn a_person_finds_verdict_reason_and_replay_on_top() {
        let text = table(&trouble(), false);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("VIOLATION  sim sims/nats/steady.toml seed 7"));
        let head = lines[..8].join("\n");
        for part in [
            "expected  verdict: expected pass, got violation",
            "violation  gate [fast.flow.gate] at 4.200000 s (publisher 0, batch 0)",
            "would be released by flow ack 4711",
            "replay  tidegate sim sims/nats/steady.toml --seed 7",
        ] {
            assert!(head.contains(part), "{part}\n{text}");
        }
        assert!(text.contains("ack latency"));
    }

    #[test]
    fn faults_are_told_with_their_servers_and_so_are_new_leaders() {
        let mut result = trouble();
        result.faults = vec![FaultTimes {
            fault: 1,
            count: 1,
            at_ns: vec![5_500_000_000],
            last_ns: 5_500_000_000,
            servers: vec!["server 1".to_owned()],
        }];
        let text = table(&result, false);
        assert!(
            text.contains("\nfault 1: link cut, server 1, 5.500000 s\n"),
            "{text}"
        );
        assert!(text.contains("\nnew leader: "), "{text}");
    }

    #[test]
    fn a_backlog_and_what_servers_say_are_told_where_there_are_any() {
        let mut result = trouble();
        assert!(!table(&result, false).contains("never sent"));
        result.totals.offered = result.totals.published + 1_234;
        let text = table(&result, false);
        let page = crate::report::page(&result).unwrap();
        let row = text.lines().find(|line| line.contains("never sent"));
        assert!(row.is_some_and(|row| row.contains("1,234")), "{text}");
        assert!(page.contains("<th>never sent</th><td>1,234"));
        for (name, said) in [
            ("server 0", "never answered"),
            (
                "server 2",
                "1 slow consumers; its replica up to 10 append entries behind",
            ),
        ] {
            let line = text.lines().find(|line| line.starts_with(name));
            assert!(line.is_some_and(|line| line.contains(said)), "{text}");
            assert!(page.contains(said), "{said}");
        }
    }

    #[test]
    fn a_live_run_tells_what_its_generator_had_left() {
        let mut result = trouble();
        assert!(!table(&result, false).contains("generator"));
        result.generator = Some(synthetic::generator());
        let text = table(&result, false);
        for line in [
            "generator      90 % of a core, waited 5 ms for one; 200k msg/s of CPU time",
            "its ceiling    240k msg/s, of which the run took 75 %: client-bound",
            "its lateness   woke late by p50 50 us, p99 2 ms, max 2 ms; 3 late starts",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        let page = crate::report::page(&result).unwrap();
        assert!(page.contains("<th>its ceiling</th><td>240k msg/s"));
    }

    #[test]
    fn an_interrupted_run_has_not_passed() {
        let mut record = crate::report::empty_record();
        record.partial = true;
        let result = RunResult::new(record);
        let text = table(&result, false);
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("PARTIAL  sim "), "{first}");
        assert!(first.ends_with("ended early, nothing wrong until then"));
        assert!(text.contains("expected  the run was broken off"), "{text}");
        let set = RunSet::new(vec![result, trouble()]).unwrap();
        let text = set_table(&set, false);
        assert!(
            text.contains("2 runs (partial: ended early): 0 as expected, 2 not"),
            "{text}"
        );
    }

    #[test]
    fn without_colour_nothing_steers_a_terminal() {
        let mut result = trouble();
        result.file = "evil\x1b]0;title\x07.toml".to_owned();
        result.notes.push("\u{202e}note".to_owned());
        let plain = table(&result, false);
        let steering = |c: char| c.is_control() && c != '\n';
        assert!(!plain.contains(steering), "{plain:?}");
        assert!(!plain.contains('\u{202e}'));
        let set = RunSet::new(vec![result.clone()]).unwrap();
        assert!(!set_table(&set, false).contains(steering));
        // With colour the only escapes are ours, which end in `m`.
        let coloured = table(&result, true);
        for part in coloured.split('\x1b').skip(1) {
            let code: String = part.chars().take_while(|c| *c != 'm').collect();
            assert!(code.starts_with('['), "{part:?}");
            assert!(code[1..].chars().all(|c| c.is_ascii_digit() || c == ';'));
        }
    }

    #[test]
    fn a_set_names_every_run_that_went_wrong() {
        let mut good = trouble();
        good.expected = true;
        let mut runs = vec![good; 30];
        runs[25].expected = false;
        runs[25].seed = 4_711;
        let set = RunSet::new(runs).unwrap();
        let text = set_table(&set, false);
        assert!(text.contains("seed 4711"), "{text}");
        assert!(text.contains("and 9 more as expected"), "{text}");
        assert!(text.contains("30 runs: 29 as expected, 1 not"), "{text}");
    }
}
