//! Sender and receiver over a simulated line, and golden frames.

use super::zmodem_receiver::CAPABILITIES;
use super::zmodem_sender::ENDED_TIME;
use super::*;
use crate::modem::simulated_line::{
    Faults, Files, ReceivingEngine, SendingEngine, TelnetServer, Transfer, delegate_methods, file,
    file_of_line_ends, files,
};
use crate::modem::{DataRequest, FileInfo, ModemFailure, ReceiverEvent, SenderEvent};
use alloc::vec;
use alloc::vec::Vec;
use net::Cx;
use net::cx::OwnedCx;
use net::meter::Counter;
use net::time::{Duration, Instant};
use proptest::prelude::*;

impl SendingEngine for Sender {
    fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>) {
        Self::offer(self, info, cx);
    }
    fn finish(&mut self, cx: &mut Cx<'_>) {
        Self::finish(self, cx);
    }
    fn answer_crc(&mut self, crc: u32, cx: &mut Cx<'_>) {
        Self::answer_crc(self, crc, cx);
    }
    fn data_request(&self) -> Option<DataRequest> {
        Self::data_request(self)
    }
    fn put_data(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        Self::put_data(self, data, cx);
    }
    fn event(&mut self) -> Option<SenderEvent> {
        Self::event(self)
    }
    fn transmit(&mut self, out: &mut Vec<u8>, _cx: &mut Cx<'_>) -> Option<usize> {
        Self::transmit(self, out)
    }
    delegate_methods!(Sender);
}

impl ReceivingEngine for Receiver {
    fn accept(&mut self, len: u32, cx: &mut Cx<'_>) {
        Self::accept(self, len, cx);
    }
    fn request_crc(&mut self, len: u32, cx: &mut Cx<'_>) {
        Self::request_crc(self, len, cx);
    }
    fn skip(&mut self, cx: &mut Cx<'_>) {
        Self::skip(self, cx);
    }
    fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        Self::receive_nul_after_cr(self, cx);
    }
    fn event(&mut self) -> Option<ReceiverEvent<'_>> {
        Self::event(self)
    }
    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        Self::transmit(self, out)
    }
    delegate_methods!(Receiver);
}

fn transfer(files: &Files, faults: Faults, seed: u64) -> Transfer<Sender, Receiver> {
    Transfer::new(Sender::new(Instant::ZERO), Receiver::new(Instant::ZERO), files, faults, seed)
}

#[test]
fn all_files_of_a_batch_arrive_with_names_sizes_and_times() {
    let result = transfer(&files(), Faults::NONE, 1).run();
    assert_eq!(result.files, files());
    assert_eq!((result.sender_failure, result.receiver_failure), (None, None));
}

#[test]
fn all_files_arrive_over_a_line_with_faults() {
    for seed in 0..40 {
        let result = transfer(&files(), Faults::FREQUENT, seed).run();
        assert_eq!((result.sender_failure, result.receiver_failure), (None, None), "seed {seed}");
        assert_eq!(result.files, files(), "seed {seed}");
    }
}

#[test]
fn files_arrive_from_every_telnet_server_without_binary() {
    let files = vec![file_of_line_ends(100_000), file(20_000), file_of_line_ends(1)];
    for server in [TelnetServer::Conforming, TelnetServer::Unchanged] {
        let mut transfer = transfer(&files, Faults::NONE, 1);
        transfer.server = server;
        let result = transfer.run();
        assert_eq!((result.sender_failure, result.receiver_failure), (None, None), "{server:?}");
        assert!(result.files == files, "{server:?}");
        assert!(result.sent_bytes < 200_000, "{server:?}: {}", result.sent_bytes);
    }
}

#[test]
fn a_file_larger_than_the_window_is_acknowledged_while_it_is_sent() {
    let files = vec![file(600_000)];
    let mut transfer = transfer(&files, Faults::NONE, 1);
    transfer.cx = OwnedCx::with_seed(3);
    let result = transfer.run();
    assert_eq!(result.files, files);
}

