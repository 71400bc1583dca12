//! Tests of a client with a scripted server, in virtual time and with losses.

use super::*;
use crate::cx::OwnedCx;
use proptest::prelude::*;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const OTHER_SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const OFFERED_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);

struct Fixture {
    client: Client,
    context: OwnedCx,
}

impl Fixture {
    fn started(seed: u64) -> Self {
        let settings = Settings { mac: MAC, host_name: b"plumb".to_vec() };
        let mut fixture = Self { client: Client::new(settings), context: OwnedCx::with_seed(seed) };
        fixture.client.start(&mut fixture.context.cx());
        fixture
    }

    /// Returns a client with a lease of one hour.
    fn bound() -> Self {
        let mut fixture = Self::started(1);
        fixture.run_seconds(1);
        fixture.answer(Kind::Offer);
        fixture.answer(Kind::Ack);
        fixture.client.accept(OFFERED_ADDRESS, &mut fixture.context.cx());
        fixture.events();
        fixture
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
        let (_, request) = self.sent().pop().unwrap();
        let options = Options {
            prefix_len: Some(24),
            routers: [SERVER].into(),
            dns_servers: [SERVER].into(),
            lease_s: Some(3600),
            server: Some(SERVER),
            ..Options::default()
        };
        Message { op: Op::Reply, kind, your_address: OFFERED_ADDRESS, options, ..request }
    }

    fn answer(&mut self, kind: Kind) {
        let reply = self.reply(kind);
        self.receive(&reply);
    }
}

#[test]
fn an_address_is_discovered_requested_checked_and_bound() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    let offer = fixture.reply(Kind::Offer);
    assert!(offer.is_broadcast && offer.client.is_unspecified());
    fixture.receive(&offer);
    let ack = fixture.reply(Kind::Ack);
    fixture.receive(&ack);
    assert_eq!(fixture.events(), [Event::Check(OFFERED_ADDRESS)]);
    assert_eq!(fixture.client.lease(), None);
    fixture.client.accept(OFFERED_ADDRESS, &mut fixture.context.cx());
    let lease = fixture.client.lease().cloned().unwrap();
    assert_eq!((lease.address, lease.prefix_len, lease.server), (OFFERED_ADDRESS, 24, SERVER));
    assert_eq!((&lease.routers[..], &lease.dns_servers[..]), (&[SERVER][..], &[SERVER][..]));
    assert_eq!(fixture.events(), [Event::Bound(lease)]);
}

#[test]
fn a_request_names_the_server_the_address_and_the_client() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    fixture.answer(Kind::Offer);
    let (destination, request) = fixture.sent().pop().unwrap();
    assert_eq!((destination, request.kind), (Ipv4Addr::BROADCAST, Kind::Request));
    assert_eq!(request.options.requested_address, Some(OFFERED_ADDRESS));
    assert_eq!(request.options.server, Some(SERVER));
    assert_eq!(request.options.client_id, [1, 2, 0, 0, 0, 0, 1]);
}

#[test]
fn retransmission_intervals_double_up_to_a_minute() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    let mut retry_intervals = Vec::new();
    for _ in 0..7 {
        let due = fixture.client.deadline().unwrap();
        retry_intervals.push(due.since(fixture.context.now).as_secs());
        fixture.context.now = due;
        fixture.client.timeout(&mut fixture.context.cx());
    }
    let expected_seconds = [4, 8, 16, 32, 64, 64, 64_u64];
    assert!(
        retry_intervals
            .iter()
            .zip(expected_seconds)
            .all(|(wait, expected_seconds)| wait.abs_diff(expected_seconds) <= 1),
        "{retry_intervals:?}"
    );
    assert_eq!(fixture.context.counted(Counter::DhcpRetransmissions), 7);
}

#[test]
fn an_offer_is_discarded_if_its_server_stops_answering() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    fixture.answer(Kind::Offer);
    fixture.run_seconds(100);
    let kinds = fixture.sent().into_iter().map(|(_, message)| message.kind).collect::<Vec<_>>();
    assert_eq!(kinds.last(), Some(&Kind::Discover));
}

