//! Tests of PPP with two directly connected ends: opening, data, and termination.

use super::*;
use crate::cx::OwnedCx;
use proptest::prelude::*;
use std::string::String;
use std::vec;

const MTU: usize = 1500;
const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// One end, with its pool and its events.
struct End {
    ppp: Ppp,
    pool: Pool,
    received: Vec<Vec<u8>>,
    failed: usize,
    events: Vec<String>,
}

impl End {
    fn new(settings: Settings) -> Self {
        let ppp = Ppp::new(MTU, settings);
        let pool = Pool::new(8, MTU);
        Self { ppp, pool, received: Vec::new(), failed: 0, events: Vec::new() }
    }

    fn send(&mut self, data: &[u8], context: &mut OwnedCx) {
        let mut packet = self.pool.take(&mut context.meter).unwrap();
        packet.extend(data);
        if let Err(packet) = self.ppp.send(packet, &mut context.cx()) {
            self.pool.put(packet);
        }
    }

    fn transmit(&mut self, context: &mut OwnedCx) -> Vec<u8> {
        let mut wire = Vec::new();
        self.ppp.transmit_into(&mut wire, 50, &mut context.cx());
        wire
    }

    fn receive(&mut self, bytes: &[u8], context: &mut OwnedCx) {
        self.ppp.receive(bytes, &mut self.pool, &mut context.cx());
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(event) = self.ppp.event() {
            match &event {
                Event::Received(packet) => self.received.push(packet.data().to_vec()),
                Event::Failed(_) => self.failed += 1,
                Event::Sent(_) => {}
                event => self.events.push(std::format!("{event:?}")),
            }
            event.into_packet().into_iter().for_each(|packet| self.pool.put(packet));
        }
    }
}

fn local_settings() -> Settings {
    Settings { address: Some(HERE), ..Settings::default() }
}

/// Returns the settings of an end that provides an address for the peer.
fn address_server_settings() -> Settings {
    Settings { address: Some(THERE), peer_address: Some(HERE), ..Settings::default() }
}

/// Opens both ends, and transfers their output until neither end has output.
fn connected(a: Settings, b: Settings, context: &mut OwnedCx) -> [End; 2] {
    let mut ends = [End::new(a), End::new(b)];
    ends.iter_mut().for_each(|end| end.ppp.open(&mut context.cx()));
    carry(&mut ends, context);
    ends
}

fn carry([a, b]: &mut [End; 2], context: &mut OwnedCx) {
    while a.ppp.has_output() || b.ppp.has_output() {
        let wire = a.transmit(context);
        b.receive(&wire, context);
        let wire = b.transmit(context);
        a.receive(&wire, context);
    }
    a.collect();
    b.collect();
}

/// Advances time and processes the timers of both ends until `until` returns true.
fn run_until(ends: &mut [End; 2], context: &mut OwnedCx, until: impl Fn(&[End; 2]) -> bool) {
    for _ in 0..200 {
        carry(ends, context);
        if until(ends) {
            return;
        }
        let next = ends.iter().filter_map(|end| end.ppp.deadline()).min();
        context.now = next.expect("nothing is waited for");
        ends.iter_mut().for_each(|end| end.ppp.timeout(&mut context.cx()));
    }
    panic!("it did not come");
}

#[test]
fn two_ends_negotiate_addresses_identifiers_and_compression() {
    let mut context = OwnedCx::default();
    let [a, b] = connected(Settings::default(), address_server_settings(), &mut context);
    assert_eq!(a.ppp.addresses(), [Some(HERE), Some(THERE)]);
    assert_eq!(b.ppp.addresses(), [Some(THERE), Some(HERE)]);
    let [ours, theirs] = a.ppp.interface_identifiers();
    assert!(ours.is_some() && ours != theirs);
    assert_eq!(b.ppp.interface_identifiers(), [theirs, ours]);
    assert_eq!(a.ppp.compresses_headers(), [true, true]);
    assert_eq!((a.ppp.phase(), a.ppp.close_reason()), (Phase::Network, None));
    assert_eq!(a.events[0], "Address([10, 0, 0, 1])");
    assert!(a.events.contains(&String::from("NetworkUp")));
}

#[test]
fn two_ends_without_an_address_do_not_open_the_network() {
    let mut context = OwnedCx::default();
    let mut ends = connected(Settings::default(), local_settings(), &mut context);
    run_until(&mut ends, &mut context, |ends| !ends[0].ppp.has_output());
    assert_eq!(ends[0].ppp.addresses()[0], None);
}

