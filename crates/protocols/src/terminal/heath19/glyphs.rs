//! The 33 glyphs of graphics mode, and the Unicode characters that resemble them.
//!
//! The four bars of the original are three dots thick, in a cell of eight by ten dots. The chosen
//! characters are slightly thinner, but are available in common fonts.

/// The first byte that selects a glyph in graphics mode.
const FIRST: u8 = b'^';
/// The glyphs that graphics mode displays for the bytes `^` to `~`.
const GLYPHS: [char; 33] = [
    '●', '◥', '│', '─', '┼', '┐', '┘', '└', '┌', '±', '→', '▒', '÷', '↓', '▗', '▖', '▘', '▝', '▀',
    '▐', '◤', '┬', '┤', '┴', '├', '╳', '╱', '╲', '▔', '▁', '▏', '▕', '¶',
];

/// Returns the character that a byte displays in graphics mode.
pub(super) fn glyph(byte: u8) -> char {
    let index = byte.checked_sub(FIRST).map(usize::from);
    index.and_then(|index| GLYPHS.get(index)).copied().unwrap_or(char::from(byte))
}

/// Returns the byte that displays the glyph `character` in graphics mode, or `None` if `character`
/// is not a glyph.
pub(super) fn byte_for(character: char) -> Option<u8> {
    // Fast path: nearly all cells hold ASCII, and no glyph is ASCII.
    if character.is_ascii() {
        return None;
    }
    (FIRST..).zip(GLYPHS).find_map(|(byte, glyph)| (glyph == character).then_some(byte))
}
