//! Datagrams over the loopback interface.

use super::*;
use crate::testing::{in_new_network, readable};
use proptest::prelude::*;

const LOOPBACK: &str = "127.0.0.1:0";

fn socket(at: &str) -> (DatagramSocket, SocketAddr) {
    let socket = DatagramSocket::bind(at.parse().unwrap()).unwrap();
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// Receives `count` datagrams.
fn take(socket: &DatagramSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let (mut inbox, mut taken) = (Inbox::default(), Vec::new());
    while taken.len() < count {
        readable(socket);
        socket.receive(&mut inbox).unwrap();
        taken.extend(inbox.datagrams().map(|one| (one.from, one.data.to_vec())));
    }
    taken
}

fn cut(bytes: &[u8], lens: &[usize]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    lens.iter().map(|len| rest.split_off(..*len).unwrap().to_vec()).collect()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

#[test]
fn a_window_of_datagrams_comes_as_it_went() {
    for place in [LOOPBACK, "[::1]:0"] {
        let ((near, from), (far, to)) = (socket(place), socket(place));
        far.set_receive_buffer(1 << 20).unwrap();
        let lens = [&[1432; 64][..], &[100, 0, 7]].concat();
        let bytes = pattern(lens.iter().sum());
        assert_eq!(near.send(&bytes, &lens, to).unwrap(), lens.len());
        let came = take(&far, lens.len());
        assert!(came.iter().all(|(sender, _)| *sender == from));
        let came: Vec<_> = came.into_iter().map(|(_, datagram)| datagram).collect();
        assert_eq!(came, cut(&bytes, &lens));
    }
}

#[test]
fn where_the_kernel_does_not_cut_datagrams_go_side_by_side() {
    let ((near, _), (far, to)) = (socket(LOOPBACK), socket(LOOPBACK));
    near.segments.store(false, Ordering::Relaxed);
    let lens = [512; 40];
    let bytes = pattern(lens.iter().sum());
    assert_eq!(near.send(&bytes, &lens, to).unwrap(), 40);
    assert_eq!(take(&far, 40).len(), 40);
}

#[test]
fn datagrams_longer_than_the_path_takes_are_sent_all_the_same() {
    in_new_network(|| {
        std::process::Command::new("ip")
            .args(["link", "set", "lo", "up", "mtu", "1500"])
            .status()
            .unwrap();
        let ((near, _), (far, to)) = (socket(LOOPBACK), socket(LOOPBACK));
        let lens = [8192; 4];
        let bytes = pattern(lens.iter().sum());
        assert_eq!(near.send(&bytes, &lens, to).unwrap(), 4);
        assert!(!near.segments.load(Ordering::Relaxed));
        assert_eq!(take(&far, 4)[3].1, cut(&bytes, &lens)[3]);
    });
}

#[test]
fn the_longest_datagram_comes_whole() {
    let ((near, _), (far, to)) = (socket(LOOPBACK), socket(LOOPBACK));
    let bytes = pattern(65_468);
    assert_eq!(near.send(&bytes, &[bytes.len()], to).unwrap(), 1);
    assert_eq!(take(&far, 1)[0].1, bytes);
}

#[test]
fn a_port_where_nobody_is_sends_the_datagram_back_with_its_destination() {
    for place in [LOOPBACK, "[::1]:0"] {
        let ((near, _), (far, to)) = (socket(place), socket(place));
        drop(far);
        near.send(b"anybody?", &[8], to).unwrap();
        readable(&near);
        let bounce = near.bounce().unwrap();
        assert_eq!((bounce.to, bounce.error.kind()), (to, io::ErrorKind::ConnectionRefused));
        assert!(near.bounce().is_none());
    }
}

#[test]
fn a_datagram_tells_to_which_address_it_was_sent_and_whether_to_that_alone() {
    in_new_network(|| {
        let run = |line: &str| {
            let status = std::process::Command::new("ip").args(line.split(' ')).status();
            assert!(status.unwrap().success(), "{line}");
        };
        run("link set lo up");
        run("address add 10.0.0.1/24 broadcast 10.0.0.255 dev lo");
        let (far, to) = socket("0.0.0.0:0");
        far.tell_destinations().unwrap();
        let (near, _) = socket("10.0.0.1:0");
        sockopt::set_socket_broadcast(&near, true).unwrap();
        let mut inbox = Inbox::default();
        for (address, is_unicast) in [("10.0.0.1", true), ("10.0.0.255", false)] {
            near.send(b"x", &[1], (address.parse::<IpAddr>().unwrap(), to.port()).into()).unwrap();
            readable(&far);
            far.receive(&mut inbox).unwrap();
            let received = inbox.datagrams().next().unwrap();
            assert_eq!(received.is_unicast, is_unicast, "{address}");
            assert_eq!(received.to, Some("10.0.0.1".parse().unwrap()));
        }
    });
}

#[test]
fn when_nothing_has_come_that_is_said() {
    let error = socket(LOOPBACK).0.receive(&mut Inbox::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn datagrams_of_any_lengths_come_in_their_order_and_their_lengths(
        lens in proptest::collection::vec(
            prop_oneof![3 => Just(500_usize), 1 => 0_usize..1000], 1..60,
        ),
    ) {
        let ((near, _), (far, to)) = (socket(LOOPBACK), socket(LOOPBACK));
        far.set_receive_buffer(1 << 20).unwrap();
        let bytes = pattern(lens.iter().sum());
        prop_assert_eq!(near.send(&bytes, &lens, to).unwrap(), lens.len());
        let came: Vec<_> = take(&far, lens.len()).into_iter().map(|(_, data)| data).collect();
        prop_assert_eq!(came, cut(&bytes, &lens));
    }
}
