//! A cell of the grid: a character, its combining marks, and their style.
//!
//! A cell has 24 bytes, so that rows are written and moved in whole machine words: two 32-bit words
//! for the colors, five 16-bit words for the marks, and one 32-bit word for the character (21
//! bits), its attributes (8 bits), whether it is half of a wide character, and whether it is
//! protected.

/// Maximum number of combining marks per cell, as in libvterm; further marks are dropped.
const MARKS_MAX: usize = 5;

/// A color as specified by the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The default color of the terminal.
    #[default]
    Default,
    /// One of the 256 palette colors; the first sixteen are the named ones.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// A set of character attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(u8);

impl Attributes {
    /// Bold (SGR 1).
    pub const BOLD: Self = Self(1);
    /// Dim (SGR 2).
    pub const DIM: Self = Self(1 << 1);
    /// Italic (SGR 3).
    pub const ITALIC: Self = Self(1 << 2);
    /// Underlined (SGR 4 and 21).
    pub const UNDERLINE: Self = Self(1 << 3);
    /// Blinking (SGR 5 and 6).
    pub const BLINK: Self = Self(1 << 4);
    /// Reverse video (SGR 7).
    pub const REVERSE: Self = Self(1 << 5);
    /// Hidden (SGR 8).
    pub const HIDDEN: Self = Self(1 << 6);
    /// Struck through (SGR 9).
    pub const STRIKE: Self = Self(1 << 7);

    /// Returns whether the set contains all of `others`.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the set with `others` added.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the set with the membership of each of `others` inverted.
    pub(super) const fn toggled(self, others: Self) -> Self {
        Self(self.0 ^ others.0)
    }

    /// Returns the set without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// The style of a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    /// Color of the character.
    pub foreground: Color,
    /// Color of the background of the cell.
    pub background: Color,
    /// Attributes of the character.
    pub attributes: Attributes,
}

impl Style {
    /// The initial style of a terminal.
    pub const PLAIN: Self =
        Self { foreground: Color::Default, background: Color::Default, attributes: Attributes(0) };
}

/// A cell of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bits 0 to 20: the character. Bits 21 to 28: the attributes. Higher bits: the flags `WIDE`,
    /// `TAIL` and `PROTECTED`.
    head: u32,
    foreground: PackedColor,
    background: PackedColor,
    /// Combining marks as UTF-16 code units; zero means no mark. The marks of nearly all scripts in
    /// use are in the Basic Multilingual Plane.
    marks: [u16; MARKS_MAX],
}

const CHARACTER: u32 = (1 << ATTRIBUTES_SHIFT) - 1;
const ATTRIBUTES_SHIFT: u32 = 21;
/// Flag of the left half of a wide character.
const WIDE: u32 = 1 << 29;
/// Flag of the right half of a wide character.
const TAIL: u32 = 1 << 30;
/// Flag of a cell protected by DECSCA or SPA, which some erasures do not change.
const PROTECTED: u32 = 1 << 31;

/// A color in one word: its kind in the most significant byte, its value below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PackedColor(u32);

impl PackedColor {
    const DEFAULT: Self = Self(0);

    const fn new(color: Color) -> Self {
        match color {
            Color::Default => Self::DEFAULT,
            Color::Indexed(index) => Self(u32::from_be_bytes([1, 0, 0, index])),
            Color::Rgb(red, green, blue) => Self(u32::from_be_bytes([2, red, green, blue])),
        }
    }

    const fn color(self) -> Color {
        match self.0.to_be_bytes() {
            [2, red, green, blue] => Color::Rgb(red, green, blue),
            [1, _, _, index] => Color::Indexed(index),
            _ => Color::Default,
        }
    }
}

impl Cell {
    /// A cell that was never written.
    pub(super) const BLANK: Self = Self::new(' ', Style::PLAIN);

    /// Creates a cell with a character that is one column wide.
    pub(super) const fn new(character: char, style: Style) -> Self {
        Self {
            head: character as u32 | (style.attributes.0 as u32) << ATTRIBUTES_SHIFT,
            foreground: PackedColor::new(style.foreground),
            background: PackedColor::new(style.background),
            marks: [0; MARKS_MAX],
        }
    }

