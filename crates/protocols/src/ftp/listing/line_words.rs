//! The words of a line of LIST.

/// Parser that splits a line into words. The field is the text after the last word that was
/// returned.
pub(super) struct Words<'a>(pub(super) &'a [u8]);

impl<'a> Words<'a> {
    pub(super) fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.trim_ascii_start();
        let len = start.iter().position(u8::is_ascii_whitespace).unwrap_or(start.len());
        let (word, rest) = start.split_at_checked(len)?;
        self.0 = rest;
        if word.is_empty() { None } else { Some(word) }
    }

    /// Returns the text after one space: a name, which may itself begin with a space.
    pub(super) fn name(self) -> Option<&'a [u8]> {
        self.0.get(1..).filter(|name| !name.is_empty())
    }
}
