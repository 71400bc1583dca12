//! Echo prediction: displays the effect of a key before the remote host has echoed it.
//!
//! All output for the real terminal passes through unchanged, so that its scrollback, modes and
//! colors stay as the host sets them; a [`Terminal`] of our own tracks it. The expected effect of
//! the keys in flight is laid over the row of the cursor. Before host output is passed on, the
//! overlay is removed, and afterwards the remaining part is laid again, so no prediction can
//! persist. The alternative, drawing the whole screen from our own grid, would lose the scrollback
//! and every sequence that the grid does not support.
//!
//! **Keys.** Each sent key enters a queue with the expected cursor position and the character that
//! is then expected at a position. A character inserts itself, backspace removes the typed
//! character before it, left and right arrows move, Enter leads to the first column of the next
//! row. If two consecutive characters have not moved the text after them, as in an editor that
//! overwrites or has a window beside it, the next ones are predicted to overwrite. Only the host
//! knows the effect of other keys: no key after one of them is predicted until it has timed out. A
//! line that is longer than its row continues in the next one, and is erased back from there
//! (`expectation`).
//!
//! **Confirmation.** Host output is examined in pieces, before each CR and after each LF. If the
//! cursor is at the expected position of a key in the queue, and the expected characters are
//! displayed, that key and all before it are confirmed. A key is late after the usual echo time
//! plus a grace of 50 ms; the round trip is smoothed according to RFC 6298, and the grace grows
//! with its variation. Late keys are hidden. If the cursor is then at a position that no key
//! explains, the prediction was wrong. If it has not moved, possibly nothing has arrived, for
//! example because a segment was lost: the key stays queued but hidden for at most five seconds. An
//! answer to a TIMING-MARK (RFC 860), or any other notification that all keys up to some time were
//! read, ends that wait; an acknowledgment of the echo itself ends it at once.
//!
//! **Epochs.** Keys that are predicted on the same evidence form an epoch: Enter, arrows, text
//! after arrows, and keys of unknown effect begin another one, and so does output that no key
//! explains, such as a password prompt. Predictions of an epoch are displayed only after the host
//! has confirmed one key of it by a character that was not there before, and which was typed after
//! the answer to the last Enter: a terminal echoes typed-ahead input until a program that asks for
//! a password disables echo. A wrong prediction invalidates its whole epoch, and keys that are not
//! due yet are predicted again from the current cursor position.
//!
//! **Display.** In [`Mode::Auto`] predictions are displayed while echoes take more than 30 ms
//! (until 20), and underlined above 80 ms (until 50). They are not displayed while the column of
//! the real terminal is unknown, which is the case after a resize, after other output, and after
//! prediction was enabled, up to the next CR; nor while the host is inside a sequence, inserts,
//! uses another character set, or has left and right margins; nor in a row with protected or large
//! characters.
//!
//! Not implemented: displaying predictions in a row other than the cursor's before the cursor is
//! there, because the row of the real terminal is not known and a wrap at its bottom scrolls; and
//! REP of a character that was sent in an earlier piece, whose cell the overlay may have replaced.

mod expectation;
mod keys;
mod overlay;
mod round_trip;
#[cfg(test)]
mod tests;

use super::ansi::Terminal;
use super::cell::{Attributes, Cell, Style};
use crate::cx::Cx;
use crate::meter::Counter;
use crate::time::{Duration, Instant};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use expectation::{Edit, Expected, Wrap};
use keys::{Key, KeyReader};
use overlay::View;
use round_trip::RoundTrip;

/// Number of bytes in one call of [`Predictor::typed`] above which they count as pasted.
const PASTE_MIN: usize = 100;
/// Maximum number of keys that wait for their echo (our choice): more than ten seconds of a fast
/// typist.
const KEYS_MAX: usize = 128;
/// Maximum number of pieces into which host output is split.
const PIECES_MAX: usize = 64;
/// Time without any answer after which a key is dropped.
const SILENCE_MAX: Duration = Duration::from_secs(5);
/// Time that the host may need for an echo after it has read the key.
const READ_GRACE: Duration = Duration::from_millis(50);
/// Number of consecutive characters that have not moved the text after them, from which on the next
/// ones are predicted to overwrite it.
const UNMOVED_MIN: u8 = 2;
/// Minimum length in bytes of output that is searched for lines that scroll away.
const FLOOD_MIN: usize = 16 * 1024;