#[test]
fn a_partial_file_with_the_same_content_is_continued() {
    let files = vec![file(20_000)];
    let (_, content) = &files[0];
    let result = transfer(&files, Faults::NONE, 1).with_partial(&content[..15_000]).run();
    assert_eq!(result.files, files);
    assert!(result.sent_bytes < 8_000, "{}", result.sent_bytes);
}

#[test]
fn a_partial_file_with_other_content_is_not_continued() {
    let files = vec![file(20_000)];
    let result = transfer(&files, Faults::NONE, 1).with_partial(&[7; 15_000]).run();
    assert_eq!(result.files, files);
    assert!(result.sent_bytes > 20_000, "{}", result.sent_bytes);
}

#[test]
fn a_skipped_file_does_not_end_the_batch() {
    let mut transfer = transfer(&files(), Faults::NONE, 1);
    transfer.unwanted = b"file-128";
    let result = transfer.run();
    assert_eq!((result.skipped, result.files.len()), (1, files().len() - 1));
}

#[test]
fn a_receiver_without_a_sender_fails_after_a_minute() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    let mut out = Vec::new();
    while let Some(deadline) = receiver.deadline() {
        cx.now = deadline;
        receiver.timeout(&mut cx.cx());
        while receiver.transmit(&mut out).is_some() {}
        if let Some(event) = receiver.event() {
            assert_eq!(event, ReceiverEvent::Failed(ModemFailure::NoAnswer));
        }
    }
    assert!(receiver.is_over());
    assert_eq!(cx.now, Instant::ZERO + Duration::from_secs(60));
    assert_eq!(cx.counted(Counter::ModemTimeouts), 5);
    assert_eq!(out.windows(4).filter(|bytes| bytes == b"**\x18B").count(), 6);
}

/// Passes `input` to the receiver, and returns its output after it.
fn answer(receiver: &mut Receiver, mut input: &[u8], cx: &mut OwnedCx) -> Vec<u8> {
    let mut out = Vec::new();
    while receiver.transmit(&mut out).is_some() {}
    out.clear();
    receiver.receive(&mut input, &mut cx.cx());
    while receiver.transmit(&mut out).is_some() {}
    out
}

/// Passes a header to the sender.
fn receive_header(sender: &mut Sender, header: header::Header, cx: &mut OwnedCx) {
    let mut bytes = Vec::new();
    header.put_hex(&mut bytes);
    sender.receive(&mut bytes.as_slice(), &mut cx.cx());
}

#[test]
fn the_first_headers_are_those_of_lrzsz() {
    let mut out = Vec::new();
    Sender::new(Instant::ZERO).transmit(&mut out);
    assert_eq!(out, b"**\x18B00000000000000\r\x8a\x11");
    out.clear();
    Receiver::new(Instant::ZERO).transmit(&mut out);
    assert_eq!(out, b"**\x18B0100000023be50\r\x8a\x11");
}

#[test]
fn a_repeated_request_is_answered_with_the_capabilities() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let answer =
        answer(&mut receiver, b"rz\r**\x18B00000000000000\r\x8a\x11", &mut OwnedCx::default());
    assert_eq!(answer, b"**\x18B0100000023be50\r\x8a\x11");
}

#[test]
fn a_command_is_refused() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    let mut command = Vec::new();
    header::Header::new(header::FrameType::Zcommand, 0).put_hex(&mut command);
    answer(&mut receiver, &command, &mut cx);
    assert_eq!(receiver.event(), Some(ReceiverEvent::Failed(ModemFailure::CommandRefused)));
    let mut out = Vec::new();
    receiver.transmit(&mut out);
    assert!(out.starts_with(&[0x18; 8]));
}

#[test]
fn the_attention_sequence_is_never_sent() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    let escaping = subpacket::Escaping::default();
    let mut input = Vec::new();
    let check = subpacket::Check::Crc16;
    header::Header::new(header::FrameType::Zsinit, 0).put_binary(check, escaping, &mut input);
    let end = subpacket::SubpacketEnd::Zcrcw;
    subpacket::put_subpacket(b"rm -r *\r\0", end, check, escaping, &mut input);
    let acknowledged = answer(&mut receiver, &input, &mut cx);
    assert_eq!(acknowledged, b"**\x18B0300000000eed2\r\x8a");
    // A damaged header would be announced by the attention sequence.
    let after_error = answer(&mut receiver, b"**\x18B0000000000ffff\r\x8a\x11", &mut cx);
    assert!(after_error.starts_with(b"**\x18B06"), "{after_error:?}");
}

