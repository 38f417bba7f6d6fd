//! Charts of a run, each drawn by one function for SVG and PNG alike.
//!
//! A chart function turns a [`RunResult`] into a [`Chart`]: panels of lines,
//! bands and bars with their axes, as plain data. One renderer draws it. Leans on `result`, the
//! crate `plotters` and the fonts in `assets/`.

mod api;
mod axis;
mod canvas;
mod draw;
mod kinds;
mod lines;
mod marks;
mod output;
mod overlay;
mod servers;

pub use api::api_latency;
pub use kinds::{flow, gaps, latency_curve, latency_over_time, throughput};
pub(super) use marks::name_of as fault_name;
pub use output::ChartError;
pub use overlay::{MOST_SIDES, overlays};
pub use servers::servers;

use super::RunResult;
use axis::Axis;
use canvas::Paint;

/// A chart, ready to be drawn.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Short name, fit for a file name.
    pub name: &'static str,
    title: String,
    subtitle: String,
    footer: String,
    x: Axis,
    marks: Vec<Mark>,
    panels: Vec<Panel>,
}

/// One plot of a chart; all panels share the horizontal axis.
#[derive(Clone, Debug)]
struct Panel {
    /// What the vertical axis counts; its unit is added where its numbers share one.
    unit: String,
    y: Axis,
    layers: Vec<Layer>,
    /// What to say when there is nothing to draw.
    empty: Option<&'static str>,
}

/// What is drawn in a panel, in this order.
#[derive(Clone, Debug)]
struct Layer {
    /// Name in the legend; none: not listed.
    label: Option<String>,
    paint: Paint,
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// A line through points, broken where a value is missing.
    Line(Vec<(f64, Option<f64>)>),
    /// A line so wide that one on top of it leaves its edges visible.
    Wide(Vec<(f64, Option<f64>)>),
    /// A dashed line.
    Dashed(Vec<(f64, Option<f64>)>),
    /// The area between a line and the bottom.
    Area(Vec<(f64, Option<f64>)>),
    /// The area between two lines: x, low, high.
    Band(Vec<(f64, Option<(f64, f64)>)>),
    /// Bars from the bottom: from, to, height.
    Bars(Vec<(f64, f64, f64)>),
    /// Single points with a text each.
    Points(Vec<(f64, f64, String)>),
}

/// Something that happened at a moment or during a span.
#[derive(Clone, Debug)]
struct Mark {
    from: f64,
    until: Option<f64>,
    label: String,
    paint: Paint,
}

/// Every chart of a run.
pub fn all(result: &RunResult) -> Vec<Chart> {
    let mut charts = vec![
        throughput(result),
        latency_curve(result),
        latency_over_time(result),
        gaps(result),
        flow(result),
    ];
    if !result.api_calls.is_empty() {
        charts.push(api_latency(result));
    }
    if !result.servers.is_empty() {
        charts.push(servers(result));
    }
    charts
}
