//! The states of a neighbor, and the limits under floods.

use super::*;
use crate::cx::testing::TestContext;
use core::net::Ipv4Addr;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const NEIGHBOR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const OTHER_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 3]);

const SOLICITED: Advertisement =
    Advertisement { mac: Some(MAC), is_router: false, is_solicited: true, is_override: true };

struct Bench {
    cache: Cache,
    pool: Pool,
    context: TestContext,
}

impl Default for Bench {
    fn default() -> Self {
        Self { cache: Cache::default(), pool: Pool::new(4096, 64), context: TestContext::default() }
    }
}

impl Bench {
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

    fn asked(&mut self) -> Vec<Option<MacAddress>> {
        core::iter::from_fn(|| self.cache.transmit(&mut self.context.cx())).map(|s| s.to).collect()
    }

    /// Returns the data of the released packets, and of the failed ones.
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
    let mut bench = Bench::default();
    assert!(!bench.send());
    assert_eq!(bench.asked(), [None]);
    bench.answer();
    assert_eq!(bench.events(), (vec![b"data".to_vec()], vec![]));
    assert!(bench.send());
    assert_eq!((bench.asked(), bench.pool.lent()), (vec![], 0));
}

#[test]
fn the_newest_packet_pushes_out_the_oldest_of_its_entry() {
    let mut bench = Bench::default();
    for data in [b"1", b"2", b"3", b"4"] {
        bench.send_to(NEIGHBOR, data);
    }
    bench.answer();
    assert_eq!(bench.events().0, [b"2", b"3", b"4"]);
    assert_eq!(bench.context.counted(Counter::NeighborPacketsDropped), 1);
}

#[test]
fn a_neighbor_that_does_not_answer_three_questions_fails_with_its_packets() {
    let mut bench = Bench::default();
    bench.send();
    (0..2).for_each(|_| bench.advance(1000));
    assert_eq!(bench.asked(), [None; 3]);
    assert_eq!(bench.events(), (vec![], vec![]));
    bench.advance(1000);
    assert_eq!(bench.events(), (vec![], vec![b"data".to_vec()]));
    assert_eq!((bench.pool.lent(), bench.cache.deadline()), (0, None));
}

// req RFC1122:2.3.2.1-MUST-2
#[test]
fn any_amount_of_output_to_a_silent_neighbor_solicits_at_most_once_a_second() {
    let mut bench = Bench::default();
    for _ in 0..6000 {
        bench.send();
        bench.advance(10);
        bench.events();
    }
    assert_eq!(bench.asked().len(), 60);
}

// req RFC1122:2.3.2.1-MUST-1
#[test]
fn a_neighbor_that_was_silent_for_long_is_asked_alone_before_it_fails() {
    let mut bench = Bench::default();
    bench.send();
    bench.asked();
    bench.answer();
    bench.events();
    bench.advance(46_000);
    assert!(bench.send());
    assert_eq!(bench.asked(), []);
    bench.advance(5000);
    (0..2).for_each(|_| bench.advance(1000));
    assert_eq!(bench.asked(), [Some(MAC); 3]);
    bench.advance(1000);
    assert_eq!(bench.events(), (vec![], vec![vec![]]));
    assert!(!bench.cache.is_probably_reachable(NEIGHBOR));
}

#[test]
fn news_from_above_that_packets_arrive_make_a_probe_needless() {
    let mut bench = Bench::default();
    bench.send();
    bench.asked();
    bench.answer();
    bench.advance(46_000);
    bench.send();
    bench.cache.confirm(NEIGHBOR, &mut bench.context.cx());
    bench.advance(6000);
    assert_eq!((bench.asked(), bench.cache.deadline()), (vec![], None));
}

#[test]
fn news_from_above_that_packets_do_not_arrive_ask_the_neighbor_at_once() {
    let mut bench = Bench::default();
    bench.send();
    bench.asked();
    bench.answer();
    assert!(!bench.cache.has_doubts());
    (0..2).for_each(|_| bench.cache.doubt(NEIGHBOR, &mut bench.context.cx()));
    assert_eq!((bench.asked(), bench.cache.has_doubts()), (vec![Some(MAC)], true));
}

#[test]
fn an_answer_to_a_probe_makes_the_neighbor_reachable_again() {
    let mut bench = Bench::default();
    bench.cache.learn(NEIGHBOR, MAC, Overwrite::Always, &mut bench.context.cx());
    assert!(bench.send());
    bench.advance(5000);
    assert_eq!(bench.asked(), [Some(MAC)]);
    bench.answer();
    assert_eq!(bench.cache.deadline(), None);
}

