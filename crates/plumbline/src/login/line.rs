//! A line that is typed and edited here before it goes anywhere.
//!
//! The keys are those of a Unix terminal: rubout and ^H take the last character away, ^W the last
//! word, ^U all, ^R shows the line again. Any other control character is handed back.

use unicode_width::UnicodeWidthChar;

/// The most bytes of a line; ours, as long as a Unix terminal's.
const LIMIT: usize = 4096;

/// A line so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    text: Vec<u8>,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// It is part of the line, or has changed it.
    Taken,
    /// It ended the line, which is to be taken.
    Ended,
    /// It is a control character, and the line is as before.
    Control(u8),
}

impl Line {
    /// Takes one key, and appends what is to be shown to `echo`.
    pub(super) fn key(&mut self, key: u8, echo: &mut Vec<u8>) -> Edited {
        match key {
            b'\r' | b'\n' => {
                echo.extend_from_slice(b"\r\n");
                return Edited::Ended;
            }
            0x08 | 0x7f => self.erase(echo),
            0x15 => while self.erase_one(echo) {},
            0x17 => self.erase_word(echo),
            0x12 => {
                echo.extend_from_slice(b"^R\r\n");
                self.show(echo);
            }
            b'\t' | b' '..=0x7e | 0x80.. if self.text.len() < LIMIT => {
                self.text.push(key);
                echo.push(if key == b'\t' { b' ' } else { key });
            }
            b'\t' | b' '..=0x7e | 0x80.. => echo.push(BELL),
            control => return Edited::Control(control),
        }
        Edited::Taken
    }

    /// Returns whether nothing is typed.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Takes the line, and begins an empty one.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.text)
    }

    /// Appends what the line looks like to `echo`.
    pub(super) fn show(&self, echo: &mut Vec<u8>) {
        echo.extend(self.text.iter().map(|byte| if *byte == b'\t' { b' ' } else { *byte }));
    }

    fn erase(&mut self, echo: &mut Vec<u8>) {
        if !self.erase_one(echo) {
            echo.push(BELL);
        }
    }

    fn erase_word(&mut self, echo: &mut Vec<u8>) {
        let is_blank = |text: &[u8]| text.last().is_some_and(u8::is_ascii_whitespace);
        while is_blank(&self.text) {
            self.erase_one(echo);
        }
        while !is_blank(&self.text) && self.erase_one(echo) {}
    }

    /// Takes the last character away, if there is one, with its bytes and its cells.
    fn erase_one(&mut self, echo: &mut Vec<u8>) -> bool {
        let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
        let len = self.text.len();
        let from = len.saturating_sub(4);
        let tail = self.text.get(from..).unwrap_or_default();
        let begins = tail.iter().rposition(|byte| !is_continuation(*byte)).map(|at| from + at);
        let character = begins.and_then(|at| {
            let text = std::str::from_utf8(self.text.get(at..)?).ok()?;
            Some((at, text.chars().next()?))
        });
        let (end, width) = match character {
            Some((at, character)) => (at, character.width().unwrap_or(0)),
            // What is no UTF-8 has one cell for every byte.
            None => (len.saturating_sub(1), 1),
        };
        self.text.truncate(end);
        for _ in 0..width.min(len) {
            echo.extend_from_slice(b"\x08 \x08");
        }
        len > 0
    }
}

const BELL: u8 = 7;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Types `keys` and returns the line and what was shown.
    fn typed(keys: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut line, mut echo) = (Line::default(), Vec::new());
        for key in keys {
            line.key(*key, &mut echo);
        }
        (line.take(), echo)
    }

    #[test]
    fn a_rubout_takes_the_last_character_away() {
        assert_eq!(typed(b"ab\x7f").0, b"a");
        assert_eq!(typed(b"ab\x7f").1, b"ab\x08 \x08");
    }

    #[test]
    fn a_rubout_takes_a_wide_character_away_with_all_its_bytes_and_both_its_cells() {
        let (line, echo) = typed("a\u{6f22}\x7f".as_bytes());
        assert_eq!(line, b"a");
        assert!(echo.ends_with(b"\x08 \x08\x08 \x08"));
    }

    #[test]
    fn a_rubout_on_an_empty_line_rings() {
        assert_eq!(typed(b"\x7f"), (Vec::new(), vec![7]));
    }

    #[test]
    fn a_word_and_a_line_are_taken_away_whole() {
        assert_eq!(typed(b"one two  \x17").0, b"one ");
        assert_eq!(typed(b"one two\x15").0, b"");
    }

    #[test]
    fn control_characters_are_handed_back() {
        let mut line = Line::default();
        assert_eq!(line.key(3, &mut Vec::new()), Edited::Control(3));
        assert_eq!(line.key(b'\r', &mut Vec::new()), Edited::Ended);
    }

    proptest! {
        #[test]
        fn any_keys_make_a_line_within_the_limit(keys: Vec<u8>) {
            let (line, _) = typed(&keys);
            prop_assert!(line.len() <= LIMIT);
        }

        #[test]
        fn a_kill_empties_any_line(keys: Vec<u8>) {
            let mut keys = keys;
            keys.push(0x15);
            prop_assert_eq!(typed(&keys).0, b"");
        }
    }
}
