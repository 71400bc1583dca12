//! Tests of ARP: answers, accepted packets, and the claim and the defense of an address.

use super::*;
use crate::cx::OwnedCx;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const THEIR_MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

const REQUEST: ArpPacket = ArpPacket {
    operation: Operation::Request,
    sender_mac: THEIR_MAC,
    sender: THEIRS,
    target_mac: MacAddress::UNSPECIFIED,
    target: OURS,
};

const REPLY: ArpPacket = ArpPacket { operation: Operation::Reply, target_mac: MAC, ..REQUEST };

struct Fixture {
    arp: Arp,
    cache: Cache,
    context: OwnedCx,
}

impl Fixture {
    /// Returns an interface without an address.
    fn without_address() -> Self {
        Self { arp: Arp::new(MAC), cache: Cache::default(), context: OwnedCx::default() }
    }

    /// Returns an interface that holds [`OURS`] and has announced it.
    fn with_held_address(defense: Defense) -> Self {
        let mut fixture = Self::without_address();
        fixture.arp.hold(OURS, defense, &mut fixture.context.cx()).unwrap();
        fixture.run_seconds(10);
        fixture.sent();
        fixture
    }

    fn receive(&mut self, packet: &ArpPacket) {
        self.arp.receive(&packet.emit(), &mut self.cache, &mut self.context.cx());
    }

    fn sent(&mut self) -> Vec<Outgoing> {
        core::iter::from_fn(|| self.arp.transmit(&mut self.context.cx())).collect()
    }

    /// Processes the timers that expire within `seconds`.
    fn run_seconds(&mut self, seconds: u64) {
        let end = self.context.now + Duration::from_secs(seconds);
        while let Some(at) = self.arp.deadline().filter(|at| *at <= end) {
            self.context.now = self.context.now.max(at);
            self.arp.timeout(&mut self.context.cx());
        }
        self.context.now = end;
    }

    fn is_waiting_for(&mut self, address: Ipv4Addr) {
        let packet = crate::packet::Packet::from_slice(b"x");
        let pool = &mut crate::packet::Pool::new(1, 1);
        assert!(self.cache.resolve(address.into(), packet, pool, &mut self.context.cx()).is_none());
    }
}

#[test]
fn a_request_for_our_address_is_answered_and_its_sender_learned() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.receive(&REQUEST);
    let packet = ArpPacket {
        operation: Operation::Reply,
        sender_mac: MAC,
        sender: OURS,
        target_mac: THEIR_MAC,
        target: THEIRS,
    };
    assert_eq!(fixture.sent(), [Outgoing { destination: THEIR_MAC, packet }]);
    assert_eq!(fixture.cache.lookup(THEIRS.into()), Some(THEIR_MAC));
}

#[test]
fn a_request_for_another_address_is_not_answered_or_cached() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.receive(&ArpPacket { target: Ipv4Addr::new(10, 0, 0, 9), ..REQUEST });
    assert_eq!((fixture.sent(), fixture.cache.lookup(THEIRS.into())), (Vec::new(), None));
}

#[test]
fn a_probe_for_our_address_is_answered_but_not_cached() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.receive(&ArpPacket { sender: Ipv4Addr::UNSPECIFIED, ..REQUEST });
    assert_eq!(fixture.sent().len(), 1);
    assert!(!fixture.cache.is_probably_reachable(Ipv4Addr::UNSPECIFIED.into()));
}

#[test]
fn a_solicited_reply_resolves_the_address() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.is_waiting_for(THEIRS);
    fixture.receive(&REPLY);
    assert_eq!(fixture.cache.lookup(THEIRS.into()), Some(THEIR_MAC));
}

#[test]
fn an_unsolicited_reply_makes_no_entry() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.receive(&REPLY);
    assert_eq!(fixture.cache.lookup(THEIRS.into()), None);
    assert_eq!(fixture.context.counted(Counter::NeighborsUnasked), 1);
}

#[test]
fn a_free_address_is_probed_three_times_claimed_and_announced_twice() {
    let mut fixture = Fixture::without_address();
    fixture.arp.claim(OURS, Defense::GiveUp, &mut fixture.context.cx()).unwrap();
    fixture.run_seconds(20);
    let senders = fixture.sent().into_iter().map(|outgoing| {
        assert_eq!((outgoing.destination, outgoing.packet.target), (MacAddress::BROADCAST, OURS));
        outgoing.packet.sender
    });
    let unspecified = Ipv4Addr::UNSPECIFIED;
    assert!(senders.eq([unspecified, unspecified, unspecified, OURS, OURS]));
    assert_eq!(fixture.arp.event(), Some(Event::Claimed(OURS)));
    assert!(fixture.arp.holds(OURS));
}

