//! Short answers of a shell, alternately acknowledged at once and with the usual delay.
//!
//! A shell echoes the line first, and its command writes a moment later. If the remote host uses
//! Nagle's algorithm, that second piece, which does not fill a segment, waits until the echo is
//! acknowledged (RFC 9293 §3.7.4). It therefore arrives only after the acknowledgment was sent; a
//! host that is merely slow takes equally long in both cases. A screenful does not always show
//! this: its first segment is full, leaves at once, and causes an acknowledgment of itself and of
//! the echo.

use super::console::Console;
use super::prompt::{Prompt, Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// Command that prints [`MARK`] after the echo of the line was sent; the mark does not occur in its
/// text.
const COMMAND: &str = "env true; printf '\\170\\n'\r";
/// Output of the command.
const MARK: u8 = b'x';
/// Total number of answers; every second one is acknowledged late.
const TRIES: usize = 10;

/// Times from Return to the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Times with immediate acknowledgments.
    pub(crate) at_once: Vec<Duration>,
    /// Times with delayed acknowledgments.
    pub(crate) late: Vec<Duration>,
}

/// A sequence of requested answers.
#[derive(Debug)]
pub(crate) struct Answers {
    patience: Duration,
    answered: Answered,
    struck_at: Instant,
    /// Wait for the next prompt, after the answer has arrived.
    ending: Option<Wait>,
}

impl Answers {
    /// Types the first command.
    pub(crate) fn begin(patience: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Self {
        let answered = Answered::default();
        let mut begun = Self { patience, answered, struck_at: cx.now, ending: None };
        begun.strike(console, cx);
        begun
    }

    fn strike(&mut self, console: &mut Console, cx: &mut Cx<'_>) {
        console.tally(MARK);
        console.strike(COMMAND.as_bytes(), cx);
        (self.struck_at, self.ending) = (cx.now, None);
    }

    fn tried(&self) -> usize {
        self.answered.at_once.len() + self.answered.late.len()
    }

    /// Returns whether acknowledgments are delayed in the current try. Data after the answer still
    /// belongs to that try.
    pub(crate) fn is_late(&self) -> bool {
        let current = self.tried() - usize::from(self.ending.is_some());
        !current.is_multiple_of(2)
    }

    /// Returns the times when all answers have arrived or one is missing.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while answers are outstanding.
    pub(crate) fn look(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<Answered, Instant> {
        loop {
            if let Some(wait) = self.ending {
                let (prompt, _) = wait.look(console, prompts, cx.now)?;
                if prompt != Prompt::Shell || self.tried() >= TRIES {
                    return Ok(std::mem::take(&mut self.answered));
                }
                self.strike(console, cx);
            }
            if console.tallied() == 0 {
                let give_up_at = self.struck_at + self.patience;
                if cx.now < give_up_at {
                    return Err(give_up_at);
                }
                return Ok(std::mem::take(&mut self.answered));
            }
            let took = cx.now - self.struck_at;
            let times = match self.is_late() {
                true => &mut self.answered.late,
                false => &mut self.answered.at_once,
            };
            times.push(took);
            self.ending = Some(Wait::new(self.struck_at, self.patience));
        }
    }
}