#[test]
fn an_unsolicited_answer_makes_no_entry() {
    let mut bench = Bench::default();
    bench.answer();
    bench.cache.advertise(NEIGHBOR, SOLICITED, &mut bench.context.cx());
    assert_eq!(bench.cache.lookup(NEIGHBOR), None);
    assert_eq!(bench.context.counted(Counter::NeighborsUnasked), 2);
}

#[test]
fn a_verified_neighbor_is_asked_before_another_takes_its_address() {
    let mut bench = Bench::default();
    bench.send();
    bench.asked();
    bench.answer();
    let cx = &mut bench.context.cx();
    bench.cache.update_existing(NEIGHBOR, OTHER_MAC, Overwrite::IfUnverified, cx);
    assert_eq!(bench.cache.lookup(NEIGHBOR), Some(MAC));
    assert_eq!(bench.asked(), [Some(MAC)]);
    bench.answer();
    assert_eq!((bench.cache.lookup(NEIGHBOR), bench.cache.deadline()), (Some(MAC), None));
}

#[test]
fn a_neighbor_that_moved_is_found_after_its_old_address_is_silent() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    bench.cache.update_existing(
        NEIGHBOR,
        OTHER_MAC,
        Overwrite::IfUnverified,
        &mut bench.context.cx(),
    );
    (0..3).for_each(|_| bench.advance(1000));
    assert!(!bench.send());
    bench.cache.answer(NEIGHBOR, OTHER_MAC, &mut bench.context.cx());
    assert_eq!(bench.cache.lookup(NEIGHBOR), Some(OTHER_MAC));
}

#[test]
fn a_flood_of_claims_makes_one_question_at_a_time() {
    let mut bench = Bench::default();
    bench.send();
    bench.asked();
    bench.answer();
    for claim in 0..1000_u16 {
        let [a, b] = claim.to_be_bytes();
        let mac = MacAddress::new([6, 0, 0, 0, a, b]);
        bench.cache.update_existing(
            NEIGHBOR,
            mac,
            Overwrite::IfUnverified,
            &mut bench.context.cx(),
        );
    }
    assert_eq!(bench.asked(), [Some(MAC)]);
    assert_eq!(bench.context.counted(Counter::NeighborOverwritesRefused), 1000);
}

#[test]
fn an_advertisement_without_override_changes_no_address_but_raises_doubt() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    let said = Advertisement { mac: Some(OTHER_MAC), is_override: false, ..SOLICITED };
    bench.cache.advertise(NEIGHBOR, said, &mut bench.context.cx());
    assert_eq!(bench.cache.lookup(NEIGHBOR), Some(MAC));
    bench.send();
    assert_eq!(bench.cache.deadline(), Some(bench.context.now + DELAY_FIRST_PROBE_TIME));
}

#[test]
fn an_advertisement_with_override_changes_the_address() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    let said = Advertisement { mac: Some(OTHER_MAC), is_solicited: false, ..SOLICITED };
    bench.cache.advertise(NEIGHBOR, said, &mut bench.context.cx());
    assert_eq!(bench.cache.lookup(NEIGHBOR), Some(OTHER_MAC));
}

#[test]
fn a_router_that_says_it_is_none_any_more_is_reported() {
    let mut bench = Bench::default();
    bench.send();
    let router = Advertisement { is_router: true, ..SOLICITED };
    bench.cache.advertise(NEIGHBOR, router, &mut bench.context.cx());
    bench.events();
    bench.cache.advertise(NEIGHBOR, SOLICITED, &mut bench.context.cx());
    assert!(matches!(bench.cache.event(), Some(Event::RouterLeft { target: NEIGHBOR })));
}

// attack row 22
#[test]
fn a_million_hosts_that_do_not_exist_take_a_bounded_place_and_ask_a_bounded_number_of_times() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    bench.events();
    (0..1_000_000).for_each(|number| {
        bench.send_to(neighbor(number), b"x");
    });
    let limits = Limits::default();
    assert_eq!(bench.cache.entries.len(), limits.incomplete + 1);
    assert_eq!(bench.pool.lent(), limits.packets);
    assert!(bench.asked().len() <= limits.incomplete + 1);
    assert!(bench.send(), "the neighbor that was there is still known");
}

