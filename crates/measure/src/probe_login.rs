//! A short session that only determines whether a login can be used, and how accurately typed
//! characters are echoed.
//!
//! It connects, waits for the first prompt and disconnects. If a pattern is requested, the session
//! types the pattern in short lines, compares each echo with the typed text, and erases the line
//! before the next one. Return is never pressed.

use super::console::MeasureConsole;
use super::echo::KILL_LINE;
use super::prompt::{Prompt, Prompts, Wait};
use anyhow::Result;
use carrier::{CarrierStatus, Outcome, StreamSession};
use net::Cx;
use net::application::Stream;
use net::time::{Duration, Instant};
use records::accuracy::{Accuracy, Comparison, printable_pattern};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Number of characters typed per line: fewer than fit into the input buffer of any login program.
const KEYS_PER_LINE: u64 = 16;
/// Initial silence on a serial line after which keys are typed: the prompt may have been printed
/// before the session started.
const SERIAL_LINE_SILENCE: Duration = Duration::from_secs(1);
/// Maximum wait for output after the keys that erase a line. Erasing an empty line has no output.
const ERASURE_TIMEOUT: Duration = Duration::from_secs(1);

/// Parameters of the session.
#[derive(Clone, Debug)]
pub(super) struct ProbeParameters {
    /// Number of characters of the pattern to type.
    pub(super) keys: u64,
    /// Time limit without any data.
    pub(super) timeout: Duration,
    /// Endings of a shell's prompt.
    pub(super) prompts: Prompts,
}

/// Result of the session.
#[derive(Debug, Default)]
pub(super) struct ProbeResult {
    /// Start of the user's wait: the time at which the connection opened. On a serial line, which
    /// may print nothing without input, it is the time of the first key.
    pub(super) wait_started_at: Option<Instant>,
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
    console: MeasureConsole,
    parameters: ProbeParameters,
    is_serial_line: bool,
    stage: Stage,
    typed: u64,
    deadline: Option<Instant>,
    interrupts: Option<UnixStream>,
    result: ProbeResult,
}

impl LoginProbe {
    /// Creates a session with Telnet.
    pub(super) fn new(parameters: ProbeParameters, interrupts: Option<UnixStream>) -> Self {
        Self {
            console: MeasureConsole::new(),
            parameters,
            is_serial_line: false,
            stage: Stage::Opening,
            typed: 0,
            deadline: None,
            interrupts,
            result: ProbeResult::default(),
        }
    }

    /// Creates a session for a serial line.
    pub(super) fn on_line(parameters: ProbeParameters, interrupts: Option<UnixStream>) -> Self {
        let probe = Self::new(parameters, interrupts);
        Self { console: MeasureConsole::on_line(), is_serial_line: true, ..probe }
    }

    /// Returns the result.
    pub(super) fn into_result(mut self) -> ProbeResult {
        self.finish();
        self.result
    }

    fn poll(&mut self, cx: &mut Cx<'_>) {
        self.deadline = loop {
            match self.step(cx) {
                Ok(()) => {}
                Err(until) => break until,
            }
        };
    }

    fn step(&mut self, cx: &mut Cx<'_>) -> Result<(), Option<Instant>> {
        match self.stage {
            Stage::Opening | Stage::Over => return Err(None),
            Stage::Prompt(wait) => {
                let (prompt, at) = wait.poll(&self.console, &self.parameters.prompts, cx.now)?;
                let has_data = self.console.data_at().is_some();
                if !self.is_serial_line && (prompt != Prompt::Silence || has_data) {
                    self.result.usable_at = Some(at);
                }
                if self.is_serial_line {
                    // The line may contain text typed by another user; erase it, so that its echo
                    // is not counted.
                    self.clear_line(cx);
                } else {
                    self.type_line(cx);
                }
            }
            Stage::Line { wait, keys } => {
                let is_complete =
                    self.console.current_watch().is_none_or(|watch| watch.is_complete());
                if !is_complete {
                    let quiet_at = wait.latest(&self.console) + self.parameters.timeout;
                    if cx.now < quiet_at {
                        return Err(Some(quiet_at));
                    }
                }
                self.end_line(keys, cx);
            }
            Stage::Clearing(wait) => {
                wait.poll_silence(&self.console, cx.now)?;
                drop(self.console.end_watch());
                self.type_line(cx);
            }
        }
        Ok(())
    }

    fn type_line(&mut self, cx: &mut Cx<'_>) {
        let keys = self.parameters.keys.saturating_sub(self.typed).min(KEYS_PER_LINE);
        if keys == 0 {
            self.stage = Stage::Over;
            return;
        }
        let line: Vec<u8> = (self.typed..self.typed + keys).map(printable_pattern).collect();
        if self.is_serial_line && self.typed == 0 {
            self.result.wait_started_at = Some(cx.now);
        }
        self.console.capture();
        self.console.watch(keys, cx);
        self.console.type_keys(&line, cx);
        self.stage = Stage::Line { wait: Wait::new(cx.now, self.parameters.timeout), keys };
    }

    /// Compares the received echo of a line and erases the line.
    fn end_line(&mut self, keys: u64, cx: &mut Cx<'_>) {
        let echo = self.console.end_capture();
        let accuracy = compare_echo(self.typed, keys, &echo);
        if !echo.is_empty() {
            // On a serial line an echo is the only sign of a remote host.
            self.result.usable_at = self.result.usable_at.or(self.console.data_at());
        }
        self.result.accuracy = Some(self.result.accuracy.unwrap_or_default().plus(accuracy));
        self.typed += keys;
        if echo.is_empty() {
            // If nothing is echoed, typing ends.
            self.stage = Stage::Over;
            return;
        }
        self.clear_line(cx);
    }

