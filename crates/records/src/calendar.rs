//! Days and times of UTC from Unix time, and back; the date-time of RFC 3339.
//!
//! The Gregorian calendar repeats every 400 years, which are 146,097 days. Internally a year begins
//! in March, so that the leap day is its last day.

use std::time::{SystemTime, UNIX_EPOCH};

const NS_PER_S: u64 = 1_000_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
/// Nanoseconds per day.
pub const NS_PER_DAY: u64 = SECONDS_PER_DAY * NS_PER_S;
/// Days from the first of March of the year 0 to the first of January 1970.
const DAYS_TO_EPOCH: u64 = 719_468;
/// Days of the week, starting at 1 January 1970, a Thursday.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// A point in time in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Year of the Gregorian calendar.
    pub year: u64,
    /// Month, from 1.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Second of the day.
    pub second: u64,
    days: u64,
}

impl Moment {
    /// Converts `unix_ns`, Unix time in ns.
    #[must_use]
    pub fn of(unix_ns: u64) -> Self {
        let seconds = unix_ns / NS_PER_S;
        let days = seconds / SECONDS_PER_DAY;
        let second = seconds % SECONDS_PER_DAY;
        let days_since_year_0 = days + DAYS_TO_EPOCH;
        let era = days_since_year_0 / 146_097;
        let of_era = days_since_year_0 % 146_097;
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: era * 400 + year + u64::from(month <= 2),
            month: u8::try_from(month).unwrap_or(1),
            day: u8::try_from(day).unwrap_or(1),
            second,
            days,
        }
    }

    /// Returns the date as `2026-11-21`.
    #[must_use]
    pub fn date(&self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// Returns the time of day as `12:24:16`.
    #[must_use]
    pub fn time(&self) -> String {
        let second = self.second;
        format!("{:02}:{:02}:{:02}", second / 3_600, second / 60 % 60, second % 60)
    }

    /// Returns the date-time of RFC 3339 in UTC with a resolution of one second,
    /// `2026-11-21T12:24:16Z`.
    #[must_use]
    pub fn rfc_3339(&self) -> String {
        format!("{}T{}Z", self.date(), self.time())
    }

    /// Returns the day of the week as three letters.
    #[must_use]
    pub(crate) fn weekday(&self) -> &'static str {
        let at = usize::try_from(self.days % 7).unwrap_or(0);
        WEEKDAYS.get(at).copied().unwrap_or_default()
    }
}

impl From<SystemTime> for Moment {
    /// Converts `time`. A time before 1970 is converted to the beginning of 1970, and a time after
    /// the year 2554 to a time in that year, because Unix time in ns ends then.
    fn from(time: SystemTime) -> Self {
        let unix_time = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of(u64::try_from(unix_time.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Returns the Unix time at which a day begins, ns; `None` if the date is invalid or not in the
/// years 1970 to 2499.
#[must_use]
pub fn day_start_unix_ns(year: u64, month: u8, day: u8) -> Option<u64> {
    if !(1970..2500).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let march_year = year - u64::from(month <= 2);
    let era = march_year / 400;
    let of_era = march_year % 400;
    let from_march = u64::from(if month > 2 { month - 3 } else { month + 9 });
    let of_year = (153 * from_march + 2) / 5 + u64::from(day) - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    let unix_ns = days.checked_sub(DAYS_TO_EPOCH)?.checked_mul(NS_PER_DAY)?;
    let converted = Moment::of(unix_ns);
    (converted.year == year && converted.month == month && converted.day == day).then_some(unix_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn a_day_of_1973_is_converted() {
        let moment = Moment::of(114_274_874 * NS_PER_S);
        assert_eq!((moment.date(), moment.time()), ("1973-08-15".into(), "15:01:14".into()));
        assert_eq!(moment.weekday(), "Wed");
    }

    #[test]
    fn times_are_formatted_as_in_rfc_3339() {
        let text = |seconds| Moment::from(UNIX_EPOCH + Duration::from_secs(seconds)).rfc_3339();
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(text(951_782_400), "2000-02-29T00:00:00Z");
        // The Gregorian calendar repeats from 1 March 2000 on.
        assert_eq!(text(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(text(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(text(4_107_542_399), "2100-02-28T23:59:59Z");
        assert_eq!(text(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn a_system_time_outside_the_range_is_clamped() {
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Moment::from(before).rfc_3339(), "1970-01-01T00:00:00Z");
        let after = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(Moment::from(after).rfc_3339(), "2554-07-21T23:34:33Z");
    }

    #[test]
    fn february_29_exists_only_in_leap_years() {
        assert!(day_start_unix_ns(2024, 2, 29).is_some());
        assert_eq!(day_start_unix_ns(2026, 2, 29), None);
        assert_eq!(day_start_unix_ns(2026, 11, 31), None);
        assert_eq!(day_start_unix_ns(1969, 12, 31), None);
    }

    #[test]
    fn a_day_of_each_month_and_era_is_converted() {
        let date = |year, month, day| {
            day_start_unix_ns(year, month, day).map(|ns| (ns / NS_PER_DAY, Moment::of(ns).date()))
        };
        assert_eq!(date(1970, 1, 1), Some((0, "1970-01-01".to_owned())));
        assert_eq!(date(1970, 12, 31), Some((364, "1970-12-31".to_owned())));
        assert_eq!(date(2000, 2, 29), Some((11_016, "2000-02-29".to_owned())));
        assert_eq!(date(2000, 3, 1), Some((11_017, "2000-03-01".to_owned())));
        assert_eq!(date(2100, 2, 28), Some((47_540, "2100-02-28".to_owned())));
        assert_eq!(date(2100, 3, 1), Some((47_541, "2100-03-01".to_owned())));
        assert_eq!(date(2400, 2, 29), Some((157_113, "2400-02-29".to_owned())));
        assert_eq!(date(2400, 3, 1), Some((157_114, "2400-03-01".to_owned())));
        assert_eq!(date(2499, 12, 31), Some((193_578, "2499-12-31".to_owned())));
        let invalid = [(2500, 1, 1), (1969, 12, 31), (2000, 0, 1), (2000, 13, 1), (2000, 3, 0)];
        assert!(invalid.iter().all(|&(year, month, day)| date(year, month, day).is_none()));
        assert_eq!((date(2000, 1, 32), date(2100, 2, 29), date(2000, 4, 31)), (None, None, None));
        let months = (1..=12).map(|month| date(2026, month, 1).unwrap().0).collect::<Vec<_>>();
        let first = 20_454;
        let days = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        assert_eq!(months, days.map(|day| first + day));
    }

    #[test]
    fn each_weekday_has_its_name() {
        let names = [0, 1, 2, 3, 4, 5, 6, 7].map(|day| Moment::of(day * NS_PER_DAY).weekday());
        assert_eq!(names, ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed", "Thu"]);
        assert_eq!(Moment::of(NS_PER_DAY - 1).weekday(), "Thu");
        assert_eq!(Moment::of(NS_PER_DAY - 1).time(), "23:59:59");
    }

    proptest! {
        #[test]
        fn a_day_converts_to_its_date_and_back(day in 0..190_000_u64) {
            let moment = Moment::of(day * NS_PER_DAY);
            let day_start_ns = day_start_unix_ns(moment.year, moment.month, moment.day);
            prop_assert_eq!(day_start_ns, Some(day * NS_PER_DAY));
        }
    }
}
