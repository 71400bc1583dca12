//! One screenful of output: from a command in a shell, or as the echo of many keys without a shell.

use super::console::{MeasureConsole, Watch};
use super::echo::KILL_LINE;
use super::prompt::{Prompt, Prompts, Wait};
use net::Cx;
use net::time::{Duration, Instant};

/// Prints 24 lines of 80 cells in any POSIX shell.
pub(crate) const SCREENFUL_COMMAND: &str =
    "printf '%080d\\n' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24";
/// Number of cells written by [`SCREENFUL_COMMAND`]: a screen as defined in TM-233 section 6.2.2.
pub(crate) const SCREENFUL_CELLS: u64 = 24 * 80;
/// Number of keys typed at once if no command can be run.
pub(crate) const TYPED_CELLS: u16 = 2_000;

/// Source of a screen of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputSource {
    /// A command, and the number of cells that it writes, if known.
    Command { text: String, cells: Option<u64> },
    /// The echo of [`TYPED_CELLS`] keys, which ^U erases.
    Typed,
}

/// Observed output.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedOutput {
    /// Written cells, and the times at which they were written.
    pub(crate) watch: Watch,
    /// Received data up to the next prompt.
    pub(crate) output: Vec<u8>,
    /// Whether the expected output was complete.
    pub(crate) is_complete: bool,
    /// Whether the output was incomplete and no prompt followed, so that more may arrive.
    pub(crate) is_stalled: bool,
}

#[derive(Debug)]
enum State {
    /// The command is typed, and its echo is awaited.
    Typed(Wait),
    /// The output is being received.
    Receiving(Wait),
    /// The output is complete, and the next prompt is awaited.
    Ending(Wait),
    Over,
}

/// A screen of output in progress.
#[derive(Debug)]
pub(crate) struct OutputRequest {
    source: OutputSource,
    timeout: Duration,
    state: State,
}

impl OutputRequest {
    /// Types the command, or all keys of [`OutputSource::Typed`].
    pub(crate) fn begin(
        source: OutputSource,
        timeout: Duration,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Self {
        let wait = Wait::new(cx.now, timeout);
        let state = match &source {
            OutputSource::Command { text, .. } => {
                console.type_keys(text.as_bytes(), cx);
                State::Typed(wait)
            }
            OutputSource::Typed => {
                console.capture();
                console.watch(u64::from(TYPED_CELLS), cx);
                let keys: Vec<u8> = (b'a'..=b'z').cycle().take(TYPED_CELLS.into()).collect();
                console.type_keys(&keys, cx);
                State::Receiving(wait)
            }
        };
        Self { source, timeout, state }
    }

    /// Returns the observed output once the next prompt has arrived.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while output is outstanding.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<ReceivedOutput, Instant> {
        loop {
            match &self.state {
                State::Typed(wait) => {
                    wait.poll_silence(console, cx.now)?;
                    self.press_return(console, cx);
                }
                State::Receiving(wait) => {
                    let is_complete = console.current_watch().is_some_and(Watch::is_complete);
                    if !is_complete {
                        self.wait_for_more(*wait, prompts, console, cx.now)?;
                    }
                    self.end(console, cx);
                }
                State::Ending(wait) => {
                    match self.source {
                        OutputSource::Command { .. } => _ = wait.poll(console, prompts, cx.now)?,
                        OutputSource::Typed => wait.poll_silence(console, cx.now)?,
                    }
                    self.state = State::Over;
                }
                State::Over => return Ok(self.finish(prompts, console)),
            }
        }
    }

    /// Returns whether the output has been requested with Return.
    pub(crate) fn is_requested(&self) -> bool {
        !matches!(self.state, State::Typed(_))
    }

    fn press_return(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        let cells = match self.source {
            OutputSource::Command { cells, .. } => cells,
            OutputSource::Typed => None,
        };
        console.capture();
        console.watch(cells.unwrap_or(u64::MAX), cx);
        console.type_keys(b"\r", cx);
        self.state = State::Receiving(Wait::new(cx.now, self.timeout));
    }

    /// Waits for the expected cells, or for the prompt if their number is unknown.
    fn wait_for_more(
        &self,
        wait: Wait,
        prompts: &Prompts,
        console: &MeasureConsole,
        now: Instant,
    ) -> Result<(), Instant> {
        match self.source {
            OutputSource::Command { cells: None, .. } => {
                wait.poll(console, prompts, now).map(|_| ())
            }
            OutputSource::Command { .. } if has_prompt(prompts, console) => {
                // The shell already displays its next prompt, so no further output is expected.
                let quiet_at = wait.latest(console) + SILENCE_AFTER_PROMPT.min(self.timeout);
                if now < quiet_at { Err(quiet_at) } else { Ok(()) }
            }
            OutputSource::Command { .. } | OutputSource::Typed => {
                let quiet_at = wait.latest(console) + self.timeout;
                if now < quiet_at { Err(quiet_at) } else { Ok(()) }
            }
        }
    }

    fn end(&mut self, console: &mut MeasureConsole, cx: &mut Cx<'_>) {
        let mut wait_started_at = cx.now;
        match self.source {
            OutputSource::Typed => console.type_keys(&[KILL_LINE], cx),
            // The prompt may already have arrived together with the last cells.
            OutputSource::Command { .. } => {
                wait_started_at = console.data_at().unwrap_or(wait_started_at);
            }
        }
        self.state = State::Ending(Wait::new(wait_started_at, self.timeout));
    }

    /// Ends the observation and returns the output received so far.
    pub(crate) fn finish(&self, prompts: &Prompts, console: &mut MeasureConsole) -> ReceivedOutput {
        let has_prompt = has_prompt(prompts, console);
        let watch = console.end_watch().unwrap_or_else(|| Watch::new(0));
        let is_open_ended = matches!(self.source, OutputSource::Command { cells: None, .. });
        let is_complete = is_open_ended || watch.is_complete();
        let is_stalled = !has_prompt && !is_complete;
        ReceivedOutput { watch, output: console.end_capture(), is_complete, is_stalled }
    }
}

/// Maximum silence after a prompt that arrived before the complete output. After this time the
/// output is regarded as ended.
const SILENCE_AFTER_PROMPT: Duration = Duration::from_secs(2);

/// Returns whether a shell waits for a command.
fn has_prompt(prompts: &Prompts, console: &MeasureConsole) -> bool {
    prompts.recognize(&console.line()) == Some(Prompt::Shell)
}
