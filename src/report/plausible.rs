//! What the types of a result cannot say: columns of one length, histograms that decode, numbers
//! that a run can come to. Charts and pages may then rely on it.
//!
//! Leans on `result`, and on `scenario` for the configuration.

use serde_json::Value;

use super::RunResult;
use crate::measure::{Distribution, LatencySeries};
use crate::scenario::Scenario;

/// No run counts so far, or lasts so long: 104 days in nanoseconds.
const MOST: f64 = (1_u64 << 53) as f64;
/// More buckets over time than any version of tidegate has written.
const MOST_BUCKETS: usize = 10_000;
/// Keys that may hold any number: what they mean is checked as a file is.
const FREE: [&str; 2] = ["seed", "config"];

/// What is wrong: the key, and why.
pub(super) type Implausible = (String, String);

/// Checks a run, and `value`, which it was read from.
pub(super) fn check(run: &RunResult, value: &Value) -> Result<(), Implausible> {
    let kept = value.as_object().into_iter().flatten();
    for (key, value) in kept.filter(|(key, _)| !FREE.contains(&key.as_str())) {
        check_numbers(value, &mut key.clone())?;
    }
    check_columns(run)?;
    for (key, distribution) in distributions(run) {
        check_distribution(&key, distribution)?;
    }
    let parts = [
        ("gap_rate", Some(run.gap_rate)),
        ("fairness", run.fairness),
        ("stall_time_ns.share", Some(run.stall_time_ns.share)),
    ];
    let groups = run.groups.iter().map(|group| ("groups", group.fairness));
    for (key, part) in parts.into_iter().chain(groups) {
        if let Some(part) = part.filter(|part| *part > 1.0) {
            return implausible(key, format!("{part} is above 1, the whole"));
        }
    }
    Scenario::from_settings("", &run.config)
        .map(|_| ())
        .map_err(|error| {
            let key = error.key.map_or_else(String::new, |key| format!(".{key}"));
            (format!("config{key}"), error.message)
        })
}

fn implausible<T>(key: &str, why: impl Into<String>) -> Result<T, Implausible> {
    Err((key.to_owned(), why.into()))
}

/// Every number below `value`, whose path is `path`.
fn check_numbers(value: &Value, path: &mut String) -> Result<(), Implausible> {
    let length = path.len();
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(number) if (0.0..=MOST).contains(&number) => Ok(()),
            _ => implausible(
                path,
                format!("{number} is out of range; allowed are 0 to 2^53"),
            ),
        },
        Value::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            path.push_str(&format!("[{index}]"));
            let checked = check_numbers(item, path);
            path.truncate(length);
            checked
        }),
        Value::Object(object) => object.iter().try_for_each(|(key, value)| {
            path.push('.');
            path.push_str(key);
            let checked = check_numbers(value, path);
            path.truncate(length);
            checked
        }),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn check_columns(run: &RunResult) -> Result<(), Implausible> {
    let series = &run.series;
    let latency = &series.ack_latency_ns;
    let columns = [
        series.acknowledged.len(),
        series.acknowledged_bytes.len(),
        series.gaps.len(),
        series.missing.len(),
        series.errors.len(),
        series.in_flight_mean.len(),
        series.in_flight_max.len(),
        series.blocked_mean.len(),
        latency.p50.len(),
        latency.p90.len(),
        latency.p99.len(),
        latency.max.len(),
    ];
    if columns.iter().any(|length| *length != series.len()) {
        return implausible("series", "its columns differ in length");
    }
    check_histograms(latency, series.len())?;
    for (index, server) in run.servers.iter().enumerate() {
        let key = format!("servers[{index}]");
        if !server.is_whole() {
            return implausible(&key, "its columns differ in length");
        }
        if server.at_ns.len() > MOST_BUCKETS {
            return implausible(&key, format!("has more than {MOST_BUCKETS} entries"));
        }
    }
    let flow = &run.flow;
    if flow.min.len() != flow.mean.len() || flow.max.len() != flow.mean.len() {
        return implausible("flow", "its columns differ in length");
    }
    for (key, length, bucket_ns) in [
        ("series", series.len(), series.bucket_ns),
        ("flow", flow.mean.len(), flow.bucket_ns),
    ] {
        if length > MOST_BUCKETS {
            return implausible(
                key,
                format!("has {length} buckets; most are {MOST_BUCKETS}"),
            );
        }
        if length > 0 && bucket_ns == 0 {
            return implausible(key, "its buckets have no width");
        }
    }
    if flow.mean.len() != series.len() || (!series.is_empty() && flow.bucket_ns != series.bucket_ns)
    {
        return implausible("flow", "its buckets are not those of series");
    }
    Ok(())
}

/// Results of earlier versions have no histograms over time.
fn check_histograms(latency: &LatencySeries, buckets: usize) -> Result<(), Implausible> {
    let key = "series.ack_latency_ns.hdr_histogram_v2";
    let kept = latency.hdr_histogram_v2.len();
    if kept > 0 && kept != buckets {
        return implausible(key, "its length is not that of the other columns");
    }
    for index in 0..kept.min(MOST_BUCKETS) {
        if latency.histogram(index).is_err() {
            return implausible(
                &format!("{key}[{index}]"),
                "no base64 of an HdrHistogram in V2 encoding with two digits",
            );
        }
    }
    Ok(())
}

