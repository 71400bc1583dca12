//! The information from routers: default routers, on-link prefixes, redirects, and name servers.
//!
//! Routers are selected by their reachability, and then by their advertised preference (RFC 4861
//! §6.3.6, RFC 4191 §3.2). Every list is short. When it is full, later entries are refused, because
//! the first ones are known to work.

use super::message::{INFINITE, Preference, Prefix, RouterAdvertisement, is_link_local, prefix_of};
use crate::cx::Cx;
use crate::internet::neighbor::Cache;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

const ROUTERS_LIMIT: usize = 8;
const PREFIXES_LIMIT: usize = 16;
const DNS_SERVERS_LIMIT: usize = 8;
/// Maximum number of redirects; one more evicts the oldest.
const REDIRECTS_LIMIT: usize = 16;
/// Time until the first retransmission of a solicitation (RFC 7559 §2).
const FIRST_SOLICIT_INTERVAL: Duration = Duration::from_secs(4);
/// Maximum time between two solicitations (RFC 7559 §2).
const MAX_SOLICIT_INTERVAL: Duration = Duration::from_secs(3600);
/// MAX_RTR_SOLICITATION_DELAY (RFC 4861 §10).
const MAX_SOLICIT_DELAY: Duration = Duration::from_secs(1);

/// A default router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Link-local address of the router.
    pub address: Ipv6Addr,
    /// Advertised preference.
    pub preference: Preference,
    /// End of the router's lifetime as a default router.
    pub valid_until: Instant,
    /// Whether the router failed to answer and has sent no advertisement since.
    pub is_unreachable: bool,
}

/// An on-link prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLink {
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// Length of the prefix in bits.
    pub len: u8,
    /// End of the lifetime of the prefix; `None` for no limit.
    pub valid_until: Option<Instant>,
}

/// The information learned from routers.
#[derive(Debug, Default)]
pub(super) struct Routers {
    routers: Vec<Router>,
    prefixes: Vec<OnLink>,
    dns_servers: Vec<(Ipv6Addr, Option<Instant>)>,
    /// Redirected destinations and their next hops, the oldest first.
    redirects: VecDeque<(Ipv6Addr, Ipv6Addr)>,
    soliciting: Option<Soliciting>,
}

#[derive(Clone, Copy, Debug)]
struct Soliciting {
    due: Instant,
    interval: Duration,
}

impl Routers {
    pub(super) fn routers(&self) -> &[Router] {
        &self.routers
    }

    pub(super) fn prefixes(&self) -> &[OnLink] {
        &self.prefixes
    }

    pub(super) fn dns_servers(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.dns_servers.iter().map(|(server, _)| *server)
    }

    /// Starts to solicit routers. Solicitations are repeated until a router answers (RFC 7559).
    pub(super) fn solicit(&mut self, cx: &mut Cx<'_>) {
        let max_delay_ns = u64::try_from(MAX_SOLICIT_DELAY.as_nanos()).unwrap_or(0);
        let due = cx.now + Duration::from_nanos(cx.rng.below(max_delay_ns));
        self.soliciting = Some(Soliciting { due, interval: Duration::ZERO });
    }

    /// Returns the next hop of a destination (RFC 4861 §5.2).
    pub(super) fn next_hop(&self, destination: Ipv6Addr, cache: &Cache) -> Option<Ipv6Addr> {
        if destination.is_multicast() || is_link_local(destination) {
            return Some(destination);
        }
        if let Some(next_hop) = self.redirected(destination) {
            return Some(next_hop);
        }
        let is_on_link = |on: &OnLink| prefix_of(destination, on.len) == on.prefix;
        if self.prefixes.iter().any(is_on_link) {
            return Some(destination);
        }
        self.best(cache)
    }

    /// Returns the router for off-link destinations. Of equally good routers it is the one added
    /// first.
    pub(super) fn best(&self, cache: &Cache) -> Option<Ipv6Addr> {
        let rank = |router: &Router| {
            let is_reachable = cache.is_probably_reachable(router.address.into());
            (is_reachable, !router.is_unreachable, router.preference)
        };
        self.routers.iter().rev().max_by_key(|router| rank(router)).map(|router| router.address)
    }

    /// Redirects a destination to a neighbor.
    pub(super) fn redirect(&mut self, destination: Ipv6Addr, next_hop: Ipv6Addr) {
        self.redirects.retain(|(to, _)| *to != destination);
        if self.redirects.len() >= REDIRECTS_LIMIT {
            self.redirects.pop_front();
        }
        self.redirects.push_back((destination, next_hop));
    }

    /// Removes a neighbor that is not a router, or is unreachable (RFC 4861 §6.3.5, §7.3.3).
    /// Returns whether it was a default router.
    pub(super) fn forget(&mut self, address: Ipv6Addr) -> bool {
        let previous_len = self.routers.len();
        self.routers.retain(|router| router.address != address);
        self.redirects.retain(|(_, next_hop)| *next_hop != address);
        self.routers.len() != previous_len
    }

    /// Removes the redirects to an unreachable neighbor, and gives that neighbor the lowest
    /// precedence among the routers (RFC 4861 §6.3.6). Returns whether the neighbor is a router.
    pub(super) fn mark_unreachable(&mut self, address: Ipv6Addr) -> bool {
        self.redirects.retain(|(_, hop)| *hop != address);
        let router = self.routers.iter_mut().find(|router| router.address == address);
        router.map(|router| router.is_unreachable = true).is_some()
    }

