//! The delay between password checks of a source that has failed.
//!
//! A failed check makes the next one of its source wait, whether that will be right or wrong, in
//! this connection or another: [`Throttle::reserve`] gives each check its time before it is made.
//! Hanging up saves nothing, as what is delayed is not the answer but the next check.
//!
//! Users behind one address share its delay, with one exception: a name that has logged in from
//! there before has a delay of its own, so that a guesser behind the same address translation does
//! not lock it out. This reveals to others at that address that the name has logged in from there.

use super::fair_queue::{Busy, FairQueue, Permit};
use super::source::source;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a failed check counts against its source.
const MEMORY: Duration = Duration::from_secs(600);
/// The delay after the first failed check; each further one doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// The longest delay, and the longest that a check waits for its time.
pub(super) const DELAY_MAX: Duration = Duration::from_secs(30);
/// The most sources whose failures are remembered.
const SOURCES_MAX: usize = 4096;
/// The most names that are remembered with the source from which they have logged in.
const KNOWN_MAX: usize = 4096;

/// The time of the next check of this source is too far away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSoon;

/// The time of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reservation {
    pub(super) wait: Duration,
    /// How many failures there were. The reservation is void when there are more.
    pub(super) failures: u32,
}

/// Waits for the time of a check and for its turn in `queue`. The permit is to be kept until the
/// failure, if it is one, is noted: then the next check of this source does not begin before that.
///
/// # Errors
///
/// If the queue is full, or too many checks of this source come first.
pub(super) async fn turn(
    queue: &FairQueue,
    address: IpAddr,
    reserve: impl Fn() -> Result<Reservation, TooSoon>,
    failures: impl Fn() -> u32,
) -> Result<Permit, Busy> {
    loop {
        let reserved = reserve().map_err(|TooSoon| Busy)?;
        if !reserved.wait.is_zero() {
            tokio::time::sleep(reserved.wait).await;
        }
        let permit = queue.turn(address).await?;
        if failures() == reserved.failures {
            return Ok(permit);
        }
    }
}

/// The key under which failures are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum DelayKey {
    Source(IpAddr),
    Known(IpAddr, String),
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
    /// When the next check may be made.
    next_check: Instant,
}

impl Failures {
    /// The delay that the next failure brings.
    fn delay(self) -> Duration {
        let factor = 1_u32.checked_shl(self.count).unwrap_or(u32::MAX);
        FIRST_DELAY.saturating_mul(factor).min(DELAY_MAX)
    }
}

/// The failures of all sources.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    failures: BTreeMap<DelayKey, Failures>,
    /// When each name has last logged in from a source.
    known: BTreeMap<(IpAddr, String), Instant>,
}

impl Throttle {
    /// Gives a check of `name` its time: returns how long it has to wait.
    ///
    /// # Errors
    ///
    /// If it would wait for longer than [`DELAY_MAX`], because other checks come first.
    pub(super) fn reserve(
        &mut self,
        address: IpAddr,
        name: &str,
        now: Instant,
    ) -> Result<Reservation, TooSoon> {
        let key = self.key(address, name);
        let at_once = Reservation { wait: Duration::ZERO, failures: 0 };
        let Some(failures) = self.failures.get_mut(&key) else { return Ok(at_once) };
        if now.saturating_duration_since(failures.last) >= MEMORY {
            self.failures.remove(&key);
            return Ok(at_once);
        }
        let wait = failures.next_check.saturating_duration_since(now);
        if wait > DELAY_MAX {
            return Err(TooSoon);
        }
        failures.next_check = now + wait + failures.delay();
        Ok(Reservation { wait, failures: failures.count })
    }

    /// Returns how many failures delay the checks of `name`.
    pub(super) fn failures(&self, address: IpAddr, name: &str) -> u32 {
        self.failures.get(&self.key(address, name)).map_or(0, |failures| failures.count)
    }

