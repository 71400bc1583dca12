//! The sending end of one sequence of blocks.

use super::block::{ACK, CANCEL_COUNT, CRC_REQUEST, Check, EOT, NAK, padding, put_block};
use super::{LONG_BLOCK_LEN, SHORT_BLOCK_LEN};
use crate::modem::{CAN, DataRequest, ModemFailure, RetryExpiry, RetryTimer, UnexpectedText};
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};

/// Timeout for the first request of the receiver: one minute, as in the protocol reference.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between an answer of the receiver and the next block. lrzsz discards its input just after it
/// has written an answer, and loses the start of a block that arrives before. The time between these
/// two system calls is short unless the remote host is busy. Our choice: without a pause, 1 to 3 of
/// 1000 blocks were lost on a local connection, and each cost 6 s; with 2 ms, none of 9000.
const ANSWER_PAUSE_MIN: Duration = Duration::from_millis(2);
/// Maximum pause.
const ANSWER_PAUSE_MAX: Duration = Duration::from_millis(32);
/// Factor by which the pause grows with each block that the receiver requests again. Our choice: on
/// busy hosts, up to 7 ms between the two system calls were measured, and each lost block costs as
/// much time as hundreds of pauses.
const ANSWER_PAUSE_GROWTH: u32 = 4;
/// Number of times that the end is repeated without an answer.
const END_REPETITIONS: u8 = 3;
/// Part of the bytes of a long block, 1 of this number, that Telnet without BINARY may double. Our
/// choice: the encoded block fits into one TCP segment, and into the buffer of about 2000 bytes of the
/// server of busybox, which changes the line ends of longer blocks.
const DOUBLED_PART: usize = 4;
/// Timeout for an acknowledgment.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without an answer after unexpected text after which the receiver has ended. Our choice: less
/// than the timeout, after which the block would be repeated to a shell.
const ENDED_TIME: Duration = Duration::from_secs(8);

/// Result of a call of [`BlockSender::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentBlocks {
    /// The receiver has requested the first block.
    Started,
    /// The receiver has acknowledged the end of the sequence.
    End,
    /// The transfer has failed.
    Failed(ModemFailure),
}

/// The sending end of one sequence of blocks.
#[derive(Debug)]
pub(crate) struct BlockSender {
    state: State,
    check: Check,
    is_header: bool,
    block_len: usize,
    /// Whether Telnet without BINARY carries the output.
    is_nvt: bool,
    number: u8,
    /// Position of the current block.
    position: u64,
    block: Vec<u8>,
    must_send: bool,
    /// Time before which nothing is sent.
    ready_at: Instant,
    answer_pause: Duration,
    cans: u8,
    timer: RetryTimer,
    /// Text since the last answer.
    text: UnexpectedText,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The receiver has not requested the first block.
    Starting,
    /// The owner must provide the next block.
    NeedsData,
    /// A block was sent, or is to be sent.
    AwaitingAck,
    /// EOT was sent, or is to be sent.
    Ending,
    Ended,
}

impl BlockSender {
    /// Creates the sender of a file in blocks of 1024 or of 128 bytes.
    pub(crate) fn for_file(uses_long_blocks: bool, now: Instant) -> Self {
        let block_len = if uses_long_blocks { LONG_BLOCK_LEN } else { SHORT_BLOCK_LEN };
        Self::new(Vec::new(), false, block_len, now)
    }

    /// Keeps the pause and the line of the sequence of blocks before this one.
    pub(crate) fn after(mut self, previous: &Self) -> Self {
        self.answer_pause = previous.answer_pause;
        self.is_nvt = previous.is_nvt;
        self
    }

    /// Selects whether Telnet without BINARY carries the output. Blocks that it would encode in many
    /// more bytes are then sent as short blocks.
    pub(crate) const fn set_nvt(&mut self, is_nvt: bool) {
        self.is_nvt = is_nvt;
    }

