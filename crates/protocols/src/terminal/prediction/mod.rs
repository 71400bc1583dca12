//! Echo prediction: displays the effect of a key before the remote host has echoed it.
//!
//! All output for the real terminal passes through unchanged, so that its scrollback, modes and
//! colors stay as the host sets them. An internal [`Terminal`] tracks this output. The expected
//! effect of the keys in flight is drawn over the row of the cursor (the overlay). The overlay is
//! removed before host output is passed on, and is drawn again afterwards for the keys still in
//! flight, so no prediction can persist. The alternative, drawing the whole screen from an internal
//! grid, would lose the scrollback and every sequence that the grid does not support.
//!
//! **Keys.** Each sent key enters a queue with the expected cursor position and the expected
//! character. A character inserts itself, backspace removes the typed character before it, left and
//! right arrows move, Enter moves to the first column of the next row. In overwrite mode, or
//! between windows side by side, an editor does not move the text after a character. Once two
//! consecutive characters have not moved that text, further characters are predicted to overwrite
//! it. The effect of other keys is unknown: after such a key, nothing is predicted until this key
//! has timed out. A line that is longer than its row continues in the next row, and is erased back
//! from there (`expectation`).
//!
//! **Confirmation.** Host output is split before each CR and after each LF, and each piece is
//! examined. If the cursor is at the expected position of a key in the queue, and the expected
//! characters are displayed, that key and all earlier keys are confirmed. The echo time is smoothed
//! as in RFC 6298. A key is late after this time plus a grace period, which is at least 50 ms and
//! grows with the variation. Late keys are hidden. If the cursor is then at a position that no key
//! explains, the prediction was wrong. If the cursor has not moved, a segment may have been lost:
//! the key stays queued but hidden for at most five seconds. That wait ends early if the host
//! reports that it has read all keys (TIMING-MARK, RFC 860), and at once if it acknowledges the
//! echo itself.
//!
//! **Epochs.** Keys whose prediction depends on the same evidence form an epoch. Enter, arrows,
//! text after arrows, and keys of unknown effect begin a new epoch. Output that no key explains,
//! such as a password prompt, also begins one. Predictions of an epoch are displayed only after the
//! host has confirmed one of its keys by a character that was not displayed at that position
//! before. Keys typed before the answer to the last Enter do not count: a terminal echoes
//! type-ahead until the program that asks for a password disables the echo. A wrong prediction
//! invalidates its whole epoch. Keys that are not due yet are predicted again from the current
//! cursor position.
//!
//! **Display.** In [`Mode::Auto`] predictions are displayed when the echo time exceeds 30 ms, until
//! it falls to 20 ms. They are underlined when it exceeds 80 ms, until it falls to 50 ms. After a
//! resize, after other output, and after prediction was enabled, the column of the real terminal is
//! unknown, and nothing is displayed until the next CR. Nothing is displayed while the host is
//! inside a sequence, inserts, uses another character set, or has left and right margins, or in a
//! row with protected or large characters.
//!
//! Not implemented: predictions in other rows than the cursor's, because the row number on the real
//! terminal is not known and a wrap in its last row scrolls; and REP of a character that was sent
//! in an earlier piece, whose cell the overlay may have replaced.

mod expectation;
mod expected_effect;
mod keys;
mod overlay;
mod round_trip;
#[cfg(test)]
mod tests;
mod view;

use super::ansi::Terminal;
use super::cell::{Cell, Style};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use expected_effect::{CursorPosition, Edit, ExpectedEffect, Wrap};
use keys::{Key, KeyReader};
use net::cx::Cx;
use net::meter::Counter;
use net::time::{Duration, Instant};
use round_trip::RoundTrip;
use view::View;

