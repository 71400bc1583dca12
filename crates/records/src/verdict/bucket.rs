//! A token bucket, as transfers of growing sizes show it: time against size has two slopes.
//!
//! What fits into a full bucket passes at the rate of what lies behind it, and from there on each
//! byte takes its time at the bucket's own rate. The first slope is less than half of the second. Slow
//! start is the other way round: there the short ones are the slow ones. A short transfer that has
//! met no loss may be as fast, so nothing is said where the largest one does not come evenly.

use super::cause::{Cause, Kind, Whole};
use super::keys::round_trip_ns;
use super::observation::{Direction, Observation};
use super::traffic::{evenness_percent, rate_bps, serial_ns};
use crate::figures::count;

/// Behind the bucket a transfer is so even at least.
const EVEN_PERCENT: u64 = 60;
/// What passes the bucket is so many times faster than what comes behind it, and by so much, ns: what
/// saves little must be much faster, or it was chance.
const FASTER: [(u64, u64); 2] = [(2, 3_000_000), (4, 1_000_000)];
/// So many flights of slow start (RFC 6928) are no bucket.
const FLIGHTS: u64 = 2;
/// Unless a round trip is one part in so many of what is saved.
const TRIPS: u64 = 4;
const INITIAL_SEGMENTS: u64 = 10;
/// What takes less says nothing of a rate.
const INSTANT_NS: u64 = 300_000;

/// What the sizes say of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    /// What passes at once, bytes.
    bytes: u64,
    /// At which rate, bit/s; `None` where that is too fast to tell.
    before_bps: Option<u64>,
    /// What comes behind it, bit/s.
    after_bps: u64,
}

/// Returns the bucket that `sizes` show, bytes and times, from the smallest, over a network of
/// `trip_ns`.
fn bucket(sizes: &[(u64, u64)], mss_bytes: u64, trip_ns: u64) -> Option<Bucket> {
    let [.., (less, shorter_ns), (most, longest_ns)] = sizes else { return None };
    let after_bps = rate_bps(most.checked_sub(*less)?, longest_ns.checked_sub(*shorter_ns)?)?;
    let flights = mss_bytes.saturating_mul(INITIAL_SEGMENTS * FLIGHTS);
    // A transfer that is as quick as shorter ones shows what all of them take.
    let fixed_ns = |bytes: u64| {
        let shorter = sizes.iter().filter(|(other, _)| *other < bytes);
        shorter.map(|(_, ns)| *ns).min()
    };
    let data_ns = |(bytes, ns): (u64, u64)| Some(ns.saturating_sub(fixed_ns(bytes)?));
    let passes = |size: (u64, u64)| {
        let slow_ns = serial_ns(size.0, after_bps);
        data_ns(size).is_some_and(|took| {
            let saved_ns = slow_ns.saturating_sub(took);
            let is_faster = FASTER.iter().any(|(times, least_ns)| {
                slow_ns >= took.saturating_mul(*times) && saved_ns >= *least_ns
            });
            is_faster && (size.0 >= flights || trip_ns.saturating_mul(TRIPS) <= saved_ns)
        })
    };
    let at = sizes.iter().rposition(|size| passes(*size))?;
    let (through, behind) = (*sizes.get(at)?, *sizes.get(at + 1)?);
    // What the next one saves, as against the slow rate alone, has passed at once.
    let (bytes, took) = (behind.0, data_ns(behind)?);
    let slow = u64::try_from(u128::from(took) * u128::from(after_bps) / 8_000_000_000).ok()?;
    let bytes = bytes.saturating_sub(slow).max(through.0).min(behind.0);
    let took = data_ns(through)?;
    let before_bps = rate_bps(through.0, took).filter(|_| took > INSTANT_NS);
    Some(Bucket { bytes, before_bps, after_bps })
}

