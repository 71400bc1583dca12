//! The receiving end of ZMODEM.

use super::header::{Capabilities, FrameType, Header, ZPAD};
use super::parser::{Parsed, Parser};
use super::subpacket::SubpacketEnd;
use crate::modem::{
    CAN, CANCEL_SEQUENCE, FileInfo, ModemFailure, NulAfterCr, ReceiverEvent, RetryExpiry,
    RetryTimer,
};
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};

/// Timeout for the next header or subpacket, as in the protocol reference.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the two characters after ZFIN.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a repeated ZFIN, with some padding.
const REPEATED_ZFIN_MAX_LEN: usize = 32;
/// Number of letters O that end a transfer.
const END_LETTERS: usize = 2;
/// Maximum number of bytes of queued headers. Our choice: more than the answers to the headers of
/// one read that a correct sender sends.
const OUTPUT_MAX_BYTES: usize = 256;

/// Character of a line end, without and with parity.
type LineEndCodes = [u8; 2];
/// Line end of a header in hexadecimal digits. XON is missing after ZFIN of most senders.
const LINE_END: &[LineEndCodes] = &[[b'\r', 0x8d], [b'\n', 0x8a], [0x11, 0x91]];

pub(super) const CAPABILITIES: Capabilities = Capabilities {
    is_full_duplex: true,
    overlaps_io: true,
    has_crc32: true,
    escapes_controls: false,
    buffer_len: 0,
};

/// The receiving end of one batch of files.
#[derive(Debug)]
pub struct Receiver {
    state: State,
    parser: NulAfterCr<Parser>,
    /// Headers that are queued for sending, encoded.
    output: Vec<u8>,
    timer: RetryTimer,
    /// Whether a valid header has arrived.
    has_answer: bool,
    /// Whether headers are sent without a line end.
    omits_line_end: bool,
    /// Header of the subpacket that is received.
    subpacket_of: FrameType,
    /// Whether another subpacket follows the one whose event is pending.
    continues_frame: bool,
    /// The event that [`Self::event`] returns next.
    pending: Option<Pending>,
    /// Text of the session after the end of the sender.
    text: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Waits for ZFILE or ZFIN; ZRINIT was sent.
    Ready,
    /// A file is offered, and its owner has not answered.
    Offered(FileInfo),
    /// Waits for the CRC of the first bytes of the offered file; ZCRC was sent.
    AwaitingCrc(FileInfo, u32),
    /// Receives the data of a file.
    Receiving {
        position: u32,
        /// Whether ZRPOS was sent after an error, so that data of another position may arrive.
        is_resynchronizing: bool,
    },
    /// ZFIN was answered; waits for the rest of its line end, and for two letters O.
    Ending {
        line_end: &'static [LineEndCodes],
    },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pending {
    Offer(FileInfo),
    RemoteCrc(Option<u32>),
    /// The data is in the parser.
    Data,
    FileComplete,
    Complete,
    Failed(ModemFailure),
}

impl Receiver {
    /// Creates a receiver, which requests the first file.
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let mut receiver = Self {
            state: State::Ready,
            parser: NulAfterCr::new(Parser::default()),
            output: Vec::new(),
            timer: RetryTimer::STOPPED,
            has_answer: false,
            omits_line_end: false,
            subpacket_of: FrameType::Zfile,
            continues_frame: false,
            pending: None,
            text: Vec::new(),
        };
        Header::zrinit(CAPABILITIES).put_hex(&mut receiver.output);
        receiver.timer.start(now, ANSWER_TIMEOUT);
        receiver
    }

    /// Queues a header, and waits for its answer.
    fn send(&mut self, frame_type: FrameType, position: u32, cx: &mut Cx<'_>) {
        self.queue(Header::new(frame_type, position), cx);
    }

    fn queue(&mut self, header: Header, cx: &mut Cx<'_>) {
        self.timer.start(cx.now, ANSWER_TIMEOUT);
        if self.output.len() > OUTPUT_MAX_BYTES {
            return cx.meter.count(Counter::ModemIgnored);
        }
        match self.omits_line_end {
            true => header.put_erased_hex(&mut self.output),
            false => header.put_hex(&mut self.output),
        }
        cx.meter.count(Counter::ModemFramesOut);
    }

    /// Selects whether headers are sent without a line end, and are followed by ^U: if the sender has
    /// ended, they must not become a command of a shell or the choice of a menu.
    pub const fn omit_line_end(&mut self, omits: bool) {
        self.omits_line_end = omits;
    }

    /// Returns whether the sender has sent a valid header.
    #[must_use]
    pub const fn has_answer(&self) -> bool {
        self.has_answer
    }

