//! Which address of a host the kernel connects to: Happy Eyeballs, version 2 (RFC 8305).
//!
//! The addresses come in the order of RFC 6724 from the resolver. They are tried by turns of the
//! families (§4), the next one a quarter of a second after the one before, or at once when that
//! has failed (§5). The first connection that opens wins, and the others are dropped.
//!
//! Left out: the two questions of §3, because the resolver asks them both and answers once, and
//! what is known of earlier connections.

use super::Outcome;
use super::kernel::outcome_of;
use super::outcome::Failures;
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

/// How a race ended.
#[derive(Debug)]
pub(super) enum Finish {
    /// With a connection.
    Won(TcpStream, SocketAddr),
    /// Without one: what tells most, and of which address.
    Lost(Outcome, SocketAddr),
}

/// Opens a connection to the first of `addresses` that answers, or says what came of it instead.
///
/// # Errors
///
/// As [`Race::run`].
pub(crate) async fn connect(
    addresses: &[SocketAddr],
    timeout: Duration,
) -> Result<Result<TcpStream, (Outcome, SocketAddr)>> {
    Ok(match Race::to(addresses).run(timeout).await? {
        Finish::Won(stream, _) => Ok(stream),
        Finish::Lost(outcome, address) => Err((outcome, address)),
    })
}

/// The attempts at the addresses of one host.
#[derive(Debug)]
pub(super) struct Race {
    waiting: VecDeque<SocketAddr>,
    attempts: JoinSet<(SocketAddr, io::Result<TcpStream>)>,
    failures: Failures,
    /// What our own side said first of an attempt.
    error: Option<anyhow::Error>,
}

impl Race {
    /// Makes a race to `addresses`, the most preferred of them in front.
    pub(super) fn to(addresses: &[SocketAddr]) -> Self {
        let waiting = interleaved(addresses).into();
        Self { waiting, attempts: JoinSet::new(), failures: Failures::default(), error: None }
    }

    /// Runs until a connection is open, all attempts have failed, or `timeout` has passed.
    ///
    /// # Errors
    ///
    /// If all that is known is that our own side does not open connections.
    pub(super) async fn run(mut self, timeout: Duration) -> Result<Finish> {
        let give_up_at = Instant::now() + timeout;
        let mut next_at = Instant::now();
        let mut called = self.waiting.front().copied();
        loop {
            if self.attempts.is_empty() && self.waiting.is_empty() {
                return self.lost();
            }
            tokio::select! {
                biased;
                Some(ended) = self.attempts.join_next() => {
                    if let Some(won) = self.end_attempt(ended)? {
                        return Ok(won);
                    }
                    next_at = Instant::now();
                }
                () = sleep_until(give_up_at) => {
                    // Those that wait for an answer have not had one.
                    called.iter().for_each(|first| self.failures.add(Outcome::TimedOut, *first));
                    return self.lost();
                }
                () = sleep_until(next_at), if !self.waiting.is_empty() => {
                    if self.attempts.is_empty() {
                        called = self.waiting.front().copied();
                    }
                    self.begin_attempt();
                    next_at = Instant::now() + ATTEMPT_DELAY;
                }
            }
        }
    }

    fn begin_attempt(&mut self) {
        let Some(address) = self.waiting.pop_front() else { return };
        self.attempts.spawn(async move { (address, TcpStream::connect(address).await) });
    }

    fn end_attempt(
        &mut self,
        ended: Result<(SocketAddr, io::Result<TcpStream>), JoinError>,
    ) -> Result<Option<Finish>> {
        let (address, connected) = ended?;
        match connected.map_err(outcome_of) {
            Ok(stream) => return Ok(Some(Finish::Won(stream, address))),
            Err(Ok(outcome)) => self.failures.add(outcome, address),
            Err(Err(error)) => _ = self.error.get_or_insert(error),
        }
        Ok(None)
    }

    fn lost(self) -> Result<Finish> {
        match (self.failures.told(), self.error) {
            (Some((outcome, address)), _) => Ok(Finish::Lost(outcome, address)),
            (None, Some(error)) => Err(error),
            (None, None) => Err(anyhow::anyhow!("there is no address to connect to")),
        }
    }
}

/// Returns the addresses by turns of the families, that of the first one first (RFC 8305 §4).
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
    fn the_families_take_turns_and_keep_their_order() {
        let order = interleaved(&[v6(1), v6(2), v6(3), v4(1), v4(2)]);
        assert_eq!(order, [v6(1), v4(1), v6(2), v4(2), v6(3)]);
        assert_eq!(interleaved(&[v4(1), v4(2), v6(1)]), [v4(1), v6(1), v4(2)]);
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
