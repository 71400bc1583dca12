//! Data that arrives after a cancellation, until the session continues.
//!
//! If plumb has cancelled, data in flight precedes the confirmation of the remote program. The rest of
//! the output buffer of a sender may follow its cancel sequence: lrzsz writes the sequence before this
//! rest. Text after this data belongs to the session.

use net::time::{Duration, Instant};

/// Silence after which the data in flight has passed.
const SILENCE: Duration = Duration::from_secs(1);
/// Silence after which the output of a remote program that has ended has passed.
const CONFIRMED_SILENCE: Duration = Duration::from_millis(300);
/// Silence of a receiver of blocks that has not confirmed. It answers a block that was cut off by
/// the cancellation after 2 s: rb of lrzsz waits twice for a second.
const BLOCK_SILENCE: Duration = Duration::from_secs(3);
/// Maximum time for which data is discarded. Our choice.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for the confirmation after a request of a receiver of blocks. Our choice: in a shell, the
/// repeated sequence would be typed text.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_millis(300);
/// Silence after which the cancel sequence is repeated to a receiver of blocks. lrzsz discards its
/// input just after it has written a request or an acknowledgment, and with it a cancel sequence that
/// arrives in this moment; it then waits for up to 13 s. Our choice: longer than the round-trip time
/// of most paths, after which the repeated sequence would be typed text for a shell.
const REPETITION_SILENCE: Duration = Duration::from_secs(1);
/// Maximum number of repetitions of the cancel sequence.
const REPETITIONS_MAX: u8 = 3;
/// Maximum number of bytes of text after the discarded data. Our choice: a few lines.
const TEXT_MAX_BYTES: usize = 1024;
/// Number of consecutive text characters that are not data. Our choice: binary data has as many
/// once in 10^6 bytes.
const TEXT_MIN_BYTES: usize = 16;
/// Number of CAN characters with which a remote program cancels or confirms.
const CONFIRMATION_LEN: u8 = 5;
/// Sequence that empties the command line of a shell after the cancel sequence: ^G leaves a search or a
/// question of its line editor, ^E moves the cursor to the end, and ^U erases the line.
pub(super) const EMPTY_LINE: &[u8] = b"\x07\x05\x15";
/// Sequences that make the terminal driver's unedited line a syntax error, in turn. A killed program
/// leaves its terminal in raw mode, in which a shell without a line editor reads ^U as a character. Such
/// a shell parses what it reads at once, and discards the line with the error. The sequences also end a
/// string or a command substitution that the data has begun. ^U erases them in any other shell.
const SYNTAX_ERRORS: [&[u8]; 5] = [b")))\x15", b"')\x15", b"\")\x15", b"`)\x15", b"})\x15"];

pub(super) const CAN: u8 = 0x18;
pub(super) const BACKSPACE: u8 = 0x08;
const ACK: u8 = 0x06;
pub(super) const NAK: u8 = 0x15;
const CRC_REQUEST: u8 = b'C';

/// End of the connection that has cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CancelledBy {
    /// This end. A receiver of blocks may not notice the cancellation.
    Local {
        /// Whether the remote program receives blocks of XMODEM or YMODEM.
        is_block_receiver: bool,
    },
    /// The remote program.
    Remote,
    /// The remote program has ended without a cancel sequence: a shell has read the data in flight.
    End,
}

/// Result of [`Discarding::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiscardStep {
    /// No deadline has passed.
    Wait,
    /// The cancel sequence is to be sent again.
    Repeat,
    /// This sequence is to be sent.
    Send(&'static [u8]),
    /// All data in flight has passed.
    End,
}

/// The discarding of data after a cancellation.
#[derive(Debug)]
pub(super) struct Discarding {
    canceller: CancelledBy,
    began: Instant,
    /// Time of the last data.
    last: Instant,
    cans: u8,
    is_confirmed: bool,
    /// Whether other data followed the cancel sequence of the remote program.
    has_rest: bool,
    /// Text since the last data.
    text: Vec<u8>,
    repeats_at: Option<Instant>,
    repetitions: u8,
    /// Whether anything was received since the last sequence was sent.
    has_echo: bool,
    /// Number of sequences that were sent because the terminal does not echo.
    syntax_errors: usize,
}

impl Discarding {
    pub(super) fn new(canceller: CancelledBy, now: Instant) -> Self {
        let is_block_receiver = canceller == CancelledBy::Local { is_block_receiver: true };
        Self {
            canceller,
            began: now,
            last: now,
            cans: 0,
            is_confirmed: matches!(canceller, CancelledBy::Remote),
            has_rest: false,
            text: Vec::new(),
            repeats_at: is_block_receiver.then(|| now + REPETITION_SILENCE),
            repetitions: 0,
            has_echo: false,
            syntax_errors: 0,
        }
    }

