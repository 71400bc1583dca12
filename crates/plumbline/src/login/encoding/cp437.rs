//! CP437: the characters of the IBM PC. Boards use BEL, BS, TAB, LF, FF, CR and ESC as controls, and
//! the other control characters as the glyphs that the PC shows.

use super::find;

/// The glyphs of 1 to 31.
const LOW: &str = "☺☻♥♦♣♠•◘○◙♂♀♪♫☼►◄↕‼¶§▬↨↑↓→←∟↔▲▼";

/// The characters of 128 to 255.
const HIGH: &str = "ÇüéâäàåçêëèïîìÄÅÉæÆôöòûùÿÖÜ¢£¥₧ƒáíóúñÑªº¿⌐¬½¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐\
    └┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u{a0}";

/// The controls, which are no glyphs.
fn is_control(byte: u8) -> bool {
    matches!(byte, 0 | 0x07..=0x0a | 0x0c | 0x0d | 0x1b | 0x7f)
}

/// Returns what the byte shows, or the control that it is.
pub(super) fn character(byte: u8) -> char {
    let glyph = match byte {
        _ if is_control(byte) => None,
        1..=31 => LOW.chars().nth(usize::from(byte) - 1),
        128.. => HIGH.chars().nth(usize::from(byte) - 128),
        _ => None,
    };
    glyph.unwrap_or(char::from(byte))
}

/// Returns the byte for a character. Keys of control stay what they are.
pub(super) fn byte(character: char) -> Option<u8> {
    if character.is_ascii() {
        return u8::try_from(u32::from(character)).ok();
    }
    find(character, LOW, 1).filter(|byte| !is_control(*byte)).or_else(|| find(character, HIGH, 128))
}
