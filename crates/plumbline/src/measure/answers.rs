//! Short answers of a shell, by turns acknowledged at once and as late as most programs do it.
//!
//! A shell echoes the line first, and its command writes a moment later. Where the far side has
//! Nagle's algorithm on, that second piece, which fills no segment, waits there until the echo is
//! acknowledged (RFC 9293 §3.7.4). So it does not come before the acknowledgment has gone, and a
//! host that only thinks takes as long either way. A screenful does not show it everywhere:
//! its first segment is full, leaves at once, and has itself and the echo acknowledged.

use super::console::Console;
use super::prompt::{Prompt, Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// Prints what is not in it, after the echo of the line has gone out.
const COMMAND: &str = "env true; printf '\\170\\n'\r";
/// What it prints.
const MARK: u8 = b'x';
/// Answers in all: every second one is acknowledged late.
const TRIES: usize = 10;

/// From Return to the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// Where all that came was acknowledged at once.
    pub(crate) at_once: Vec<Duration>,
    /// Where that was put off.
    pub(crate) late: Vec<Duration>,
}

/// Answers that are asked for, one after the other.
#[derive(Debug)]
pub(crate) struct Answers {
    patience: Duration,
    answered: Answered,
    struck_at: Instant,
    /// The answer is there, and the next prompt is waited for.
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

    /// Returns whether the acknowledgments of this try are put off. What comes after its answer
    /// belongs to it.
    pub(crate) fn is_late(&self) -> bool {
        let current = self.tried() - usize::from(self.ending.is_some());
        !current.is_multiple_of(2)
    }

    /// Returns the times, when all are there or one does not come.
    ///
    /// # Errors
    ///
    /// Until then: when to look again.
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
