//! Text conversion: line ends, EBCDIC and carriage control.
//!
//! Lines of local files end with LF. TYPE A sends CR LF (RFC 959 §3.1.1.1). According to Telnet, a
//! CR that does not end a line is followed by a NUL, but most implementations send it without the
//! NUL. This implementation does the same. It sends CR NUL NUL for a CR and a NUL in the file, so
//! that every file can be restored. TYPE E ends lines with NL (0x15).
//!
//! A client can send the CR LF of a text file unchanged (`keeps_cr_lf`), as other clients do,
//! instead of as CR CR LF. The server then stores its own line ends, and a download returns the
//! file with LF.

use alloc::vec::Vec;
use memchr::{memchr, memchr2};

/// EBCDIC code page 1047 (Latin-1 for open systems): the character of each code. LF is NL (0x15),
/// and NEL (0x85) is 0x25, as in z/OS Unix. The mapping is a bijection of 256 codes.
const FROM_EBCDIC: [u8; 256] = [
    0x00, 0x01, 0x02, 0x03, 0x9c, 0x09, 0x86, 0x7f, 0x97, 0x8d, 0x8e, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
    0x10, 0x11, 0x12, 0x13, 0x9d, 0x0a, 0x08, 0x87, 0x18, 0x19, 0x92, 0x8f, 0x1c, 0x1d, 0x1e, 0x1f,
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x17, 0x1b, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x05, 0x06, 0x07,
    0x90, 0x91, 0x16, 0x93, 0x94, 0x95, 0x96, 0x04, 0x98, 0x99, 0x9a, 0x9b, 0x14, 0x15, 0x9e, 0x1a,
    0x20, 0xa0, 0xe2, 0xe4, 0xe0, 0xe1, 0xe3, 0xe5, 0xe7, 0xf1, 0xa2, 0x2e, 0x3c, 0x28, 0x2b, 0x7c,
    0x26, 0xe9, 0xea, 0xeb, 0xe8, 0xed, 0xee, 0xef, 0xec, 0xdf, 0x21, 0x24, 0x2a, 0x29, 0x3b, 0x5e,
    0x2d, 0x2f, 0xc2, 0xc4, 0xc0, 0xc1, 0xc3, 0xc5, 0xc7, 0xd1, 0xa6, 0x2c, 0x25, 0x5f, 0x3e, 0x3f,
    0xf8, 0xc9, 0xca, 0xcb, 0xc8, 0xcd, 0xce, 0xcf, 0xcc, 0x60, 0x3a, 0x23, 0x40, 0x27, 0x3d, 0x22,
    0xd8, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0xab, 0xbb, 0xf0, 0xfd, 0xfe, 0xb1,
    0xb0, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f, 0x70, 0x71, 0x72, 0xaa, 0xba, 0xe6, 0xb8, 0xc6, 0xa4,
    0xb5, 0x7e, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0xa1, 0xbf, 0xd0, 0x5b, 0xde, 0xae,
    0xac, 0xa3, 0xa5, 0xb7, 0xa9, 0xa7, 0xb6, 0xbc, 0xbd, 0xbe, 0xdd, 0xa8, 0xaf, 0x5d, 0xb4, 0xd7,
    0x7b, 0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49, 0xad, 0xf4, 0xf6, 0xf2, 0xf3, 0xf5,
    0x7d, 0x4a, 0x4b, 0x4c, 0x4d, 0x4e, 0x4f, 0x50, 0x51, 0x52, 0xb9, 0xfb, 0xfc, 0xf9, 0xfa, 0xff,
    0x5c, 0xf7, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0xb2, 0xd4, 0xd6, 0xd2, 0xd3, 0xd5,
    0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0xb3, 0xdb, 0xdc, 0xd9, 0xda, 0x9f,
];

const TO_EBCDIC: [u8; 256] = invert_table();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "this runs at compile time, over tables of 256 bytes"
)]
const fn invert_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut code = 0;
    while code < 256 {
        table[FROM_EBCDIC[code] as usize] = code as u8;
        code += 1;
    }
    table
}

pub(super) fn to_ebcdic(text: &[u8], out: &mut Vec<u8>) {
    translate(&TO_EBCDIC, text, out);
}