#[test]
fn five_cans_cancel_either_end() {
    let mut cx = OwnedCx::default();
    let mut receiver = Receiver::new(Instant::ZERO);
    answer(&mut receiver, &[0x18; 5], &mut cx);
    assert_eq!(receiver.event(), Some(ReceiverEvent::Failed(ModemFailure::Cancelled)));
    let mut sender = Sender::new(Instant::ZERO);
    sender.receive(&mut [0x18; 5].as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::Failed(ModemFailure::Cancelled)));
    let mut sender = Sender::new(Instant::ZERO);
    sender.receive(&mut [0x18; 4].as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), None);
}

#[test]
fn an_aborted_transfer_cancels_the_peer_with_eight_cans() {
    let mut sender = Sender::new(Instant::ZERO);
    let mut out = Vec::new();
    sender.abort();
    sender.transmit(&mut out);
    assert_eq!(out, [[0x18; 8], [8; 8]].concat());
    assert!(sender.is_over());
}

#[test]
fn text_instead_of_the_two_letters_after_the_end_is_returned() {
    for (after, kept) in [
        (&b"OO"[..], &b""[..]),
        (b"\r\r\n*** Night Owl", b"\r\r\n*** Night Owl"),
        (b"O\r\n", b"O\r\n"),
        (b"OOK\r\n", b"K\r\n"),
        (b"**\x18B0800000000022d\r\x8aOO$ ", b"$ "),
        (b"**\x18B09", b"**\x18B09"),
        (
            b"*********************************************",
            b"*********************************************",
        ),
    ] {
        let mut cx = OwnedCx::default();
        let mut receiver = Receiver::new(cx.now);
        let input = [b"**\x18B0800000000022d\r\x8a", after].concat();
        let mut shown = Vec::new();
        for byte in input {
            let mut input: &[u8] = &[byte];
            receiver.receive(&mut input, &mut cx.cx());
            while receiver.event().is_some() {}
            if receiver.is_over() {
                shown.extend(receiver.take_text());
            }
            shown.extend_from_slice(input);
        }
        if !receiver.is_over() {
            cx.now = receiver.deadline().unwrap();
            receiver.timeout(&mut cx.cx());
            assert_eq!(receiver.event(), Some(ReceiverEvent::Complete));
            shown.extend(receiver.take_text());
        }
        assert_eq!(shown, kept, "{}", after.escape_ascii());
    }
}

#[test]
fn bytes_after_the_end_remain_in_the_input() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    let mut input: &[u8] = b"**\x18B0800000000022d\r\x8aOO$ ls";
    receiver.receive(&mut input, &mut cx.cx());
    assert_eq!(receiver.event(), Some(ReceiverEvent::Complete));
    assert_eq!(input, b"$ ls");
}

/// Returns a sender that has sent ZFIN.
fn finishing_sender(cx: &mut OwnedCx) -> Sender {
    let mut sender = Sender::new(Instant::ZERO);
    let mut input = Vec::new();
    header::Header::zrinit(header::Capabilities::default()).put_hex(&mut input);
    sender.receive(&mut input.as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    sender.finish(&mut cx.cx());
    sender
}

#[test]
fn the_line_end_of_the_last_header_belongs_to_an_upload() {
    const ZFIN: &[u8] = b"**\x18B0800000000022d\r\x8a";
    for split in ZFIN.len() - 2..=ZFIN.len() {
        let mut cx = OwnedCx::default();
        let mut sender = finishing_sender(&mut cx);
        let (mut first, rest) = ZFIN.split_at(split);
        let rest = [rest, b"$ "].concat();
        let mut rest = rest.as_slice();
        sender.receive(&mut first, &mut cx.cx());
        sender.receive(&mut rest, &mut cx.cx());
        assert_eq!(sender.event(), Some(SenderEvent::Complete));
        assert_eq!((first, rest), (&b""[..], &b"$ "[..]), "{split}");
    }
}

#[test]
fn an_upload_ends_without_the_line_end_of_the_last_header() {
    let mut cx = OwnedCx::default();
    let mut sender = finishing_sender(&mut cx);
    sender.receive(&mut b"**\x18B0800000000022d".as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), None);
    cx.now = sender.deadline().unwrap();
    sender.timeout(&mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::Complete));
}

