//! Local ports of active opens: the double-hash algorithm of RFC 6056 §3.3.4.
//!
//! The ports used for one destination are consecutive, so that no port is reused soon. They start
//! at a keyed hash of the destination, and advance with a counter from a table. A second keyed hash
//! selects the counter. If two destinations share a counter, one of them could observe the
//! connections to the other (CVE-2022-1012, row 32 of the attack table). There are therefore 4096
//! counters, each with a random start, and every open advances its counter by a random step.

use super::keyed_hash::Key;
use crate::rng::Rng;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// The first local port. RFC 6056 §3.2 permits lower ports too, but they are reserved for services
/// here.
pub(super) const FIRST_PORT: u16 = 16_384;
const PORTS: u64 = 65_536 - FIRST_PORT as u64;
const COUNTERS: usize = 4096;
/// Maximum step by which an open advances its counter; the minimum is 1.
const STEP_MAX: u64 = 8;

/// The algorithm that chooses the local port of an active open.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    key: Key,
    /// Allocated at the first open: a host that only listens needs none.
    counters: Vec<u16>,
}

impl Ports {
    pub(super) fn new(key: Key) -> Self {
        Self { key, counters: Vec::new() }
    }

    /// Returns a port for a connection from `local` to `remote`, if one is free.
    pub(super) fn choose(
        &mut self,
        local: IpAddr,
        remote: SocketAddr,
        rng: &mut Rng,
        mut is_free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        if self.counters.is_empty() {
            let initial_count = |index: usize| self.key.hash(2).word(index as u64).finish() % PORTS;
            self.counters = (0..COUNTERS).map(|index| port_number(initial_count(index))).collect();
        }
        let hash = |purpose| self.key.hash(purpose).address(local).end(remote).finish();
        let offset = hash(0);
        let index = usize::try_from(hash(1) % COUNTERS as u64).ok()?;
        let counter = self.counters.get_mut(index)?;
        *counter = counter.wrapping_add(port_number(1 + rng.below(STEP_MAX)));
        let first = (offset % PORTS) + u64::from(*counter);
        (0..PORTS).find_map(|step| {
            let port = FIRST_PORT.checked_add(port_number((first + step) % PORTS))?;
            is_free(port).then(|| {
                // The next search starts after the ports that were tried.
                *counter = counter.wrapping_add(port_number(step));
                port
            })
        })
    }
}

/// Narrows a number that is below [`PORTS`].
fn port_number(number: u64) -> u16 {
    u16::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use std::collections::BTreeSet;

    const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn host(number: u32) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(0xC000_0200 + number)), 80)
    }

    fn new_ports() -> (Ports, Rng) {
        let mut rng = Rng::from_seed(7);
        (Ports::new(Key::draw(&mut rng)), rng)
    }

    #[test]
    fn ports_to_one_destination_are_not_reused_soon() {
        let (mut ports, mut rng) = new_ports();
        let chosen = (0..5000).map(|_| ports.choose(LOCAL, host(1), &mut rng, |_| true));
        assert_eq!(chosen.collect::<BTreeSet<_>>().len(), 5000);
    }

    #[test]
    fn every_port_that_is_free_is_found_and_none_below_the_first() {
        let (mut ports, mut rng) = new_ports();
        let mut free = |wanted| ports.choose(LOCAL, host(1), &mut rng, |port| port == wanted);
        assert_eq!(free(FIRST_PORT), Some(FIRST_PORT));
        assert_eq!(free(u16::MAX), Some(u16::MAX));
        assert_eq!(free(FIRST_PORT - 1), None);
    }

    // attack row 32
    #[test]
    fn the_ports_to_one_destination_do_not_predict_those_to_another() {
        let (mut ports, mut rng) = new_ports();
        let mut gaps = BTreeSet::new();
        for number in 0..2000 {
            let first = ports.choose(LOCAL, host(2 * number), &mut rng, |_| true).unwrap();
            let second = ports.choose(LOCAL, host(2 * number + 1), &mut rng, |_| true).unwrap();
            gaps.insert(second.wrapping_sub(first));
        }
        // 2000 draws from 49,152 values give about 1960 different ones.
        assert!(gaps.len() > 1900, "{}", gaps.len());
    }

    // attack row 32
    #[test]
    fn opens_to_one_destination_cannot_be_counted_by_another() {
        let (mut quiet, mut quiet_rng) = new_ports();
        let (mut busy, mut busy_rng) = new_ports();
        let seen = |ports: &mut Ports, rng: &mut Rng, opens: usize| {
            let before = ports.choose(LOCAL, host(1), rng, |_| true).unwrap();
            for _ in 0..opens {
                ports.choose(LOCAL, host(2), rng, |_| true);
            }
            ports.choose(LOCAL, host(1), rng, |_| true).unwrap().wrapping_sub(before)
        };
        let gaps = [seen(&mut quiet, &mut quiet_rng, 0), seen(&mut busy, &mut busy_rng, 100)];
        assert!(gaps.iter().all(|gap| (1..=8).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn the_counter_of_a_destination_does_not_reveal_its_first_port() {
        let (mut ports, mut rng) = new_ports();
        ports.choose(LOCAL, host(0), &mut rng, |_| true);
        let is_revealed = |number| {
            let before = ports.counters.clone();
            let port = ports.choose(LOCAL, host(number), &mut rng, |_| true).unwrap();
            let mut pairs = ports.counters.iter().zip(&before);
            let index = pairs.position(|(now, before)| now != before).unwrap();
            let distance = u64::from(port - FIRST_PORT) + PORTS;
            let offset = (distance - u64::from(ports.counters[index]) % PORTS) % PORTS;
            offset % COUNTERS as u64 == index as u64
        };
        assert!((1..=100).map(is_revealed).filter(|is_revealed| *is_revealed).count() < 10);
    }
}
