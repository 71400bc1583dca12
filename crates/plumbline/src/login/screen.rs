//! Output queue of the local display. After each iteration of the event loop, as many bytes are
//! written to standard output as it accepts. While bytes remain in the queue, no data is read from
//! the remote host.
//!
//! While the prompt is displayed, output of the remote host is held back and displayed afterwards.
//! If the held output exceeds the limit, all of it is displayed at once; nothing is lost.
//!
//! If standard output is a terminal, output of the remote host passes a filter first, which removes
//! the sequences that write the clipboard or make the terminal answer.
//!
//! Text passes the predictor exactly once: it is appended to `incoming`, and the predictor moves it
//! to `outgoing` and adds its predictions. The predictor may run several times before one write,
//! because an acknowledgment of an echo refers to all text before it.

use super::cursor_column::CursorColumn;
use net::Cx;
use net::meter::Counter;
use net::time::Instant;
use os::output::Output;
use os::tty::set_display_reset;
use protocols::terminal::filter::{Filter, Policy};
use protocols::terminal::prediction::Predictor;
use std::io;
use std::time::Duration;

/// Maximum number of held bytes. Our choice: about thirty screenfuls.
const HELD_MAX_BYTES: usize = 64 * 1024;

/// Maximum number of bytes of the program's own text (local echo, prompt, bell) that are queued for
/// a blocked display. Our choice: more than all help pages.
const LOCAL_TEXT_MAX_BYTES: usize = 256 * 1024;

/// Output queue of the standard output.
#[derive(Debug, Default)]
pub(super) struct Screen {
    /// Text that the predictor has not processed.
    incoming: Vec<u8>,
    /// Text for standard output, including the predictor's additions.
    outgoing: Vec<u8>,
    /// Number of bytes of `outgoing` that are written.
    written_bytes: usize,
    /// Whether the last write was incomplete because the display was full.
    is_blocked: bool,
    /// Number of bytes of the program's own text that were dropped but not yet reported to the
    /// meter.
    dropped_bytes: usize,
    /// Held output of the remote host; `None` while output is displayed.
    held_output: Option<Vec<u8>>,
    /// Whether the last displayed line is incomplete.
    is_in_line: bool,
    /// Column of the cursor, while it is tracked.
    column: Option<CursorColumn>,
    /// Filter between the remote host and a terminal.
    filter: Option<Filter>,
}

impl Screen {
    /// Creates a screen. If `policy` is given, it determines the sequences that are removed from
    /// the output of the remote host.
    pub(super) fn with_filter(policy: Option<Policy>) -> Self {
        Self { filter: policy.map(Filter::new), ..Self::default() }
    }

    /// Appends output of the remote host. Returns whether held output had to be displayed.
    pub(super) fn put_remote(&mut self, text: &[u8], now: Instant) -> bool {
        let mut filter = self.filter.take();
        let filtered_text = filter.as_mut().map_or(text, |filter| filter.pass(text, now));
        let was_shown = self.put_filtered(filtered_text);
        if let Some(reset) = filter.as_mut().and_then(Filter::changed_reset) {
            // Ignored: this fails only without free file descriptors. A termination by a signal
            // then leaves the terminal modes set.
            _ = set_display_reset(&reset);
        }
        self.filter = filter;
        was_shown
    }

    /// Returns how many sequences were removed from the output of the remote host.
    pub(super) fn removed_sequences(&self) -> u64 {
        self.filter.as_ref().map_or(0, Filter::removed)
    }

    /// Resets the modes of the terminal that the remote host has set.
    pub(super) fn restore(&mut self) {
        if let Some(filter) = &mut self.filter {
            let bytes = filter.restore();
            let is_in_line = self.is_in_line;
            _ = filter.changed_reset().map(|reset| set_display_reset(&reset));
            self.append(&bytes);
            self.is_in_line = is_in_line;
        }
    }

    fn put_filtered(&mut self, text: &[u8]) -> bool {
        let Some(held_output) = &mut self.held_output else {
            self.append(text);
            return false;
        };
        held_output.extend_from_slice(text);
        if held_output.len() <= HELD_MAX_BYTES {
            return false;
        }
        let held_output = std::mem::take(held_output);
        self.append(b"\r\n");
        self.append(&held_output);
        true
    }

    /// Appends text of plumb itself. Text above the limit for a blocked display is dropped.
    pub(super) fn put(&mut self, text: &[u8]) {
        if self.is_blocked && self.incoming.len() + self.outgoing.len() > LOCAL_TEXT_MAX_BYTES {
            self.dropped_bytes += text.len();
            return;
        }
        self.append(text);
    }

    fn append(&mut self, text: &[u8]) {
        self.incoming.extend_from_slice(text);
        if let Some(column) = &mut self.column {
            column.follow(text);
        }
        if let Some(last) = text.last() {
            self.is_in_line = *last != b'\n';
        }
    }

    /// Erases the line of the cursor.
    pub(super) fn clear_line(&mut self) {
        self.put(b"\r\x1b[K");
        self.is_in_line = false;
    }

    /// Starts or stops tracking the column of the cursor.
    pub(super) fn track_column(&mut self, follows: bool) {
        self.column = follows.then(|| self.column.unwrap_or_default());
    }

    /// Returns the column of the cursor, if it is tracked and known.
    pub(super) fn column(&self) -> Option<usize> {
        self.column.and_then(CursorColumn::get)
    }

    /// Starts to hold the output of the remote host.
    pub(super) fn hold(&mut self) {
        self.held_output.get_or_insert_default();
    }

    /// Displays the held output and stops holding.
    pub(super) fn release(&mut self) {
        if let Some(held_output) = self.held_output.take() {
            self.append(&held_output);
        }
    }