/// Returns what a token bucket costs that the smaller of the transfers pass at once.
pub(super) fn of_sizes(observed: &Observation) -> Option<Cause> {
    let mss_bytes = observed.path.mss_bytes?;
    let trip_ns = round_trip_ns(observed)?;
    let found = bucket(&observed.sizes, mss_bytes, trip_ns)?;
    let is_long = |flow: &&super::Flow| flow.direction == Direction::Incoming;
    let long = observed.transfers.iter().filter(is_long).max_by_key(|flow| flow.bytes)?;
    if evenness_percent(&long.arrivals, found.bytes)? < EVEN_PERCENT {
        return None;
    }
    let rest = long.bytes.saturating_sub(found.bytes);
    let fast_ns = found.before_bps.map_or(0, |rate| serial_ns(rest, rate));
    let gain_ns = serial_ns(rest, found.after_bps).saturating_sub(fast_ns).min(long.elapsed_ns);
    let before = found.before_bps.map_or_else(
        || "faster than can be measured".to_owned(),
        |rate| format!("at {} bit/s", count(rate)),
    );
    Some(Cause {
        kind: Kind::RateLimiter,
        of: Whole::Transfer,
        cost_ns: gain_ns,
        gain_ns,
        total_ns: long.elapsed_ns,
        subject: "A rate limiter on the way".to_owned(),
        advice: format!(
            "about {} bytes come {before}, and then the rest at {} bit/s: ask who has set that \
             rate, or keep below its bucket",
            count(found.bytes),
            count(found.after_bps)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;
    const SIZES: [u64; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 12_000_000];

    /// Returns what transfers take behind a bucket: 2 ms whatever their size, and their bytes at 800
    /// Mbit/s, and beyond `bucket` at 50.
    fn behind(bucket: u64) -> Vec<(u64, u64)> {
        let time = |bytes: u64| {
            let over = bytes.saturating_sub(bucket);
            2 * MS + serial_ns(bytes - over, 800_000_000) + serial_ns(over, 50_000_000)
        };
        SIZES.map(|bytes| (bytes, time(bytes))).to_vec()
    }

    #[test]
    fn two_slopes_are_a_bucket_of_so_many_bytes() {
        let found = bucket(&behind(100_000), 1_448, MS / 10).unwrap();
        assert!(found.after_bps.abs_diff(50_000_000) < 500_000, "{found:?}");
        assert!(found.bytes.abs_diff(100_000) < 10_000, "{found:?}");
    }

    #[test]
    fn a_bucket_that_the_transfers_before_have_half_emptied_is_told_by_the_smaller_ones() {
        let sizes = [(1_024, 549), (4_096, 463), (16_384, 353), (65_536, 6_950), (262_144, 44_100)];
        let sizes = sizes.map(|(bytes, us)| (bytes, us * 1_000));
        let sizes = [sizes.as_slice(), &[(1 << 20, 175 * MS)]].concat();
        assert!(bucket(&sizes, 1_448, MS / 50).is_some());
        assert_eq!(bucket(&sizes, 1_448, 20 * MS), None);
    }

    #[test]
    fn one_slope_is_a_line() {
        assert_eq!(bucket(&behind(0), 1_448, MS / 10), None);
    }

    #[test]
    fn slow_start_is_no_bucket() {
        // Ten segments at first, twice as many each 20 ms, at last 50 Mbit/s.
        let waits =
            |bytes: u64| u64::from(u64::BITS - (bytes.min(125_000) / 14_480).leading_zeros());
        let time = |bytes: u64| 20 * MS * (2 + waits(bytes)) + serial_ns(bytes, 50_000_000);
        let sizes = SIZES.map(|bytes| (bytes, time(bytes)));
        assert_eq!(bucket(&sizes, 1_448, 20 * MS), None);
    }

    #[test]
    fn a_window_of_the_first_flight_is_no_bucket() {
        // A window of 8 KiB, and 20 ms for each.
        let sizes = SIZES.map(|bytes| (bytes, 20 * MS * bytes.div_ceil(8 << 10)));
        assert_eq!(bucket(&sizes, 1_448, 20 * MS), None);
    }

    proptest! {
        #[test]
        fn no_times_break_it(
            raw in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..9),
            mss_bytes: u64,
            trip_ns: u64,
        ) {
            _ = bucket(&raw, mss_bytes, trip_ns);
        }
    }
}