#[test]
fn an_address_in_use_is_declined_and_another_requested() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    fixture.answer(Kind::Offer);
    fixture.answer(Kind::Ack);
    fixture.client.decline(OFFERED_ADDRESS, &mut fixture.context.cx());
    let (_, decline) = fixture.sent().pop().unwrap();
    assert_eq!(decline.kind, Kind::Decline);
    assert_eq!(decline.options.requested_address, Some(OFFERED_ADDRESS));
    fixture.run_seconds(9);
    assert_eq!(fixture.sent(), []);
    fixture.run_seconds(1);
    assert_eq!(fixture.sent()[0].1.kind, Kind::Discover);
}

#[test]
fn a_lease_is_renewed_with_its_server_at_half_its_time() {
    let mut fixture = Fixture::bound();
    fixture.run_seconds(1800);
    let reply = {
        let outgoing = fixture.client.transmit(&mut fixture.context.cx()).unwrap();
        assert_eq!((outgoing.source, outgoing.destination), (OFFERED_ADDRESS, SERVER));
        let request = Message::parse(&outgoing.payload).unwrap();
        assert_eq!((request.client, request.options.requested_address), (OFFERED_ADDRESS, None));
        let options = Options { lease_s: Some(3600), ..Options::default() };
        Message {
            op: Op::Reply,
            kind: Kind::Ack,
            your_address: OFFERED_ADDRESS,
            options,
            ..request
        }
    };
    fixture.receive(&reply);
    assert!(matches!(fixture.events()[..], [Event::Bound(_)]));
    let expires_at = fixture.client.lease().unwrap().expires_at.unwrap();
    assert!(expires_at.since(fixture.context.now) > Duration::from_secs(3500));
}

#[test]
fn a_lease_is_renewed_with_any_server_after_seven_eighths_of_its_time() {
    let mut fixture = Fixture::bound();
    fixture.run_seconds(3200);
    let (destination, asked) = fixture.sent().pop().unwrap();
    assert_eq!(destination, Ipv4Addr::BROADCAST);
    let server = Some(OTHER_SERVER);
    let options = Options { lease_s: Some(3600), server, ..Options::default() };
    fixture.receive(&Message {
        op: Op::Reply,
        kind: Kind::Ack,
        your_address: OFFERED_ADDRESS,
        options,
        ..asked
    });
    assert_eq!(fixture.client.lease().unwrap().server, OTHER_SERVER);
}

#[test]
fn an_address_is_lost_when_its_lease_ends() {
    let mut fixture = Fixture::bound();
    fixture.run_seconds(3600);
    assert_eq!(fixture.events(), [Event::Lost(OFFERED_ADDRESS)]);
    assert_eq!(fixture.client.lease(), None);
    assert_eq!(fixture.sent().pop().unwrap().1.kind, Kind::Discover);
}

#[test]
fn an_address_is_lost_when_its_server_refuses_to_renew_it() {
    let mut fixture = Fixture::bound();
    fixture.run_seconds(1800);
    fixture.answer(Kind::Nak);
    assert_eq!(fixture.events(), [Event::Lost(OFFERED_ADDRESS)]);
}

#[test]
fn another_server_cannot_revoke_an_address_during_its_renewal() {
    let mut fixture = Fixture::bound();
    fixture.run_seconds(1800);
    let mut nak = fixture.reply(Kind::Nak);
    nak.options.server = Some(OTHER_SERVER);
    fixture.receive(&nak);
    assert_eq!(fixture.events(), []);
    assert_eq!(fixture.context.counted(Counter::DhcpIgnored), 1);
}

#[test]
fn an_address_is_released() {
    let mut fixture = Fixture::bound();
    fixture.client.release(&mut fixture.context.cx());
    let (destination, release) = fixture.sent().pop().unwrap();
    assert_eq!(
        (destination, release.kind, release.client),
        (SERVER, Kind::Release, OFFERED_ADDRESS)
    );
    assert_eq!(
        (fixture.client.deadline(), fixture.events()),
        (None, [Event::Lost(OFFERED_ADDRESS)].into())
    );
}