#[test]
fn only_an_end_that_requests_an_address_gets_the_spare_one() {
    let mut context = OwnedCx::default();
    let spare = Settings { spare_address: Some(THERE), ..local_settings() };
    let [a, b] = connected(spare.clone(), Settings::default(), &mut context);
    assert_eq!([a.ppp.addresses()[1], b.ppp.addresses()[0]], [Some(THERE); 2]);
    let own_address = Some(Ipv4Addr::new(10, 0, 0, 9));
    let [a, _] =
        connected(spare, Settings { address: own_address, ..Settings::default() }, &mut context);
    assert_eq!(a.ppp.addresses()[1], own_address);
}

#[test]
fn datagrams_are_exchanged_with_the_negotiated_fields_omitted() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    ends[0].send(&[0x45, 1, 2, 3], &mut context);
    assert_eq!(ends[0].ppp.line.encoded.len(), ends[0].ppp.line.position);
    let wire = ends[0].transmit(&mut context);
    assert_eq!(wire[..5], [0x21, 0x45, 1, 2, 3]);
    ends[1].receive(&wire, &mut context);
    ends[1].send(&[0x60, 9], &mut context);
    carry(&mut ends, &mut context);
    assert_eq!(ends[1].received, [[0x45, 1, 2, 3]]);
    assert_eq!(ends[0].received, [[0x60, 9]]);
    assert_eq!(ends.map(|end| end.pool.lent()), [0, 0]);
}

#[test]
fn an_ipv4_datagram_waits_for_ipcp_and_an_ipv6_datagram_fails() {
    let mut context = OwnedCx::default();
    let mut ends = [
        End::new(local_settings()),
        End::new(Settings { carries_ipv6: false, ..address_server_settings() }),
    ];
    ends.iter_mut().for_each(|end| end.ppp.open(&mut context.cx()));
    ends[0].send(&[0x45, 1], &mut context);
    ends[0].send(&[0x60, 1], &mut context);
    carry(&mut ends, &mut context);
    assert_eq!((&ends[1].received[..], ends[0].failed), (&[vec![0x45, 1]][..], 1));
}

#[test]
fn a_line_that_is_not_open_rejects_datagrams_and_input() {
    let mut end = End::new(local_settings());
    let mut context = OwnedCx::default();
    end.send(&[0x45], &mut context);
    end.receive(&[FLAG, 0xFF, 3, 0xC0, 0x21, FLAG], &mut context);
    assert_eq!((end.pool.lent(), end.ppp.has_output()), (0, false));
    assert_eq!(context.counted(Counter::PppCheckErrors), 0);
}

#[test]
fn an_end_without_an_answer_gives_up() {
    let mut context = OwnedCx::default();
    let mut end = End::new(local_settings());
    end.ppp.open(&mut context.cx());
    end.send(&[0x45], &mut context);
    while let Some(deadline) = end.ppp.deadline() {
        while !end.transmit(&mut context).is_empty() {}
        context.now = deadline;
        end.ppp.timeout(&mut context.cx());
    }
    end.collect();
    assert_eq!(
        (end.ppp.phase(), end.ppp.close_reason()),
        (Phase::Dead, Some(CloseReason::NotEstablished))
    );
    assert_eq!((end.failed, end.pool.lent()), (1, 0));
}

#[test]
fn an_end_that_closes_terminates_the_link_and_both_report_the_reason() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    ends[0].ppp.close(&mut context.cx());
    run_until(&mut ends, &mut context, |ends| {
        ends.iter().all(|end| end.ppp.phase() == Phase::Dead)
    });
    let endings = ends.each_ref().map(|end| end.ppp.close_reason());
    assert_eq!(endings, [Some(CloseReason::Closed), Some(CloseReason::PeerClosed)]);
    assert_eq!(ends[1].events.last().unwrap(), "NetworkDown");
}

#[test]
fn a_line_that_was_closed_opens_again() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    ends[0].ppp.close(&mut context.cx());
    run_until(&mut ends, &mut context, |ends| {
        ends.iter().all(|end| end.ppp.phase() == Phase::Dead)
    });
    ends[0].ppp.open(&mut context.cx());
    carry(&mut ends, &mut context);
    assert!(ends.iter().all(|end| end.ppp.is_network_up() && end.ppp.close_reason().is_none()));
}

#[test]
fn a_hung_up_line_returns_every_buffer_and_opens_again() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    for end in &mut ends {
        end.send(&[0x45; 100], &mut context);
        end.transmit(&mut context);
        end.receive(&[FLAG, 0x21, 0x45], &mut context);
        end.ppp.reset(&mut end.pool);
        assert_eq!((end.pool.lent(), end.ppp.deadline()), (0, None));
        end.ppp.open(&mut context.cx());
    }
    carry(&mut ends, &mut context);
    assert!(ends.iter().all(|end| end.ppp.is_network_up()));
}

