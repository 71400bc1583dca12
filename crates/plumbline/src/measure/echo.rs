//! Echo time of one character: type it, wait for its cell, erase it.
//!
//! Keys are typed one at a time, each some milliseconds after the previous one is complete. No user
//! types faster, and the remote host is idle by then. Each character is erased, so that the line
//! never grows: with DEL if the remote host supports that, else with backspace, else by clearing
//! the line with ^U from time to time.

use super::console::{Console, Waits};
use super::stamp::{Rates, Spent, Stamp};
use protocols::Cx;
use protocols::meter::Account;
use protocols::time::{Duration, Instant};

const CHARACTER: u8 = b'x';
const DELETE: u8 = 0x7f;
const BACKSPACE: u8 = 0x08;
/// ^U.
pub(crate) const KILL_LINE: u8 = 0x15;

/// Pause between two keys.
const REST: Duration = Duration::from_millis(5);
/// Minimum time limit of an erasure.
const ERASURE_PATIENCE: Duration = Duration::from_secs(1);
/// Time limit of an erasure as a multiple of the latest echo time.
const ERASURE_ECHOES: u32 = 4;
/// Maximum number of characters on the line before ^U clears it.
const LINE_KEYS_MAX: usize = 16;
/// Maximum number of characters left on a line that cannot be erased.
const STUCK_KEYS_MAX: usize = 64;

/// Timing of one character, split by the points that it passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keystroke {
    /// From the key until the carrier has accepted it.
    pub(crate) down: Spent,
    /// From there until the echo reached Telnet.
    pub(crate) away: Spent,
    /// From there until the cell was written.
    pub(crate) up: Spent,
    /// Time that the received echo waited because this process waited for a CPU.
    pub(crate) run_queue_wait: Option<Duration>,
    /// Time that this process waited for a CPU until the carrier had accepted the key.
    pub(crate) send_wait: Option<Duration>,
}

impl Keystroke {
    /// Returns the total time.
    pub(crate) fn whole(&self) -> Spent {
        self.down.and(&self.away).and(&self.up)
    }

