//! What a group may say about its load: when messages arrive, how large they are, who is there when.
//!
//! Ranges are checked before, by `shape`. Leans on the settings structs.

use super::check::{Checked, refuse};
use super::path::KeyPath;
use super::{Arrival, IDENTIFIED, PayloadSize, Publishers, Settings, SizeSpread, Timestamps};
use crate::machine::Time;
use crate::units::{Bytes, Span};

/// The finest rate that changes over time: rates are told apart to a thousandth.
const FINEST_RATE: f64 = 0.001;

/// When messages arrive.
pub(super) fn check_arrivals(group: &Publishers, path: &KeyPath) -> Checked {
    check_rate(group, path)?;
    check_rates(group, path)?;
    check_bursts(group, path)?;
    check_timestamps(group, path)
}

/// An open loop by rate has one rate, and nobody else has any.
fn check_rate(group: &Publishers, path: &KeyPath) -> Checked {
    let by_rate = matches!(group.arrival, Arrival::Constant | Arrival::Poisson);
    let written = [
        ("rate_per_second", group.rate_per_second.is_some()),
        ("rates", !group.rates.is_empty()),
        ("burst", group.burst != 1),
        (
            "burst_rate_per_second",
            group.burst_rate_per_second.is_some(),
        ),
    ];
    if !by_rate && let Some((key, _)) = written.iter().find(|(_, written)| *written) {
        let why = match group.arrival {
            Arrival::Replay => "\"replay\" has its moments from timestamps",
            Arrival::Closed | Arrival::Constant | Arrival::Poisson => {
                "\"closed\" publishes as fast as acks allow"
            }
        };
        let message =
            format!("needs an open loop with a rate: arrival = \"constant\" or \"poisson\"; {why}");
        return refuse(path.key(key), message);
    }
    match (by_rate, group.rate_per_second, group.rates.is_empty()) {
        (true, None, true) => {
            let message = "an open loop needs rate_per_second, or rates with at least one change";
            refuse(path.key("arrival"), message)
        }
        (_, Some(_), false) => {
            let message = "says what rate_per_second says, too; keep one of them";
            refuse(path.key("rates"), message)
        }
        _ => Ok(()),
    }
}

fn check_rates(group: &Publishers, path: &KeyPath) -> Checked {
    let mut before = None;
    for (index, change) in group.rates.iter().enumerate() {
        let path = path.key("rates").index(index);
        if let Some(before) = before.replace(change.at)
            && change.at <= before
        {
            let message = format!(
                "{} is not after {before}, where the change before it is; changes go up, to 24h at the most",
                change.at
            );
            return refuse(path.key("at"), message);
        }
        if change.ramp && change.at.0 == Time::ZERO {
            let message = "a ramp takes time, and none is before 0s; let it end later";
            return refuse(path.key("ramp"), message);
        }
        if change.per_second > 0.0 && change.per_second < FINEST_RATE {
            let message = format!(
                "{} is out of range; allowed are 0, and {FINEST_RATE} to 10000000",
                change.per_second
            );
            return refuse(path.key("per_second"), message);
        }
    }
    if !group.rates.is_empty() && highest_rate(group) <= 0.0 {
        let message = "are all 0, and nothing would ever arrive; one must be above";
        return refuse(path.key("rates"), message);
    }
    Ok(())
}

fn highest_rate(group: &Publishers) -> f64 {
    let rates = group.rates.iter().map(|change| change.per_second);
    rates.chain(group.rate_per_second).fold(0.0, f64::max)
}

fn check_bursts(group: &Publishers, path: &KeyPath) -> Checked {
    if let Some(within) = group.burst_rate_per_second {
        let path = path.key("burst_rate_per_second");
        if group.burst == 1 {
            return refuse(path, "needs burst, the messages that arrive together");
        }
        let highest = highest_rate(group);
        if within <= highest {
            let message = format!(
                "{within} is not above the rate, {highest}: a burst would not be over when the next \
                 one begins"
            );
            return refuse(path, message);
        }
    }
    match group.rate_per_second {
        Some(rate) if group.burst > 1 && rate < FINEST_RATE => {
            let message = format!("needs rate_per_second to be {FINEST_RATE} or more");
            refuse(path.key("burst"), message)
        }
        Some(_) | None => Ok(()),
    }
}

fn check_timestamps(group: &Publishers, path: &KeyPath) -> Checked {
    match (group.arrival, &group.timestamps) {
        (Arrival::Replay, None) => {
            let message = "\"replay\" needs timestamps, the file of its moments";
            refuse(path.key("arrival"), message)
        }
        (Arrival::Closed | Arrival::Constant | Arrival::Poisson, Some(_)) => {
            let message = "goes with arrival = \"replay\" only";
            refuse(path.key("timestamps"), message)
        }
        (Arrival::Replay, Some(timestamps)) => check_names(timestamps, &path.key("timestamps")),
        (_, None) => Ok(()),
    }
}