#[test]
fn a_subpacket_may_take_longer_than_the_timeout() {
    let mut cx = OwnedCx::default();
    let mut receiver = Receiver::new(Instant::ZERO);
    let escaping = subpacket::Escaping::default();
    let (info, content) = file(1000);
    let check = subpacket::Check::Crc32;
    let mut input = Vec::new();
    header::Header::zfile().put_binary(check, escaping, &mut input);
    let end = subpacket::SubpacketEnd::Zcrcw;
    subpacket::put_subpacket(&info.emit(), end, check, escaping, &mut input);
    receiver.receive(&mut input.as_slice(), &mut cx.cx());
    assert!(matches!(receiver.event(), Some(ReceiverEvent::Offer(_))));
    receiver.accept(0, &mut cx.cx());
    input.clear();
    header::Header::new(header::FrameType::Zdata, 0).put_binary(check, escaping, &mut input);
    let end = subpacket::SubpacketEnd::Zcrce;
    subpacket::put_subpacket(&content, end, check, escaping, &mut input);
    // 300 bit/s.
    for byte in input {
        cx.now = cx.now + Duration::from_millis(33);
        receiver.timeout(&mut cx.cx());
        receiver.receive(&mut [byte].as_slice(), &mut cx.cx());
    }
    assert!(cx.now - Instant::ZERO > Duration::from_secs(30));
    assert_eq!(receiver.event(), Some(ReceiverEvent::Data(content.as_slice())));
}

#[test]
fn the_end_is_recognized_without_the_two_letters() {
    let mut receiver = Receiver::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    let mut input: &[u8] = b"**\x18B0800000000022d\r\x8a$ ls";
    receiver.receive(&mut input, &mut cx.cx());
    assert_eq!(receiver.event(), Some(ReceiverEvent::Complete));
    assert_eq!(input, b"$ ls");
}

#[test]
fn a_receiver_with_a_small_buffer_acknowledges_each_buffer() {
    let mut cx = OwnedCx::default();
    let mut sender = Sender::new(Instant::ZERO);
    let capabilities = header::Capabilities { buffer_len: 512, ..header::Capabilities::default() };
    let mut input = Vec::new();
    header::Header::zrinit(capabilities).put_hex(&mut input);
    sender.receive(&mut input.as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    let (info, content) = file(2000);
    sender.offer(&info, &mut cx.cx());
    input.clear();
    header::Header::new(header::FrameType::Zrpos, 0).put_hex(&mut input);
    sender.receive(&mut input.as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::Accepted(0)));
    let request = sender.data_request();
    assert_eq!(request, Some(DataRequest { position: 0, max_len: 512 }));
    sender.put_data(&content[..512], &mut cx.cx());
    assert_eq!(sender.data_request(), None);
    input.clear();
    header::Header::new(header::FrameType::Zack, 512).put_hex(&mut input);
    sender.receive(&mut input.as_slice(), &mut cx.cx());
    assert_eq!(sender.data_request(), Some(DataRequest { position: 512, max_len: 512 }));
}

/// Returns a sender whose receiver has requested the file from its start.
fn sending_sender(cx: &mut OwnedCx) -> Sender {
    let mut sender = Sender::new(cx.now);
    let mut requests = Vec::new();
    let capabilities = header::Capabilities {
        is_full_duplex: true,
        overlaps_io: true,
        ..header::Capabilities::default()
    };
    header::Header::zrinit(capabilities).put_hex(&mut requests);
    header::Header::new(header::FrameType::Zrpos, 0).put_hex(&mut requests);
    let mut input = requests.as_slice();
    while !input.is_empty() {
        sender.receive(&mut input, &mut cx.cx());
        if sender.event() == Some(SenderEvent::NextFile) {
            sender.offer(&file(1_000_000).0, &mut cx.cx());
        }
    }
    sender
}

