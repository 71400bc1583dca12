//! CP437: the character set of the IBM PC. Bulletin boards use BEL, BS, TAB, LF, FF, CR and ESC as
//! controls; the other control characters are displayed as the glyphs of the PC.

use super::character_table::find;

/// Glyphs of the bytes 1 to 31.
const LOW_GLYPHS: &str = "☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼";

/// Characters of the bytes 128 to 255.
const HIGH_CHARACTERS: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// Returns whether the byte is a control instead of a glyph.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0 | 0x07..=0x0a | 0x0c | 0x0d | 0x1b | 0x7f)
}

/// Returns the character displayed for the byte. A control is returned unchanged.
pub(super) fn character(byte: u8) -> char {
    let glyph = match byte {
        _ if is_control(byte) => None,
        1..=31 => LOW_GLYPHS.chars().nth(usize::from(byte) - 1),
        128.. => HIGH_CHARACTERS.chars().nth(usize::from(byte) - 128),
        _ => None,
    };
    glyph.unwrap_or(char::from(byte))
}

/// Returns the byte for a character. ASCII control characters are unchanged.
pub(super) fn byte(character: char) -> Option<u8> {
    if character.is_ascii() {
        return u8::try_from(u32::from(character)).ok();
    }
    find(character, LOW_GLYPHS, 1)
        .filter(|byte| !is_control(*byte))
        .or_else(|| find(character, HIGH_CHARACTERS, 128))
}
