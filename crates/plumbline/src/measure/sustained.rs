//! A longer output than the first one, with keys struck beside it: what the first one foretells.
//!
//! The keys that were struck beside the first one are in the far side's line by now, and are taken
//! back before anything else is typed.

use super::beside::{Load, Loaded};
use super::console::Console;
use super::prompt::{Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// It is to take about so long.
const LENGTH: Duration = Duration::from_secs(4);
/// It is so many times as long as the first one at least, and at most.
const TIMES: [u128; 2] = [2, 6];

#[derive(Debug)]
enum State {
    /// The prompt after the first one is waited for.
    Resting(Wait),
    /// The line is being cleared.
    Clearing(Wait),
    Loading(Box<Load>),
}

/// The longer output.
#[derive(Debug)]
pub(crate) struct Sustained {
    state: State,
    screens: u32,
    erasers: Vec<u8>,
    patience: Duration,
}

impl Sustained {
    /// Begins it after `first`, of which `eraser` takes a key back; `None` if that had no echo, or
    /// took no time.
    pub(crate) fn after(
        first: &Loaded,
        eraser: u8,
        patience: Duration,
        cx: &Cx<'_>,
    ) -> Option<Self> {
        let arrivals = &first.shown.watch.arrivals;
        let ns = arrivals.last()?.at_ns.checked_sub(arrivals.first()?.at_ns)?;
        let [least, most] = TIMES;
        let times = LENGTH.as_nanos().checked_div(u128::from(ns))?.clamp(least, most);
        let screens = u32::try_from(u128::from(first.screens) * times).ok()?;
        let erasers = vec![eraser; first.echoes.len()];
        let state = State::Resting(Wait::new(cx.now, patience));
        (!erasers.is_empty()).then_some(Self { state, screens, erasers, patience })
    }

    /// Returns what came, when all of it has.
    ///
    /// # Errors
    ///
    /// Until then: when to look again.
    pub(crate) fn look(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<Loaded, Instant> {
        loop {
            match &mut self.state {
                State::Resting(wait) => {
                    wait.settle(console, cx.now)?;
                    console.strike(&self.erasers, cx);
                    self.state = State::Clearing(Wait::new(cx.now, self.patience));
                }
                State::Clearing(wait) => {
                    wait.settle(console, cx.now)?;
                    let load = Load::of_screens(self.screens, self.patience, console, cx);
                    self.state = State::Loading(Box::new(load));
                }
                State::Loading(load) => return load.look(prompts, console, cx),
            }
        }
    }
}
