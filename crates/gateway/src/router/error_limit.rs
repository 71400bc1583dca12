//! The rate limit of ICMP errors to each destination (RFC 1812 §4.3.2.8, RFC 4443 §2.4 f).
//!
//! Each destination has its own bucket with a random size. A limit shared by all destinations would
//! reveal to one of them how often errors are sent to others (CVE-2020-25705). The table is
//! bounded; a new destination replaces a random one.

use net::Cx;
use net::time::{Duration, Instant};
use std::net::IpAddr;

/// Number of destinations that have a bucket.
const BUCKETS: usize = 64;
/// Minimum and maximum burst of errors to a destination.
const BURST: (u64, u64) = (4, 12);
/// Time after which a bucket gains a token.
const REFILL: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct Bucket {
    destination: IpAddr,
    tokens: u64,
    refilled_at: Instant,
}

/// A token bucket for each destination that was recently sent an error.
#[derive(Debug, Default)]
pub(super) struct ErrorLimit {
    buckets: Vec<Bucket>,
}

impl ErrorLimit {
    /// Takes a token for an error to `destination`. Returns false if none is left.
    pub(super) fn allows(&mut self, destination: IpAddr, cx: &mut Cx<'_>) -> bool {
        let known = self.buckets.iter_mut().find(|bucket| bucket.destination == destination);
        let Some(bucket) = known else {
            let bucket = Bucket { destination, tokens: burst(cx) - 1, refilled_at: cx.now };
            self.remember(bucket, cx);
            return true;
        };
        let gained = cx.now.since(bucket.refilled_at).as_secs() / REFILL.as_secs();
        if gained > 0 {
            bucket.refilled_at =
                bucket.refilled_at + REFILL * u32::try_from(gained).unwrap_or(u32::MAX);
            bucket.tokens = bucket.tokens.saturating_add(gained).min(burst(cx));
        }
        let allows = bucket.tokens > 0;
        bucket.tokens = bucket.tokens.saturating_sub(1);
        allows
    }

    fn remember(&mut self, bucket: Bucket, cx: &mut Cx<'_>) {
        if self.buckets.len() < BUCKETS {
            return self.buckets.push(bucket);
        }
        let index = usize::try_from(cx.rng.below(BUCKETS as u64)).unwrap_or(0);
        if let Some(old) = self.buckets.get_mut(index) {
            *old = bucket;
        }
    }
}

fn burst(cx: &mut Cx<'_>) -> u64 {
    let (fewest, most) = BURST;
    fewest + cx.rng.below(most - fewest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::OwnedCx;
    use std::net::Ipv4Addr;

    #[test]
    fn a_destination_gets_a_burst_and_then_one_error_per_second() {
        let mut limit = ErrorLimit::default();
        let mut context = OwnedCx::default();
        let destination = Ipv4Addr::new(10, 0, 0, 2).into();
        let allowed = |limit: &mut ErrorLimit, context: &mut OwnedCx| {
            (0..100).filter(|_| limit.allows(destination, &mut context.cx())).count()
        };
        let burst = allowed(&mut limit, &mut context);
        assert!((4..=12).contains(&burst), "{burst}");
        context.advance_millis(2_500);
        assert_eq!(allowed(&mut limit, &mut context), 2);
    }

    #[test]
    fn the_table_of_destinations_is_bounded() {
        let mut limit = ErrorLimit::default();
        let mut context = OwnedCx::default();
        for bits in 1..10_000 {
            limit.allows(Ipv4Addr::from_bits(bits).into(), &mut context.cx());
        }
        assert_eq!(limit.buckets.len(), BUCKETS);
    }
}
