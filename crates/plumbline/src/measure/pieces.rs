//! Short pieces of text, from which the time of a screenful is foretold before it is asked for.
//!
//! One line, six and eighteen, by turns: what all take alike is fixed, and what the longer ones take
//! more is the line's. The longest does not fit into one segment, so that it shows whether the far
//! side keeps a short last one back (Nagle's algorithm). All are asked for and acknowledged as the
//! screenful will be.

use super::command::{Screen, Showing};
use super::console::{Console, Watch};
use super::prompt::Prompts;
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// The lines of the pieces, by turns.
const LINES: [u64; 3] = [1, 6, 18];
/// Cells of a line.
const COLUMNS: u64 = 80;
/// The most pieces.
const PIECES_MAX: usize = 12;
/// From then on none is begun, if there is one of each size.
const LONG: Duration = Duration::from_secs(2);

/// The pieces that are asked for, one after the other.
#[derive(Debug)]
pub(crate) struct Pieces {
    showing: Showing,
    shown: Vec<Watch>,
    began: Instant,
    patience: Duration,
}

impl Pieces {
    /// Asks for the first one.
    pub(crate) fn begin(patience: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Self {
        let showing = piece(0, patience, console, cx);
        Self { showing, shown: Vec::new(), began: cx.now, patience }
    }

    /// Returns all that came whole, when there are enough or one did not come whole, and that one if
    /// the rest of it is still to come.
    ///
    /// # Errors
    ///
    /// Until then: when to look again.
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

/// Asks for the piece at `index`.
fn piece(index: usize, patience: Duration, console: &mut Console, cx: &mut Cx<'_>) -> Showing {
    let lines = LINES.iter().cycle().nth(index % LINES.len()).copied().unwrap_or(1);
    let numbers: String = (1..=lines).map(|line| format!(" {line}")).collect();
    let text = format!("printf '%080d\\n'{numbers}");
    let screen = Screen::Command { text, cells: Some(lines * COLUMNS) };
    Showing::begin(screen, patience, console, cx)
}
