//! Delay between password checks of a source after failures.
//!
//! A failed check delays the next check of the same source on any connection, even if the next
//! password is correct: [`Throttle::reserve`] assigns each check its start time in advance.
//! Disconnecting does not avoid the delay, because the delay applies to the next check as well as
//! to the answer of the failed check.
//!
//! All users behind one address share the delay of that address. Exception: a name that has already
//! logged in from the address has a separate delay, so that an attacker behind the same NAT cannot
//! lock this user out. The separate delay reveals to other users of the address that the name has
//! logged in from it.

use super::fair_queue::{Busy, FairQueue, Permit};
use super::source::source;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time for which a failed check counts against its source.
const FAILURE_LIFETIME: Duration = Duration::from_secs(600);
/// Delay after the first failed check; each further failure doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay, and maximum time that a check waits for its start time.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(30);
/// Maximum number of sources whose failures are remembered.
const SOURCES_MAX: usize = 4096;
/// Maximum number of remembered pairs of a name and the source of its login.
const KNOWN_LOGINS_MAX: usize = 4096;

/// The check would have to wait longer than [`DELAY_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WaitTooLong;

/// Reserved start time of a password check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) wait: Duration,
    /// Number of failures counted at the time of the reservation. The reservation is void if the
    /// number differs when the check is about to start.
    pub(super) failures: u32,
}

/// Waits for the reserved start time of a check, then for a permit of `queue`. The caller must hold
/// the permit until a failure is recorded, so that the next check of the same source does not begin
/// before the failure is counted.
///
/// # Errors
///
/// Returns [`Busy`] if the queue is full, or if too many earlier checks of this source are waiting.
pub(super) async fn acquire(
    queue: &FairQueue,
    address: IpAddr,
    reserve: impl Fn() -> Result<Reservation, WaitTooLong>,
    failures: impl Fn() -> u32,
) -> Result<Permit, Busy> {
    loop {
        let reservation = reserve().map_err(|WaitTooLong| Busy)?;
        if !reservation.wait.is_zero() {
            tokio::time::sleep(reservation.wait).await;
        }
        let permit = queue.acquire(address).await?;
        if failures() == reservation.failures {
            return Ok(permit);
        }
    }
}

/// Key of a failure counter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DelayKey {
    Source(IpAddr),
    Known(IpAddr, String),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// Earliest time of the next check.
    next_check: Instant,
}

impl Failures {
    /// Returns the delay caused by the next failure.
    fn delay(self) -> Duration {
        let factor = 1_u32.checked_shl(self.count).unwrap_or(u32::MAX);
        FIRST_DELAY.saturating_mul(factor).min(DELAY_MAX)
    }
}

/// Failures of all sources.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    failures: BTreeMap<DelayKey, Failures>,
    /// Time of the last login of each name from each source.
    known_logins: BTreeMap<(IpAddr, String), Instant>,
}

impl Throttle {
    /// Reserves the start time of a check of `name`. Returns the wait until that time.
    ///
    /// # Errors
    ///
    /// Returns [`WaitTooLong`] if the check would have to wait longer than [`DELAY_MAX`] for
    /// earlier checks.
    pub(super) fn reserve(
        &mut self,
        address: IpAddr,
        name: &str,
        now: Instant,
    ) -> Result<Reservation, WaitTooLong> {
        let key = self.key(address, name);
        let no_wait = Reservation { wait: Duration::ZERO, failures: 0 };
        let Some(failures) = self.failures.get_mut(&key) else { return Ok(no_wait) };
        if now.saturating_duration_since(failures.last) >= FAILURE_LIFETIME {
            self.failures.remove(&key);
            return Ok(no_wait);
        }
        let wait = failures.next_check.saturating_duration_since(now);
        if wait > DELAY_MAX {
            return Err(WaitTooLong);
        }
        failures.next_check = now + wait + failures.delay();
        Ok(Reservation { wait, failures: failures.count })
    }

