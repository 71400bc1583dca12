//! One place of the grid: a character, the marks that combine with it, and how both look.

/// How many combining marks a cell keeps; more on one cell are dropped.
const MARKS_MAX: usize = 2;

/// A colour as the host names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Color {
    /// The terminal's own colour.
    #[default]
    Default,
    /// One of the 256 of the palette; the first sixteen are the named ones.
    Indexed(u8),
    /// Red, green and blue.
    Rgb(u8, u8, u8),
}

/// A set of the ways in which a character may look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(u16);

impl Attributes {
    /// SGR 1.
    pub const BOLD: Self = Self(1);
    /// SGR 2.
    pub const DIM: Self = Self(1 << 1);
    /// SGR 3.
    pub const ITALIC: Self = Self(1 << 2);
    /// SGR 4 and 21.
    pub const UNDERLINE: Self = Self(1 << 3);
    /// SGR 5 and 6.
    pub const BLINK: Self = Self(1 << 4);
    /// SGR 7.
    pub const REVERSE: Self = Self(1 << 5);
    /// SGR 8.
    pub const HIDDEN: Self = Self(1 << 6);
    /// SGR 9.
    pub const STRIKE: Self = Self(1 << 7);
    /// The left half of a wide character.
    const WIDE: Self = Self(1 << 8);
    /// The right half of a wide character.
    const TAIL: Self = Self(1 << 9);

    /// Returns whether all of `others` are in the set.
    #[must_use]
    pub const fn contains(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns the set with `others` in it.
    #[must_use]
    pub const fn with(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Returns the set without `others`.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }
}

/// How a character looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Style {
    /// The colour of the character.
    pub foreground: Color,
    /// The colour behind it.
    pub background: Color,
    /// Everything else about it.
    pub attributes: Attributes,
}

impl Style {
    /// The style of a terminal that was just switched on.
    pub const PLAIN: Self =
        Self { foreground: Color::Default, background: Color::Default, attributes: Attributes(0) };
}

/// One place of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    character: char,
    /// Marks are kept as UTF-16 units, which holds those of every living script; zero is none.
    marks: [u16; MARKS_MAX],
    style: Style,
}

impl Cell {
    /// A cell on which nothing was written.
    pub(super) const BLANK: Self = Self::new(' ', Style::PLAIN);

    /// Makes a cell of one column.
    pub(super) const fn new(character: char, style: Style) -> Self {
        Self { character, marks: [0; MARKS_MAX], style }
    }

    /// Makes the two halves of a cell of two columns.
    pub(super) const fn wide(character: char, style: Style) -> [Self; 2] {
        let mut cells = [Self::new(character, style), Self::new(' ', style)];
        let [left, right] = &mut cells;
        left.style.attributes = style.attributes.with(Attributes::WIDE);
        right.style.attributes = style.attributes.with(Attributes::TAIL);
        cells
    }

    /// Makes what an erasure leaves: a space on the background of `style`.
    pub(super) const fn erased(style: Style) -> Self {
        Self::new(' ', Style { background: style.background, ..Style::PLAIN })
    }

    /// Makes a space of half a wide character whose other half is gone.
    pub(super) fn blank_half(&mut self) {
        self.character = ' ';
        self.marks = [0; MARKS_MAX];
        self.style.attributes =
            self.style.attributes.without(Attributes::WIDE.with(Attributes::TAIL));
    }

    /// Adds a combining mark, if there is room for it.
    pub(super) fn add_mark(&mut self, mark: char) {
        if let Ok(mark) = u16::try_from(u32::from(mark))
            && let Some(free) = self.marks.iter_mut().find(|kept| **kept == 0)
        {
            *free = mark;
        }
    }

    /// Returns the character; a space where there is none.
    #[must_use]
    pub const fn character(&self) -> char {
        self.character
    }

    /// Returns the marks that combine with the character.
    pub fn marks(&self) -> impl Iterator<Item = char> {
        self.marks
            .iter()
            .take_while(|mark| **mark != 0)
            .filter_map(|mark| char::from_u32(u32::from(*mark)))
    }

    /// Returns how the character looks.
    #[must_use]
    pub const fn style(&self) -> Style {
        let wide = Attributes::WIDE.with(Attributes::TAIL);
        Style { attributes: self.style.attributes.without(wide), ..self.style }
    }

    /// Returns whether this is the left half of a character of two columns.
    #[must_use]
    pub const fn is_wide(&self) -> bool {
        self.style.attributes.contains(Attributes::WIDE)
    }

    /// Returns whether this is the right half of a character of two columns.
    #[must_use]
    pub const fn is_tail(&self) -> bool {
        self.style.attributes.contains(Attributes::TAIL)
    }
}