/// Sends data until the window is full; returns the position of the next byte.
fn fill_window(sender: &mut Sender, cx: &mut OwnedCx) -> u64 {
    let mut end = 0;
    while let Some(request) = sender.data_request() {
        sender.put_data(&vec![0; request.max_len], &mut cx.cx());
        end = request.position + request.max_len as u64;
        sender.transmit(&mut Vec::new());
    }
    end
}

/// Returns a function that acknowledges a number of windows, each after this number of milliseconds, and
/// returns the length of the next window.
fn window_at_delays<'a>(
    sender: &'a mut Sender,
    cx: &'a mut OwnedCx,
) -> impl FnMut(u64, usize) -> u64 {
    let mut end = fill_window(sender, cx);
    move |delay_ms, count| {
        let mut window = 0;
        for _ in 0..count {
            cx.now = cx.now + Duration::from_millis(delay_ms);
            let mut answer = Vec::new();
            let position = u32::try_from(end).unwrap();
            header::Header::new(header::FrameType::Zack, position).put_hex(&mut answer);
            sender.receive(&mut answer.as_slice(), &mut cx.cx());
            let next = fill_window(sender, cx);
            window = next - end;
            end = next;
        }
        window
    }
}

#[test]
fn the_window_grows_if_data_is_acknowledged_soon_and_shrinks_on_a_slow_line() {
    let mut cx = OwnedCx::default();
    let mut sender = sending_sender(&mut cx);
    let mut acknowledge = window_at_delays(&mut sender, &mut cx);
    assert_eq!(acknowledge(500, 1), 4 * 1024);
    assert_eq!(acknowledge(1000, 8), 256 * 1024);
    assert_eq!(acknowledge(2000, 9), 1024);
    assert_eq!(acknowledge(34_000, 2), 1024, "300 bit/s");
}

#[test]
fn the_window_does_not_grow_if_more_data_only_lengthens_the_queue() {
    let mut cx = OwnedCx::default();
    let mut sender = sending_sender(&mut cx);
    let mut acknowledge = window_at_delays(&mut sender, &mut cx);
    assert_eq!(acknowledge(10, 5), 64 * 1024);
    assert_eq!(acknowledge(30, 4), 64 * 1024, "the queue is as long as the path");
    assert_eq!(acknowledge(50, 1), 32 * 1024);
    assert_eq!(acknowledge(50, 4), 4 * 1024);
    assert_eq!(acknowledge(20, 1), 8 * 1024);
}

#[test]
fn an_upload_to_a_receiver_that_does_not_answer_fails_after_a_minute() {
    let mut cx = OwnedCx::default();
    let mut sender = sending_sender(&mut cx);
    fill_window(&mut sender, &mut cx);
    let began = cx.now;
    let mut event = None;
    while event.is_none() {
        cx.now = cx.now.max(sender.deadline().unwrap());
        sender.timeout(&mut cx.cx());
        event = sender.event();
    }
    assert_eq!(event, Some(SenderEvent::Failed(ModemFailure::Silence)));
    assert_eq!(cx.now - began, Duration::from_secs(60));
}

/// Advances the time to the deadlines of the sender until it has an event; returns the event and the
/// output before it.
fn wait_for_event(sender: &mut Sender, cx: &mut OwnedCx) -> (SenderEvent, Vec<u8>) {
    let mut out = Vec::new();
    loop {
        sender.transmit(&mut out);
        if let Some(event) = sender.event() {
            return (event, out);
        }
        cx.now = cx.now.max(sender.deadline().unwrap());
        sender.timeout(&mut cx.cx());
    }
}

