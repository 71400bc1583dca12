//! Local line editing: a line that is edited before it is sent.
//!
//! The editing keys are those of a Unix terminal, or those negotiated by LINEMODE (RFC 1184): erase
//! the last character, the last word or the line, redisplay the line, and take the next key
//! literally. Any other control character is returned to the caller, or becomes part of the line
//! under LINEMODE.

use unicode_width::UnicodeWidthChar;

/// Maximum length of a line in bytes. Our choice, equal to the limit of a Unix terminal.
const LINE_MAX_BYTES: usize = 4096;
/// Distance between tab stops, in columns.
const TAB_DISTANCE: usize = 8;

/// Editing keys and display options of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EditingKeys {
    /// Keys that erase the last character.
    pub(super) erase: [Option<u8>; 2],
    /// Key that erases the line.
    pub(super) kill: Option<u8>,
    /// Key that erases the last word.
    pub(super) erase_word: Option<u8>,
    /// Key that displays the line again.
    pub(super) reprint: Option<u8>,
    /// Key that causes the next key to be taken literally.
    pub(super) literal_next: Option<u8>,
    /// Whether control characters without a function become part of the line.
    pub(super) keeps_controls: bool,
    /// Whether control characters in the line are displayed unchanged instead of as `^X`.
    pub(super) shows_controls: bool,
    /// Whether a tab is displayed as spaces even if the terminal could move to its own tab stop.
    pub(super) has_soft_tabs: bool,
}

impl EditingKeys {
    /// Keys of a Unix terminal, with both characters that an erase key may send.
    pub(super) const UNIX: Self = Self {
        erase: [Some(0x08), Some(0x7f)],
        kill: Some(0x15),
        erase_word: Some(0x17),
        reprint: Some(0x12),
        literal_next: None,
        keeps_controls: false,
        shows_controls: false,
        has_soft_tabs: true,
    };

    /// Appends the displayed form of `text` to `echo`. `column` is the column in which the text
    /// begins, if known. Returns the column after the text.
    fn display(&self, text: &[u8], mut column: Option<usize>, echo: &mut Vec<u8>) -> Option<usize> {
        for chunk in text.utf8_chunks() {
            for character in chunk.valid().chars() {
                let width = self.width(character, column);
                match character {
                    '\t' if self.has_soft_tabs || column.is_none() => {
                        echo.extend(std::iter::repeat_n(b' ', width));
                    }
                    '\t' => echo.push(b'\t'),
                    '\0'..'\x20' | '\x7f' if !self.shows_controls => {
                        let letter = u8::try_from(character).unwrap_or_default() ^ b'@';
                        echo.extend_from_slice(&[b'^', letter]);
                    }
                    _ => echo.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                }
                column = column.map(|column| column + width);
            }
            // Each byte of invalid UTF-8 occupies one cell.
            echo.extend_from_slice(chunk.invalid());
            column = column.map(|column| column + chunk.invalid().len());
        }
        column
    }

    /// Returns the width of a character in columns.
    fn width(&self, character: char, column: Option<usize>) -> usize {
        match character {
            '\t' => column.map_or(1, |column| TAB_DISTANCE - column % TAB_DISTANCE),
            '\0'..'\x20' | '\x7f' if self.shows_controls => 0,
            '\0'..'\x20' | '\x7f' => 2,
            _ => character.width().unwrap_or(0),
        }
    }
}

/// A line being edited.
#[derive(Clone, Debug, Default)]
pub(super) struct LineEditor {
    text: Vec<u8>,
    /// Whether the next key is taken literally.
    is_literal: bool,
    /// Column in which the line begins, if known.
    column: Option<usize>,
}

/// Effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyEffect {
    /// The key became part of the line or edited it.
    Processed,
    /// The key completed the line; [`LineEditor::take`] returns the line.
    LineComplete,
    /// The key is a control character; the line is unchanged.
    Control(u8),
}

