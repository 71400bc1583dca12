//! The rest of a damaged header of the receiver.
//!
//! A header in hexadecimal digits is text. After an error in it, the digits that follow must not be
//! taken for the output of a shell that has taken the place of the receiver. A prompt may follow a
//! damaged header, so that the rest ends at the second byte that no header contains.

use super::ZDLE;
use net::time::{Duration, Instant};

/// Maximum length of a header after its first byte, with its line end.
const REST_MAX_LEN: u8 = 20;
/// Time after which the rest of a header no longer arrives. Our choice: a header is written at once.
const REST_TIMEOUT: Duration = Duration::from_secs(1);

/// The rest of a damaged header.
#[derive(Clone, Copy, Debug)]
pub(super) struct DamagedHeader {
    len: u8,
    /// Whether a byte that no header contains has arrived.
    has_other: bool,
    ends_at: Instant,
}

impl DamagedHeader {
    /// Creates the rest of a header in which an error was found.
    pub(super) fn new(now: Instant) -> Self {
        Self { len: 0, has_other: false, ends_at: now + REST_TIMEOUT }
    }

    /// Returns whether the next byte of the input belongs to the header.
    pub(super) fn push(&mut self, byte: u8, now: Instant) -> Belongs {
        let is_other = !(byte & 0x7f).is_ascii_hexdigit() && !is_line_end(byte) && byte != ZDLE;
        if now >= self.ends_at || (is_other && self.has_other) {
            return Belongs::No;
        }
        self.has_other |= is_other;
        self.len += 1;
        if self.len == REST_MAX_LEN || matches!(byte, b'\n' | 0x8a) {
            return Belongs::AsLast;
        }
        Belongs::Yes
    }
}

/// Whether a byte belongs to a damaged header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belongs {
    /// More bytes may follow.
    Yes,
    /// The byte is the last one.
    AsLast,
    /// The header has ended before the byte.
    No,
}

/// Returns whether `byte` is part of a line end, with or without parity, or XON.
const fn is_line_end(byte: u8) -> bool {
    matches!(byte & 0x7f, b'\r' | b'\n' | 0x11)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes of `input` that belong to the header.
    fn len(input: &[u8]) -> usize {
        let mut header = DamagedHeader::new(Instant::ZERO);
        for (at, byte) in input.iter().enumerate() {
            match header.push(*byte, Instant::ZERO) {
                Belongs::Yes => {}
                Belongs::AsLast => return at + 1,
                Belongs::No => return at,
            }
        }
        input.len()
    }

    #[test]
    fn a_header_ends_with_its_line_or_at_the_second_other_byte() {
        let cases: [(&[u8], usize); 7] = [
            (b"\xfe\x18B0100000023be50\r\x8a\x11", 19),
            (b"000cd85\r\x8a\x11$ ", 9),
            (b"00 0cd85\r\n\x11", 10),
            (b"00 cd8user@host:~$ ", 6),
            (b"user@host:~$ ", 1),
            (b" Enter choice", 2),
            (b"00000000000000000000000", 20),
        ];
        for (input, expected) in cases {
            assert_eq!(len(input), expected, "{}", input.escape_ascii());
        }
    }

    #[test]
    fn a_header_ends_after_a_second() {
        let mut header = DamagedHeader::new(Instant::ZERO);
        let before = Instant::ZERO + Duration::from_millis(999);
        assert_eq!(header.push(b'0', before), Belongs::Yes);
        assert_eq!(header.push(b'0', Instant::ZERO + REST_TIMEOUT), Belongs::No);
    }
}
