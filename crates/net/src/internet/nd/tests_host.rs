//! Tests of Neighbor Discovery on a host: its answers, and the information that it accepts or
//! rejects from routers.

use super::*;
use crate::cx::OwnedCx;
use crate::packet::Pool;
use crate::time::Duration;
use std::vec;
use std::vec::Vec;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const ROUTER_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 9]);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 9);
const OTHER_ROUTER: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 10);
const FAR: Ipv6Addr = Ipv6Addr::new(0x2620, 0, 0, 0, 0, 0, 0, 1);
const PREFIX: Prefix = Prefix {
    prefix: Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 0),
    len: 64,
    is_on_link: true,
    is_autonomous: true,
    valid_s: 86_400,
    preferred_s: 14_400,
};

struct Host {
    discovery: Discovery,
    cache: Cache,
    context: OwnedCx,
}

impl Host {
    /// Returns a host that is not started yet.
    fn new(accepts_router_advertisements: bool) -> Self {
        let secret = Secret([1, 2]);
        let settings = Settings { mac: MAC, secret, accepts_router_advertisements, mtu: 1500 };
        let discovery = Discovery::new(settings);
        let cache = Cache::default();
        Self { discovery, cache, context: OwnedCx::default() }
    }

    /// Returns a host with a link-local address.
    fn started() -> Self {
        let mut host = Self::new(true);
        host.discovery.start(&mut host.context.cx());
        host.run_seconds(2);
        host.sent();
        host
    }

    fn ours(&self) -> Ipv6Addr {
        self.discovery.addresses().link_local().unwrap()
    }

    fn run_seconds(&mut self, seconds: u64) {
        let end = self.context.now + Duration::from_secs(seconds);
        while let Some(at) = self.discovery.deadline().filter(|at| *at <= end) {
            self.context.now = self.context.now.max(at);
            self.discovery.timeout(&mut self.context.cx());
        }
        self.context.now = end;
    }

    fn sent(&mut self) -> Vec<Outgoing> {
        core::iter::from_fn(|| self.discovery.transmit(&mut self.context.cx())).collect()
    }

    fn receive(&mut self, message: &Message, source: Ipv6Addr, destination: Ipv6Addr) {
        let bytes = message.emit(source, destination);
        let cache = &mut self.cache;
        let cx = &mut self.context.cx();
        self.discovery.receive(&bytes, source, destination, HOP_LIMIT, cache, cx);
    }

    fn advertise(&mut self, router: Ipv6Addr, advertisement: RouterAdvertisement) {
        self.receive(&Message::RouterAdvertisement(advertisement), router, ALL_NODES);
    }
}

fn advertisement() -> RouterAdvertisement {
    RouterAdvertisement {
        lifetime_s: 1800,
        source_mac: Some(ROUTER_MAC),
        prefixes: vec![PREFIX],
        ..Default::default()
    }
}

fn solicitation(target: Ipv6Addr) -> Message {
    Message::NeighborSolicitation { target, source_mac: Some(ROUTER_MAC), nonce: None }
}

#[test]
fn a_solicitation_for_our_address_is_answered_and_its_sender_learned() {
    let mut host = Host::started();
    let ours = host.ours();
    host.receive(&solicitation(ours), ROUTER, solicited_node(ours));
    let message = Message::NeighborAdvertisement {
        target: ours,
        is_router: false,
        is_solicited: true,
        is_override: true,
        target_mac: Some(MAC),
    };
    let mac = Some(ROUTER_MAC);
    assert_eq!(host.sent(), [Outgoing { source: ours, destination: ROUTER, mac, message }]);
    assert_eq!(host.cache.lookup(ROUTER.into()), Some(ROUTER_MAC));
}

#[test]
fn a_duplicate_check_for_our_address_is_answered_to_all_nodes() {
    let mut host = Host::started();
    let ours = host.ours();
    let message = Message::NeighborSolicitation { target: ours, source_mac: None, nonce: None };
    host.receive(&message, Ipv6Addr::UNSPECIFIED, solicited_node(ours));
    assert_eq!(host.sent()[0].destination, ALL_NODES);
}

#[test]
fn routers_are_solicited_with_backoff_until_one_answers() {
    let mut host = Host::started();
    host.run_seconds(40);
    let solicitations = host.sent();
    assert!(solicitations.iter().all(|sent| sent.destination == ALL_ROUTERS));
    assert_eq!(solicitations.len(), 4);
    host.advertise(ROUTER, advertisement());
    host.run_seconds(1000);
    assert!(host.sent().iter().all(|sent| sent.destination != ALL_ROUTERS));
}

