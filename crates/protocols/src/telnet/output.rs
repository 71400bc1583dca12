//! Output queue for the transport: data encoded for NVT or BINARY, commands, and the urgent mark.
//!
//! Data is accepted up to a limit. Commands and answers have a reserve above this limit, so that a
//! long paste cannot block an interrupt or an answer. If a peer sends requests without reading the
//! answers, the reserve fills up and further requests are not answered.
//!
//! The content of a file without BINARY is divided into short writes, none of which ends with NUL:
//! the server of busybox drops a NUL at the end of a read, and keeps the NUL of a CR NUL that is
//! divided between two reads. A NOP follows a NUL at the end of a write.

use super::command::{IAC, OptionCode, SB, SE};
use super::search::{find, find_either};
use super::settings_and_events::EndOfLine;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use net::Cx;
use net::meter::Counter;

const LF: u8 = b'\n';
const CR: u8 = b'\r';

/// Reserve for commands and answers above the limit for data, in bytes (our choice): more than a
/// thousand answers, far above what normal negotiation needs.
pub(super) const COMMAND_RESERVE: usize = 4096;

/// The bounded output queue.
#[derive(Debug)]
pub(super) struct Output {
    bytes: Vec<u8>,
    /// Number of bytes at the start of `bytes` that the transport has already accepted.
    start: usize,
    data_limit: usize,
    /// Number of queued bytes that are urgent.
    urgent: Option<usize>,
    /// Offsets from the first queued byte at which compression starts or ends.
    compression_boundaries: VecDeque<usize>,
    /// Whether the first queued byte is to be compressed.
    is_compressed: bool,
    /// Number of data bytes queued so far, counted as the peer decodes them.
    data_position: u64,
    /// Whether data is the content of a file: in NVT, a CR before LF is encoded, too.
    is_file: bool,
    /// Offsets from the first queued byte at which a write of file content ends.
    write_ends: VecDeque<usize>,
    is_closed: bool,
}

/// Maximum number of queued starts and ends of compression (our choice). Each one after the first
/// requires an answer of the peer, so more cannot occur in a valid session.
const COMPRESSION_BOUNDARIES_MAX: usize = 8;

/// Maximum length of a write of file content in NVT, without the NOP at its end. Our choice: less than
/// the 536 bytes of data that each TCP accepts in a segment, so that writes end with their segments.
const FILE_WRITE_MAX_LEN: usize = 512;

/// NOP, no operation.
const NOP: u8 = 241;

