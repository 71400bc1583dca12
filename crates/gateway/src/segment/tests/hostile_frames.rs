//! Hostile frames: cut at each byte, changed at random, and arbitrary.

use super::*;
use net::application::dhcp;

pub(super) fn dhcp_frame() -> Vec<u8> {
    let message = dhcp::Message {
        op: dhcp::Op::Request,
        kind: dhcp::Kind::Request,
        transaction: 7,
        elapsed_s: 0,
        is_broadcast: true,
        client: Ipv4Addr::UNSPECIFIED,
        your_address: Ipv4Addr::UNSPECIFIED,
        relay: Ipv4Addr::UNSPECIFIED,
        mac: GUEST_MAC,
        options: dhcp::Options { requested_address: Some(LEASE), ..dhcp::Options::default() },
    };
    udp_frame(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, (68, 67), &message.emit())
}

/// Valid frames of each kind that the segment answers, and one that it forwards.
fn valid_frames() -> Vec<Vec<u8>> {
    vec![
        arp_frame(Operation::Request, LEASE, GATEWAY),
        solicitation(GATEWAY_V6, GUEST_V6),
        router_solicitation(GUEST_LOCAL),
        router_solicitation(Ipv6Addr::UNSPECIFIED),
        dhcp_frame(),
        udp_frame(LEASE, SERVER, (1, 2), b"data"),
        udp_frame_v6(GUEST_V6, SERVER_V6),
    ]
}

/// Every frame increments exactly one counter.
fn assert_every_frame_is_counted(segment: &Segment) {
    let counters = segment.counters();
    let Counters {
        frames_in,
        frames_out: _,
        datagrams_in,
        malformed_frames,
        vlan_frames,
        llc_frames,
        unknown_types,
        spoofed_frames,
        address_changes: _,
        misdirected_frames,
        malformed_datagrams,
        spoofed_ipv4,
        spoofed_ipv6,
        beyond_scope,
        group_frames,
        group_datagrams,
        malformed_arp,
        spoofed_arp,
        arp_answers,
        arp_ignored,
        malformed_discovery,
        neighbor_answers,
        router_solicitations,
        discovery_ignored,
        advertisements: _,
        malformed_dhcp,
        answers_dropped,
    } = counters;
    let on_link = malformed_frames + vlan_frames + llc_frames + unknown_types + spoofed_frames;
    let spoofed = spoofed_ipv4 + spoofed_ipv6 + spoofed_arp + misdirected_frames;
    let arp = malformed_arp + arp_answers + arp_ignored;
    let discovery =
        malformed_discovery + neighbor_answers + router_solicitations + discovery_ignored;
    let messages = segment.dhcp_counters().map_or(0, |dhcp| dhcp.received);
    let messages_v6 = segment.dhcpv6_counters().map_or(0, |dhcp| dhcp.received);
    let dhcp = malformed_dhcp + messages + messages_v6;
    let groups = group_frames + group_datagrams + beyond_scope;
    let rest = malformed_datagrams + datagrams_in + answers_dropped;
    assert_eq!(frames_in, on_link + spoofed + arp + discovery + dhcp + groups + rest);
}

// attack rows 101, 102
#[test]
fn row_101_and_102_a_frame_cut_at_any_byte_is_counted_and_not_answered() {
    for frame in valid_frames() {
        for len in 0..frame.len() {
            let mut fixture = Fixture::default();
            assert!(fixture.receive(&frame[..len]).is_none(), "{len}");
            assert!(fixture.sent().is_empty(), "{len} bytes of {frame:x?}");
            assert_every_frame_is_counted(&fixture.segment);
        }
        let mut fixture = Fixture::default();
        let is_forwarded = fixture.receive(&frame).is_some();
        assert!(is_forwarded || !fixture.sent().is_empty());
    }
}

// attack rows 101, 102
#[test]
fn row_101_and_102_a_length_beyond_the_frame_reads_nothing_behind_it() {
    // IPv4 total length, UDP length, IPv6 payload length, option of Neighbor Discovery, ARP lengths.
    let fields = [(4, 16), (4, 17), (4, 38), (4, 39), (1, 18), (1, 19), (1, 79), (0, 18), (0, 19)];
    for (index, at) in fields {
        for value in 0..=255 {
            let mut frame = valid_frames()[index].clone();
            let original = std::mem::replace(&mut frame[at], value);
            let mut fixture = Fixture::default();
            let is_forwarded = fixture.receive(&frame).is_some();
            assert_eq!(!fixture.sent().is_empty(), value == original, "{index} {at} {value}");
            assert!(!is_forwarded);
            assert_every_frame_is_counted(&fixture.segment);
        }
    }
}

