//! Number and interval of the tries at a target, and the durations and sizes of options.

use super::series::Schedule;
use anyhow::{Context, Result, bail};
use net::time::Duration;

/// Default interval between the starts of two tries.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(60);
/// Number of intervals of a duration without a number of tries.
const LENGTH_DIVISOR: u32 = 10;
/// Minimum default interval.
const DEFAULT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Default interval of tries that are followed.
pub const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between the starts of two tries, which limits the load on the target.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Maximum total duration of the tries.
const DURATION_MAX: Duration = Duration::from_secs(31 * 86_400);
/// Maximum number of tries. Each try is a line of the record.
pub const TRIES_MAX: u64 = 100_000;

/// Creates a schedule from the options. The duration in `--for` is converted to a number of
/// tries, each of which occupies one interval. Without an interval, a short duration is divided by
/// the number of tries, or into ten intervals.
///
/// # Errors
///
/// Returns an error with an explanation if the tries have no end or exceed a limit.
pub fn schedule(
    count: Option<u64>,
    every: Option<Duration>,
    length: Option<Duration>,
) -> Result<Schedule> {
    if every.is_some() && count.is_none() && length.is_none() {
        bail!("--every needs an end: use --for or --tries");
    }
    let tries = count.map_or(LENGTH_DIVISOR, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let share = length.and_then(|length| length.checked_div(tries));
    let default_interval = share.map_or(DEFAULT_INTERVAL, |share| share.max(DEFAULT_INTERVAL_MIN));
    let interval = every.unwrap_or(default_interval.min(DEFAULT_INTERVAL));
    if interval < INTERVAL_MIN {
        bail!("--every is at least 100ms");
    }
    if length.is_some_and(|length| length > DURATION_MAX) {
        bail!("--for is at most 744h, which is a month");
    }
    let count_in_length = length.map(|length| length.as_nanos() / interval.as_nanos());
    let count_in_length =
        count_in_length.map(|count| u64::try_from(count).unwrap_or(u64::MAX).max(1));
    let count = match (count, count_in_length) {
        (None, None) => 1,
        (Some(count), None) => count,
        (count, Some(count_in_length)) => count.unwrap_or(u64::MAX).min(count_in_length),
    };
    if count > TRIES_MAX {
        bail!(
            "--for and --every give {count} tries, but a run has at most {TRIES_MAX}: use a \
            longer --every"
        );
    }
    Ok(Schedule { count, interval, length })
}

/// Parses `60s`, `500ms`, `5m`, `1h`; a number without a unit is in seconds.
///
/// # Errors
///
/// Returns an error with an explanation if `text` is not a duration.
pub fn duration(text: &str) -> Result<Duration> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let factor_ms: u64 = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => 0,
    };
    let number = number.parse::<u64>().ok().filter(|number| *number > 0 && factor_ms > 0);
    let ms = number.and_then(|number| number.checked_mul(factor_ms));
    let ms = ms.with_context(|| {
        format!("invalid time '{}': use e.g. 500ms, 60s, 5m or 1h", text.escape_debug())
    })?;
    Ok(Duration::from_millis(ms))
}

/// Parses a size in bytes such as `64K`, `16M`, `1G`, with powers of 1024.
///
/// # Errors
///
/// Returns an error if `text` is not a size from 1 byte to 1 GiB.
pub fn size(text: &str) -> Result<u64> {
    let bytes = any_size(text).filter(|bytes| (1..=1 << 30).contains(bytes));
    bytes.with_context(|| {
        format!("invalid size '{}': use 1 to 1G, e.g. 64K or 16M", text.escape_debug())
    })
}

/// Parses the size of a file that is not transferred. It has the format of [`size`] and a higher
/// limit.
///
/// # Errors
///
/// Returns an error if `text` is not a size from 1 byte to 1024 TiB.
pub fn large_size(text: &str) -> Result<u64> {
    let bytes = any_size(text).filter(|bytes| (1..=1 << 50).contains(bytes));
    bytes.with_context(|| {
        format!("invalid size '{}': use 1 to 1024T, e.g. 700M or 10G", text.escape_debug())
    })
}

