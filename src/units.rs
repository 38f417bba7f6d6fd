//! Quantities as files write them: spans of time, bytes, bits per second.
//!
//! Each parses from text with a unit and prints back to text that parses to the same value.
//! Leans on `machine`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::machine::Time;

/// A span of time, written as `250us`, `1.5ms`, `10s`, `2m` or `1h`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(pub Time);

/// A number of bytes, written as `128`, `1KiB`, `64MiB`, `10kB`, `2GB`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Bytes(pub u64);

/// A bit rate, written as `10Gbit/s`, `100Mbit/s`, `56kbit/s`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitRate(pub u64);

/// Largest first, so that printing finds the largest unit that divides the value.
const SPAN_UNITS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];
const BYTE_UNITS: &[(&str, u64)] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
const RATE_UNITS: &[(&str, u64)] = &[
    ("Gbit/s", 1_000_000_000),
    ("Mbit/s", 1_000_000),
    ("kbit/s", 1_000),
    ("bit/s", 1),
];

/// Parses `number unit`; the number may have decimals as long as the value is whole.
fn parse(text: &str, units: &[(&str, u64)], bare: Option<u64>) -> Option<u64> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let factor = match unit {
        "" => bare?,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let scale = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    let scaled = fraction * u128::from(factor);
    if !scaled.is_multiple_of(scale) {
        return None;
    }
    whole
        .checked_mul(factor)?
        .checked_add(u64::try_from(scaled / scale).ok()?)
}

fn print(value: u64, units: &[(&str, u64)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fitting = units
        .iter()
        .find(|(_, factor)| value != 0 && value.is_multiple_of(*factor));
    let (name, factor) = fitting.unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{name}", value / factor)
}

impl Span {
    /// A span as [`Span::from_str`] reads it, or a number without a unit, of so many nanoseconds each.
    pub fn with_bare(text: &str, nanoseconds: u64) -> Option<Self> {
        parse(text, SPAN_UNITS, Some(nanoseconds)).map(|ns| Self(Time::from_nanos(ns)))
    }
}

macro_rules! quantity {
    ($name:ident, $units:ident, $bare:expr, $make:expr, $value:expr, $expected:literal, $pattern:literal, $title:literal) => {
        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                parse(text, $units, $bare)
                    .map($make)
                    .ok_or_else(|| format!("`{text}` is not {}", $expected))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print($value(self), $units, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "title": $title, "pattern": $pattern })
            }
        }
    };
}

quantity!(
    Span,
    SPAN_UNITS,
    None,
    |ns| Self(Time::from_nanos(ns)),
    |span: &Span| span.0.as_nanos(),
    "a span of time such as \"250us\", \"1.5ms\", \"10s\", \"2m\" or \"1h\"",
    r"^[0-9_.]+ *(ns|us|ms|s|m|h)$",
    "a span of time: number and ns, us, ms, s, m or h"
);
quantity!(
    Bytes,
    BYTE_UNITS,
    Some(1),
    Self,
    |bytes: &Bytes| bytes.0,
    "a number of bytes such as \"128\", \"1KiB\", \"64MiB\" or \"10kB\"",
    r"^[0-9_.]+ *(B|kB|KiB|MB|MiB|GB|GiB)?$",
    "bytes: number and B, kB, KiB, MB, MiB, GB or GiB"
);
quantity!(
    BitRate,
    RATE_UNITS,
    None,
    Self,
    |rate: &BitRate| rate.0,
    "a bit rate such as \"10Gbit/s\" or \"100Mbit/s\"",
    r"^[0-9_.]+ *(bit/s|kbit/s|Mbit/s|Gbit/s)$",
    "a bit rate: number and bit/s, kbit/s, Mbit/s or Gbit/s"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_parses_to_the_same_value() {
        for ns in [
            0,
            1,
            999,
            1_000,
            250_000,
            1_500_000,
            10_000_000_000,
            3_600_000_000_000,
            u64::MAX,
        ] {
            let span = Span(Time::from_nanos(ns));
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        for bytes in [0, 1, 1_000, 1_024, 64 << 20, 3_000_000_000, u64::MAX] {
            assert_eq!(
                Bytes(bytes).to_string().parse::<Bytes>().unwrap(),
                Bytes(bytes)
            );
        }
    }

    #[test]
    fn decimals_are_exact_or_refused() {
        assert_eq!(
            "1.5ms".parse::<Span>().unwrap(),
            Span(Time::from_micros(1_500))
        );
        assert_eq!("0.5KiB".parse::<Bytes>().unwrap(), Bytes(512));
        for bad in [
            "",
            "ms",
            "1",
            "1.5ns",
            "1e3s",
            "-1s",
            "1 fortnight",
            "1.2.3s",
            "99999999999999h",
        ] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        assert!("10G".parse::<BitRate>().is_err());
    }
}