#[test]
fn text_of_a_shell_and_no_answer_to_requests_end_an_upload_within_ten_seconds() {
    let mut cx = OwnedCx::default();
    let mut sender = sending_sender(&mut cx);
    while sender.transmit(&mut Vec::new()).is_some() {}
    sender.receive(&mut b"Killed\r\n$ ".as_slice(), &mut cx.cx());
    assert_eq!(sender.data_request(), None, "no data is sent to a shell");
    let (event, requests) = wait_for_event(&mut sender, &mut cx);
    assert_eq!(event, SenderEvent::Failed(ModemFailure::Ended));
    assert_eq!(cx.now - Instant::ZERO, ENDED_TIME);
    assert_eq!(sender.take_text(), b"Killed\r\n$ ");
    assert_eq!(requests.windows(3).filter(|bytes| bytes == b"*\x18A").count(), 4);
    let is_harmless = |byte: &u8| byte & 0x60 != 0 || matches!(*byte, 0 | 0x11 | ZDLE | 0x80);
    assert!(requests.iter().all(is_harmless), "{}", requests.escape_ascii());
    let mut cancellation = Vec::new();
    sender.transmit(&mut cancellation);
    assert_eq!(cancellation, crate::modem::CANCEL_SEQUENCE);
}

#[test]
fn a_receiver_that_answers_after_text_continues() {
    let mut cx = OwnedCx::default();
    let mut sender = sending_sender(&mut cx);
    let end = fill_window(&mut sender, &mut cx);
    sender.receive(&mut b"noise that looks like text".as_slice(), &mut cx.cx());
    cx.now = sender.deadline().unwrap();
    sender.timeout(&mut cx.cx());
    let mut answer = Vec::new();
    let position = u32::try_from(end).unwrap();
    header::Header::new(header::FrameType::Zack, position).put_hex(&mut answer);
    sender.receive(&mut answer.as_slice(), &mut cx.cx());
    assert_eq!(sender.data_request().unwrap().position, end);
    assert_eq!(sender.take_text(), b"", "the line end belongs to the header");
    // A few bytes of noise have no effect.
    sender.receive(&mut b"~a\xb0x)\x80".as_slice(), &mut cx.cx());
    assert_eq!(sender.data_request().unwrap().position, end);
}

#[test]
fn text_of_a_shell_after_the_last_header_completes_an_upload() {
    let mut cx = OwnedCx::default();
    let mut sender = finishing_sender(&mut cx);
    sender.receive(&mut b"\r\nready:".as_slice(), &mut cx.cx());
    assert_eq!(wait_for_event(&mut sender, &mut cx).0, SenderEvent::Complete);
    assert_eq!(cx.now - Instant::ZERO, ENDED_TIME);
}

#[test]
fn control_characters_are_escaped_if_the_receiver_requires_it() {
    let escaping = subpacket::Escaping { escapes_all_controls: true, is_nvt: false };
    let mut out = Vec::new();
    let bytes: Vec<u8> = (0..=255).collect();
    subpacket::put_escaped(&bytes, escaping, &mut out);
    assert!(out.iter().all(|byte| byte & 0x60 != 0 || *byte == ZDLE));
    assert_eq!(out.len(), 256 + 64);
}