    /// Requests the CRC-32 of the first `len` bytes of the offered file.
    pub fn request_crc(&mut self, len: u32, cx: &mut Cx<'_>) {
        if let State::Offered(info) = &self.state {
            self.state = State::AwaitingCrc(info.clone(), len);
            self.send(FrameType::Zcrc, len, cx);
        }
    }

    /// Requests the offered file from `position`.
    pub fn accept(&mut self, position: u32, cx: &mut Cx<'_>) {
        if let State::Offered(_) = self.state {
            self.state = State::Receiving { position, is_resynchronizing: false };
            self.send(FrameType::Zrpos, position, cx);
        }
    }

    /// Refuses the offered file; the sender continues with the next one.
    pub fn skip(&mut self, cx: &mut Cx<'_>) {
        if let State::Offered(_) = self.state {
            self.state = State::Ready;
            self.send(FrameType::Zskip, 0, cx);
        }
    }

    /// Cancels the transfer.
    pub fn abort(&mut self) {
        if !self.is_over() {
            self.output.clear();
            self.output.extend_from_slice(&CANCEL_SEQUENCE);
        }
        self.state = State::Ended;
        self.pending = None;
    }

    /// Processes received bytes up to the next event, and removes them from `input`.
    pub fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) {
        self.prepare(cx);
        while self.pending.is_none()
            && self.state != State::Ended
            && let Some((&byte, rest)) = input.split_first()
        {
            if let State::Ending { line_end } = self.state {
                if self.process_end(byte, line_end, cx) {
                    *input = rest;
                }
                continue;
            }
            *input = rest;
            if let Some(parsed) = self.parser.push(byte, Parser::push) {
                self.process(parsed, cx);
            }
        }
    }

    /// Processes a NUL after a CR that arrived by Telnet without BINARY, and may not be data.
    pub fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.state, State::Ending { .. } | State::Ended) {
            return;
        }
        self.prepare(cx);
        if self.pending.is_none()
            && let Some(parsed) = self.parser.push_nul(Parser::push)
        {
            self.process(parsed, cx);
        }
    }

    fn prepare(&mut self, cx: &Cx<'_>) {
        if self.pending.is_none() && core::mem::take(&mut self.continues_frame) {
            self.parser.restart().expect_subpacket();
        }
        if matches!(self.state, State::Receiving { .. }) && !self.parser.parser().is_hunting() {
            // On a slow line, one subpacket takes longer than the timeout.
            self.timer.start(cx.now, ANSWER_TIMEOUT);
        }
    }

    /// Processes a byte after ZFIN; returns whether it was consumed. Text of the session may follow at
    /// once, because some senders omit the two letters O, or end before they are transmitted.
    fn process_end(
        &mut self,
        byte: u8,
        line_end: &'static [LineEndCodes],
        cx: &mut Cx<'_>,
    ) -> bool {
        if self.text.is_empty() {
            if let Some(at) = line_end.iter().take(2).position(|codes| codes.contains(&byte)) {
                let line_end = line_end.get(at + 1..).unwrap_or_default();
                self.state = State::Ending { line_end };
                return true;
            }
            if !matches!(byte, b'O' | ZPAD | CAN) {
                self.pending = Some(Pending::Complete);
                return false;
            }
        }
        self.state = State::Ending { line_end: &[] };
        if byte == b'O' && matches!(self.text.as_slice(), [] | [b'O']) {
            self.text.push(byte);
            if self.text.len() == END_LETTERS {
                self.text.clear();
                self.pending = Some(Pending::Complete);
            }
            return true;
        }
        let parsed = self.parser.push(byte, Parser::push);
        if let Some(parsed @ (Parsed::Header(_) | Parsed::Cancelled)) = parsed {
            // ZFIN is repeated.
            self.text.clear();
            self.process(parsed, cx);
        } else if byte != CAN || !self.text.is_empty() {
            self.text.push(byte);
            if self.parser.parser().is_hunting() || self.text.len() > REPEATED_ZFIN_MAX_LEN {
                self.pending = Some(Pending::Complete);
            }
        }
        true
    }

    /// Returns and removes the text of the session that was received with the end of the transfer.
    pub fn take_text(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.text)
    }

    fn process(&mut self, parsed: Parsed, cx: &mut Cx<'_>) {
        match parsed {
            Parsed::Cancelled => self.pending = Some(Pending::Failed(ModemFailure::Cancelled)),
            Parsed::DamagedHeader => {
                cx.meter.count(Counter::ModemErrors);
                self.on_damage(false, cx);
            }
            Parsed::DamagedSubpacket => {
                cx.meter.count(Counter::ModemErrors);
                self.on_damage(true, cx);
            }
            Parsed::Header(header) => {
                cx.meter.count(Counter::ModemFramesIn);
                self.has_answer = true;
                self.on_header(header, cx);
            }
            Parsed::Subpacket(end) => {
                cx.meter.count(Counter::ModemFramesIn);
                self.on_subpacket(end, cx);
            }
        }
    }

    /// Requests the lost data again, unless that was done already: after an error, the rest of the
    /// frame arrives before the answer.
    fn on_damage(&mut self, is_data: bool, cx: &mut Cx<'_>) {
        let State::Receiving { position, is_resynchronizing, .. } = &mut self.state else {
            if self.state == State::Ready {
                self.send(FrameType::Znak, 0, cx);
                self.count_failure();
            }
            return;
        };
        if *is_resynchronizing && !is_data {
            return;
        }
        *is_resynchronizing = true;
        let position = *position;
        cx.meter.count(Counter::ModemRetransmissions);
        self.send(FrameType::Zrpos, position, cx);
        self.count_failure();
    }

    fn count_failure(&mut self) {
        if self.timer.record_failure() {
            self.pending = Some(Pending::Failed(ModemFailure::TooManyErrors));
        }
    }

    fn on_header(&mut self, header: Header, cx: &mut Cx<'_>) {
        match header.frame_type {
            FrameType::Zrqinit if self.state == State::Ready => {
                self.queue(Header::zrinit(CAPABILITIES), cx);
            }
            FrameType::Zsinit | FrameType::Zstderr => self.expect_data(header),
            FrameType::Zfile => self.on_zfile(header, cx),
            FrameType::Zdata => self.on_zdata(header, cx),
            FrameType::Zeof => self.on_zeof(header.position, cx),
            FrameType::Zcrc => {
                if let State::AwaitingCrc(info, _) = &self.state {
                    self.state = State::Offered(info.clone());
                    self.timer.stop();
                    self.pending = Some(Pending::RemoteCrc(Some(header.position)));
                }
            }
            FrameType::Zfin => {
                self.send(FrameType::Zfin, 0, cx);
                self.timer.start(cx.now, END_TIMEOUT);
                self.state = State::Ending { line_end: LINE_END };
            }
            FrameType::Zfreecnt => self.send(FrameType::Zack, u32::MAX, cx),
            FrameType::Zchallenge => {
                self.send(FrameType::Zack, header.position, cx);
            }
            FrameType::Znak => {
                self.count_failure();
                self.repeat(cx);
            }
            FrameType::Zcommand => self.fail(ModemFailure::CommandRefused),
            FrameType::Zabort | FrameType::Zcan => self.fail(ModemFailure::Cancelled),
            FrameType::Zferr => self.fail(ModemFailure::RemoteFile),
            _ => cx.meter.count(Counter::ModemIgnored),
        }
    }

    fn fail(&mut self, failure: ModemFailure) {
        self.pending = Some(Pending::Failed(failure));
    }

    fn expect_data(&mut self, header: Header) {
        self.parser.restart().expect_subpacket();
        self.subpacket_of = header.frame_type;
    }

    fn on_zfile(&mut self, header: Header, cx: &mut Cx<'_>) {
        match &self.state {
            State::Ready => self.expect_data(header),
            // The answer to the offer was lost.
            State::Receiving { position, .. } => {
                let position = *position;
                self.send(FrameType::Zrpos, position, cx);
                self.count_failure();
            }
            _ => cx.meter.count(Counter::ModemIgnored),
        }
    }

    fn on_zdata(&mut self, header: Header, cx: &mut Cx<'_>) {
        let State::Receiving { position, is_resynchronizing, .. } = &mut self.state else {
            return cx.meter.count(Counter::ModemIgnored);
        };
        if header.position == *position {
            *is_resynchronizing = false;
            self.timer.start(cx.now, ANSWER_TIMEOUT);
            return self.expect_data(header);
        }
        self.on_damage(true, cx);
    }

    fn on_zeof(&mut self, end: u32, cx: &mut Cx<'_>) {
        let State::Receiving { position, .. } = &self.state else {
            if self.state == State::Ready {
                // The ZRINIT after the file was lost.
                self.queue(Header::zrinit(CAPABILITIES), cx);
            }
            return cx.meter.count(Counter::ModemIgnored);
        };
        if end != *position {
            // The sender has not received the ZRPOS that was sent after an error.
            return cx.meter.count(Counter::ModemIgnored);
        }
        self.state = State::Ready;
        self.timer.record_progress(cx.now);
        self.queue(Header::zrinit(CAPABILITIES), cx);
        self.pending = Some(Pending::FileComplete);
    }

    fn on_subpacket(&mut self, end: SubpacketEnd, cx: &mut Cx<'_>) {
        let len = self.parser.parser().data().len();
        match (self.subpacket_of, &mut self.state) {
            (FrameType::Zsinit, _) => self.send(FrameType::Zack, 0, cx),
            (FrameType::Zfile, State::Ready) => {
                match FileInfo::parse(self.parser.parser().data()) {
                    Some(info) => {
                        self.state = State::Offered(info.clone());
                        self.timer.record_progress(cx.now);
                        self.timer.stop();
                        self.pending = Some(Pending::Offer(info));
                    }
                    None => {
                        cx.meter.count(Counter::ModemErrors);
                        self.send(FrameType::Zskip, 0, cx);
                    }
                }
            }
            (FrameType::Zdata, State::Receiving { position, .. }) => {
                let Some(next) = u32::try_from(len).ok().and_then(|len| position.checked_add(len))
                else {
                    return self.fail(ModemFailure::FileTooLarge);
                };
                *position = next;
                self.timer.record_progress(cx.now);
                self.timer.start(cx.now, ANSWER_TIMEOUT);
                if matches!(end, SubpacketEnd::Zcrcq | SubpacketEnd::Zcrcw) {
                    self.send(FrameType::Zack, next, cx);
                }
                if len > 0 {
                    self.pending = Some(Pending::Data);
                    self.continues_frame = !end.ends_frame();
                } else if !end.ends_frame() {
                    self.parser.restart().expect_subpacket();
                }
            }
            _ => cx.meter.count(Counter::ModemIgnored),
        }
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<ReceiverEvent<'_>> {
        Some(match self.pending.take()? {
            Pending::Offer(info) => ReceiverEvent::Offer(info),
            Pending::RemoteCrc(crc) => ReceiverEvent::RemoteCrc(crc),
            Pending::Data => ReceiverEvent::Data(self.parser.parser().data()),
            Pending::FileComplete => ReceiverEvent::FileComplete,
            Pending::Complete => {
                self.state = State::Ended;
                ReceiverEvent::Complete
            }
            Pending::Failed(failure) => {
                self.state = State::Ended;
                if failure.must_cancel() {
                    self.output.clear();
                    self.output.extend_from_slice(&CANCEL_SEQUENCE);
                }
                ReceiverEvent::Failed(failure)
            }
        })
    }

    /// Appends the next output and returns its length, or `None` if no output is due.
    pub fn transmit(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let len = self.output.len();
        out.append(&mut self.output);
        (len > 0).then_some(len)
    }

    /// Returns when [`Self::timeout`] is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.timer.deadline().filter(|_| self.state != State::Ended)
    }

    /// Repeats the last header, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.pending.is_some() || self.state == State::Ended {
            return;
        }
        match self.timer.expire(cx.now) {
            RetryExpiry::NotYet => return,
            // The sender has ended.
            _ if matches!(self.state, State::Ending { .. }) => {
                self.pending = Some(Pending::Complete);
                return;
            }
            RetryExpiry::GiveUp if self.has_answer => return self.fail(ModemFailure::Silence),
            RetryExpiry::GiveUp => return self.fail(ModemFailure::NoAnswer),
            RetryExpiry::Repeat => cx.meter.count(Counter::ModemTimeouts),
        }
        if let State::AwaitingCrc(info, _) = &self.state {
            self.state = State::Offered(info.clone());
            self.pending = Some(Pending::RemoteCrc(None));
            return;
        }
        self.repeat(cx);
    }

    /// Repeats the last header before its timeout: the sender may have ended. A sender that is only
    /// delayed continues at the requested position.
    pub fn request_again(&mut self, cx: &mut Cx<'_>) {
        if self.pending.is_none() {
            self.repeat(cx);
        }
    }

    /// Sends the header again that the sender has not answered.
    fn repeat(&mut self, cx: &mut Cx<'_>) {
        self.parser.restart().expect_header();
        match &mut self.state {
            State::Ready => self.queue(Header::zrinit(CAPABILITIES), cx),
            State::AwaitingCrc(_, len) => {
                let len = *len;
                self.send(FrameType::Zcrc, len, cx);
            }
            State::Receiving { position, is_resynchronizing } => {
                *is_resynchronizing = true;
                let position = *position;
                cx.meter.count(Counter::ModemRetransmissions);
                self.send(FrameType::Zrpos, position, cx);
            }
            State::Offered(_) | State::Ending { .. } | State::Ended => {}
        }
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Ended && self.pending.is_none()
    }
}
