//! Tests of the DHCPv6 server, with messages written by hand from RFC 8415 §21.

use super::*;
use proptest::prelude::*;

const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);
const SERVER_DUID: &[u8] = &[0, 3, 0, 1, 2, 0, 0, 0, 0, 1];
const CLIENT_DUID: &[u8] = &[0, 4, 7, 7, 7];
const GUEST: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 0x100);
const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 1, 0, 0, 0, 5);
const NEIGHBOR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 1, 0, 0, 0, 6);
const OFF_LINK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xDB8, 0, 2, 0, 0, 0, 5);
const DNS: Ipv6Addr = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 3);

fn settings() -> Settings {
    Settings {
        mac: MAC,
        address: ADDRESS,
        dns_servers: vec![DNS],
        search_domains: vec!["a.example".parse().unwrap()],
        lifetime: None,
    }
}

fn option(code: u8, value: &[u8]) -> Vec<u8> {
    let [l0, l1] = u16::try_from(value.len()).unwrap().to_be_bytes();
    [&[0, code, l0, l1], value].concat()
}

fn message(kind: u8, options: &[Vec<u8>]) -> Vec<u8> {
    [&[kind, 1, 2, 3], &options.concat()[..]].concat()
}

fn client() -> Vec<u8> {
    option(1, CLIENT_DUID)
}

fn server() -> Vec<u8> {
    option(2, SERVER_DUID)
}

fn address_option(address: Ipv6Addr, lifetime: [u8; 4]) -> Vec<u8> {
    option(5, &[&address.octets()[..], &lifetime, &lifetime].concat())
}

/// An identity association with these options, without renewal times.
fn association(options: &[Vec<u8>]) -> Vec<u8> {
    option(3, &[&[9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0, 0], &options.concat()[..]].concat())
}

/// The association in an answer with an infinite lifetime.
fn answered_association(options: &[Vec<u8>]) -> Vec<u8> {
    let times = [0xFF; 8];
    option(3, &[&[9, 9, 9, 9], &times[..], &options.concat()].concat())
}

/// The options that end every answer.
fn configuration() -> Vec<u8> {
    let names = option(24, b"\x01a\x07example\0");
    [option(23, &DNS.octets()), names].concat()
}

fn answer(message: &[u8]) -> Option<Vec<u8>> {
    let mut server = Server::new(settings());
    server.receive(message, GUEST);
    let outgoing = server.transmit()?;
    assert_eq!((outgoing.destination, server.transmit()), (GUEST, None));
    Some(outgoing.payload)
}

#[test]
fn a_solicitation_is_answered_with_an_advertisement_or_committed_at_once() {
    let given = answered_association(&[address_option(ADDRESS, [0xFF; 4])]);
    let advertised = message(2, &[server(), client(), given.clone(), configuration()]);
    assert_eq!(answer(&message(1, &[client(), association(&[])])), Some(advertised));
    let rapid = option(14, &[]);
    let committed = message(7, &[server(), client(), rapid.clone(), given, configuration()]);
    assert_eq!(answer(&message(1, &[client(), rapid, association(&[])])), Some(committed));
}

#[test]
fn a_request_gets_the_address_whatever_it_prefers() {
    let given = answered_association(&[address_option(ADDRESS, [0xFF; 4])]);
    let expected = Some(message(7, &[server(), client(), given, configuration()]));
    for preferred in [ADDRESS, NEIGHBOR] {
        let requested = association(&[address_option(preferred, [0; 4])]);
        assert_eq!(answer(&message(3, &[client(), server(), requested])), expected);
    }
}

#[test]
fn an_address_of_another_server_gets_no_lifetime_when_it_is_renewed() {
    let requested =
        association(&[address_option(NEIGHBOR, [0; 4]), address_option(ADDRESS, [0; 4])]);
    let addresses = [address_option(ADDRESS, [0xFF; 4]), address_option(NEIGHBOR, [0; 4])];
    let given = answered_association(&addresses);
    let expected = Some(message(7, &[server(), client(), given, configuration()]));
    assert_eq!(answer(&message(5, &[client(), server(), requested.clone()])), expected);
    assert_eq!(answer(&message(6, &[client(), requested])), expected);
}

#[test]
fn a_second_association_gets_no_address() {
    let request = message(3, &[client(), server(), association(&[]), association(&[])]);
    let given = answered_association(&[address_option(ADDRESS, [0xFF; 4])]);
    let refused = answered_association(&[option(13, &[0, 2])]);
    let expected = message(7, &[server(), client(), given, refused, configuration()]);
    assert_eq!(answer(&request), Some(expected));
}

