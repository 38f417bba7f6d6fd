//! Text for people: numbers with fitting units, and foreign text made harmless.
//!
//! Leans on nothing of ours.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `text` without anything that could steer a terminal: control characters and marks that turn the
/// direction of writing are written as escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// `text` fit for an element or a quoted attribute of HTML, and harmless as in [`printable`].
pub fn escape_html(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Controls, directional marks, separators, characters without a width, and what is none.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// The first characters of `text`, with an ellipsis where some are left out.
pub(super) fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        None => Cow::Borrowed(text),
        Some(_) => {
            let kept: String = text.chars().take(most.saturating_sub(1)).collect();
            Cow::Owned(kept + "…")
        }
    }
}

/// The last characters of `text`, with an ellipsis where some are left out: for paths.
pub(super) fn shortened_front(text: &str, most: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= most {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().skip(length - most.saturating_sub(1)).collect();
    Cow::Owned(format!("…{kept}"))
}

/// A count with its thousands set apart: `1,234,567`.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of nanoseconds with three digits and a fitting unit: `250 us`, `1.25 ms`, `3.5 s`,
/// `12 min`, `1.5 h`.
pub fn duration(nanoseconds: u64) -> String {
    let (scale, unit) = duration_unit(nanoseconds as f64);
    format!("{} {unit}", three_digits(nanoseconds as f64 / scale))
}

/// The unit in which a span is best said: nanoseconds in one, and its name.
pub(super) fn duration_unit(nanoseconds: f64) -> (f64, &'static str) {
    match nanoseconds {
        ns if ns < 999.5 => (1.0, "ns"),
        ns if ns < 999.5e3 => (1e3, "us"),
        ns if ns < 999.5e6 => (1e6, "ms"),
        ns if ns < 180e9 => (1e9, "s"),
        ns if ns < 3.0 * 3_600e9 => (60e9, "min"),
        _ => (3_600e9, "h"),
    }
}

/// A number with three digits and a letter for thousands: `950`, `1.25k`, `3.4M`.
pub(super) fn short(value: f64) -> String {
    let (scale, letter) = match value.abs() {
        v if v < 999.5 => (1.0, ""),
        v if v < 999.5e3 => (1e3, "k"),
        v if v < 999.5e6 => (1e6, "M"),
        v if v < 999.5e9 => (1e9, "G"),
        _ => (1e12, "T"),
    };
    format!("{}{letter}", three_digits(value / scale))
}

/// Bytes per second: `12.3 MB/s`.
pub(super) fn byte_rate(value: f64) -> String {
    let text = short(value);
    let split = text.find(|c: char| c.is_ascii_alphabetic());
    let (digits, letter) = text.split_at(split.unwrap_or(text.len()));
    format!("{digits} {letter}B/s")
}

/// Bytes of memory: `34 MiB`.
pub(super) fn mebibytes(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A part of one in percent: `0 %`, `0.0123 %`, `12.5 %`.
pub(super) fn percent(part: f64) -> String {
    format!("{} %", three_digits(part * 100.0))
}

/// At most three digits that count; no zeros behind the point.
pub(super) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let decimals = (2 - magnitude).clamp(0, 9) as usize;
    let mut text = String::new();
    // Writing to memory does not fail.
    let _ = write!(text, "{value:.decimals$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_or_a_page_is_escaped() {
        assert_eq!(printable("orders.eu"), "orders.eu");
        assert_eq!(printable("a\x1b[2Jb\r\n"), r"a\u{1b}[2Jb\r\n");
        assert_eq!(printable("\u{202e}gnp\u{9b}"), r"\u{202e}gnp\u{9b}");
        assert_eq!(
            escape_html("<b onload='x' a=\"1\">&\0"),
            r"&lt;b onload=&#39;x&#39; a=&quot;1&quot;&gt;&amp;\u{0}"
        );
    }

    #[test]
    fn numbers_have_three_digits_and_a_fitting_unit() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(duration(0), "0 ns");
        assert_eq!(duration(999), "999 ns");
        assert_eq!(duration(1_500), "1.5 us");
        assert_eq!(duration(999_600), "1 ms");
        assert_eq!(duration(123_456_789), "123 ms");
        assert_eq!(duration(10_000_000_000), "10 s");
        assert_eq!(duration(600_000_000_000), "10 min");
        assert_eq!(duration(36_000_000_000_000), "10 h");
        assert_eq!(short(0.0), "0");
        assert_eq!(short(999.4), "999");
        assert_eq!(short(12_345.0), "12.3k");
        assert_eq!(byte_rate(1_024.0), "1.02 kB/s");
        assert_eq!(byte_rate(10.0), "10 B/s");
        assert_eq!(mebibytes(34 << 20), "34 MiB");
        assert_eq!(percent(0.000_123), "0.0123 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(three_digits(f64::NAN), "0");
    }

    #[test]
    fn long_text_keeps_its_telling_end() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdefg", 4), "abc…");
        assert_eq!(shortened_front("a/very/long/path.toml", 10), "…path.toml");
        assert_eq!(shortened_front("äöü", 3), "äöü");
    }
}
