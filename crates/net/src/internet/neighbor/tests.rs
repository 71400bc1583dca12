//! Tests of the states of a neighbor, and of the limits of the cache during floods.

use super::*;
use crate::cx::OwnedCx;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const NEIGHBOR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const OTHER_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 3]);

const SOLICITED: Advertisement =
    Advertisement { mac: Some(MAC), is_router: false, is_solicited: true, is_override: true };

struct Fixture {
    cache: Cache,
    pool: Pool,
    context: OwnedCx,
}

impl Default for Fixture {
    fn default() -> Self {
        Self { cache: Cache::default(), pool: Pool::new(4096, 64), context: OwnedCx::default() }
    }
}

impl Fixture {
    /// Sends a packet. Returns true if the neighbor's address is known.
    fn send_to(&mut self, to: IpAddr, data: &[u8]) -> bool {
        let mut packet = self.pool.take(&mut self.context.meter).unwrap();
        packet.extend(data);
        let sent = self.cache.resolve(to, packet, &mut self.pool, &mut self.context.cx());
        let is_known = sent.is_some();
        sent.into_iter().for_each(|(_, packet)| self.pool.put(packet));
        is_known
    }

    fn send(&mut self) -> bool {
        self.send_to(NEIGHBOR, b"data")
    }

    fn answer(&mut self) {
        self.cache.answer(NEIGHBOR, MAC, &mut self.context.cx());
    }

    fn advance(&mut self, millis: u64) {
        self.context.advance_millis(millis);
        self.cache.timeout(&mut self.context.cx());
    }

    fn solicitations(&mut self) -> Vec<Option<MacAddress>> {
        core::iter::from_fn(|| self.cache.transmit(&mut self.context.cx())).map(|s| s.to).collect()
    }

    /// Returns the data of the packets that can be sent, and of those whose neighbor did not
    /// answer.
    fn events(&mut self) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
        let mut resolved = Vec::new();
        let mut failed = Vec::new();
        while let Some(event) = self.cache.event() {
            match event {
                Event::Resolved { packet, .. } => {
                    resolved.push(packet.data().to_vec());
                    self.pool.put(packet);
                }
                Event::Failed { packet: Some(packet), .. } => {
                    failed.push(packet.data().to_vec());
                    self.pool.put(packet);
                }
                Event::Failed { packet: None, .. } | Event::RouterLeft { .. } => {
                    failed.push(Vec::new());
                }
            }
        }
        (resolved, failed)
    }
}

fn neighbor(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0B00_0000 + number).into()
}

// req RFC1122:2.4-MUST-3
#[test]
fn a_packet_waits_until_its_neighbor_has_answered() {
    let mut fixture = Fixture::default();
    assert!(!fixture.send());
    assert_eq!(fixture.solicitations(), [None]);
    fixture.answer();
    assert_eq!(fixture.events(), (vec![b"data".to_vec()], vec![]));
    assert!(fixture.send());
    assert_eq!((fixture.solicitations(), fixture.pool.lent()), (vec![], 0));
}

#[test]
fn the_newest_packet_evicts_the_oldest_of_its_entry() {
    let mut fixture = Fixture::default();
    for data in [b"1", b"2", b"3", b"4"] {
        fixture.send_to(NEIGHBOR, data);
    }
    fixture.answer();
    assert_eq!(fixture.events().0, [b"2", b"3", b"4"]);
    assert_eq!(fixture.context.counted(Counter::NeighborPacketsDropped), 1);
}

#[test]
fn a_neighbor_fails_with_its_packets_after_three_unanswered_solicitations() {
    let mut fixture = Fixture::default();
    fixture.send();
    (0..2).for_each(|_| fixture.advance(1000));
    assert_eq!(fixture.solicitations(), [None; 3]);
    assert_eq!(fixture.events(), (vec![], vec![]));
    fixture.advance(1000);
    assert_eq!(fixture.events(), (vec![], vec![b"data".to_vec()]));
    assert_eq!((fixture.pool.lent(), fixture.cache.deadline()), (0, None));
}

