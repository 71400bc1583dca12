//! Tests for the rows of the attack table that concern IPv4 and ICMP, named by row number. The
//! tests for IPv6 are in `dual_stack_tests.rs`, those for reassembly alone in
//! `reassembly/tests.rs`.

use super::ipv4::{Header, Options, Protocol};
use super::testing::*;
use super::*;
use std::vec::Vec;

const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 1, 0, 1];
const UNREACHABLE: [u8; 8] = [3, 3, 0, 0, 0, 0, 0, 0];

fn echo(options: &[u8], data: &[u8]) -> Vec<u8> {
    datagram(&header(Protocol::Icmp), options, &message(ECHO, data))
}

// attack row 6
#[test]
fn row_6_a_false_total_length_is_dropped_with_and_without_fragments() {
    let mut host = Host::default();
    let complete_datagram = datagram(&header(Protocol::Udp), &[], &[7; 40]);
    let delivered = (0..=300_u16).flat_map(|len| [0x0000, 0x2000, 0x0001].map(|f| (len, f)));
    let delivered = delivered.filter_map(|(len, fragment): (u16, u16)| {
        let mut bytes = complete_datagram.clone();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        // Each fragment belongs to a separate datagram, so none of the datagrams is complete.
        bytes[4..6].copy_from_slice(&(len * 4 + fragment % 3).to_be_bytes());
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        reseal(&mut bytes);
        let datagram = host.receive(&bytes)?;
        let data_len = datagram.packet.len();
        host.pool.put(datagram.packet);
        assert_eq!(data_len, usize::from(len) - 20);
        Some((len, fragment))
    });
    assert!(delivered.eq((20..=60).map(|len| (len, 0))));
    assert_eq!(host.pool.lent(), 0);
    assert_eq!(host.counted(Counter::IpFragmentsIn), 2 * 41);
    assert_eq!(host.counted(Counter::IpHeaderErrors), 3 * 260);
}

// attack row 7
#[test]
fn row_7_an_echo_with_a_false_length_returns_only_received_bytes() {
    let mut host = Host::default();
    let received: Vec<u8> = echo(&[], &[0xA5; 32]);
    let replies = (20..=200_u16).filter_map(|len| {
        let mut bytes = received.clone();
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        reseal(&mut bytes);
        // The ICMP checksum is made valid for the bytes that the total length covers.
        if let Some(covered) = bytes.get_mut(20..usize::from(len)) {
            icmp::seal(covered);
        }
        assert!(host.receive(&bytes).is_none());
        let reply = host.transmit()?;
        assert_eq!(reply[24..], bytes[24..usize::from(len)]);
        Some(len)
    });
    assert!(replies.eq(28..=60));
    assert_eq!(host.pool.lent(), 0);
}

// attack row 8
#[test]
fn row_8_a_datagram_cut_at_any_byte_is_dropped() {
    let mut host = Host::default();
    let complete_datagram = echo(&[1; 8], &[0xA5; 32]);
    let answered_lens = (0..complete_datagram.len()).filter(|len| {
        assert!(host.receive(&complete_datagram[..*len]).is_none());
        host.transmit().is_some()
    });
    assert_eq!(answered_lens.count(), 0);
    assert_eq!(host.counted(Counter::IpHeaderErrors), complete_datagram.len() as u64);
    assert_eq!(host.pool.lent(), 0);
}

// attack row 8
#[test]
fn row_8_an_icmp_message_cut_at_any_byte_is_dropped() {
    let mut host = Host::default();
    let complete_message = message(ECHO, &[0xA5; 32]);
    let answered_lens = (0..complete_message.len()).filter(|len| {
        host.receive(&datagram(&header(Protocol::Icmp), &[], &complete_message[..*len]));
        host.transmit().is_some()
    });
    assert_eq!(answered_lens.count(), 0);
    assert_eq!(host.counted(Counter::IcmpErrors), complete_message.len() as u64);
    assert_eq!(host.pool.lent(), 0);
}

/// Returns whether an option followed by 38 bytes of No Operation has a valid length.
fn is_valid_option(kind: u8, len: u8) -> bool {
    match kind {
        0 => true,
        // No Operation (1) has no length byte, so `len` is the kind of the next option. The kinds 0
        // and 1 are valid there. Any other kind has a length byte, and the No Operation after it
        // would be read as the invalid length 1.
        1 => len <= 1,
        131 | 137 => (3..=40).contains(&len),
        _ => (2..=40).contains(&len),
    }
}