#[test]
fn an_endless_lease_is_never_renewed() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    fixture.answer(Kind::Offer);
    let mut ack = fixture.reply(Kind::Ack);
    ack.options.lease_s = Some(INFINITE);
    fixture.receive(&ack);
    fixture.client.accept(OFFERED_ADDRESS, &mut fixture.context.cx());
    assert_eq!(fixture.client.deadline(), None);
}

#[test]
fn a_reply_that_matches_no_request_is_ignored() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    let offer = fixture.reply(Kind::Offer);
    let other_mac = MacAddress::new([2, 0, 0, 0, 0, 9]);
    fixture.receive(&Message { transaction: offer.transaction ^ 1, ..offer.clone() });
    fixture.receive(&Message { mac: other_mac, ..offer.clone() });
    fixture.receive(&Message { op: Op::Request, ..offer.clone() });
    fixture.receive(&Message { your_address: Ipv4Addr::BROADCAST, ..offer.clone() });
    fixture.receive(&Message { kind: Kind::Ack, ..offer });
    assert_eq!((fixture.sent(), fixture.context.counted(Counter::DhcpIgnored)), (Vec::new(), 5));
}

#[test]
fn lease_times_that_are_out_of_order_are_not_used() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    fixture.answer(Kind::Offer);
    let mut ack = fixture.reply(Kind::Ack);
    ack.options.renewal_s = Some(3000);
    ack.options.rebinding_s = Some(2000);
    fixture.receive(&ack);
    fixture.client.accept(OFFERED_ADDRESS, &mut fixture.context.cx());
    let lease = fixture.client.lease().unwrap();
    let lease_start_ns = lease.expires_at.unwrap().as_nanos() - 3_600_000_000_000;
    assert_eq!(lease.rebind_at.unwrap().as_nanos() - lease_start_ns, 3_150_000_000_000);
    assert!(lease.renew_at.unwrap().as_nanos() - lease_start_ns <= 1_800_000_000_000);
}

// attack row 101
#[test]
fn row_101_truncated_replies_make_the_client_send_nothing() {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    let offer = fixture.reply(Kind::Offer).emit();
    (0..240).for_each(|len| fixture.client.receive(&offer[..len], &mut fixture.context.cx()));
    assert_eq!((fixture.sent(), fixture.context.counted(Counter::DhcpErrors)), (Vec::new(), 240));
}

#[test]
fn a_client_is_bound_though_two_of_three_messages_are_lost() {
    for seed in 0..100 {
        let mut fixture = Fixture::started(seed);
        let mut is_lost = {
            let mut rng = crate::rng::Rng::from_seed(seed ^ 0xD0C);
            move || rng.below(3) != 0
        };
        for _ in 0..10_000 {
            if fixture.client.lease().is_some() {
                break;
            }
            fixture.run_seconds(1);
            for (_, asked) in fixture.sent() {
                let kind = if asked.kind == Kind::Discover { Kind::Offer } else { Kind::Ack };
                let lease_s = Some(86_400);
                let server = Some(SERVER);
                let options = Options { lease_s, server, ..Options::default() };
                let reply = Message {
                    op: Op::Reply,
                    kind,
                    your_address: OFFERED_ADDRESS,
                    options,
                    ..asked
                };
                if !is_lost() && !is_lost() {
                    fixture.receive(&reply);
                }
            }
            fixture.client.accept(OFFERED_ADDRESS, &mut fixture.context.cx());
        }
        assert!(fixture.client.lease().is_some(), "seed {seed}");
    }
}

