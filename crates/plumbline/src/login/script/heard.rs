//! What a script has heard and not looked at: plain text, of which the end is kept.

/// The most bytes that are kept; ours: more than any prompt has before it.
const KEPT_MAX_BYTES: usize = 64 * 1024;

/// What has been heard.
pub(super) struct Heard {
    parser: vte::Parser,
    text: Text,
}

#[derive(Default)]
struct Text(String);

impl Default for Heard {
    fn default() -> Self {
        Self { parser: vte::Parser::new(), text: Text::default() }
    }
}

impl Heard {
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.parser.advance(&mut self.text, bytes);
        let excess = self.text.0.len().saturating_sub(KEPT_MAX_BYTES);
        if excess > 0 {
            self.forget(excess);
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text.0
    }

    /// Forgets so many bytes, and the rest of a character that is cut by that.
    pub(super) fn forget(&mut self, count: usize) {
        let text = &mut self.text.0;
        let end = (count..=text.len()).find(|end| text.is_char_boundary(*end));
        drop(text.drain(..end.unwrap_or(text.len())));
    }
}

impl vte::Perform for Text {
    fn print(&mut self, character: char) {
        if !character.is_control() {
            self.0.push(character);
        }
    }

    fn execute(&mut self, control: u8) {
        match control {
            b'\n' | b'\t' => self.0.push(char::from(control)),
            0x08 if !self.0.ends_with('\n') => _ = self.0.pop(),
            _ => {}
        }
    }
}