// req RFC1122:3.2.1.8b-MUST-1, RFC1122:3.2.2-MUST-2
// attack row 9
#[test]
fn row_9_options_of_every_kind_and_length_are_quoted_unchanged_or_dropped() {
    let mut host = Host::default();
    let cases = (0..=255_u8).flat_map(|kind| (0..=255_u8).map(move |len| (kind, len)));
    let failures = cases.filter(|(kind, len)| {
        host.context.advance_millis(1_000);
        let options = [&[*kind, *len], [1; 38].as_slice()].concat();
        let bytes = datagram(&header(Protocol::Udp), &options, &[7; 40]);
        host.refuse(&bytes);
        let Some(error) = host.transmit() else { return is_valid_option(*kind, *len) };
        let parsed = Header::parse(&error).unwrap();
        assert_eq!((parsed.header_len, parsed.header.destination), (20, THEIRS));
        assert_eq!(error[28..], bytes[..60 + 8]);
        !is_valid_option(*kind, *len)
    });
    assert_eq!(failures.count(), 0);
    assert_eq!(host.pool.lent(), 0);
}

// req RFC1122:3.2.2.6-MUST-2
// attack row 12
#[test]
fn row_12_the_reply_goes_to_the_source_without_the_options_of_the_request() {
    let mut host = Host::default();
    // A completed source route: its return path leads through 192.0.2.9.
    host.receive(&echo(&[131, 7, 8, 192, 0, 2, 9], b"data"));
    let reply = host.transmit().unwrap();
    let parsed = Header::parse(&reply).unwrap();
    assert_eq!((parsed.header_len, parsed.options), (20, Options::Absent));
    assert_eq!((parsed.header.source, parsed.header.destination), (OURS, THEIRS));
}

// attack row 12
#[test]
fn row_12_an_echo_with_an_incomplete_source_route_is_not_answered() {
    let mut host = Host::default();
    host.receive(&echo(&[131, 7, 4, 192, 0, 2, 9], b"data"));
    assert_eq!(host.transmit(), None);
    assert_eq!((host.counted(Counter::IpAddressErrors), host.pool.lent()), (1, 0));
}

// attack row 13
#[test]
fn row_13_a_quoted_header_with_options_of_any_length_is_skipped() {
    let mut host = Host::default();
    let ours = Header { source: OURS, destination: THEIRS, ..header(Protocol::Tcp) };
    let failures = (0..=10).filter(|words| {
        let quoted = datagram(&ours, &[0x44].repeat(words * 4), b"12345678");
        host.receive(&datagram(&header(Protocol::Icmp), &[], &message(UNREACHABLE, &quoted)));
        match host.internet.event() {
            Some(Event::Error(error)) => error.first_bytes != *b"12345678",
            _ => true,
        }
    });
    assert_eq!(failures.count(), 0);
    assert_eq!(host.pool.lent(), 0);
}

// attack row 13
#[test]
fn row_13_a_quotation_that_ends_within_its_options_or_first_bytes_is_dropped() {
    let mut host = Host::default();
    let ours = Header { source: OURS, destination: THEIRS, ..header(Protocol::Icmp) };
    let quoted = datagram(&ours, &[0x44; 40], b"12345678");
    let reported = (0..quoted.len()).filter(|len| {
        let error = message(UNREACHABLE, &quoted[..*len]);
        host.receive(&datagram(&header(Protocol::Icmp), &[], &error));
        host.internet.event().is_some()
    });
    assert_eq!(reported.count(), 0);
    assert_eq!(host.counted(Counter::IcmpErrors), quoted.len() as u64);
}

// attack row 14
#[test]
fn row_14_an_echo_request_to_broadcast_or_multicast_is_not_answered() {
    let mut host = Host::default();
    let groups = [[255; 4], [10, 0, 0, 255], [10, 0, 0, 0], [224, 0, 0, 1], [239, 1, 2, 3]];
    let answered_groups = groups.iter().filter(|group| {
        let header = Header { destination: (**group).into(), ..header(Protocol::Icmp) };
        host.receive(&datagram(&header, &[], &message(ECHO, b"data")));
        host.transmit().is_some()
    });
    assert_eq!(answered_groups.count(), 0);
    assert_eq!((host.counted(Counter::IpAddressErrors), host.pool.lent()), (5, 0));
}

// attack row 15
#[test]
fn row_15_a_datagram_with_our_own_address_as_source_is_dropped() {
    let mut host = Host::default();
    let delivered = [Protocol::Tcp, Protocol::Udp, Protocol::Icmp].iter().filter(|protocol| {
        let land_attack = Header { source: OURS, ..header(**protocol) };
        host.receive(&datagram(&land_attack, &[], &message(ECHO, b"data"))).is_some()
    });
    assert_eq!(delivered.count(), 0);
    assert_eq!(host.transmit(), None);
    assert_eq!((host.counted(Counter::IpSourceErrors), host.pool.lent()), (3, 0));
}

fn count_errors_for(host: &mut Host, source: Ipv4Addr, datagrams: usize) -> usize {
    let bytes = datagram(&Header { source, ..header(Protocol::Udp) }, &[], &[7; 8]);
    let answered_datagrams = (0..datagrams).filter(|_| {
        host.refuse(&bytes);
        host.transmit().is_some()
    });
    answered_datagrams.count()
}