/// Applies `change` to the offer and to the acknowledgment of a server. Returns the lease of the
/// client.
fn lease_after_modified_replies(change: impl Fn(&mut Message)) -> Option<Lease> {
    let mut fixture = Fixture::started(1);
    fixture.run_seconds(1);
    for kind in [Kind::Offer, Kind::Ack] {
        let mut reply = fixture.reply(kind);
        change(&mut reply);
        fixture.receive(&reply);
        if fixture.client.pending.is_empty() && kind == Kind::Offer {
            return None;
        }
    }
    let events = fixture.events();
    let Some(Event::Check(address)) = events.first() else { return None };
    fixture.client.accept(*address, &mut fixture.context.cx());
    fixture.client.lease().cloned()
}

// attack row 136
#[test]
fn row_136_an_address_that_no_host_can_have_is_not_accepted() {
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
        let lease = lease_after_modified_replies(|reply| {
            reply.your_address = address(text);
            reply.options.prefix_len = Some(prefix_len);
        });
        assert_eq!(lease, None, "{text}/{prefix_len}");
    }
    for (text, prefix_len) in [("10.0.0.254", 24), ("10.0.0.4", 31), ("10.0.0.255", 32)] {
        let lease = lease_after_modified_replies(|reply| {
            reply.your_address = address(text);
            reply.options.prefix_len = Some(prefix_len);
        });
        assert_eq!(lease.unwrap().address, address(text), "{text}/{prefix_len}");
    }
}

// attack row 136
#[test]
fn row_136_a_mask_that_puts_the_internet_on_the_link_is_not_accepted() {
    for prefix_len in 0..8 {
        let lease =
            lease_after_modified_replies(|reply| reply.options.prefix_len = Some(prefix_len))
                .unwrap();
        assert_eq!(lease.prefix_len, 8);
    }
}

// attack row 136
#[test]
fn row_136_routers_outside_of_the_network_and_the_host_itself_are_not_used() {
    let lease = lease_after_modified_replies(|reply| {
        let outside_router = Ipv4Addr::new(10, 0, 1, 1);
        let broadcast = Ipv4Addr::new(10, 0, 0, 255);
        reply.options.routers = [outside_router, OFFERED_ADDRESS, broadcast, OTHER_SERVER].into();
    });
    assert_eq!(lease.unwrap().routers, [OTHER_SERVER]);
    let lease = lease_after_modified_replies(|reply| {
        reply.options.prefix_len = Some(32);
        reply.options.routers = [Ipv4Addr::new(10, 0, 1, 1)].into();
    });
    assert_eq!(lease.unwrap().routers, [Ipv4Addr::new(10, 0, 1, 1)]);
}

// attack row 136
#[test]
fn row_136_a_lease_of_zero_seconds_is_neither_requested_nor_accepted() {
    assert_eq!(lease_after_modified_replies(|reply| reply.options.lease_s = Some(0)), None);
    let lease = lease_after_modified_replies(|reply| {
        if reply.kind == Kind::Ack {
            reply.options.lease_s = Some(0);
        }
    });
    assert_eq!(lease, None);
}

// attack row 136
#[test]
fn row_136_an_acknowledgment_is_accepted_only_from_the_server_of_the_offer() {
    for server in [None, Some(OTHER_SERVER)] {
        let lease = lease_after_modified_replies(|reply| {
            if reply.kind == Kind::Ack {
                reply.options.server = server;
            }
        });
        assert_eq!(lease, None);
    }
}

/// Runs a client with a hostile server and an honest server. `forge` makes the replies of the
/// hostile server, which always answers first. Returns the lease and the number of seconds until it
/// was obtained.
fn lease_despite_hostile_server(forge: impl Fn(&Message) -> Option<Message>) -> (Lease, u64) {
    let mut fixture = Fixture::started(3);
    for second in 0..600 {
        fixture.run_seconds(1);
        for (_, request) in fixture.sent() {
            let options = Options {
                prefix_len: Some(24),
                routers: [SERVER].into(),
                lease_s: Some(3600),
                server: Some(SERVER),
                ..Options::default()
            };
            let kind = match request.kind {
                Kind::Discover => Kind::Offer,
                _ => Kind::Ack,
            };
            let honest_reply = Message {
                op: Op::Reply,
                kind,
                your_address: OFFERED_ADDRESS,
                options,
                ..request.clone()
            };
            let is_for_honest = request.kind == Kind::Discover
                || request.options.server.is_none_or(|server| server == SERVER);
            forge(&honest_reply).into_iter().for_each(|forged| fixture.receive(&forged));
            if is_for_honest {
                fixture.receive(&honest_reply);
            }
        }
        // The ARP check of the offered address takes some seconds.
        if let Some(Event::Check(address)) = fixture.events().first() {
            fixture.run_seconds(6);
            fixture.client.accept(*address, &mut fixture.context.cx());
        }
        if let Some(lease) = fixture.client.lease().filter(|lease| lease.server == SERVER) {
            return (lease.clone(), second);
        }
    }
    panic!("the honest server never lends anything");
}

