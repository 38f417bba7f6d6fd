//! Moments of a run as RFC 3339 writes them, both ways.
//!
//! A run knows only time since its start; the edge says when that was. Leans on `machine`.

use crate::machine::Time;

const SECOND_NANOS: u64 = 1_000_000_000;
const DAY_SECONDS: u64 = 86_400;
/// Days from the first of March of year 0 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

/// A moment of a run that began so many nanoseconds after 1970, in UTC; year 1 for none.
pub fn print(start_unix_nanos: u64, at: Option<Time>) -> String {
    let Some(at) = at else {
        return "0001-01-01T00:00:00Z".to_owned();
    };
    let since_1970 = start_unix_nanos.saturating_add(at.as_nanos());
    let (seconds, nanos) = (since_1970 / SECOND_NANOS, since_1970 % SECOND_NANOS);
    let (year, month, day) = date(seconds / DAY_SECONDS);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if nanos > 0 {
        let fraction = format!(".{nanos:09}");
        text.push_str(fraction.trim_end_matches('0'));
    }
    text.push('Z');
    text
}

/// Reads such a moment, in any zone: zero for one before the start of the run, never for one that
/// is too far away. `None`: the text has another form.
pub fn parse(start_unix_nanos: u64, text: &str) -> Option<Time> {
    let (date, rest) = text.split_once(['T', 't'])?;
    let mut parts = date.split('-').map(|part| number(part, 4));
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let zone_at = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = clock.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let is_lawful = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_lawful {
        return None;
    }
    let seconds = days(year, month, day) * i128::from(DAY_SECONDS)
        + i128::from(hour * 3_600 + minute * 60 + second)
        - zone_seconds(zone)?;
    let nanos = seconds * i128::from(SECOND_NANOS) + i128::from(fraction_nanos(fraction)?)
        - i128::from(start_unix_nanos);
    let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
    Some(Time::from_nanos(nanos))
}

/// One to `digits` decimal digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && text.len() <= digits).then(|| text.parse().ok())?
}

fn fraction_nanos(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.get(..9).unwrap_or(digits);
    format!("{digits:0<9}").parse().ok()
}

fn zone_seconds(zone: &str) -> Option<i128> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let (sign, clock) = match zone.split_at_checked(1)? {
        ("+", clock) => (1, clock),
        ("-", clock) => (-1, clock),
        _ => return None,
    };
    let (hours, minutes) = clock.split_once(':')?;
    let seconds = number(hours, 2)? * 3_600 + number(minutes, 2)? * 60;
    Some(sign * i128::from(seconds))
}

/// Year, month and day of a day counted from 1970-01-01, by the Gregorian calendar.
///
/// Years are taken to begin in March, so that the leap day is the last of its year.
const fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_TO_1970;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Days from 1970-01-01 to a date; negative before it. The other way round of [`date`].
fn days(year: u64, month: u64, day: u64) -> i128 {
    let (year, month) = (i128::from(year), i128::from(month));
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + i128::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - i128::from(DAYS_TO_1970)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar_both_ways() {
        for (day, date_of_it) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_787, (2026, 11, 30)),
        ] {
            assert_eq!(date(day), date_of_it);
            let (year, month, of_month) = date_of_it;
            assert_eq!(days(year, month, of_month), i128::from(day));
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        let start = 1_800_000_000_000_000_000;
        for nanos in [
            0,
            1,
            1_500_000_000,
            86_400_000_000_001,
            31_536_000_000_000_000,
        ] {
            let at = Time::from_nanos(nanos);
            assert_eq!(parse(start, &print(start, Some(at))), Some(at));
        }
    }

    #[test]
    fn other_forms_zones_and_far_moments() {
        let start = 1_800_000_000_000_000_000;
        assert_eq!(parse(start, "2020-01-01T00:00:00Z"), Some(Time::ZERO));
        let one = Some(Time::from_millis(1_250));
        assert_eq!(parse(start, "2027-01-15T10:00:01.25+02:00"), one);
        assert_eq!(parse(start, "2027-01-15T06:30:01.25-01:30"), one);
        assert_eq!(parse(start, "9999-01-01T00:00:00Z"), Some(Time::NEVER));
        for bad in [
            "",
            "2020-01-01",
            "2020-13-01T00:00:00Z",
            "2020-01-01T00:00Z",
            "x",
            "2020-01-01T00:00:00",
            "2020-01-01T00:00:00+1",
            "2020-01-01T00:00:00.xZ",
        ] {
            assert_eq!(parse(start, bad), None, "{bad}");
        }
    }
}
