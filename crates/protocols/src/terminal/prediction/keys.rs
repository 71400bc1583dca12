//! Decoder from typed bytes to keys. It distinguishes the keys whose echo can be predicted.

use unicode_width::UnicodeWidthChar;

const ESC: u8 = 0x1b;

/// A typed key. All keys whose effect cannot be predicted are [`Key::Other`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A character of one or two columns.
    Text(char),
    /// Backspace or delete: removes the character before the cursor.
    Erase,
    /// The Enter key.
    Enter,
    /// The left arrow key.
    Left,
    /// The right arrow key.
    Right,
    /// Any other key, whose effect only the host knows.
    Other,
}

/// Incremental key decoder: an incomplete key at the end of one call continues in the next.
#[derive(Debug, Default)]
pub(super) struct KeyReader {
    state: State,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Ground,
    Escape,
    /// After CSI or SS3.
    Sequence {
        has_parameters: bool,
    },
    /// Inside a UTF-8 character: the code bits decoded so far, and the number of missing bytes.
    Character {
        code: u32,
        missing: u8,
    },
}

impl KeyReader {
    /// Processes one byte; returns the key that it completes.
    pub(super) fn push(&mut self, byte: u8) -> Option<Key> {
        let (state, key) = match (self.state, byte) {
            (_, ESC) => (State::Escape, None),
            (State::Escape, b'[' | b'O') => (State::Sequence { has_parameters: false }, None),
            (State::Escape, _) => (State::Ground, Some(Key::Other)),
            (State::Sequence { .. }, b' '..=b'?') => {
                (State::Sequence { has_parameters: true }, None)
            }
            (State::Sequence { has_parameters: false }, b'D') => (State::Ground, Some(Key::Left)),
            (State::Sequence { has_parameters: false }, b'C') => (State::Ground, Some(Key::Right)),
            (State::Sequence { .. }, _) => (State::Ground, Some(Key::Other)),
            (State::Character { code, missing }, 0x80..=0xbf) => {
                let code = code << 6 | u32::from(byte & 0x3f);
                match missing {
                    1 => (State::Ground, Some(text(code))),
                    _ => (State::Character { code, missing: missing - 1 }, None),
                }
            }
            (State::Character { .. } | State::Ground, _) => decode_single_byte(byte),
        };
        self.state = state;
        key
    }

    /// Handles the end of a read. Returns [`Key::Other`] if the input ends with a lone ESC.
    ///
    /// A terminal sends the sequence of a key in one piece, so a lone ESC is the Esc key.
    pub(super) fn pause(&mut self) -> Option<Key> {
        let State::Escape = self.state else { return None };
        self.state = State::Ground;
        Some(Key::Other)
    }
}

fn decode_single_byte(byte: u8) -> (State, Option<Key>) {
    let character = |code, missing| (State::Character { code: u32::from(code), missing }, None);
    match byte {
        0x08 | 0x7f => (State::Ground, Some(Key::Erase)),
        b'\r' => (State::Ground, Some(Key::Enter)),
        b' '..=b'~' => (State::Ground, Some(Key::Text(char::from(byte)))),
        0xc2..=0xdf => character(byte & 0x1f, 1),
        0xe0..=0xef => character(byte & 0x0f, 2),
        0xf0..=0xf4 => character(byte & 0x07, 3),
        _ => (State::Ground, Some(Key::Other)),
    }
}

fn text(code: u32) -> Key {
    let character = char::from_u32(code).filter(|character| character.width() > Some(0));
    character.map_or(Key::Other, Key::Text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        let mut reader = KeyReader::default();
        let mut keys: Vec<_> = bytes.iter().filter_map(|byte| reader.push(*byte)).collect();
        keys.extend(reader.pause());
        keys
    }

    #[test]
    fn arrows_are_decoded_in_both_cursor_key_modes() {
        assert_eq!(keys(b"\x1b[D\x1bOC"), [Key::Left, Key::Right]);
        assert_eq!(keys(b"\x1b[1;5D\x1b[A"), [Key::Other, Key::Other]);
    }

    #[test]
    fn a_utf8_character_is_one_key() {
        assert_eq!(keys("é界".as_bytes()), [Key::Text('é'), Key::Text('界')]);
        assert_eq!(keys("\u{301}".as_bytes()), [Key::Other]);
    }

    #[test]
    fn a_lone_escape_is_a_key() {
        assert_eq!(keys(b"\x1b"), [Key::Other]);
        assert_eq!(keys(b"a\x7f\r\x03"), [Key::Text('a'), Key::Erase, Key::Enter, Key::Other]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_decode_to_at_most_as_many_keys(bytes: Vec<u8>) {
            prop_assert!(keys(&bytes).len() <= bytes.len() + 1);
        }
    }
}
