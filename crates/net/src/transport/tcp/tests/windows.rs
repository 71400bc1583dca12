//! Tests of windows: RFC 9293 §3.7.4 and §3.8.6; rows 34 and 43 of docs/ledger/attacks.txt.

use super::*;

fn peer_window(window: u16) -> Script {
    let mut script = Script::established(PLAIN);
    script.window = window;
    script.peer(Flags::ACK, 1, 1, b"");
    script
}

// req RFC9293:MUST-36, RFC9293:MUST-37
#[test]
fn a_zero_window_is_probed_indefinitely_while_the_peer_answers() {
    let mut script = peer_window(0);
    assert_eq!(script.send(b"abc"), []);
    let end = script.context.now + Duration::from_secs(86_400);
    let mut probes = 0;
    while script.context.now < end {
        for probe in script.wait(Duration::from_secs(60)) {
            assert_eq!((probe.seq, probe.len), (1, 1));
            probes += 1;
            script.peer(Flags::ACK, 1, 1, b"");
        }
    }
    assert!((1400..1460).contains(&probes), "about one a minute: {probes}");
    script.window = 1000;
    let sent = script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(extents(&sent), [(1, 3)]);
}

// req RFC9293:SHLD-29, RFC9293:SHLD-30
#[test]
fn probes_begin_after_a_timeout_and_back_off() {
    let mut script = peer_window(0);
    script.send(b"abc");
    let sent = script.wait(Duration::from_secs(7));
    let probe_times: Vec<_> = sent.iter().map(|probe| probe.millis).collect();
    assert_eq!(probe_times, [200, 600, 1400, 3000, 6200]);
}

#[test]
fn a_zero_window_is_given_up_if_the_peer_answers_nothing() {
    let mut script = peer_window(0);
    script.send(b"abc");
    script.wait(Duration::from_secs(300));
    assert_eq!(script.close_reason(), Some(CloseReason::TimedOut));
}

// attack row 34
#[test]
fn attack_34_a_released_connection_does_not_wait_for_the_window() {
    let mut script = peer_window(0);
    script.send(b"abc");
    script.release();
    for _ in 0..150 {
        script.wait(Duration::from_secs(1));
        script.peer(Flags::ACK, 1, 1, b"");
    }
    assert_eq!((script.state(), script.tcp.connections()), (None, 0));
}

#[test]
fn an_accepted_probe_counts_as_sent() {
    let mut script = peer_window(0);
    script.send(b"abc");
    script.wait_millis(300);
    script.window = 100;
    let sent = script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(extents(&sent), [(2, 2)]);
}

#[test]
fn a_fin_alone_probes_a_zero_window_too() {
    let mut script = peer_window(0);
    script.close();
    let sent = script.wait_millis(300);
    assert_eq!(texts(&sent), ["<FIN,ACK seq 1 ack 1 len 0>"]);
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.state(), Some(State::FinWait2));
}

// req RFC9293:MUST-34, RFC9293:MUST-35
#[test]
fn a_window_that_closes_over_data_in_flight_loses_no_data() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(5000));
    script.window = 0;
    script.peer(Flags::ACK, 1, 2001, b"");
    for _ in 0..200 {
        for probe in script.wait(Duration::from_secs(1)) {
            assert!((probe.seq, probe.len) == (2001, 1), "{}", probe.text());
            script.peer(Flags::ACK, 1, 2001, b"");
        }
    }
    script.window = 60_000;
    script.peer(Flags::ACK, 1, 2001, b"");
    let sent = script.wait(Duration::from_secs(2));
    assert!(!sent.is_empty() || script.status().statistics.retransmissions > 0);
    script.peer(Flags::ACK, 1, 5001, b"");
    assert_eq!(script.status().send_queue, 0);
}

#[test]
fn an_acknowledgment_at_a_zero_window_has_the_number_that_the_peer_expects() {
    let mut script = peer_window(0);
    script.send(b"abc");
    script.wait_millis(300);
    let answer = script.peer(Flags::ACK.with(Flags::PSH), 1, 1, &pattern(3000));
    assert_eq!(texts(&answer), ["<ACK seq 1 ack 3001 len 0>"]);
}