    /// Creates the sender of block 0, which contains `header`.
    pub(crate) fn for_header(header: Vec<u8>, now: Instant) -> Self {
        Self::new(header, true, LONG_BLOCK_LEN, now)
    }

    fn new(block: Vec<u8>, is_header: bool, block_len: usize, now: Instant) -> Self {
        let mut timer = RetryTimer::STOPPED;
        timer.start(now, START_TIMEOUT);
        Self {
            state: State::Starting,
            check: Check::Crc,
            is_header,
            block_len,
            is_nvt: false,
            number: u8::from(!is_header),
            position: 0,
            block,
            must_send: false,
            ready_at: now,
            answer_pause: ANSWER_PAUSE_MIN,
            cans: 0,
            timer,
            text: UnexpectedText::default(),
        }
    }

    /// Returns whether only the end of the data is not acknowledged: EOT, or the empty header at the
    /// end of a batch.
    fn is_last(&self) -> bool {
        let is_last_header = self.is_header && self.block.first() == Some(&0);
        self.state == State::Ending || (self.state == State::AwaitingAck && is_last_header)
    }

    /// Returns the bytes of the file that [`Self::put_data`] needs, if any.
    pub(crate) fn data_request(&self) -> Option<DataRequest> {
        (self.state == State::NeedsData)
            .then_some(DataRequest { position: self.position, max_len: self.block_len })
    }

    /// Provides the data of the next block; no data is the end of the file.
    pub(crate) fn put_data(&mut self, data: &[u8]) {
        if self.state != State::NeedsData {
            return;
        }
        self.must_send = true;
        let data = data.get(..data.len().min(self.block_len)).unwrap_or_default();
        let doubled = data.iter().filter(|byte| matches!(byte, b'\r' | 0xff)).count();
        // Short blocks continue up to a multiple of the long length, so that the end of the file is not
        // padded more than without them.
        let is_aligned = self.position.is_multiple_of(LONG_BLOCK_LEN as u64);
        let is_short = (self.is_nvt && doubled > data.len() / DOUBLED_PART) || !is_aligned;
        let len = if is_short { data.len().min(SHORT_BLOCK_LEN) } else { data.len() };
        self.block.clear();
        self.block.extend_from_slice(data.get(..len).unwrap_or_default());
        self.state = if data.is_empty() { State::Ending } else { State::AwaitingAck };
    }

    /// Processes input up to the next result.
    pub(crate) fn receive(&mut self, input: &mut &[u8], cx: &mut Cx<'_>) -> Option<SentBlocks> {
        while let Some((&byte, rest)) = input.split_first() {
            let is_next_request = self.state == State::Ending && byte == CRC_REQUEST;
            if self.is_last() && !self.must_send && (is_next_request || is_text(byte, rest)) {
                self.state = State::Ended;
                self.timer.stop();
                return Some(SentBlocks::End);
            }
            *input = rest;
            self.cans = if byte == CAN { self.cans.saturating_add(1) } else { 0 };
            if self.cans >= CANCEL_COUNT {
                return Some(SentBlocks::Failed(ModemFailure::Cancelled));
            }
            if let Some(result) = self.process_answer(byte, cx) {
                return Some(result);
            }
        }
        None
    }

