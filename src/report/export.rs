//! Figures over time for other tools: CSV, Parquet, and an HdrHistogram interval log.
//!
//! One row is one bucket of the series; what is not known there is empty. Leans on `result` and the
//! crates `parquet` and `hdrhistogram`.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use parquet::data_type::{DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::RunResult;

/// A column of the table.
struct Column {
    name: &'static str,
    values: Values,
}

enum Values {
    Counts(Vec<Option<u64>>),
    Levels(Vec<Option<f64>>),
}

/// The figures over time as CSV, with a line of names.
pub fn series_csv(result: &RunResult) -> String {
    let columns = columns(result);
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mut text = names.join(",");
    text.push('\n');
    for row in 0..result.series.len() {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            // Writing to memory does not fail.
            let _ = match &column.values {
                Values::Counts(values) => values[row].map(|value| write!(text, "{value}")),
                Values::Levels(values) => values[row].map(|value| write!(text, "{value}")),
            };
        }
        text.push('\n');
    }
    text
}

/// The same as a Parquet file: every column optional, counts as `INT64`, means as `DOUBLE`.
///
/// # Errors
/// When the writer gives up.
pub fn series_parquet(result: &RunResult) -> Result<Vec<u8>, ParquetError> {
    let columns = columns(result);
    let mut schema = "message series {".to_owned();
    for column in &columns {
        let kind = match column.values {
            Values::Counts(_) => "INT64",
            Values::Levels(_) => "DOUBLE",
        };
        let _ = write!(schema, " OPTIONAL {kind} {};", column.name);
    }
    schema.push_str(" }");
    let schema = Arc::new(parse_message_type(&schema)?);
    let properties = Arc::new(WriterProperties::new());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
    let mut rows = writer.next_row_group()?;
    for column in &columns {
        let Some(mut place) = rows.next_column()? else {
            break;
        };
        match &column.values {
            Values::Counts(values) => {
                // Counts of a result are at most 2^53.
                let known: Vec<i64> = values.iter().flatten().map(|value| *value as i64).collect();
                let there = levels(values);
                let typed = place.typed::<Int64Type>();
                typed.write_batch(&known, Some(&there), None)?;
            }
            Values::Levels(values) => {
                let known: Vec<f64> = values.iter().flatten().copied().collect();
                let there = levels(values);
                let typed = place.typed::<DoubleType>();
                typed.write_batch(&known, Some(&there), None)?;
            }
        }
        place.close()?;
    }
    rows.close()?;
    writer.into_inner()
}

/// Ack latencies of each bucket as an HdrHistogram interval log, version 1.3: times in seconds since the
/// start of the run, the longest of each interval in milliseconds, values in nanoseconds. `None` where the
/// result is of a version that kept no histograms over time.
///
/// # Errors
/// The writer gives up.
pub fn latency_log(result: &RunResult) -> io::Result<Option<Vec<u8>>> {
    let series = &result.series;
    if series.ack_latency_ns.hdr_histogram_v2.len() != series.len() {
        return Ok(None);
    }
    let failed = |why: &dyn std::fmt::Debug| io::Error::other(format!("{why:?}"));
    let mut text = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let comment = format!(
        "ack latency in nanoseconds, tidegate {}",
        result.tool_version
    );
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment(&super::printable(&comment));
    builder.with_base_time(std::time::UNIX_EPOCH);
    builder.with_max_value_divisor(1e6);
    let mut log = builder
        .begin_log_with(&mut text, &mut serializer)
        .map_err(|why| failed(&why))?;
    for index in 0..series.len() {
        let Ok(Some(histogram)) = series.ack_latency_ns.histogram(index) else {
            continue;
        };
        let (from, to) = series.span_of(index);
        let (start, length) = (Duration::from_nanos(from), Duration::from_nanos(to - from));
        log.write_histogram(&histogram, start, length, Tag::new("ack"))
            .map_err(|why| failed(&why))?;
    }
    Ok(Some(text))
}

/// Whether each value is there, as Parquet has it.
fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values
        .iter()
        .map(|value| i16::from(value.is_some()))
        .collect()
}