fn any_size(text: &str) -> Option<u64> {
    let digits = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).unwrap_or_default();
    let shift = match unit {
        "" | "B" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "m" | "MiB" => Some(20),
        "G" | "g" | "GiB" => Some(30),
        "T" | "t" | "TiB" => Some(40),
        _ => None,
    };
    let bytes = number.parse::<u64>().ok().zip(shift);
    bytes.and_then(|(number, shift)| number.checked_mul(1 << shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn an_hour_of_minutes_is_sixty_tries() {
        let hour = Duration::from_secs(3_600);
        let hourly = schedule(None, Some(MINUTE), Some(hour)).unwrap();
        assert_eq!(hourly, Schedule { count: 60, interval: MINUTE, length: Some(hour) });
    }

    #[test]
    fn a_short_duration_without_an_interval_has_ten_tries() {
        let tries = |seconds| {
            let schedule = schedule(None, None, Some(Duration::from_secs(seconds))).unwrap();
            (schedule.count, schedule.interval.as_secs())
        };
        assert_eq!([30, 5, 600, 3_600].map(tries), [(10, 3), (5, 1), (10, 60), (60, 60)]);
        let five = schedule(Some(5), None, Some(Duration::from_secs(30))).unwrap();
        assert_eq!((five.count, five.interval.as_secs()), (5, 6));
    }

    #[test]
    fn by_default_there_is_one_try() {
        assert_eq!(schedule(None, None, None).unwrap().count, 1);
        assert_eq!(schedule(Some(5), None, None).unwrap().count, 5);
    }

    #[test]
    fn the_earlier_limit_ends_a_run() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(schedule(Some(5), None, Some(hour)).unwrap().count, 5);
        assert_eq!(schedule(Some(500), Some(MINUTE), Some(hour)).unwrap().count, 60);
    }

    #[test]
    fn a_run_without_an_end_is_rejected() {
        let error = schedule(None, Some(MINUTE), None).unwrap_err();
        assert!(error.to_string().contains("needs an end"));
        assert!(schedule(Some(2), Some(Duration::from_millis(1)), None).is_err());
        assert!(schedule(None, None, Some(DURATION_MAX + MINUTE)).is_err());
        let shortest_interval = Some(Duration::from_millis(100));
        assert!(schedule(None, shortest_interval, Some(DURATION_MAX)).is_err());
    }

    #[test]
    fn times_and_sizes_are_parsed_with_their_units() {
        let times = ["500ms", "60s", "60", "5m", "1h"].map(|text| duration(text).unwrap());
        assert_eq!(times.map(|time| time.as_millis()), [500, 60_000, 60_000, 300_000, 3_600_000]);
        let sizes = ["1", "64K", "16M", "1G"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [1, 65_536, 16_777_216, 1_073_741_824]);
        assert!(["", "s", "0s", "1y", "-1"].iter().all(|text| duration(text).is_err()));
        assert!(["", "0", "2G", "1T", "K"].iter().all(|text| size(text).is_err()));
        assert_eq!(large_size("10G").unwrap(), 10 << 30);
        assert!(["0", "1025T", "1P", "99999999T"].iter().all(|text| large_size(text).is_err()));
    }

    proptest! {
        #[test]
        fn printed_durations_and_sizes_are_parsed_back(number in 1..=1024_u64, unit in 0..4_usize) {
            let (name, ms) = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)][unit];
            let expected = Duration::from_millis(number * ms);
            prop_assert_eq!(duration(&format!("{number}{name}")).unwrap(), expected);
            let (name, bytes) = [("B", 1), ("K", 1 << 10), ("M", 1 << 20), ("T", 1 << 40)][unit];
            let text = format!("{number}{name}");
            prop_assert_eq!(large_size(&text).unwrap(), number * bytes);
            prop_assert_eq!(size(&text).ok(), (unit < 3).then_some(number * bytes));
        }
    }
}
