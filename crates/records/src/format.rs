//! Numbers formatted for display: durations, shares, counts, rates.
//!
//! Verdicts, causes and other sentences of this crate contain numbers, and so do the tables and
//! charts that present the same records elsewhere. The format functions belong to this crate so
//! that a sentence and a table display a value in the same form.

/// Placeholder for an unknown figure.
pub const UNKNOWN: &str = "-";

const UNITS: [(u64, &str); 3] = [(1_000, "µs"), (1_000_000, "ms"), (1_000_000_000, "s")];

/// Returns a duration with three significant digits, `43.5 ms`; above 1000 s, `16 min 40 s`; above
/// an hour, `1 h 40 min 07 s`.
#[must_use]
pub fn duration(ns: u64) -> String {
    if ns < 1_000 {
        return format!("{ns} ns");
    }
    for (unit, name) in UNITS {
        for (decimals, scale) in [(2_u32, 100_u64), (1, 10), (0, 1)] {
            let scaled =
                (u128::from(ns) * u128::from(scale) + u128::from(unit / 2)) / u128::from(unit);
            if scaled < 1_000 {
                return format!("{} {name}", decimal(scaled, decimals));
            }
        }
    }
    let seconds = ns / 1_000_000_000;
    if seconds < 3_600 {
        return format!("{} min {:02} s", seconds / 60, seconds % 60);
    }
    let hours = seconds / 3_600;
    let minutes = seconds / 60 % 60;
    if seconds < 36_000 {
        return format!("{hours} h {minutes:02} min {:02} s", seconds % 60);
    }
    format!("{hours} h {minutes:02} min")
}

/// Returns the [`duration`] of a known time, or [`UNKNOWN`].
#[must_use]
pub fn duration_or_unknown(ns: Option<u64>) -> String {
    ns.map_or_else(|| UNKNOWN.to_owned(), duration)
}

/// Returns `part` as a percentage of `total`, rounded to whole percent: `96 %`, `< 1 %`.
#[must_use]
pub fn share(part: u64, total: u64) -> String {
    let part = u128::from(part);
    let total = u128::from(total);
    let Some(percent) = (part * 100 + total / 2).checked_div(total) else {
        return UNKNOWN.to_owned();
    };
    match percent {
        0 if part > 0 => "< 1 %".to_owned(),
        100.. if part < total => "> 99 %".to_owned(),
        _ => format!("{percent} %"),
    }
}

/// Returns a rate with three significant digits: `98.8 kbit/s`.
#[must_use]
pub fn rate(bits_per_s: u64) -> String {
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let value = bits_per_s as f64;
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| value >= *unit) else {
        return format!("{bits_per_s} bit/s");
    };
    let decimals = match value / unit {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{:.decimals$} {name}", value / unit)
}

/// Returns the size of a file with three significant digits: `16.8 MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    let units = [("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let value = bytes as f64;
    // A value that is rounded up to 1000 has the next unit.
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| value >= unit * 0.9995) else {
        return format!("{bytes} B");
    };
    let decimals = match value / unit {
        99.95.. => 0,
        9.995.. => 1,
        _ => 2,
    };
    format!("{:.decimals$} {name}", value / unit)
}

/// Returns the rate of a file in bytes per second with three significant digits: `12.3 MB/s`. Rates
/// of lines are in bit/s, see [`rate`].
#[must_use]
pub fn byte_rate(bits_per_s: u64) -> String {
    format!("{}/s", size(bits_per_s / 8))
}

/// Returns a count with its noun: `1 key`, `20 keys`.
#[must_use]
pub fn counted(value: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(value), if value == 1 { singular } else { plural })
}

/// Formats a known rate with [`rate`]; returns [`UNKNOWN`] for `None`.
#[must_use]
pub fn rate_or_unknown(bits_per_s: Option<u64>) -> String {
    bits_per_s.map_or_else(|| UNKNOWN.to_owned(), rate)
}

/// Returns a count with thousands separators: `19,200`.
#[must_use]
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a known count with [`count`]; returns [`UNKNOWN`] for `None`.
#[must_use]
pub fn count_or_unknown(value: Option<u64>) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), count)
}

