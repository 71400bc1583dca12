//! Short outputs, from which the time of the screenful is predicted before it is requested.
//!
//! Outputs of one, six and eighteen lines alternate: the common part of their times is fixed, and
//! the additional time of the longer ones is that of the line. The longest does not fit into one
//! segment, so that it shows whether the remote host delays a short last segment (Nagle's
//! algorithm). All are requested and acknowledged like the screenful.

use super::command::{Screen, Showing};
use super::console::{Console, Watch};
use super::prompt::Prompts;
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// Number of lines of the outputs, in turn.
const LINES: [u64; 3] = [1, 6, 18];
/// Cells of a line.
const COLUMNS: u64 = 80;
/// Maximum number of outputs.
const PIECES_MAX: usize = 12;
/// Duration after which no further output is started, once there is one of each size.
const LONG: Duration = Duration::from_secs(2);

/// A sequence of short outputs.
#[derive(Debug)]
pub(crate) struct Pieces {
    showing: Showing,
    shown: Vec<Watch>,
    began: Instant,
    patience: Duration,
}

impl Pieces {
    /// Requests the first output.
    pub(crate) fn begin(patience: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Self {
        let showing = piece(0, patience, console, cx);
        Self { showing, shown: Vec::new(), began: cx.now, patience }
    }

    /// Returns all complete outputs, when there are enough or one was incomplete; also the
    /// incomplete one if its rest may still arrive.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while outputs are outstanding.
    pub(crate) fn look(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<(Vec<Watch>, Option<Watch>), Instant> {
        loop {
            let shown = self.showing.look(prompts, console, cx)?;
            let count = self.shown.len() + 1;
            let is_long = cx.now - self.began >= LONG && count >= LINES.len();
            let is_last = count >= PIECES_MAX || is_long;
            if !shown.is_whole {
                let stuck = shown.is_stuck.then_some(shown.watch);
                return Ok((std::mem::take(&mut self.shown), stuck));
            }
            self.shown.push(shown.watch);
            if is_last {
                return Ok((std::mem::take(&mut self.shown), None));
            }
            self.showing = piece(count, self.patience, console, cx);
        }
    }
}

/// Requests the output at `index`.
fn piece(index: usize, patience: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Showing {
    let lines = LINES.iter().cycle().nth(index % LINES.len()).copied().unwrap_or(1);
    let numbers: String = (1..=lines).map(|line| format!(" {line}")).collect();
    let text = format!("printf '%080d\\n'{numbers}");
    let screen = Screen::Command { text, cells: Some(lines * COLUMNS) };
    Showing::begin(screen, patience, console, cx)
}
