//! Progress of a measurement, as one line of text.

/// The progress line. Its text is set during the measurement and displayed later, so that the
/// output does not disturb the measurement.
#[derive(Debug, Default)]
pub struct ProgressLine {
    /// Displays the text instead of the previous one; an empty text erases the line.
    display: Option<fn(&str)>,
    text: String,
    painted_text: String,
}

/// A count is displayed at each multiple of this number.
const COUNT_STEP: usize = 20;

impl ProgressLine {
    /// Creates a line whose text is displayed by `display`, where an empty text erases the line.
    /// `None` disables the line.
    pub fn new(display: Option<fn(&str)>) -> Self {
        Self { display, ..Self::default() }
    }

    /// Sets the text of the line.
    pub fn show(&mut self, text: &str) {
        if self.display.is_some() {
            text.clone_into(&mut self.text);
        }
    }

    /// Sets the text to a count, if `done` is a multiple of [`COUNT_STEP`].
    pub(crate) fn show_count(&mut self, what: &str, done: usize, all: usize) {
        if self.display.is_some() && done.is_multiple_of(COUNT_STEP) {
            self.text = format!("{what} {done} of {all}");
        }
    }

    /// Displays the text if it has changed.
    pub fn paint(&mut self) {
        if self.text != self.painted_text {
            self.text.clone_into(&mut self.painted_text);
            self.display_painted_text();
        }
    }

    /// Erases the line.
    pub fn clear(&mut self) {
        if !self.painted_text.is_empty() {
            self.painted_text.clear();
            self.text.clear();
            self.display_painted_text();
        }
    }

    fn display_painted_text(&self) {
        if let Some(display) = self.display {
            display(&self.painted_text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local! {
        static DISPLAYED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn display(text: &str) {
        DISPLAYED.with_borrow_mut(|texts| texts.push(text.to_owned()));
    }

    fn displayed() -> Vec<String> {
        DISPLAYED.take()
    }

    #[test]
    fn a_text_is_displayed_when_the_line_is_painted_and_only_once() {
        let mut line = ProgressLine::new(Some(display));
        line.show("logging in");
        assert!(displayed().is_empty());
        line.paint();
        line.paint();
        assert_eq!(displayed(), ["logging in"]);
    }

    #[test]
    fn a_cleared_line_is_displayed_as_an_empty_text() {
        let mut line = ProgressLine::new(Some(display));
        line.show("logging in");
        line.paint();
        line.clear();
        line.clear();
        assert_eq!(displayed(), ["logging in", ""]);
    }

    #[test]
    fn a_count_is_displayed_at_each_twentieth() {
        let mut line = ProgressLine::new(Some(display));
        for done in 1..=40 {
            line.show_count("echo", done, 40);
            line.paint();
        }
        assert_eq!(displayed(), ["echo 20 of 40", "echo 40 of 40"]);
    }
}
