//! A client and a scripted server, in virtual time and with losses.

use super::*;
use crate::cx::testing::TestContext;
use proptest::prelude::*;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const LENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

struct Bench {
    client: Client,
    context: TestContext,
}

impl Bench {
    fn started(seed: u64) -> Self {
        let settings = Settings { mac: MAC, host_name: b"plumb".to_vec() };
        let mut bench =
            Self { client: Client::new(settings), context: TestContext::with_seed(seed) };
        bench.client.start(&mut bench.context.cx());
        bench
    }

    /// Returns a client with a lease of one hour.
    fn bound() -> Self {
        let mut bench = Self::started(1);
        bench.run_seconds(1);
        bench.answer(Kind::Offer);
        bench.answer(Kind::Ack);
        bench.client.accept(LENT, &mut bench.context.cx());
        bench.events();
        bench
    }

    /// Runs the timers that expire within `seconds`.
    fn run_seconds(&mut self, seconds: u64) {
        let end = self.context.now + Duration::from_secs(seconds);
        while let Some(at) = self.client.deadline().filter(|at| *at <= end) {
            self.context.now = self.context.now.max(at);
            self.client.timeout(&mut self.context.cx());
        }
        self.context.now = end;
    }

    /// Returns the messages that the client has sent, with their destinations.
    fn sent(&mut self) -> Vec<(Ipv4Addr, Message)> {
        core::iter::from_fn(|| self.client.transmit(&mut self.context.cx()))
            .map(|outgoing| (outgoing.destination, Message::parse(&outgoing.payload).unwrap()))
            .collect()
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.client.event()).collect()
    }

    fn receive(&mut self, message: &Message) {
        self.client.receive(&message.emit(), &mut self.context.cx());
    }

    /// Returns the server's reply to the last message.
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
    bench.client.accept(LENT, &mut bench.context.cx());
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
        waits.push(due.since(bench.context.now).as_secs());
        bench.context.now = due;
        bench.client.timeout(&mut bench.context.cx());
    }
    let about = [4, 8, 16, 32, 64, 64, 64_u64];
    assert!(waits.iter().zip(about).all(|(wait, about)| wait.abs_diff(about) <= 1), "{waits:?}");
    assert_eq!(bench.context.counted(Counter::DhcpRetransmissions), 7);
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
fn an_address_in_use_is_declined_and_another_requested() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    bench.answer(Kind::Ack);
    bench.client.decline(LENT, &mut bench.context.cx());
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
        let outgoing = bench.client.transmit(&mut bench.context.cx()).unwrap();
        assert_eq!((outgoing.source, outgoing.destination), (LENT, SERVER));
        let asked = Message::parse(&outgoing.payload).unwrap();
        assert_eq!((asked.client, asked.options.requested_address), (LENT, None));
        let options = Options { lease_s: Some(3600), ..Options::default() };
        Message { op: Op::Reply, kind: Kind::Ack, yours: LENT, options, ..asked }
    };
    bench.receive(&reply);
    assert!(matches!(bench.events()[..], [Event::Bound(_)]));
    let until = bench.client.lease().unwrap().until.unwrap();
    assert!(until.since(bench.context.now) > Duration::from_secs(3500));
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
    assert_eq!(bench.context.counted(Counter::DhcpIgnored), 1);
}

#[test]
fn an_address_is_given_back() {
    let mut bench = Bench::bound();
    bench.client.release(&mut bench.context.cx());
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
    bench.client.accept(LENT, &mut bench.context.cx());
    assert_eq!(bench.client.deadline(), None);
}

#[test]
fn a_reply_to_no_request_of_ours_is_ignored() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let offer = bench.reply(Kind::Offer);
    let another = MacAddress::new([2, 0, 0, 0, 0, 9]);
    bench.receive(&Message { transaction: offer.transaction ^ 1, ..offer.clone() });
    bench.receive(&Message { mac: another, ..offer.clone() });
    bench.receive(&Message { op: Op::Request, ..offer.clone() });
    bench.receive(&Message { yours: Ipv4Addr::BROADCAST, ..offer.clone() });
    bench.receive(&Message { kind: Kind::Ack, ..offer });
    assert_eq!((bench.sent(), bench.context.counted(Counter::DhcpIgnored)), (Vec::new(), 5));
}

#[test]
fn times_of_a_server_that_are_out_of_order_are_not_used() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    bench.answer(Kind::Offer);
    let mut ack = bench.reply(Kind::Ack);
    ack.options.renewal_s = Some(3000);
    ack.options.rebinding_s = Some(2000);
    bench.receive(&ack);
    bench.client.accept(LENT, &mut bench.context.cx());
    let lease = bench.client.lease().unwrap();
    let began = lease.until.unwrap().as_nanos() - 3_600_000_000_000;
    assert_eq!(lease.rebind_at.unwrap().as_nanos() - began, 3_150_000_000_000);
    assert!(lease.renew_at.unwrap().as_nanos() - began <= 1_800_000_000_000);
}

