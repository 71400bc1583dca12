//! The near side's screen: the standard output, to which each turn writes once.
//!
//! While the person is at the prompt, what the far side writes is held and shown afterwards. What
//! is held has a limit; above it all of it is shown at once, and nothing is lost.

use super::column::Column;
use protocols::Cx;
use protocols::terminal::prediction::Predictor;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;

/// The most bytes that are held; ours: some thirty screenfuls.
const HELD_LIMIT: usize = 64 * 1024;

/// What waits for the standard output.
#[derive(Debug, Default)]
pub(super) struct Screen {
    waiting: Vec<u8>,
    /// What is held, while something is to be held.
    held: Option<Vec<u8>>,
    /// Whether the cursor is somewhere in a line.
    is_in_line: bool,
    /// Where in the line it is, while somebody wants to know.
    column: Option<Column>,
}

impl Screen {
    /// Takes what the far side writes. Returns whether what was held had to be shown.
    pub(super) fn put_far(&mut self, text: &[u8]) -> bool {
        let Some(held) = &mut self.held else {
            self.put(text);
            return false;
        };
        held.extend_from_slice(text);
        if held.len() <= HELD_LIMIT {
            return false;
        }
        let held = std::mem::take(held);
        self.put(b"\r\n");
        self.put(&held);
        true
    }

    /// Takes what plumb itself shows.
    pub(super) fn put(&mut self, text: &[u8]) {
        self.waiting.extend_from_slice(text);
        if let Some(column) = &mut self.column {
            column.follow(text);
        }
        if let Some(last) = text.last() {
            self.is_in_line = *last != b'\n';
        }
    }

    /// Follows the cursor's column from now on, or no more.
    pub(super) fn follow_column(&mut self, follows: bool) {
        self.column = follows.then(|| self.column.unwrap_or_default());
    }

    /// Returns the cursor's column, if that is followed and known.
    pub(super) fn column(&self) -> Option<usize> {
        self.column.and_then(Column::get)
    }

    /// Begins to hold what the far side writes.
    pub(super) fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Shows what was held, and holds no more.
    pub(super) fn release(&mut self) {
        if let Some(held) = self.held.take() {
            self.put(&held);
        }
    }

    /// Drops what the far side has written and nobody has seen.
    pub(super) fn drop_held(&mut self) {
        if let Some(held) = &mut self.held {
            held.clear();
        }
    }

    /// Returns whether the cursor is somewhere in a line.
    pub(super) fn is_in_line(&self) -> bool {
        self.is_in_line
    }

    /// Has all that waits pass by the prediction, and takes what that makes of it.
    pub(super) fn pass(&mut self, predictor: &mut Predictor, cx: &mut Cx<'_>) {
        predictor.show(&self.waiting, cx);
        self.waiting.clear();
        self.waiting.extend_from_slice(predictor.output());
        predictor.written();
    }

    /// Returns what waits to be written.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.waiting
    }

    /// Writes all that waits to the standard output.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::BrokenPipe`] if nobody reads it, and what else `write` says.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut rest = self.waiting.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_room()?,
                Err(error) => {
                    self.waiting.clear();
                    return Err(error.into());
                }
            }
        }
        self.waiting.clear();
        Ok(())
    }
}

/// Waits until the standard output, which somebody else has made non-blocking, takes more.
fn wait_for_room() -> io::Result<()> {
    let stdout = rustix::stdio::stdout();
    match poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_shown_when_it_is_released() {
        let mut screen = Screen::default();
        screen.hold();
        assert!(!screen.put_far(b"later"));
        screen.put(b"now ");
        assert_eq!(screen.waiting(), b"now ");
        screen.release();
        assert_eq!(screen.waiting(), b"now later");
    }

    #[test]
    fn what_is_held_beyond_the_limit_is_shown_at_once_and_whole() {
        let mut screen = Screen::default();
        screen.hold();
        assert!(!screen.put_far(&vec![b'a'; HELD_LIMIT]));
        assert!(screen.put_far(b"b"));
        assert_eq!(screen.waiting().len(), 2 + HELD_LIMIT + 1);
        assert!(screen.waiting().ends_with(b"ab"));
    }
}