impl LineEditor {
    /// Processes one key and appends its echo to `echo`.
    pub(super) fn process_key(
        &mut self,
        key: u8,
        editing_keys: &EditingKeys,
        echo: &mut Vec<u8>,
    ) -> KeyEffect {
        if std::mem::take(&mut self.is_literal) {
            self.put(key, editing_keys, echo);
            return KeyEffect::Processed;
        }
        let has_key = |function: Option<u8>| function == Some(key);
        if matches!(key, b'\r' | b'\n') {
            echo.extend_from_slice(b"\r\n");
            return KeyEffect::LineComplete;
        } else if editing_keys.erase.into_iter().any(has_key) {
            self.erase(editing_keys, echo);
        } else if has_key(editing_keys.kill) {
            while self.erase_one(editing_keys, echo) {}
        } else if has_key(editing_keys.erase_word) {
            self.erase_word(editing_keys, echo);
        } else if has_key(editing_keys.reprint) {
            echo.extend_from_slice(&[b'^', key ^ b'@', b'\r', b'\n']);
            self.column = Some(0);
            self.show(editing_keys, echo);
        } else if has_key(editing_keys.literal_next) {
            self.is_literal = true;
        } else if editing_keys.keeps_controls || matches!(key, b'\t' | b' '..=0x7e | 0x80..) {
            self.put(key, editing_keys, echo);
        } else {
            return KeyEffect::Control(key);
        }
        KeyEffect::Processed
    }

    /// Returns whether the next key is taken literally.
    pub(super) fn is_literal(&self) -> bool {
        self.is_literal
    }