fn columns(result: &RunResult) -> Vec<Column> {
    let (series, flow) = (&result.series, &result.flow);
    let latency = &series.ack_latency_ns;
    let spans = || (0..series.len()).map(|index| series.span_of(index));
    let counts = |name, values: &[u64]| Column {
        name,
        values: Values::Counts(values.iter().map(|value| Some(*value)).collect()),
    };
    let maybe = |name, values: &[Option<u64>]| Column {
        name,
        values: Values::Counts(values.to_vec()),
    };
    let means = |name, values: &[f64]| Column {
        name,
        values: Values::Levels(values.iter().map(|value| Some(*value)).collect()),
    };
    let flows = |name, values: &[Option<u16>]| Column {
        name,
        values: Values::Counts(values.iter().map(|value| value.map(u64::from)).collect()),
    };
    vec![
        counts(
            "from_ns",
            &spans().map(|(from, _)| from).collect::<Vec<_>>(),
        ),
        counts("to_ns", &spans().map(|(_, to)| to).collect::<Vec<_>>()),
        counts("published", &series.published),
        counts("acknowledged", &series.acknowledged),
        counts("acknowledged_bytes", &series.acknowledged_bytes),
        counts("gaps", &series.gaps),
        counts("missing", &series.missing),
        counts("errors", &series.errors),
        means("in_flight_mean", &series.in_flight_mean),
        counts("in_flight_max", &series.in_flight_max),
        means("blocked_mean", &series.blocked_mean),
        maybe("ack_latency_p50_ns", &latency.p50),
        maybe("ack_latency_p90_ns", &latency.p90),
        maybe("ack_latency_p99_ns", &latency.p99),
        maybe("ack_latency_max_ns", &latency.max),
        Column {
            name: "flow_mean",
            values: Values::Levels(flow.mean.clone()),
        },
        flows("flow_min", &flow.min),
        flows("flow_max", &flow.max),
    ]
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    use parquet::file::reader::{FileReader as _, SerializedFileReader};

    use super::*;
    use crate::report::synthetic;

    fn result() -> RunResult {
        let shapes = synthetic::shapes();
        let (_, shape) = shapes.iter().find(|(name, _)| *name == "trouble").unwrap();
        RunResult::new(synthetic::record(shape))
    }

    #[test]
    fn csv_and_parquet_have_the_same_table() {
        let result = result();
        let csv = series_csv(&result);
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!(lines.len(), result.series.len() + 1);
        assert!(lines.iter().all(|line| line.len() == lines[0].len()));
        let published = lines[0]
            .iter()
            .position(|name| *name == "published")
            .unwrap();
        let sum = lines[1..]
            .iter()
            .map(|line| line[published].parse::<u64>().unwrap());
        assert_eq!(sum.sum::<u64>(), result.totals.published);

        let file = bytes::Bytes::from(series_parquet(&result).unwrap());
        let reader = SerializedFileReader::new(file).unwrap();
        let rows = reader.get_row_iter(None).unwrap().map(Result::unwrap);
        let rows: Vec<Vec<String>> = rows
            .map(|row| {
                let columns = row.get_column_iter();
                let text = |value: String| {
                    if value == "null" {
                        String::new()
                    } else {
                        value
                    }
                };
                columns.map(|(_, value)| text(value.to_string())).collect()
            })
            .collect();
        assert_eq!(rows.len(), result.series.len());
        for (row, line) in rows.iter().zip(&lines[1..]) {
            for (value, text) in row.iter().zip(line) {
                let equal = value == text
                    || value.parse::<f64>().ok() == text.parse::<f64>().ok() && !text.is_empty();
                assert!(equal, "{value} {text}");
            }
        }
    }

    #[test]
    fn the_log_holds_every_latency() {
        let result = result();
        let log = latency_log(&result).unwrap().unwrap();
        let entries = IntervalLogIterator::new(&log).map(Result::unwrap);
        let intervals = entries.filter(|entry| matches!(entry, LogEntry::Interval(_)));
        let latency = &result.series.ack_latency_ns;
        assert_eq!(intervals.count(), latency.p50.iter().flatten().count());
        let mut old = result;
        old.series.ack_latency_ns.hdr_histogram_v2.clear();
        assert!(latency_log(&old).unwrap().is_none());
    }
}