    /// Returns the number of failed checks that delay further checks of `name` from `address`.
    pub(super) fn failures(&self, address: IpAddr, name: &str) -> u32 {
        self.failures.get(&self.key(address, name)).map_or(0, |failures| failures.count)
    }

    /// Records a failed check of `name`. Returns the delay of its answer.
    pub(super) fn record_failure(&mut self, address: IpAddr, name: &str, now: Instant) -> Duration {
        self.failures
            .retain(|_, failures| now.saturating_duration_since(failures.last) < FAILURE_LIFETIME);
        let key = self.key(address, name);
        if self.failures.len() >= SOURCES_MAX && !self.failures.contains_key(&key) {
            // The failure cannot be remembered, so its answer gets the maximum delay.
            return DELAY_MAX;
        }
        let first = Failures { count: 0, last: now, next_check: now };
        let failures = self.failures.entry(key).or_insert(first);
        let delay = failures.delay();
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        failures.next_check = failures.next_check.max(now + delay);
        delay
    }

    /// Records a successful login of `name` from `address`.
    pub(super) fn record_success(&mut self, address: IpAddr, name: &str, now: Instant) {
        let key = (source(address), name.to_owned());
        self.failures.remove(&DelayKey::Known(key.0, key.1.clone()));
        if self.known_logins.len() >= KNOWN_LOGINS_MAX && !self.known_logins.contains_key(&key) {
            let oldest =
                self.known_logins.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.known_logins.remove(&oldest);
            }
        }
        self.known_logins.insert(key, now);
    }

    fn key(&self, address: IpAddr, name: &str) -> DelayKey {
        let key = (source(address), name.to_owned());
        match self.known_logins.contains_key(&key) {
            true => DelayKey::Known(key.0, key.1),
            false => DelayKey::Source(key.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair_queue::Limits;
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    const FIRST_ADDRESS: &str = "192.0.2.1";

    fn wait(
        throttle: &mut Throttle,
        address: &str,
        name: &str,
        now: Instant,
    ) -> Result<Duration, WaitTooLong> {
        throttle.reserve(at(address), name, now).map(|reserved| reserved.wait)
    }

    #[test]
    fn each_failure_doubles_the_delay_up_to_a_limit_and_expires() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        let mut record_failure_after = |at_s: u64| {
            let now = now + Duration::from_secs(at_s);
            throttle.record_failure(at(FIRST_ADDRESS), "ann", now).as_secs()
        };
        let delays: Vec<_> = (0..40).map(&mut record_failure_after).collect();
        assert_eq!(delays[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delays[39], 30);
        assert_eq!(record_failure_after(10_000), 1);
    }

    #[test]
    fn sources_beyond_the_limit_get_the_maximum_delay() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for number in 0..5000_u32 {
            throttle.record_failure(IpAddr::from(number.to_be_bytes()), "ann", now);
        }
        assert_eq!(throttle.record_failure(at("203.0.113.1"), "ann", now), DELAY_MAX);
        assert!(throttle.failures.len() <= SOURCES_MAX);
    }

    /// Simulates `parallel` connections that guess for `seconds` without waiting for answers.
    /// Returns the number of checks made.
    fn count_checks(parallel: u64, seconds: u64) -> usize {
        let mut throttle = Throttle::default();
        let started_at = Instant::now();
        let mut checks = 0;
        for millis in (0..seconds * 1_000).step_by(50) {
            let now = started_at + Duration::from_millis(millis);
            for _ in 0..parallel {
                // The attacker disconnects if its check would be delayed.
                if wait(&mut throttle, FIRST_ADDRESS, "ann", now) == Ok(Duration::ZERO) {
                    throttle.record_failure(at(FIRST_ADDRESS), "ann", now);
                    checks += 1;
                }
            }
        }
        checks
    }

    // attack row 98
    #[test]
    fn reconnecting_allows_no_more_password_checks_than_waiting() {
        // The delays are 1, 2, 4, 8 and 16 s, then 30 s each.
        let checks_when_waiting = 5 + (600 - 31) / 30 + 1;
        for parallel in [1, 16] {
            assert!(count_checks(parallel, 600) <= checks_when_waiting, "{parallel}");
        }
    }

    // attack row 98
    #[test]
    fn a_correct_password_waits_as_long_as_a_wrong_one() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..3 {
            throttle.record_failure(at(FIRST_ADDRESS), "ann", now);
        }
        assert_eq!(wait(&mut throttle, FIRST_ADDRESS, "ann", now), Ok(Duration::from_secs(4)));
        assert_eq!(wait(&mut throttle, "192.0.2.2", "ann", now), Ok(Duration::ZERO));
    }

    // attack row 98
    #[tokio::test]
    async fn a_failure_voids_the_reservations_of_queued_checks() {
        let limits = Limits { running_max: 1, waiting_max: 9, waiting_per_source_max: 9 };
        let queue = FairQueue::new(limits);
        let throttle = RefCell::new(Throttle::default());
        let reserve = || throttle.borrow_mut().reserve(at(FIRST_ADDRESS), "ann", Instant::now());
        let failures = || throttle.borrow().failures(at(FIRST_ADDRESS), "ann");
        let first = acquire(&queue, at(FIRST_ADDRESS), reserve, failures).await.unwrap();
        let mut second = pin!(acquire(&queue, at(FIRST_ADDRESS), reserve, failures));
        let is_waiting = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        for _ in 0..6 {
            throttle.borrow_mut().record_failure(at(FIRST_ADDRESS), "ann", Instant::now());
        }
        drop(first);
        // The queue has a permit for the second check, but its start time is half a minute away.
        let is_waiting = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        assert_eq!(reserve(), Err(WaitTooLong));
    }

    #[test]
    fn checks_of_one_source_get_successive_start_times_and_only_a_few_wait() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for _ in 0..8 {
            throttle.record_failure(at(FIRST_ADDRESS), "ann", now);
        }
        let waits: Vec<_> =
            (0..4).map(|_| wait(&mut throttle, FIRST_ADDRESS, "ann", now)).collect();
        assert_eq!(waits[0], Ok(Duration::from_secs(30)));
        assert_eq!(waits[1..], [Err(WaitTooLong); 3]);
    }

    #[test]
    fn a_name_that_has_logged_in_from_a_source_has_a_delay_of_its_own_there() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        throttle.record_success(at(FIRST_ADDRESS), "ann", now);
        for _ in 0..9 {
            throttle.record_failure(at(FIRST_ADDRESS), "bob", now);
        }
        assert_eq!(wait(&mut throttle, FIRST_ADDRESS, "ann", now), Ok(Duration::ZERO));
        assert_eq!(wait(&mut throttle, FIRST_ADDRESS, "bob", now), Ok(DELAY_MAX));
        // Guesses of this name from the same address are delayed too.
        throttle.record_failure(at(FIRST_ADDRESS), "ann", now);
        assert_eq!(wait(&mut throttle, FIRST_ADDRESS, "ann", now), Ok(FIRST_DELAY));
        assert_eq!(wait(&mut throttle, "192.0.2.2", "ann", now), Ok(Duration::ZERO));
    }

    #[test]
    fn only_the_latest_logged_in_names_are_remembered() {
        let mut throttle = Throttle::default();
        let now = Instant::now();
        for number in 0..KNOWN_LOGINS_MAX + 10 {
            let now = now + Duration::from_secs(number as u64);
            throttle.record_success(at(FIRST_ADDRESS), &format!("user{number}"), now);
        }
        assert_eq!(throttle.known_logins.len(), KNOWN_LOGINS_MAX);
        assert!(
            throttle
                .known_logins
                .contains_key(&(at(FIRST_ADDRESS), format!("user{}", KNOWN_LOGINS_MAX + 9)))
        );
        assert!(!throttle.known_logins.contains_key(&(at(FIRST_ADDRESS), "user9".to_owned())));
    }
}
