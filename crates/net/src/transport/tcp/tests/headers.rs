//! Tests of the form of every segment: RFC 9293 §3.1, §3.2 and §3.9.1.2.

use super::*;

// req RFC9293:MUST-1, RFC9293:REC-1
#[test]
fn a_window_of_65535_bytes_is_not_read_as_negative() {
    let mut script = Script::established(PLAIN);
    script.window = 0xFFFF;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.status().send_window, 65_535);
    let mut sent = 0;
    script.send(&pattern(65_000)).iter().for_each(|segment| sent += segment.len);
    for _ in 0..10 {
        let acked = u32::try_from(sent).unwrap();
        script.peer(Flags::ACK, 1, 1 + acked, b"").iter().for_each(|more| sent += more.len);
    }
    assert_eq!(sent, 65_000);
}

/// Returns the bytes after the end of the option list.
fn bytes_after_end(mut options: &[u8]) -> &[u8] {
    while let [kind, rest @ ..] = options {
        options = match kind {
            0 => return rest,
            1 => rest,
            _ => &options[usize::from(rest[0])..],
        };
    }
    options
}

// req RFC9293:MUST-2, RFC9293:MUST-65, RFC9293:MUST-69
#[test]
fn every_segment_is_read_by_another_parser_and_only_syns_have_a_size() {
    let mut pair = Pair::new(1);
    let mut pool = Pool::new(4, 2000);
    pair.server.listen(PORT, Profile::BULK).unwrap();
    let remote = SocketAddr::new(SERVER, PORT);
    let id = pair.client.open(CLIENT, remote, Profile::BULK, &mut pair.context.cx()).unwrap();
    let mut segments = 0;
    let mut with_mss_option = 0;
    for round in 0..20 {
        if round == 5 {
            pair.client.send(id, &pattern(20_000)).unwrap();
            pair.client.close(id).unwrap();
        }
        for side in [Side::Client, Side::Server] {
            loop {
                let tcp = if side == Side::Client { &mut pair.client } else { &mut pair.server };
                let Some(segment) = tcp.transmit(&mut pool, &mut pair.context.cx()) else { break };
                let theirs = etherparse::TcpSlice::from_slice(segment.packet.data()).unwrap();
                let source = side.address();
                let destination = side.other().address();
                let (IpAddr::V4(from), IpAddr::V4(to)) = (source, destination) else {
                    panic!("both are of IPv4");
                };
                let sum = theirs.calc_checksum_ipv4(from.octets(), to.octets()).unwrap();
                assert_eq!(sum, theirs.checksum());
                assert_eq!(theirs.options().len() % 4, 0);
                assert!(bytes_after_end(theirs.options()).iter().all(|byte| *byte == 0));
                let options: Vec<_> = theirs.options_iterator().collect();
                assert!(options.iter().all(Result::is_ok), "{options:?}");
                let has_mss_option = theirs.options().windows(2).any(|pair| pair == [2, 4]);
                assert_eq!(has_mss_option, theirs.syn());
                segments += 1;
                with_mss_option += usize::from(has_mss_option);
                let bytes = segment.packet.data().to_vec();
                pool.put(segment.packet);
                let other = if side == Side::Client { &mut pair.server } else { &mut pair.client };
                deliver_bytes(other, (source, destination), &bytes, &mut pair.context.cx());
            }
        }
        pair.context.advance(Duration::from_millis(50));
        pair.client.timeout(&mut pair.context.cx());
        pair.server.timeout(&mut pair.context.cx());
    }
    assert_eq!(with_mss_option, 2);
    assert!(segments > 15, "{segments}");
}

// req RFC9293:MUST-3
#[test]
fn a_segment_with_a_wrong_checksum_is_counted_and_changes_nothing() {
    let mut script = Script::established(PLAIN);
    let header = Header {
        source_port: 4000,
        destination_port: PORT,
        seq: script.irs + 1,
        ack: script.iss + 1,
        flags: Flags::ACK,
        window: 100,
        ..Header::default()
    };
    let ends = (SocketAddr::new(CLIENT, 4000), SocketAddr::new(SERVER, PORT));
    let mut bytes = make(header, ends, b"data").data().to_vec();
    bytes[20] ^= 0x40;
    deliver_bytes(&mut script.tcp, (CLIENT, SERVER), &bytes, &mut script.context.cx());
    assert_eq!(script.output(), []);
    assert_eq!((script.status().receive_queue, script.status().send_window), (0, 60_000));
    assert_eq!(script.counted(Counter::TcpChecksumErrors), 1);
}

// req RFC9293:MUST-4, RFC9293:MUST-5, RFC9293:MUST-6, RFC9293:MUST-64
#[test]
fn options_are_read_at_any_byte_and_unknown_ones_skipped() {
    for padding in [&[1][..], &[1, 1], &[1, 1, 1], &[253, 3, 7], &[254, 5, 7, 7, 7], &[]] {
        let mut options = padding.to_vec();
        options.extend([2, 4, 2, 188, 0]);
        options.resize(options.len().next_multiple_of(4), 0);
        let header = Header {
            source_port: 4000,
            destination_port: PORT,
            flags: Flags::SYN,
            window: 60_000,
            ..Header::default()
        };
        let mut bytes = [0; header::MAX_HEADER_LEN];
        let len = header.emit(&mut bytes);
        let mut segment = [&bytes[..len], &options].concat();
        segment[12] = u8::try_from(segment.len() / 4).unwrap() << 4;
        let sum = LOWER.sum(CLIENT, SERVER, &segment).finish();
        segment[header::CHECKSUM].copy_from_slice(&sum.to_be_bytes());
        let mut script = Script::listening(PLAIN);
        deliver_bytes(&mut script.tcp, (CLIENT, SERVER), &segment, &mut script.context.cx());
        let ends = (SocketAddr::new(SERVER, PORT), SocketAddr::new(CLIENT, 4000));
        let (_, connection) = script.tcp.table.find(ends).unwrap();
        assert_eq!(connection.snd.mss(), 700, "{padding:?}");
        assert_eq!(script.counted(Counter::TcpOptionErrors), 0);
    }
}

