//! Cursor column of the local terminal, as far as it can be derived from the text alone.
//!
//! The column is tracked only while LINEMODE edits lines locally, because tabs depend on it. CR,
//! BS, tabs, UTF-8 characters and the sequences that set colors or titles are interpreted. After
//! any other sequence the column is unknown until the next CR.

use unicode_width::UnicodeWidthChar;

/// Distance between tab stops, in columns.
const TAB_DISTANCE: usize = 8;

/// Parser state and cursor column.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CursorColumn {
    column: Option<usize>,
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// Inside a control sequence, after CSI.
    Sequence,
    /// Inside a control string (OSC, DCS, APC, PM or SOS), such as a window title.
    Text,
}

impl CursorColumn {
    /// Returns the column of the cursor, counted from 0, if the column is known.
    pub(super) fn get(self) -> Option<usize> {
        self.column
    }

    /// Processes displayed text.
    pub(super) fn follow(&mut self, shown: &[u8]) {
        for chunk in shown.utf8_chunks() {
            chunk.valid().chars().for_each(|character| self.take(character));
            chunk.invalid().iter().for_each(|_| self.take('\u{fffd}'));
        }
    }

    fn take(&mut self, character: char) {
        self.state = match (self.state, character) {
            (State::Text, '\x07') => State::Ground,
            (_, '\x1b') => State::Escape,
            (State::Text, _) => State::Text,
            (State::Escape, '[') => State::Sequence,
            (State::Escape, ']' | 'P' | 'X' | '^' | '_') => State::Text,
            (State::Escape, '\\') => State::Ground,
            (State::Sequence, ' '..='?') => State::Sequence,
            (State::Sequence, 'm') => State::Ground,
            (State::Escape | State::Sequence, _) => {
                self.column = None;
                State::Ground
            }
            (State::Ground, _) => {
                self.print(character);
                State::Ground
            }
        };
    }

    fn print(&mut self, character: char) {
        self.column = match character {
            '\r' => Some(0),
            '\x08' => self.column.map(|column| column.saturating_sub(1)),
            '\t' => self.column.map(|column| column - column % TAB_DISTANCE + TAB_DISTANCE),
            _ => self.column.map(|column| column + character.width().unwrap_or(0)),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(shown: &str) -> Option<usize> {
        let mut column = CursorColumn::default();
        column.follow(shown.as_bytes());
        column.get()
    }

    #[test]
    fn text_advances_the_column_and_a_return_resets_it() {
        assert_eq!(after("unknown"), None);
        assert_eq!(after("x\r\n$ \u{6f22}\x08"), Some(3));
        assert_eq!(after("\rab\tc"), Some(9));
    }

    #[test]
    fn colors_and_titles_keep_the_column_and_other_sequences_make_it_unknown() {
        assert_eq!(after("\r\x1b[1;32m$\x1b[0m \x1b]0;title\x07\x1b]2;x\x1b\\"), Some(2));
        assert_eq!(after("\rab\x1b[5G"), None);
    }

    proptest! {
        #[test]
        fn the_column_is_the_same_for_any_split_of_the_text(
            text in "\r[\r\t\x08\x1b\x07\\[\\]0-9;ma-c\u{6f22}\u{e9}]{0,60}",
            at: proptest::sample::Index,
        ) {
            let boundaries: Vec<_> = text.char_indices().map(|(at, _)| at).collect();
            let (first, second) = text.split_at(boundaries[at.index(boundaries.len())]);
            let mut column = CursorColumn::default();
            column.follow(first.as_bytes());
            column.follow(second.as_bytes());
            prop_assert_eq!(column.get(), after(&text));
        }

        #[test]
        fn printed_characters_advance_the_column_by_their_width(text in "[ -~]{0,60}") {
            prop_assert_eq!(after(&format!("x\r{text}")), Some(text.len()));
        }
    }
}
