//! Echo time of a single character: it is typed, its cell on the screen is awaited, and it is
//! erased.
//!
//! Keys are typed one at a time, each some milliseconds after the echo of the previous key, when
//! the remote host is idle again. Each character is erased, so that the line never grows: with DEL
//! if the remote host supports that, else with backspace, else by clearing the line with ^U from
//! time to time.

use super::console::{MeasureConsole, WaitTimes};
use super::session_parameters::SessionParameters;
use super::timestamps::{Rates, SpentTime, Stamp};
use net::Cx;
use net::meter::Account;
use net::time::{Duration, Instant};
use records::verdict;

const CHARACTER: u8 = b'x';
const DELETE: u8 = 0x7f;
const BACKSPACE: u8 = 0x08;
/// ^U.
pub(crate) const KILL_LINE: u8 = 0x15;

/// Pause between two keys.
const KEY_PAUSE: Duration = Duration::from_millis(5);
/// Minimum timeout of an erasure.
const ERASURE_TIMEOUT_MIN: Duration = Duration::from_secs(1);
/// Timeout of an erasure, as a multiple of the latest echo time.
const ERASURE_TIMEOUT_FACTOR: u32 = 4;
/// Maximum number of characters on the line before ^U clears it.
const LINE_KEYS_MAX: usize = 16;
/// Maximum number of characters left on a line that cannot be erased.
const UNERASED_KEYS_MAX: usize = 64;

/// Timing of one typed character. It consists of the time for sending on this host, the time in the
/// network and on the remote host, and the time for receiving on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keystroke {
    /// Time until the carrier accepted the key.
    pub(crate) sending: SpentTime,
    /// Time from the acceptance of the key until the echo reached Telnet.
    pub(crate) remote: SpentTime,
    /// Time from the arrival of the echo at Telnet until its cell was written.
    pub(crate) receiving: SpentTime,
    /// Time that the received echo waited because this process waited for a CPU.
    pub(crate) run_queue_wait: Option<Duration>,
    /// Time that this process waited for a CPU before the carrier accepted the key.
    pub(crate) send_wait: Option<Duration>,
}

impl Keystroke {
    /// Returns the total time.
    pub(crate) fn total(&self) -> SpentTime {
        self.sending.plus(&self.remote).plus(&self.receiving)
    }

    /// Returns the keystroke with [`Self::send_wait`] moved from the account of system calls to the
    /// account of waiting. The kernel may preempt the process before sendto(2) returns, when the
    /// key is already in transit.
    pub(crate) fn without_send_wait(&self, rates: Rates) -> Self {
        let wait = self.send_wait.unwrap_or_default();
        let sending =
            rates.with_time_moved(&self.sending, wait, Account::Interrupt, Account::Outside);
        Self { sending, ..*self }
    }
}

/// Method of erasing a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Eraser {
    Delete,
    Backspace,
    KillLine,
    Nothing,
}

#[derive(Debug)]
enum State {
    Pausing { until: Instant },
    AwaitingEcho(PendingKey),
    Erasing { started_at: Instant, position: (u16, u16), waits_before: WaitTimes },
    Clearing { started_at: Instant },
}

/// A key whose echo is outstanding.
#[derive(Clone, Copy, Debug)]
struct PendingKey {
    stamp: Stamp,
    typed_at: Instant,
    position: (u16, u16),
    /// Time at which the carrier accepted the key.
    sent_at: Option<Stamp>,
    /// Time that this process waited for a CPU before the carrier accepted the key.
    send_wait: Option<Duration>,
}

/// State of a sequence of echo measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The sequence continues at this time, or earlier if data arrives.
    Until(Instant),
    /// All requested keys have been measured.
    Done,
    /// No more keys can be measured, for this reason.
    Stopped(&'static str),
    /// The echo of a key is missing although previous keys were echoed.
    Silent,
}

/// A sequence of echo measurements.
#[derive(Debug)]
pub(crate) struct Echo {
    wanted_keystrokes: usize,
    timeout: Duration,
    started_at: Instant,
    /// Time after which no further key is typed, if there are enough echoes for a verdict.
    reduced_after: Option<Duration>,
    /// Whether fewer echoes were measured than requested, because they took too long.
    pub(crate) is_reduced: bool,
    state: State,
    eraser: Eraser,
    /// Cursor position of the empty line.
    line_start: Option<(u16, u16)>,
    keys_on_line: usize,
    latest_echo_time: Duration,
    /// Measured keystrokes.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// Echo times of the erasing keys, without the time that this process waited for a CPU.
    pub(crate) erasures: Vec<Duration>,
    /// Intervals between two consecutive stamps, taken before each key: the overhead of the
    /// measurement.
    pub(crate) stamp_overheads: Vec<SpentTime>,
    /// Number of typed keys, including erasing keys.
    pub(crate) typed_keys: usize,
}