// req RFC9293:MUST-4
#[test]
fn bytes_after_the_end_of_the_options_are_ignored() {
    let mut script = Script::established(PLAIN);
    script.deliver_raw(&[0, 2, 0, 9], b"data");
    assert_eq!(script.tcp.received(script.id.unwrap()).unwrap(), b"data");
    assert_eq!(script.counted(Counter::TcpOptionErrors), 0);
}

// req RFC9293:MUST-61, RFC9293:SHLD-27
#[test]
fn only_the_last_segment_of_queued_data_has_the_push_bit() {
    let mut script = Script::established(PLAIN);
    let sent = script.send(&pattern(4500));
    let pushed: Vec<_> = sent.iter().map(|segment| segment.flags.has(Flags::PSH)).collect();
    assert_eq!(extents(&sent).len(), 4);
    assert_eq!(pushed, [false; 4], "Nagle holds the rest");
    let last = script.peer(Flags::ACK, 1, 4001, b"");
    assert_eq!(texts(&last), ["<PSH,ACK seq 4001 ack 1 len 500>"]);
}

// req RFC9293:MUST-60
#[test]
fn data_without_a_push_is_sent_without_a_flush() {
    let mut script = Script::established(PLAIN);
    script.send(b"a");
    assert_eq!(script.send(b"b"), []);
    // If the acknowledgment of `a` is lost, `a` is retransmitted. The acknowledgment of that
    // retransmission allows `b` to be sent.
    let retransmitted = script.wait_millis(1000);
    assert!(
        retransmitted.iter().any(|segment| (segment.seq, segment.len) == (1, 1)),
        "{retransmitted:?}"
    );
    let sent = script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(extents(&sent), [(2, 1)]);
}

// req RFC9293:SHLD-2
#[test]
fn a_reset_that_carries_data_is_a_reset() {
    let mut script = Script::established(PLAIN);
    script.peer(Flags::RST, 1, 0, b"out of memory");
    assert_eq!(script.close_reason(), Some(CloseReason::Reset));
    assert!(script.tcp.received(script.id.unwrap()).unwrap().is_empty());
}

// req RFC9293:MUST-31
#[test]
fn urgent_data_of_a_hundred_thousand_bytes_arrives_and_is_reported_to_its_end() {
    let mut pair = Pair::new(1);
    let (client, server) = pair.connect(Profile::BULK);
    let data = pattern(100_000);
    let queued_len = pair.client.send_urgent(client, &data).unwrap();
    assert_eq!(queued_len, data.len());
    let mut received = Vec::new();
    let mut was_urgent_to = 0;
    for _ in 0..10_000 {
        let chunk = pair.server.received(server).unwrap().to_vec();
        if let Some(ahead) = pair.server.urgent_ahead(server).unwrap() {
            was_urgent_to = was_urgent_to.max(received.len() + ahead);
        }
        let count = chunk.len().min(1000);
        received.extend_from_slice(&chunk[..count]);
        pair.server.consume(server, count).unwrap();
        pair.run(Duration::from_millis(1));
    }
    assert!(received == data);
    assert_eq!(was_urgent_to, data.len());
    assert_eq!(pair.server.urgent_ahead(server).unwrap(), None);
}

#[test]
fn only_a_segment_above_the_mss_of_the_peer_is_split_by_the_device() {
    let mut script = Script::established(PLAIN);
    script.tcp.lower.tso = true;
    let id = script.id.unwrap();
    let mut pool = Pool::new(4, 10_000);
    let mut sent = |script: &mut Script, len: usize| {
        script.tcp.send(id, &pattern(len)).unwrap();
        let segment = script.tcp.transmit(&mut pool, &mut script.context.cx()).unwrap();
        let sent = (segment.packet.len() - header::HEADER_LEN, segment.packet.offload.segment_size);
        pool.put(segment.packet);
        sent
    };
    assert_eq!(sent(&mut script, 5000), (5000, 1000));
    script.peer(Flags::ACK, 1, 5001, b"");
    assert_eq!(sent(&mut script, 1000), (1000, 0));
    script.peer(Flags::ACK, 1, 6001, b"");
    assert_eq!(sent(&mut script, 300), (300, 0));
}

#[test]
fn with_checksum_offload_a_segment_has_the_sum_of_its_pseudo_header() {
    let mut script = Script::established(PLAIN);
    script.tcp.lower.checksum_offload = true;
    let id = script.newest();
    assert_eq!(script.tcp.send(id, b"data").unwrap(), 4);
    let mut pool = Pool::new(4, 2000);
    let segment = script.tcp.transmit(&mut pool, &mut script.context.cx()).unwrap();
    assert_eq!(segment.packet.offloaded_checksum(), Some((0, 16)));
    let sum = internet::pseudo_header(SERVER, CLIENT, Protocol::Tcp, 24).unfinished();
    let bytes = segment.packet.data();
    assert_eq!((&bytes[16..18], &bytes[20..]), (&sum.to_be_bytes()[..], &b"data"[..]));
}
