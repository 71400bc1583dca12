//! Mapping of the keys of a modern terminal to the keys of a Heath-19.
//!
//! f1 to f5 are the same keys on the Heath-19, f6, f7 and f8 are its blue, red and gray keys, f9 is
//! ERASE, f10 is SCROLL and f11 is SCROLL with SHIFT. The arrows, home, insert, delete, page up
//! (insert line) and page down (delete line) are the second functions of the Heath-19's keypad. The
//! keypad of the modern terminal is mapped to the keypad of the Heath-19.

use protocols::terminal::heath19::{Key, Modifiers};

/// A key press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::login) enum KeyPress {
    /// A key of the Heath-19.
    Key(Key, Modifiers),
    /// Second function of this digit key of the Heath-19's keypad.
    Editing(u8),
}

impl KeyPress {
    pub(super) fn plain(key: Key) -> Self {
        Self::Key(key, Modifiers::default())
    }

    fn shifted(key: Key) -> Self {
        Self::Key(key, Modifiers { shift: true, control: false })
    }
}

/// Parser for the key sequences of a modern terminal.
#[derive(Clone, Debug, Default)]
pub(in crate::login) struct KeyReader;

/// Key sequences of xterm and of the Linux console.
const SEQUENCES: &[(&[u8], Sequence)] = &[
    (b"\x1b[A", Sequence::Editing(8)),
    (b"\x1bOA", Sequence::Editing(8)),
    (b"\x1b[B", Sequence::Editing(2)),
    (b"\x1bOB", Sequence::Editing(2)),
    (b"\x1b[C", Sequence::Editing(6)),
    (b"\x1bOC", Sequence::Editing(6)),
    (b"\x1b[D", Sequence::Editing(4)),
    (b"\x1bOD", Sequence::Editing(4)),
    (b"\x1b[H", Sequence::Editing(5)),
    (b"\x1bOH", Sequence::Editing(5)),
    (b"\x1b[1~", Sequence::Editing(5)),
    (b"\x1b[2~", Sequence::Editing(7)),
    (b"\x1b[3~", Sequence::Editing(9)),
    (b"\x1b[5~", Sequence::Editing(1)),
    (b"\x1b[6~", Sequence::Editing(3)),
    (b"\x1bOP", Sequence::Plain(Key::F1)),
    (b"\x1bOQ", Sequence::Plain(Key::F2)),
    (b"\x1bOR", Sequence::Plain(Key::F3)),
    (b"\x1bOS", Sequence::Plain(Key::F4)),
    (b"\x1b[11~", Sequence::Plain(Key::F1)),
    (b"\x1b[12~", Sequence::Plain(Key::F2)),
    (b"\x1b[13~", Sequence::Plain(Key::F3)),
    (b"\x1b[14~", Sequence::Plain(Key::F4)),
    (b"\x1b[[A", Sequence::Plain(Key::F1)),
    (b"\x1b[[B", Sequence::Plain(Key::F2)),
    (b"\x1b[[C", Sequence::Plain(Key::F3)),
    (b"\x1b[[D", Sequence::Plain(Key::F4)),
    (b"\x1b[[E", Sequence::Plain(Key::F5)),
    (b"\x1b[15~", Sequence::Plain(Key::F5)),
    (b"\x1b[17~", Sequence::Plain(Key::Blue)),
    (b"\x1b[18~", Sequence::Plain(Key::Red)),
    (b"\x1b[19~", Sequence::Plain(Key::Gray)),
    (b"\x1b[20~", Sequence::Plain(Key::Erase)),
    (b"\x1b[20;2~", Sequence::Shifted(Key::Erase)),
    (b"\x1b[21~", Sequence::Plain(Key::Scroll)),
    (b"\x1b[23~", Sequence::Shifted(Key::Scroll)),
    (b"\x1bOM", Sequence::Plain(Key::PadEnter)),
    (b"\x1bOn", Sequence::Plain(Key::PadPoint)),
];

#[derive(Clone, Copy)]
enum Sequence {
    Plain(Key),
    Shifted(Key),
    Editing(u8),
}

impl KeyReader {
    /// Removes the first key from `keys`. An incomplete sequence is treated as separate characters:
    /// terminals send each sequence in one piece, and ESC alone must not wait.
    pub(in crate::login) fn next(&self, keys: &mut &[u8]) -> Option<KeyPress> {
        let sequence_and_key = SEQUENCES.iter().find(|(sequence, _)| keys.starts_with(sequence));
        if let Some((sequence, meaning)) = sequence_and_key {
            *keys = keys.get(sequence.len()..).unwrap_or_default();
            return Some(match meaning {
                Sequence::Plain(key) => KeyPress::plain(*key),
                Sequence::Shifted(key) => KeyPress::shifted(*key),
                Sequence::Editing(digit) => KeyPress::Editing(*digit),
            });
        }
        if let [0x1b, b'O', digit @ b'p'..=b'y', rest @ ..] = *keys {
            *keys = rest;
            return Some(KeyPress::plain(Key::Pad(digit - b'p')));
        }
        let (key, rest) = keys.split_first()?;
        *keys = rest;
        Some(KeyPress::plain(Key::Character(*key)))
    }
}