// req RFC1122:2.3.2.1-MUST-2
#[test]
fn any_amount_of_output_to_a_silent_neighbor_solicits_at_most_once_a_second() {
    let mut fixture = Fixture::default();
    for _ in 0..6000 {
        fixture.send();
        fixture.advance(10);
        fixture.events();
    }
    assert_eq!(fixture.solicitations().len(), 60);
}

// req RFC1122:2.3.2.1-MUST-1
#[test]
fn a_stale_neighbor_is_probed_by_unicast_before_it_fails() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.solicitations();
    fixture.answer();
    fixture.events();
    fixture.advance(46_000);
    assert!(fixture.send());
    assert_eq!(fixture.solicitations(), []);
    fixture.advance(5000);
    (0..2).for_each(|_| fixture.advance(1000));
    assert_eq!(fixture.solicitations(), [Some(MAC); 3]);
    fixture.advance(1000);
    assert_eq!(fixture.events(), (vec![], vec![vec![]]));
    assert!(!fixture.cache.is_probably_reachable(NEIGHBOR));
}

#[test]
fn confirmation_by_a_higher_layer_makes_a_probe_unnecessary() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.solicitations();
    fixture.answer();
    fixture.advance(46_000);
    fixture.send();
    fixture.cache.confirm(NEIGHBOR, &mut fixture.context.cx());
    fixture.advance(6000);
    assert_eq!((fixture.solicitations(), fixture.cache.deadline()), (vec![], None));
}

#[test]
fn a_higher_layer_report_of_lost_packets_probes_immediately() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.solicitations();
    fixture.answer();
    assert!(!fixture.cache.needs_verification());
    (0..2).for_each(|_| fixture.cache.doubt(NEIGHBOR, &mut fixture.context.cx()));
    assert_eq!(
        (fixture.solicitations(), fixture.cache.needs_verification()),
        (vec![Some(MAC)], true)
    );
}

#[test]
fn an_answer_to_a_probe_makes_the_neighbor_reachable_again() {
    let mut fixture = Fixture::default();
    fixture.cache.learn(NEIGHBOR, MAC, Overwrite::Always, &mut fixture.context.cx());
    assert!(fixture.send());
    fixture.advance(5000);
    assert_eq!(fixture.solicitations(), [Some(MAC)]);
    fixture.answer();
    assert_eq!(fixture.cache.deadline(), None);
}

#[test]
fn an_unsolicited_answer_makes_no_entry() {
    let mut fixture = Fixture::default();
    fixture.answer();
    fixture.cache.advertise(NEIGHBOR, SOLICITED, &mut fixture.context.cx());
    assert_eq!(fixture.cache.lookup(NEIGHBOR), None);
    assert_eq!(fixture.context.counted(Counter::NeighborsUnasked), 2);
}

#[test]
fn a_verified_neighbor_is_probed_before_its_address_is_replaced() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.solicitations();
    fixture.answer();
    let cx = &mut fixture.context.cx();
    fixture.cache.update_existing(NEIGHBOR, OTHER_MAC, Overwrite::IfUnverified, cx);
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(MAC));
    assert_eq!(fixture.solicitations(), [Some(MAC)]);
    fixture.answer();
    assert_eq!((fixture.cache.lookup(NEIGHBOR), fixture.cache.deadline()), (Some(MAC), None));
}

#[test]
fn a_new_hardware_address_is_learned_after_the_old_one_fails() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    fixture.cache.update_existing(
        NEIGHBOR,
        OTHER_MAC,
        Overwrite::IfUnverified,
        &mut fixture.context.cx(),
    );
    (0..3).for_each(|_| fixture.advance(1000));
    assert!(!fixture.send());
    fixture.cache.answer(NEIGHBOR, OTHER_MAC, &mut fixture.context.cx());
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(OTHER_MAC));
}

