//! Framing of Ethernet frames on a Unix stream socket, as `-netdev stream` of QEMU and passt use it.
//!
//! Each frame, without checksum, follows its length as a 32-bit number in network byte order. A read
//! of the stream may end anywhere.
//!
//! The driver reads from the socket into the space of [`FrameReader::space`], reports the length by
//! [`FrameReader::filled`], and takes frames by [`FrameReader::next_frame`] until it returns `None`.
//! To send a frame it writes [`header`] and the frame together, so that a partial write is the only
//! case in which it must keep the rest of the frame.

use std::{error, fmt};

/// Minimum length of a frame in bytes: an Ethernet header.
pub const FRAME_MIN_BYTES: usize = 14;
/// Maximum length of a frame in bytes.
pub const FRAME_MAX_BYTES: usize = 65_535;
/// Length of the number in front of a frame, in bytes.
pub const HEADER_BYTES: usize = 4;
/// Size of the buffer: the longest frame, and a read of the same length after it.
const BUFFER_BYTES: usize = 2 * (HEADER_BYTES + FRAME_MAX_BYTES);

/// Receiver of the frames of one stream.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Vec<u8>,
    /// Start of the bytes that are not taken yet.
    start: usize,
    /// End of the bytes that were read.
    end: usize,
    /// Bytes of a frame of invalid length that are still to be skipped.
    skipped: u64,
    /// Frames that were skipped because they were shorter than [`FRAME_MIN_BYTES`].
    pub short_frames: u64,
    /// Frames that were skipped because they were longer than [`FRAME_MAX_BYTES`].
    pub long_frames: u64,
}

/// The peer announces a frame whose length no Ethernet frame can have; the stream is not framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFramed {
    /// Announced length in bytes.
    pub length_bytes: u32,
}

/// Maximum announced length for which a frame is skipped. Above it, the peer does not speak this
/// protocol, and skipping would wait for gigabytes.
const SKIPPED_MAX_BYTES: u32 = 1 << 20;

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// Creates a receiver at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Self { buffer, start: 0, end: 0, skipped: 0, short_frames: 0, long_frames: 0 }
    }

    /// Returns space for the next read, at least as long as the rest of an incomplete frame. All
    /// complete frames must have been taken.
    pub fn space(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Reports that `length` bytes were read into the space.
    pub fn filled(&mut self, length: usize) {
        self.end = self.end.saturating_add(length).min(self.buffer.len());
    }

    /// Returns the next complete frame, or `None` if more must be read.
    ///
    /// # Errors
    ///
    /// Returns [`NotFramed`]: close the connection.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, NotFramed> {
        loop {
            let waiting = self.end - self.start;
            let skipped = waiting.min(usize::try_from(self.skipped).unwrap_or(usize::MAX));
            self.start += skipped;
            self.skipped -= skipped as u64;
            let waiting = self.buffer.get(self.start..self.end).unwrap_or_default();
            let Some(header) = waiting.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
            let length_bytes = u32::from_be_bytes(*header);
            let length = usize::try_from(length_bytes).unwrap_or(usize::MAX);
            if length_bytes > SKIPPED_MAX_BYTES {
                return Err(NotFramed { length_bytes });
            }
            if (FRAME_MIN_BYTES..=FRAME_MAX_BYTES).contains(&length) {
                if waiting.len() < HEADER_BYTES + length {
                    return Ok(None);
                }
                let frame = self.start + HEADER_BYTES;
                self.start = frame + length;
                return Ok(self.buffer.get(frame..frame + length));
            }
            let is_short = length < FRAME_MIN_BYTES;
            *(if is_short { &mut self.short_frames } else { &mut self.long_frames }) += 1;
            self.start += HEADER_BYTES;
            self.skipped = length_bytes.into();
        }
    }
}

/// Returns the bytes that precede a frame of `length` bytes, or `None` if a frame cannot have this
/// length.
#[must_use]
pub fn header(length: usize) -> Option<[u8; HEADER_BYTES]> {
    let is_valid = (FRAME_MIN_BYTES..=FRAME_MAX_BYTES).contains(&length);
    u32::try_from(length).ok().filter(|_| is_valid).map(u32::to_be_bytes)
}

impl fmt::Display for NotFramed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the peer announces a frame of {} bytes: use '-netdev stream' of QEMU",
            self.length_bytes
        )
    }
}

impl error::Error for NotFramed {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(reader: &mut FrameReader, bytes: &[u8]) {
        reader.space()[..bytes.len()].copy_from_slice(bytes);
        reader.filled(bytes.len());
    }

    fn frames(reader: &mut FrameReader) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            frames.push(frame.to_vec());
        }
        frames
    }

    fn encode(frame: &[u8]) -> Vec<u8> {
        let length = u32::try_from(frame.len()).unwrap();
        [&length.to_be_bytes()[..], frame].concat()
    }

    proptest! {
        #[test]
        fn frames_are_the_same_in_reads_of_any_length(
            sent in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20),
            reads in proptest::collection::vec(1..200_usize, 1..20),
        ) {
            let stream = sent.iter().flat_map(|frame| encode(frame)).collect::<Vec<_>>();
            let mut rest = &stream[..];
            let mut reader = FrameReader::new();
            let mut received = Vec::new();
            for length in reads.iter().cycle() {
                let (bytes, later) = rest.split_at((*length).min(rest.len()));
                read(&mut reader, bytes);
                received.extend(frames(&mut reader));
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            let short = sent.iter().filter(|frame| frame.len() < FRAME_MIN_BYTES).count();
            let long_enough = sent.into_iter().filter(|frame| frame.len() >= FRAME_MIN_BYTES);
            prop_assert_eq!(received, long_enough.collect::<Vec<_>>());
            prop_assert_eq!(reader.short_frames, short as u64);
        }

        #[test]
        fn any_stream_is_read_or_rejected_within_the_limits(
            reads in proptest::collection::vec(
                proptest::collection::vec(prop_oneof![4 => Just(0), 1 => any::<u8>()], 0..300), 0..20,
            ),
        ) {
            let mut reader = FrameReader::new();
            for bytes in reads {
                read(&mut reader, &bytes);
                while let Ok(Some(frame)) = reader.next_frame() {
                    prop_assert!((FRAME_MIN_BYTES..=FRAME_MAX_BYTES).contains(&frame.len()));
                }
                if reader.next_frame().is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn the_longest_frame_is_read_and_a_longer_one_is_skipped_over_several_reads() {
        let mut reader = FrameReader::new();
        let longest = vec![7; FRAME_MAX_BYTES];
        read(&mut reader, &encode(&longest));
        assert_eq!(frames(&mut reader), [longest]);
        let stream = [encode(&vec![8; 200_000]), encode(&[9; 14])].concat();
        let mut received = Vec::new();
        for bytes in stream.chunks(60_000) {
            read(&mut reader, bytes);
            received.extend(frames(&mut reader));
        }
        assert_eq!((received, reader.long_frames), (vec![vec![9; 14]], 1));
    }

    #[test]
    fn a_stream_of_another_protocol_is_rejected() {
        let mut reader = FrameReader::new();
        read(&mut reader, b"GET / HTTP/1.0\r\n\r\n");
        let expected = NotFramed { length_bytes: u32::from_be_bytes(*b"GET ") };
        assert_eq!(reader.next_frame(), Err(expected));
    }

    #[test]
    fn a_header_has_the_length_in_network_byte_order() {
        assert_eq!(header(1514), Some([0, 0, 5, 234]));
        assert_eq!(header(FRAME_MIN_BYTES - 1), None);
        assert_eq!(header(FRAME_MAX_BYTES + 1), None);
    }
}