// attack row 101
#[test]
fn row_101_every_byte_of_an_answer_is_accounted_for() {
    // The buffers of the pool hold other data from before.
    let mut fixture = Fixture::default();
    let old: Vec<Packet> = std::iter::from_fn(|| {
        let mut packet = fixture.pool.take(&mut fixture.context.meter)?;
        packet.append(2048).fill(0xA5);
        Some(packet)
    })
    .collect();
    old.into_iter().for_each(|packet| fixture.pool.put(packet));
    for frame in valid_frames() {
        if let Some(packet) = fixture.receive(&frame) {
            fixture.pool.put(packet);
        }
        for answer in fixture.sent() {
            let is_old = answer.windows(2).any(|pair| pair == [0xA5, 0xA5]);
            assert!(!is_old, "{answer:x?}");
            assert_answer_is_complete(&answer);
        }
    }
}

/// Checks that an answer contains its headers, one message and zeros as padding.
fn assert_answer_is_complete(answer: &[u8]) {
    let header = Header::parse(answer).unwrap().header;
    assert_eq!(header.source, GATEWAY_MAC);
    let content = &answer[14..];
    let len = match header.ether_type {
        EtherType::Arp => {
            ArpPacket::parse(content).unwrap();
            28
        }
        EtherType::Ipv4 => ipv4::Header::parse(content).unwrap().total_len,
        EtherType::Ipv6 => ipv6::Header::parse(content).unwrap().total_len,
        EtherType::Other(other) => panic!("{other:#x}"),
    };
    assert!(content[len..].iter().all(|byte| *byte == 0));
    assert_eq!(answer.len(), (len + 14).max(60));
}

/// Passes `frame` to the segment, and checks all of its output.
fn step(fixture: &mut Fixture, frame: &[u8]) {
    if let Some(packet) = fixture.receive(frame) {
        let source = match packet.data()[0] >> 4 {
            4 => ipv4::Header::parse(packet.data()).unwrap().header.source == LEASE,
            _ => {
                let source = ipv6::Header::parse(packet.data()).unwrap().header.source;
                is_link_local(source) || source.segments()[..4] == PREFIX.segments()[..4]
            }
        };
        assert!(source, "only the guest's own addresses pass");
        fixture.pool.put(packet);
    }
    fixture.context.advance_millis(fixture.context.rng.clone().below(5000));
    fixture.timeout();
    fixture.sent().iter().for_each(|answer| assert_answer_is_complete(answer));
    assert_every_frame_is_counted(&fixture.segment);
    assert_eq!(fixture.pool.lent(), 0, "no packet leaks");
    while fixture.segment.event().is_some() {}
}

/// Changes up to four bytes of a frame, or cuts it.
fn mutate(frame: &mut Vec<u8>, rng: &mut net::rng::Rng) {
    for _ in 0..rng.below(5) {
        let at = usize::try_from(rng.below(frame.len() as u64)).unwrap();
        frame[at] = rng.next_u64().to_be_bytes()[0];
    }
    if rng.below(4) == 0 {
        frame.truncate(usize::try_from(rng.below(frame.len() as u64)).unwrap());
    }
}

// attack rows 101, 102
#[test]
fn row_101_and_102_valid_frames_with_random_changes_are_counted() {
    for seed in 0..20 {
        let mut rng = net::rng::Rng::from_seed(seed);
        let settings = if seed % 2 == 0 { settings() } else { settings_of_every_other_address() };
        // The first frame may have another source by a random change.
        let guest_mac = Some(GUEST_MAC);
        let mut fixture = Fixture::new(Settings { guest_mac, ..settings });
        let frames = valid_frames();
        for _ in 0..500 {
            let index = usize::try_from(rng.below(frames.len() as u64)).unwrap();
            let mut frame = frames[index].clone();
            mutate(&mut frame, &mut rng);
            step(&mut fixture, &frame);
        }
        assert!(fixture.segment.counters().datagrams_in > 0, "seed {seed}");
    }
}

proptest! {
    // attack rows 101, 102
    #[test]
    fn row_101_and_102_any_content_of_a_frame_is_counted(
        kind in prop::sample::select(vec![0x0800_u16, 0x0806, 0x86DD, 0x8100, 0x0100]),
        content in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        step(&mut Fixture::default(), &from_guest(kind, &content));
    }

    // attack row 102
    #[test]
    fn row_102_any_options_of_a_solicitation_are_counted(
        kind in 133_u8..138, body in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let mut message = [&[kind, 0, 0, 0], &body[..]].concat();
        icmpv6::seal(GUEST_LOCAL, GATEWAY_LOCAL, &mut message);
        let mut packet = Packet::from_slice(&message);
        local_messages::push_discovery(&mut packet, GUEST_LOCAL, GATEWAY_LOCAL);
        step(&mut Fixture::default(), &from_guest(0x86DD, packet.data()));
    }

    // attack row 101
    #[test]
    fn row_101_any_options_of_a_dhcp_message_are_counted(
        options in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let frame = dhcp_frame();
        let fixed = &frame[42..42 + 240];
        let payload = [fixed, &options].concat();
        let frame = udp_frame(Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, (68, 67), &payload);
        step(&mut Fixture::default(), &frame);
    }
}
