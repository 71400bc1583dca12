//! Tests of the DHCP server, with the messages of the client as the second implementation.

use super::*;
use proptest::prelude::*;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const DNS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const NONE: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn settings() -> Settings {
    Settings {
        server: SERVER,
        address: ADDRESS,
        prefix_len: 24,
        router: Some(SERVER),
        dns_servers: vec![DNS],
        search_domains: vec!["a.example".parse().unwrap(), "b.example".parse().unwrap()],
        mtu: Some(65520),
        lease_time: Some(Duration::from_secs(3600)),
    }
}

fn request(kind: Kind) -> Message {
    Message {
        op: Op::Request,
        kind,
        transaction: 0x0102_0304,
        elapsed_s: 9,
        is_broadcast: false,
        client: NONE,
        your_address: NONE,
        relay: NONE,
        mac: MAC,
        options: Options { client_id: b"id".to_vec(), ..Options::default() },
    }
}

/// A DHCPREQUEST in the state SELECTING, INIT-REBOOT or RENEWING.
fn request_for(server: Option<Ipv4Addr>, requested: Option<Ipv4Addr>, client: Ipv4Addr) -> Message {
    let mut message = request(Kind::Request);
    message.options.server = server;
    message.options.requested_address = requested;
    message.client = client;
    message
}

fn answer(server: &mut Server, message: &Message) -> Option<(Message, Ipv4Addr)> {
    server.receive(&message.emit(), MAC);
    let outgoing = server.transmit()?;
    assert_eq!((outgoing.source, server.transmit()), (SERVER, None));
    Some((Message::parse(&outgoing.payload).unwrap(), outgoing.destination))
}

fn kind_of_answer(message: &Message) -> Option<Kind> {
    answer(&mut Server::new(settings()), message).map(|(reply, _)| reply.kind)
}

#[test]
fn an_offer_has_the_whole_configuration() {
    let mut server = Server::new(settings());
    let (offer, destination) = answer(&mut server, &request(Kind::Discover)).unwrap();
    assert_eq!(destination, ADDRESS);
    let options = Options {
        prefix_len: Some(24),
        routers: vec![SERVER],
        dns_servers: vec![DNS],
        mtu: Some(65520),
        requested_address: None,
        lease_s: Some(3600),
        renewal_s: Some(1800),
        rebinding_s: Some(3150),
        server: Some(SERVER),
        client_id: b"id".to_vec(),
        host_name: Vec::new(),
    };
    let expected = Message {
        op: Op::Reply,
        elapsed_s: 0,
        your_address: ADDRESS,
        options,
        ..request(Kind::Offer)
    };
    assert_eq!(offer, expected);
    assert_eq!(server.event(), None);
}

/// Returns the value of an option in a reply.
fn option(payload: &[u8], code: u8) -> Option<&[u8]> {
    let mut rest = &payload[240..];
    while let [kind, len, after @ ..] = rest {
        if *kind == END {
            break;
        }
        let (value, after) = after.split_at(usize::from(*len));
        if *kind == code {
            return Some(value);
        }
        rest = after;
    }
    None
}

#[test]
fn domain_name_and_search_list_have_the_format_of_rfc_2132_and_rfc_3397() {
    let mut server = Server::new(settings());
    server.receive(&request(Kind::Discover).emit(), MAC);
    let payload = server.transmit().unwrap().payload;
    assert_eq!(option(&payload, DOMAIN_NAME), Some(&b"a.example"[..]));
    let list = b"\x01a\x07example\0\x01b\x07example\0";
    assert_eq!(option(&payload, DOMAIN_SEARCH), Some(&list[..]));
    assert!((REPLY_MIN_LEN..=REPLY_MAX_LEN).contains(&payload.len()));
}

