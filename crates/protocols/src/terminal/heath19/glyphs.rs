//! The 33 glyphs of the graphics mode, and the characters that look like them.
//!
//! The four bars are three dots of eight or ten thick; the characters chosen are those that fonts
//! have, and a little thinner.

/// The first byte that means a glyph while the graphics mode is on.
const FIRST: u8 = b'^';
/// The glyphs of `^` to `~`.
const GLYPHS: [char; 33] = [
    '●', '◥', '│', '─', '┼', '┐', '┘', '└', '┌', '±', '→', '▒', '÷', '↓', '▗', '▖', '▘', '▝', '▀',
    '▐', '◤', '┬', '┤', '┴', '├', '╳', '╱', '╲', '▔', '▁', '▏', '▕', '¶',
];

/// Returns what a byte shows while the graphics mode is on.
pub(super) fn glyph(byte: u8) -> char {
    let place = byte.checked_sub(FIRST).map(usize::from);
    place.and_then(|place| GLYPHS.get(place)).copied().unwrap_or(char::from(byte))
}

/// Returns the byte that shows `character` while the graphics mode is on, if it is a glyph.
pub(super) fn byte_of(character: char) -> Option<u8> {
    // Nearly all cells hold ASCII, and no glyph does.
    if character.is_ascii() {
        return None;
    }
    (FIRST..).zip(GLYPHS).find_map(|(byte, glyph)| (glyph == character).then_some(byte))
}