// req RFC9293:MUST-38
// attack row 43
#[test]
fn the_sender_makes_no_silly_segment_of_a_small_window() {
    let mut script = Script::established(Profile { nagle: false, ..PLAIN });
    script.window = 2000;
    script.peer(Flags::ACK, 1, 1, b"");
    script.send(&pattern(5000));
    script.window = 300;
    assert_eq!(script.peer(Flags::ACK, 1, 2001, b""), []);
    let sent = script.wait_millis(250);
    assert_eq!(extents(&sent), [(2001, 300)], "after the override time");
}

// req RFC9293:MUST-60, RFC9293:SHLD-7
#[test]
fn nagle_holds_a_small_segment_while_data_is_out() {
    let mut script = Script::established(PLAIN);
    assert_eq!(extents(&script.send(b"a")), [(1, 1)]);
    assert_eq!(script.send(b"b"), []);
    assert_eq!(script.send(b"c"), []);
    let sent = script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(extents(&sent), [(2, 2)]);
}

// req RFC9293:MUST-17
#[test]
fn without_nagle_every_small_segment_leaves_at_once() {
    let mut script = Script::established(Profile { nagle: false, ..PLAIN });
    assert_eq!(extents(&script.send(b"a")), [(1, 1)]);
    assert_eq!(extents(&script.send(b"b")), [(2, 1)]);
}

#[test]
fn each_window_update_policy_advertises_its_windows() {
    for (window_update, offers) in [
        // 2,000 bytes arrive in segments of 500, and are read immediately. The last segment uses up
        // the window, and is acknowledged before it is read.
        (WindowUpdate::UsedUp, [1500, 1000, 500, 1500]),
        (WindowUpdate::AsRead, [2000, 2000, 2000, 2000]),
    ] {
        let receive_window = ReceiveWindow::Bytes(2000);
        let acknowledgment = Acknowledgment::AtOutput;
        let profile = Profile { receive_window, window_update, acknowledgment, ..PLAIN };
        let mut script = Script::established(profile);
        let mut sent_windows = Vec::new();
        for at in 0..4 {
            let mut sent = script.peer(Flags::ACK, 1 + at * 500, 1, &pattern(500));
            sent.extend(script.consume(500));
            sent_windows.extend(sent.last().map(|last| last.header.window));
        }
        assert_eq!(sent_windows, offers, "{window_update:?}");
    }
}

// req RFC9293:MUST-39
// attack row 43
#[test]
fn a_reader_of_single_bytes_opens_the_window_by_two_segments() {
    let mut script =
        Script::established(Profile { receive_window: ReceiveWindow::Bytes(8000), ..PLAIN });
    fill(&mut script, 8000);
    let updates: Vec<_> = (0..8000).flat_map(|_| script.consume(1)).collect();
    let windows: Vec<_> = updates.iter().map(|update| update.header.window).collect();
    assert_eq!(windows, [2000, 4000, 6000, 8000]);
}

// req RFC9293:MUST-39
// attack row 43
#[test]
fn a_reader_of_single_bytes_opens_the_window_of_a_screen_by_half() {
    let mut script = Script::established(INTERACTIVE);
    fill(&mut script, 2500);
    let updates: Vec<_> = (0..2500).flat_map(|_| script.consume(1)).collect();
    let windows: Vec<_> = updates.iter().map(|update| update.header.window).collect();
    assert_eq!(windows, [1000, 2000]);
}

const INTERACTIVE: Profile = Profile { extensions: false, ..Profile::INTERACTIVE };

fn fill(script: &mut Script, len: u32) {
    for start in (0..len).step_by(500) {
        script.peer(Flags::ACK, 1 + start, 1, &pattern(500));
    }
    assert_eq!(script.status().receive_window, 0);
}

#[test]
fn a_screenful_window_is_advertised_in_full_once_half_of_it_is_used() {
    let mut script = Script::established(INTERACTIVE);
    for (step, window) in [(0, 2000), (1, 1500), (2, 2500)] {
        script.deliver(Flags::ACK, 1 + step * 500, 1, &pattern(500));
        // The application reads before output.
        script.tcp.consume(script.id.unwrap(), 500).unwrap();
        let answer = script.output();
        assert_eq!((answer.len(), answer[0].header.window), (1, window));
    }
}

