//! Tests of the local and remote addresses of connections, and of the IP header fields of segments:
//! RFC 9293 §3.9.1.

use super::*;

const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));

/// Delivers a SYN for `local`, and returns the answer, if there is one.
fn send_syn(script: &mut Script, local: IpAddr) -> Option<(internet::Header, Flags)> {
    let header = Header {
        source_port: 4000,
        destination_port: PORT,
        flags: Flags::SYN,
        ..Header::default()
    };
    let ends = (SocketAddr::new(CLIENT, 4000), SocketAddr::new(local, PORT));
    let packet = make(header, ends, b"");
    deliver_bytes(&mut script.tcp, (CLIENT, local), packet.data(), &mut script.context.cx());
    next(script)
}

/// Returns the Internet header and the flags of the next segment.
fn next(script: &mut Script) -> Option<(internet::Header, Flags)> {
    let mut pool = Pool::new(1, 2000);
    let segment = script.tcp.transmit(&mut pool, &mut script.context.cx())?;
    let source = segment.lower.source;
    let destination = segment.lower.destination;
    let (header, _) = read(source, destination, segment.packet.data());
    Some((segment.lower, header.flags))
}

// req RFC9293:MUST-43
#[test]
fn a_passive_open_at_one_address_is_not_for_another() {
    let mut script = Script::new();
    script.tcp.listen_at(SocketAddr::new(SERVER, PORT), PLAIN).unwrap();
    let (_, flags) = send_syn(&mut script, SERVER).unwrap();
    assert_eq!(flags, SYN_ACK);
    let (_, flags) = send_syn(&mut script, OTHER).unwrap();
    assert_eq!(flags, RST_ACK);
    script.tcp.stop_listening_at(SocketAddr::new(SERVER, PORT));
    assert_eq!(script.tcp.connections(), 0);
}

// req RFC9293:MUST-43
#[test]
fn a_listener_at_one_address_takes_precedence_over_one_at_all_addresses() {
    let mut script = Script::new();
    let small_mss_profile = Profile { mss_max: Some(100), ..PLAIN };
    script.tcp.listen(PORT, PLAIN).unwrap();
    script.tcp.listen_at(SocketAddr::new(SERVER, PORT), small_mss_profile).unwrap();
    for (local, mss) in [(SERVER, 100), (OTHER, 1460)] {
        send_syn(&mut script, local).unwrap();
        let ends = (SocketAddr::new(local, PORT), SocketAddr::new(CLIENT, 4000));
        let (_, connection) = script.tcp.table.find(ends).unwrap();
        assert_eq!(connection.receive_mss(), mss);
    }
}

// req RFC1122:3.3.4.2-MUST-1
// req RFC9293:MUST-43, RFC9293:MUST-45
#[test]
fn all_segments_of_an_active_open_have_the_given_source_address() {
    let mut pair = Pair::new(1);
    pair.connect(PLAIN);
    let remote = SocketAddr::new(SERVER, PORT);
    let id = pair.client.open(OTHER, remote, PLAIN, &mut pair.context.cx()).unwrap();
    let mut pool = Pool::new(1, 2000);
    let mut segments = 0;
    for _ in 0..3 {
        while let Some(segment) = pair.client.transmit(&mut pool, &mut pair.context.cx()) {
            assert_eq!(segment.lower.source, OTHER);
            pool.put(segment.packet);
            segments += 1;
        }
        pair.context.advance(Duration::from_secs(10));
        pair.client.timeout(&mut pair.context.cx());
    }
    assert_eq!(segments, 3);
    assert_eq!(pair.client.status(id).unwrap().local.ip(), OTHER);
}

// req RFC9293:MUST-45
#[test]
fn all_segments_of_a_passive_open_have_the_called_source_address() {
    let mut script = Script::new();
    script.tcp.listen(PORT, PLAIN).unwrap();
    for local in [OTHER, SERVER] {
        let (lower, flags) = send_syn(&mut script, local).unwrap();
        assert_eq!((lower.source, lower.destination, flags), (local, CLIENT, SYN_ACK));
    }
}

// req RFC9293:MUST-41
#[test]
fn a_passive_open_does_not_affect_existing_connections() {
    let mut script = Script::established(PLAIN);
    script.tcp.stop_listening(PORT);
    script.tcp.listen(PORT, Profile { mss_max: Some(100), ..PLAIN }).unwrap();
    assert_eq!(script.tcp.listen(PORT, PLAIN), Err(ListenError::InUse));
    assert_eq!(extents(&script.send(&pattern(1000))), [(1, 1000)]);
    script.peer(Flags::ACK, 1, 1001, b"more");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"more");
}

