//! Long outputs during which keys are typed: each is longer than the previous, until one is long
//! enough to fill the buffers of both ends. Another one follows, whose echo times are predicted
//! from that one.
//!
//! While an output fits into the buffers, the echo of a key waits for the whole rest of the output,
//! and the echo time shows the length of the output instead of the properties of the path. An
//! output is long enough if there are at least three echoes, the longest takes less than half of
//! the duration, and the later ones are not longer than the earlier ones.
//!
//! After an output, the keys typed during it are on the remote host's command line; they are erased
//! before anything else is typed.

use super::beside::{Load, Loaded};
use super::console::Console;
use super::prompt::{Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// Maximum number of outputs until one fills the buffers, including the first.
const PROBES_MAX: usize = 4;
/// Ratio of the lengths of consecutive outputs.
const TIMES: u32 = 3;
/// Minimum number of echoes that can show equal echo times.
const FEWEST_ECHOES: usize = 3;
/// Time limit for clearing the line; on an empty line the erasing keys have no echo.
const CLEARING: Duration = Duration::from_millis(500);
/// Maximum estimated duration of an output.
const LONG: Duration = Duration::from_secs(6);

#[derive(Debug)]
enum State {
    /// Wait for the prompt after the last output.
    Resting(Wait),
    /// The line is being cleared.
    Clearing(Wait),
    Loading(Box<Load>),
}

/// Result of the long outputs.
#[derive(Debug)]
pub(crate) struct Sustained {
    /// The output that was long enough, if it was not the first.
    pub(crate) probe: Option<Loaded>,
    /// The output after it, or else the longest.
    pub(crate) loaded: Loaded,
    /// Whether an output was long enough and another one followed it.
    pub(crate) is_settled: bool,
}

/// A sequence of long outputs.
#[derive(Debug)]
pub(crate) struct Sustaining {
    state: State,
    screens: u32,
    erasers: Vec<u8>,
    eraser: u8,
    patience: Duration,
    probes: usize,
    probe: Option<Loaded>,
    is_last: bool,
    has_settled: bool,
}

impl Sustaining {
    /// Starts a sequence after `first`; `eraser` is the key that erases a character. Returns `None`
    /// if longer outputs would give no more information.
    pub(crate) fn after(
        first: &Loaded,
        eraser: u8,
        patience: Duration,
        cx: &Cx<'_>,
    ) -> Option<Self> {
        let mut sustaining = Self {
            state: State::Resting(Wait::new(cx.now, patience)),
            screens: first.screens,
            erasers: Vec::new(),
            eraser,
            patience,
            probes: 1,
            probe: None,
            is_last: false,
            has_settled: false,
        };
        sustaining.goes_on(first, cx).then_some(sustaining)
    }

    /// Returns the result when all outputs are complete; `None` if one was incomplete.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while outputs are outstanding.
    pub(crate) fn look(
        &mut self,
        prompts: &Prompts,
        console: &mut Console,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Sustained>, Instant> {
        loop {
            match &mut self.state {
                State::Resting(wait) => {
                    wait.settle(console, cx.now)?;
                    console.strike(&self.erasers, cx);
                    self.state = State::Clearing(Wait::new(cx.now, self.patience.min(CLEARING)));
                }
                State::Clearing(wait) => {
                    wait.settle(console, cx.now)?;
                    let load = Load::of_screens(self.screens, self.patience, console, cx);
                    self.state = State::Loading(Box::new(load));
                }
                State::Loading(load) => {
                    let loaded = load.look(prompts, console, cx)?;
                    if !loaded.shown.is_whole {
                        return Ok(None);
                    }
                    if self.is_last {
                        let probe = self.probe.take();
                        let is_settled = self.has_settled;
                        return Ok(Some(Sustained { probe, loaded, is_settled }));
                    }
                    self.probes += 1;
                    if !self.goes_on(&loaded, cx) {
                        return Ok(Some(Sustained { probe: None, loaded, is_settled: false }));
                    }
                    self.probe = Some(loaded);
                }
            }
        }
    }

    /// Returns the current output.
    pub(crate) fn load(&self) -> Option<&Load> {
        match &self.state {
            State::Loading(load) => Some(load),
            State::Resting(_) | State::Clearing(_) => None,
        }
    }

    /// Returns the current output for modification.
    pub(crate) fn load_mut(&mut self) -> Option<&mut Load> {
        match &mut self.state {
            State::Loading(load) => Some(load),
            State::Resting(_) | State::Clearing(_) => None,
        }
    }

    /// Selects the output after `last`; returns whether another one is useful.
    fn goes_on(&mut self, last: &Loaded, cx: &Cx<'_>) -> bool {
        let arrivals = &last.shown.watch.arrivals;
        let ends = arrivals.first().zip(arrivals.last());
        let span_ns = ends.map_or(0, |(first, last)| last.at_ns.saturating_sub(first.at_ns));
        let span = Duration::from_nanos(span_ns);
        let longest = last.echoes.iter().max();
        let is_many = last.echoes.len() >= FEWEST_ECHOES;
        let longer = if span * TIMES <= LONG { TIMES } else { 2 };
        let may_go_on = self.probes < PROBES_MAX && span * longer <= LONG;
        self.has_settled = !are_growing(&last.echoes);
        let is_enough = self.has_settled || !may_go_on;
        self.is_last = is_many && is_enough && longest.is_some_and(|echo| *echo * 2 <= span);
        let times = match self.is_last {
            true if span * 2 <= LONG => 2,
            true => 1,
            false => longer,
        };
        self.screens = last.screens.saturating_mul(times);
        self.erasers = vec![self.eraser; last.echoes.len()];
        self.state = State::Resting(Wait::new(cx.now, self.patience));
        self.is_last || may_go_on
    }
}

/// Minimum relative (1/n) and absolute increase of later echoes that counts as growth.
const GROWN_ONE_IN: u32 = 4;
const GROWN: Duration = Duration::from_millis(10);

/// Returns whether the later half of `echoes` is longer than the earlier one, because the queue
/// fills.
fn are_growing(echoes: &[Duration]) -> bool {
    let (early, late) = echoes.split_at(echoes.len() / 2);
    let middle = |half: &[Duration]| {
        let mut sorted = half.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    };
    let both = middle(early).zip(middle(late));
    both.is_some_and(|(early, late)| late > early + early / GROWN_ONE_IN + GROWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_grow_until_the_later_ones_are_as_long_as_the_earlier_ones() {
        let ms = |all: &[u64]| all.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert!(are_growing(&ms(&[60, 110, 190, 240])));
        assert!(!are_growing(&ms(&[230, 240, 250, 260])));
        assert!(!are_growing(&ms(&[5, 7, 9, 12])));
        assert!(!are_growing(&ms(&[200])) && !are_growing(&[]));
    }
}
