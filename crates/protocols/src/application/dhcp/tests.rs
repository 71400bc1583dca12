//! A client and a server that is played by hand, in virtual time and with losses.

use super::*;
use crate::cx::testing::Lab;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const LENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

struct Bench {
    client: Client,
    lab: Lab,
}

impl Bench {
    fn started(seed: u64) -> Self {
        let settings = Settings { mac: MAC, host_name: b"plumb".to_vec() };
        let mut bench = Self { client: Client::new(settings), lab: Lab::with_seed(seed) };
        bench.client.start(&mut bench.lab.cx());
        bench
    }

    /// A client with a lease of an hour.
    fn bound() -> Self {
        let mut bench = Self::started(1);
        bench.run_seconds(1);
        bench.answer(Kind::Offer);
        bench.answer(Kind::Ack);
        bench.client.accept(LENT, &mut bench.lab.cx());
        bench.events();
        bench
    }

    /// Lets the timers that run out within `seconds` do so.
    fn run_seconds(&mut self, seconds: u64) {
        let end = self.lab.now + Duration::from_secs(seconds);
        while let Some(at) = self.client.deadline().filter(|at| *at <= end) {
            self.lab.now = self.lab.now.max(at);
            self.client.timeout(&mut self.lab.cx());
        }
        self.lab.now = end;
    }

    /// What the client has sent: to whom, and the message.
    fn sent(&mut self) -> Vec<(Ipv4Addr, Message)> {
        core::iter::from_fn(|| self.client.transmit(&mut self.lab.cx()))
            .map(|outgoing| (outgoing.destination, Message::parse(&outgoing.payload).unwrap()))
            .collect()
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.client.event()).collect()
    }

    fn receive(&mut self, message: &Message) {
        self.client.receive(&message.emit(), &mut self.lab.cx());
    }

    /// The server's answer to the last message.
    fn reply(&mut self, kind: Kind) -> Message {
        let (_, asked) = self.sent().pop().unwrap();
        let options = Options {
            prefix_len: Some(24),
            routers: [SERVER].into(),
            dns_servers: [SERVER].into(),
            lease_s: Some(3600),
            server: Some(SERVER),
            ..Options::default()
        };
        Message { op: Op::Reply, kind, yours: LENT, options, ..asked }
    }

    fn answer(&mut self, kind: Kind) {
        let reply = self.reply(kind);
        self.receive(&reply);
    }
}

#[test]
fn an_address_is_discovered_requested_checked_and_bound() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let offer = bench.reply(Kind::Offer);
    assert!(offer.is_broadcast && offer.client.is_unspecified());
    bench.receive(&offer);
    let ack = bench.reply(Kind::Ack);
    bench.receive(&ack);
    assert_eq!(bench.events(), [Event::Check(LENT)]);
    assert_eq!(bench.client.lease(), None);
    bench.client.accept(LENT, &mut bench.lab.cx());
    let lease = bench.client.lease().cloned().unwrap();
    assert_eq!((lease.address, lease.prefix_len, lease.server), (LENT, 24, SERVER));
    assert_eq!((&lease.routers[..], &lease.dns_servers[..]), (&[SERVER][..], &[SERVER][..]));
    assert_eq!(bench.events(), [Event::Bound(lease)]);
}

#[test]
fn a_request_names_the_server_the_address_and_the_client() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    let (destination, request) = bench.sent().pop().unwrap();
    assert_eq!((destination, request.kind), (Ipv4Addr::BROADCAST, Kind::Request));
    assert_eq!(request.options.requested_address, Some(LENT));
    assert_eq!(request.options.server, Some(SERVER));
    assert_eq!(request.options.client_id, [1, 2, 0, 0, 0, 0, 1]);
}

#[test]
fn waits_for_an_answer_double_up_to_a_minute() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let mut waits = Vec::new();
    for _ in 0..7 {
        let due = bench.client.deadline().unwrap();
        waits.push(due.since(bench.lab.now).as_secs());
        bench.lab.now = due;
        bench.client.timeout(&mut bench.lab.cx());
    }
    let about = [4, 8, 16, 32, 64, 64, 64_u64];
    assert!(waits.iter().zip(about).all(|(wait, about)| wait.abs_diff(about) <= 1), "{waits:?}");
    assert_eq!(bench.lab.counted(Counter::DhcpRetransmissions), 7);
}

#[test]
fn an_offer_whose_server_falls_silent_is_given_up() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    bench.run_seconds(100);
    let kinds = bench.sent().into_iter().map(|(_, message)| message.kind).collect::<Vec<_>>();
    assert_eq!(kinds.last(), Some(&Kind::Discover));
}

#[test]
fn an_address_that_somebody_has_is_declined_and_another_asked_for() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    bench.answer(Kind::Ack);
    bench.client.decline(LENT, &mut bench.lab.cx());
    let (_, decline) = bench.sent().pop().unwrap();
    assert_eq!(decline.kind, Kind::Decline);
    assert_eq!(decline.options.requested_address, Some(LENT));
    bench.run_seconds(9);
    assert_eq!(bench.sent(), []);
    bench.run_seconds(1);
    assert_eq!(bench.sent()[0].1.kind, Kind::Discover);
}

#[test]
fn a_lease_is_renewed_with_its_server_at_half_its_time() {
    let mut bench = Bench::bound();
    bench.run_seconds(1800);
    let reply = {
        let outgoing = bench.client.transmit(&mut bench.lab.cx()).unwrap();
        assert_eq!((outgoing.source, outgoing.destination), (LENT, SERVER));
        let asked = Message::parse(&outgoing.payload).unwrap();
        assert_eq!((asked.client, asked.options.requested_address), (LENT, None));
        let options = Options { lease_s: Some(3600), ..Options::default() };
        Message { op: Op::Reply, kind: Kind::Ack, yours: LENT, options, ..asked }
    };
    bench.receive(&reply);
    assert!(matches!(bench.events()[..], [Event::Bound(_)]));
    let until = bench.client.lease().unwrap().until.unwrap();
    assert!(until.since(bench.lab.now) > Duration::from_secs(3500));
}

