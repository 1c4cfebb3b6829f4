//! Durations as people write them: `500ms`, `30s`, `1m30s`.

use std::time::Duration;

/// The longest time that the server takes: 2^43 ms, some 278 years.
const LONGEST: Duration = Duration::from_millis(1 << 43);

/// Units and their milliseconds; `ms` before `m`, of which it is not the beginning of a number.
const UNITS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads numbers with units, the largest first or in any order: they are added.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration: write numbers with units, like 500ms, 30s or 1m30s");
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.len().saturating_sub(rest.trim_start_matches(|c: char| c.is_ascii_digit()).len());
        let (number, tail) = rest.split_at(digits);
        let unit =
            tail.len().saturating_sub(tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len());
        let (unit, tail) = tail.split_at(unit);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (_, ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let ms = number.checked_mul(*ms).ok_or_else(wrong)?;
        total = total.saturating_add(Duration::from_millis(ms));
        rest = tail;
    }
    match total {
        _ if text.trim().is_empty() => Err(wrong()),
        total if total > LONGEST => Err(format!("'{text}' is too long: the server accepts at most 101806d")),
        total => Ok(total),
    }
}

/// Milliseconds, of which a duration has at most 2^43 here.
pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time for people: two units at most, tenths of a second below a minute.
pub(crate) fn shown(ms: i64) -> String {
    let ms = ms.max(0);
    let (seconds, tenths) = (ms / 1_000, ms % 1_000 / 100);
    match seconds {
        0 => format!("{ms}ms"),
        1..60 => format!("{seconds}.{tenths}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("500ms", Some(500)),
            ("30s", Some(30_000)),
            (" 5m ", Some(300_000)),
            ("1m30s", Some(90_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("0s", Some(0)),
            ("101806d", Some(8_796_038_400_000)),
            ("", None),
            (" ", None),
            ("30", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("5 m", None),
            ("5y", None),
            ("101807d", None),
            ("99999999999999999999s", None),
            ("18446744073709551615d", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).ok().map(ms), expected, "{text:?}");
        }
        assert!(parse("30").unwrap_err().contains("30s"), "the error shows how it is done");
    }

    #[test]
    fn times_are_shown() {
        let cases = [
            (-1, "0ms"),
            (0, "0ms"),
            (999, "999ms"),
            (29_960, "29.9s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (90_000_000, "1d01h"),
        ];
        for (ms, expected) in cases {
            assert_eq!(shown(ms), expected);
        }
    }
}