// attack row 19
#[test]
fn row_19_the_errors_for_one_host_do_not_limit_those_for_another() {
    let mut quiet_host = Host::default();
    let mut busy_host = Host::default();
    // After these calls both hosts have drawn the same number of random numbers, so they have the
    // same limit for the other destination.
    count_errors_for(&mut quiet_host, THEIRS, 1);
    count_errors_for(&mut busy_host, THEIRS, 1000);
    let other_host = Ipv4Addr::new(10, 0, 0, 3);
    let errors = count_errors_for(&mut quiet_host, other_host, 1000);
    assert!((4..=12).contains(&errors), "{errors}");
    assert_eq!(count_errors_for(&mut busy_host, other_host, 1000), errors);
}

// attack row 19
#[test]
fn row_19_the_limit_is_not_the_same_for_every_host() {
    let mut host = Host::default();
    let mut limits: Vec<_> =
        (2..40).map(|i| count_errors_for(&mut host, Ipv4Addr::new(10, 0, 0, i), 20)).collect();
    limits.sort_unstable();
    limits.dedup();
    assert!(limits.len() > 3, "{limits:?}");
}

// attack row 19
#[test]
fn row_19_errors_for_a_thousand_hosts_do_not_suppress_those_for_another() {
    let mut host = Host::default();
    let silent = (0..1000_u32).filter(|i| {
        let source = Ipv4Addr::from_bits(0xC000_0200 + i);
        count_errors_for(&mut host, source, 1) == 0
    });
    assert_eq!(silent.count(), 0);
}

// attack row 19
#[test]
fn row_19_a_full_queue_of_answers_does_not_always_drop_the_last() {
    let last_answered = (0..20).filter(|seed| {
        let mut host = Host::with_seed(*seed);
        (1..=9_u8).for_each(|i| {
            host.receive(&echo(&[], &[i]));
        });
        core::iter::from_fn(|| host.transmit()).last().unwrap()[28] == 9
    });
    assert!((1..20).contains(&last_answered.count()));
}

// attack row 19
#[test]
fn row_19_a_host_gets_one_more_error_a_second() {
    let mut host = Host::default();
    count_errors_for(&mut host, THEIRS, 100);
    host.context.advance_millis(3_500);
    assert_eq!(count_errors_for(&mut host, THEIRS, 100), 3);
}

// attack row 1
#[test]
fn row_1_fragments_that_overlap_never_reach_a_transport() {
    let mut host = Host::default();
    let data = [7; 64];
    let fragment = |host: &mut Host, start: usize, end: usize, more: bool| {
        let header = Header { identification: 9, dont_fragment: false, ..header(Protocol::Udp) };
        let offset = u16::try_from(start).unwrap();
        let total_len = u16::try_from(20 + end - start).unwrap();
        let mut bytes = header.emit_fragment(total_len, offset, more).to_vec();
        bytes.extend_from_slice(&data[start..end]);
        host.receive(&bytes).is_some()
    };
    let delivered = [(0, 32, true), (24, 48, true), (32, 48, true), (48, 64, false)]
        .map(|(start, end, more)| fragment(&mut host, start, end, more));
    assert_eq!((delivered, host.pool.lent()), ([false; 4], 0));
    assert_eq!(host.internet.reassembler.bytes(), 0);
    assert_eq!(host.counted(Counter::IpReassemblyErrors), 1);
}

// attack row 17
#[test]
fn row_17_a_fragment_that_splits_the_tcp_header_is_dropped() {
    let mut host = Host::default();
    let header = Header { dont_fragment: false, identification: 9, ..header(Protocol::Tcp) };
    let mut delivered = [(0, 16), (8, 24)].into_iter().filter(|(offset, data_len)| {
        let total_len = 20 + data_len;
        let mut bytes = header.emit_fragment(total_len, *offset, *offset == 0).to_vec();
        bytes.resize(usize::from(total_len), 7);
        host.receive(&bytes).is_some()
    });
    assert_eq!(delivered.next(), None);
    assert_eq!(host.counted(Counter::IpFragmentsDropped), 2);
    assert!(host.internet.reassembler.is_empty());
}

// attack row 18
#[test]
fn row_18_only_datagrams_without_df_have_an_identification() {
    let mut host = Host::default();
    let unfragmented = host.send(&[7; 100], THEIRS.into(), Protocol::Udp);
    let fragments = host.send(&[7; 3000], THEIRS.into(), Protocol::Udp);
    let later_fragments = host.send(&[7; 3000], THEIRS.into(), Protocol::Udp);
    let identification_of = |bytes: &[u8]| {
        let header = Header::parse(bytes).unwrap().header;
        (header.dont_fragment, header.identification)
    };
    assert_eq!(
        unfragmented.iter().map(|bytes| identification_of(bytes)).collect::<Vec<_>>(),
        [(true, 0)]
    );
    let [one, other] = [&fragments, &later_fragments].map(|all| identification_of(&all[0]));
    assert!(fragments.iter().all(|bytes| identification_of(bytes) == one) && fragments.len() == 3);
    assert!(!one.0 && one.1 != other.1);
}