fn distributions(run: &RunResult) -> Vec<(String, &Distribution)> {
    let mut all = vec![
        ("ack_latency_ns".to_owned(), &run.ack_latency_ns),
        ("response_time_ns".to_owned(), &run.response_time_ns),
        ("stall_time_ns.waits".to_owned(), &run.stall_time_ns.waits),
    ];
    for (index, group) in run.groups.iter().enumerate() {
        let key = |name| format!("groups[{index}].{name}");
        all.push((key("ack_latency_ns"), &group.ack_latency_ns));
        all.push((key("response_time_ns"), &group.response_time_ns));
    }
    if let Some(generator) = &run.generator {
        all.push(("generator.wake_lag_ns".to_owned(), &generator.wake_lag_ns));
    }
    let calls = run.api_latency_ns.iter();
    all.extend(calls.map(|(call, latency)| (format!("api_latency_ns.{call}"), latency)));
    all
}

fn check_distribution(key: &str, distribution: &Distribution) -> Result<(), Implausible> {
    let Distribution {
        count,
        min,
        p50,
        p90,
        p99,
        p999,
        max,
        ..
    } = *distribution;
    if ![min, p50, p90, p99, p999, max].is_sorted() {
        return implausible(key, "its percentiles do not go up");
    }
    if count > 0 {
        distribution
            .histogram()
            .map_err(|why| (key.to_owned(), why.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::report::ResultFile;
    use crate::report::synthetic;

    /// What comes of a result in which `change` was made.
    fn error(change: impl FnOnce(&mut Value)) -> Option<String> {
        let shapes = synthetic::shapes();
        let (_, shape) = shapes.iter().find(|(name, _)| *name == "trouble").unwrap();
        let mut value = serde_json::to_value(RunResult::new(synthetic::record(shape))).unwrap();
        change(&mut value);
        let read = ResultFile::parse("r.json", &value.to_string());
        read.err().map(|error| error.to_string())
    }

    #[test]
    fn impossible_numbers_are_one_clear_error() {
        assert_eq!(error(|_| {}), None);
        assert_eq!(error(|run| run["seed"] = u64::MAX.into()), None);
        for key in [
            "/duration_ns",
            "/window/until_ns",
            "/series/bucket_ns",
            "/series/end_ns",
            "/series/acknowledged/0",
            "/totals/published",
            "/totals/errors/10167",
            "/stalls/0/at_ns",
            "/cost/wall_ns",
        ] {
            let changed = error(|run| match run.pointer_mut(key) {
                Some(number) => *number = u64::MAX.into(),
                None => run["totals"]["errors"]["10167"] = u64::MAX.into(),
            });
            let changed = changed.unwrap();
            assert!(
                changed.contains("18446744073709551615 is out of range; allowed are 0 to 2^53"),
                "{key}: {changed}"
            );
            let dotted = key.replace('/', ".").replace(".0", "[0]");
            assert!(
                changed.starts_with(&format!("r.json: {}", &dotted[1..])),
                "{changed}"
            );
        }
        let number = |change: fn(&mut Value)| error(change).unwrap();
        let negative = number(|run| run["throughput"]["messages_per_second"] = json!(-1.0));
        assert!(negative.contains("-1.0 is out of range"), "{negative}");
        let huge = number(|run| run["series"]["in_flight_mean"][0] = json!(1e300));
        assert!(huge.contains("series.in_flight_mean[0]: "), "{huge}");
    }

    #[test]
    fn what_contradicts_itself_is_one_clear_error() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 11] = [
            (
                |run| run["series"]["ack_latency_ns"]["hdr_histogram_v2"] = json!(["AAAA"]),
                "series.ack_latency_ns.hdr_histogram_v2: its length is not",
            ),
            (
                |run| run["series"]["ack_latency_ns"]["hdr_histogram_v2"][3] = json!("AAAA"),
                "series.ack_latency_ns.hdr_histogram_v2[3]: no base64",
            ),
            (
                |run| run["gap_rate"] = json!(1.5),
                "gap_rate: 1.5 is above 1",
            ),
            (|run| run["fairness"] = json!(2.0), "fairness: 2 is above 1"),
            (
                |run| run["series"]["bucket_ns"] = json!(0),
                "series: its buckets have no width",
            ),
            (
                |run| run["ack_latency_ns"]["p50"] = json!(1_u64 << 50),
                "ack_latency_ns: its percentiles do not go up",
            ),
            (
                |run| run["groups"][0]["ack_latency_ns"]["count"] = json!(1),
                "groups[0].ack_latency_ns: `hdr_histogram_v2` is no base64",
            ),
            (
                |run| run["flow"]["mean"] = json!(vec![1.0; 10_001]),
                "flow: its columns differ in length",
            ),
            (
                |run| run["flow"] = json!({ "bucket_ns": 1, "mean": [], "min": [], "max": [] }),
                "flow: its buckets are not those of series",
            ),
            (
                |run| run["config"]["publishers"][0]["flow"] = json!(0),
                "config.publishers[0].flow: 0 is out of range",
            ),
            (
                |run| run["config"]["time_limit"] = json!("0s"),
                "config.time_limit: ",
            ),
        ];
        for (change, part) in cases {
            let error = error(change).unwrap();
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
