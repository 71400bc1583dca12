//! Times in FTP: `YYYYMMDDHHMMSS.sss` of RFC 3659 §2.3, in UTC.

use alloc::format;
use alloc::string::String;

const SECONDS_PER_DAY: i64 = 86_400;

/// A calendar time with nanosecond resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00 UTC, without leap seconds.
    pub seconds: i64,
    /// Nanoseconds after `seconds`.
    pub nanos: u32,
}

/// A time as calendar fields, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year, 0 to 9999.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u8,
    /// Day of the month, 1 to 31.
    pub day: u8,
    /// Hour, 0 to 23.
    pub hour: u8,
    /// Minute, 0 to 59.
    pub minute: u8,
    /// Second, 0 to 60.
    pub second: u8,
}

impl Timestamp {
    /// Returns the time with these fields, or `None` if they are invalid.
    #[must_use]
    pub fn from_civil(civil: Civil) -> Option<Self> {
        let Civil { year, month, day, hour, minute, second } = civil;
        let is_date = (0..=9999).contains(&year) && (1..=12).contains(&month);
        if !is_date || day == 0 || day > days_in(year, month) {
            return None;
        }
        if hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        let second_of_day = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
        Some(Self {
            seconds: days_from_1970(year, month, day) * SECONDS_PER_DAY + second_of_day,
            nanos: 0,
        })
    }

    /// Returns the calendar fields. A time outside the years 0 to 9999 is clamped to that range.
    #[must_use]
    pub fn civil(self) -> Civil {
        let seconds = self.seconds.clamp(-62_167_219_200, 253_402_300_799);
        let days = seconds.div_euclid(SECONDS_PER_DAY);
        let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
        let (year, month, day) = date_from_days(days);
        let to_u8 = |number: i64| u8::try_from(number).unwrap_or(0);
        Civil {
            year,
            month,
            day,
            hour: to_u8(second_of_day / 3600),
            minute: to_u8(second_of_day / 60 % 60),
            second: to_u8(second_of_day % 60),
        }
    }

    /// Parses `YYYYMMDDHHMMSS`, with or without a fraction.
    ///
    /// The year 2003 is also accepted as `19103`, which some servers send.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.splitn(2, |&byte| byte == b'.');
        let calendar_digits = parts.next()?;
        let fraction = parts.next();
        if !calendar_digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let (year, rest) = match calendar_digits.len() {
            14 => (number(calendar_digits.get(..4)?)?, calendar_digits.get(4..)?),
            15 if calendar_digits.starts_with(b"191") => {
                (number(calendar_digits.get(2..5)?)? + 1900, calendar_digits.get(5..)?)
            }
            _ => return None,
        };
        let part = |at: usize| u8::try_from(number(rest.get(at..at + 2)?)?).ok();
        let civil = Civil {
            year,
            month: part(0)?,
            day: part(2)?,
            hour: part(4)?,
            minute: part(6)?,
            second: part(8)?,
        };
        let nanos = match fraction {
            None => 0,
            Some(digits) => parse_fraction(digits)?,
        };
        Some(Self { nanos, ..Self::from_civil(civil)? })
    }

    /// Formats the time, with a fraction only if it is not zero.
    #[must_use]
    pub fn to_text(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        let calendar_digits = format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}");
        match self.nanos {
            0 => calendar_digits,
            nanos => format!("{calendar_digits}.{nanos:09}").trim_end_matches('0').into(),
        }
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    core::str::from_utf8(digits).ok()?.parse().ok()
}

fn parse_fraction(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let nine_digits = digits.iter().copied().chain(core::iter::repeat(b'0')).take(9);
    Some(nine_digits.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0')))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: u8) -> u8 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the number of days since 1970-01-01.
///
/// It counts in eras of 400 years that begin in March, so that a leap day is the last day of its
/// year.
fn days_from_1970(year: i64, month: u8, day: u8) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let months_from_march = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * months_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_from_march + 2) / 5 + 1;
    let month = if months_from_march < 10 { months_from_march + 3 } else { months_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times_have_their_known_values() {
        for (text, seconds) in [
            ("19700101000000", 0),
            ("20000229235959", 951_868_799),
            ("19981117033316", 911_273_596),
            ("191031117033316", 1_069_039_996),
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()).map(|t| t.seconds), Some(seconds));
        }
        for text in [
            "20010229000000",
            "20000230000000",
            "2001",
            "20011301000000",
            "20010101000000.",
            "2001010100000x",
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn written_values_are_parsed_back(
            seconds in -62_167_219_200_i64..253_402_300_799, nanos in 0..1_000_000_000_u32
        ) {
            let moment = Timestamp { seconds, nanos };
            prop_assert_eq!(Timestamp::parse(moment.to_text().as_bytes()), Some(moment));
        }
    }
}
