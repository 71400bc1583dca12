//! A short session that only determines whether a login can be used, and how accurately typed
//! characters are echoed.
//!
//! It connects, waits for the first prompt and disconnects. If a pattern is requested, it types the
//! pattern in short lines, compares each echo with the typed text, and erases the line before the
//! next one. Return is never pressed.

use super::console::Console;
use super::echo::KILL_LINE;
use super::prompt::{Prompt, Prompts, Wait};
use crate::carry::{CarrierStatus, Outcome, Session};
use anyhow::Result;
use protocols::Cx;
use protocols::application::Stream;
use protocols::time::{Duration, Instant};
use records::accuracy::{Accuracy, Comparison, printable_pattern};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Characters per line; shorter than the buffer of any login.
const LINE_KEYS: u64 = 16;
/// Silence after which a serial line is typed on; its prompt was printed long ago.
const LINE_GREETING: Duration = Duration::from_secs(1);
/// Time limit without output after a line is erased; it may have been empty.
const CLEARING: Duration = Duration::from_secs(1);

/// Parameters of the session.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Number of characters of the pattern to type.
    pub(super) keys: u64,
    /// Time limit without any data.
    pub(super) patience: Duration,
    /// Endings of a shell's prompt.
    pub(super) prompts: Prompts,
}

/// Result of the session.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Start of the wait: the time at which the connection opened or, on a serial line, which
    /// prints nothing unasked, the time of the first key.
    pub(super) since: Option<Instant>,
    /// Time at which the remote host became usable.
    pub(super) usable_at: Option<Instant>,
    /// Accuracy of the echo.
    pub(super) accuracy: Option<Accuracy>,
    /// Whether the session was interrupted.
    pub(super) is_interrupted: bool,
}

#[derive(Debug)]
enum Stage {
    Opening,
    Prompt(Wait),
    /// A line is typed, and its echo is awaited.
    Line {
        wait: Wait,
        keys: u64,
    },
    /// The line is being erased.
    Clearing(Wait),
    Over,
}

/// A session that probes a login.
pub(super) struct LoginProbe {
    console: Console,
    question: Question,
    is_line: bool,
    stage: Stage,
    typed: u64,
    deadline: Option<Instant>,
    interrupts: Option<UnixStream>,
    answer: Answer,
}

impl LoginProbe {
    /// Creates a session with Telnet.
    pub(super) fn new(question: Question, interrupts: Option<UnixStream>) -> Self {
        Self {
            console: Console::new(),
            question,
            is_line: false,
            stage: Stage::Opening,
            typed: 0,
            deadline: None,
            interrupts,
            answer: Answer::default(),
        }
    }

    /// Creates a session for a serial line.
    pub(super) fn on_line(question: Question, interrupts: Option<UnixStream>) -> Self {
        let probe = Self::new(question, interrupts);
        Self { console: Console::on_line(), is_line: true, ..probe }
    }

    /// Returns the result.
    pub(super) fn into_answer(mut self) -> Answer {
        self.give_up();
        self.answer
    }

    fn look(&mut self, cx: &mut Cx<'_>) {
        self.deadline = loop {
            match self.look_once(cx) {
                Ok(()) => {}
                Err(until) => break until,
            }
        };
    }

    fn look_once(&mut self, cx: &mut Cx<'_>) -> Result<(), Option<Instant>> {
        match self.stage {
            Stage::Opening | Stage::Over => return Err(None),
            Stage::Prompt(wait) => {
                let (prompt, at) = wait.look(&self.console, &self.question.prompts, cx.now)?;
                let has_spoken = self.console.data_at().is_some();
                if !self.is_line && (prompt != Prompt::Silence || has_spoken) {
                    self.answer.usable_at = Some(at);
                }
                if self.is_line {
                    // Text left on the line by another user, and its echo, must not be counted.
                    self.clear_line(cx);
                } else {
                    self.type_line(cx);
                }
            }
            Stage::Line { wait, keys } => {
                let is_complete = self.console.watched().is_none_or(|watch| watch.is_complete());
                if !is_complete {
                    let quiet_at = wait.latest(&self.console) + self.question.patience;
                    if cx.now < quiet_at {
                        return Err(Some(quiet_at));
                    }
                }
                self.end_line(keys, cx);
            }
            Stage::Clearing(wait) => {
                wait.settle(&self.console, cx.now)?;
                drop(self.console.end_watch());
                self.type_line(cx);
            }
        }
        Ok(())
    }

    fn type_line(&mut self, cx: &mut Cx<'_>) {
        let keys = self.question.keys.saturating_sub(self.typed).min(LINE_KEYS);
        if keys == 0 {
            self.stage = Stage::Over;
            return;
        }
        let line: Vec<u8> = (self.typed..self.typed + keys).map(printable_pattern).collect();
        if self.is_line && self.typed == 0 {
            self.answer.since = Some(cx.now);
        }
        self.console.capture();
        self.console.watch(keys, cx);
        self.console.strike(&line, cx);
        self.stage = Stage::Line { wait: Wait::new(cx.now, self.question.patience), keys };
    }

    /// Compares the received echo of a line and erases the line.
    fn end_line(&mut self, keys: u64, cx: &mut Cx<'_>) {
        let echo = self.console.end_capture();
        let accuracy = compared(self.typed, keys, &echo);
        if !echo.is_empty() {
            // On a serial line an echo is the only sign of a remote host.
            self.answer.usable_at = self.answer.usable_at.or(self.console.data_at());
        }
        self.answer.accuracy = Some(self.answer.accuracy.unwrap_or_default().and(accuracy));
        self.typed += keys;
        if echo.is_empty() {
            // Without any echo no more is typed.
            self.stage = Stage::Over;
            return;
        }
        self.clear_line(cx);
    }