pub(super) fn from_ebcdic(text: &[u8], out: &mut Vec<u8>) {
    translate(&FROM_EBCDIC, text, out);
}

fn translate(table: &[u8; 256], text: &[u8], out: &mut Vec<u8>) {
    // The table has an entry for every byte value, so the default is never used.
    out.extend(text.iter().map(|&byte| table.get(usize::from(byte)).copied().unwrap_or(byte)));
}

/// Converts LF to CR LF.
#[derive(Debug, Default)]
pub(super) struct ToNetwork {
    ends_with_cr: bool,
    /// Whether CR LF in the file is one line end, and not a CR followed by a line end.
    keeps_cr_lf: bool,
    line_ends: u64,
}

impl ToNetwork {
    /// Returns the number of converted line ends.
    pub(super) const fn line_ends(&self) -> u64 {
        self.line_ends
    }

    /// Keeps CR LF in the file as CR LF on the wire.
    pub(super) fn keep_cr_lf(&mut self) {
        self.keeps_cr_lf = true;
    }

    pub(super) fn put(&mut self, mut text: &[u8], out: &mut Vec<u8>) {
        out.reserve(text.len() + text.len() / 16);
        while let Some(at) = memchr2(b'\n', 0, text) {
            let (run, rest) = text.split_at_checked(at).unwrap_or((text, &[]));
            out.extend_from_slice(run);
            let follows_cr = run.last().map_or(self.ends_with_cr, |&last| last == b'\r');
            match rest.split_first() {
                Some((b'\n', rest)) if self.keeps_cr_lf && follows_cr => {
                    out.push(b'\n');
                    text = rest;
                }
                Some((b'\n', rest)) => {
                    out.extend_from_slice(b"\r\n");
                    self.line_ends += 1;
                    text = rest;
                }
                Some((_, rest)) => {
                    out.extend_from_slice(if follows_cr { b"\0\0" } else { b"\0" });
                    text = rest;
                }
                None => text = &[],
            }
            self.ends_with_cr = false;
        }
        out.extend_from_slice(text);
        if let Some(&last) = text.last() {
            self.ends_with_cr = last == b'\r';
        }
    }

    /// Ends a record. A CR at its end is then not combined with the next byte.
    pub(super) fn end_of_record(&mut self) {
        self.ends_with_cr = false;
    }
}

/// Converts CR LF to LF, and CR NUL to CR.
#[derive(Debug, Default)]
pub(super) struct FromNetwork {
    has_pending_cr: bool,
    line_ends: u64,
}

impl FromNetwork {
    /// Returns the number of converted line ends.
    pub(super) const fn line_ends(&self) -> u64 {
        self.line_ends
    }

    pub(super) fn put(&mut self, mut text: &[u8], out: &mut Vec<u8>) {
        out.reserve(text.len());
        if self.has_pending_cr {
            let Some(&first) = text.first() else { return };
            self.has_pending_cr = false;
            self.line_ends += u64::from(first == b'\n');
            text = convert_after_cr(first, text, out);
        }
        while let Some(at) = memchr(b'\r', text) {
            let (run, rest) = text.split_at_checked(at).unwrap_or((text, &[]));
            out.extend_from_slice(run);
            let rest = rest.get(1..).unwrap_or_default();
            let Some(&next) = rest.first() else {
                self.has_pending_cr = true;
                return;
            };
            self.line_ends += u64::from(next == b'\n');
            text = convert_after_cr(next, rest, out);
        }
        out.extend_from_slice(text);
    }

    /// Ends the text or the current record.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if core::mem::take(&mut self.has_pending_cr) {
            out.push(b'\r');
        }
    }
}

fn convert_after_cr<'a>(next: u8, text: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    let (byte, taken) = match next {
        b'\n' => (b'\n', 1),
        0 => (b'\r', 1),
        _ => (b'\r', 0),
    };
    out.push(byte);
    text.get(taken..).unwrap_or_default()
}

/// Converts lines with CR and FF to lines whose first character is carriage control
/// (RFC 959 §3.1.1.5.2, ANSI X3.9).
///
/// A line begins with a space. A CR becomes a line that begins with `+`, since it overprints the
/// line before, and an FF becomes a line that begins with `1`.
#[derive(Debug)]
pub(super) struct ToCarriageControl {
    control: Option<u8>,
}

