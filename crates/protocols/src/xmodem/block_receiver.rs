//! The receiving end of one sequence of blocks.

use super::block::{ACK, BlockParser, CRC_REQUEST, Check, NAK, Parsed};
use crate::modem::{CAN, CANCEL_COUNT, ModemFailure, NulAfterCr, RetryExpiry, RetryTimer};
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};

/// Interval of the requests for the first block with a CRC.
const CRC_REQUEST_INTERVAL: Duration = Duration::from_secs(3);
/// Number of requests with a CRC before a checksum is requested.
const CRC_REQUESTS: u8 = 4;
/// Timeout for the next block.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum pause within a block. Our choice: longer than the pauses of a busy network.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Silence after which a damaged block is considered to have ended.
const SILENCE: Duration = Duration::from_secs(1);
/// Maximum number of bytes discarded until the line is silent. Our choice: several blocks. More
/// bytes count as a further error, so that a line that is never silent ends the transfer.
const DISCARDED_MAX_BYTES: usize = 8 * 1024;

/// Purpose of a sequence of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockSequence {
    /// The data of a file; starts with block 1 and ends with EOT.
    File {
        /// Whether the receiver falls back to a checksum.
        allows_sum: bool,
    },
    /// A header of YMODEM, which is block 0 only.
    Header,
}

/// Result of a call of [`BlockReceiver::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReceivedBlock {
    /// [`BlockReceiver::data`] returns the data of the next block.
    Data,
    /// The sequence has ended.
    End,
    /// The transfer has failed.
    Failed(ModemFailure),
}

/// The receiving end of one sequence of blocks.
#[derive(Debug)]
pub(crate) struct BlockReceiver {
    sequence: BlockSequence,
    state: State,
    check: Check,
    parser: NulAfterCr<BlockParser>,
    /// Number of the next block.
    expected: u8,
    /// Whether a block has arrived, valid or not, so that the sender has received the first request.
    has_block: bool,
    timer: RetryTimer,
    reply: Option<&'static [u8]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Receiving,
    /// The previous unit was an EOT that was not acknowledged.
    Ending,
    /// The receiver has lost its place in a block, and discards input until the line is silent.
    Discarding {
        count: usize,
        cans: u8,
    },
}

const ACKNOWLEDGMENT: &[u8] = &[ACK];
const REPETITION: &[u8] = &[NAK];
/// Acknowledgment of a repeated message of YMODEM, and the request for the block after it.
const ACKNOWLEDGMENT_AND_REQUEST: &[u8] = &[ACK, CRC_REQUEST];

impl BlockReceiver {
    pub(crate) const fn new(sequence: BlockSequence) -> Self {
        Self {
            sequence,
            state: State::Receiving,
            check: Check::Crc,
            parser: NulAfterCr::new(BlockParser::new()),
            expected: match sequence {
                BlockSequence::File { .. } => 1,
                BlockSequence::Header => 0,
            },
            has_block: false,
            timer: RetryTimer::STOPPED,
            reply: None,
        }
    }

    /// Prepares for the next sequence of blocks. A pending acknowledgment is still sent.
    pub(crate) fn follow(&mut self, sequence: BlockSequence) {
        let mut next = Self { reply: self.reply, ..Self::new(sequence) };
        core::mem::swap(&mut next.parser, &mut self.parser);
        next.parser.restart().reset();
        *self = next;
    }

    /// Requests the first block.
    pub(crate) fn start(&mut self, now: Instant) {
        let (request, interval): (&[u8], _) = match self.check {
            Check::Crc if self.reply == Some(ACKNOWLEDGMENT) => {
                (ACKNOWLEDGMENT_AND_REQUEST, CRC_REQUEST_INTERVAL)
            }
            Check::Crc => (&[CRC_REQUEST], CRC_REQUEST_INTERVAL),
            Check::Sum => (REPETITION, BLOCK_TIMEOUT),
        };
        self.reply = Some(request);
        self.timer.start(now, interval);
    }

    /// Returns the data of the block that was received last.
    pub(crate) fn data(&self) -> &[u8] {
        self.parser.parser().data()
    }

