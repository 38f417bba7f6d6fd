//! One self-contained page for one run: verdict, figures, charts, settings, and the result itself.
//!
//! Nothing is loaded from anywhere, no script runs, and every text that did not come from tidegate
//! is escaped. Leans on `result`, `chart` and `rows`.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::api::fates;
use super::chart::{self, ChartError};
use super::rows::{QUANTILES, generator_rows, notes, quantiles, seconds, server_rows, total_rows};
use super::text::{byte_rate, count, duration, escape_html, mebibytes, percent, short};
use super::verdict::{is_open, word};
use super::{ResultFile, RunLane, RunResult, Verdict, World};
use crate::measure::Distribution;

/// The page holds what it needs: looks, and data for the download. Everything else is refused, so
/// that no foreign text could load or run anything even if it were not escaped.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
static STYLE: &str = include_str!("../../assets/report.css");
static HOW_TO_READ: &str = include_str!("../../assets/how-to-read.html");

/// Adds to a page; writing to memory does not fail.
macro_rules! put {
    ($page:expr, $($part:tt)*) => {{
        let _ = write!($page, $($part)*);
    }};
}
pub(super) use put;

/// Begins a page: `title` is escaped already.
pub(super) fn open(page: &mut String, title: &str) {
    page.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    page.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    put!(
        page,
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n"
    );
    put!(
        page,
        "<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
    );
}

/// Ends a page that [`open`] began.
pub(super) fn close(page: &mut String) {
    page.push_str("</main>\n</body>\n</html>\n");
}

/// The page of a run.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn page(result: &RunResult) -> Result<String, ChartError> {
    let mut page = String::with_capacity(256 << 10);
    let title = format!(
        "{}, seed {}: {}",
        escape_html(&result.file),
        result.seed,
        told(result)
    );
    open(&mut page, &title);
    head(&mut page, result);
    verdict(&mut page, result);
    cards(&mut page, result);
    page.push_str("<h2>Charts</h2>\n");
    for chart in chart::all(result) {
        let svg = chart.svg()?;
        put!(page, "<div class=\"chart\">\n{svg}</div>\n");
    }
    latencies(&mut page, result);
    totals(&mut page, result);
    violations(&mut page, result);
    happenings(&mut page, result);
    settings(&mut page, result);
    page.push_str(HOW_TO_READ);
    whole_result(&mut page, result);
    close(&mut page);
    Ok(page)
}

fn head(page: &mut String, result: &RunResult) {
    let world = match (result.world, result.lane) {
        (World::Live, _) => "on a live server",
        (World::Sim, Some(RunLane::Wire)) => "in the simulator's wire lane",
        (World::Sim, Some(RunLane::WireTurmoil)) => "in the simulator's wire lane, on turmoil",
        (World::Sim, Some(RunLane::Event) | None) => "in the simulator",
    };
    let trace = match &result.trace_hash {
        Some(hash) => format!(" · trace <code>{}</code>", escape_html(hash)),
        None => String::new(),
    };
    put!(
        page,
        "<h1>{}</h1>\n<p>{}</p>\n<p class=\"muted\">seed {} · {world} · config <code>{}</code>\
             {trace} · tidegate {}</p>\n",
        escape_html(&result.file),
        escape_html(&result.config.about),
        result.seed,
        escape_html(&result.config_hash),
        escape_html(&result.tool_version)
    );
}

/// The verdict, and that a run ended early.
fn told(result: &RunResult) -> String {
    match (is_open(result), result.partial) {
        (true, _) => "partial".to_owned(),
        (false, true) => format!("{}, partial", word(result.verdict)),
        (false, false) => word(result.verdict).to_owned(),
    }
}

