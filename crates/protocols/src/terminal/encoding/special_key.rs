//! Keys of a modern terminal for which a character set may have its own codes.

/// A key of a modern terminal that is not a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpecialKey {
    Up,
    Down,
    Right,
    Left,
    Home,
    Return,
    Rubout,
    Tab,
}