#[test]
fn an_address_is_not_ours_while_it_is_probed() {
    let mut fixture = Fixture::without_address();
    fixture.arp.claim(OURS, Defense::GiveUp, &mut fixture.context.cx()).unwrap();
    fixture.run_seconds(1);
    fixture.sent();
    fixture.receive(&REQUEST);
    assert_eq!((fixture.sent(), fixture.arp.holds(OURS)), (Vec::new(), false));
}

#[test]
fn an_address_in_use_is_not_claimed() {
    let mut fixture = Fixture::without_address();
    fixture.arp.claim(OURS, Defense::GiveUp, &mut fixture.context.cx()).unwrap();
    fixture.run_seconds(1);
    fixture.receive(&ArpPacket { sender: OURS, target: Ipv4Addr::UNSPECIFIED, ..REPLY });
    let conflict = Event::Conflict { address: OURS, mac: THEIR_MAC };
    assert_eq!((fixture.arp.event(), fixture.arp.deadline()), (Some(conflict), None));
}

#[test]
fn two_hosts_that_probe_the_same_address_both_give_it_up() {
    let mut fixture = Fixture::without_address();
    fixture.arp.claim(OURS, Defense::Keep, &mut fixture.context.cx()).unwrap();
    fixture.receive(&ArpPacket { sender: Ipv4Addr::UNSPECIFIED, ..REQUEST });
    assert!(matches!(fixture.arp.event(), Some(Event::Conflict { .. })));
}

#[test]
fn a_looped_back_probe_is_no_conflict() {
    let mut fixture = Fixture::without_address();
    fixture.arp.claim(OURS, Defense::GiveUp, &mut fixture.context.cx()).unwrap();
    fixture.run_seconds(1);
    let probe = fixture.sent()[0].packet;
    fixture.receive(&probe);
    assert_eq!((fixture.arp.event(), fixture.context.counted(Counter::ArpConflicts)), (None, 0));
}

#[test]
fn an_address_from_a_server_is_defended_once_and_given_up_at_the_second_conflict() {
    let mut fixture = Fixture::with_held_address(Defense::GiveUp);
    let conflicting_packet = ArpPacket { sender: OURS, ..REQUEST };
    fixture.receive(&conflicting_packet);
    assert_eq!(fixture.sent()[0].packet.sender, OURS);
    assert!(fixture.arp.holds(OURS));
    fixture.run_seconds(9);
    fixture.receive(&conflicting_packet);
    assert!(!fixture.arp.holds(OURS));
    assert!(matches!(fixture.arp.event(), Some(Event::Conflict { .. })));
}

#[test]
fn a_configured_address_is_kept_and_defended_once_in_ten_seconds() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    for _ in 0..25 {
        fixture.receive(&ArpPacket { sender: OURS, ..REQUEST });
        fixture.run_seconds(1);
    }
    assert_eq!(fixture.sent().len(), 3);
    assert!(fixture.arp.holds(OURS));
    assert_eq!(fixture.context.counted(Counter::ArpConflicts), 25);
}

#[test]
fn a_claim_of_our_address_is_not_learned() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    fixture.receive(&ArpPacket { sender: OURS, ..REQUEST });
    assert_eq!(fixture.cache.lookup(OURS.into()), None);
}

// attack row 22
#[test]
fn row_22_a_flood_of_requests_uses_bounded_memory() {
    let mut fixture = Fixture::with_held_address(Defense::Keep);
    (1..1_000_000).for_each(|number| {
        let sender = Ipv4Addr::from_bits(0x0B00_0000 + number);
        fixture.receive(&ArpPacket { sender, ..REQUEST });
    });
    assert_eq!(fixture.sent().len(), ANSWERS_LIMIT);
    let dropped = fixture.context.counted(Counter::NeighborAnswersDropped);
    assert_eq!(dropped, 999_999 - ANSWERS_LIMIT as u64);
}

#[test]
fn a_ninth_address_is_refused() {
    let mut fixture = Fixture::without_address();
    let claimed = (1..=9).map(|last| {
        fixture.arp.claim(Ipv4Addr::new(10, 0, 0, last), Defense::Keep, &mut fixture.context.cx())
    });
    assert_eq!(claimed.filter(Result::is_ok).count(), 8);
}

#[test]
fn unread_events_are_limited_and_those_beyond_are_counted() {
    let mut fixture = Fixture::without_address();
    let in_use = ArpPacket { sender: OURS, target: Ipv4Addr::UNSPECIFIED, ..REPLY };
    for _ in 0..EVENTS_LIMIT + 3 {
        fixture.arp.claim(OURS, Defense::GiveUp, &mut fixture.context.cx()).unwrap();
        fixture.run_seconds(1);
        fixture.receive(&in_use);
    }
    assert_eq!(core::iter::from_fn(|| fixture.arp.event()).count(), EVENTS_LIMIT);
    assert_eq!(fixture.context.counted(Counter::NeighborEventsDropped), 3);
}
