//! Address selection for kernel connections: Happy Eyeballs version 2 (RFC 8305).
//!
//! The resolver returns the addresses in the order of RFC 6724. The race alternates the address
//! families (§4). Each attempt starts 250 ms after the previous attempt, or at once when an attempt
//! fails (§5). The first connection that opens is used, and the other attempts are dropped.
//!
//! Not implemented: the two separate queries of §3, because the resolver sends both queries and
//! returns one combined answer. Also not implemented: the history of earlier connections.

use super::outcome::{Failures, Outcome, outcome_of};
use anyhow::Result;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

/// RFC 8305 §5, §8: the Connection Attempt Delay.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Result of a race of connection attempts.
#[derive(Debug)]
pub(super) enum RaceResult {
    /// A connection opened.
    Connected(TcpStream, SocketAddr),
    /// No connection opened. Contains the failure with the most evidence about the host, and the
    /// address of the failed attempt.
    Failed(Outcome, SocketAddr),
}

/// Connects to the first of `addresses` that answers, or returns the outcome of the failure.
///
/// # Errors
///
/// Returns an error if a local error prevented all attempts, or if there is no address.
pub async fn connect(
    addresses: &[SocketAddr],
    timeout: Duration,
) -> Result<Result<TcpStream, (Outcome, SocketAddr)>> {
    Ok(match Race::new(addresses).run(timeout).await? {
        RaceResult::Connected(stream, _) => Ok(stream),
        RaceResult::Failed(outcome, address) => Err((outcome, address)),
    })
}

/// Connection attempts at the addresses of one host.
#[derive(Debug)]
pub(super) struct Race {
    waiting: VecDeque<SocketAddr>,
    attempts: JoinSet<(SocketAddr, io::Result<TcpStream>)>,
    /// Addresses of `attempts`, in the order in which the attempts started.
    in_progress: Vec<SocketAddr>,
    failures: Failures,
    /// First local error of an attempt.
    error: Option<anyhow::Error>,
}

impl Race {
    /// Creates a race to `addresses`, the most preferred first.
    pub(super) fn new(addresses: &[SocketAddr]) -> Self {
        let waiting = interleaved(addresses).into();
        Self {
            waiting,
            attempts: JoinSet::new(),
            in_progress: Vec::new(),
            failures: Failures::default(),
            error: None,
        }
    }

    /// Runs until a connection is open, all attempts have failed or `timeout` has passed.
    ///
    /// # Errors
    ///
    /// Returns an error if a local error prevented all attempts, or if there is no address.
    pub(super) async fn run(mut self, timeout: Duration) -> Result<RaceResult> {
        let expires_at = Instant::now() + timeout;
        // Not by the timer, whose resolution is a millisecond.
        self.begin_attempt();
        let mut next_at = Instant::now() + ATTEMPT_DELAY;
        loop {
            if self.attempts.is_empty() && self.waiting.is_empty() {
                return self.into_failure();
            }
            tokio::select! {
                biased;
                Some(ended) = self.attempts.join_next() => {
                    if let Some(connected) = self.end_attempt(ended)? {
                        return Ok(connected);
                    }
                    self.begin_attempt();
                    next_at = Instant::now() + ATTEMPT_DELAY;
                }
                () = sleep_until(expires_at) => {
                    self.expire();
                    return self.into_failure();
                }
                () = sleep_until(next_at), if !self.waiting.is_empty() => {
                    self.begin_attempt();
                    next_at = Instant::now() + ATTEMPT_DELAY;
                }
            }
        }
    }

    fn begin_attempt(&mut self) {
        let Some(address) = self.waiting.pop_front() else { return };
        self.in_progress.push(address);
        self.attempts.spawn(async move { (address, TcpStream::connect(address).await) });
    }

    fn end_attempt(
        &mut self,
        ended: Result<(SocketAddr, io::Result<TcpStream>), JoinError>,
    ) -> Result<Option<RaceResult>> {
        let (address, connected) = ended?;
        self.in_progress.retain(|other| *other != address);
        match connected.map_err(outcome_of) {
            Ok(stream) => return Ok(Some(RaceResult::Connected(stream, address))),
            Err(Ok(outcome)) => self.failures.add(outcome, address),
            Err(Err(error)) => _ = self.error.get_or_insert(error),
        }
        Ok(None)
    }

    /// Records that the earliest attempt in progress was not answered in time; without an attempt,
    /// the next address.
    fn expire(&mut self) {
        if let Some(address) = self.in_progress.first().or(self.waiting.front()) {
            self.failures.add(Outcome::TimedOut, *address);
        }
    }

    fn into_failure(self) -> Result<RaceResult> {
        match (self.failures.highest_ranked(), self.error) {
            (Some((outcome, address)), _) => Ok(RaceResult::Failed(outcome, address)),
            (None, Some(error)) => Err(error),
            (None, None) => Err(anyhow::anyhow!("no address to connect to")),
        }
    }
}

/// Returns the addresses with alternating families, beginning with the family of the first address
/// (RFC 8305 §4).
fn interleaved(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let (mut leading, mut others): (VecDeque<_>, VecDeque<_>) = addresses
        .iter()
        .copied()
        .partition(|address: &SocketAddr| address.is_ipv6() == first.is_ipv6());
    let mut order = Vec::with_capacity(addresses.len());
    while !leading.is_empty() || !others.is_empty() {
        order.extend(leading.pop_front());
        order.extend(others.pop_front());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn v4(last: u8) -> SocketAddr {
        (Ipv4Addr::new(192, 0, 2, last), 23).into()
    }

    fn v6(last: u16) -> SocketAddr {
        (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last), 23).into()
    }

    #[test]
    fn the_address_families_alternate_and_keep_their_order() {
        let order = interleaved(&[v6(1), v6(2), v6(3), v4(1), v4(2)]);
        assert_eq!(order, [v6(1), v4(1), v6(2), v4(2), v6(3)]);
        assert_eq!(interleaved(&[v4(1), v4(2), v6(1)]), [v4(1), v6(1), v4(2)]);
    }

    #[test]
    fn a_timeout_names_the_address_that_has_not_answered() {
        let mut race = Race::new(&[]);
        race.in_progress = vec![v6(1), v4(1)];
        let local = io::Error::from(io::ErrorKind::AddrNotAvailable);
        assert!(race.end_attempt(Ok((v6(1), Err(local)))).unwrap().is_none());
        race.expire();
        let result = race.into_failure().unwrap();
        assert!(
            matches!(result, RaceResult::Failed(Outcome::TimedOut, at) if at == v4(1)),
            "{result:?}"
        );
    }

    proptest! {
        #[test]
        fn every_address_is_tried_once_and_the_preferred_one_first(
            families in proptest::collection::vec(any::<bool>(), 1..20)
        ) {
            let addresses: Vec<_> = (1..)
                .zip(&families)
                .map(|(last, is_v6)| if *is_v6 { v6(last.into()) } else { v4(last) })
                .collect();
            let mut order = interleaved(&addresses);
            prop_assert_eq!(order[0], addresses[0]);
            order.sort();
            let mut sorted = addresses;
            sorted.sort();
            prop_assert_eq!(order, sorted);
        }
    }
}
