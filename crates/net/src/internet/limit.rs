//! The rate limit of ICMP errors to each destination (RFC 1812 §4.3.2.8).
//!
//! An attacker can observe when a limit is exhausted. If all destinations shared one limit, the
//! attacker could send datagrams under another host's address, and learn from the limit how they
//! were answered. This made the ports of resolvers predictable (CVE-2020-25705). Each destination
//! therefore has a bucket of its own, with a random size. The table is bounded. A new destination
//! replaces a random one, so that no destination can infer the activity of others from its own
//! bucket.

use crate::cx::Cx;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::IpAddr;

/// Number of destinations that have a bucket.
const BUCKETS: usize = 64;
/// Minimum and maximum burst of errors for a destination.
const BURST: (u64, u64) = (4, 12);
/// Time after which a bucket gains one token. After the burst, at most one error is sent per
/// second.
const REFILL: Duration = Duration::from_secs(1);

/// A token bucket for each destination that was recently sent an error.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    destination: IpAddr,
    tokens: u64,
    refilled_at: Instant,
}

impl Limiter {
    /// Takes a token for an error to `destination`. Returns false if no token is left.
    pub(super) fn allows(&mut self, destination: IpAddr, cx: &mut Cx<'_>) -> bool {
        let known_bucket = self.buckets.iter_mut().find(|bucket| bucket.destination == destination);
        let Some(bucket) = known_bucket else {
            self.remember(Bucket { destination, tokens: burst(cx) - 1, refilled_at: cx.now }, cx);
            return true;
        };
        bucket.refill(cx);
        let allows = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        allows
    }

    fn remember(&mut self, bucket: Bucket, cx: &mut Cx<'_>) {
        if self.buckets.len() < BUCKETS {
            self.buckets.push(bucket);
            return;
        }
        let index = cx.rng.below(BUCKETS as u64);
        if let Some(old) = self.buckets.iter_mut().zip(0..).find(|(_, i)| *i == index) {
            *old.0 = bucket;
        }
    }
}

impl Bucket {
    fn refill(&mut self, cx: &mut Cx<'_>) {
        let elapsed = cx.now.since(self.refilled_at);
        let gained_tokens = elapsed.as_secs() / REFILL.as_secs();
        if gained_tokens == 0 {
            return;
        }
        // The remaining fraction of a second counts towards the next token.
        self.refilled_at =
            self.refilled_at + REFILL * u32::try_from(gained_tokens).unwrap_or(u32::MAX);
        self.tokens = self.tokens.saturating_add(gained_tokens).min(burst(cx));
    }
}

fn burst(cx: &mut Cx<'_>) -> u64 {
    let (fewest, most) = BURST;
    fewest + cx.rng.below(most - fewest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cx::OwnedCx;
    use core::net::Ipv4Addr;

    const OTHER_HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn no_more_destinations_are_remembered_than_there_are_buckets() {
        let mut limiter = Limiter::default();
        let mut context = OwnedCx::default();
        (1..10_000).for_each(|i| {
            limiter.allows(Ipv4Addr::from_bits(i).into(), &mut context.cx());
        });
        assert_eq!(limiter.buckets.len(), BUCKETS);
    }

    #[test]
    fn tokens_gained_while_idle_are_limited_to_a_burst() {
        let mut limiter = Limiter::default();
        let mut context = OwnedCx::default();
        limiter.allows(OTHER_HOST, &mut context.cx());
        context.advance_millis(1_000_000_000);
        let allowed = (0..100).filter(|_| limiter.allows(OTHER_HOST, &mut context.cx())).count();
        assert!((4..=12).contains(&allowed), "{allowed}");
    }

    #[test]
    fn the_errors_to_a_new_destination_are_a_burst_within_the_bounds() {
        let mut limiter = Limiter::default();
        let mut context = OwnedCx::default();
        let bursts = (1..=64).map(|n| {
            let destination = Ipv4Addr::from_bits(n).into();
            (0..100).filter(|_| limiter.allows(destination, &mut context.cx())).count()
        });
        let (fewest, most) =
            bursts.fold((100, 0), |(fewest, most), it| (it.min(fewest), it.max(most)));
        assert_eq!((fewest, most), (4, 12));
    }
}
