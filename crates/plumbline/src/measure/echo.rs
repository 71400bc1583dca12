//! The echo of one character: strike it, wait for its cell, take it back.
//!
//! Keys are struck one by one, each some milliseconds after the one before is done with, as a
//! person never types faster and the far side is then at rest. Each character is erased again, so
//! that the line never grows: by DEL if the far side takes that back, else by backspace, else ^U
//! clears the line from time to time.

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

/// Between two keys.
const REST: Duration = Duration::from_millis(5);
/// How long an erasure may take at least.
const ERASURE_PATIENCE: Duration = Duration::from_secs(1);
/// An erasure may take so many times as long as an echo.
const ERASURE_ECHOES: u32 = 4;
/// Characters on the line before ^U clears it.
const LINE_KEYS_MAX: usize = 16;
/// Characters that are left on a line from which nothing is taken back.
const STUCK_KEYS_MAX: usize = 64;

/// One character on its way, by the places where it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keystroke {
    /// From the key until the carrier has taken it.
    pub(crate) down: Spent,
    /// From there until its echo reached Telnet.
    pub(crate) away: Spent,
    /// From there until the cell was written.
    pub(crate) up: Spent,
    /// For how long the echo waited, once it had arrived, because this program waited for a processor.
    pub(crate) run_queue_wait: Option<Duration>,
    /// For how long this program waited for a processor until the carrier had taken the key.
    pub(crate) send_wait: Option<Duration>,
}

impl Keystroke {
    /// Returns all of it.
    pub(crate) fn whole(&self) -> Spent {
        self.down.and(&self.away).and(&self.up)
    }

    /// Returns the keystroke without [`Self::send_wait`] in an account of ours: the kernel gives the
    /// processor to another program before sendto(2) returns, and the key is on its way by then.
    pub(crate) fn without_send_wait(&self, rates: Rates) -> Self {
        let wait = self.send_wait.unwrap_or_default();
        let down = rates.moved(&self.down, wait, Account::Interrupt, Account::Outside);
        Self { down, ..*self }
    }
}

/// How a character is taken back.
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

/// A key whose echo is waited for.
#[derive(Clone, Copy, Debug)]
struct Struck {
    stamp: Stamp,
    at: Instant,
    place: (u16, u16),
    /// When the carrier had taken it.
    gone: Option<Stamp>,
    /// For how long this program had waited for a processor by then.
    send_wait: Option<Duration>,
}

/// How an echo run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Look again now or at this time, or when something has come.
    Until(Instant),
    /// All is measured.
    Done,
    /// No more can be measured, for this reason.
    Stopped(&'static str),
    /// The echo of a key did not come, although that of others did.
    Silent,
}

/// A run of echoes.
#[derive(Debug)]
pub(crate) struct Echo {
    wanted: usize,
    patience: Duration,
    state: State,
    eraser: Eraser,
    /// Where the empty line ends.
    margin: Option<(u16, u16)>,
    keys_on_line: usize,
    latest: Duration,
    /// What was measured.
    pub(crate) keystrokes: Vec<Keystroke>,
    /// The echoes of the keys that took those back, without what this program waited for a processor.
    pub(crate) erasures: Vec<Duration>,
    /// Empty intervals, measured before each key by the stamps that measure keys.
    pub(crate) empty: Vec<Spent>,
    /// Keys struck, those that erase included.
    pub(crate) strikes: usize,
}

impl Echo {
    /// Begins a run of `wanted` echoes, each of which may take as long as `patience`.
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

    /// Returns the keys that take `count` characters back, if the far side takes any back.
    pub(crate) fn erasers(&self, count: usize) -> Option<Vec<u8>> {
        match self.eraser {
            Eraser::Delete => Some(vec![DELETE; count]),
            Eraser::Backspace => Some(vec![BACKSPACE; count]),
            Eraser::KillLine => Some(vec![KILL_LINE]),
            Eraser::Nothing => None,
        }
    }

    /// Returns whether a key is on its way, so that nothing else should take time.
    pub(crate) fn is_timing(&self) -> bool {
        matches!(self.state, State::Struck(_))
    }

    /// Takes note that the carrier has taken what there was to send.
    pub(crate) fn has_gone_out(&mut self, console: &Console, cx: &mut Cx<'_>) {
        if let State::Struck(struck @ Struck { gone: None, .. }) = &mut self.state {
            struck.gone = Some(Stamp::now(cx));
            struck.send_wait = console.run_queue_wait();
        }
    }

    /// Looks at what has happened, and strikes the next key if it is time.
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
            return Some(Progress::Stopped("the far side takes nothing back that was typed"));
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
            // Something else was written, by the host or by another user of it.
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
            Progress::Stopped("what is typed there is not echoed")
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
            // Whatever the two have left on the line goes with the rest of it.
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
        // Some terminals' drivers go to a new line instead of wiping the old one.
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

    /// Returns until when an erasure may take, or `None` if it has taken too long. A host that has
    /// erased before does so again, even if the path loses the key or its echo first.
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
