//! Removal of cancel sequences from the output of a session.
//!
//! Programs send the sequence more than once: rz of lrzsz prints a message between two of them. On a
//! terminal with a character set of its own, such as CP437, a CAN is a visible character.

use super::discarding::{BACKSPACE, CAN};
use net::time::{Duration, Instant};
use std::borrow::Cow;

/// Time after a transfer for which sequences are removed. Our choice.
const FILTER_TIME: Duration = Duration::from_secs(2);
/// Number of CAN characters of a cancel sequence.
const SEQUENCE_LEN: usize = 5;

/// Filter for the output of a session after a transfer.
#[derive(Debug, Default)]
pub struct CancelFilter {
    until: Option<Instant>,
    /// Number of CAN characters at the end of the input, which are held or removed.
    cans: usize,
}

impl CancelFilter {
    /// Starts the filter at the end of a transfer.
    pub fn begin(&mut self, now: Instant) {
        self.until = Some(now + FILTER_TIME);
    }

    /// Returns `data` without cancel sequences. Up to four CAN characters at its end are held until
    /// the next call.
    pub fn filter<'a>(&mut self, data: &'a [u8], now: Instant) -> Cow<'a, [u8]> {
        if self.until.is_none_or(|until| now >= until) {
            self.until = None;
            return match std::mem::take(&mut self.cans) {
                held @ 1..SEQUENCE_LEN => Cow::Owned([&vec![CAN; held], data].concat()),
                _ => Cow::Borrowed(data),
            };
        }
        if self.cans == 0 && !data.contains(&CAN) {
            return Cow::Borrowed(data);
        }
        let mut kept = Vec::with_capacity(data.len());
        for &byte in data {
            match byte {
                CAN => self.cans += 1,
                BACKSPACE if self.cans >= SEQUENCE_LEN => {}
                _ => {
                    let held = std::mem::take(&mut self.cans);
                    kept.extend(std::iter::repeat_n(
                        CAN,
                        if held < SEQUENCE_LEN { held } else { 0 },
                    ));
                    kept.push(byte);
                }
            }
        }
        Cow::Owned(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_is_removed_even_in_pieces() {
        let data = b"\r\nrz: huge removed.\r\n\x18\x18\x18\x18\x18\x18\x08\x08\x08\x08\x08$ ";
        for len in 1..data.len() {
            let mut filter = CancelFilter::default();
            filter.begin(Instant::ZERO);
            let pieces = data.chunks(len);
            let kept: Vec<_> = pieces.map(|piece| filter.filter(piece, Instant::ZERO)).collect();
            assert_eq!(kept.concat(), b"\r\nrz: huge removed.\r\n$ ", "{len}");
        }
    }

    #[test]
    fn fewer_characters_and_later_sequences_are_kept() {
        let mut filter = CancelFilter::default();
        assert_eq!(filter.filter(&[CAN; 9], Instant::ZERO).len(), 9);
        filter.begin(Instant::ZERO);
        assert_eq!(*filter.filter(b"a\x18\x18", Instant::ZERO), *b"a");
        assert_eq!(*filter.filter(b"\x08b", Instant::ZERO), *b"\x18\x18\x08b");
        assert_eq!(*filter.filter(b"\x18", Instant::ZERO), *b"");
        assert_eq!(*filter.filter(b"\x18c", Instant::ZERO + FILTER_TIME), *b"\x18\x18c");
    }
}
