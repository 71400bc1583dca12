//! Escaping of names, so that they are safe to display.

use std::fmt::Write;

/// Returns the text of a name. Escapes invalid UTF-8, control characters, invisible characters and
/// characters that change the direction of adjacent text.
pub fn escaped(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => text.push_str("\\\\"),
                letter if letter.is_ascii_control() => {
                    _ = write!(text, "{}", letter.to_string().as_bytes().escape_ascii());
                }
                letter if letter.is_control() || is_invisible(letter) => {
                    text.extend(letter.escape_default());
                }
                letter => text.push(letter),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a `String` cannot fail.
            _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Returns whether a character is invisible or changes the direction of adjacent text.
const fn is_invisible(letter: char) -> bool {
    matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn letters_are_kept_and_invalid_text_is_escaped() {
        assert_eq!(escaped("grün ☃ 100%".as_bytes()), "grün ☃ 100%");
        assert_eq!(escaped(b"a\xffb\n"), "a\\xffb\\n");
        assert_eq!(escaped(b"it's a\\b"), "it's a\\\\b");
        assert_eq!(escaped("\u{1b}[2J\u{202e}".as_bytes()), "\\x1b[2J\\u{202e}");
    }

    proptest! {
        // attack row 92
        #[test]
        fn no_control_character_remains(name: Vec<u8>) {
            prop_assert!(!escaped(&name).chars().any(|letter| letter.is_control()));
        }
    }
}