#[test]
fn a_lease_is_renewed_with_any_server_after_seven_eighths_of_its_time() {
    let mut bench = Bench::bound();
    bench.run_seconds(3200);
    let (destination, asked) = bench.sent().pop().unwrap();
    assert_eq!(destination, Ipv4Addr::BROADCAST);
    let server = Some(OTHER_SERVER);
    let options = Options { lease_s: Some(3600), server, ..Options::default() };
    bench.receive(&Message { op: Op::Reply, kind: Kind::Ack, yours: LENT, options, ..asked });
    assert_eq!(bench.client.lease().unwrap().server, OTHER_SERVER);
}

#[test]
fn an_address_is_lost_when_its_lease_ends() {
    let mut bench = Bench::bound();
    bench.run_seconds(3600);
    assert_eq!(bench.events(), [Event::Lost(LENT)]);
    assert_eq!(bench.client.lease(), None);
    assert_eq!(bench.sent().pop().unwrap().1.kind, Kind::Discover);
}

#[test]
fn an_address_is_lost_when_its_server_refuses_to_renew_it() {
    let mut bench = Bench::bound();
    bench.run_seconds(1800);
    bench.answer(Kind::Nak);
    assert_eq!(bench.events(), [Event::Lost(LENT)]);
}

#[test]
fn another_server_cannot_take_an_address_away_that_is_being_renewed() {
    let mut bench = Bench::bound();
    bench.run_seconds(1800);
    let mut nak = bench.reply(Kind::Nak);
    nak.options.server = Some(OTHER_SERVER);
    bench.receive(&nak);
    assert_eq!(bench.events(), []);
    assert_eq!(bench.lab.counted(Counter::DhcpIgnored), 1);
}

#[test]
fn an_address_is_given_back() {
    let mut bench = Bench::bound();
    bench.client.release(&mut bench.lab.cx());
    let (destination, release) = bench.sent().pop().unwrap();
    assert_eq!((destination, release.kind, release.client), (SERVER, Kind::Release, LENT));
    assert_eq!((bench.client.deadline(), bench.events()), (None, [Event::Lost(LENT)].into()));
}

#[test]
fn an_endless_lease_is_never_renewed() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    let mut ack = bench.reply(Kind::Ack);
    ack.options.lease_s = Some(INFINITE);
    bench.receive(&ack);
    bench.client.accept(LENT, &mut bench.lab.cx());
    assert_eq!(bench.client.deadline(), None);
}

#[test]
fn what_answers_nothing_of_ours_is_ignored() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let offer = bench.reply(Kind::Offer);
    let another = MacAddress::new([2, 0, 0, 0, 0, 9]);
    bench.receive(&Message { transaction: offer.transaction ^ 1, ..offer.clone() });
    bench.receive(&Message { mac: another, ..offer.clone() });
    bench.receive(&Message { op: Op::Request, ..offer.clone() });
    bench.receive(&Message { yours: Ipv4Addr::BROADCAST, ..offer.clone() });
    bench.receive(&Message { kind: Kind::Ack, ..offer });
    assert_eq!((bench.sent(), bench.lab.counted(Counter::DhcpIgnored)), (Vec::new(), 5));
}

#[test]
fn times_of_a_server_that_are_out_of_order_are_not_used() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    let mut ack = bench.reply(Kind::Ack);
    (ack.options.renewal_s, ack.options.rebinding_s) = (Some(3000), Some(2000));
    bench.receive(&ack);
    bench.client.accept(LENT, &mut bench.lab.cx());
    let lease = bench.client.lease().unwrap();
    let began = lease.until.unwrap().as_nanos() - 3_600_000_000_000;
    assert_eq!(lease.rebind_at.unwrap().as_nanos() - began, 3_150_000_000_000);
    assert!(lease.renew_at.unwrap().as_nanos() - began <= 1_800_000_000_000);
}

// attack row 101
#[test]
fn row_101_answers_cut_at_any_byte_make_the_client_say_nothing() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let offer = bench.reply(Kind::Offer).emit();
    (0..240).for_each(|len| bench.client.receive(&offer[..len], &mut bench.lab.cx()));
    assert_eq!((bench.sent(), bench.lab.counted(Counter::DhcpErrors)), (Vec::new(), 240));
}

#[test]
fn a_client_is_bound_though_two_of_three_messages_are_lost() {
    for seed in 0..100 {
        let mut bench = Bench::started(seed);
        let mut is_lost = {
            let mut chance = crate::chance::Chance::from_seed(seed ^ 0xD0C);
            move || chance.below(3) != 0
        };
        for _ in 0..10_000 {
            if bench.client.lease().is_some() {
                break;
            }
            bench.run_seconds(1);
            for (_, asked) in bench.sent() {
                let kind = if asked.kind == Kind::Discover { Kind::Offer } else { Kind::Ack };
                let (lease_s, server) = (Some(86_400), Some(SERVER));
                let options = Options { lease_s, server, ..Options::default() };
                let reply = Message { op: Op::Reply, kind, yours: LENT, options, ..asked };
                if !is_lost() && !is_lost() {
                    bench.receive(&reply);
                }
            }
            bench.client.accept(LENT, &mut bench.lab.cx());
        }
        assert!(bench.client.lease().is_some(), "seed {seed}");
    }
}
