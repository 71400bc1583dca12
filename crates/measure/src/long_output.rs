//! Echo times during long outputs. Each output is longer than the previous one, until an output is
//! long enough to fill the buffers of both ends. One more output follows, whose echo times are
//! predicted from the output that filled the buffers.
//!
//! While an output fits into the buffers, the echo of a key arrives after all of the remaining
//! output. In this case, the echo time depends on the length of the output and not on the
//! properties of the path. An output is long enough if it has at least three echoes, the longest
//! echo time is at most half of the duration of the output, and the later echo times are not longer
//! than the earlier echo times.
//!
//! After an output, the keys typed during it are on the remote host's command line; they are erased
//! before anything else is typed.

use super::concurrent_echo::{EchoUnderLoad, KeysUnderLoad};
use super::console::MeasureConsole;
use super::prompt::{Prompts, Wait};
use net::Cx;
use net::time::{Duration, Instant};

/// Maximum number of outputs tried until one fills the buffers, including the first output.
const PROBES_MAX: usize = 4;
/// Usual factor by which an output is longer than the previous one.
const GROWTH_FACTOR: u32 = 3;
/// Minimum number of echoes for a comparison of earlier and later echo times.
const ECHOES_MIN: usize = 3;
/// Timeout for erasing the command line. If the line is empty, the erase characters have no echo.
const ERASURE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum estimated duration of an output.
const OUTPUT_MAX_DURATION: Duration = Duration::from_secs(6);

#[derive(Debug)]
enum State {
    /// Wait for the prompt after the last output.
    AwaitingPrompt(Wait),
    /// The line is being cleared.
    Clearing(Wait),
    Loading(Box<KeysUnderLoad>),
}

/// Result of the long outputs.
#[derive(Debug)]
pub(crate) struct SustainedEcho {
    /// The output that filled the buffers, if it was not the first output.
    pub(crate) probe: Option<EchoUnderLoad>,
    /// The output after the output that filled the buffers, or else the longest output.
    pub(crate) under_load: EchoUnderLoad,
    /// Whether an output filled the buffers and another output followed it.
    pub(crate) has_filled_buffers: bool,
}

/// A sequence of long outputs.
#[derive(Debug)]
pub(crate) struct LongOutputs {
    state: State,
    screens: u32,
    erasers: Vec<u8>,
    eraser: u8,
    timeout: Duration,
    probes: usize,
    probe: Option<EchoUnderLoad>,
    is_last: bool,
    is_echo_time_stable: bool,
}

impl LongOutputs {
    /// Starts a sequence that follows the output `first`; `eraser` is the key that erases a
    /// character. Returns `None` if longer outputs would give no more information.
    pub(crate) fn after(
        first: &EchoUnderLoad,
        eraser: u8,
        timeout: Duration,
        cx: &Cx<'_>,
    ) -> Option<Self> {
        let mut long_outputs = Self {
            state: State::AwaitingPrompt(Wait::new(cx.now, timeout)),
            screens: first.screens,
            erasers: Vec::new(),
            eraser,
            timeout,
            probes: 1,
            probe: None,
            is_last: false,
            is_echo_time_stable: false,
        };
        long_outputs.plan_next(first, cx).then_some(long_outputs)
    }

    /// Returns the result when all outputs are complete; `None` if one was incomplete.
    ///
    /// # Errors
    ///
    /// Returns the time of the next call while outputs are outstanding.
    pub(crate) fn poll(
        &mut self,
        prompts: &Prompts,
        console: &mut MeasureConsole,
        cx: &mut Cx<'_>,
    ) -> Result<Option<SustainedEcho>, Instant> {
        loop {
            match &mut self.state {
                State::AwaitingPrompt(wait) => {
                    wait.poll_silence(console, cx.now)?;
                    console.type_keys(&self.erasers, cx);
                    self.state =
                        State::Clearing(Wait::new(cx.now, self.timeout.min(ERASURE_TIMEOUT)));
                }
                State::Clearing(wait) => {
                    wait.poll_silence(console, cx.now)?;
                    let load = KeysUnderLoad::of_screens(self.screens, self.timeout, console, cx);
                    self.state = State::Loading(Box::new(load));
                }
                State::Loading(load) => {
                    let under_load = load.poll(prompts, console, cx)?;
                    if !under_load.received.is_complete {
                        return Ok(None);
                    }
                    if self.is_last {
                        let probe = self.probe.take();
                        let has_filled_buffers = self.is_echo_time_stable;
                        return Ok(Some(SustainedEcho { probe, under_load, has_filled_buffers }));
                    }
                    self.probes += 1;
                    if !self.plan_next(&under_load, cx) {
                        return Ok(Some(SustainedEcho {
                            probe: None,
                            under_load,
                            has_filled_buffers: false,
                        }));
                    }
                    self.probe = Some(under_load);
                }
            }
        }
    }