#[test]
fn a_finite_lifetime_has_renewal_times() {
    let lifetime = Some(Duration::from_secs(1000));
    let mut server = Server::new(Settings { lifetime, ..settings() });
    server.receive(&message(1, &[client(), association(&[])]), GUEST);
    let payload = server.transmit().unwrap().payload;
    let expected = [&[9, 9, 9, 9][..], &500_u32.to_be_bytes(), &800_u32.to_be_bytes()].concat();
    assert!(payload.windows(expected.len()).any(|window| window == expected));
}

#[test]
fn only_addresses_of_the_prefix_are_confirmed() {
    let confirm = |addresses: &[Ipv6Addr]| {
        let options: Vec<_> = addresses.iter().map(|a| address_option(*a, [0; 4])).collect();
        answer(&message(4, &[client(), association(&options)]))
    };
    let with_status =
        |status| Some(message(7, &[server(), client(), option(13, &[0, status]), configuration()]));
    assert_eq!(confirm(&[ADDRESS, NEIGHBOR]), with_status(0));
    assert_eq!(confirm(&[ADDRESS, OFF_LINK]), with_status(4));
    assert_eq!(confirm(&[]), None);
}

#[test]
fn release_decline_and_information_requests_are_answered() {
    let success = message(7, &[server(), client(), option(13, &[0, 0]), configuration()]);
    for kind in [8, 9] {
        let request = message(kind, &[client(), server(), association(&[])]);
        assert_eq!(answer(&request), Some(success.clone()));
    }
    let information = message(7, &[server(), configuration()]);
    assert_eq!(answer(&message(11, &[])), Some(information));
    assert_eq!(answer(&message(11, &[association(&[])])), None);
}

#[test]
fn a_message_with_other_identifiers_is_not_answered() {
    let other = || option(2, &[0, 3, 0, 1, 2, 0, 0, 0, 0, 9]);
    let ia = || association(&[]);
    let messages = [
        message(1, &[ia()]),
        message(1, &[client(), server(), ia()]),
        message(3, &[client(), ia()]),
        message(3, &[client(), other(), ia()]),
        message(3, &[server(), ia()]),
        message(5, &[client(), other(), ia()]),
        message(6, &[client(), server(), ia()]),
        message(11, &[other()]),
    ];
    let mut server = Server::new(settings());
    messages.iter().for_each(|message| server.receive(message, GUEST));
    let counters = server.counters();
    assert_eq!((counters.wrong_identifiers, counters.replies), (8, 0));
}

#[test]
fn malformed_messages_and_messages_of_servers_are_counted() {
    let messages = [
        Vec::new(),
        message(2, &[client()]),
        message(12, &[client()]),
        message(1, &[option(1, &[0, 4])]),
        message(1, &[option(1, &[7; 131])]),
        message(1, &[client(), client()]),
        message(1, &[client(), option(3, &[0; 11])]),
        message(1, &[client(), association(&[option(5, &[0; 23])])]),
    ];
    let mut server = Server::new(settings());
    messages.iter().for_each(|message| server.receive(message, GUEST));
    assert_eq!((server.counters().malformed, server.counters().replies), (8, 0));
}

#[test]
fn replies_beyond_the_limit_are_dropped_and_counted() {
    let mut server = Server::new(settings());
    (0..6).for_each(|_| server.receive(&message(11, &[]), GUEST));
    assert_eq!((server.counters().replies, server.counters().replies_dropped), (4, 2));
}

// attack row 101
#[test]
fn row_101_a_message_cut_inside_an_option_is_not_answered() {
    let options = [client(), server(), association(&[address_option(ADDRESS, [0; 4])])];
    let whole = message(3, &options);
    for len in 0..whole.len() {
        let mut server = Server::new(settings());
        server.receive(&whole[..len], GUEST);
        // A message cut between its options lacks an association or an identifier.
        let is_answered = server.transmit().is_some();
        assert_eq!(is_answered, len == 4 + options[0].len() + options[1].len(), "{len}");
    }
}

proptest! {
    // attack row 101
    #[test]
    fn row_101_any_message_is_counted_once(
        kind in 0_u8..14, options in prop::collection::vec(any::<u8>(), 0..200), has_ids: bool,
    ) {
        let ids = if has_ids { vec![client(), options] } else { vec![options] };
        let mut server = Server::new(settings());
        server.receive(&message(kind, &ids), GUEST);
        let counters = server.counters();
        let counted = counters.replies + counters.malformed + counters.wrong_identifiers;
        prop_assert_eq!(counted, 1);
        if let Some(outgoing) = server.transmit() {
            prop_assert!(outgoing.payload.len() <= 1232, "{}", outgoing.payload.len());
        }
    }
}
