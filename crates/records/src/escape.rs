//! Escapes untrusted text for a terminal and for HTML.
//!
//! Unescaped bytes of a remote host can control a terminal. Controls and bytes that are not UTF-8
//! are printed as `\x1b`; invisible characters and those that change the writing direction as
//! `\u{202e}`. A backslash is doubled, so that the escaped form is unambiguous. HTML gets the same
//! escapes, and its five special characters as entities.

use std::fmt::Write;

/// Returns `bytes` as one line of text that is safe to print on a terminal.
#[must_use]
pub fn terminal(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push_visible(&mut out, character);
        }
        for byte in chunk.invalid() {
            push_byte(&mut out, *byte);
        }
    }
    out
}

/// Returns a message as one line that is safe to print on a terminal: controls and invisible
/// characters are escaped. Backslashes stay as they are, because parts of the message may be
/// escaped already.
#[must_use]
pub fn line(text: &str) -> String {
    message(&text.replace('\r', "\\x0d").replace('\n', "\\x0a"))
}

/// Returns a message of several lines that is safe to print on a terminal; see [`line()`].
#[must_use]
pub fn message(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\\' => out.push(character),
            other => push_visible(&mut out, other),
        }
    }
    out
}

/// Returns the reason of an I/O error in words, without the number of the error.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    without_error_numbers(&error.to_string())
}

/// Removes the numbers that the standard library appends to errors of the operating system, as in
/// `Permission denied (os error 13)`.
#[must_use]
pub fn without_error_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        match piece.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                out.push_str(rest);
            }
            _ => {
                out.push_str(" (os error ");
                out.push_str(piece);
            }
        }
    }
    out
}

/// Returns single-line JSON that is safe to print on a terminal. JSON permits DEL, the C1 controls
/// and invisible characters within strings; this function escapes them.
#[must_use]
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() || is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(character);
        }
    }
    out
}

/// Returns `text` for an HTML text node or a quoted attribute value.
#[must_use]
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => push_visible(&mut out, other),
        }
    }
    out
}

fn push_visible(out: &mut String, character: char) {
    match u8::try_from(character) {
        Ok(b'\\') => out.push_str("\\\\"),
        Ok(byte) if byte.is_ascii_control() => push_byte(out, byte),
        _ if character.is_control() || is_invisible(character) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
        }
        _ => out.push(character),
    }
}

fn push_byte(out: &mut String, byte: u8) {
    let _ = write!(out, "\\x{byte:02x}");
}

/// Returns whether `character` is invisible or changes how its neighbors are displayed.
fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attack_row_75_an_escape_sequence_in_a_banner_is_printed_as_text() {
        let banner = b"\x1b]0;owned\x07\x9b31m\xc2\x9b2J login:\r\n";
        assert_eq!(terminal(banner), r"\x1b]0;owned\x07\x9b31m\u{9b}2J login:\x0d\x0a");
    }

    #[test]
    fn a_message_keeps_existing_escapes_and_stays_one_line() {
        assert_eq!(message("a\n\\x1b\x1b[2J\u{9b}"), "a\n\\x1b\\x1b[2J\\u{9b}");
        assert_eq!(line("a\r\nb"), "a\\x0d\\x0ab");
    }

    #[test]
    fn controls_that_json_permits_are_escaped_in_json_notation() {
        assert_eq!(
            json("\"a\u{9b}\u{7f}\u{202e}\u{e0001}\""),
            r#""a\u009b\u007f\u202e\udb40\udc01""#
        );
    }

    #[test]
    fn a_change_of_the_writing_direction_is_escaped() {
        assert_eq!(terminal("gpj\u{202e}exe"), r"gpj\u{202e}exe");
    }

    #[test]
    fn a_backslash_is_doubled_so_that_no_text_looks_like_an_escape() {
        assert_eq!(terminal(r"\x1b"), r"\\x1b");
    }

    #[test]
    fn letters_of_every_language_are_unchanged() {
        assert_eq!(terminal("Zürich 東京 µs"), "Zürich 東京 µs");
    }

    #[test]
    fn html_special_characters_become_entities() {
        assert_eq!(html(r#"<a b="c" d='e'>&"#), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
    }

    proptest! {
        #[test]
        fn attack_row_75_no_bytes_give_a_control(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            prop_assert!(!terminal(&bytes).chars().any(char::is_control));
        }

        #[test]
        fn attack_row_110_no_text_gives_a_special_character_of_html(text in any::<String>()) {
            let escaped = html(&text);
            prop_assert!(!escaped.contains(['<', '>', '"', '\'']));
            for rest in escaped.split('&').skip(1) {
                let entity = rest.split_once(';').map(|(entity, _)| entity);
                prop_assert!(matches!(entity, Some("amp" | "lt" | "gt" | "quot" | "#39")));
            }
        }
    }
}