    /// Removes data from `input`; returns whether the session continues with its rest.
    pub(super) fn receive(&mut self, input: &mut &[u8], now: Instant) -> bool {
        self.last = now;
        self.has_echo = true;
        while let Some((&byte, rest)) = input.split_first() {
            let is_sequence = byte == CAN || (byte == BACKSPACE && self.is_confirmed);
            if !is_sequence && self.ends_at_any_byte() {
                return true;
            }
            *input = rest;
            self.cans = if byte == CAN { self.cans.saturating_add(1) } else { 0 };
            if self.cans >= CONFIRMATION_LEN {
                self.is_confirmed = true;
                self.text.clear();
                self.repeats_at = None;
            }
            if !is_sequence && self.process(byte, now) {
                return true;
            }
        }
        false
    }

    /// Returns whether the confirmation was the end of the data: a receiver of blocks has no data in
    /// its output buffer.
    fn ends_at_any_byte(&self) -> bool {
        let is_block_receiver = self.canceller == CancelledBy::Local { is_block_receiver: true };
        self.is_confirmed && is_block_receiver && !self.has_rest
    }

    /// Processes a byte that is not part of a cancel sequence; returns whether it ends text of the
    /// session.
    fn process(&mut self, byte: u8, now: Instant) -> bool {
        let is_block_receiver = self.canceller == CancelledBy::Local { is_block_receiver: true };
        if is_block_receiver
            && !self.is_confirmed
            && self.text.is_empty()
            && matches!(byte, ACK | NAK | CRC_REQUEST)
        {
            // The receiver has not noticed the cancellation, or this answer is older than it.
            self.repeats_at = Some(now + CONFIRMATION_TIMEOUT);
            return false;
        }
        match byte {
            // Almost every subpacket and block contains other characters.
            _ if is_text(byte) && self.text.len() < TEXT_MAX_BYTES => {
                self.text.push(byte);
                self.repeats_at = None;
            }
            _ => {
                self.text.clear();
                self.has_rest |= self.is_confirmed;
            }
        }
        self.is_confirmed && self.text.len() >= TEXT_MIN_BYTES
    }

    /// Returns when [`Self::timeout`] is due.
    pub(super) fn deadline(&self) -> Instant {
        let silence = match self.canceller {
            _ if self.is_confirmed => CONFIRMED_SILENCE,
            CancelledBy::End if self.has_echo => CONFIRMED_SILENCE,
            CancelledBy::Local { is_block_receiver: true } if self.text.is_empty() => BLOCK_SILENCE,
            _ => SILENCE,
        };
        let end = (self.last + silence).min(self.began + DISCARD_TIMEOUT);
        self.repeats_at.map_or(end, |at| at.min(end))
    }

    /// Processes the time that has passed.
    pub(super) fn timeout(&mut self, now: Instant) -> DiscardStep {
        if now < self.deadline() {
            return DiscardStep::Wait;
        }
        if self.canceller == CancelledBy::End
            && !self.has_echo
            && let Some(sequence) = SYNTAX_ERRORS.get(self.syntax_errors)
        {
            self.syntax_errors += 1;
            self.last = now;
            return DiscardStep::Send(sequence);
        }
        let is_repetition = self.repeats_at.take().is_some_and(|at| at <= now);
        if is_repetition && self.repetitions < REPETITIONS_MAX {
            self.repetitions += 1;
            self.last = now;
            return DiscardStep::Repeat;
        }
        DiscardStep::End
    }

    /// Returns whether the terminal has not echoed the sequence that empties the line.
    pub(super) const fn may_be_raw(&self) -> bool {
        self.syntax_errors > 0
    }

    /// Returns the text of the session that followed the data.
    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }
}