#[test]
fn a_flood_of_claims_causes_one_solicitation_at_a_time() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.solicitations();
    fixture.answer();
    for claim in 0..1000_u16 {
        let [a, b] = claim.to_be_bytes();
        let mac = MacAddress::new([6, 0, 0, 0, a, b]);
        fixture.cache.update_existing(
            NEIGHBOR,
            mac,
            Overwrite::IfUnverified,
            &mut fixture.context.cx(),
        );
    }
    assert_eq!(fixture.solicitations(), [Some(MAC)]);
    assert_eq!(fixture.context.counted(Counter::NeighborOverwritesRefused), 1000);
}

#[test]
fn an_advertisement_without_override_only_makes_the_entry_stale() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    let advertisement = Advertisement { mac: Some(OTHER_MAC), is_override: false, ..SOLICITED };
    fixture.cache.advertise(NEIGHBOR, advertisement, &mut fixture.context.cx());
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(MAC));
    fixture.send();
    assert_eq!(fixture.cache.deadline(), Some(fixture.context.now + DELAY_FIRST_PROBE_TIME));
}

#[test]
fn an_advertisement_with_override_changes_the_address() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    let advertisement = Advertisement { mac: Some(OTHER_MAC), is_solicited: false, ..SOLICITED };
    fixture.cache.advertise(NEIGHBOR, advertisement, &mut fixture.context.cx());
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(OTHER_MAC));
}

#[test]
fn a_neighbor_that_stops_being_a_router_is_reported() {
    let mut fixture = Fixture::default();
    fixture.send();
    let router = Advertisement { is_router: true, ..SOLICITED };
    fixture.cache.advertise(NEIGHBOR, router, &mut fixture.context.cx());
    fixture.events();
    fixture.cache.advertise(NEIGHBOR, SOLICITED, &mut fixture.context.cx());
    assert!(matches!(fixture.cache.event(), Some(Event::RouterLeft { target: NEIGHBOR })));
}

// attack row 22
#[test]
fn a_million_nonexistent_hosts_use_bounded_memory_and_solicitations() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    fixture.events();
    (0..1_000_000).for_each(|number| {
        fixture.send_to(neighbor(number), b"x");
    });
    let limits = Limits::default();
    assert_eq!(fixture.cache.entries.len(), limits.incomplete + 1);
    assert_eq!(fixture.pool.lent(), limits.packets);
    assert!(fixture.solicitations().len() <= limits.incomplete + 1);
    assert!(fixture.send(), "the neighbor that was there is still known");
}

// attack row 22
#[test]
fn a_million_senders_evict_no_neighbor_in_use() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    fixture.events();
    (0..1_000_000).for_each(|number| {
        fixture.cache.learn(neighbor(number), MAC, Overwrite::Always, &mut fixture.context.cx());
    });
    assert_eq!(fixture.cache.entries.len(), Limits::default().unused + 1);
    assert_eq!(fixture.cache.unused.len(), Limits::default().unused);
    assert!(fixture.send());
}

// attack row 22
#[test]
fn hosts_that_exist_for_one_packet_evict_no_established_neighbor() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.answer();
    fixture.events();
    (0..8).for_each(|_| assert!(fixture.send()));
    for number in 0..10_000 {
        fixture.advance(1);
        fixture.send_to(neighbor(number), b"x");
        fixture.cache.answer(neighbor(number), MAC, &mut fixture.context.cx());
        fixture.events();
        fixture.solicitations();
    }
    assert_eq!(fixture.cache.entries.len(), Limits::default().entries);
    assert!(fixture.cache.lookup(NEIGHBOR).is_some());
    assert_eq!(fixture.pool.lent(), 0);
}

#[test]
fn reset_returns_every_packet() {
    let mut fixture = Fixture::default();
    fixture.send();
    fixture.send_to(neighbor(1), b"x");
    fixture.answer();
    fixture.cache.reset(&mut fixture.pool);
    assert_eq!((fixture.pool.lent(), fixture.cache.deadline()), (0, None));
    assert!(fixture.cache.event().is_none());
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Send(u8),
    Answer(u8, u8),
    Advertise(u8, Option<u8>, bool, bool),
    Learn(u8, u8),
    Wait(u16),
    Take,
}