impl Output {
    pub(super) fn new(data_limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            data_limit,
            urgent: None,
            compression_boundaries: VecDeque::new(),
            is_compressed: false,
            data_position: 0,
            is_file: false,
            write_ends: VecDeque::new(),
            is_closed: false,
        }
    }

    /// Returns the number of data bytes queued so far, counted as the peer decodes them.
    pub(super) fn data_position(&self) -> u64 {
        self.data_position
    }

    /// Returns whether the queued bytes before [`Output::compression_boundary`] are to be
    /// compressed.
    pub(super) fn is_compressed(&self) -> bool {
        self.is_compressed
    }

    /// Returns the number of queued bytes before the next start or end of compression.
    pub(super) fn compression_boundary(&self) -> Option<usize> {
        self.compression_boundaries.front().copied()
    }

    /// Starts or ends compression after all queued bytes. Returns whether the limit allowed it.
    pub(super) fn put_compression_boundary(&mut self) -> bool {
        let has_room = self.compression_boundaries.len() < COMPRESSION_BOUNDARIES_MAX;
        if has_room {
            self.compression_boundaries.push_back(self.queued().len());
        }
        has_room
    }

    /// Returns whether bytes that are queued next will be compressed.
    pub(super) fn will_be_compressed(&self) -> bool {
        self.is_compressed != (self.compression_boundaries.len() % 2 == 1)
    }

    /// Returns the queued bytes.
    pub(super) fn queued(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Returns the queued bytes of the next write.
    pub(super) fn next_write(&self) -> &[u8] {
        match (self.urgent, self.write_ends.front()) {
            (None, Some(end)) => self.queued().get(..*end).unwrap_or_default(),
            _ => self.queued(),
        }
    }

    /// Returns the number of queued bytes that are urgent, up to and including a data mark.
    pub(super) fn urgent(&self) -> Option<usize> {
        self.urgent
    }

    /// Removes the first `count` bytes, which the transport has accepted.
    pub(super) fn sent(&mut self, count: usize) {
        let count = count.min(self.queued().len());
        self.start += count;
        self.urgent = self.urgent.and_then(|urgent| urgent.checked_sub(count)).filter(|&u| u > 0);
        self.shift_compression_boundaries(count);
        for end in &mut self.write_ends {
            *end = end.saturating_sub(count);
        }
        while self.write_ends.front() == Some(&0) {
            self.write_ends.pop_front();
        }
        if self.start > self.bytes.len() / 2 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
    }

    fn shift_compression_boundaries(&mut self, count: usize) {
        for compression_boundary in &mut self.compression_boundaries {
            *compression_boundary = compression_boundary.saturating_sub(count);
        }
        // A start or end of compression at offset 0 takes effect, since no queued byte precedes it.
        while self.compression_boundaries.front() == Some(&0) {
            self.compression_boundaries.pop_front();
            self.is_compressed = !self.is_compressed;
        }
    }

    /// Selects whether data is the content of a file: each CR in NVT is then encoded as CR NUL, also
    /// before LF, and no write ends with NUL.
    pub(super) fn set_file_content(&mut self, is_on: bool) {
        self.is_file = is_on;
    }

    /// Rejects everything that follows.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Queues `command` completely and counts it once; if it does not fit, counts its bytes as
    /// rejected. Returns whether it fit.
    pub(super) fn put_counted(
        &mut self,
        command: &[u8],
        counter: Counter,
        cx: &mut Cx<'_>,
    ) -> bool {
        let has_room = self.put(command);
        if has_room {
            cx.meter.count(counter);
        } else {
            cx.meter.add(Counter::TelnetOutputRefused, command.len() as u64);
        }
        has_room
    }

    /// Queues `command` completely or not at all. Returns whether `command` fit.
    fn put(&mut self, command: &[u8]) -> bool {
        let limit = self.data_limit.saturating_add(COMMAND_RESERVE);
        let fits = !self.is_closed && self.queued().len().saturating_add(command.len()) <= limit;
        if fits {
            self.bytes.extend_from_slice(command);
        }
        fits
    }

    /// Marks all queued bytes as urgent. The last one must be a data mark.
    pub(super) fn mark_urgent(&mut self) {
        self.urgent = Some(self.queued().len());
    }

    /// Encodes and queues as much of `data` as fits. Returns how many bytes were accepted.
    pub(super) fn put_data(&mut self, data: &[u8], end_of_line: Option<EndOfLine>) -> usize {
        if !self.is_file || end_of_line.is_none() {
            return self.put_encoded(data, end_of_line);
        }
        let mut accepted_len = 0;
        // Each byte is encoded as two bytes at most.
        for piece in data.chunks(FILE_WRITE_MAX_LEN / 2) {
            let piece_len = self.put_encoded(piece, Some(EndOfLine::CrNul));
            accepted_len += piece_len;
            self.end_write();
            if piece_len < piece.len() {
                break;
            }
        }
        accepted_len
    }

    /// Ends a write after the queued bytes, or extends the last write if it remains short.
    fn end_write(&mut self) {
        let queued_len = self.queued().len();
        let write_count = self.write_ends.len();
        let last_start = match write_count.checked_sub(2) {
            Some(at) => self.write_ends.get(at).copied().unwrap_or(0),
            None => 0,
        };
        if write_count > 0 && queued_len - last_start <= FILE_WRITE_MAX_LEN {
            self.write_ends.pop_back();
        }
        if self.queued().last() == Some(&0) {
            // Without room, the NUL remains the last byte.
            self.put(&[IAC, NOP]);
        }
        self.write_ends.push_back(self.queued().len());
    }

    fn put_encoded(&mut self, data: &[u8], end_of_line: Option<EndOfLine>) -> usize {
        let mut accepted_len = 0;
        loop {
            let rest = data.get(accepted_len..).unwrap_or_default();
            let plain_len = match end_of_line {
                Some(_) if self.is_file => find_either(IAC, CR, rest).unwrap_or(rest.len()),
                Some(_) => plain_nvt(rest),
                None => find(IAC, rest).unwrap_or(rest.len()),
            };
            let mut fitting_len = plain_len.min(self.room());
            if rest.get(fitting_len) == Some(&LF)
                && rest.get(fitting_len.wrapping_sub(1)) == Some(&CR)
            {
                // The plain bytes never end within CR LF, so there is no space for the LF. CR LF is
                // accepted completely or not at all.
                fitting_len -= 1;
            }
            self.bytes.extend_from_slice(rest.get(..fitting_len).unwrap_or_default());
            self.data_position += fitting_len as u64;
            accepted_len += fitting_len;
            let Some(&byte) = rest.get(fitting_len) else { return accepted_len };
            if fitting_len < plain_len {
                return accepted_len;
            }
            let (encoded, used, decoded_len): (&[u8], usize, u64) = match end_of_line {
                _ if byte == IAC => (&[IAC, IAC], 1, 1),
                Some(end_of_line) => (end_of_line.bytes(), 1, end_of_line.decoded_len()),
                None => return accepted_len,
            };
            if encoded.len() > self.room() {
                return accepted_len;
            }
            self.bytes.extend_from_slice(encoded);
            self.data_position += decoded_len;
            accepted_len += used;
        }
    }

    fn room(&self) -> usize {
        self.data_limit.saturating_sub(self.queued().len())
    }
}

