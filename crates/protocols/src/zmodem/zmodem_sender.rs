//! The sending end of ZMODEM.

use super::FILE_MAX_BYTES;
use super::damaged_header::{Belongs, DamagedHeader};
use super::header::{Capabilities, FrameType, Header};
use super::parser::{Parsed, Parser};
use super::subpacket::{Check, Escaping, SubpacketEnd, put_subpacket};
use crate::modem::{
    CANCEL_SEQUENCE, DataRequest, FileInfo, ModemFailure, RetryExpiry, RetryTimer, SenderEvent,
    UnexpectedText,
};
use alloc::vec::Vec;
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};

/// Timeout for an answer, as in the protocol reference.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a header of the receiver after which the transfer fails while data is sent. Our choice:
/// a receiver that has lost data requests it after 10 s, and lrzsz also gives up after about a minute.
const DATA_TIMEOUT: Duration = Duration::from_secs(60);
/// Time without another ZRPOS after which data is sent again. Our choice: lrzsz repeats ZRPOS for
/// every 1400 bytes that are in flight, and discards input when it sends ZRPOS. Data that is sent
/// before the line is quiet would be lost again.
const QUIET_TIME: Duration = Duration::from_millis(100);
/// The transfer fails if the receiver still requests the same position after this time. Our choice: a
/// receiver that answers gets more time than one that does not.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(180);
/// Maximum length of a subpacket, as in the protocol reference.
const SUBPACKET_MAX_LEN: usize = 1024;
/// Minimum length of a subpacket on a line with errors. Our choice.
const SUBPACKET_MIN_LEN: usize = 128;
/// Number of subpackets without an error after which their length is doubled. Our choice.
const SUBPACKETS_UNTIL_GROWTH: u8 = 32;
/// Maximum number of unacknowledged bytes. Our choice: enough for 20 Mbit/s over 100 ms.
const WINDOW_MAX_BYTES: u32 = 256 * 1024;
/// Initial number of unacknowledged bytes. Our choice: at 300 bit/s, a subpacket is acknowledged before
/// the timeout. Without an initial limit, the buffers on a slow line would hold data for minutes.
const WINDOW_START_BYTES: u32 = 2 * 1024;
/// Minimum number of unacknowledged bytes.
const WINDOW_MIN_BYTES: u32 = 1024;
/// Number of unacknowledged bytes below which the window shrinks only if the delay is too long. Our
/// choice: a terminal buffers as much. If the receiver is killed, the line editor of bash processes 4 kB
/// of random bytes in a second, and 16 kB in more than 40 s, because its time grows with the square.
const WINDOW_LOCAL_BYTES: u32 = 4 * 1024;
/// The window is halved if data is not acknowledged within this time. Our choice: more than the
/// round-trip time of a satellite, and much less than the timeouts.
const ACK_DELAY_MAX: Duration = Duration::from_secs(1);
/// The window is doubled if data is acknowledged within this multiple of the shortest delay. Our choice:
/// the path then holds as much data in its queues as in transit. A longer queue does not increase the
/// throughput, and is typed text for a shell if the receiver is killed.
const ACK_DELAY_FACTOR: u32 = 2;
/// Delay that is always permitted. Our choice: the time in which a process gets the processor.
const ACK_DELAY_MIN: Duration = Duration::from_micros(500);
/// Times after unexpected text at which the receiver is requested to answer. Our choice.
const PROBE_TIMES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(4),
];
/// Time after unexpected text without an answer after which the receiver has ended. Our choice.
pub(super) const ENDED_TIME: Duration = Duration::from_secs(6);
/// Multiple of the longest delay of an answer that is awaited in the same case. Our choice.
const ENDED_DELAY_FACTOR: u32 = 2;
/// Maximum number of bytes after which an acknowledgment is requested. Our choice: if the rate drops to
/// 9600 bit/s, acknowledgments continue to arrive before the timeout.
const ACK_INTERVAL_MAX_BYTES: u32 = 16 * 1024;
/// Length of a buffer of a receiver that specifies none, but cannot receive while it writes.
const ASSUMED_BUFFER_LEN: u32 = 1024;
/// Maximum number of bytes of encoded output before more data is requested. Our choice: a few
/// subpackets, so that an answer of the receiver takes effect soon.
const OUTPUT_MAX_BYTES: usize = 8 * 1024;
/// Timeout for the line end of the receiver's ZFIN. Our choice: it follows at once.
const LINE_END_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum number of times that ZFIN is repeated: the files are complete.
const ZFIN_REPETITIONS: u8 = 2;