/// The box on top: what came out, why, and how to see it again.
fn verdict(page: &mut String, result: &RunResult) {
    let (tone, said) = match (result.expected, result.verdict) {
        (true, Verdict::Pass) => ("good", "as the file expects"),
        (true, Verdict::Violation | Verdict::Stall | Verdict::Failed) => {
            ("notable", "as the file expects")
        }
        (false, _) if is_open(result) => ("bad", "nothing wrong was seen until the run ended"),
        (false, _) => ("bad", "not as the file expects"),
    };
    put!(
        page,
        "<section class=\"verdict {tone}\">\n<strong>{}</strong> {said}\n",
        told(result)
    );
    if result.partial {
        page.push_str(
            "<p>The run ended early: by its time limit, a signal, or a failure around it. What \
             follows was measured up to then.</p>\n",
        );
    }
    list(page, result.unmet.iter().map(|unmet| escape_html(unmet)));
    list(
        page,
        result.stalls.iter().take(3).map(|stall| {
            format!(
                "Publisher {} in batch {} stalled. It would have been released by: <b>{}</b>",
                stall.publisher,
                stall.batch,
                escape_html(&stall.release)
            )
        }),
    );
    if !result.expected || result.verdict != Verdict::Pass {
        put!(
            page,
            "<p>See it again:</p>\n<pre>{}</pre>\n",
            escape_html(&result.replay)
        );
    }
    page.push_str("</section>\n");
    list(page, notes(result).map(|note| escape_html(&note)));
}

/// A list of escaped texts, if there are any.
fn list(page: &mut String, items: impl Iterator<Item = String>) {
    let mut items = items.peekable();
    if items.peek().is_none() {
        return;
    }
    page.push_str("<ul>\n");
    for item in items {
        put!(page, "<li>{item}</li>\n");
    }
    page.push_str("</ul>\n");
}

fn cards(page: &mut String, result: &RunResult) {
    let latency = &result.ack_latency_ns;
    let span = |value: u64| {
        if latency.count == 0 {
            "–".to_owned()
        } else {
            duration(value)
        }
    };
    let totals = &result.totals;
    let throughput = &result.throughput;
    let lost = totals.lost.map_or_else(|| "–".to_owned(), count);
    let cards = [
        (
            short(throughput.messages_per_second),
            "messages/s acknowledged",
        ),
        (byte_rate(throughput.bytes_per_second), "payload"),
        (span(latency.p50), "ack latency, half"),
        (span(latency.p99), "ack latency, 99 %"),
        (
            percent(result.stall_time_ns.share),
            "of the time at a shut gate",
        ),
        (lost, "messages lost"),
    ];
    page.push_str("<section class=\"cards\">\n");
    for (value, name) in cards {
        put!(
            page,
            "<div class=\"card\"><b>{value}</b><span>{name}</span></div>\n"
        );
    }
    page.push_str("</section>\n");
}

fn latencies(page: &mut String, result: &RunResult) {
    page.push_str("<h2>Latencies</h2>\n<div class=\"scroll\"><table>\n<tr><th>what</th>");
    for name in ["count"].iter().chain(&QUANTILES) {
        put!(page, "<th class=\"number\">{name}</th>");
    }
    page.push_str("</tr>\n");
    let mut row = |name: &str, distribution: &Distribution| {
        put!(
            page,
            "<tr><td>{name}</td><td class=\"number\">{}</td>",
            count(distribution.count)
        );
        for value in quantiles(distribution) {
            let text = if distribution.count == 0 {
                "–".to_owned()
            } else {
                duration(value)
            };
            put!(page, "<td class=\"number\">{text}</td>");
        }
        page.push_str("</tr>\n");
    };
    row("ack latency, from send", &result.ack_latency_ns);
    row(
        "response time, from the intended start",
        &result.response_time_ns,
    );
    row("wait at a shut gate", &result.stall_time_ns.waits);
    if result.groups.len() > 1 {
        for group in &result.groups {
            let name = escape_html(&group.name);
            row(&format!("{name}: ack latency"), &group.ack_latency_ns);
            row(&format!("{name}: response time"), &group.response_time_ns);
        }
    }
    for (operation, latency) in &result.api_latency_ns {
        row(&format!("API {}", escape_html(operation)), latency);
    }
    page.push_str("</table></div>\n");
}

