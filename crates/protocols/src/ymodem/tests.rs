//! Sender and receiver over a simulated line.

use super::*;
use crate::modem::simulated_line::{
    Faults, Files, ReceivingEngine, SendingEngine, Transfer, delegate_methods, file, files,
};
use crate::modem::{DataRequest, FileInfo, ModemFailure, ReceiverEvent, SenderEvent};
use alloc::vec;
use alloc::vec::Vec;
use net::Cx;
use net::cx::OwnedCx;
use net::time::Instant;
use proptest::prelude::*;

impl SendingEngine for Sender {
    fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>) {
        Self::offer(self, info, cx);
    }
    fn finish(&mut self, cx: &mut Cx<'_>) {
        Self::finish(self, cx);
    }
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
    let receiver = Receiver::new(Instant::ZERO);
    Transfer::new(Sender::new(Instant::ZERO), receiver, files, faults, seed)
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
fn a_file_without_a_size_keeps_its_padding() {
    let (info, content) = file(100);
    let files = vec![(FileInfo { size: None, modified_unix_s: None, ..info }, content)];
    let result = transfer(&files, Faults::NONE, 1).run();
    assert_eq!(result.files[0].1[..100], files[0].1);
    assert_eq!(result.files[0].1[100..], [0x1a; 28]);
}

#[test]
fn a_skipped_file_does_not_end_the_batch() {
    let mut transfer = transfer(&files(), Faults::NONE, 1);
    transfer.unwanted = b"file-1025";
    let result = transfer.run();
    assert_eq!(result.files.len(), files().len() - 1);
}

#[test]
fn a_file_shorter_than_its_size_is_a_failure() {
    let (info, content) = file(100);
    let files = vec![(FileInfo { size: Some(5000), ..info }, content)];
    let result = transfer(&files, Faults::NONE, 1).run();
    assert_eq!(result.receiver_failure, Some(ModemFailure::RemoteFile));
    assert_eq!(result.sender_failure, Some(ModemFailure::Cancelled));
}

#[test]
fn the_first_output_of_each_end_is_that_of_the_protocol() {
    let mut cx = OwnedCx::default();
    let mut out = Vec::new();
    Receiver::new(Instant::ZERO).transmit(&mut out);
    assert_eq!(out, b"C");
    out.clear();
    let mut sender = Sender::new(Instant::ZERO);
    assert_eq!(sender.event(), Some(SenderEvent::NextFile));
    sender.finish(&mut cx.cx());
    sender.receive(&mut b"C".as_slice(), &mut cx.cx());
    cx.now = sender.deadline().unwrap();
    sender.transmit(&mut out, &mut cx.cx());
    assert_eq!(out, [&[1, 0, 0xff][..], &[0; 130]].concat());
}

proptest! {
    #[test]
    fn any_input_of_a_receiver_is_consumed_or_answered(
        input in prop::collection::vec(prop_oneof![Just(1), Just(4), Just(0x18), any::<u8>()], 0..300),
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
