//! The routing table: on-link prefixes, static routes, and default routers.
//!
//! A default router is a route for every destination (RFC 1122 §3.3.1, RFC 4861 §5.2). Among the
//! routes that cover a destination, the one with the longest prefix is used, then the one with the
//! lowest metric, then the one added first. A route learned from a router has a lifetime. The table
//! is short and sorted in this order, so that the first matching route is the best.

use super::addresses::is_in_prefix;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Maximum number of routes.
pub const ROUTES_MAX: usize = 128;

/// A route to all destinations with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Address whose first `prefix_len` bits are the prefix. 0.0.0.0 or :: with a length of 0
    /// covers every destination.
    pub prefix: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_len: u8,
    /// The router, or `None` if the destinations are on-link.
    pub router: Option<IpAddr>,
    /// Metric among routes with the same prefix length; the lowest is used.
    pub metric: u16,
    /// End of the lifetime of the route; `None` for no limit.
    pub valid_until: Option<Instant>,
}

/// Reasons why a route cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// The table has [`ROUTES_MAX`] routes already.
    Full,
    /// The prefix is longer than an address.
    PrefixLength,
    /// The router is of another family than the prefix.
    Family,
}

impl Route {
    /// Returns a route for on-link destinations.
    #[must_use]
    pub fn on_link(prefix: IpAddr, prefix_len: u8) -> Self {
        Self { prefix, prefix_len, router: None, metric: 0, valid_until: None }
    }

    /// Returns a route through a router.
    #[must_use]
    pub fn via(router: IpAddr, prefix: IpAddr, prefix_len: u8) -> Self {
        Self { router: Some(router), ..Self::on_link(prefix, prefix_len) }
    }

    fn covers(&self, destination: IpAddr) -> bool {
        is_in_prefix(destination, self.prefix, self.prefix_len)
    }

    /// Returns whether `other` is the same route, apart from metric and lifetime.
    fn is_same_route(&self, other: &Self) -> bool {
        self.prefix_len == other.prefix_len
            && self.router == other.router
            && self.covers(other.prefix)
    }
}

/// All routes, the longest prefix first, then the lowest metric.
#[derive(Debug, Default)]
pub struct Routes {
    routes: Vec<Route>,
}

impl Routes {
    /// Adds a route, or replaces the one with the same prefix and router.
    ///
    /// # Errors
    ///
    /// Returns an error if the route is invalid, or the limit is reached.
    pub fn add(&mut self, route: Route) -> Result<(), RouteError> {
        let bits = if route.prefix.is_ipv4() { 32 } else { 128 };
        if route.prefix_len > bits {
            return Err(RouteError::PrefixLength);
        }
        if route.router.is_some_and(|router| router.is_ipv4() != route.prefix.is_ipv4()) {
            return Err(RouteError::Family);
        }
        self.routes.retain(|known| !known.is_same_route(&route));
        if self.routes.len() >= ROUTES_MAX {
            return Err(RouteError::Full);
        }
        let is_better = |known: &Route| {
            (known.prefix_len, u16::MAX - known.metric)
                >= (route.prefix_len, u16::MAX - route.metric)
        };
        self.routes.insert(self.routes.partition_point(is_better), route);
        Ok(())
    }

    /// Removes the route with this prefix and router, and returns whether the table had such a
    /// route.
    pub fn remove(&mut self, prefix: IpAddr, prefix_len: u8, router: Option<IpAddr>) -> bool {
        let index = Route { router, ..Route::on_link(prefix, prefix_len) };
        let previous_len = self.routes.len();
        self.routes.retain(|known| !known.is_same_route(&index));
        self.routes.len() < previous_len
    }

    /// Returns all routes, the best first.
    #[must_use]
    pub fn as_slice(&self) -> &[Route] {
        &self.routes
    }