#[test]
fn a_restarted_peer_is_negotiated_with_again() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    ends[0] = End::new(local_settings());
    ends[0].ppp.open(&mut context.cx());
    carry(&mut ends, &mut context);
    assert!(ends.iter().all(|end| end.ppp.is_network_up()));
    let expected_events = ["Address([10, 0, 0, 2])", "NetworkUp"].map(String::from);
    assert!(
        expected_events
            .iter()
            .all(|change| ends[1].events.iter().filter(|n| *n == change).count() == 2)
    );
}

#[test]
fn a_looped_back_line_is_closed() {
    let mut context = OwnedCx::default();
    let mut end = End::new(local_settings());
    end.ppp.open(&mut context.cx());
    for _ in 0..1000 {
        let wire = end.transmit(&mut context);
        end.receive(&wire, &mut context);
    }
    assert_eq!(end.ppp.close_reason(), Some(CloseReason::LoopedBack));
    assert!(context.counted(Counter::PppLoopbacks) > 0 && !end.ppp.is_network_up());
}

#[test]
fn unanswered_echoes_end_a_silent_line() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    let start = context.now;
    let hour = Duration::from_secs(1_000);
    while context.now - start < hour {
        context.now = ends.iter().filter_map(|end| end.ppp.deadline()).min().unwrap();
        ends.iter_mut().for_each(|end| end.ppp.timeout(&mut context.cx()));
        carry(&mut ends, &mut context);
    }
    assert!(ends.iter().all(|end| end.ppp.is_network_up()));
    let cut_at = context.now;
    while ends[0].ppp.phase() == Phase::Network {
        context.now = ends[0].ppp.deadline().unwrap();
        ends[0].ppp.timeout(&mut context.cx());
        while !ends[0].transmit(&mut context).is_empty() {}
    }
    assert_eq!(ends[0].ppp.close_reason(), Some(CloseReason::NoEcho));
    assert_eq!(context.counted(Counter::PppEchoesLost), 4);
    assert!(context.now - cut_at <= ECHO_INTERVAL * 5);
}

fn credentials(secret: &str) -> Credentials {
    Credentials { name: String::from("guest"), secret: String::from(secret) }
}

fn requires_authentication(method: Method) -> Settings {
    let accepted = vec![credentials("right")];
    Settings {
        required_authentication: Some(RequiredAuthentication { method, accepted }),
        ..address_server_settings()
    }
}

#[test]
fn an_end_that_authenticates_opens_the_link_by_either_method() {
    for method in [Method::Pap, Method::Chap] {
        let mut context = OwnedCx::default();
        let prover_settings =
            Settings { credentials: Some(credentials("right")), ..Settings::default() };
        let ends = connected(prover_settings, requires_authentication(method), &mut context);
        assert!(ends.iter().all(|end| end.ppp.is_network_up()), "{method:?}");
    }
}

#[test]
fn an_end_with_a_wrong_secret_or_none_is_rejected() {
    for method in [Method::Pap, Method::Chap] {
        for credentials in [Some(credentials("wrong")), None] {
            let mut context = OwnedCx::default();
            let prover_settings = Settings { credentials, ..Settings::default() };
            let mut ends =
                connected(prover_settings, requires_authentication(method), &mut context);
            run_until(&mut ends, &mut context, |ends| ends[1].ppp.phase() == Phase::Dead);
            assert_eq!(
                ends[1].ppp.close_reason(),
                Some(CloseReason::AuthenticationFailed),
                "{method:?}"
            );
            assert!(!ends[0].events.contains(&String::from("NetworkUp")));
        }
    }
}

#[test]
fn an_unknown_protocol_is_rejected_with_its_packet() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    let mut wire = Vec::new();
    Format::default().encode(0x80FD, &[1, 2, 3], &mut wire);
    ends[0].receive(&wire, &mut context);
    let rejection = ends[0].ppp.lcp.negotiation.transmit().unwrap();
    assert_eq!((rejection[0], &rejection[4..]), (8, &[0x80, 0xFD, 1, 2, 3][..]));
}

#[test]
fn an_unknown_code_is_rejected_and_known_ones_are_not() {
    let mut context = OwnedCx::default();
    let mut ends = connected(local_settings(), address_server_settings(), &mut context);
    let mut wire = Vec::new();
    Format::default().encode(LCP, &[77, 5, 0, 4], &mut wire);
    Format::default().encode(LCP, &[11, 5, 0, 4], &mut wire);
    ends[0].receive(&wire, &mut context);
    let rejection = ends[0].ppp.lcp.negotiation.transmit().unwrap();
    assert_eq!((rejection[0], &rejection[4..]), (7, &[77, 5, 0, 4][..]));
    assert!(!ends[0].ppp.has_output());
}