/// The sending end of one batch of files.
#[derive(Debug)]
pub struct Sender {
    state: State,
    parser: Parser,
    output: Vec<u8>,
    timer: RetryTimer,
    has_answer: bool,
    receiver: Capabilities,
    escaping: Escaping,
    subpacket_len: usize,
    /// Number of subpackets sent since the last error.
    sent_subpackets: u8,
    /// Maximum number of unacknowledged bytes if the receiver limits none.
    window_bytes: u32,
    /// Position and time of the request whose acknowledgment adjusts the window.
    timed_request: Option<(u32, Instant)>,
    /// Time at which data is sent again after an error.
    resumes_at: Option<Instant>,
    /// Time at which the receiver has last requested or acknowledged a later position.
    progress_at: Instant,
    shortest_ack_delay: Option<Duration>,
    longest_ack_delay: Duration,
    /// Text since the last header of the receiver.
    text: UnexpectedText,
    /// The header whose rest is no text.
    damaged_header: Option<DamagedHeader>,
    /// Number of requests for an answer since this text began.
    probes: usize,
    /// The event that [`Self::event`] returns next.
    pending: Option<SenderEvent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// ZRQINIT was sent.
    Starting,
    /// The owner must offer a file or finish the batch.
    NextFile,
    /// ZFILE was sent.
    Offering(FileInfo),
    /// The owner computes the CRC of the offered file.
    ComputingCrc(FileInfo),
    /// Data is sent, unless the window is full.
    Sending(FileProgress),
    /// ZEOF was sent.
    Ending(FileProgress),
    /// ZFIN was sent.
    Finishing,
    /// ZFIN was answered; its line end belongs to the transfer.
    Closing,
    Ended,
}

/// Positions in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileProgress {
    /// Position of the next byte.
    next: u32,
    /// The receiver has all bytes before this position.
    acknowledged: u32,
    /// Position of the last request for an acknowledgment.
    requested: u32,
    /// Whether a frame is open.
    is_in_frame: bool,
    /// Whether the sender waits for the acknowledgment of `next`.
    is_waiting: bool,
    /// All bytes before this position were put into the output, even if some were requested again
    /// since.
    sent_until: u32,
    /// Whether ZEOF was put into the output, even if data was requested again since.
    has_sent_end: bool,
}

impl FileProgress {
    const fn at(position: u32) -> Self {
        Self {
            next: position,
            acknowledged: position,
            requested: position,
            is_in_frame: false,
            is_waiting: false,
            sent_until: position,
            has_sent_end: false,
        }
    }
}

impl Sender {
    /// Creates a sender, which requests the capabilities of the receiver. Its first event is
    /// [`SenderEvent::NextFile`].
    #[must_use]
    pub fn new(now: Instant) -> Self {
        let mut timer = RetryTimer::STOPPED;
        timer.start(now, ANSWER_TIMEOUT);
        let mut output = Vec::new();
        Header::new(FrameType::Zrqinit, 0).put_hex(&mut output);
        Self {
            state: State::Starting,
            parser: Parser::default(),
            output,
            timer,
            has_answer: false,
            receiver: Capabilities::default(),
            escaping: Escaping::default(),
            subpacket_len: SUBPACKET_MAX_LEN,
            sent_subpackets: 0,
            window_bytes: WINDOW_START_BYTES,
            timed_request: None,
            resumes_at: None,
            progress_at: now,
            shortest_ack_delay: None,
            longest_ack_delay: Duration::ZERO,
            text: UnexpectedText::default(),
            damaged_header: None,
            probes: 0,
            pending: None,
        }
    }

