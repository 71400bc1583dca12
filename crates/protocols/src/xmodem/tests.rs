//! Sender and receiver over a simulated line.

use super::*;
use crate::modem::simulated_line::{
    Faults, ReceivingEngine, SendingEngine, TelnetServer, Transfer, TransferResult,
    delegate_methods, file, file_of_line_ends,
};
use crate::modem::{DataRequest, FileInfo, ModemFailure, ReceiverEvent, SenderEvent};
use alloc::vec;
use alloc::vec::Vec;
use net::Cx;
use net::cx::OwnedCx;
use net::time::{Duration, Instant};

impl SendingEngine for Sender {
    fn offer(&mut self, _info: &FileInfo, _cx: &mut Cx<'_>) {}
    fn finish(&mut self, _cx: &mut Cx<'_>) {}
    fn answer_crc(&mut self, _crc: u32, _cx: &mut Cx<'_>) {}
    fn data_request(&self) -> Option<DataRequest> {
        Self::data_request(self)
    }
    fn put_data(&mut self, data: &[u8], _cx: &mut Cx<'_>) {
        Self::put_data(self, data);
    }
    fn event(&mut self) -> Option<SenderEvent> {
        Self::event(self)
    }
    fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        Self::transmit(self, out, cx)
    }
    delegate_methods!(Sender);
}

impl ReceivingEngine for Receiver {
    fn accept(&mut self, _len: u32, cx: &mut Cx<'_>) {
        Self::accept(self, cx);
    }
    fn request_crc(&mut self, _len: u32, _cx: &mut Cx<'_>) {}
    fn skip(&mut self, _cx: &mut Cx<'_>) {}
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

fn run(len: usize, uses_long_blocks: bool, faults: Faults, seed: u64) -> TransferResult {
    let sender = Sender::new(uses_long_blocks, Instant::ZERO);
    Transfer::new(sender, Receiver::new(), &vec![file(len)], faults, seed).run()
}

/// Checks that a file has arrived, followed by padding up to a multiple of the block length.
fn assert_arrived(result: &TransferResult, len: usize) {
    assert_eq!((result.sender_failure, result.receiver_failure), (None, None));
    let received = &result.files[0].1;
    assert_eq!(received[..len], file(len).1);
    assert!(received[len..].iter().all(|byte| *byte == 0x1a));
    assert!(
        received.len().is_multiple_of(SHORT_BLOCK_LEN) && received.len() - len < LONG_BLOCK_LEN
    );
}

#[test]
fn a_file_of_any_length_arrives_with_padding() {
    for len in [0, 1, 127, 128, 129, 1023, 1024, 1025, 40_000] {
        assert_arrived(&run(len, false, Faults::NONE, 1), len);
        assert_arrived(&run(len, true, Faults::NONE, 1), len);
    }
}

#[test]
fn a_file_arrives_from_every_telnet_server_without_binary() {
    for server in [TelnetServer::Conforming, TelnetServer::Unchanged] {
        for uses_long_blocks in [true, false] {
            let sender = Sender::new(uses_long_blocks, Instant::ZERO);
            let files = vec![file_of_line_ends(100 * LONG_BLOCK_LEN)];
            let mut transfer = Transfer::new(sender, Receiver::new(), &files, Faults::NONE, 1);
            transfer.server = server;
            let result = transfer.run();
            assert_eq!((result.sender_failure, result.receiver_failure), (None, None));
            assert!(result.files[0].1 == files[0].1, "{server:?}");
            assert!(result.sent_bytes < 110 * LONG_BLOCK_LEN, "{server:?}: {}", result.sent_bytes);
        }
    }
}

#[test]
fn a_file_arrives_over_a_line_with_faults() {
    for seed in 0..40 {
        assert_arrived(&run(20_000, true, Faults::FREQUENT, seed), 20_000);
        assert_arrived(&run(20_000, false, Faults::FREQUENT, seed), 20_000);
    }
}

#[test]
fn a_receiver_requests_a_checksum_after_four_requests_with_a_crc() {
    let mut receiver = Receiver::new();
    let mut cx = OwnedCx::default();
    assert_eq!(receiver.event(), Some(ReceiverEvent::Offer(FileInfo::default())));
    receiver.accept(&mut cx.cx());
    let mut out = Vec::new();
    for _ in 0..6 {
        while receiver.transmit(&mut out).is_some() {}
        cx.now = receiver.deadline().unwrap();
        receiver.timeout(&mut cx.cx());
    }
    assert_eq!(out, b"CCCC\x15\x15");
    let mut block = Vec::new();
    block::put_block(&mut block, 1, b"data", 0x1a, block::Check::Sum);
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    let Some(ReceiverEvent::Data(data)) = receiver.event() else { panic!("no data") };
    assert_eq!(&data[..5], b"data\x1a");
}

#[test]
fn a_sender_uses_a_checksum_if_the_receiver_requests_it() {
    let mut sender = Sender::new(false, Instant::ZERO);
    let mut cx = OwnedCx::default();
    sender.receive(&mut [0x15].as_slice(), &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::Accepted(0)));
    sender.put_data(b"data");
    let mut out = Vec::new();
    cx.now = sender.deadline().unwrap();
    sender.transmit(&mut out, &mut cx.cx());
    assert_eq!(out.len(), 132);
}

#[test]
fn a_block_that_is_not_the_next_one_ends_the_transfer() {
    let mut receiver = Receiver::new();
    let mut cx = OwnedCx::default();
    receiver.event();
    receiver.accept(&mut cx.cx());
    let mut block = Vec::new();
    block::put_block(&mut block, 2, b"data", 0x1a, block::Check::Crc);
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    assert_eq!(receiver.event(), Some(ReceiverEvent::Failed(ModemFailure::TooManyErrors)));
    let mut out = Vec::new();
    receiver.transmit(&mut out);
    assert!(out.starts_with(&[0x18; 8]));
}

#[test]
fn a_sender_without_a_receiver_fails_after_a_minute() {
    let mut sender = Sender::new(false, Instant::ZERO);
    let mut cx = OwnedCx { now: sender.deadline().unwrap(), ..OwnedCx::default() };
    sender.timeout(&mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::Failed(ModemFailure::NoAnswer)));
}

#[test]
fn the_rest_of_a_damaged_block_is_discarded_until_the_line_is_silent() {
    let mut receiver = Receiver::new();
    let mut cx = OwnedCx::default();
    receiver.event();
    receiver.accept(&mut cx.cx());
    let mut block = Vec::new();
    block::put_block(&mut block, 1, b"data", 0x1a, block::Check::Crc);
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    receiver.event();
    let mut out = Vec::new();
    while receiver.transmit(&mut out).is_some() {}
    out.clear();
    // A byte before the block makes all of its bytes unexpected.
    block.insert(0, b'x');
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    assert_eq!(receiver.transmit(&mut out), None);
    cx.now = receiver.deadline().unwrap();
    receiver.timeout(&mut cx.cx());
    receiver.transmit(&mut out);
    assert_eq!(out, [0x15]);
}

#[test]
fn text_after_the_end_of_the_file_shows_that_the_receiver_has_ended() {
    let mut sender = Sender::new(false, Instant::ZERO);
    let mut cx = OwnedCx::default();
    sender.receive(&mut b"C".as_slice(), &mut cx.cx());
    sender.event();
    sender.put_data(b"");
    cx.now = sender.deadline().unwrap();
    sender.transmit(&mut Vec::new(), &mut cx.cx());
    let mut input: &[u8] = b"$ ls";
    sender.receive(&mut input, &mut cx.cx());
    assert_eq!(sender.event(), Some(SenderEvent::FileComplete));
    assert_eq!(input, b"$ ls");
}

/// Returns a sender that has sent block 1, and its context.
fn sender_in_file() -> (Sender, OwnedCx) {
    let mut sender = Sender::new(true, Instant::ZERO);
    let mut cx = OwnedCx::default();
    sender.receive(&mut b"C".as_slice(), &mut cx.cx());
    sender.event();
    sender.put_data(&[7; LONG_BLOCK_LEN]);
    cx.now = sender.deadline().unwrap();
    assert!(sender.transmit(&mut Vec::new(), &mut cx.cx()).is_some());
    (sender, cx)
}

#[test]
fn text_of_a_shell_instead_of_an_answer_ends_an_upload_without_a_repetition() {
    for text in [&b"Killed\r\n# "[..], b"\xff# "] {
        let (mut sender, mut cx) = sender_in_file();
        let began = cx.now;
        sender.receive(&mut &text[..], &mut cx.cx());
        let mut out = Vec::new();
        let event = loop {
            sender.transmit(&mut out, &mut cx.cx());
            if let Some(event) = sender.event() {
                break event;
            }
            cx.now = sender.deadline().unwrap();
            sender.timeout(&mut cx.cx());
        };
        assert_eq!((event, out), (SenderEvent::Failed(ModemFailure::Ended), Vec::new()));
        assert_eq!(cx.now - began, Duration::from_secs(8));
        assert!(text.ends_with(&sender.take_text()));
    }
}

#[test]
fn noise_and_repeated_requests_do_not_end_an_upload() {
    for noise in [&b"~a\xb0x)\x80 "[..], b"CCCCCCCC", b"", b"text\r\n\x06"] {
        let (mut sender, mut cx) = sender_in_file();
        sender.receive(&mut &noise[..], &mut cx.cx());
        if !noise.ends_with(&[0x06]) {
            cx.now = sender.deadline().unwrap();
            sender.timeout(&mut cx.cx());
            assert!(sender.transmit(&mut Vec::new(), &mut cx.cx()).is_some(), "{noise:?}");
            sender.receive(&mut [0x06].as_slice(), &mut cx.cx());
        }
        let position = LONG_BLOCK_LEN as u64;
        assert_eq!(sender.data_request().unwrap().position, position, "{noise:?}");
    }
}

#[test]
fn a_block_that_was_requested_again_is_not_sent_to_a_shell() {
    let (mut sender, mut cx) = sender_in_file();
    sender.receive(&mut b"\x15Killed\n# ".as_slice(), &mut cx.cx());
    cx.now = cx.now + Duration::from_secs(1);
    assert_eq!(sender.transmit(&mut Vec::new(), &mut cx.cx()), None);
}

/// Returns a receiver that has received block 1, and its context.
fn receiver_in_file() -> (Receiver, OwnedCx) {
    let mut receiver = Receiver::new();
    let mut cx = OwnedCx::default();
    receiver.event();
    receiver.accept(&mut cx.cx());
    let mut block = Vec::new();
    block::put_block(&mut block, 1, b"data", 0x1a, block::Check::Crc);
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    receiver.event();
    receiver.transmit(&mut Vec::new());
    (receiver, cx)
}

const CANCEL_OF_LRZSZ: [u8; 20] =
    [24, 24, 24, 24, 24, 24, 24, 24, 24, 24, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8];

#[test]
fn a_cancellation_within_a_block_ends_the_transfer() {
    let mut block = Vec::new();
    block::put_block(&mut block, 2, &[7; 1000], 0x1a, block::Check::Crc);
    for at in 0..block.len() {
        let (before, rest) = block.split_at(at);
        // A program that is terminated writes the rest of its buffer after the sequence, or not.
        for rest in [rest, &[]] {
            let (mut receiver, mut cx) = receiver_in_file();
            let input = [before, &CANCEL_OF_LRZSZ, rest].concat();
            receiver.receive(&mut input.as_slice(), &mut cx.cx());
            let mut event = receiver.event();
            if event.is_none() {
                cx.now = receiver.deadline().unwrap();
                receiver.timeout(&mut cx.cx());
                event = receiver.event();
            }
            let cancelled = Some(ReceiverEvent::Failed(ModemFailure::Cancelled));
            assert_eq!(event, cancelled, "{at} {}", rest.len());
        }
    }
}

#[test]
fn a_valid_block_that_contains_a_cancel_sequence_is_data() {
    let (mut receiver, mut cx) = receiver_in_file();
    let mut block = Vec::new();
    block::put_block(&mut block, 2, &CANCEL_OF_LRZSZ, 0x18, block::Check::Crc);
    receiver.receive(&mut block.as_slice(), &mut cx.cx());
    let Some(ReceiverEvent::Data(data)) = receiver.event() else { panic!("no data") };
    assert!(data.starts_with(&CANCEL_OF_LRZSZ));
    // The CAN characters at the end of a block do not count.
    receiver.receive(&mut [0x18].as_slice(), &mut cx.cx());
    assert_eq!(receiver.event(), None);
}

#[test]
fn a_silent_sender_ends_the_transfer_after_a_minute() {
    let (mut receiver, mut cx) = receiver_in_file();
    let began = cx.now;
    let failure = loop {
        cx.now = receiver.deadline().unwrap();
        receiver.timeout(&mut cx.cx());
        receiver.transmit(&mut Vec::new());
        if let Some(event) = receiver.event() {
            break event;
        }
    };
    assert_eq!(failure, ReceiverEvent::Failed(ModemFailure::Silence));
    assert_eq!(cx.now - began, Duration::from_secs(60));
}

#[test]
fn the_pause_before_a_block_grows_with_each_repetition_up_to_its_limit() {
    let mut sender = Sender::new(true, Instant::ZERO);
    let mut cx = OwnedCx::default();
    sender.receive(&mut b"C".as_slice(), &mut cx.cx());
    sender.event();
    sender.put_data(b"data");
    let mut pauses = Vec::new();
    for _ in 0..5 {
        pauses.push((sender.deadline().unwrap() - cx.now).as_millis());
        cx.now = sender.deadline().unwrap();
        assert!(sender.transmit(&mut Vec::new(), &mut cx.cx()).is_some());
        sender.receive(&mut [0x15].as_slice(), &mut cx.cx());
    }
    assert_eq!(pauses, [2, 8, 32, 32, 32]);
}

#[test]
fn a_block_that_telnet_without_binary_doubles_is_sent_in_short_blocks() {
    let mut content = file(LONG_BLOCK_LEN + 300).1;
    content.extend(vec![0xff; 2 * LONG_BLOCK_LEN - 300]);
    content.extend(file(3 * LONG_BLOCK_LEN).1);
    let files = vec![(file(0).0, content)];
    let block_count = |is_nvt| {
        let mut sender = Sender::new(true, Instant::ZERO);
        sender.set_nvt(is_nvt);
        let mut transfer = Transfer::new(sender, Receiver::new(), &files, Faults::NONE, 1);
        transfer.server = TelnetServer::Unchanged;
        let result = transfer.run();
        assert_eq!((result.sender_failure, result.receiver_failure), (None, None));
        assert!(result.files[0].1 == files[0].1);
        (result.sent_bytes - files[0].1.len()) / 5
    };
    assert_eq!((block_count(false), block_count(true)), (6, 2 * 8 + 4));
}