    fn process_answer(&mut self, answer: u8, cx: &mut Cx<'_>) -> Option<SentBlocks> {
        let is_repetition = self.state == State::AwaitingAck && answer == NAK;
        if is_repetition && !self.must_send {
            self.answer_pause = (self.answer_pause * ANSWER_PAUSE_GROWTH).min(ANSWER_PAUSE_MAX);
        }
        self.ready_at = cx.now + self.answer_pause;
        // An answer can only refer to a block that was sent.
        let is_sent = !self.must_send;
        if matches!(answer, ACK | NAK) {
            self.text.clear();
        } else if self.state != State::Starting && (answer != CRC_REQUEST || self.text.is_running())
        {
            self.text.push(answer, cx.now);
        }
        match (self.state, answer) {
            (State::Starting, NAK | CRC_REQUEST) => {
                self.check = if answer == NAK { Check::Sum } else { Check::Crc };
                self.must_send = self.is_header;
                self.state = if self.is_header { State::AwaitingAck } else { State::NeedsData };
                self.timer.record_progress(cx.now);
                self.timer.stop();
                return Some(SentBlocks::Started);
            }
            (State::AwaitingAck, ACK) if is_sent => {
                self.timer.record_progress(cx.now);
                self.timer.stop();
                if self.is_header {
                    self.state = State::Ended;
                    return Some(SentBlocks::End);
                }
                self.number = self.number.wrapping_add(1);
                self.position += u64::try_from(self.block.len()).unwrap_or(0);
                self.state = State::NeedsData;
            }
            (State::Ending, ACK) if is_sent => {
                self.state = State::Ended;
                self.timer.stop();
                return Some(SentBlocks::End);
            }
            (State::AwaitingAck, NAK) if is_sent => {
                cx.meter.count(Counter::ModemErrors);
                if self.timer.record_failure() {
                    return Some(SentBlocks::Failed(ModemFailure::TooManyErrors));
                }
                self.must_send = true;
            }
            // Receivers answer the first EOT with NAK, because it may be noise.
            (State::Ending, NAK) if is_sent => self.must_send = true,
            // A repeated request for the first block is older than the block.
            _ => cx.meter.count(Counter::ModemIgnored),
        }
        None
    }

    /// Appends the pending block.
    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>, cx: &mut Cx<'_>) -> Option<usize> {
        let is_due = cx.now >= self.ready_at && self.text.age(cx.now).is_none();
        if !is_due || !core::mem::take(&mut self.must_send) {
            return None;
        }
        let start = out.len();
        match self.state {
            State::AwaitingAck => {
                put_block(out, self.number, &self.block, padding(self.is_header), self.check);
            }
            State::Ending => out.push(EOT),
            State::Starting | State::NeedsData | State::Ended => return None,
        }
        cx.meter.count(Counter::ModemFramesOut);
        self.timer.start(cx.now, ACK_TIMEOUT);
        Some(out.len() - start)
    }

    /// Returns when [`Self::timeout`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let sending = if self.must_send { Some(self.ready_at) } else { self.timer.deadline() };
        self.text.reaches(ENDED_TIME).or(sending)
    }

    /// Returns and removes the text of the session that was received instead of an answer.
    pub(crate) fn take_text(&mut self) -> Vec<u8> {
        self.text.take()
    }

    /// Sends the last block again; returns the result if it was sent too often.
    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) -> Option<SentBlocks> {
        if let Some(age) = self.text.age(cx.now) {
            return (age >= ENDED_TIME).then_some(SentBlocks::Failed(ModemFailure::Ended));
        }
        match self.timer.expire(cx.now) {
            RetryExpiry::NotYet => return None,
            // All data is acknowledged; only the last acknowledgment is missing.
            _ if self.is_last() && self.timer.failures() > END_REPETITIONS => {
                self.state = State::Ended;
                return Some(SentBlocks::End);
            }
            RetryExpiry::Repeat | RetryExpiry::GiveUp if self.state == State::Starting => {
                return Some(SentBlocks::Failed(ModemFailure::NoAnswer));
            }
            RetryExpiry::GiveUp => return Some(SentBlocks::Failed(ModemFailure::Silence)),
            RetryExpiry::Repeat => cx.meter.count(Counter::ModemTimeouts),
        }
        cx.meter.count(Counter::ModemRetransmissions);
        self.must_send = true;
        None
    }
}

/// Returns whether the remote shell prints text, because the receiver has ended. The acknowledgment
/// of the end is missing then; rx of lrzsz never sends it.
fn is_text(byte: u8, rest: &[u8]) -> bool {
    let is_text = |byte: u8| matches!(byte, b' '..=b'~' | b'\r' | b'\n');
    is_text(byte) && rest.first().is_some_and(|next| is_text(*next))
}
