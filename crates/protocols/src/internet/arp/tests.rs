//! ARP: answers, accepted packets, and claiming and defending an address.

use super::*;
use crate::cx::testing::TestContext;

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

struct Bench {
    arp: Arp,
    cache: Cache,
    context: TestContext,
}

impl Bench {
    /// Returns an interface without an address.
    fn bare() -> Self {
        Self { arp: Arp::new(MAC), cache: Cache::default(), context: TestContext::default() }
    }

    /// Returns an interface that holds [`OURS`] and has announced it.
    fn holding(defense: Defense) -> Self {
        let mut bench = Self::bare();
        bench.arp.hold(OURS, defense, &mut bench.context.cx()).unwrap();
        bench.run_seconds(10);
        bench.sent();
        bench
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
    let mut bench = Bench::holding(Defense::Keep);
    bench.receive(&REQUEST);
    let packet = ArpPacket {
        operation: Operation::Reply,
        sender_mac: MAC,
        sender: OURS,
        target_mac: THEIR_MAC,
        target: THEIRS,
    };
    assert_eq!(bench.sent(), [Outgoing { destination: THEIR_MAC, packet }]);
    assert_eq!(bench.cache.lookup(THEIRS.into()), Some(THEIR_MAC));
}

#[test]
fn a_request_for_another_address_is_not_answered_and_teaches_nothing() {
    let mut bench = Bench::holding(Defense::Keep);
    bench.receive(&ArpPacket { target: Ipv4Addr::new(10, 0, 0, 9), ..REQUEST });
    assert_eq!((bench.sent(), bench.cache.lookup(THEIRS.into())), (Vec::new(), None));
}

#[test]
fn a_probe_for_our_address_is_answered_and_teaches_nothing() {
    let mut bench = Bench::holding(Defense::Keep);
    bench.receive(&ArpPacket { sender: Ipv4Addr::UNSPECIFIED, ..REQUEST });
    assert_eq!(bench.sent().len(), 1);
    assert!(!bench.cache.is_probably_reachable(Ipv4Addr::UNSPECIFIED.into()));
}

#[test]
fn a_reply_that_was_asked_for_resolves() {
    let mut bench = Bench::holding(Defense::Keep);
    bench.is_waiting_for(THEIRS);
    bench.receive(&REPLY);
    assert_eq!(bench.cache.lookup(THEIRS.into()), Some(THEIR_MAC));
}

#[test]
fn an_unsolicited_reply_makes_no_entry() {
    let mut bench = Bench::holding(Defense::Keep);
    bench.receive(&REPLY);
    assert_eq!(bench.cache.lookup(THEIRS.into()), None);
    assert_eq!(bench.context.counted(Counter::NeighborsUnasked), 1);
}

#[test]
fn a_free_address_is_probed_three_times_claimed_and_announced_twice() {
    let mut bench = Bench::bare();
    bench.arp.claim(OURS, Defense::GiveUp, &mut bench.context.cx()).unwrap();
    bench.run_seconds(20);
    let senders = bench.sent().into_iter().map(|outgoing| {
        assert_eq!((outgoing.destination, outgoing.packet.target), (MacAddress::BROADCAST, OURS));
        outgoing.packet.sender
    });
    let none = Ipv4Addr::UNSPECIFIED;
    assert!(senders.eq([none, none, none, OURS, OURS]));
    assert_eq!(bench.arp.event(), Some(Event::Claimed(OURS)));
    assert!(bench.arp.holds(OURS));
}

#[test]
fn an_address_is_not_ours_while_it_is_probed() {
    let mut bench = Bench::bare();
    bench.arp.claim(OURS, Defense::GiveUp, &mut bench.context.cx()).unwrap();
    bench.run_seconds(1);
    bench.sent();
    bench.receive(&REQUEST);
    assert_eq!((bench.sent(), bench.arp.holds(OURS)), (Vec::new(), false));
}

#[test]
fn an_address_in_use_is_not_claimed() {
    let mut bench = Bench::bare();
    bench.arp.claim(OURS, Defense::GiveUp, &mut bench.context.cx()).unwrap();
    bench.run_seconds(1);
    bench.receive(&ArpPacket { sender: OURS, target: Ipv4Addr::UNSPECIFIED, ..REPLY });
    let conflict = Event::Conflict { address: OURS, mac: THEIR_MAC };
    assert_eq!((bench.arp.event(), bench.arp.deadline()), (Some(conflict), None));
}

#[test]
fn two_hosts_that_probe_the_same_address_both_give_it_up() {
    let mut bench = Bench::bare();
    bench.arp.claim(OURS, Defense::Keep, &mut bench.context.cx()).unwrap();
    bench.receive(&ArpPacket { sender: Ipv4Addr::UNSPECIFIED, ..REQUEST });
    assert!(matches!(bench.arp.event(), Some(Event::Conflict { .. })));
}

#[test]
fn our_own_probe_that_comes_back_is_no_conflict() {
    let mut bench = Bench::bare();
    bench.arp.claim(OURS, Defense::GiveUp, &mut bench.context.cx()).unwrap();
    bench.run_seconds(1);
    let probe = bench.sent()[0].packet;
    bench.receive(&probe);
    assert_eq!((bench.arp.event(), bench.context.counted(Counter::ArpConflicts)), (None, 0));
}

#[test]
fn an_address_from_a_server_is_defended_once_and_given_up_at_the_second_conflict() {
    let mut bench = Bench::holding(Defense::GiveUp);
    let theirs = ArpPacket { sender: OURS, ..REQUEST };
    bench.receive(&theirs);
    assert_eq!(bench.sent()[0].packet.sender, OURS);
    assert!(bench.arp.holds(OURS));
    bench.run_seconds(9);
    bench.receive(&theirs);
    assert!(!bench.arp.holds(OURS));
    assert!(matches!(bench.arp.event(), Some(Event::Conflict { .. })));
}

#[test]
fn a_configured_address_is_kept_and_defended_once_in_ten_seconds() {
    let mut bench = Bench::holding(Defense::Keep);
    for _ in 0..25 {
        bench.receive(&ArpPacket { sender: OURS, ..REQUEST });
        bench.run_seconds(1);
    }
    assert_eq!(bench.sent().len(), 3);
    assert!(bench.arp.holds(OURS));
    assert_eq!(bench.context.counted(Counter::ArpConflicts), 25);
}

#[test]
fn a_claim_of_our_address_is_not_learned() {
    let mut bench = Bench::holding(Defense::Keep);
    bench.receive(&ArpPacket { sender: OURS, ..REQUEST });
    assert_eq!(bench.cache.lookup(OURS.into()), None);
}

// attack row 22
#[test]
fn row_22_a_flood_of_requests_takes_bounded_room() {
    let mut bench = Bench::holding(Defense::Keep);
    (1..1_000_000).for_each(|number| {
        let sender = Ipv4Addr::from_bits(0x0B00_0000 + number);
        bench.receive(&ArpPacket { sender, ..REQUEST });
    });
    assert_eq!(bench.sent().len(), ANSWERS_LIMIT);
    let dropped = bench.context.counted(Counter::NeighborAnswersDropped);
    assert_eq!(dropped, 999_999 - ANSWERS_LIMIT as u64);
}

#[test]
fn a_ninth_address_is_refused() {
    let mut bench = Bench::bare();
    let claimed = (1..=9).map(|last| {
        bench.arp.claim(Ipv4Addr::new(10, 0, 0, last), Defense::Keep, &mut bench.context.cx())
    });
    assert_eq!(claimed.filter(Result::is_ok).count(), 8);
}