/// Returns the length of the prefix of `data` that needs no encoding in NVT: up to an IAC, or to a
/// CR without LF.
fn plain_nvt(data: &[u8]) -> usize {
    let mut run = 0;
    while let Some(at) = find_either(IAC, CR, data.get(run..).unwrap_or_default()) {
        run += at;
        if data.get(run..run + 2) != Some(&[CR, LF]) {
            return run;
        }
        run += 2;
    }
    data.len()
}

/// Returns a complete subnegotiation: IAC SB, `option`, `content` with every 255 doubled, IAC SE.
pub(super) fn subnegotiation(option: OptionCode, content: &[u8]) -> Vec<u8> {
    debug_assert!(option.0 != IAC, "option 255 (EXTENDED-OPTIONS-LIST) is never enabled");
    let mut bytes = Vec::with_capacity(content.len() + 5);
    bytes.extend_from_slice(&[IAC, SB, option.0]);
    for &byte in content {
        bytes.push(byte);
        if byte == IAC {
            bytes.push(IAC);
        }
    }
    bytes.extend_from_slice(&[IAC, SE]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_mark_moves_with_the_bytes_that_the_transport_accepts() {
        let mut output = Output::new(100);
        output.put_data(b"abc", None);
        output.put(&[IAC, 242]);
        output.mark_urgent();
        output.put_data(b"more", None);
        assert_eq!(output.urgent(), Some(5));
        output.sent(4);
        assert_eq!((output.urgent(), output.queued()), (Some(1), &b"\xf2more"[..]));
        output.sent(1);
        assert_eq!((output.urgent(), output.queued()), (None, &b"more"[..]));
        output.sent(100);
        assert_eq!(output.queued(), b"");
    }

    #[test]
    fn a_doubled_byte_is_queued_completely_or_not_at_all() {
        let mut output = Output::new(4);
        assert_eq!(output.put_data(b"abc\xffd", None), 3);
        assert_eq!(output.queued(), b"abc");
        output.sent(1);
        assert_eq!(output.put_data(b"\xffd", None), 1);
        assert_eq!(output.queued(), b"bc\xff\xff");
    }

    #[test]
    fn a_command_is_queued_when_data_is_at_its_limit() {
        let mut output = Output::new(2);
        assert_eq!(output.put_data(b"abc", None), 2);
        assert!(output.put(&[0; COMMAND_RESERVE]));
        assert!(!output.put(&[IAC]));
    }

    #[test]
    fn compression_starts_and_ends_in_turn_up_to_a_limit() {
        let mut output = Output::new(100);
        output.put_data(b"abc", None);
        let states = [(); 3].map(|()| {
            assert!(output.put_compression_boundary());
            output.will_be_compressed()
        });
        assert_eq!((states, output.is_compressed()), ([true, false, true], false));
        let accepted = [(); 10].map(|()| output.put_compression_boundary());
        assert_eq!(accepted.iter().filter(|is_accepted| **is_accepted).count(), 5);
        assert!(!output.will_be_compressed(), "eight starts and ends");
    }

    #[test]
    fn a_line_end_that_does_not_fit_is_left_out_completely() {
        let queue = |data: &[u8]| {
            let mut output = Output::new(4);
            let accepted_len = output.put_data(data, Some(EndOfLine::CrLf));
            (accepted_len, output.queued().to_vec(), output.data_position())
        };
        assert_eq!(queue(b"abc\r\nx"), (3, b"abc".to_vec(), 3));
        assert_eq!(queue(b"ab\r\nx"), (4, b"ab\r\n".to_vec(), 4));
        assert_eq!(queue(b"abcdefg"), (4, b"abcd".to_vec(), 4));
    }

    #[test]
    fn the_cr_of_a_line_end_that_does_not_fit_is_not_queued_as_a_line_end() {
        for end_of_line in [None, Some(EndOfLine::Lf), Some(EndOfLine::CrNul)] {
            let mut output = Output::new(4);
            assert_eq!(output.put_data(b"abc\r\nx", end_of_line), 3);
            assert_eq!((output.queued(), output.data_position()), (&b"abc"[..], 3));
        }
    }

    #[test]
    fn accepted_bytes_are_removed_once_they_are_more_than_half_of_the_buffer() {
        let mut output = Output::new(100);
        output.put_data(b"0123456789", None);
        output.sent(5);
        assert_eq!((output.bytes.len(), output.queued()), (10, &b"56789"[..]));
        output.sent(1);
        assert_eq!((output.bytes.len(), output.queued()), (4, &b"6789"[..]));
    }

    #[test]
    fn each_cr_of_a_file_is_encoded_as_cr_nul() {
        let mut output = Output::new(100);
        output.set_file_content(true);
        assert_eq!(output.put_data(b"a\r\nb\r\r\0c\r", Some(EndOfLine::CrLf)), 9);
        assert_eq!(output.queued(), b"a\r\0\nb\r\0\r\0\0c\r\0\xff\xf1");
        output.sent(100);
        assert_eq!(output.put_data(b"a\r\n\r", None), 4);
        assert_eq!(output.queued(), b"a\r\n\r", "BINARY");
    }

    #[test]
    fn no_write_of_a_file_is_long_or_ends_with_nul_or_within_a_cr_nul() {
        for byte in [0, b'\r', 0xff, b'a'] {
            let mut output = Output::new(5000);
            output.set_file_content(true);
            assert_eq!(output.put_data(&[byte; 1029], Some(EndOfLine::CrNul)), 1029);
            let mut writes = Vec::new();
            while !output.queued().is_empty() {
                writes.push(output.next_write().to_vec());
                output.sent(output.next_write().len());
            }
            let lens: Vec<usize> = writes.iter().map(Vec::len).collect();
            assert!(lens.iter().all(|len| (1..=FILE_WRITE_MAX_LEN + 2).contains(len)), "{lens:?}");
            let ends = |end| writes.iter().all(|write| write.ends_with(end));
            match byte {
                0 => assert!(ends(&[0, IAC, NOP])),
                b'\r' => assert!(ends(&[b'\r', 0, IAC, NOP])),
                0xff => assert!(ends(&[IAC, IAC])),
                _ => assert_eq!(lens, [512, 512, 5]),
            }
        }
    }

    #[test]
    fn short_pieces_of_a_file_share_a_write_and_a_synch_is_not_divided() {
        let mut output = Output::new(5000);
        output.set_file_content(true);
        for _ in 0..3 {
            output.put_data(&[b'a'; 200], Some(EndOfLine::CrNul));
        }
        assert_eq!(output.next_write().len(), 400);
        output.sent(150);
        assert_eq!(output.next_write().len(), 250, "the transport accepts a part of a write");
        output.put(&[IAC, 242]);
        output.mark_urgent();
        assert_eq!(output.next_write().len(), 452);
    }

    #[test]
    fn a_cr_before_another_byte_than_lf_is_queued_without_it() {
        let mut output = Output::new(3);
        assert_eq!(output.put_data(b"ab\rcd", None), 3);
        assert_eq!(output.queued(), b"ab\r");
    }
}