/// Returns whether text of a session can contain `byte`.
pub(super) const fn is_text(byte: u8) -> bool {
    matches!(byte, b' '..=b'~' | b'\r' | b'\n' | b'\t' | 0x07 | 0x1b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEQUENCE: &[u8] = b"\x18\x18\x18\x18\x18\x18\x18\x18\x18\x18\x08\x08\x08\x08\x08\x08";
    const UPLOAD: CancelledBy = CancelledBy::Local { is_block_receiver: true };
    const DOWNLOAD: CancelledBy = CancelledBy::Local { is_block_receiver: false };

    /// Passes `input` at the start; returns whether the session continues, the rest of the input
    /// and the discarding.
    fn receive(canceller: CancelledBy, input: &[u8]) -> (bool, Vec<u8>, Discarding) {
        let mut discarding = Discarding::new(canceller, Instant::ZERO);
        let mut rest = input;
        let is_over = discarding.receive(&mut rest, Instant::ZERO);
        (is_over, rest.to_vec(), discarding)
    }

    #[test]
    fn data_in_flight_is_discarded_up_to_the_confirmation() {
        let input = [b"\xff\x00data in flight", SEQUENCE, b"$ "].concat();
        let (is_over, rest, discarding) = receive(UPLOAD, &input);
        assert!(is_over);
        assert_eq!((rest, discarding.into_text()), (b"$ ".to_vec(), vec![]));
    }

    #[test]
    fn the_rest_of_the_buffer_of_a_sender_is_discarded_after_its_confirmation() {
        let menu = b"\r\n[1] down [2] up\r\n";
        let input = [b"\xff\x00data", SEQUENCE, b"h\xe7\x06k\x18\xd1", menu].concat();
        let (is_over, rest, discarding) = receive(DOWNLOAD, &input);
        assert!(is_over);
        assert_eq!([discarding.into_text(), rest].concat(), menu);
    }

    #[test]
    fn the_rest_of_the_buffer_of_a_remote_program_is_discarded_up_to_its_text() {
        let message = b"sz: caught signal 15; exiting\r\n";
        let input = [SEQUENCE, b"\x80\xffrest of data\x01\x90", message].concat();
        let (is_over, rest, discarding) = receive(CancelledBy::Remote, &input);
        assert!(is_over);
        assert_eq!([discarding.into_text(), rest].concat(), message);
        // Without a rest, the text follows at once.
        let (is_over, ..) = receive(CancelledBy::Remote, &[SEQUENCE, message].concat());
        assert!(is_over);
    }

    #[test]
    fn a_short_prompt_is_text_after_silence() {
        let input = [SEQUENCE, b"\x80\x01$ "].concat();
        let (is_over, _, mut discarding) = receive(CancelledBy::Remote, &input);
        assert!(!is_over);
        assert_eq!(discarding.timeout(Instant::ZERO), DiscardStep::Wait);
        let deadline = discarding.deadline();
        assert_eq!(deadline, Instant::ZERO + CONFIRMED_SILENCE);
        assert_eq!(discarding.timeout(deadline), DiscardStep::End);
        assert_eq!(discarding.into_text(), b"$ ");
    }

    #[test]
    fn a_receiver_of_blocks_that_is_silent_is_cancelled_again_once() {
        let mut discarding = Discarding::new(UPLOAD, Instant::ZERO);
        let at = discarding.deadline();
        assert_eq!(at, Instant::ZERO + REPETITION_SILENCE);
        assert_eq!(discarding.timeout(at), DiscardStep::Repeat);
        assert_eq!(discarding.deadline(), at + BLOCK_SILENCE);
        assert_eq!(discarding.timeout(at + BLOCK_SILENCE), DiscardStep::End);
        for answer in [b"$ ", SEQUENCE] {
            let (.., mut discarding) = receive(UPLOAD, answer);
            let at = discarding.deadline();
            assert_eq!(discarding.timeout(at), DiscardStep::End, "the receiver has ended");
        }
    }

    #[test]
    fn a_receiver_of_blocks_that_requests_a_block_is_cancelled_again() {
        let (_, _, mut discarding) = receive(UPLOAD, &[NAK]);
        let mut now = discarding.deadline();
        assert_eq!(now, Instant::ZERO + CONFIRMATION_TIMEOUT);
        assert_eq!(discarding.timeout(now), DiscardStep::Repeat);
        for _ in 1..REPETITIONS_MAX {
            discarding.receive(&mut [NAK].as_slice(), now);
            now = discarding.deadline();
            assert_eq!(discarding.timeout(now), DiscardStep::Repeat);
        }
        discarding.receive(&mut [NAK].as_slice(), now);
        now = discarding.deadline();
        assert_eq!(discarding.timeout(now), DiscardStep::End);
        let (_, _, mut discarding) = receive(UPLOAD, &[NAK]);
        discarding.receive(&mut &SEQUENCE[..], Instant::ZERO);
        let deadline = discarding.deadline();
        assert_eq!(discarding.timeout(deadline), DiscardStep::End, "it is confirmed");
        let (_, _, mut discarding) = receive(UPLOAD, b"\x06end\r\n$ ");
        let deadline = discarding.deadline();
        assert_eq!(discarding.timeout(deadline), DiscardStep::End, "a shell prints text");
    }
}
