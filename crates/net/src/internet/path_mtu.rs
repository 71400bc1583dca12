//! Path MTU: the length of the longest datagram that reaches a destination unfragmented.
//!
//! [`PathMtus`] records the reports of routers (RFC 1191, RFC 8201). The transport decides which
//! reports to trust, because it knows whether the quoted data is in flight (RFC 5927 §7). Every
//! report passed to this module is accepted. It can only lower an MTU, but not below [`IPV4_FLOOR`]
//! for IPv4 and not below 1280 for IPv6. It expires after ten minutes.
//!
//! [`search`] finds the path MTU without reports of routers.

pub mod search;

use super::ipv6;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

/// The lowest IPv4 path MTU that is accepted, in bytes. RFC 791 allows 68, with which an attacker
/// could split every datagram into 20 fragments (CVE-2004-1060). If a link really has a lower MTU,
/// its router fragments datagrams without DF.
pub const IPV4_FLOOR: u16 = 552;
/// Maximum number of destinations recorded.
pub const PATHS_MAX: usize = 1024;
/// Validity of a lowered MTU (RFC 1191 §6.3, RFC 8201 §4).
pub const AGE_MAX: Duration = Duration::from_secs(600);

/// The known properties of the path to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMtu {
    /// Length of the longest datagram in bytes, including the header.
    pub mtu: u16,
    /// Whether a router on the path reports an MTU below the floor. Datagrams are then sent without
    /// DF, so that the router can fragment them.
    pub is_below_floor: bool,
}

/// The path MTUs that are below the MTU of the link.
#[derive(Debug, Default)]
pub struct PathMtus {
    paths: BTreeMap<IpAddr, (PathMtu, Instant)>,
    /// The destinations in the order of their records' age, to find the oldest record.
    by_age: BTreeSet<(Instant, IpAddr)>,
}

impl PathMtus {
    /// Returns the known properties of the path to `destination` over a link of `link_mtu` bytes.
    #[must_use]
    pub fn get(&self, destination: IpAddr, link_mtu: u16, now: Instant) -> PathMtu {
        match self.paths.get(&destination) {
            Some((path, learned_at)) if now.since(*learned_at) < AGE_MAX => {
                PathMtu { mtu: path.mtu.min(link_mtu), ..*path }
            }
            _ => PathMtu { mtu: link_mtu, is_below_floor: false },
        }
    }

    /// Limits datagrams to `destination` to `mtu` bytes. Returns the new path MTU, or `None` if it
    /// has not changed. `link_mtu` is the MTU of the link.
    pub fn lower(
        &mut self,
        destination: IpAddr,
        mtu: u16,
        link_mtu: u16,
        now: Instant,
    ) -> Option<u16> {
        let known_path = self.get(destination, link_mtu, now);
        let floor = match destination {
            IpAddr::V4(_) => IPV4_FLOOR,
            // RFC 8201 §4: a report below the minimum MTU MUST be discarded.
            IpAddr::V6(_) if mtu < ipv6::MTU_MIN => return None,
            IpAddr::V6(_) => ipv6::MTU_MIN,
        };
        let lowered = PathMtu { mtu: mtu.max(floor), is_below_floor: mtu < floor };
        let is_new_limit =
            lowered.mtu < known_path.mtu || lowered.is_below_floor && !known_path.is_below_floor;
        if !is_new_limit {
            return None;
        }
        self.forget(destination);
        if self.paths.len() >= PATHS_MAX
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.paths.remove(&oldest);
        }
        let is_below_floor = lowered.is_below_floor || known_path.is_below_floor;
        let path = PathMtu { mtu: lowered.mtu.min(known_path.mtu), is_below_floor };
        self.paths.insert(destination, (path, now));
        self.by_age.insert((now, destination));
        Some(path.mtu)
    }

    /// Returns the number of destinations recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Returns whether no destination is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    fn forget(&mut self, destination: IpAddr) {
        if let Some((_, learned_at)) = self.paths.remove(&destination) {
            self.by_age.remove(&(learned_at, destination));
        }
    }
}

/// Returns the likely MTU of a router that rejected `total_len` bytes without a report of its MTU,
/// as routers did before RFC 1191. The result is the next lower plateau (RFC 1191 §7.1).
#[must_use]
pub fn plateau_below(total_len: usize) -> u16 {
    const PLATEAUS: [u16; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];
    PLATEAUS.into_iter().find(|mtu| usize::from(*mtu) < total_len).unwrap_or(68)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    const V4: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 1));
    const NOW: Instant = Instant::ZERO;

    #[test]
    fn a_path_mtu_is_lowered_and_never_raised() {
        let mut paths = PathMtus::default();
        let lowered = [1400, 1450, 1400, 1300].map(|mtu| paths.lower(V4, mtu, 1500, NOW));
        assert_eq!(lowered, [Some(1400), None, None, Some(1300)]);
        assert_eq!(paths.get(V4, 1500, NOW).mtu, 1300);
    }

    #[test]
    fn an_unknown_destination_has_the_mtu_of_the_link() {
        let path = PathMtus::default().get(V6, 1500, NOW);
        assert_eq!(path, PathMtu { mtu: 1500, is_below_floor: false });
    }

    // attack row 20
    #[test]
    fn a_path_mtu_of_ipv4_below_the_floor_is_the_floor_without_df() {
        let mut paths = PathMtus::default();
        assert_eq!(paths.lower(V4, 68, 1500, NOW), Some(552));
        assert_eq!(paths.get(V4, 1500, NOW), PathMtu { mtu: 552, is_below_floor: true });
    }

    // attack row 20
    #[test]
    fn a_path_mtu_of_ipv6_below_1280_is_discarded() {
        let mut paths = PathMtus::default();
        assert_eq!((paths.lower(V6, 1279, 1500, NOW), paths.len()), (None, 0));
        assert_eq!(paths.lower(V6, 1280, 1500, NOW), Some(1280));
    }

    #[test]
    fn a_link_mtu_below_the_floor_is_the_path_mtu() {
        let mut paths = PathMtus::default();
        paths.lower(V4, 100, 296, NOW);
        assert_eq!(paths.get(V4, 296, NOW), PathMtu { mtu: 296, is_below_floor: true });
    }

    #[test]
    fn a_lowered_mtu_is_forgotten_after_ten_minutes() {
        let mut paths = PathMtus::default();
        paths.lower(V4, 1400, 1500, NOW);
        let later = |secs| NOW + Duration::from_secs(secs);
        assert_eq!(paths.get(V4, 1500, later(599)).mtu, 1400);
        assert_eq!(paths.get(V4, 1500, later(600)).mtu, 1500);
        assert_eq!(paths.lower(V4, 1450, 1500, later(600)), Some(1450));
    }

    #[test]
    fn a_flood_of_destinations_evicts_the_oldest() {
        let mut paths = PathMtus::default();
        for n in 0..100_000_u32 {
            let now = NOW + Duration::from_millis(u64::from(n));
            paths.lower(Ipv4Addr::from_bits(n).into(), 1400, 1500, now);
        }
        assert_eq!((paths.len(), paths.by_age.len()), (PATHS_MAX, PATHS_MAX));
        let newest = Ipv4Addr::from_bits(99_999).into();
        assert_eq!(paths.get(newest, 1500, NOW + Duration::from_secs(100)).mtu, 1400);
    }

    #[test]
    fn a_missing_next_hop_mtu_is_replaced_by_the_next_plateau() {
        let plateaus = [65_535, 1500, 1492, 600, 68, 0].map(plateau_below);
        assert_eq!(plateaus, [32_000, 1492, 1006, 508, 68, 68]);
    }
}