impl Echo {
    /// Starts a sequence of echo measurements.
    pub(crate) fn new(parameters: &SessionParameters, now: Instant) -> Self {
        let wanted_keystrokes = parameters.keys;
        Self {
            wanted_keystrokes,
            timeout: parameters.timeout,
            started_at: now,
            reduced_after: parameters.echo_time,
            is_reduced: false,
            state: State::Pausing { until: now + KEY_PAUSE },
            eraser: Eraser::Delete,
            line_start: None,
            keys_on_line: 0,
            latest_echo_time: Duration::ZERO,
            keystrokes: Vec::with_capacity(wanted_keystrokes),
            erasures: Vec::with_capacity(wanted_keystrokes),
            stamp_overheads: Vec::with_capacity(wanted_keystrokes),
            typed_keys: 0,
        }
    }

    /// Returns the keys that erase `count` characters, if the remote host supports erasing.
    pub(crate) fn erasers(&self, count: usize) -> Option<Vec<u8>> {
        match self.eraser {
            Eraser::Delete => Some(vec![DELETE; count]),
            Eraser::Backspace => Some(vec![BACKSPACE; count]),
            Eraser::KillLine => Some(vec![KILL_LINE]),
            Eraser::Nothing => None,
        }
    }

    /// Returns the expected time until the last echo; `None` before the first one.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        let done = u32::try_from(self.keystrokes.len()).unwrap_or(u32::MAX);
        let elapsed = now - self.started_at;
        let per_key = elapsed.checked_div(done)?;
        let rest_until = |count: usize| {
            let missing = count.saturating_sub(self.keystrokes.len());
            per_key.saturating_mul(u32::try_from(missing).unwrap_or(u32::MAX))
        };
        let all = rest_until(self.wanted_keystrokes);
        let reduced = self
            .reduced_after
            .map(|limit| limit.saturating_sub(elapsed).max(rest_until(min_samples())));
        Some(all.min(reduced.unwrap_or(all)))
    }

    /// Returns whether enough echoes were measured for a slow path.
    fn is_reducible(&self, now: Instant) -> bool {
        let is_late = self.reduced_after.is_some_and(|limit| now - self.started_at >= limit);
        is_late && self.keystrokes.len() >= min_samples()
    }

    /// Returns whether the echo of a key is outstanding, so that no other work should take time.
    pub(crate) fn is_timing(&self) -> bool {
        matches!(self.state, State::AwaitingEcho(_))
    }

    /// Records that the carrier has accepted all output.
    pub(crate) fn output_written(&mut self, console: &MeasureConsole, cx: &mut Cx<'_>) {
        if let State::AwaitingEcho(key @ PendingKey { sent_at: None, .. }) = &mut self.state {
            key.sent_at = Some(Stamp::now(cx));
            key.send_wait = console.run_queue_wait();
        }
    }

    /// Processes received echoes, and types the next key when it is due.
    pub(crate) fn poll(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) -> Progress {
        loop {
            let progress = match self.state {
                State::Pausing { until } if cx.now < until => return Progress::Until(until),
                State::Pausing { .. } => self.type_next_key(console, cx),
                State::AwaitingEcho(key) => self.poll_echo(key, console, cx),
                State::Erasing { started_at, position, waits_before } => {
                    self.poll_erasure((started_at, position, waits_before), console, cx)
                }
                State::Clearing { started_at } => self.poll_clear_line(started_at, console, cx),
            };
            if let Some(progress) = progress {
                return progress;
            }
        }
    }

    fn type_next_key(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) -> Option<Progress> {
        self.is_reduced |=
            self.keystrokes.len() < self.wanted_keystrokes && self.is_reducible(cx.now);
        let has_all_keystrokes = self.keystrokes.len() >= self.wanted_keystrokes || self.is_reduced;
        let is_line_full = match self.eraser {
            Eraser::Delete | Eraser::Backspace => false,
            Eraser::KillLine => {
                self.keys_on_line >= LINE_KEYS_MAX || (has_all_keystrokes && self.keys_on_line > 0)
            }
            Eraser::Nothing => self.keys_on_line >= UNERASED_KEYS_MAX,
        };
        if is_line_full && self.eraser == Eraser::KillLine {
            self.clear_line(console, cx);
            return None;
        }
        if has_all_keystrokes {
            return Some(Progress::Done);
        }
        if is_line_full {
            return Some(Progress::Stopped("the remote host does not erase typed characters"));
        }
        let position = console.cursor();
        self.line_start.get_or_insert(position);
        self.typed_keys += 1;
        console.watch(1, cx);
        let before = Stamp::now(cx);
        let stamp = Stamp::now(cx);
        self.stamp_overheads.push(stamp.time_since(&before));
        console.type_keys(&[CHARACTER], cx);
        let typed_at = cx.now;
        self.state = State::AwaitingEcho(PendingKey {
            stamp,
            typed_at,
            position,
            sent_at: None,
            send_wait: None,
        });
        None
    }

    fn poll_echo(
        &mut self,
        key: PendingKey,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        let PendingKey { stamp, typed_at, position, sent_at, send_wait } = key;
        let complete_watch = console.current_watch().filter(|watch| watch.is_complete()).cloned();
        if complete_watch.is_some() && !console.shows(position, char::from(CHARACTER)) {
            // The written cell is not the echo but other output, such as a message to the terminal.
            console.watch(1, cx);
        } else if let Some(watch) = complete_watch {
            self.latest_echo_time = cx.now - typed_at;
            let arrived_at = watch.arrived_at.unwrap_or(stamp);
            let written_at = watch.last_cell_at.unwrap_or(stamp);
            let sent_at = sent_at.unwrap_or(stamp);
            self.keystrokes.push(Keystroke {
                sending: sent_at.time_since(&stamp),
                remote: arrived_at.time_since(&sent_at),
                receiving: written_at.time_since(&arrived_at),
                run_queue_wait: watch.run_queue_wait,
                send_wait,
            });
            self.keys_on_line += 1;
            self.erase(position, console, cx);
            return None;
        }
        let give_up_at = typed_at + self.timeout;
        Some(if cx.now < give_up_at {
            Progress::Until(give_up_at)
        } else if self.keystrokes.is_empty() {
            Progress::Stopped("the remote host does not echo typed characters")
        } else {
            Progress::Silent
        })
    }

    fn erase(&mut self, position: (u16, u16), console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        let key = match self.eraser {
            Eraser::Delete => DELETE,
            Eraser::Backspace => BACKSPACE,
            Eraser::KillLine | Eraser::Nothing => return self.pause(cx),
        };
        self.typed_keys += 1;
        let waits_before = console.waits();
        console.type_keys(&[key], cx);
        self.state = State::Erasing { started_at: cx.now, position, waits_before };
    }

    fn poll_erasure(
        &mut self,
        (started_at, position, waits_before): (Instant, (u16, u16), WaitTimes),
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        if console.cursor() == position {
            let own_wait = console.waits().receive_delay_since(&waits_before).unwrap_or_default();
            self.erasures.push((cx.now - started_at).saturating_sub(own_wait));
            self.keys_on_line = self.keys_on_line.saturating_sub(1);
            self.pause(cx);
            return None;
        }
        if let Some(until) = self.erasure_ends_at(started_at, cx.now) {
            return Some(Progress::Until(until));
        }
        if self.eraser == Eraser::Delete {
            self.eraser = Eraser::Backspace;
            self.erase(position, console, cx);
        } else {
            // ^U also erases the characters that DEL and backspace left on the line.
            self.eraser = Eraser::KillLine;
            self.clear_line(console, cx);
        }
        None
    }

    fn clear_line(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        self.typed_keys += 1;
        console.type_keys(&[KILL_LINE], cx);
        self.state = State::Clearing { started_at: cx.now };
    }

    fn poll_clear_line(
        &mut self,
        started_at: Instant,
        console: &MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        let line_start = self.line_start.unwrap_or_default();
        let (row, column) = console.cursor();
        // Some terminal drivers start a new line instead of erasing the old one.
        let is_line_clear = (row, column) == line_start || (row > line_start.0 && column == 0);
        if is_line_clear {
            self.line_start = None;
        } else if let Some(until) = self.erasure_ends_at(started_at, cx.now) {
            return Some(Progress::Until(until));
        } else {
            self.eraser = Eraser::Nothing;
        }
        self.keys_on_line = 0;
        self.pause(cx);
        None
    }

    /// Returns the deadline of an erasure, or `None` if it has passed. If the host has erased a
    /// character before, the full timeout applies, because the path may have lost the key or its
    /// echo.
    fn erasure_ends_at(&self, started_at: Instant, now: Instant) -> Option<Instant> {
        let limit = match self.erasures.is_empty() {
            true => ERASURE_TIMEOUT_MIN
                .max(self.latest_echo_time.saturating_mul(ERASURE_TIMEOUT_FACTOR)),
            false => self.timeout,
        };
        let until = started_at + limit.min(self.timeout);
        (now < until).then_some(until)
    }

    fn pause(&mut self, cx: &Cx<'_>) {
        self.state = State::Pausing { until: cx.now + KEY_PAUSE };
    }
}

/// Returns the minimum number of echoes for a verdict.
fn min_samples() -> usize {
    usize::try_from(verdict::MIN_SAMPLES).unwrap_or(usize::MAX)
}