    /// Selects whether Telnet without BINARY carries the output. NUL is then escaped.
    pub const fn set_nvt(&mut self, is_nvt: bool) {
        self.escaping.is_nvt = is_nvt;
    }

    /// Offers the next file.
    pub fn offer(&mut self, info: &FileInfo, cx: &mut Cx<'_>) {
        if self.state != State::NextFile {
            return;
        }
        if info.size.is_some_and(|size| size > FILE_MAX_BYTES) {
            return self.fail(ModemFailure::FileTooLarge);
        }
        self.state = State::Offering(info.clone());
        self.send_offer(cx);
    }

    fn send_offer(&mut self, cx: &mut Cx<'_>) {
        let State::Offering(info) = &self.state else { return };
        let data = info.emit();
        let check = self.check();
        Header::zfile().put_binary(check, self.escaping, &mut self.output);
        put_subpacket(&data, SubpacketEnd::Zcrcw, check, self.escaping, &mut self.output);
        cx.meter.count(Counter::ModemFramesOut);
        self.timer.start(cx.now, ANSWER_TIMEOUT);
    }

    /// Answers [`SenderEvent::CrcRequested`].
    pub fn answer_crc(&mut self, crc: u32, cx: &mut Cx<'_>) {
        if let State::ComputingCrc(info) = &self.state {
            self.state = State::Offering(info.clone());
            self.send(FrameType::Zcrc, crc, cx);
        }
    }

    /// Ends the batch.
    pub fn finish(&mut self, cx: &mut Cx<'_>) {
        if self.state == State::NextFile {
            self.state = State::Finishing;
            self.send(FrameType::Zfin, 0, cx);
        }
    }

    /// Returns the bytes of the file that [`Self::put_data`] needs, if any.
    #[must_use]
    pub fn data_request(&self) -> Option<DataRequest> {
        let State::Sending(progress) = &self.state else { return None };
        let unacknowledged = progress.next - progress.acknowledged;
        if progress.is_waiting
            || self.resumes_at.is_some()
            || self.pending.is_some()
            || self.has_unexpected_text()
            || self.output.len() > OUTPUT_MAX_BYTES
            || unacknowledged >= self.window_bytes()
        {
            return None;
        }
        let room = usize::try_from(self.window_bytes() - unacknowledged).unwrap_or(usize::MAX);
        let max_len = self.subpacket_len.min(room);
        Some(DataRequest { position: progress.next.into(), max_len })
    }

    /// Returns the maximum number of unacknowledged bytes.
    fn window_bytes(&self) -> u32 {
        match u32::from(self.receiver.buffer_len) {
            0 if self.must_pause() => ASSUMED_BUFFER_LEN,
            0 => self.window_bytes,
            len => len,
        }
    }

    /// Returns whether the receiver must acknowledge each buffer before the next one is sent.
    const fn must_pause(&self) -> bool {
        !self.receiver.overlaps_io || !self.receiver.is_full_duplex || self.receiver.buffer_len != 0
    }

    /// Provides the requested bytes; no bytes mark the end of the file.
    pub fn put_data(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let Some(request) = self.data_request() else { return };
        let data = data.get(..data.len().min(request.max_len)).unwrap_or_default();
        let check = self.check();
        let window_bytes = self.window_bytes();
        let must_pause = self.must_pause();
        let ack_interval_bytes = (window_bytes / 4).min(ACK_INTERVAL_MAX_BYTES);
        let State::Sending(progress) = &mut self.state else { return };
        let Some(next) =
            u32::try_from(data.len()).ok().and_then(|len| progress.next.checked_add(len))
        else {
            return self.fail(ModemFailure::FileTooLarge);
        };
        if !core::mem::replace(&mut progress.is_in_frame, true) {
            let header = Header::new(FrameType::Zdata, progress.next);
            header.put_binary(check, self.escaping, &mut self.output);
        }
        progress.next = next;
        let end = if data.is_empty() {
            SubpacketEnd::Zcrce
        } else if must_pause && next - progress.acknowledged >= window_bytes {
            SubpacketEnd::Zcrcw
        } else if !must_pause && next - progress.requested >= ack_interval_bytes {
            SubpacketEnd::Zcrcq
        } else {
            SubpacketEnd::Zcrcg
        };
        match end {
            SubpacketEnd::Zcrcq => {
                progress.requested = next;
                self.timed_request.get_or_insert((next, cx.now));
            }
            SubpacketEnd::Zcrcw => progress.is_waiting = true,
            SubpacketEnd::Zcrcg | SubpacketEnd::Zcrce => {}
        }
        progress.is_in_frame = !end.ends_frame();
        progress.sent_until = progress.sent_until.max(next);
        progress.has_sent_end |= data.is_empty();
        let progress = *progress;
        put_subpacket(data, end, check, self.escaping, &mut self.output);
        cx.meter.count(Counter::ModemFramesOut);
        if self.timer.deadline().is_none() {
            self.timer.start(cx.now, DATA_TIMEOUT);
        }
        self.grow_subpackets();
        if data.is_empty() {
            self.state = State::Ending(progress);
            self.send(FrameType::Zeof, next, cx);
        }
    }

