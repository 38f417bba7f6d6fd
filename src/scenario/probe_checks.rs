//! What probes contradict: times, the stream's own settings, and what is expected of them.
//!
//! Leans on `check` and the settings structs.

use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::shown::shown;
use super::{Probe, Settings};
use crate::nats::subject::overlap;

/// Most requests of one probe that may be under way: files are untrusted.
const MOST_UNDER_WAY: u64 = 100_000;

/// Checks `[[probes]]`, and `expect.api_latency`, which is about them.
pub(super) fn check_probes(settings: &Settings) -> Checked {
    let root = KeyPath::root();
    for (index, probe) in settings.probes.iter().enumerate() {
        let path = root.key("probes").index(index);
        check_times(probe, settings, &path)?;
        if probe.operation.publishes() {
            check_stream(settings, &path)?;
        }
    }
    if settings.expect.api_latency.is_some() && settings.probes.is_empty() {
        let path = root.key("expect").key("api_latency");
        return refuse(path, "is about [[probes]], and the file has none");
    }
    Ok(())
}

fn check_times(probe: &Probe, settings: &Settings, path: &KeyPath) -> Checked {
    if probe.start >= settings.time_limit {
        let message = format!(
            "{} is not before time_limit, {}",
            probe.start, settings.time_limit
        );
        return refuse(path.key("start"), message);
    }
    if let Some(stop) = probe.stop.filter(|stop| *stop <= probe.start) {
        let message = format!(
            "{stop} is not after start, {}; allowed are later times, up to 24h",
            probe.start
        );
        return refuse(path.key("stop"), message);
    }
    let under_way = probe.timeout.0.as_nanos() / probe.every.0.as_nanos().max(1);
    if under_way > MOST_UNDER_WAY {
        let message = format!(
            "{} lets {under_way} requests be under way; allowed are {MOST_UNDER_WAY}, timeout over every",
            probe.every
        );
        return refuse(path.key("every"), message);
    }
    Ok(())
}

/// Whether the stream can take what a probe publishes, and answers it.
fn check_stream(settings: &Settings, path: &KeyPath) -> Checked {
    let stream = &settings.stream;
    if stream.no_ack {
        let message = "waits for PubAcks, and stream.no_ack = true leaves them out";
        return refuse(path.key("operation"), message);
    }
    let own = settings.probe_filter();
    let mut filters = stream.subjects.iter();
    match filters.find(|filter| overlap(filter, &own)) {
        None => Ok(()),
        Some(filter) => {
            let message = format!(
                "publishes under {own}, which must be apart from what publishers use; \
                 stream.subjects has \"{}\"",
                shown(filter)
            );
            refuse(path.key("operation"), message)
        }
    }
}