    /// Creates the two cells of a wide character.
    pub(super) const fn wide(character: char, style: Style) -> [Self; 2] {
        let mut cells = [Self::new(character, style), Self::new(' ', style)];
        let [left, right] = &mut cells;
        left.head |= WIDE;
        right.head |= TAIL;
        cells
    }

    /// Returns a cell with `character` and the style of this cell, without combining marks.
    pub(super) const fn with_character(self, character: u8) -> Self {
        Self { head: self.head & !CHARACTER | character as u32, ..self }
    }

    /// Returns the cell, protected from erasure if `is_protected`.
    pub(super) const fn protected(self, is_protected: bool) -> Self {
        Self { head: self.head | if is_protected { PROTECTED } else { 0 }, ..self }
    }

    /// Returns the cell without protection.
    pub(super) const fn unprotected(&self) -> Self {
        Self { head: self.head & !PROTECTED, ..*self }
    }

    /// Returns whether the cell is protected from selective erasure.
    pub(super) const fn is_protected(&self) -> bool {
        self.head & PROTECTED != 0
    }

    /// Sets the style of the cell and keeps everything else.
    pub(super) fn set_style(&mut self, style: Style) {
        let kept_bits = self.head & (CHARACTER | WIDE | TAIL | PROTECTED);
        let styled = Self::new('\0', style);
        *self = Self { head: kept_bits | styled.head, marks: self.marks, ..styled };
    }

    /// Returns the content of a cell after an erasure: a space with the background of `style`.
    pub(super) const fn erased(style: Style) -> Self {
        Self::new(' ', Style { background: style.background, ..Style::PLAIN })
    }

    /// Replaces half of a wide character with a space after the other half was overwritten or
    /// deleted.
    pub(super) fn blank_half(&mut self) {
        self.head = self.head & !(CHARACTER | WIDE | TAIL) | u32::from(' ');
        self.marks = [0; MARKS_MAX];
    }

    /// Adds a combining mark; dropped if the cell already has [`MARKS_MAX`] marks.
    pub(super) fn add_mark(&mut self, mark: char) {
        if let Ok(mark) = u16::try_from(u32::from(mark))
            && let Some(free) = self.marks.iter_mut().find(|kept| **kept == 0)
        {
            *free = mark;
        }
    }

    /// Returns the character; a space if there is none.
    #[must_use]
    pub fn character(&self) -> char {
        char::from_u32(self.head & CHARACTER).unwrap_or(' ')
    }

    /// Returns the combining marks of the character.
    pub fn marks(&self) -> impl Iterator<Item = char> {
        self.marks
            .iter()
            .take_while(|mark| **mark != 0)
            .filter_map(|mark| char::from_u32(u32::from(*mark)))
    }

    /// Returns the style of the character.
    #[must_use]
    pub const fn style(&self) -> Style {
        let [_, _, _, attributes] = (self.head >> ATTRIBUTES_SHIFT).to_be_bytes();
        Style {
            foreground: self.foreground.color(),
            background: self.background.color(),
            attributes: Attributes(attributes),
        }
    }

    /// Returns whether this is the left half of a character of two columns.
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        self.head & WIDE != 0
    }

    /// Returns whether this is the right half of a character of two columns.
    #[must_use]
    pub const fn is_tail(&self) -> bool {
        self.head & TAIL != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn color() -> impl Strategy<Value = Color> {
        prop_oneof![
            Just(Color::Default),
            any::<u8>().prop_map(Color::Indexed),
            any::<(u8, u8, u8)>().prop_map(|(red, green, blue)| Color::Rgb(red, green, blue)),
        ]
    }

    proptest! {
        #[test]
        fn a_cell_returns_its_character_marks_and_style(
            character in any::<char>(),
            foreground in color(),
            background in color(),
            attributes in any::<u8>(),
        ) {
            let style = Style { foreground, background, attributes: Attributes(attributes) };
            let cell = Cell::new(character, style);
            prop_assert_eq!((cell.character(), cell.style()), (character, style));
            prop_assert!(!cell.is_wide() && !cell.is_tail());
            let [left, right] = Cell::wide(character, style);
            prop_assert_eq!((left.character(), left.style(), right.style()), (character, style, style));
            prop_assert!(left.is_wide() && right.is_tail());
        }
    }

    #[test]
    fn a_cell_has_24_bytes() {
        assert_eq!(size_of::<Cell>(), 24);
    }
}
