//! Output that a script has not matched yet: plain text, of which the end is kept.
//!
//! The text is kept with its carriage returns and without. Patterns are matched without them first,
//! so that `$` and `\s` see lines that end by LF; a pattern that names `\r` matches the other.

use regex::Regex;

/// The most bytes that are kept; ours: more than any prompt has before it.
const KEPT_MAX_BYTES: usize = 64 * 1024;

/// What has been heard.
pub(super) struct Heard {
    parser: vte::Parser,
    text: Text,
}

#[derive(Default)]
struct Text {
    /// Without carriage returns.
    plain: String,
    /// With them.
    whole: String,
}

impl Default for Heard {
    fn default() -> Self {
        Self { parser: vte::Parser::new(), text: Text::default() }
    }
}

impl Heard {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.text, bytes);
        let excess = self.text.whole.len().saturating_sub(KEPT_MAX_BYTES);
        if excess > 0 {
            let end = char_end(&self.text.whole, excess);
            self.forget_whole(end);
        }
    }

    /// Returns the text without carriage returns.
    pub(super) fn text(&self) -> &str {
        &self.text.plain
    }

    /// Returns what a pattern finds first, and forgets the text up to the end of that.
    pub(super) fn find(&mut self, pattern: &Regex) -> Option<Vec<String>> {
        let (captures, is_whole) = match pattern.captures(&self.text.plain) {
            Some(captures) => (captures, false),
            None => (pattern.captures(&self.text.whole)?, true),
        };
        let groups = captures.iter().map(|group| group.map_or("", |it| it.as_str()).to_owned());
        let groups = groups.collect();
        let end = captures.get(0).map_or(0, |found| found.end());
        match is_whole {
            true => self.forget_whole(end),
            false => self.forget_whole(whole_end(&self.text.whole, end)),
        }
        Some(groups)
    }

    /// Forgets so many bytes of the text with carriage returns, and the same of the other.
    fn forget_whole(&mut self, end: usize) {
        let forgotten: String = self.text.whole.drain(..end).collect();
        let returns = forgotten.matches('\r').count();
        drop(self.text.plain.drain(..end.saturating_sub(returns)));
    }
}

/// Returns where so many bytes end that are no carriage returns.
fn whole_end(whole: &str, plain_end: usize) -> usize {
    let mut left = plain_end;
    for (at, character) in whole.char_indices() {
        if left == 0 {
            return at;
        }
        if character != '\r' {
            left = left.saturating_sub(character.len_utf8());
        }
    }
    whole.len()
}

/// Returns the first end of a character at or behind `at`.
fn char_end(text: &str, at: usize) -> usize {
    (at..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len())
}

impl Text {
    fn push(&mut self, character: char) {
        self.plain.push(character);
        self.whole.push(character);
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
            b'\r' => self.whole.push('\r'),
            // A character before a carriage return is in no line that a backspace leads to.
            0x08 if !self.whole.ends_with(['\n', '\r']) => {
                self.plain.pop();
                self.whole.pop();
            }
            _ => {}
        }
    }
}