fn totals(page: &mut String, result: &RunResult) {
    page.push_str("<h2>Totals</h2>\n<div class=\"scroll\"><table>\n");
    let mut rows = total_rows(result);
    if !result.api_calls.is_empty() {
        let calls = result.api_calls.iter();
        let calls = calls.map(|(name, calls)| format!("{name}: {}", fates(calls)));
        rows.push(("API requests", calls.collect::<Vec<_>>().join("; ")));
    }
    if let Some(fairness) = result.fairness {
        rows.push(("fairness (Jain)", format!("{fairness:.4}")));
    }
    let cost = &result.cost;
    rows.push(("wall time", duration(cost.wall_ns)));
    rows.push((
        "messages per wall second",
        short(cost.messages_per_wall_second),
    ));
    if let Some(bytes) = cost.peak_rss_bytes {
        rows.push(("peak memory", mebibytes(bytes)));
    }
    rows.extend(generator_rows(result));
    for (name, value) in rows {
        put!(
            page,
            "<tr><th>{name}</th><td>{}</td></tr>\n",
            escape_html(&value)
        );
    }
    for (name, value) in server_rows(result) {
        let (name, value) = (escape_html(&name), escape_html(&value));
        put!(page, "<tr><th>{name}</th><td>{value}</td></tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn violations(page: &mut String, result: &RunResult) {
    if !result.violations.is_empty() {
        page.push_str(
            "<h2>Violations</h2>\n<div class=\"scroll\"><table>\n<tr><th>at</th><th>judge</th>\
             <th>clause</th><th>publisher</th><th>batch</th><th>what</th></tr>\n",
        );
        let known = |number: Option<u32>| number.map_or_else(|| "–".to_owned(), |n| n.to_string());
        for violation in &result.violations {
            put!(
                page,
                "<tr><td class=\"moment\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                     <td>{}</td></tr>\n",
                seconds(violation.at_ns),
                escape_html(&violation.judge),
                escape_html(&violation.clause),
                known(violation.publisher),
                known(violation.batch),
                escape_html(&violation.message)
            );
        }
        page.push_str("</table></div>\n");
    }
    if !result.stalls.is_empty() {
        page.push_str(
            "<h2>Stalls</h2>\n<div class=\"scroll\"><table>\n<tr><th>found at</th>\
             <th>publisher</th><th>batch</th><th>would be released by</th></tr>\n",
        );
        for stall in &result.stalls {
            put!(
                page,
                "<tr><td class=\"moment\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                seconds(stall.at_ns),
                stall.publisher,
                stall.batch,
                escape_html(&stall.release)
            );
        }
        page.push_str("</table></div>\n");
    }
}

/// Faults and leader changes: what was done to the run.
fn happenings(page: &mut String, result: &RunResult) {
    let rows = super::rows::happenings(result);
    if rows.is_empty() {
        return;
    }
    page.push_str("<h2>What happened</h2>\n<div class=\"scroll\"><table>\n<tr><th>what</th><th>when</th></tr>\n");
    for (what, when) in &rows {
        let what = escape_html(what);
        put!(page, "<tr><td>{what}</td><td>{when}</td></tr>\n");
    }
    page.push_str("</table></div>\n");
}

fn settings(page: &mut String, result: &RunResult) {
    let text = toml::to_string(&result.config).unwrap_or_else(|_| {
        serde_json::to_string_pretty(&result.config)
            .expect("settings have text keys only, so they can be written")
    });
    put!(
        page,
        "<h2>Settings</h2>\n<details><summary>The whole file with its defaults filled in</summary>\n\
             <pre>{}</pre></details>\n",
        escape_lines(&text)
    );
}

fn whole_result(page: &mut String, result: &RunResult) {
    let json = ResultFile::Run(Box::new(result.clone())).to_json();
    put!(
        page,
        "<h2>Result</h2>\n<p><a download=\"result.json\" \
             href=\"data:application/json;base64,{}\">Download the result file</a>, from which \
             this page was made.</p>\n<details><summary>Read it here</summary>\n\
             <pre id=\"result\">{}</pre></details>\n",
        STANDARD.encode(&json),
        escape_lines(&json)
    );
}

/// Escapes a text of several lines, keeping its line ends.
pub(super) fn escape_lines(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for line in text.lines() {
        escaped.push_str(&escape_html(line));
        escaped.push('\n');
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic;

    fn trouble() -> RunResult {
        let shapes = synthetic::shapes();
        let (_, shape) = shapes.iter().find(|(name, _)| *name == "trouble").unwrap();
        RunResult::new(synthetic::record(shape))
    }

    #[test]
    fn the_page_needs_nothing_from_outside_and_runs_nothing() {
        let page = page(&trouble()).unwrap();
        for banned in [
            "<script", "<link", "<img", "<iframe", "src=", "@import", "url(",
        ] {
            assert!(!page.contains(banned), "{banned}");
        }
        let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
        assert!(!page.replace(namespace, "").contains("http://"));
        assert!(!page.contains("https://"));
    }

    #[test]
    fn verdict_release_and_replay_stand_above_everything_else() {
        let page = page(&trouble()).unwrap();
        let top = &page[..page.find("class=\"cards\"").unwrap()];
        for part in [
            "<strong>violation</strong> not as the file expects",
            "released by: <b>flow ack 4711, which was dropped at the server&#39;s output</b>",
            "<pre>tidegate sim sims/nats/steady.toml --seed 7</pre>",
        ] {
            assert!(top.contains(part), "{part}");
        }
    }

    #[test]
    fn a_partial_run_says_so_in_title_and_verdict() {
        let mut record = crate::report::empty_record();
        record.partial = true;
        let interrupted = page(&RunResult::new(record)).unwrap();
        assert!(interrupted.contains("seed 7: partial</title>"));
        assert!(interrupted.contains("<strong>partial</strong> nothing wrong was seen until"));
        assert!(!interrupted.contains("<strong>pass"));
        let mut broken = trouble();
        broken.partial = true;
        let broken = page(&broken).unwrap();
        assert!(broken.contains("seed 7: violation, partial</title>"));
    }

    #[test]
    fn foreign_text_is_escaped_everywhere() {
        let evil = "</script><svg onload=alert(1)>\"'&\u{1b}[2J\u{202e}";
        let mut result = trouble();
        result.file = evil.to_owned();
        result.replay = evil.to_owned();
        result.tool_version = evil.to_owned();
        result.config_hash = evil.to_owned();
        result.trace_hash = Some(evil.to_owned());
        result.notes = vec![evil.to_owned()];
        result.unmet = vec![evil.to_owned()];
        result.violations[0].message = evil.to_owned();
        result.violations[0].judge = evil.to_owned();
        result.violations[0].clause = evil.to_owned();
        result.stalls[0].release = evil.to_owned();
        result.leader_changes[0].leader = Some(evil.to_owned());
        result.groups[0].name = evil.to_owned();
        result.groups[0].note = Some(evil.to_owned());
        result.groups.push(result.groups[0].clone());
        result.config.about = evil.to_owned();
        result.config.publishers[0].name = evil.to_owned();
        result.config.publishers[0].subject = evil.to_owned();
        let latency = result.ack_latency_ns.clone();
        result.api_latency_ns.insert(evil.to_owned(), latency);
        result.totals.dropped.insert(evil.to_owned(), 1);
        let page = page(&result).unwrap();
        assert!(!page.contains("onload=alert(1)>"));
        assert!(!page.contains("</script>"));
        assert!(!page.contains(['\u{1b}', '\u{202e}']));
    }

    #[test]
    fn the_dark_looks_restyle_colours_that_charts_have() {
        let svg: String = chart::all(&trouble())
            .iter()
            .map(|chart| chart.svg().unwrap())
            .collect();
        let mut restyled = 0;
        for line in STYLE.lines().filter(|line| line.contains(".chart [")) {
            let (_, rest) = line.split_once('[').unwrap();
            let (attribute, _) = rest.split_once(']').unwrap();
            let (_, colour) = attribute.split_once('=').unwrap();
            assert!(svg.contains(colour), "{colour}");
            restyled += 1;
        }
        assert!(restyled >= 10);
    }

    #[test]
    fn the_result_can_be_taken_out_of_the_page() {
        let result = trouble();
        let page = page(&result).unwrap();
        let (_, rest) = page.split_once("data:application/json;base64,").unwrap();
        let (data, _) = rest.split_once('"').unwrap();
        let json = String::from_utf8(STANDARD.decode(data).unwrap()).unwrap();
        let read = ResultFile::parse("result.json", &json).unwrap();
        assert!(read.runs() == [result]);
    }
}