// req RFC9293:MUST-42
#[test]
fn the_port_of_an_opening_connection_can_be_listened_on() {
    let mut script = Script::syn_sent(PLAIN);
    script.tcp.listen(script.port, PLAIN).unwrap();
    assert_eq!(script.state(), Some(State::SynSent));
    let mut script = Script::syn_received(PLAIN);
    let other_local = SocketAddr::new(OTHER, PORT);
    script.tcp.listen_at(other_local, PLAIN).unwrap();
    assert_eq!(script.state(), Some(State::SynReceived));
}

// req RFC1122:3.2.1.6-MUST-1, RFC1122:3.2.1.7-MUST-3, RFC1122:3.4-MUST-1
// req RFC9293:MUST-48, RFC9293:MUST-49
#[test]
fn a_marking_is_on_every_segment_from_the_syn_on() {
    let marking = Marking { dscp: 0xB8, hops: Some(3) };
    let mut script = Script::new();
    let remote = SocketAddr::new(CLIENT, 4000);
    let profile = Profile { marking, ..PLAIN };
    let id = script.tcp.open(SERVER, remote, profile, &mut script.context.cx()).unwrap();
    let (lower, _) = next(&mut script).unwrap();
    assert_eq!((lower.dscp_ecn, lower.hop_limit), (0xB8, 3));
    assert_eq!(script.tcp.status(id).unwrap().state, State::SynSent);
}

// req RFC9293:MUST-48, RFC9293:MUST-49, RFC9293:SHLD-21
#[test]
fn a_marking_can_be_changed_and_touches_no_bit_of_congestion_notification() {
    let mut script = Script::established(PLAIN);
    let id = script.id.unwrap();
    let marked = |script: &mut Script, marking| {
        script.tcp.set_marking(id, marking).unwrap();
        script.tcp.send_urgent(id, b"x").unwrap();
        next(script).map(|(lower, _)| (lower.dscp_ecn, lower.hop_limit))
    };
    assert_eq!(marked(&mut script, Marking::DEFAULT), Some((0, 0)), "as the host has it");
    assert_eq!(marked(&mut script, Marking { dscp: 0xFF, hops: Some(255) }), Some((0xFC, 255)));
}

// req RFC9293:MUST-15
#[test]
fn over_ipv6_segments_have_1220_bytes_unless_the_peer_says_more() {
    let ends = ("[fd00::1]:4000".parse().unwrap(), "[fd00::2]:23".parse().unwrap());
    let (client, server): (SocketAddr, SocketAddr) = ends;
    let mut script = Script::listening(PLAIN);
    let mut deliver = |flags, seq, ack| {
        let header = Header {
            source_port: 4000,
            destination_port: PORT,
            seq: Seq(seq),
            ack,
            flags,
            window: 60_000,
            ..Header::default()
        };
        let packet = make(header, ends, b"");
        deliver_bytes(
            &mut script.tcp,
            (client.ip(), server.ip()),
            packet.data(),
            &mut script.context.cx(),
        );
        let mut pool = Pool::new(1, 2000);
        let segment = script.tcp.transmit(&mut pool, &mut script.context.cx());
        segment.map(|segment| read(server.ip(), client.ip(), segment.packet.data()).0)
    };
    let answer = deliver(Flags::SYN, 0, Seq(0)).unwrap();
    assert_eq!(answer.options.mss, Some(1440));
    assert_eq!(deliver(Flags::ACK, 1, answer.seq + 1), None);
    let (id, connection) = script.tcp.table.find((server, client)).unwrap();
    assert_eq!(connection.snd.mss(), 1220);
    assert_eq!(script.tcp.status(id).unwrap().state, State::Established);
}

// req RFC9293:MUST-15
#[test]
fn over_ipv6_segments_have_1220_bytes_unless_the_answer_to_our_syn_says_more() {
    let local: IpAddr = "fd00::2".parse().unwrap();
    let remote: SocketAddr = "[fd00::1]:4000".parse().unwrap();
    let mut script = Script::new();
    let id = script.tcp.open(local, remote, PLAIN, &mut script.context.cx()).unwrap();
    let mut pool = Pool::new(1, 2000);
    let syn = script.tcp.transmit(&mut pool, &mut script.context.cx()).unwrap();
    let (syn, _) = read(local, remote.ip(), syn.packet.data());
    let answer = Header {
        source_port: 4000,
        destination_port: syn.source_port,
        seq: Seq(0),
        ack: syn.seq + 1,
        flags: SYN_ACK,
        window: 60_000,
        ..Header::default()
    };
    let packet = make(answer, (remote, SocketAddr::new(local, syn.source_port)), b"");
    deliver_bytes(&mut script.tcp, (remote.ip(), local), packet.data(), &mut script.context.cx());
    let status = script.tcp.status(id).unwrap();
    assert_eq!((status.state, status.send_mss), (State::Established, 1220));
}