#[test]
fn without_window_scale_a_large_buffer_does_not_send_an_update_for_every_read() {
    let mut script = Script::established(PLAIN);
    assert_eq!(script.status().receive_window, 0xFFFF);
    script.peer(Flags::ACK, 1, 1, &pattern(1000));
    script.wait_millis(50);
    assert_eq!(script.consume(1000), []);
}

#[test]
fn the_window_is_a_whole_number_of_the_super_segments_of_the_peer() {
    let receive_window = ReceiveWindow::Bytes(20_000);
    let mut script = Script::established(Profile { receive_window, ..PLAIN });
    let mut sent_windows = Vec::new();
    for at in 0..4 {
        // The device of the peer has cut three segments.
        script.deliver(Flags::ACK, 1 + at * 3000, 1, &pattern(3000));
        script.tcp.consume(script.id.unwrap(), 3000).unwrap();
        sent_windows.extend(script.output().last().map(|last| last.header.window));
    }
    assert_eq!(sent_windows, [18_000; 4]);
}

#[test]
fn a_key_after_a_super_segment_causes_no_window_update() {
    let receive_window = ReceiveWindow::Bytes(20_000);
    let mut script = Script::established(Profile { receive_window, ..PLAIN });
    script.deliver(Flags::ACK, 1, 1, &pattern(7000));
    script.tcp.consume(script.id.unwrap(), 7000).unwrap();
    assert_eq!(script.output().last().unwrap().header.window, 14_000);
    script.deliver(Flags::ACK, 7001, 1, b"k");
    assert_eq!(script.consume(1), [], "the free 6000 bytes are not a super-segment");
}

#[test]
fn the_acknowledgment_of_the_first_data_is_delayed_although_the_window_grows() {
    let options = Options { window_scale: Some(7), mss: Some(1000), ..Options::default() };
    let mut script = Script::asked_for_options(Profile::BULK, options);
    script.peer(Flags::ACK, 1, 1, b"");
    script.deliver(Flags::ACK, 1, 1, b"request");
    assert_eq!(script.consume(7), []);
    let later = script.wait_millis(50);
    assert_eq!(texts(&later), ["<ACK seq 1 ack 8 len 0>"]);
    assert_eq!(later[0].header.window, 1024, "2^18 bytes by a shift of 8");
}

// req RFC9293:SHLD-14
#[test]
fn the_right_edge_of_the_window_never_moves_left() {
    let small = ReceiveWindow::Tuned { start: 8000, limit: 1 << 22 };
    let growing = Profile { receive_window: small, ..Profile::BULK };
    for profile in [Profile::BULK, Profile::INTERACTIVE, growing] {
        let mut pair = Pair::new(7);
        pair.faults = Faults { lost: 50_000, doubled: 20_000, delayed: 100_000 };
        let ids = pair.connect(profile);
        let data = pattern(400_000);
        assert!(pair.transfer(Side::Client, ids, &data) == data);
        let mut edge = None;
        let shift = pair.trace.iter().find(|sent| sent.1 == Side::Server).unwrap();
        let shift = shift.2.options.window_scale.unwrap_or(0);
        for (_, side, header, _) in &pair.trace {
            if *side == Side::Server && !header.flags.has(Flags::SYN) {
                let now = header.ack + (u32::from(header.window) << shift);
                assert!(edge.is_none_or(|edge| !now.is_before(edge)));
                edge = Some(now);
            }
        }
    }
}

// req RFC9293:MUST-34, RFC9293:SHLD-15, RFC9293:SHLD-16
#[test]
fn a_window_that_the_peer_shrinks_is_handled() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(8000));
    script.window = 1000;
    script.peer(Flags::ACK, 1, 2001, b"");
    let sent = script.wait_millis(250);
    assert_eq!(extents(&sent), [(2001, 1000)]);
    script.window = 60_000;
    script.peer(Flags::ACK, 1, 8001, b"");
    assert_eq!(script.status().send_queue, 0);
}

