//! Tests of black hole detection (RFC 4821, RFC 8899), in virtual time.

use super::*;
use crate::internet::ipv4;

/// Length of a segment in the longest datagram that the path can carry, in bytes.
const PATH_SEGMENT_LEN: usize = 1300 - ipv4::HEADER_LEN;

fn connected(profile: Profile) -> (Pair, (ConnectionId, ConnectionId)) {
    let mut pair = Pair::new(3);
    let ends = pair.connect(profile);
    (pair, ends)
}

fn datagram_len(pair: &Pair, id: ConnectionId) -> u32 {
    let options = 12;
    pair.client.status(id).unwrap().send_mss + 40 + options
}

#[test]
fn a_transfer_leaves_a_black_hole_within_seconds_and_finds_its_length() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    let data = pattern(1_000_000);
    let began = pair.context.now;
    assert!(pair.transfer(Side::Client, ends, &data) == data);
    assert!(pair.context.now - began < Duration::from_secs(30), "{:?}", pair.context.now - began);
    assert!((1293..=1300).contains(&datagram_len(&pair, ends.0)));
    assert_eq!(pair.context.counted(Counter::TcpBlackHoles), 1);
}

#[test]
fn probes_that_are_lost_alone_cost_no_window() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    pair.transfer(Side::Client, ends, &pattern(100_000));
    let timeouts = pair.context.counted(Counter::TcpTimeouts);
    let window = pair.client.status(ends.0).unwrap().congestion_window;
    pair.transfer(Side::Client, ends, &pattern(2_000_000));
    assert_eq!(pair.context.counted(Counter::TcpTimeouts), timeouts);
    assert!(pair.context.counted(Counter::TcpPathProbes) >= 10);
    assert!(pair.client.status(ends.0).unwrap().congestion_window > window);
}

#[test]
fn a_path_that_has_become_wider_is_found_out_after_ten_minutes() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    pair.transfer(Side::Client, ends, &pattern(1_000_000));
    pair.delivered_len_max = usize::MAX;
    pair.run(Duration::from_secs(601));
    pair.transfer(Side::Client, ends, &pattern(100_000));
    assert_eq!(datagram_len(&pair, ends.0), 1500);
}

#[test]
fn a_path_that_was_dead_for_a_while_has_its_full_length_again() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.transfer(Side::Client, ends, &pattern(100_000));
    pair.delivered_len_max = 0;
    pair.client.send(ends.0, &pattern(200_000)).unwrap();
    pair.run(Duration::from_secs(20));
    pair.delivered_len_max = usize::MAX;
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.read_all(Side::Server, ends.1), pattern(200_000));
    pair.transfer(Side::Client, ends, &pattern(20_000));
    assert_eq!(datagram_len(&pair, ends.0), 1500);
}

#[test]
fn a_connection_without_path_search_keeps_its_length() {
    let (mut pair, ends) =
        connected(Profile { black_hole_detection: BlackHoleDetection::Off, ..Profile::BULK });
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    pair.client.send(ends.0, &pattern(100_000)).unwrap();
    pair.run(Duration::from_secs(30));
    assert_eq!((datagram_len(&pair, ends.0), pair.read_all(Side::Server, ends.1).len()), (1500, 0));
}

#[test]
fn a_connection_starts_with_the_path_mtu_of_the_layer_below() {
    let mut pair = Pair::new(4);
    pair.server.listen(PORT, Profile::BULK).unwrap();
    let remote = SocketAddr::new(SERVER, PORT);
    let id = pair.client.open(CLIENT, remote, Profile::BULK, &mut pair.context.cx()).unwrap();
    assert_eq!(pair.client.new_connection(), Some((id, SERVER)));
    assert_eq!(pair.client.new_connection(), None);
    assert_eq!(pair.client.packet_too_big(id, 1400, &mut pair.context.cx()), Ok(false));
    pair.drive();
    assert_eq!(datagram_len(&pair, id), 1400);
    let mss = pair.trace.first().unwrap().2.options.mss;
    assert_eq!(mss, Some(1460), "the MSS option announces the MTU of the link");
}

#[test]
fn a_path_below_the_base_length_is_supported() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.transfer(Side::Client, ends, &pattern(100_000));
    pair.delivered_len_max = 700 - ipv4::HEADER_LEN;
    let data = pattern(100_000);
    assert!(pair.transfer(Side::Client, ends, &data) == data);
    assert_eq!(datagram_len(&pair, ends.0), 552);
}