    /// Returns the current output.
    pub(crate) fn load(&self) -> Option<&KeysUnderLoad> {
        match &self.state {
            State::Loading(load) => Some(load),
            State::AwaitingPrompt(_) | State::Clearing(_) => None,
        }
    }

    /// Returns the current output for modification.
    pub(crate) fn load_mut(&mut self) -> Option<&mut KeysUnderLoad> {
        match &mut self.state {
            State::Loading(load) => Some(load),
            State::AwaitingPrompt(_) | State::Clearing(_) => None,
        }
    }

    /// Determines the length of the next output from the output `last`. Returns whether another
    /// output is useful.
    fn plan_next(&mut self, last: &EchoUnderLoad, cx: &Cx<'_>) -> bool {
        let arrivals = &last.received.watch.arrivals;
        let first_and_last = arrivals.first().zip(arrivals.last());
        let span_ns =
            first_and_last.map_or(0, |(first, last)| last.at_ns.saturating_sub(first.at_ns));
        let span = Duration::from_nanos(span_ns);
        let longest_echo = last.echoes.iter().max();
        let has_enough_echoes = last.echoes.len() >= ECHOES_MIN;
        let longer = if span * GROWTH_FACTOR <= OUTPUT_MAX_DURATION { GROWTH_FACTOR } else { 2 };
        let may_continue = self.probes < PROBES_MAX && span * longer <= OUTPUT_MAX_DURATION;
        self.is_echo_time_stable = !are_growing(&last.echoes);
        let is_enough = self.is_echo_time_stable || !may_continue;
        self.is_last =
            has_enough_echoes && is_enough && longest_echo.is_some_and(|echo| *echo * 2 <= span);
        let times = match self.is_last {
            true if span * 2 <= OUTPUT_MAX_DURATION => 2,
            true => 1,
            false => longer,
        };
        self.screens = last.screens.saturating_mul(times);
        self.erasers = vec![self.eraser; last.echoes.len()];
        self.state = State::AwaitingPrompt(Wait::new(cx.now, self.timeout));
        self.is_last || may_continue
    }
}

/// Minimum relative (1/n) and absolute increase of later echoes that counts as growth.
const GROWTH_DIVISOR: u32 = 4;
const GROWTH_MIN: Duration = Duration::from_millis(10);

/// Returns whether the later half of `echoes` has longer echo times than the earlier half, which
/// means that a queue is filling.
fn are_growing(echoes: &[Duration]) -> bool {
    let (earlier, later) = echoes.split_at(echoes.len() / 2);
    let median = |half: &[Duration]| {
        let mut sorted = half.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len().saturating_sub(1) / 2).copied()
    };
    let medians = median(earlier).zip(median(later));
    medians.is_some_and(|(earlier, later)| later > earlier + earlier / GROWTH_DIVISOR + GROWTH_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echo_times_grow_if_the_later_half_is_longer() {
        let ms = |all: &[u64]| all.iter().map(|ms| Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert!(are_growing(&ms(&[60, 110, 190, 240])));
        assert!(!are_growing(&ms(&[230, 240, 250, 260])));
        assert!(!are_growing(&ms(&[5, 7, 9, 12])));
        assert!(!are_growing(&ms(&[200])) && !are_growing(&[]));
    }
}