#[test]
fn nul_is_escaped_for_telnet_without_binary() {
    let mut sender = Sender::new(Instant::ZERO);
    let mut cx = OwnedCx::default();
    sender.set_nvt(true);
    sender.transmit(&mut Vec::new());
    let mut zrinit = Vec::new();
    header::Header::zrinit(header::Capabilities { buffer_len: 0, ..Default::default() })
        .put_hex(&mut zrinit);
    sender.receive(&mut zrinit.as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    sender.offer(&file(1).0, &mut cx.cx());
    let mut out = Vec::new();
    sender.transmit(&mut out);
    assert!(out.windows(2).any(|pair| pair == b"\x18@"));
    assert!(!out.contains(&0), "{}", out.escape_ascii());
    let escaping = subpacket::Escaping { escapes_all_controls: false, is_nvt: true };
    out.clear();
    subpacket::put_escaped(b"a\0\x80b", escaping, &mut out);
    assert_eq!(out, b"a\x18@\x80b");
}

#[test]
fn every_control_character_except_nul_is_escaped() {
    let mut out = Vec::new();
    let bytes: Vec<u8> = (0..=255).collect();
    subpacket::put_escaped(&bytes, subpacket::Escaping::default(), &mut out);
    let is_harmless = |byte: &u8| byte & 0x60 != 0 || matches!(*byte, 0 | 0x80 | ZDLE);
    assert!(out.iter().all(is_harmless));
    assert_eq!(out.len(), 256 + 62, "24% of random bytes");
    out.clear();
    let flow_control_and_line_ends = b"\x10\x11\x13\x18\x91\r\n\x8d";
    subpacket::put_escaped(flow_control_and_line_ends, subpacket::Escaping::default(), &mut out);
    assert_eq!(out, b"\x18P\x18Q\x18S\x18X\x18\xd1\x18M\x18J\x18\xcd");
}

#[test]
fn a_request_is_found_in_the_output_of_a_session() {
    let mut autostart = Autostart::default();
    let output = b"$ sz a\r\nrz\r**\x18B00000000000000\r\x8a\x11";
    let detection = autostart.find(output).unwrap();
    assert_eq!(detection, Detection { start: 11, end: output.len(), request: Request::Send });
}

#[test]
fn a_request_in_pieces_is_found() {
    let mut autostart = Autostart::default();
    let output = b"waiting**\x18B0100000023be50\r\x8a\x11";
    let found: Vec<_> = output.chunks(1).filter_map(|byte| autostart.find(byte)).collect();
    assert_eq!(found, [Detection { start: 0, end: 1, request: Request::Receive }]);
}

#[test]
fn the_line_end_of_a_request_may_arrive_later() {
    let request = b"**\x18B0100000023be50";
    let cases: [([&[u8]; 2], [usize; 2]); 3] = [
        ([b"\r", b"\x8a\x11$ "], [1, 2]),
        ([b"\r\x8a\x11", b"\r\n"], [3, 0]),
        ([b"$ ", b"\r\n"], [0, 0]),
    ];
    for (pieces, lens) in cases {
        let mut autostart = Autostart::default();
        assert_eq!(autostart.line_end_len(b"\r\n"), 0);
        assert!(autostart.find(request).is_some());
        assert_eq!(pieces.map(|piece| autostart.line_end_len(piece)), lens);
    }
}

#[test]
fn a_damaged_request_is_not_found() {
    assert_eq!(Autostart::default().find(b"**\x18B00000000000001\r\n"), None);
    assert_eq!(
        Autostart::default().find(
            b"**\x18B08000000000
22d"
        ),
        None
    );
}

#[test]
fn a_file_whose_offer_was_answered_twice_arrives() {
    // A damaged header of the sender is followed by a second offer, whose answer arrives after the
    // file was sent.
    for (seed, interval_bytes) in [
        (8_580_797_908_671_617_267, 906),
        (13_967_944_843_113_203_224, 600),
        (9_439_404_605_105_930_734, 2439),
        (13_040_524_671_225_914_971, 2822),
    ] {
        let files = vec![file(1024), file(10)];
        let faults = Faults { interval_bytes, delay: Duration::ZERO };
        let result = transfer(&files, faults, seed).run();
        assert_eq!((result.sender_failure, result.receiver_failure), (None, None), "seed {seed}");
        assert_eq!(result.files, files, "seed {seed}");
    }
}

/// Returns a sender that has sent a file of 1024 bytes and its end.
fn sender_after_zeof(cx: &mut OwnedCx) -> Sender {
    let mut sender = Sender::new(Instant::ZERO);
    let (info, content) = file(1024);
    receive_header(&mut sender, header::Header::zrinit(CAPABILITIES), cx);
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    sender.offer(&info, &mut cx.cx());
    receive_header(&mut sender, header::Header::new(header::FrameType::Zrpos, 0), cx);
    assert_eq!(sender.event(), Some(SenderEvent::Accepted(0)));
    while let Some(request) = sender.data_request() {
        let start = usize::try_from(request.position).unwrap();
        sender.put_data(&content[start..], &mut cx.cx());
    }
    sender
}

#[test]
fn a_receiver_that_requests_data_again_and_then_has_all_data_ends_the_file() {
    let mut cx = OwnedCx::default();
    let mut sender = sender_after_zeof(&mut cx);
    let zrpos = header::Header::new(header::FrameType::Zrpos, 0);
    receive_header(&mut sender, zrpos, &mut cx);
    assert_eq!(sender.event(), None);
    receive_header(&mut sender, header::Header::zrinit(CAPABILITIES), &mut cx);
    assert_eq!(sender.event(), Some(SenderEvent::FileComplete));
    // While the data of the next file is sent, ZRINIT is not its end.
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    sender.offer(&file(1024).0, &mut cx.cx());
    receive_header(&mut sender, zrpos, &mut cx);
    assert_eq!(sender.event(), Some(SenderEvent::Accepted(0)));
    receive_header(&mut sender, header::Header::zrinit(CAPABILITIES), &mut cx);
    assert_eq!(sender.event(), None);
}

#[test]
fn the_digits_of_a_damaged_header_are_not_text_of_the_session() {
    let damaged: [&[u8]; 5] = [
        b"*\xfe\x18B0600000000cd85\r\x8a\x11",
        b"**\x18B060000 000cd85\r\x8a\x11",
        b"**\x18B06000000000cd85\r\x8a\x11",
        b"**\x18C0600000000cd85\r\x8a\x11",
        b"**B0600000000cd85\r\x8a\x11",
    ];
    for header in damaged {
        let mut sender = Sender::new(Instant::ZERO);
        let mut cx = OwnedCx::default();
        receive_header(&mut sender, header::Header::zrinit(CAPABILITIES), &mut cx);
        assert_eq!(sender.event(), Some(SenderEvent::NextFile));
        sender.finish(&mut cx.cx());
        sender.receive(&mut &header[..], &mut cx.cx());
        assert!(!sender.has_unexpected_text(), "{header:?}");
        sender.receive(&mut &b"user@host:~$ "[..], &mut cx.cx());
        assert!(sender.has_unexpected_text(), "{header:?}");
    }
}

#[test]
fn a_receiver_that_is_started_again_does_not_end_the_file() {
    let mut cx = OwnedCx::default();
    let mut sender = sender_after_zeof(&mut cx);
    let zrpos = header::Header::new(header::FrameType::Zrpos, 0);
    receive_header(&mut sender, zrpos, &mut cx);
    sender.receive(&mut &b"rz waiting to receive."[..], &mut cx.cx());
    receive_header(&mut sender, header::Header::zrinit(CAPABILITIES), &mut cx);
    assert_eq!(sender.event(), None);
}

proptest! {
    #[test]
    fn a_file_arrives_over_any_line(
        len in 0_usize..5000, seed: u64, interval_bytes in 600_u64..5000, delay_ms in 0_u64..500,
    ) {
        let files = vec![file(len)];
        let faults = Faults { interval_bytes, delay: Duration::from_millis(delay_ms) };
        let result = transfer(&files, faults, seed).run();
        prop_assert_eq!(result.receiver_failure, None);
        prop_assert_eq!(result.files, files);
    }

    #[test]
    fn a_header_is_parsed_to_itself(position: u32, crc32: bool, is_hex: bool) {
        let header = header::Header::new(header::FrameType::Zdata, position);
        let mut out = Vec::new();
        let check = if crc32 { subpacket::Check::Crc32 } else { subpacket::Check::Crc16 };
        if is_hex {
            header.put_hex(&mut out);
        } else {
            header.put_binary(check, subpacket::Escaping::default(), &mut out);
        }
        let mut parser = parser::Parser::default();
        let parsed: Vec<_> = out.iter().filter_map(|byte| parser.push(*byte)).collect();
        prop_assert_eq!(parsed, [parser::Parsed::Header(header)]);
    }

    #[test]
    fn any_input_of_a_receiver_is_consumed_or_answered(
        input in prop::collection::vec(prop_oneof![Just(b'*'), Just(0x18), any::<u8>()], 0..300),
    ) {
        let mut receiver = Receiver::new(Instant::ZERO);
        let mut cx = OwnedCx::default();
        let mut rest = input.as_slice();
        while !rest.is_empty() && !receiver.is_over() {
            receiver.receive(&mut rest, &mut cx.cx());
            prop_assert!(rest.is_empty() || receiver.event().is_some());
        }
    }
}