/// Minimum number of bytes in one call of [`Predictor::typed`] that count as a paste.
const PASTE_BYTES_MIN: usize = 100;
/// Maximum number of keys that wait for their echo (our choice). A fast typist needs more than ten
/// seconds for so many keys.
const KEYS_MAX: usize = 128;
/// Maximum number of pieces of the host output of one call that are examined for echoes.
const PIECES_MAX: usize = 64;
/// Time after which an unanswered key is dropped if the cursor has not moved.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time allowed for an echo after the host has reported that it has read the key.
const ECHO_GRACE_AFTER_READ: Duration = Duration::from_millis(50);
/// Minimum number of consecutive characters that did not move the text after them, before further
/// characters are predicted to overwrite it.
const UNMOVED_MIN: u8 = 2;
/// Minimum length in bytes of host output whose lines are skipped if they scroll away.
const FLOOD_BYTES_MIN: usize = 16 * 1024;

/// Display mode of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Predictions are displayed while echoes are noticeably slow.
    #[default]
    Auto,
    /// Predictions are displayed regardless of the echo time.
    Always,
    /// Nothing is predicted or displayed.
    Never,
}

/// Statistics of keys and predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Keys that were sent.
    pub keys: u64,
    /// Keys whose echo was predicted.
    pub predicted: u64,
    /// Predictions that were displayed immediately when the key was typed.
    pub shown: u64,
    /// Predictions that the host confirmed.
    pub confirmed: u64,
    /// Predictions that the host contradicted or never answered, although it had confirmed other
    /// predictions of the same epoch.
    pub wrong: u64,
    /// Wrong predictions that were displayed.
    pub wrong_seen: u64,
    /// Predictions dropped without a result: those of an epoch that the host never confirmed, for
    /// example after a password prompt, and those that were interrupted.
    pub discarded: u64,
}

/// A sent key whose echo has not been confirmed yet.
#[derive(Clone, Copy, Debug)]
struct TypedKey {
    key: Key,
    /// Number of the key, counted from 1.
    number: u64,
    typed_at: Instant,
    epoch: u64,
    /// The expected effect; `None` if the key is of unknown effect.
    expected: Option<ExpectedEffect>,
    /// Deadline of the echo, set when the host reports that it has read the key.
    echo_deadline: Option<Instant>,
    history: KeyHistory,
}

/// Facts about a key that persist when it is predicted again.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHistory {
    is_predicted: bool,
    /// Whether the prediction was displayed as soon as the key was typed.
    was_displayed: bool,
    /// Whether the outcome is already in the statistics; later outcomes are not counted.
    is_counted: bool,
    /// Whether the key was typed before the answer to an Enter. Its echo may precede a password
    /// prompt, so it does not prove that later keys are echoed.
    is_typed_ahead: bool,
}

/// Outcome of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PredictionOutcome {
    Confirmed,
    Wrong,
    Discarded,
}

/// Echo predictor of one session.
#[derive(Debug)]
pub struct Predictor {
    mode: Mode,
    /// The screen without predictions, as the host has drawn it.
    host_screen: Terminal,
    reader: KeyReader,
    queue: VecDeque<TypedKey>,
    /// Cursor position before the first key in the queue.
    base: CursorPosition,
    /// Number of rows that the screen has scrolled since the queue was last empty.
    base_scrolled: usize,
    /// Content of the cursor's row before the first key in the queue; empty if there is no text
    /// after the cursor.
    base_row: Vec<Cell>,
    /// Number of consecutive characters that did not move the text after them.
    unmoved_count: u8,
    /// Behavior of the host at a full row, if it was observed.
    wrap: Option<Wrap>,
    epoch: u64,
    confirmed_epoch: u64,
    last_key: Key,
    /// Number of typed characters that backspace would remove.
    erasable: usize,
    round_trip: RoundTrip,
    /// Whether the first key of the queue is late.
    is_late: bool,
    is_column_known: bool,
    /// Number of rows at the bottom that are reserved by the caller.
    reserved_rows: usize,
    /// The displayed row with its predictions; `None` if no prediction is displayed.
    displayed: Option<View>,
    output: Vec<u8>,
    wants_timing_mark: bool,
    timing_mark_sent_at: Option<Instant>,
    statistics: Statistics,
}

