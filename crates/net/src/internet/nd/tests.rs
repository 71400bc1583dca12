//! Tests of the parsing and construction of Neighbor Discovery messages: valid, invalid and
//! truncated ones.

use super::message::*;
use crate::link::ethernet::MacAddress;
use crate::time::Duration;
use core::net::Ipv6Addr;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const ROUTER: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 1);
const OURS: Ipv6Addr = Ipv6Addr::new(0xFE80, 0, 0, 0, 0, 0, 0, 2);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 0, 0, 1);
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 1]);

fn read(bytes: &[u8]) -> Result<Parsed, MessageError> {
    Message::parse(bytes, ROUTER, OURS, 255)
}

fn advertisement_with(options: &[u8]) -> Vec<u8> {
    let advertisement = RouterAdvertisement { lifetime_s: 1800, ..Default::default() };
    let mut bytes = Message::RouterAdvertisement(advertisement).emit(ROUTER, OURS);
    bytes.extend_from_slice(options);
    bytes
}

fn solicitation() -> Message {
    Message::NeighborSolicitation { target: OURS, source_mac: Some(MAC), nonce: None }
}

// attack row 11
#[test]
fn row_11_name_servers_are_read_only_where_the_length_is_that_of_whole_addresses() {
    let read = (2..=255_u8).filter(|len| {
        let mut option = vec![25, *len, 0, 0, 0, 0, 0, 60];
        option.resize(usize::from(*len) * 8, 0x20);
        let parsed = read(&advertisement_with(&option)).unwrap();
        let Message::RouterAdvertisement(advertisement) = parsed.message else { panic!("an RA") };
        let address_count = usize::from(*len - 1) / 2;
        assert!(advertisement.dns_servers.len() <= address_count.min(16));
        !advertisement.dns_servers.is_empty()
    });
    assert!(read.eq((3..=255).filter(|len| len % 2 == 1)));
}

// attack row 11
#[test]
fn row_11_an_option_beyond_the_end_invalidates_the_message() {
    let options = (1..=255_u8).map(|len| [25, len, 0, 0]);
    let read = options.map(|option| read(&advertisement_with(&option)));
    assert!(read.into_iter().all(|parsed| parsed == Err(MessageError::Truncated)));
}