fn decimal(scaled: u128, decimals: u32) -> String {
    let unit = 10_u128.pow(decimals);
    match decimals {
        0 => scaled.to_string(),
        _ => format!("{}.{:0width$}", scaled / unit, scaled % unit, width = decimals as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_three_significant_digits() {
        let texts = [0, 999, 1_000, 16_777_216, 999_999, 138_001_424, 2_000_000_000_000].map(size);
        let expected = ["0 B", "999 B", "1.00 kB", "16.8 MB", "1.00 MB", "138 MB", "2.00 TB"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_rate_has_three_significant_digits() {
        let texts = [0, 999, 1_234, 98_765, 123_456_789, 9_870_000_000].map(rate);
        let expected =
            ["0 bit/s", "999 bit/s", "1.23 kbit/s", "98.8 kbit/s", "123 Mbit/s", "9.87 Gbit/s"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn one_of_a_kind_is_singular() {
        let texts = [0, 1, 2_000].map(|value| counted(value, "try", "tries"));
        assert_eq!(texts, ["0 tries", "1 try", "2,000 tries"]);
    }

    #[test]
    fn a_rate_of_a_file_is_in_bytes_per_second() {
        assert_eq!([64, 98_765_432].map(byte_rate), ["8 B/s", "12.3 MB/s"]);
    }

    #[test]
    fn a_duration_has_three_significant_digits() {
        let texts = [0, 215, 999, 1_000, 215_400, 999_499, 999_500, 43_512_345, 1_220_000_000]
            .map(duration);
        let expected = [
            "0 ns", "215 ns", "999 ns", "1.00 µs", "215 µs", "999 µs", "1.00 ms", "43.5 ms",
            "1.22 s",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn rounding_never_gives_a_fourth_digit() {
        assert_eq!([9_996, 99_960, 9_999_000].map(duration), ["10.0 µs", "100 µs", "10.0 ms"]);
    }

    #[test]
    fn a_long_duration_is_in_minutes_or_hours() {
        let texts = [1_000_000_000_000, 6_007_000_000_000, 36_060_000_000_000, u64::MAX];
        let expected = ["16 min 40 s", "1 h 40 min 07 s", "10 h 01 min", "5124095 h 34 min"];
        assert_eq!(texts.map(duration), expected);
    }

    #[test]
    fn a_share_never_rounds_to_0_or_100_percent() {
        let texts = [(0, 9), (1, 900), (96, 100), (899, 900), (9, 9)].map(|(a, b)| share(a, b));
        assert_eq!(texts, ["0 %", "< 1 %", "96 %", "> 99 %", "100 %"]);
    }

    #[test]
    fn a_share_of_a_zero_total_is_unknown() {
        assert_eq!(share(0, 0), UNKNOWN);
    }

    #[test]
    fn thousands_are_separated_by_commas() {
        assert_eq!([0, 960, 9_600, 1_234_567].map(count), ["0", "960", "9,600", "1,234,567"]);
    }

    #[test]
    fn the_unit_of_a_duration_changes_at_its_boundaries() {
        let texts = [999, 1_000, 9_994, 9_995, 99_949, 99_950, 999_499_999_999, 999_500_000_000];
        let expected = [
            "999 ns",
            "1.00 µs",
            "9.99 µs",
            "10.0 µs",
            "99.9 µs",
            "100 µs",
            "999 s",
            "16 min 39 s",
        ];
        assert_eq!(texts.map(duration), expected);
        let seconds = [3_599, 3_600, 35_999, 36_000].map(|s| duration(s * 1_000_000_000));
        assert_eq!(seconds, ["59 min 59 s", "1 h 00 min 00 s", "9 h 59 min 59 s", "10 h 00 min"]);
        assert_eq!(duration_or_unknown(Some(1_000)), "1.00 µs");
        assert_eq!(
            [duration_or_unknown(None), rate_or_unknown(None), count_or_unknown(None)],
            ["-"; 3]
        );
    }

    #[test]
    fn a_share_is_rounded_to_the_nearest_percent() {
        let texts =
            [(1, 200), (1, 201), (5, 1_000), (199, 200), (995, 1_000), (994, 1_000), (3, 2)];
        let expected = ["1 %", "< 1 %", "1 %", "> 99 %", "> 99 %", "99 %", "150 %"];
        assert_eq!(texts.map(|(part, total)| share(part, total)), expected);
        assert_eq!(
            [10_000, 99_999, 100_000, 1_000_000_000].map(rate),
            ["10.0 kbit/s", "100.0 kbit/s", "100 kbit/s", "1.00 Gbit/s"]
        );
    }
}