#[test]
fn a_rejection_of_ipcp_ends_the_line() {
    let mut context = OwnedCx::default();
    let without_ipv6 = |settings| Settings { carries_ipv6: false, ..settings };
    let mut ends = connected(
        without_ipv6(local_settings()),
        without_ipv6(address_server_settings()),
        &mut context,
    );
    let mut wire = Vec::new();
    Format::default().encode(LCP, &[8, 5, 0, 6, 0x80, 0x21], &mut wire);
    ends[0].receive(&wire, &mut context);
    run_until(&mut ends, &mut context, |ends| ends[0].ppp.phase() == Phase::Dead);
    assert_eq!(ends[0].ppp.close_reason(), Some(CloseReason::NoNetwork));
}

#[test]
fn datagrams_fit_the_mru_of_the_peer() {
    let mut context = OwnedCx::default();
    let mut ends = [End::new(local_settings()), End::new(address_server_settings())];
    ends[1].ppp = Ppp::new(576, address_server_settings());
    ends.iter_mut().for_each(|end| end.ppp.open(&mut context.cx()));
    carry(&mut ends, &mut context);
    assert_eq!((ends[0].ppp.mtu(), ends[1].ppp.mtu()), (576, 576));
}

#[test]
fn headers_are_not_compressed_unless_both_ends_permit_it() {
    let mut context = OwnedCx::default();
    let uncompressed = Settings { compresses_headers: false, ..address_server_settings() };
    let [a, b] = connected(local_settings(), uncompressed, &mut context);
    assert_eq!(a.ppp.compresses_headers(), [false, false]);
    assert_eq!(b.ppp.compresses_headers(), [false, false]);
}

proptest! {
    #[test]
    fn two_ends_open_over_a_lossy_line_and_carry_undamaged_datagrams(
        seed: u64,
        losses_ppm in 0..300_000_u32,
    ) {
        let mut context = OwnedCx::with_seed(seed);
        let mut ends = [End::new(local_settings()), End::new(address_server_settings())];
        ends.iter_mut().for_each(|end| end.ppp.open(&mut context.cx()));
        for _ in 0..400 {
            if ends.iter().all(|end| end.ppp.is_network_up()) {
                break;
            }
            for (from, to) in [(0, 1), (1, 0)] {
                let mut wire = Vec::new();
                ends[from].ppp.transmit_into(&mut wire, usize::MAX, &mut context.cx());
                for frame in wire.split_inclusive(|byte| *byte == FLAG) {
                    if !context.rng.random_bool(losses_ppm) {
                        ends[to].receive(frame, &mut context);
                    }
                }
            }
            if ends.iter().all(|end| !end.ppp.has_output()) {
                let next = ends.iter().filter_map(|end| end.ppp.deadline()).min();
                let Some(next) = next else { break };
                context.now = next;
                ends.iter_mut().for_each(|end| end.ppp.timeout(&mut context.cx()));
            }
        }
        prop_assert!(ends.iter().all(|end| end.pool.lent() == 0));
        let is_up_at_both_ends = ends.iter().all(|end| end.ppp.is_network_up());
        let has_given_up = ends.iter().any(|end| end.ppp.close_reason().is_some());
        prop_assert!(is_up_at_both_ends || (has_given_up && losses_ppm > 0));
    }

    #[test]
    fn any_bytes_and_any_frames_leak_no_buffer(
        pieces in prop::collection::vec(
            prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60).prop_map(|noise| (0_u16, noise)),
                (prop::sample::select(&[LCP, IPCP, IPV6CP, auth::PAP, auth::CHAP, IPV4, IPV6,
                    VJ_COMPRESSED, VJ_UNCOMPRESSED, 0x4021][..]),
                 (0..12_u8, 0..4_u8, prop::collection::vec(any::<u8>(), 0..20)))
                    .prop_map(|(protocol, (code, identifier, data))|
                        (protocol, control_packet::emit(code, identifier, &data))),
            ], 0..40),
        is_connected: bool,
    ) {
        let mut context = OwnedCx::default();
        let mut ends = if is_connected {
            connected(local_settings(), requires_authentication(Method::Chap), &mut context)
        } else {
            [End::new(local_settings()), End::new(address_server_settings())]
        };
        ends[0].ppp.open(&mut context.cx());
        for (protocol, bytes) in pieces {
            let mut wire = bytes;
            if protocol != 0 {
                let information = core::mem::take(&mut wire);
                Format::default().encode(protocol, &information, &mut wire);
            }
            ends[0].receive(&wire, &mut context);
            while !ends[0].transmit(&mut context).is_empty() {}
            if let Some(deadline) = ends[0].ppp.deadline() {
                context.now = deadline;
                ends[0].ppp.timeout(&mut context.cx());
            }
        }
        ends[0].collect();
        let End { ppp, pool, .. } = &mut ends[0];
        prop_assert!(pool.lent() <= 1);
        ppp.reset(pool);
        prop_assert_eq!(pool.lent(), 0);
    }
}