    fn clear_line(&mut self, cx: &mut Cx<'_>) {
        self.console.type_keys(&[KILL_LINE], cx);
        let timeout = ERASURE_TIMEOUT.min(self.parameters.timeout);
        self.stage = Stage::Clearing(Wait::new(cx.now, timeout));
    }

    /// Ends the session. If a line is incomplete, its received echo is counted.
    fn finish(&mut self) {
        if let Stage::Line { keys, .. } = self.stage {
            let echo = self.console.end_capture();
            let accuracy = compare_echo(self.typed, keys, &echo);
            self.result.accuracy = Some(self.result.accuracy.unwrap_or_default().plus(accuracy));
        }
        self.stage = Stage::Over;
    }
}

/// Compares the echo of a line with the `keys` characters of the pattern from position `from`.
fn compare_echo(from: u64, keys: u64, echo: &[u8]) -> Accuracy {
    let expected: Vec<u8> = (from..from + keys).map(printable_pattern).collect();
    let mut comparison = Comparison::new(printable_pattern, keys);
    // `Comparison` expects the pattern from position 0. Each byte is therefore replaced by the
    // pattern byte at its position, with the same bit errors as the received byte.
    let shifted_echo = echo.iter().enumerate().map(|(at, byte)| {
        let position = u64::try_from(at).unwrap_or(u64::MAX);
        byte ^ expected.get(at).copied().unwrap_or(!byte) ^ printable_pattern(position)
    });
    comparison.compare(&shifted_echo.collect::<Vec<_>>());
    comparison.finish()
}

impl Stream for LoginProbe {
    fn opened(&mut self, cx: &mut Cx<'_>) {
        self.result.wait_started_at = Some(cx.now);
        self.console.start(cx);
        let timeout = match self.is_serial_line {
            true => SERIAL_LINE_SILENCE,
            false => self.parameters.timeout,
        };
        self.stage = Stage::Prompt(Wait::new(cx.now, timeout.min(self.parameters.timeout)));
        self.poll(cx);
    }

    fn receive(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        self.console.receive(data, cx);
        self.poll(cx);
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
        self.finish();
    }

    fn is_closing(&self) -> bool {
        false
    }

    fn run(&mut self, cx: &mut Cx<'_>) {
        self.poll(cx);
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl StreamSession for LoginProbe {
    fn inputs(&self) -> Vec<BorrowedFd<'_>> {
        self.interrupts.iter().map(AsFd::as_fd).collect()
    }

    fn take_input(&mut self, _index: usize, _cx: &mut Cx<'_>) -> Result<()> {
        self.result.is_interrupted = true;
        self.finish();
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
pub(super) fn unusable_reason(result: &ProbeResult, outcome: Outcome) -> Option<&'static str> {
    result.usable_at.is_none().then(|| silence_reason(outcome))
}

/// Returns the reason why a session without any data ended with `outcome`.
pub(super) const fn silence_reason(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Reset | Outcome::Refused => {
            "the remote host reset the connection before it sent any data"
        }
        Outcome::Closed => "the remote host closed the connection before it sent any data",
        _ => "the remote host sent no data",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::meter::{Clock, Meter};
    use net::rng::Rng;

    /// Runs a probe with `keys` characters against a host that answers each character with the
    /// result of `echo`.
    fn run_probe(keys: u64, echo: impl Fn(u8) -> Vec<u8>) -> ProbeResult {
        let timeout = Duration::from_secs(5);
        let parameters = ProbeParameters { keys, timeout, prompts: Prompts::default() };
        let mut probe = LoginProbe::on_line(parameters, None);
        let mut meter = Meter::new(Clock::None);
        let mut rng = Rng::from_seed(1);
        let mut now = Instant::ZERO;
        let mut cx = Cx { now, rng: &mut rng, meter: &mut meter };
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
        probe.into_result()
    }

    fn echoed(key: u8) -> Vec<u8> {
        if key == KILL_LINE { b"\r\x1b[K".to_vec() } else { vec![key] }
    }

    #[test]
    fn an_exact_echo_has_no_errors() {
        let accuracy = run_probe(100, echoed).accuracy.unwrap();
        assert_eq!((accuracy.bytes, accuracy.files), (100, 7));
        assert_eq!((accuracy.bits_wrong, accuracy.files_wrong), (0, 0));
    }

    #[test]
    fn a_wrong_character_in_an_echo_is_counted() {
        let result = run_probe(32, |key| {
            let wrong = if key == printable_pattern(5) { key ^ 1 } else { key };
            echoed(wrong)
        });
        let accuracy = result.accuracy.unwrap();
        assert!(accuracy.bytes_wrong > 0 && accuracy.bytes_wrong == accuracy.bits_wrong);
    }

    #[test]
    fn a_line_without_echo_is_not_usable() {
        let result = run_probe(32, |_| Vec::new());
        assert_eq!(result.usable_at, None);
        assert_eq!(result.accuracy.unwrap().bytes_wrong, KEYS_PER_LINE);
        assert_eq!(
            unusable_reason(&result, Outcome::LocalClosed),
            Some("the remote host sent no data")
        );
    }
}