#[test]
fn names_that_do_not_fit_are_left_out() {
    let long = |label: &str| format!("{}.example", label.repeat(63)).parse().unwrap();
    let search_domains = ["a", "b", "c", "d", "e"].map(long).to_vec();
    let mut settings = Settings { search_domains, ..settings() };
    settings.dns_servers = vec![DNS; 9];
    let mut server = Server::new(settings);
    let mut message = request(Kind::Discover);
    message.options.client_id = vec![7; 200];
    server.receive(&message.emit(), MAC);
    let payload = server.transmit().unwrap().payload;
    assert!(payload.len() <= REPLY_MAX_LEN, "{}", payload.len());
    let reply = Message::parse(&payload).unwrap();
    assert_eq!(reply.options.client_id.len(), 200);
    assert_eq!(reply.options.dns_servers, [DNS; 4]);
}

#[test]
fn a_lease_without_end_has_no_times() {
    let mut server = Server::new(Settings { lease_time: None, ..settings() });
    let (offer, _) = answer(&mut server, &request(Kind::Discover)).unwrap();
    let Options { lease_s, renewal_s, rebinding_s, .. } = offer.options;
    assert_eq!((lease_s, renewal_s, rebinding_s), (Some(INFINITE), None, None));
}

#[test]
fn each_request_of_rfc_2131_table_4_has_its_answer() {
    let other_server = Some(Ipv4Addr::new(10, 0, 2, 9));
    let table = [
        // SELECTING
        (request_for(Some(SERVER), Some(ADDRESS), NONE), Some(Kind::Ack)),
        (request_for(Some(SERVER), Some(OTHER), NONE), Some(Kind::Nak)),
        (request_for(other_server, Some(ADDRESS), NONE), None),
        // INIT-REBOOT
        (request_for(None, Some(ADDRESS), NONE), Some(Kind::Ack)),
        (request_for(None, Some(OTHER), NONE), Some(Kind::Nak)),
        // RENEWING and REBINDING
        (request_for(None, None, ADDRESS), Some(Kind::Ack)),
        (request_for(None, None, OTHER), Some(Kind::Nak)),
        // Invalid
        (request_for(None, None, NONE), None),
    ];
    for (message, expected) in table {
        assert_eq!(kind_of_answer(&message), expected, "{message:?}");
    }
}

#[test]
fn a_refusal_is_broadcast_without_an_address() {
    let mut server = Server::new(settings());
    let message = request_for(None, Some(OTHER), NONE);
    let (nak, destination) = answer(&mut server, &message).unwrap();
    assert_eq!((destination, nak.your_address), (Ipv4Addr::BROADCAST, NONE));
    let client_id = b"id".to_vec();
    let options = Options { server: Some(SERVER), client_id, ..Options::default() };
    assert_eq!(nak.options, options);
    assert_eq!(server.counters().refusals, 1);
}

#[test]
fn a_reply_is_broadcast_if_the_client_asks_and_has_no_address() {
    let destination = |message: Message| {
        answer(&mut Server::new(settings()), &Message { is_broadcast: true, ..message }).unwrap().1
    };
    assert_eq!(destination(request(Kind::Discover)), Ipv4Addr::BROADCAST);
    assert_eq!(destination(request_for(None, Some(ADDRESS), NONE)), Ipv4Addr::BROADCAST);
    assert_eq!(destination(request_for(None, None, ADDRESS)), ADDRESS);
}

#[test]
fn the_answer_to_inform_has_neither_address_nor_lease() {
    let mut server = Server::new(settings());
    let message = Message { client: ADDRESS, ..request(Kind::Inform) };
    let (ack, destination) = answer(&mut server, &message).unwrap();
    assert_eq!((ack.kind, ack.your_address, ack.client), (Kind::Ack, NONE, ADDRESS));
    assert_eq!((ack.options.lease_s, ack.options.routers), (None, vec![SERVER]));
    assert_eq!(destination, ADDRESS);
    let other = Message { client: OTHER, ..request(Kind::Inform) };
    assert_eq!(answer(&mut server, &other), None);
    assert_eq!(server.counters().malformed, 1);
}