// attack row 136
#[test]
fn row_136_a_hostile_server_that_always_answers_first_cannot_block_an_honest_one() {
    let hostile_reply = |honest: &Message| {
        let mut forged = honest.clone();
        forged.your_address = Ipv4Addr::new(10, 0, 0, 66);
        forged.options.server = Some(OTHER_SERVER);
        forged
    };
    // After its offer, the hostile server sends nothing, refuses the request, or grants a lease
    // that is shorter than the check.
    let silent_server =
        |honest: &Message| (honest.kind == Kind::Offer).then(|| hostile_reply(honest));
    let refusing_server = |honest: &Message| {
        let forged = hostile_reply(honest);
        let kind = if honest.kind == Kind::Ack { Kind::Nak } else { honest.kind };
        Some(Message { kind, ..forged })
    };
    let short_lease_server = |honest: &Message| {
        let mut forged = hostile_reply(honest);
        forged.options.lease_s = Some(1);
        Some(forged)
    };
    let (lease, seconds) = lease_despite_hostile_server(silent_server);
    assert_eq!((lease.address, lease.server), (OFFERED_ADDRESS, SERVER));
    assert!(seconds < 120, "{seconds}");
    let (lease, seconds) = lease_despite_hostile_server(refusing_server);
    assert_eq!(lease.address, OFFERED_ADDRESS);
    assert!(seconds < 30, "{seconds}");
    let (lease, seconds) = lease_despite_hostile_server(short_lease_server);
    assert_eq!(lease.address, OFFERED_ADDRESS);
    assert!(seconds < 60, "{seconds}");
}

proptest! {
    // attack row 136
    #[test]
    fn row_136_no_reply_with_random_options_assigns_an_invalid_host_address(
        drawn in prop::collection::vec(random_option(), 0..12),
        overload in 0..4_u8, your_address: u32, is_ack: bool,
    ) {
        let mut fixture = Fixture::started(1);
        fixture.run_seconds(1);
        if is_ack {
            fixture.answer(Kind::Offer);
        }
        let kind = if is_ack { Kind::Ack } else { Kind::Offer };
        let mut bytes = fixture.reply(kind).emit();
        // The random options follow the valid options, and replace valid options of the same kind.
        bytes.pop();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.extend([52, 1, overload]);
        drawn.iter().for_each(|option| bytes.extend(option));
        bytes[16..20].copy_from_slice(&your_address.to_be_bytes());
        fixture.client.receive(&bytes, &mut fixture.context.cx());
        for event in fixture.events() {
            let Event::Check(address) = event else { panic!("{event:?}") };
            prop_assert!(is_host(address));
            fixture.client.accept(address, &mut fixture.context.cx());
            let lease = fixture.client.lease().unwrap();
            prop_assert!(lease.prefix_len >= 8 && is_host_within(address, lease.prefix_len));
            prop_assert!(!lease.routers.contains(&address));
        }
    }
}

/// Generates an option whose body may have any length.
fn random_option() -> impl Strategy<Value = Vec<u8>> {
    let code = prop::sample::select(std::vec![1_u8, 3, 6, 26, 50, 51, 52, 53, 54, 58, 59, 61, 255]);
    (code, prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(code, body)| {
        let len = u8::try_from(body.len()).unwrap();
        [&[code, len][..], &body].concat()
    })
}
