//! Windows of TCP connections that are limited to the queue of their line.

use super::*;
use crate::queue::testing::ipv4_with;
use net::internet::ipv4::Protocol;
use net::internet::pseudo_header;
use net::time::Duration;
use proptest::prelude::*;

const SLOW: u8 = 2;
const FAST: u8 = 200;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// At 9,600 bit/s the target of CoDel is 1.5 times the time of 708 bytes, and the interval is twice
/// the target: 2,124 bytes.
const LIMIT: u32 = 2_124;
/// The limit of a connection that was busy for longer than the target.
const LASTING_LIMIT: u32 = LIMIT / 2;

/// A TCP segment between the slow and the fast host.
#[derive(Clone, Debug)]
struct TestSegment {
    from_slow: bool,
    flags: u8,
    sequence: u32,
    acknowledged: u32,
    window: u16,
    options: Vec<u8>,
    data_len: usize,
}

impl TestSegment {
    fn from_slow(flags: u8, acknowledged: u32, window: u16) -> Self {
        Self {
            from_slow: true,
            flags,
            sequence: 1,
            acknowledged,
            window,
            options: vec![],
            data_len: 0,
        }
    }

    fn from_fast(flags: u8, data_len: usize) -> Self {
        Self { from_slow: false, data_len, ..Self::from_slow(flags, 1, 60_000) }
    }

    fn at(mut self, sequence: u32) -> Self {
        self.sequence = sequence;
        self
    }

    fn with_scale(mut self, shift: u8) -> Self {
        self.options = vec![1, 3, 3, shift];
        self
    }

    fn datagram(&self) -> Vec<u8> {
        let (source, destination) = if self.from_slow { (SLOW, FAST) } else { (FAST, SLOW) };
        let mut bytes = vec![0; 20];
        bytes[..2].copy_from_slice(&u16::from(source).to_be_bytes());
        bytes[2..4].copy_from_slice(&u16::from(destination).to_be_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.acknowledged.to_be_bytes());
        bytes[12] = u8::try_from((20 + self.options.len()) / 4).unwrap() << 4;
        bytes[13] = self.flags;
        bytes[14..16].copy_from_slice(&self.window.to_be_bytes());
        bytes.extend(&self.options);
        bytes.resize(bytes.len() + self.data_len, b'x');
        let checksum = sum(source, destination, &bytes).finish();
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        ipv4_with(source, destination, 6, &bytes)
    }
}

fn sum(source: u8, destination: u8, segment: &[u8]) -> net::checksum::Sum {
    let len = u16::try_from(segment.len()).unwrap();
    let [from, to] = [address(source), address(destination)].map(Into::into);
    pseudo_header(from, to, Protocol::Tcp, len).bytes(segment)
}

/// A router with one line of 9,600 bit/s.
struct WindowFixture(Fixture);

impl WindowFixture {
    fn new() -> Self {
        let line = LineSettings { mtu: 700, rate_bps: Some(9_600), ..slip_line(SLOW) };
        Self(Fixture::new(vec![line]))
    }

    /// Passes a segment through the router, and returns its window field. Checks the checksum.
    fn pass(&mut self, segment: &TestSegment) -> u16 {
        let received = if segment.from_slow {
            self.0.send(0, &segment.datagram());
            self.0.received_by_host().remove(0)
        } else {
            self.0.send_from_host(&segment.datagram());
            self.0.received(0).remove(0)
        };
        assert!(sum(received[15], received[19], &received[20..]).is_good());
        u16::from_be_bytes([received[34], received[35]])
    }

    /// Opens a connection from the slow host, with the given scales.
    fn open(&mut self, slow: Option<u8>, fast: Option<u8>) {
        let scaled = |segment: TestSegment, shift: Option<u8>| match shift {
            Some(shift) => segment.with_scale(shift),
            None => segment,
        };
        self.pass(&scaled(TestSegment::from_slow(SYN, 0, 100), slow));
        self.pass(&scaled(TestSegment::from_fast(SYN | ACK, 0), fast));
    }
}