#[test]
fn lost_short_segments_also_start_the_search() {
    let small = ReceiveWindow::Bytes(900);
    let (mut pair, ends) = connected(Profile { receive_window: small, ..Profile::BULK });
    pair.delivered_len_max = 700 - ipv4::HEADER_LEN;
    let data = pattern(20_000);
    assert!(pair.transfer(Side::Client, ends, &data) == data);
}

/// The profile of a host to which a user logs in.
const SERVING: Profile = Profile::serving(32 * 1024);
/// Length of a screenful, in bytes.
const SCREENFUL: usize = 2000;

/// Sends a screenful to the server, and returns the data that has arrived after `time`.
fn screenful(pair: &mut Pair, ends: (ConnectionId, ConnectionId), time: Duration) -> Vec<u8> {
    pair.client.send(ends.0, &pattern(SCREENFUL)).unwrap();
    pair.run(time);
    pair.read_all(Side::Server, ends.1)
}

#[test]
fn the_first_timeout_of_a_terminal_makes_segments_as_long_as_base() {
    let (mut pair, ends) = connected(SERVING);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    assert_eq!(screenful(&mut pair, ends, Duration::from_secs(1)), pattern(SCREENFUL));
    assert_eq!(
        (datagram_len(&pair, ends.0), pair.context.counted(Counter::TcpTimeouts)),
        (1280, 1)
    );
}

#[test]
fn the_second_timeout_of_a_terminal_makes_segments_as_short_as_possible() {
    let (mut pair, ends) = connected(SERVING);
    pair.delivered_len_max = 600 - ipv4::HEADER_LEN;
    assert_eq!(screenful(&mut pair, ends, Duration::from_secs(2)), pattern(SCREENFUL));
    assert_eq!((datagram_len(&pair, ends.0), pair.context.counted(Counter::TcpTimeouts)), (552, 2));
}

#[test]
fn a_terminal_does_not_wait_for_a_second_timeout_that_takes_long() {
    let mut pair = Pair::new(3);
    pair.delay = Duration::from_millis(300);
    let ends = pair.connect(SERVING);
    pair.delivered_len_max = 600 - ipv4::HEADER_LEN;
    assert_eq!(screenful(&mut pair, ends, Duration::from_secs(5)), pattern(SCREENFUL));
    assert_eq!((datagram_len(&pair, ends.0), pair.context.counted(Counter::TcpTimeouts)), (552, 1));
}

#[test]
fn the_end_of_a_screenful_is_never_a_probe() {
    let (mut pair, ends) = connected(SERVING);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    for _ in 0..10 {
        assert_eq!(screenful(&mut pair, ends, Duration::from_secs(1)), pattern(SCREENFUL));
    }
    assert_eq!(pair.context.counted(Counter::TcpPathProbes), 0);
    assert_eq!(pair.context.counted(Counter::TcpTimeouts), 1);
}

#[test]
fn a_connection_that_does_not_pace_finds_the_length_of_its_path() {
    let (mut pair, ends) = connected(SERVING);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    let data = pattern(200_000);
    assert!(pair.transfer(Side::Client, ends, &data) == data);
    assert!((1293..=1300).contains(&datagram_len(&pair, ends.0)));
}

// RFC 4821 §7.6.1: the loss of a probe is no sign of congestion.
#[test]
fn the_loss_of_a_probe_alone_never_makes_the_window_smaller() {
    let (mut pair, ends) = connected(Profile::BULK);
    pair.delivered_len_max = PATH_SEGMENT_LEN;
    pair.transfer(Side::Client, ends, &pattern(100_000));
    let status = |pair: &Pair| pair.client.status(ends.0).unwrap();
    let lost_before = status(&pair).statistics.fast_retransmits;
    let mut window = status(&pair).congestion_window;
    let data = pattern(1_000_000);
    let mut sent = 0;
    let end = pair.context.now + Duration::from_secs(60);
    while sent < data.len() {
        sent += pair.client.send(ends.0, &data[sent..]).unwrap();
        pair.read_all(Side::Server, ends.1);
        assert!(pair.step(end));
        let before = window;
        window = status(&pair).congestion_window;
        assert!(window >= before, "{window} {before}");
    }
    assert!(status(&pair).statistics.fast_retransmits > lost_before, "probes are lost");
}
