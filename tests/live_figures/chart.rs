//! Two charts of the figures, as SVG: bars on a logarithmic axis.

use std::fmt::Write as _;

use super::cells::{API, BASELINES};
use super::page::median;
use super::{CellFigures, Figures};

const WIDTH: f64 = 860.0;
const LABELS: f64 = 230.0;
const VALUES: f64 = 70.0;
const BAR: f64 = 15.0;
const GAP: f64 = 12.0;
const TOP: f64 = 64.0;
const COLOURS: [&str; 3] = ["#4269d0", "#efb118", "#6cc5b0"];

/// A row of bars: its name, and a value for each series where there is one.
struct Row<'a> {
    name: &'a str,
    values: Vec<Option<f64>>,
}

/// Thousand messages of 128 B a second, by the way they are published.
pub(crate) fn throughput(figures: &Figures) -> String {
    let rows = rows(figures, BASELINES, &["R1, 128B", "R3, 128B"], |cell| {
        median(&cell.runs, |run| run.messages_per_second)
    });
    bars(
        "Messages of 128 B a second, by the way they are published",
        &["one server", "three servers, three replicas"],
        &rows,
        |value| match value {
            value if value >= 100_000.0 => format!("{:.0} k", value / 1e3),
            value => format!("{:.1} k", value / 1e3),
        },
    )
}

/// The longest of the calls of the API, on three servers.
pub(crate) fn api(figures: &Figures) -> String {
    let columns = [
        "R3, idle",
        "R3, 16 publishers, 128 B, flow 100",
        "R3, 16 publishers, 16 KiB, flow 1,000",
    ];
    let cells: Vec<&CellFigures> = columns
        .iter()
        .filter_map(|column| {
            let mut all = figures.cells.iter();
            all.find(|cell| cell.table == API && cell.column == *column)
        })
        .collect();
    let operations = cells.first().map(|cell| cell.runs[0].api_ns.keys());
    let rows: Vec<Row<'_>> = operations
        .into_iter()
        .flatten()
        .map(|operation| Row {
            name: operation,
            values: cells
                .iter()
                .map(|cell| {
                    let p90 = |run: &super::RunFigures| run.api_ns[operation][1] as f64 / 1e6;
                    Some(median(&cell.runs, p90))
                })
                .collect(),
        })
        .collect();
    bars(
        "Milliseconds to the answer of a call, 90th percentile, three servers",
        &[
            "idle",
            "beside 16 publishers, 128 B",
            "beside 16 publishers, 16 KiB",
        ],
        &rows,
        |value| format!("{value:.1} ms"),
    )
}

fn rows<'a>(
    figures: &'a Figures,
    table: &str,
    columns: &[&str],
    value: impl Fn(&CellFigures) -> f64,
) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for cell in figures.cells.iter().filter(|cell| cell.table == table) {
        if !rows.iter().any(|row| row.name == cell.row) {
            rows.push(Row {
                name: &cell.row,
                values: vec![None; columns.len()],
            });
        }
        let column = columns.iter().position(|column| *column == cell.column);
        let row = rows.iter_mut().find(|row| row.name == cell.row);
        if let (Some(column), Some(row)) = (column, row) {
            row.values[column] = Some(value(cell));
        }
    }
    rows
}

fn bars(title: &str, series: &[&str], rows: &[Row<'_>], show: impl Fn(f64) -> String) -> String {
    let values = || rows.iter().flat_map(|row| row.values.iter().flatten());
    let least = values()
        .copied()
        .fold(f64::INFINITY, f64::min)
        .log10()
        .floor();
    let most = values().copied().fold(0.0, f64::max).log10();
    let length = |value: f64| (value.log10() - least) / (most - least) * (WIDTH - LABELS - VALUES);
    let row_height = BAR * series.len() as f64 + GAP;
    let height = TOP + row_height * rows.len() as f64 + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"22\" font-size=\"15\" font-weight=\"bold\" fill=\"#222222\">{title}</text>\n"
    );
    let mut x = 12.0;
    for (name, colour) in series.iter().zip(COLOURS) {
        writeln!(
            svg,
            "<rect x=\"{x}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"45\" fill=\"#222222\">{name}</text>",
            x + 17.0
        )
        .unwrap();
        x += 40.0 + 7.2 * name.len() as f64;
    }
    writeln!(
        svg,
        "<text x=\"{}\" y=\"45\" text-anchor=\"end\" fill=\"#666666\">logarithmic axis</text>",
        WIDTH - 12.0
    )
    .unwrap();
    for (index, row) in rows.iter().enumerate() {
        let y = TOP + row_height * index as f64;
        let middle = y + BAR * series.len() as f64 / 2.0 + 4.0;
        writeln!(
            svg,
            "<text x=\"{}\" y=\"{middle:.1}\" text-anchor=\"end\" fill=\"#222222\">{}</text>",
            LABELS - 8.0,
            row.name
        )
        .unwrap();
        for (place, (value, colour)) in row.values.iter().zip(COLOURS).enumerate() {
            let Some(value) = *value else { continue };
            let (y, width) = (y + BAR * place as f64, length(value).max(1.0));
            writeln!(
                svg,
                "<rect x=\"{LABELS}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"#444444\" font-size=\"12\">{}</text>",
                BAR - 2.0,
                LABELS + width + 5.0,
                y + BAR - 4.0,
                show(value)
            )
            .unwrap();
        }
    }
    svg.push_str("</svg>\n");
    svg
}