#[test]
fn the_window_is_lowered_to_the_queue_from_the_syn_on() {
    let mut fixture = WindowFixture::new();
    let syn = fixture.pass(&TestSegment::from_slow(SYN, 0, 20_000));
    assert_eq!(u32::from(syn), LIMIT);
    fixture.pass(&TestSegment::from_fast(SYN | ACK, 0));
    assert_eq!(u32::from(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000))), LIMIT);
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 500)), 500);
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 0)), 0);
    assert_eq!(fixture.0.router.counters().windows_lowered, 2);
}

#[test]
fn the_scale_of_the_slow_host_applies_if_both_hosts_have_one() {
    for (slow, fast, expected) in [
        (Some(3), Some(7), LIMIT.div_ceil(8)),
        (Some(3), None, LIMIT),
        (None, Some(7), LIMIT),
        (Some(0), Some(0), LIMIT),
    ] {
        let mut fixture = WindowFixture::new();
        fixture.open(slow, fast);
        let field = fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000));
        assert_eq!(u32::from(field), expected, "{slow:?} {fast:?}");
    }
}

#[test]
fn the_window_of_a_syn_is_never_scaled() {
    let mut fixture = WindowFixture::new();
    let syn = TestSegment::from_slow(SYN, 0, 20_000).with_scale(3);
    assert_eq!(u32::from(fixture.pass(&syn)), LIMIT);
    // The same for the answer to a SYN of the fast host.
    let mut fixture = WindowFixture::new();
    fixture.pass(&TestSegment::from_fast(SYN, 0).with_scale(7));
    let answer = TestSegment::from_slow(SYN | ACK, 1, 20_000).with_scale(3);
    assert_eq!(u32::from(fixture.pass(&answer)), LIMIT);
}

#[test]
fn a_connection_of_unknown_scale_is_not_changed() {
    let mut fixture = WindowFixture::new();
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000)), 20_000);
    // A repeated SYN without the option leaves it open which SYN arrived first.
    fixture.open(Some(3), Some(3));
    fixture.pass(&TestSegment::from_slow(SYN, 0, 100));
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000)), 20_000);
}

#[test]
fn a_connection_with_a_digest_is_not_changed() {
    let mut fixture = WindowFixture::new();
    let mut syn = TestSegment::from_slow(SYN, 0, 20_000);
    syn.options = [&[19, 18], [0; 16].as_slice(), &[1, 1]].concat();
    assert_eq!(fixture.pass(&syn), 20_000);
    fixture.pass(&TestSegment::from_fast(SYN | ACK, 0));
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000)), 20_000);
}

#[test]
fn small_packets_lower_the_limit_by_their_headers() {
    let mut fixture = WindowFixture::new();
    fixture.open(None, None);
    fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000));
    for number in 0..10 {
        fixture.pass(&TestSegment::from_fast(ACK, 82).at(1 + number * 82));
    }
    // 82 of 122 bytes are data. The right edge passed before stays.
    let far = 1 + LIMIT;
    let field = fixture.pass(&TestSegment::from_slow(ACK, far, 20_000));
    assert_eq!(u32::from(field), LIMIT * 82 / 122);
}

#[test]
fn a_connection_that_is_busy_for_longer_than_the_target_has_a_lower_limit() {
    let mut fixture = WindowFixture::new();
    fixture.open(None, None);
    let mut acknowledged = 1;
    let mut fields = Vec::new();
    for number in 0..40 {
        fixture.pass(&TestSegment::from_fast(ACK, 600).at(1 + number * 600));
        if number >= 3 {
            // The packets are mostly data: 600 of 640 bytes.
            acknowledged += 600;
            fixture.0.context.advance(Duration::from_millis(667));
        }
        fields.push(fixture.pass(&TestSegment::from_slow(ACK, acknowledged, 20_000)));
    }
    assert_eq!(u32::from(fields[3]), LIMIT * 600 / 640);
    // Two packets are more than the data of the target.
    const { assert!(LASTING_LIMIT * 600 / 640 < 1_200) };
    assert_eq!(fields[39], 1_200, "{fields:?}");
    // A connection without data in flight may use the interval again.
    let field = fixture.pass(&TestSegment::from_slow(ACK, 1 + 40 * 600, 20_000));
    assert_eq!(u32::from(field), LIMIT * 600 / 640);
}