// attack row 101
#[test]
fn row_101_answers_cut_at_any_byte_make_the_client_send_nothing() {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    let offer = bench.reply(Kind::Offer).emit();
    (0..240).for_each(|len| bench.client.receive(&offer[..len], &mut bench.context.cx()));
    assert_eq!((bench.sent(), bench.context.counted(Counter::DhcpErrors)), (Vec::new(), 240));
}

#[test]
fn a_client_is_bound_though_two_of_three_messages_are_lost() {
    for seed in 0..100 {
        let mut bench = Bench::started(seed);
        let mut is_lost = {
            let mut rng = crate::rng::Rng::from_seed(seed ^ 0xD0C);
            move || rng.below(3) != 0
        };
        for _ in 0..10_000 {
            if bench.client.lease().is_some() {
                break;
            }
            bench.run_seconds(1);
            for (_, asked) in bench.sent() {
                let kind = if asked.kind == Kind::Discover { Kind::Offer } else { Kind::Ack };
                let lease_s = Some(86_400);
                let server = Some(SERVER);
                let options = Options { lease_s, server, ..Options::default() };
                let reply = Message { op: Op::Reply, kind, yours: LENT, options, ..asked };
                if !is_lost() && !is_lost() {
                    bench.receive(&reply);
                }
            }
            bench.client.accept(LENT, &mut bench.context.cx());
        }
        assert!(bench.client.lease().is_some(), "seed {seed}");
    }
}

/// Returns the lease of a client after an offer and an acknowledgment that `change` has modified.
fn bound_after(change: impl Fn(&mut Message)) -> Option<Lease> {
    let mut bench = Bench::started(1);
    bench.run_seconds(1);
    for kind in [Kind::Offer, Kind::Ack] {
        let mut reply = bench.reply(kind);
        change(&mut reply);
        bench.receive(&reply);
        if bench.client.pending.is_empty() && kind == Kind::Offer {
            return None;
        }
    }
    let checked = bench.events();
    let Some(Event::Check(address)) = checked.first() else { return None };
    bench.client.accept(*address, &mut bench.context.cx());
    bench.client.lease().cloned()
}

// attack row 136
#[test]
fn row_136_an_address_that_no_host_can_have_is_not_taken() {
    let address = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    for (text, prefix_len) in [
        ("0.0.0.0", 24),
        ("10.0.0.0", 24),
        ("10.0.0.255", 24),
        ("10.0.255.255", 16),
        ("10.0.0.4", 30),
        ("10.255.255.255", 0),
        ("127.0.0.1", 8),
        ("224.0.0.1", 24),
        ("255.255.255.255", 24),
        ("10.0.0.1", 24),
    ] {
        let lease = bound_after(|reply| {
            reply.yours = address(text);
            reply.options.prefix_len = Some(prefix_len);
        });
        assert_eq!(lease, None, "{text}/{prefix_len}");
    }
    for (text, prefix_len) in [("10.0.0.254", 24), ("10.0.0.4", 31), ("10.0.0.255", 32)] {
        let lease = bound_after(|reply| {
            reply.yours = address(text);
            reply.options.prefix_len = Some(prefix_len);
        });
        assert_eq!(lease.unwrap().address, address(text), "{text}/{prefix_len}");
    }
}

// attack row 136
#[test]
fn row_136_a_mask_that_puts_the_internet_on_the_link_is_not_accepted() {
    for prefix_len in 0..8 {
        let lease = bound_after(|reply| reply.options.prefix_len = Some(prefix_len)).unwrap();
        assert_eq!(lease.prefix_len, 8);
    }
}

// attack row 136
#[test]
fn row_136_routers_outside_of_the_network_and_the_host_itself_are_not_used() {
    let lease = bound_after(|reply| {
        let outside = Ipv4Addr::new(10, 0, 1, 1);
        let broadcast = Ipv4Addr::new(10, 0, 0, 255);
        reply.options.routers = [outside, LENT, broadcast, OTHER_SERVER].into();
    });
    assert_eq!(lease.unwrap().routers, [OTHER_SERVER]);
    let alone = bound_after(|reply| {
        reply.options.prefix_len = Some(32);
        reply.options.routers = [Ipv4Addr::new(10, 0, 1, 1)].into();
    });
    assert_eq!(alone.unwrap().routers, [Ipv4Addr::new(10, 0, 1, 1)]);
}

// attack row 136
#[test]
fn row_136_a_lease_of_no_time_is_neither_asked_for_nor_taken() {
    assert_eq!(bound_after(|reply| reply.options.lease_s = Some(0)), None);
    let only_ack = bound_after(|reply| {
        if reply.kind == Kind::Ack {
            reply.options.lease_s = Some(0);
        }
    });
    assert_eq!(only_ack, None);
}