#[test]
fn an_advertised_prefix_gives_an_address_and_a_router() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    host.run_seconds(3);
    let global = host.discovery.addresses().iter().find(|ours| !is_link_local(ours.address));
    assert_eq!(prefix_of(global.unwrap().address, 64), PREFIX.prefix);
    let next_hop = |to| host.discovery.next_hop(to, &host.cache);
    assert_eq!(next_hop(FAR), Some(ROUTER));
    let neighbor = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 7);
    assert_eq!(next_hop(neighbor), Some(neighbor));
}

// attack row 21
#[test]
fn row_21_a_host_can_be_configured_to_ignore_routers() {
    let mut host = Host::new(false);
    host.discovery.start(&mut host.context.cx());
    host.run_seconds(100);
    assert!(host.sent().iter().all(|sent| sent.destination != ALL_ROUTERS));
    host.advertise(
        ROUTER,
        RouterAdvertisement { hop_limit: 200, mtu: Some(1280), ..advertisement() },
    );
    host.run_seconds(10);
    assert_eq!(host.discovery.addresses().iter().count(), 1);
    assert_eq!((host.discovery.routers(), host.discovery.prefixes()), (&[][..], &[][..]));
    assert_eq!((host.discovery.hop_limit(), host.discovery.mtu()), (64, 1500));
    assert_eq!(host.cache.lookup(ROUTER.into()), None);
}

// attack row 21
#[test]
fn row_21_a_forwarded_advertisement_is_rejected() {
    let mut host = Host::started();
    let message = Message::RouterAdvertisement(RouterAdvertisement {
        hop_limit: 200,
        mtu: Some(1280),
        ..advertisement()
    });
    let off_link_source = Ipv6Addr::new(0x2001, 0xDB8, 0, 0, 0, 0, 0, 9);
    let mut forged_messages = Vec::new();
    for hop_limit in 0..=254 {
        forged_messages.push((message.emit(ROUTER, ALL_NODES), ROUTER, hop_limit));
    }
    for source in [off_link_source, Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST, ALL_ROUTERS] {
        forged_messages.push((message.emit(source, ALL_NODES), source, HOP_LIMIT));
    }
    let mut with_code = message.emit(ROUTER, ALL_NODES);
    with_code[1] = 1;
    forged_messages.push((with_code, ROUTER, HOP_LIMIT));
    let count = u64::try_from(forged_messages.len()).unwrap();
    for (bytes, source, hop_limit) in forged_messages {
        let cache = &mut host.cache;
        let cx = &mut host.context.cx();
        host.discovery.receive(&bytes, source, ALL_NODES, hop_limit, cache, cx);
        assert_eq!(host.discovery.addresses().iter().count(), 1, "{source} {hop_limit}");
        let learned = (host.discovery.routers(), host.discovery.prefixes());
        assert_eq!(learned, (&[][..], &[][..]), "{source} {hop_limit}");
        assert_eq!((host.discovery.hop_limit(), host.discovery.mtu()), (64, 1500));
        assert_eq!(host.cache.lookup(source.into()), None);
    }
    assert_eq!(host.context.counted(Counter::NdErrors), count);
    // Now a router on the link sends the same message, and it is accepted.
    host.receive(&message, ROUTER, ALL_NODES);
    assert_eq!(host.discovery.routers().len(), 1);
    assert_eq!((host.discovery.hop_limit(), host.discovery.mtu()), (200, 1280));
}

#[test]
fn an_advertisement_cannot_lower_hop_limit_or_mtu_below_their_minimum() {
    let mut host = Host::started();
    for (hop_limit, mtu) in [(1, 68), (0, 1279), (63, 9000)] {
        host.advertise(
            ROUTER,
            RouterAdvertisement { hop_limit, mtu: Some(mtu), ..advertisement() },
        );
    }
    assert_eq!((host.discovery.hop_limit(), host.discovery.mtu()), (64, 1500));
    host.advertise(ROUTER, RouterAdvertisement { mtu: Some(1280), ..advertisement() });
    assert_eq!(host.discovery.mtu(), 1280);
}

#[test]
fn the_router_with_the_higher_preference_is_used() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    host.advertise(
        OTHER_ROUTER,
        RouterAdvertisement { preference: Preference::High, ..advertisement() },
    );
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(OTHER_ROUTER));
}

#[test]
fn a_reachable_router_is_used_before_an_unreachable_one_of_higher_preference() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    let high_preference =
        RouterAdvertisement { preference: Preference::High, source_mac: None, ..advertisement() };
    host.advertise(OTHER_ROUTER, high_preference);
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(ROUTER));
}

#[test]
fn a_router_is_removed_when_its_lifetime_ends_or_is_zero() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    host.advertise(OTHER_ROUTER, advertisement());
    host.advertise(OTHER_ROUTER, RouterAdvertisement { lifetime_s: 0, ..advertisement() });
    assert_eq!(host.discovery.routers().len(), 1);
    host.run_seconds(1801);
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), None);
}