impl Default for ToCarriageControl {
    fn default() -> Self {
        Self { control: Some(b' ') }
    }
}

impl ToCarriageControl {
    pub(super) fn put(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for &byte in text {
            match (self.control, byte) {
                (Some(b' '), b'\x0c') => {
                    out.push(b'1');
                    self.control = None;
                    continue;
                }
                (Some(control), _) => {
                    out.push(control);
                    self.control = None;
                }
                (None, _) => {}
            }
            match byte {
                b'\n' => {
                    out.push(b'\n');
                    self.control = Some(b' ');
                }
                b'\r' => {
                    out.push(b'\n');
                    self.control = Some(b'+');
                }
                _ => out.push(byte),
            }
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        match self.control {
            Some(b'+') => out.extend_from_slice(b"+\n"),
            Some(_) => {}
            None => out.push(b'\n'),
        }
    }
}

/// Converts lines with carriage control to lines with CR and FF; the last line ends with LF.
#[derive(Debug, Default)]
pub(super) struct FromCarriageControl {
    is_within_line: bool,
    has_begun: bool,
}

impl FromCarriageControl {
    pub(super) fn put(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for &byte in text {
            if self.is_within_line {
                match byte {
                    b'\n' => self.is_within_line = false,
                    _ => out.push(byte),
                }
                continue;
            }
            // A paper movement ends the previous line, except at the start of the text.
            let (line_end, page_move): (&[u8], &[u8]) = match byte {
                b'0' => (b"\n", b"\n"),
                b'-' => (b"\n", b"\n\n"),
                b'1' => (b"\n", b"\x0c"),
                b'+' => (b"\r", b""),
                _ => (b"\n", b""),
            };
            if self.has_begun {
                out.extend_from_slice(line_end);
            }
            out.extend_from_slice(page_move);
            // An empty line has no control character.
            self.is_within_line = byte != b'\n';
            self.has_begun = true;
        }
    }

    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if self.has_begun {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ebcdic_table_is_a_bijection_with_the_known_codes_of_text() {
        let mut out = Vec::new();
        let mut decoded = Vec::new();
        let all_bytes: Vec<u8> = (0..=255).collect();
        to_ebcdic(&all_bytes, &mut out);
        from_ebcdic(&out, &mut decoded);
        assert_eq!(decoded, all_bytes);
        out.clear();
        to_ebcdic(b"Hello, [World]\n09", &mut out);
        let expected = b"\xc8\x85\x93\x93\x96\x6b\x40\xad\xe6\x96\x99\x93\x84\xbd\x15\xf0\xf9";
        assert_eq!(out, expected);
    }

    #[test]
    fn carriage_control_prints_the_same_as_the_text() {
        let mut to_carriage_control = ToCarriageControl::default();
        let mut out = Vec::new();
        to_carriage_control.put(b"one\n\n\x0ctwo\rover\n", &mut out);
        to_carriage_control.finish(&mut out);
        assert_eq!(out, b" one\n \n1two\n+over\n");
        let mut from_carriage_control = FromCarriageControl::default();
        let mut decoded = Vec::new();
        from_carriage_control.put(b"1a\n0b\n-c\n+d\n", &mut decoded);
        from_carriage_control.finish(&mut decoded);
        assert_eq!(decoded, b"\x0ca\n\nb\n\n\nc\rd\n");
    }

    proptest! {
        #[test]
        fn carriage_control_is_converted_back_to_the_text(
            text in "([abc \\x0c\\r]{0,8}\n){0,8}", cut in 1..9_usize
        ) {
            // A CR at the start of a page has no line to overprint.
            prop_assume!(!text.starts_with('\r'));
            let mut to_carriage_control = ToCarriageControl::default();
            let mut lines = Vec::new();
            text.as_bytes().chunks(cut).for_each(|piece| to_carriage_control.put(piece, &mut lines));
            to_carriage_control.finish(&mut lines);
            let mut from_carriage_control = FromCarriageControl::default();
            let mut back = Vec::new();
            lines.chunks(cut).for_each(|piece| from_carriage_control.put(piece, &mut back));
            from_carriage_control.finish(&mut back);
            prop_assert_eq!(back, text.into_bytes());
        }
    }
}