#[test]
fn an_event_reports_each_change_of_the_lease_once() {
    let mut server = Server::new(settings());
    let message = request_for(None, Some(ADDRESS), NONE);
    let release = Message { client: ADDRESS, ..request(Kind::Release) };
    for message in [&message, &message, &release, &message, &request(Kind::Decline)] {
        answer(&mut server, message);
    }
    let events: Vec<Event> = std::iter::from_fn(|| server.event()).collect();
    assert_eq!(events, [Event::Bound, Event::Released, Event::Bound, Event::Declined]);
}

#[test]
fn a_guest_with_an_old_address_is_refused_after_a_change() {
    let mut server = Server::new(settings());
    answer(&mut server, &request_for(None, Some(ADDRESS), NONE));
    server.set_settings(Settings { address: OTHER, ..settings() });
    let renewal = request_for(None, None, ADDRESS);
    assert_eq!(answer(&mut server, &renewal).unwrap().0.kind, Kind::Nak);
    let (offer, _) = answer(&mut server, &request(Kind::Discover)).unwrap();
    assert_eq!(offer.your_address, OTHER);
}

// attack row 105
#[test]
fn row_105_a_message_for_another_host_is_not_answered() {
    let mut server = Server::new(settings());
    let other = MacAddress::new([2, 0, 0, 0, 0, 3]);
    assert_eq!(answer(&mut server, &Message { mac: other, ..request(Kind::Discover) }), None);
    assert_eq!(answer(&mut server, &Message { relay: OTHER, ..request(Kind::Discover) }), None);
    let reply = Message { op: Op::Reply, ..request(Kind::Discover) };
    assert_eq!(answer(&mut server, &reply), None);
    assert_eq!(answer(&mut server, &request(Kind::Ack)), None);
    let counters = server.counters();
    assert_eq!((counters.other_hosts, counters.relayed, counters.malformed), (1, 1, 2));
}

#[test]
fn replies_beyond_the_limit_are_dropped_and_counted() {
    let mut server = Server::new(settings());
    let message = request(Kind::Discover).emit();
    (0..6).for_each(|_| server.receive(&message, MAC));
    let replies = std::iter::from_fn(|| server.transmit()).count();
    assert_eq!((replies, server.counters().replies_dropped), (4, 2));
}

// attack row 101
#[test]
fn row_101_a_message_cut_at_any_byte_is_not_answered_or_answered_from_its_own_bytes() {
    let message = request_for(None, Some(ADDRESS), NONE).emit();
    // The options end with the end option; the rest is padding.
    let end = message.iter().rposition(|byte| *byte == END).unwrap();
    for len in 0..message.len() {
        let mut server = Server::new(settings());
        server.receive(&message[..len], MAC);
        // Without the client identifier or the end option, the message is complete, too, as long as
        // no option is cut.
        let is_answered = server.transmit().is_some();
        assert!(!is_answered || Message::parse(&message[..len]).is_ok());
        assert!(len < end || is_answered);
        assert!(len >= 243 || !is_answered);
        let counters = server.counters();
        assert_eq!(counters.malformed + counters.replies, 1, "{len}");
    }
}

proptest! {
    // attack row 101
    #[test]
    fn row_101_any_options_are_answered_with_a_message_that_the_client_parses(
        options in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let payload = [&request(Kind::Discover).emit()[..240], &options].concat();
        let mut server = Server::new(settings());
        server.receive(&payload, MAC);
        while let Some(outgoing) = server.transmit() {
            let reply = Message::parse(&outgoing.payload).unwrap();
            prop_assert!(outgoing.payload.len() <= REPLY_MAX_LEN + 255);
            prop_assert_eq!(reply.options.server, Some(SERVER));
            let request = Message::parse(&payload).unwrap();
            prop_assert_eq!(reply.options.client_id, request.options.client_id);
        }
        let counters = server.counters();
        let ignored = counters.other_servers + counters.malformed;
        prop_assert!(counters.replies + ignored >= 1 || server.event().is_some());
    }
}