/// Display mode of predictions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// While echoes are noticeably slow.
    #[default]
    Auto,
    /// Regardless of the echo time.
    Always,
    /// Never; nothing is predicted.
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
    /// Predictions that the host refuted or did not answer, after the host had confirmed other
    /// predictions of the same epoch.
    pub wrong: u64,
    /// Wrong predictions that were displayed.
    pub wrong_seen: u64,
    /// Predictions that were dropped without a verdict: those of an epoch that the host never
    /// confirmed, for example after a password prompt, and those that were interrupted.
    pub discarded: u64,
}

/// Position of the cursor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    row: usize,
    column: usize,
    is_wrap_pending: bool,
}

/// A key in flight.
#[derive(Clone, Copy, Debug)]
struct TypedKey {
    key: Key,
    /// Number of the key, counted from 1.
    number: u64,
    typed_at: Instant,
    epoch: u64,
    /// The expected effect; `None` if only the host knows it.
    expected: Option<Expected>,
    /// Time by which the echo has arrived, if there is one, according to the host.
    settled_at: Option<Instant>,
    past: KeyHistory,
}

/// Facts about a key that persist when it is predicted again.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHistory {
    is_predicted: bool,
    /// Whether the prediction was displayed immediately when the key was typed.
    is_seen: bool,
    /// Whether the outcome is already in the statistics; later outcomes are not counted.
    is_counted: bool,
    /// Whether the key was typed before the answer to an Enter. Its echo may precede a password
    /// prompt, so it is no evidence for later keys.
    is_ahead: bool,
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
    /// Position of the cursor before the first key of the queue.
    base: Place,
    /// Number of rows by which confirmed keys have scrolled the screen, in the row count of the
    /// queue.
    base_scrolled: usize,
    /// The row of the first key of the queue, as it was before that key; empty if there is no text
    /// after the cursor.
    base_row: Vec<Cell>,
    /// Number of consecutive characters that have not moved the text after them.
    unmoved: u8,
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
    /// Number of rows at the bottom that do not belong to the host.
    reserved_rows: usize,
    /// The content of the real terminal's row where it differs from the host's.
    displayed: Option<View>,
    output: Vec<u8>,
    wants_mark: bool,
    mark_asked_at: Option<Instant>,
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
            base: Place::default(),
            base_scrolled: 0,
            base_row: Vec::new(),
            unmoved: 0,
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
            wants_mark: false,
            mark_asked_at: None,
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
            // The output was not tracked in the meantime.
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

    /// Returns the smoothed time from a key to its echo, if one was measured.
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

    /// Processes keys that are sent to a host which is expected to echo them.
    pub fn typed(&mut self, keys: &[u8], cx: &mut Cx<'_>) {
        if self.mode == Mode::Never {
            return;
        }
        if keys.len() > PASTE_MIN {
            self.pasted(keys.len(), cx);
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

    /// Drops the keys in flight: nothing is displayed until the host has confirmed another key.
    ///
    /// Call it when keys are sent elsewhere, and when the host announces that it starts or stops
    /// echoing.
    pub fn interrupt(&mut self) {
        self.remove_overlay();
        for mut typed in core::mem::take(&mut self.queue) {
            self.count(&mut typed.past, PredictionOutcome::Discarded);
        }
        self.is_late = false;
        self.begin_epoch();
    }

    /// Reports that other output was written to the real terminal.
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

    /// Sets the number of rows at the bottom of the real terminal that do not belong to the host,
    /// such as a status line: nothing is predicted in them, and no Enter leads there.
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
        self.follow(bytes, cx);
        self.is_column_known |= bytes.contains(&b'\r');
        if self.host_screen.is_alternate() != was_alternate {
            self.interrupt();
        }
        // The real terminal sends the replies, so those of our terminal are discarded.
        self.host_screen.sent(self.host_screen.output().len());
        self.judge(cx);
        self.draw_overlay();
    }

    /// Returns whether the host should be asked to report when it has read the keys so far. After
    /// asking, the caller calls [`Self::mark_asked`].
    #[must_use]
    pub fn wants_mark(&self) -> bool {
        self.wants_mark && self.mark_asked_at.is_none()
    }

    /// Records that a mark was requested, after all keys.
    pub fn mark_asked(&mut self, cx: &Cx<'_>) {
        self.wants_mark = false;
        self.mark_asked_at = Some(cx.now);
    }

    /// Processes the answer: the keys before the mark were read.
    pub fn mark_answered(&mut self, cx: &mut Cx<'_>) {
        let Some(asked_at) = self.mark_asked_at.take() else { return };
        for typed in self.queue.iter_mut().filter(|typed| typed.typed_at <= asked_at) {
            typed.settled_at.get_or_insert(cx.now + READ_GRACE);
        }
        self.wants_mark |= self.queue.iter().any(|typed| typed.typed_at > asked_at);
        self.timeout(cx);
    }

    /// Returns the number of the last key, counted from 1, for [`Self::echo_acknowledged`].
    #[must_use]
    pub fn last_key(&self) -> u64 {
        self.statistics.keys
    }

    /// Processes the acknowledgment of the echo of all keys up to `last_key`, whose output has
    /// already been passed to [`Self::show`].
    pub fn echo_acknowledged(&mut self, last_key: u64, cx: &mut Cx<'_>) {
        for typed in self.queue.iter_mut().filter(|typed| typed.number <= last_key) {
            typed.settled_at = Some(typed.settled_at.map_or(cx.now, |at| at.min(cx.now)));
        }
        self.timeout(cx);
    }

    /// Returns when to call [`Self::timeout`].
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let first = self.queue.front()?;
        Some(if self.is_late { self.end_of_silence(first) } else { self.overdue(first) })
    }

    /// Processes late keys.
    pub fn timeout(&mut self, cx: &mut Cx<'_>) {
        self.judge(cx);
        self.draw_overlay();
    }

    // Keys.

    fn take_key(&mut self, key: Key, cx: &mut Cx<'_>) {
        self.statistics.keys += 1;
        if self.queue.len() >= KEYS_MAX {
            cx.meter.count(Counter::PredictionsRefused);
            self.interrupt();
        }
        self.judge(cx);
        let is_ahead = self.queue.iter().any(|typed| typed.key == Key::Enter);
        let past = KeyHistory { is_ahead, ..KeyHistory::default() };
        self.enqueue(key, self.statistics.keys, cx.now, past, cx);
        let may_show = self.may_show();
        let Some(last) = self.queue.back_mut() else { return };
        if may_show && last.expected.is_some() && last.epoch <= self.confirmed_epoch {
            last.past.is_seen = true;
            self.statistics.shown += 1;
            cx.meter.count(Counter::PredictionsShown);
        }
    }

    /// Handles a paste, which is not predicted: its echo has arbitrary content and arrives quickly.
    fn pasted(&mut self, bytes: usize, cx: &mut Cx<'_>) {
        self.statistics.keys += bytes as u64;
        self.interrupt();
        self.judge(cx);
        self.enqueue(Key::Other, self.statistics.keys, cx.now, KeyHistory::default(), cx);
    }

    fn enqueue(
        &mut self,
        key: Key,
        number: u64,
        typed_at: Instant,
        mut past: KeyHistory,
        cx: &mut Cx<'_>,
    ) {
        if self.queue.is_empty() {
            if !self.is_at_base() {
                self.begin_epoch();
            }
            self.set_base(self.place(), 0);
        }
        let expected = self.expect(key);
        self.wants_mark |= self.is_wanted() && self.epoch > self.confirmed_epoch;
        self.last_key = key;
        if expected.is_some() && !past.is_predicted {
            past.is_predicted = true;
            self.statistics.predicted += 1;
            cx.meter.count(Counter::PredictionsMade);
        }
        let epoch = self.epoch;
        let settled_at = None;
        self.queue.push_back(TypedKey { key, number, typed_at, epoch, expected, settled_at, past });
    }

    /// Counts the outcome of a prediction, once.
    fn count(&mut self, past: &mut KeyHistory, fate: PredictionOutcome) {
        if !past.is_predicted || core::mem::replace(&mut past.is_counted, true) {
            return;
        }
        match fate {
            PredictionOutcome::Confirmed => self.statistics.confirmed += 1,
            PredictionOutcome::Discarded => self.statistics.discarded += 1,
            PredictionOutcome::Wrong => {
                self.statistics.wrong += 1;
                self.statistics.wrong_seen += u64::from(past.is_seen);
            }
        }
    }

    /// Returns the number of rows that belong to the host.
    fn rows(&self) -> usize {
        usize::from(self.host_screen.size().1).saturating_sub(self.reserved_rows)
    }

    fn begin_epoch(&mut self) {
        self.epoch += 1;
        self.erasable = 0;
    }

    // Host output.

    fn place(&self) -> Place {
        let (row, column) = self.host_screen.cursor();
        let is_wrap_pending = self.host_screen.is_wrap_pending();
        Place { row: row.into(), column: column.into(), is_wrap_pending }
    }

    fn is_at_base(&self) -> bool {
        self.place() == self.base
    }

    /// Passes host output to our terminal, and checks for confirmed keys wherever one may be
    /// answered.
    fn follow(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
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
        let seen = self.without_scrolled_lines(rest);
        self.host_screen.receive(seen, cx);
        self.confirm(false, cx);
    }

    /// Removes lines that will have scrolled away by the end of a flood of lines.
    ///
    /// This is possible if all rows scroll and enough lines follow. The removed part has no other
    /// effect if it ends with a line end and changes no state, that is, contains neither sequences
    /// nor shifts.
    fn without_scrolled_lines<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if bytes.len() < FLOOD_MIN
            || !self.host_screen.is_ground()
            || !self.host_screen.scrolls_whole()
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

    /// Finds the last key that is confirmed by the host's screen.
    ///
    /// If the cursor is about to return in its row, a shell may have written a blank after a full
    /// row only to wrap, which is not the echo of the next key.
    fn confirm(&mut self, is_returning: bool, cx: &mut Cx<'_>) {
        let place = self.place();
        let is_full =
            |typed: &TypedKey| typed.expected.is_some_and(|it| it.position.pending.is_some());
        let first_full = self.queue.iter().position(is_full).filter(|_| is_returning);
        let is_at_base = self.is_at_base();
        let answered = |at: usize| {
            let typed = self.queue.get(at).filter(|_| first_full.is_none_or(|full| at <= full))?;
            let scrolled = typed.expected?.position.matches(place)?;
            // If a key leads back to the start, only the elapsed time indicates an answer.
            let is_early = !self.round_trip.may_have_arrived(typed.typed_at, cx.now);
            let is_answered = !(is_early && is_at_base) && self.has_cells(at, scrolled);
            is_answered.then_some((at, scrolled, is_early))
        };
        let found = (0..self.queue.len()).rev().find_map(answered);
        let Some((last, scrolled, is_early)) = found else { return };
        if self.queue.get(last).is_some_and(is_full) {
            let is_pending = place.is_wrap_pending;
            self.wrap = Some(if is_pending { Wrap::Pending } else { Wrap::Immediate });
        }
        if !self.base_row.is_empty() {
            self.learn_tail(last);
        }
        // A single echo in less than half the usual time may be unrelated output.
        let is_believed = !is_early || self.round_trip.is_early_again();
        let mut queue = core::mem::take(&mut self.queue);
        // Keys of unknown effect are not confirmed.
        for (at, mut typed) in queue.drain(..=last).enumerate() {
            let Some(expected) = typed.expected else {
                self.count(&mut typed.past, PredictionOutcome::Discarded);
                continue;
            };
            let was_wrong = typed.past.is_counted;
            if !was_wrong {
                cx.meter.count(Counter::PredictionsConfirmed);
            }
            self.count(&mut typed.past, PredictionOutcome::Confirmed);
            if expected.is_evidence && is_believed && !typed.past.is_ahead {
                self.confirmed_epoch = self.confirmed_epoch.max(typed.epoch);
                if at == last && !was_wrong {
                    self.round_trip.sample(cx.now - typed.typed_at);
                }
            }
        }
        self.queue = queue;
        self.set_base(place, scrolled);
    }

    fn set_base(&mut self, place: Place, scrolled: usize) {
        self.base = place;
        self.base_scrolled = scrolled;
        self.base_row.clear();
        let cells = self.host_screen.row_cells(place.row);
        if cells.iter().skip(place.column).any(|cell| cell.character() != ' ') {
            self.base_row.extend_from_slice(cells);
        }
    }

    /// Returns whether characters are predicted to overwrite existing text.
    fn keeps_tail(&self) -> bool {
        self.unmoved >= UNMOVED_MIN
    }

    /// Detects whether the characters up to key `last` have moved the text after them. If they
    /// apparently have not, the rest of the echo may still be in flight.
    fn learn_tail(&mut self, last: usize) {
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
        let kept_tail = self.keeps_tail();
        self.unmoved = if has_moved { 0 } else { UNMOVED_MIN.min(self.unmoved + 1) };
        if self.keeps_tail() != kept_tail {
            let keeps_tail = self.keeps_tail();
            for expected in self.queue.iter_mut().filter_map(|typed| typed.expected.as_mut()) {
                expected.edit = expected.edit.with_tail_kept(keeps_tail);
            }
        }
    }

    /// Returns whether the host's screen has the characters of the keys up to `last`, after
    /// scrolling by `scrolled` rows.
    fn has_cells(&self, last: usize, scrolled: usize) -> bool {
        let mut places = Vec::new();
        let mut keys = self.queue.iter().take(last + 1).rev();
        while let Some(typed) = keys.next() {
            if typed.key == Key::Enter {
                // Earlier keys are in another row; their echo was confirmed before the CR.
                return keys.all(|typed| !matches!(typed.key, Key::Text(_)));
            }
            let Some(Expected { edit_row, cell: Some((column, character)), .. }) = typed.expected
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

    fn overdue(&self, typed: &TypedKey) -> Instant {
        match typed.settled_at {
            Some(settled_at) => settled_at,
            None => self.round_trip.overdue(typed.typed_at),
        }
    }

    fn end_of_silence(&self, typed: &TypedKey) -> Instant {
        match typed.settled_at {
            Some(settled_at) => settled_at,
            None => self.overdue(typed).max(typed.typed_at + SILENCE_MAX),
        }
    }

    /// Drops keys whose time has expired.
    fn judge(&mut self, cx: &mut Cx<'_>) {
        self.is_late = false;
        while let Some(first) = self.queue.front().copied() {
            let is_silent = first.expected.is_some() && self.is_at_base();
            let end = if is_silent { self.end_of_silence(&first) } else { self.overdue(&first) };
            if end > cx.now {
                self.is_late = self.overdue(&first) <= cx.now;
                return;
            }
            self.predict_again(first.expected.map(|_| first.epoch), cx);
        }
    }

    /// Drops the keys that are due, and predicts the others again from the current cursor position;
    /// all predictions from epoch `wrong` on were wrong.
    fn predict_again(&mut self, wrong: Option<u64>, cx: &mut Cx<'_>) {
        self.remove_overlay();
        let queue = core::mem::take(&mut self.queue);
        self.begin_epoch();
        for mut typed in queue {
            let is_settled = typed.settled_at.is_some_and(|settled_at| settled_at <= cx.now);
            let is_due = is_settled || self.round_trip.due(typed.typed_at) <= cx.now;
            let is_refuted = wrong.is_some_and(|epoch| epoch <= typed.epoch);
            let was_confirmed = typed.epoch <= self.confirmed_epoch || typed.past.is_seen;
            if typed.expected.is_some()
                && is_refuted
                && was_confirmed
                && (is_due || typed.past.is_seen)
            {
                if !typed.past.is_counted {
                    cx.meter.count(Counter::PredictionsWrong);
                }
                self.count(&mut typed.past, PredictionOutcome::Wrong);
            }
            if is_due {
                self.count(&mut typed.past, PredictionOutcome::Discarded);
            } else {
                self.enqueue(typed.key, typed.number, typed.typed_at, typed.past, cx);
            }
        }
    }

    // The overlay.

    /// Returns whether echoes are slow enough for predictions.
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

    /// Returns the host's row at the cursor, without predictions.
    fn host_view(&self) -> View {
        let Place { row, column, .. } = self.place();
        View {
            cells: self.host_screen.row_cells(row).to_vec(),
            column,
            style: self.host_screen.style(),
        }
    }

    /// Draws the predictions that may be displayed over the host's row.
    fn draw_overlay(&mut self) {
        if !self.may_show() || self.queue.is_empty() {
            return self.remove_overlay();
        }
        let host_view = self.host_view();
        let mut style = host_view.style;
        if self.round_trip.is_very_long {
            style.attributes = style.attributes.with(Attributes::UNDERLINE);
        }
        let mut view = host_view.clone();
        let confirmed = self.confirmed_epoch;
        for typed in self.queue.iter().take_while(|typed| typed.epoch <= confirmed) {
            let Some(expected) = typed.expected else { break };
            // The row may have changed since the key was typed, and other rows are not displayed
            // yet.
            let is_here = expected.edit_row == self.base.row + self.base_scrolled;
            if !is_here || !expected.edit.fits(&view) {
                break;
            }
            expected.edit.apply(&mut view, style);
            let is_full = expected.position.pending.is_some();
            let end = view.cells.len().saturating_sub(1);
            view.column = if is_full { end } else { expected.position.place.column };
        }
        if view == host_view {
            return self.remove_overlay();
        }
        let from = self.displayed.as_ref().unwrap_or(&host_view);
        if *from != view {
            // The style of the next character is the host's again when the overlay is removed.
            view.style = style;
            from.append_changes(&view, &mut self.output);
            self.displayed = Some(view);
        }
    }

    /// Restores the row of the real terminal as the host has drawn it.
    fn remove_overlay(&mut self) {
        if let Some(displayed) = self.displayed.take() {
            displayed.append_changes(&self.host_view(), &mut self.output);
        }
    }
}

/// Returns the length of the next piece: up to before a CR, or to after an LF.
fn piece_len(bytes: &[u8]) -> usize {
    let is_end = |(at, byte): (usize, &u8)| match byte {
        b'\n' => Some(at + 1),
        b'\r' if at > 0 => Some(at),
        _ => None,
    };
    bytes.iter().enumerate().find_map(is_end).unwrap_or(bytes.len())
}
