//! The near side's screen: the standard output, to which each turn writes once.
//!
//! While the person is at the prompt, what the far side writes is held and shown afterwards. What
//! is held has a limit; above it all of it is shown at once, and nothing is lost.
//!
//! Where the standard output is a terminal, output of the remote host passes the filter first:
//! sequences that write the clipboard or make the terminal answer are removed.
//!
//! Text passes the prediction exactly once: it enters `incoming`, and moves to `outgoing` with what
//! the prediction adds. The prediction may run several times before one write, because an
//! acknowledgment of an echo refers to all text before it.

use super::column::Column;
use protocols::Cx;
use protocols::terminal::filter::{Filter, Policy};
use protocols::terminal::prediction::Predictor;
use protocols::time::Instant;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io;

/// The most bytes that are held; ours: some thirty screenfuls.
const HELD_LIMIT: usize = 64 * 1024;

/// What waits for the standard output.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// Text that the prediction has not seen.
    incoming: Vec<u8>,
    /// Text for the standard output: what the prediction has passed on, with its own.
    outgoing: Vec<u8>,
    /// What is held, while something is to be held.
    held: Option<Vec<u8>>,
    /// Whether the cursor is somewhere in a line.
    is_in_line: bool,
    /// Where in the line it is, while somebody wants to know.
    column: Option<Column>,
    /// Between the remote host and a terminal.
    filter: Option<Filter>,
}

impl Screen {
    /// Makes the screen of a terminal, before which output of the remote host is filtered.
    pub(super) fn filtered(policy: Option<Policy>) -> Self {
        Self { filter: policy.map(Filter::new), ..Self::default() }
    }

    /// Takes output of the remote host. Returns whether what was held had to be shown.
    pub(super) fn put_far(&mut self, text: &[u8], now: Instant) -> bool {
        let mut filter = self.filter.take();
        let passed = filter.as_mut().map_or(text, |filter| filter.pass(text, now));
        let was_shown = self.put_passed(passed);
        self.filter = filter;
        was_shown
    }

    /// Returns how many sequences were removed from the output of the remote host.
    pub(super) fn removed(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::removed)
    }

    /// Resets the modes of the terminal that the remote host has set.
    pub(super) fn restore(&mut self) {
        if let Some(filter) = &mut self.filter {
            let (bytes, is_in_line) = (filter.restore(), self.is_in_line);
            self.put(&bytes);
            self.is_in_line = is_in_line;
        }
    }

    fn put_passed(&mut self, text: &[u8]) -> bool {
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
        self.incoming.extend_from_slice(text);
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

    /// Gives the new text to the prediction, and takes what that makes of it.
    pub(super) fn pass(&mut self, predictor: &mut Predictor, cx: &mut Cx<'_>) {
        predictor.show(&self.incoming, cx);
        self.incoming.clear();
        self.outgoing.extend_from_slice(predictor.output());
        predictor.written();
    }

    /// Returns whether nothing waits to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.outgoing.is_empty()
    }

    /// Returns what waits to be written.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> Vec<u8> {
        [self.outgoing.as_slice(), &self.incoming].concat()
    }

    /// Drops what waits to be written.
    pub(super) fn clear(&mut self) {
        self.incoming.clear();
        self.outgoing.clear();
    }

    /// Writes all that waits to the standard output.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::BrokenPipe`] if nobody reads it, and what else `write` says.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        // Without a prediction no text has passed one.
        self.outgoing.append(&mut self.incoming);
        let mut rest = self.outgoing.as_slice();
        while !rest.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_room()?,
                Err(error) => {
                    self.clear();
                    return Err(error.into());
                }
            }
        }
        self.clear();
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
        assert!(!screen.put_far(b"later", Instant::ZERO));
        screen.put(b"now ");
        assert_eq!(screen.waiting(), b"now ");
        screen.release();
        assert_eq!(screen.waiting(), b"now later");
    }

    #[test]
    fn what_is_held_beyond_the_limit_is_shown_at_once_and_whole() {
        let mut screen = Screen::default();
        screen.hold();
        assert!(!screen.put_far(&vec![b'a'; HELD_LIMIT], Instant::ZERO));
        assert!(screen.put_far(b"b", Instant::ZERO));
        assert_eq!(screen.waiting().len(), 2 + HELD_LIMIT + 1);
        assert!(screen.waiting().ends_with(b"ab"));
    }
}
