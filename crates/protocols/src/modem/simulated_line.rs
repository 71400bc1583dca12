//! Tests: a line that damages, loses, repeats and delays bytes, and both ends of a transfer over it.

use super::{DataRequest, FileInfo, ModemFailure, ReceiverEvent, SenderEvent};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use net::Cx;
use net::cx::OwnedCx;
use net::time::{Duration, Instant};
use std::println;

/// Faults of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    /// A byte has a fault once in this many bytes; 0 is never.
    pub(crate) interval_bytes: u64,
    pub(crate) delay: Duration,
}

impl Faults {
    pub(crate) const NONE: Self = Self { interval_bytes: 0, delay: Duration::from_millis(20) };
    pub(crate) const FREQUENT: Self = Self { interval_bytes: 2000, ..Self::NONE };
}

/// Telnet server without BINARY in front of the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TelnetServer {
    /// No Telnet.
    None,
    /// Inserts a NUL after each CR that is not followed by LF, as in RFC 854.
    Conforming,
    /// Sends all bytes unchanged, except IAC.
    Unchanged,
}

impl TelnetServer {
    /// Returns the bytes that the server sends, without the second IAC of each pair.
    fn send(self, bytes: &[u8]) -> Vec<u8> {
        let mut sent = Vec::new();
        for (at, byte) in bytes.iter().enumerate() {
            sent.push(*byte);
            if *byte == b'\r' && self == Self::Conforming && bytes.get(at + 1) != Some(&b'\n') {
                sent.push(0);
            }
        }
        sent
    }
}

/// One direction of a line.
struct Direction {
    faults: Faults,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
}

impl Direction {
    fn put(&mut self, bytes: &[u8], cx: &mut OwnedCx) {
        let mut arriving = Vec::new();
        for &byte in bytes {
            let interval = self.faults.interval_bytes;
            if interval == 0 || cx.rng.below(interval) != 0 {
                arriving.push(byte);
                continue;
            }
            match cx.rng.below(3) {
                0 => {}
                1 => arriving.extend_from_slice(&[byte, byte]),
                _ => arriving.push(byte ^ 1 << cx.rng.below(8)),
            }
        }
        if !arriving.is_empty() {
            self.in_flight.push_back((cx.now + self.faults.delay, arriving));
        }
    }

    fn arrival(&self) -> Option<Instant> {
        self.in_flight.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Instant) -> Vec<u8> {
        let (_, bytes) = self.in_flight.pop_front_if(|(at, _)| *at <= now).unwrap_or((now, vec![]));
        bytes
    }
}

