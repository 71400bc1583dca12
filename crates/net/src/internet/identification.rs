//! The identification of datagrams that may be fragmented (RFC 6864, RFC 7739).
//!
//! An IPv4 datagram with DF needs no identification: the field is 0. An unfragmented IPv6 datagram
//! has no identification. All other identifications for one destination must not repeat soon, and
//! must reveal nothing about those for another destination. A shared counter would let any host
//! count the datagrams sent to others (CVE-2019-10638), and a predictable number would let an
//! attacker disrupt reassembly.
//!
//! The identifications for a destination therefore start at a keyed hash of source and destination,
//! and advance with a counter from a shared table. Another keyed hash selects the counter (RFC 7739
//! §5.3). Two destinations that share a counter see random increments, and neither can identify the
//! other.

use crate::rng::Rng;
use alloc::boxed::Box;
use alloc::vec;
use core::hash::Hasher;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

/// Number of counters; a power of two.
const COUNTERS: usize = 1024;
/// Maximum increment of a counter for one datagram. The 16-bit identification of IPv4 repeats after
/// 8,192 datagrams at the earliest.
const STEP_MAX: u64 = 8;

/// The state of the identifications of all destinations.
#[derive(Debug)]
pub(super) struct Identifications {
    key: (u64, u64),
    counters: Box<[u32]>,
}

impl Identifications {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let key = (rng.next_u64(), rng.next_u64());
        Self { key, counters: vec![0; COUNTERS].into() }
    }

    /// Returns the identification of the next datagram from `source` to `destination`. IPv4 uses
    /// its lower half.
    pub(super) fn next(
        &mut self,
        source: IpAddr,
        destination: IpAddr,
        protocol: u8,
        rng: &mut Rng,
    ) -> u32 {
        let hash = self.hash(source, destination, protocol);
        let [h0, h1, h2, h3, p0, p1, ..] = hash.to_be_bytes();
        let index = usize::from(u16::from_be_bytes([p0, p1])) % COUNTERS;
        let step = u32::try_from(1 + rng.below(STEP_MAX)).unwrap_or(1);
        let Some(counter) = self.counters.get_mut(index) else { return 0 };
        *counter = counter.wrapping_add(step);
        u32::from_be_bytes([h0, h1, h2, h3]).wrapping_add(*counter)
    }

    fn hash(&self, source: IpAddr, destination: IpAddr, protocol: u8) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key.0, self.key.1);
        for end in [source, destination] {
            match end {
                IpAddr::V4(end) => hasher.write(&end.octets()),
                IpAddr::V6(end) => hasher.write(&end.octets()),
            }
        }
        hasher.write_u8(protocol);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::collections::BTreeSet;

    const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn to(n: u32) -> IpAddr {
        Ipv4Addr::from_bits(n).into()
    }

    #[test]
    fn the_identifications_of_one_destination_do_not_repeat_within_8000() {
        let mut rng = Rng::from_seed(1);
        let mut ids = Identifications::draw(&mut rng);
        let seen_ids: BTreeSet<u32> =
            (0..8_000).map(|_| ids.next(OURS, to(9), 17, &mut rng) & 0xFFFF).collect();
        assert_eq!(seen_ids.len(), 8_000);
    }

    // attack row 18
    #[test]
    fn the_first_identifications_of_neighbouring_destinations_are_spread_evenly() {
        let mut rng = Rng::from_seed(1);
        let mut ids = Identifications::draw(&mut rng);
        let mut bins = [0_u32; 256];
        for n in 0..65_536 {
            let id = ids.next(OURS, to(n), 17, &mut rng) & 0xFFFF;
            bins[usize::try_from(id >> 8).unwrap()] += 1;
        }
        // Chi-square with 255 degrees of freedom: a random value exceeds 331 once in a thousand
        // times.
        let chi_square: f64 = bins.iter().map(|n| (f64::from(*n) - 256.0).powi(2) / 256.0).sum();
        assert!(chi_square < 331.0, "{chi_square}");
    }

    // attack row 18
    #[test]
    fn the_distance_between_two_destinations_is_spread_evenly_over_seeds() {
        let mut bins = [0_u32; 16];
        for seed in 0..4_096 {
            let mut rng = Rng::from_seed(seed);
            let mut ids = Identifications::draw(&mut rng);
            let [one, two] = [1, 2].map(|n| ids.next(OURS, to(n), 17, &mut rng));
            bins[usize::try_from(one.wrapping_sub(two) >> 28).unwrap()] += 1;
        }
        // 15 degrees of freedom: a random value exceeds 37.7 once in a thousand times.
        let chi_square: f64 = bins.iter().map(|n| (f64::from(*n) - 256.0).powi(2) / 256.0).sum();
        assert!(chi_square < 37.7, "{chi_square}");
    }

    #[test]
    fn a_counter_advances_by_each_number_from_one_to_the_maximum() {
        let mut rng = Rng::from_seed(1);
        let mut ids = Identifications::draw(&mut rng);
        let mut last = ids.next(OURS, to(9), 17, &mut rng);
        let steps: BTreeSet<u32> = (0..1_000)
            .map(|_| {
                let next = ids.next(OURS, to(9), 17, &mut rng);
                next.wrapping_sub(core::mem::replace(&mut last, next))
            })
            .collect();
        assert!(steps.into_iter().eq(1..=8));
    }

    #[test]
    fn the_identifications_of_two_protocols_begin_at_different_values() {
        let mut rng = Rng::from_seed(1);
        let ids = Identifications::draw(&mut rng);
        assert_ne!(ids.hash(OURS, to(9), 6), ids.hash(OURS, to(9), 17));
    }
}