// attack row 22
#[test]
fn a_million_senders_evict_no_neighbor_in_use() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    bench.events();
    (0..1_000_000).for_each(|number| {
        bench.cache.learn(neighbor(number), MAC, Overwrite::Always, &mut bench.context.cx());
    });
    assert_eq!(bench.cache.entries.len(), Limits::default().unused + 1);
    assert_eq!(bench.cache.unused.len(), Limits::default().unused);
    assert!(bench.send());
}

// attack row 22
#[test]
fn hosts_that_exist_for_one_packet_evict_no_established_neighbor() {
    let mut bench = Bench::default();
    bench.send();
    bench.answer();
    bench.events();
    (0..8).for_each(|_| assert!(bench.send()));
    for number in 0..10_000 {
        bench.advance(1);
        bench.send_to(neighbor(number), b"x");
        bench.cache.answer(neighbor(number), MAC, &mut bench.context.cx());
        bench.events();
        bench.asked();
    }
    assert_eq!(bench.cache.entries.len(), Limits::default().entries);
    assert!(bench.cache.lookup(NEIGHBOR).is_some());
    assert_eq!(bench.pool.lent(), 0);
}

#[test]
fn reset_gives_every_packet_back() {
    let mut bench = Bench::default();
    bench.send();
    bench.send_to(neighbor(1), b"x");
    bench.answer();
    bench.cache.reset(&mut bench.pool);
    assert_eq!((bench.pool.lent(), bench.cache.deadline()), (0, None));
    assert!(bench.cache.event().is_none());
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Send(u8),
    Answer(u8, u8),
    Advertise(u8, Option<u8>, bool, bool),
    Learn(u8, u8),
    Wait(u16),
    Take,
}

fn act() -> impl Strategy<Value = Act> {
    let host = 0..6_u8;
    prop_oneof![
        host.clone().prop_map(Act::Send),
        (host.clone(), 1..4_u8).prop_map(|(host, mac)| Act::Answer(host, mac)),
        (host.clone(), prop::option::of(1..4_u8), any::<bool>(), any::<bool>())
            .prop_map(|(host, mac, s, o)| Act::Advertise(host, mac, s, o)),
        (host, 1..4_u8).prop_map(|(host, mac)| Act::Learn(host, mac)),
        any::<u16>().prop_map(Act::Wait),
        Just(Act::Take),
    ]
}

impl Bench {
    fn act(&mut self, act: Act) {
        let mac = |last: u8| MacAddress::new([2, 0, 0, 0, 0, last]);
        match act {
            Act::Send(host) => {
                self.send_to(neighbor(host.into()), b"x");
            }
            Act::Answer(host, last) => {
                self.cache.answer(neighbor(host.into()), mac(last), &mut self.context.cx());
            }
            Act::Advertise(host, last, is_solicited, is_override) => {
                let mac = last.map(mac);
                let said = Advertisement { mac, is_router: false, is_solicited, is_override };
                self.cache.advertise(neighbor(host.into()), said, &mut self.context.cx());
            }
            Act::Learn(host, last) => {
                let overwrite = Overwrite::IfUnverified;
                let cx = &mut self.context.cx();
                self.cache.learn(neighbor(host.into()), mac(last), overwrite, cx);
            }
            Act::Wait(millis) => self.advance(millis.into()),
            Act::Take => {
                self.events();
                self.asked();
            }
        }
    }

    fn is_sound(&self) -> bool {
        let Cache { entries, timers, incomplete, held, limits, .. } = &self.cache;
        let is_incomplete = |entry: &&Entry| matches!(entry.state, State::Incomplete { .. });
        let timed = entries.values().filter(|entry| entry.timer.is_some()).count();
        entries.values().filter(is_incomplete).count() == *incomplete
            && timers.len() == timed
            && *held <= limits.packets
            && self.pool.lent() == *held
            && entries.len() <= limits.entries
            && self.cache.unused.len() <= limits.unused
    }
}

proptest! {
    #[test]
    fn no_order_of_things_breaks_the_books(acts in prop::collection::vec(act(), 0..200)) {
        let limits =
            Limits { entries: 4, incomplete: 2, unused: 2, packets_per_entry: 2, packets: 3 };
        let mut bench = Bench { cache: Cache::new(limits), ..Bench::default() };
        for act in acts {
            bench.act(act);
            prop_assert!(bench.is_sound(), "{:?}", bench.cache);
        }
        bench.cache.reset(&mut bench.pool);
        prop_assert_eq!(bench.pool.lent(), 0);
    }
}