    /// Records a failed check, and returns how long its answer is held back.
    pub(super) fn note_failure(&mut self, address: IpAddr, name: &str, now: Instant) -> Duration {
        self.failures.retain(|_, failures| now.saturating_duration_since(failures.last) < MEMORY);
        let key = self.key(address, name);
        if self.failures.len() >= SOURCES_MAX && !self.failures.contains_key(&key) {
            // There is no room to remember it, so its answer waits as long as the worst.
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

    /// Records that `name` has logged in.
    pub(super) fn note_success(&mut self, address: IpAddr, name: &str, now: Instant) {
        let key = (source(address), name.to_owned());
        self.failures.remove(&DelayKey::Known(key.0, key.1.clone()));
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&key) {
            let oldest = self.known.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(key, now);
    }

    fn key(&self, address: IpAddr, name: &str) -> DelayKey {
        let key = (source(address), name.to_owned());
        match self.known.contains_key(&key) {
            true => DelayKey::Known(key.0, key.1),
            false => DelayKey::Source(key.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::fair_queue::Limits;
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    const ONE: &str = "192.0.2.1";

    fn wait(
        throttle: &mut Throttle,
        address: &str,
        name: &str,
        now: Instant,
    ) -> Result<Duration, TooSoon> {
        throttle.reserve(at(address), name, now).map(|reserved| reserved.wait)
    }

    #[test]
    fn each_failure_of_a_source_costs_twice_the_last_up_to_a_limit_and_is_forgotten() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        let mut fails = |at_s: u64| {
            let now = now + Duration::from_secs(at_s);
            throttle.note_failure(at(ONE), "ann", now).as_secs()
        };
        let delays: Vec<_> = (0..40).map(&mut fails).collect();
        assert_eq!(delays[..7], [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delays[39], 30);
        assert_eq!(fails(10_000), 1);
    }

    #[test]
    fn more_failing_sources_than_can_be_remembered_all_wait() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..5000_u32 {
            throttle.note_failure(IpAddr::from(number.to_be_bytes()), "ann", now);
        }
        assert_eq!(throttle.note_failure(at("203.0.113.1"), "ann", now), DELAY_MAX);
        assert!(throttle.failures.len() <= SOURCES_MAX);
    }

    /// Guesses in `seconds` without ever waiting for an answer, by `parallel` connections; returns
    /// how many checks were made.
    fn guesses(parallel: u64, seconds: u64) -> usize {
        let (mut throttle, begun) = (Throttle::default(), Instant::now());
        let mut checks = 0;
        for millis in (0..seconds * 1_000).step_by(50) {
            let now = begun + Duration::from_millis(millis);
            for _ in 0..parallel {
                // The guesser hangs up unless its check is made at once.
                if wait(&mut throttle, ONE, "ann", now) == Ok(Duration::ZERO) {
                    throttle.note_failure(at(ONE), "ann", now);
                    checks += 1;
                }
            }
        }
        checks
    }

    // attack row 98
    #[test]
    fn a_guesser_that_hangs_up_and_returns_makes_as_many_checks_as_one_that_waits() {
        // 1 + 2 + 4 + 8 + 16 s, and from there one in 30 s.
        let one_that_waits = 5 + (600 - 31) / 30 + 1;
        for parallel in [1, 16] {
            assert!(guesses(parallel, 600) <= one_that_waits, "{parallel}");
        }
    }

    // attack row 98
    #[test]
    fn a_right_password_waits_as_a_wrong_one_does() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..3 {
            throttle.note_failure(at(ONE), "ann", now);
        }
        assert_eq!(wait(&mut throttle, ONE, "ann", now), Ok(Duration::from_secs(4)));
        assert_eq!(wait(&mut throttle, "192.0.2.2", "ann", now), Ok(Duration::ZERO));
    }

    // attack row 98
    #[tokio::test]
    async fn a_failure_voids_the_turns_of_checks_that_were_queued_before_it() {
        let limits = Limits { running_max: 1, waiting_max: 9, waiting_per_source_max: 9 };
        let (queue, throttle) = (FairQueue::new(limits), RefCell::new(Throttle::default()));
        let reserve = || throttle.borrow_mut().reserve(at(ONE), "ann", Instant::now());
        let failures = || throttle.borrow().failures(at(ONE), "ann");
        let first = turn(&queue, at(ONE), reserve, failures).await.unwrap();
        let mut second = pin!(turn(&queue, at(ONE), reserve, failures));
        let is_waiting = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        for _ in 0..6 {
            throttle.borrow_mut().note_failure(at(ONE), "ann", Instant::now());
        }
        drop(first);
        // It is its turn, and its time is half a minute away.
        let is_waiting = poll_fn(|context| Poll::Ready(second.as_mut().poll(context).is_pending()));
        assert!(is_waiting.await);
        assert_eq!(reserve(), Err(TooSoon));
    }

    #[test]
    fn checks_of_one_source_get_times_one_after_the_other_and_no_more_than_a_few_wait() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for _ in 0..8 {
            throttle.note_failure(at(ONE), "ann", now);
        }
        let waits: Vec<_> = (0..4).map(|_| wait(&mut throttle, ONE, "ann", now)).collect();
        assert_eq!(waits[0], Ok(Duration::from_secs(30)));
        assert_eq!(waits[1..], [Err(TooSoon); 3]);
    }

    #[test]
    fn a_name_that_has_logged_in_from_a_source_has_a_delay_of_its_own_there() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        throttle.note_success(at(ONE), "ann", now);
        for _ in 0..9 {
            throttle.note_failure(at(ONE), "bob", now);
        }
        assert_eq!(wait(&mut throttle, ONE, "ann", now), Ok(Duration::ZERO));
        assert_eq!(wait(&mut throttle, ONE, "bob", now), Ok(DELAY_MAX));
        // Who guesses this name there is held back as well.
        throttle.note_failure(at(ONE), "ann", now);
        assert_eq!(wait(&mut throttle, ONE, "ann", now), Ok(FIRST_DELAY));
        assert_eq!(wait(&mut throttle, "192.0.2.2", "ann", now), Ok(Duration::ZERO));
    }

    #[test]
    fn names_that_have_logged_in_are_remembered_up_to_a_limit_the_latest_ones() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..KNOWN_MAX + 10 {
            let now = now + Duration::from_secs(number as u64);
            throttle.note_success(at(ONE), &format!("user{number}"), now);
        }
        assert_eq!(throttle.known.len(), KNOWN_MAX);
        assert!(throttle.known.contains_key(&(at(ONE), format!("user{}", KNOWN_MAX + 9))));
        assert!(!throttle.known.contains_key(&(at(ONE), "user9".to_owned())));
    }
}
