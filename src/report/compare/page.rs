//! A comparison as one self-contained page: what it comes to, every figure with its interval drawn, and
//! the sides laid over one another.
//!
//! As with the page of a run, nothing is loaded, no script runs, and foreign text is escaped. Leans on
//! `html`, `chart` and `text`.

use std::fmt::Write as _;

use super::text::{effect, interval, side};
use super::{Candidate, Comparison, Finding, Row, Side};
use crate::report::chart::{self, ChartError};
use crate::report::escape_html;
use crate::report::html::{close, escape_lines, open, put};
use crate::report::text::percent;

/// Width of the drawn intervals.
const WIDTH: f64 = 150.0;

/// The page of a comparison of these sides, the baseline first.
///
/// # Errors
/// When a chart cannot be drawn.
pub fn comparison_page(comparison: &Comparison, sides: &[&Side]) -> Result<String, ChartError> {
    let baseline = escape_html(&side(&comparison.baseline));
    let mut page = String::with_capacity(64 << 10);
    open(&mut page, &format!("comparison with {baseline}"));
    put!(
        page,
        "<h1>Comparison</h1>\n<p>Held against <b>{baseline}</b>.</p>\n"
    );
    for candidate in &comparison.candidates {
        verdict(&mut page, candidate, comparison);
        figures(&mut page, candidate, comparison.tolerance);
    }
    page.push_str("<h2>Charts</h2>\n");
    for chart in chart::overlays(sides) {
        put!(page, "<div class=\"chart\">\n{}</div>\n", chart.svg()?);
    }
    page.push_str(HOW_TO_READ);
    whole_document(&mut page, comparison);
    close(&mut page);
    Ok(page)
}

const HOW_TO_READ: &str = "<h2>How to read this</h2>\n<dl>\n\
<dt>Change</dt><dd>Of the baseline, in percent; of parts, in percentage points. Figures of several runs \
are geometric means over runs, those of parts plain means.</dd>\n\
<dt>Interval</dt><dd>Where the true change lies, so surely that all judged figures hold together. From \
run to run (Welch) where both sides have several runs. Within one run where each side has one: its time slices are \
drawn again and again, in blocks twice as long as they are correlated; what changes from run to run is not \
in it.</dd>\n\
<dt>Better, worse</dt><dd>The change is beyond the tolerance, and the interval is on that side of zero. \
<b>Same</b>: the whole interval is within the tolerance. <b>Unclear</b>: neither.</dd>\n\
<dt>g</dt><dd>Hedges' g: the change in standard deviations from run to run. 0.2 is small, 0.8 is \
large.</dd>\n</dl>\n";

fn verdict(page: &mut String, candidate: &Candidate, comparison: &Comparison) {
    let tone = match candidate.finding {
        Finding::Better | Finding::Same => "good",
        Finding::Unclear => "notable",
        Finding::Worse => "bad",
    };
    put!(
        page,
        "<section class=\"verdict {tone}\">\n<strong>{}</strong> {}\n<p>Judged by the figures marked *, \
         {} sure together, changes up to {} aside.</p>\n",
        candidate.finding.as_str(),
        escape_html(&side(&candidate.summary)),
        percent(comparison.confidence),
        percent(comparison.tolerance),
    );
    if !candidate.notes.is_empty() {
        page.push_str("<ul>\n");
        for note in &candidate.notes {
            put!(page, "<li>{}</li>\n", escape_html(note));
        }
        page.push_str("</ul>\n");
    }
    page.push_str("</section>\n");
}

fn figures(page: &mut String, candidate: &Candidate, tolerance: f64) {
    page.push_str(
        "<div class=\"scroll\"><table>\n<tr><th></th><th class=\"number\">baseline</th>\
         <th class=\"number\">candidate</th><th class=\"number\">change</th><th>interval</th><th></th>\
         <th>finding</th></tr>\n",
    );
    let reach = reach(&candidate.rows, tolerance);
    for row in &candidate.rows {
        put!(
            page,
            "<tr><td class=\"moment\">{}{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
             <td class=\"number\">{}</td><td class=\"moment\">{}</td><td>{}</td><td>{}{}</td></tr>\n",
            row.metric.title(),
            if row.judged { " *" } else { "" },
            row.metric.told(row.baseline),
            row.metric.told(row.candidate),
            row.metric.told_change(row.change),
            interval(row),
            drawn(row, reach, row.metric.tolerated(tolerance)),
            row.finding.as_str(),
            effect(row),
        );
    }
    page.push_str("</table></div>\n");
}

/// How far to both sides of zero the drawn intervals reach: as far as the judged ones do.
fn reach(rows: &[Row], tolerance: f64) -> f64 {
    let ends = rows.iter().filter(|row| row.judged);
    let ends = ends.flat_map(|row| row.interval.into_iter().flatten().chain([row.change]));
    ends.map(f64::abs)
        .fold(tolerance * 2.0, f64::max)
        .clamp(0.01, 2.0)
}

/// The interval on a line, with zero in the middle and the tolerance shaded.
fn drawn(row: &Row, reach: f64, tolerance: f64) -> String {
    let at = |change: f64| {
        let part = (change / reach).clamp(-1.0, 1.0);
        (part + 1.0) / 2.0 * WIDTH
    };
    let mut svg = format!(
        "<svg width=\"{WIDTH}\" height=\"18\" role=\"img\" aria-label=\"{}\"><rect x=\"{:.1}\" y=\"2\" \
         width=\"{:.1}\" height=\"14\" fill=\"#8A96A3\" opacity=\"0.25\"/><path d=\"M{:.1} 0V18\" \
         stroke=\"#8A96A3\"/>",
        interval(row),
        at(-tolerance),
        at(tolerance) - at(-tolerance),
        at(0.0),
    );
    let colour = match row.finding {
        Finding::Better => "#00966E",
        Finding::Worse => "#D13F2E",
        Finding::Same | Finding::Unclear => "#0068B2",
    };
    if let Some([low, high]) = row.interval {
        put!(
            svg,
            "<path d=\"M{:.1} 9H{:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>",
            at(low),
            at(high)
        );
    }
    put!(
        svg,
        "<circle cx=\"{:.1}\" cy=\"9\" r=\"4\" fill=\"{colour}\"/></svg>",
        at(row.change)
    );
    svg
}

fn whole_document(page: &mut String, comparison: &Comparison) {
    let json = serde_json::to_string_pretty(comparison)
        .expect("comparisons have text keys only, so they can be written");
    put!(
        page,
        "<details><summary>The comparison as JSON</summary>\n<pre>{}</pre></details>\n",
        escape_lines(&json)
    );
}