    fn clear_line(&mut self, cx: &mut Cx<'_>) {
        self.console.strike(&[KILL_LINE], cx);
        let patience = CLEARING.min(self.question.patience);
        self.stage = Stage::Clearing(Wait::new(cx.now, patience));
    }

    /// Ends the session; the echo of an incomplete line is counted as far as it was received.
    fn give_up(&mut self) {
        if let Stage::Line { keys, .. } = self.stage {
            let echo = self.console.end_capture();
            let accuracy = compared(self.typed, keys, &echo);
            self.answer.accuracy = Some(self.answer.accuracy.unwrap_or_default().and(accuracy));
        }
        self.stage = Stage::Over;
    }
}

/// Compares the echo of a line with the `keys` characters of the pattern from position `from`.
fn compared(from: u64, keys: u64, echo: &[u8]) -> Accuracy {
    let wanted: Vec<u8> = (from..from + keys).map(printable_pattern).collect();
    let mut comparison = Comparison::new(printable_pattern, keys);
    // The comparison counts positions from 0, so each byte is translated by its difference from the
    // expected one.
    let moved = echo.iter().enumerate().map(|(at, byte)| {
        let place = u64::try_from(at).unwrap_or(u64::MAX);
        byte ^ wanted.get(at).copied().unwrap_or(!byte) ^ printable_pattern(place)
    });
    comparison.take(&moved.collect::<Vec<_>>());
    comparison.finish()
}

impl Stream for LoginProbe {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.answer.since = Some(cx.now);
        self.console.start(cx);
        let patience = if self.is_line { LINE_GREETING } else { self.question.patience };
        self.stage = Stage::Prompt(Wait::new(cx.now, patience.min(self.question.patience)));
        self.look(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.console.receive(data, cx);
        self.look(cx);
    }

    fn urgent(&mut self, is_ahead: bool) {
        self.console.urgent(is_ahead);
    }

    fn output(&self) -> &[u8] {
        self.console.output()
    }

    fn urgent_mark(&self) -> Option<usize> {
        self.console.urgent_mark()
    }

    fn sent(&mut self, count: usize) {
        self.console.sent(count);
    }

    fn peer_closed(&mut self, _cx: &mut Cx<'_>) {
        self.give_up();
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.look(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl Session for LoginProbe {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.interrupts.iter().map(AsFd::as_fd).collect()
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.answer.is_interrupted = true;
        self.give_up();
        Ok(())
    }

    fn flush(&mut self, _cx: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }

    fn take_status(&mut self, _status: &CarrierStatus) {}

    fn wants_status(&self) -> bool {
        false
    }

    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }
}

/// Returns the reason why a session that ended with `outcome` is unusable, if there is one.
pub(super) fn why_unusable(answer: &Answer, outcome: Outcome) -> Option<&'static str> {
    match (answer.usable_at, outcome) {
        (Some(_), _) => None,
        (None, Outcome::Reset | Outcome::Refused) => {
            Some("the remote host reset the connection before it sent any data")
        }
        (None, Outcome::Closed) => {
            Some("the remote host closed the connection before it sent any data")
        }
        (None, _) => Some("the remote host sent no data"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocols::chance::Chance;
    use protocols::meter::{Clock, Meter};

    /// Runs a probe with `keys` characters against a host that answers each with `echo` of it.
    fn typed_to(keys: u64, echo: impl Fn(u8) -> Vec<u8>) -> Answer {
        let patience = Duration::from_secs(5);
        let question = Question { keys, patience, prompts: Prompts::default() };
        let mut probe = LoginProbe::on_line(question, None);
        let (mut meter, mut chance) = (Meter::new(Clock::None), Chance::from_seed(1));
        let mut now = Instant::ZERO;
        let mut cx = Cx { now, chance: &mut chance, meter: &mut meter };
        probe.opened(&mut cx);
        while !probe.is_over() {
            let keys = probe.output().to_vec();
            probe.sent(keys.len());
            let answer: Vec<u8> = keys.into_iter().flat_map(&echo).collect();
            now = now + Duration::from_millis(1);
            if answer.is_empty() {
                now = probe.deadline().map_or(now, |deadline| now.max(deadline));
            }
            cx.now = now;
            if answer.is_empty() { probe.run(&mut cx) } else { probe.receive(&answer, &mut cx) }
        }
        probe.into_answer()
    }

    fn echoed(key: u8) -> Vec<u8> {
        if key == KILL_LINE { b"\r\x1b[K".to_vec() } else { vec![key] }
    }

    #[test]
    fn what_is_echoed_as_it_was_typed_has_no_error() {
        let accuracy = typed_to(100, echoed).accuracy.unwrap();
        assert_eq!((accuracy.bytes, accuracy.files), (100, 7));
        assert_eq!((accuracy.bits_wrong, accuracy.files_wrong), (0, 0));
    }

    #[test]
    fn a_wrong_character_in_an_echo_is_counted() {
        let answer = typed_to(32, |key| {
            let wrong = if key == printable_pattern(5) { key ^ 1 } else { key };
            echoed(wrong)
        });
        let accuracy = answer.accuracy.unwrap();
        assert!(accuracy.bytes_wrong > 0 && accuracy.bytes_wrong == accuracy.bits_wrong);
    }

    #[test]
    fn where_nothing_is_echoed_a_line_is_not_usable() {
        let answer = typed_to(32, |_| Vec::new());
        assert_eq!(answer.usable_at, None);
        assert_eq!(answer.accuracy.unwrap().bytes_wrong, LINE_KEYS);
        assert_eq!(why_unusable(&answer, Outcome::Left), Some("the remote host sent no data"));
    }
}
