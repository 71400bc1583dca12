//! Received output that a script has not matched yet, as plain text. If it is too long, its start
//! is discarded.
//!
//! The text is stored with and without carriage returns. A pattern is first matched against the
//! text without carriage returns, so that `$` and `\s` apply to lines that end with LF. If the
//! pattern does not match, for example because it contains `\r`, it is matched against the text
//! with carriage returns.

use regex::Regex;

/// Maximum number of bytes in the buffer. Our choice: more than a host sends before any prompt.
const TEXT_MAX_BYTES: usize = 64 * 1024;

/// Unmatched output.
pub(super) struct MatchBuffer {
    parser: vte::Parser,
    text: Text,
}

#[derive(Default)]
struct Text {
    /// Text without carriage returns.
    plain: String,
    /// Text with carriage returns.
    raw: String,
}

impl Default for MatchBuffer {
    fn default() -> Self {
        Self { parser: vte::Parser::new(), text: Text::default() }
    }
}

impl MatchBuffer {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.text, bytes);
        let excess = self.text.raw.len().saturating_sub(TEXT_MAX_BYTES);
        if excess > 0 {
            let end = next_char_boundary(&self.text.raw, excess);
            self.discard(end);
        }
    }

    /// Returns the text without carriage returns.
    pub(super) fn text(&self) -> &str {
        &self.text.plain
    }

    /// Returns the captures of the first match and removes the text up to its end.
    pub(super) fn find(&mut self, pattern: &Regex) -> Option<Vec<String>> {
        let (captures, is_raw) = match pattern.captures(&self.text.plain) {
            Some(captures) => (captures, false),
            None => (pattern.captures(&self.text.raw)?, true),
        };
        let groups = captures.iter().map(|group| group.map_or("", |it| it.as_str()).to_owned());
        let groups = groups.collect();
        let end = captures.get(0).map_or(0, |found| found.end());
        match is_raw {
            true => self.discard(end),
            false => self.discard(raw_index(&self.text.raw, end)),
        }
        Some(groups)
    }

    /// Removes the first `end` bytes of the text with carriage returns, and the corresponding bytes
    /// of the text without carriage returns.
    fn discard(&mut self, end: usize) {
        let discarded: String = self.text.raw.drain(..end).collect();
        let returns = discarded.matches('\r').count();
        drop(self.text.plain.drain(..end.saturating_sub(returns)));
    }
}

/// Converts a length of the text without carriage returns into the corresponding index in `raw`.
fn raw_index(raw: &str, plain_end: usize) -> usize {
    let mut remaining_bytes = plain_end;
    for (at, character) in raw.char_indices() {
        if remaining_bytes == 0 {
            return at;
        }
        if character != '\r' {
            remaining_bytes = remaining_bytes.saturating_sub(character.len_utf8());
        }
    }
    raw.len()
}

/// Returns the first character boundary at or after `at`.
fn next_char_boundary(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

impl Text {
    fn push(&mut self, character: char) {
        self.plain.push(character);
        self.raw.push(character);
    }
}

impl vte::Perform for Text {
    fn print(&mut self, character: char) {
        if !character.is_control() {
            self.push(character);
        }
    }

    fn execute(&mut self, control: u8) {
        match control {
            b'\n' | b'\t' => self.push(char::from(control)),
            b'\r' => self.raw.push('\r'),
            // A backspace edits only the current line; it does not remove a character before a line
            // end.
            0x08 if !self.raw.ends_with(['\n', '\r']) => {
                self.plain.pop();
                self.raw.pop();
            }
            _ => {}
        }
    }
}