    /// Returns whether the line is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns the text of the line.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the line and starts an empty line.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(self).text
    }

    /// Sets the column of the cursor if the line is empty.
    pub(super) fn begin_at(&mut self, column: Option<usize>) {
        if self.is_empty() {
            self.column = column;
        }
    }

    /// Appends the displayed form of the line to `echo`.
    pub(super) fn show(&self, editing_keys: &EditingKeys, echo: &mut Vec<u8>) {
        editing_keys.display(&self.text, self.column, echo);
    }

    fn put(&mut self, key: u8, editing_keys: &EditingKeys, echo: &mut Vec<u8>) {
        if self.text.len() >= LINE_MAX_BYTES {
            return echo.push(BELL);
        }
        let column = match key {
            b'\t' => editing_keys.display(&self.text, self.column, &mut Vec::new()),
            _ => None,
        };
        self.text.push(key);
        match key {
            // The bytes of a character are echoed as they arrive.
            b' '..=0x7e | 0x80.. => echo.push(key),
            _ => _ = editing_keys.display(&[key], column, echo),
        }
    }

    fn erase(&mut self, editing_keys: &EditingKeys, echo: &mut Vec<u8>) {
        if !self.erase_one(editing_keys, echo) {
            echo.push(BELL);
        }
    }

    fn erase_word(&mut self, editing_keys: &EditingKeys, echo: &mut Vec<u8>) {
        let is_blank = |text: &[u8]| text.last().is_some_and(u8::is_ascii_whitespace);
        while is_blank(&self.text) {
            self.erase_one(editing_keys, echo);
        }
        while !is_blank(&self.text) && self.erase_one(editing_keys, echo) {}
    }

    /// Erases the last character, if there is one, with all its bytes and cells.
    fn erase_one(&mut self, editing_keys: &EditingKeys, echo: &mut Vec<u8>) -> bool {
        let is_continuation = |byte: u8| byte & 0xc0 == 0x80;
        let len = self.text.len();
        let tail_start = len.saturating_sub(4);
        let tail = self.text.get(tail_start..).unwrap_or_default();
        let character_start =
            tail.iter().rposition(|byte| !is_continuation(*byte)).map(|at| tail_start + at);
        let character = character_start.and_then(|at| {
            let text = std::str::from_utf8(self.text.get(at..)?).ok()?;
            Some((at, text.chars().next()?))
        });
        let (end, width) = match character {
            Some((at, character)) => {
                let before = self.text.get(..at).unwrap_or_default();
                let column = match character {
                    '\t' => editing_keys.display(before, self.column, &mut Vec::new()),
                    _ => None,
                };
                (at, editing_keys.width(character, column))
            }
            // Each byte of invalid UTF-8 occupies one cell.
            None => (len.saturating_sub(1), 1),
        };
        self.text.truncate(end);
        for _ in 0..if len > 0 { width } else { 0 } {
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

    /// Editing keys of the example in RFC 1184, as negotiated by LINEMODE.
    const NEGOTIATED_KEYS: EditingKeys = EditingKeys {
        erase: [Some(b'#'), None],
        kill: Some(b'@'),
        literal_next: Some(0x16),
        keeps_controls: true,
        ..EditingKeys::UNIX
    };

    /// Types `keys` and returns the line and its echo.
    fn type_keys_with(editing_keys: EditingKeys, keys: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let mut line = LineEditor::default();
        let mut echo = Vec::new();
        for key in keys {
            line.process_key(*key, &editing_keys, &mut echo);
        }
        (line.take(), echo)
    }

    fn type_keys(keys: &[u8]) -> (Vec<u8>, Vec<u8>) {
        type_keys_with(EditingKeys::UNIX, keys)
    }

    #[test]
    fn a_rubout_erases_the_last_character() {
        assert_eq!(type_keys(b"ab\x7f").0, b"a");
        assert_eq!(type_keys(b"ab\x7f").1, b"ab\x08 \x08");
    }

    #[test]
    fn a_rubout_erases_all_bytes_and_both_cells_of_a_wide_character() {
        let (line, echo) = type_keys("a\u{6f22}\x7f".as_bytes());
        assert_eq!(line, b"a");
        assert!(echo.ends_with(b"\x08 \x08\x08 \x08"));
    }

    #[test]
    fn a_rubout_on_an_empty_line_rings() {
        assert_eq!(type_keys(b"\x7f"), (Vec::new(), vec![7]));
    }

    #[test]
    fn the_erase_word_and_kill_keys_erase_a_word_and_a_line() {
        assert_eq!(type_keys(b"one two  \x17").0, b"one ");
        assert_eq!(type_keys(b"one two\x15").0, b"");
    }

    #[test]
    fn control_characters_are_returned_to_the_caller() {
        let mut line = LineEditor::default();
        assert_eq!(line.process_key(3, &EditingKeys::UNIX, &mut Vec::new()), KeyEffect::Control(3));
        assert_eq!(
            line.process_key(b'\r', &EditingKeys::UNIX, &mut Vec::new()),
            KeyEffect::LineComplete
        );
    }

    #[test]
    fn the_editing_keys_are_the_negotiated_ones() {
        assert_eq!(type_keys_with(NEGOTIATED_KEYS, b"wrong@ab#c\x7f").0, b"ac\x7f");
    }

    #[test]
    fn a_literal_control_character_is_erased_with_both_its_cells() {
        let (line, echo) = type_keys_with(NEGOTIATED_KEYS, b"a\x16#\x16\x03#");
        assert_eq!(line, b"a#");
        assert_eq!(echo, b"a#^C\x08 \x08\x08 \x08");
        let literal = EditingKeys { shows_controls: true, ..NEGOTIATED_KEYS };
        assert_eq!(type_keys_with(literal, b"\x16\x03").1, b"\x03");
    }

    #[test]
    fn a_tab_advances_to_its_stop_and_is_erased_with_all_its_cells() {
        let mut line = LineEditor::default();
        let mut echo = Vec::new();
        line.begin_at(Some(4));
        for key in *b"ab\t\x7f" {
            line.process_key(key, &EditingKeys::UNIX, &mut echo);
        }
        assert_eq!(echo, b"ab  \x08 \x08\x08 \x08");
        let hard = EditingKeys { has_soft_tabs: false, ..EditingKeys::UNIX };
        let mut echo = Vec::new();
        line.process_key(b'\t', &hard, &mut echo);
        assert_eq!(echo, b"\t");
    }

    proptest! {
        #[test]
        fn arbitrary_keys_keep_the_line_within_the_limit(keys: Vec<u8>) {
            let (line, _) = type_keys(&keys);
            prop_assert!(line.len() <= LINE_MAX_BYTES);
        }

        #[test]
        fn a_kill_empties_any_line(keys: Vec<u8>) {
            let mut keys = keys;
            keys.push(0x15);
            prop_assert_eq!(type_keys(&keys).0, b"");
        }

        #[test]
        fn erasing_a_line_clears_as_many_cells_as_it_displayed(text in "[a-z\t\u{6f22}\u{e9}]{0,20}", column in 0..40_usize) {
            let mut line = LineEditor::default();
            let mut echo = Vec::new();
            line.begin_at(Some(column));
            for key in text.bytes() {
                line.process_key(key, &EditingKeys::UNIX, &mut echo);
            }
            let displayed_text = String::from_utf8(echo).unwrap();
            let cells: usize = displayed_text.chars().map(|it| it.width().unwrap_or(0)).sum();
            let mut echo = Vec::new();
            line.process_key(0x15, &EditingKeys::UNIX, &mut echo);
            prop_assert_eq!(echo.len(), 3 * cells);
        }
    }
}