#[test]
fn an_option_without_a_length_ends_the_message() {
    let bytes = advertisement_with(&[1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(read(&bytes), Err(MessageError::OptionLength));
}

#[test]
fn an_option_of_a_wrong_length_is_skipped() {
    let mut long_mac = vec![1, 2];
    long_mac.resize(16, 2);
    let parsed = read(&advertisement_with(&long_mac)).unwrap();
    let Message::RouterAdvertisement(advertisement) = parsed.message else { panic!("an RA") };
    assert_eq!((advertisement.source_mac, parsed.options_skipped), (None, 1));
}

#[test]
fn no_more_prefixes_are_read_than_the_limit() {
    let mut option = vec![3, 4, 64, 0xC0];
    option.resize(32, 0x20);
    let parsed = read(&advertisement_with(&option.repeat(100))).unwrap();
    let Message::RouterAdvertisement(advertisement) = parsed.message else { panic!("an RA") };
    assert_eq!((advertisement.prefixes.len(), parsed.options_skipped), (16, 84));
}

#[test]
fn a_prefix_of_more_than_128_bits_is_skipped() {
    let mut option = vec![3, 4, 129, 0xC0];
    option.resize(32, 0x20);
    assert_eq!(read(&advertisement_with(&option)).unwrap().options_skipped, 1);
}

#[test]
fn a_message_that_was_forwarded_is_not_accepted() {
    let bytes = solicitation().emit(ROUTER, OURS);
    let parsed = Message::parse(&bytes, ROUTER, OURS, 254);
    assert_eq!(parsed, Err(MessageError::HopLimit));
}

#[test]
fn a_router_advertisement_from_beyond_the_link_is_rejected() {
    let global_source = "2001:db8::1".parse().unwrap();
    let parsed = Message::parse(&advertisement_with(&[]), global_source, OURS, 255);
    assert_eq!(parsed, Err(MessageError::Address));
}

#[test]
fn a_solicitation_from_the_unspecified_address_must_go_to_the_group_of_its_target() {
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let group = solicited_node(OURS);
    let probe = Message::NeighborSolicitation { target: OURS, source_mac: None, nonce: None };
    let parse = |message: &Message, to| {
        Message::parse(&message.emit(unspecified, to), unspecified, to, 255)
    };
    assert!(parse(&probe, group).is_ok());
    assert_eq!(parse(&probe, OURS), Err(MessageError::Address));
    assert_eq!(parse(&solicitation(), group), Err(MessageError::Address));
}

#[test]
fn an_advertisement_to_a_group_answers_no_solicitation() {
    let message = Message::NeighborAdvertisement {
        target: OURS,
        is_router: false,
        is_solicited: true,
        is_override: true,
        target_mac: Some(MAC),
    };
    let bytes = message.emit(OURS, ALL_NODES);
    let parsed = Message::parse(&bytes, OURS, ALL_NODES, 255);
    assert_eq!(parsed, Err(MessageError::Address));
}

#[test]
fn a_redirect_to_a_host_beyond_the_link_is_not_accepted() {
    let [target, destination] = ["2001:db8::1", "2001:db8::2"].map(|a| a.parse().unwrap());
    let message = Message::Redirect { target, destination, target_mac: None };
    assert_eq!(read(&message.emit(ROUTER, OURS)), Err(MessageError::Address));
    let neighbor = Message::Redirect { target, destination: target, target_mac: None };
    assert_eq!(read(&neighbor.emit(ROUTER, OURS)).unwrap().message, neighbor);
}

#[test]
fn the_group_of_an_address_is_that_of_rfc_4291() {
    let group = solicited_node("4037::1:800:200e:8c6c".parse().unwrap());
    assert_eq!(group, "ff02::1:ff0e:8c6c".parse::<Ipv6Addr>().unwrap());
}

#[test]
fn another_library_computes_the_same_checksum() {
    let bytes = solicitation().emit(ROUTER, OURS);
    let theirs = etherparse::Icmpv6Slice::from_slice(&bytes).unwrap();
    assert!(theirs.is_checksum_valid(ROUTER.octets(), OURS.octets()));
}

fn mac() -> impl Strategy<Value = MacAddress> {
    any::<u64>().prop_map(MacAddress::local_from_bits)
}

fn prefix() -> impl Strategy<Value = Prefix> {
    let parts = (any::<u128>(), 0..=128_u8, any::<[bool; 2]>(), any::<[u32; 2]>());
    parts.prop_map(|(bits, len, [is_on_link, is_autonomous], [valid_s, preferred_s])| Prefix {
        prefix: prefix_of(Ipv6Addr::from_bits(bits), len),
        len,
        is_on_link,
        is_autonomous,
        valid_s,
        preferred_s,
    })
}

fn advertisement() -> impl Strategy<Value = Message> {
    let preference =
        prop::sample::select(vec![Preference::Low, Preference::Medium, Preference::High]);
    let fixed = (any::<u8>(), any::<[bool; 2]>(), preference, any::<u16>(), any::<[u32; 2]>());
    let options = (
        prop::option::of(mac()),
        any::<Option<u32>>(),
        prop::collection::vec(prefix(), 0..=16),
        prop::collection::vec(any::<(u128, u32)>(), 0..=16),
    );
    (fixed, options).prop_map(|(fixed, (source_mac, mtu, prefixes, servers))| {
        let (hop_limit, [is_managed, has_other], preference, lifetime_s, times) = fixed;
        let time = |ms: u32| (ms != 0).then_some(Duration::from_millis(ms.into()));
        let [reachable_time, retrans_timer] = times.map(time);
        let servers = servers.into_iter();
        Message::RouterAdvertisement(RouterAdvertisement {
            hop_limit,
            is_managed,
            has_other,
            preference,
            lifetime_s,
            reachable_time,
            retrans_timer,
            source_mac,
            mtu,
            prefixes,
            dns_servers: servers.map(|(bits, s)| (Ipv6Addr::from_bits(bits), s)).collect(),
        })
    })
}

fn message() -> impl Strategy<Value = Message> {
    let target = (0..0x20_u128).prop_map(|low| Ipv6Addr::from_bits((0xFE80_u128 << 112) | low));
    prop_oneof![
        prop::option::of(mac()).prop_map(|source_mac| Message::RouterSolicitation { source_mac }),
        advertisement(),
        (target.clone(), prop::option::of(mac()), any::<Option<Nonce>>()).prop_map(
            |(target, source_mac, nonce)| Message::NeighborSolicitation {
                target,
                source_mac,
                nonce
            }
        ),
        (target.clone(), any::<[bool; 3]>(), prop::option::of(mac())).prop_map(
            |(target, [is_router, is_solicited, is_override], target_mac)| {
                Message::NeighborAdvertisement {
                    target,
                    is_router,
                    is_solicited,
                    is_override,
                    target_mac,
                }
            }
        ),
        (target, any::<u64>(), prop::option::of(mac())).prop_map(|(target, low, target_mac)| {
            let destination = Ipv6Addr::from_bits((0x2001_u128 << 112) | u128::from(low));
            Message::Redirect { target, destination, target_mac }
        }),
    ]
}

proptest! {
    #[test]
    fn an_emitted_message_is_parsed_back(message in message()) {
        let parsed = read(&message.emit(ROUTER, OURS));
        prop_assert_eq!(parsed, Ok(Parsed { message, options_skipped: 0 }));
    }
}

#[test]
fn the_flags_of_an_advertisement_are_the_first_three_bits_after_the_checksum() {
    let flags = [(true, false, false), (false, true, false), (false, false, true)];
    let emitted = flags.map(|(is_router, is_solicited, is_override)| {
        let message = Message::NeighborAdvertisement {
            target: OURS,
            is_router,
            is_solicited,
            is_override,
            target_mac: None,
        };
        message.emit(OURS, ROUTER)[4..8].to_vec()
    });
    assert_eq!(emitted, [[0x80, 0, 0, 0], [0x40, 0, 0, 0], [0x20, 0, 0, 0]]);
}

#[test]
fn a_last_byte_that_is_no_option_invalidates_the_message() {
    assert_eq!(read(&advertisement_with(&[1])), Err(MessageError::Truncated));
}