    /// Returns the keystroke with [`Self::send_wait`] moved out of the accounts of this process.
    /// The kernel may preempt the process before sendto(2) returns, when the key is already in
    /// transit.
    pub(crate) fn without_send_wait(&self, rates: Rates) -> Self {
        let wait = self.send_wait.unwrap_or_default();
        let down = rates.moved(&self.down, wait, Account::Interrupt, Account::Outside);
        Self { down, ..*self }
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
    Resting { until: Instant },
    Struck(Struck),
    Erasing { since: Instant, place: (u16, u16), waited: Waits },
    Clearing { since: Instant },
}

/// A key whose echo is outstanding.
#[derive(Clone, Copy, Debug)]
struct Struck {
    stamp: Stamp,
    at: Instant,
    place: (u16, u16),
    /// Time at which the carrier accepted it.
    gone: Option<Stamp>,
    /// Time that this process had waited for a CPU by then.
    send_wait: Option<Duration>,
}

/// State of an echo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The run continues now, at this time, or when data arrives.
    Until(Instant),
    /// All keys are measured.
    Done,
    /// No more keys can be measured, for this reason.
    Stopped(&'static str),
    /// The echo of a key is missing although previous keys were echoed.
    Silent,
}

/// A run of echo measurements.
#[derive(Debug)]
pub(crate) struct Echo {
    wanted: usize,
    patience: Duration,
    state: State,
    eraser: Eraser,
    /// Cursor position of the empty line.
    margin: Option<(u16, u16)>,
    keys_on_line: usize,
    latest: Duration,
    /// Measured keystrokes.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// Echo times of the erasing keys, without the time that this process waited for a CPU.
    pub(crate) erasures: Vec<Duration>,
    /// Empty intervals, measured before each key with the stamps that measure keys.
    pub(crate) empty: Vec<Spent>,
    /// Number of typed keys, including erasing keys.
    pub(crate) strikes: usize,
}

impl Echo {
    /// Starts a run of `wanted` echoes, each with the time limit `patience`.
    pub(crate) fn new(wanted: usize, patience: Duration, now: Instant) -> Self {
        Self {
            wanted,
            patience,
            state: State::Resting { until: now + REST },
            eraser: Eraser::Delete,
            margin: None,
            keys_on_line: 0,
            latest: Duration::ZERO,
            keystrokes: Vec::with_capacity(wanted),
            erasures: Vec::with_capacity(wanted),
            empty: Vec::with_capacity(wanted),
            strikes: 0,
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

    /// Returns whether the echo of a key is outstanding, so that no other work should take time.
    pub(crate) fn is_timing(&self) -> bool {
        matches!(self.state, State::Struck(_))
    }

    /// Records that the carrier has accepted all output.
    pub(crate) fn has_gone_out(&mut self, console: &Console, cx: &mut Cx<'_>) {
        if let State::Struck(struck @ Struck { gone: None, .. }) = &mut self.state {
            struck.gone = Some(Stamp::now(cx));
            struck.send_wait = console.run_queue_wait();
        }
    }

    /// Processes the progress of the echo and types the next key when it is due.
    pub(crate) fn look(&mut self, console: &mut Console, cx: &mut Cx<'_>) -> Progress {
        loop {
            let progress = match self.state {
                State::Resting { until } if cx.now < until => return Progress::Until(until),
                State::Resting { .. } => self.strike(console, cx),
                State::Struck(struck) => self.look_for_echo(struck, console, cx),
                State::Erasing { since, place, waited } => {
                    self.look_for_erasure((since, place, waited), console, cx)
                }
                State::Clearing { since } => self.look_for_clear_line(since, console, cx),
            };
            if let Some(progress) = progress {
                return progress;
            }
        }
    }

    fn strike(&mut self, console: &mut Console, cx: &mut Cx<'_>) -> Option<Progress> {
        let is_enough = self.keystrokes.len() >= self.wanted;
        let is_full = match self.eraser {
            Eraser::Delete | Eraser::Backspace => false,
            Eraser::KillLine => {
                self.keys_on_line >= LINE_KEYS_MAX || (is_enough && self.keys_on_line > 0)
            }
            Eraser::Nothing => self.keys_on_line >= STUCK_KEYS_MAX,
        };
        if is_full && self.eraser == Eraser::KillLine {
            self.clear_line(console, cx);
            return None;
        }
        if is_enough {
            return Some(Progress::Done);
        }
        if is_full {
            return Some(Progress::Stopped("the remote host does not erase typed characters"));
        }
        let place = console.cursor();
        self.margin.get_or_insert(place);
        self.strikes += 1;
        console.watch(1, cx);
        let before = Stamp::now(cx);
        let stamp = Stamp::now(cx);
        self.empty.push(stamp.since(&before));
        console.strike(&[CHARACTER], cx);
        let at = cx.now;
        self.state = State::Struck(Struck { stamp, at, place, gone: None, send_wait: None });
        None
    }

    fn look_for_echo(
        &mut self,
        struck: Struck,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        let Struck { stamp, at, place, gone, send_wait } = struck;
        let painted = console.watched().filter(|watch| watch.is_complete()).cloned();
        if painted.is_some() && !console.shows(place, char::from(CHARACTER)) {
            // Something else was written, by the host or by another of its users.
            console.watch(1, cx);
        } else if let Some(watch) = painted {
            self.latest = cx.now - at;
            let (arrived, painted) = (watch.arrived.unwrap_or(stamp), watch.last.unwrap_or(stamp));
            let gone = gone.unwrap_or(stamp);
            self.keystrokes.push(Keystroke {
                down: gone.since(&stamp),
                away: arrived.since(&gone),
                up: painted.since(&arrived),
                run_queue_wait: watch.run_queue_wait,
                send_wait,
            });
            self.keys_on_line += 1;
            self.erase(place, console, cx);
            return None;
        }
        let give_up_at = at + self.patience;
        Some(if cx.now < give_up_at {
            Progress::Until(give_up_at)
        } else if self.keystrokes.is_empty() {
            Progress::Stopped("the remote host does not echo typed characters")
        } else {
            Progress::Silent
        })
    }

    fn erase(&mut self, place: (u16, u16), console: &mut Console, cx: &mut Cx<'_>) {
        let key = match self.eraser {
            Eraser::Delete => DELETE,
            Eraser::Backspace => BACKSPACE,
            Eraser::KillLine | Eraser::Nothing => return self.rest(cx),
        };
        self.strikes += 1;
        let waited = console.waits();
        console.strike(&[key], cx);
        self.state = State::Erasing { since: cx.now, place, waited };
    }

    fn look_for_erasure(
        &mut self,
        (since, place, waited): (Instant, (u16, u16), Waits),
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        if console.cursor() == place {
            let own_wait = console.waits().since(&waited).unwrap_or_default();
            self.erasures.push((cx.now - since).saturating_sub(own_wait));
            self.keys_on_line = self.keys_on_line.saturating_sub(1);
            self.rest(cx);
            return None;
        }
        if let Some(until) = self.erasure_ends_at(since, cx.now) {
            return Some(Progress::Until(until));
        }
        if self.eraser == Eraser::Delete {
            self.eraser = Eraser::Backspace;
            self.erase(place, console, cx);
        } else {
            // ^U also erases the characters that DEL and backspace left on the line.
            self.eraser = Eraser::KillLine;
            self.clear_line(console, cx);
        }
        None
    }

    fn clear_line(&mut self, console: &mut Console, cx: &mut Cx<'_>) {
        self.strikes += 1;
        console.strike(&[KILL_LINE], cx);
        self.state = State::Clearing { since: cx.now };
    }

    fn look_for_clear_line(
        &mut self,
        since: Instant,
        console: &Console,
        cx: &mut Cx<'_>,
    ) -> Option<Progress> {
        let margin = self.margin.unwrap_or_default();
        let (row, column) = console.cursor();
        // Some terminal drivers start a new line instead of erasing the old one.
        let is_clear = (row, column) == margin || (row > margin.0 && column == 0);
        if is_clear {
            self.margin = None;
        } else if let Some(until) = self.erasure_ends_at(since, cx.now) {
            return Some(Progress::Until(until));
        } else {
            self.eraser = Eraser::Nothing;
        }
        self.keys_on_line = 0;
        self.rest(cx);
        None
    }

    /// Returns the time limit of an erasure, or `None` if it has passed. A host that has erased
    /// before gets the full timeout, because the path may have lost the key or its echo.
    fn erasure_ends_at(&self, since: Instant, now: Instant) -> Option<Instant> {
        let patience = match self.erasures.is_empty() {
            true => ERASURE_PATIENCE.max(self.latest.saturating_mul(ERASURE_ECHOES)),
            false => self.patience,
        };
        let until = since + patience.min(self.patience);
        (now < until).then_some(until)
    }

    fn rest(&mut self, cx: &Cx<'_>) {
        self.state = State::Resting { until: cx.now + REST };
    }
}