    /// Returns the next hop that a redirect has set for a destination.
    pub(super) fn redirected(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        let redirect = self.redirects.iter().find(|(to, _)| *to == destination);
        redirect.map(|(_, next_hop)| *next_hop)
    }

    /// Processes a router advertisement (RFC 4861 §6.3.4). Returns whether it changes routes.
    pub(super) fn learn(
        &mut self,
        source: Ipv6Addr,
        advertisement: &RouterAdvertisement,
        cx: &mut Cx<'_>,
    ) -> bool {
        let previous_data = self.route_data();
        if advertisement.lifetime_s == 0 {
            self.forget(source);
        } else {
            self.soliciting = None;
            let valid_until = cx.now + Duration::from_secs(advertisement.lifetime_s.into());
            let address = source;
            let preference = advertisement.preference;
            let router = Router { address, preference, valid_until, is_unreachable: false };
            let known = self.routers.iter_mut().find(|known| known.address == source);
            match known {
                Some(known) => *known = router,
                None => push(&mut self.routers, router, ROUTERS_LIMIT, cx),
            }
        }
        advertisement
            .prefixes
            .iter()
            .filter(|p| p.is_on_link)
            .for_each(|p| self.learn_prefix(p, cx));
        for (server, lifetime_s) in &advertisement.dns_servers {
            self.dns_servers.retain(|(known, _)| known != server);
            if *lifetime_s != 0 {
                let server = (*server, valid_until(*lifetime_s, cx));
                push(&mut self.dns_servers, server, DNS_SERVERS_LIMIT, cx);
            }
        }
        self.route_data() != previous_data
    }

    /// Returns the values that determine the routes: each router with its rank, then each prefix
    /// with its length. A rank cannot be equal to a length, because it is at least 0xF0. Lifetimes
    /// are left out, because every advertisement renews them.
    fn route_data(&self) -> Vec<(Ipv6Addr, u8)> {
        let order =
            |router: &Router| 0xF0 | u8::from(router.is_unreachable) << 2 | router.preference as u8;
        let routers = self.routers.iter().map(|router| (router.address, order(router)));
        routers.chain(self.prefixes.iter().map(|on_link| (on_link.prefix, on_link.len))).collect()
    }

    fn learn_prefix(&mut self, advertisement: &Prefix, cx: &mut Cx<'_>) {
        // RFC 4861 §6.3.4: the link-local prefix must be ignored. A prefix of length zero would
        // make the whole Internet on-link.
        if is_link_local(advertisement.prefix) || advertisement.len == 0 {
            return cx.meter.count(Counter::NdIgnored);
        }
        let is_same =
            |known: &OnLink| (known.prefix, known.len) == (advertisement.prefix, advertisement.len);
        if advertisement.valid_s == 0 {
            return self.prefixes.retain(|known| !is_same(known));
        }
        let valid_until = valid_until(advertisement.valid_s, cx);
        match self.prefixes.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.valid_until = valid_until,
            None => {
                let on_link =
                    OnLink { prefix: advertisement.prefix, len: advertisement.len, valid_until };
                push(&mut self.prefixes, on_link, PREFIXES_LIMIT, cx);
            }
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let routers = self.routers.iter().map(|router| router.valid_until);
        let prefixes = self.prefixes.iter().filter_map(|prefix| prefix.valid_until);
        let servers = self.dns_servers.iter().filter_map(|(_, valid_until)| *valid_until);
        let soliciting = self.soliciting.iter().map(|soliciting| soliciting.due);
        routers.chain(prefixes).chain(servers).chain(soliciting).min()
    }

    /// Removes expired entries. Returns whether any entries had expired, and whether to send a
    /// solicitation.
    pub(super) fn timeout(&mut self, cx: &mut Cx<'_>) -> (bool, bool) {
        let len = |routers: &Self| routers.routers.len() + routers.prefixes.len();
        let previous_len = len(self);
        self.routers.retain(|router| router.valid_until > cx.now);
        self.prefixes
            .retain(|prefix| prefix.valid_until.is_none_or(|valid_until| valid_until > cx.now));
        self.dns_servers
            .retain(|(_, valid_until)| valid_until.is_none_or(|valid_until| valid_until > cx.now));
        let is_changed = len(self) != previous_len;
        let Some(soliciting) = self.soliciting.as_mut().filter(|s| s.due <= cx.now) else {
            return (is_changed, false);
        };
        // RFC 7559 §2, with the algorithm of RFC 8415 §15.
        let base = if soliciting.interval.is_zero() {
            FIRST_SOLICIT_INTERVAL
        } else {
            (soliciting.interval * 2).min(MAX_SOLICIT_INTERVAL)
        };
        soliciting.interval = jittered(base, cx);
        soliciting.due = cx.now + soliciting.interval;
        (is_changed, true)
    }
}

/// Returns `time` with a random deviation of at most 10 %.
fn jittered(time: Duration, cx: &mut Cx<'_>) -> Duration {
    let tenth = time / 10;
    let span = u64::try_from(tenth.as_nanos() * 2).unwrap_or(0);
    time - tenth + Duration::from_nanos(cx.rng.below(span.saturating_add(1)))
}

fn valid_until(lifetime_s: u32, cx: &Cx<'_>) -> Option<Instant> {
    (lifetime_s != INFINITE).then(|| cx.now + Duration::from_secs(lifetime_s.into()))
}

fn push<T>(list: &mut Vec<T>, item: T, limit: usize, cx: &mut Cx<'_>) {
    if list.len() < limit {
        list.push(item);
    } else {
        cx.meter.count(Counter::NdEntriesRefused);
    }
}