#[test]
fn a_neighbor_that_stops_being_a_router_is_not_used_as_one() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    host.discovery.lose_neighbor(ROUTER, true, &mut host.context.cx());
    assert_eq!(host.discovery.routers(), []);
}

#[test]
fn only_the_router_in_use_can_redirect() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    let message = Message::Redirect {
        target: OTHER_ROUTER,
        destination: FAR,
        target_mac: Some(MacAddress::new([2, 0, 0, 0, 0, 10])),
    };
    let ours = host.ours();
    host.receive(&message, OTHER_ROUTER, ours);
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(ROUTER));
    host.receive(&message, ROUTER, ours);
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(OTHER_ROUTER));
    host.discovery.lose_neighbor(OTHER_ROUTER, false, &mut host.context.cx());
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(ROUTER));
}

#[test]
fn a_prefix_of_length_zero_does_not_make_the_internet_on_link() {
    let mut host = Host::started();
    let everything = Prefix { prefix: Ipv6Addr::UNSPECIFIED, len: 0, ..PREFIX };
    host.advertise(ROUTER, RouterAdvertisement { prefixes: vec![everything], ..advertisement() });
    assert_eq!(host.discovery.prefixes(), []);
}

// attack row 22
#[test]
fn row_22_a_flood_of_solicitations_and_routers_uses_bounded_memory() {
    let mut host = Host::started();
    let ours = host.ours();
    for number in 0..10_000 {
        let source = Ipv6Addr::new(0xFE80, 0, 0, 0, 1, 0, 0, number);
        host.receive(&solicitation(ours), source, ours);
        let server = Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, number);
        let prefix = Prefix { prefix: Ipv6Addr::new(0x2001, number, 0, 0, 0, 0, 0, 0), ..PREFIX };
        let dns_servers = vec![(server, 60)];
        host.advertise(
            source,
            RouterAdvertisement { prefixes: vec![prefix], dns_servers, ..advertisement() },
        );
    }
    assert_eq!(host.sent().len(), ANSWERS_LIMIT);
    assert_eq!((host.discovery.routers().len(), host.discovery.prefixes().len()), (8, 16));
    assert_eq!(host.discovery.dns_servers().count(), 8);
}

#[test]
fn the_advertised_time_between_solicitations_is_used() {
    let mut host = Host::started();
    let retrans_timer = Some(Duration::from_secs(5));
    host.advertise(ROUTER, RouterAdvertisement { retrans_timer, ..advertisement() });
    let mut pool = Pool::new(1, 100);
    let packet = pool.take(&mut host.context.meter).unwrap();
    host.cache.resolve(FAR.into(), packet, &mut pool, &mut host.context.cx());
    assert_eq!(host.cache.deadline(), Some(host.context.now + Duration::from_secs(5)));
}

#[test]
fn unread_events_are_limited_and_those_beyond_are_counted() {
    let mut host = Host::started();
    for third in 0..15 {
        let prefix = Ipv6Addr::new(0x2001, 0xDB8, third, 0, 0, 0, 0, 0);
        let prefixes = vec![Prefix { prefix, ..PREFIX }];
        host.advertise(ROUTER, RouterAdvertisement { prefixes, ..advertisement() });
    }
    host.run_seconds(10);
    // The router and its prefixes are one event, and each address another.
    assert_eq!(host.discovery.addresses().iter().count(), 16);
    assert_eq!(core::iter::from_fn(|| host.discovery.event()).count(), EVENTS_LIMIT);
    assert_eq!(host.context.counted(Counter::NeighborEventsDropped), 1);
}

#[test]
fn a_router_that_did_not_answer_is_used_after_one_that_may_answer() {
    let mut host = Host::started();
    for router in [ROUTER, OTHER_ROUTER] {
        host.advertise(router, RouterAdvertisement { source_mac: None, ..advertisement() });
    }
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(ROUTER));
    host.discovery.lose_neighbor(ROUTER, false, &mut host.context.cx());
    assert_eq!(host.discovery.next_hop(FAR, &host.cache), Some(OTHER_ROUTER));
}

#[test]
fn the_redirects_of_two_destinations_are_independent() {
    let mut host = Host::started();
    host.advertise(ROUTER, advertisement());
    let destinations = [FAR, Ipv6Addr::new(0x2620, 0, 0, 0, 0, 0, 0, 2)];
    let ours = host.ours();
    for destination in destinations {
        let message = Message::Redirect { target: OTHER_ROUTER, destination, target_mac: None };
        host.receive(&message, ROUTER, ours);
    }
    let hops = destinations.map(|destination| host.discovery.next_hop(destination, &host.cache));
    assert_eq!(hops, [Some(OTHER_ROUTER); 2]);
}