impl Predictor {
    /// Creates a predictor. The cursor must be in the first column of the real terminal.
    #[must_use]
    pub fn new(mode: Mode, columns: u16, rows: u16) -> Self {
        Self {
            mode,
            host_screen: Terminal::new(columns, rows),
            reader: KeyReader::default(),
            queue: VecDeque::new(),
            base: CursorPosition::default(),
            base_scrolled: 0,
            base_row: Vec::new(),
            unmoved_count: 0,
            wrap: None,
            epoch: 1,
            confirmed_epoch: 0,
            last_key: Key::Other,
            erasable: 0,
            round_trip: RoundTrip::default(),
            is_late: false,
            is_column_known: true,
            reserved_rows: 0,
            displayed: None,
            output: Vec::new(),
            wants_timing_mark: false,
            timing_mark_sent_at: None,
            statistics: Statistics::default(),
        }
    }

    /// Returns the display mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the display mode.
    pub fn set_mode(&mut self, mode: Mode) {
        if self.mode == Mode::Never && mode != Mode::Never {
            // In mode `Never` the output was not tracked.
            let (columns, rows) = self.host_screen.size();
            self.host_screen = Terminal::new(columns, rows);
            self.is_column_known = false;
        }
        self.mode = mode;
        self.interrupt();
    }

    /// Returns the statistics so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns the smoothed echo time, or `None` before the first measurement.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// Returns the bytes that are queued for the real terminal.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Reports that all of [`Self::output`] was written.
    pub fn written(&mut self) {
        self.output.clear();
    }

    /// Predicts the echo of keys that the caller sends to the host.
    pub fn typed(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if self.mode == Mode::Never {
            return;
        }
        if keys.len() > PASTE_BYTES_MIN {
            self.handle_paste(keys.len(), cx);
        } else {
            for byte in keys {
                if let Some(key) = self.reader.push(*byte) {
                    self.take_key(key, cx);
                }
            }
            if let Some(key) = self.reader.pause() {
                self.take_key(key, cx);
            }
        }
        self.draw_overlay();
    }

    /// Drops the keys in flight: nothing is displayed until the host has confirmed a later key.
    ///
    /// The caller must call this when keys are sent elsewhere, or when the host announces that it
    /// starts or stops echoing.
    pub fn interrupt(&mut self) {
        self.remove_overlay();
        for mut typed in core::mem::take(&mut self.queue) {
            self.count(&mut typed.history, PredictionOutcome::Discarded);
        }
        self.is_late = false;
        self.begin_epoch();
    }

    /// Reports that the caller has written output of its own to the real terminal.
    pub fn other_output_written(&mut self) {
        self.interrupt();
        self.is_column_known = false;
    }

