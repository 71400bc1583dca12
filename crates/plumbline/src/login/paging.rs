//! Text for the user at the prompt, wrapped at the width of the window, with lines ended by CR LF.

/// Minimum width for wrapping, in columns.
const WIDTH_MIN: usize = 20;

/// A page of text under construction, with its lines wrapped at the window width.
#[derive(Clone, Debug)]
pub(super) struct WrappedText {
    text: String,
    width: usize,
}

impl WrappedText {
    /// Creates an empty page for a window of `columns` columns. The last column stays empty,
    /// because a terminal may start a new line after a character in that column.
    pub(super) fn new(columns: u16) -> Self {
        let width = usize::from(columns).saturating_sub(1).max(WIDTH_MIN);
        Self { text: String::new(), width }
    }

    /// Appends a wrapped sentence.
    pub(super) fn push_sentence(&mut self, text: &str) {
        self.push_wrapped(text, 0, 0);
    }

    /// Appends a name with its description next to it, or on the next line if the name is too long.
    pub(super) fn push_entry(&mut self, name: &str, name_width: usize, text: &str) {
        self.text.push_str(name);
        let indent = (name_width + 2).min(self.width / 2);
        match indent.checked_sub(name.chars().count()) {
            Some(gap) if gap > 0 => {
                self.text.extend(std::iter::repeat_n(' ', gap));
                self.push_wrapped(text, indent, indent);
            }
            _ => {
                self.end_line();
                self.text.extend(std::iter::repeat_n(' ', indent));
                self.push_wrapped(text, indent, indent);
            }
        }
    }

    /// Appends a line without wrapping.
    pub(super) fn push_line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.end_line();
    }

    /// Returns the text of the page.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Appends words, wrapped: the first line starts in column `at`, each following line in column
    /// `indent`.
    fn push_wrapped(&mut self, text: &str, at: usize, indent: usize) {
        let mut column = at;
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let len = word.chars().count();
            if column > indent && column + 1 + len > self.width {
                self.end_line();
                self.text.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            } else if column > indent {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += len;
        }
        self.end_line();
    }

    fn end_line(&mut self) {
        self.text.push_str("\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_wrapped_before_the_last_column() {
        let mut page = WrappedText::new(21);
        page.push_sentence("Connected by the kernel's own TCP/IP.");
        assert_eq!(page.finish(), "Connected by the\r\nkernel's own TCP/IP.\r\n");
    }

    #[test]
    fn an_entry_continues_under_its_description() {
        let mut page = WrappedText::new(31);
        page.push_entry("send X", 8, "one of the commands of Telnet");
        let first = "send X    one of the commands";
        let second = "          of Telnet";
        assert_eq!(page.finish(), format!("{first}\r\n{second}\r\n"));
    }
}