    /// Discards held output of the remote host.
    pub(super) fn drop_held(&mut self) {
        if let Some(held_output) = &mut self.held_output {
            held_output.clear();
        }
    }

    /// Returns whether the last displayed line is incomplete.
    pub(super) fn is_in_line(&self) -> bool {
        self.is_in_line
    }

    /// Passes new text to the predictor and queues its result.
    pub(super) fn pass(&mut self, predictor: &mut Predictor, cx: &mut Cx<'_>) {
        predictor.show(&self.incoming, cx);
        self.incoming.clear();
        self.outgoing.extend_from_slice(predictor.output());
        predictor.written();
    }

    /// Returns whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.incoming.is_empty() && self.outgoing.is_empty()
    }

    /// Returns whether the display was full during the last write.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Returns the queued text.
    #[cfg(test)]
    pub(super) fn queued_text(&self) -> Vec<u8> {
        let outgoing = self.outgoing.get(self.written_bytes..).unwrap_or_default();
        [outgoing, &self.incoming].concat()
    }

    /// Discards the queued text.
    pub(super) fn clear(&mut self) {
        self.incoming.clear();
        self.outgoing.clear();
        self.written_bytes = 0;
        self.is_blocked = false;
    }

    /// Writes as much of the queued text as the display accepts.
    ///
    /// # Errors
    ///
    /// Returns [`io::ErrorKind::BrokenPipe`] if the reader of the standard output has gone, and
    /// other errors of `write(2)`.
    pub(super) fn flush(&mut self, output: &Output, cx: &mut Cx<'_>) -> io::Result<()> {
        cx.meter.add(Counter::DisplayBytesDropped, std::mem::take(&mut self.dropped_bytes) as u64);
        // Without a predictor, text moves directly to `outgoing`.
        self.outgoing.append(&mut self.incoming);
        while let Some(rest) =
            self.outgoing.get(self.written_bytes..).filter(|rest| !rest.is_empty())
        {
            match output.write(rest) {
                Ok(Some(count)) => self.written_bytes += count,
                Ok(None) => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(error) => {
                    self.clear();
                    return Err(error);
                }
            }
        }
        self.clear();
        Ok(())
    }

    /// Writes all queued text and waits while the display is full. If the display accepts nothing
    /// for `limit`, the rest is discarded.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::flush`].
    pub(super) fn drain(
        &mut self,
        output: &Output,
        limit: Option<Duration>,
        cx: &mut Cx<'_>,
    ) -> io::Result<()> {
        self.flush(output, cx)?;
        while self.is_blocked {
            if !output.wait_for_room(limit)? {
                self.clear();
            }
            self.flush(output, cx)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn held_output_is_displayed_when_it_is_released() {
        let mut screen = Screen::default();
        screen.hold();
        assert!(!screen.put_remote(b"later", Instant::ZERO));
        screen.put(b"now ");
        assert_eq!(screen.queued_text(), b"now ");
        screen.release();
        assert_eq!(screen.queued_text(), b"now later");
    }

    #[test]
    fn held_output_above_the_limit_is_displayed_at_once_and_completely() {
        let mut screen = Screen::default();
        screen.hold();
        assert!(!screen.put_remote(&vec![b'a'; HELD_MAX_BYTES], Instant::ZERO));
        assert!(screen.put_remote(b"b", Instant::ZERO));
        assert_eq!(screen.queued_text().len(), 2 + HELD_MAX_BYTES + 1);
        assert!(screen.queued_text().ends_with(b"ab"));
    }

    fn cx_of<T>(run: impl FnOnce(&mut Cx<'_>) -> T) -> T {
        run(&mut carrier::EngineContext::new(false).unwrap().cx())
    }

    #[test]
    fn a_full_display_receives_the_rest_later_and_in_order() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let output = Output::to(writer.as_fd()).unwrap();
        let text: Vec<u8> = (0..300_000_u32).map(|count| count.to_le_bytes()[0]).collect();
        let mut screen = Screen::default();
        screen.put_remote(&text, Instant::ZERO);
        cx_of(|cx| screen.flush(&output, cx)).unwrap();
        assert!(screen.is_blocked());
        let mut read = Vec::new();
        let mut buffer = [0; 4096];
        while read.len() < text.len() {
            let count = rustix::io::read(&reader, &mut buffer).unwrap();
            read.extend_from_slice(&buffer[..count]);
            cx_of(|cx| screen.flush(&output, cx)).unwrap();
        }
        assert!(read == text && !screen.is_blocked() && screen.is_empty());
    }

    #[test]
    fn for_a_blocked_display_only_local_text_above_the_limit_is_dropped() {
        let mut screen = Screen { is_blocked: true, ..Screen::default() };
        screen.put_remote(&vec![b'a'; LOCAL_TEXT_MAX_BYTES + 1], Instant::ZERO);
        screen.put(b"own");
        screen.put_remote(b"b", Instant::ZERO);
        assert_eq!(
            (screen.queued_text().len(), screen.dropped_bytes),
            (LOCAL_TEXT_MAX_BYTES + 2, 3)
        );
    }

    #[test]
    fn a_display_that_accepts_nothing_does_not_prevent_the_exit() {
        let (_reader, writer) = rustix::pipe::pipe().unwrap();
        let output = Output::to(writer.as_fd()).unwrap();
        let mut screen = Screen::default();
        screen.put_remote(&vec![b'a'; 1 << 20], Instant::ZERO);
        cx_of(|cx| screen.drain(&output, Some(Duration::ZERO), cx)).unwrap();
        assert!(screen.is_empty());
    }
}
