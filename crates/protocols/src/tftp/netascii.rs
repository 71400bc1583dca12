//! Netascii (RFC 1350 §1, from RFC 764): CR LF ends a line, and CR NUL is a carriage return.

use alloc::vec::Vec;

const CR: u8 = b'\r';
const LF: u8 = b'\n';
const NUL: u8 = 0;

/// Converts `text`, whose lines end with LF, to netascii, appends it to `out`, and returns the
/// number of line ends.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) -> u64 {
    let mut line_ends = 0;
    for piece in text.split_inclusive(|&byte| byte == LF || byte == CR) {
        match piece.split_last() {
            Some((&LF, line)) => {
                out.extend_from_slice(line);
                out.extend_from_slice(&[CR, LF]);
                line_ends += 1;
            }
            Some((&CR, line)) => {
                out.extend_from_slice(line);
                out.extend_from_slice(&[CR, NUL]);
            }
            _ => out.extend_from_slice(piece),
        }
    }
    line_ends
}

/// Incremental netascii decoder; the input may be split at any position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Decoder {
    /// Whether the last byte was a CR. Its meaning depends on the next byte.
    follows_cr: bool,
    line_ends: u64,
}

impl Decoder {
    /// Returns the number of CR LF line ends so far.
    pub(super) const fn line_ends(self) -> u64 {
        self.line_ends
    }

    /// Appends the decoded text. A CR before any byte but LF and NUL is kept as it is.
    pub(super) fn decode(&mut self, netascii: &[u8], out: &mut Vec<u8>) {
        for &byte in netascii {
            let followed_cr = core::mem::replace(&mut self.follows_cr, byte == CR);
            match (followed_cr, byte) {
                (true, LF) => {
                    out.push(LF);
                    self.line_ends += 1;
                }
                (true, NUL) => out.push(CR),
                (true, CR) => out.push(CR),
                (true, other) => out.extend_from_slice(&[CR, other]),
                (false, CR) => {}
                (false, other) => out.push(other),
            }
        }
    }

    /// Ends the file: appends a final CR whose next byte has not arrived.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if core::mem::take(&mut self.follows_cr) {
            out.push(CR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let mut decoder = Decoder::default();
        let mut text = Vec::new();
        for piece in pieces {
            decoder.decode(piece, &mut text);
        }
        decoder.finish(&mut text);
        text
    }

    #[test]
    fn lines_end_with_cr_lf_and_a_bare_cr_is_cr_nul() {
        let mut out = Vec::new();
        assert_eq!(encode(b"a\nb\rc", &mut out), 1);
        assert_eq!(out, b"a\r\nb\r\0c");
    }

    #[test]
    fn line_ends_are_counted_without_bare_lfs() {
        let mut decoder = Decoder::default();
        decoder.decode(b"a\r\nb\n\r", &mut Vec::new());
        decoder.decode(b"\n", &mut Vec::new());
        assert_eq!(decoder.line_ends(), 2);
    }

    #[test]
    fn a_cr_without_lf_or_nul_is_unchanged() {
        assert_eq!(decoded([&b"a\rb\r"[..]]), b"a\rb\r");
    }

    proptest! {
        #[test]
        fn any_bytes_round_trip_at_any_split(
            text in proptest::collection::vec(prop_oneof![Just(CR), Just(LF), Just(NUL), any::<u8>()], 0..200),
            block_size in 1_usize..20,
        ) {
            let mut netascii = Vec::new();
            encode(&text, &mut netascii);
            prop_assert_eq!(decoded(netascii.chunks(block_size)), text);
        }
    }
}