    /// Sets the new size of the real terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) {
        if self.host_screen.size() != (columns, rows) {
            self.other_output_written();
            self.host_screen.resize(columns, rows);
        }
    }

    /// Reserves rows at the bottom of the real terminal, for example for a status line of the
    /// caller. Nothing is predicted in them, and Enter does not move the cursor there.
    pub fn reserve_rows(&mut self, rows: u16) {
        if self.reserved_rows != usize::from(rows) {
            self.interrupt();
            self.reserved_rows = rows.into();
        }
    }

    /// Passes host output on to the real terminal.
    pub fn show(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        if bytes.is_empty() {
            return;
        }
        self.remove_overlay();
        self.output.extend_from_slice(bytes);
        if self.mode == Mode::Never {
            return;
        }
        let was_alternate = self.host_screen.is_alternate();
        self.track_output(bytes, cx);
        self.is_column_known |= bytes.contains(&b'\r');
        if self.host_screen.is_alternate() != was_alternate {
            self.interrupt();
        }
        // The real terminal sends the replies, so those of our terminal are discarded.
        self.host_screen.sent(self.host_screen.output().len());
        self.expire_keys(cx);
        self.draw_overlay();
    }

    /// Returns whether the caller should send a TIMING-MARK, so that the host reports when it has
    /// read all keys so far. The caller then calls [`Self::timing_mark_sent`].
    #[must_use]
    pub fn wants_timing_mark(&self) -> bool {
        self.wants_timing_mark && self.timing_mark_sent_at.is_none()
    }

    /// Records that a TIMING-MARK was sent after all keys.
    pub fn timing_mark_sent(&mut self, cx: &Cx<'_>) {
        self.wants_timing_mark = false;
        self.timing_mark_sent_at = Some(cx.now);
    }

    /// Processes the answer to the TIMING-MARK: the host has read all keys before it.
    pub fn timing_mark_answered(&mut self, cx: &mut Cx<'_>) {
        let Some(asked_at) = self.timing_mark_sent_at.take() else { return };
        for typed in self.queue.iter_mut().filter(|typed| typed.typed_at <= asked_at) {
            typed.echo_deadline.get_or_insert(cx.now + ECHO_GRACE_AFTER_READ);
        }
        self.wants_timing_mark |= self.queue.iter().any(|typed| typed.typed_at > asked_at);
        self.timeout(cx);
    }

    /// Returns the number of the last typed key, counted from 1, for [`Self::echo_acknowledged`].
    #[must_use]
    pub fn last_key(&self) -> u64 {
        self.statistics.keys
    }

    /// Processes the acknowledgment of the echo of all keys up to `last_key`, whose output has
    /// already been passed to [`Self::show`].
    pub fn echo_acknowledged(&mut self, last_key: u64, cx: &mut Cx<'_>) {
        for typed in self.queue.iter_mut().filter(|typed| typed.number <= last_key) {
            typed.echo_deadline = Some(typed.echo_deadline.map_or(cx.now, |at| at.min(cx.now)));
        }
        self.timeout(cx);
    }

    /// Returns the time at which [`Self::timeout`] must be called, or `None` if no key is in
    /// flight.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.queue.front()?;
        Some(if self.is_late { self.answer_deadline(first) } else { self.late_at(first) })
    }

    /// Hides or drops the keys whose echo is late.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        self.expire_keys(cx);
        self.draw_overlay();
    }

    // Keys.

    fn take_key(&mut self, key: Key, cx: &mut Cx<'_>) {
        self.statistics.keys += 1;
        if self.queue.len() >= KEYS_MAX {
            cx.meter.count(Counter::PredictionsRefused);
            self.interrupt();
        }
        self.expire_keys(cx);
        let is_typed_ahead = self.queue.iter().any(|typed| typed.key == Key::Enter);
        let history = KeyHistory { is_typed_ahead, ..KeyHistory::default() };
        self.enqueue(key, self.statistics.keys, cx.now, history, cx);
        let may_show = self.may_show();
        let Some(last) = self.queue.back_mut() else { return };
        if may_show && last.expected.is_some() && last.epoch <= self.confirmed_epoch {
            last.history.was_displayed = true;
            self.statistics.shown += 1;
            cx.meter.count(Counter::PredictionsShown);
        }
    }

    /// Handles a paste. Its echo is not predicted: it may have any content and arrives quickly.
    fn handle_paste(&mut self, bytes: usize, cx: &mut Cx<'_>) {
        self.statistics.keys += bytes as u64;
        self.interrupt();
        self.expire_keys(cx);
        self.enqueue(Key::Other, self.statistics.keys, cx.now, KeyHistory::default(), cx);
    }

    fn enqueue(
        &mut self,
        key: Key,
        number: u64,
        typed_at: Instant,
        mut history: KeyHistory,
        cx: &mut Cx<'_>,
    ) {
        if self.queue.is_empty() {
            if !self.is_at_base() {
                self.begin_epoch();
            }
            self.set_base(self.place(), 0);
        }
        let expected = self.expect(key);
        self.wants_timing_mark |= self.is_wanted() && self.epoch > self.confirmed_epoch;
        self.last_key = key;
        if expected.is_some() && !history.is_predicted {
            history.is_predicted = true;
            self.statistics.predicted += 1;
            cx.meter.count(Counter::PredictionsMade);
        }
        let epoch = self.epoch;
        let echo_deadline = None;
        self.queue.push_back(TypedKey {
            key,
            number,
            typed_at,
            epoch,
            expected,
            echo_deadline,
            history,
        });
    }

    /// Adds the outcome of a prediction to the statistics, unless it was already counted.
    fn count(&mut self, history: &mut KeyHistory, outcome: PredictionOutcome) {
        if !history.is_predicted || core::mem::replace(&mut history.is_counted, true) {
            return;
        }
        match outcome {
            PredictionOutcome::Confirmed => self.statistics.confirmed += 1,
            PredictionOutcome::Discarded => self.statistics.discarded += 1,
            PredictionOutcome::Wrong => {
                self.statistics.wrong += 1;
                self.statistics.wrong_seen += u64::from(history.was_displayed);
            }
        }
    }

    /// Returns the number of rows without the reserved ones.
    fn rows(&self) -> usize {
        usize::from(self.host_screen.size().1).saturating_sub(self.reserved_rows)
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.erasable = 0;
    }

    // Host output.

    fn place(&self) -> CursorPosition {
        let (row, column) = self.host_screen.cursor();
        let is_wrap_pending = self.host_screen.is_wrap_pending();
        CursorPosition { row: row.into(), column: column.into(), is_wrap_pending }
    }

    fn is_at_base(&self) -> bool {
        self.place() == self.base
    }

    /// Applies host output to the internal terminal, and checks for confirmed keys after each
    /// piece.
    fn track_output(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        let mut rest = bytes;
        for _ in 0..PIECES_MAX {
            if self.queue.is_empty() {
                break;
            }
            let (piece, later) = rest.split_at_checked(piece_len(rest)).unwrap_or((rest, &[]));
            self.host_screen.receive(piece, cx);
            let is_returning = later.starts_with(b"\r") && !later.starts_with(b"\r\n");
            self.confirm(is_returning, cx);
            rest = later;
        }
        let examined_bytes = self.without_scrolled_lines(rest);
        self.host_screen.receive(examined_bytes, cx);
        self.confirm(false, cx);
    }

    /// Returns `bytes` without the lines at its start that the following lines scroll off the
    /// screen.
    ///
    /// Lines are skipped only if all rows scroll and enough lines follow. The skipped bytes must
    /// end with a line end, and contain no sequences, SI or SO, so that they have no other effect.
    fn without_scrolled_lines<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if bytes.len() < FLOOD_BYTES_MIN
            || !self.host_screen.is_ground()
            || !self.host_screen.scrolls_whole_screen()
        {
            return bytes;
        }
        let mut rows = usize::from(self.host_screen.size().1) + 1;
        let end = bytes.windows(2).rposition(|pair| {
            rows = rows.saturating_sub(usize::from(pair == b"\r\n"));
            rows == 0
        });
        let Some((flood, rest)) = end.and_then(|end| bytes.split_at_checked(end + 2)) else {
            return bytes;
        };
        let has_state = flood.iter().any(|byte| matches!(byte, 0x0e | 0x0f | 0x1b));
        if has_state { bytes } else { rest }
    }

    /// Finds the last key that the host's screen confirms, and confirms it and all earlier keys.
    ///
    /// If a CR follows (`is_returning`), a blank after a full row may come from a shell that wraps
    /// the line, and is not accepted as an echo.
    fn confirm(&mut self, is_returning: bool, cx: &mut Cx<'_>) {
        let place = self.place();
        let fills_row =
            |typed: &TypedKey| typed.expected.is_some_and(|it| it.position.pending.is_some());
        let first_full = self.queue.iter().position(fills_row).filter(|_| is_returning);
        let is_at_base = self.is_at_base();
        let echo_of = |at: usize| {
            let typed = self.queue.get(at).filter(|_| first_full.is_none_or(|full| at <= full))?;
            let scrolled = typed.expected?.position.matches(place)?;
            // If the expected position is the start position, only the elapsed time indicates an
            // echo.
            let is_early = !self.round_trip.may_have_arrived(typed.typed_at, cx.now);
            let is_answered = !(is_early && is_at_base) && self.has_cells(at, scrolled);
            is_answered.then_some((at, scrolled, is_early))
        };
        let latest_echo = (0..self.queue.len()).rev().find_map(echo_of);
        let Some((last, scrolled, is_early)) = latest_echo else { return };
        if self.queue.get(last).is_some_and(fills_row) {
            let is_pending = place.is_wrap_pending;
            self.wrap = Some(if is_pending { Wrap::Pending } else { Wrap::Immediate });
        }
        if !self.base_row.is_empty() {
            self.detect_unmoved_tail(last);
        }
        // A single echo in less than half the usual time may be unrelated output.
        let is_credible = !is_early || self.round_trip.record_early_echo();
        let mut queue = core::mem::take(&mut self.queue);
        // Keys of unknown effect are not confirmed.
        for (at, mut typed) in queue.drain(..=last).enumerate() {
            let Some(expected) = typed.expected else {
                self.count(&mut typed.history, PredictionOutcome::Discarded);
                continue;
            };
            // A key that is still queued can only have been counted as wrong.
            let was_wrong = typed.history.is_counted;
            if !was_wrong {
                cx.meter.count(Counter::PredictionsConfirmed);
            }
            self.count(&mut typed.history, PredictionOutcome::Confirmed);
            if expected.is_evidence && is_credible && !typed.history.is_typed_ahead {
                self.confirmed_epoch = self.confirmed_epoch.max(typed.epoch);
                if at == last && !was_wrong {
                    self.round_trip.sample(cx.now - typed.typed_at);
                }
            }
        }
        self.queue = queue;
        self.set_base(place, scrolled);
    }

    fn set_base(&mut self, place: CursorPosition, scrolled: usize) {
        self.base = place;
        self.base_scrolled = scrolled;
        self.base_row.clear();
        let cells = self.host_screen.row_cells(place.row);
        if cells.iter().skip(place.column).any(|cell| cell.character() != ' ') {
            self.base_row.extend_from_slice(cells);
        }
    }

    /// Returns whether characters are predicted to overwrite the text after the cursor.
    fn is_overwriting(&self) -> bool {
        self.unmoved_count >= UNMOVED_MIN
    }

    /// Detects whether the keys up to index `last` have moved the text after them. Text that has
    /// not moved is no proof: the rest of the echo may still be in flight.
    fn detect_unmoved_tail(&mut self, last: usize) {
        let mut view = View { cells: self.base_row.clone(), column: 0, style: Style::PLAIN };
        for typed in self.queue.iter().take(last + 1) {
            let Some(expected) = typed.expected else { return };
            match expected.edit.with_tail_kept(false) {
                edit @ Edit::Insert { .. } if expected.position.pending.is_none() => {
                    edit.apply(&mut view, Style::PLAIN);
                }
                _ => return,
            }
        }
        let row = self.host_screen.row_cells(self.place().row).iter().map(Cell::character);
        let has_moved = view.cells.iter().map(Cell::character).eq(row);
        let was_overwriting = self.is_overwriting();
        self.unmoved_count = if has_moved { 0 } else { UNMOVED_MIN.min(self.unmoved_count + 1) };
        if self.is_overwriting() != was_overwriting {
            let is_overwriting = self.is_overwriting();
            for expected in self.queue.iter_mut().filter_map(|typed| typed.expected.as_mut()) {
                expected.edit = expected.edit.with_tail_kept(is_overwriting);
            }
        }
    }

    /// Returns whether the host's screen, scrolled by `scrolled` rows, displays the expected
    /// characters of the keys up to index `last`.
    fn has_cells(&self, last: usize, scrolled: usize) -> bool {
        let mut places = Vec::new();
        let mut keys = self.queue.iter().take(last + 1).rev();
        while let Some(typed) = keys.next() {
            if typed.key == Key::Enter {
                // Earlier keys are in another row; their echo was confirmed before the CR.
                return keys.all(|typed| !matches!(typed.key, Key::Text(_)));
            }
            let Some(ExpectedEffect { edit_row, cell: Some((column, character)), .. }) =
                typed.expected
            else {
                continue;
            };
            if !places.contains(&(edit_row, column)) {
                places.push((edit_row, column));
                let row = edit_row.checked_sub(scrolled);
                let cell = row.and_then(|row| self.host_screen.row_cells(row).get(column));
                if cell.is_none_or(|cell| cell.character() != character) {
                    return false;
                }
            }
        }
        true
    }

    fn late_at(&self, typed: &TypedKey) -> Instant {
        match typed.echo_deadline {
            Some(echo_deadline) => echo_deadline,
            None => self.round_trip.late_at(typed.typed_at),
        }
    }

    fn answer_deadline(&self, typed: &TypedKey) -> Instant {
        match typed.echo_deadline {
            Some(echo_deadline) => echo_deadline,
            None => self.late_at(typed).max(typed.typed_at + ANSWER_TIMEOUT),
        }
    }

    /// Drops keys whose echo did not arrive in time.
    fn expire_keys(&mut self, cx: &mut Cx<'_>) {
        self.is_late = false;
        while let Some(first) = self.queue.front().copied() {
            let is_silent = first.expected.is_some() && self.is_at_base();
            let end = if is_silent { self.answer_deadline(&first) } else { self.late_at(&first) };
            if end > cx.now {
                self.is_late = self.late_at(&first) <= cx.now;
                return;
            }
            self.predict_again(first.expected.map(|_| first.epoch), cx);
        }
    }

    /// Drops the keys that are due, and predicts the others again from the current cursor position.
    /// If `wrong` is an epoch, predictions of this epoch and of later epochs count as wrong.
    fn predict_again(&mut self, wrong: Option<u64>, cx: &mut Cx<'_>) {
        self.remove_overlay();
        let queue = core::mem::take(&mut self.queue);
        self.begin_epoch();
        for mut typed in queue {
            let is_settled =
                typed.echo_deadline.is_some_and(|echo_deadline| echo_deadline <= cx.now);
            let is_due = is_settled || self.round_trip.expected_at(typed.typed_at) <= cx.now;
            let is_refuted = wrong.is_some_and(|epoch| epoch <= typed.epoch);
            let was_confirmed = typed.epoch <= self.confirmed_epoch || typed.history.was_displayed;
            if typed.expected.is_some()
                && is_refuted
                && was_confirmed
                && (is_due || typed.history.was_displayed)
            {
                if !typed.history.is_counted {
                    cx.meter.count(Counter::PredictionsWrong);
                }
                self.count(&mut typed.history, PredictionOutcome::Wrong);
            }
            if is_due {
                self.count(&mut typed.history, PredictionOutcome::Discarded);
            } else {
                self.enqueue(typed.key, typed.number, typed.typed_at, typed.history, cx);
            }
        }
    }

    // The overlay.

    /// Returns whether predictions are displayed in this mode at the current echo time.
    fn is_wanted(&self) -> bool {
        match self.mode {
            Mode::Auto => self.round_trip.is_long,
            Mode::Always => true,
            Mode::Never => false,
        }
    }

    /// Returns whether predictions may be displayed now.
    fn may_show(&self) -> bool {
        // Only rewriting the character in the last column could make a wrap pending again.
        let is_known = self.is_column_known
            && self.is_at_base()
            && !self.base.is_wrap_pending
            && self.base.row < self.rows()
            && self.host_screen.prints_plainly();
        self.is_wanted() && is_known && !self.is_late
    }
}

/// Returns the length of the first piece of `bytes`, which ends before a CR or after an LF.
fn piece_len(bytes: &[u8]) -> usize {
    let is_end = |(at, byte): (usize, &u8)| match byte {
        b'\n' => Some(at + 1),
        b'\r' if at > 0 => Some(at),
        _ => None,
    };
    bytes.iter().enumerate().find_map(is_end).unwrap_or(bytes.len())
}