// attack row 136
#[test]
fn row_136_an_acknowledgment_counts_from_the_server_of_the_offer_alone() {
    for server in [None, Some(OTHER_SERVER)] {
        let forged = bound_after(|reply| {
            if reply.kind == Kind::Ack {
                reply.options.server = server;
            }
        });
        assert_eq!(forged, None);
    }
}

/// Runs a client with a hostile server and an honest server. `forge` makes the replies of the
/// hostile server, which always answers first. Returns the lease and the number of seconds until it
/// was obtained.
fn bound_beside(forge: impl Fn(&Message) -> Option<Message>) -> (Lease, u64) {
    let mut bench = Bench::started(3);
    for second in 0..600 {
        bench.run_seconds(1);
        for (_, asked) in bench.sent() {
            let options = Options {
                prefix_len: Some(24),
                routers: [SERVER].into(),
                lease_s: Some(3600),
                server: Some(SERVER),
                ..Options::default()
            };
            let kind = match asked.kind {
                Kind::Discover => Kind::Offer,
                _ => Kind::Ack,
            };
            let honest = Message { op: Op::Reply, kind, yours: LENT, options, ..asked.clone() };
            let is_for_honest = asked.kind == Kind::Discover
                || asked.options.server.is_none_or(|server| server == SERVER);
            forge(&honest).into_iter().for_each(|forged| bench.receive(&forged));
            if is_for_honest {
                bench.receive(&honest);
            }
        }
        // The check of an address takes some seconds.
        if let Some(Event::Check(address)) = bench.events().first() {
            bench.run_seconds(6);
            bench.client.accept(*address, &mut bench.context.cx());
        }
        if let Some(lease) = bench.client.lease().filter(|lease| lease.server == SERVER) {
            return (lease.clone(), second);
        }
    }
    panic!("the honest server never lends anything");
}

// attack row 136
#[test]
fn row_136_a_server_that_is_always_first_cannot_keep_a_legitimate_one_away() {
    let rogue = |honest: &Message| {
        let mut forged = honest.clone();
        forged.yours = Ipv4Addr::new(10, 0, 0, 66);
        forged.options.server = Some(OTHER_SERVER);
        forged
    };
    // The hostile server makes offers and then stays silent, refuses, or lends for less time than
    // the check takes.
    let silent = |honest: &Message| (honest.kind == Kind::Offer).then(|| rogue(honest));
    let refusing = |honest: &Message| {
        let forged = rogue(honest);
        let kind = if honest.kind == Kind::Ack { Kind::Nak } else { honest.kind };
        Some(Message { kind, ..forged })
    };
    let brief = |honest: &Message| {
        let mut forged = rogue(honest);
        forged.options.lease_s = Some(1);
        Some(forged)
    };
    let (lease, seconds) = bound_beside(silent);
    assert_eq!((lease.address, lease.server), (LENT, SERVER));
    assert!(seconds < 120, "{seconds}");
    let (lease, seconds) = bound_beside(refusing);
    assert_eq!(lease.address, LENT);
    assert!(seconds < 30, "{seconds}");
    let (lease, seconds) = bound_beside(brief);
    assert_eq!(lease.address, LENT);
    assert!(seconds < 60, "{seconds}");
}

proptest! {
    // attack row 136
    #[test]
    fn row_136_no_answer_of_drawn_options_gets_an_address_that_no_host_can_have(
        drawn in prop::collection::vec(drawn_option(), 0..12),
        overload in 0..4_u8, yours: u32, is_ack: bool,
    ) {
        let mut bench = Bench::started(1);
        bench.run_seconds(1);
        if is_ack {
            bench.answer(Kind::Offer);
        }
        let kind = if is_ack { Kind::Ack } else { Kind::Offer };
        let mut bytes = bench.reply(kind).emit();
        // The options of the honest reply come first; later options of the same kind replace them.
        bytes.pop();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.extend([52, 1, overload]);
        drawn.iter().for_each(|option| bytes.extend(option));
        bytes[16..20].copy_from_slice(&yours.to_be_bytes());
        bench.client.receive(&bytes, &mut bench.context.cx());
        for event in bench.events() {
            let Event::Check(address) = event else { panic!("{event:?}") };
            prop_assert!(is_host(address));
            bench.client.accept(address, &mut bench.context.cx());
            let lease = bench.client.lease().unwrap();
            prop_assert!(lease.prefix_len >= 8 && is_host_within(address, lease.prefix_len));
            prop_assert!(!lease.routers.contains(&address));
        }
    }
}

/// Generates an option whose body may have any length.
fn drawn_option() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select(std::vec![1_u8, 3, 6, 26, 50, 51, 52, 53, 54, 58, 59, 61, 255]);
    (code, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(code, body)| {
        let len = u8::try_from(body.len()).unwrap();
        [&[code, len][..], &body].concat()
    })
}