    /// Returns the next hop of `destination`: the destination itself or a router. Returns `None` if
    /// there is no route.
    #[must_use]
    pub fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        self.next_hop_by(destination, |_| 0)
    }

    /// Like [`Self::next_hop`], but selects the router with the lowest `doubt` if several routes
    /// cover the destination. A `doubt` of 0 means that the router is reachable (RFC 1122 §3.3.1.4,
    /// RFC 4861 §6.3.6). Among equal routers the first is selected.
    #[must_use]
    pub fn next_hop_by(
        &self,
        destination: IpAddr,
        doubt: impl Fn(IpAddr) -> usize,
    ) -> Option<IpAddr> {
        let mut best = None;
        for route in self.routes.iter().filter(|route| route.covers(destination)) {
            let Some(router) = route.router else { return Some(destination) };
            let doubt = doubt(router);
            if doubt == 0 {
                return Some(router);
            }
            if best.is_none_or(|(least, _)| doubt < least) {
                best = Some((doubt, router));
            }
        }
        best.map(|(_, router)| router)
    }

    /// Returns when the next route expires.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.routes.iter().filter_map(|route| route.valid_until).min()
    }

    /// Removes the expired routes.
    pub fn timeout(&mut self, now: Instant) {
        self.routes.retain(|route| route.valid_until.is_none_or(|until| until > now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn default_route_via(router: &str) -> Route {
        let router = ip(router);
        Route::via(router, ip(if router.is_ipv4() { "0.0.0.0" } else { "::" }), 0)
    }

    fn table(routes: &[Route]) -> Routes {
        let mut table = Routes::default();
        for route in routes {
            table.add(*route).unwrap();
        }
        table
    }

    // req RFC1122:3.3.1.1-MUST-1, RFC1122:3.3.1.2-MUST-2
    #[test]
    fn a_destination_on_the_link_is_sent_to_itself_and_any_other_to_the_router() {
        let table = table(&[default_route_via("10.0.0.254"), Route::on_link(ip("10.0.0.1"), 24)]);
        assert_eq!(table.next_hop(ip("10.0.0.9")), Some(ip("10.0.0.9")));
        assert_eq!(table.next_hop(ip("10.0.1.9")), Some(ip("10.0.0.254")));
        assert_eq!(table.next_hop(ip("2001:db8::1")), None);
    }

    #[test]
    fn the_route_with_the_longest_prefix_is_selected() {
        let long_prefix = Route::via(ip("fe80::2"), ip("2001:db8:1::"), 48);
        let short_prefix = Route::via(ip("fe80::1"), ip("2001:db8::"), 32);
        let table = table(&[default_route_via("fe80::3"), short_prefix, long_prefix]);
        let next = ["2001:db8:1::9", "2001:db8:2::9", "2001::9"].map(|to| table.next_hop(ip(to)));
        assert_eq!(next, ["fe80::2", "fe80::1", "fe80::3"].map(|router| Some(ip(router))));
    }

    #[test]
    fn the_first_route_with_the_lowest_metric_is_selected() {
        let routes = [("10.0.0.1", 5), ("10.0.0.2", 3), ("10.0.0.3", 3)];
        let table = table(&routes.map(|(by, metric)| Route { metric, ..default_route_via(by) }));
        assert_eq!(table.next_hop(ip("192.0.2.1")), Some(ip("10.0.0.2")));
    }

    // req RFC1122:3.3.1.2-MUST-3, RFC1122:3.3.1.5-MUST-1
    #[test]
    fn an_unreachable_router_is_used_only_without_an_alternative() {
        let table = table(&[default_route_via("10.0.0.1"), default_route_via("10.0.0.2")]);
        let destination = ip("192.0.2.1");
        let doubt_of = |router| usize::from(router == ip("10.0.0.1"));
        let one_down = table.next_hop_by(destination, doubt_of);
        let all_down = table.next_hop_by(destination, |_| 1);
        assert_eq!((one_down, all_down), (Some(ip("10.0.0.2")), Some(ip("10.0.0.1"))));
    }

    #[test]
    fn adding_a_route_again_replaces_it_until_it_is_removed() {
        let mut table = table(&[default_route_via("10.0.0.1")]);
        table.add(Route { metric: 9, ..default_route_via("10.0.0.1") }).unwrap();
        assert_eq!(table.as_slice().len(), 1);
        assert!(table.remove(ip("0.0.0.0"), 0, Some(ip("10.0.0.1"))));
        assert!(!table.remove(ip("0.0.0.0"), 0, Some(ip("10.0.0.1"))));
        assert_eq!(table.next_hop(ip("192.0.2.1")), None);
    }

    #[test]
    fn an_expired_route_is_removed() {
        let until = Instant::ZERO + Duration::from_secs(1800);
        let mut table =
            table(&[Route { valid_until: Some(until), ..default_route_via("fe80::1") }]);
        assert_eq!(table.deadline(), Some(until));
        table.timeout(until);
        assert_eq!((table.deadline(), table.next_hop(ip("2001:db8::1"))), (None, None));
    }

    #[test]
    fn an_invalid_or_excess_route_is_rejected() {
        let mut table = Routes::default();
        let mixed_families = Route::via(ip("10.0.0.1"), ip("::"), 0);
        assert_eq!(table.add(mixed_families), Err(RouteError::Family));
        let too_long = Route::on_link(ip("10.0.0.1"), 33);
        assert_eq!(table.add(too_long), Err(RouteError::PrefixLength));
        let results = (0..=255).map(|n| table.add(Route::on_link(IpAddr::from([10, 0, n, 0]), 24)));
        assert_eq!(results.filter(|result| *result == Err(RouteError::Full)).count(), 128);
    }
}