    /// Processes input up to the next result.
    pub(crate) fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        while let Some((&byte, rest)) = input.split_first() {
            *input = rest;
            let result = match self.state {
                State::Discarding { count, cans } => self.discard(byte, count, cans, cx),
                State::Receiving | State::Ending => self.process(byte, cx),
            };
            if result.is_some() {
                return result;
            }
        }
        None
    }

    fn process(&mut self, byte: u8, cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        let check = self.check;
        let parsed = self.parser.push(byte, |parser, byte| parser.push(byte, check));
        self.process_parsed(parsed, cx)
    }

    /// Processes a NUL after a CR that arrived by Telnet without BINARY, and may not be data.
    pub(crate) fn receive_nul_after_cr(&mut self, cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        if let State::Discarding { count, cans } = self.state {
            return self.discard(0, count, cans, cx);
        }
        let check = self.check;
        let parsed = self.parser.push_nul(|parser, byte| parser.push(byte, check));
        self.process_parsed(parsed, cx)
    }

    fn process_parsed(&mut self, parsed: Option<Parsed>, cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        match parsed {
            None => {
                if self.parser.parser().is_in_block() {
                    self.timer.start(cx.now, PAUSE_MAX);
                }
                None
            }
            Some(Parsed::Cancelled) => Some(ReceivedBlock::Failed(ModemFailure::Cancelled)),
            Some(Parsed::EndOfTransmission) => self.on_end(cx),
            Some(Parsed::Block(number)) => self.on_block(number, cx),
            // Before the first block, text of the remote shell may arrive.
            Some(Parsed::Unexpected) if !self.has_block => None,
            Some(Parsed::Damaged | Parsed::Unexpected) => {
                cx.meter.count(Counter::ModemErrors);
                self.has_block |= self.parser.parser().has_number(self.expected);
                let cans = self.parser.parser().cans();
                self.parser.restart().reset();
                self.state = State::Discarding { count: 0, cans };
                self.timer.start(cx.now, SILENCE);
                None
            }
        }
    }

    fn discard(
        &mut self,
        byte: u8,
        count: usize,
        cans: u8,
        cx: &mut Cx<'_>,
    ) -> Option<ReceivedBlock> {
        let cans = if byte == CAN { cans + 1 } else { 0 };
        self.state = State::Discarding { count: (count + 1) % DISCARDED_MAX_BYTES, cans };
        self.timer.start(cx.now, SILENCE);
        if cans >= CANCEL_COUNT {
            return Some(ReceivedBlock::Failed(ModemFailure::Cancelled));
        }
        let is_failure = count + 1 == DISCARDED_MAX_BYTES && self.timer.record_failure();
        is_failure.then_some(ReceivedBlock::Failed(ModemFailure::TooManyErrors))
    }

    fn on_block(&mut self, number: u8, cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        self.state = State::Receiving;
        self.timer.start(cx.now, BLOCK_TIMEOUT);
        if number == self.expected {
            cx.meter.count(Counter::ModemFramesIn);
            self.timer.record_progress(cx.now);
            self.has_block = true;
            self.expected = number.wrapping_add(1);
            self.reply = Some(ACKNOWLEDGMENT);
            return Some(ReceivedBlock::Data);
        }
        cx.meter.count(Counter::ModemIgnored);
        if number != self.expected.wrapping_sub(1) || self.sequence == BlockSequence::Header {
            return Some(ReceivedBlock::Failed(ModemFailure::TooManyErrors));
        }
        // The acknowledgment of the previous block was lost. Block 0 of YMODEM precedes the first
        // block of a file, and its acknowledgment is followed by a request.
        let is_header = !self.has_block;
        self.reply = Some(if is_header { ACKNOWLEDGMENT_AND_REQUEST } else { ACKNOWLEDGMENT });
        None
    }

    fn on_end(&mut self, cx: &mut Cx<'_>) -> Option<ReceivedBlock> {
        self.timer.start(cx.now, BLOCK_TIMEOUT);
        if self.sequence == BlockSequence::Header {
            // The acknowledgment of the previous file was lost.
            cx.meter.count(Counter::ModemIgnored);
            self.reply = Some(ACKNOWLEDGMENT_AND_REQUEST);
            return None;
        }
        if self.state != State::Ending {
            // A single EOT may be noise.
            self.state = State::Ending;
            self.reply = Some(REPETITION);
            return None;
        }
        self.reply = Some(ACKNOWLEDGMENT);
        self.timer.stop();
        Some(ReceivedBlock::End)
    }

    /// Appends the pending reply.
    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) -> Option<usize> {
        let reply = self.reply.take()?;
        out.extend_from_slice(reply);
        Some(reply.len())
    }

    /// Returns when [`Self::timeout`] is due.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.timer.deadline()
    }

    /// Repeats the request for the next block; returns the failure if it was repeated too often.
    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) -> Option<ModemFailure> {
        let parser = self.parser.parser();
        match self.timer.expire(cx.now) {
            RetryExpiry::NotYet => return None,
            _ if parser.is_in_block() && parser.is_cancelled() => {
                return Some(ModemFailure::Cancelled);
            }
            RetryExpiry::GiveUp if !self.has_block => return Some(ModemFailure::NoAnswer),
            RetryExpiry::GiveUp => return Some(ModemFailure::Silence),
            RetryExpiry::Repeat => cx.meter.count(Counter::ModemTimeouts),
        }
        self.has_block |= parser.is_in_block() && parser.has_number(self.expected);
        self.parser.restart().reset();
        self.state = State::Receiving;
        if !self.has_block {
            // NAK would select the checksum.
            let allows_sum = matches!(self.sequence, BlockSequence::File { allows_sum: true });
            if allows_sum && self.timer.failures() >= CRC_REQUESTS {
                self.check = Check::Sum;
            }
            self.start(cx.now);
            return None;
        }
        cx.meter.count(Counter::ModemRetransmissions);
        self.reply = Some(REPETITION);
        self.timer.start(cx.now, BLOCK_TIMEOUT);
        None
    }
}
