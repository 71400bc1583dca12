//! Arbitrary input from lines and from the host.

use super::*;
use crate::queue::testing::{ipv4_with, tcp4, udp4, udp6};
use net::internet::ipv4;
use proptest::prelude::*;

fn all_protocols() -> Vec<LineSettings> {
    let prefix = Some(("2001:db8::4".parse().unwrap(), 128));
    let settings = ppp::Settings::default();
    vec![
        slip_line(2),
        LineSettings::llp(address(3), 9_600),
        LineSettings { protocol: LineProtocol::Ppp(Box::new(settings)), prefix, ..slip_line(4) },
    ]
}

fn datagram() -> impl Strategy<Value = Vec<u8>> {
    let valid =
        (0..4_u8, 1..6_u8, 1..6_u8, 8..1_400_usize).prop_map(|(kind, from, to, len)| match kind {
            0 => udp4(from, to, 1, len),
            1 => tcp4(from, to, 1, len),
            2 => udp6(from, to, 1, len),
            _ => ipv4_with(from, to, 1, &vec![8; len]),
        });
    (valid, prop::collection::vec((0..80_usize, any::<u8>()), 0..4), any::<bool>()).prop_map(
        |(mut bytes, changes, repairs)| {
            for (at, value) in changes {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
            }
            // Without a valid checksum most changes would not be noticed.
            if repairs && bytes[0] >> 4 == 4 {
                let len = (usize::from(bytes[0] & 15) * 4).min(bytes.len());
                if len >= ipv4::HEADER_LEN {
                    bytes[10..12].fill(0);
                    let checksum = net::checksum::Sum::default().bytes(&bytes[..len]).finish();
                    bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
                }
            }
            bytes
        },
    )
}

#[derive(Clone, Debug)]
enum Input {
    Wire { line: usize, bytes: Vec<u8> },
    Datagram { line: usize, bytes: Vec<u8> },
    Host { bytes: Vec<u8> },
    Transmit { line: usize, limit: usize },
    Time { ms: u64 },
}

fn input() -> impl Strategy<Value = Input> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    prop_oneof![
        (0..3_usize, bytes()).prop_map(|(line, bytes)| Input::Wire { line, bytes }),
        (0..3_usize, datagram()).prop_map(|(line, bytes)| Input::Datagram { line, bytes }),
        datagram().prop_map(|bytes| Input::Host { bytes }),
        bytes().prop_map(|bytes| Input::Host { bytes }),
        (0..3_usize, 1..300_usize).prop_map(|(line, limit)| Input::Transmit { line, limit }),
        (0..10_000_u64).prop_map(|ms| Input::Time { ms }),
    ]
}

proptest! {
    #[test]
    fn no_input_causes_a_panic_or_an_uncounted_packet(
        inputs in prop::collection::vec(input(), 0..60),
    ) {
        let mut fixture = Fixture::new(all_protocols());
        for input in inputs {
            match input {
                Input::Wire { line, bytes } => {
                    let id = fixture.lines[line].0;
                    fixture.router.receive(id, &bytes, &mut fixture.context.cx());
                }
                Input::Datagram { line, bytes } => fixture.inject(line, &bytes),
                Input::Host { bytes } => fixture.enqueue_from_host(&bytes),
                Input::Transmit { line, limit } => {
                    let mut wire = Vec::new();
                    let id = fixture.lines[line].0;
                    let count = fixture.router.transmit_into(
                        id, &mut wire, limit, &mut fixture.context.cx());
                    prop_assert!(count == wire.len() && count <= limit);
                }
                Input::Time { ms } => {
                    fixture.context.advance_millis(ms);
                    fixture.router.timeout(&mut fixture.context.cx());
                }
            }
            fixture.assert_balanced();
        }
        for (id, _) in std::mem::take(&mut fixture.lines) {
            fixture.router.remove_line(id);
        }
        fixture.received_by_host();
        prop_assert_eq!((fixture.router.held(), fixture.router.packets_in_use()), (0, 0));
    }
}

#[test]
fn a_flood_is_limited_by_the_queue_and_leaves_buffers_for_other_lines() {
    let mut fixture = Fixture::new(vec![slip_line(2), slip_line(3)]);
    for number in 0..5_000 {
        fixture.enqueue_from_host(&udp4(200, 2, number % 50, 1_000));
    }
    let counters = fixture.router.counters();
    assert_eq!(fixture.router.held() as u64 + counters.dropped_in_queues, 5_000);
    assert!(fixture.router.held() <= 4_096 / 16);
    fixture.send(1, &udp4(3, 200, 1, 1_000));
    assert_eq!(fixture.received_by_host().len(), 1);
}
