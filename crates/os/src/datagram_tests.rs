//! Tests of datagram sockets over the loopback interface.

use super::*;
use crate::testing::{in_new_network, unwrap_ready, wait_until_readable};
use proptest::prelude::*;

const LOOPBACK: &str = "127.0.0.1:0";

fn socket(address: &str) -> (DatagramSocket, SocketAddr) {
    let socket = DatagramSocket::bind(address.parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// Receives `count` datagrams.
fn receive_datagrams(socket: &DatagramSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut inbox = Inbox::default();
    let mut received_datagrams = Vec::new();
    while received_datagrams.len() < count {
        wait_until_readable(socket);
        unwrap_ready(socket.receive(&mut inbox)).unwrap();
        received_datagrams.extend(inbox.datagrams().map(|one| (one.from, one.data.to_vec())));
    }
    received_datagrams
}

fn split_datagrams(bytes: &[u8], lens: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    lens.iter().map(|len| rest.split_off(..*len).unwrap().to_vec()).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn a_window_of_datagrams_arrives_unchanged() {
    for place in [LOOPBACK, "[::1]:0"] {
        let (client, from) = socket(place);
        let (server, to) = socket(place);
        server.set_receive_buffer(1 << 20).unwrap();
        let lens = [&[1432; 64][..], &[100, 0, 7]].concat();
        let bytes = pattern(lens.iter().sum());
        assert_eq!(unwrap_ready(client.send(&bytes, &lens, to)).unwrap(), lens.len());
        let received = receive_datagrams(&server, lens.len());
        assert!(received.iter().all(|(sender, _)| *sender == from));
        let received: Vec<_> = received.into_iter().map(|(_, datagram)| datagram).collect();
        assert_eq!(received, split_datagrams(&bytes, &lens));
    }
}

#[test]
fn without_kernel_segmentation_datagrams_are_sent_individually() {
    let (client, _) = socket(LOOPBACK);
    let (server, to) = socket(LOOPBACK);
    client.can_segment.store(false, Ordering::Relaxed);
    let lens = [512; 40];
    let bytes = pattern(lens.iter().sum());
    assert_eq!(unwrap_ready(client.send(&bytes, &lens, to)).unwrap(), 40);
    assert_eq!(receive_datagrams(&server, 40).len(), 40);
}

#[test]
fn datagrams_longer_than_the_path_mtu_are_sent_fragmented() {
    in_new_network(|| {
        test_support::ip(&["link", "set", "lo", "up", "mtu", "1500"]);
        let (client, _) = socket(LOOPBACK);
        let (server, to) = socket(LOOPBACK);
        let lens = [8192; 4];
        let bytes = pattern(lens.iter().sum());
        assert_eq!(unwrap_ready(client.send(&bytes, &lens, to)).unwrap(), 4);
        assert!(!client.can_segment.load(Ordering::Relaxed));
        assert_eq!(receive_datagrams(&server, 4)[3].1, split_datagrams(&bytes, &lens)[3]);
    });
}

#[test]
fn a_rejected_datagram_does_not_end_the_segmentation_of_others() {
    in_new_network(|| {
        test_support::ip(&["link", "set", "lo", "up", "mtu", "1400"]);
        let (client, from) = socket(LOOPBACK);
        let (server, to) = socket(LOOPBACK);
        client.forbid_fragments(true).unwrap();
        let source = Some(from.ip());
        let error = unwrap_ready(client.send_from(source, &[0; 2000], &[2000], to)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EMSGSIZE));
        assert!(client.can_segment.load(Ordering::Relaxed));
        assert_eq!(unwrap_ready(client.send_from(source, &[7; 900], &[300; 3], to)).unwrap(), 3);
        assert_eq!(receive_datagrams(&server, 3), vec![(from, vec![7; 300]); 3]);
    });
}

#[test]
fn the_longest_datagram_arrives_complete() {
    let (client, _) = socket(LOOPBACK);
    let (server, to) = socket(LOOPBACK);
    let bytes = pattern(65_468);
    assert_eq!(unwrap_ready(client.send(&bytes, &[bytes.len()], to)).unwrap(), 1);
    assert_eq!(receive_datagrams(&server, 1)[0].1, bytes);
}

#[test]
fn port_unreachable_returns_the_datagram_with_its_destination() {
    for place in [LOOPBACK, "[::1]:0"] {
        let (client, _) = socket(place);
        let (server, to) = socket(place);
        drop(server);
        unwrap_ready(client.send(b"anybody?", &[8], to)).unwrap();
        wait_until_readable(&client);
        let datagram_error = client.datagram_error().unwrap();
        assert_eq!(
            (datagram_error.to, datagram_error.error.kind()),
            (to, io::ErrorKind::ConnectionRefused)
        );
        assert!(client.datagram_error().is_none());
    }
}

#[test]
fn a_datagram_reports_its_destination_and_whether_it_was_unicast() {
    in_new_network(|| {
        let run_command = |line: &str| {
            test_support::ip(&line.split(' ').collect::<Vec<_>>());
        };
        run_command("link set lo up");
        run_command("address add 10.0.0.1/24 broadcast 10.0.0.255 dev lo");
        let (server, to) = socket("0.0.0.0:0");
        server.report_destinations().unwrap();
        let (client, _) = socket("10.0.0.1:0");
        sockopt::set_socket_broadcast(&client, true).unwrap();
        let mut inbox = Inbox::default();
        for (address, is_unicast) in [("10.0.0.1", true), ("10.0.0.255", false)] {
            let destination = (address.parse::<IpAddr>().unwrap(), to.port()).into();
            unwrap_ready(client.send(b"x", &[1], destination)).unwrap();
            wait_until_readable(&server);
            unwrap_ready(server.receive(&mut inbox)).unwrap();
            let received = inbox.datagrams().next().unwrap();
            assert_eq!(received.is_unicast, is_unicast, "{address}");
            assert_eq!(received.to, Some("10.0.0.1".parse().unwrap()));
        }
    });
}

#[test]
fn an_answer_has_the_source_to_which_the_request_was_sent() {
    in_new_network(|| {
        test_support::ip(&["link", "set", "lo", "up"]);
        for (any, client, addresses) in [
            ("0.0.0.0:0", "10.0.0.9", ["10.0.0.1", "10.0.0.2"]),
            ("[::]:0", "2001:db8::9", ["2001:db8::1", "2001:db8::2"]),
        ] {
            let (server, to) = socket(any);
            server.report_destinations().unwrap();
            [client].into_iter().chain(addresses).for_each(test_support::add_loopback_address);
            let client = SocketAddr::new(client.parse().unwrap(), 0);
            let client = DatagramSocket::bind(client).unwrap();
            let mut inbox = Inbox::default();
            for address in addresses.map(|address| address.parse::<IpAddr>().unwrap()) {
                // One datagram, and a super-datagram.
                for lens in [&[7][..], &[100, 100, 100, 50]] {
                    let to = (address, to.port()).into();
                    let bytes = pattern(lens.iter().sum());
                    unwrap_ready(client.send(&bytes, &[bytes.len()], to)).unwrap();
                    wait_until_readable(&server);
                    unwrap_ready(server.receive(&mut inbox)).unwrap();
                    let Group { from, local, data, .. } = inbox.groups().next().unwrap();
                    assert_eq!((local, data.len()), (Some(address), bytes.len()));
                    let sent = server.send_from(local, data, lens, from);
                    assert_eq!(unwrap_ready(sent).unwrap(), lens.len());
                    let answers = receive_datagrams(&client, lens.len());
                    assert!(answers.iter().all(|(from, _)| *from == to), "{answers:?}");
                    let answers: Vec<_> = answers.into_iter().map(|(_, data)| data).collect();
                    assert_eq!(answers, split_datagrams(&bytes, lens));
                }
            }
        }
    });
}

#[test]
fn a_group_is_not_the_source_of_an_answer() {
    let from = "192.0.2.1:9".parse().unwrap();
    let local_of = |to: &str| {
        let mut inbox = Inbox::default();
        inbox.allocate_buffers();
        let to = Some(to.parse().unwrap());
        let from = Some(from);
        inbox.arrivals.push(Arrival { from, to, is_unicast: false, len: 1, segment: 1 });
        inbox.groups().next().unwrap().local
    };
    assert_eq!(["ff02::1", "224.0.0.251"].map(local_of), [None; 2]);
    assert_eq!(local_of("2001:db8::1"), Some("2001:db8::1".parse().unwrap()));
}

#[test]
fn receiving_without_data_is_pending() {
    assert!(socket(LOOPBACK).0.receive(&mut Inbox::default()).is_pending());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn datagrams_of_any_lengths_keep_their_order_and_lengths(
        lens in proptest::collection::vec(
            prop_oneof![3 => Just(500_usize), 1 => 0_usize..1000], 1..60,
        ),
    ) {
        let (client, _) = socket(LOOPBACK);
        let (server, to) = socket(LOOPBACK);
        server.set_receive_buffer(1 << 20).unwrap();
        let bytes = pattern(lens.iter().sum());
        prop_assert_eq!(unwrap_ready(client.send(&bytes, &lens, to)).unwrap(), lens.len());
        let received = receive_datagrams(&server, lens.len());
        let received: Vec<_> = received.into_iter().map(|(_, data)| data).collect();
        prop_assert_eq!(received, split_datagrams(&bytes, &lens));
    }
}