    fn grow_subpackets(&mut self) {
        self.sent_subpackets += 1;
        if self.sent_subpackets >= SUBPACKETS_UNTIL_GROWTH {
            self.sent_subpackets = 0;
            self.subpacket_len = (self.subpacket_len * 2).min(SUBPACKET_MAX_LEN);
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
        while self.pending.is_none()
            && self.state != State::Ended
            && let Some((&byte, rest)) = input.split_first()
        {
            if self.state == State::Closing {
                self.process_line_end(byte, input);
                continue;
            }
            *input = rest;
            let was_hunting = self.parser.is_hunting();
            match self.parser.push(byte) {
                None if self.parser.is_hunting() => self.process_text(byte, was_hunting, cx),
                None => {}
                Some(Parsed::Cancelled) => self.fail(ModemFailure::Cancelled),
                Some(Parsed::Header(header)) => {
                    cx.meter.count(Counter::ModemFramesIn);
                    self.has_answer = true;
                    let follows_text = self.has_unexpected_text();
                    self.text.clear();
                    self.damaged_header = None;
                    self.probes = 0;
                    self.on_header(header, follows_text, cx);
                }
                // The receiver repeats its header after a timeout.
                Some(Parsed::DamagedHeader | Parsed::DamagedSubpacket | Parsed::Subpacket(_)) => {
                    self.damaged_header = Some(DamagedHeader::new(cx.now));
                    cx.meter.count(Counter::ModemErrors);
                }
            }
        }
    }

    /// Processes a byte outside of a header. `was_hunting` states whether the byte before it was also
    /// outside; otherwise, this byte is an error in the start of a header.
    fn process_text(&mut self, byte: u8, was_hunting: bool, cx: &Cx<'_>) {
        if !was_hunting {
            self.damaged_header = Some(DamagedHeader::new(cx.now));
        }
        let belongs = self.damaged_header.as_mut().map(|header| header.push(byte, cx.now));
        if belongs != Some(Belongs::Yes) {
            self.damaged_header = None;
        }
        // Before the first header, the remote program may print text.
        if matches!(belongs, None | Some(Belongs::No)) && self.state != State::Starting {
            self.text.push(byte, cx.now);
        }
    }

    /// Processes a byte after ZFIN, and removes it from `input` if it belongs to the line end.
    fn process_line_end(&mut self, byte: u8, input: &mut &[u8]) {
        let belongs = matches!(byte, b'\r' | b'\n' | 0x8d | 0x8a | 0x11);
        if belongs {
            input.split_off_first();
        }
        if !belongs || matches!(byte, b'\n' | 0x8a) {
            self.pending = Some(SenderEvent::Complete);
        }
    }

    /// Processes a header. `follows_text` states whether text of the session has preceded it.
    fn on_header(&mut self, header: Header, follows_text: bool, cx: &mut Cx<'_>) {
        match (header.frame_type, &self.state) {
            (FrameType::Zrinit, State::Starting) => {
                self.receiver = header.capabilities();
                self.escaping.escapes_all_controls = self.receiver.escapes_controls;
                self.on_next_file(SenderEvent::NextFile);
            }
            (FrameType::Zrinit, State::Ending(_)) => self.on_next_file(SenderEvent::FileComplete),
            // A repeated ZRPOS has arrived after ZEOF was sent, but the receiver has the whole file
            // and will not acknowledge its data again. After text, it is another receiver.
            (FrameType::Zrinit, State::Sending(progress))
                if progress.has_sent_end && !follows_text =>
            {
                self.on_next_file(SenderEvent::FileComplete);
            }
            (FrameType::Zskip, State::Offering(_) | State::Sending(_) | State::Ending(_)) => {
                self.on_next_file(SenderEvent::Skipped);
            }
            (FrameType::Zrpos, State::Offering(info)) => {
                if info.size.is_some_and(|size| u64::from(header.position) > size) {
                    return self.fail(ModemFailure::RemoteFile);
                }
                self.record_progress(cx);
                self.timer.stop();
                self.resumes_at = None;
                self.timed_request = None;
                self.state = State::Sending(FileProgress::at(header.position));
                self.pending = Some(SenderEvent::Accepted(header.position.into()));
            }
            (FrameType::Zrpos, State::Sending(progress) | State::Ending(progress)) => {
                let progress = *progress;
                self.on_zrpos(header.position, progress, cx);
            }
            (FrameType::Zack, State::Sending(_)) => self.on_zack(header.position, cx),
            (FrameType::Zcrc, State::Offering(info)) => {
                self.state = State::ComputingCrc(info.clone());
                self.pending = Some(SenderEvent::CrcRequested(header.position.into()));
            }
            (FrameType::Zfin, State::Finishing) => {
                self.output.extend_from_slice(b"OO");
                self.state = State::Closing;
                self.timer.start(cx.now, LINE_END_TIMEOUT);
            }
            (FrameType::Zchallenge, _) => self.send(FrameType::Zack, header.position, cx),
            (FrameType::Znak, _) if self.timer.record_failure() => {
                self.fail(ModemFailure::TooManyErrors);
            }
            (FrameType::Znak, _) => self.repeat(cx),
            (FrameType::Zabort | FrameType::Zcan | FrameType::Zfin, _) => {
                self.fail(ModemFailure::Cancelled);
            }
            (FrameType::Zferr, _) => self.fail(ModemFailure::RemoteFile),
            _ => cx.meter.count(Counter::ModemIgnored),
        }
    }

    /// Reports the end of the current file, if there is one; the next file can be offered.
    fn on_next_file(&mut self, event: SenderEvent) {
        if let State::Sending(progress) = self.state {
            self.discard_output(progress);
        }
        self.timer = RetryTimer::STOPPED;
        self.state = State::NextFile;
        self.pending = Some(event);
    }

    /// Discards the output that was not transmitted, and ends the frame if one was begun.
    fn discard_output(&mut self, progress: FileProgress) {
        self.output.clear();
        if progress.is_in_frame {
            let check = self.check();
            put_subpacket(&[], SubpacketEnd::Zcrce, check, self.escaping, &mut self.output);
        }
    }

    /// Handles a request for data from an earlier position, after an error.
    fn on_zrpos(&mut self, position: u32, progress: FileProgress, cx: &mut Cx<'_>) {
        if position > progress.sent_until {
            return cx.meter.count(Counter::ModemIgnored);
        }
        // The receiver has all bytes before the position, which is after `next` if an old request has
        // caused data to be sent again.
        if position > progress.acknowledged {
            self.record_progress(cx);
        } else if cx.now - self.progress_at > PROGRESS_TIMEOUT {
            return self.fail(ModemFailure::TooManyErrors);
        }
        self.resumes_at = Some(cx.now + QUIET_TIME);
        self.rewind(progress, position, cx);
    }

    fn record_progress(&mut self, cx: &Cx<'_>) {
        self.timer.record_progress(cx.now);
        self.progress_at = cx.now;
    }

    fn rewind(&mut self, progress: FileProgress, position: u32, cx: &mut Cx<'_>) {
        cx.meter.count(Counter::ModemRetransmissions);
        self.discard_output(progress);
        self.subpacket_len = (self.subpacket_len / 2).max(SUBPACKET_MIN_LEN);
        self.sent_subpackets = 0;
        self.window_bytes = (self.window_bytes / 2).max(WINDOW_MIN_BYTES);
        self.timed_request = None;
        let FileProgress { sent_until, has_sent_end, .. } = progress;
        self.state =
            State::Sending(FileProgress { sent_until, has_sent_end, ..FileProgress::at(position) });
        self.timer.start(cx.now, DATA_TIMEOUT);
    }

    fn on_zack(&mut self, position: u32, cx: &Cx<'_>) {
        let State::Sending(progress) = &mut self.state else { return };
        if position > progress.next || position < progress.acknowledged {
            return;
        }
        let is_progress = position > progress.acknowledged;
        progress.acknowledged = position;
        progress.is_waiting &= position != progress.next;
        if is_progress {
            self.record_progress(cx);
            self.timer.start(cx.now, DATA_TIMEOUT);
            self.adjust_window(position, cx);
        }
    }

    /// Adjusts the window to the time after which a request for an acknowledgment is answered.
    fn adjust_window(&mut self, acknowledged: u32, cx: &Cx<'_>) {
        let timed = self.timed_request.take_if(|(position, _)| *position <= acknowledged);
        let Some((_, requested_at)) = timed else { return };
        let delay = cx.now - requested_at;
        self.longest_ack_delay = self.longest_ack_delay.max(delay);
        let shortest = self.shortest_ack_delay.map_or(delay, |shortest| shortest.min(delay));
        self.shortest_ack_delay = Some(shortest);
        let short = (shortest * ACK_DELAY_FACTOR).clamp(ACK_DELAY_MIN, ACK_DELAY_MAX);
        let long = (short * ACK_DELAY_FACTOR).min(ACK_DELAY_MAX);
        self.window_bytes = match self.window_bytes {
            window if delay <= short => (window * 2).min(WINDOW_MAX_BYTES),
            window if delay > ACK_DELAY_MAX => (window / 2).max(WINDOW_MIN_BYTES),
            window if delay > long && window > WINDOW_LOCAL_BYTES => window / 2,
            window => window,
        };
    }

    const fn check(&self) -> Check {
        if self.receiver.has_crc32 { Check::Crc32 } else { Check::Crc16 }
    }

    /// Sends a header, and waits for its answer.
    fn send(&mut self, frame_type: FrameType, position: u32, cx: &mut Cx<'_>) {
        let is_end = frame_type == FrameType::Zeof;
        self.timer.start(cx.now, if is_end { DATA_TIMEOUT } else { ANSWER_TIMEOUT });
        if self.output.len() > 2 * OUTPUT_MAX_BYTES {
            return cx.meter.count(Counter::ModemIgnored);
        }
        cx.meter.count(Counter::ModemFramesOut);
        let header = Header::new(frame_type, position);
        if is_end {
            header.put_binary(self.check(), self.escaping, &mut self.output);
        } else {
            header.put_hex(&mut self.output);
        }
    }

    fn fail(&mut self, failure: ModemFailure) {
        self.pending = Some(SenderEvent::Failed(failure));
    }

    /// Returns whether the last input is text of the session instead of an answer: the receiver may have
    /// ended.
    #[must_use]
    pub fn has_unexpected_text(&self) -> bool {
        self.text.reaches(Duration::ZERO).is_some()
    }

    /// Returns the time after unexpected text at which the receiver is probed again, or has ended.
    fn probe_time(&self) -> Duration {
        let end = ENDED_TIME.max(self.longest_ack_delay * ENDED_DELAY_FACTOR);
        PROBE_TIMES.get(self.probes).copied().unwrap_or(end)
    }

    /// Requests an answer of the receiver after unexpected text, without a character on which a shell
    /// would act; returns whether the receiver has ended.
    fn probe(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.text.age(cx.now).is_none_or(|age| age < self.probe_time()) {
            return false;
        }
        self.probes += 1;
        if self.probes > PROBE_TIMES.len() {
            return true;
        }
        match self.state {
            State::Offering(_) => self.send_offer(cx),
            State::Sending(progress) => {
                self.put_probe(progress, cx);
                self.state = State::Sending(FileProgress { is_in_frame: false, ..progress });
            }
            State::Ending(progress) => {
                self.put_probe(progress, cx);
                self.send(FrameType::Zeof, progress.next, cx);
            }
            _ => {}
        }
        false
    }

    /// Sends a frame without data, which the receiver acknowledges, or answers with ZRPOS if it has
    /// lost data.
    fn put_probe(&mut self, progress: FileProgress, cx: &mut Cx<'_>) {
        let check = self.check();
        if progress.is_in_frame {
            put_subpacket(&[], SubpacketEnd::Zcrce, check, self.escaping, &mut self.output);
        }
        let header = Header::new(FrameType::Zdata, progress.next);
        header.put_binary(check, self.escaping, &mut self.output);
        put_subpacket(&[], SubpacketEnd::Zcrcw, check, self.escaping, &mut self.output);
        cx.meter.count(Counter::ModemFramesOut);
    }

    /// Returns and removes the text of the session that was received instead of an answer.
    pub fn take_text(&mut self) -> Vec<u8> {
        self.text.take()
    }

    /// Returns the next event.
    pub fn event(&mut self) -> Option<SenderEvent> {
        let event = self.pending.take()?;
        match event {
            SenderEvent::FileComplete | SenderEvent::Skipped => {
                self.pending = Some(SenderEvent::NextFile);
            }
            SenderEvent::Complete => self.state = State::Ended,
            SenderEvent::Failed(failure) => {
                self.state = State::Ended;
                self.output.clear();
                if failure.must_cancel() {
                    self.output.extend_from_slice(&CANCEL_SEQUENCE);
                }
            }
            SenderEvent::NextFile | SenderEvent::Accepted(_) | SenderEvent::CrcRequested(_) => {}
        }
        Some(event)
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
        let timer = self.timer.deadline().filter(|_| !self.has_unexpected_text());
        let deadlines = timer.into_iter().chain(self.resumes_at);
        let probe = self.text.reaches(self.probe_time());
        deadlines.chain(probe).min().filter(|_| self.state != State::Ended)
    }

    /// Repeats the last header or the unacknowledged data, or fails the transfer.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.pending.is_some() || self.state == State::Ended {
            return;
        }
        self.resumes_at = self.resumes_at.filter(|at| cx.now < *at);
        if self.has_unexpected_text() {
            if self.probe(cx) {
                let is_complete = matches!(self.state, State::Finishing | State::Closing);
                self.pending = Some(match is_complete {
                    true => SenderEvent::Complete,
                    false => SenderEvent::Failed(ModemFailure::Ended),
                });
            }
            return;
        }
        match self.timer.expire(cx.now) {
            RetryExpiry::NotYet => return,
            _ if self.state == State::Closing => {
                self.pending = Some(SenderEvent::Complete);
                return;
            }
            _ if self.state == State::Finishing && self.timer.failures() > ZFIN_REPETITIONS => {
                self.pending = Some(SenderEvent::Complete);
                return;
            }
            RetryExpiry::GiveUp if self.has_answer => return self.fail(ModemFailure::Silence),
            RetryExpiry::GiveUp => return self.fail(ModemFailure::NoAnswer),
            RetryExpiry::Repeat => cx.meter.count(Counter::ModemTimeouts),
        }
        self.repeat(cx);
    }

    fn repeat(&mut self, cx: &mut Cx<'_>) {
        match self.state {
            State::Starting => self.send(FrameType::Zrqinit, 0, cx),
            State::Offering(_) => self.send_offer(cx),
            State::Sending(progress) => self.rewind(progress, progress.acknowledged, cx),
            State::Ending(progress) => self.send(FrameType::Zeof, progress.next, cx),
            State::Finishing => self.send(FrameType::Zfin, 0, cx),
            State::NextFile | State::ComputingCrc(_) | State::Closing | State::Ended => {}
        }
    }

    /// Returns whether the transfer has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state == State::Ended && self.pending.is_none()
    }
}