/// A sending engine.
pub(crate) trait SendingEngine {
    fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>);
    fn finish(&mut self, cx: &mut Cx<'_>);
    fn answer_crc(&mut self, crc: u32, cx: &mut Cx<'_>);
    fn data_request(&self) -> Option<DataRequest>;
    fn put_data(&mut self, data: &[u8], cx: &mut Cx<'_>);
    fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>);
    fn event(&mut self) -> Option<SenderEvent>;
    fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize>;
    fn deadline(&self) -> Option<Instant>;
    fn timeout(&mut self, cx: &mut Cx<'_>);
    fn is_over(&self) -> bool;
}

/// A receiving engine.
pub(crate) trait ReceivingEngine {
    /// Answers an offer, of which the first `len` bytes are already stored.
    fn accept(&mut self, len: u32, cx: &mut Cx<'_>);
    fn request_crc(&mut self, len: u32, cx: &mut Cx<'_>);
    fn skip(&mut self, cx: &mut Cx<'_>);
    fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>);
    fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>);
    fn event(&mut self) -> Option<ReceiverEvent<'_>>;
    fn transmit(&mut self, out: &mut Vec<u8>) -> Option<usize>;
    fn deadline(&self) -> Option<Instant>;
    fn timeout(&mut self, cx: &mut Cx<'_>);
    fn is_over(&self) -> bool;
}

/// Implements a trait of this file by the inherent methods of an engine.
macro_rules! delegate_methods {
    ($engine:ty) => {
        fn receive(&mut self, input: &mut &[u8], cx: &mut net::Cx<'_>) {
            <$engine>::receive(self, input, cx);
        }
        fn deadline(&self) -> Option<net::time::Instant> {
            <$engine>::deadline(self)
        }
        fn timeout(&mut self, cx: &mut net::Cx<'_>) {
            <$engine>::timeout(self, cx);
        }
        fn is_over(&self) -> bool {
            <$engine>::is_over(self)
        }
    };
}
pub(crate) use delegate_methods;

/// Files with their contents.
pub(crate) type Files = Vec<(FileInfo, Vec<u8>)>;

/// Result of a transfer.
#[derive(Debug, Default)]
pub(crate) struct TransferResult {
    /// Stored files.
    pub(crate) files: Files,
    pub(crate) skipped: usize,
    pub(crate) sender_failure: Option<ModemFailure>,
    pub(crate) receiver_failure: Option<ModemFailure>,
    /// Number of bytes that the sender transmitted.
    pub(crate) sent_bytes: usize,
}

/// Both ends of a transfer.
pub(crate) struct Transfer<S, R> {
    pub(crate) sender: S,
    pub(crate) receiver: R,
    pub(crate) cx: OwnedCx,
    to_receiver: Direction,
    to_sender: Direction,
    files: VecDeque<(FileInfo, Vec<u8>)>,
    current: Vec<u8>,
    stored: Option<(FileInfo, Vec<u8>)>,
    /// Bytes that the receiver has from an earlier transfer.
    partial: Vec<u8>,
    /// Name of the file that the receiver does not want.
    pub(crate) unwanted: &'static [u8],
    pub(crate) server: TelnetServer,
    /// Whether the last byte that the receiver got was a CR.
    has_cr: bool,
    pub(crate) result: TransferResult,
}

impl<S: SendingEngine, R: ReceivingEngine> Transfer<S, R> {
    /// Connects both ends; `seed` is printed, so that a failure can be repeated.
    pub(crate) fn new(sender: S, receiver: R, files: &Files, faults: Faults, seed: u64) -> Self {
        println!("seed {seed}");
        let direction = || Direction { faults, in_flight: VecDeque::new() };
        Self {
            sender,
            receiver,
            cx: OwnedCx::with_seed(seed),
            to_receiver: direction(),
            to_sender: direction(),
            files: files.iter().cloned().collect(),
            // XMODEM offers no file.
            current: files.first().map(|(_, content)| content.clone()).unwrap_or_default(),
            stored: None,
            partial: Vec::new(),
            unwanted: b"",
            server: TelnetServer::None,
            has_cr: false,
            result: TransferResult::default(),
        }
    }

    /// The receiver has these bytes from an earlier transfer.
    pub(crate) fn with_partial(mut self, partial: &[u8]) -> Self {
        self.partial = partial.to_vec();
        self
    }

    /// Runs until both ends are over.
    pub(crate) fn run(mut self) -> TransferResult {
        self.serve_sender();
        self.serve_receiver();
        for _ in 0..1_000_000 {
            if self.sender.is_over() && self.receiver.is_over() {
                return self.result;
            }
            self.step();
        }
        panic!("the transfer does not end");
    }

    /// Transmits all output, and advances the time to the next event.
    fn step(&mut self) {
        self.transmit();
        let next = [
            self.to_receiver.arrival(),
            self.to_sender.arrival(),
            self.sender.deadline(),
            self.receiver.deadline(),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return };
        self.cx.now = self.cx.now.max(next);
        let now = self.cx.now;
        let arrived = self.to_receiver.take(now);
        let replies = self.to_sender.take(now);
        self.deliver(&arrived, &replies);
        self.sender.timeout(&mut self.cx.cx());
        self.receiver.timeout(&mut self.cx.cx());
        self.serve_sender();
        self.serve_receiver();
    }

    fn transmit(&mut self) {
        let mut out = Vec::new();
        while let Some(request) = self.sender.data_request() {
            let start = usize::try_from(request.position).unwrap();
            let rest = self.current.get(start..).unwrap_or_default();
            let data = &rest[..rest.len().min(request.max_len)];
            self.sender.put_data(data, &mut self.cx.cx());
        }
        while self.sender.transmit(&mut out, &mut self.cx.cx()).is_some() {}
        self.result.sent_bytes += out.len();
        self.to_receiver.put(&self.server.send(&out), &mut self.cx);
        out.clear();
        while self.receiver.transmit(&mut out).is_some() {}
        self.to_sender.put(&out, &mut self.cx);
    }

    fn deliver(&mut self, arrived: &[u8], mut replies: &[u8]) {
        for run in arrived.split_inclusive(|byte| *byte == b'\r') {
            let has_nul = self.server != TelnetServer::None && self.has_cr && run.starts_with(&[0]);
            self.has_cr = run.ends_with(b"\r");
            if has_nul {
                self.receiver.receive_nul_after_cr(&mut self.cx.cx());
                self.serve_receiver();
            }
            let mut rest = run.get(usize::from(has_nul)..).unwrap_or_default();
            while !rest.is_empty() && !self.receiver.is_over() {
                self.receiver.receive(&mut rest, &mut self.cx.cx());
                self.serve_receiver();
            }
        }
        while !replies.is_empty() && !self.sender.is_over() {
            self.sender.receive(&mut replies, &mut self.cx.cx());
            self.serve_sender();
        }
    }

    fn serve_sender(&mut self) {
        while let Some(event) = self.sender.event() {
            match event {
                SenderEvent::NextFile => match self.files.pop_front() {
                    Some((info, content)) => {
                        self.current = content;
                        self.sender.offer(&info, &mut self.cx.cx());
                    }
                    None => self.sender.finish(&mut self.cx.cx()),
                },
                SenderEvent::CrcRequested(len) => {
                    let start = &self.current[..usize::try_from(len).unwrap()];
                    self.sender.answer_crc(super::Crc32::of(start), &mut self.cx.cx());
                }
                SenderEvent::Skipped => self.result.skipped += 1,
                SenderEvent::Failed(failure) => self.result.sender_failure = Some(failure),
                SenderEvent::Accepted(_) | SenderEvent::FileComplete | SenderEvent::Complete => {}
            }
        }
    }

    fn serve_receiver(&mut self) {
        while let Some(event) = self.receiver.event() {
            match event {
                ReceiverEvent::Offer(info) => {
                    let is_unwanted = !info.name.is_empty() && info.name == self.unwanted;
                    self.stored = Some((info, Vec::new()));
                    let len = u32::try_from(self.partial.len()).unwrap();
                    match len {
                        _ if is_unwanted => self.receiver.skip(&mut self.cx.cx()),
                        0 => self.receiver.accept(0, &mut self.cx.cx()),
                        _ => self.receiver.request_crc(len, &mut self.cx.cx()),
                    }
                }
                ReceiverEvent::RemoteCrc(crc) => {
                    if crc == Some(super::Crc32::of(&self.partial)) {
                        let partial = core::mem::take(&mut self.partial);
                        let len = u32::try_from(partial.len()).unwrap();
                        self.stored.as_mut().unwrap().1 = partial;
                        self.receiver.accept(len, &mut self.cx.cx());
                    } else {
                        self.receiver.accept(0, &mut self.cx.cx());
                    }
                }
                ReceiverEvent::Data(data) => {
                    self.stored.as_mut().unwrap().1.extend_from_slice(data);
                }
                ReceiverEvent::FileComplete => {
                    self.result.files.push(self.stored.take().unwrap());
                }
                ReceiverEvent::Failed(failure) => self.result.receiver_failure = Some(failure),
                ReceiverEvent::Complete => {}
            }
        }
    }
}

/// Returns a file of `len` bytes that contains all byte values.
pub(crate) fn file(len: usize) -> (FileInfo, Vec<u8>) {
    let content: Vec<u8> =
        (0..len).map(|at| u8::try_from((at * 7 + at / 256 * 13) % 256).unwrap()).collect();
    let info = FileInfo {
        name: format!("file-{len}").into_bytes(),
        size: Some(u64::try_from(len).unwrap()),
        modified_unix_s: Some(1_000_000_000),
    };
    (info, content)
}

/// Returns a file whose bytes are often CR, NUL or LF.
pub(crate) fn file_of_line_ends(len: usize) -> (FileInfo, Vec<u8>) {
    let (info, _) = file(len);
    let mut cx = OwnedCx::with_seed(5);
    let byte = |_| {
        let random = cx.rng.below(1024);
        match random {
            0..256 => u8::try_from(random).unwrap(),
            _ => b"\r\0\n\r"[usize::try_from(random % 4).unwrap()],
        }
    };
    (info, (0..len).map(byte).collect())
}

/// Returns files of the sizes at which the number of blocks changes.
pub(crate) fn files() -> Files {
    [0, 1, 127, 128, 129, 1023, 1024, 1025, 20_000].map(file).to_vec()
}
