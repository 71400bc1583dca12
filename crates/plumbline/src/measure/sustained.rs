//! Longer outputs with keys struck beside them, until one is so long that the buffers of both ends are
//! full in it; and then another, which that one foretells.
//!
//! As long as an output fits into the buffers, a key waits for all that is left of it, and the echo
//! says how long the output is and nothing of the way. An output is long enough when there are
//! three echoes beside it, of which the longest takes less than half of its time, and the later ones are
//! no longer than the earlier ones.
//!
//! The keys that were struck beside an output are in the far side's line by then, and are taken back
//! before anything else is typed.

use super::beside::{Load, Loaded};
use super::console::Console;
use super::prompt::{Prompts, Wait};
use protocols::Cx;
use protocols::time::{Duration, Instant};

/// How many outputs are tried until one fills the buffers, with the first.
const PROBES_MAX: usize = 4;
/// Each is so many times as long as the one before.
const TIMES: u32 = 3;
/// With fewer keys beside it an output has not shown that echoes are as long as each other.
const FEWEST_ECHOES: usize = 3;
/// A line with nothing in it has no echo of what takes it back.
const CLEARING: Duration = Duration::from_millis(500);
/// No output is begun that would take longer than this.
const LONG: Duration = Duration::from_secs(6);

#[derive(Debug)]
enum State {
    /// The prompt after the last one is waited for.
    Resting(Wait),
    /// The line is being cleared.
    Clearing(Wait),
    Loading(Box<Load>),
}

/// What came of them.
#[derive(Debug)]
pub(crate) struct Sustained {
    /// The one that was long enough, if it is not the first.
    pub(crate) probe: Option<Loaded>,
    /// The one after it, or else the longest.
    pub(crate) loaded: Loaded,
    /// Whether there is one that was long enough, and one after it.
    pub(crate) is_settled: bool,
}

/// The outputs that are asked for.
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
    /// Begins after `first`, of which `eraser` takes a key back; `None` if nothing can be learned
    /// from more.
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

    /// Returns what came, when all of it has; `None` if one did not come whole.
    ///
    /// # Errors
    ///
    /// Until then: when to look again.
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

    /// Returns the output that comes.
    pub(crate) fn load(&self) -> Option<&Load> {
        match &self.state {
            State::Loading(load) => Some(load),
            State::Resting(_) | State::Clearing(_) => None,
        }
    }

    /// Returns the output that comes, to be changed.
    pub(crate) fn load_mut(&mut self) -> Option<&mut Load> {
        match &mut self.state {
            State::Loading(load) => Some(load),
            State::Resting(_) | State::Clearing(_) => None,
        }
    }

    /// Chooses what comes after `last`, and returns whether there is anything to be learned.
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

/// Later echoes that are longer by one part in so many, and by so much, still grow.
const GROWN_ONE_IN: u32 = 4;
const GROWN: Duration = Duration::from_millis(10);

/// Returns whether the later half of `echoes` is longer than the earlier one: the queue fills.
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
