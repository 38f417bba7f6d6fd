//! What the headers of a message ask of the stream, read once, and the words in their values.
//!
//! An empty value counts as no header, as in nats-server. Leans on the header names of `nats`.

use crate::nats::header::{self, Headers};

/// The headers that a stream acts on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) message_id: Option<&'a str>,
    pub(crate) expected_stream: Option<&'a str>,
    pub(crate) last_sequence: Option<&'a str>,
    pub(crate) last_subject_sequence: Option<&'a str>,
    pub(crate) subject_filter: Option<&'a str>,
    pub(crate) last_message_id: Option<&'a str>,
    pub(crate) api_level: Option<&'a str>,
    pub(crate) ttl: Option<&'a str>,
    pub(crate) rollup: Option<&'a str>,
}

impl<'a> Asked<'a> {
    /// No header asks for anything.
    pub(crate) const NOTHING: Self = Self {
        message_id: None,
        expected_stream: None,
        last_sequence: None,
        last_subject_sequence: None,
        subject_filter: None,
        last_message_id: None,
        api_level: None,
        ttl: None,
        rollup: None,
    };

    /// Reads a header block; of a name that stands twice the first line counts.
    pub(crate) fn read(headers: &'a Headers) -> Self {
        let mut seen = [false; 9];
        let mut asked = Self::NOTHING;
        for (name, value) in headers.lines() {
            let (index, place) = match name.as_str() {
                header::MESSAGE_ID => (0, &mut asked.message_id),
                header::EXPECTED_STREAM => (1, &mut asked.expected_stream),
                header::EXPECTED_LAST_SEQUENCE => (2, &mut asked.last_sequence),
                header::EXPECTED_LAST_SUBJECT_SEQUENCE => (3, &mut asked.last_subject_sequence),
                header::EXPECTED_LAST_SUBJECT_SEQUENCE_SUBJECT => (4, &mut asked.subject_filter),
                header::EXPECTED_LAST_MESSAGE_ID => (5, &mut asked.last_message_id),
                header::REQUIRED_API_LEVEL => (6, &mut asked.api_level),
                header::TTL => (7, &mut asked.ttl),
                header::ROLLUP => (8, &mut asked.rollup),
                _ => continue,
            };
            if !seen[index] && !value.is_empty() {
                *place = Some(value);
            }
            seen[index] = true;
        }
        asked
    }
}

/// An expected sequence: decimal digits. Anything else is a number that no stream ever reaches.
pub(crate) fn sequence(text: &str) -> u64 {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().unwrap_or(u64::MAX)
    } else {
        u64::MAX
    }
}

/// Whether a required API level is met: a signed integer, at most `level`.
pub(crate) fn level_is_met(text: &str, level: u32) -> bool {
    text.parse::<i64>()
        .is_ok_and(|wanted| wanted <= i64::from(level))
}

/// What a rollup header replaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rollup {
    /// Older messages of its subject.
    Subject,
    /// All older messages.
    All,
}

impl Rollup {
    /// Reads the value of the header.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("sub") {
            Some(Self::Subject)
        } else if text.eq_ignore_ascii_case("all") {
            Some(Self::All)
        } else {
            None
        }
    }
}

/// Whether a time to live is well formed: `never`, whole seconds above 0, or a duration of at least
/// one second.
pub(crate) fn ttl_is_valid(text: &str) -> bool {
    if text.eq_ignore_ascii_case("never") {
        return true;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<i64>().is_ok_and(|seconds| seconds > 0);
    }
    duration_nanos(text).is_some_and(|nanos| nanos >= 1_000_000_000)
}

/// A duration as Go writes it (`1h30m`, `1.5s`, `-2ms`), in nanoseconds that fit into 63 bits.
fn duration_nanos(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.is_empty() {
        return None;
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(number_end);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        total = total.checked_add(scaled(number, unit_nanos(unit)?)?)?;
        if total > i64::MAX as u128 {
            return None;
        }
        rest = after;
    }
    let nanos = i64::try_from(total).ok()?;
    Some(if negative { -nanos } else { nanos })
}

fn unit_nanos(unit: &str) -> Option<u128> {
    match unit {
        "ns" => Some(1),
        "us" | "µs" | "μs" => Some(1_000),
        "ms" => Some(1_000_000),
        "s" => Some(1_000_000_000),
        "m" => Some(60_000_000_000),
        "h" => Some(3_600_000_000_000),
        _ => None,
    }
}

/// `number` (digits, perhaps with a point) times `unit`.
fn scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    // Digits beyond the eighteenth are far below a nanosecond.
    let fraction = &fraction[..fraction.len().min(18)];
    let part = if fraction.is_empty() {
        0
    } else {
        fraction.parse::<u128>().ok()? * unit / 10_u128.pow(fraction.len() as u32)
    };
    whole.checked_mul(unit)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_live_are_never_seconds_or_durations() {
        for good in [
            "5",
            "01",
            "never",
            "NEVER",
            "1s",
            "1.5s",
            "1h1m",
            ".5m",
            "1.s",
            "+5s",
            "1000000us",
        ] {
            assert!(ttl_is_valid(good), "{good}");
        }
        for bad in [
            "0",
            "-1",
            "+5",
            "-0",
            "bogus",
            "500ms",
            "0s",
            "0.5",
            "1d",
            "-5s",
            "5 ",
            "1us",
            "s",
            "+",
            "9999999999999999999",
            "99999999999h",
        ] {
            assert!(!ttl_is_valid(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_no_sequence_is_never_reached() {
        assert_eq!(sequence("007"), 7);
        for bad in ["-1", "+0", "abc", "18446744073709551616"] {
            assert_eq!(sequence(bad), u64::MAX, "{bad}");
        }
    }

    #[test]
    fn a_level_may_carry_a_sign() {
        assert!(level_is_met("5", 5));
        assert!(level_is_met("+5", 5));
        assert!(level_is_met("-7", 5));
        assert!(!level_is_met("6", 5));
        assert!(!level_is_met("x", 5));
    }

    #[test]
    fn the_first_line_of_a_name_counts() {
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = Headers::new(vec![
            line(header::TTL, ""),
            line(header::TTL, "5"),
            line(header::MESSAGE_ID, "a"),
            line(header::MESSAGE_ID, "b"),
            line("nats-msg-id", "c"),
        ]);
        let asked = Asked::read(&headers);
        assert_eq!(asked.ttl, None);
        assert_eq!(asked.message_id, Some("a"));
    }
}