#[test]
fn the_limit_is_at_least_two_packets_of_the_connection() {
    let mut fixture = WindowFixture::new();
    fixture.open(None, None);
    fixture.pass(&TestSegment::from_fast(ACK, 640));
    // Nothing is known about the active flows of the other connections but their number.
    for port in 1..20 {
        let mut datagram = TestSegment::from_fast(ACK, 600).datagram();
        datagram[21] = port;
        fixture.0.enqueue_from_host(&datagram);
    }
    let segment = TestSegment::from_slow(ACK, 1, 20_000);
    fixture.0.inject(0, &segment.datagram());
    let received = fixture.0.received_by_host().remove(0);
    assert_eq!(u16::from_be_bytes([received[34], received[35]]), 2 * 640);
}

#[test]
fn the_limit_is_at_most_the_packets_of_the_queue() {
    let parameters = crate::queue::Concentrator1982 { buffers: 5, ..Default::default() };
    let discipline = crate::queue::Discipline::Of1982(parameters);
    let line = LineSettings { mtu: 700, rate_bps: Some(9_600), discipline, ..slip_line(SLOW) };
    let mut fixture = WindowFixture(Fixture::new(vec![line]));
    fixture.open(None, None);
    fixture.pass(&TestSegment::from_fast(ACK, 82));
    assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000)), 5 * 82);
}

#[test]
fn a_right_edge_that_was_passed_on_is_not_withdrawn() {
    let mut fixture = WindowFixture::new();
    fixture.open(None, None);
    assert_eq!(u32::from(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000))), LIMIT);
    for number in 0..10 {
        fixture.pass(&TestSegment::from_fast(ACK, 82).at(1 + number * 82));
    }
    let field = fixture.pass(&TestSegment::from_slow(ACK, 101, 20_000));
    assert_eq!(u32::from(field), LIMIT - 100);
}

#[test]
fn the_limit_includes_the_round_trip_to_the_fast_host() {
    let mut fixture = WindowFixture::new();
    fixture.pass(&TestSegment::from_slow(SYN, 0, 20_000));
    fixture.0.context.advance(Duration::from_millis(500));
    fixture.pass(&TestSegment::from_fast(SYN | ACK, 0));
    let field = fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000));
    assert_eq!(u32::from(field), LIMIT + 480);
}

#[test]
fn a_line_without_limits_or_without_a_rate_changes_no_window() {
    let line = LineSettings { mtu: 700, rate_bps: Some(9_600), ..slip_line(SLOW) };
    let unlimited = LineSettings { limits_windows: false, ..line.clone() };
    for line in [unlimited, LineSettings { rate_bps: None, ..line }] {
        let mut fixture = WindowFixture(Fixture::new(vec![line]));
        fixture.open(None, None);
        assert_eq!(fixture.pass(&TestSegment::from_slow(ACK, 1, 20_000)), 20_000);
    }
}

proptest! {
    #[test]
    fn a_window_is_never_raised_never_lowered_to_zero_and_never_withdrawn(
        slow in prop::option::of(0..15_u8),
        fast in prop::option::of(0..15_u8),
        first_ack: u32,
        steps in prop::collection::vec((0..3_000_u32, any::<u16>(), 0..600_usize), 1..40),
    ) {
        let mut fixture = WindowFixture::new();
        fixture.open(slow, fast);
        let shift = slow.and_then(|shift| fast.map(|_| shift)).unwrap_or(0);
        let mut acknowledged = first_ack;
        let mut offered_edge: Option<u32> = None;
        let mut passed_edge: Option<u32> = None;
        for (advance, window, data_len) in steps {
            fixture.pass(&TestSegment::from_fast(ACK, data_len));
            acknowledged = acknowledged.wrapping_add(advance);
            let field = fixture.pass(&TestSegment::from_slow(ACK, acknowledged, window));
            prop_assert!(field <= window);
            prop_assert_eq!(field == 0, window == 0);
            let edge = |field: u16| acknowledged.wrapping_add(u32::from(field) << shift);
            let distance = |from: u32, to: u32| to.wrapping_sub(from).cast_signed();
            let is_offer_withdrawn =
                offered_edge.is_some_and(|offered| distance(offered, edge(window)) < 0);
            // The edge moves to the left only if the host moves it there itself.
            prop_assert!(
                is_offer_withdrawn
                    || passed_edge.is_none_or(|passed| distance(passed, edge(field)) >= 0)
                    || field == window
            );
            offered_edge = Some(edge(window));
            passed_edge = Some(edge(field));
        }
    }
}