fn check_names(timestamps: &Timestamps, path: &KeyPath) -> Checked {
    let read = timestamps.read();
    let file = match timestamps {
        Timestamps::File(_) => path.clone(),
        Timestamps::Read(_) => path.key("file"),
    };
    if read.file.contains(char::is_control) {
        return refuse(file, "has control characters, and names no file");
    }
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    match read.digest {
        Some(digest) if !digest.chars().all(is_digit) => {
            let message =
                "is no digest; allowed are 16 characters of 0 to 9 and a to f, as results write it";
            refuse(path.key("digest"), message)
        }
        Some(_) | None => Ok(()),
    }
}

/// How sizes are drawn; headers are checked before.
pub(super) fn check_payload(group: &Publishers, path: &KeyPath) -> Checked {
    let path = &path.key("payload");
    match &group.payload {
        PayloadSize::Range(range) if range.min > range.max => {
            let message = format!("{} is above max, {}", range.min, range.max);
            refuse(path.key("min"), message)
        }
        PayloadSize::Spread(spread) => check_spread(spread, group.largest_payload(), path),
        PayloadSize::Fixed(_) | PayloadSize::Range(_) | PayloadSize::Weighted(_) => Ok(()),
    }
}

/// The ends may not change what the quantiles say.
fn check_spread(spread: &SizeSpread, largest: Bytes, path: &KeyPath) -> Checked {
    let SizeSpread {
        median, p99, min, ..
    } = *spread;
    if min > median && min == IDENTIFIED {
        // the file may not have the key min
        let message = format!("{median} is below min, {min}, its default; write a smaller min");
        return refuse(path.key("median"), message);
    }
    if min > median {
        let message = format!("{min} is above median, {median}");
        return refuse(path.key("min"), message);
    }
    if p99 < median {
        let message = format!("{p99} is below median, {median}");
        return refuse(path.key("p99"), message);
    }
    if p99 > largest {
        let message = format!("{p99} is above max, {largest}");
        return refuse(path.key("p99"), message);
    }
    Ok(())
}

pub(super) fn check_times(group: &Publishers, settings: &Settings, path: &KeyPath) -> Checked {
    if group.batches == 0 && group.stop.is_none() {
        let message = "0 means \"until stop\", and there is no stop; set stop, or 1 to 1000000";
        return refuse(path.key("batches"), message);
    }
    let last_start = {
        let others = u64::from(group.count.saturating_sub(1));
        let span = group.stagger.0.as_nanos().saturating_mul(others);
        group.start.0 + Time::from_nanos(span)
    };
    if last_start >= settings.time_limit.0 {
        let path = path.key(if group.start >= settings.time_limit {
            "start"
        } else {
            "stagger"
        });
        let message = format!(
            "the last publisher would start at {}; time_limit is {}",
            Span(last_start),
            settings.time_limit
        );
        return refuse(path, message);
    }
    check_stop(group, last_start, path)?;
    match (group.on_for, group.off_for) {
        (Some(_), None) => refuse(path.key("on_for"), "needs off_for, how long it is away"),
        (None, Some(_)) => refuse(path.key("off_for"), "needs on_for, how long it is there"),
        (Some(_), Some(_)) if group.batches == 1 => {
            // the file may not have the key batches
            let message = "ends a batch, and with batches = 1, the default, no publisher comes back; write \
                           more batches, or 0 with stop";
            refuse(path.key("on_for"), message)
        }
        (Some(_), Some(_)) | (None, None) => Ok(()),
    }
}

/// Each publisher stops after its start: the first and the last, and so all between them.
fn check_stop(group: &Publishers, last_start: Time, path: &KeyPath) -> Checked {
    let Some(stop) = group.stop else {
        if group.stop_stagger.0 > Time::ZERO {
            let message = "needs stop, when the first publisher stops";
            return refuse(path.key("stop_stagger"), message);
        }
        return Ok(());
    };
    let others = u64::from(group.count.saturating_sub(1));
    let later = group.stop_stagger.0.as_nanos().saturating_mul(others);
    let last_stop = stop.0 + Time::from_nanos(later);
    if stop <= group.start {
        let message = format!(
            "{stop} is not after the start of the first publisher, {}; allowed are later times, up to 24h",
            group.start
        );
        return refuse(path.key("stop"), message);
    }
    if last_stop <= last_start {
        let message = format!(
            "the last publisher would stop at {}, which is not after its start, {}; let stop be later, or \
             stop_stagger longer",
            Span(last_stop),
            Span(last_start)
        );
        return refuse(path.key("stop"), message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::scenario::Scenario;

    #[test]
    fn a_median_below_the_default_of_min_is_refused_by_its_own_name() {
        let refused = |more: &str| {
            let head = "format = 1\nabout = \"x\"\n[[publishers]]\n";
            let payload = format!("payload = {{ median = \"8B\", p99 = \"15B\"{more} }}");
            let parsed = Scenario::parse("f.toml", &format!("{head}{payload}"));
            parsed.err().map(|error| error.to_string())
        };
        assert_eq!(
            refused("").unwrap(),
            "f.toml:4: publishers[0].payload.median: 8B is below min, 16B, its default; write a smaller min"
        );
        assert_eq!(
            refused(", min = \"9B\"").unwrap(),
            "f.toml:4: publishers[0].payload.min: 9B is above median, 8B"
        );
        assert_eq!(refused(", min = \"8B\""), None);
    }
}