fn any_action() -> impl Strategy<Value = Action> {
    let host = 0..6_u8;
    prop_oneof![
        host.clone().prop_map(Action::Send),
        (host.clone(), 1..4_u8).prop_map(|(host, mac)| Action::Answer(host, mac)),
        (host.clone(), prop::option::of(1..4_u8), any::<bool>(), any::<bool>())
            .prop_map(|(host, mac, s, o)| Action::Advertise(host, mac, s, o)),
        (host, 1..4_u8).prop_map(|(host, mac)| Action::Learn(host, mac)),
        any::<u16>().prop_map(Action::Wait),
        Just(Action::Take),
    ]
}

impl Fixture {
    fn any_action(&mut self, any_action: Action) {
        let mac = |last: u8| MacAddress::new([2, 0, 0, 0, 0, last]);
        match any_action {
            Action::Send(host) => {
                self.send_to(neighbor(host.into()), b"x");
            }
            Action::Answer(host, last) => {
                self.cache.answer(neighbor(host.into()), mac(last), &mut self.context.cx());
            }
            Action::Advertise(host, last, is_solicited, is_override) => {
                let mac = last.map(mac);
                let advertisement =
                    Advertisement { mac, is_router: false, is_solicited, is_override };
                self.cache.advertise(neighbor(host.into()), advertisement, &mut self.context.cx());
            }
            Action::Learn(host, last) => {
                let overwrite = Overwrite::IfUnverified;
                let cx = &mut self.context.cx();
                self.cache.learn(neighbor(host.into()), mac(last), overwrite, cx);
            }
            Action::Wait(millis) => self.advance(millis.into()),
            Action::Take => {
                self.events();
                self.solicitations();
            }
        }
    }

    fn is_sound(&self) -> bool {
        let Cache { entries, timers, incomplete, queued_packets, limits, .. } = &self.cache;
        let is_incomplete = |entry: &&Entry| matches!(entry.state, State::Incomplete { .. });
        let timed_entries = entries.values().filter(|entry| entry.timer.is_some()).count();
        entries.values().filter(is_incomplete).count() == *incomplete
            && timers.len() == timed_entries
            && *queued_packets <= limits.packets
            && self.pool.lent() == *queued_packets
            && entries.len() <= limits.entries
            && self.cache.unused.len() <= limits.unused
    }
}

proptest! {
    #[test]
    fn no_order_of_events_breaks_the_invariants(acts in prop::collection::vec(any_action(), 0..200)) {
        let limits =
            Limits { entries: 4, incomplete: 2, unused: 2, packets_per_entry: 2, packets: 3 };
        let mut fixture = Fixture { cache: Cache::new(limits), ..Fixture::default() };
        for any_action in acts {
            fixture.any_action(any_action);
            prop_assert!(fixture.is_sound(), "{:?}", fixture.cache);
        }
        fixture.cache.reset(&mut fixture.pool);
        prop_assert_eq!(fixture.pool.lent(), 0);
    }
}

#[test]
fn an_unverified_address_is_replaced_by_another_and_a_verified_one_is_not() {
    let mut fixture = Fixture::default();
    let cx = &mut fixture.context.cx();
    fixture.cache.learn(NEIGHBOR, MAC, Overwrite::Always, cx);
    fixture.cache.update_existing(NEIGHBOR, OTHER_MAC, Overwrite::IfUnverified, cx);
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(OTHER_MAC));
    fixture.cache.advertise(NEIGHBOR, SOLICITED, cx);
    fixture.cache.update_existing(NEIGHBOR, OTHER_MAC, Overwrite::IfUnverified, cx);
    assert_eq!(fixture.cache.lookup(NEIGHBOR), Some(MAC));
}