#[test]
fn a_lost_window_update_is_found_by_a_probe() {
    let mut pair = Pair::new(1);
    let ids = pair.connect(Profile { receive_window: ReceiveWindow::Bytes(4000), ..PLAIN });
    let data = pattern(8000);
    assert_eq!(pair.client.send(ids.0, &data), Ok(8000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.server.received(ids.1).unwrap().len(), 4000);
    pair.fate = Box::new(|_, side, _| side == Side::Client);
    pair.server.consume(ids.1, 4000).unwrap();
    pair.output();
    pair.fate = Box::new(|_, _, _| true);
    pair.run(Duration::from_secs(5));
    assert!(pair.read_all(Side::Server, ids.1) == data[4000..]);
}

#[test]
fn all_data_in_an_advertised_scaled_window_is_accepted() {
    let options = Options { mss: Some(1000), window_scale: Some(0), ..Options::default() };
    let mut script = Script::asked_for_options(Profile::BULK, options);
    script.peer(Flags::ACK, 1, 1, b"");
    let mut seq = 1;
    let mut edge = 60_000;
    while seq < edge {
        let data = pattern(999.min(edge - seq) as usize);
        let sent = [script.peer(Flags::ACK, seq, 1, &data), script.wait_millis(50)].concat();
        seq += u32::try_from(data.len()).unwrap();
        let last = sent.last().expect("each is acknowledged in time");
        assert_eq!(last.ack, seq, "what was promised is taken");
        edge = last.ack + (u32::from(last.header.window) << 8);
    }
    assert!(seq >= 1 << 18, "{seq}");
}

/// Returns an open connection to a peer whose window is never larger than `window` bytes.
fn with_window_of_peer(window: u16) -> Script {
    let mut script = Script::listening(PLAIN);
    script.window = window;
    script.options = Options { mss: Some(1000), ..Options::default() };
    script.iss = script.peer(Flags::SYN, 0, 0, b"")[0].header.seq;
    script.options = Options::default();
    script.peer(Flags::ACK, 1, 1, b"");
    script
}

#[test]
fn a_small_window_is_filled_by_segments_that_are_a_little_shorter() {
    let mut script = with_window_of_peer(3500);
    assert_eq!(extents(&script.send(&pattern(20_000))), [(1, 1000), (1001, 1000), (2001, 1000)]);
    let sent = script.peer(Flags::ACK, 1, 3001, b"");
    assert_eq!(extents(&sent), [(3001, 875), (3876, 875), (4751, 875), (5626, 875)]);
}

#[test]
fn a_window_of_whole_segments_keeps_them_whole() {
    let mut script = with_window_of_peer(3000);
    script.send(&pattern(20_000));
    let sent = script.peer(Flags::ACK, 1, 3001, b"");
    assert_eq!(extents(&sent), [(3001, 1000), (4001, 1000), (5001, 1000)]);
}

#[test]
fn a_window_of_many_segments_keeps_them_whole() {
    let mut script = with_window_of_peer(33_500);
    script.send(&pattern(100_000));
    let mut sent = Vec::new();
    for acked in 1..60 {
        sent.extend(script.peer(Flags::ACK, 1, 1 + acked * 1000, b""));
    }
    assert!(sent.iter().all(|sent| sent.len == 1000), "{:?}", extents(&sent));
}

#[test]
fn a_server_sends_a_whole_screen_before_any_acknowledgment() {
    let serving = Profile { extensions: false, ..Profile::serving(4000) };
    let mut script = Script::established(serving);
    assert_eq!(extents(&script.send(&pattern(1966))), [(1, 1000), (1001, 966)]);
}

#[test]
fn pasted_text_is_sent_in_segments_each_after_the_last_is_acknowledged() {
    let mut script = Script::established(Profile { extensions: false, ..Profile::INTERACTIVE });
    let id = script.id.unwrap();
    assert_eq!(script.tcp.send(id, &pattern(1966)), Ok(1000));
    assert_eq!(extents(&script.output()), [(1, 1000)]);
}

// RFC 9293 §3.10.7.4: SND.WL1 and SND.WL2.
#[test]
fn a_window_with_an_old_acknowledgment_is_ignored() {
    let mut script = Script::established(PLAIN);
    script.send(&pattern(2000));
    script.peer(Flags::ACK, 1, 2001, b"a");
    script.window = 500;
    script.peer(Flags::ACK, 2, 1001, b"b");
    assert_eq!(script.status().send_window, 60_000);
}

#[test]
fn a_window_of_an_older_segment_is_ignored() {
    let mut script = peer_window(500);
    script.peer(Flags::ACK, 4, 1, b"def");
    script.window = 60_000;
    script.peer(Flags::ACK, 1, 1, b"abc");
    assert_eq!(script.status().send_window, 500);
}

/// Returns an open connection with segments of 1000 bytes. The peer's window has 9500 bytes, and
/// ten segments of 950 bytes would fill it.
fn uneven_window() -> Script {
    let mut script = Script::listening(PLAIN);
    script.window = 9500;
    script.options = Options { mss: Some(1000), ..Options::default() };
    script.iss = script.peer(Flags::SYN, 0, 0, b"")[0].header.seq;
    script.options = Options::default();
    script.peer(Flags::ACK, 1, 1, b"");
    script
}

#[test]
fn a_small_segment_that_nagle_holds_makes_no_later_segment_shorter() {
    let mut script = uneven_window();
    assert_eq!(extents(&script.send(&pattern(2500))), [(1, 1000), (1001, 1000)]);
    assert_eq!(extents(&script.peer(Flags::ACK, 1, 2001, b"")), [(2001, 500)]);
    script.peer(Flags::ACK, 1, 2501, b"");
    assert_eq!(extents(&script.send(&pattern(2000))), [(2501, 1000), (3501, 1000)]);
}

#[test]
fn a_small_window_with_nothing_out_makes_no_later_segment_shorter() {
    let mut script = uneven_window();
    script.window = 300;
    script.peer(Flags::ACK, 1, 1, b"");
    assert_eq!(script.send(&pattern(2000)), []);
    script.window = 9500;
    assert_eq!(extents(&script.peer(Flags::ACK, 1, 1, b"")), [(1, 1000), (1001, 1000)]);
}

#[test]
fn a_rounded_up_window_never_exceeds_the_buffer() {
    let receive_window = ReceiveWindow::Bytes(100_000);
    let acknowledgment = Acknowledgment::AtOutput;
    let profile = Profile { receive_window, acknowledgment, ..Profile::BULK };
    let offered = Options { mss: Some(1000), window_scale: Some(0), ..Options::default() };
    let mut script = Script::asked_for_options(profile, offered);
    script.peer(Flags::ACK, 1, 1, b"");
    let ends = (SocketAddr::new(SERVER, PORT), SocketAddr::new(CLIENT, 4000));
    let mut seq = 1;
    let mut window = |script: &mut Script| {
        let answer = script.peer(Flags::ACK, seq, 1, b"x");
        seq += 1;
        let free_space = script.tcp.table.find(ends).unwrap().1.rcv.buffer().free_space();
        (usize::from(answer[0].header.window) << 1, free_space)
    };
    let (whole, _) = window(&mut script);
    // Nothing is read. Before rounding up, each window is one byte smaller than the previous one.
    let (offered, free_space) =
        (0..100_000).map(|_| window(&mut script)).find(|(offered, _)| *offered != whole).unwrap();
    assert!(offered < whole);
    assert_eq!(free_space + 1, whole);
}

#[test]
fn the_shift_is_the_smallest_that_expresses_the_window() {
    let shifts = [0, 65_535, 65_536, 1 << 20, usize::MAX].map(connection::shift_for);
    assert_eq!(shifts, [0, 0, 1, 5, 14]);
}

#[test]
fn the_acknowledgment_of_one_byte_makes_a_connection_writable() {
    let mut script = Script::established(PLAIN);
    script.send(b"x");
    script.events.clear();
    script.peer(Flags::ACK, 1, 2, b"");
    assert_eq!(script.events, [Event::Writable]);
}

#[test]
fn data_after_a_gap_makes_a_connection_readable_only_when_the_gap_is_filled() {
    let mut script = Script::established(PLAIN);
    script.events.clear();
    script.peer(Flags::ACK, 2, 1, b"b");
    assert_eq!(script.events, []);
    script.peer(Flags::ACK, 1, 1, b"a");
    assert_eq!(script.events, [Event::Readable]);
}

#[test]
fn a_window_of_one_byte_is_used_after_the_override_time() {
    let mut script = peer_window(1);
    assert_eq!(script.send(&pattern(2000)), []);
    assert_eq!(extents(&script.wait_millis(250)), [(1, 1)]);
}
